"""Advances the time of feedback windows when no requests arrive."""

import time

from online_rank.serving.outcomes import Reply
from online_rank.serving.protocol import RankingService


class IdleClock:
    """Advances the time of a service by the wall clock once no request has moved it for a while.

    Parameters
    ----------
    service
        The service.
    seconds
        Seconds without requests before time is advanced; None for never.
    """

    def __init__(self, service: RankingService, seconds: float | None) -> None:
        self._service = service
        self._seconds = seconds
        self._since = time.monotonic()
        self._then = service.now

    def moved(self) -> None:
        """Record that a request was answered."""
        self._since, self._then = time.monotonic(), self._service.now

    def idle(self) -> Reply:
        """If nothing has arrived for long enough, learn the queries whose windows have ended."""
        passed = time.monotonic() - self._since
        if self._seconds is None or self._then is None or passed < self._seconds:
            return Reply({})
        return self._service.advance(self._then + passed)
