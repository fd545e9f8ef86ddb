"""Credit `spread`: the v_i of a document in equal parts on all its violators.

Document i is *preferred* to j when R_i > R_j. The pair is *violated* if s_j >= s_i - tau; j is then a violator of i.
"""

import numpy as np

from online_rank._kernels import fenwick
from online_rank._kernels import workspace as at
from online_rank._kernels._jit import leaf
from online_rank._kernels.order import sort_descending
from online_rank._kernels.primitives import lane_sum

# Up to this number of preferred documents their violators are counted one by one.
_FEW = 64


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
        less = work.reals[at.BARS, : s.shape[0]]
        return _spread_over_few(graded.level, v, s, offset, preferred, less, work.reals[at.SHARES], c)
    sort_violators(graded, s, offset, preferred, work)
    return _spread_over_sorted(graded, v, preferred, work, c)


@leaf
def _spread_over_few(level, v, s, offset, preferred, less, share, c):
    """`spread_credit` for few preferred documents; `less` (m,) is workspace. O(m n).

    Four at a time, if they have one level, so that scores and credit are read a quarter as often.
    """
    n = preferred.shape[0]
    share[: s.shape[0]] = 0.0
    first = 0
    while first < n:
        stop = _list_less_relevant(level, s, preferred, first, less)
        while first < stop:
            if stop - first >= 4:
                _charge_four(v, s, offset, preferred, first, less, share, c)
                first += 4
            else:
                _charge_one(v, s, offset, preferred[first], less, share, c)
                first += 1
    mass = 0.0
    for i in preferred:
        if share[i] > 0.0:
            c[i] += v[i]
            mass += v[i]
    return mass


@leaf
def _list_less_relevant(level, s, preferred, first, less):
    """less (m,) = the scores of documents of a lower level than `preferred[first]`, and NaN, which violates nothing.

    Returns the end of the run of preferred documents of that level.
    """
    own, stop = level[preferred[first]], first + 1
    while stop < preferred.shape[0] and level[preferred[stop]] == own:
        stop += 1
    for j in range(s.shape[0]):
        less[j] = s[j] if level[j] < own else np.nan
    return stop


@leaf
def _charge_one(v, s, offset, i, less, share, c):
    """Charge the v_i of document i to its violators, and write its share. Without a branch."""
    bar = s[i] - offset
    violators = 0
    for j in range(s.shape[0]):
        violators += less[j] >= bar
    a = v[i] / violators if violators > 0 else 0.0
    for j in range(s.shape[0]):
        c[j] -= a if less[j] >= bar else 0.0
    share[i] = a


@leaf
def _charge_four(v, s, offset, preferred, r, less, share, c):
    """`_charge_one` for the preferred documents from r on, in this order."""
    i0, i1, i2, i3 = preferred[r], preferred[r + 1], preferred[r + 2], preferred[r + 3]
    bar0, bar1, bar2, bar3 = s[i0] - offset, s[i1] - offset, s[i2] - offset, s[i3] - offset
    n0 = n1 = n2 = n3 = 0
    for j in range(s.shape[0]):
        score = less[j]
        n0 += score >= bar0
        n1 += score >= bar1
        n2 += score >= bar2
        n3 += score >= bar3
    a0 = v[i0] / n0 if n0 > 0 else 0.0
    a1 = v[i1] / n1 if n1 > 0 else 0.0
    a2 = v[i2] / n2 if n2 > 0 else 0.0
    a3 = v[i3] / n3 if n3 > 0 else 0.0
    for j in range(s.shape[0]):
        score, left = less[j], c[j]
        left -= a0 if score >= bar0 else 0.0
        left -= a1 if score >= bar1 else 0.0
        left -= a2 if score >= bar2 else 0.0
        left -= a3 if score >= bar3 else 0.0
        c[j] = left
    share[i0], share[i1], share[i2], share[i3] = a0, a1, a2, a3


@leaf
def _spread_over_sorted(graded, v, preferred, work, c):
    """`spread_credit` for a query whose violators are sorted. O(m log L)."""
    level, levels = graded.level, graded.levels
    start, violators, share = work.integers[at.START], work.integers[at.VIOLATORS], work.reals[at.SHARES]
    n = preferred.shape[0]
    share[: c.shape[0]] = 0.0
    # Over levels: the number of violators so far.
    counts = work.reals[at.COUNTS, : levels + 1]
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
    shares = work.reals[at.SUMS, : levels + 1]
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

    The preferred documents are sorted by descending score. Then j violates the ones of higher grade that come at or after the
    position `first_violated[j]`, which is n if j violates none. The documents with that position r are
    `violators[start[r]:start[r + 1]]`. The rows FIRST_VIOLATED, START and VIOLATORS of `work` receive them.
    """
    n = preferred.shape[0]
    level, levels, bars = graded.level, graded.levels, work.reals[at.BARS]
    start, first_violated, violators = work.integers[at.START], work.integers[at.FIRST_VIOLATED], work.integers[at.VIOLATORS]
    for r in range(n):
        bars[r] = s[preferred[r]]
    sort_descending(bars[:n], preferred, work.reals[at.SPARE_KEYS], work.integers[at.SPARE_ITEMS])
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
def hinge_of_spread(level, s, offset, preferred, k, work):
    """Sum of share_i max(0, 1 + k_j - k_i) over the violated pairs, for a comparator's keys (m,), all finite. O(m n).

    share_i is the row SHARES of `work`. Without a branch in the loops over documents.
    """
    m, n = k.shape[0], preferred.shape[0]
    share, terms, less = work.reals[at.SHARES, :m], work.reals[at.TERMS, :m], work.reals[at.BARS, :m]
    for j in range(m):
        terms[j] = 0.0
    first = 0
    while first < n:
        stop = _list_less_relevant(level, s, preferred, first, less)
        while first < stop:
            i = preferred[first]
            bar, short, part = s[i] - offset, 1.0 - k[i], share[i]
            if stop - first >= 2:
                i1 = preferred[first + 1]
                bar1, short1, part1 = s[i1] - offset, 1.0 - k[i1], share[i1]
                for j in range(m):
                    score, key, term = less[j], k[j], terms[j]
                    term += part * max(0.0, key + short) if score >= bar else 0.0
                    term += part1 * max(0.0, key + short1) if score >= bar1 else 0.0
                    terms[j] = term
                first += 2
            else:
                for j in range(m):
                    terms[j] += part * max(0.0, k[j] + short) if less[j] >= bar else 0.0
                first += 1
    return lane_sum(terms)
