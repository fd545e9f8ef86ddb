"""Hinges of a comparator on the pairs of a credit: sums of a_ij max(0, margin + k_j - k_i), for keys k of its scores.

a_ij is the credit of `credit.assign_credit` before scaling.
"""

import numpy as np

from online_rank._kernels import fenwick
from online_rank._kernels._jit import inlined, inner, leaf
from online_rank._kernels.codes import GAIN, SPREAD
from online_rank._kernels.order import sort_descending
from online_rank._kernels.pair_credits import gain_unit, swap_change
from online_rank._kernels.primitives import lane_sum
from online_rank._kernels.violations import least_violating
from online_rank._kernels.workspace import (
    OTHER_TERMS,
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
def hinges_of_moved(moved, size, k, other, margin):
    """Sums of the amounts of the first `size` pairs times their hinges, for two comparators."""
    total, other_total = 0.0, 0.0
    for n in range(size):
        i, j, amount = moved.upper[n], moved.lower[n], moved.amount[n]
        total += amount * max(0.0, margin + k[j] - k[i])
        other_total += amount * max(0.0, margin + other[j] - other[i])
    return total, other_total


@leaf
def hinges_of_few(graded, violated, preferred, share, k, other, two, margin, work):
    """Sums for `spread` with few preferred documents: share_i times the hinge, over the violators of i. O(m n), no branch.

    They are for two comparators; without `two` the second is 0. All hinges are finite.
    """
    m = k.shape[0]
    terms, other_terms = work.reals[TERMS, :m], work.reals[OTHER_TERMS, :m]
    # The shares of the violators of two documents at a time, and 0 for any other document.
    one, next_one = work.reals[VIOLATOR_KEYS, :m], work.reals[VIOLATOR_GAINS, :m]
    for j in range(m):
        terms[j], other_terms[j] = 0.0, 0.0
    n = preferred.shape[0]
    for r in range(0, n - 1, 2):
        i, h = preferred[r], preferred[r + 1]
        _shares_of_violators(graded.level, violated, i, share[i], one)
        _shares_of_violators(graded.level, violated, h, share[h], next_one)
        _add_hinges(one, next_one, k, margin - k[i], margin - k[h], terms)
        if two:
            _add_hinges(one, next_one, other, margin - other[i], margin - other[h], other_terms)
    if n % 2 == 1:
        i = preferred[n - 1]
        _shares_of_violators(graded.level, violated, i, share[i], one)
        for j in range(m):
            terms[j] += one[j] * max(0.0, k[j] + (margin - k[i]))
        if two:
            for j in range(m):
                other_terms[j] += one[j] * max(0.0, other[j] + (margin - other[i]))
    return lane_sum(terms), lane_sum(other_terms)


@inlined
def _shares_of_violators(level, violated, i, share, shares):
    """`share` for each violator of document i, and 0 for any other document, to `shares` (m,)."""
    t, own, bar = violated.t, level[i], least_violating(violated.t[i], violated.offset, violated.strict)
    for j in range(shares.shape[0]):
        shares[j] = share if (level[j] < own) & (t[j] >= bar) else 0.0


@inlined
def _add_hinges(one, next_one, k, short, next_short, terms):
    """Add the shares of the violators of two documents, times their hinges, to `terms` (m,)."""
    for j in range(terms.shape[0]):
        terms[j] += one[j] * max(0.0, k[j] + short) + next_one[j] * max(0.0, k[j] + next_short)


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
