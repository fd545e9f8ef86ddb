"""Credit: how the mass of an update is spread over the pairs of a query (THEORY: members of the mass theorem).

A pair (i, j) with R_i > R_j is *violated* when its keys say so: t_j >= t_i - offset, or t_j > t_i - offset when `strict`.
Keys are the scores; for a margin that grows with the grade gap, s - Delta R. Each function adds a_ij (e_i - e_j) over the
violated pairs to the coefficients `c` (m,), which start at zero, and returns the mass V = sum of a_ij.
"""

import numpy as np

from online_rank._kernels._jit import kernel
from online_rank._kernels.codes import AP, GAIN, LINEAR_NDCG
from online_rank._kernels.measures import gain


@kernel
def violated(t_i, t_j, offset, strict):
    """Whether a pair with R_i > R_j counts as mis-ordered."""
    return t_j > t_i - offset if strict else t_j >= t_i - offset


@kernel
def argmax_credit(t, level, levels, v, offset, strict, best, c):
    """v_i on the best-scored less relevant document ([CT, eq. 14]); `best` (levels,) is workspace. O(m + L).

    Equal scores: the first document of the lowest grade.
    """
    for lev in range(levels):
        best[lev] = -1
    for i in range(t.shape[0]):
        lev = level[i]
        if best[lev] < 0 or t[i] > t[best[lev]]:
            best[lev] = i
    # best[lev] becomes the best document of all levels up to lev.
    for lev in range(1, levels):
        if t[best[lev]] <= t[best[lev - 1]]:
            best[lev] = best[lev - 1]
    mass = 0.0
    for i in range(t.shape[0]):
        if level[i] > 0 and v[i] > 0.0:
            j = best[level[i] - 1]
            if violated(t[i], t[j], offset, strict):
                c[i] += v[i]
                c[j] -= v[i]
                mass += v[i]
    return mass


@kernel
def _add(tree, lev, value):
    """Add `value` at level lev of a Fenwick tree over levels (index 0 unused)."""
    lev += 1
    while lev < tree.shape[0]:
        tree[lev] += value
        lev += lev & -lev


@kernel
def _below(tree, lev):
    """Sum over the levels lower than lev of a Fenwick tree."""
    total = 0.0
    while lev > 0:
        total += tree[lev]
        lev -= lev & -lev
    return total


@kernel
def spread_credit(t, level, levels, v, offset, strict, order, tree, share, c):
    """v_i / n_i on each of the n_i violators of i. `order` lists documents by descending key. O(m log m).

    `tree` (levels + 1,) is workspace; `share` (m,) receives v_i / n_i (0 without violators).
    """
    m = t.shape[0]
    counts = tree[: levels + 1]
    counts[:] = 0.0
    mass = 0.0
    seen = 0
    for p in range(m):
        i = order[p]
        while seen < m and violated(t[i], t[order[seen]], offset, strict):
            _add(counts, level[order[seen]], 1.0)
            seen += 1
        share[i] = 0.0
        if v[i] > 0.0:
            n = _below(counts, level[i])
            if n > 0.0:
                share[i] = v[i] / n
                mass += v[i]
                c[i] += v[i]
    _charge(t, level, levels, offset, strict, order, counts, share, c)
    return mass


@kernel
def _charge(t, level, levels, offset, strict, order, tree, share, c):
    """Take from every document j the sum of share_i over the documents i that it violates."""
    m = t.shape[0]
    tree[:] = 0.0
    seen = m - 1
    for p in range(m - 1, -1, -1):
        j = order[p]
        while seen >= 0 and violated(t[order[seen]], t[j], offset, strict):
            i = order[seen]
            # Levels are counted from the top, so that what lies below in the tree is more relevant.
            _add(tree, levels - 1 - level[i], share[i])
            seen -= 1
        c[j] -= _below(tree, levels - 1 - level[j])


@kernel
def pair_credit(credit, kind, t, level, levels, grade, offset, strict, order, tree, other_tree, c):
    """1 (`pairs`) or G(R_i) - G(R_j) (`gain`) on every violated pair. O(m log m).

    `tree` and `other_tree` (levels + 1,) are workspace.
    """
    m = t.shape[0]
    counts = tree[: levels + 1]
    gains = other_tree[: levels + 1]
    counts[:] = 0.0
    gains[:] = 0.0
    mass = 0.0
    seen = 0
    for p in range(m):
        i = order[p]
        while seen < m and violated(t[i], t[order[seen]], offset, strict):
            j = order[seen]
            _add(counts, level[j], 1.0)
            _add(gains, level[j], gain(kind, grade[level[j]]))
            seen += 1
        n = _below(counts, level[i])
        a = n if credit != GAIN else gain(kind, grade[level[i]]) * n - _below(gains, level[i])
        c[i] += a
        mass += a
    counts[:] = 0.0
    gains[:] = 0.0
    seen = m - 1
    for p in range(m - 1, -1, -1):
        j = order[p]
        while seen >= 0 and violated(t[order[seen]], t[j], offset, strict):
            i = order[seen]
            # Levels are counted from the top, so that what lies below in the tree is more relevant.
            _add(counts, levels - 1 - level[i], 1.0)
            _add(gains, levels - 1 - level[i], gain(kind, grade[level[i]]))
            seen -= 1
        n = _below(counts, levels - 1 - level[j])
        c[j] -= n if credit != GAIN else _below(gains, levels - 1 - level[j]) - gain(kind, grade[level[j]]) * n
    return mass


@kernel
def swap_delta(kind, depth, p_i, p_j, gain_i, gain_j, harmonic, relevant_before, relevant, ideal_value, m, discounts):
    """|change of the measure| when the documents at the 0-based positions p_i and p_j swap places.

    For average precision `harmonic[p]` is the sum of 1 / position over the relevant documents before position p and
    `relevant_before[p]` their number.
    """
    if kind == AP:
        a = min(p_i, p_j)
        b = max(p_i, p_j)
        # The relevant one is taken from b to a; the reverse swap changes AP by as much.
        at_a = (relevant_before[a] + 1.0) / (a + 1.0)
        between = harmonic[b] - harmonic[a + 1]
        # What stands at b is counted as relevant there: relevant_before[b] + 1, less one if a was the relevant one.
        before_b = relevant_before[b] if p_i > p_j else relevant_before[b] - 1.0
        return (at_a + between - (before_b + 1.0) / (b + 1.0)) / relevant
    if kind == LINEAR_NDCG:
        return (gain_i - gain_j) * abs(p_i - p_j) / ideal_value
    d_i = discounts[p_i] if p_i < depth else 0.0
    d_j = discounts[p_j] if p_j < depth else 0.0
    return (gain_i - gain_j) * abs(d_i - d_j) / ideal_value


@kernel
def delta_credit(
    kind, depth, t, level, levels, grade, count, offset, strict, order, rank, harmonic, before, ideal_value, discounts, c
):
    """The change of the measure when i and j swap (LambdaRank's weight), on every violated pair. O(m^2) scalars.

    `order` is the ranking whose loss is meant; `rank` (m,), `harmonic` and `before` (m + 1,) are workspace.
    """
    m = t.shape[0]
    harmonic[0] = 0.0
    before[0] = 0.0
    for p in range(m):
        rank[order[p]] = p
        hit = 1.0 if kind == AP and level[order[p]] == 1 else 0.0
        harmonic[p + 1] = harmonic[p] + hit / (p + 1.0)
        before[p + 1] = before[p] + hit
    relevant = np.float64(count[levels - 1])
    mass = 0.0
    for i in range(m):
        if level[i] == 0:
            continue
        gain_i = gain(kind, grade[level[i]])
        for j in range(m):
            if level[j] < level[i] and violated(t[i], t[j], offset, strict):
                gain_j = gain(kind, grade[level[j]])
                a = swap_delta(
                    kind, depth, rank[i], rank[j], gain_i, gain_j, harmonic, before, relevant, ideal_value, m, discounts
                )
                c[i] += a
                c[j] -= a
                mass += a
    return mass
