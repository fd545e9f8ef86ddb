r"""Intervals for one expected value that does not change: a model that does not learn, on queries drawn independently.

Let x_1, x_2, ... in [0, 1] have one mean mu, given everything before. With shares l_k = .99 / 2^k for k = 0..11, and weights
pi_k proportional to 1 / (k + 1), the wealth of someone who bets that the mean is above m is

.. math:: K_n(m) = \sum_k \pi_k \prod_{t \le n} \left(1 + l_k \left(\frac{x_t}{m} - 1\right)\right).

**Theorem.** With probability at least 1 - alpha, for all n at once, mu is at least the m at which K_n(m) = 1 / alpha.

Proof. A factor is at least 1 - l_k > 0 and has mean 1 at m = mu, so K_n(mu) is a martingale that begins at 1, and by Ville's
inequality ever reaches 1 / alpha with probability at most alpha. Every factor falls as m grows, and so does K_n. QED.

**Different laws.** The shares do not change, so at one n that is chosen beforehand the interval also holds for the mean of the
means m_t of independent queries of different laws: E K_n at their mean m is the sum of pi_k times the product of the 1 + l_k
(m_t / m - 1), which is at most 1, as a product of positive numbers with mean 1.

1 - x in place of x gives the upper limit; both hold together at alpha / 2 each. With few queries this is about half as wide as
`online_rank.intervals.LossInterval`. But it is for one mean: where the model learns, or queries depend on each other or change
in the course of a file, it may miss at some time, and only `LossInterval` and `PairedLosses` hold.

References
----------
Waudby-Smith & Ramdas, *Estimating means of bounded random variables by betting*, JRSS B 2024.
"""

import math
from collections.abc import Sequence
from typing import Any

import numpy as np

from online_rank import arguments
from online_rank.intervals.losses import Interval
from online_rank.intervals.paired import Difference

#: The assumption and the meaning of an interval, in one sentence.
INDEPENDENT = (
    "Intervals are for the expected value on a query to come, if queries are drawn independently from one distribution and the "
    "models do not learn; you may stop at any query."
)

SHARES = 0.99 * 0.5 ** np.arange(12.0)
LOG_PI = -np.log(np.arange(1.0, 13.0)) - math.log(math.fsum(1.0 / np.arange(1.0, 13.0)))
_HALVINGS = 45


def mean_interval(values: Sequence[float] | np.ndarray, *, level: float = 0.95, differences: bool = False) -> Interval:
    """An interval for the expected value of independent queries, valid at all times at once with probability `level`.

    Parameters
    ----------
    values
        One for each query, (n,): losses or metrics of a model that does not learn, in [0, 1].
    level
        The confidence.
    differences
        Whether the values are differences of two losses, in [-1, 1]: the interval is then a `Difference`.

    Returns
    -------
    The whole range before the first value.

    Raises
    ------
    ValueError
        A value is out of range, or `level` is not between 0 and 1.

    Examples
    --------
    >>> from online_rank.intervals import LossInterval, mean_interval
    >>> losses = [0.3, 0.5, 0.2, 0.4, 0.1] * 10
    >>> print(mean_interval(losses))
    0.3000, 95 % interval 0.2386 to 0.3770, n = 50
    >>> running = LossInterval()
    >>> for loss in losses:
    ...     running.update(loss)
    >>> print(running.interval())
    0.3000, 95 % interval 0.1614 to 0.4386, n = 50
    """
    x = np.asarray(values, dtype=np.float64)
    low = -1.0 if differences else 0.0
    if x.ndim != 1 or not ((x >= low) & (x <= 1.0)).all():
        raise ValueError(f"values must be a vector of numbers from {low:g} to 1")
    arguments.number("level", level, above=0.0, below=1.0)
    x = (x - low) / (1.0 - low)
    target = -math.log((1.0 - level) / 2.0)
    limits: Any = np.array([_lower_limit(x, target), 1.0 - _lower_limit(1.0 - x, target)])
    lower, upper = (low + (1.0 - low) * limits).tolist()
    mean = float(low + (1.0 - low) * x.mean()) if len(x) else math.nan
    return (Difference if differences else Interval)(lower, upper, mean, len(x), level)


def log_wealth(x: np.ndarray, m: float) -> float:
    """ln K_n(m) of values (n,) in [0, 1]."""
    gains = x / m - 1.0
    terms = [log_pi + np.log1p(share * gains).sum() for share, log_pi in zip(SHARES, LOG_PI, strict=True)]
    return float(np.logaddexp.reduce(terms))


def _lower_limit(x: np.ndarray, target: float) -> float:
    """The m at which ln K_n(m) is `target`, rounded down; 0 if ln K_n stays below it."""
    low, high = 0.0, float(x.mean()) if len(x) else 0.0
    for _ in range(_HALVINGS):
        middle = (low + high) / 2.0
        if middle <= 0.0:
            break
        low, high = (middle, high) if log_wealth(x, middle) >= target else (low, middle)
    return low
