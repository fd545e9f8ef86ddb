"""A ranker over HTTP (extra `serve`): the requests of `online_rank.serving.protocol`, a live page, metrics.

- `POST /rank` `{"id": ..., "docs": {...}}`: the ranking, best first, with scores; or the list to show, if a policy draws it.
- `POST /learn` `{"id": ..., "grades": {...}}` or `{"id": ..., "clicks": [...]}`: answered once it is learned and on the disk.
- `POST /explain` `{"id": ..., "docs": {...}, "explain": ["a", "b"]}`: why two documents score differently, feature by feature.
- `GET /stats`: counts and figures; `GET /metrics`: the same for Prometheus.
- `GET /healthz`: 503 when a restart is needed; `GET /readyz`: 503 also while the server stops.
- `GET /model`: the model file; `POST /model`: replace it; `POST /model/rollback`: restore one.
- `POST /ranked` `[{"request": {...}, "scores": [...]}]`: queries that were ranked elsewhere wait for their feedback.
- `POST /forget` `{"ids": [...]}`, `{"context": {"user": "u17"}}` or `{"document": "d7"}`: forget queries.
- `DELETE /models/KEY`: delete the model of a key, with all that is stored about its queries.
- `GET /`: a page that shows how the ranker learns, fed by `/events` and `/curves`.
- `GET /docs`, `/openapi.json`: this description.

Queries are JSON, by document or in columns, or binary (`messages.BINARY`). The fields of a request determine its kind, as in
the JSON lines of `online-rank stream`; `/rank` and `/learn` take all kinds.
"""

import asyncio
import functools
import logging
import re
import time
import types
import urllib.parse
from collections.abc import AsyncIterator, Callable, Iterable, Mapping, Sequence
from contextlib import asynccontextmanager
from typing import Any

import msgspec
from starlette.datastructures import QueryParams
from starlette.responses import Response
from starlette.routing import Router

from online_rank import arguments
from online_rank.serving.asgi import ARRIVAL, Arrival, Headers, Limits, Message, Receive, Refused, Scope, Send, path_of
from online_rank.serving.metrics import MOST_UNCOUNTED
from online_rank.serving.models import KeyRefused
from online_rank.serving.openapi import OPEN_TO_ALL
from online_rank.serving.paths import POSTED, QUERY, READING, Paths
from online_rank.serving.readers import AnyModels
from online_rank.serving.served import Answer
from online_rank.serving.tokens import ROLES, Tokens, kinds_of
from online_rank.serving.trace import CURRENT, Trace
from online_rank.serving.workers import OnlyWorker

_log = logging.getLogger("online_rank.serving")

#: The roles that may send requests to a path; others need admin.
_ROLES = {"/rank": ROLES, "/learn": ROLES, "/explain": ("rank", "admin")}
#: RFC 9110, section 7.2: a name, an IPv4 or a bracketed IP address, and the digits of a port. No user, no path.
_HOST = re.compile(rb"(\[[0-9a-f:.]+\]|[a-z0-9._~!$&'()*+,;=%-]*)(?::[0-9]*)?", re.IGNORECASE)
#: The answer to what would wait for too long: it is learned later, or ranked elsewhere.
_QUEUED: Answer = 503, {"error": "too many requests wait: nothing has changed; send this again later"}
_LOCAL = {b"localhost", b"127.0.0.1", b"[::1]"}


def is_local(headers: Iterable[tuple[bytes, bytes]]) -> bool:
    """Whether a request calls this server by a name of this machine, or by none. Raises Refused for what is no name.

    A page on another site can send any, so it is parsed in full.
    """
    host: re.Match[bytes] | None = None
    for name, value in headers:
        if name == b"host" and (host is not None or (host := _HOST.fullmatch(value)) is None):
            raise Refused(400, "the header Host is not a host and the digits of a port, once (RFC 9110, section 7.2)")
    return host is None or host[1].lower() in _LOCAL


def _require_described(headers: Mapping[bytes, bytes], most: int, kinds: Sequence[bytes]) -> None:
    """Raise Refused if headers announce a body of another media type, of unknown length, or of too many bytes."""
    # Browsers send these types to another site only after a preflight request, which this server refuses.
    if headers.get(b"content-type", b"").partition(b";")[0].strip().lower() not in kinds:
        raise Refused(415, f"the request must have the header Content-Type: {b' or '.join(kinds).decode()}")
    length = headers.get(b"content-length", b"")
    if not length.isdigit():
        # Chunks may be of one byte each, which takes seconds of parsing for every megabyte.
        raise Refused(411, "the request must give its length: Content-Length")
    if int(length[:20]) > most:
        raise Refused(413, f"a request of more than {most} bytes")


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

    def parameter(self, name: str | None) -> str | None:
        """The parameter of this name in the query string; None without one."""
        return None if name is None else QueryParams(self.scope["query_string"]).get(name)

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
        _require_described(self.headers, most, kinds)
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


class RankingApp:
    """The ASGI application. It can be mounted in another one, whose lifespan then enters `running`.

    Parameters
    ----------
    models
        The models that rank and learn (`Models`), or the models of a learner (`ReaderModels`).
    key
        Name of the query parameter that names a model; None for a single model.
    token
        The token that clients must send as `Authorization: Bearer TOKEN`, or the tokens of each role, `{"rank": ["..."],
        "learn": ["..."], "admin": ["..."]}`; None admits everyone who can connect.
    local_only
        Whether requests must have this machine as their host, so that no web page can reach the server through a browser with
        DNS rebinding.
    limits
        What clients may take.

    Examples
    --------
    >>> from contextlib import asynccontextmanager
    >>> from starlette.applications import Starlette
    >>> from starlette.routing import Mount
    >>> from online_rank import PerceptronRanker
    >>> from online_rank.serving import Models, RankingApp, RankingService
    >>> ranking = RankingApp(Models(lambda: RankingService(PerceptronRanker())), local_only=False)
    >>> @asynccontextmanager
    ... async def lifespan(app):
    ...     async with ranking.running():
    ...         yield
    >>> app = Starlette(routes=[Mount("/ranking", ranking)], lifespan=lifespan)
    """

    def __init__(
        self,
        models: AnyModels,
        *,
        key: str | None = None,
        token: str | Mapping[str, Sequence[str]] | Tokens | None = None,
        local_only: bool = True,
        limits: Limits | None = None,
    ) -> None:
        arguments.flag("local_only", local_only)
        self.models = models
        self.limits = limits or Limits()
        self._key = key
        given = {"admin": [token]} if isinstance(token, str) else token
        self._tokens = given if given is None or isinstance(given, Tokens) else Tokens(given)
        self._local_only = local_only
        #: Whether somebody lets time pass, or the log says that nobody does.
        self._is_attended = False
        self._worker = OnlyWorker()
        #: Requests being answered, by key, and in all.
        self._running: dict[str | None, int] = {}
        self._n_running = 0
        self.paths = Paths(models, key, self.limits, self._tokens is not None)
        self.figures = self.paths.figures
        self._no_http = Router(lifespan=lambda _: self.running())

    def stop(self) -> None:
        """End the event streams of pages, because a stopping server waits for every response."""
        self.paths.stopping.set()

    @asynccontextmanager
    async def running(self) -> AsyncIterator[None]:
        """A context in which time passes without requests, too: windows end, unused keys go.

        In the end all models are written to the disk. A server of this application alone enters it.

        Raises
        ------
        RuntimeError
            The server runs several workers, each of which would learn a separate model.
        """
        self._worker.claim()
        self._is_attended = True
        await self.models.begin()
        tasks = [asyncio.create_task(watch()) for watch in (*self.models.watches, self.figures.watch_the_loop)]
        try:
            yield
        finally:
            for task in tasks:
                task.cancel()
            self.stop()
            await self.models.close()

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        """The ASGI entry point."""
        if scope["type"] != "http":
            await self._no_http(scope, receive, send)
            return
        if not self._is_attended:
            self._say_that_time_stands()
        exchange, figures = Exchange(scope, receive, send), self.figures
        CURRENT.set(exchange)
        # An open page is a request without end.
        is_counted = exchange.path != "/events"
        figures.n_in_flight += is_counted
        try:
            await self._serve(exchange)
            if exchange.sent is not None:
                await exchange.sent()
            self._count(scope["method"], exchange.path, exchange.status, exchange.began)
        except ConnectionResetError:
            return
        finally:
            figures.n_in_flight -= is_counted
            exchange.is_answered = True

    def _count(self, method: str, path: str, status: int, began: float) -> None:
        """Count a request whose answer was sent; 0 for a client that has left."""
        seconds, figures = time.perf_counter() - began, self.figures
        if status:  # Its client has waited for an answer.
            figures.requests.append((path, status, seconds))
            if len(figures.requests) >= MOST_UNCOUNTED:
                figures.count()
        if _log.isEnabledFor(logging.DEBUG):
            _log.debug("%s %s: %d after %.1f ms", method, urllib.parse.quote(path), status, 1e3 * seconds)

    def at_once(
        self, headers: Sequence[tuple[bytes, bytes]], query: bytes, body: bytes, began: float
    ) -> tuple[bytes, Callable[[], None]] | None:
        """The answer to a request to rank that has come whole, if nothing has to be waited for, and nothing is refused.

        Parameters
        ----------
        headers, query, body
            The headers, the query string and the body of a POST request for `/rank`.
        began
            When its first byte came.

        Returns
        -------
        The answer as HTTP/1.1 sends it, and a function that counts it, to be called when it is sent. None if nothing has
        changed: then the request is answered as any other.
        """
        if not self._is_attended:
            return None
        trace, key = Trace(dict(headers)), None if self._key is None else QueryParams(query).get(self._key)
        try:
            roles = self._admitted("/rank", headers, trace.headers)
            _require_described(trace.headers, self.limits.body, QUERY)
        except Refused:
            return None
        if not self._has_place(key) or time.perf_counter() - began > 2.0 * self.limits.queue:
            return None
        CURRENT.set(trace)
        try:
            answer = self.models.at_once(key, body, None if self._tokens is None else kinds_of(roles))
        except Exception:  # What fails is answered as any other request, which logs it.
            return None
        finally:
            trace.is_answered = True
        if answer is None:
            return None
        content = msgspec.json.encode(answer)
        head = b"HTTP/1.1 200 OK\r\ncontent-type: application/json\r\ncontent-length: %d\r\n\r\n" % len(content)
        self.figures.n_in_flight += 1
        return head + content, functools.partial(self._count_sent, began)

    def _count_sent(self, began: float) -> None:
        """Count a request that was answered at once."""
        self.figures.n_in_flight -= 1
        self._count("POST", "/rank", 200, began)

    async def _serve(self, exchange: Exchange) -> None:
        """Answer a request. Raises ConnectionResetError if the client leaves before it is complete."""
        found: Answer | Response
        more: Headers = ()
        try:
            exchange.roles = self._admitted(exchange.path, exchange.scope["headers"], exchange.headers)
            is_read = exchange.path == "/model" and exchange.scope["method"] in READING
            found = await (self._post if exchange.path in POSTED and not is_read else self.paths.read)(exchange)
        except KeyRefused as error:
            found = error.status, {"error": str(error) if self._key is None else f"query parameter {self._key}: {error}"}
        except Refused as refused:
            found, more = (refused.status, {"error": str(refused)}), refused.headers
        except ConnectionResetError:
            raise
        except Exception:
            _log.exception("a request failed")
            found = 500, {"error": "this is a mistake of the server, whose log has more under this id"}
        if isinstance(found, Response):
            await found(exchange.scope, exchange.receive, exchange.send)
        else:
            await exchange.answer(*found, (*more, (b"retry-after", b"1")) if found[0] == 503 else more)

    def _say_that_time_stands(self) -> None:
        """Say, once, that nobody entered `running`, if something needs it. Raises RuntimeError as `running`."""
        self._worker.claim()
        self._is_attended = True
        if self.models.watches:
            _log.warning(
                "RankingApp.running was not entered, so time passes with requests only: windows do not end, and unused "
                "keys stay. Enter it in the lifespan of the application in which this one is mounted"
            )

    def _admitted(self, path: str, given: Iterable[tuple[bytes, bytes]], headers: Mapping[bytes, bytes]) -> frozenset[str]:
        """The roles of the client of a request; none without tokens. `headers` has one value for each name.

        Raises Refused for a request that comes from elsewhere, or whose token does not allow it.
        """
        if not is_local(given) and self._local_only:
            raise Refused(421, "this server answers to localhost only; start it with --host to be reached by name")
        if self._tokens is None or path in OPEN_TO_ALL:
            return frozenset()
        token, needed = headers.get(b"authorization", b""), _ROLES.get(path, ("admin",))
        roles = self._tokens.roles_of(token.removeprefix(b"Bearer ")) if token.startswith(b"Bearer ") else frozenset()
        if not roles:
            raise Refused(401, "send the token: Authorization: Bearer TOKEN", ((b"www-authenticate", b"Bearer"),))
        if roles.isdisjoint(needed):
            raise Refused(403, f"this token has the role {', '.join(sorted(roles))}; {path} needs {' or '.join(needed)}")
        return roles

    async def _post(self, exchange: Exchange) -> Answer:
        """Answer what is posted, if there is a place for it."""
        path, limits, key = exchange.path, self.limits, None if self._key is None else exchange.parameter(self._key)
        # By then: how long its body takes is up to its client.
        waited = time.perf_counter() - exchange.began
        if not self._has_place(key):
            raise self._no_place(key)
        self._running[key] = self._running.get(key, 0) + 1
        self._n_running += 1
        try:
            if path == "/rank" or path == "/learn":
                body = await exchange.body(limits.body, limits.seconds, QUERY)
                kinds, single = None if self._tokens is None else kinds_of(exchange.roles), self.models.single
                if waited > limits.queue and (path == "/learn" or waited > 2.0 * limits.queue):
                    return _QUEUED
                if path == "/learn" and single is not None and time.perf_counter() - single.commits.since > limits.queue:
                    return _QUEUED
                return await (self.models.answer(key, body, kinds) if single is None else single.answer(body, kinds))
            return await self.paths.change(exchange)
        finally:
            self._n_running -= 1
            self._running[key] -= 1
            if not self._running[key]:
                del self._running[key]

    def _has_place(self, key: str | None) -> bool:
        """Whether one more request of a key can be answered.

        One key alone gets half of the places, each of two a third, and so on: there is always room for another one.
        """
        left = self.limits.requests - self._n_running
        return left > 0 and (self._key is None or self._running.get(key, 0) < left)

    def _no_place(self, key: str | None) -> Refused:
        """The answer to a request if too many are being answered, at all or of its key."""
        if self._n_running >= self.limits.requests:
            return Refused(503, f"{self.limits.requests} requests are being answered already")
        return Refused(503, f"query parameter {self._key}: {self._running.get(key, 0)} of its requests are under way")
