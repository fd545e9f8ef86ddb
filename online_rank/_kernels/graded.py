"""The grades of a query, and the loss of its ranking."""

import math
from typing import NamedTuple

import numpy as np

from online_rank._kernels import workspace as at
from online_rank._kernels._jit import inlined, inner, kernel, leaf
from online_rank._kernels.arrays import all_finite
from online_rank._kernels.codes import AP, LINEAR_NDCG, MAX_GRADE, NDCG
from online_rank._kernels.fits import require, require_offsets
from online_rank._kernels.order import shortlist, sort_descending
from online_rank._kernels.workspace import longest_query, workspace


class Target(NamedTuple):
    """The measure to learn for: `kind`, `cutoff` (0 for none), `threshold` of relevance, and the table of D(p)."""

    kind: int
    cutoff: int
    threshold: int
    discounts: np.ndarray


class Graded(NamedTuple):
    """The grades of one query by *level*: its distinct grades, numbered from the lowest, 0, to the highest.

    Below two levels nothing can be learned, and `depth` and `ideal` are 0; -1 levels stand for a grade that is out of range.

    Attributes
    ----------
    levels : number of levels
    level : (m,) level of each document
    grade, gain, size : (at least levels,) grade of each level, its gain G, and the number of its documents
    depth : number of positions that count in the measure
    ideal : Z(R), the best attainable sum of G D; 1 for average precision
    """

    levels: int
    level: np.ndarray
    grade: np.ndarray
    gain: np.ndarray
    size: np.ndarray
    depth: int
    ideal: float


@inner
def grade_query(target, y, work):
    """The grades y (m,) of a query as used by the measure: relevant or not for average precision."""
    levels, depth, ideal = find_grades(target, y, work)
    return graded_of(y.shape[0], levels, depth, ideal, work)


@inlined
def graded_of(m, levels, depth, ideal, work):
    """What `find_grades` found; a leaf, which may return no array, makes it for itself."""
    integers = work.integers
    return Graded(
        levels, integers[at.LEVEL, :m], integers[at.GRADE], work.reals[at.GAIN], integers[at.COUNT], depth, ideal
    )  # fmt: skip


@leaf
def find_grades(target, y, work):
    """Write the arrays of the `Graded` of grades y (m,) to `work`. Returns its numbers: levels, depth and ideal."""
    m = y.shape[0]
    level, grade, count = work.integers[at.LEVEL, :m], work.integers[at.GRADE], work.integers[at.COUNT]
    gains = work.reals[at.GAIN]
    levels = _number_levels(y, target.kind, target.threshold, level, grade, count, work.table)
    if levels < 2:
        return levels, 0, 0.0
    for lev in range(levels):
        gains[lev] = gain(target.kind, grade[lev])
    depth = min(target.cutoff, m) if target.cutoff > 0 else m
    ideal = ideal_sum(target.kind, depth, m, levels, gains, count, target.discounts) if target.kind != AP else 1.0
    return levels, depth, ideal


@leaf
def _number_levels(y, kind, threshold, level, grade, count, table):
    """Write level, grade and count of `Graded`. Returns the number of levels; -1 when a grade is out of range."""
    m = y.shape[0]
    lowest = 0
    highest = 0
    for i in range(m):
        lowest = min(lowest, y[i])
        highest = max(highest, y[i])
    if lowest < 0 or highest > MAX_GRADE:
        return -1
    for i in range(m):
        level[i] = y[i] if kind != AP else np.int64(y[i] >= threshold)
    if kind == AP:
        highest = 1
    table[: highest + 1] = 0
    for i in range(m):
        table[level[i]] += 1
    levels = 0
    for g in range(highest + 1):
        if table[g] > 0:
            grade[levels] = g
            count[levels] = table[g]
            table[g] = levels
            levels += 1
    for i in range(m):
        level[i] = table[level[i]]
    return levels


@leaf
def gain(kind, grade):
    """G(r) = 2^r - 1; r itself for linear NDCG and (binary) average precision."""
    if kind == NDCG:
        # A shift if it is exact, since `ldexp` is a function call.
        return np.float64((1 << grade) - 1) if grade < 53 else math.ldexp(1.0, int(grade)) - 1.0
    return np.float64(grade)


@leaf
def discount(kind, position, m, discounts):
    """D(p) = 1 / log2(p + 1) at the 0-based position p - 1; m - p for linear NDCG."""
    if kind == LINEAR_NDCG:
        return np.float64(m - 1 - position)
    return discounts[position]


@leaf
def ideal_sum(kind, depth, m, levels, gains, count, discounts):
    """Z(R): the best attainable sum of G D over the first `depth` positions, from the gain and number of each level."""
    total = 0.0
    position = 0
    for lev in range(levels - 1, -1, -1):
        for _ in range(count[lev]):
            if position == depth:
                return total
            total += gains[lev] * discount(kind, position, m, discounts)
            position += 1
    return total


@leaf
def rank_pessimistically(s, graded, depth, order, work):
    """Rank documents by score, equal scores by ascending grade, then by document order.

    Writes the first `depth` documents to `order` (m,); the rest of it is undefined.
    """
    m = s.shape[0]
    keys, spare_keys, spare_items = work.reals[at.KEYS], work.reals[at.SPARE_KEYS], work.integers[at.SPARE_ITEMS]
    for i in range(m):
        spare_items[i] = i
    n = shortlist(depth, -np.inf, s, spare_items, keys, order)
    if n < depth:
        # NaN scores, from which no ranker learns, come last.
        n = m
        for i in range(m):
            keys[i], order[i] = s[i] if s[i] > -np.inf else -np.inf, i
    sort_descending(keys[:n], order[:n], spare_keys, spare_items)
    first = 0
    while first < depth:
        end = first + 1
        while end < n and keys[end] == keys[first]:
            end += 1
        if end - first > 1:
            # Among equals the level takes the place of the score.
            for p in range(first, end):
                keys[p] = -graded.level[order[p]]
            sort_descending(keys[first:end], order[first:end], spare_keys, spare_items)
        first = end


@leaf
def list_by_level(graded, start, listed):
    """List documents by ascending level, to `listed` (m,); `start` (levels + 1,) receives the beginning of each level."""
    level, levels = graded.level, graded.levels
    start[0] = 0
    for lev in range(levels):
        start[lev + 1] = start[lev] + graded.size[lev]
    for i in range(level.shape[0]):
        listed[start[level[i]]] = i
        start[level[i]] += 1
    for lev in range(levels, 0, -1):
        start[lev] = start[lev - 1]
    start[0] = 0


@leaf
def ranking_loss(target, graded, order):
    """RML: 1 - NDCG, 1 - NDCG@k, 1 - AP or 1 - linear NDCG of a ranking; exactly 0 for every ideal ranking.

    Summed as the differences from the ideal ranking, position by position, so that nothing cancels.
    """
    level, gains, count = graded.level, graded.gain, graded.size
    m = level.shape[0]
    loss = 0.0
    if target.kind == AP:
        found = 0
        for p in range(m):
            if level[order[p]] == 1:
                found += 1
                loss += (p + 1 - found) / (p + 1)
        return loss / count[1]
    ideal_level = graded.levels - 1
    left = count[ideal_level]
    for p in range(graded.depth):
        if left == 0:
            ideal_level -= 1
            left = count[ideal_level]
        left -= 1
        here = level[order[p]]
        if here != ideal_level:
            loss += (gains[ideal_level] - gains[here]) * discount(target.kind, p, m, target.discounts)
    return max(loss, 0.0) / graded.ideal


@kernel
def ranking_losses(kind, cutoff, threshold, scores, y, offsets, discounts, out):
    """Pessimistic loss of each query of a block, to `out` (q,): 0 if nothing can be lost, 1 if a score is not finite.

    `discounts` (>= largest m,) is the table of D(p).
    """
    require_offsets(offsets, min(scores.shape[0], y.shape[0]))
    require(out.shape[0] >= offsets.shape[0] - 1 and discounts.shape[0] >= longest_query(offsets))
    target = Target(kind, cutoff, threshold, discounts)
    work = workspace(longest_query(offsets))
    for q in range(offsets.shape[0] - 1):
        s = scores[offsets[q] : offsets[q + 1]]
        graded = grade_query(target, y[offsets[q] : offsets[q + 1]], work)
        out[q] = 0.0
        if graded.levels > 1:
            order = work.integers[at.ORDER, : s.shape[0]]
            rank_pessimistically(s, graded, graded.depth, order, work)
            out[q] = ranking_loss(target, graded, order) if all_finite(s) else 1.0


@kernel
def judge_rankings(kind, cutoff, threshold, S, y, discounts, losses):
    """losses[k] = 1 - measure of the ranking by S[k], ties broken pessimistically.

    Parameters
    ----------
    kind, cutoff, threshold : the measure
    S : (K, m) scores, finite
    y : (m,) int64 grades
    discounts : (>= m,) table of D(p)
    losses : (K,) out; 0 if nothing can be ranked wrongly

    Returns
    -------
    Number of levels of grades: -1 when a grade is out of range, below 2 when nothing can be learned.
    """
    require(S.shape[1] == y.shape[0] <= discounts.shape[0] and losses.shape[0] >= S.shape[0])
    m = y.shape[0]
    target = Target(kind, cutoff, threshold, discounts)
    work = workspace(m)
    losses[:] = 0.0
    graded = grade_query(target, y, work)
    if graded.levels < 2:
        return graded.levels
    order = work.integers[at.ORDER, :m]
    for k in range(S.shape[0]):
        rank_pessimistically(S[k], graded, graded.depth, order, work)
        losses[k] = ranking_loss(target, graded, order)
    return graded.levels
