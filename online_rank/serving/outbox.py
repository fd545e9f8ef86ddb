"""What readers have ranked and the learner does not have yet."""

import asyncio
import contextlib
import logging
from collections.abc import Awaitable, Callable
from typing import Any

from online_rank.serving.served import Answer

_log = logging.getLogger("online_rank.serving")

#: Seconds until what was sent in vain is sent again.
_BETWEEN_TRIES = 0.25
#: Most rankings sent at once, most of their bytes, and seconds for which the first of them waits for others.
_AT_ONCE, _BYTES_AT_ONCE, _COMPANY = 128, 1 << 20, 0.05
#: Most bytes of the rankings that wait to be sent; and the number of dropped ones that are remembered.
_MOST_BYTES, _MOST_DROPPED = 1 << 26, 100_000
#: Seconds for which feedback waits for its ranking to reach the learner, from here or from another reader.
PATIENCE = 5.0
#: What the learner answers to rankings that it will never take, such as rankings of a key that is gone.
_FINAL = (400, 404, 409, 413)


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
        #: The number of the last ranking of an id that waits: it leaves after all others of this id.
        self._last: dict[tuple[str | None, Any], int] = {}
        self._dropped: dict[tuple[str | None, Any], None] = {}
        #: Whether anything waits, and whether it waits for no others.
        self._called, self._hurry = asyncio.Event(), asyncio.Event()
        self._number, self._status = 0, 200
        self.n_bytes = self.n_sent = self.n_dropped = self.n_refused = 0

    def put(self, key: str | None, query_id: Any, message: bytes) -> None:
        """A ranking waits; the oldest are dropped to make room."""
        self._number += 1
        self._dropped.pop((key, query_id), None)
        self._waiting[key, query_id, self._number] = message
        self._last[key, query_id] = self._number
        self.n_bytes += len(message)
        while self.n_bytes > _MOST_BYTES:
            oldest = next(iter(self._waiting))
            self._leave(oldest)
            self.n_dropped += 1
            self._drop(oldest[:2])
        self._called.set()
        if len(self._waiting) >= _AT_ONCE:
            self._hurry.set()

    def has_dropped(self, key: str | None, query_id: Any) -> bool:
        """Whether the last ranking under an id was dropped, or refused."""
        return (key, query_id) in self._dropped

    async def sent(self, key: str | None, query_id: Any) -> None:
        """Wait until the learner has all rankings of an id, or they are dropped. Raises TimeoutError."""
        if (key, query_id) in self._last:
            future: asyncio.Future[None] = asyncio.get_running_loop().create_future()
            self._futures.setdefault((key, query_id), []).append(future)
            self._hurry.set()
            await asyncio.wait_for(future, PATIENCE)

    async def send_all(self) -> None:
        """Send what waits, as long as this runs."""
        while True:
            await self._called.wait()
            if len(self._waiting) < _AT_ONCE and not self._futures:
                with contextlib.suppress(TimeoutError):
                    await asyncio.wait_for(self._hurry.wait(), _COMPANY)
            self._hurry.clear()
            # What comes meanwhile waits for others in its turn.
            number = self._number
            while self._waiting and next(iter(self._waiting))[2] <= number:
                if not await self.send_some():
                    await asyncio.sleep(_BETWEEN_TRIES)
            if not self._waiting:
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
        key, query_id, number = which
        if self._last.get((key, query_id)) == number:
            del self._last[key, query_id]
            for future in self._futures.pop((key, query_id), ()):
                if not future.done():
                    future.set_result(None)
