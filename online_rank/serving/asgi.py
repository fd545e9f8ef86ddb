"""Requests of ASGI and their answers: the path, the body within limits, what identifies a request, answers as JSON."""

import asyncio
import re
import time
import types
from collections.abc import Awaitable, Callable, Iterable, MutableMapping, Sequence
from typing import Any, NamedTuple

import msgspec

from online_rank.serving.trace import Trace

#: RFC 9110, section 7.2: a name, an IPv4 or a bracketed IP address, and the digits of a port. No user, no path.
_HOST = re.compile(rb"(\[[0-9a-f:.]+\]|[a-z0-9._~!$&'()*+,;=%-]*)(?::[0-9]*)?", re.IGNORECASE)
_LOCAL = {b"localhost", b"127.0.0.1", b"[::1]"}

#: The extension of a scope with the time at which a request came, and a function that waits until its answer is sent.
ARRIVAL = "online_rank.arrival"

#: What servers answer that wait while another one leads.
ANOTHER_LEADS = "another server leads"

Scope = MutableMapping[str, Any]
Message = MutableMapping[str, Any]
Receive = Callable[[], Awaitable[Message]]
Send = Callable[[Message], Awaitable[None]]
Headers = tuple[tuple[bytes, bytes], ...]
Arrival = tuple[float, Callable[[], Awaitable[None]] | None]


class Limits(NamedTuple):
    """Limits for clients.

    Attributes
    ----------
    body
        Largest size of a request, in bytes.
    seconds
        Longest time for the head of a request to arrive, and then for its body.
    requests
        Most requests to rank or learn handled at the same time. With `body` this bounds the memory for requests.
    streams
        Most pages served with events at the same time.
    model
        Largest size of an uploaded model, in bytes.
    files
        Most models sent or received at the same time.
    connections
        Most connections. If there are more, the one idle for longest is closed.
    """

    body: int = 1 << 22
    seconds: float = 10.0
    requests: int = 250
    streams: int = 50
    model: int = 1 << 27
    files: int = 4
    connections: int = 1000


class Refused(Exception):
    """A refused request; `status` is the HTTP status. It is not read, so its connection is closed, unless that `stays`."""

    def __init__(self, status: int, message: str, more: Headers = (), *, stays: bool = False) -> None:
        super().__init__(message)
        self.status = status
        self.headers = more if stays else (*more, (b"connection", b"close"))


def path_of(scope: Scope) -> str:
    """The path within the application, independent of where it is mounted.

    Examples
    --------
    >>> path_of({"path": "/ranker/rank", "root_path": "/ranker"}), path_of({"path": "/rank"})
    ('/rank', '/rank')
    """
    path, root = scope["path"], scope.get("root_path", "").rstrip("/")
    return path[len(root) :] if root and path.startswith(f"{root}/") else path


def is_local(headers: Iterable[tuple[bytes, bytes]]) -> bool:
    """Whether a request calls this server by a name of this machine, or by none. Raises Refused for what is no name.

    A page on another site can send any, so it is parsed in full.
    """
    host: re.Match[bytes] | None = None
    for name, value in headers:
        if name == b"host" and (host is not None or (host := _HOST.fullmatch(value)) is None):
            raise Refused(400, "the header Host is not a host and the digits of a port, once (RFC 9110, section 7.2)")
    return host is None or host[1].lower() in _LOCAL


class Exchange(Trace):
    """A request and its answer.

    Parameters
    ----------
    scope, receive, send
        As ASGI has them.

    Attributes
    ----------
    path
        The path within the application.
    headers
        The headers of the request.
    roles
        The roles of its client, once they are known.
    status
        The status of the answer; 0 before it begins.
    """

    def __init__(self, scope: Scope, receive: Receive, send: Send) -> None:
        self.scope = scope
        path: str = scope["path"]
        self.path = path if not scope.get("root_path") else path_of(scope)
        self.headers: dict[bytes, bytes] = dict(scope["headers"])
        self.roles: frozenset[str] = frozenset()
        self.status = 0
        self.receive, self._send = receive, send
        arrival: Arrival = (scope.get("extensions") or {}).get(ARRIVAL) or (time.perf_counter(), None)
        #: When its first byte came, and a function that waits until its answer is sent.
        self.began, self.sent = arrival

    async def body(self, most: int, seconds: float, kinds: Sequence[bytes] = (b"application/json",)) -> bytes:
        """The body of a POST request of one of these media types, within limits of bytes and seconds.

        Raises
        ------
        Refused
            It is not a POST of this type with a length, it is too large, or it arrives too slowly.
        ConnectionResetError
            The client has disconnected.
        """
        if self.scope["method"] != "POST":
            raise Refused(405, f"{self.path} takes POST", ((b"allow", b"POST"),))
        # Browsers send these types to another site only after a preflight request, which this server refuses.
        if self.headers.get(b"content-type", b"").partition(b";")[0].strip().lower() not in kinds:
            raise Refused(415, f"the request must have the header Content-Type: {b' or '.join(kinds).decode()}")
        length = self.headers.get(b"content-length", b"")
        if not length.isdigit():
            # Chunks may be of one byte each, which takes seconds of parsing for every megabyte.
            raise Refused(411, "the request must give its length: Content-Length")
        if int(length[:20]) > most:
            raise Refused(413, f"a request of more than {most} bytes")
        coming: Any = self.receive()
        message = None
        if type(coming) is types.CoroutineType:
            # What has come already is read without a timer.
            try:
                coming = _continued(coming, coming.send(None))
            except StopIteration as done:
                message = done.value
                if (
                    message["type"] == "http.request"
                    and not message.get("more_body")
                    and len(body := message.get("body", b"")) <= most
                ):
                    return body
        try:
            async with asyncio.timeout(seconds):
                return await self._whole_body(most, await coming if message is None else message)
        except TimeoutError:
            raise Refused(408, f"the request's body took more than {seconds:g} seconds") from None

    async def _whole_body(self, most: int, message: Message) -> bytes:
        """The body that begins with a message."""
        parts, size = [], 0
        while True:
            if message["type"] == "http.disconnect":
                raise ConnectionResetError
            parts.append(message.get("body", b""))
            size += len(parts[-1])
            if size > most:
                raise Refused(413, f"a request of more than {most} bytes")
            if not message.get("more_body", False):
                return parts[0] if len(parts) == 1 else b"".join(parts)
            message = await self.receive()

    async def send(self, message: Message) -> None:
        """Send a part of the answer."""
        if message["type"] == "http.response.start":
            self.status = message["status"]
        await self._send(message)

    async def answer(self, status: int, answer: dict[str, Any], more: Headers = ()) -> None:
        """Answer with JSON, and further headers. Errors get what identifies the request."""
        if status >= 400:
            answer = {**answer, "request_id": self.request_id}
            more = (*more, (b"x-request-id", self.request_id.encode()))
        body = msgspec.json.encode(answer)
        headers = [(b"content-type", b"application/json"), (b"content-length", str(len(body)).encode()), *more]
        self.status = status
        await self._send({"type": "http.response.start", "status": status, "headers": headers})
        await self._send({"type": "http.response.body", "body": body})


@types.coroutine
def _continued(coming: Any, waits_for: Any) -> Any:
    """Continue a coroutine that has begun, and waits for something."""
    try:
        yield waits_for
    except BaseException as error:
        coming.throw(error)
    return (yield from coming)
