"""The perceptron on clicks for sparse rows: the same as `click_perceptron.learn`, in O(entries of the query)."""

import math

import numpy as np

from online_rank._kernels._jit import inner, kernel
from online_rank._kernels.arrays import all_finite
from online_rank._kernels.averages import count_lazily, lag_of
from online_rank._kernels.click_perceptron import MEAN_SQUARE, credit_clicks, mean_square_with, require_costs
from online_rank._kernels.clicks import are_gains, drawn_of, longest_list
from online_rank._kernels.codes import DOCUMENTS
from online_rank._kernels.fits import require, require_drawn, require_rows
from online_rank._kernels.rounds import write_round
from online_rank._kernels.sparse import (
    LAZY,
    OPTIMIZER,
    SUM,
    WEIGHT,
    Rows,
    add_scaled,
    combine_rows,
    most_entries,
    score_with_norms,
    take_sums,
)
from online_rank._kernels.sparse_clicks import count_evidence
from online_rank._kernels.workspace import longest_query

# Column of the sum of squared updates of a feature.
SQUARES = OPTIMIZER


@inner
def _stay_finite(state, touched, z):
    """Whether weights and sums of squared updates stay finite with an update z of the touched features."""
    fine = True
    for k in range(touched.shape[0]):
        row = state[touched[k]]
        fine &= math.isfinite(row[WEIGHT] + z[k]) and math.isfinite(row[SQUARES] + z[k] * z[k])
    return fine


@kernel
def learn(starts, columns, values, offsets, shown, weights, discounts, config, state, averages, counters, rounds):
    """Learn from the clicks of a block of queries.

    Parameters
    ----------
    starts, columns, values : the documents as `online_rank.query.SparseRows`
    state : (at least d, 5) of `sparse`, with the sums of squared updates at SQUARES, changed in place
    averages : whether an average of the weights serves
    counters : (6,) of `click_perceptron.learn`, with EVIDENCE and WITH_GRADIENTS of `sparse_clicks`, changed in place
    offsets, shown, weights, discounts, config, rounds : as for `click_perceptron.learn`

    Returns
    -------
    As `click_perceptron.learn`.
    """
    require_rows(starts, columns, values, state.shape[0])
    beta, keep, by_discount = config
    require_drawn(starts.shape[0] - 1, offsets, shown, weights, rounds)
    require_costs(offsets, by_discount, discounts, counters)
    require(state.shape[1] > SQUARES)
    longest = max(longest_query(offsets), longest_list(shown.starts))
    most = most_entries(starts, offsets)
    reals = np.empty((5, longest))
    touched, z = np.empty(most + 1, np.int64), np.empty(most + 1)
    for q in range(weights.shape[0]):
        drawn, weight = drawn_of(shown, q), weights[q]
        m = offsets[q + 1] - offsets[q]
        documents = Rows(starts[offsets[q] : offsets[q + 1] + 1], columns, values)
        s, c = reals[0, :m], reals[1, :m]
        largest, norms = score_with_norms(documents.starts, columns, values, state, s)
        if not (math.isfinite(norms) and all_finite(s) and weight >= 0.0 and math.isfinite(weight)):
            return q
        if not are_gains(drawn.kind, drawn.gains):
            return q
        n_seen, mean_square = mean_square_with(counters, norms, m)
        margin = beta * mean_square
        total, loss, mass = credit_clicks(drawn, by_discount, discounts, s, margin, reals, c)
        mass *= weight
        square = 0.0
        if mass > 0.0:
            for i in range(m):
                c[i] *= weight
            n = combine_rows(documents, c, state, touched)
            square = take_sums(state, SUM, touched[:n], z)
            if not (math.isfinite(square) and math.isfinite(mass) and _stay_finite(state, touched[:n], z)):
                return q
            for k in range(n):
                row = state[touched[k]]
                count_evidence(counters, row[WEIGHT], row[SQUARES], row[WEIGHT] + z[k], row[SQUARES] + z[k] * z[k])
                row[SQUARES] += z[k] * z[k]
                # At once, since a feature may be listed twice, the second time with z = 0.
                add_scaled(state, 1.0, touched[k : k + 1], z[k : k + 1], lag_of(keep, counters) if averages else 0.0)
        counters[DOCUMENTS] = n_seen
        counters[MEAN_SQUARE] = mean_square
        if total > 0.0 and averages:
            count_lazily(state, LAZY, keep, counters)
        write_round(rounds[q], loss, mass, square, margin, weight, m, largest, 0.0, not total > 0.0)
    return weights.shape[0]
