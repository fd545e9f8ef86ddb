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
    flag,
    is_given,
    names,
    value,
)

__all__ = ["train"]

#: The ranker to train.
Kind = StrEnum("Kind", {"perceptron": "perceptron", "blend": "blend", "light_blend": "light-blend"})

#: What applies to a log of clicks.
_WITH_CLICKS = {
    "files", "clicks", "query", "document", "event", "topic", "features", "exclude", "event_time", "scale", "save", "json",
    "quiet", "test", "missing", "sign", "report", "strict", "dry_run",
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
    test: Annotated[list[str] | None, value("FILE", "Held-out queries; may be repeated.")] = None,
    measure: Measure = "ndcg@10",
    passes: Annotated[int, value("N", "Number of passes over the files.", min=1)] = 1,
    ranker: Annotated[
        Kind, value(None, "The ranker to train. The blends take features of any scale: --scale has no effect.")
    ] = Kind.perceptron,
    scale: Scaling = Scale.map,
    sign: Annotated[
        list[str] | None,
        value("NAME=SIGN", "Keep the weight of a feature at or above 0 (NAME=+) or at or below 0 (NAME=-); may be repeated."),
    ] = None,
    shuffle: Annotated[int | None, value("SEED", "Shuffle the queries by this seed, in a buffer of 2,048.", min=0)] = None,
    features: Annotated[
        list[str] | None,
        value(
            "NAMES",
            "The columns of a table that are features, separated by commas; may be repeated. "
            "[dim]Default: all numeric columns.[/dim]",
        ),
    ] = None,
    event_time: Annotated[
        str | None, value("COLUMN", "The column of a table with times; queries must come in their order.")
    ] = None,
    save: Save = None,
    report: Annotated[str | None, value("DIR", "Write a page about the run, DIR/index.html (extra 'plot').")] = None,
    certify: Annotated[bool, flag("--certify", "Certify the loss, against the best weights in hindsight.")] = False,
    checkpoint: Annotated[str | None, value("DIR", "Folder that keeps the run; the same command continues from there.")] = None,
    every: Every = 1000,
    shards: Annotated[
        int | None, value("N", "Number of copies of the model that learn parts of the files and are mixed.", min=1)
    ] = None,
    rounds: Annotated[int, value("N", "Number of mixings per pass, with --shards.", min=1)] = 1,
    workers: Annotated[int | None, value("N", "Number of processes that share the shards (extra 'dask').", min=1)] = None,
    dry_run: Annotated[
        bool, flag("--dry-run", "Print how each column of a table is used, with types and ranges; learn nothing.")
    ] = False,
    topic: Annotated[
        str | None, value("COLUMN", "For moved: what was asked, if documents answer several questions.", **OF_CLICKS)
    ] = None,
    json: Json = False,
    quiet: Annotated[bool, flag("--quiet -q", "Print nothing but errors.")] = False,
) -> None:
    """Learn from files, one query at a time; each query is a test before it is learned.

    A line of a file is a document: grade qid:ID feature:value ... # docid = NAME

    With --clicks: a table with the columns query, document, position and click, and propensity for above and place.
    """
    from online_rank.cli import train as training
    from online_rank.cli.settings import Settings, signs_of

    output = training.Output(save, report, json, quiet)
    read = reading.reading(grades, features=names(features), event_time=event_time)
    if log.clicks is not None:
        from online_rank.cli.click_log import Teaching, learn, read_as

        if others := sorted(name for name in context.params if is_given(context, name) and name not in _WITH_CLICKS):
            raise typer.BadParameter(f"--{others[0].replace('_', '-')} does not go with --clicks")
        learn(read_as(files or [], log, read, topic), Teaching(scale, test or (), signs_of(sign)), output, dry_run)
        return
    if topic is not None or log.event:
        raise typer.BadParameter(f"--{'event' if log.event else 'topic'} needs --clicks")
    settings = Settings(
        files or [], test or [], measure, passes, scale, shuffle, read, certify, ranker, shards, rounds, signs_of(sign)
    )
    if dry_run:
        training.dry_run(settings, json)
    else:
        training.run(settings, training.Checkpoints(checkpoint, every), output, workers)
