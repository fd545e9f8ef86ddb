"""The perceptron for sparse rows: the same as `perceptron.learn`, in O(entries of the query) for any number of features."""

import math

import numpy as np

from online_rank._kernels._jit import kernel, leaf
from online_rank._kernels.arrays import all_finite, copy_to
from online_rank._kernels.averages import count_lazily, lag_of, scale_and_shift
from online_rank._kernels.codes import ADAPTIVE, CAPPED_SQUARES, N_COUNTERS, SORT_SQUARES, SPREAD_SQUARES
from online_rank._kernels.fits import require, require_block, require_rows
from online_rank._kernels.graded import grade_query
from online_rank._kernels.perceptron import count_update, margin_of, respond, settings, share_of_spread
from online_rank._kernels.rounds import write_round
from online_rank._kernels.sparse import (
    LAZY,
    OPTIMIZER,
    OTHER_SUM,
    SUM,
    Rows,
    add_scaled,
    combine_rows,
    combine_rows_twice,
    most_entries,
    score,
    score_with_norms,
    stay_finite,
    take_sums,
)
from online_rank._kernels.workspace import CREDIT, OTHER_CREDIT, SCORES, longest_query, workspace


@leaf
def _mix(share, z, other):
    """z <- share z + (1 - share) other. Returns ||z||^2."""
    square = 0.0
    for k in range(z.shape[0]):
        z[k] = share * z[k] + (1.0 - share) * other[k]
        square += z[k] * z[k]
    return square


@kernel
def learn(
    starts, columns, values, y, offsets, weights, discounts, config, state, averages, counters, rounds, served=None
):  # fmt: skip
    """Learn from a block of queries.

    Parameters
    ----------
    starts, columns, values : the documents as `online_rank.query.SparseRows`
    state : (at least d, 4) of `sparse`, changed in place
    averages : whether an average of the weights serves
    y, offsets, weights, discounts, config, counters, rounds : as for `perceptron.learn`
    served : as for `perceptron.learn_watched`

    Returns
    -------
    As `perceptron.learn`.
    """
    require_block(starts.shape[0] - 1, y, offsets, weights, discounts, rounds)
    require_rows(starts, columns, values, state.shape[0])
    require(state.shape[1] >= OPTIMIZER and counters.shape[0] == N_COUNTERS)
    if served is not None:
        require(served.shape[0] >= y.shape[0])
    target, rule = settings(config, discounts)
    work = workspace(longest_query(offsets))
    most = most_entries(starts, offsets)
    touched, z, other_z = np.empty(most + 1, dtype=np.int64), np.empty(most), np.empty(most)
    for q in range(weights.shape[0]):
        first, weight = offsets[q], weights[q]
        m = offsets[q + 1] - first
        s = work.reals[SCORES, :m]
        rows = Rows(starts[first : first + m + 1], columns, values)
        largest, norms = score_with_norms(rows.starts, columns, values, state, s)
        if served is not None:
            copy_to(s, served[first : first + m])
        elif rule.by_average > 0.0:
            scale, shift = scale_and_shift(rule.decay, averages, counters)
            score(rows.starts, columns, values, state, scale, shift, s)
        graded = grade_query(target, y[first : first + m], work)
        if not (graded.levels >= 0 and math.isfinite(norms) and all_finite(s) and weight >= 0.0 and math.isfinite(weight)):
            return q
        if graded.levels < 2:
            write_round(rounds[q], 0.0, 0.0, 0.0, 0.0, weight, m, largest, 0.0, True)
            continue
        offset = margin_of(rule, counters)
        loss, mass, v_max, _ = respond(target, rule, graded, s, weight, offset, work)
        square = 0.0
        if loss > 0.0:
            mixes, c = rule.credit == ADAPTIVE and mass > 0.0, work.reals[CREDIT, :m]
            if mixes:
                n = combine_rows_twice(rows, c, work.reals[OTHER_CREDIT, :m], state, touched)
            else:
                n = combine_rows(rows, c, state, touched)
            square = take_sums(state, SUM, touched[:n], z)
            of_spread, of_sort = counters[SPREAD_SQUARES], counters[SORT_SQUARES]
            if mixes:
                other_square = take_sums(state, OTHER_SUM, touched[:n], other_z)
                share, of_spread, of_sort = share_of_spread(square, other_square, mass, counters)
                square = _mix(share, z[:n], other_z)
            if not (math.isfinite(mass) and stay_finite(state, touched[:n], 1.0, square)):
                return q
            add_scaled(state, 1.0, touched[:n], z, lag_of(rule.decay, counters) if averages else 0.0)
            counters[SPREAD_SQUARES], counters[SORT_SQUARES] = of_spread, of_sort
            counters[CAPPED_SQUARES] += square + 2.0 * offset * mass
        count_update(counters, m, mass, square)
        if averages:
            count_lazily(state, LAZY, rule.decay, counters)
        write_round(rounds[q], loss, mass, square, offset, weight, m, largest, v_max, False)
    return weights.shape[0]
