r"""Which of several rankers is better: intervals for differences of losses that are valid at any time, on any stream.

Two rankers are judged on the same queries, with losses a_t and b_t in [0, 1] and d_t = b_t - a_t. `online_rank.intervals` with
x_t = (1 + d_t) / 2 gives, with probability at least 1 - alpha, for all n at once,

.. math:: \left|\frac{1}{n} \sum_t E_t d_t - \frac{1}{n} \sum_t d_t\right| \le \frac{2 r(\alpha/2, v_n)}{n},

and each side alone with r(alpha, v_n). Queries are hard or easy for both, so that this is much narrower than two intervals of
the losses. Of K rankers all K (K - 1) statements "a is better than b by at least y" hold together, each at alpha / (K (K -
1)).
"""

from collections.abc import Mapping, Sequence
from typing import Any, NamedTuple

import numpy as np

from online_rank.intervals.losses import LossInterval, add_losses

__all__ = ["EXPECTATION", "Better", "Difference", "PairedLosses"]

#: What an interval of differences is for, in one sentence.
EXPECTATION = (
    "The difference is what could be expected on each query, given everything before it, averaged over the queries so far: "
    "it says which model was the better one on this stream up to now, not on queries to come."
)


class Difference(NamedTuple):
    """By how much the expected loss of one model exceeds that of another, on average over the queries so far.

    Attributes
    ----------
    lower, upper
        The limits, within [-1, 1].
    mean
        The mean difference that was measured.
    n
        Number of queries.
    level
        The confidence, for all times at once.
    """

    lower: float
    upper: float
    mean: float
    n: int
    level: float

    def __str__(self) -> str:
        return f"{self.mean:+.4f}, {100 * self.level:g} % interval {self.lower:+.4f} to {self.upper:+.4f}, n = {self.n:,}"


class Better(NamedTuple):
    """One model is better than another.

    Attributes
    ----------
    better, worse
        Their names.
    by
        By how much the expected loss of the better one is smaller at least, on average over the queries so far.
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
    """Running account of the losses of several models on the same queries, three numbers a pair of models.

    Parameters
    ----------
    names
        The names of K >= 2 models.
    sums
        Number, sum and variation of (1 + difference) / 2 of each pair (K (K - 1) / 2, 3), where the account is to go on. The
        attribute `sums` holds them, the pairs in the order (0, 1), (0, 2), ..., (1, 2), ...

    Raises
    ------
    ValueError
        There are fewer than two names, or one stands there twice.

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

    def __init__(self, names: Sequence[str], sums: Any = None) -> None:
        self.names = tuple(map(str, names))
        if len(self.names) < 2 or len(set(self.names)) < len(self.names):
            raise ValueError(f"names is {self.names}; it is at least two names, no two of them the same")
        self._first, self._second = np.triu_indices(len(self.names), 1)
        self.sums = np.zeros((len(self._first), 3)) if sums is None else np.array(sums, dtype=np.float64)

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
        for sums, half in zip(self.sums, halves, strict=True):
            add_losses(sums, half[None])

    def difference(self, a: str, b: str, level: float = 0.95) -> Difference:
        """By how much the loss of `b` exceeds that of `a` (`Difference`); the interval is [-1, 1] before the first query.

        It speaks of this pair alone; `better` speaks of all pairs at once.
        """
        sums, sign = self._of(a, b)
        halves = LossInterval(sums).interval(level)
        lower, upper = sorted((sign * (2.0 * halves.lower - 1.0), sign * (2.0 * halves.upper - 1.0)))
        return Difference(lower, upper, sign * (2.0 * halves.mean - 1.0), halves.n, level)

    def better(self, level: float = 0.95) -> list[Better]:
        """Every "a is better than b by at least y", y > 0, that holds with probability `level`, all at once and at all times.

        Stopping at the first query at which one is said is allowed.
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
        """The account of a pair, and whether it is of b less a or the other way."""
        i, j = self.names.index(a), self.names.index(b)
        if i == j:
            raise ValueError(f"{a!r} is compared with itself")
        row = int(np.flatnonzero((self._first == min(i, j)) & (self._second == max(i, j)))[0])
        return self.sums[row], 1.0 if i < j else -1.0
