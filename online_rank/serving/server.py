"""The HTTP server: uvicorn, with limits on connections added, and an event loop that knows how long requests have waited.

uvicorn closes connections that are idle between requests (`timeout_keep_alive`). What it lets clients do, and this module does
not, with the test in `tests/serving/test_server.py` that has such a client:

- open many connections and send nothing, or half a head: `test_idle_connections_make_room_for_others`; with `limit_concurrency`
  uvicorn would refuse all others meanwhile, probes too;
- send half a head and wait: `test_heads_that_do_not_come_are_not_waited_for`;
- ask, and read no answers: `test_answers_that_are_not_read_hold_no_place`;
- send a head without end: `test_a_head_without_end_is_refused`, `test_a_head_of_many_headers_is_refused`;
- send chunks, extensions or trailers without end: `test_what_follows_a_head_without_end_is_not_read`;
- send thousands of requests ahead: `test_too_many_requests_sent_ahead_end_the_connection`;
- let an error answer the request before: `test_what_is_no_request_does_not_answer_the_one_before`.

One that is not hostile offers HTTP/2, as clients in Java do: `test_an_offer_to_speak_http_2_is_not_taken`.
"""

import asyncio
import contextlib
import ctypes
import math
import os
import resource
import selectors
import socket
import sys
import time
from collections.abc import Callable
from typing import Any

import httptools
import uvicorn
from uvicorn.protocols.http.httptools_impl import HttpToolsProtocol

from online_rank.serving.asgi import ARRIVAL, Limits

#: Connections that the system may accept before the server handles them.
_BACKLOG = 128
#: File descriptors reserved for everything else: open models, libraries, standard streams.
_RESERVED = 128
_DESCRIPTORS_A_MODEL = 6
_LEAST_DESCRIPTORS = 64
_GRACE_SECONDS = 10
#: Seconds after which uvicorn closes a connection that is idle between two requests.
_IDLE_SECONDS = 5
#: Seconds between two looks at connections that are idle after an answer that was given at once.
_BETWEEN_LOOKS = 1.0
#: Most bytes of the headers of a request, and of any other part of one that only makes sense when it is complete.
_LARGEST_HEAD = 1 << 14
#: Most requests that a client may send ahead, without waiting for the answer to the first.
_MOST_AHEAD = 100
#: M_ARENA_MAX of glibc's `mallopt`.
_ARENA_MAX = -8


def listening_sockets(host: str, port: int, shared: bool = False) -> list[socket.socket]:
    """Sockets bound to all addresses of a host, not yet listening. Raises OSError.

    If the port is `shared`, other processes of this user may listen on it, and the system hands each connection to one of them.
    """
    found: list[socket.socket] = []
    try:
        for family, _, _, _, address in socket.getaddrinfo(host, port, type=socket.SOCK_STREAM, flags=socket.AI_PASSIVE):
            # The second address of a name gets the port that the first one was given.
            given = (address[0], found[0].getsockname()[1] if found else port, *address[2:])
            # asyncio sends answers at once (TCP_NODELAY) only where it sees that this is TCP; without it each takes 40 ms.
            one = socket.socket(family, socket.SOCK_STREAM, socket.IPPROTO_TCP)
            found.append(one)
            one.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEADDR, 1)
            if shared:
                one.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEPORT, 1)
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
    """The number of connections that leaves enough descriptors for the files of `n_models` models. Raises OSError."""
    descriptors = resource.getrlimit(resource.RLIMIT_NOFILE)[0]
    if descriptors == resource.RLIM_INFINITY:
        return limits.connections
    if descriptors < _LEAST_DESCRIPTORS:
        # It would listen, and answer with errors.
        raise OSError(f"{descriptors} files may be open at once, and a server needs {_LEAST_DESCRIPTORS}: ulimit -n 1024")
    return max(16, min(limits.connections, descriptors - _BACKLOG - _RESERVED - _DESCRIPTORS_A_MODEL * n_models))


def keep_one_arena() -> None:
    """Let all threads of this process allocate from one arena, where the C library is glibc; before threads are started.

    Otherwise each thread gets a separate arena. What threads read and write then leaves holes in all of them, and the memory
    of a server that learns grows slowly for as long as it runs.
    """
    if sys.platform == "linux":
        with contextlib.suppress(AttributeError):  # Another C library has no arenas.
            ctypes.CDLL(None).mallopt(_ARENA_MAX, 1)


def server(app: Any, n_models: int = 1) -> uvicorn.Server:
    """A server of a `RankingApp`, to run with `listening_sockets` in an `EventLoop`."""
    keep_one_arena()
    door = _Door(app, most_connections(app.limits, n_models))

    def connection(**arguments: Any) -> Any:
        return _Connection(door, **arguments)

    config = uvicorn.Config(
        app,
        http=connection,  # type: ignore[arg-type]  # anything that makes a protocol
        log_config=None,
        access_log=False,
        # Nothing asks for the address of a client.
        proxy_headers=False,
        server_header=False,
        date_header=False,
        ws="none",
        backlog=_BACKLOG,
        timeout_keep_alive=min(_IDLE_SECONDS, math.ceil(app.limits.seconds)),
        timeout_graceful_shutdown=_GRACE_SECONDS,
    )
    return uvicorn.Server(config)


class _Turns(selectors.DefaultSelector):
    """Waits for events, and keeps since when events of the present turn of the loop, and of the one before, may have waited."""

    def __init__(self) -> None:
        super().__init__()
        self.number = 0
        self.since = self.before = self._returned = time.perf_counter()

    def select(self, timeout: float | None = None) -> Any:
        """Events, as they come; those that are there already came while the loop was busy."""
        found, since = super().select(0), self._returned
        if not found and (timeout is None or timeout > 0):
            found = super().select(timeout)
            since = time.perf_counter()
        self.number += 1
        self.before, self.since, self._returned = self.since, since, time.perf_counter()
        return found


class EventLoop(asyncio.SelectorEventLoop):
    """An event loop that knows how long what it reads may have waited for it: at most since its turn before began."""

    def __init__(self) -> None:
        self.turns = _Turns()
        super().__init__(self.turns)


class _Door:
    """Limits the number of connections, and the seconds for which the client of one may do nothing."""

    def __init__(self, app: Any, most: int) -> None:
        self.app, self.most, self.seconds = app, most, app.limits.seconds
        #: Connections that wait for their client, to send a head or to read an answer; the one that waits for longest first.
        #: Each has its timer, or since when it is idle after an answer that was given at once, or None: uvicorn closes it.
        self.idle: dict[_Connection, asyncio.TimerHandle | float | None] = {}
        self._looks = False

    def rest(self, connection: "_Connection") -> None:
        """A connection is idle from now on. One timer looks at all of them: one for each request would take longer."""
        self.idle[connection] = connection.loop.time()
        if not self._looks:
            self._looks = True
            connection.loop.call_later(_BETWEEN_LOOKS, self._close_idle, connection.loop)

    def _close_idle(self, loop: asyncio.AbstractEventLoop) -> None:
        """Close the connections that are idle for too long."""
        since = {connection: found for connection, found in self.idle.items() if type(found) is float}
        for connection, began in since.items():
            if loop.time() - began >= connection.timeout_keep_alive:
                connection.timeout_keep_alive_handler()
        self._looks = bool(since)
        if since:
            loop.call_later(_BETWEEN_LOOKS, self._close_idle, loop)


class _Parser(httptools.HttpRequestParser):
    """Reads requests, and does not take offers to speak another protocol.

    Clients in Java offer HTTP/2 with their first request. httptools stops there, and would read the body as another request.
    """

    def __init__(self, connection: "_Connection") -> None:
        super().__init__(connection)
        self._connection = connection
        # As uvicorn does: with `Connection: close` a request may have sent more.
        self.set_dangerous_leniencies(lenient_data_after_close=True)

    def feed_data(self, data: Any) -> None:
        while data:
            try:
                super().feed_data(data)
            except httptools.HttpParserUpgrade as offer:
                data = self._connection.without_offer() + data[offer.args[0] :]
            else:
                return


class _Joined:
    """Writes the head of an answer and the first part of its body in one call of the system."""

    def __init__(self, transport: asyncio.Transport, loop: asyncio.AbstractEventLoop) -> None:
        self._transport, self._loop = transport, loop
        #: What waits for the body; None after it has come.
        self._head: bytes | None = b""
        self.is_closing = transport.is_closing

    def write(self, data: bytes) -> None:
        if self._head == b"":
            self._head = data
            # The body may take its time.
            self._loop.call_soon(self._send)
        else:
            self._send(data)

    def close(self) -> None:
        self._send()
        self._transport.close()

    def _send(self, data: bytes = b"") -> None:
        data, self._head = (self._head or b"") + data, None
        if data:
            self._transport.write(data)


class _Connection(HttpToolsProtocol):
    """A connection that is closed if its client takes too long to send a head, or to read what it asked for, or if it waits for
    its client and its place is needed.

    Otherwise connections that send nothing, or half a head, or read no answers, could exhaust the descriptors of the process.
    httptools, which reads requests, has no limits: heads and the number of requests sent ahead have theirs here, so that they
    cannot exhaust the memory.
    """

    def __init__(self, door: _Door, **arguments: Any) -> None:
        super().__init__(**arguments)
        self.parser = _Parser(self)
        self._door = door
        self._turns = self.loop.turns if isinstance(self.loop, EventLoop) else None
        #: The turn in which it is accepted, and since when its client may have waited for that.
        self._accepted = (0, 0.0) if self._turns is None else (self._turns.number, self._turns.before)
        #: Since when what is read may have waited.
        self._since = 0.0
        #: Bytes of the headers of the request that is read, and of what came after the last complete part.
        self._n_head = self._n_open = 0
        #: The body, so far, of a request that is answered at once if all of it has come; None for other requests.
        self._body: list[bytes] | None = None
        #: Whether the next request is the first one of what is read now, and whether nothing has come after one that was
        #: answered at once.
        self._is_first = self._is_done = False
        #: Counts an answer that was given at once, as soon as its client has read it; None if all are counted.
        self._count_sent: Callable[[], None] | None = None

    def connection_made(self, transport: Any) -> None:
        super().connection_made(transport)
        # So that writing pauses until the last byte is sent.
        transport.set_write_buffer_limits(0)
        if len(self.connections) > self._door.most:
            oldest = next(iter(self._door.idle), self)
            oldest.leave()
        if not transport.is_closing():
            self._wait()

    def connection_lost(self, exc: Exception | None) -> None:
        self._stop_waiting()
        self._sent()
        super().connection_lost(exc)

    def data_received(self, data: bytes) -> None:
        self._n_open += len(data)
        self._since = self._waiting_since()
        self._is_first, self._is_done = True, False
        super().data_received(data)
        if self._body is not None:
            self._take_time()
        if self._n_open > _LARGEST_HEAD and not self.transport.is_closing():
            self.send_400_response("A head that is too large was received.")
        if self._answers():
            if not self.flow.write_paused:
                self._stop_waiting()
        elif not (self._is_done or self._has_timer() or self.transport.is_closing()):
            # The beginning of a head, for which uvicorn has no limit.
            self._wait()

    def pause_writing(self) -> None:
        super().pause_writing()
        # The client does not read. Each time it has read something, it gets as long again.
        self._wait()

    def resume_writing(self) -> None:
        super().resume_writing()
        self._sent()
        if self._answers():
            self._stop_waiting()

    def send_400_response(self, msg: str) -> None:
        self._body = None
        if not self._answers():
            super().send_400_response(msg)
        else:
            # It would be taken for the answer to the request before.
            self.leave()

    def on_message_begin(self) -> None:
        if len(self.pipeline) >= _MOST_AHEAD:
            raise httptools.HttpParserError("too many requests are sent ahead")
        super().on_message_begin()
        self.scope["extensions"] = {ARRIVAL: (self._since, self.flow.drain)}  # type: ignore[dict-item]
        self._n_head = self._n_open = 0
        self._is_done = False

    def on_header(self, name: bytes, value: bytes) -> None:
        self._n_open = 0
        self._n_head += len(name) + len(value)
        if self._n_head > _LARGEST_HEAD:
            raise httptools.HttpParserError("the head is too large")
        super().on_header(name, value)

    def on_headers_complete(self) -> None:
        if self.parser.should_upgrade():
            if self.parser.get_method() == b"CONNECT":
                raise httptools.HttpParserError("this is no proxy")
        elif self._is_first and self._may_be_answered_at_once():
            self._body = []
        else:
            self._begin()
        self._is_first = False

    def _may_be_answered_at_once(self) -> bool:
        """Whether a request is an ordinary one to rank, and nothing stands before it."""
        parser, path = self.parser, self.url.partition(b"?")[0]
        is_free = not (self._answers() or self.flow.write_paused or self.transport.is_closing())
        is_ordinary = parser.get_http_version() == "1.1" and parser.should_keep_alive() and not self.expect_100_continue
        return path == b"/rank" and parser.get_method() == b"POST" and is_free and is_ordinary

    def _begin(self) -> None:
        """Let a task answer the request whose head has come."""
        super().on_headers_complete()
        # The task has not begun.
        self.cycle.transport = _Joined(self.transport, self.loop)  # type: ignore[assignment]

    def _take_time(self) -> None:
        """Let a task answer the request that was to be answered at once."""
        parts, self._body = self._body or (), None
        self._begin()
        for part in parts:
            super().on_body(part)

    def _is_answered(self, body: bytes) -> bool:
        """Answer a request that has come whole, if nothing has to be waited for."""
        answer = self._door.app.at_once(self.headers, self.url.partition(b"?")[2], body, self._since)
        if answer is None:
            return False
        self._body, self._is_done = None, True
        self._stop_waiting()
        content, self._count_sent = answer
        self.server_state.total_requests += 1
        self.transport.write(content)
        if not self.flow.write_paused:
            self._sent()
            self._door.rest(self)
        return True

    def _sent(self) -> None:
        """Count the answer that was given at once."""
        if self._count_sent is not None:
            count, self._count_sent = self._count_sent, None
            count()

    def without_offer(self) -> bytes:
        """The head of a request, without the offer to speak another protocol."""
        begin = b"%s %s HTTP/%s\r\n" % (self.parser.get_method(), self.url, self.parser.get_http_version().encode())
        return b"%s%s\r\n" % (begin, b"".join(b"%s: %s\r\n" % each for each in self.headers if each[0] != b"upgrade"))

    def on_body(self, body: bytes) -> None:
        self._n_open = 0
        if self._body is not None:
            self._body.append(body)
        else:
            super().on_body(body)

    def on_message_complete(self) -> None:
        self._n_open = 0
        if self._body is not None:
            if self._is_answered(b"".join(self._body)):
                return
            self._take_time()
        if not self.parser.should_upgrade():
            super().on_message_complete()

    def on_response_complete(self) -> None:
        super().on_response_complete()
        # Where this was the last one, it stays open until its client has read it.
        if not self._answers() and self not in self._door.idle:
            self._door.idle[self] = None

    def leave(self) -> None:
        """Close the connection at once."""
        self._stop_waiting()
        # It no longer counts for the limit; the loop calls connection_lost one turn later.
        self.connections.discard(self)
        self.transport.abort()

    def _waiting_since(self) -> float:
        """Since when what has come now may have waited: for the loop, and at first for the connection to be accepted."""
        if self._turns is None:
            return time.perf_counter()
        turn, since = self._accepted
        # It is accepted in one turn, made in the next, and read in the third, if something has come already.
        return since if self._turns.number <= turn + 2 else self._turns.since

    def _answers(self) -> bool:
        """Whether a request has come that is not answered yet."""
        return self.cycle is not None and not self.cycle.response_complete

    def _wait(self) -> None:
        self._stop_waiting()
        self._door.idle[self] = self.loop.call_later(self._door.seconds, self.leave)

    def _has_timer(self) -> bool:
        return isinstance(self._door.idle.get(self), asyncio.TimerHandle)

    def _stop_waiting(self) -> None:
        timer = self._door.idle.pop(self, None)
        if isinstance(timer, asyncio.TimerHandle):
            timer.cancel()
