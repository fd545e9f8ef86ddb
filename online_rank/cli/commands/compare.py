"""`online-rank compare`."""

from typing import Annotated

import typer

from online_rank.cli.declaring import refuse_others
from online_rank.cli.options import Files, Json, Measure, OfChance, refuse_without_clicks
from online_rank.cli.reading import ToCompare, warned_on_stderr

#: What applies to a log of clicks.
_WITH_CLICKS = {
    "a", "b", "files", "clicks", "query", "document", "click", "position", "propensity", "event", "feedback_window",
    "event_time", "skip_bad", "dry_run", "json",
}  # fmt: skip


def compare(
    context: typer.Context,
    a: Annotated[str, typer.Argument(metavar="A", help="A model that [bold]train --save[/bold] wrote.")],
    b: Annotated[str, typer.Argument(metavar="B", help="Another one.")],
    files: Files,
    reading: ToCompare,
    log: OfChance,
    measure: Measure = "ndcg@10",
    json: Json = False,
) -> None:
    """Find which of two models ranks better on files, query by query, without learning from them.

    With --clicks: what would the models have earned on a log of lists of any ranker, as train reads it?
    """
    if log.clicks is not None:
        from online_rank.cli.click_log import read_as
        from online_rank.cli.compare_clicks import compare_clicks

        refuse_others(context, _WITH_CLICKS, "--clicks")
        with warned_on_stderr():
            compare_clicks([a, b], read_as(files, log, reading), json)
        return
    refuse_without_clicks(context)
    from online_rank.cli.compare import compare as compare_files

    with warned_on_stderr():
        compare_files([a, b], files, measure, reading, json)
