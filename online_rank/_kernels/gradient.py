"""Gradient descent of linear scores on a surrogate: a block of queries in one call."""

import math

import numpy as np

from online_rank._kernels import features
from online_rank._kernels import workspace as at
from online_rank._kernels._jit import kernel
from online_rank._kernels.arrays import all_finite
from online_rank._kernels.codes import N_GRADIENT_COUNTERS, OPTIMIZER_ROWS, SCALE_FREE, STEPS
from online_rank._kernels.fits import require, require_block
from online_rank._kernels.optimizers import descend
from online_rank._kernels.rounds import write_round
from online_rank._kernels.surrogates import evaluate, settings
from online_rank._kernels.workspace import longest_query, workspace


@kernel
def learn(X, y, offsets, weights, discounts, surrogate, config, constants, w, average, state, counters, rounds):
    """Learn from a block of queries.

    Parameters
    ----------
    X, y, offsets : features of n documents, grades (n,), and where queries begin and end (q + 1,)
    weights : (q,) sample weights
    discounts : (>= largest m,) table of D(p)
    surrogate : (integers, floats), as `settings` takes them
    config : optimizer
    constants : float64 array: learning rate, l2, decay of the average
    w, average : as for `perceptron.learn`
    state : what the optimizer keeps (rows, d), changed in place; None for `sparse.Rows`, whose table has it, and which have no
        column twice in a row, and do not go with Adam and l2, which move weights without gradients
    counters : (N_GRADIENT_COUNTERS,) float64, changed in place
    rounds : (q, 10) out, a `Round` a row

    Returns
    -------
    Number of queries learned. When it is smaller than q, the next query has bad values or would make the state non-finite, and
    nothing of it was learned.
    """
    require_block(features.n_documents(X), y, offsets, weights, discounts, rounds)
    require(counters.shape[0] == N_GRADIENT_COUNTERS)
    optimizer = config[0]
    rate, l2, decay = constants
    target, form = settings(surrogate[0], surrogate[1], discounts)
    learner = features.learner_of(X, w, average, state, OPTIMIZER_ROWS[optimizer], offsets)
    longest = longest_query(offsets)
    work, slopes = workspace(longest), np.empty(longest)
    for q in range(weights.shape[0]):
        first, weight = offsets[q], weights[q]
        m = offsets[q + 1] - first
        taken, s, gradient = features.take(learner, X, first, m), work.reals[at.SCORES, :m], slopes[:m]
        if optimizer == SCALE_FREE:
            features.meet(learner, taken)
        largest, norms = features.score_with_norms(taken.documents, taken.weights, s)
        if not (math.isfinite(norms) and all_finite(s) and weight >= 0.0 and math.isfinite(weight)):
            return q
        _, loss, v_max, levels = evaluate(target, form, s, y[first : first + m], False, work, gradient)
        if levels < 0:
            return q
        square = 0.0
        if levels > 1 and weight > 0.0:
            for i in range(m):
                gradient[i] *= weight
            square = features.combine_differences(learner, taken, gradient)
            if l2 > 0.0:
                for j in range(taken.z.shape[0]):
                    taken.z[j] += l2 * taken.w[j]
            descend(optimizer, rate, counters[STEPS] + 1.0, taken.z, taken.w, taken.state)
            if not (math.isfinite(square) and all_finite(taken.w) and all_finite(taken.state.ravel())):
                return q
            counters[STEPS] += 1.0
            features.keep(learner, taken, decay, counters)
        # No theorem covers a surrogate's update, so it has no mass and no margin.
        write_round(rounds[q], loss, 0.0, square, 0.0, weight, m, largest, v_max, levels < 2)
    return weights.shape[0]
