"""Pairs of a document and its best-scored violator: [CT]'s subgradient, and SLAM of comparators."""

import numpy as np

from online_rank._kernels import workspace as at
from online_rank._kernels._jit import inlined, leaf
from online_rank._kernels.arrays import copy_to
from online_rank._kernels.primitives import lane_sum


@leaf
def least_violating(t_i, offset, strict):
    """The least key t_j with which a less relevant document violates a document of key t_i.

    That is t_j >= t_i - offset, or, if `strict`, t_j > t_i - offset. If rounding absorbs a positive offset, a tie still
    violates.
    """
    if not strict:
        return t_i - offset
    bar = np.nextafter(t_i - offset, np.inf)
    return min(bar, t_i) if offset > 0.0 else bar


@leaf
def argmax_credit(graded, v, t, offset, strict, preferred, best, highest, c):
    """v_i on the best-scored less relevant document, by keys t (m,), if it violates i ([CT, eq. 14]). O(m + L).

    Adds sum of v_i (e_i - e_j) to the coefficients `c` (m,), which start at zero, and returns the mass, the sum of these v_i.
    Among equal keys the most relevant document counts, and among those the first. `best[lev]` is left as the best document of
    all levels up to lev; `highest` (levels,) is workspace.
    """
    level, levels = graded.level, graded.levels
    highest[:levels] = -np.inf
    # Backwards, so that the first of equal ones remains. A branch, because after a few documents it is seldom taken.
    for i in range(t.shape[0] - 1, -1, -1):
        if t[i] >= highest[level[i]]:
            highest[level[i]] = t[i]
            best[level[i]] = i
    for lev in range(1, levels):
        if t[best[lev]] < t[best[lev - 1]]:
            best[lev] = best[lev - 1]
    mass = 0.0
    for i in preferred:
        j = best[level[i] - 1]
        if t[j] >= least_violating(t[i], offset, strict):
            c[i] += v[i]
            c[j] -= v[i]
            mass += v[i]
    return mass


@leaf
def hinge_on_best(graded, v, t, offset, strict, preferred, best, k, margin):
    """Sum of v_i max(0, margin + k_j - k_i) over the pairs of `argmax_credit`, for a comparator's keys k (m,)."""
    level = graded.level
    total = 0.0
    for i in preferred:
        j = best[level[i] - 1]
        if t[j] >= least_violating(t[i], offset, strict):
            total += v[i] * max(0.0, margin + k[j] - k[i])
    return total


@leaf
def slam_loss(graded, v, preferred, k, margin, best):
    """phi_v = sum of v_i max(0, margin + max over less relevant j of k_j - k_i) [CT, eq. 3]. O(m + L).

    `preferred` has all documents above the lowest grade with v_i > 0; `best` (levels,) is workspace.
    """
    level, levels = graded.level, graded.levels
    for lev in range(levels):
        best[lev] = -np.inf
    for i in range(k.shape[0]):
        best[level[i]] = max(best[level[i]], k[i])
    for lev in range(1, levels):
        best[lev] = max(best[lev], best[lev - 1])
    total = 0.0
    for i in preferred:
        total += v[i] * max(0.0, margin + best[level[i] - 1] - k[i])
    return total


@inlined
def margin_keys(margin, by_gap, graded, s, work):
    """Keys t, a copy of the scores, and a constant margin, which is 0 if the margin grows with the grade gap.

    For margin (R_i - R_j) - (s_i - s_j) is -(t_i - t_j) of t = s - margin R.
    """
    t = work.reals[at.MARGIN_KEYS, : s.shape[0]]
    copy_to(t, s)
    if not by_gap:
        return t, margin
    for i in range(s.shape[0]):
        t[i] -= margin * graded.grade[graded.level[i]]
    return t, 0.0


@leaf
def keys_of(scores, graded, gap, k, terms):
    """Write a comparator's keys (m,): its scores minus the first document's score, which cancels in every pair.

    With `gap`, they have the margin gap (R_i - R_j) in them, as in `margin_keys`. Returns whether they are finite; if not, they
    are zeros. `terms` (m,) is workspace.
    """
    own = scores[0]
    for i in range(k.shape[0]):
        k[i] = scores[i] - own
    if gap > 0.0:
        for i in range(k.shape[0]):
            k[i] -= gap * graded.grade[graded.level[i]]
    # NaN unless it is finite.
    for i in range(k.shape[0]):
        terms[i] = k[i] - k[i]
    if lane_sum(terms) == 0.0:
        return True
    k[:] = 0.0
    return False
