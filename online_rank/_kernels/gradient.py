"""Gradient descent of linear scores on a surrogate: a block of queries in one call."""

import math

import numpy as np

from online_rank._kernels._jit import fast_kernel, kernel
from online_rank._kernels.arrays import all_finite, copy_to
from online_rank._kernels.codes import SCALE_FREE
from online_rank._kernels.optimizers import descend, meet_features
from online_rank._kernels.perceptron import score_and_norms
from online_rank._kernels.rounds import write_round
from online_rank._kernels.surrogates import evaluate, longest_query, workspace


@fast_kernel
def combine_differences(X, first, c, z):
    """z = sum of c_i x_i for c that sum to 0, as sum of c_i (x_i - x_0): exactly 0 for features that are constant in the query.

    A scale-free optimizer would bet on what rounding leaves of such a feature. Returns ||z||^2.
    """
    z[:] = 0.0
    for i in range(1, c.shape[0]):
        if c[i] != 0.0:
            for j in range(X.shape[1]):
                z[j] += c[i] * (np.float64(X[first + i, j]) - np.float64(X[first, j]))
    norm = 0.0
    for j in range(X.shape[1]):
        norm += z[j] * z[j]
    return norm


@kernel
def learn(X, y, offsets, weights, discounts, surrogate, config, constants, w, state, served, counters, rounds):
    """Learn from a block of queries.

    Parameters
    ----------
    X, y, offsets : features (n, d), grades (n,), and where queries begin and end (q + 1,)
    weights : (q,) sample weights
    discounts : (>= largest m,) table of D(p)
    surrogate : (integers, floats), as `evaluate` takes them
    config : optimizer
    constants : float64 array: learning rate, l2, factor by which the average forgets
    w, state : (d,) weights that learn and what the optimizer keeps (rows, d), changed in place
    served : (d,) averaged weights, changed in place; (0,) when the learning weights serve
    counters : float64 array, changed in place: effective number of averaged weight vectors, steps
    rounds : (q, 10) out, a `Round` a row

    Returns
    -------
    Number of queries learned. When it is smaller than q, the next query has bad values or would make the state non-finite, and
    nothing of it was learned.
    """
    optimizer = config[0]
    rate, l2, keep = constants
    integers, reals = surrogate
    d = w.shape[0]
    longest = longest_query(offsets)
    work = workspace(longest)
    scores = np.empty((2, longest))
    z = np.empty(d)
    spare = np.empty((2, d))
    new_w = np.empty(d)
    new_state = np.empty(state.shape)

    for q in range(weights.shape[0]):
        first = offsets[q]
        m = offsets[q + 1] - first
        s, gradient = scores[0, :m], scores[1, :m]
        weight = weights[q]
        copy_to(new_w, w)
        copy_to(new_state.ravel(), state.ravel())
        if optimizer == SCALE_FREE and m > 0:
            meet_features(X[first : first + m], spare[0], spare[1], new_w, new_state)
        largest, norms = score_and_norms(X, first, m, new_w, s)
        if not (math.isfinite(norms) and all_finite(s) and weight >= 0.0 and math.isfinite(weight)):
            return q
        _, loss, v_max, levels = evaluate(integers, reals, s, y[first : first + m], discounts, work, gradient)
        if levels < 0:
            return q
        square = 0.0
        if levels > 1 and weight > 0.0:
            for i in range(m):
                gradient[i] *= weight
            square = combine_differences(X, first, gradient, z)
            if l2 > 0.0:
                for j in range(d):
                    z[j] += l2 * new_w[j]
            descend(optimizer, rate, counters[1] + 1.0, z, new_w, new_state)
            if not (math.isfinite(square) and all_finite(new_w) and all_finite(new_state.ravel())):
                return q
            counters[1] += 1.0
            copy_to(w, new_w)
            copy_to(state.ravel(), new_state.ravel())
            if served.shape[0] > 0:
                counters[0] = keep * counters[0] + 1.0
                for j in range(d):
                    served[j] += (w[j] - served[j]) / counters[0]
        # No theorem speaks of a surrogate's update, so it has no mass and no margin.
        write_round(rounds[q], loss, np.nan, 0.0, square, 0.0, weight, m, largest, v_max, levels < 2)
    return weights.shape[0]
