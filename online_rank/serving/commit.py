"""Group commit: what comes while the disk is busy shares its next wait; checkpoints are written in between."""

import asyncio
import logging
from collections.abc import Awaitable, Iterator

from online_rank.serving.durable import DurableService, is_fatal
from online_rank.serving.protocol import Outcome

__all__ = ["CommitError", "GroupCommit"]

_log = logging.getLogger("online_rank.serving")
_DONE = object()


class CommitError(RuntimeError):
    """What was learned could not be written to the disk; nothing of it is acknowledged, and nothing more is learned."""


class GroupCommit:
    """Writes what requests changed to the journal of a service, in their order, from an event loop.

    One thread at a time does all that touches the disk, in turns: one transaction with all that was added since, rankings too;
    then, when those who waited have been answered, a step of a checkpoint, if one is being written, and what SQLite has to
    tidy. A checkpoint is a snapshot, taken in the event loop at the beginning of a turn.

    A checkpoint that cannot be written stops nothing: the journal goes on, and it is tried again
    (`DurableService.checkpoint_failure`). A journal that cannot be written stops everything (`failure`).

    Parameters
    ----------
    durable
        The service and its journal. All changes of the service must happen in the event loop, each followed by `add`.
    """

    def __init__(self, durable: DurableService) -> None:
        self._durable = durable
        self._outcomes: list[Outcome] = []
        self._waiting: list[asyncio.Future[None]] = []
        #: Those who wait for the next checkpoint, and for the one that is being written.
        self._asking: list[asyncio.Future[None]] = []
        self._saving: list[asyncio.Future[None]] = []
        self._steps: Iterator[None] | None = None
        self._task: asyncio.Task[None] | None = None
        self._failure: Exception | None = None

    @property
    def failure(self) -> Exception | None:
        """Why nothing is written any more; None while all is well."""
        return self._failure

    @property
    def is_idle(self) -> bool:
        """Whether all that was added is in the journal."""
        return self._task is None and not self._outcomes

    def require_working(self) -> None:
        """Raise CommitError after a failure: the service must not change any more."""
        if self._failure is not None:
            raise CommitError(f"the journal cannot be written: {self._failure}") from self._failure

    def add(self, *outcomes: Outcome) -> None:
        """Hand over what a request changed but nobody must wait for."""
        self._outcomes += outcomes
        self._start()

    def add_and_wait(self, *outcomes: Outcome) -> Awaitable[None]:
        """Hand over, at once, what a request changed.

        Returns
        -------
        What to await until it is on the disk. Raises CommitError there when it is not, and never will be.
        """
        self._outcomes += outcomes
        return self._future(self._waiting)

    async def wait(self) -> None:
        """Returns when all that was added before is on the disk. Raises CommitError."""
        await self._future(self._waiting)
        self.require_working()

    async def checkpoint(self) -> None:
        """Write a checkpoint of the service as it is now. Raises CommitError when that fails."""
        self.require_working()
        await self._future(self._asking)

    async def flush(self) -> None:
        """Wait until all that was added is in the journal, or cannot be."""
        while self._task is not None:
            await asyncio.wait([self._task])

    def _future(self, among: list[asyncio.Future[None]]) -> Awaitable[None]:
        future: asyncio.Future[None] = asyncio.get_running_loop().create_future()
        among.append(future)
        self._start()
        # A client that leaves must not take the others' wait with it.
        return asyncio.shield(future)

    def _start(self) -> None:
        if self._failure is not None:
            self._fail(self._failure)
        elif self._task is None:
            self._task = asyncio.get_running_loop().create_task(self._run())

    async def _run(self) -> None:
        try:
            while self._outcomes or self._waiting or self._asking or self._steps is not None or self._durable.is_due:
                await self._turn()
        except Exception as error:
            # Whatever it is: what waits must hear of it.
            self._fail(error)
        finally:
            self._task = None

    async def _turn(self) -> None:
        """Write what was added so far, answer, and go on with a checkpoint; begin one if it is due or asked for."""
        # At one instant: the journal then ends with the snapshot's last change, and nothing comes between its first step.
        outcomes, self._outcomes = self._outcomes, []
        waiting, self._waiting = self._waiting, []
        if self._steps is None and (self._asking or self._durable.is_due):
            self._begin_checkpoint()
        try:
            if outcomes or waiting:
                await asyncio.to_thread(self._durable.append, outcomes, bool(waiting))
        except BaseException:
            self._waiting = waiting + self._waiting
            raise
        _settle(waiting)
        if self._steps is not None or self._durable.is_untidy:
            try:
                done = await asyncio.to_thread(self._between_commits, self._steps)
            except Exception as error:
                if is_fatal(error):
                    raise
                self._checkpoint_failed(error)
            else:
                if done:
                    self._steps, saved, self._saving = None, self._saving, []
                    _settle(saved)

    def _begin_checkpoint(self) -> None:
        """Take a snapshot."""
        self._saving, self._asking = self._asking, []
        try:
            self._steps = self._durable.writing(self._durable.generation())
        except Exception as error:
            self._checkpoint_failed(error)

    def _between_commits(self, steps: Iterator[None] | None) -> bool:
        """A step of a checkpoint, and what SQLite has to tidy. Returns whether the checkpoint is complete."""
        done = steps is not None and next(steps, _DONE) is _DONE
        self._durable.tidy()
        return done

    def _checkpoint_failed(self, error: Exception) -> None:
        """Say so, and try again later."""
        self._steps = None
        saving, self._saving = self._saving, []
        _log.error("the checkpoint cannot be written; the journal goes on, and it is tried again: %s", error)
        _settle(saving, CommitError(f"the checkpoint cannot be written: {error}"))
        asyncio.get_running_loop().call_later(self._durable.seconds_to_wait + 0.01, self._start)

    def _fail(self, error: Exception) -> None:
        self._failure, self._steps, self._outcomes = error, None, []
        waiting, self._waiting, self._asking, self._saving = self._waiting + self._asking + self._saving, [], [], []
        _settle(waiting, CommitError(f"the journal cannot be written: {error}"))


def _settle(futures: list[asyncio.Future[None]], error: Exception | None = None) -> None:
    """Let go on who waits; those that were cancelled do not."""
    for future in futures:
        if future.done():
            continue
        if error is None:
            future.set_result(None)
        else:
            future.set_exception(error)
