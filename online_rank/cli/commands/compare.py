"""`online-rank compare`."""

from typing import Annotated

import typer

from online_rank.cli.declaring import is_given, refuse_others, value
from online_rank.cli.options import OF_CLICKS, Clicks, Files, Json, Measure
from online_rank.cli.reading import ToMeasure, warned_on_stderr

#: What applies to a log of clicks.
_WITH_CLICKS = {"a", "b", "files", "clicks", "query", "document", "event", "exclude", "skip_bad", "dry_run", "places", "json"}


def compare(
    context: typer.Context,
    a: Annotated[str, typer.Argument(metavar="A", help="A model that [bold]train --save[/bold] wrote.")],
    b: Annotated[str, typer.Argument(metavar="B", help="Another one.")],
    files: Files,
    reading: ToMeasure,
    log: Clicks,
    measure: Measure = "ndcg@10",
    places: Annotated[int, value("N", "Positions whose gains count, discounted as in DCG.", min=1, **OF_CLICKS)] = 1,
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
            compare_clicks([a, b], read_as(files, log, reading), places, json)
        return
    if log.event or is_given(context, "places"):
        raise typer.BadParameter(f"--{'event' if log.event else 'places'} needs --clicks")
    from online_rank.cli.compare import compare as compare_files

    with warned_on_stderr():
        compare_files([a, b], files, measure, reading, json)
