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
    Rows,
    add_scaled,
    add_sums,
    combine_rows,
    combine_rows_twice,
    put_back,
    score,
    score_with_norms,
    take_both_sums,
)
from online_rank._kernels.workspace import CREDIT, OTHER_CREDIT, SCORES, longest_query, workspace

# Largest norm of weights whose square is finite.
_LARGEST_NORM = 1e154


@leaf
def most_entries(starts, offsets):
    """The largest number of entries of a query in a block."""
    most = 0
    for q in range(offsets.shape[0] - 1):
        most = max(most, starts[offsets[q + 1]] - starts[offsets[q]])
    return most


@leaf
def _mixed(rows, work, m, mass, state, touched, z, other_z, counters):
    """Combine the rows of a query by both credits of ADAPTIVE, mix them, and reset the sums.

    Returns the number of touched features, whose sums are in z, ||z||^2, ||w||^2 over them, and the counters SPREAD_SQUARES and
    SORT_SQUARES.
    """
    n = combine_rows_twice(rows, work.reals[CREDIT, :m], work.reals[OTHER_CREDIT, :m], state, touched)
    square, other_square, weights = take_both_sums(state, touched[:n], z, other_z)
    share, of_spread, of_sort = share_of_spread(square, other_square, mass, counters)
    square = 0.0
    for k in range(n):
        z[k] = share * z[k] + (1.0 - share) * other_z[k]
        square += z[k] * z[k]
    return n, square, weights, of_spread, of_sort


@leaf
def within_range(step, square, squares_of_w):
    """Whether the weights w + step z stay finite: their norm is at most ||w|| + step ||z||."""
    return math.sqrt(squares_of_w) + step * math.sqrt(square) < _LARGEST_NORM


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
    touched, before = np.empty(most + 1, dtype=np.int64), np.empty((most, 2))
    mixed = most if rule.credit == ADAPTIVE else 0
    z, other_z = np.empty(mixed), np.empty(mixed)
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
            lag = lag_of(rule.decay, counters) if averages else 0.0
            if rule.credit == ADAPTIVE and mass > 0.0:
                n, square, squares_of_w, of_spread, of_sort = _mixed(rows, work, m, mass, state, touched, z, other_z, counters)
                if not (math.isfinite(mass) and within_range(1.0, square, squares_of_w)):
                    return q
                add_scaled(state, 1.0, touched[:n], z, lag)
                counters[SPREAD_SQUARES], counters[SORT_SQUARES] = of_spread, of_sort
            else:
                n = combine_rows(rows, work.reals[CREDIT, :m], state, touched)
                square, squares_of_w = add_sums(state, 1.0, lag, touched[:n], before)
                if not (math.isfinite(mass) and within_range(1.0, square, squares_of_w)):
                    put_back(state, touched[:n], before)
                    return q
            counters[CAPPED_SQUARES] += square + 2.0 * offset * mass
        count_update(counters, m, mass, square)
        if averages:
            count_lazily(state, LAZY, rule.decay, counters)
        write_round(rounds[q], loss, mass, square, offset, weight, m, largest, v_max, False)
    return weights.shape[0]
