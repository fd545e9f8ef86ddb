"""The models of a server: a single one, or one for each key."""

import asyncio
import collections
import contextlib
import logging
import re
from collections.abc import Callable
from pathlib import Path
from typing import Any

from online_rank import arguments
from online_rank.base import ranker_of
from online_rank.measures import learned_measure
from online_rank.serving.commit import CommitError, GroupCommit
from online_rank.serving.durable import DurableService
from online_rank.serving.idle import IdleClock
from online_rank.serving.monitor import Monitor
from online_rank.serving.protocol import RankingService, Reply
from online_rank.serving.told import Told
from online_rank.storage.files import from_bytes, to_bytes, write_atomically

__all__ = ["KEY", "Answer", "KeyRefused", "Models", "ServedModel"]

#: The pattern of keys.
KEY = re.compile(r"[A-Za-z0-9_-][A-Za-z0-9_.-]{0,99}")
_log = logging.getLogger("online_rank.serving")

#: File name of the model that was replaced last.
_PREVIOUS = "previous.npz"

#: HTTP status and the answer, for JSON.
Answer = tuple[int, dict[str, Any]]


class KeyRefused(ValueError):
    """A key has no model, and none may be made; `status` is the HTTP status to answer."""

    def __init__(self, status: int, message: str) -> None:
        super().__init__(message)
        self.status = status


class ServedModel:
    """A service with its journal and monitor. All methods must be called in one event loop.

    Parameters
    ----------
    durable
        The service and its journal.
    idle
        After how many seconds without a request time goes on by itself (`IdleClock`).
    """

    def __init__(self, durable: DurableService, idle: float | None = None) -> None:
        self.durable = durable
        self.commits = GroupCommit(durable)
        service = durable.service
        # Shares the service's account of losses, which outlives the process.
        self.monitor = Monitor(learned_measure(service.model), service._served, clicks=service.draws)
        self.n_users = 0
        self.clock = IdleClock(service, idle)
        self.n_promotions = 0
        self.told = Told(service)
        self._before = service.counts()
        self._replacing = asyncio.Lock()
        self._previous: bytes | None = None

    @property
    def is_idle(self) -> bool:
        """Whether no request is waiting for it."""
        return self.n_users == 0 and self.commits.is_idle

    async def answer(self, request: bytes) -> Answer:
        """Answer a request of `online_rank.serving.protocol`; feedback is on the disk when this returns."""
        service, commits = self.durable.service, self.commits
        self.n_users += 1
        try:
            commits.require_working()
            before = self.monitor.before_learning(service.model)
            reply = service.handle(request)
            self.clock.moved()
            if reply.learned:
                on_disk = commits.add_and_wait(*reply.outcomes)
                self.told.add(reply.outcomes)
                self._watch(reply, before)
                await on_disk
            elif reply.changed:
                commits.add(*reply.outcomes)
                self.told.add(reply.outcomes)
                self._watch(reply, before)
            elif reply.command == "save":
                await commits.checkpoint()
                return 200, {"saved": True} if self.durable.path is not None else {"saved": False}
        except CommitError as error:
            return 503, {"error": str(error)}
        finally:
            self.n_users -= 1
        if "error" in reply.answer:
            return 400, {name: value for name, value in reply.answer.items() if name != "line"}
        return 200, reply.answer

    def let_time_pass(self) -> None:
        """Learn the queries whose windows have ended meanwhile, where no requests come."""
        if self.commits.failure is None:
            before = self.monitor.before_learning(self.durable.service.model)
            while (reply := self.clock.idle()).changed:
                self.commits.add(*reply.outcomes)
                self.told.add(reply.outcomes)
                self._watch(reply, before)

    def _watch(self, reply: Reply, before: Any) -> None:
        """Show what a request led to."""
        self.monitor.changed()
        if reply.promoted:
            _log.warning("promoted: %s", reply.promoted)
            self.n_promotions += 1
            self._keep_replaced()
        for learned in (reply, *reply.closed):
            if learned.feedback is not None:
                self.monitor.learned(learned, self.durable.service.model, before)

    def _keep_replaced(self) -> None:
        """Keep the model whose place the challenger took, for `roll_back`."""
        try:
            self._previous = to_bytes(self.durable.service.replaced)
            if self.durable.path is not None:
                write_atomically(self.durable.path / _PREVIOUS, self._previous)
        except (OSError, TypeError, ValueError) as error:
            _log.error("the model before cannot be kept: %s", error)

    def model_file(self) -> bytes:
        """The current model, in the format of `online_rank.save`."""
        return to_bytes(self.durable.service.model)

    async def replace(self, content: bytes) -> Answer:
        """Replace the model by that of a file; `roll_back` restores the previous one.

        The file is checked in full, and the model ranks once, while requests are answered; then it is exchanged between two of
        them.
        """
        try:
            model = await asyncio.to_thread(_tried, content)
        except (ValueError, TypeError) as error:
            return 400, {"error": f"this is not a model that can be served: {error}"}
        self.n_users += 1
        try:
            async with self._replacing:
                return await self._replaced_by(model)
        finally:
            self.n_users -= 1

    async def roll_back(self) -> Answer:
        """Restore the model that was replaced last; calling it again undoes this."""
        previous = self._previous
        if previous is None and self.durable.path is not None:
            path = self.durable.path / _PREVIOUS
            previous = await asyncio.to_thread(path.read_bytes) if path.exists() else None
        return (409, {"error": "no model was replaced"}) if previous is None else await self.replace(previous)

    async def _replaced_by(self, model: Any) -> Answer:
        service, before = self.durable.service, self.model_file()
        try:
            service.replace_model(model, service.origin)
        except (ValueError, TypeError) as error:
            return 400, {"error": f"this model cannot replace the one that serves: {error}"}
        self.told.restart()
        watched, self._previous = self.monitor, before
        self.monitor = Monitor(learned_measure(model), service._served, clicks=service.draws)
        self.monitor.n_drifts, self.monitor.version = watched.n_drifts, watched.version + 1
        try:
            if self.durable.path is not None:
                await asyncio.to_thread(write_atomically, self.durable.path / _PREVIOUS, before)
            await self.commits.checkpoint()
        except (CommitError, OSError) as error:
            _log.error("a model was replaced, but is not on the disk yet: %s", error)
            return 503, {"replaced": True, "error": f"it serves, but is not on the disk yet: {error}"}
        return 200, {"replaced": True}

    def figures(self) -> dict[str, Any]:
        """Counts and figures, for JSON."""
        return {**self.monitor.figures(self.durable.service.stats()), "journal_bytes": self.durable.journal_bytes}

    def snapshot(self) -> dict[str, Any]:
        """The data of the page, for JSON."""
        return {**self.figures(), **self.monitor.shown(self.durable.service.model)}

    def counts(self) -> collections.Counter[str]:
        """Counts since it was loaded into memory."""
        since = {name: count - self._before[name] for name, count in self.durable.service.counts().items()}
        return collections.Counter({**since, "drifts": self.monitor.n_drifts, "promotions": self.n_promotions})

    async def close(self) -> None:
        """Write the remaining changes and a checkpoint, then release the directory."""
        with contextlib.suppress(CommitError):
            await self.commits.checkpoint()
        await self.commits.flush()
        self.durable.close()


def _tried(content: bytes) -> Any:
    """The model of a file, after a copy of it has ranked and learned, so that kernels are compiled. Raises ValueError."""
    model = from_bytes(content)
    ranker_of(model)
    trial = RankingService(from_bytes(content))
    answer = trial.handle(b'{"id": 1, "docs": {"a": {"1": 1.0}, "b": {"1": 2.0}}}').answer
    if "error" in answer:
        raise ValueError(answer["error"])
    trial.handle(b'{"id": 1, "grades": {"a": 1, "b": 0}}')
    return model


class Models:
    """The models of a server, by key. If there are too many, those used longest ago are moved to the disk.

    Parameters
    ----------
    make
        Makes the new service of a key. It is called in another thread.
    directory
        The directory for checkpoints and journals: of the single model, or with one subdirectory for each key. None keeps
        nothing.
    by_key
        Whether requests name a key.
    every
        Number of changes between two checkpoints.
    max_open
        Most models in memory.
    max_keys
        Most keys at all; further ones are refused.
    replace_model
        As for `DurableService`.
    idle
        As for `ServedModel`, for the models in memory.
    only
        The single model, if it exists already.

    Raises
    ------
    ValueError
        `by_key` is set without a directory to move models to.
    """

    def __init__(
        self,
        make: Callable[[], RankingService],
        *,
        directory: str | Path | None = None,
        by_key: bool = False,
        every: int = 10_000,
        max_open: int = 100,
        max_keys: int = 100_000,
        replace_model: bool = False,
        idle: float | None = None,
        only: ServedModel | None = None,
    ) -> None:
        arguments.flag("by_key", by_key)
        arguments.integer("every", every, 1)
        arguments.number("idle", idle, above=0, optional=True)
        arguments.integer("max_open", max_open, 1)
        arguments.integer("max_keys", max_keys, 1)
        arguments.flag("replace_model", replace_model)
        if by_key and directory is None:
            raise ValueError("one model for each key needs a directory (--checkpoint) to keep models in")
        self.by_key = by_key
        self._make = make
        self._directory = None if directory is None else Path(directory)
        self._every = every
        self._replace_model = replace_model
        self._max_open = max_open
        self._max_keys = max_keys
        self._idle = idle
        self._open: dict[str, ServedModel] = {}
        self._opening: dict[str, asyncio.Task[None]] = {}
        self._one_at_a_time = asyncio.Lock()
        self._n_keys = 0
        self._put_away_counts: collections.Counter[str] = collections.Counter()
        if by_key and self._directory is not None:
            self._directory.mkdir(exist_ok=True)
            self._n_keys = sum(1 for _ in self._directory.iterdir())
        elif not by_key:
            self._open[""] = only or ServedModel(self._durable(self._directory), idle)

    @property
    def open_models(self) -> dict[str, ServedModel]:
        """The models in memory, the most recently used last."""
        return self._open

    def example(self) -> RankingService:
        """A service with the settings of all: the single one, or a new one."""
        return self._make() if self.by_key else self._open[""].durable.service

    @property
    def counts(self) -> collections.Counter[str]:
        """Counts since the process began, including models no longer in memory. They never fall."""
        total = self._put_away_counts.copy()
        for model in self._open.values():
            total.update(model.counts())
        return total

    async def answer(self, key: str | None, request: bytes) -> Answer:
        """Answer a request to the model of a key (`ServedModel.answer`). A request that a new model would refuse creates no
        model.

        Raises
        ------
        KeyRefused
            As `get`.
        """
        refusal = await self._refusal(_required(key), request) if self.by_key else None
        return refusal or await (await self.get(key)).answer(request)

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
            return self._open[""]
        key = _required(key)
        while key not in self._open:
            if key not in self._opening:
                self._opening[key] = asyncio.create_task(self._bring(key, self._is_new(key, may_make)))
            # Shielded: a client that disconnects must not cancel the opening for others.
            await asyncio.shield(self._opening[key])
        model = self._open[key] = self._open.pop(key)
        return model

    async def watch_the_clock(self) -> None:
        """Let time pass for the models in memory, once a second, as long as this runs."""
        while self._idle is not None:
            await asyncio.sleep(min(1.0, self._idle))
            for model in [*self._open.values()]:
                model.let_time_pass()

    async def close(self) -> None:
        """Write all models to the disk, and close them."""
        await asyncio.gather(*self._opening.values(), return_exceptions=True)
        await asyncio.gather(*(model.close() for model in self._open.values()))
        self._open.clear()

    async def _refusal(self, key: str, request: bytes) -> Answer | None:
        """The answer, for a key without a model, to a request that a new model would refuse. Raises KeyRefused."""
        if self._has(key):
            return None
        self._require_room()
        async with self._one_at_a_time:
            tried = None if self._has(key) else await asyncio.to_thread(lambda: self._make().handle(request))
        if tried is None or tried.changed:
            return None
        if "error" not in tried.answer:
            raise KeyRefused(404, "there is no model under this key")
        return 400, {name: value for name, value in tried.answer.items() if name != "line"}

    def _durable(self, path: Path | None) -> DurableService:
        return DurableService(self._make(), path, self._every, self._replace_model)

    def _path(self, key: str) -> Path:
        return Path(self._directory or "") / key

    def _is_new(self, key: str, may_make: bool) -> bool:
        """Whether a key is new; it is then counted. Raises KeyRefused if it must not be new."""
        if self._has(key):
            return False
        if not may_make:
            raise KeyRefused(404, "there is no model under this key")
        self._require_room()
        self._n_keys += 1
        return True

    def _has(self, key: str) -> bool:
        """Whether a key has a model, in memory or on the disk."""
        return key in self._open or key in self._opening or self._path(key).is_dir()

    def _require_room(self) -> None:
        if self._n_keys >= self._max_keys:
            raise KeyRefused(429, f"there are {self._n_keys} keys, and no more are allowed")

    async def _bring(self, key: str, is_new: bool) -> None:
        """Open the model of a key; it is in `_opening` meanwhile, then in `_open`. Raises KeyRefused."""
        try:
            async with self._one_at_a_time:
                await self._make_room()
                # A long journal takes seconds to replay.
                self._open[key] = ServedModel(await asyncio.to_thread(self._durable, self._path(key)), self._idle)
        except (OSError, ValueError) as error:  # damaged files too
            self._n_keys -= is_new
            _log.error("key %s: %s", key, error)
            raise KeyRefused(503, "the model of this key cannot be opened; the server's log says why") from None
        finally:
            del self._opening[key]

    async def _make_room(self) -> None:
        """Move models to the disk to make room for one more: those used longest ago first, but none with waiting requests."""
        tried: set[str] = set()
        while len(self._open) >= self._max_open:
            idle = (k for k, model in self._open.items() if k not in tried and model.is_idle and model.commits.failure is None)
            oldest = next(idle, None)
            if oldest is None:
                return
            tried.add(oldest)
            await self._put_away(oldest)

    async def _put_away(self, key: str) -> None:
        """Write a model to the disk, and remove it from memory unless it was used meanwhile."""
        model = self._open[key]
        try:
            await model.commits.checkpoint()
        except CommitError as error:
            _log.error("key %s: not written to the disk: %s", key, error)
            return
        if self._open.get(key) is model and model.is_idle and model.durable.is_saved:
            model.durable.close()
            self._put_away_counts.update(model.counts())
            del self._open[key]


def _required(key: str | None) -> str:
    """A valid key. Raises KeyRefused for others."""
    if key is None or not KEY.fullmatch(key):
        raise KeyRefused(400, "the key must be 1 to 100 letters, digits, _, - and ., not . at the beginning")
    return key
