"""Time for windows of feedback where no requests come that would say it."""

import time

from online_rank.serving.outcomes import Reply
from online_rank.serving.protocol import RankingService

__all__ = ["IdleClock"]


class IdleClock:
    """Lets the time of a service go on by the clock on the wall once no request has moved it for a while.

    Parameters
    ----------
    service
        The service.
    seconds
        For how long nothing must have come; None never lets it go on.
    """

    def __init__(self, service: RankingService, seconds: float | None) -> None:
        self._service = service
        self._seconds = seconds
        self._since = time.monotonic()
        self._then = service.now

    def moved(self) -> None:
        """A request was answered."""
        self._since, self._then = time.monotonic(), self._service.now

    def idle(self) -> Reply:
        """What happens if nothing has come for long enough: queries are learned whose windows have ended meanwhile."""
        passed = time.monotonic() - self._since
        if self._seconds is None or self._then is None or passed < self._seconds:
            return Reply({})
        return self._service.advance(self._then + passed)
