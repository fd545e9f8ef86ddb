"""A running account of losses, and an interval for their expected mean. For the theorem see `online_rank.intervals`."""

import math
from collections.abc import Mapping, Sequence
from typing import Any, NamedTuple

import numpy as np

from online_rank import arguments
from online_rank._kernels.intervals import radius
from online_rank.measures.learned import AnyMeasure, as_scores, served_losses
from online_rank.query import as_grades
from online_rank.query.blocks import single

#: From this number of losses on numpy is faster.
_MANY = 16

_SCALES = 0.9 * 0.5 ** np.arange(10.0)
# As a series, since the difference -ln(1 - l) - l loses half of its digits for small scales.
_PSI = np.array([math.fsum(scale**j / j for j in range(2, 500)) for scale in _SCALES.tolist()])
_LOG_PI = -np.log(np.arange(1.0, 11.0)) - math.log(math.fsum(1.0 / np.arange(1.0, 11.0)))


class Interval(NamedTuple):
    """An interval for the mean of the expected losses of the rankings served so far.

    Attributes
    ----------
    lower, upper
        The limits, within [0, 1].
    mean
        The mean loss that was measured.
    n
        Number of losses.
    level
        The confidence, for all times at once.
    """

    lower: float
    upper: float
    mean: float
    n: int
    level: float

    def __str__(self) -> str:
        return f"{self.mean:.4f}, {100 * self.level:g} % interval {self.lower:.4f} to {self.upper:.4f}, n = {self.n:,}"


def largest_deviation(variation: float, alpha: float) -> float:
    r"""r(alpha, v) of `online_rank.intervals`: how far a sum of losses deviates from the sum of their means, on one side.

    Parameters
    ----------
    variation
        v, the sum of the squared differences between the losses and their guesses.
    alpha
        The probability that it ever deviates farther.

    Returns
    -------
    The solution r >= 0, rounded up.

    Examples
    --------
    >>> round(largest_deviation(0.0, 0.05), 3), round(largest_deviation(100.0, 0.05), 3)
    (4.405, 35.372)
    """
    if not 0.0 <= variation < math.inf:
        raise ValueError(f"variation is {variation}; it must be a finite number >= 0")
    if not 0.0 < alpha < 1.0:
        raise ValueError(f"alpha is {alpha}; it must be a probability between 0 and 1")
    return float(radius(_SCALES, _PSI, _LOG_PI, variation, -math.log(alpha)))


class LossInterval:
    """A running account of losses in [0, 1], three numbers in all, that gives an interval at any time.

    Parameters
    ----------
    sums
        Number of losses, their sum, and v, to continue an earlier account. The attribute `sums` (3,) holds them.

    Raises
    ------
    ValueError
        `sums` is not three finite numbers >= 0.

    Examples
    --------
    >>> from online_rank.intervals import LossInterval
    >>> served = LossInterval()
    >>> for t in range(1000):
    ...     served.update(0.25 if t % 2 else 0.35)
    >>> print(served.interval(0.95))
    0.3000, 95 % interval 0.2909 to 0.3091, n = 1,000
    >>> round(served.upper_limit(0.95), 4)
    0.3082
    """

    def __init__(self, sums: Any = (0.0, 0.0, 0.0)) -> None:
        self.sums = checked_sums(sums, (3,))

    @property
    def n(self) -> int:
        """Number of losses."""
        return int(self.sums[0])

    @property
    def mean(self) -> float:
        """Mean of the losses; NaN before the first."""
        return float(self.sums[1] / self.sums[0]) if self.sums[0] else math.nan

    def update(self, loss: float) -> None:
        """Add a loss.

        Raises
        ------
        ValueError
            It is not a number between 0 and 1.
        """
        if not 0.0 <= loss <= 1.0:
            raise ValueError(f"loss is {loss}; it must be a number between 0 and 1")
        add_losses(self.sums, (loss,))

    def interval(self, level: float = 0.95) -> Interval:
        """The interval that holds at all times with probability `level`.

        It is for the mean of E_t x_t over the rounds so far: the expected losses of the rankings served, each given its past.
        Before the first loss it is [0, 1].
        """
        radius = self._half_width(1.0 - (1.0 - level) / 2.0)
        return Interval(self._down(radius), self._up(radius), self.mean, self.n, level)

    def lower_limit(self, level: float = 0.95) -> float:
        """Lower limit of the mean expected loss, valid at all times with probability `level`."""
        return self._down(self._half_width(level))

    def upper_limit(self, level: float = 0.95) -> float:
        """Upper limit of the mean expected loss, valid at all times with probability `level`."""
        return self._up(self._half_width(level))

    def _down(self, radius: float) -> float:
        return max(0.0, self.mean - radius) if self.n else 0.0

    def _up(self, radius: float) -> float:
        return min(1.0, self.mean + radius) if self.n else 1.0

    def _half_width(self, level: float) -> float:
        arguments.number("level", level, above=0.0, below=1.0)
        return largest_deviation(float(self.sums[2]), 1.0 - level) / max(1.0, float(self.sums[0]))


def checked_sums(sums: Any, shape: tuple[int, ...]) -> np.ndarray:
    """A copy of the sums of earlier accounts, float64; ValueError unless they have this shape and are finite and >= 0."""
    copied = np.array(sums, dtype=np.float64)
    if copied.shape != shape or not ((copied >= 0.0) & np.isfinite(copied)).all():
        raise ValueError(f"sums is {sums!r}; it is numbers >= 0 of shape {shape}: in turn a count, a sum, and a variation")
    return copied


def add_losses(sums: np.ndarray, losses: Sequence[float] | np.ndarray) -> None:
    """Add losses (n,), each in [0, 1], to `sums` (3,) of a `LossInterval`, in place."""
    if len(losses) >= _MANY:
        sums[:] = running_sums(sums, np.asarray(losses))[-1]
        return
    n, total, variation = sums.tolist()
    for loss in losses:
        difference = float(loss) - (0.5 + total) / (n + 1.0)
        n, total, variation = n + 1.0, total + float(loss), variation + difference * difference
    sums[:] = n, total, variation


def running_sums(sums: np.ndarray, losses: np.ndarray) -> np.ndarray:
    """What `sums` (3,) of a `LossInterval` become as losses (n,), each in [0, 1], are added in turn: (n + 1, 3)."""
    n, total, variation = sums.tolist()
    counts = n + np.arange(len(losses) + 1)
    totals = np.cumsum(np.append(total, losses))
    guesses = (0.5 + totals[:-1]) / (counts[:-1] + 1.0)
    differences = losses - guesses
    return np.stack((counts, totals, np.cumsum(np.append(variation, differences * differences))), axis=1)


def served_loss(measure: AnyMeasure, scores: Any, grades: Any) -> float | None:
    """Loss (1 - measure) of a ranking that was served, ties broken pessimistically.

    Parameters
    ----------
    measure
        The measure of the loss (`online_rank.measure`).
    scores
        The answer of `predict_one`: m numbers, or `{document id: score}`.
    grades
        m integers >= 0, or `{document id: grade}`.

    Returns
    -------
    A number in [0, 1]; None for a query in which nothing can be ranked wrongly, because all documents have one grade.

    Examples
    --------
    >>> from online_rank import measure
    >>> served_loss(measure("ap"), {"a": 0.0, "b": 0.0}, {"a": 1, "b": 0}), served_loss(measure("ap"), [0.0, 0.0], [1, 1])
    (0.5, None)
    """
    if type(scores) is not np.ndarray and isinstance(scores, Mapping):
        names = list(scores)
        scores, y = [scores[name] for name in names], as_grades(grades, len(names), names)
    else:
        y = as_grades(grades, len(scores))
    loss = served_losses(measure, as_scores(scores), y, single(len(y))).item() if len(y) else math.nan
    return None if math.isnan(loss) else loss
