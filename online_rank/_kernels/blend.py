"""Convex blends of rankings: scores standardised in the query, and their sums by weights."""

import math

import numpy as np

from online_rank._kernels._jit import kernel
from online_rank._kernels.fits import require
from online_rank._kernels.graded import judge_rankings


@kernel
def standardise(S, Z):
    """Z[k] = (S[k] - mean) / deviation for scores (K, m) of one query; 0 where all scores are equal. Overflow is impossible."""
    require(S.shape == Z.shape)
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
    require(weights.shape[0] == Z.shape[0] and out.shape[0] == Z.shape[1])
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


@kernel
def shares(losses, prior, step, out):
    """out (N,) = prior exp(-step losses), with sum 1. The largest term is a prior itself: nothing overflows."""
    lowest = np.inf
    for c in range(losses.shape[0]):
        if prior[c] > 0.0:
            lowest = min(lowest, losses[c])
    total = 0.0
    for c in range(losses.shape[0]):
        out[c] = prior[c] * math.exp(-step * (losses[c] - lowest)) if prior[c] > 0.0 else 0.0
        total += out[c]
    for c in range(losses.shape[0]):
        out[c] /= total


@kernel
def settle(new, weight, pi, step, keep, drawn, losses, account):
    """Count a query: `losses` (N,) and `account` (`rankers.hedge.HedgeAccount`) are changed in place.

    Parameters
    ----------
    new : (N + 1,) losses of the candidates and, last, of what was served
    weight : sample weight
    pi, step : shares of the candidates (N,), and the step that they were made with
    keep : the factor by which losses decay in one query
    drawn : whether a candidate was drawn
    """
    n = losses.shape[0]
    mean, lowest = 0.0, np.inf
    for c in range(n):
        mean += pi[c] * weight * new[c]
        lowest = min(lowest, weight * new[c])
    # With decaying losses the shares are those of the step step / keep.
    eta = step / keep
    mixture, variance = 0.0, 0.0
    for c in range(n):
        loss = weight * new[c]
        mixture += pi[c] * math.exp(-eta * (loss - lowest))
        variance += pi[c] * (loss - mean) ** 2
        losses[c] = keep * losses[c] + loss
    # With a step of 0 the mixed loss is the mean.
    gap = max(0.0, mean - lowest + math.log(mixture) / eta) if eta > 0.0 else 0.0
    served = weight * new[n]
    account[0] = keep * account[0] + served
    account[1] = keep * account[1] + mean
    account[2] = keep * account[2] + gap
    account[3] = keep * account[3] + variance
    account[4] = keep * account[4] + (0.0 if drawn else served - mean)
    account[5] = keep * account[5] + (served - mean if drawn else 0.0)
    account[6] = max(account[6], weight)
    account[7] += 1.0
    account[8] += 1.0 if drawn else 0.0
    account[9] = keep * account[9] + weight
