"""`online-rank stream`."""

from typing import Annotated

import typer

from online_rank.cli.declaring import value
from online_rank.cli.options import Service

#: What one process on a pipe needs of the options of a service.
_OPTIONS = (
    "model", "ranker", "measure", "history", "tastes", "checkpoint", "every", "replace_model", "wait", "feedback_window",
    "event", "examination", "reference",
)  # fmt: skip


def stream(
    context: typer.Context,
    service: Annotated[Service, _OPTIONS],
    save: Annotated[str | None, value("MODEL", "Write the model to this file.")] = None,
) -> None:
    """Rank and learn by JSON lines on stdin and stdout, for programs in any language.

    {"id": "q1", "docs": {"a": {"clicks": 3}, "b": {"clicks": 1}}} is answered by a ranking with scores.

    {"id": "q1", "grades": {"a": 0, "b": 2}} is learned, any time later.

    With --ranker swap, or a model for clicks: {"id": "q1", "clicks": ["a"]} is learned, and lists are drawn to learn from.

    With --feedback-window, {"id": "q1", "event": "click", "doc": "a"} and grades of some documents are gathered.

    {"cmd": "stats"} returns counts and figures, {"cmd": "save"} writes the checkpoint and the model.
    """
    from online_rank.cli.logs import log_to_stderr
    from online_rank.cli.service import check, maker
    from online_rank.cli.stream import run
    from online_rank.serving.trace import add_trace

    log_to_stderr(of_request=add_trace)
    check(context, service)
    run(maker(service)(), service, save)
