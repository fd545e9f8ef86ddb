"""Credit: how the mass of an update is spread over the pairs of a query (THEORY: members of the mass theorem).

A pair (i, j) with R_i > R_j is *violated* when its keys say so: t_j >= t_i - offset, or t_j > t_i - offset when `strict`.
Keys are the scores; for a margin that grows with the grade gap, s - Delta R. Each function adds a_ij (e_i - e_j) over the
violated pairs to the coefficients `c` (m,), which start at zero, and returns the mass V = sum of a_ij.
"""

import numpy as np

from online_rank._kernels._jit import kernel
from online_rank._kernels.codes import AP, GAIN, LINEAR_NDCG
from online_rank._kernels.measures import gain
from online_rank._kernels.order import sort_descending

# Up to this size of the head its violators are counted one by one.
SHORT = 64


@kernel
def least_violating(t_i, offset, strict):
    """The least key t_j with which a less relevant document violates a document of key t_i."""
    return np.nextafter(t_i - offset, np.inf) if strict else t_i - offset


@kernel
def list_head(level, v, all_pairs, head):
    """List the *head* to `head` (m,): documents that can be outscored, not of the lowest grade, v_i > 0 unless `all_pairs`.

    Returns its size.
    """
    n = 0
    for i in range(level.shape[0]):
        head[n] = i
        n += (level[i] > 0) & (all_pairs | (v[i] > 0.0))
    return n


@kernel
def argmax_credit(t, level, levels, v, offset, strict, head, top, best, c):
    """v_i on the best-scored less relevant document ([CT, eq. 14]), for a head (`list_head`). O(m + L).

    Of equal scores the most relevant one counts, and of those the first. `top` and `best` (levels,) are workspace; `best[lev]`
    is left as the best document of all levels up to lev.
    """
    top[:levels] = -np.inf
    # Backwards, so that of equal ones the first is left. A branch, because after a few documents it is seldom taken.
    for i in range(t.shape[0] - 1, -1, -1):
        if t[i] >= top[level[i]]:
            top[level[i]] = t[i]
            best[level[i]] = i
    for lev in range(1, levels):
        if t[best[lev]] < t[best[lev - 1]]:
            best[lev] = best[lev - 1]
    mass = 0.0
    for i in head:
        j = best[level[i] - 1]
        if t[j] >= least_violating(t[i], offset, strict):
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
def line_up(t, level, levels, offset, strict, head, keys, spare, spare_keys, place, start, listed):
    """Find who violates whom without sorting all documents.

    The head (`list_head`) is sorted by descending key; then the violators of its r-th document are the less relevant documents
    whose *place* is at most r.

    Parameters
    ----------
    head : (n,) the head, brought into order
    place : (m,) out: place of each document, n for one that violates none of the head
    start, listed : (m + 1,), (m,) out: the documents of place r are `listed[start[r]:start[r + 1]]`
    keys, spare, spare_keys : (m,) workspace
    """
    n = head.shape[0]
    for r in range(n):
        keys[r] = t[head[r]]
    sort_descending(keys[:n], head, spare_keys, spare)
    for r in range(n):
        keys[r] = least_violating(keys[r], offset, strict)
    start[: n + 1] = 0
    for j in range(t.shape[0]):
        first = 0
        last = n if level[j] < levels - 1 else 0
        while first < last:
            middle = (first + last) // 2
            if t[j] >= keys[middle]:
                last = middle
            else:
                first = middle + 1
        place[j] = first if level[j] < levels - 1 else n
        start[place[j]] += 1
    total = 0
    for r in range(n + 1):
        start[r], total = total, total + start[r]
    for j in range(t.shape[0]):
        listed[start[place[j]]] = j
        start[place[j]] += 1
    for r in range(n, 0, -1):
        start[r] = start[r - 1]
    start[0] = 0


@kernel
def spread_over_few(t, level, v, offset, strict, head, share, c):
    """v_i / n_i on each of the n_i violators of i, for a short head (`list_head`). O(m head), without a branch.

    `share` (m,) receives v_i / n_i (0 without violators).
    """
    share[:] = 0.0
    n = head.shape[0]
    # Four at a time, so that what may violate them is read a quarter as often.
    for r in range(0, n - 3, 4):
        i0, i1, i2, i3 = head[r], head[r + 1], head[r + 2], head[r + 3]
        own0, own1, own2, own3 = level[i0], level[i1], level[i2], level[i3]
        bar0, bar1 = least_violating(t[i0], offset, strict), least_violating(t[i1], offset, strict)
        bar2, bar3 = least_violating(t[i2], offset, strict), least_violating(t[i3], offset, strict)
        n0, n1, n2, n3 = 0, 0, 0, 0
        for j in range(t.shape[0]):
            n0 += (level[j] < own0) & (t[j] >= bar0)
            n1 += (level[j] < own1) & (t[j] >= bar1)
            n2 += (level[j] < own2) & (t[j] >= bar2)
            n3 += (level[j] < own3) & (t[j] >= bar3)
        a0, a1 = v[i0] / n0 if n0 > 0 else 0.0, v[i1] / n1 if n1 > 0 else 0.0
        a2, a3 = v[i2] / n2 if n2 > 0 else 0.0, v[i3] / n3 if n3 > 0 else 0.0
        for j in range(t.shape[0]):
            x0 = a0 if (level[j] < own0) & (t[j] >= bar0) else 0.0
            x1 = a1 if (level[j] < own1) & (t[j] >= bar1) else 0.0
            x2 = a2 if (level[j] < own2) & (t[j] >= bar2) else 0.0
            x3 = a3 if (level[j] < own3) & (t[j] >= bar3) else 0.0
            c[j] -= (x0 + x1) + (x2 + x3)
        share[i0], share[i1], share[i2], share[i3] = a0, a1, a2, a3
    for r in range(n - n % 4, n):
        i, own = head[r], level[head[r]]
        bar = least_violating(t[i], offset, strict)
        violators = 0
        for j in range(t.shape[0]):
            violators += (level[j] < own) & (t[j] >= bar)
        a = v[i] / violators if violators > 0 else 0.0
        for j in range(t.shape[0]):
            c[j] -= a if (level[j] < own) & (t[j] >= bar) else 0.0
        share[i] = a
    mass = 0.0
    for i in head:
        if share[i] > 0.0:
            c[i] += v[i]
            mass += v[i]
    return mass


@kernel
def spread_credit(level, levels, v, head, start, listed, tree, share, c):
    """What `spread_over_few` does, for a query that is lined up (`line_up`). O(m log L).

    `tree` (levels + 1,) is workspace; `share` (m,) receives v_i / n_i (0 without violators).
    """
    n = head.shape[0]
    share[:] = 0.0
    counts = tree[: levels + 1]
    counts[:] = 0.0
    mass = 0.0
    for r in range(n):
        for q in range(start[r], start[r + 1]):
            _add(counts, level[listed[q]], 1.0)
        i = head[r]
        violators = _below(counts, level[i])
        if violators > 0.0:
            share[i] = v[i] / violators
            mass += v[i]
            c[i] += v[i]
    # Each document is charged the shares of those that it violates. Levels are counted from the top, so that what lies below in
    # the tree is more relevant.
    counts[:] = 0.0
    for r in range(n - 1, -1, -1):
        _add(counts, levels - 1 - level[head[r]], share[head[r]])
        for q in range(start[r], start[r + 1]):
            j = listed[q]
            c[j] -= _below(counts, levels - 1 - level[j])
    return mass


@kernel
def pair_credit(credit, kind, level, levels, grade, head, start, listed, tree, other_tree, c):
    """1 (`pairs`) or G(R_i) - G(R_j) (`gain`) on every violated pair of a query that is lined up (`line_up`). O(m log L).

    `tree` and `other_tree` (levels + 1,) are workspace.
    """
    n = head.shape[0]
    counts = tree[: levels + 1]
    gains = other_tree[: levels + 1]
    counts[:] = 0.0
    gains[:] = 0.0
    mass = 0.0
    for r in range(n):
        for q in range(start[r], start[r + 1]):
            j = listed[q]
            _add(counts, level[j], 1.0)
            _add(gains, level[j], gain(kind, grade[level[j]]))
        i = head[r]
        violators = _below(counts, level[i])
        a = violators if credit != GAIN else gain(kind, grade[level[i]]) * violators - _below(gains, level[i])
        c[i] += a
        mass += a
    # As in `spread_credit`, levels are now counted from the top.
    counts[:] = 0.0
    gains[:] = 0.0
    for r in range(n - 1, -1, -1):
        i = head[r]
        _add(counts, levels - 1 - level[i], 1.0)
        _add(gains, levels - 1 - level[i], gain(kind, grade[level[i]]))
        for q in range(start[r], start[r + 1]):
            j = listed[q]
            outscored = _below(counts, levels - 1 - level[j])
            if credit == GAIN:
                outscored = _below(gains, levels - 1 - level[j]) - gain(kind, grade[level[j]]) * outscored
            c[j] -= outscored
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
        bar = least_violating(t[i], offset, strict)
        for j in range(m):
            if level[j] < level[i] and t[j] >= bar:
                gain_j = gain(kind, grade[level[j]])
                a = swap_delta(
                    kind, depth, rank[i], rank[j], gain_i, gain_j, harmonic, before, relevant, ideal_value, m, discounts
                )
                c[i] += a
                c[j] -= a
                mass += a
    return mass
