"""Measurements of a perceptron while it learns a block: the losses of comparators, and its answers.

Nothing here affects learning. Everything is read from the pass that scores a query, and from the credit that its update leaves
in the workspace.
"""

from typing import NamedTuple

import numpy as np

from online_rank._kernels._jit import inner, leaf
from online_rank._kernels.credit import Update, hinges, prepare_hinges, room_for_pairs
from online_rank._kernels.dense import score, score_rows_by_all, score_with_norms
from online_rank._kernels.primitives import lane_sum
from online_rank._kernels.sort_credit import Moved
from online_rank._kernels.workspace import KEYS, LISTED_GRADIENT, LISTED_SCORES, PREFERRED, SPARE_KEYS, TERMS, WEIGHTS

# Features of the documents that are scored at a time, so that they stay in the first cache; rows are taken by fours.
_AT_ONCE = 2048


class Watch(NamedTuple):
    """The comparators, and the arrays for the results.

    `comparators` (c, d) are their weights; `values` (q, c, 2) receives F(u) and f(u) of each round (`compare_round`). `asked`
    (n, d) has the documents as they were served, and `answers` (n,) receives their scores by the weights that serve, before the
    query is learned; both are empty if answers are not measured. `gained` (d,) is the sum of all updates, or empty. `scores`
    (c, longest) and `moved` are workspace.
    """

    comparators: np.ndarray
    values: np.ndarray
    asked: np.ndarray
    answers: np.ndarray
    gained: np.ndarray
    scores: np.ndarray
    moved: Moved


class Watched(NamedTuple):
    """What Python asks to be measured: the first five fields of `Watch`."""

    comparators: np.ndarray
    values: np.ndarray
    asked: np.ndarray
    answers: np.ndarray
    gained: np.ndarray


@inner
def watch_of(watched, longest):
    """A `Watch` of queries of up to `longest` documents."""
    comparators, values, asked, answers, gained = watched
    n = comparators.shape[0]
    return Watch(comparators, values, asked, answers, gained, np.empty((n, longest)), room_for_pairs(longest if n > 0 else 0))


@leaf
def add_up_updates(watch, step, z):
    """Add an update of the weights, before they are shortened, to the sum of updates; nothing if it is an array (0,)."""
    for j in range(watch.gained.shape[0]):
        watch.gained[j] += step * z[j]


@leaf
def score_under_watch(watch, X, first, m, w, average, s):
    """As `dense.score_with_norms` of a query of m documents, the first of which is `first` of the block X.

    The scores by the comparators are written too, while the documents are in the cache, and the answer: the scores by the
    weights that serve, the average if there is one.
    """
    compares = watch.comparators.shape[0] > 0
    rows = max(4, _AT_ONCE // (X.shape[1] + 1) // 4 * 4) if compares else m
    documents = X[first : first + m]
    largest, norms = 0.0, 0.0
    for start in range(0, m, max(rows, 1)):
        stop = min(start + rows, m)
        most, total = score_with_norms(documents[start:stop], w, s[start:stop])
        largest = max(largest, most)
        norms += total
        if compares:
            score_rows_by_all(documents, start, stop, watch.comparators, watch.scores)
    if watch.answers.shape[0] > 0:
        asked, answers = watch.asked[first : first + m], watch.answers[first : first + m]
        if average.shape[0] > 0:
            score(asked, average, answers)
        else:
            score(asked, w, answers)
    return largest, norms


@leaf
def compare_round(scores, moved, target, rule, graded, violated, weight, scale, of_spread, work, out, all_forms):
    """Losses of comparators on the pairs of a round's update, to `out` (c, 2).

    They are F(u) = sum of a_ij hinge_ij(u), and f(u) = weight phi_v; infinity for overflow. With keys k = u-scores
    (s - Delta R for a margin that grows with the grade gap, and margin 0), the hinge of a pair (i, j) with R_i > R_j is
    max(0, margin + k_j - k_i). `scores` (c, at least m) has the u-scores; `moved`, `scale` and `of_spread` are as in
    `credit.Update`, and `all_forms` as for `credit.assign_credit`.
    """
    m = graded.level.shape[0]
    v, k, other = work.reals[WEIGHTS, :m], work.reals[LISTED_SCORES, :m], work.reals[LISTED_GRADIENT, :m]
    margin = 0.0 if rule.by_gap else rule.margin
    update = Update(rule.credit, target, graded, v, violated, scale, of_spread, moved)
    pairs = prepare_hinges(update, work, all_forms)
    preferred = work.integers[PREFERRED, : pairs.preferred]
    # Two at a time; the last of an odd number beside itself.
    for first in range(0, out.shape[0], 2):
        second = min(first + 1, out.shape[0] - 1)
        finite = _keys_of(rule, graded, scores[first], k, work.reals[TERMS, :m])
        other_finite = _keys_of(rule, graded, scores[second], other, work.reals[TERMS, :m])
        hinge, other_hinge = hinges(update, pairs, k, other, second > first, margin, work, all_forms)
        loss, other_loss = _slam_losses(graded, v, preferred, k, other, margin, work.reals[KEYS], work.reals[SPARE_KEYS])
        if second > first:
            out[second, 0] = other_hinge if other_finite else np.inf
            out[second, 1] = weight * other_loss if other_finite else np.inf
        out[first, 0] = hinge if finite else np.inf
        out[first, 1] = weight * loss if finite else np.inf


@leaf
def _keys_of(rule, graded, scores, k, terms):
    """Write a comparator's keys (m,): its scores minus that of the first document, which cancels in every pair.

    Returns whether they are finite; if not, they are zeros. `terms` (m,) is workspace.
    """
    own = scores[0]
    for i in range(k.shape[0]):
        k[i] = scores[i] - own
    if rule.by_gap:
        for i in range(k.shape[0]):
            k[i] -= rule.margin * graded.grade[graded.level[i]]
    # NaN unless it is finite.
    for i in range(k.shape[0]):
        terms[i] = k[i] - k[i]
    if lane_sum(terms) == 0.0:
        return True
    k[:] = 0.0
    return False


@leaf
def _slam_losses(graded, v, preferred, k, other, margin, best, other_best):
    """phi_v = sum of v_i max(0, margin + max over less relevant j of k_j - k_i) [CT, eq. 3], of two comparators. O(m + L).

    `preferred` has all documents above the lowest grade with v_i > 0; `best` and `other_best` (levels,) are workspace.
    """
    level, levels = graded.level, graded.levels
    for lev in range(levels):
        best[lev], other_best[lev] = -np.inf, -np.inf
    for i in range(k.shape[0]):
        lev = level[i]
        best[lev] = max(best[lev], k[i])
        other_best[lev] = max(other_best[lev], other[i])
    for lev in range(1, levels):
        best[lev] = max(best[lev], best[lev - 1])
        other_best[lev] = max(other_best[lev], other_best[lev - 1])
    total, other_total = 0.0, 0.0
    for i in preferred:
        below = level[i] - 1
        total += v[i] * max(0.0, margin + best[below] - k[i])
        other_total += v[i] * max(0.0, margin + other_best[below] - other[i])
    return total, other_total
