"""Losses of comparators: what other weights lose on the very pairs that a ranker learns from.

With keys k = u-scores (s - Delta R for a margin that grows with the grade gap, and margin 0), the hinge of a pair (i, j) with
R_i > R_j is max(0, margin + k_j - k_i). Nothing here is part of learning: the pairs are found again, from the scores that
decided them and the grades.
"""

import math
from typing import NamedTuple

import numpy as np

from online_rank._kernels import fenwick
from online_rank._kernels._jit import inner, kernel, leaf
from online_rank._kernels.codes import ADAPTIVE, ARGMAX, DELTA, GAIN, PAIRS, SORT, SORT_SQUARES, SPREAD, SPREAD_SQUARES
from online_rank._kernels.credit import assign_credit, gain_unit, least_violating, list_preferred, sort_violators, swap_change
from online_rank._kernels.graded import grade_query
from online_rank._kernels.order import sort_descending
from online_rank._kernels.perceptron import judge, scale_and_mass, settings, violation
from online_rank._kernels.primitives import lane_sum
from online_rank._kernels.sort_credit import transport
from online_rank._kernels.workspace import (
    BEST,
    CREDIT,
    KEYS,
    OTHER_CREDIT,
    PREFERRED,
    SHARES,
    START,
    TERMS,
    VIOLATION_KEYS,
    VIOLATOR_GAINS,
    VIOLATOR_KEYS,
    VIOLATOR_LEVELS,
    VIOLATORS,
    WEIGHTS,
    workspace,
)

# Credits that go to all violated pairs, and those whose violators are sorted.
_ALL_PAIRS = (PAIRS, GAIN, DELTA)
_SORTED = (SPREAD, PAIRS, GAIN, ADAPTIVE)

# Up to this number of steps a document, pairs are added up one by one; beyond, by sweeps. Where the two take equally long.
_STEPS = 1024


class Moved(NamedTuple):
    """Pairs of the credit `sort`: `amount[n]`, of `size` pairs, goes from document `lower[n]` to `upper[n]`."""

    size: int
    upper: np.ndarray
    lower: np.ndarray
    amount: np.ndarray


@kernel
def compare(y, s, weight, offset, scores, discounts, config, counters, out):
    """Losses of comparators in a round with an update.

    Parameters
    ----------
    y : (m,) grades of the query
    s : (m,) scores that decided the update
    weight, offset : sample weight and margin tau of the round
    scores : (n, m) scores by the comparators
    discounts, config : as `perceptron.learn` takes them
    counters : those of the ranker after the round
    out : (n, 2) out: F(u) = sum of a_ij hinge_ij(u), and f(u) = weight phi_v; infinity stands for what overflows
    """
    target, rule = settings(config, discounts)
    m = s.shape[0]
    work = workspace(m)
    v = work.reals[WEIGHTS, :m]
    graded = grade_query(target, y, work)
    loss, _ = judge(target, rule, graded, s, v, work, True)
    violated = violation(rule, graded, s, offset, work.reals[VIOLATION_KEYS, :m], True)
    mass = assign_credit(rule.credit, target, graded, v, violated, work, work.reals[CREDIT, :m], True)
    scale, _ = scale_and_mass(rule, loss, mass, weight)
    preferred = work.integers[PREFERRED, : list_preferred(graded.level, v, rule.credit in _ALL_PAIRS, work.integers[PREFERRED])]
    moved = _moved_credit(rule.credit, graded, violated, work, m)
    if rule.credit in _SORTED:
        sort_violators(graded, violated, preferred, work)
    ratio = counters[SPREAD_SQUARES] / counters[SORT_SQUARES] if counters[SORT_SQUARES] > 0.0 else 1.0
    of_spread = 1.0 / (1.0 + ratio * ratio)
    k = np.empty(m)
    margin = 0.0 if rule.by_gap else rule.margin
    for n in range(scores.shape[0]):
        if not _keys_of(rule, graded, scores[n], k):
            out[n] = np.inf
            continue
        if rule.credit == SORT:
            pairs = _hinge_of_moved(moved, k, margin)
        elif rule.credit == ADAPTIVE:
            spread = _hinge_of_pairs(SPREAD, target, graded, v, violated, preferred, k, margin, work)
            spread /= _spread_mass(v, preferred, work)
            pairs = of_spread * spread + (1.0 - of_spread) * _hinge_of_moved(moved, k, margin)
        else:
            pairs = _hinge_of_pairs(rule.credit, target, graded, v, violated, preferred, k, margin, work)
        out[n, 0] = scale * pairs
        out[n, 1] = weight * slam_loss(k, graded.level, graded.levels, v, margin, work.reals[KEYS])


@inner
def _moved_credit(credit, graded, violated, work, m):
    """The credit `sort`, or that member of `adaptive`, as pairs; none for another."""
    n = 2 * m if credit in (SORT, ADAPTIVE) else 0
    upper, lower, amount = np.empty(n, dtype=np.int64), np.empty(n, dtype=np.int64), np.empty(n)
    size = 0
    if credit == SORT:
        size = transport(graded, violated, work.reals[CREDIT, :m], work, upper, lower, amount)
    elif credit == ADAPTIVE:
        size = transport(graded, violated, work.reals[OTHER_CREDIT, :m], work, upper, lower, amount)
    return Moved(size, upper, lower, amount)


@leaf
def _spread_mass(v, preferred, work):
    """Mass of the credit `spread` before it was scaled."""
    mass = 0.0
    for i in preferred:
        if work.reals[SHARES, i] > 0.0:
            mass += v[i]
    return mass


@leaf
def _hinge_of_moved(moved, k, margin):
    """Sum of the amounts times the hinges of their pairs."""
    total = 0.0
    for n in range(moved.size):
        total += moved.amount[n] * max(0.0, margin + k[moved.lower[n]] - k[moved.upper[n]])
    return total


@inner
def _hinge_of_pairs(credit, target, graded, v, violated, preferred, k, margin, work):
    """Sum of a_ij times the hinge over the violated pairs, a_ij as `assign_credit` has them before they are scaled."""
    if credit == ARGMAX:
        return _hinge_on_best(graded, v, violated, k, margin, work.integers[BEST])
    if credit == DELTA:
        return _hinge_by_delta(target, graded, violated, k, margin, work)
    steps = 0
    for r in range(preferred.shape[0]):
        steps += work.integers[START, r + 1]
    if steps <= _STEPS * k.shape[0]:
        return _hinge_one_by_one(credit, target.kind, graded, preferred, k, margin, work)
    # The sweep adds and takes away: rounding may leave a little below the least there is.
    return max(0.0, _hinge_by_sweeps(credit, target.kind, graded, preferred, k, margin, work))


@leaf
def _keys_of(rule, graded, scores, k):
    """Write a comparator's keys (m,): its scores, less that of the first document, which cancels in every pair.

    Returns whether they are finite.
    """
    finite = True
    for i in range(k.shape[0]):
        k[i] = scores[i] - scores[0]
        if rule.by_gap:
            k[i] -= rule.margin * graded.grade[graded.level[i]]
        finite = finite and math.isfinite(k[i])
    return finite


@leaf
def slam_loss(k, level, levels, v, margin, best):
    """phi_v = sum of v_i max(0, margin + max over less relevant j of k_j - k_i) [CT, eq. 3]. O(m + L).

    `best` (levels,) is workspace.
    """
    best[:levels] = -np.inf
    for i in range(k.shape[0]):
        best[level[i]] = max(best[level[i]], k[i])
    for lev in range(1, levels):
        best[lev] = max(best[lev], best[lev - 1])
    total = 0.0
    for i in range(k.shape[0]):
        if level[i] > 0 and v[i] > 0.0:
            total += v[i] * max(0.0, margin + best[level[i] - 1] - k[i])
    return total


@leaf
def _hinge_on_best(graded, v, violated, k, margin, best):
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
def _hinge_by_delta(target, graded, violated, k, margin, work):
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
    # Of each violator in turn: key, level and gain.
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

    One sweep a grade, by descending k: a document below the grade enters the trees when its hinge with the next document of the
    grade turns positive. They are Fenwick trees over places in the list of violators, where a prefix holds those of one
    document: they have the number, and the sums of k, G and G k, of what has entered.
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


@kernel
def accumulate(rounds, values, totals, sums):
    """Add rounds (q, 10) and losses of comparators (q, n, 2) to running totals (`bounds.tracker.Totals`) and sums (n, 2).

    One after the other, so that a block adds up bit for bit as its queries do one by one.
    """
    for q in range(rounds.shape[0]):
        loss, served_loss, mass, square, margin, weight, m, norm, v_max, skipped = rounds[q]
        totals[0] += 1.0
        totals[1] += skipped
        totals[2] += 1.0 if loss > 0.0 else 0.0
        totals[3] += weight * loss
        totals[4] += weight * served_loss
        totals[5] += mass
        totals[6] += square
        totals[7] += margin * mass
        totals[8] = max(totals[8], mass)
        totals[9] = max(totals[9], norm)
        totals[10] = max(totals[10], m)
        totals[11] = max(totals[11], v_max)
        totals[12] = max(totals[12], weight)
        for n in range(sums.shape[0]):
            sums[n, 0] += values[q, n, 0]
            sums[n, 1] += values[q, n, 1]
