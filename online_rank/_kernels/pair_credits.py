"""Credits that go to violated pairs one by one: argmax, spread, pairs, gain, delta.

Each adds a_ij (e_i - e_j) over the violated pairs to the coefficients `c` (m,), which start at zero, and returns sum of a_ij.
"""

import math

import numpy as np

from online_rank._kernels import fenwick
from online_rank._kernels._jit import leaf
from online_rank._kernels.codes import AP, GAIN, NDCG
from online_rank._kernels.graded import discount
from online_rank._kernels.violations import least_violating
from online_rank._kernels.workspace import (
    COUNTS,
    HARMONIC,
    ORDER,
    RANK,
    RELEVANT_BEFORE,
    SHARES,
    START,
    SUMS,
    VIOLATORS,
)


@leaf
def argmax_credit(graded, v, violation, preferred, best, highest, c):
    """v_i on the best-scored less relevant document ([CT, eq. 14]). O(m + L).

    Among equal keys the most relevant document counts, and among those the first. `best[lev]` is left as the best document of
    all levels
    up to lev; `highest` (levels,) is workspace.
    """
    t, level, levels = violation.t, graded.level, graded.levels
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
        if t[j] >= least_violating(t[i], violation.offset, violation.strict):
            c[i] += v[i]
            c[j] -= v[i]
            mass += v[i]
    return mass


@leaf
def spread_over_few(level, v, violation, preferred, share, c):
    """v_i / n_i on each of the n_i violators of i, for few preferred documents. O(m n), without a branch.

    `share` receives v_i / n_i (0 without violators).
    """
    t, offset, strict = violation
    m = t.shape[0]
    n = preferred.shape[0]
    for i in range(m):
        share[i] = 0.0
    for r in range(n):
        i, own = preferred[r], level[preferred[r]]
        bar = least_violating(t[i], offset, strict)
        violators = 0
        for j in range(m):
            violators += (level[j] < own) & (t[j] >= bar)
        a = v[i] / violators if violators > 0 else 0.0
        for j in range(m):
            c[j] -= a if (level[j] < own) & (t[j] >= bar) else 0.0
        share[i] = a
    mass = 0.0
    for i in preferred:
        if share[i] > 0.0:
            c[i] += v[i]
            mass += v[i]
    return mass


@leaf
def spread_credit(graded, v, preferred, work, c):
    """The same as `spread_over_few`, for a query whose violators are sorted (`sort_violators`). O(m log L)."""
    level, levels = graded.level, graded.levels
    start, violators, share = work.integers[START], work.integers[VIOLATORS], work.reals[SHARES]
    n = preferred.shape[0]
    share[: c.shape[0]] = 0.0
    # Over levels: the number of violators so far.
    counts = work.reals[COUNTS, : levels + 1]
    counts[:] = 0.0
    mass = 0.0
    for r in range(n):
        for q in range(start[r], start[r + 1]):
            fenwick.add(counts, level[violators[q]], 1.0)
        i = preferred[r]
        n_i = fenwick.sum_before(counts, level[i])
        if n_i > 0.0:
            share[i] = v[i] / n_i
            mass += v[i]
            c[i] += v[i]
    # Each document is charged the shares of those that it violates. Levels are counted from the top, so that smaller indices in
    # the tree are more relevant.
    shares = work.reals[SUMS, : levels + 1]
    shares[:] = 0.0
    for r in range(n - 1, -1, -1):
        fenwick.add(shares, levels - 1 - level[preferred[r]], share[preferred[r]])
        for q in range(start[r], start[r + 1]):
            j = violators[q]
            c[j] -= fenwick.sum_before(shares, levels - 1 - level[j])
    return mass


@leaf
def gain_unit(kind, highest):
    """A power of two that scales the gains of grades up to `highest` to about 1 if their sums could overflow; otherwise 1."""
    return math.ldexp(1.0, -int(highest)) if kind == NDCG and highest >= 512 else 1.0


@leaf
def pair_credit(credit, kind, graded, preferred, work, c):
    """1 (`pairs`) or G(R_i) - G(R_j) (`gain`) on every violated pair, for sorted violators (`sort_violators`). O(m log L).

    Gains are in units of `gain_unit`.
    """
    level, levels = graded.level, graded.levels
    start, violators = work.integers[START], work.integers[VIOLATORS]
    n = preferred.shape[0]
    unit = gain_unit(kind, graded.grade[levels - 1])
    # Over levels: the number of violators met so far, and the sum of their gains.
    counts, gains = work.reals[COUNTS, : levels + 1], work.reals[SUMS, : levels + 1]
    counts[:] = 0.0
    gains[:] = 0.0
    mass = 0.0
    for r in range(n):
        for q in range(start[r], start[r + 1]):
            j = violators[q]
            fenwick.add(counts, level[j], 1.0)
            fenwick.add(gains, level[j], unit * graded.gain[level[j]])
        i = preferred[r]
        n_i = fenwick.sum_before(counts, level[i])
        a = n_i
        if credit == GAIN:
            a = unit * graded.gain[level[i]] * n_i - fenwick.sum_before(gains, level[i])
        c[i] += a
        mass += a
    # The same for the preferred documents. As in `spread_credit`, levels are now counted from the top.
    counts[:] = 0.0
    gains[:] = 0.0
    for r in range(n - 1, -1, -1):
        i = preferred[r]
        fenwick.add(counts, levels - 1 - level[i], 1.0)
        fenwick.add(gains, levels - 1 - level[i], unit * graded.gain[level[i]])
        for q in range(start[r], start[r + 1]):
            j = violators[q]
            a = fenwick.sum_before(counts, levels - 1 - level[j])
            if credit == GAIN:
                a = fenwick.sum_before(gains, levels - 1 - level[j]) - unit * graded.gain[level[j]] * a
            c[j] -= a
    return mass


@leaf
def sum_before_positions(kind, graded, order, work):
    """Prepare `swap_change` for the first documents of a ranking: their `rank`, and for average precision sums before them.

    `harmonic[p]` is the sum of 1 / position over the relevant documents before position p, `relevant_before[p]` their number.
    """
    rank, harmonic, before = work.integers[RANK], work.reals[HARMONIC], work.reals[RELEVANT_BEFORE]
    harmonic[0] = 0.0
    before[0] = 0.0
    for p in range(order.shape[0]):
        rank[order[p]] = p
        hit = 1.0 if kind == AP and graded.level[order[p]] == 1 else 0.0
        harmonic[p + 1] = harmonic[p] + hit / (p + 1.0)
        before[p + 1] = before[p] + hit


@leaf
def swap_change(target, graded, work, i, j):
    """|change of the measure| when documents i and j, R_i > R_j, swap places; after `sum_before_positions`."""
    kind = target.kind
    p_i, p_j = work.integers[RANK, i], work.integers[RANK, j]
    if kind == AP:
        harmonic, before = work.reals[HARMONIC], work.reals[RELEVANT_BEFORE]
        a = min(p_i, p_j)
        b = max(p_i, p_j)
        # The relevant one is taken from b to a; the reverse swap changes AP by as much.
        at_a = (before[a] + 1.0) / (a + 1.0)
        between = harmonic[b] - harmonic[a + 1]
        # The document at b is then relevant: before[b] + 1, minus one if a was the relevant one.
        before_b = before[b] if p_i > p_j else before[b] - 1.0
        return (at_a + between - (before_b + 1.0) / (b + 1.0)) / np.float64(graded.size[graded.levels - 1])
    rise = graded.gain[graded.level[i]] - graded.gain[graded.level[j]]
    m = graded.level.shape[0]
    d_i = discount(kind, p_i, m, target.discounts) if p_i < graded.depth else 0.0
    d_j = discount(kind, p_j, m, target.discounts) if p_j < graded.depth else 0.0
    return rise * abs(d_i - d_j) / graded.ideal


@leaf
def delta_credit(target, graded, violation, work, c):
    """The change of the measure when i and j swap (LambdaRank's weight), on every violated pair. O(m^2) scalars."""
    t, level = violation.t, graded.level
    m = t.shape[0]
    sum_before_positions(target.kind, graded, work.integers[ORDER, :m], work)
    mass = 0.0
    for i in range(m):
        if level[i] == 0:
            continue
        bar = least_violating(t[i], violation.offset, violation.strict)
        for j in range(m):
            if level[j] < level[i] and t[j] >= bar:
                a = swap_change(target, graded, work, i, j)
                c[i] += a
                c[j] -= a
                mass += a
    return mass
