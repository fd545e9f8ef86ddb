"""How the commands read files of queries."""

import os
import warnings
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from typing import Annotated, Any, NamedTuple

import typer

from online_rank.cli.declaring import flag, value
from online_rank.cli.logs import say

#: If no ranking is better than another.
NO_GRADES = (
    "in no query have two documents different grades, so there is nothing to learn or to measure: are the columns of queries "
    "(--query) and grades (--grade) the right ones?"
)


def _names(given: Sequence[str] | None) -> list[str] | None:
    """Names of columns, separated by commas."""
    return [name.strip() for text in given for name in text.split(",") if name.strip()] if given else None


def _users_of(model: Any) -> list[str]:
    """The columns that say who asks, for the tastes of a model."""
    from online_rank import Tastes
    from online_rank.base.forgetting import parts_of

    return [] if model is None else [step.by for step in parts_of(model, Tastes)]


def _vectors(given: Sequence[str] | None) -> dict[str, str]:
    """Columns of vectors by their names, from NAME=COLUMNS. Raises ValueError."""
    found: dict[str, str] = {}
    for one in given or ():
        name, equals, columns = one.partition("=")
        if not (name and equals and columns):
            raise ValueError(f"{one!r} is not NAME=COLUMNS, such as embedding=e0..e255")
        found[name] = columns
    return found


DryRun = Annotated[
    bool, flag("--dry-run", "Print how each column is used, with its type, range and missing values, and do nothing else.")
]


class Reading(NamedTuple):
    """How files of queries are read."""

    query: Annotated[
        str | None, value("COLUMN", 'The column of a table with query ids. [dim]Default: "query", if the table has it.[/dim]')
    ] = None
    document: Annotated[str | None, value("COLUMN", "The column of a table with document ids.")] = None
    query_text: Annotated[
        str | None,
        value("COLUMN", "The column of a table with the query's text, for words that query and document share."),
    ] = None
    vector: Annotated[
        list[str] | None,
        value(
            "NAME=COLUMNS",
            "Columns of a table that are the vector NAME of documents: a column of lists, or a range of numbers, "
            "embedding=e0..e255; may be repeated.",
        ),
    ] = None
    query_vector: Annotated[
        list[str] | None, value("NAME=COLUMNS", "The same for the vector NAME of queries: embedding=q0..q255.")
    ] = None
    dry_run: DryRun = False
    skip_bad: Annotated[
        float, value("SHARE", "Leave out lists with a row that cannot be read, up to this share of all: .001.", min=0, max=1)
    ] = 0.0
    grade: Annotated[str | None, value("COLUMN", "The column of a table with grades.")] = None
    exclude: Annotated[list[str] | None, value("NAMES", "Columns of a table that are not features.", callback=_names)] = None
    strict: Annotated[
        bool,
        flag(
            "--strict",
            "The model takes the features of the first table, and refuses files that lack one, and requests with others.",
        ),
    ] = False
    features: Annotated[
        list[str] | None,
        value(
            "NAMES",
            "The columns of a table that are features, separated by commas; may be repeated. "
            "[dim]Default: all columns of numbers, and of categories.[/dim]",
            callback=_names,
        ),
    ] = None
    event_time: Annotated[
        str | None, value("COLUMN", "The column of a table with times; queries must come in their order.")
    ] = None

    @property
    def options(self) -> dict[str, Any]:
        """The arguments of `read` that the options name."""
        names = ("query", "document", "grade", "features", "event_time", "skip_bad")
        return {name: getattr(self, name) for name in names} | {
            "exclude": self.exclude or (), "negative": "zero", "repeated_qid": "auto",
            "vectors": _vectors(self.vector), "query_vectors": _vectors(self.query_vector),
            "context": () if self.query_text is None else (self.query_text,),
        }  # fmt: skip

    def queries(self, files: Sequence[str], model: Any, with_ids: bool = False, graded: bool = True, words: bool = True) -> Any:
        """The queries of files, for a model; ends the command after showing what is in them, if that is all that was wanted."""
        from online_rank.stream import read

        # To look at a file, all of it is read.
        options = self.options | ({"skip_bad": 1.0} if self.dry_run else {})
        # Who asks is known of the query itself.
        users = _users_of(model)
        options["context"] = (*options["context"], *users)
        options["exclude"] = [name for name in options["exclude"] if name not in users]
        queries = read(list(files), **options, with_ids=with_ids, model=model, words=words)
        if graded and not queries.is_letor and queries.plan.of("grade") is None:
            raise ValueError(f"{files[0]}: a table needs --grade COLUMN")
        for file in queries.weights:
            warnings.warn(f"{file}: weights of queries, which learning uses; measures count each query once", stacklevel=2)
        if self.dry_run:
            look(queries)
        return queries

    def asked(self, files: Sequence[str], model: Any, with_ids: bool = False, graded: bool = True) -> Any:
        """The queries of files for a model that has learned; prints which features they lack, and which the model lacks."""
        from online_rank import DeclaredFeatures
        from online_rank.base import steps_of
        from online_rank.stream.plan import known_to, listed, n_features_of

        queries = self.queries(files, model, with_ids, graded)
        plan, known = queries.plan, known_to(model) or [str(i + 1) for i in range(n_features_of(model) or 0)]
        has, met = frozenset(plan.features), frozenset(known)
        if lacking := [name for name in known if name not in has]:
            if plan.features and len(lacking) == len(known):
                raise ValueError(f"{files[0]}: it has none of the features of the model: {listed(known)}")
            what = f"{len(lacking):,} of the {len(known):,} features that the model has learned from are not in the file"
            if isinstance(next(iter(steps_of(model))), DeclaredFeatures):
                raise ValueError(f"{files[0]}: {what}, and the model wants all (train --strict): {listed(lacking)}")
            warnings.warn(f"{what} and count as 0: {listed(lacking)}", stacklevel=2)
        if unknown := plan.unknown if not queries.is_letor else [name for name in plan.features if name not in met]:
            warnings.warn(f"columns that the model has not learned from are left out: {listed(unknown)}", stacklevel=2)
        return queries


def warn_of_unknown(model: Any) -> None:
    """Warn of categories that the files have, and the model has not learned: each query counts its own."""
    from online_rank.base import steps_of

    if n := max((step.n_unknown.levels for step in steps_of(model) if hasattr(step, "n_unknown")), default=0):
        warnings.warn(
            f"{n:,} times a query has a category that the model has not learned, which counts for nothing", stacklevel=2
        )


_TO_EXPLAIN = ("query", "document", "query_text", "vector", "query_vector", "dry_run")
_TO_RANK = (*_TO_EXPLAIN, "skip_bad")

#: The options of commands that learn nothing.
ToExplain = Annotated[Reading, _TO_EXPLAIN]
ToCompare = Annotated[Reading, (*_TO_EXPLAIN, "event_time")]
ToRank = Annotated[Reading, _TO_RANK]
ToMeasure = Annotated[Reading, (*_TO_RANK, "grade")]


def look(lists: Any) -> None:
    """Print what is in the files of lists, and end the command. Raises ValueError if no list can be read."""
    from online_rank.cli.dry_run import show

    if not show(lists):
        raise ValueError("no list can be read" + f": all {lists.n_bad:,} have a fault" * bool(lists.n_bad))
    raise typer.Exit


def look_at_runs(runs: Sequence[str], judgements: str | None = None) -> None:
    """Print what is in runs and judgements, and end the command. Raises ValueError if they have no query in common."""
    from online_rank.cli.dry_run import show_runs

    if not show_runs(runs, judgements):
        raise ValueError("no query is in all files")
    raise typer.Exit


def check_files(files: Sequence[str]) -> None:
    """Raise, before anything is read, if a file is missing."""
    for file in files:
        if file != "-":
            os.stat(file)


@contextmanager
def warnings_as_lines(show: Callable[[str], None]) -> Iterator[None]:
    """Pass the text of warnings to `show`, each once, without their place in the code."""
    seen: set[str] = set()

    def line(message: Warning | str, *_: Any, **__: Any) -> None:
        if (text := str(message)) not in seen:
            seen.add(text)
            show(text)

    with warnings.catch_warnings():
        warnings.simplefilter("always", UserWarning)
        warnings.showwarning = line
        yield


def warned_on_stderr() -> Any:
    """A context that prints warnings as lines on stderr."""
    return warnings_as_lines(say)
