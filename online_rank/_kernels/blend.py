"""Convex blends of rankers: sums of their scores over running scales, by weights."""

import math

import numpy as np

from online_rank._kernels._jit import kernel, leaf
from online_rank._kernels.fits import require
from online_rank._kernels.graded import judge_rankings

# By how much running scales forget in a query.
_SCALE_DECAY = 0.99
# Scores over their scale are cut to this, so that their sums stay finite.
_LARGEST = 1e150


@leaf
def _deviation(s):
    """The standard deviation of finite scores (m,); 0 where all are equal. Overflow is impossible."""
    lowest, highest = np.inf, -np.inf
    for i in range(s.shape[0]):
        lowest = min(lowest, s[i])
        highest = max(highest, s[i])
    # In [-1, 1] at first, by halves, so that neither the difference nor a square can overflow.
    middle, reach = 0.5 * lowest + 0.5 * highest, 0.5 * highest - 0.5 * lowest
    if not reach > 0.0:
        return 0.0
    mean, square = 0.0, 0.0
    for i in range(s.shape[0]):
        mean += (s[i] - middle) / reach
    mean /= s.shape[0]
    for i in range(s.shape[0]):
        apart = (s[i] - middle) / reach - mean
        square += apart * apart
    return reach * math.sqrt(square / s.shape[0])


@kernel
def learn_scales(S, scales):
    """Let the running scale of each ranker learn its scores S (K, m) for a query.

    scales : (K, 2) the mean of the deviations within queries, of which older ones count less, and their weight
    """
    require(S.shape[0] == scales.shape[0])
    for k in range(S.shape[0]):
        deviation = _deviation(S[k])
        if deviation > 0.0:
            scales[k, 1] = _SCALE_DECAY * scales[k, 1] + 1.0
            scales[k, 0] += (deviation - scales[k, 0]) / scales[k, 1]


@leaf
def _scaled(S, scales, Z):
    """Z (K, m) = scores over their scale, which is 1 before it has learned."""
    for k in range(S.shape[0]):
        scale = scales[k, 0] if scales[k, 0] > 0.0 else 1.0
        for i in range(S.shape[1]):
            z = S[k, i] / scale
            Z[k, i] = -_LARGEST if z < -_LARGEST else _LARGEST if z > _LARGEST else z


@leaf
def _mix(weights, Z, out):
    """out = sum of weights[k] Z[k]."""
    out[:] = 0.0
    for k in range(Z.shape[0]):
        if weights[k] != 0.0:
            for i in range(Z.shape[1]):
                out[i] += weights[k] * Z[k, i]


@kernel
def blend(S, scales, weights, out):
    """out (m,) = the blend of scores S (K, m)."""
    require(weights.shape[0] == S.shape[0] == scales.shape[0] and out.shape[0] == S.shape[1])
    Z = np.empty(S.shape)
    _scaled(S, scales, Z)
    _mix(weights, Z, out)


@kernel
def judge_blends(kind, cutoff, threshold, S, scales, y, discounts, candidates, served, losses):
    """Losses of the blends of scores S (K, m) by the `candidates` (c, K) weights and, last, by the weights `served` (K,).

    losses : (c + 1,) out. Returns the number of levels, as `judge_rankings` does.
    """
    require(candidates.shape[1] == served.shape[0] == S.shape[0] == scales.shape[0])
    Z = np.empty(S.shape)
    _scaled(S, scales, Z)
    blends = np.empty((candidates.shape[0] + 1, S.shape[1]))
    for c in range(candidates.shape[0]):
        _mix(candidates[c], Z, blends[c])
    _mix(served, Z, blends[candidates.shape[0]])
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
    # With decaying losses the shares are the shares of the step step / keep.
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
