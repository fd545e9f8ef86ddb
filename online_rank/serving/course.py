"""What a service counts over time, in constant memory."""

import time
from collections.abc import Mapping
from typing import Any

from online_rank.serving.clock import CLOCK
from online_rank.serving.reading import DAY

_MAX_POINTS = 300


class Course:
    """Rows of numbers over time; when there are too many, every other row is dropped, and only every other one is recorded.

    Parameters
    ----------
    max_points
        Most rows kept.

    Examples
    --------
    >>> course = Course(max_points=4)
    >>> for t in range(1, 10):
    ...     if course.is_due(t):
    ...         course.add((t,))
    >>> course.rows
    [(2,), (4,), (6,), (8,)]
    """

    def __init__(self, max_points: int = _MAX_POINTS) -> None:
        self.rows: list[tuple[float, ...]] = []
        self._max_points = max_points
        self._stride = 1
        self._n_offered = 0

    def is_due(self, t: int) -> bool:
        """Whether the row of time t is recorded."""
        return t % self._stride == 0

    def append(self, row: tuple[float, ...]) -> None:
        """Add a row, whenever it comes."""
        self._n_offered += 1
        if self.is_due(self._n_offered):
            self.add(row)

    def add(self, row: tuple[float, ...]) -> None:
        """Add a row."""
        self.rows.append(row)
        if len(self.rows) > self._max_points:
            self._stride *= 2
            self.rows = self.rows[1::2]


class Today:
    """What a service has counted since midnight (UTC), or since it was loaded into memory if that was later.

    Parameters
    ----------
    counts
        What it has counted so far.

    Attributes
    ----------
    until
        The next midnight by the monotonic clock, from which on another day is to begin.
    """

    def __init__(self, counts: Mapping[str, float]) -> None:
        self._since, self._begun = CLOCK.now(), counts
        self.until = time.monotonic() + DAY - self._since % DAY

    def begin(self, counts: Mapping[str, float]) -> None:
        """Begin another day, if it is one, with what was counted before."""
        now = CLOCK.now()
        if now // DAY > self._since // DAY:
            self._since, self._begun = now // DAY * DAY, counts
            self.until = time.monotonic() + DAY - now % DAY

    def figures(self, counts: Mapping[str, float]) -> dict[str, Any]:
        """When the day began, in seconds since 1970, and what has been counted since, of all counts, for JSON."""
        return {"since": self._since, **{name: count - self._begun[name] for name, count in counts.items()}}
