"""`online-rank serve`."""

from enum import StrEnum
from typing import Annotated

import typer

from online_rank.cli.declaring import is_given, value
from online_rank.cli.options import Service

#: What lines of the log are, and their levels.
Lines = StrEnum("Lines", ["text", "json"])
Level = StrEnum("Level", ["debug", "info", "warning", "error"])


def serve(
    context: typer.Context,
    service: Service,
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
    idle: Annotated[str | None, value("TIME", "End windows by the clock if no request comes for this time.")] = None,
    host: Annotated[str, value("ADDRESS", "Address to listen on.")] = "127.0.0.1",
    port: Annotated[int, value("N", "0: any free port.", min=0, max=65535)] = 8000,
    max_request: Annotated[int, value("BYTES", "Largest request, in bytes.", min=1)] = 1 << 22,
    key: Annotated[str | None, value("NAME", "One model for each value of this query parameter: POST /rank?NAME=shop.")] = None,
    max_models: Annotated[int, value("N", "Most models in memory, with --key.", min=1)] = 100,
    max_keys: Annotated[int, value("N", "Most keys, with --key.", min=1)] = 100_000,
    max_bytes: Annotated[int | None, value("BYTES", "Refuse new keys once all models together are larger.", min=1)] = None,
    key_ttl: Annotated[str | None, value("TIME", "Delete a key if no request named it for this time: 90d.")] = None,
    snapshots: Annotated[
        int, value("N", "Keep the model of the beginning of each of the last N days, to roll back to.", min=0)
    ] = 0,
    tokens: Annotated[str | None, value("FILE", "Tokens of clients: on each line rank, learn or admin, and a token.")] = None,
    reads_from: Annotated[str | None, value("URL", "Be a reader: rank with the model of this server, which learns.")] = None,
    cache: Annotated[str | None, value("DIR", "Keeps the model, so that a reader starts while its learner is away.")] = None,
    readers: Annotated[int, value("N", "Start N readers of this server next to it, on its port.", min=0)] = 0,
    log_format: Annotated[Lines, value(None, "Lines of the log on stderr: text, or one JSON object each.")] = Lines.text,
    log_level: Annotated[Level, value(None, "The least level of lines in the log.")] = Level.info,
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
    from online_rank.cli.service import check, maker
    from online_rank.storage.postgres import is_postgres

    log_to_stderr(log_format, log_level)
    check(context, service)
    if from_today is not None and service.challenger is not None:
        raise typer.BadParameter("--from-today has a challenger: the model that learns")
    if from_today is not None and not from_today.removeprefix("-"):
        raise typer.BadParameter(f"--from-today is {from_today!r}; it is the name of a feature")
    if from_today is not None and is_given(context, "ranker"):
        raise typer.BadParameter("--from-today has a ranker for clicks around the ranking of today; leave out --ranker")
    if keep is not None and from_today is None:
        raise typer.BadParameter("--keep needs --from-today: without a ranking of today there is nothing to keep")
    if idle is not None and service.feedback_window is None:
        raise typer.BadParameter("--idle needs a --feedback-window")
    if reads_from is not None:
        of_learner = [name for name in (*Service._fields, "idle", "snapshots", "readers") if is_given(context, name)]
        if of_learner:
            raise typer.BadParameter(f"--{of_learner[0].replace('_', '-')} is for the learner; a reader only ranks")
    elif cache is not None:
        raise typer.BadParameter("--cache is for a reader: it needs --reads-from")
    if key is None and any(is_given(context, name) for name in ("max_models", "max_keys", "max_bytes", "key_ttl")):
        raise typer.BadParameter("--max-models, --max-keys, --max-bytes and --key-ttl need --key")

    if key is not None and is_postgres(service.checkpoint):
        raise typer.BadParameter("--key needs a folder as --checkpoint: a PostgreSQL database holds one model")
    if snapshots and service.checkpoint is None:
        raise typer.BadParameter("--snapshots needs a --checkpoint")

    def seconds(option: str, given: str | None) -> float | None:
        return None if given is None else seconds_of(given, option)

    place = Place(
        host, port, service.checkpoint, service.every, key, max_models, max_request, service.replace_model,
        seconds("--idle", idle), max_keys, max_bytes, seconds("--key-ttl", key_ttl), snapshots,
        seconds_of(service.remember, "--remember"), tokens, reads_from, cache, readers,
    )  # fmt: skip
    listen(maker(service, from_today, 0.98 if keep is None else keep), place)
