"""Log lines of services: text or JSON on stderr, with levels."""

import json
import logging
import sys
import time
from collections.abc import Callable
from typing import Any

_log = logging.getLogger("online_rank")


class _Lines(logging.Formatter):
    """Lines such as `online-rank: message`, with the level of warnings and errors."""

    def format(self, record: logging.LogRecord) -> str:
        """The line of a record."""
        level = "" if record.levelno < logging.WARNING else f"{record.levelname.lower()}: "
        return f"online-rank: {level}{_message(self, record)}"


class _Json(logging.Formatter):
    """One JSON object a line: time (UTC), level, logger, message, and the ids of the request that was answered."""

    def format(self, record: logging.LogRecord) -> str:
        """The line of a record."""
        at = time.strftime("%Y-%m-%dT%H:%M:%S", time.gmtime(record.created))
        fields = {
            "time": f"{at}.{int(record.msecs):03d}Z",
            "level": record.levelname.lower(),
            "logger": record.name,
            "message": _message(self, record),
            **{name: value for name in ("request_id", "trace_id") if (value := getattr(record, name, None))},
        }
        return json.dumps(fields, ensure_ascii=False)


class _Stderr(logging.StreamHandler):
    """Writes to the present `sys.stderr`."""

    def __init__(self) -> None:
        logging.Handler.__init__(self)

    @property
    def stream(self) -> Any:
        """The stream."""
        return sys.stderr


def _message(formatter: logging.Formatter, record: logging.LogRecord) -> str:
    message = record.getMessage()
    return f"{message}\n{formatter.formatException(record.exc_info)}" if record.exc_info else message


def log_to_stderr(form: str = "text", level: str = "info", *, of_request: Callable[[logging.LogRecord], bool]) -> None:
    """Write the log of this library, and of its HTTP server, to stderr.

    Parameters
    ----------
    form
        text or json.
    level
        The least level that is written: debug, info, warning or error.
    of_request
        Adds to a record the ids of the request that is answered (`serving.trace.add_trace`).
    """
    handler = _Stderr()
    handler.addFilter(of_request)
    handler.setFormatter(_Json() if form == "json" else _Lines())
    for name in ("online_rank", "uvicorn"):
        logger = logging.getLogger(name)
        logger.handlers[:] = [handler]
    _log.setLevel(level.upper())
    logging.getLogger("uvicorn").setLevel(max(logging.WARNING, _log.level))


def say(message: str, level: int = logging.INFO) -> None:
    """Print a message, or write it to the log if logging is set up."""
    if _log.handlers:
        _log.log(level, message)
    else:
        print(f"online-rank: {message}", file=sys.stderr, flush=True)
