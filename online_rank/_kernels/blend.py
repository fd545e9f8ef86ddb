"""Convex blends of rankings: scores standardised in the query, and their sums by weights."""

import math

import numpy as np

from online_rank._kernels._jit import kernel
from online_rank._kernels.judge import judge_rankings


@kernel
def standardise(S, Z):
    """Z[k] = (S[k] - mean) / deviation for scores (K, m) of one query; 0 where all scores are equal. Overflow is impossible."""
    m = S.shape[1]
    for k in range(S.shape[0]):
        lowest, highest = np.inf, -np.inf
        for i in range(m):
            lowest = min(lowest, S[k, i])
            highest = max(highest, S[k, i])
        # In [-1, 1] at first, by halves, so that neither the difference nor a square can overflow.
        middle, reach = 0.5 * lowest + 0.5 * highest, 0.5 * highest - 0.5 * lowest
        if not reach > 0.0:
            Z[k] = 0.0
            continue
        mean = 0.0
        for i in range(m):
            Z[k, i] = (S[k, i] - middle) / reach
            mean += Z[k, i]
        mean /= m
        square = 0.0
        for i in range(m):
            Z[k, i] -= mean
            square += Z[k, i] * Z[k, i]
        factor = 1.0 / math.sqrt(square / m)
        for i in range(m):
            Z[k, i] *= factor


@kernel
def mix(weights, Z, out):
    """out = sum of weights[k] Z[k]."""
    out[:] = 0.0
    for k in range(Z.shape[0]):
        if weights[k] != 0.0:
            for i in range(Z.shape[1]):
                out[i] += weights[k] * Z[k, i]


@kernel
def blend(S, weights, out):
    """out (m,) = the blend of scores S (K, m), each standardised."""
    Z = np.empty(S.shape)
    standardise(S, Z)
    mix(weights, Z, out)


@kernel
def judge_blends(kind, cutoff, threshold, S, y, discounts, candidates, served, losses):
    """Losses of the blends of scores S (K, m) by the `candidates` (c, K) weights and, last, by the weights `served` (K,).

    losses : (c + 1,) out. Returns the number of levels, as `judge_rankings` does.
    """
    Z = np.empty(S.shape)
    standardise(S, Z)
    blends = np.empty((candidates.shape[0] + 1, S.shape[1]))
    for c in range(candidates.shape[0]):
        mix(candidates[c], Z, blends[c])
    mix(served, Z, blends[candidates.shape[0]])
    return judge_rankings(kind, cutoff, threshold, blends, y, discounts, losses)
