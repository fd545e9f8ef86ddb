"""What identifies a request: in errors, in the log, and in the traces of its client."""

import contextvars
import functools
import logging
import re
import secrets
from collections.abc import Mapping

_REQUEST_ID = re.compile(rb"[\w.~:/+=@-]{1,128}")
#: W3C Trace Context: version, trace, span, flags. Later versions may have more.
_TRACEPARENT = re.compile(rb"(?!ff)[0-9a-f]{2}-(?!0{32})([0-9a-f]{32})-(?!0{16})[0-9a-f]{16}-[0-9a-f]{2}(?:-.*)?")
#: What identifies the request of this task, and of tasks that begin in it.
CURRENT: contextvars.ContextVar["Trace"] = contextvars.ContextVar("online_rank.trace")


class Trace:
    r"""What identifies a request; log lines written while it is answered have it, too.

    Parameters
    ----------
    headers
        The headers of the request: `X-Request-Id` is taken over if it has 128 characters at most, of letters, digits and
        `._~:/+=@-`; else an id is made. `traceparent` is from W3C Trace Context.

    Examples
    --------
    >>> trace = Trace({b"x-request-id": b"r-17", b"traceparent": b"00-0af7651916cd43dd8448eb211c80319c-b7ad6b7169203331-01"})
    >>> trace.request_id, trace.trace_id
    ('r-17', '0af7651916cd43dd8448eb211c80319c')
    >>> len(Trace({b"x-request-id": b"a line\nof the log"}).request_id)
    32
    """

    #: Whether it is answered: tasks that continue, such as the one that writes, are about other requests then.
    is_answered = False

    def __init__(self, headers: Mapping[bytes, bytes]) -> None:
        self.headers = headers

    @functools.cached_property
    def request_id(self) -> str:
        """The id of the request."""
        given = self.headers.get(b"x-request-id", b"")
        return given.decode() if _REQUEST_ID.fullmatch(given) else secrets.token_hex(16)

    @property
    def trace_id(self) -> str | None:
        """The trace that the request is part of; None without one."""
        found = _TRACEPARENT.fullmatch(self.headers.get(b"traceparent", b""))
        return found and found[1].decode()

    @classmethod
    def current(cls) -> "Trace | None":
        """The identity of the request that is answered; None outside of one."""
        trace = CURRENT.get(None)
        return None if trace is None or trace.is_answered else trace


def add_trace(record: logging.LogRecord) -> bool:
    """A filter that adds `request_id` and `trace_id` of the request that is answered to a record of the log."""
    trace = Trace.current()
    record.request_id, record.trace_id = (None, None) if trace is None else (trace.request_id, trace.trace_id)
    return True
