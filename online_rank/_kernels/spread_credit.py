"""Credit `spread`: the v_i of a document in equal parts on all its violators.

Document i is *preferred* to j when R_i > R_j. The pair is *violated* if s_j >= s_i - tau; j is then a violator of i.
"""

import numpy as np

from online_rank._kernels import fenwick
from online_rank._kernels._jit import inlined, inner, leaf
from online_rank._kernels.order import sort_descending
from online_rank._kernels.primitives import lane_sum
from online_rank._kernels.workspace import (
    BARS,
    COUNTS,
    FIRST_VIOLATED,
    NEXT_PAIR_SHARES,
    OTHER_TERMS,
    PAIR_SHARES,
    SHARES,
    SPARE_ITEMS,
    SPARE_KEYS,
    START,
    SUMS,
    TERMS,
    VIOLATORS,
)

# Up to this number of preferred documents their violators are counted one by one.
_FEW = 64

# Up to this number of preferred documents, hinges are added up pair by pair; beyond it, by sweeps. Both are equally fast here.
_SWEPT = 1024


@leaf
def list_preferred(level, v, preferred):
    """List to `preferred` (m,) the documents above the lowest grade with v_i > 0. Returns their number."""
    n = 0
    for i in range(level.shape[0]):
        preferred[n] = i
        n += (level[i] > 0) & (v[i] > 0.0)
    return n


@leaf
def spread_credit(graded, v, s, offset, preferred, work, c):
    """Add sum of v_i / n_i (e_i - e_j) over the n_i violators j of each i to `c` (m,), which is zero.

    The row SHARES of `work` receives v_i / n_i, 0 without violators. Returns the mass, the sum of the v_i with violators.
    """
    if preferred.shape[0] <= _FEW:
        return _spread_over_few(graded.level, v, s, offset, preferred, work.reals[SHARES], c)
    sort_violators(graded, s, offset, preferred, work)
    return _spread_over_sorted(graded, v, preferred, work, c)


@leaf
def _spread_over_few(level, v, s, offset, preferred, share, c):
    """`spread_credit` for few preferred documents. O(m n), without a branch."""
    m = s.shape[0]
    for i in range(m):
        share[i] = 0.0
    for r in range(preferred.shape[0]):
        i, own = preferred[r], level[preferred[r]]
        bar = s[i] - offset
        violators = 0
        for j in range(m):
            violators += (level[j] < own) & (s[j] >= bar)
        a = v[i] / violators if violators > 0 else 0.0
        for j in range(m):
            c[j] -= a if (level[j] < own) & (s[j] >= bar) else 0.0
        share[i] = a
    mass = 0.0
    for i in preferred:
        if share[i] > 0.0:
            c[i] += v[i]
            mass += v[i]
    return mass


@leaf
def _spread_over_sorted(graded, v, preferred, work, c):
    """`spread_credit` for a query whose violators are sorted. O(m log L)."""
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
def sort_violators(graded, s, offset, preferred, work):
    """Find who violates whom without sorting all documents.

    The preferred documents are sorted by descending score. Then j violates those of higher grade among them that come at or
    after the position `first_violated[j]`, which is n if there are none. The documents with that position r are
    `violators[start[r]:start[r + 1]]`. The rows FIRST_VIOLATED, START and VIOLATORS of `work` receive them.
    """
    n = preferred.shape[0]
    level, levels, bars = graded.level, graded.levels, work.reals[BARS]
    start, first_violated, violators = work.integers[START], work.integers[FIRST_VIOLATED], work.integers[VIOLATORS]
    for r in range(n):
        bars[r] = s[preferred[r]]
    sort_descending(bars[:n], preferred, work.reals[SPARE_KEYS], work.integers[SPARE_ITEMS])
    for r in range(n):
        bars[r] -= offset
    start[: n + 1] = 0
    for j in range(s.shape[0]):
        first = 0
        last = n if level[j] < levels - 1 else 0
        while first < last:
            middle = (first + last) // 2
            if s[j] >= bars[middle]:
                last = middle
            else:
                first = middle + 1
        first_violated[j] = first if level[j] < levels - 1 else n
        start[first_violated[j]] += 1
    total = 0
    for r in range(n + 1):
        start[r], total = total, total + start[r]
    for j in range(s.shape[0]):
        violators[start[first_violated[j]]] = j
        start[first_violated[j]] += 1
    for r in range(n, 0, -1):
        start[r] = start[r - 1]
    start[0] = 0


@leaf
def hinges_of_spread(graded, s, offset, preferred, k, other, two, work):
    """Sums of share_i max(0, 1 + k_j - k_i) over the violated pairs, for the keys (m,) of two comparators; all are finite.

    share_i is the row SHARES of `work`. Additions wait for one another, so two sums take little longer than one. Without `two`,
    the second is worth nothing.
    """
    if preferred.shape[0] <= _SWEPT:
        return _hinges_by_pairs(graded.level, s, offset, preferred, work.reals[SHARES], k, other, two, work)
    sort_violators(graded, s, offset, preferred, work)
    own = _hinge_by_sweeps(graded, preferred, k, work)
    return own, _hinge_by_sweeps(graded, preferred, other, work) if two else 0.0


@leaf
def _hinges_by_pairs(level, s, offset, preferred, share, k, other, two, work):
    """`hinges_of_spread` in O(m n), without a branch."""
    m = k.shape[0]
    terms, other_terms = work.reals[TERMS, :m], work.reals[OTHER_TERMS, :m]
    # The shares of the violators of two documents at a time, and 0 for any other document.
    one, next_one = work.reals[PAIR_SHARES, :m], work.reals[NEXT_PAIR_SHARES, :m]
    for j in range(m):
        terms[j], other_terms[j] = 0.0, 0.0
    n = preferred.shape[0]
    for r in range(0, n - 1, 2):
        i, h = preferred[r], preferred[r + 1]
        _shares_of_violators(level, s, offset, i, share[i], one)
        _shares_of_violators(level, s, offset, h, share[h], next_one)
        _add_hinges(one, next_one, k, 1.0 - k[i], 1.0 - k[h], terms)
        if two:
            _add_hinges(one, next_one, other, 1.0 - other[i], 1.0 - other[h], other_terms)
    if n % 2 == 1:
        i = preferred[n - 1]
        _shares_of_violators(level, s, offset, i, share[i], one)
        for j in range(m):
            terms[j] += one[j] * max(0.0, k[j] + (1.0 - k[i]))
        if two:
            for j in range(m):
                other_terms[j] += one[j] * max(0.0, other[j] + (1.0 - other[i]))
    return lane_sum(terms), lane_sum(other_terms)


@inlined
def _shares_of_violators(level, s, offset, i, share, shares):
    """`share` for each violator of document i, and 0 for any other document, to `shares` (m,)."""
    own, bar = level[i], s[i] - offset
    for j in range(shares.shape[0]):
        shares[j] = share if (level[j] < own) & (s[j] >= bar) else 0.0


@inlined
def _add_hinges(one, next_one, k, short, next_short, terms):
    """Add the shares of the violators of two documents, times their hinges, to `terms` (m,)."""
    for j in range(terms.shape[0]):
        terms[j] += one[j] * max(0.0, k[j] + short) + next_one[j] * max(0.0, k[j] + next_short)


@inner
def _hinge_by_sweeps(graded, preferred, k, work):
    """`hinges_of_spread` for one comparator and a query whose violators are sorted, in O(m L log m).

    One sweep for each grade, by descending k: a document below the grade enters the trees when its hinge with the next document
    of the grade turns positive. These are Fenwick trees over the list of violators, in which the violators of a document are a
    prefix: they hold the number of entries, and their sum of k.
    """
    m = k.shape[0]
    level, start, violators, share = graded.level, work.integers[START], work.integers[VIOLATORS], work.reals[SHARES]
    counts, keys = np.empty(m + 1), np.empty(m + 1)
    place, reach = np.empty(m, dtype=np.int64), np.zeros(m, dtype=np.int64)
    order, spare_order = np.arange(m), np.empty(m, dtype=np.int64)
    for p in range(m):
        place[violators[p]] = p
    for r in range(preferred.shape[0]):
        reach[preferred[r]] = start[r + 1]
    sort_descending(k.copy(), order, np.empty(m), spare_order)
    total = 0.0
    for lev in range(1, graded.levels):
        counts[:] = 0.0
        keys[:] = 0.0
        seen = 0
        for p in range(m):
            i = order[p]
            if level[i] != lev or reach[i] == 0:
                continue
            while seen < m and 1.0 + k[order[seen]] - k[i] > 0.0:
                j = order[seen]
                seen += 1
                if level[j] < lev:
                    fenwick.add(counts, place[j], 1.0)
                    fenwick.add(keys, place[j], k[j])
            total += share[i] * (fenwick.sum_before(counts, reach[i]) * (1.0 - k[i]) + fenwick.sum_before(keys, reach[i]))
    # The sweeps add and subtract, so rounding may leave slightly less than the true minimum.
    return max(0.0, total)
