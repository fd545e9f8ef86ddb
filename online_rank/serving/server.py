"""The HTTP server: uvicorn, with limits on connections added."""

import asyncio
import os
import resource
import socket
from typing import Any

import uvicorn
from uvicorn.protocols.http.h11_impl import H11Protocol

from online_rank.serving.asgi import Limits

__all__ = ["listening_sockets", "most_connections", "server"]

#: Connections that the system may accept before the server handles them.
_BACKLOG = 128
#: File descriptors reserved for everything else: open models, libraries, standard streams.
_RESERVED = 128
_DESCRIPTORS_A_MODEL = 4
_GRACE_SECONDS = 10


def listening_sockets(host: str, port: int) -> list[socket.socket]:
    """Sockets bound to all addresses of a host, not yet listening. Raises OSError."""
    found: list[socket.socket] = []
    try:
        for family, _, _, _, address in socket.getaddrinfo(host, port, type=socket.SOCK_STREAM, flags=socket.AI_PASSIVE):
            # The second address of a name gets the port that the first one was given.
            given = (address[0], found[0].getsockname()[1] if found else port, *address[2:])
            # asyncio sends answers at once (TCP_NODELAY) only where it sees that this is TCP; without it each takes 40 ms.
            one = socket.socket(family, socket.SOCK_STREAM, socket.IPPROTO_TCP)
            found.append(one)
            one.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEADDR, 1)
            if family == socket.AF_INET6:
                one.setsockopt(socket.IPPROTO_IPV6, socket.IPV6_V6ONLY, 1)
            # No connection is accepted before the server can answer.
            one.bind(given)
    except OSError as error:
        for one in found:
            one.close()
        # Python adds the address to the text, and uses its own error numbers for unknown names.
        reason = os.strerror(error.errno) if error.errno and error.errno > 0 else error.strerror
        raise OSError(f"cannot listen on {host} port {port}: {reason}") from None
    return found


def most_connections(limits: Limits, n_models: int) -> int:
    """The number of connections that leaves enough descriptors for the files of `n_models` models."""
    descriptors = resource.getrlimit(resource.RLIMIT_NOFILE)[0]
    if descriptors == resource.RLIM_INFINITY:
        return limits.connections
    return max(16, min(limits.connections, descriptors - _BACKLOG - _RESERVED - _DESCRIPTORS_A_MODEL * n_models))


def server(app: Any, n_models: int = 1) -> uvicorn.Server:
    """A server of a `RankingApp`, to run with `listening_sockets`."""
    door = _Door(most_connections(app.limits, n_models), app.limits.seconds)

    def connection(**arguments: Any) -> Any:
        return _Connection(door, **arguments)

    config = uvicorn.Config(
        app,
        http=connection,  # type: ignore[arg-type]  # whatever makes a protocol
        log_config=None,
        access_log=False,
        server_header=False,
        date_header=False,
        ws="none",
        backlog=_BACKLOG,
        timeout_graceful_shutdown=_GRACE_SECONDS,
    )
    return uvicorn.Server(config)


class _Door:
    """Limits the number of connections, and the seconds for which one may be idle."""

    def __init__(self, most: int, seconds: float) -> None:
        self.most = most
        self.seconds = seconds
        #: Idle connections, the one idle for longest first.
        self.idle: dict[_Connection, asyncio.TimerHandle] = {}


class _Connection(H11Protocol):
    """A connection that is closed if the head of its request takes too long, or if it is idle and its place is needed.

    Otherwise connections that send nothing, or half a head, could exhaust the descriptors of the process. Requests are read by
    h11, also where the faster httptools is installed: it has no limit for a head, and holds all requests that a client sends
    without waiting for answers.
    """

    def __init__(self, door: _Door, **arguments: Any) -> None:
        super().__init__(**arguments)
        self._door = door

    def connection_made(self, transport: Any) -> None:
        super().connection_made(transport)
        if len(self.connections) > self._door.most:
            oldest = next(iter(self._door.idle), self)
            oldest.leave()
        if not transport.is_closing():
            self._wait()

    def connection_lost(self, exc: Exception | None) -> None:
        self._stop_waiting()
        super().connection_lost(exc)

    def data_received(self, data: bytes) -> None:
        super().data_received(data)
        if self.cycle is not None and not self.cycle.response_complete:
            self._stop_waiting()

    def on_response_complete(self) -> None:
        super().on_response_complete()
        if (self.cycle is None or self.cycle.response_complete) and not self.transport.is_closing():
            self._wait()

    def leave(self) -> None:
        """Close the connection at once."""
        self._stop_waiting()
        # It no longer counts for the limit; the loop calls connection_lost one turn later.
        self.connections.discard(self)
        self.transport.abort()

    def _wait(self) -> None:
        self._stop_waiting()
        self._door.idle[self] = self.loop.call_later(self._door.seconds, self.leave)

    def _stop_waiting(self) -> None:
        timer = self._door.idle.pop(self, None)
        if timer is not None:
            timer.cancel()
