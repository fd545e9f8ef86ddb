"""`online-rank grades`."""

from enum import StrEnum
from typing import Annotated

from online_rank.cli.declaring import value
from online_rank.cli.options import Clicks, Files, Histories, Json
from online_rank.cli.reading import Reading, warned_on_stderr

#: From which row of a pair its features are taken.
Row = StrEnum("Row", ["last"])
_CAP = "Lists that count for one {}, the first ones; COLUMN={} without it."


def grades(
    files: Files,
    log: Annotated[Clicks, [name for name in Clicks._fields if name not in ("clicks", "propensity", "shown_on")]],
    reading: Annotated[Reading, ("query", "document", "dry_run", "skip_bad", "event_time", "exclude")],
    row: Annotated[
        Row | None,
        value(
            "last",
            "Add the features of each pair, from its last row; the table then has these and grades alone, to train on.",
            "--features",
        ),
    ] = None,
    history: Histories = None,
    out: Annotated[str | None, value("FILE", "Write the judgements to this table (csv or parquet).")] = None,
    per_session: Annotated[str | None, value("[COLUMN=]N", _CAP.format("session", "session"))] = None,
    per_user: Annotated[str | None, value("[COLUMN=]N", _CAP.format("user", "user"))] = None,
    json: Json = False,
) -> None:
    """Make grades from a log of clicks: clicks over expected clicks for each query text and document.

    A table with the columns query, document, position and click, under these or other names, and --topic, the text of the
    query; or the files of UBI.
    """
    from online_rank.cli.click_log import read_as
    from online_rank.cli.grades import run

    with warned_on_stderr():
        caps = {"session": per_session, "user": per_user}
        run(read_as(files, log, reading), out, caps, json, row is not None, history)
