"""The pessimistic losses of several rankings of one query at once."""

import numpy as np

from online_rank._kernels._jit import kernel
from online_rank._kernels.codes import AP, MAX_GRADE
from online_rank._kernels.measures import grade_levels, ideal, order_pessimistic, ranking_loss


@kernel
def judge(kind, cutoff, threshold, S, y, discounts, losses):
    """losses[k] = 1 - measure of the ranking by S[k], ties broken pessimistically.

    Parameters
    ----------
    kind, cutoff, threshold : the measure
    S : (K, m) scores, finite
    y : (m,) int64 grades
    discounts : (>= m,) table of D(p)
    losses : (K,) out; 0 where nothing can be ranked wrongly

    Returns
    -------
    Number of levels of grades: -1 when a grade is out of range, below 2 when nothing can be learned.
    """
    m = y.shape[0]
    integers = np.empty((3, m), dtype=np.int64)
    keys = np.empty((2, m))
    level, order, index = integers[0], integers[1], integers[2]
    room = min(m, MAX_GRADE + 1) + 1
    grade, count, start = np.empty(room, dtype=np.int64), np.empty(room, dtype=np.int64), np.empty(room, dtype=np.int64)
    losses[:] = 0.0
    levels = grade_levels(y, kind, threshold, level, grade, count, np.empty(MAX_GRADE + 1, dtype=np.int64))
    if levels < 2:
        return levels
    depth = min(cutoff, m) if cutoff > 0 else m
    best = ideal(kind, depth, m, levels, grade, count, discounts) if kind != AP else 1.0
    for k in range(S.shape[0]):
        order_pessimistic(S[k], level, levels, m if kind == AP else depth, order, index, start, keys[0], keys[1])
        losses[k] = ranking_loss(kind, depth, order, level, levels, grade, count, best, discounts)
    return levels
