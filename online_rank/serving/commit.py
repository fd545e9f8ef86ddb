"""Group commit: changes that arrive while the disk is busy share the next write; checkpoints are written in between."""

import asyncio
import contextlib
import contextvars
import errno
import logging
import time
from collections.abc import Awaitable, Callable, Iterator, Sequence
from typing import Any

from online_rank.serving.durable import DurableService, is_fatal, is_for_room
from online_rank.serving.protocol import Outcome
from online_rank.storage.database import FULL
from online_rank.storage.folder import StatementFailed, ValueRefused

_log = logging.getLogger("online_rank.serving")
_DONE = object()
#: Later than any time.
_NEVER = float("inf")
#: Seconds that a change nobody waits for may wait for others, to be written with them.
_COMPANY = 0.005
_ROOM_FOR_IT, _RIGHTS = ("the disk is full", "there is room"), ("the folder cannot be written", "it can be")
#: Why nothing is learned, and until when, by the number of an error.
_REASONS: dict[int | None, tuple[str, str]] = {
    **dict.fromkeys(FULL, _ROOM_FOR_IT),
    **dict.fromkeys((errno.EACCES, errno.EPERM, errno.EROFS), _RIGHTS),
    errno.EBUSY: ("the database is busy", "it answers in time"),
}
#: Seconds until it is tried again whether there is room on the disk.
_SECONDS_TO_ROOM = 1.0
#: Seconds between two steps of a checkpoint while requests come in: few of them meet a step, and none more than one.
_ROOM = 0.25


class CommitError(RuntimeError):
    """Changes could not be written to the disk: they are not acknowledged.

    Attributes
    ----------
    status : int
        The HTTP status: 400 if the store cannot keep what this request brings, 503 for a reason that is the store's.
    answer : dict
        The answer; with `"repeat": False` if the store failed at this request, or others that it was to be written with.
    """

    def __init__(self, error: str, status: int = 503, *, repeat: bool = True) -> None:
        super().__init__(error)
        self.status, self.answer = status, {"error": error} if repeat else {"error": error, "repeat": False}


class _Waiting(asyncio.Future[None]):
    """What a request waits for, and how many changes had been added by then since the last turn, its own among them."""

    place = 0


class GroupCommit:
    """Writes the changes of requests to the journal of a service, in order, from an event loop.

    One thread at a time accesses the disk, in turns: first one transaction with everything added since the last one, including
    rankings, which wait a few milliseconds for company; then, after the waiting requests were answered, a step of a checkpoint,
    if one is being written, and SQLite's housekeeping. A checkpoint is a snapshot, taken in the event loop at the beginning of
    a turn. While requests come in, its steps leave room for them.

    If a checkpoint cannot be written, the journal continues, and the checkpoint is tried again
    (`DurableService.checkpoint_failure`). If the disk is full, nothing may change (`full`) until what has changed by then is
    written; that is tried every second. So it is while the database is locked or slow. If the store cannot keep a value of one
    change, that request is refused, and the service continues from what the store has. If the journal cannot be written
    otherwise, everything stops (`failure`).

    Parameters
    ----------
    durable
        The service and its journal. All changes of the service must happen in the event loop, each followed by `add`.
    """

    def __init__(self, durable: DurableService) -> None:
        self._durable = durable
        self._outcomes: list[Outcome] = []
        self._waiting: list[_Waiting] = []
        #: Futures waiting for the next checkpoint, and for the one being written.
        self._asking: list[asyncio.Future[None]] = []
        self._saving: list[asyncio.Future[None]] = []
        self._steps: Iterator[None] | None = None
        #: When the next step is due, and whether something was added since the last one, or the snapshot.
        self._next_step, self._is_busy = 0.0, False
        self._called = asyncio.Event()
        self._task: asyncio.Task[None] | None = None
        #: Whether the task was cancelled while a thread was writing: it ends after that.
        self._is_cancelled = False
        self._soon: asyncio.TimerHandle | None = None
        #: Since when the oldest change that a request waits for is not on the disk, and the oldest that is not being written.
        self.since = self._since_next = _NEVER
        #: Why writing has stopped; None while all is well.
        self.failure: Exception | None = None
        #: Why there is no room for changes; None while there is. What waits for room has not been acknowledged.
        self.full: OSError | None = None

    @property
    def is_idle(self) -> bool:
        """Whether everything added is in the journal, or waits for room."""
        return self._task is None and (not self._outcomes or self.full is not None)

    @property
    def is_working(self) -> bool:
        """Whether the service may change."""
        return self.failure is None and self.full is None

    def require_working(self) -> None:
        """Raise CommitError after a failure, and while the disk is full: the service must not change."""
        if self.failure is not None:
            raise _no_journal(self.failure)
        if self.full is not None:
            raise _no_room(self.full)

    def add(self, *outcomes: Outcome) -> None:
        """Add a change that no request waits for; it is written with the next one that is waited for, or in a moment."""
        if not self._durable.keeps:
            return
        self._outcomes += outcomes
        self._is_busy = True
        if self.failure is not None or (self._steps is None and self._durable.is_due):
            self._start()
        elif self._soon is None:
            self._soon = asyncio.get_running_loop().call_later(_COMPANY, self._start)

    def add_and_wait(self, *outcomes: Outcome) -> Awaitable[None]:
        """Add the change of a request.

        Returns
        -------
        An awaitable that returns when the change is on the disk, and raises CommitError if it cannot be written.
        """
        if not self._durable.keeps:
            # Nothing is kept: no thread has to say that it is.
            return _nothing()
        self._outcomes += outcomes
        self._is_busy = True
        if not self._waiting:
            self._since_next = time.perf_counter()
            self.since = min(self.since, self._since_next)
        waiting = _Waiting(loop=asyncio.get_running_loop())
        waiting.place = len(self._outcomes)
        return self._future(self._waiting, waiting)

    async def checkpoint(self) -> None:
        """Write a checkpoint of the current service. Raises CommitError if that fails."""
        self.require_working()
        await self._future(self._asking, asyncio.get_running_loop().create_future())

    async def flush(self) -> None:
        """Wait until everything added is in the journal, or cannot be written."""
        self._start()
        if self._task is not None:
            await asyncio.wait([self._task])

    def _future(self, among: list[Any], future: asyncio.Future[None]) -> Awaitable[None]:
        among.append(future)
        self._start()
        # Shielded: a client that disconnects must not cancel the wait of others.
        return asyncio.shield(future)

    def _start(self) -> None:
        if self._soon is not None:
            self._soon.cancel()
            self._soon = None
        self._called.set()
        if self.failure is not None:
            self._fail(self.failure)
        elif self._task is None:
            self._task = asyncio.get_running_loop().create_task(self._run())

    async def _run(self) -> None:
        try:
            while self._outcomes or self._waiting or self._asking or self._steps is not None or self._durable.is_due:
                await self._turn()
                if self.full is not None or self._is_cancelled:
                    break
                await self._give_way()
        except Exception as error:
            # Any error: the waiting requests must get it.
            self._fail(error)
        finally:
            self._task, was_cancelled, self._is_cancelled = None, self._is_cancelled, False
            if was_cancelled and (self._outcomes or self._waiting or self._asking):
                self._start()  # Another task continues, for whoever stops this service.

    async def _in_thread(self, work: Callable[..., Any], *arguments: Any) -> Any:
        """What `work` returns, done in a thread. Cancelling this task waits for its end: nobody else may write meanwhile."""
        running = begun_in_thread(work, *arguments)
        while not running.done():
            try:
                await asyncio.shield(running)
            except asyncio.CancelledError:
                self._is_cancelled = True
            except Exception:
                break
        return running.result()

    async def _turn(self) -> None:
        """Write the changes so far, answer, and continue with a checkpoint; begin one if it is due or requested."""
        # Without awaiting in between, so that the journal ends with the last change of the snapshot.
        outcomes, self._outcomes = self._outcomes, []
        waiting, self._waiting = self._waiting, []
        if self._steps is None and (self._asking or self._durable.is_due):
            self._begin_checkpoint()
        try:
            if outcomes or waiting:
                await self._in_thread(self._durable.append, outcomes, bool(waiting))
        except ValueRefused:
            await self._refuse_one(outcomes, waiting)
            return
        except BaseException as error:
            for later in self._waiting:
                later.place += len(outcomes)
            self._waiting = waiting + self._waiting
            if not is_for_room(error):
                raise
            self._outcomes = outcomes + self._outcomes
            self._wait_for_room(error)
            return
        if self.full is not None:
            self.full = None
            _log.warning("there is room on the disk again: learning continues")
        self.since = self._since_next if self._waiting else _NEVER
        _settle(waiting)
        steps = self._steps if self._seconds_to_step <= 0.0 else None
        if steps is not None or self._durable.is_untidy:
            try:
                done = await self._in_thread(self._between_commits, steps)
            except Exception as error:
                if is_fatal(error):
                    raise
                self._checkpoint_failed(error)
            else:
                if done:
                    self._steps, saved, self._saving = None, self._saving, []
                    _settle(saved)
        if steps is not None:
            self._next_step = asyncio.get_running_loop().time() + (_ROOM if self._is_busy else 0.0)
            self._is_busy = False

    async def _refuse_one(self, outcomes: list[Outcome], waiting: list[_Waiting]) -> None:
        """Write changes up to the one that the store cannot keep, refuse its request, and continue from what the store has."""
        n_kept, error = await self._in_thread(self._durable.append_each, outcomes)
        _log.error("a request is refused, since the store cannot keep what it brings: %s", error)
        # The service has learned it, and all that came after it.
        self._outcomes, later, self._waiting, self.since = [], self._waiting, [], _NEVER
        self._steps, saving, self._saving = None, self._saving, []
        self._durable.read_again()
        own = next((each for each in waiting if each.place > n_kept), None)
        _settle([each for each in waiting if each.place <= n_kept])
        if own is not None:
            _settle([own], CommitError(str(error), 400))
        _settle([*waiting, *later, *saving], CommitError("another request was refused at the same time: send this again"))

    @property
    def _seconds_to_step(self) -> float:
        """Seconds until the next step of a checkpoint is due."""
        return self._next_step - asyncio.get_running_loop().time()

    async def _give_way(self) -> None:
        """Between two steps of a checkpoint: wait until the next one is due, or there is something to write."""
        self._called.clear()
        nothing_new = not (self._outcomes or self._waiting)
        if self._steps is not None and nothing_new and (seconds := self._seconds_to_step) > 0.0:
            with contextlib.suppress(TimeoutError):
                await asyncio.wait_for(self._called.wait(), seconds)

    def _begin_checkpoint(self) -> None:
        """Take a snapshot."""
        self._is_busy = False
        self._saving, self._asking = self._asking, []
        try:
            self._steps = self._durable.writing(self._durable.generation())
            # However recent the last step of the one before: the journal must end with the last change of the snapshot.
            self._next_step = 0.0
        except Exception as error:
            self._checkpoint_failed(error)

    def _between_commits(self, steps: Iterator[None] | None) -> bool:
        """A step of a checkpoint, and SQLite's housekeeping. Returns whether the checkpoint is complete."""
        done = steps is not None and next(steps, _DONE) is _DONE
        self._durable.tidy()
        return done

    def _checkpoint_failed(self, error: Exception) -> None:
        """Log the failure, and try again later."""
        self._steps = None
        saving, self._saving = self._saving, []
        _log.error("the checkpoint cannot be written; the journal continues, and it is tried again: %s", error)
        _settle(saving, CommitError(f"the checkpoint cannot be written: {error}"))
        asyncio.get_running_loop().call_later(self._durable.seconds_to_wait + 0.01, self._start)

    def _wait_for_room(self, error: OSError) -> None:
        """Refuse what waits for the disk, and try again later; a snapshot does not show what happened after it."""
        if self.full is None:
            _log.error("%s: nothing is learned until %s: %s", *_reason(error), error)
        self.full = error
        self._refuse_all(_no_room(error))
        self._soon = asyncio.get_running_loop().call_later(_SECONDS_TO_ROOM, self._start)

    def _fail(self, error: Exception) -> None:
        is_first = self.failure is None
        self.failure, self._outcomes = error, []
        self._refuse_all(_no_journal(error, repeat=not (is_first and isinstance(error, StatementFailed))))

    def _refuse_all(self, error: CommitError) -> None:
        waiting, self._waiting, self._asking, self._saving = self._waiting + self._asking + self._saving, [], [], []
        self._steps, self.since = None, _NEVER
        _settle(waiting, error)


def begun_in_thread(work: Callable[..., Any], *arguments: Any) -> "asyncio.Future[Any]":
    """Begin `work` in a thread; do it here and now if the process ends, and threads take no more work."""
    loop, context = asyncio.get_running_loop(), contextvars.copy_context()
    try:
        return loop.run_in_executor(None, context.run, work, *arguments)
    except RuntimeError:
        done: asyncio.Future[Any] = loop.create_future()
        try:
            done.set_result(work(*arguments))
        except Exception as error:
            done.set_exception(error)
        return done


def _no_journal(error: Exception, repeat: bool = True) -> CommitError:
    return CommitError(f"the journal cannot be written: {error}", repeat=repeat)


def _no_room(error: Exception) -> CommitError:
    why, end = _reason(error)
    return CommitError(f"{why}; nothing is learned until {end}: send this again later: {error}")


def _reason(error: Exception) -> tuple[str, str]:
    """Why nothing can be written for now, and until when."""
    return _REASONS.get(getattr(error, "errno", None), ("the state cannot be opened", "it can be"))


async def _nothing() -> None:
    """What nobody has to wait for."""


def _settle(futures: Sequence[asyncio.Future[None]], error: Exception | None = None) -> None:
    """Resolve the waiting futures that were not cancelled."""
    for future in futures:
        if future.done():
            continue
        if error is None:
            future.set_result(None)
        else:
            future.set_exception(error)
