"""The models of a server: a single one, or one for each key."""

import asyncio
import collections
import contextlib
import functools
import logging
from collections.abc import Callable, Collection, Coroutine, Iterator
from pathlib import Path
from typing import Any

from online_rank import arguments
from online_rank.serving.cached import Cache
from online_rank.serving.durable import DurableService
from online_rank.serving.protocol import RankingService
from online_rank.serving.replacing import keep_in_cache, keep_snapshot
from online_rank.serving.served import Answer, ServedModel, answered
from online_rank.serving.starting import StandIn, open_again, stand_in
from online_rank.serving.tenants import KEY, Keys, require_same_use, usage_of
from online_rank.serving.workers import REMEDY
from online_rank.storage.folder import FolderInUse
from online_rank.storage.postgres import is_postgres

#: Seconds between two looks at the folders.
_SECONDS_BETWEEN_SWEEPS = 60.0
_log = logging.getLogger("online_rank.serving")


class KeyRefused(ValueError):
    """A key has no model, and none may be made; `status` is the HTTP status to answer."""

    def __init__(self, status: int, message: str) -> None:
        super().__init__(message)
        self.status = status


class Models:
    """The models of a server, by key. If there are too many, those used longest ago are moved to the disk.

    Parameters
    ----------
    make
        Makes the new service of a key. It is called in another thread.
    directory
        The directory for checkpoints and journals: of the single model, or with one subdirectory for each key, locked until
        `close`. Of a single model, also the address of a PostgreSQL database. None keeps nothing.
    by_key
        Whether requests name a key.
    every
        Number of changes between two checkpoints.
    max_open
        Most models in memory.
    max_keys
        Most keys at all; further ones are refused.
    max_bytes
        The size of all folders from which further keys are refused; None for no limit.
    ttl
        Seconds after which a key is deleted to which no request came; None keeps all. They are seconds in which the directory
        is served, regardless of the system clock.
    replace_model
        As for `DurableService`.
    idle
        As for `ServedModel`, for the models in memory.
    snapshots
        For how many days the model with which each began is kept in the directory; 0 for none.
    remember
        As for `DurableService`.
    cache
        A folder that keeps the single model once a minute: it ranks while the state cannot be opened; None for none.
    only
        The single model, if it exists already.

    Raises
    ------
    ValueError
        `by_key` is set without a directory to move models to.
    CheckpointError
        Another process uses the directory.

    Notes
    -----
    If a directory cannot be opened, since the disk is full or fails, nobody may write to it, or it is damaged, its model only
    ranks until it can be opened (`online_rank.serving.starting`).
    """

    #: The single model, which `answer` asks at once; otherwise it finds one.
    single: ServedModel | None = None

    def __init__(
        self,
        make: Callable[[], RankingService],
        *,
        directory: str | Path | None = None,
        by_key: bool = False,
        every: int = 10_000,
        max_open: int = 100,
        max_keys: int = 100_000,
        max_bytes: int | None = None,
        ttl: float | None = None,
        replace_model: bool = False,
        idle: float | None = None,
        snapshots: int = 0,
        remember: float = 86_400.0,
        cache: str | Path | None = None,
        only: ServedModel | None = None,
    ) -> None:
        arguments.flag("by_key", by_key)
        arguments.integer("every", every, 1)
        arguments.number("idle", idle, above=0, optional=True)
        arguments.integer("max_open", max_open, 1)
        arguments.integer("snapshots", snapshots, 0)
        arguments.integer("max_keys", max_keys, 1)
        arguments.integer("max_bytes", max_bytes, 1, optional=True)
        arguments.number("ttl", ttl, above=0, optional=True)
        arguments.number("remember", remember, above=0)
        arguments.flag("replace_model", replace_model)
        if by_key and directory is None:
            raise ValueError("one model for each key needs a directory (--checkpoint) to keep models in")
        if by_key and is_postgres(directory):
            raise ValueError("one model for each key needs a directory (--checkpoint); a PostgreSQL database holds one model")
        if snapshots and directory is None:
            raise ValueError("snapshots need a directory (--checkpoint) to keep models in")

        if by_key and cache is not None:
            raise ValueError("a cache is for a single model")
        kept_in = None if cache is None else Cache(cache)

        def opened(path: str | Path | None) -> ServedModel:
            return ServedModel(DurableService(make(), path, every, replace_model, remember), idle, snapshots, kept_in)

        def served(path: str | Path | None) -> ServedModel:
            try:
                return opened(path)
            except (OSError, ValueError) as error:
                if path is None or is_postgres(path):
                    raise
                return stand_in(make, path, error, lambda: opened(path), replace_model=replace_model, cache=kept_in)

        self.by_key = by_key
        self._keeps_models = snapshots > 0 or cache is not None
        self._make, self._served = make, served
        self._max_open = max_open
        self._max_keys = max_keys
        self._idle = idle
        #: The models in memory, the most recently used last.
        self.open_models: dict[str, ServedModel] = {}
        self._opening: dict[str, asyncio.Task[None]] = {}
        #: How many requests wait for keys to be opened: what they wait for is not put away before they have it.
        self._awaited: collections.Counter[str] = collections.Counter()
        self._one_at_a_time = asyncio.Lock()
        self._max_bytes, self._ttl = max_bytes, ttl
        #: The size of all folders of keys; counted now and then, where there is a limit on it or on their time.
        self.n_bytes = 0
        self._n_deleted = 0
        self._put_away_counts: collections.Counter[str] = collections.Counter()
        if directory is not None and only is None and not is_postgres(directory):
            require_same_use(Path(directory), by_key)
        try:
            if not by_key:
                self.single = self.open_models[""] = only or served(directory)
            else:
                self._keys = Keys(directory)  # type: ignore[arg-type]  # by_key needs one
                self.n_bytes = sum(usage_of(self._keys.folder(key)) for key in self._keys.names)
        except FolderInUse as error:
            one = "one process at a time serves it. If it is a worker of the same server"
            raise FolderInUse(f"{error}; {one}, {REMEDY}") from None

    @property
    def why_not_ready(self) -> str:
        """Why requests should go elsewhere; empty if they should not."""
        return "" if self.single is None else self.single.why_not_ready

    def exchange(self, key: str, opened: ServedModel) -> None:
        """Let another model serve from now on: one whose state was opened takes the place of the one that only ranked."""
        self._put_away_counts.update(self.open_models[key].counts())
        self.open_models[key] = opened
        if not self.by_key:
            self.single = opened

    @property
    def n_keys(self) -> int:
        """Number of keys that have a model, in memory or on the disk."""
        return len(self._keys.names) if self.by_key else 0

    def example(self) -> RankingService:
        """A service with the settings of all: the single one, or a new one."""
        return self._make() if self.by_key else self.open_models[""].durable.service

    @property
    def counts(self) -> collections.Counter[str]:
        """Counts since the process began, including models no longer in memory. They never fall."""
        total = self._put_away_counts + collections.Counter(deleted_keys=self._n_deleted)
        for model in self.open_models.values():
            total.update(model.counts())
        return total

    def gauges(self) -> Iterator[tuple[str, str, float]]:
        """Name, description and value of the gauges that are not of single models."""
        yield "keys", "Keys that have a model, in memory or not", self.n_keys

    def at_once(self, key: str | None, request: bytes, kinds: Collection[str] | None = None) -> dict[str, Any] | None:
        """The answer of the single model (`ServedModel.at_once`); None for others, which may have to be opened."""
        return None if self.single is None else self.single.at_once(request, kinds)

    async def answer(self, key: str | None, request: bytes, kinds: Collection[str] | None = None) -> Answer:
        """Answer a request to the model of a key (`ServedModel.answer`). A request that a new model would refuse creates no
        model.

        Raises
        ------
        KeyRefused
            As `get`.
        """
        refusal = await self._refusal(required(key), request, kinds) if self.by_key else None
        return refusal or await (await self.get(key)).answer(request, kinds)

    async def get(self, key: str | None, may_make: bool = True) -> ServedModel:
        """The model of a key, loaded from the disk or created if necessary, while other requests are answered.

        It may be moved to the disk again as soon as the event loop does something else, so use it at once.

        Raises
        ------
        KeyRefused
            The key is missing or invalid, it is new although `may_make` is false or there are too many keys, or its files are
            unusable.
        """
        if not self.by_key:
            return self.open_models[""]
        key = required(key)
        while key not in self.open_models:
            if key not in self._opening:
                self._require_may_make(key, may_make)
                self._opening[key] = asyncio.create_task(self._bring(key))
            self._awaited[key] += 1
            try:
                # Shielded: a client that disconnects must not cancel the opening for others.
                await asyncio.shield(self._opening[key])
            finally:
                self._awaited[key] -= 1
        model = self.open_models[key] = self.open_models.pop(key)
        self._keys.use(key)
        return model

    async def delete(self, key: str | None) -> None:
        """Delete the model of a key, with all that is stored about its queries, once its requests are answered.

        Raises
        ------
        KeyRefused
            There is no such key, or its files cannot be deleted.
        """
        key = required(key)
        async with self._one_at_a_time:
            if key not in self._keys.names:
                raise KeyRefused(404, "there is no model under this key")
            await self._delete(key)

    async def _delete(self, key: str) -> None:
        # Later requests for this key wait for the lock, and then begin a new model.
        model = self.open_models.pop(key, None)
        if model is not None:
            while not model.is_idle:
                await asyncio.sleep(0.01)
            self._put_away_counts.update(model.counts())
            await asyncio.to_thread(model.durable.close)
        try:
            await asyncio.to_thread(self._keys.remove, key)
        except (OSError, ValueError) as error:
            _log.error("key %s cannot be deleted: %s", key, error)
            raise KeyRefused(503, "the model of this key cannot be deleted; the server's log says why") from None
        self._n_deleted += 1

    async def _watch_the_disk(self) -> None:
        """Count what the folders of keys take, and delete keys that were not used for too long, as long as this runs."""
        while True:
            await asyncio.sleep(_SECONDS_BETWEEN_SWEEPS if self._ttl is None else min(_SECONDS_BETWEEN_SWEEPS, self._ttl / 4.0))
            await self.sweep()

    async def sweep(self) -> None:
        """Count what the folders of keys take, and delete keys to which no request came for too long."""
        total = 0
        for key in sorted(self._keys.names):
            if not self._is_unused(key) or not await self._delete_unused(key):
                total += await asyncio.to_thread(usage_of, self._keys.folder(key))
        self.n_bytes = total
        if self._ttl is not None:
            try:
                async with self._one_at_a_time:
                    await asyncio.to_thread(self._keys.keep)
            except OSError as error:
                _log.error("when keys were used cannot be stored; after a restart they count as used then: %s", error)

    def _is_unused(self, key: str) -> bool:
        """Whether no request came to a key for longer than it is kept."""
        model = self.open_models.get(key)
        is_idle = key not in self._opening and (model is None or model.is_idle)
        return self._ttl is not None and is_idle and self._keys.unused(key) > self._ttl

    async def _delete_unused(self, key: str) -> bool:
        """Delete a key unless it was used meanwhile. Returns whether it was deleted."""
        async with self._one_at_a_time:
            if key not in self._keys.names or not self._is_unused(key):
                return False
            try:
                await self._delete(key)
            except KeyRefused:
                return False
        _log.info("key %s was not used for %g seconds: deleted", key, self._ttl)
        return True

    @property
    def watches(self) -> list[Callable[[], Coroutine[Any, Any, None]]]:
        """What happens when no requests come, as long as each of these runs."""
        is_swept = self.by_key and (self._ttl is not None or self._max_bytes is not None)
        needed = {self._watch_the_clock: self._idle, self._watch_the_disk: is_swept, self._watch_the_days: self._keeps_models}
        lacks_state = self.by_key or (isinstance(self.single, StandIn) and self.single.again is not None)
        return [
            *(watch for watch, is_needed in needed.items() if is_needed),
            *([functools.partial(open_again, self)] if lacks_state else []),
        ]

    async def begin(self) -> None:
        """Nothing has to be done before the server listens."""

    async def _watch_the_clock(self) -> None:
        """Let time pass for the models in memory, once a second, as long as this runs."""
        while True:
            await asyncio.sleep(min(1.0, self._idle or 1.0))
            for model in [*self.open_models.values()]:
                model.let_time_pass()

    async def _watch_the_days(self) -> None:
        """Keep the models in memory with which each day begins, and the present one in the cache, as long as this runs."""
        while True:
            for model in [*self.open_models.values()]:
                await keep_snapshot(model)
                await keep_in_cache(model)
            await asyncio.sleep(_SECONDS_BETWEEN_SWEEPS)

    async def close(self) -> None:
        """Write all models to the disk, and close them."""
        await asyncio.gather(*self._opening.values(), return_exceptions=True)
        for model in self.open_models.values():
            await keep_in_cache(model)
        await asyncio.gather(*(model.close() for model in self.open_models.values()))
        self.open_models.clear()
        if self.by_key:
            if self._ttl is not None and self._keys.is_open:
                with contextlib.suppress(OSError):
                    self._keys.keep()
            self._keys.close()

    async def _refusal(self, key: str, request: bytes, kinds: Collection[str] | None) -> Answer | None:
        """The answer, for a key without a model, to a request that a new model would refuse. Raises KeyRefused."""
        if self._has(key):
            return None
        self._require_room()
        async with self._one_at_a_time:
            tried = None if self._has(key) else await asyncio.to_thread(lambda: self._make().handle(request, kinds=kinds))
        if tried is None or tried.changed:
            return None
        if "error" not in tried.answer:
            raise KeyRefused(404, "there is no model under this key")
        return answered(tried)

    def _require_may_make(self, key: str, may_make: bool) -> None:
        """Raise KeyRefused for a new key, if it must not be new."""
        if not self._has(key):
            if not may_make:
                raise KeyRefused(404, "there is no model under this key")
            self._require_room()

    def _has(self, key: str) -> bool:
        """Whether a key has a model, in memory or on the disk."""
        return key in self._keys.names or key in self._opening

    def _require_room(self) -> None:
        if len(self._keys.names | self._opening.keys()) >= self._max_keys:
            raise KeyRefused(429, f"there are {len(self._keys.names)} keys, and no more are allowed")
        if self._max_bytes is not None and self.n_bytes >= self._max_bytes:
            raise KeyRefused(429, f"the models of all keys take {self.n_bytes} bytes, and no more keys are allowed")

    async def _bring(self, key: str) -> None:
        """Open the model of a key; it is in `_opening` meanwhile, then in `open_models`. Raises KeyRefused."""
        try:
            async with self._one_at_a_time:
                # One that was to be put away may have stayed.
                if key not in self.open_models:
                    await self._make_room()
                    # A long journal takes seconds to replay.
                    self.open_models[key] = await asyncio.to_thread(lambda: self._served(self._keys.begin(key)))
                    self._keys.names.add(key)
            await keep_snapshot(self.open_models[key])
        except (OSError, ValueError) as error:  # damaged files too
            _log.error("key %s: %s", key, error)
            raise KeyRefused(503, "the model of this key cannot be opened; the server's log says why") from None
        finally:
            del self._opening[key]
            self._awaited = +self._awaited  # without the zeros

    async def _make_room(self) -> None:
        """Move models to the disk to make room for one more: those used longest ago first, but none with waiting requests."""
        tried: set[str] = set()
        while len(self.open_models) >= self._max_open:
            idle = (k for k, model in self.open_models.items() if _may_go(model))
            oldest = next((k for k in idle if k not in tried and not self._awaited[k]), None)
            if oldest is None:
                return
            tried.add(oldest)
            await self._put_away(oldest)

    async def _put_away(self, key: str) -> None:
        """Write an idle model to the disk, and remove it from memory; requests for its key wait, and bring it back."""
        model = self.open_models.pop(key)
        self._put_away_counts.update(model.counts())
        try:
            # Closing a database writes it, and waits for the disk: other keys are answered meanwhile.
            await asyncio.to_thread(model.put_away)
        except (OSError, ValueError, MemoryError) as error:
            _log.error("key %s: not written to the disk: %s", key, error)
            self._put_away_counts.subtract(model.counts())
            self.open_models[key] = model


def _may_go(model: ServedModel) -> bool:
    """Whether a model may be moved to the disk: nobody uses it, and it has written what it has to write."""
    return model.is_idle and (model.commits.is_working or isinstance(model, StandIn))


def required(key: str | None) -> str:
    """A valid key. Raises KeyRefused for others."""
    if key is None or not KEY.fullmatch(key):
        raise KeyRefused(400, "the key must be 1 to 100 letters, digits, _, - and ., not . at the beginning")
    return key
