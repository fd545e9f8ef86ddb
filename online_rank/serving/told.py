"""What a server tells its replicas: its whole service, and then every change of it."""

import asyncio
import collections
import contextlib
import secrets
import time
from collections.abc import Iterable

from online_rank.serving.outcomes import Outcome
from online_rank.serving.protocol import RankingService
from online_rank.serving.wire import encoded

__all__ = ["Told"]

#: Bytes of outcomes that are kept for replicas, and most of one answer.
_KEPT = 1 << 26
_AT_ONCE = 1 << 21
#: Seconds for which a replica is waited for, and for which a request for more may wait.
_PATIENCE = 300.0
_LONG = 0.5


class Told:
    """The outcomes of a service, for its replicas: those of the last while, once one has asked.

    Parameters
    ----------
    service
        The service.
    """

    def __init__(self, service: RankingService) -> None:
        self._service = service
        self._lines: collections.deque[bytes] = collections.deque()
        self._n_bytes = 0
        self._asked = float("-inf")
        self._more = asyncio.Event()
        self.epoch = secrets.token_hex(8)

    def add(self, outcomes: tuple[Outcome, ...]) -> None:
        """Outcomes, in the order in which they happened."""
        self.pass_on(
            encoded({"o": [outcome.fields, outcome.number, outcome.waiting, outcome.feedback.decode()]}) for outcome in outcomes
        )

    def pass_on(self, lines: Iterable[bytes]) -> None:
        """Outcomes as another server told them: a replica may be followed, too."""
        if time.monotonic() - self._asked > _PATIENCE:
            self._lines.clear()
            self._n_bytes = 0
            return
        for line in lines:
            self._lines.append(line)
            self._n_bytes += len(line)
        while self._n_bytes > _KEPT:
            self._n_bytes -= len(self._lines.popleft())
        self._more.set()

    def restart(self) -> None:
        """Something has happened that is no outcome: replicas begin anew."""
        self.epoch = secrets.token_hex(8)
        self._lines.clear()
        self._n_bytes = 0
        self._more.set()

    def begin(self) -> bytes:
        """The whole service, for a replica to begin with."""
        self._asked = time.monotonic()
        return self._service.whole_file()

    async def since(self, epoch: str, change: int) -> bytes | None:
        """The outcomes after a change, one a line, after a line that says how far the service is; None to begin anew.

        Where there are none yet, it waits for half a second.
        """
        self._asked = time.monotonic()
        if epoch == self.epoch and change == self._service.n_changes:
            self._more.clear()
            with contextlib.suppress(TimeoutError):
                await asyncio.wait_for(self._more.wait(), _LONG)
        n_missing = self._service.n_changes - change
        if epoch != self.epoch or not 0 <= n_missing <= len(self._lines):
            return None
        lines, size = [encoded({"change": self._service.n_changes})], 0
        for i in range(len(self._lines) - n_missing, len(self._lines)):
            lines.append(self._lines[i])
            size += len(self._lines[i])
            if size > _AT_ONCE:
                break
        return b"\n".join(lines)
