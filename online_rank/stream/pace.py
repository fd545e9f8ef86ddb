"""How fast the lists of a file follow each other, and whether half-lives fit that."""

from array import array
from collections.abc import Sequence
from typing import Any

import numpy as np

from online_rank.arguments import seconds_of
from online_rank.base.forgetting import parts_of
from online_rank.base.step import QueryStep

#: The most gaps that are kept: the first ones.
_MOST_GAPS = 1 << 16
#: The fewest lists with different times that say something.
_FEWEST = 3
_UNITS = (("d", 86400.0), ("h", 3600.0), ("m", 60.0), ("s", 1.0))


def half_lives_of(model: Any) -> list[str]:
    """The half-lives in time, such as "7d", of the parts of a model; each once.

    Examples
    --------
    >>> from online_rank import AdditiveRanker, History
    >>> half_lives_of(History("brand", half_life="2h") | AdditiveRanker(half_life=("7d", 50)))
    ['2h', '7d']
    """
    found: dict[str, None] = {}
    for part in () if model is None else parts_of(model, QueryStep):
        given = getattr(part, "half_life", None)
        texts = given if isinstance(given, list | tuple) else (given,)
        found |= dict.fromkeys(text for text in texts if isinstance(text, str))
    return [*found]


class Pace:
    """The times of lists, one after the other.

    Examples
    --------
    >>> pace = Pace()
    >>> for time in (0.0, 3600.0, 7200.0):
    ...     pace.add(time)
    >>> pace.warning(["30m"])
    'half-life 30m is below the median gap between lists, 1h: nearly all of the past is forgotten before the next list'
    >>> pace.warning(["1d"])
    'half-life 1d is above the span of all lists, 2h: hardly anything is forgotten'
    """

    def __init__(self) -> None:
        self._gaps = array("d")
        self._first: float | None = None
        self._latest = 0.0
        self._n = 0

    def add(self, time: float) -> None:
        """Add the time of a list; NaN is none."""
        if time != time:
            return
        if self._first is None:
            self._first = self._latest = time
            return
        if time > self._latest:
            self._n += 1
            if len(self._gaps) < _MOST_GAPS:
                self._gaps.append(time - self._latest)
            self._latest = time

    def warning(self, half_lives: Sequence[str]) -> str | None:
        """What is wrong with half-lives for lists of this pace; None for nothing, or too few lists to say it."""
        if self._n + 1 < _FEWEST or self._first is None:
            return None
        gap, span = float(np.median(np.frombuffer(self._gaps))), self._latest - self._first
        for half_life in half_lives:
            seconds = seconds_of(half_life, "half_life")
            if seconds < gap:
                forgotten = "nearly all of the past is forgotten before the next list"
                return f"half-life {half_life} is below the median gap between lists, {_length(gap)}: {forgotten}"
            if seconds > span:
                return f"half-life {half_life} is above the span of all lists, {_length(span)}: hardly anything is forgotten"
        return None


def _length(seconds: float) -> str:
    """A length of time in its largest unit."""
    unit, size = next(((unit, size) for unit, size in _UNITS if seconds >= size), ("s", 1.0))
    return f"{seconds / size:.3g}{unit}"
