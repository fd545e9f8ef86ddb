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
import math
import time
import urllib.parse
from collections.abc import AsyncIterator, Awaitable, Callable, Iterator, Mapping, Sequence
from contextlib import ExitStack, asynccontextmanager, contextmanager, nullcontext
from typing import Any

from starlette.datastructures import QueryParams
from starlette.responses import HTMLResponse, PlainTextResponse, Response
from starlette.routing import Router

from online_rank import arguments
from online_rank.base import abilities_of
from online_rank.serving import curves, replacing
from online_rank.serving.asgi import Exchange, Headers, Limits, Receive, Refused, Scope, Send, is_local
from online_rank.serving.messages import BINARY
from online_rank.serving.metrics import MOST_UNCOUNTED, Figures
from online_rank.serving.models import KeyRefused
from online_rank.serving.openapi import OPEN_TO_ALL, description, description_page
from online_rank.serving.pages import PAGE_HEADERS, OpenPages, Parts, cut, page_of
from online_rank.serving.protocol import RankingService
from online_rank.serving.readers import AnyModels
from online_rank.serving.served import Answer, ServedModel, seconds_ahead
from online_rank.serving.tokens import ROLES, Tokens, kinds_of
from online_rank.serving.trace import CURRENT
from online_rank.serving.workers import OnlyWorker

_log = logging.getLogger("online_rank.serving")

#: Paths that take queries, and the media types of their bodies.
_OF_QUERIES, _QUERY = ("/rank", "/learn", "/explain"), (b"application/json", BINARY.encode())
#: What else is posted.
_CHANGES: dict[str, Callable[[ServedModel, bytes], Awaitable[Answer]]] = {
    "/ranked": ServedModel.take_rankings,
    "/model": replacing.replace,
    "/model/rollback": replacing.roll_back,
    "/forget": replacing.forget,
}
_POSTED = (*_OF_QUERIES, *_CHANGES)
#: The roles that may send requests to a path; others need admin.
_ROLES = {"/rank": ROLES, "/learn": ROLES, "/explain": ("rank", "admin")}
_READING = ("GET", "HEAD")
_REMEDY_OF_TIMES = "stored times lie ahead of the clock: if the clock is right, stop the server and run online-rank repair DIR"


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
    >>> from contextlib import ExitStack, asynccontextmanager, contextmanager, nullcontext
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
        self._stopping = asyncio.Event()
        #: Whether somebody lets time pass, or the log says that nobody does.
        self._is_attended = False
        self._worker = OnlyWorker()
        self._n_files = 0
        #: Requests being answered, by key, and in all.
        self._running: dict[str | None, int] = {}
        self._n_running = 0
        self._page, self._pages = page_of(key), OpenPages()
        self._routes: dict[str, Callable[[Exchange], Awaitable[Answer | Response]]] = {
            "/": self._get_page,
            "/stats": self._get_stats,
            "/events": self._get_events,
            "/curves": functools.partial(self._get_curves, curves.FIRST),
            "/curves/all": functools.partial(self._get_curves, curves.MOST),
            "/model": self._get_model,
            "/metrics": self._get_metrics,
            "/healthz": self._get_health,
            "/readyz": self._get_readiness,
            "/openapi.json": self._get_openapi,
            "/docs": self._get_docs,
        }
        self.figures = Figures(models, {*_POSTED, *self._routes})
        self._no_http = Router(lifespan=lambda _: self.running())

    @functools.cached_property
    def _description(self) -> dict[str, Any]:
        return description(self._key, self._tokens is not None, _types_of_features(self.models.example()))

    def stop(self) -> None:
        """End the event streams of pages, because a stopping server waits for every response."""
        self._stopping.set()

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
            seconds = time.perf_counter() - exchange.began
            if exchange.status:  # Its client has waited for an answer.
                figures.requests.append((exchange.path, exchange.status, seconds))
                if len(figures.requests) >= MOST_UNCOUNTED:
                    figures.count()
            if _log.isEnabledFor(logging.DEBUG):
                path = urllib.parse.quote(exchange.path)
                _log.debug("%s %s: %d after %.1f ms", scope["method"], path, exchange.status, 1e3 * seconds)
        except ConnectionResetError:
            return
        finally:
            figures.n_in_flight -= is_counted
            exchange.is_answered = True

    async def _serve(self, exchange: Exchange) -> None:
        """Answer a request. Raises ConnectionResetError if the client leaves before it is complete."""
        found: Answer | Response
        more: Headers = ()
        try:
            self._require_admitted(exchange)
            is_read = exchange.path == "/model" and exchange.scope["method"] in _READING
            found = await (self._post if exchange.path in _POSTED and not is_read else self._get)(exchange)
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

    def _require_admitted(self, exchange: Exchange) -> None:
        """Raise Refused for a request that comes from elsewhere, or whose token does not allow it."""
        if not is_local(exchange.scope["headers"]) and self._local_only:
            raise Refused(421, "this server answers to localhost only; start it with --host to be reached by name")
        path = exchange.path
        if self._tokens is None or path in OPEN_TO_ALL:
            return
        roles, needed = self._roles(exchange, self._tokens), _ROLES.get(path, ("admin",))
        exchange.roles = roles
        if not roles:
            raise Refused(401, "send the token: Authorization: Bearer TOKEN", ((b"www-authenticate", b"Bearer"),))
        if roles.isdisjoint(needed):
            raise Refused(403, f"this token has the role {', '.join(sorted(roles))}; {path} needs {' or '.join(needed)}")

    def _roles(self, exchange: Exchange, tokens: Tokens) -> frozenset[str]:
        """The roles of a client; none if it has no token."""
        given = exchange.headers.get(b"authorization", b"")
        return tokens.roles_of(given.removeprefix(b"Bearer ")) if given.startswith(b"Bearer ") else frozenset()

    async def _get(self, exchange: Exchange) -> Answer | Response:
        """Answer what is not posted."""
        is_key = exchange.path.startswith("/models/")
        answer = self._delete_model if is_key else self._routes.get(exchange.path)
        methods = ("DELETE",) if is_key else _READING
        if answer is None:
            raise Refused(404, "there is nothing under this path; GET /docs says what there is", stays=True)
        if exchange.scope["method"] not in methods:
            raise Refused(405, f"this path takes {methods[0]}", ((b"allow", ", ".join(methods).encode()),), stays=True)
        return await answer(exchange)

    async def _post(self, exchange: Exchange) -> Answer:
        """Answer what is posted, if there is a place for it."""
        path, limits, key = exchange.path, self.limits, None if self._key is None else self._key_of(exchange)
        running = self._running[key] = self._running.get(key, 0) + 1
        self._n_running += 1
        try:
            if self._n_running > limits.requests or (self._key is not None and running > limits.requests - self._n_running + 1):
                raise self._no_place(running)
            if path == "/rank" or path == "/learn":
                body = await exchange.body(limits.body, limits.seconds, _QUERY)
                kinds, single = None if self._tokens is None else kinds_of(exchange.roles), self.models.single
                return await (self.models.answer(key, body, kinds) if single is None else single.answer(body, kinds))
            with self._place_of_file() if path in ("/model", "/model/rollback") else nullcontext():
                return await self._answer(exchange, key)
        finally:
            self._n_running -= 1
            self._running[key] -= 1
            if not self._running[key]:
                del self._running[key]

    def _no_place(self, running: int) -> Refused:
        """The answer to a request if too many are being answered, at all or of its key.

        One key alone gets half of the places, each of two a third, and so on: there is always room for another one.
        """
        if self._n_running > self.limits.requests:
            return Refused(503, f"{self.limits.requests} requests are being answered already")
        return Refused(503, f"query parameter {self._key}: {running - 1} of its requests are under way")

    async def _answer(self, exchange: Exchange, key: str | None) -> Answer:
        limits, path = self.limits, exchange.path
        if path == "/model":
            body = await exchange.body(limits.model, self._seconds_for_a_file, (b"application/octet-stream",))
        elif path in _OF_QUERIES:
            body = await exchange.body(limits.body, limits.seconds, _QUERY)
        else:
            body = await exchange.body(limits.body, limits.seconds)
        model = await self._model(exchange)
        if path == "/explain":
            return model.explain(body)
        return model.refusal or await _CHANGES[path](model, body)

    @property
    def _seconds_for_a_file(self) -> float:
        """The time limit of a model: the limit of a request, in proportion to its size."""
        return self.limits.seconds * self.limits.model / self.limits.body

    @contextmanager
    def _place_of_file(self) -> Iterator[None]:
        """A place for a whole model that is sent or received. Raises Refused if all are taken."""
        if self._n_files >= self.limits.files:
            raise Refused(429, f"{self.limits.files} models are being sent or received already", ((b"retry-after", b"1"),))
        self._n_files += 1
        try:
            yield
        finally:
            self._n_files -= 1

    def _key_of(self, exchange: Exchange) -> str | None:
        return None if self._key is None else QueryParams(exchange.scope["query_string"]).get(self._key)

    async def _model(self, exchange: Exchange) -> ServedModel:
        """The model that a request is about. Raises KeyRefused if the key has none."""
        return await self.models.get(self._key_of(exchange), may_make=False)

    async def _get_page(self, exchange: Exchange) -> Response:
        return HTMLResponse(self._page, headers=PAGE_HEADERS)

    async def _get_stats(self, exchange: Exchange) -> Answer:
        return 200, (await self._model(exchange)).figures()

    async def _get_curves(self, n: int, exchange: Exchange) -> Answer:
        ranker = curves.copied((await self._model(exchange)).durable.service.model)
        return 200, await asyncio.to_thread(curves.curves_of, ranker, n)

    async def _get_model(self, exchange: Exchange) -> Response:
        model = await self._model(exchange)
        version, model.read_until = f'"{model.version}"', math.inf
        if exchange.headers.get(b"if-none-match") == version.encode():
            return Response(status_code=304, headers={"ETag": version})
        headers = {"Content-Disposition": 'attachment; filename="model.npz"', "ETag": version}
        # It keeps its place until it is sent.
        with ExitStack() as place:
            place.enter_context(self._place_of_file())
            content = model.model_file()
            headers["Content-Length"] = str(len(content))
            return Parts(cut(content), "application/octet-stream", headers, place.pop_all().close, self._seconds_for_a_file)

    async def _delete_model(self, exchange: Exchange) -> Answer:
        if self._key is None:
            raise Refused(404, "this server has one model only, which goes with its folder")
        await self.models.delete(exchange.path.removeprefix("/models/"))
        return 200, {"deleted": True}

    async def _get_events(self, exchange: Exchange) -> Response:
        await self._model(exchange)
        return self._pages.events(self.models, self._key_of(exchange), self._stopping, self.limits.streams)

    async def _get_metrics(self, exchange: Exchange) -> Response:
        return PlainTextResponse(self.figures.text(), media_type=self.figures.content_type)

    async def _get_health(self, exchange: Exchange) -> Answer:
        """Whether the service works, so that no restart is needed."""
        return _status(not self._has_failed())

    async def _get_readiness(self, exchange: Exchange) -> Answer:
        """Whether requests should be sent here, whether the disk is full, and whether stored times lie ahead of the clock."""
        models = self.models.open_models.values()
        ahead = seconds_ahead(models)
        found = {"seconds_ahead": round(ahead, 3), "remedy": _REMEDY_OF_TIMES} if ahead else {}
        if full := [str(model.commits.full) for model in models if model.commits.full is not None]:
            found["disk_full"] = full[0]
        if why := self.models.why_not_ready:
            found["error"] = why
        return _status(not self._has_failed() and not self._stopping.is_set() and not why, found)

    def _has_failed(self) -> bool:
        return any(model.commits.failure is not None for model in self.models.open_models.values())

    async def _get_openapi(self, exchange: Exchange) -> Answer:
        return 200, self._description

    async def _get_docs(self, exchange: Exchange) -> Response:
        return HTMLResponse(description_page(self._description), headers=PAGE_HEADERS)


def _types_of_features(service: RankingService) -> tuple[str, ...]:
    """The JSON types of features that a service takes."""
    texts = ("string", "array") if abilities_of(service.model).takes_documents else ()
    return ("number", "boolean", *texts, "null")


def _status(is_well: bool, more: dict[str, Any] | None = None) -> Answer:
    return 200 if is_well else 503, {"ok": is_well, **(more or {})}
