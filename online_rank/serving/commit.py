"""Group commit: requests that come while the disk is busy share its next wait; checkpoints are written meanwhile."""

import asyncio
from collections.abc import Awaitable

from online_rank.serving.durable import DurableService

__all__ = ["CommitError", "GroupCommit"]


class CommitError(RuntimeError):
    """What was learned could not be written to the disk; nothing of it is acknowledged, and nothing more is learned."""


class GroupCommit:
    """Writes the requests that changed a service to its journal, in their order, from an event loop.

    One write and one wait for the disk at a time, in a thread; whatever is added meanwhile goes together next. A checkpoint is
    a snapshot, taken in the event loop and written in a thread too: rankings are answered meanwhile, what is learned waits.

    Parameters
    ----------
    durable
        The service and its journal. All changes of the service must happen in the event loop, each followed by `add`.
    """

    def __init__(self, durable: DurableService) -> None:
        self._durable = durable
        self._records: list[bytes] = []
        self._waiting: list[asyncio.Future[None]] = []
        self._saving: list[asyncio.Future[None]] = []
        self._task: asyncio.Task[None] | None = None
        self._failure: Exception | None = None

    @property
    def failure(self) -> Exception | None:
        """Why nothing is written any more; None while all is well."""
        return self._failure

    @property
    def is_idle(self) -> bool:
        """Whether all that was added is in the journal."""
        return self._task is None and not self._records

    def require_working(self) -> None:
        """Raise CommitError after a failure: the service must not change any more."""
        if self._failure is not None:
            raise CommitError(f"the journal cannot be written: {self._failure}") from self._failure

    def add(self, record: bytes) -> None:
        """Hand over a request that changed the service but that nobody must wait for."""
        self._records.append(record)
        self._start()

    def add_and_wait(self, record: bytes) -> Awaitable[None]:
        """Hand over, at once, a request that changed the service.

        Returns
        -------
        What to await until it is on the disk. Raises CommitError there when it is not, and never will be.
        """
        self._records.append(record)
        return self._waiter()

    async def wait(self) -> None:
        """Returns when all that was added before is on the disk, as far as somebody waits for it. Raises CommitError."""
        if not self.is_idle:
            await self._waiter()
        self.require_working()

    async def checkpoint(self) -> None:
        """Write a checkpoint of the service as it is now. Raises CommitError when that fails."""
        self.require_working()
        await self._future(self._saving)

    async def flush(self) -> None:
        """Wait until all that was added is in the journal, or cannot be."""
        while self._task is not None:
            await asyncio.wait([self._task])

    def _waiter(self) -> Awaitable[None]:
        """What is done when all records so far are on the disk."""
        return self._future(self._waiting)

    def _future(self, among: list[asyncio.Future[None]]) -> Awaitable[None]:
        future: asyncio.Future[None] = asyncio.get_running_loop().create_future()
        among.append(future)
        self._start()
        # A client that leaves must not take the others' wait with it.
        return asyncio.shield(future)

    def _start(self) -> None:
        if self._task is None and self._failure is None:
            self._task = asyncio.get_running_loop().create_task(self._run())
        elif self._failure is not None:
            self._fail(self._failure)

    async def _run(self) -> None:
        try:
            while self._records or self._waiting or self._saving:
                await self._turn()
        except Exception as error:
            # Whatever it is: what waits must hear of it.
            self._fail(error)
        finally:
            self._task = None

    async def _turn(self) -> None:
        """Write what was added so far, and a checkpoint of what the service is now if one is due or asked for."""
        # All four at one instant: the journal then ends with the snapshot's last change.
        records, self._records = self._records, []
        waiting, self._waiting = self._waiting, []
        saving, self._saving = self._saving, []
        try:
            wanted = self._durable.is_due or (saving and self._durable.path is not None)
            snapshot = self._durable.snapshot() if wanted else None
            if waiting:
                await asyncio.to_thread(self._durable.append, records, True)
            else:
                self._durable.append(records, False)
            _done(waiting)
            if snapshot is not None:
                await asyncio.to_thread(self._durable.write, snapshot)
            _done(saving)
        except BaseException:
            self._waiting = waiting + saving + self._waiting
            raise

    def _fail(self, error: Exception) -> None:
        self._failure = error
        waiting, self._waiting, self._saving, self._records = self._waiting + self._saving, [], [], []
        for future in waiting:
            if not future.done():
                future.set_exception(CommitError(f"the journal cannot be written: {error}"))


def _done(futures: list[asyncio.Future[None]]) -> None:
    """Let go on who waits; those that were cancelled do not."""
    for future in futures:
        if not future.done():
            future.set_result(None)
