"""`online-rank train`."""

from typing import Annotated

import typer

from online_rank.cli.declaring import refuse_others, value
from online_rank.cli.options import OF_CLICKS, Checkpoints, Clicks, Output, Training

#: What applies to a log of clicks.
_WITH_CLICKS = {
    "files", "clicks", "query", "document", "event", "topic", "features", "exclude", "event_time", "save", "json",
    "quiet", "test", "sign", "report", "strict", "dry_run", "skip_bad",
}  # fmt: skip


def train(
    context: typer.Context,
    training: Training,
    log: Clicks,
    checkpoints: Checkpoints,
    output: Output,
    workers: Annotated[int | None, value("N", "Number of processes that share the shards (extra 'dask').", min=1)] = None,
    topic: Annotated[
        str | None, value("COLUMN", "With --clicks moved: the column that identifies the query text.", **OF_CLICKS)
    ] = None,
) -> None:
    """Learn from files, one query at a time; each query is a test before it is learned.

    A line of a file is a document: grade qid:ID feature:value ... # docid = NAME

    With --clicks: a table with the columns query, document, position and click, and propensity for above and place.
    """
    from online_rank.cli.settings import Settings

    settings = Settings.of(training)
    if log.clicks is not None:
        from online_rank.cli.click_log import learn, read_as

        refuse_others(context, _WITH_CLICKS, "--clicks")
        learn(read_as(settings.files, log, settings.reading, topic), settings, output)
        return
    if topic is not None or log.event:
        raise typer.BadParameter(f"--{'event' if log.event else 'topic'} needs --clicks")
    from online_rank.cli import train as graded

    graded.run(settings, checkpoints, output, workers)
