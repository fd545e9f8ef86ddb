"""The interval around served losses straight from its definition, and losses whose means depend on the past."""

import math

import numpy as np

ADAPTIVE = (
    "coin", "rare", "halves", "narrow", "walk", "learner", "follows", "against", "switch", "bursts", "uniform", "extremes",
)  # fmt: skip


def sums(losses):
    """n, sum x and v, by a loop."""
    total = variation = 0.0
    for t, x in enumerate(losses):
        variation += (x - (0.5 + total) / (t + 1)) ** 2
        total += x
    return len(losses), total, variation


def log_mixture(r, v):
    """ln sum_k pi_k exp(l_k r - psi(l_k) v), without any care for rounding except a common factor."""
    scales = [0.9 * 2.0**-k for k in range(10)]
    weights = [1.0 / (k + 1) for k in range(10)]
    terms = [
        (w / sum(weights), scale * r - (-math.log(1.0 - scale) - scale) * v) for w, scale in zip(weights, scales, strict=True)
    ]
    largest = max(exponent for _, exponent in terms)
    return largest + math.log(sum(w * math.exp(exponent - largest) for w, exponent in terms))


def deviation(v, alpha):
    """r with log_mixture(r, v) = ln(1 / alpha), by doubling and halving."""
    high = 1.0
    while log_mixture(high, v) < -math.log(alpha):
        high *= 2.0
    low = 0.0
    for _ in range(200):
        middle = (low + high) / 2.0
        low, high = (middle, high) if log_mixture(middle, v) < -math.log(alpha) else (low, middle)
    return high


def adaptive_losses(rng, setting, runs, rounds):
    """Conditional means and losses, (runs, rounds) each; the means depend on the losses before."""
    means, losses = np.empty((runs, rounds)), np.empty((runs, rounds))
    total, level = np.zeros(runs), np.full(runs, 0.5)
    for t in range(rounds):
        mean_so_far = (total + 0.5) / (t + 1)
        if setting in ("coin", "halves", "narrow", "uniform", "extremes"):
            m = np.full(runs, 0.5)
        elif setting == "rare":
            m = np.full(runs, 0.02)
        elif setting == "walk":
            level = np.clip(level + 0.05 * rng.normal(size=runs), 0.02, 0.98)
            m = level
        elif setting == "learner":
            m = 0.05 + 0.6 / np.sqrt(t + 1.0) + 0.1 * mean_so_far
        elif setting == "follows":
            m = np.clip(mean_so_far, 0.02, 0.98)
        elif setting == "against":
            m = np.clip(1.0 - mean_so_far, 0.02, 0.98)
        elif setting == "switch":
            m = np.where(mean_so_far > 0.5, 0.1, 0.9)
        else:
            m = np.where((t // 20) % 2 == 0, 0.05, 0.95) * np.ones(runs)
        if setting == "halves":
            x = 0.5 + 0.5 * (rng.random(runs) - 0.5)
        elif setting == "narrow":
            x = 0.5 + 0.01 * (rng.random(runs) - 0.5)
        elif setting == "uniform":
            x = rng.random(runs)
        elif setting == "extremes":
            # Almost always a little, now and then all: mean 1/2.
            x = np.where(rng.random(runs) < 0.1, 1.0, 0.4 / 0.9)
        else:
            x = (rng.random(runs) < m).astype(float)
        means[:, t], losses[:, t] = m, x
        total += x
    return means, losses
