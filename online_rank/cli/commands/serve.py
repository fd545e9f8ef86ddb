"""`online-rank serve`."""

from enum import StrEnum
from typing import Annotated

import typer

from online_rank.cli.declaring import is_given, value
from online_rank.cli.options import Place, Service

#: What lines of the log are, and their levels.
Lines = StrEnum("Lines", ["text", "json"])
Level = StrEnum("Level", ["debug", "info", "warning", "error"])


def serve(
    context: typer.Context,
    place: Place,
    from_today: Annotated[
        str | None,
        value(
            "FIELD",
            "Rank by this feature (-FIELD: less is better), and learn from clicks on lists drawn around that, until the "
            "model is better.",
        ),
    ] = None,
    keep: Annotated[
        float | None, value("SHARE", "With --from-today: the least share of today's DCG that users see. .98")
    ] = None,
    log_format: Annotated[Lines, value(None, "Lines of the log on stderr: text, or one JSON object each.")] = Lines.text,
    log_level: Annotated[Level, value(None, "The least level of lines in the log.")] = Level.info,
) -> None:
    """Rank and learn over HTTP, with a live page and metrics (extra 'serve').

    POST /rank {"id": "q1", "docs": {"a": {"clicks": 3}, "b": {"clicks": 1}}} is answered by a ranking with scores.

    POST /learn {"id": "q1", "grades": {"a": 0, "b": 2}} is learned, any time later.

    / is a page, /docs describes the rest. With ONLINE_RANK_TOKEN in the environment clients must send it as a bearer token.
    """
    from online_rank.cli.logs import log_to_stderr
    from online_rank.cli.serve import serve as listen
    from online_rank.cli.service import check, maker
    from online_rank.serving.trace import add_trace
    from online_rank.storage.postgres import is_postgres

    log_to_stderr(log_format, log_level, of_request=add_trace)
    service = place.service
    check(context, service)
    if from_today is not None and service.challenger is not None:
        raise typer.BadParameter("--from-today has a challenger: the model that learns")
    if from_today is not None and not from_today.removeprefix("-"):
        raise typer.BadParameter(f"--from-today is {from_today!r}; it is the name of a feature")
    if from_today is not None and is_given(context, "ranker"):
        raise typer.BadParameter("--from-today has a ranker for clicks around the ranking of today; leave out --ranker")
    if keep is not None and from_today is None:
        raise typer.BadParameter("--keep needs --from-today: without a ranking of today there is nothing to keep")
    if place.idle is not None and service.feedback_window is None:
        raise typer.BadParameter("--idle needs a --feedback-window")
    if place.reads_from is not None:
        of_learner = [name for name in (*Service._fields, "idle", "snapshots", "readers") if is_given(context, name)]
        if of_learner:
            raise typer.BadParameter(f"--{of_learner[0].replace('_', '-')} is for the learner; a reader only ranks")
    elif place.cache is not None and (place.service.checkpoint is None or place.key is not None):
        raise typer.BadParameter("--cache is for a reader (--reads-from), or for a single model that has a --checkpoint")
    if place.key is None and any(is_given(context, name) for name in ("max_models", "max_keys", "max_bytes", "key_ttl")):
        raise typer.BadParameter("--max-models, --max-keys, --max-bytes and --key-ttl need --key")

    if place.key is not None and is_postgres(service.checkpoint):
        raise typer.BadParameter("--key needs a folder as --checkpoint: a PostgreSQL database holds one model")
    if place.snapshots and service.checkpoint is None:
        raise typer.BadParameter("--snapshots needs a --checkpoint")
    _ = place.seconds  # Times that cannot be read are errors before anything is opened.
    listen(maker(service, from_today, 0.98 if keep is None else keep), place)
