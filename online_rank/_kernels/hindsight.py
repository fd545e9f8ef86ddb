"""The regularised surrogate of a whole block of queries, smoothed, with a bound from its dual.

Written with dual weights, a surrogate of a query is the maximum over alpha of sum alpha_ij (1 + s_j - s_i), where alpha >= 0
and sum_j alpha_ij <= v_i (SLAM) or alpha_ij <= v_i / n_i (its `spread` form, n_i the number of less relevant documents).
Smoothing slightly changes the objective of this maximisation. Its maximiser is a feasible alpha, and so bounds the minimum from
below.
"""

import math

import numpy as np

from online_rank._kernels import workspace as at
from online_rank._kernels._jit import inner, kernel
from online_rank._kernels.arrays import copy_to
from online_rank._kernels.dense import score
from online_rank._kernels.graded import Target, grade_query
from online_rank._kernels.primitives import lane_sum
from online_rank._kernels.weight_vectors import level_weights
from online_rank._kernels.workspace import longest_query, workspace


@kernel
def block_weights(y, offsets, kind, cutoff, threshold, discounts, level, v):
    """Levels (n,) and grade means of the weights v (n,) of a block; v is 0 in queries without two grades.

    Returns the number of queries that have two grades.
    """
    target = Target(kind, cutoff, threshold, discounts)
    work = workspace(longest_query(offsets))
    mean = work.reals[at.LEVEL_WEIGHTS]
    n = 0
    for q in range(offsets.shape[0] - 1):
        first, stop = offsets[q], offsets[q + 1]
        v[first:stop] = 0.0
        graded = grade_query(target, y[first:stop], work)
        copy_to(level[first:stop], graded.level)
        if graded.levels < 2:
            continue
        n += 1
        level_weights(target, graded, stop - first, mean)
        for i in range(first, stop):
            v[i] = mean[level[i]] if level[i] > 0 else 0.0
    return n


@inner
def _log_add(a, b):
    """log(exp a + exp b)."""
    if a < b:
        a, b = b, a
    return a if b == -np.inf else a + math.log1p(math.exp(b - a))


@inner
def _slam(s, level, v, smoothing, highest, below, above, c):
    """SLAM with entropy added: O(m + L). Adds the gradient in s to `c`; the other arrays (levels + 1,) are workspace.

    Returns the smoothed value, the value, and sum alpha.
    """
    m = s.shape[0]
    levels = 0
    for i in range(m):
        levels = max(levels, level[i] + 1)
    highest[:levels] = -np.inf
    for i in range(m):
        highest[level[i]] = max(highest[level[i]], s[i])
    # above[l]: sum of exp((s - highest[l]) / smoothing) over level l.
    # below[l]: log of the sum of exp(s / smoothing) over lower levels.
    above[:levels] = 0.0
    for i in range(m):
        above[level[i]] += math.exp((s[i] - highest[level[i]]) / smoothing)
    below[0] = -np.inf
    for lev in range(1, levels):
        below[lev] = _log_add(below[lev - 1], highest[lev - 1] / smoothing + math.log(above[lev - 1]))
    for lev in range(1, levels):
        highest[lev] = max(highest[lev], highest[lev - 1])
    above[:levels] = 0.0
    smoothed, value, mass = 0.0, 0.0, 0.0
    for i in range(m):
        if v[i] > 0.0:
            value += v[i] * max(0.0, 1.0 + highest[level[i] - 1] - s[i])
            q = (1.0 - s[i]) / smoothing + below[level[i]]
            small = math.exp(-abs(q))
            smoothed += v[i] * smoothing * (max(q, 0.0) + math.log1p(small))
            alpha = v[i] / (1.0 + small) * (1.0 if q > 0.0 else small)
            mass += alpha
            c[i] -= alpha
            above[level[i]] += alpha
    # above[l] becomes the log of the sum, over higher levels, of alpha's sum over exp(below).
    total = -np.inf
    for lev in range(levels - 1, -1, -1):
        own = math.log(above[lev]) - below[lev] if above[lev] > 0.0 else -np.inf
        above[lev] = total
        total = _log_add(total, own)
    for j in range(m):
        if above[level[j]] > -np.inf:
            c[j] += math.exp(s[j] / smoothing + above[level[j]])
    return smoothed, value, mass


@inner
def _spread(s, level, v, smoothing, terms, c):
    """The `spread` form with a square subtracted: O(m) for each document with v_i > 0. Returns the same as `_slam`.

    `terms` (3, m) is workspace.
    """
    m = s.shape[0]
    smoothed, value, mass = 0.0, 0.0, 0.0
    for i in range(m):
        if v[i] > 0.0:
            own = level[i]
            lower = 0
            for j in range(m):
                lower += level[j] < own
            share = v[i] / lower
            for j in range(m):
                h = max(0.0, 1.0 + s[j] - s[i]) if level[j] < own else 0.0
                a = min(1.0, h / smoothing)
                terms[0, j] = h
                terms[1, j] = a * (h - 0.5 * smoothing * a)
                terms[2, j] = a
                c[j] += share * a
            hinges, rounded, active = lane_sum(terms[0, :m]), lane_sum(terms[1, :m]), lane_sum(terms[2, :m])
            c[i] -= share * active
            value += share * hinges
            smoothed += share * rounded
            mass += share * active
    return smoothed, value, mass


@kernel
def objective(X, level, v, offsets, spread, smoothing, w, s, c, levels, gradient):
    """Sums over a block of the smoothed surrogate, of the surrogate, and of alpha, as a tuple.

    The gradient of the first in w goes to `gradient`. `s` and `c` (longest m,) and `levels` (3, most levels) are workspace.
    """
    d = X.shape[1]
    gradient[:] = 0.0
    smoothed_sum, value_sum, mass_sum = 0.0, 0.0, 0.0
    terms = np.empty((3, s.shape[0]))
    for q in range(offsets.shape[0] - 1):
        first, stop = offsets[q], offsets[q + 1]
        m = stop - first
        score(X[first:stop], w, s[:m])
        c[:m] = 0.0
        if spread:
            smoothed, value, mass = _spread(s[:m], level[first:stop], v[first:stop], smoothing, terms, c[:m])
        else:
            smoothed, value, mass = _slam(
                s[:m], level[first:stop], v[first:stop], smoothing, levels[0], levels[1], levels[2], c[:m]
            )
        smoothed_sum += smoothed
        value_sum += value
        mass_sum += mass
        for i in range(m):
            if c[i] != 0.0:
                for j in range(d):
                    gradient[j] += c[i] * X[first + i, j]
    return smoothed_sum, value_sum, mass_sum
