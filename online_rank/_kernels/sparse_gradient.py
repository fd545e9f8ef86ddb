"""Gradient descent on sparse rows: the same as `gradient.learn`, in O(entries of the query) for any number of features.

The features of a query are numbered from 0, and their numbers are copied to short arrays. There the optimizers work as on all
features; the results are written back once they are known to be finite. Optimizers that move weights without gradients (Adam,
l2) are not supported.
"""

import math

import numpy as np

from online_rank._kernels._jit import kernel, leaf
from online_rank._kernels.arrays import all_finite
from online_rank._kernels.averages import count_lazily, lag_of
from online_rank._kernels.codes import N_GRADIENT_COUNTERS, OPTIMIZER_ROWS, SCALE_FREE, STEPS
from online_rank._kernels.fits import require, require_block, require_rows
from online_rank._kernels.optimizers import bet, descend
from online_rank._kernels.rounds import write_round
from online_rank._kernels.sparse import LAZY, OPTIMIZER, SUM, WEIGHT, most_entries
from online_rank._kernels.surrogates import evaluate, settings
from online_rank._kernels.workspace import SCORES, longest_query, workspace


@leaf
def number_features(columns, state, touched, local):
    """Number the features of a query's entries from 0: `touched` lists them, `local` has a number an entry. Returns n."""
    n = 0
    for e in range(columns.shape[0]):
        j = columns[e]
        if state[j, SUM] == 0.0:
            touched[n] = j
            n += 1
            state[j, SUM] = n
        local[e] = np.int64(state[j, SUM]) - 1
    for k in range(n):
        state[touched[k], SUM] = 0.0
    return n


@leaf
def _ranges(local, values, m, count, low, high):
    """The least and the largest value of each feature in a query of m documents, including 0 if a document lacks it."""
    count[:] = 0
    for e in range(local.shape[0]):
        k = local[e]
        x = np.float64(values[e])
        if count[k] == 0:
            low[k] = x
            high[k] = x
        count[k] += 1
        low[k] = x if x < low[k] else low[k]
        high[k] = x if x > high[k] else high[k]
    for k in range(count.shape[0]):
        if count[k] < m:
            low[k] = min(low[k], 0.0)
            high[k] = max(high[k], 0.0)


@leaf
def _score(starts, local, values, w, s):
    """Scores of documents by the weights of the query's features. Returns the largest and the sum of squared norms."""
    largest = 0.0
    norms = 0.0
    for i in range(s.shape[0]):
        total = 0.0
        norm = 0.0
        for e in range(starts[i] - starts[0], starts[i + 1] - starts[0]):
            x = np.float64(values[e])
            total += x * w[local[e]]
            norm += x * x
        s[i] = total
        norms += norm
        largest = max(largest, norm)
    return largest, norms


@leaf
def _combine(starts, local, values, c, low, high, z):
    """z = sum of c_i x_i, exactly 0 for features constant in the query, as in `dense.combine_differences`. Returns ||z||^2."""
    z[:] = 0.0
    for i in range(c.shape[0]):
        if c[i] != 0.0:
            for e in range(starts[i] - starts[0], starts[i + 1] - starts[0]):
                z[local[e]] += c[i] * np.float64(values[e])
    norm = 0.0
    for k in range(z.shape[0]):
        if low[k] == high[k]:
            z[k] = 0.0
        norm += z[k] * z[k]
    return norm


@leaf
def _write_back(state, touched, w, kept, lag):
    """Write new weights and the optimizer's state to the state, and update u of the lazy average."""
    for k in range(touched.shape[0]):
        j = touched[k]
        state[j, LAZY] += lag * (w[k] - state[j, WEIGHT])
        state[j, WEIGHT] = w[k]
        for r in range(kept.shape[0]):
            state[j, OPTIMIZER + r] = kept[r, k]


@kernel
def learn(
    starts, columns, values, y, offsets, weights, discounts, surrogate, config, constants, state, averages, counters, rounds
):
    """Learn from a block of queries.

    Parameters
    ----------
    starts, columns, values : the documents as `online_rank.query.SparseRows`, no column twice in a row
    state : (at least d, 4 and what the optimizer keeps) of `sparse`, changed in place
    averages : whether an average of the weights serves
    y, offsets, weights, discounts, surrogate, config, constants, counters, rounds : as for `gradient.learn`

    Returns
    -------
    As `gradient.learn`.
    """
    require_block(starts.shape[0] - 1, y, offsets, weights, discounts, rounds)
    require_rows(starts, columns, values, state.shape[0])
    require(state.shape[1] == OPTIMIZER + OPTIMIZER_ROWS[config[0]] and counters.shape[0] == N_GRADIENT_COUNTERS)
    optimizer = config[0]
    rate, _, decay = constants
    target, form = settings(surrogate[0], surrogate[1], discounts)
    longest, most = longest_query(offsets), most_entries(starts, offsets)
    work, slopes = workspace(longest), np.empty(longest)
    features, numbers, seen = np.empty(most, np.int64), np.empty(most, np.int64), np.empty(most, np.int64)
    reals = np.empty((4, most))
    n_kept = state.shape[1] - OPTIMIZER
    room = np.empty(n_kept * most)
    for q in range(weights.shape[0]):
        first, weight = offsets[q], weights[q]
        m = offsets[q + 1] - first
        row = starts[first : first + m + 1]
        a, b = row[0], row[m]
        x, local = values[a:b], numbers[: b - a]
        n = number_features(columns[a:b], state, features, local)
        touched, w, z, low, high = features[:n], reals[0, :n], reals[1, :n], reals[2, :n], reals[3, :n]
        kept = room[: n_kept * n].reshape((n_kept, n))
        for k in range(n):
            w[k] = state[touched[k], WEIGHT]
            for r in range(n_kept):
                kept[r, k] = state[touched[k], OPTIMIZER + r]
        _ranges(local, x, m, seen[:n], low, high)
        if optimizer == SCALE_FREE:
            for k in range(n):
                kept[2, k] = max(kept[2, k], high[k] - low[k])
            bet(w, kept)
        s, gradient = work.reals[SCORES, :m], slopes[:m]
        largest, norms = _score(row, local, x, w, s)
        if not (math.isfinite(norms) and all_finite(s) and weight >= 0.0 and math.isfinite(weight)):
            return q
        _, loss, v_max, levels = evaluate(target, form, s, y[first : first + m], False, work, gradient)
        if levels < 0:
            return q
        square = 0.0
        if levels > 1 and weight > 0.0:
            for i in range(m):
                gradient[i] *= weight
            square = _combine(row, local, x, gradient, low, high, z)
            descend(optimizer, rate, counters[STEPS] + 1.0, z, w, kept)
            if not (math.isfinite(square) and all_finite(w) and all_finite(kept.ravel())):
                return q
            counters[STEPS] += 1.0
            _write_back(state, touched, w, kept, lag_of(decay, counters) if averages else 0.0)
            if averages:
                count_lazily(state, LAZY, decay, counters)
        write_round(rounds[q], loss, 0.0, square, 0.0, weight, m, largest, v_max, levels < 2)
    return weights.shape[0]
