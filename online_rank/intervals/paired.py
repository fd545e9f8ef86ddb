r"""Compares rankers: intervals for differences of losses, valid at any time and on any stream.

Two rankers rank the same queries, with losses a_t and b_t in [0, 1] and d_t = b_t - a_t. `online_rank.intervals` with
x_t = (1 + d_t) / 2 gives, with probability at least 1 - alpha, for all n at once,

.. math:: \left|\frac{1}{n} \sum_t E_t d_t - \frac{1}{n} \sum_t d_t\right| \le \frac{2 r(\alpha/2, v_n)}{n},

and each side alone with r(alpha, v_n). Since queries are hard or easy for both, this is much narrower than the difference of
two intervals. For K rankers all K (K - 1) statements "a is better than b by at least y" hold together, each at level alpha / (K
(K - 1)).
"""

import math
from collections.abc import Mapping, Sequence
from typing import Any, NamedTuple

import numpy as np

from online_rank.intervals.losses import Interval, LossInterval, add_losses, checked_sums, largest_deviation

#: The meaning of an interval of differences, in one sentence.
EXPECTATION = (
    "The difference is the expected one on each query, given everything before it, averaged over the queries so far: "
    "it says which model was the better one on this stream up to now, not on queries to come."
)


#: No decision takes more queries than this.
_MOST = 1e9


class Difference(Interval):
    """An interval for the mean difference between the expected losses of two models over the queries so far.

    Attributes
    ----------
    lower, upper
        The limits, within [-1, 1].
    mean
        The measured mean difference.
    n
        Number of queries.
    level
        The confidence, for all times at once.
    """

    __slots__ = ()

    def __str__(self) -> str:
        return f"{self.mean:+.4f}, {100 * self.level:g} % interval {self.lower:+.4f} to {self.upper:+.4f}, n = {self.n:,}"


class Better(NamedTuple):
    """One model is better than another.

    Attributes
    ----------
    better, worse
        Their names.
    by
        Lower bound on the mean difference between their expected losses over the queries so far.
    mean
        The mean difference that was measured.
    n
        Number of queries.
    level
        The confidence, for all pairs of models and all times at once.
    """

    better: str
    worse: str
    by: float
    mean: float
    n: int
    level: float

    def __str__(self) -> str:
        return (
            f"{self.better} is better than {self.worse} by at least {self.by:.4f} a query "
            f"(measured {self.mean:.4f}, n = {self.n:,}, {100 * self.level:g} %)"
        )


class PairedLosses:
    """A running account of the losses of several models on the same queries, with three numbers for each pair.

    Parameters
    ----------
    names
        The names of K >= 2 models.
    sums
        Number, sum and variation of (1 + difference) / 2 for each pair (K (K - 1) / 2, 3), to continue an earlier account. The
        attribute `sums` holds them, with pairs in the order (0, 1), (0, 2), ..., (1, 2), ...

    Raises
    ------
    ValueError
        There are fewer than two names, or one occurs twice; or `sums` has another shape, or numbers below 0.

    Examples
    --------
    >>> paired = PairedLosses(["old", "new"])
    >>> for t in range(1000):
    ...     hard = 0.5 * (t % 2)
    ...     paired.update({"old": 0.3 + hard, "new": 0.2 + hard})
    >>> print(paired.difference("new", "old"))
    +0.1000, 95 % interval +0.0896 to +0.1104, n = 1,000
    >>> for statement in paired.better():
    ...     print(statement)
    new is better than old by at least 0.0896 a query (measured 0.1000, n = 1,000, 95 %)
    """

    def __init__(self, names: Sequence[str], *, sums: Any = None) -> None:
        self.names = tuple(map(str, names))
        if len(self.names) < 2 or len(set(self.names)) < len(self.names):
            raise ValueError(f"names is {self.names}; it is at least two names, no two of them the same")
        self._first, self._second = np.triu_indices(len(self.names), 1)
        self.sums = np.zeros((len(self._first), 3)) if sums is None else checked_sums(sums, (len(self._first), 3))

    @property
    def n(self) -> int:
        """Number of queries."""
        return int(self.sums[0, 0])

    def update(self, losses: Mapping[str, float]) -> None:
        """Add the losses of all models on a query.

        Raises
        ------
        KeyError, ValueError
            A model has no loss, or one that is not a number between 0 and 1.
        """
        values = np.array([losses[name] for name in self.names], dtype=np.float64)
        for name, value in zip(self.names, values.tolist(), strict=True):
            if not 0.0 <= value <= 1.0:
                raise ValueError(f"losses[{name!r}] is {value}; it must be a number between 0 and 1")
        halves = 0.5 + 0.5 * (values[self._second] - values[self._first])
        for sums, half in zip(self.sums, halves.tolist(), strict=True):
            add_losses(sums, (half,))

    def difference(self, a: str, b: str, level: float = 0.95) -> Difference:
        """By how much the loss of `b` exceeds the loss of `a` (`Difference`); the interval is [-1, 1] before the first query.

        It is valid for this pair alone; use `better` for all pairs at once.
        """
        sums, sign = self._of(a, b)
        halves = LossInterval(sums).interval(level)
        lower, upper = sorted((sign * (2.0 * halves.lower - 1.0), sign * (2.0 * halves.upper - 1.0)))
        return Difference(lower, upper, sign * (2.0 * halves.mean - 1.0), halves.n, level)

    def n_left(self, a: str, b: str, level: float = 0.95) -> int | None:
        """How many more queries it takes until `b` is known to lose more than `a`, if all continues as so far.

        Known is what holds at all times with probability `level`, on this side alone. None if `a` has not lost less so far.

        Examples
        --------
        >>> paired = PairedLosses(["old", "new"], sums=[[100.0, 40.0, 20.0]])
        >>> paired.n_left("new", "old"), paired.n_left("old", "new")
        (162, None)
        """
        (n, total, variation), sign = self._of(a, b)
        lead = sign * (total / n - 0.5) if n else 0.0
        if lead <= 0.0:
            return None

        def is_known(queries: float) -> bool:
            return queries * lead > largest_deviation(queries * variation / n, 1.0 - level)

        low = high = float(n)
        while not is_known(high):
            low, high = high, 2.0 * high
            if high > _MOST:
                return None
        while high - low > 1.0:
            middle = 0.5 * (low + high)
            low, high = (low, middle) if is_known(middle) else (middle, high)
        return math.ceil(high) - int(n)

    def better(self, level: float = 0.95) -> list[Better]:
        """Every statement "a is better than b by at least y", y > 0, that holds; all hold together, at all times, with
        probability `level`.

        You may stop at the first query that gives such a statement.
        """
        k = len(self.names)
        each = 1.0 - (1.0 - level) / (k * (k - 1))
        found = []
        for a in self.names:
            for b in self.names:
                if a == b:
                    continue
                sums, sign = self._of(a, b)
                halves = LossInterval(sums)
                by = 2.0 * halves.lower_limit(each) - 1.0 if sign > 0.0 else 1.0 - 2.0 * halves.upper_limit(each)
                if by > 0.0:
                    found.append(Better(a, b, by, sign * (2.0 * halves.mean - 1.0), halves.n, level))
        return found

    def _of(self, a: str, b: str) -> tuple[np.ndarray, float]:
        """The account of a pair, and whether it is for b minus a or a minus b."""
        i, j = self.names.index(a), self.names.index(b)
        if i == j:
            raise ValueError(f"{a!r} is compared with itself")
        row = int(np.flatnonzero((self._first == min(i, j)) & (self._second == max(i, j)))[0])
        return self.sums[row], 1.0 if i < j else -1.0
