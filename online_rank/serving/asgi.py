"""Helpers for ASGI: the path of a request, its body within limits, answers as JSON."""

import asyncio
from collections.abc import Awaitable, Callable, MutableMapping
from typing import Any, NamedTuple

import msgspec

__all__ = ["Headers", "Limits", "Receive", "Refused", "Scope", "Send", "path_of", "read_body", "send_json"]

Scope = MutableMapping[str, Any]
Message = MutableMapping[str, Any]
Receive = Callable[[], Awaitable[Message]]
Send = Callable[[Message], Awaitable[None]]
Headers = tuple[tuple[bytes, bytes], ...]


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
    """A refused request, which is not read to its end, so its connection is closed; `status` is the HTTP status."""

    def __init__(self, status: int, message: str, more: Headers = ()) -> None:
        super().__init__(message)
        self.status = status
        self.headers = (*more, (b"connection", b"close"))


def path_of(scope: Scope) -> str:
    """The path within the application, independent of where it is mounted.

    Examples
    --------
    >>> path_of({"path": "/ranker/rank", "root_path": "/ranker"}), path_of({"path": "/rank"})
    ('/rank', '/rank')
    """
    path, root = scope["path"], scope.get("root_path", "").rstrip("/")
    return path[len(root) :] if root and path.startswith(f"{root}/") else path


async def read_body(scope: Scope, receive: Receive, most: int, seconds: float, kind: str = "application/json") -> bytes:
    """The body of a POST request, within limits of bytes and seconds.

    Raises
    ------
    Refused
        It is not a POST of this type with a length, it is too large, or it arrives too slowly.
    ConnectionResetError
        The client has disconnected.
    """
    if scope["method"] != "POST":
        raise Refused(405, f"{path_of(scope)} takes POST", ((b"allow", b"POST"),))
    headers = dict(scope["headers"])
    # Browsers send this type to another site only after a preflight request, which this server refuses.
    if headers.get(b"content-type", b"").partition(b";")[0].strip().lower() != kind.encode():
        raise Refused(415, f"the request must have the header Content-Type: {kind}")
    length = headers.get(b"content-length", b"")
    if not length.isdigit():
        # Chunks may be of one byte each, which takes seconds of parsing for every megabyte.
        raise Refused(411, "the request must give its length: Content-Length")
    if int(length[:20]) > most:
        raise Refused(413, f"a request of more than {most} bytes")
    try:
        async with asyncio.timeout(seconds):
            return await _whole_body(receive, most)
    except TimeoutError:
        raise Refused(408, f"the request's body took more than {seconds:g} seconds") from None


async def _whole_body(receive: Receive, most: int) -> bytes:
    parts, size = [], 0
    while True:
        message = await receive()
        if message["type"] == "http.disconnect":
            raise ConnectionResetError
        parts.append(message.get("body", b""))
        size += len(parts[-1])
        if size > most:
            raise Refused(413, f"a request of more than {most} bytes")
        if not message.get("more_body", False):
            return parts[0] if len(parts) == 1 else b"".join(parts)


async def send_json(send: Send, status: int, answer: dict[str, Any], more: Headers = ()) -> None:
    """Answer a request, with optional further headers."""
    body = msgspec.json.encode(answer)
    headers = [(b"content-type", b"application/json"), (b"content-length", str(len(body)).encode()), *more]
    await send({"type": "http.response.start", "status": status, "headers": headers})
    await send({"type": "http.response.body", "body": body})
