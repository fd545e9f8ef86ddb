"""Measurements of a perceptron while it learns a block: the losses of comparators, and its answers.

Nothing here affects learning. Everything is read from the pass that scores a query, and from the credit that its update leaves
in the workspace.
"""

import math
from typing import NamedTuple

import numpy as np

from online_rank._kernels._jit import inner, leaf
from online_rank._kernels.credit import hinges, prepare_hinges, room_for_pairs
from online_rank._kernels.dense import score
from online_rank._kernels.sort_credit import Moved
from online_rank._kernels.workspace import KEYS, LISTED_SCORES, PREFERRED, WEIGHTS


class Watch(NamedTuple):
    """The comparators, and the arrays for the results.

    `comparators` (c, d) are their weights; `values` (q, c, 2) receives F(u) and f(u) of each round (`compare_round`). `asked`
    (n, d) has the documents as they were served, and `answers` (n,) receives their scores by the weights that serve, before the
    query is learned; both are empty if answers are not measured. `scores` (c, longest) and `moved` are workspace.
    """

    comparators: np.ndarray
    values: np.ndarray
    asked: np.ndarray
    answers: np.ndarray
    scores: np.ndarray
    moved: Moved


@inner
def watch_of(comparators, values, asked, answers, longest):
    """A `Watch` of queries of up to `longest` documents."""
    n = comparators.shape[0]
    return Watch(comparators, values, asked, answers, np.empty((n, longest)), room_for_pairs(longest if n > 0 else 0))


@leaf
def answer(watch, first, m, served):
    """Write the scores of a query of m documents, the first of which is `first` of the block, by the weights that serve it."""
    if watch.answers.shape[0] > 0:
        score(watch.asked[first : first + m], served, watch.answers[first : first + m])


@leaf
def score_comparators(watch, X):
    """Write the scores of documents (m, d) by the comparators."""
    for c in range(watch.comparators.shape[0]):
        score(X, watch.comparators[c], watch.scores[c, : X.shape[0]])


@leaf
def compare_round(scores, moved, target, rule, graded, violated, weight, scale, of_spread, work, out):
    """Losses of comparators on the pairs of a round's update, to `out` (c, 2).

    They are F(u) = sum of a_ij hinge_ij(u), and f(u) = weight phi_v; infinity for overflow. With keys k = u-scores
    (s - Delta R for a margin that grows with the grade gap, and margin 0), the hinge of a pair (i, j) with R_i > R_j is
    max(0, margin + k_j - k_i). `scores` (c, at least m) has the u-scores; `moved`, `scale` and `of_spread` are as for
    `credit.hinges`.
    """
    m = graded.level.shape[0]
    v, k = work.reals[WEIGHTS, :m], work.reals[LISTED_SCORES, :m]
    margin = 0.0 if rule.by_gap else rule.margin
    pairs = prepare_hinges(rule.credit, graded, v, violated, moved, work)
    for n in range(out.shape[0]):
        out[n, 0], out[n, 1] = np.inf, np.inf
        if not _keys_of(rule, graded, scores[n], k):
            continue
        out[n, 0] = hinges(rule.credit, target, graded, v, violated, pairs, moved, of_spread, scale, k, margin, work)
        out[n, 1] = weight * _slam_loss(graded, v, work.integers[PREFERRED, : pairs.preferred], k, margin, work.reals[KEYS])


@leaf
def _keys_of(rule, graded, scores, k):
    """Write a comparator's keys (m,): its scores minus that of the first document, which cancels in every pair.

    Returns whether they are finite.
    """
    finite = True
    for i in range(k.shape[0]):
        k[i] = scores[i] - scores[0]
        if rule.by_gap:
            k[i] -= rule.margin * graded.grade[graded.level[i]]
        finite &= math.isfinite(k[i])
    return finite


@leaf
def _slam_loss(graded, v, preferred, k, margin, best):
    """phi_v = sum of v_i max(0, margin + max over less relevant j of k_j - k_i) [CT, eq. 3]. O(m + L).

    `preferred` has all documents above the lowest grade with v_i > 0; `best` (levels,) is workspace.
    """
    level, levels = graded.level, graded.levels
    best[:levels] = -np.inf
    for i in range(k.shape[0]):
        best[level[i]] = max(best[level[i]], k[i])
    for lev in range(1, levels):
        best[lev] = max(best[lev], best[lev - 1])
    total = 0.0
    for i in preferred:
        total += v[i] * max(0.0, margin + best[level[i] - 1] - k[i])
    return total
