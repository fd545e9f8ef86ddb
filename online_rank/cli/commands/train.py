"""`online-rank train`."""

import typer

from online_rank.cli.declaring import is_given, refuse_others
from online_rank.cli.options import Checkpoints, Clicks, Output, Training, refuse_without_clicks

#: What applies to a log of clicks.
_WITH_CLICKS = {
    "files", "clicks", "query", "document", "click", "position", "propensity", "event", "feedback_window", "topic", "hits",
    "clicked", "examination", "shown_on",
    "features", "exclude", "event_time", "ranker", "save", "json", "quiet", "test", "sign", "report", "strict",
    "dry_run", "skip_bad", "passes", "history",
}  # fmt: skip


def train(
    context: typer.Context,
    training: Training,
    log: Clicks,
    checkpoints: Checkpoints,
    output: Output,
) -> None:
    """Learn from files, one query at a time; each query is a test before it is learned.

    A line of a file is a document: grade qid:ID feature:value ... # docid = NAME

    With --clicks: a table with the columns query, document, position and click, and propensity for above and place, under
    these or other names; its rows are documents, or events on them. Or the files of UBI, queries and events.
    """
    from online_rank.cli.settings import Settings

    settings = Settings.of(training)
    if log.clicks is not None:
        from online_rank.cli.train_clicks import learn

        refuse_others(context, _WITH_CLICKS, "--clicks")
        learn(log, settings, output, settings.ranker if is_given(context, "ranker") else None)
        return
    refuse_without_clicks(context)
    from online_rank.cli import train as graded

    graded.run(settings, checkpoints, output)
