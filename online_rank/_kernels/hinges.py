"""Hinges of a comparator on the pairs of a credit: sums of a_ij max(0, margin + k_j - k_i), for keys k of its scores.

a_ij is the credit of `credit.assign_credit` before scaling.
"""

import numpy as np

from online_rank._kernels import fenwick
from online_rank._kernels._jit import inner, leaf
from online_rank._kernels.codes import GAIN, SPREAD
from online_rank._kernels.order import sort_descending
from online_rank._kernels.pair_credits import gain_unit, swap_change
from online_rank._kernels.primitives import lane_sum
from online_rank._kernels.violations import least_violating
from online_rank._kernels.workspace import (
    SHARES,
    START,
    TERMS,
    VIOLATOR_GAINS,
    VIOLATOR_KEYS,
    VIOLATOR_LEVELS,
    VIOLATORS,
)

# Up to this number of steps for each document, pairs are added up one by one; beyond it, by sweeps. Both are equally fast here.
_STEPS = 1024


@leaf
def hinge_on_best(graded, v, violated, k, margin, best):
    """Sum of v_i times the hinge of (i, best[level of i - 1]), the pairs of `argmax_credit`."""
    t, level = violated.t, graded.level
    total = 0.0
    for i in range(k.shape[0]):
        if level[i] > 0 and v[i] > 0.0:
            j = best[level[i] - 1]
            if t[j] >= least_violating(t[i], violated.offset, violated.strict):
                total += v[i] * max(0.0, margin + k[j] - k[i])
    return total


@leaf
def hinge_by_delta(target, graded, violated, k, margin, work):
    """Sum of |change of the measure when i and j swap| times the hinge, over the violated pairs. O(m^2) scalars."""
    t, level = violated.t, graded.level
    m = k.shape[0]
    total = 0.0
    for i in range(m):
        bar = least_violating(t[i], violated.offset, violated.strict)
        for j in range(m):
            if level[j] < level[i] and t[j] >= bar:
                hinge = margin + k[j] - k[i]
                if hinge > 0.0:
                    total += hinge * swap_change(target, graded, work, i, j)
    return total


@leaf
def hinge_of_moved(moved, size, k, margin):
    """Sum of the amounts of the first `size` pairs times their hinges."""
    total = 0.0
    for n in range(size):
        total += moved.amount[n] * max(0.0, margin + k[moved.lower[n]] - k[moved.upper[n]])
    return total


@leaf
def hinge_of_few(graded, violated, preferred, share, k, margin, terms):
    """The sum for `spread` with few preferred documents: share_i times the hinge, over the violators of i. O(m n), no branch.

    `terms` (m,) is workspace.
    """
    t, level = violated.t, graded.level
    offset, strict = violated.offset, violated.strict
    for j in range(k.shape[0]):
        terms[j] = 0.0
    n = preferred.shape[0]
    # Two at a time, so that everything else is read half as often.
    for r in range(0, n - 1, 2):
        i, h = preferred[r], preferred[r + 1]
        own, short, a, bar = level[i], margin - k[i], share[i], least_violating(t[i], offset, strict)
        other_own, other_short, b, other_bar = level[h], margin - k[h], share[h], least_violating(t[h], offset, strict)
        for j in range(k.shape[0]):
            hinge, other = max(0.0, k[j] + short), max(0.0, k[j] + other_short)
            one = a * hinge if (level[j] < own) & (t[j] >= bar) else 0.0
            two = b * other if (level[j] < other_own) & (t[j] >= other_bar) else 0.0
            terms[j] += one + two
    if n % 2 == 1:
        i = preferred[n - 1]
        own, short, a, bar = level[i], margin - k[i], share[i], least_violating(t[i], offset, strict)
        for j in range(k.shape[0]):
            hinge = max(0.0, k[j] + short)
            terms[j] += a * hinge if (level[j] < own) & (t[j] >= bar) else 0.0
    return lane_sum(terms)


@inner
def hinge_of_sorted(credit, kind, graded, preferred, k, margin, work):
    """The sum for `spread`, `pairs` or `gain`, for a query whose violators are sorted (`violations.sort_violators`)."""
    steps = 0
    for r in range(preferred.shape[0]):
        steps += work.integers[START, r + 1]
    if steps <= _STEPS * k.shape[0]:
        return _hinge_one_by_one(credit, kind, graded, preferred, k, margin, work)
    # The sweep adds and subtracts, so rounding may leave slightly less than the true minimum.
    return max(0.0, _hinge_by_sweeps(credit, kind, graded, preferred, k, margin, work))


@leaf
def _in_units(credit, kind, graded, total):
    """Sums of gains that were divided by the largest, as `pair_credit` has them."""
    top = graded.levels - 1
    return total * graded.gain[top] * gain_unit(kind, graded.grade[top]) if credit == GAIN else total


@leaf
def _hinge_one_by_one(credit, kind, graded, preferred, k, margin, work):
    """Sum over the violated pairs of a_ij times the hinge: a_ij = share_i (`spread`), 1 (`pairs`) or G_i - G_j (`gain`).

    For a query whose violators are sorted (`sort_violators`); O(pairs).
    """
    level, share = graded.level, work.reals[SHARES]
    start, violators = work.integers[START], work.integers[VIOLATORS]
    n = preferred.shape[0]
    largest = graded.gain[graded.levels - 1]
    # For each violator in turn: key, level and gain.
    k_at, level_at, gain_at = work.reals[VIOLATOR_KEYS], work.integers[VIOLATOR_LEVELS], work.reals[VIOLATOR_GAINS]
    for p in range(start[n]):
        j = violators[p]
        k_at[p] = k[j]
        level_at[p] = level[j]
        gain_at[p] = graded.gain[level[j]] / largest
    terms = work.reals[TERMS]
    total = 0.0
    for r in range(n):
        i = preferred[r]
        own = level[i]
        short = margin - k[i]
        if credit == GAIN:
            gain_i = graded.gain[own] / largest
            for p in range(start[r + 1]):
                hinge = max(0.0, short + k_at[p])
                terms[p] = (gain_i - gain_at[p]) * hinge if level_at[p] < own else 0.0
        else:
            for p in range(start[r + 1]):
                hinge = max(0.0, short + k_at[p])
                terms[p] = hinge if level_at[p] < own else 0.0
        hinges = lane_sum(terms[: start[r + 1]])
        total += share[i] * hinges if credit == SPREAD else hinges
    return _in_units(credit, kind, graded, total)


@inner
def _hinge_by_sweeps(credit, kind, graded, preferred, k, margin, work):
    """What `_hinge_one_by_one` computes, in O(m L log m).

    One sweep for each grade, by descending k: a document below the grade enters the trees when its hinge with the next document
    of the
    grade turns positive. These are Fenwick trees over the list of violators, in which the violators of a document are a prefix:
    they hold the number of entries, and their sums of k, G and G k.
    """
    m = k.shape[0]
    level, start, violators, share = graded.level, work.integers[START], work.integers[VIOLATORS], work.reals[SHARES]
    n_trees = 4 if credit == GAIN else 2
    trees = np.empty((4, m + 1))
    largest = graded.gain[graded.levels - 1]
    place, reach = np.empty(m, dtype=np.int64), np.zeros(m, dtype=np.int64)
    order, spare_order = np.arange(m), np.empty(m, dtype=np.int64)
    for p in range(m):
        place[violators[p]] = p
    for r in range(preferred.shape[0]):
        reach[preferred[r]] = start[r + 1]
    sort_descending(k.copy(), order, np.empty(m), spare_order)
    total = 0.0
    for lev in range(1, graded.levels):
        trees[:] = 0.0
        seen = 0
        gain_i = graded.gain[lev] / largest
        for p in range(m):
            i = order[p]
            if level[i] != lev or reach[i] == 0:
                continue
            while seen < m and margin + k[order[seen]] - k[i] > 0.0:
                j = order[seen]
                seen += 1
                if level[j] < lev:
                    gain_j = graded.gain[level[j]] / largest
                    entering = (1.0, k[j], gain_j, gain_j * k[j])
                    for n in range(n_trees):
                        fenwick.add(trees[n], place[j], entering[n])
            hinges = fenwick.sum_before(trees[0], reach[i]) * (margin - k[i]) + fenwick.sum_before(trees[1], reach[i])
            if credit == SPREAD:
                total += share[i] * hinges
            elif credit == GAIN:
                gains, gain_keys = fenwick.sum_before(trees[2], reach[i]), fenwick.sum_before(trees[3], reach[i])
                total += gain_i * hinges - (gains * (margin - k[i]) + gain_keys)
            else:
                total += hinges
    return _in_units(credit, kind, graded, total)
