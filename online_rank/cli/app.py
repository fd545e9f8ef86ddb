"""The commands and their options."""

import sys
from enum import StrEnum
from typing import Annotated, Any

import typer
from typer.core import TyperCommand, TyperGroup

import online_rank
from online_rank.export.table import TARGETS
from online_rank.measures.table import listed

__all__ = ["app"]


class _PlainFlags:
    """Commands whose help shows flags without a type."""

    def get_params(self, ctx: Any) -> Any:
        params = super().get_params(ctx)  # type: ignore[misc]
        for param in params:
            if getattr(param, "is_flag", False) and param.metavar is None:
                param.metavar = ""
        return params


class _Command(_PlainFlags, TyperCommand):
    pass


class _Group(_PlainFlags, TyperGroup):
    pass


app = typer.Typer(
    name="online-rank",
    cls=_Group,
    help="Online learning to rank: a model that learns from one query at a time.",
    add_completion=False,
    pretty_exceptions_enable=False,
    no_args_is_help=True,
    rich_markup_mode="rich",
    context_settings={"help_option_names": ["-h", "--help"]},
)


def _shown(text: str) -> str:
    """Text whose brackets are brackets, where help has markup."""
    return text.replace("[", r"\[")


_FILE = typer.Argument(
    metavar="FILE", help="LETOR / svmlight text, plain or gzip, [bold]-[/bold] is standard input; or tables."
)
Files = Annotated[list[str], _FILE]
TrecRuns = Annotated[
    list[str] | None,
    typer.Option(
        "--run", metavar="RUN", help="In place of FILE, for fused models: the TREC run of a retriever, once for each."
    ),
]
ModelFile = Annotated[
    str,
    typer.Argument(
        metavar="MODEL", help="A model that [bold]train --save[/bold] wrote, or the folder of [bold]serve --checkpoint[/bold]."
    ),
]
Measure = Annotated[
    str,
    typer.Option("--measure", metavar="NAME", help=f"The measure to learn for and to report: {_shown(listed(learned=True))}."),
]
Json = Annotated[bool, typer.Option("--json", help="Print one JSON object, and nothing else.")]
Features = Annotated[
    int | None,
    typer.Option("--features", metavar="N", min=1, help="Number of features, if the first 8 MiB do not contain all of them."),
]


Grouped = Annotated[
    bool,
    typer.Option("--group-by-qid", help="Join the documents of a qid that are not contiguous; reads all input first."),
]


#: How to treat negative grades.
Negative = StrEnum("Negative", ["error", "zero", "skip"])

Negatives = Annotated[
    Negative,
    typer.Option("--negative", help="Grades below 0, of documents not judged or spam: refuse, read as 0, leave out."),
]


QueryColumn = Annotated[
    str | None,
    typer.Option("--query", metavar="COLUMN", help="Files are tables (parquet, csv, tsv): the column with query ids."),
]
GradeColumn = Annotated[str | None, typer.Option("--grade", metavar="COLUMN", help="The column of a table with grades.")]
DocumentColumn = Annotated[
    str | None, typer.Option("--document", metavar="COLUMN", help="The column of a table with document ids.")
]
TimeColumn = Annotated[
    str | None,
    typer.Option("--event-time", metavar="COLUMN", help="The column of a table with times; queries must come in their order."),
]
Columns = Annotated[
    list[str] | None,
    typer.Option(
        "--columns",
        metavar="NAMES",
        help="The columns of a table that are features, separated by commas; may be repeated. "
        "[dim]Default: all numeric columns; for ranking, those that the model has learned from.[/dim]",
    ),
]
Exclude = Annotated[
    list[str] | None, typer.Option("--exclude", metavar="NAMES", help="Columns of a table that are not features.")
]

#: How to treat missing values in a table.
Missing = StrEnum("Missing", ["error", "zero", "mean", "indicator"])

MissingValues = Annotated[
    Missing,
    typer.Option(
        "--missing",
        help="Missing values in a table: refuse, read as 0, as the mean of the query's other documents, "
        'or as 0 with a further feature "NAME is missing".',
    ),
]


Strict = Annotated[
    bool, typer.Option("--strict", help="Refuse files that lack a feature of the model, or have others, instead of a warning.")
]


def _names(given: list[str] | None) -> list[str] | None:
    """Names of columns, separated by commas."""
    return [name.strip() for text in given for name in text.split(",") if name.strip()] if given else None


def _signs(given: list[str] | None) -> dict[str, int] | None:
    """Signs of weights, given as NAME=+ or NAME=-."""
    found: dict[str, int] = {}
    for text in given or ():
        name, _, sign = text.rpartition("=")
        if not name or sign not in _SIGNS:
            raise ValueError(f"--sign {text}: give the name of a feature and its sign, as in price=- or clicks=+")
        if found.setdefault(name, _SIGNS[sign]) != _SIGNS[sign]:
            raise ValueError(f"--sign {text}: {name} has both signs")
    return found or None


#: The signs of weights, as they may be written.
_SIGNS = {"+": 1, "+1": 1, "1": 1, "-": -1, "-1": -1}

#: How to count a query without relevant documents.
NoRelevant = StrEnum("NoRelevant", ["skip", "zero"])

#: How to treat documents with equal scores.
Ties = StrEnum("Ties", ["expected", "optimistic", "pessimistic", "ignored"])

#: How features are scaled.
Scale = StrEnum("Scale", ["map", "stream", "query", "none"])


#: What lines of the log are, and their levels.
Lines = StrEnum("Lines", ["text", "json"])
Level = StrEnum("Level", ["debug", "info", "warning", "error"])


class Total(StrEnum):
    """Which events on a document count."""

    largest = "largest"
    sum = "sum"


class Ungraded(StrEnum):
    """What becomes of documents without feedback."""

    zero = "0"
    skip = "skip"


class Unanswered(StrEnum):
    """What becomes of queries without feedback."""

    skip = "skip"
    negative = "negative"


class Kind(StrEnum):
    """The ranker to train."""

    perceptron = "perceptron"
    blend = "blend"
    light_blend = "light-blend"


Scaling = Annotated[
    Scale,
    typer.Option("--scale", help="Scale features: by quantiles; by mean and variance; within each query; not at all."),
]
Log = Annotated[bool, typer.Option("--log", help="Apply sign(x) log(1 + |x|) to raw features first: for counts and lengths.")]
NoBar = Annotated[bool, typer.Option("--quiet", "-q", help="Show no progress bar.")]


@app.callback(invoke_without_command=True)
def root(
    context: typer.Context,
    version: Annotated[bool, typer.Option("--version", help="Print the version.")] = False,
    modules: Annotated[
        list[str] | None,
        typer.Option(
            "--import", metavar="MODULE", help="Import a module that registers classes and losses of your own; may be repeated."
        ),
    ] = None,
) -> None:
    """Online learning to rank: a model that learns from one query at a time."""
    if modules:
        from online_rank.extensions import import_modules

        import_modules(modules)
    if context.invoked_subcommand and sys.stderr.isatty() and not {"-h", "--help"} & set(sys.argv):
        from online_rank._kernels._jit import on_first_compilation

        on_first_compilation(lambda: print("Compiling kernels for the first time: takes some seconds, once.", file=sys.stderr))
    if version:
        from online_rank._kernels.ahead.loading import in_use

        print(f"online-rank {online_rank.__version__}\nkernels: {in_use()}")
        raise typer.Exit


@app.command("warm-up", cls=_Command)
def warm_up() -> None:
    """Compile the kernels for learning and ranking, for example in a container image; otherwise the first command compiles
    them.
    """
    online_rank.warm_up()


DemoKind = StrEnum("DemoKind", ["hybrid"])


@app.command(cls=_Command)
def demo(
    kind: Annotated[
        DemoKind | None,
        typer.Argument(help="[bold]hybrid[/bold]: how to fuse several retrievers, learned from clicks."),
    ] = None,
    queries: Annotated[int, typer.Option("--queries", metavar="N", min=100, help="Length of the stream.")] = 6000,
    seed: Annotated[int, typer.Option("--seed", metavar="N", min=0, help="Seed of the stream.")] = 0,
    clicks: Annotated[bool, typer.Option("--clicks", help="Learn from the clicks of simulated users, without grades.")] = False,
    live: Annotated[
        bool,
        typer.Option(
            "--live",
            help="Show a page in the browser until Ctrl-C; the truth changes every --queries, unless --clicks is given.",
        ),
    ] = False,
    port: Annotated[int, typer.Option("--port", metavar="N", min=0, max=65535, help="Port of the page; 0: any free port.")] = 0,
    speed: Annotated[float, typer.Option("--speed", metavar="N", min=0.1, help="Queries per second on the page.")] = 60.0,
    browser: Annotated[bool, typer.Option("--browser/--no-browser", help="Whether to open the page.")] = True,
) -> None:
    """Watch a ranker learn from a stream of queries whose truth changes halfway, from clicks, or how to fuse retrievers."""
    if kind is not None:
        if clicks:
            raise ValueError("demo hybrid learns from clicks in any case: leave out --clicks")
        from online_rank.cli import demo_hybrid, live_hybrid

        if live:
            live_hybrid.run(seed, port, speed, browser)
        else:
            demo_hybrid.run(queries, seed)
        return
    if live:
        from online_rank.cli.live import run as run_live

        run_live(seed, port, queries, speed, browser, clicks)
        return
    if clicks:
        from online_rank.cli import demo_clicks

        demo_clicks.run(queries, seed)
        return
    from online_rank.support.warm_up import start_compiling_default

    # Before numba and river are imported, which takes a second.
    beside = start_compiling_default()
    from online_rank.cli.demo import run

    run(queries, seed, beside)


#: How the lists of a click log came about.
Origin = StrEnum("Origin", ["shuffled", "above", "place", "moved"])

_OF_CLICKS = {"rich_help_panel": "A log of clicks"}
PositionColumn = Annotated[
    str, typer.Option("--position", metavar="COLUMN", help="Positions from 1; empty if not shown.", **_OF_CLICKS)
]
ClickColumn = Annotated[
    str, typer.Option("--click", metavar="COLUMN", help="Clicks: numbers, booleans, or names of events.", **_OF_CLICKS)
]
Events = Annotated[
    list[str] | None,
    typer.Option("--event", metavar="NAME=VALUE", help="What an event is worth; once for each name.", **_OF_CLICKS),
]
PropensityColumn = Annotated[
    str | None, typer.Option("--propensity", metavar="COLUMN", help="Probabilities, for above and place.", **_OF_CLICKS)
]
#: The options of `train` that a log of clicks takes.
_WITH_CLICKS = {
    "files", "clicks", "query", "document", "position", "click", "event", "propensity", "topic", "columns",
    "exclude", "event_time", "scale", "log", "save", "json", "quiet",
}  # fmt: skip
#: Those of `compare`.
_COMPARED_BY_CLICKS = (_WITH_CLICKS - {"topic", "scale", "log", "save"}) | {"a", "b", "level", "places"}


@app.command(cls=_Command)
def train(
    context: typer.Context,
    files: Annotated[
        list[str] | None,
        typer.Argument(
            metavar="FILE",
            help="LETOR / svmlight text, plain or gzip, [bold]-[/bold] is standard input; or tables. Not with --resume.",
        ),
    ] = None,
    test: Annotated[list[str] | None, typer.Option("--test", metavar="FILE", help="Held-out queries; may be repeated.")] = None,
    measure: Measure = "ndcg@10",
    passes: Annotated[int, typer.Option("--passes", metavar="N", min=1, help="Number of passes over the files.")] = 1,
    ranker: Annotated[
        Kind,
        typer.Option(
            "--ranker", help="The ranker to train. The blends take features of any scale: --scale and --log have no effect."
        ),
    ] = Kind.perceptron,
    scale: Scaling = Scale.map,
    log: Log = False,
    sign: Annotated[
        list[str] | None,
        typer.Option(
            "--sign",
            metavar="NAME=SIGN",
            help="Keep the weight of a feature at or above 0 (NAME=+) or at or below 0 (NAME=-); may be repeated.",
        ),
    ] = None,
    seed: Annotated[
        int | None,
        typer.Option("--seed", metavar="N", min=0, help="Shuffle the queries, in a buffer of 2,048."),
    ] = None,
    features: Features = None,
    group_by_qid: Grouped = False,
    negative: Negatives = Negative.error,
    query: QueryColumn = None,
    grade: GradeColumn = None,
    document: DocumentColumn = None,
    columns: Columns = None,
    exclude: Exclude = None,
    missing: MissingValues = Missing.error,
    event_time: TimeColumn = None,
    save: Annotated[str | None, typer.Option("--save", metavar="MODEL", help="Write the model to this file.")] = None,
    report: Annotated[
        str | None, typer.Option("--report", metavar="DIR", help="Write a page about the run, DIR/index.html (extra 'plot').")
    ] = None,
    feature_names: Annotated[
        str | None,
        typer.Option(
            "--feature-names",
            metavar="FILE",
            help="File with feature names for the report, one per line, starting with feature 1.",
        ),
    ] = None,
    certify: Annotated[
        bool,
        typer.Option(
            "--certify",
            help="Certify the loss, against the best weights in hindsight or the teacher of a synthetic stream.",
        ),
    ] = False,
    checkpoint: Annotated[
        str | None,
        typer.Option("--checkpoint", metavar="DIR", help="Folder to which the state of the run is written regularly."),
    ] = None,
    every: Annotated[int, typer.Option("--every", metavar="N", min=1, help="Queries between two checkpoints.")] = 1000,
    resume: Annotated[
        bool, typer.Option("--resume", help="Continue from the checkpoint, which has the files and options.")
    ] = False,
    shards: Annotated[
        int | None,
        typer.Option(
            "--shards", metavar="N", min=1, help="Number of copies of the model that learn parts of the files and are mixed."
        ),
    ] = None,
    rounds: Annotated[int, typer.Option("--rounds", metavar="N", min=1, help="Number of mixings per pass, with --shards.")] = 1,
    workers: Annotated[
        int | None,
        typer.Option("--workers", metavar="N", min=1, help="Number of processes that share the shards (extra 'dask')."),
    ] = None,
    scheduler: Annotated[
        str | None, typer.Option("--scheduler", metavar="ADDRESS", help="The same on a Dask cluster: tcp://HOST:8786.")
    ] = None,
    strict: Annotated[
        bool,
        typer.Option(
            "--strict",
            help="The model takes the features of the first table and refuses all others, now and later; so do --test files.",
        ),
    ] = False,
    dry_run: Annotated[
        bool,
        typer.Option("--dry-run", help="Print how each column of a table is used, with types and ranges; learn nothing."),
    ] = False,
    clicks: Annotated[
        Origin | None,
        typer.Option(
            "--clicks",
            help="Learn from clicks; a row of the table is a candidate. Its lists were in random order (shuffled); or have "
            "the probability of a document given those above (above), or at its place (place); or were not drawn, but "
            "documents moved (moved).",
            **_OF_CLICKS,
        ),
    ] = None,
    position: PositionColumn = "position",
    click: ClickColumn = "click",
    event: Events = None,
    propensity: PropensityColumn = None,
    topic: Annotated[
        str | None,
        typer.Option(
            "--topic", metavar="COLUMN", help="For moved: what was asked, if documents answer several questions.", **_OF_CLICKS
        ),
    ] = None,
    json: Json = False,
    quiet: Annotated[bool, typer.Option("--quiet", "-q", help="Print nothing but errors.")] = False,
) -> None:
    """Learn from files, one query at a time; each query is a test before it is learned.

    A line of a file is a document: grade qid:ID feature:value ... # docid = NAME

    Instead of files: synthetic:separable or synthetic:noisy (--scale none --certify then compares with the teacher).

    With --clicks: a table with the columns query, document, position and click (or as named by the options).
    """
    given = {name for name in context.params if _is_given(context, name)}
    if clicks is not None:
        if other := sorted(given - _WITH_CLICKS):
            raise typer.BadParameter(f"--{other[0].replace('_', '-')} does not go with --clicks")
        from online_rank.cli.click_log import learn
        from online_rank.cli.train import Output

        kept = _click_log(
            files or [], clicks.value, topic, query=query, document=document, position=position, click=click,
            propensity=propensity, event_time=event_time, columns=columns, exclude=exclude, event=event,
        )  # fmt: skip
        learn(kept, scale.value, log, Output(save, json=json, quiet=quiet))
        return
    if alone := sorted(given & {"position", "click", "event", "propensity", "topic"}):
        raise typer.BadParameter(f"--{alone[0]} needs --clicks")
    from online_rank.cli.dry_run import look
    from online_rank.cli.files import Reading
    from online_rank.cli.settings import Settings
    from online_rank.cli.shards import Machines
    from online_rank.cli.train import Checkpoints, Output, run

    reading = Reading(
        features,
        group_by_qid,
        negative.value,
        query,
        grade,
        _names(columns),
        _names(exclude),
        document,
        missing.value,
        event_time,
        strict,
    )
    settings = Settings(files or [], test or [], measure, passes, scale.value, log, seed, reading, certify, ranker.value)
    settings = settings._replace(shards=shards, rounds=rounds, signs=_signs(sign))
    if dry_run:
        look(settings, json)
        return
    output = Output(save, report, feature_names, json, quiet)
    run(settings, Checkpoints(checkpoint, every, resume), output, Machines(workers, scheduler))


@app.command(cls=_Command)
def rank(
    model: ModelFile,
    file: Annotated[str | None, _FILE] = None,
    runs: TrecRuns = None,
    tag: Annotated[
        str, typer.Option("--tag", metavar="NAME", help="Name of the run: the last column of the output.")
    ] = "online_rank",
    features: Features = None,
    group_by_qid: Grouped = False,
    negative: Negatives = Negative.error,
    query: QueryColumn = None,
    grade: GradeColumn = None,
    document: DocumentColumn = None,
    columns: Columns = None,
    exclude: Exclude = None,
    missing: MissingValues = Missing.error,
    event_time: TimeColumn = None,
    strict: Strict = False,
    quiet: NoBar = False,
) -> None:
    """Rank the documents of every query and print TREC run lines: qid Q0 docid rank score tag."""
    from online_rank.cli.files import Reading, warnings_as_lines
    from online_rank.cli.rank import rank, rank_runs

    if (file is None) == (not runs):
        raise typer.BadParameter("give FILE, or --run for each retriever")
    if file is None:
        with warnings_as_lines(_warn):
            rank_runs(model, runs or [], tag)
        return

    reading = Reading(
        features,
        group_by_qid,
        negative.value,
        query,
        grade,
        _names(columns),
        _names(exclude),
        document,
        missing.value,
        event_time,
        strict,
    )
    with warnings_as_lines(_warn):
        rank(model, file, tag, reading, quiet)


#: The rules of fusion that may rank today.
Rule = StrEnum("Rule", ["rrf", "minmax", "zscore"])


@app.command(cls=_Command)
def fuse(
    files: Annotated[list[str], typer.Argument(metavar="RUN", help="TREC runs of at least two retrievers.")],
    qrels: Annotated[str | None, typer.Option("--qrels", metavar="FILE", help="Judgements: qid 0 docid grade.")] = None,
    clicks: Annotated[
        str | None,
        typer.Option("--clicks", metavar="FILE", help="Instead, a table: list, query, document, position, click."),
    ] = None,
    origin: Annotated[
        Origin,
        typer.Option("--origin", help="How the lists came about, as in train --clicks; probabilities are in propensity."),
    ] = Origin.shuffled,
    today: Annotated[
        Rule, typer.Option("--today", help="The rule that ranks today, and with which learning begins.")
    ] = Rule.minmax,
    k: Annotated[float, typer.Option("--k", metavar="K", min=0, help="The constant of reciprocal rank fusion.")] = 60.0,
    measure: Measure = "ndcg@10",
    level: Annotated[float, typer.Option("--level", metavar="P", help="Confidence level, valid at any time.")] = 0.95,
    out: Annotated[str | None, typer.Option("--out", metavar="FILE", help="Write the learned run to this file.")] = None,
    save: Annotated[str | None, typer.Option("--save", metavar="MODEL", help="Write the model to this file.")] = None,
    plot: Annotated[
        str | None, typer.Option("--plot", metavar="FILE", help="A picture of the mean measure so far (extra 'plot').")
    ] = None,
    json: Json = False,
) -> None:
    """Fuse the runs of several retrievers, and say what learning adds to reciprocal rank fusion and to min-max scores.

    Each query is ranked by what the queries before it have taught, and then learned: nothing is held out.

    With --clicks: learn from lists that were shown, and compare with today's rule off-policy, on the same lists.
    """
    from online_rank.cli.files import warnings_as_lines
    from online_rank.cli.fuse import Fusion, Written
    from online_rank.cli.fuse import fuse as run

    settings, written = Fusion(today.value, measure, k, level), Written(out, save, plot)
    if (qrels is None) == (clicks is None):
        raise typer.BadParameter("give --qrels, or --clicks")
    if clicks is not None:
        from online_rank.cli.fuse_clicks import fuse_clicks

        fuse_clicks(files, clicks, origin.value, settings, written, json)
    elif qrels is not None:
        with warnings_as_lines(_warn):
            run(files, qrels, settings, written, json)


@app.command(cls=_Command)
def explain(
    model: ModelFile,
    id: Annotated[str, typer.Option("--id", metavar="ID", help="The query.")],
    file: Annotated[str | None, _FILE] = None,
    runs: TrecRuns = None,
    a: Annotated[
        str | None, typer.Option("--a", metavar="DOCUMENT", help="Explain why this document (default: the best)")
    ] = None,
    b: Annotated[
        str | None, typer.Option("--b", metavar="DOCUMENT", help="ranks above this one (default: the second).")
    ] = None,
    features: Features = None,
    query: QueryColumn = None,
    grade: GradeColumn = None,
    document: DocumentColumn = None,
    columns: Columns = None,
    exclude: Exclude = None,
    missing: MissingValues = Missing.error,
    group_by_qid: Grouped = False,
    strict: Strict = False,
    json: Json = False,
) -> None:
    """Explain why one document ranks above another: the contribution of each feature to the difference of their scores."""
    from online_rank.cli.explain import explain, explain_runs
    from online_rank.cli.files import Reading, warnings_as_lines

    if (file is None) == (not runs):
        raise typer.BadParameter("give FILE, or --run for each retriever")
    if file is None:
        with warnings_as_lines(_warn):
            explain_runs(model, runs or [], id, (a, b), json)
        return
    reading = Reading(features, group_by_qid, Negative.zero.value, query, grade, _names(columns), _names(exclude), document)
    with warnings_as_lines(_warn):
        explain(model, file, id, (a, b), reading._replace(missing=missing.value, strict=strict), json)


@app.command(cls=_Command)
def export(
    model: ModelFile,
    to: Annotated[
        str,
        typer.Option(
            "--to",
            metavar="FORMAT",
            help=f"{', '.join(TARGETS)}.",
        ),
    ],
    out: Annotated[
        str | None, typer.Option("--out", metavar="FILE", help="File to write to instead of standard output.")
    ] = None,
    name: Annotated[str, typer.Option("--name", metavar="NAME", help="Name of the model in the target.")] = "online_rank",
    feature: Annotated[
        list[str] | None,
        typer.Option(
            "--feature",
            metavar="NAME",
            help="Name of a feature in the target; give once for each feature, in the order of the model.",
        ),
    ] = None,
    map_feature: Annotated[
        list[str] | None,
        typer.Option(
            "--map-feature",
            metavar="NAME=TARGET",
            help="Name of one feature in the target, if it differs; or a JSON file, {NAME: TARGET}, "
            "in which TARGET may be a query of the engine. May be repeated.",
        ),
    ] = None,
    features_out: Annotated[
        str | None, typer.Option("--features-out", metavar="FILE", help="With --to solr: file for its feature store.")
    ] = None,
    runs: Annotated[
        list[str] | None,
        typer.Option(
            "--run",
            metavar="FILE",
            help="TREC run of a retriever, once for each, for targets that fuse: the nearest weights are fitted to its queries "
            "where the target cannot compute the model, and changed rankings are counted.",
        ),
    ] = None,
) -> None:
    """Write a model for a search engine, an ONNX runtime, other libraries or a C compiler.

    A model that the target cannot compute is refused, with the reason and the targets that can.
    """
    from online_rank.cli.export import Called, run

    run(model, to, out, Called(name, feature, map_feature), features_out, runs)


@app.command(cls=_Command)
def evaluate(
    model: ModelFile,
    files: Files,
    metric: Annotated[
        list[str] | None,
        typer.Option(
            "--metric",
            metavar="NAME",
            help=f"Metrics: {_shown(listed())}; may be repeated. [dim]Without it: ndcg@10, ndcg, map, mrr.[/dim]",
        ),
    ] = None,
    no_relevant: Annotated[
        NoRelevant,
        typer.Option("--no-relevant", help="Queries without relevant documents are left out of the mean, or count as 0."),
    ] = NoRelevant.skip,
    ties: Annotated[
        Ties | None,
        typer.Option(
            "--ties",
            help="Ties in scores: the mean over all orders, the best order, the worst, or the order of the file. "
            "[dim]Default: expected; for err pessimistic.[/dim]",
        ),
    ] = None,
    trec: Annotated[
        bool,
        typer.Option("--trec", help="MODEL is a TREC run and FILE its judgements (qrels); ties and averages as in trec_eval."),
    ] = False,
    features: Features = None,
    group_by_qid: Grouped = False,
    negative: Negatives = Negative.error,
    query: QueryColumn = None,
    grade: GradeColumn = None,
    document: DocumentColumn = None,
    columns: Columns = None,
    exclude: Exclude = None,
    missing: MissingValues = Missing.error,
    event_time: TimeColumn = None,
    strict: Strict = False,
    json: Json = False,
    quiet: NoBar = False,
) -> None:
    """Measure a model on files, without learning from them; or a TREC run against judgements."""
    from online_rank.cli.evaluate import DEFAULT_METRICS, Measuring, evaluate, evaluate_run
    from online_rank.cli.files import Reading, warnings_as_lines

    measuring = Measuring(metric or DEFAULT_METRICS, None if ties is None else ties.value, no_relevant.value)
    if trec:
        if len(files) != 1:
            raise typer.BadParameter("--trec takes a run and one file of judgements")
        with warnings_as_lines(_warn):
            evaluate_run(model, files[0], measuring, json)
        return
    reading = Reading(
        features,
        group_by_qid,
        negative.value,
        query,
        grade,
        _names(columns),
        _names(exclude),
        document,
        missing.value,
        event_time,
        strict,
    )
    with warnings_as_lines(_warn):
        evaluate(model, files, measuring, reading, json, quiet)


@app.command(cls=_Command)
def compare(
    context: typer.Context,
    a: Annotated[str, typer.Argument(metavar="A", help="A model that [bold]train --save[/bold] wrote.")],
    b: Annotated[str, typer.Argument(metavar="B", help="Another one.")],
    files: Files,
    measure: Measure = "ndcg@10",
    level: Annotated[float, typer.Option("--level", metavar="P", help="Confidence level, valid at any time.")] = 0.95,
    features: Features = None,
    group_by_qid: Grouped = False,
    negative: Negatives = Negative.error,
    query: QueryColumn = None,
    grade: GradeColumn = None,
    document: DocumentColumn = None,
    columns: Columns = None,
    exclude: Exclude = None,
    missing: MissingValues = Missing.error,
    event_time: TimeColumn = None,
    strict: Strict = False,
    clicks: Annotated[
        Origin | None,
        typer.Option(
            "--clicks",
            help="The file is a log of clicks, as for train: what would the models have earned? Its lists were in random order "
            "(shuffled), or have the probability of a document given those above (above) or, for --places 1, at its position "
            "(place).",
            **_OF_CLICKS,
        ),
    ] = None,
    position: PositionColumn = "position",
    click: ClickColumn = "click",
    event: Events = None,
    propensity: PropensityColumn = None,
    places: Annotated[
        int,
        typer.Option("--places", metavar="N", min=1, help="Positions whose gains count, discounted as in DCG.", **_OF_CLICKS),
    ] = 1,
    json: Json = False,
    quiet: NoBar = False,
) -> None:
    """Find which of two models ranks better on files, query by query, without learning from them.

    With --clicks: a log of lists of any ranker, and of the clicks on them, as train reads it.
    """
    given = {name for name in context.params if _is_given(context, name)}
    if clicks is not None:
        if other := sorted(given - _COMPARED_BY_CLICKS):
            raise typer.BadParameter(f"--{other[0].replace('_', '-')} does not go with --clicks")
        from online_rank.cli.compare_clicks import compare_clicks
        from online_rank.cli.files import warnings_as_lines

        log = _click_log(
            files, clicks.value, None, query=query, document=document, position=position, click=click, propensity=propensity,
            event_time=event_time, columns=columns, exclude=exclude, event=event,
        )  # fmt: skip
        with warnings_as_lines(_warn):
            compare_clicks([a, b], log, places, level, json, quiet)
        return
    if alone := sorted(given & {"position", "click", "event", "propensity", "places"}):
        raise typer.BadParameter(f"--{alone[0]} needs --clicks")
    from online_rank.cli.compare import compare
    from online_rank.cli.files import Reading, warnings_as_lines

    reading = Reading(
        features,
        group_by_qid,
        negative.value,
        query,
        grade,
        _names(columns),
        _names(exclude),
        document,
        missing.value,
        event_time,
        strict,
    )
    with warnings_as_lines(_warn):
        compare([a, b], files, measure, level, reading, json, quiet)


def _warn(message: str) -> None:
    print(f"online-rank: {message}", file=sys.stderr)


ServedModel = Annotated[
    str | None,
    typer.Argument(
        metavar="MODEL", help="A model that [bold]train --save[/bold] wrote, to begin with. [dim]Default: a new one.[/dim]"
    ),
]
NewKind = Annotated[
    Kind,
    typer.Option(
        "--ranker", help="Ranker of a new model. The blends take features of any scale: --scale and --log do not apply."
    ),
]
Clicks = Annotated[
    bool, typer.Option("--clicks", help="Begin with a new model that draws the list to show and learns from the clicks on it.")
]
Checkpoint = Annotated[
    str | None,
    typer.Option(
        "--checkpoint", metavar="DIR", help="Folder that keeps everything acknowledged; a restart continues from there."
    ),
]
Every = Annotated[int, typer.Option("--every", metavar="N", min=1, help="Changes between two checkpoints.")]
ReplaceModel = Annotated[
    bool,
    typer.Option("--replace-model", help="If the checkpoint began with another MODEL, continue with this one."),
]
MaxRequest = Annotated[int, typer.Option("--max-request", metavar="BYTES", min=1, help="Largest request, in bytes.")]
MaxPending = Annotated[int, typer.Option("--max-pending", metavar="N", min=1, help="Most queries waiting for feedback.")]
MaxAge = Annotated[
    int,
    typer.Option("--max-age", metavar="N", min=1, help="Number of further queries for which a query waits for its feedback."),
]
MaxPendingBytes = Annotated[
    int,
    typer.Option("--max-pending-bytes", metavar="BYTES", min=1, help="Memory for the queries waiting for feedback, in bytes."),
]

ClockSkew = Annotated[
    str,
    typer.Option(
        "--clock-skew", metavar="TIME", help="By how much the time of a request may be ahead of the clock; 400 beyond."
    ),
]

Challenger = Annotated[
    str | None,
    typer.Option("--challenger", metavar="MODEL", help="Compare this model with the one that serves, on the same traffic."),
]
PromoteAt = Annotated[
    float | None,
    typer.Option(
        "--promote-at", metavar="P", help="Let the challenger serve once it is better at this confidence, such as .95."
    ),
]
FeedbackWindow = Annotated[
    str | None,
    typer.Option(
        "--feedback-window",
        metavar="TIME",
        help="Gather feedback on a query for 90s, 30m, 12h or 7d, then learn it. [dim]Without it: from the first.[/dim]",
    ),
]
Event = Annotated[
    list[str] | None,
    typer.Option("--event", metavar="NAME=VALUE", help="What an event is worth: click=1; once for each kind. Needs a window."),
]
Totals = Annotated[Total, typer.Option("--total", help="Which events on a document count: the largest, or their sum.")]
UngradedDocuments = Annotated[
    Ungraded, typer.Option("--ungraded", help="Documents without feedback, where others have some: grade 0, or left out.")
]
UnansweredQueries = Annotated[
    Unanswered, typer.Option("--unanswered", help="Queries without feedback: forgotten, or learned as nothing relevant.")
]
Idle = Annotated[
    str | None,
    typer.Option("--idle", metavar="TIME", help="Let windows end by the clock where no request comes for so long."),
]
NullFeatures = Annotated[
    bool, typer.Option("--null-features", help="A feature that is null counts as missing; without it, it is refused.")
]

StrictFeatures = Annotated[
    bool,
    typer.Option("--strict", help="Refuse features that MODEL has not learned from; missing ones count as 0."),
]

LogFormat = Annotated[Lines, typer.Option("--log-format", help="Lines of the log on stderr: text, or one JSON object each.")]
LogLevel = Annotated[Level, typer.Option("--log-level", help="The least level of lines in the log.")]

#: Options for a new model; a saved MODEL has its own settings.
_OF_NEW = ("ranker", "clicks", "scale", "log")


@app.command(cls=_Command)
def stream(
    context: typer.Context,
    model: ServedModel = None,
    ranker: NewKind = Kind.perceptron,
    clicks: Clicks = False,
    measure: Measure = "ndcg@10",
    scale: Scaling = Scale.map,
    log: Log = False,
    checkpoint: Checkpoint = None,
    every: Every = 10_000,
    replace_model: ReplaceModel = False,
    save: Annotated[
        str | None, typer.Option("--save", metavar="MODEL", help="Write the model to this file at the end.")
    ] = None,
    max_request: MaxRequest = 1 << 22,
    max_pending: MaxPending = 10_000,
    max_age: MaxAge = 100_000,
    max_pending_bytes: MaxPendingBytes = 1 << 28,
    clock_skew: ClockSkew = "5m",
    challenger: Challenger = None,
    promote_at: PromoteAt = None,
    feedback_window: FeedbackWindow = None,
    event: Event = None,
    total: Totals = Total.largest,
    ungraded: UngradedDocuments = Ungraded.zero,
    unanswered: UnansweredQueries = Unanswered.skip,
    idle: Idle = None,
    null_features: NullFeatures = False,
    strict: StrictFeatures = False,
    log_format: LogFormat = Lines.text,
    log_level: LogLevel = Level.info,
) -> None:
    """Rank and learn by JSON lines on stdin and stdout, for programs in any language.

    With --clicks, or a model for clicks: {"id": "q1", "clicks": ["a"]} is learned, and rankings are drawn to be learned from.

    {"id": "q1", "docs": {"a": {"clicks": 3}, "b": {"clicks": 1}}} is answered by a ranking with scores.

    {"id": "q1", "grades": {"a": 0, "b": 2}} is learned, any time later.

    With --feedback-window, {"id": "q1", "event": "click", "doc": "a"} and grades of some documents are gathered.

    {"cmd": "stats"} returns counts and figures, {"cmd": "save"} writes the checkpoint and the model.
    """
    from online_rank.arguments import seconds_of
    from online_rank.cli.logs import log_to_stderr
    from online_rank.cli.service import Beginning, Feedback, Pending, Places, maker, run

    log_to_stderr(log_format.value, log_level.value)
    _require_for_new(context, model)
    if replace_model and model is None:
        raise typer.BadParameter("--replace-model needs a MODEL")
    if feedback_window is None and idle is not None:
        raise typer.BadParameter("--idle needs a --feedback-window")
    beginning = Beginning(model, measure, ranker.value, clicks, scale.value, log, challenger, promote_at, strict)
    feedback = Feedback(feedback_window, event or (), total.value, ungraded.value, unanswered.value, null_features)
    limits = Pending(max_pending, max_age, max_pending_bytes, seconds_of(clock_skew, "--clock-skew"))
    make = maker(beginning, limits, feedback)
    seconds = None if idle is None else seconds_of(idle, "--idle")
    run(make(), Places(checkpoint, every, save, max_request, replace_model, seconds))


@app.command(cls=_Command)
def serve(
    context: typer.Context,
    model: ServedModel = None,
    ranker: NewKind = Kind.perceptron,
    clicks: Clicks = False,
    measure: Measure = "ndcg@10",
    scale: Scaling = Scale.map,
    log: Log = False,
    checkpoint: Checkpoint = None,
    every: Every = 10_000,
    replace_model: ReplaceModel = False,
    host: Annotated[str, typer.Option("--host", metavar="ADDRESS", help="Address to listen on.")] = "127.0.0.1",
    port: Annotated[int, typer.Option("--port", metavar="N", min=0, max=65535, help="0: any free port.")] = 8000,
    key: Annotated[
        str | None,
        typer.Option("--key", metavar="NAME", help="One model for each value of this query parameter: POST /rank?NAME=shop."),
    ] = None,
    max_models: Annotated[
        int, typer.Option("--max-models", metavar="N", min=1, help="Most models in memory, with --key.")
    ] = 100,
    max_keys: Annotated[int, typer.Option("--max-keys", metavar="N", min=1, help="Most models at all, with --key.")] = 100_000,
    max_bytes: Annotated[
        int | None,
        typer.Option("--max-bytes", metavar="BYTES", min=1, help="Size of all models from which no more keys are taken."),
    ] = None,
    key_ttl: Annotated[
        str | None,
        typer.Option("--key-ttl", metavar="TIME", help="Delete a key if no request named it for so long: 90d."),
    ] = None,
    max_request: MaxRequest = 1 << 22,
    max_pending: MaxPending = 10_000,
    max_age: MaxAge = 100_000,
    max_pending_bytes: MaxPendingBytes = 1 << 28,
    clock_skew: ClockSkew = "5m",
    challenger: Challenger = None,
    promote_at: PromoteAt = None,
    feedback_window: FeedbackWindow = None,
    event: Event = None,
    total: Totals = Total.largest,
    ungraded: UngradedDocuments = Ungraded.zero,
    unanswered: UnansweredQueries = Unanswered.skip,
    idle: Idle = None,
    null_features: NullFeatures = False,
    strict: StrictFeatures = False,
    log_format: LogFormat = Lines.text,
    log_level: LogLevel = Level.info,
) -> None:
    """Rank and learn over HTTP, with a live page and metrics (extra 'serve').

    POST /rank {"id": "q1", "docs": {"a": {"clicks": 3}, "b": {"clicks": 1}}} is answered by a ranking with scores.

    POST /learn {"id": "q1", "grades": {"a": 0, "b": 2}} is learned, any time later.

    / is a page, /docs describes the rest. With ONLINE_RANK_TOKEN in the environment clients must send it as a bearer token.
    """
    from online_rank.arguments import seconds_of
    from online_rank.cli.logs import log_to_stderr
    from online_rank.cli.serve import Place
    from online_rank.cli.serve import serve as listen
    from online_rank.cli.service import Beginning, Feedback, Pending, maker

    log_to_stderr(log_format.value, log_level.value)
    _require_for_new(context, model)
    if replace_model and model is None:
        raise typer.BadParameter("--replace-model needs a MODEL")
    if feedback_window is None and idle is not None:
        raise typer.BadParameter("--idle needs a --feedback-window")
    beginning = Beginning(model, measure, ranker.value, clicks, scale.value, log, challenger, promote_at, strict)
    feedback = Feedback(feedback_window, event or (), total.value, ungraded.value, unanswered.value, null_features)
    limits = Pending(max_pending, max_age, max_pending_bytes, seconds_of(clock_skew, "--clock-skew"))
    make = maker(beginning, limits, feedback)
    seconds = None if idle is None else seconds_of(idle, "--idle")
    if key is None and any(_is_given(context, name) for name in ("max_models", "max_keys", "max_bytes", "key_ttl")):
        raise typer.BadParameter("--max-models, --max-keys, --max-bytes and --key-ttl need --key")
    ttl = None if key_ttl is None else seconds_of(key_ttl, "--key-ttl")
    listen(
        make,
        Place(
            host,
            port,
            checkpoint,
            every,
            key,
            max_models,
            max_request,
            replace_model,
            seconds,
            max_keys,
            max_bytes,
            ttl,
        ),
    )


def _click_log(
    files: list[str], origin: str, topic: str | None, *, query: str | None, document: str | None, event: list[str] | None,
    columns: list[str] | None, exclude: list[str] | None, **others: Any,
) -> Any:  # fmt: skip
    """A log of clicks, by the options that name its columns."""
    from online_rank.cli.click_log import ClickLog
    from online_rank.cli.events import events_of

    named = {"query": query or "query", "document": document or "document", "events": events_of(event) if event else None}
    features = {"features": _names(columns), "exclude": _names(exclude) or ()}
    return ClickLog(files, origin, {**named, **features, **others}, topic)


def _is_given(context: typer.Context, name: str) -> bool:
    """Whether an option was given, rather than left at its default."""
    return getattr(context.get_parameter_source(name), "name", "DEFAULT") != "DEFAULT"


@app.command(cls=_Command)
def forget(
    folder: Annotated[str, typer.Argument(metavar="DIR", help="The --checkpoint folder of a service that does not run.")],
    id: Annotated[list[str] | None, typer.Option("--id", metavar="ID", help="A query; may be repeated.")] = None,
    context: Annotated[
        str | None,
        typer.Option("--context", metavar="NAME=VALUE", help="Queries with this context, and features made of it: user=u17."),
    ] = None,
    document: Annotated[
        str | None, typer.Option("--document", metavar="ID", help="A document: queries that have it, and feedback on it.")
    ] = None,
) -> None:
    """Forget queries, and what was learned of their context, in the folder of a service.

    Nothing of it is left in the files: waiting queries, learned ids, the journal, names of features. A running service takes
    POST /forget.
    """
    from online_rank.cli.service import forget as forget_in

    if not id and context is None and document is None:
        raise typer.BadParameter("give --id, --context or --document")
    forget_in(folder, id or [], context, document)


@app.command(cls=_Command)
def repair(
    folder: Annotated[str, typer.Argument(metavar="DIR", help="The --checkpoint folder of a service that does not run.")],
) -> None:
    """Set times that lie ahead of the clock back to it, in the folder of a service.

    A clock that was wrong leaves them: until the clock has reached them, feedback is late, and models do not fade. GET /readyz
    reports them. Look at the clock of this machine first.
    """
    from online_rank.cli.service import repair as repair_in

    repair_in(folder)


def _require_for_new(context: typer.Context, model: str | None) -> None:
    """Raise a usage error for options of a new model beside a MODEL, which would not apply."""
    for name in _OF_NEW if model is not None else ():
        if _is_given(context, name):
            raise typer.BadParameter(f"--{name} is for a new model; {model} has its own")
