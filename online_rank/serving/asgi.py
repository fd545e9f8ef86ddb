"""Names of ASGI, what clients may take, and how a request is refused."""

from collections.abc import Awaitable, Callable, MutableMapping
from typing import Any, NamedTuple

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
    queue
        Seconds in a queue from which requests are refused. `/learn` is, if it waited for as long for its turn, or if the
        feedback before it waits for the disk for as long; `/rank` if it waited for twice as long.
    """

    body: int = 1 << 22
    seconds: float = 10.0
    requests: int = 250
    streams: int = 50
    model: int = 1 << 27
    files: int = 4
    connections: int = 1000
    queue: float = 1.0


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
