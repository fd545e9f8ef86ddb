"""The section of `benchmarks.bounds` on intervals: of running means, and of one mean."""

import functools
import math

import numpy as np

from benchmarks._common import table
from online_rank.intervals import mean_interval
from online_rank.intervals.betting import LOG_PI, SHARES
from online_rank.intervals.losses import largest_deviation
from tests.reference import intervals as adaptive

__all__ = ["intervals"]

#: Laws of losses, or of (1 + a difference of losses) / 2, in [0, 1]: eight with one mean, and three whose mean moves.
_CONSTANT = ("coin, .3", "coin, .02", "losses", "uniform", "narrow", "extremes", "differences", "differences, most 0")
_MOVING = ("walk", "learner", "switch")


def _constant_values(rng: np.random.Generator, law: str, runs: int, rounds: int) -> tuple[float, np.ndarray]:
    """The mean of a law, and values drawn from it (runs, rounds)."""
    shape = runs, rounds
    if law.startswith("coin"):
        mean = float(law.split(", ")[1])
        return mean, (rng.random(shape) < mean).astype(float)
    if law == "losses":
        return 0.3, rng.beta(0.9, 2.1, shape)
    if law == "uniform":
        return 0.5, rng.random(shape)
    if law == "narrow":
        return 0.5, 0.5 + 0.01 * (rng.random(shape) - 0.5)
    if law == "extremes":
        return 0.5, np.where(rng.random(shape) < 0.1, 1.0, 0.4 / 0.9)
    differs = rng.random(shape) < (0.3 if law.endswith("0") else 1.0)
    # The difference is .013 in the mean, as between two good models.
    difference = np.clip(0.2 * rng.standard_normal(shape), -0.987, 0.987)
    return 0.5 + 0.5 * 0.013, 0.5 + 0.5 * (differs * difference + 0.013)


#: Variations for which limits are computed; those between are rounded down.
_GRID = np.append(0.0, np.geomspace(1e-3, 5000.0, 2000))


@functools.cache
def _limits(alpha: float) -> np.ndarray:
    return np.array([largest_deviation(float(v), alpha / 2.0) for v in _GRID])


def _running_limits(variation: np.ndarray, alpha: float) -> np.ndarray:
    """The largest deviations for variations (runs, rounds)."""
    return _limits(alpha)[np.searchsorted(_GRID, variation, side="right") - 1]


def _bets_miss(values: np.ndarray, means: np.ndarray | float, alpha: float) -> np.ndarray:
    """In which runs (runs,) the betting interval ever misses the mean of the means so far."""
    n, missed = np.arange(1, values.shape[1] + 1), np.zeros(len(values), dtype=bool)
    if isinstance(means, float):
        for x, mean in ((values, means), (1.0 - values, 1.0 - means)):
            wealth = np.full(values.shape, -np.inf)
            for share, log_pi in zip(SHARES, LOG_PI, strict=True):
                np.logaddexp(wealth, log_pi + np.cumsum(np.log1p(share * (x / mean - 1.0)), axis=1), out=wealth)
            missed |= (wealth >= -math.log(alpha / 2.0)).any(axis=1)
        return missed
    running = np.cumsum(means, axis=1) / n
    for run, (x, mean) in enumerate(zip(values, running, strict=True)):
        for t in (50, 150, 500, 1500, 5000):
            if t <= len(x):
                found = mean_interval(x[:t], level=1.0 - alpha)
                missed[run] |= not found.lower <= mean[t - 1] <= found.upper
    return missed


def intervals(runs: int = 2000, rounds: int = 5000, alpha: float = 0.05) -> str:
    """Intervals of running means and of one mean: how often they ever miss, and how wide they are."""
    rows, at = [], [t for t in (50, 500, 5000) if t <= rounds]
    for law in (*_CONSTANT, *_MOVING):
        moves, batch = law in _MOVING, min(runs, 200)
        rng = np.random.default_rng(len(rows))
        misses, widths, n_bets = np.zeros(2), np.zeros((2, len(at))), 0
        for first in range(0, runs, batch):
            if moves:
                means, values = adaptive.adaptive_losses(rng, law, batch, rounds)
            else:
                means, values = _constant_values(rng, law, batch, rounds)
            n = np.arange(1, rounds + 1)
            guesses = (0.5 + np.cumsum(values, axis=1) - values) / n
            variation = np.cumsum((values - guesses) ** 2, axis=1)
            off = np.abs(np.cumsum(means - values, axis=1))
            allowed = _running_limits(variation, alpha)
            misses[0] += (off > allowed).any(axis=1).sum()
            # Limits are cut to [0, 1].
            mean = np.cumsum(values, axis=1)[:, [t - 1 for t in at]] / at
            radius = allowed[:, [t - 1 for t in at]] / at
            widths[0] += (np.minimum(mean + radius, 1.0) - np.maximum(mean - radius, 0.0)).sum(axis=0)
            few = values[: 60 if moves else batch]
            if not moves or not first:
                misses[1] += _bets_miss(few, means[: len(few)] if moves else means, alpha).sum()
                n_bets += len(few)
            if not first:
                found = [[mean_interval(x[:t], level=1.0 - alpha) for t in at] for x in values[:20]]
                widths[1] = np.mean([[interval.upper - interval.lower for interval in each] for each in found], axis=0) * runs
        bets = f"{misses[1]:.0f} of {n_bets:,}" if moves else f"{100 * misses[1] / n_bets:.2f} %"
        each = [" / ".join(f"{widths[k, j] / runs:.3f}" for k in range(2)) for j in range(len(at))]
        rows.append((f"{law}{', a moving mean' if moves else ''}", f"{100 * misses[0] / runs:.2f} %", bets, *each))
    header = (
        "law",
        "running mean misses",
        "one mean misses",
        *(f"widths, n = {t:,}" for t in at),
    )
    return (
        f"{runs:,} runs of {rounds:,} queries each, 95 %; a miss is one at any time. *Running mean*: `LossInterval`; *one "
        "mean*: `mean_interval`, which is not for moving means: there 60 runs were looked at, at five times. Widths in this "
        "order; differences are halved.\n\n"
        f"{table(header, rows)}"
    )
