"""A surrogate of one query: its value, its gradient in the scores, and the loss of the ranking itself."""

from typing import NamedTuple

import numpy as np

from online_rank._kernels._jit import kernel
from online_rank._kernels.arrays import copy_to
from online_rank._kernels.codes import (
    AP,
    HINGE,
    LAMBDARANK,
    LISTNET,
    LOGISTIC,
    MAX_GRADE,
    MEAN,
    SLAM,
    SQUARED,
    STRUCTURED,
    TIGHT,
)
from online_rank._kernels.listwise import lambdarank, listnet, slam
from online_rank._kernels.measures import grade_levels, ideal, level_weights, order_pessimistic, ranking_loss, weights_in_order
from online_rank._kernels.pairwise import hinge, smooth_pairs, squared_identity, total_weight
from online_rank._kernels.structured import structured_ap, structured_dcg


class Workspace(NamedTuple):
    """Memory for queries of up to `longest` documents, so that a query allocates nothing."""

    reals: np.ndarray
    integers: np.ndarray
    per_level: np.ndarray
    trees: np.ndarray
    table: np.ndarray


@kernel
def workspace(longest):
    """A `Workspace` for queries of up to `longest` documents."""
    levels = min(longest, MAX_GRADE + 1) + 1
    return Workspace(
        np.empty((5, longest + 1)),
        np.empty((4, longest), dtype=np.int64),
        np.empty((3, levels), dtype=np.int64),
        np.empty((2, levels)),
        np.empty(MAX_GRADE + 1, dtype=np.int64),
    )


@kernel
def longest_query(offsets):
    """The largest number of documents of a query in a block."""
    longest = 0
    for q in range(offsets.shape[0] - 1):
        longest = max(longest, offsets[q + 1] - offsets[q])
    return longest


@kernel
def _list_by_level(s, level, levels, count, start, listed, t):
    """List documents by ascending level, and their scores; start (levels + 1,) says where each level begins."""
    start[0] = 0
    for lev in range(levels):
        start[lev + 1] = start[lev] + count[lev]
    for i in range(s.shape[0]):
        p = start[level[i]]
        listed[p] = i
        t[p] = s[i]
        start[level[i]] += 1
    for lev in range(levels, 0, -1):
        start[lev] = start[lev - 1]
    start[0] = 0


@kernel
def evaluate(config, constants, s, y, discounts, work, gradient):
    """Value and gradient of a surrogate for one query.

    Parameters
    ----------
    config : int64 array: measure kind, cutoff, threshold, surrogate, within grade, margin by gap?, neighbours?, mean of pairs?
    constants : float64 array: margin, slope of the output (0 for the identity), and alpha, beta, gamma of w_ij
    s : (m,) float64 scores, finite
    y : (m,) int64 grades
    discounts : (>= m,) table of D(p)
    work : Workspace
    gradient : (m,) out

    Returns
    -------
    Value of the surrogate, pessimistic loss of the ranking, v_max (0 except for SLAM), and the number of levels: -1 when a
    grade is out of range; below 2 nothing can be learned, and all else is 0.
    """
    kind, cutoff, threshold, surrogate, within, by_gap, neighbours, mean_of_pairs = config
    margin = constants[0]
    slope = constants[1]
    form = constants[2:5]
    m = s.shape[0]
    reals, integers = work.reals, work.integers
    # Row by row: only then does the compiler know that a row is contiguous.
    t, keys, other_keys, v, spare = reals[0, :m], reals[1, :m], reals[2, :m], reals[3, :m], reals[4, :m]
    level, order, index, listed = integers[0, :m], integers[1, :m], integers[2, :m], integers[3, :m]
    grade, count, start = work.per_level
    tree, other_tree = work.trees
    gradient[:] = 0.0
    levels = grade_levels(y, kind, threshold, level, grade, count, work.table)
    if levels < 2:
        return 0.0, 0.0, 0.0, levels
    depth = min(cutoff, m) if cutoff > 0 else m
    ideal_value = ideal(kind, depth, m, levels, grade, count, discounts) if kind != AP else 1.0
    whole = surrogate in (HINGE, STRUCTURED) or (surrogate == SLAM and within == TIGHT)
    order_pessimistic(s, level, levels, m if whole else depth, order, index, start, keys, other_keys)
    loss = ranking_loss(kind, depth, order, level, levels, grade, count, ideal_value, discounts)
    scale = 1.0
    v_max = 0.0
    if surrogate in (SQUARED, LOGISTIC, HINGE):
        total = total_weight(form, neighbours, levels, grade, count)
        scale = 1.0 / total if mean_of_pairs else 1.0

    if surrogate in (SQUARED, LOGISTIC):
        _list_by_level(s, level, levels, count, start, listed, t)
        spare[:] = 0.0
        if slope == 0.0:
            value = squared_identity(form, neighbours, t, start, levels, grade, tree, other_tree, spare)
        else:
            value = smooth_pairs(surrogate, slope, form, neighbours, t, start, levels, grade, keys, spare)
        for p in range(m):
            gradient[listed[p]] = scale * spare[p]
        return scale * value, loss, v_max, levels

    if surrogate in (HINGE, SLAM):
        copy_to(t, s)
        if by_gap:
            # margin (R_i - R_j) - (s_i - s_j) is -(t_i - t_j) of t = s - margin R.
            for i in range(m):
                t[i] -= margin * grade[level[i]]
            margin = 0.0
    if surrogate == HINGE:
        if by_gap:
            order_pessimistic(t, level, levels, m, order, index, start, keys, other_keys)
        value = hinge(
            form, neighbours, margin, t, order, level, levels, grade, tree[: levels + 1], other_tree[: levels + 1], gradient
        )
        for i in range(m):
            gradient[i] *= scale
        value *= scale
    elif surrogate == SLAM:
        if within == MEAN:
            v_max = level_weights(kind, cutoff, levels, grade, count, ideal_value, m, discounts, tree)
            for i in range(m):
                v[i] = tree[level[i]]
        else:
            for i in range(m):
                index[i] = i
            listing = order if within == TIGHT else index
            v_max = weights_in_order(kind, cutoff, listing, level, levels, grade, count, ideal_value, discounts, start, v)
        value = slam(margin, t, level, levels, v, listed, tree, start, gradient)
    elif surrogate == LISTNET:
        value = listnet(s, level, levels, grade, gradient)
    elif surrogate == LAMBDARANK:
        value = lambdarank(
            slope, kind, depth, s, level, levels, grade, count, order, ideal_value, discounts,
            index, work.reals[0], work.reals[1], spare, gradient,
        )  # fmt: skip
    elif kind == AP:
        value = structured_ap(s, level, order, listed, gradient)
    else:
        value = structured_dcg(kind, depth, s, level, levels, grade, count, ideal_value, discounts, gradient)
    return value, loss, v_max, levels
