"""What a server answers next to rankings and feedback: the page, figures, models and descriptions; and what else is posted."""

import asyncio
import functools
import math
from collections.abc import Awaitable, Callable, Iterator
from contextlib import ExitStack, contextmanager, nullcontext
from typing import TYPE_CHECKING, Any

from starlette.responses import HTMLResponse, PlainTextResponse, Response

from online_rank.base import abilities_of
from online_rank.serving import curves, replacing
from online_rank.serving.asgi import Limits, Refused
from online_rank.serving.durable import is_for_room
from online_rank.serving.messages import BINARY
from online_rank.serving.metrics import Figures
from online_rank.serving.openapi import description, description_page
from online_rank.serving.pages import PAGE_HEADERS, OpenPages, Parts, cut, page_of
from online_rank.serving.protocol import RankingService
from online_rank.serving.readers import AnyModels
from online_rank.serving.served import Answer, ServedModel, seconds_ahead
from online_rank.storage.files import to_bytes

if TYPE_CHECKING:
    from online_rank.serving.http import Exchange

#: The media types of queries.
QUERY = (b"application/json", BINARY.encode())
#: What is posted next to queries.
_CHANGES: dict[str, Callable[[ServedModel, bytes], Awaitable[Answer]]] = {
    "/ranked": ServedModel.take_rankings,
    "/model": replacing.replace,
    "/model/rollback": replacing.roll_back,
    "/forget": replacing.forget,
}
#: Paths that take queries, and all that take something.
POSTED = ("/rank", "/learn", "/explain", *_CHANGES)
READING = ("GET", "HEAD")
_REMEDY_OF_TIMES = "stored times lie ahead of the clock: if the clock is right, stop the server and run online-rank repair DIR"


class Paths:
    """What is under the paths of a server, except `/rank` and `/learn`.

    Parameters
    ----------
    models, key, limits
        As for `RankingApp`.
    has_tokens
        Whether clients must send a token.
    """

    def __init__(self, models: AnyModels, key: str | None, limits: Limits, has_tokens: bool) -> None:
        self._models, self._key, self._limits, self._has_tokens = models, key, limits, has_tokens
        #: Set when the server stops.
        self.stopping = asyncio.Event()
        self.n_files = 0
        self._page, self.pages = page_of(key), OpenPages()
        self._routes: dict[str, Callable[[Exchange], Awaitable[Answer | Response]]] = {
            "/": self._get_page,
            "/stats": self._get_stats,
            "/events": self._get_events,
            "/curves": functools.partial(self._get_curves, curves.FIRST),
            "/curves/all": functools.partial(self._get_curves, curves.MOST),
            "/model": self._get_model,
            "/model/waiting": self._get_waiting,
            "/metrics": self._get_metrics,
            "/healthz": self._get_health,
            "/readyz": self._get_readiness,
            "/openapi.json": self._get_openapi,
            "/docs": self._get_docs,
        }
        self.figures = Figures(models, {*POSTED, *self._routes})

    @functools.cached_property
    def _description(self) -> dict[str, Any]:
        return description(self._key, self._has_tokens, _types_of_features(self._models.example()))

    async def read(self, exchange: "Exchange") -> Answer | Response:
        """Answer what is not posted."""
        is_key = exchange.path.startswith("/models/")
        answer = self._delete_model if is_key else self._routes.get(exchange.path)
        methods = ("DELETE",) if is_key else READING
        if answer is None:
            raise Refused(404, "there is nothing under this path; GET /docs says what there is", stays=True)
        if exchange.scope["method"] not in methods:
            raise Refused(405, f"this path takes {methods[0]}", ((b"allow", ", ".join(methods).encode()),), stays=True)
        return await answer(exchange)

    async def change(self, exchange: "Exchange") -> Answer:
        """Answer what is posted. Raises Refused, KeyRefused."""
        with self._place_of_file() if exchange.path in ("/model", "/model/rollback") else nullcontext():
            return await self._change(exchange)

    async def _change(self, exchange: "Exchange") -> Answer:
        limits, path = self._limits, exchange.path
        if path == "/model":
            body = await exchange.body(limits.model, self._seconds_for_a_file, (b"application/octet-stream",))
        elif path == "/explain":
            body = await exchange.body(limits.body, limits.seconds, QUERY)
        else:
            body = await exchange.body(limits.body, limits.seconds)
        model = await self._model(exchange)
        if path == "/explain":
            return model.explain(body)
        if path == "/model":
            return model.refusal or await replacing.replace(model, body, line=exchange.parameter("line"))
        return model.refusal or await _CHANGES[path](model, body)

    @property
    def _seconds_for_a_file(self) -> float:
        """The time limit of a model: the limit of a request, in proportion to its size."""
        return self._limits.seconds * self._limits.model / self._limits.body

    @contextmanager
    def _place_of_file(self) -> Iterator[None]:
        """A place for a whole model that is sent or received. Raises Refused if all are taken."""
        if self.n_files >= self._limits.files:
            raise Refused(429, f"{self._limits.files} models are being sent or received already", ((b"retry-after", b"1"),))
        self.n_files += 1
        try:
            yield
        finally:
            self.n_files -= 1

    async def _model(self, exchange: "Exchange") -> ServedModel:
        """The model that a request is about. Raises KeyRefused if the key has none."""
        return await self._models.get(exchange.parameter(self._key), may_make=False)

    async def _get_page(self, exchange: "Exchange") -> Response:
        return HTMLResponse(self._page, headers=PAGE_HEADERS)

    async def _get_stats(self, exchange: "Exchange") -> Answer:
        return 200, (await self._model(exchange)).figures()

    async def _get_curves(self, n: int, exchange: "Exchange") -> Answer:
        service = (await self._model(exchange)).durable.service
        # While the ranking of today serves, the curves of the model that waits.
        ranker = curves.copied(service.model) or curves.copied(service.learning_model)
        return 200, await asyncio.to_thread(curves.curves_of, ranker, n)

    async def _get_model(self, exchange: "Exchange") -> Response:
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

    async def _get_waiting(self, exchange: "Exchange") -> Answer | Response:
        """The file of the model that waits: the challenger, or the ranking of today."""
        model = await self._model(exchange)
        challenge = model.durable.service.challenge
        if challenge is None:
            return 404, {"error": "no model waits: there is no challenger, and no ranking of today"}
        headers = {"Content-Disposition": 'attachment; filename="waiting.npz"'}
        with ExitStack() as place:
            place.enter_context(self._place_of_file())
            content = to_bytes(challenge.model)
            headers["Content-Length"] = str(len(content))
            return Parts(cut(content), "application/octet-stream", headers, place.pop_all().close, self._seconds_for_a_file)

    async def _delete_model(self, exchange: "Exchange") -> Answer:
        if self._key is None:
            raise Refused(404, "this server has one model only, which goes with its folder")
        await self._models.delete(exchange.path.removeprefix("/models/"))
        return 200, {"deleted": True}

    async def _get_events(self, exchange: "Exchange") -> Response:
        await self._model(exchange)
        return self.pages.events(self._models, exchange.parameter(self._key), self.stopping, self._limits.streams)

    async def _get_metrics(self, exchange: "Exchange") -> Response:
        return PlainTextResponse(self.figures.text(), media_type=self.figures.content_type)

    async def _get_health(self, exchange: "Exchange") -> Answer:
        """Whether the service works, so that no restart is needed."""
        return _status(not self._has_failed())

    async def _get_readiness(self, exchange: "Exchange") -> Answer:
        """Whether requests should be sent here, whether the disk is full, and whether stored times lie ahead of the clock."""
        models = self._models.open_models.values()
        ahead = seconds_ahead(models)
        found = {"seconds_ahead": round(ahead, 3), "remedy": _REMEDY_OF_TIMES} if ahead else {}
        for model in models:
            if (full := model.commits.full) is not None:
                found["disk_full" if is_for_room(full) else "read_only"] = str(full)
        if why := self._models.why_not_ready:
            found["error"] = why
        return _status(not self._has_failed() and not self.stopping.is_set() and not why, found)

    def _has_failed(self) -> bool:
        return any(model.commits.failure is not None for model in self._models.open_models.values())

    async def _get_openapi(self, exchange: "Exchange") -> Answer:
        return 200, self._description

    async def _get_docs(self, exchange: "Exchange") -> Response:
        return HTMLResponse(description_page(self._description), headers=PAGE_HEADERS)


def _types_of_features(service: RankingService) -> tuple[str, ...]:
    """The JSON types of features that a service takes."""
    texts = ("string", "array") if abilities_of(service.model).takes_documents else ()
    return ("number", "boolean", *texts, "null")


def _status(is_well: bool, more: dict[str, Any] | None = None) -> Answer:
    return 200 if is_well else 503, {"ok": is_well, **(more or {})}
