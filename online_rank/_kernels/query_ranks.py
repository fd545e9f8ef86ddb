"""Normal scores of the ranks of a feature's values within their query."""

from typing import NamedTuple

import numpy as np

from online_rank._kernels._jit import inner, leaf
from online_rank._kernels.primitives import count_eight
from online_rank._kernels.vector_math import normal_quantile

#: Up to this many documents, all are compared with all, for eight features at once.
FEW = 40
# The cells of a sketch's look-up table, and the most knots before a value.
_CELLS, _KNOTS = 256, 256
# Up to this many values of a bucket are compared with one another, without a branch; more are sorted.
_CROWDED = 16
# Normal scores of every number of values up to this one are kept during a call.
_KEPT = 256


class Ranking(NamedTuple):
    """Memory for ranks: counts of buckets; values by bucket; rows of integers; for eight features the values and twice the
    ranks of documents; and normal scores of ranks, and whether they are computed.
    """

    counts: np.ndarray
    values: np.ndarray
    integers: np.ndarray
    eight_values: np.ndarray
    eight_ranks: np.ndarray
    scores: np.ndarray
    computed: np.ndarray


# Rows of integers: buckets of documents, and their places by bucket; twice the ranks of places, and results of comparisons.
_BUCKETS, _PLACES, _RANKS, _RESULTS = range(4)


@inner
def room_for_ranks(longest):
    """A `Ranking` for queries of up to `longest` documents."""
    kept, few = min(longest, _KEPT), min(longest, FEW)
    return Ranking(
        np.empty(_CELLS + _KNOTS + 2, dtype=np.int64), np.empty(longest), np.empty((4, longest), dtype=np.int64),
        np.empty((few, 8)), np.empty((few, 8), dtype=np.int64),
        np.empty(kept * (kept + 1) + 2 * longest + 2), np.zeros(kept + 1, dtype=np.uint8),
    )  # fmt: skip


@leaf
def scores_of_ranks(n, scores, computed):
    """Where the scores Phi^-1(k / (2 n)), 0 < k < 2 n, begin in `scores`: number k is k places after that."""
    kept = computed.shape[0] - 1
    start = n * (n - 1) if n <= kept else kept * (kept + 1)
    if n > kept or computed[n] == 0:
        for k in range(1, n):
            score = normal_quantile(k / (2.0 * n))
            scores[start + k], scores[start + 2 * n - k] = score, -score
        scores[start + n] = 0.0
        if n <= kept:
            computed[n] = 1
    return start


@leaf
def _rank_by_sorting(values, owners, ranks, most, n):
    """ranks = 2 rank - 1 of n values in the order of their buckets: Shell's sort, with steps below the size of the fullest.

    owners : (n,) workspace
    """
    for p in range(n):
        owners[p] = p
    step = 57
    while step > 0:
        for p in range(step if step < most or step == 1 else n, n):
            value, owner, place = values[p], owners[p], p
            while place >= step and values[place - step] > value:
                values[place], owners[place] = values[place - step], owners[place - step]
                place -= step
            values[place], owners[place] = value, owner
        step = 23 if step == 57 else 10 if step == 23 else 4 if step == 10 else 1 if step == 4 else 0
    first = 0
    while first < n:
        stop = first + 1
        while stop < n and values[stop] == values[first]:
            stop += 1
        # Places first..stop - 1, counted from 0, have the mid-rank (first + stop + 1) / 2.
        for p in range(first, stop):
            ranks[owners[p]] = first + stop
        first = stop


@leaf
def _rank_by_comparing(values, ranks, results, most, n):
    """The same if buckets have at most `most` values: only values less than `most` places apart are compared.

    Twice the number of smaller values and once the number of equal ones: of a pair, what the first gains the second loses.
    """
    for p in range(n):
        ranks[p] = 2 * p + 1
    for k in range(1, most):
        for p in range(n - k):
            results[p] = np.int64(values[p + k] < values[p]) + np.int64(values[p + k] <= values[p])
        for p in range(n - k):
            ranks[p] += results[p]
        for p in range(n - k):
            ranks[p + k] -= results[p]


@leaf
def rank_few(X, first, begin, wide, values, ranks):
    """ranks (m, 8) = 2 rank - 1 within columns begin..begin + wide of m rows of X, 0 for NaN; values (m, 8) is workspace."""
    for i in range(values.shape[0]):
        for k in range(wide):
            values[i, k] = X[first + i, begin + k]
        for k in range(wide, 8):
            values[i, k] = 0.0
    for i in range(values.shape[0]):
        count_eight(values, i, ranks)


@leaf
def _find_buckets(x, cells, knots, buckets):
    """Buckets (m,), the one for NaN after all others; how many others there are."""
    shift = np.uint8(2 if x.shape[0] <= 128 else 1 if x.shape[0] <= 256 else 0)
    last = 0
    for i in range(x.shape[0]):
        bucket = np.int64(cells[i] >> shift) + np.int64(knots[i])
        buckets[i] = bucket if x[i] == x[i] else -1
        last = max(last, buckets[i])
    for i in range(x.shape[0]):
        buckets[i] = buckets[i] if buckets[i] >= 0 else last + 1
    return last + 1


@leaf
def rank_many(x, cells, knots, n, counts, values, integers):
    """The row RANKS of `integers` = 2 rank - 1 of the n of m values x that are not NaN, by their places, in the row PLACES.

    cells, knots : (m,) uint8, numbers that ascend with the values. So does their sum, which tells more values apart
    """
    m = x.shape[0]
    buckets, places, ranks = integers[_BUCKETS, :m], integers[_PLACES, :m], integers[_RANKS, :m]
    size = _find_buckets(x, cells, knots, buckets)
    counts[: size + 2] = 0
    for i in range(m):
        before = counts[buckets[i] + 1]
        places[i] = before
        counts[buckets[i] + 1] = before + 1
    most = 0
    for c in range(size):
        most = max(most, counts[c + 1])
    for c in range(size):
        counts[c + 1] += counts[c]
    for i in range(m):
        place = places[i] + counts[buckets[i]]
        places[i] = place
        values[place] = x[i]
    ranks[n:] = 0
    if most > _CROWDED:
        _rank_by_sorting(values, buckets, ranks, most, n)
    else:
        _rank_by_comparing(values, ranks, integers[_RESULTS], most, n)


@leaf
def find_scores(k, few, integers, ranks, start, scores, out):
    """out (m,) = Phi^-1((rank - 1/2) / n) from what `rank_few` found for the column k, or `rank_many`; any number for NaN."""
    if few:
        for i in range(out.shape[0]):
            out[i] = scores[start + ranks[i, k]]
    else:
        own, places = integers[_RANKS], integers[_PLACES]
        for i in range(out.shape[0]):
            out[i] = scores[start + own[places[i]]]
