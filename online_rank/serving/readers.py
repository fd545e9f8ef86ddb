"""Readers: processes that rank by themselves, with the model of a learner, and leave learning to it (extra `client`)."""

import asyncio
import collections
import contextlib
import logging
import time
import zlib
from collections.abc import Awaitable, Callable, Collection, Iterator
from pathlib import Path
from typing import Any

from online_rank.base import abilities_of, ranker_of
from online_rank.base.undo import all_or_nothing
from online_rank.serving.durable import DurableService
from online_rank.serving.elsewhere import message_of
from online_rank.serving.messages import BINARY, BINARY_BEGINS, Rank
from online_rank.serving.models import KeyRefused, Models, required
from online_rank.serving.protocol import RankingService
from online_rank.serving.reading import RequestError, read
from online_rank.serving.served import Answer, ServedModel, answered, tried
from online_rank.storage.files import ModelFileError, from_bytes, write_atomically

_log = logging.getLogger("online_rank.serving")

#: Seconds between two looks at the learner's model; and until what was sent in vain is sent again.
_BETWEEN_LOOKS, _BETWEEN_TRIES = 1.0, 0.25
#: Most rankings sent at once, most of their bytes, and seconds for which the first of them waits for others.
_AT_ONCE, _BYTES_AT_ONCE, _COMPANY = 64, 1 << 20, 0.01
#: Most bytes of the rankings that wait to be sent; and the number of dropped ones that are remembered.
_MOST_BYTES, _MOST_DROPPED = 1 << 26, 100_000
#: Seconds for which feedback waits for its ranking to reach the learner, from here or from another reader.
_PATIENCE = 5.0
#: Bits of the number of a draw that count; the others are the reader's.
_COUNTED = 20
#: What the learner answers to rankings that it will never take: those of a key that is gone, for one.
_FINAL = (400, 404, 409, 413)
#: What the learner answers to a reader whose token it does not know, or that may not do what readers do.
_NO_TOKEN = (401, 403)
_OTHER_TOKEN = "the learner refuses the token of this reader: its first token with the role admin must be one of the learner's"
_AWAY = 503, {"error": "the learner cannot be reached: nothing is learned now; send this again"}


class Outbox:
    """Rankings that wait to be sent to the learner, the oldest first, in bounded memory.

    Attributes
    ----------
    n_bytes
        Their size.
    n_sent, n_dropped, n_refused
        How many the learner has taken, how many were dropped for want of room, and how many the learner refused.
    """

    def __init__(self, send: Callable[[str | None, bytes], Awaitable[Answer]]) -> None:
        self._send = send
        #: By key and id: several rankings of one id are sent in their order.
        self._waiting: dict[tuple[str | None, Any, int], bytes] = {}
        self._futures: dict[tuple[str | None, Any], list[asyncio.Future[None]]] = {}
        self._ids: collections.Counter[tuple[str | None, Any]] = collections.Counter()
        self._dropped: dict[tuple[str | None, Any], None] = {}
        self._called = asyncio.Event()
        self._number, self._status = 0, 200
        self.n_bytes = self.n_sent = self.n_dropped = self.n_refused = 0

    def put(self, key: str | None, query_id: Any, message: bytes) -> None:
        """A ranking waits; the oldest are dropped where there is no room."""
        self._number += 1
        self._dropped.pop((key, query_id), None)
        self._waiting[key, query_id, self._number] = message
        self._ids[key, query_id] += 1
        self.n_bytes += len(message)
        while self.n_bytes > _MOST_BYTES:
            oldest = next(iter(self._waiting))
            self._leave(oldest)
            self.n_dropped += 1
            self._drop(oldest[:2])
        self._called.set()

    def has_dropped(self, key: str | None, query_id: Any) -> bool:
        """Whether the last ranking under an id was dropped, or refused."""
        return (key, query_id) in self._dropped

    async def sent(self, key: str | None, query_id: Any) -> None:
        """Wait until the learner has all rankings of an id, or they are dropped. Raises TimeoutError."""
        if (key, query_id) in self._ids:
            future: asyncio.Future[None] = asyncio.get_running_loop().create_future()
            self._futures.setdefault((key, query_id), []).append(future)
            await asyncio.wait_for(future, _PATIENCE)

    async def send_all(self) -> None:
        """Send what waits, as long as this runs."""
        while True:
            await self._called.wait()
            if not self._futures:
                await asyncio.sleep(_COMPANY)
            while self._waiting:
                if not await self.send_some():
                    await asyncio.sleep(_BETWEEN_TRIES)
            self._called.clear()

    async def send_some(self) -> bool:
        """Send the oldest that wait. Returns whether the learner has answered."""
        key, size, some = next(iter(self._waiting))[0], 0, list[tuple[str | None, Any, int]]()
        for each, message in self._waiting.items():
            if each[0] != key or len(some) == _AT_ONCE or (size + len(message) > _BYTES_AT_ONCE and some):
                break
            some.append(each)
            size += len(message)
        body = b"[" + b",".join([self._waiting[each] for each in some]) + b"]"
        status, answer = await self._send(key, body)
        if status != 200 and status not in _FINAL:
            if status != self._status:
                _log.error("the learner takes no rankings now; they wait: %d: %s", status, answer.get("error"))
            self._status = status
            # A key whose model cannot be opened does not hold up the others.
            if any(each[0] != key for each in self._waiting):
                for each in [each for each in self._waiting if each[0] == key]:
                    self._waiting[each] = self._waiting.pop(each)
            return False
        self._status = status
        refused = {each["id"]: each["error"] for each in answer.get("refused", ())}
        for each in [each for each in some if each in self._waiting]:
            is_refused = status != 200 or each[1] in refused
            self.n_refused += is_refused
            self.n_sent += not is_refused
            if is_refused:
                _log.error("the learner refuses a ranking: %s", refused.get(each[1], answer.get("error")))
                self._drop(each[:2])
            self._leave(each)
        return True

    def _drop(self, which: tuple[str | None, Any]) -> None:
        self._dropped[which] = None
        if len(self._dropped) > _MOST_DROPPED:
            del self._dropped[next(iter(self._dropped))]

    def _leave(self, which: tuple[str | None, Any, int]) -> None:
        self.n_bytes -= len(self._waiting.pop(which))
        self._ids[which[:2]] -= 1
        if not self._ids[which[:2]]:
            del self._ids[which[:2]]
            for future in self._futures.pop(which[:2], []):
                if not future.done():
                    future.set_result(None)


class _ReadModel(ServedModel):
    """A model that is read from a learner, which alone replaces it and forgets."""

    def __init__(self, model: Any, etag: str, learner: str, first_draw: int) -> None:
        if abilities_of(model).draws:
            ranker_of(model).n_shown = first_draw
        service = RankingService(model)
        service.takes_any_context = True
        super().__init__(DurableService(service))
        self.etag, self._learner = etag, learner
        #: When the learner said last that this is its model.
        self.checked = time.monotonic()

    def take(self, model: Any, etag: str) -> None:
        """Rank with another model from now on; draws go on where they were."""
        service = self.durable.service
        if service.draws:
            ranker_of(model).n_shown = ranker_of(service.model).n_shown
        service.replace_model(model, None)
        self.inputs.serve(model)
        self.etag, self._n_models = etag, self._n_models + 1

    def _refused(self) -> Answer:
        return 409, {"error": f"this is a reader: send this to the learner, {self._learner}"}

    async def replace(self, content: bytes) -> Answer:
        """Not here."""
        return self._refused()

    async def roll_back(self, request: bytes = b"{}") -> Answer:
        """Not here."""
        return self._refused()

    async def forget(self, request: bytes) -> Answer:
        """Not here."""
        return self._refused()

    async def take_rankings(self, request: bytes) -> Answer:
        """Not here."""
        return self._refused()


class ReaderModels(Models):
    """The models of a reader: they rank here, and what they ranked, with the feedback on it, goes to the learner.

    Parameters
    ----------
    learner
        The address of the learner.
    name
        The name of this reader, different from those of others: its draws follow from it.
    key
        Name of the query parameter that names a model; None for a single model.
    token
        A token of the learner with the role admin; None for none.
    cache
        The folder that keeps the models last read, to start while the learner is away; None for none.
    max_open
        Most models in memory.
    """

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
        try:
            import httpx
        except ImportError:
            raise ImportError('a reader needs httpx: pip install "online_rank[serve,client]"') from None
        self.open_models = {}
        self.by_key, self._key, self._learner = key is not None, key, learner.rstrip("/")
        self._max_open = max_open
        #: Nobody answers, or somebody who is no learner.
        self._failures = httpx.HTTPError, ValueError, TypeError, AttributeError
        headers = {} if token is None else {"Authorization": f"Bearer {token}"}
        self._http: Any = httpx.AsyncClient(base_url=self._learner, headers=headers, timeout=_PATIENCE)
        self._cache = None if cache is None else Path(cache)
        if self._cache is not None:
            self._cache.mkdir(mode=0o700, exist_ok=True)
        # No two readers draw alike, and none does again after a restart.
        self._first_draw = zlib.crc32(f"{name} {time.time_ns()}".encode()) << _COUNTED
        self._reading, self._is_refused = asyncio.Lock(), False
        self.outbox = Outbox(lambda key, body: self._posted("/ranked", key, body))

    @property
    def needs_time(self) -> bool:
        """Models are read, and rankings sent, when no requests come."""
        return True

    @property
    def why_not_ready(self) -> str:
        """Why requests should go elsewhere: no model was read yet."""
        return "" if self.by_key or self.open_models else "no model was read from the learner yet, and none is in the cache"

    @property
    def n_keys(self) -> int:
        """Number of keys whose models are here."""
        return len(self.open_models)

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
        """Name, description and value of the gauges of a reader."""
        yield "queue_bytes", "Size of the rankings that wait to be sent to the learner", self.outbox.n_bytes
        since = [time.monotonic() - each.checked for each in self.open_models.values() if isinstance(each, _ReadModel)]
        yield "seconds_behind", "Since when the learner may have another model", max(since, default=0.0)

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
        service = model.durable.service
        reply = service.handle(request, kinds=kinds)
        if reply.outcome is not None:
            waiting = reply.outcome.waiting
            service._pending.leave(all_or_nothing(), waiting[0])
            self.outbox.put(key, reply.answer["id"], message_of(reply.outcome, model.etag.strip('"')))
            model.changed()
            if reply.docs is not None and model.inputs.is_due():
                model.inputs.look(reply.docs)
        return answered(reply)

    async def _passed_on(self, key: str | None, message: Any, request: bytes, kinds: Collection[str] | None) -> Answer:
        """The answer of the learner to feedback, once it has the ranking."""
        kind, query_id = type(message).__name__.lower(), getattr(message, "id", None)
        if kinds is not None and kind not in kinds:
            return 403, {
                "error": f"this is a request of the kind {kind}; here it must be of the kind {' or '.join(sorted(kinds))}"
            }
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
        began, headers = time.monotonic(), {"If-None-Match": known.etag} if known else {}
        try:
            response = await self._http.get("/model", params=self._of(key), headers=headers)
            status, content, etag = response.status_code, response.content, response.headers.get("etag", "")
        except self._failures:
            status, content, etag = 503, b"", ""
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
            content = await asyncio.to_thread(self._cached, key)
            if content is None:
                why = _OTHER_TOKEN if self._is_refused else f"no model can be read from the learner ({status})"
                raise KeyRefused(503, f"{why}, and none is in the cache")
            await self._take(key, content, "", float("-inf"))

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
        known.checked = max(checked, known.checked) if etag else time.monotonic()
        if self._cache is not None and etag:
            try:
                await asyncio.to_thread(write_atomically, self._cache / _file(key), content, 0o600)
            except OSError as error:
                _log.error("the learner's model cannot be kept in the cache: %s", error)

    def _cached(self, key: str) -> bytes | None:
        try:
            return None if self._cache is None else (self._cache / _file(key)).read_bytes()
        except OSError:
            return None

    async def begin(self) -> None:
        """Read the single model, if the learner or the cache has it."""
        if not self.by_key:
            with contextlib.suppress(KeyRefused):
                await self.get(None)

    async def watch_the_clock(self) -> None:
        """Read models that have changed, once a second, and send what was ranked, as long as this runs."""
        sending = asyncio.create_task(self.outbox.send_all())
        try:
            while True:
                for key in [*self.open_models] or ([] if self.by_key else [""]):
                    with contextlib.suppress(KeyRefused):
                        async with self._reading:
                            await self._read(key)
                await asyncio.sleep(_BETWEEN_LOOKS)
        finally:
            sending.cancel()

    async def watch_the_disk(self) -> None:
        """There is nothing to watch."""

    async def watch_the_days(self) -> None:
        """There is nothing to watch."""

    async def close(self) -> None:
        """Send what waits, if the learner takes it soon, and close the connections."""
        with contextlib.suppress(TimeoutError):
            async with asyncio.timeout(_PATIENCE):
                while self.outbox.n_bytes and await self.outbox.send_some():
                    pass
        await self._http.aclose()
        self.open_models.clear()

    def _of(self, key: str | None) -> dict[str, str]:
        return {} if self._key is None or key is None else {self._key: key}

    async def _posted(self, path: str, key: str | None, body: bytes) -> Answer:
        """The learner's answer; that it is away, where there is none."""
        kind = BINARY if body.startswith(BINARY_BEGINS) else "application/json"
        try:
            response = await self._http.post(path, params=self._of(key), content=body, headers={"Content-Type": kind})
            answer = response.json()
            answer.pop("request_id", None)
        except self._failures:
            return _AWAY
        # The client's token was accepted here.
        return (503, {"error": _OTHER_TOKEN}) if response.status_code in _NO_TOKEN else (response.status_code, answer)


def _file(key: str) -> str:
    """The name of the file of a key's model in the cache."""
    return f"{key or 'model'}.npz"
