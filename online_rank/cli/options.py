"""The options of commands, each declared once, in groups."""

from collections.abc import Mapping
from enum import StrEnum
from typing import Annotated, Any, NamedTuple

import typer

from online_rank.arguments import seconds_of
from online_rank.cli.declaring import flag, is_given, shown, value
from online_rank.cli.events import events_of
from online_rank.cli.logs import say
from online_rank.cli.reading import Reading
from online_rank.measures.table import listed

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


#: What to add to the features of documents from earlier feedback.
Histories = Annotated[
    list[str] | None,
    value(
        "NAME",
        "Add impressions, rate and age of a key, from earlier feedback: document, a feature, or user+brand; brand=30d with "
        "another half-life than 7d. May be repeated.",
    ),
]


#: Who asks, whose vector is what they engaged with.
Tasters = Annotated[
    str | None,
    value(
        "NAME",
        "Rank by what users like: NAME says who asks, in a column or in the context. user=picture for other vectors of "
        "documents than [bold]embedding[/bold].",
    ),
]


# Learning from files.

#: The ranker to train.
Kind = StrEnum("Kind", ["additive", "perceptron"])
KINDS = "additive: curves, trees and words; perceptron: linear weights for any engine."


class Training(NamedTuple):
    """What to learn from, and how."""

    files: Annotated[
        list[str] | None,
        typer.Argument(
            metavar="FILE",
            help="LETOR / svmlight text, plain or gzip, [bold]-[/bold] is standard input; or tables. A run continues without.",
        ),
    ] = None
    test: Annotated[list[str] | None, value("FILE", "Held-out queries; may be repeated.")] = None
    measure: Measure = "ndcg@10"
    passes: Annotated[int, value("N", "Number of passes over the files.", min=1)] = 1
    ranker: Annotated[Kind, value(None, KINDS)] = Kind.additive
    begin_with: Annotated[
        str | None,
        value(
            "FILE",
            "Begin with the ranking of a model, which stays as it is, and learn to add to it: LightGBM's text, XGBoost's JSON.",
        ),
    ] = None
    target: Annotated[
        str | None,
        value("TARGET", "Train what this target of [bold]export[/bold] can compute, and print what it costs.", "--for"),
    ] = None
    sign: Annotated[
        list[str] | None,
        value("NAME=SIGN", "More of a feature never lowers a score (NAME=+), or never raises it (NAME=-); may be repeated."),
    ] = None
    kind: Annotated[
        list[str] | None,
        value("NAME=KIND", "A column of texts is a text, whose words are learned, a category, or ignored; may be repeated."),
    ] = None
    history: Histories = None
    tastes: Tasters = None
    shuffle: Annotated[int | None, value("SEED", "Shuffle the queries by this seed, in a buffer of 2,048.", min=0)] = None
    reading: Reading = Reading()
    certify: Annotated[
        bool, flag("--certify", "Certify the loss: against the best fixed candidate, or the linear weights of a batch learner.")
    ] = False


class Checkpoints(NamedTuple):
    """Where and how often the run is saved."""

    checkpoint: Annotated[str | None, value("DIR", "Folder that keeps the run; the same command continues from there.")] = None
    every: Every = 1000


class Output(NamedTuple):
    """Where results are written, and how much is printed."""

    save: Save = None
    report: Annotated[str | None, value("DIR", "Write a page about the run, DIR/index.html (extra 'plot').")] = None
    json: Json = False
    quiet: Annotated[bool, flag("--quiet -q", "Print only errors.")] = False

    def warn(self, message: str) -> None:
        """Print a line on stderr, unless output is switched off."""
        if not self.quiet:
            say(message)


# Fusion, and metrics.

#: The rules of fusion that may rank today.
Rule = StrEnum("Rule", ["rrf", "minmax", "zscore"])


class Fusion(NamedTuple):
    """What is learned, and from which rule it begins."""

    today: Annotated[Rule, value(None, "The rule that ranks today, and with which learning begins.")] = Rule.minmax
    k: Annotated[float, value("K", "The constant of reciprocal rank fusion.", min=0)] = 60.0
    measure: Measure = "ndcg@10"


class Written(NamedTuple):
    """Where the fused run and the model are written."""

    out: Out = None
    save: Save = None

    def write(self, run: Mapping[str, Mapping[str, float]], model: Any) -> list[str]:
        """Write both as far as they are wanted; returns the paths."""
        from online_rank.cli.runs import write_run
        from online_rank.storage.files import save

        if self.out is not None:
            write_run(self.out, run)
        if self.save is not None:
            save(model, self.save)
        return [path for path in self if path is not None]


#: How to count a query without relevant documents.
NoRelevant = StrEnum("NoRelevant", ["skip", "zero"])


class Measuring(NamedTuple):
    """The metrics, and how they treat queries without relevant documents."""

    metric: Annotated[
        list[str] | None,
        value("NAME", f"Metrics: {shown(listed())}; may be repeated. [dim]Without it: ndcg@10, ndcg, map, mrr.[/dim]"),
    ] = None
    no_relevant: Annotated[
        NoRelevant, value(None, "Queries without relevant documents are left out of the mean, or count as 0.")
    ] = NoRelevant.skip

    def metrics(self) -> tuple[Mapping[str, Any], Mapping[str, Any]]:
        """New metrics, by name; and the same for a random ranking, where its expected value is known."""
        from online_rank.metrics import RandomRanking, metric

        names, options = self.metric or ("ndcg@10", "ndcg", "map", "mrr"), {"no_relevant": str(self.no_relevant)}
        by_chance = {name: RandomRanking(name, **options) for name in names if not name.lower().startswith("err")}
        return {name: metric(name, **options) for name in names}, by_chance


# Logs of clicks.

#: How the lists of a log of clicks came about.
Origin = StrEnum("Origin", ["shuffled", "above", "place", "moved"])
OF_CLICKS = {"rich_help_panel": "A log of clicks"}
_ORIGIN_HELP = (
    "How the lists came about: in random order (shuffled); with the probability of a document given those above (above), or at "
    "its place (place); not drawn, but documents moved (moved)."
)


class Clicks(NamedTuple):
    """A log of clicks in place of grades. A row of its table is a candidate, or an event."""

    clicks: Annotated[Origin | None, value(None, f"FILE is a log of clicks. {_ORIGIN_HELP}", **OF_CLICKS)] = None
    click: Annotated[
        str | None,
        value(
            "COLUMN",
            "The column with clicks: a number, or the name of an event. [dim]Default: click, clicked, ...[/dim]",
            **OF_CLICKS,
        ),
    ] = None
    position: Annotated[
        str | None,
        value("COLUMN", "The column with positions, from 1. [dim]Default: position, pos, rank, ...[/dim]", **OF_CLICKS),
    ] = None
    propensity: Annotated[
        str | None,
        value("COLUMN", "For above and place: the column with probabilities. [dim]Default: propensity, ...[/dim]", **OF_CLICKS),
    ] = None
    event: Annotated[list[str] | None, value("NAME=VALUE", "What an event is worth; once for each name.", **OF_CLICKS)] = None
    feedback_window: Annotated[
        str | None,
        value(
            "TIME",
            "Events count for this time after their list was shown: 30m, 12h or 7d. [dim]Without it: all.[/dim]",
            **OF_CLICKS,
        ),
    ] = None
    hits: Annotated[
        str | None,
        value("FIELD", "The files are JSON lines, a list each, whose hits are in this field; with --clicked.", **OF_CLICKS),
    ] = None
    clicked: Annotated[
        str | None, value("FIELD", "With --hits: the field with the ids of the documents that were clicked.", **OF_CLICKS)
    ] = None
    topic: Annotated[
        str | None,
        value("COLUMN", "For moved, and grades: what was asked, which a document answers well or badly.", **OF_CLICKS),
    ] = None
    examination: Annotated[
        str | None,
        value(
            "FILE|estimated|none",
            "With --clicks moved: how often each position is looked at; none if positions do not matter. "
            "[dim]Default: estimated.[/dim]",
            **OF_CLICKS,
        ),
    ] = None
    shown_on: Annotated[
        str | None,
        value(
            "COLUMN", "For moved: the device or page; what it adds to clicks is learned, and left out in ranking.", **OF_CLICKS
        ),
    ] = None


#: The options of a command that does not learn from lists without chance.
OfChance = Annotated[Clicks, [name for name in Clicks._fields if name not in ("topic", "examination", "shown_on")]]


def refuse_without_clicks(context: typer.Context) -> None:
    """Raise a usage error if an option was given that needs a log of clicks."""
    for name in Clicks._fields:
        if name != "clicks" and is_given(context, name):
            raise typer.BadParameter(f"--{name.replace('_', '-')} needs --clicks")


LogOrigin = Annotated[Origin | None, value(None, f"Learn from --click-log. {_ORIGIN_HELP}", **OF_CLICKS)]


# Services.

#: The ranker of a new service.
ServedKind = StrEnum("ServedKind", ["additive", "perceptron", "swap"])


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
        value(None, f"For a new model. {KINDS} swap draws the list to show and learns from the clicks on it."),
    ] = ServedKind.additive
    measure: Measure = "ndcg@10"
    history: Histories = None
    tastes: Tasters = None
    checkpoint: Annotated[
        str | None,
        value("DIR", "Folder, or postgresql://HOST/NAME, that keeps everything acknowledged; a restart continues from there."),
    ] = None
    every: Every = 10_000
    replace_model: Annotated[
        bool, flag("--replace-model", "If the checkpoint began with another MODEL, continue with this one.")
    ] = False
    remember: Annotated[
        str, value("TIME", "Recognise repeated feedback for this time after a query was learned; it needs a --checkpoint.")
    ] = "24h"
    wait: Annotated[
        str, value("TIME", "How long a query waits for its feedback; with a window at least as long as the window.")
    ] = "7d"
    wait_bytes: Annotated[int, value("BYTES", "Memory for the queries waiting for feedback, in bytes.", min=1)] = 1 << 28
    clock_skew: Annotated[
        str, value("TIME", "By how much the time of a request may be ahead of the clock; beyond that it is refused.")
    ] = "5m"
    challenger: Annotated[
        str | None,
        value("MODEL", "Compare this model on the same traffic; it serves once the 95 % interval says that it is better."),
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
    examination: Annotated[
        str | None,
        value(
            "FILE|estimated|none",
            "For clicks on a model for grades: how often each position is looked at; none if positions do not matter.",
        ),
    ] = None
    reference: Annotated[
        str | None,
        value("FILE", "Queries, a line each as POST /rank takes them, from which the scaling of given weights is learned."),
    ] = None

    @property
    def events(self) -> dict[str, float]:
        """What each event is worth. Raises ValueError for one that cannot be read."""
        return events_of(self.event or ())

    @property
    def seconds(self) -> dict[str, float]:
        """The times in seconds, by their names. Raises ValueError for one that cannot be read."""
        given = {name: getattr(self, name) for name in ("remember", "wait", "clock_skew", "feedback_window")}
        return {name: seconds_of(time, f"--{name.replace('_', '-')}") for name, time in given.items() if time is not None}


class Place(NamedTuple):
    """Where a server listens, what it takes, and how many models it keeps."""

    service: Service = Service()
    idle: Annotated[str | None, value("TIME", "End windows by the clock if no request comes for this time.")] = None
    host: Annotated[str, value("ADDRESS", "Address to listen on.")] = "127.0.0.1"
    port: Annotated[int, value("N", "0: any free port.", min=0, max=65535)] = 8000
    max_request: Annotated[int, value("BYTES", "Largest request, in bytes.", min=1)] = 1 << 22
    key: Annotated[str | None, value("NAME", "One model for each value of this query parameter: POST /rank?NAME=shop.")] = None
    max_models: Annotated[int, value("N", "Most models in memory, with --key.", min=1)] = 100
    max_keys: Annotated[int, value("N", "Most keys, with --key.", min=1)] = 100_000
    max_bytes: Annotated[int | None, value("BYTES", "Refuse new keys once all models together are larger.", min=1)] = None
    key_ttl: Annotated[str | None, value("TIME", "Delete a key if no request named it for this time: 90d.")] = None
    snapshots: Annotated[
        int, value("N", "Keep the model of the beginning of each of the last N days, to roll back to.", min=0)
    ] = 0
    tokens: Annotated[str | None, value("FILE", "Tokens of clients: on each line rank, learn or admin, and a token.")] = None
    reads_from: Annotated[str | None, value("URL", "Be a reader: rank with the model of this server, which learns.")] = None
    cache: Annotated[
        str | None, value("DIR", "Keeps the model, to rank with while the learner or the --checkpoint is away.")
    ] = None
    readers: Annotated[int, value("N", "Start N readers of this server next to it, on its port.", min=0)] = 0

    @property
    def seconds(self) -> dict[str, Any]:
        """The times, as `Models` takes them. Raises ValueError for one that cannot be read."""
        given = {"idle": self.idle, "ttl": self.key_ttl, "remember": self.service.remember}
        names = {"ttl": "--key-ttl"}
        return {name: None if time is None else seconds_of(time, names.get(name, f"--{name}")) for name, time in given.items()}
