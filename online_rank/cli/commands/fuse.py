"""`online-rank fuse`."""

from typing import Annotated

import typer

from online_rank.cli.declaring import is_given, value
from online_rank.cli.options import Clicks, Fusion, Json, LogOrigin, Written
from online_rank.cli.reading import Reading, look_at_runs, warned_on_stderr

#: The options of a log of clicks.
_OF_LOG = "click", "position", "propensity", "event", "feedback_window", "topic", "query", "document", "skip_bad", "event_time"


def fuse(
    context: typer.Context,
    files: Annotated[list[str], typer.Argument(metavar="RUN", help="TREC runs of at least two retrievers.")],
    settings: Fusion,
    written: Written,
    qrels: Annotated[str | None, value("FILE", "Judgements: qid 0 docid grade.")] = None,
    click_log: Annotated[
        str | None,
        value("FILE", "A table of clicks instead: list (--query), query (--topic), document, position, click."),
    ] = None,
    clicks: LogOrigin = None,
    log: Annotated[Clicks, ("click", "position", "propensity", "event", "feedback_window", "topic")] = Clicks(),  # noqa: B008
    reading: Annotated[Reading, ("query", "document", "dry_run", "skip_bad", "event_time")] = Reading(),  # noqa: B008
    json: Json = False,
) -> None:
    """Fuse the runs of several retrievers, and say what learning adds to reciprocal rank fusion and to min-max scores.

    Each query is ranked by what the queries before it have taught, and then learned: nothing is held out.

    With --click-log: learn from lists that were shown, and compare with today's rule off-policy, on the same lists.
    """
    from online_rank.cli.fuse import fuse as run

    if (qrels is None) == (click_log is None):
        raise typer.BadParameter("give --qrels, or --click-log")
    if (click_log is None) != (clicks is None):
        raise typer.BadParameter("--click-log and --clicks go together: the log, and how its lists came about")
    if click_log is None and (others := [name for name in _OF_LOG if is_given(context, name)]):
        raise typer.BadParameter(f"--{others[0].replace('_', '-')} needs --click-log")
    with warned_on_stderr():
        if reading.dry_run and qrels is not None:
            look_at_runs(files, qrels)
        if qrels is not None:
            run(files, qrels, settings, written, json)
            return
        from online_rank.cli.fuse_clicks import fuse_clicks

        fuse_clicks(files, str(click_log), log._replace(clicks=clicks), reading, settings, written, json)
