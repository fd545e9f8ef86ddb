"""Values of ranking metrics for blocks of queries.

A query is first sorted (`_order`): the documents that count in the metric, best score first, in two workspace arrays. Every
metric is then one pass over that order. Documents with equal scores form a group; under expected ties the value of a group is
computed in closed form (McSherry & Najork, "Computing Information Retrieval Performance Measures Efficiently in the Presence of
Tied Scores", 2008). Under the other policies grades decide the order within it, and every document is a separate group.
"""

from typing import NamedTuple

import numpy as np

from online_rank._kernels import codes, fenwick
from online_rank._kernels._jit import inner, kernel
from online_rank._kernels.fits import require, require_offsets
from online_rank._kernels.graded import discount, gain, ideal_sum
from online_rank._kernels.order import shortlist, sort_descending
from online_rank._kernels.workspace import longest_query

_LOWEST = -np.finfo(np.float64).max


@kernel
def metric_values(kind, k, threshold, ties, scores, grades, offsets, gains, discounts, out):
    """Write the value of one metric for every query of a block to `out`; NaN where a query has no relevant document.

    Parameters
    ----------
    kind, k, threshold, ties
        Code of the metric, cutoff (0 for none; ignored by `LINEAR_NDCG` and `PAIRWISE_ACCURACY`), smallest grade that counts as
        relevant (for the binary metrics), code of the tie policy.
    scores, grades
        Float array and int64 array over the documents of the block. A document with score -inf was not retrieved: it has no
        position (in `LINEAR_NDCG` and `PAIRWISE_ACCURACY` it comes last).
    offsets
        Query q holds the documents `offsets[q]:offsets[q + 1]`.
    gains
        The gain of every accepted grade 0, 1, ...; for `ERR` the probability that a document of that grade satisfies.
    discounts
        D(p) of the positions p = 1, 2, ...; at least as many as the longest query has documents, or as `k`.
    out
        Float64 array, one value a query.

    Returns
    -------
    The number of queries done: smaller than the number given if the next one has a score NaN or +inf, or a grade without gain.
    """
    return _values(kind, k, threshold, ties, scores, grades, offsets, gains, discounts, out, True)


@kernel
def cumulative_gains(kind, k, threshold, ties, scores, grades, offsets, gains, discounts, out):
    """As `metric_values`, for `NDCG` and `DCG` alone, which compile in half the time."""
    return _values(kind, k, threshold, ties, scores, grades, offsets, gains, discounts, out, None)


class _Ranked(NamedTuple):
    """A query as `_order` has sorted it: scores s and grades g of the best n of its m documents, `counts` of each grade."""

    s: np.ndarray
    g: np.ndarray
    n: int
    m: int
    cutoff: int
    relevant: int
    largest: int
    counts: np.ndarray


@inner
def _values(kind, k, threshold, ties, scores, grades, offsets, gains, discounts, out, all_kinds):
    """The body of `metric_values`. If `all_kinds` is None, `kind` is NDCG or DCG, and no others are compiled."""
    longest = longest_query(offsets)
    s, g = np.empty(longest, scores.dtype), np.empty(longest, np.int64)
    s_spare, g_spare = np.empty(longest, scores.dtype), np.empty(longest, np.int64)
    counts = np.zeros(len(gains), np.int64)

    require_offsets(offsets, min(len(scores), len(grades)))
    require(len(out) >= len(offsets) - 1)
    require(len(discounts) >= (min(k, longest) if k > 0 else longest))
    for q in range(len(offsets) - 1):
        query_scores, query_grades = scores[offsets[q] : offsets[q + 1]], grades[offsets[q] : offsets[q + 1]]
        m = len(query_scores)
        largest = _count_grades(query_scores, query_grades, counts)
        if largest < 0:
            return q
        everyone = kind in (codes.LINEAR_NDCG, codes.PAIRWISE_ACCURACY)
        cutoff = min(k, m) if k > 0 and not everyone else m
        relevant = 0
        for grade in range(max(threshold, 1), largest + 1):
            relevant += counts[grade]
        value = np.nan
        if relevant > 0:
            n = _order(query_scores, query_grades, ties, cutoff, everyone, s, g, s_spare, g_spare)
            ranked = _Ranked(s, g, n, m, cutoff, relevant, largest, counts)
            if all_kinds is None:
                value = _cumulative_gain(kind, ties, ranked, gains, discounts)
            else:
                value = _value(kind, k, threshold, ties, ranked, gains, discounts)
            # Rounding must not lift a value above the best possible one; NaN passes.
            if value > 1.0 and kind != codes.DCG:
                value = 1.0
        out[q] = value
        for grade in range(largest + 1):
            counts[grade] = 0
    return len(offsets) - 1


@inner
def _value(kind, k, threshold, ties, ranked, gains, discounts):
    if kind in (codes.NDCG, codes.DCG):
        return _cumulative_gain(kind, ties, ranked, gains, discounts)
    if kind == codes.ERR:
        return _err(ranked.g, min(ranked.n, ranked.cutoff), gains)
    if kind == codes.PAIRWISE_ACCURACY:
        return _pairwise_accuracy(ties, ranked)
    if kind not in (
        codes.LINEAR_NDCG, codes.AP, codes.AP_ATTAINABLE, codes.RECALL, codes.PRECISION, codes.HIT_RATE, codes.RECIPROCAL_RANK,
    ):  # fmt: skip
        # Another sum of gain times discount.
        return _cumulative_gain(kind, ties, ranked, _own_gains(kind, ranked.largest), discounts)
    total = _over_groups(kind, threshold, ties, ranked)
    if kind in (codes.AP, codes.RECALL):
        return total / ranked.relevant
    if kind == codes.AP_ATTAINABLE:
        return total / min(ranked.relevant, ranked.cutoff)
    if kind == codes.PRECISION:
        return total / (k if k > 0 else ranked.m)
    if kind == codes.LINEAR_NDCG:
        m, levels = ranked.m, ranked.largest + 1
        ideal = ideal_sum(kind, m, m, levels, _own_gains(kind, ranked.largest), ranked.counts, discounts)
        # Undefined for a single document.
        return total / ideal if ideal > 0.0 else np.nan
    return total


@kernel
def ideal_value(kind, k, threshold, grades, gains, discounts):
    """The divisor of a measure to learn for: the sum for an ideal ranking of `grades`; -1 for a bad grade."""
    counts = np.zeros(len(gains), np.int64)
    m = len(grades)
    largest = _count_grades(np.zeros(m), grades, counts)
    if largest < 0:
        return -1.0
    if kind == codes.AP:
        return np.float64(counts[max(threshold, 1) :].sum())
    own = gains if kind == codes.NDCG else _own_gains(kind, largest)
    return ideal_sum(kind, min(k, m) if k > 0 else m, m, largest + 1, own, counts, discounts)


@inner
def _count_grades(scores, grades, counts):
    """Add the documents of each grade to `counts`; the largest grade (0 for no document), or -1 for a bad score or grade."""
    largest = 0
    for i in range(len(grades)):
        grade = grades[i]
        if grade < 0 or grade >= len(counts) or not scores[i] < np.inf:
            return -1
        counts[grade] += 1
        largest = max(largest, grade)
    return largest


@inner
def _order(scores, grades, ties, cutoff, everyone, s, g, s_spare, g_spare):
    """Write the documents at positions 1..cutoff to `s`, `g`, best first, and under expected ties all that tie with the last.

    Documents that were not retrieved are left out unless `everyone`. Returns the number of documents written, which may exceed
    the cutoff.
    """
    # Documents that were not retrieved score less than any number.
    n = shortlist(cutoff, -np.inf if everyone else _LOWEST, scores, grades, s, g)
    sort_descending(s[:n], g[:n], s_spare, g_spare)
    if ties != codes.EXPECTED:
        start = 0
        while start < n:
            end = _group_end(s, start, n, codes.EXPECTED)
            if end - start > 1:
                # Sort the group by grade, which takes the place of the score meanwhile.
                score = s[start]
                for i in range(start, end):
                    s[i] = ties * g[i]
                sort_descending(s[start:end], g[start:end], s_spare, g_spare)
                for i in range(start, end):
                    s[i] = score
            start = end
    return n


@inner
def _group_end(s, start, n, ties):
    """The end of the group of documents that begins at `start`."""
    end = start + 1
    if ties == codes.EXPECTED:
        while end < n and s[end] == s[start]:
            end += 1
    return end


@inner
def _own_gains(kind, largest):
    """The gains of the grades 0..largest in a measure to learn for."""
    gains = np.empty(largest + 1)
    for grade in range(largest + 1):
        gains[grade] = gain(kind, grade)
    return gains


@inner
def _cumulative_gain(kind, ties, ranked, gains, discounts):
    """DCG@cutoff: over positions, D times the mean gain of the group there; for other kinds divided by the best possible."""
    s, g, n, m, cutoff, _, largest, counts = ranked
    total = 0.0
    start = 0
    while start < n and start < cutoff:
        end = _group_end(s, start, n, ties)
        mean = 0.0
        for i in range(start, end):
            mean += gains[g[i]]
        mean /= end - start
        for i in range(start, min(end, cutoff)):
            total += mean * discount(kind, i, m, discounts)
        start = end
    if kind == codes.DCG:
        return total
    ideal = ideal_sum(kind, cutoff, m, largest + 1, gains, counts, discounts)
    return total / ideal if ideal > 0.0 else np.nan


@inner
def _over_groups(kind, threshold, ties, ranked):
    """What the groups of tied documents up to the cutoff contribute to a metric before it is divided by its largest value.

    In a group of n documents, r of them relevant:

    - average precision: each position holds a relevant one with probability r/n; given that, the p - 1 positions of the group
      before it hold (p - 1)(r - 1)/(n - 1) others on average. So much for the precision at relevant documents;
    - precision and recall: a position holds r/n relevant ones;
    - reciprocal rank: the first relevant one is the p-th with probability C(n - p, r - 1) / C(n, r). No later group counts;
    - hit rate: the first p are all irrelevant with probability C(n - r, p) / C(n, p). No later group counts;
    - linear NDCG: sum_i r_i (n - position_i), a group at its mean position.
    """
    s, g, n, cutoff = ranked.s, ranked.g, ranked.n, ranked.cutoff
    total, above, start = 0.0, 0, 0
    while start < n and start < cutoff:
        end = _group_end(s, start, n, ties)
        size, counted = end - start, min(end, cutoff) - start
        relevant, grades = 0, 0
        for i in range(start, end):
            relevant += g[i] >= threshold
            grades += g[i]
        probability = relevant / size
        if kind == codes.LINEAR_NDCG:
            total += grades * (n - 0.5 * (start + 1 + end))
        elif kind in (codes.PRECISION, codes.RECALL):
            total += relevant * (counted / size)
        elif relevant > 0 and kind == codes.RECIPROCAL_RANK:
            for p in range(counted):
                total += probability / (start + p + 1)
                if p + 1 < size:
                    probability *= (size - p - relevant) / (size - p - 1)
            return total
        elif relevant > 0 and kind == codes.HIT_RATE:
            missed = 1.0
            for p in range(counted):
                missed *= max(0, size - relevant - p) / (size - p)
            return 1.0 - missed
        elif relevant > 0:
            others = (relevant - 1) / (size - 1) if size > 1 else 0.0
            for p in range(counted):
                total += probability * (above + 1 + p * others) / (start + p + 1)
        above += relevant
        start = end
    return total


@inner
def _err(g, n, gains):
    """sum_p 1/p P(p satisfies) prod of P(none before it did)."""
    total = 0.0
    unsatisfied = 1.0
    for i in range(n):
        total += unsatisfied * gains[g[i]] / (i + 1)
        unsatisfied *= 1.0 - gains[g[i]]
    return total


@inner
def _pairwise_accuracy(ties, ranked):
    """The share of pairs of different grades that are ordered correctly; NaN without such pairs.

    Walks down the ranking with a Fenwick tree of the grades above: O(n log largest).
    """
    s, g, n, largest, counts = ranked.s, ranked.g, ranked.n, ranked.largest, ranked.counts
    pairs = n * n
    for grade in range(largest + 1):
        pairs -= counts[grade] * counts[grade]
    if pairs == 0:
        return np.nan
    tree, in_group = np.zeros(largest + 2, np.int64), np.zeros(largest + 1, np.int64)
    halves = 0
    start = 0
    while start < n:
        end = _group_end(s, start, n, ties)
        for i in range(start, end):
            # Documents above, in earlier groups, with a higher grade: all above minus those up to this grade.
            halves += 2 * (start - fenwick.sum_before(tree, g[i] + 1))
        for i in range(start, end):
            # Pairs of different grades within the group count half.
            halves += i - start - in_group[g[i]]
            in_group[g[i]] += 1
            fenwick.add(tree, g[i], 1)
        for i in range(start, end):
            in_group[g[i]] = 0
        start = end
    # `pairs` counts every pair twice, `halves` in halves.
    return halves / pairs
