"""A ranker behind HTTP (extra `serve`): the requests of `online_rank.serving.protocol`, a live page, metrics.

- `POST /rank` `{"id": ..., "docs": {...}}`: the ranking, best first, with scores; or the list to show, where a policy draws it.
- `POST /learn` `{"id": ..., "grades": {...}}` or `{"id": ..., "clicks": [...]}`: learned, and on the disk, when it is answered.
- `GET /stats`: counts and figures; `GET /metrics`: the same for Prometheus; `GET /healthz`: 200 while requests can be taken.
- `GET /`: a page that shows how the ranker learns, fed by `/events`; `GET /docs`, `/openapi.json`: this description.

The fields of a request say what it asks for, as in the JSON lines of `online-rank stream`; `/rank` and `/learn` both take all.
"""

import asyncio
import hmac
import importlib.resources
import json
import time
from collections.abc import AsyncIterator, Awaitable, Callable, MutableMapping
from contextlib import asynccontextmanager
from typing import Any, NamedTuple

from starlette.applications import Starlette
from starlette.requests import Request
from starlette.responses import HTMLResponse, JSONResponse, PlainTextResponse, Response, StreamingResponse
from starlette.routing import Route

from online_rank.serving.metrics import Figures
from online_rank.serving.models import KeyRefused, Models
from online_rank.serving.openapi import description, description_page
from online_rank.serving.wire import encoded

__all__ = ["Limits", "RankingApp"]

Scope = MutableMapping[str, Any]
Message = MutableMapping[str, Any]
Receive = Callable[[], Awaitable[Message]]
Send = Callable[[Message], Awaitable[None]]

#: Nothing but the page itself, and the server it came from.
_PAGE_HEADERS = {
    "Content-Security-Policy": "default-src 'none'; style-src 'unsafe-inline'; script-src 'unsafe-inline'; connect-src 'self'; "
    "img-src data:; base-uri 'none'; form-action 'none'; frame-ancestors 'none'",
    "X-Content-Type-Options": "nosniff",
    "Referrer-Policy": "no-referrer",
    "Cache-Control": "no-store",
}
_OPEN_TO_ALL = {"/", "/healthz", "/docs", "/openapi.json"}
_LOCAL_HOSTS = {b"localhost", b"127.0.0.1", b"[::1]"}


class Limits(NamedTuple):
    """What a client may take.

    Attributes
    ----------
    body
        Most bytes of a request.
    seconds
        Longest time until a request's body is there.
    streams
        Most pages that are fed at the same time.
    """

    body: int = 1 << 20
    seconds: float = 10.0
    streams: int = 50


class _Refused(Exception):
    """A request that is not read to its end."""

    def __init__(self, status: int, message: str) -> None:
        super().__init__(message)
        self.status = status


class RankingApp:
    """The ASGI application.

    Parameters
    ----------
    models
        What ranks and learns.
    key
        Name of the query parameter that names a model; None for a single model.
    token
        What clients must send as `Authorization: Bearer TOKEN`; None lets in everybody who can connect.
    local_only
        Whether requests must name this machine as their host, so that no web page can reach the server through a browser
        by a name of its own that leads here.
    limits
        What a client may take.
    """

    def __init__(
        self,
        models: Models,
        key: str | None = None,
        token: str | None = None,
        local_only: bool = True,
        limits: Limits | None = None,
    ) -> None:
        self.models = models
        self.figures = Figures(models)
        self.limits = limits or Limits()
        self._key = key
        self._token = None if token is None else token.encode()
        self._local_only = local_only
        self._stopping = asyncio.Event()
        self._n_streams = 0
        self._page = importlib.resources.files("online_rank.serving").joinpath("page.html").read_text("utf-8")
        self._description = description(key, token is not None)
        self._app = Starlette(
            routes=[
                Route("/", self._get_page),
                Route("/stats", self._get_stats),
                Route("/events", self._get_events),
                Route("/metrics", self._get_metrics),
                Route("/healthz", self._get_health),
                Route("/openapi.json", self._get_openapi),
                Route("/docs", self._get_docs),
            ],
            lifespan=self._lifespan,
        )

    def stop(self) -> None:
        """End the streams that feed pages: a server that stops waits for every response."""
        self._stopping.set()

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        """Answer one connection, as ASGI has it."""
        if scope["type"] == "http":
            if (refusal := self._refusal(scope)) is not None:
                await _send_json(send, *refusal)
                return
            if scope["path"] in ("/rank", "/learn"):
                await self._post(scope, receive, send)
                return
        await self._app(scope, receive, send)

    def _refusal(self, scope: Scope) -> tuple[int, dict[str, Any]] | None:
        """Why a request is not let in."""
        headers = dict(scope["headers"])
        host = headers.get(b"host", b"localhost")
        if self._local_only and host not in _LOCAL_HOSTS and host.rpartition(b":")[0] not in _LOCAL_HOSTS:
            return 421, {"error": "this server answers to localhost only; start it with --host to be reached by name"}
        if self._token is None or scope["path"] in _OPEN_TO_ALL:
            return None
        given = headers.get(b"authorization", b"")
        if not hmac.compare_digest(given, b"Bearer " + self._token):
            return 401, {"error": "send the token: Authorization: Bearer TOKEN"}
        return None

    async def _post(self, scope: Scope, receive: Receive, send: Send) -> None:
        """POST /rank and /learn, without the detours that Starlette takes for other requests."""
        started = time.perf_counter()
        path = scope["path"]
        try:
            body = await _read_body(scope, receive, self.limits)
            key = self._key_of(scope)
            model = await self.models.get(key)
            status, answer = await model.answer(body)
        except (_Refused, KeyRefused) as error:
            status, answer = error.status, {"error": str(error)}
        except ConnectionResetError:
            return
        self.figures.answered(path, status, time.perf_counter() - started)
        await _send_json(send, status, answer)

    def _key_of(self, scope: Scope) -> str | None:
        return Request(scope).query_params.get(self._key) if self._key is not None else None

    async def _get_page(self, request: Request) -> Response:
        return HTMLResponse(self._page, headers=_PAGE_HEADERS)

    async def _get_stats(self, request: Request) -> Response:
        key = self._key_of(request.scope)
        try:
            model = await self.models.get(key, may_make=False)
        except KeyRefused as error:
            return JSONResponse({"error": str(error)}, error.status)
        shown = model.snapshot()
        return JSONResponse({name: shown[name] for name in ("stats", "served", "drifts", "journal_bytes")})

    async def _get_events(self, request: Request) -> Response:
        key = self._key_of(request.scope)
        try:
            await self.models.get(key, may_make=False)
        except KeyRefused as error:
            return JSONResponse({"error": str(error)}, error.status)
        if self._n_streams >= self.limits.streams:
            return JSONResponse({"error": f"{self._n_streams} pages are fed already"}, 503)
        headers = {"Cache-Control": "no-store", "X-Accel-Buffering": "no"}
        return StreamingResponse(self._events(key), media_type="text/event-stream", headers=headers)

    async def _events(self, key: str | None) -> AsyncIterator[str]:
        """A snapshot a second, as long as something happens; a comment now and then, so that a page that is gone is noticed."""
        self._n_streams += 1
        last, quiet = None, 0
        try:
            while not self._stopping.is_set():
                model = await self.models.get(key, may_make=False)
                version = (id(model), model.monitor.version)
                quiet += 1
                if version != last:
                    yield f"data: {json.dumps(model.snapshot())}\n\n"
                    last, quiet = version, 0
                elif quiet % 15 == 0:
                    yield ": still here\n\n"
                try:
                    await asyncio.wait_for(self._stopping.wait(), 1.0)
                except TimeoutError:
                    continue
        except KeyRefused:
            return
        finally:
            self._n_streams -= 1

    async def _get_metrics(self, request: Request) -> Response:
        return PlainTextResponse(self.figures.text(), media_type=self.figures.content_type)

    async def _get_health(self, request: Request) -> Response:
        failed = [key for key, model in self.models.open_models.items() if model.commits.failure is not None]
        healthy = not failed and not self._stopping.is_set()
        return JSONResponse({"ok": healthy}, 200 if healthy else 503)

    async def _get_openapi(self, request: Request) -> Response:
        return JSONResponse(self._description)

    async def _get_docs(self, request: Request) -> Response:
        return HTMLResponse(description_page(self._description), headers=_PAGE_HEADERS)

    @asynccontextmanager
    async def _lifespan(self, app: Starlette) -> AsyncIterator[None]:
        yield
        await self.models.close()


async def _read_body(scope: Scope, receive: Receive, limits: Limits) -> bytes:
    """The body of a POST request. Raises _Refused for what is no such request, too large, or too slow to come."""
    if scope["method"] != "POST":
        raise _Refused(405, f"{scope['path']} takes POST")
    headers = dict(scope["headers"])
    # No browser sends this type to another site without asking first, which this server does not allow.
    if headers.get(b"content-type", b"").partition(b";")[0].strip().lower() != b"application/json":
        raise _Refused(415, "the body must be JSON: Content-Type: application/json")
    length = headers.get(b"content-length", b"0")
    if length.isdigit() and int(length[:20]) > limits.body:
        raise _Refused(413, f"a request of more than {limits.body} bytes")
    parts, size = [], 0
    try:
        async with asyncio.timeout(limits.seconds):
            while True:
                message = await receive()
                if message["type"] == "http.disconnect":
                    raise ConnectionResetError
                parts.append(message.get("body", b""))
                size += len(parts[-1])
                if size > limits.body:
                    raise _Refused(413, f"a request of more than {limits.body} bytes")
                if not message.get("more_body", False):
                    return parts[0] if len(parts) == 1 else b"".join(parts)
    except TimeoutError:
        raise _Refused(408, f"the request's body took more than {limits.seconds:g} seconds") from None


async def _send_json(send: Send, status: int, answer: dict[str, Any]) -> None:
    body = encoded(answer)
    headers = [(b"content-type", b"application/json"), (b"content-length", str(len(body)).encode())]
    if status == 401:
        headers.append((b"www-authenticate", b"Bearer"))
    elif status in (408, 413):
        headers.append((b"connection", b"close"))
    await send({"type": "http.response.start", "status": status, "headers": headers})
    await send({"type": "http.response.body", "body": body})
