"""Gradient descent of linear scores on a surrogate: a block of queries in one call."""

import math

import numpy as np

from online_rank._kernels._jit import kernel
from online_rank._kernels.arrays import all_finite, copy_to
from online_rank._kernels.averages import add_to_average
from online_rank._kernels.codes import N_GRADIENT_COUNTERS, OPTIMIZER_ROWS, SCALE_FREE, STEPS
from online_rank._kernels.dense import combine_differences, score_with_norms
from online_rank._kernels.fits import require, require_block
from online_rank._kernels.optimizers import descend, meet_features
from online_rank._kernels.rounds import write_round
from online_rank._kernels.surrogates import evaluate, settings
from online_rank._kernels.workspace import SCORES, longest_query, workspace


@kernel
def learn(X, y, offsets, weights, discounts, surrogate, config, constants, w, state, average, counters, rounds):
    """Learn from a block of queries.

    Parameters
    ----------
    X, y, offsets : features (n, d), grades (n,), and where queries begin and end (q + 1,)
    weights : (q,) sample weights
    discounts : (>= largest m,) table of D(p)
    surrogate : (integers, floats), as `settings` takes them
    config : optimizer
    constants : float64 array: learning rate, l2, decay of the average
    w, state : (d,) weights that learn and what the optimizer keeps (rows, d), changed in place
    average : (d,) averaged weights, changed in place; (0,) if the learning weights serve
    counters : (N_GRADIENT_COUNTERS,) float64, changed in place
    rounds : (q, 10) out, a `Round` a row

    Returns
    -------
    Number of queries learned. When it is smaller than q, the next query has bad values or would make the state non-finite, and
    nothing of it was learned.
    """
    require_block(X.shape[0], y, offsets, weights, discounts, rounds)
    require(X.shape[1] == w.shape[0] == state.shape[1] and state.shape[0] == OPTIMIZER_ROWS[config[0]])
    require(average.shape[0] in (0, w.shape[0]) and counters.shape[0] == N_GRADIENT_COUNTERS)
    optimizer = config[0]
    rate, l2, decay = constants
    target, form = settings(surrogate[0], surrogate[1], discounts)
    d = w.shape[0]
    longest = longest_query(offsets)
    work = workspace(longest)
    slopes = np.empty(longest)
    z, low, high = np.empty(d), np.empty(d), np.empty(d)
    # An update is made to copies, which replace the state once they are known to be finite.
    new_w = np.empty(d)
    new_state = np.empty(state.shape)

    for q in range(weights.shape[0]):
        first, weight = offsets[q], weights[q]
        m = offsets[q + 1] - first
        documents, s, gradient = X[first : first + m], work.reals[SCORES, :m], slopes[:m]
        copy_to(new_w, w)
        copy_to(new_state.ravel(), state.ravel())
        if optimizer == SCALE_FREE and m > 0:
            meet_features(documents, low, high, new_w, new_state)
        largest, norms = score_with_norms(documents, new_w, s)
        if not (math.isfinite(norms) and all_finite(s) and weight >= 0.0 and math.isfinite(weight)):
            return q
        _, loss, v_max, levels = evaluate(target, form, s, y[first : first + m], False, work, gradient)
        if levels < 0:
            return q
        square = 0.0
        if levels > 1 and weight > 0.0:
            for i in range(m):
                gradient[i] *= weight
            square = combine_differences(documents, gradient, z)
            if l2 > 0.0:
                for j in range(d):
                    z[j] += l2 * new_w[j]
            descend(optimizer, rate, counters[STEPS] + 1.0, z, new_w, new_state)
            if not (math.isfinite(square) and all_finite(new_w) and all_finite(new_state.ravel())):
                return q
            counters[STEPS] += 1.0
            copy_to(w, new_w)
            copy_to(state.ravel(), new_state.ravel())
            add_to_average(average, w, decay, counters)
        # No theorem covers a surrogate's update, so it has no mass and no margin.
        write_round(rounds[q], loss, 0.0, square, 0.0, weight, m, largest, v_max, levels < 2)
    return weights.shape[0]
