"""The violated pairs of a query, on which an update may put mass.

Document i is *preferred* to j when R_i > R_j. The pair is *violated* if t_j >= t_i - offset, or t_j > t_i - offset if `strict`;
j is then a violator of i.
"""

from typing import NamedTuple

import numpy as np

from online_rank._kernels._jit import leaf
from online_rank._kernels.order import sort_descending
from online_rank._kernels.workspace import BARS, FIRST_VIOLATED, SPARE_ITEMS, SPARE_KEYS, START, VIOLATORS


class Violation(NamedTuple):
    """The condition for violated pairs, on keys t (m,): the scores or, for a margin that grows with the grade gap, s - Delta
    R.
    """

    t: np.ndarray
    offset: float
    strict: bool


@leaf
def least_violating(t_i, offset, strict):
    """The least key t_j with which a less relevant document violates a document of key t_i.

    If rounding absorbs a positive offset, a tie still violates.
    """
    if not strict:
        return t_i - offset
    bar = np.nextafter(t_i - offset, np.inf)
    return min(bar, t_i) if offset > 0.0 else bar


@leaf
def list_preferred(level, v, all_pairs, preferred):
    """List to `preferred` (m,) the documents above the lowest grade, with v_i > 0 unless `all_pairs`. Returns their number."""
    n = 0
    for i in range(level.shape[0]):
        preferred[n] = i
        n += (level[i] > 0) & (all_pairs | (v[i] > 0.0))
    return n


@leaf
def sort_violators(graded, violation, preferred, work):
    """Find who violates whom without sorting all documents.

    The preferred documents are sorted by descending key. Then j violates those of higher grade among them that come at or after
    the position `first_violated[j]`, which is n if there are none. The documents with that position r are
    `violators[start[r]:start[r + 1]]`. The rows FIRST_VIOLATED, START and VIOLATORS of `work` receive them.
    """
    n = preferred.shape[0]
    t, level, levels = violation.t, graded.level, graded.levels
    bars, start, first_violated, violators = (
        work.reals[BARS], work.integers[START], work.integers[FIRST_VIOLATED], work.integers[VIOLATORS],
    )  # fmt: skip
    for r in range(n):
        bars[r] = t[preferred[r]]
    sort_descending(bars[:n], preferred, work.reals[SPARE_KEYS], work.integers[SPARE_ITEMS])
    for r in range(n):
        bars[r] = least_violating(bars[r], violation.offset, violation.strict)
    start[: n + 1] = 0
    for j in range(t.shape[0]):
        first = 0
        last = n if level[j] < levels - 1 else 0
        while first < last:
            middle = (first + last) // 2
            if t[j] >= bars[middle]:
                last = middle
            else:
                first = middle + 1
        first_violated[j] = first if level[j] < levels - 1 else n
        start[first_violated[j]] += 1
    total = 0
    for r in range(n + 1):
        start[r], total = total, total + start[r]
    for j in range(t.shape[0]):
        violators[start[first_violated[j]]] = j
        start[first_violated[j]] += 1
    for r in range(n, 0, -1):
        start[r] = start[r - 1]
    start[0] = 0
