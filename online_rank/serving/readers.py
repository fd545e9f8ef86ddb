"""Readers: processes that rank with the model of a learner, and leave learning to it (extra `client`)."""

import asyncio
import collections
import contextlib
import json
import logging
import re
import time
import zlib
from collections.abc import Callable, Collection, Coroutine, Iterator
from pathlib import Path
from typing import Any

from online_rank.base import abilities_of, ranker_of
from online_rank.serving.asgi import ANOTHER_LEADS
from online_rank.serving.cached import MOST_MODEL, Cache
from online_rank.serving.durable import DurableService
from online_rank.serving.elsewhere import message_of
from online_rank.serving.messages import BINARY, BINARY_BEGINS, Rank
from online_rank.serving.models import KeyRefused, Models, required
from online_rank.serving.outbox import PATIENCE, Outbox
from online_rank.serving.protocol import RankingService, other_kind
from online_rank.serving.reading import RequestError, read, read_to_rank
from online_rank.serving.replacing import tried
from online_rank.serving.served import Answer, ServedModel, answered
from online_rank.storage.files import ModelFileError, from_bytes
from online_rank.support.lazy import needs

_log = logging.getLogger("online_rank.serving")

#: Seconds between two looks at the learner's model, and after one at a server that waits to lead; and for how long that may
#: answer before requests should go elsewhere.
_BETWEEN_LOOKS, _BETWEEN_TRIES, _MOST_WITHOUT_LEAD = 1.0, 0.25, 5.0
#: Bits of the number of a draw that count; the others are the reader's.
_COUNTED = 20
#: What the learner answers to a reader whose token it does not know, or that may not do what readers do.
_NO_TOKEN = (401, 403)
_OTHER_TOKEN = "the learner refuses the token of this reader: its first token with the role admin must be one of the learner's"
#: Most seconds of the learner's model, and most bytes of another answer.
_MOST_SECONDS, _MOST_ANSWER = 300.0, 1 << 26
#: What an ETag looks like (RFC 9110), of a sensible length.
_ETAG = re.compile(r'(?:W/)?"[!#-~]{0,200}"')
_AWAY = 503, {"error": "the learner cannot be reached: nothing is learned now; send this again"}


def _waits_for_learner(model: Any, message: Rank) -> bool:
    """Whether only the model that waits, which the learner has, can rank some documents of a query."""
    declared = model.durable.service.needs.declared
    return bool(declared.today) and not declared.lacking(message).keys().isdisjoint(declared.today)


class _ReadModel(ServedModel):
    """A model that is read from a learner, which alone replaces it and forgets."""

    def __init__(self, model: Any, etag: str, learner: str, first_draw: int) -> None:
        if abilities_of(model).draws:
            ranker_of(model).n_shown = first_draw
        service = RankingService(model)
        service.takes_any_context, service.keeps_queries = True, False
        super().__init__(DurableService(service))
        self.etag = etag
        self.refusal = 409, {"error": f"this is a reader: send this to the learner, {learner}"}
        #: When the learner said last that this is its model.
        self.checked = time.monotonic()

    def take(self, model: Any, etag: str) -> None:
        """Rank with another model from now on; draws continue where they were."""
        service = self.durable.service
        if service.draws:
            ranker_of(model).n_shown = ranker_of(service.model).n_shown
        service.replace_model(model, None)
        self.exchanged()
        self.etag = etag


class ReaderModels:
    """The models of a reader: they rank here, and what they ranked, with the feedback on it, goes to the learner.

    Parameters
    ----------
    learner
        The address of the learner.
    name
        The name of this reader, different from the names of others: its draws follow from it.
    key
        Name of the query parameter that names a model; None for a single model.
    token
        A token of the learner with the role admin; None for none.
    cache
        The folder that keeps the models last read, to start while the learner is away; None for none.
    max_open
        Most models in memory.
    """

    #: Requests find their model, which others replace.
    single = None

    def __init__(
        self,
        learner: str,
        *,
        name: str,
        key: str | None = None,
        token: str | None = None,
        cache: str | Path | None = None,
        max_open: int = 100,
    ) -> None:
        with needs("a reader", "serve,client"):
            import httpx
        #: The models in memory, by key, the most recently used last.
        self.open_models: dict[str, ServedModel] = {}
        self.by_key, self._key, self._learner = key is not None, key, learner.rstrip("/")
        self._max_open = max_open
        #: Nobody answers, or somebody who is no learner.
        self._failures = httpx.HTTPError, httpx.StreamError, TimeoutError, ValueError, TypeError, AttributeError
        headers = {} if token is None else {"Authorization": f"Bearer {token}"}
        # A few megabytes of an answer that is compressed may be gigabytes.
        headers["Accept-Encoding"] = "identity"
        self.http: Any = httpx.AsyncClient(base_url=self._learner, headers=headers, timeout=PATIENCE)
        self._cache = None if cache is None else Cache(cache)
        self._why_failed = ""
        # No two readers draw alike, and none does again after a restart.
        self._first_draw = zlib.crc32(f"{name} {time.time_ns()}".encode()) << _COUNTED
        self._reading, self._is_refused = asyncio.Lock(), False
        #: Since when all answers of the learner are that another server leads; None if the last one was not.
        self._waits_since: float | None = None
        self.outbox = Outbox(lambda key, body: self._posted("/ranked", key, body))

    @property
    def watches(self) -> list[Callable[[], Coroutine[Any, Any, None]]]:
        """What happens when no requests come, as long as each of these runs."""
        return [self._follow, self.outbox.send_all]

    @property
    def why_not_ready(self) -> str:
        """Why requests should go elsewhere: no model was read yet, or the learner is a server that does not lead any more."""
        if not (self.by_key or self.open_models):
            return "no model was read from the learner yet, and none is in the cache"
        # Several servers may have the learner's name, and one of them leads.
        is_led = self._waits_since is None or time.monotonic() - self._waits_since < _MOST_WITHOUT_LEAD
        return "" if is_led else f"{ANOTHER_LEADS} than the learner of this reader, {self._learner}"

    def example(self) -> RankingService:
        """A service with the settings of all. Raises KeyRefused while there is none."""
        for model in self.open_models.values():
            return model.durable.service
        raise KeyRefused(503, "no model was read from the learner yet")

    @property
    def counts(self) -> collections.Counter[str]:
        """Counts since the process began."""
        box = self.outbox
        total = collections.Counter(sent=box.n_sent, dropped=box.n_dropped, not_taken=box.n_refused)
        for model in self.open_models.values():
            total.update(model.counts())
        return total

    def gauges(self) -> Iterator[tuple[str, str, float]]:
        """Name, description and value of the gauges that are not of single models."""
        yield "keys", "Keys that have a model, in memory or not", len(self.open_models)
        yield "queue_bytes", "Size of the rankings that wait to be sent to the learner", self.outbox.n_bytes
        since = [time.monotonic() - each.checked for each in self.open_models.values() if isinstance(each, _ReadModel)]
        yield "seconds_behind", "Since when the learner may have another model", max(since, default=0.0)

    def at_once(self, key: str | None, request: bytes, kinds: Collection[str] | None = None) -> dict[str, Any] | None:
        """The ranking of a query, if it is made here, without waiting for anything; None, with nothing changed, if not."""
        message, name = read_to_rank(request), (key or "") if self.by_key else ""
        model = self.open_models.get(name)
        if model is None or message is None or _waits_for_learner(model, message):
            return None
        self.open_models[name] = self.open_models.pop(name)
        status, answer = self._ranked(key, model, message, request, kinds)
        return answer if status == 200 else None

    async def answer(self, key: str | None, request: bytes, kinds: Collection[str] | None = None) -> Answer:
        """Rank here, or pass on to the learner what else there is; feedback is learned there when this returns."""
        message: Any = None
        with contextlib.suppress(RequestError):
            message = read(request)
        if message is not None and not isinstance(message, Rank):
            return await self._passed_on(key, message, request, kinds)
        try:
            model = await self.get(key)
        except KeyRefused as refused:
            if refused.status != 404:
                raise
            # The learner makes the models of new keys.
            return await self._posted("/rank", key, request)
        if message is not None and _waits_for_learner(model, message):
            answer = await self._posted("/rank", key, request)
            if answer is not _AWAY:
                return answer
        return self._ranked(key, model, message, request, kinds)

    def _ranked(self, key: str | None, model: Any, message: Any, request: bytes, kinds: Collection[str] | None) -> Answer:
        """Rank here; `message` is the request as it was read, or None if it cannot be."""
        service = model.durable.service
        reply = service.handle(request, kinds=kinds) if message is None else service.handle_read(message, request, kinds)
        if reply.outcome is not None:
            self.outbox.put(key, reply.answer["id"], message_of(reply.outcome, model.etag.strip('"')))
            model.watch(reply)
        return answered(reply)

    async def _passed_on(self, key: str | None, message: Any, request: bytes, kinds: Collection[str] | None) -> Answer:
        """The answer of the learner to feedback, once it has the ranking."""
        query_id = getattr(message, "id", None)
        if error := other_kind(message, kinds):
            return 403, {"error": error}
        try:
            await self.outbox.sent(key, query_id)
        except TimeoutError:
            return _AWAY
        if self.outbox.has_dropped(key, query_id):
            error = "the ranking of this query never reached the learner: nothing is learned (see online_rank_dropped)"
            return 409, {"id": query_id, "error": error}
        return await self._posted("/learn", key, request)

    async def get(self, key: str | None, may_make: bool = True) -> Any:
        """The model of a key, read if it is not here yet. Raises KeyRefused."""
        name = required(key) if self.by_key else ""
        if name not in self.open_models:
            async with self._reading:
                if name not in self.open_models:
                    await self._read(name)
        model = self.open_models[name] = self.open_models.pop(name)
        while len(self.open_models) > self._max_open:
            del self.open_models[next(iter(self.open_models))]
        return model

    async def delete(self, key: str | None) -> None:
        """Not here. Raises KeyRefused."""
        raise KeyRefused(409, f"this is a reader: send this to the learner, {self._learner}")

    async def _read(self, key: str) -> None:
        """Read the model of a key from the learner if it is another one than before, or from the cache. Raises KeyRefused."""
        known: Any = self.open_models.get(key)
        began, headers = time.monotonic(), {"If-None-Match": known.etag} if known and known.etag else {}
        why = ""
        try:
            status, content, etag = await self._fetched("GET", "/model", key, MOST_MODEL, headers=headers)
            if status == 304 and not headers:
                raise ValueError("it answered that a model is unchanged which was not asked for")
            if status == 200 and not _ETAG.fullmatch(etag):
                why, etag = f"its ETag is {etag[:40]!r}, so its model is read again each time", ""
        except self._failures as error:
            status, content, etag, why = 503, b"", "", f"{type(error).__name__}: {error}"
        self._tell(why or ("" if status in (200, 304, 404) else f"it answered with {status}"))
        if status == 503 and ANOTHER_LEADS.encode() in content:
            self._waits_since = self._waits_since or began
        elif status != 503 or content:
            self._waits_since = None
        if status in _NO_TOKEN and not self._is_refused:
            _log.error("%s", _OTHER_TOKEN)
        self._is_refused = status in _NO_TOKEN
        if status == 404:
            self.open_models.pop(key, None)
            raise KeyRefused(404, "there is no model under this key")
        if status == 304:
            known.checked = began
        elif status == 200:
            await self._take(key, content, etag, began)
        elif known is None:
            kept = None if self._cache is None else await asyncio.to_thread(self._cache.get, key)
            if kept is None:
                why = _OTHER_TOKEN if self._is_refused else f"no model can be read from the learner ({status})"
                raise KeyRefused(503, f"{why}, and none is in the cache")
            await self._take(key, kept, "", float("-inf"))

    async def _take(self, key: str, content: bytes, etag: str, checked: float) -> None:
        """Rank with the model of a file, which the learner had at a time."""
        try:
            known: Any = self.open_models.get(key)
            # The first one ranks once, so that no client waits for the compiler.
            model = await asyncio.to_thread(tried if known is None else from_bytes, content)
            if known is not None:
                known.take(model, etag)
            else:
                known = self.open_models[key] = _ReadModel(model, etag, self._learner, self._first_draw)
        except (ModelFileError, TypeError, ValueError) as error:
            _log.error("the learner's model cannot be used: %s", error)
            if key not in self.open_models:
                raise KeyRefused(503, "the learner's model cannot be used; the log of this reader says why") from None
            return
        known.checked = max(checked, known.checked) if checked > float("-inf") else time.monotonic()
        if self._cache is not None and etag:
            await asyncio.to_thread(self._cache.put, content, key)

    def _tell(self, why: str) -> None:
        """Log a look at the learner's model that failed: as a warning, if the last one did not fail in the same way."""
        if why:
            level = logging.INFO if why == self._why_failed else logging.WARNING
            _log.log(level, "the model of the learner, %s, cannot be looked at: %s", self._learner, why)
        self._why_failed = why

    async def begin(self) -> None:
        """Read the single model, if the learner or the cache has it."""
        if not self.by_key:
            with contextlib.suppress(KeyRefused):
                await self.get(None)

    async def _follow(self) -> None:
        """Read models that have changed, once a second, as long as this runs."""
        while True:
            for key in [*self.open_models] or ([] if self.by_key else [""]):
                try:
                    async with self._reading:
                        await self._read(key)
                except KeyRefused:
                    pass
                except Exception:  # The next look comes all the same.
                    _log.exception("the learner's model cannot be looked at")
            await asyncio.sleep(_BETWEEN_LOOKS if self._waits_since is None else _BETWEEN_TRIES)

    async def close(self) -> None:
        """Send what waits, if the learner takes it soon, and close the connections."""
        with contextlib.suppress(TimeoutError):
            async with asyncio.timeout(PATIENCE):
                while self.outbox.n_bytes and await self.outbox.send_some():
                    pass
        await self.http.aclose()
        self.open_models.clear()

    def _of(self, key: str | None) -> dict[str, str]:
        return {} if self._key is None or key is None else {self._key: key}

    async def _fetched(self, method: str, path: str, key: str | None, most: int, **more: Any) -> tuple[int, bytes, str]:
        """The status, the content and the ETag of an answer of the learner. Raises ValueError for one that is too large."""
        pieces, n_bytes = [], 0
        async with (
            asyncio.timeout(_MOST_SECONDS),
            self.http.stream(method, path, params=self._of(key), **more) as response,
        ):
            if response.headers.get("content-encoding", "identity") != "identity":
                raise ValueError("its answer is compressed, which was not asked for")
            async for piece in response.aiter_raw():
                n_bytes += len(piece)
                if n_bytes > most:
                    raise ValueError(f"its answer is larger than {most} bytes")
                pieces.append(piece)
        return response.status_code, b"".join(pieces), response.headers.get("etag", "")

    async def _posted(self, path: str, key: str | None, body: bytes) -> Answer:
        """The learner's answer; that it is away, if it does not answer."""
        kind = BINARY if body.startswith(BINARY_BEGINS) else "application/json"
        try:
            status, content, _ = await self._fetched(
                "POST", path, key, _MOST_ANSWER, content=body, headers={"Content-Type": kind}
            )
            answer = json.loads(content)
            answer.pop("request_id", None)
        except (*self._failures, RecursionError):
            return _AWAY
        # The client's token was accepted here.
        return (503, {"error": _OTHER_TOKEN}) if status in _NO_TOKEN else (status, answer)


#: The models of a server: its own, or the models of a learner.
AnyModels = Models | ReaderModels
