"""Algorithm 1 of [CT] for sparse rows: the same as `slam.learn`, in O(entries of the query) for any number of features."""

import math

import numpy as np

from online_rank._kernels._jit import kernel
from online_rank._kernels.arrays import all_finite
from online_rank._kernels.codes import DOCUMENTS
from online_rank._kernels.fits import require, require_block, require_rows
from online_rank._kernels.graded import grade_query
from online_rank._kernels.rounds import write_round
from online_rank._kernels.slam import descend, settings
from online_rank._kernels.sparse import (
    OPTIMIZER,
    SUM,
    Rows,
    add_scaled,
    combine_rows,
    most_entries,
    score_with_norms,
    stay_finite,
    take_sums,
)
from online_rank._kernels.workspace import CREDIT, SCORES, longest_query, workspace


@kernel
def learn(starts, columns, values, y, offsets, weights, discounts, config, state, counters, rounds):
    """Learn from a block of queries.

    Parameters
    ----------
    starts, columns, values : the documents as `online_rank.query.SparseRows`
    state : (at least d, 4) of `sparse`, changed in place
    y, offsets, weights, discounts, config, counters, rounds : as for `slam.learn`

    Returns
    -------
    As `slam.learn`.
    """
    require_block(starts.shape[0] - 1, y, offsets, weights, discounts, rounds)
    require_rows(starts, columns, values, state.shape[0])
    require(state.shape[1] >= OPTIMIZER and counters.shape[0] > DOCUMENTS)
    target, rule = settings(config, discounts)
    work = workspace(longest_query(offsets))
    most = most_entries(starts, offsets)
    touched, z = np.empty(most + 1, dtype=np.int64), np.empty(most)
    for q in range(weights.shape[0]):
        first, weight = offsets[q], weights[q]
        m = offsets[q + 1] - first
        s = work.reals[SCORES, :m]
        rows = Rows(starts[first : first + m + 1], columns, values)
        largest, norms = score_with_norms(rows.starts, columns, values, state, s)
        graded = grade_query(target, y[first : first + m], work)
        if not (graded.levels >= 0 and math.isfinite(norms) and all_finite(s) and weight >= 0.0 and math.isfinite(weight)):
            return q
        if graded.levels < 2:
            write_round(rounds[q], 0.0, 0.0, 0.0, 0.0, weight, m, largest, 0.0, True)
            continue
        loss, mass, v_max, _ = descend(target, rule, graded, s, weight, work)
        square = 0.0
        if loss > 0.0:
            n = combine_rows(rows, work.reals[CREDIT, :m], state, touched)
            square = take_sums(state, SUM, touched[:n], z)
            if not (math.isfinite(mass) and stay_finite(state, touched[:n], rule.step, square)):
                return q
            add_scaled(state, rule.step, touched[:n], z, 0.0)
        counters[DOCUMENTS] += m
        write_round(rounds[q], loss, mass, square, rule.margin, weight, m, largest, v_max, False)
    return weights.shape[0]
