"""Measurements of a perceptron while it learns a block: the losses of comparators, and its answers.

Nothing here affects learning. Everything is read from the pass that scores a query, and from the credit that its update leaves
in the workspace.
"""

from typing import NamedTuple

import numpy as np

from online_rank._kernels import workspace as at
from online_rank._kernels._jit import leaf
from online_rank._kernels.best_violators import keys_of, slam_loss
from online_rank._kernels.credit import hinge, prepare_hinges
from online_rank._kernels.dense import score, score_with_norms
from online_rank._kernels.sort_credit import Moved


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


@leaf
def score_under_watch(watch, X, first, m, w, average, s):
    """As `dense.score_with_norms` of a query of m documents, the first of which is `first` of the block X.

    The scores by the comparators are written too, and the answer: the scores by the weights that serve, the average if there is
    one.
    """
    documents = X[first : first + m]
    largest, norms = score_with_norms(documents, w, s)
    for c in range(watch.comparators.shape[0]):
        score(documents, watch.comparators[c], watch.scores[c, :m])
    if watch.answers.shape[0] > 0:
        asked, answers = watch.asked[first : first + m], watch.answers[first : first + m]
        if average.shape[0] > 0:
            score(asked, average, answers)
        else:
            score(asked, w, answers)
    return largest, norms


@leaf
def compare_round(update, scores, weight, work, out):
    """Losses of comparators on the pairs of an `Update`, whose credit is in `work`, to `out` (c, 2).

    They are F(u) = sum of a_ij hinge_ij(u), and f(u) = weight phi_v; infinity for overflow. The hinge of a pair (i, j) with
    R_i > R_j is max(0, 1 + k_j - k_i), with keys k = u-scores. `scores` (c, at least m) has the u-scores.
    """
    graded, v = update.graded, update.v
    m = v.shape[0]
    k = work.reals[at.LISTED_SCORES, :m]
    pairs = prepare_hinges(update, work)
    preferred = work.integers[at.PREFERRED, : pairs[0]]
    for c in range(out.shape[0]):
        finite = keys_of(scores[c], graded, 0.0, k, work.reals[at.TERMS, :m])
        out[c, 0] = hinge(update, pairs, k, work) if finite else np.inf
        out[c, 1] = weight * slam_loss(graded, v, preferred, k, 1.0, work.reals[at.KEYS]) if finite else np.inf
