"""The options that several commands take, each declared once, in groups.

A group is a named tuple whose fields are options. A command takes it as one parameter (`grouped`).
"""

import functools
import inspect
from collections.abc import Callable, Sequence
from enum import StrEnum
from typing import Annotated, Any, NamedTuple, get_type_hints

import typer

from online_rank.cli.reading import Reading
from online_rank.measures.table import listed

__all__ = ["flag", "grouped", "is_given", "names", "shown", "value"]


def grouped(function: Callable[..., None]) -> Callable[..., None]:
    """A command that takes the fields of each group among the parameters of a function as options of their own."""
    groups: dict[str, Any] = {}
    parameters: list[inspect.Parameter] = []
    hints = get_type_hints(function, include_extras=True)
    for parameter in inspect.signature(function).parameters.values():
        kind = hints[parameter.name]
        if not (isinstance(kind, type) and issubclass(kind, tuple)):
            parameters.append(parameter.replace(annotation=kind, kind=parameter.KEYWORD_ONLY))
            continue
        groups[parameter.name] = kind
        of_kind: Any = kind
        for name, annotation in get_type_hints(kind, include_extras=True).items():
            default = of_kind._field_defaults[name]
            parameters.append(inspect.Parameter(name, parameter.KEYWORD_ONLY, default=default, annotation=annotation))

    @functools.wraps(function)
    def command(**given: Any) -> None:
        # The library takes strings, not enumerations of them.
        given = {name: value.value if isinstance(value, StrEnum) else value for name, value in given.items()}
        made = {name: kind(*(given.pop(field) for field in kind._fields)) for name, kind in groups.items()}
        function(**given, **made)

    command.__signature__ = inspect.Signature(parameters)  # type: ignore[attr-defined]
    command.__annotations__ = {parameter.name: parameter.annotation for parameter in parameters}
    return command


def is_given(context: typer.Context, name: str) -> bool:
    """Whether an option was given, rather than left at its default."""
    return getattr(context.get_parameter_source(name), "name", "DEFAULT") != "DEFAULT"


def shown(text: str) -> str:
    """Text whose brackets are brackets, where help has markup."""
    return text.replace("[", r"\[")


def value(metavar: str | None, help: str, *flags: str, **others: Any) -> Any:
    """An option with a value, called as its parameter or by other flags; `metavar` is None for choices."""
    return typer.Option(*flags, metavar=metavar, help=help, **others)


def flag(flags: str, help: str) -> Any:
    """An option without a value; it may have a short form: "--quiet -q"."""
    return typer.Option(*flags.split(), help=help)


# Arguments, and options without a group.

FILE = typer.Argument(metavar="FILE", help="LETOR / svmlight text, plain or gzip, [bold]-[/bold] is standard input; or tables.")
Files = Annotated[list[str], FILE]
ModelFile = Annotated[
    str,
    typer.Argument(
        metavar="MODEL", help="A model that [bold]train --save[/bold] wrote, or the folder of [bold]serve --checkpoint[/bold]."
    ),
]
TrecRuns = Annotated[
    list[str] | None, value("RUN", "In place of FILE, for fused models: the TREC run of a retriever, once for each.", "--run")
]
Measure = Annotated[str, value("NAME", f"The measure to learn for and to report: {shown(listed(learned=True))}.")]
Json = Annotated[bool, flag("--json", "Print one JSON object, and nothing else.")]
Save = Annotated[str | None, value("MODEL", "Write the model to this file.")]
Out = Annotated[str | None, value("FILE", "Write to this file.")]
Every = Annotated[int, value("N", "Queries, or changes of a service, between two checkpoints.", min=1)]

Scale = StrEnum("Scale", ["map", "stream", "query", "none"])
Scaling = Annotated[Scale, value(None, "Scale features: by quantiles; by mean and variance; within each query; not at all.")]


# Files of queries.

#: How to treat missing values in a table.
Missing = StrEnum("Missing", ["error", "zero", "mean", "indicator"])
#: How to treat negative grades.
Negative = StrEnum("Negative", ["error", "zero", "skip"])


def names(given: Sequence[str] | None) -> list[str] | None:
    """Names of columns, separated by commas."""
    return [name.strip() for text in given for name in text.split(",") if name.strip()] if given else None


class Grades(NamedTuple):
    """Where the grades are."""

    grade: Annotated[str | None, value("COLUMN", "The column of a table with grades.")] = None
    negative: Annotated[
        Negative, value(None, "Grades below 0, of documents not judged or spam: refuse, read as 0, leave out.")
    ] = Negative.error


class Queries(NamedTuple):
    """How files of queries are read."""

    query: Annotated[str | None, value("COLUMN", "Files are tables (parquet, csv, tsv): the column with query ids.")] = None
    document: Annotated[str | None, value("COLUMN", "The column of a table with document ids.")] = None
    exclude: Annotated[list[str] | None, value("NAMES", "Columns of a table that are not features.")] = None
    missing: Annotated[
        Missing,
        value(
            None,
            "Missing values in a table: refuse, read as 0, as the mean of the query's other documents, "
            'or as 0 with a further feature "NAME is missing".',
        ),
    ] = Missing.error
    n_features: Annotated[
        int | None, value("N", "Number of features of LETOR text, if the first 8 MiB do not contain all of them.", min=1)
    ] = None
    group_by_qid: Annotated[
        bool, flag("--group-by-qid", "Join the documents of a qid that are not contiguous; reads all input first.")
    ] = False
    strict: Annotated[
        bool,
        flag(
            "--strict",
            "Refuse files that lack a feature of the model, or have others, instead of a warning; a model "
            "that is trained takes the features of the first table and refuses all others, now and later.",
        ),
    ] = False

    def reading(self, grades: Grades | None = None, **of_training: Any) -> Reading:
        """How to read files; without `grades`, grades do not matter."""
        of_grades = {"negative": "zero"} if grades is None else grades._asdict()
        return Reading(**self._replace(exclude=names(self.exclude))._asdict(), **of_grades, **of_training)


# Logs of clicks.

#: How the lists of a log of clicks came about.
Origin = StrEnum("Origin", ["shuffled", "above", "place", "moved"])
OF_CLICKS = {"rich_help_panel": "A log of clicks"}
_ORIGIN_HELP = (
    "How the lists came about: in random order (shuffled); with the probability of a document given those above (above), or at "
    "its place (place); not drawn, but documents moved (moved)."
)


class Clicks(NamedTuple):
    """A log of clicks in place of grades. A row of its table is a candidate."""

    clicks: Annotated[Origin | None, value(None, f"FILE is a log of clicks. {_ORIGIN_HELP}", **OF_CLICKS)] = None
    event: Annotated[list[str] | None, value("NAME=VALUE", "What an event is worth; once for each name.", **OF_CLICKS)] = None


LogOrigin = Annotated[Origin | None, value(None, f"Learn from --click-log. {_ORIGIN_HELP}", **OF_CLICKS)]


# Services.

#: The ranker of a new service.
ServedKind = StrEnum("ServedKind", {"perceptron": "perceptron", "blend": "blend", "light_blend": "light-blend", "swap": "swap"})


class Service(NamedTuple):
    """What a service begins with, what counts as feedback, and what may wait for it."""

    model: Annotated[
        str | None,
        typer.Argument(
            metavar="MODEL", help="A model that [bold]train --save[/bold] wrote, to begin with. [dim]Default: a new one.[/dim]"
        ),
    ] = None
    ranker: Annotated[
        ServedKind,
        value(
            None,
            "Ranker of a new model. The blends take features of any scale: --scale does not apply. "
            "swap draws the list to show and learns from the clicks on it.",
        ),
    ] = ServedKind.perceptron
    measure: Measure = "ndcg@10"
    scale: Scaling = Scale.map
    strict: Annotated[bool, flag("--strict", "Refuse features that MODEL does not know; missing ones count as 0.")] = False
    null_features: Annotated[
        bool, flag("--null-features", "A feature that is null counts as missing; without it, it is refused.")
    ] = False
    checkpoint: Annotated[
        str | None, value("DIR", "Folder that keeps everything acknowledged; a restart continues from there.")
    ] = None
    every: Every = 10_000
    replace_model: Annotated[
        bool, flag("--replace-model", "If the checkpoint began with another MODEL, continue with this one.")
    ] = False
    remember: Annotated[
        str, value("TIME", "Recognise repeated feedback for so long after a query was learned; it needs a --checkpoint.")
    ] = "24h"
    wait: Annotated[
        str, value("TIME", "How long a query waits for its feedback; with a window at least as long as the window.")
    ] = "7d"
    wait_bytes: Annotated[int, value("BYTES", "Memory for the queries waiting for feedback, in bytes.", min=1)] = 1 << 28
    clock_skew: Annotated[
        str, value("TIME", "By how much the time of a request may be ahead of the clock; beyond that it is refused.")
    ] = "5m"
    challenger: Annotated[str | None, value("MODEL", "Compare this model on the same traffic with the one that serves.")] = None
    promote_at: Annotated[
        float | None, value("P", "Let the challenger serve once it is better at this confidence, such as .95.")
    ] = None
    feedback_window: Annotated[
        str | None,
        value(
            "TIME", "Gather feedback on a query for 90s, 30m, 12h or 7d, then learn it. [dim]Without it: from the first.[/dim]"
        ),
    ] = None
    event: Annotated[
        list[str] | None, value("NAME=VALUE", "What an event is worth: click=1; once for each kind. Needs a window.")
    ] = None


#: The fields of `Service` for a new model; a saved MODEL has its own.
OF_NEW = ("ranker", "scale")
