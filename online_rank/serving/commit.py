"""Group commit: requests that come while the disk is busy share its next wait."""

import asyncio
from collections.abc import Awaitable

from online_rank.serving.durable import DurableService

__all__ = ["CommitError", "GroupCommit"]


class CommitError(RuntimeError):
    """What was learned could not be written to the disk; nothing of it is acknowledged, and nothing more is learned."""


class GroupCommit:
    """Writes the requests that changed a service to its journal, in their order, from an event loop.

    One write and one wait for the disk at a time, in a thread; whatever is added meanwhile goes together next.

    Parameters
    ----------
    durable
        The service and its journal. All changes of the service must happen in the event loop, each followed by `add`.
    """

    def __init__(self, durable: DurableService) -> None:
        self._durable = durable
        self._records: list[bytes] = []
        self._waiting: list[asyncio.Future[None]] = []
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
        """Write a checkpoint, when all that was added is in the journal. Raises CommitError when that fails."""
        await self.flush()
        self.require_working()
        try:
            self._durable.save()
        except Exception as error:
            self._fail(error)
        self.require_working()

    async def flush(self) -> None:
        """Wait until all that was added is in the journal, or cannot be."""
        while self._task is not None:
            await asyncio.wait([self._task])

    def _waiter(self) -> Awaitable[None]:
        """What is done when all records so far are on the disk."""
        future: asyncio.Future[None] = asyncio.get_running_loop().create_future()
        self._waiting.append(future)
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
            while self._records or self._waiting:
                records, self._records = self._records, []
                waiting, self._waiting = self._waiting, []
                try:
                    if waiting:
                        await asyncio.to_thread(self._durable.append, records, True)
                    else:
                        self._durable.append(records, False)
                except BaseException:
                    self._waiting = waiting + self._waiting
                    raise
                for future in waiting:
                    if not future.done():
                        future.set_result(None)
                if self._durable.is_due and not self._records:
                    self._durable.save()
        except Exception as error:
            # Whatever it is: what waits must hear of it.
            self._fail(error)
        finally:
            self._task = None

    def _fail(self, error: Exception) -> None:
        self._failure = error
        waiting, self._waiting, self._records = self._waiting, [], []
        for future in waiting:
            if not future.done():
                future.set_exception(CommitError(f"the journal cannot be written: {error}"))
