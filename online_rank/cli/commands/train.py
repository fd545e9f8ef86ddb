"""`online-rank train`."""

from enum import StrEnum
from typing import Annotated

import typer

from online_rank.cli.options import (
    OF_CLICKS,
    Clicks,
    Every,
    Grades,
    Json,
    Measure,
    Queries,
    Save,
    Scale,
    Scaling,
    is_given,
    names,
)

__all__ = ["train"]

#: The ranker to train.
Kind = StrEnum("Kind", {"perceptron": "perceptron", "blend": "blend", "light_blend": "light-blend"})

#: What applies to a log of clicks.
_WITH_CLICKS = {
    "files", "clicks", "query", "document", "event", "topic", "features", "exclude", "event_time", "scale", "save", "json",
    "quiet",
}  # fmt: skip


def train(
    context: typer.Context,
    reading: Queries,
    grades: Grades,
    log: Clicks,
    files: Annotated[
        list[str] | None,
        typer.Argument(
            metavar="FILE",
            help="LETOR / svmlight text, plain or gzip, [bold]-[/bold] is standard input; or tables. A run continues without.",
        ),
    ] = None,
    test: Annotated[list[str] | None, typer.Option("--test", metavar="FILE", help="Held-out queries; may be repeated.")] = None,
    measure: Measure = "ndcg@10",
    passes: Annotated[int, typer.Option("--passes", metavar="N", min=1, help="Number of passes over the files.")] = 1,
    ranker: Annotated[
        Kind,
        typer.Option("--ranker", help="The ranker to train. The blends take features of any scale: --scale has no effect."),
    ] = Kind.perceptron,
    scale: Scaling = Scale.map,
    sign: Annotated[
        list[str] | None,
        typer.Option(
            "--sign",
            metavar="NAME=SIGN",
            help="Keep the weight of a feature at or above 0 (NAME=+) or at or below 0 (NAME=-); may be repeated.",
        ),
    ] = None,
    shuffle: Annotated[
        int | None,
        typer.Option("--shuffle", metavar="SEED", min=0, help="Shuffle the queries by this seed, in a buffer of 2,048."),
    ] = None,
    features: Annotated[
        list[str] | None,
        typer.Option(
            "--features",
            metavar="NAMES",
            help="The columns of a table that are features, separated by commas; may be repeated. "
            "[dim]Default: all numeric columns.[/dim]",
        ),
    ] = None,
    event_time: Annotated[
        str | None,
        typer.Option(
            "--event-time", metavar="COLUMN", help="The column of a table with times; queries must come in their order."
        ),
    ] = None,
    save: Save = None,
    report: Annotated[
        str | None, typer.Option("--report", metavar="DIR", help="Write a page about the run, DIR/index.html (extra 'plot').")
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
        typer.Option("--checkpoint", metavar="DIR", help="Folder that keeps the run; the same command continues from there."),
    ] = None,
    every: Every = 1000,
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
    dry_run: Annotated[
        bool,
        typer.Option("--dry-run", help="Print how each column of a table is used, with types and ranges; learn nothing."),
    ] = False,
    topic: Annotated[
        str | None,
        typer.Option(
            "--topic", metavar="COLUMN", help="For moved: what was asked, if documents answer several questions.", **OF_CLICKS
        ),
    ] = None,
    json: Json = False,
    quiet: Annotated[bool, typer.Option("--quiet", "-q", help="Print nothing but errors.")] = False,
) -> None:
    """Learn from files, one query at a time; each query is a test before it is learned.

    A line of a file is a document: grade qid:ID feature:value ... # docid = NAME

    Instead of files: synthetic:separable or synthetic:noisy (--scale none --certify then compares with the teacher).

    With --clicks: a table with the columns query, document, position and click, and propensity for above and place.
    """
    from online_rank.cli.train import Checkpoints, Output, run

    output = Output(save, report, json, quiet)
    if log.clicks is not None:
        from online_rank.cli.click_log import learn, read_as

        if others := sorted(name for name in context.params if is_given(context, name) and name not in _WITH_CLICKS):
            raise typer.BadParameter(f"--{others[0].replace('_', '-')} does not go with --clicks")
        learn(read_as(files or [], log, reading, topic, features=names(features), event_time=event_time), scale, output)
        return
    if topic is not None or log.event:
        raise typer.BadParameter(f"--{'event' if log.event else 'topic'} needs --clicks")
    from online_rank.cli.dry_run import look
    from online_rank.cli.settings import Settings, signs_of

    settings = Settings(
        files or [], test or [], measure, passes, scale, shuffle,
        reading.reading(grades, features=names(features), event_time=event_time), certify, ranker, shards, rounds,
        signs_of(sign),
    )  # fmt: skip
    if dry_run:
        look(settings, json)
    else:
        run(settings, Checkpoints(checkpoint, every), output, workers)
