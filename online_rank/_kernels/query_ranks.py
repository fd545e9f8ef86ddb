"""Normal scores of the ranks of a feature's values within their query."""

from typing import NamedTuple

import numpy as np

from online_rank._kernels._jit import inner, leaf
from online_rank._kernels.vector_math import normal_quantile

# Cells of a sketch's look-up table, which ascend with the values, are joined into 2^6 buckets, or more for long queries.
_CELL_BITS, _LEAST_BITS = 8, 6
# Up to so many values of a bucket are compared with one another, without a branch; more are sorted.
_CROWDED = 16
# Normal scores of every number of values up to this one are kept during a call.
_KEPT = 256


class Ranking(NamedTuple):
    """Memory for ranks: counts of buckets, values by bucket and their documents, twice their ranks, results of comparisons, and
    normal scores and whether they are computed.
    """

    counts: np.ndarray
    values: np.ndarray
    documents: np.ndarray
    ranks: np.ndarray
    results: np.ndarray
    scores: np.ndarray
    computed: np.ndarray


@inner
def room_for_ranks(longest):
    """A `Ranking` for queries of up to `longest` documents."""
    kept = min(longest, _KEPT)
    return Ranking(
        np.empty((1 << _CELL_BITS) + 1, dtype=np.int64),
        np.empty(longest),
        np.empty(longest, dtype=np.int64),
        np.empty(longest),
        np.empty(longest),
        np.empty(kept * (kept + 1) + 2 * longest + 2),
        np.zeros(kept + 1, dtype=np.uint8),
    )


@leaf
def _scores_of(n, ranking):
    """Where the scores Phi^-1(k / (2 n)), 0 < k < 2 n, begin: number k is k places after that."""
    kept = ranking.computed.shape[0] - 1
    start = n * (n - 1) if n <= kept else kept * (kept + 1)
    if n > kept or ranking.computed[n] == 0:
        for k in range(1, n):
            score = normal_quantile(k / (2.0 * n))
            ranking.scores[start + k], ranking.scores[start + 2 * n - k] = score, -score
        ranking.scores[start + n] = 0.0
        if n <= kept:
            ranking.computed[n] = 1
    return start


@leaf
def _rank_by_sorting(values, documents, ranks, n):
    """ranks = 2 rank - 1 of n values that are in the order of their buckets: Shell's sort, with steps of 57 to 1."""
    step = 57
    while step > 0:
        for p in range(step, n):
            value, document, place = values[p], documents[p], p
            while place >= step and values[place - step] > value:
                values[place], documents[place] = values[place - step], documents[place - step]
                place -= step
            values[place], documents[place] = value, document
        step = 23 if step == 57 else 10 if step == 23 else 4 if step == 10 else 1 if step == 4 else 0
    first = 0
    while first < n:
        stop = first + 1
        while stop < n and values[stop] == values[first]:
            stop += 1
        # Places first..stop - 1, counted from 0, have the mid-rank (first + stop + 1) / 2.
        for p in range(first, stop):
            ranks[p] = first + stop
        first = stop


@leaf
def _rank_by_comparing(values, ranks, results, most, n):
    """The same where no bucket has more than `most` values: only values less than `most` places apart are compared.

    Twice the number of smaller values and once that of equal ones: of a pair, what the first gains the second loses.
    """
    for p in range(n):
        ranks[p] = 2.0 * p + 1.0
    for k in range(1, most):
        for p in range(n - k):
            results[p] = (1.0 if values[p + k] < values[p] else 0.0) + (1.0 if values[p + k] <= values[p] else 0.0)
        for p in range(n - k):
            ranks[p] += results[p]
        for p in range(n - k):
            ranks[p + k] -= results[p]


@leaf
def _bucket_shift(m):
    """By how many bits the number of a cell is shifted, for at least twice as many buckets as documents."""
    bits = _LEAST_BITS
    while bits < _CELL_BITS and (1 << bits) < 2 * m:
        bits += 1
    return np.uint8(_CELL_BITS - bits)


@leaf
def rank_scores(x, cells, misses, ranking, out):
    """out (m,) = Phi^-1((rank - 1/2) / m') among the m' values x (m,) that are not NaN, with mid-ranks for ties; 0 for NaN.

    cells : (m,) uint8 that ascend with the values
    misses : whether there are NaN
    """
    counts, values, documents = ranking.counts, ranking.values, ranking.documents
    m, shift = x.shape[0], _bucket_shift(x.shape[0])
    buckets = (1 << _CELL_BITS) >> np.int64(shift)
    for c in range(buckets + 1):
        counts[c] = 0
    n = m
    if misses:
        n = 0
        for i in range(m):
            out[i] = 0.0
            if x[i] == x[i]:
                counts[np.int64(cells[i] >> shift) + 1] += 1
                n += 1
    else:
        for i in range(m):
            counts[np.int64(cells[i] >> shift) + 1] += 1
    most = 0
    for c in range(buckets):
        most = max(most, counts[c + 1])
        counts[c + 1] += counts[c]
    for i in range(m):
        if not misses or x[i] == x[i]:
            bucket = np.int64(cells[i] >> shift)
            place = counts[bucket]
            counts[bucket] = place + 1
            values[place], documents[place] = x[i], i
    if most > _CROWDED:
        _rank_by_sorting(values, documents, ranking.ranks, n)
    else:
        _rank_by_comparing(values, ranking.ranks, ranking.results, most, n)
    start = _scores_of(n, ranking)
    for p in range(n):
        out[documents[p]] = ranking.scores[start + np.int64(ranking.ranks[p])]
