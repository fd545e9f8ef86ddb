"""Algorithm 1 of [CT]: online subgradient descent on SLAM, in the rounds whose ranking loss is positive."""

import math
from typing import NamedTuple

import numpy as np

from online_rank._kernels import features
from online_rank._kernels import workspace as at
from online_rank._kernels._jit import inner, kernel, leaf
from online_rank._kernels.arrays import all_finite
from online_rank._kernels.best_violators import argmax_credit, hinge_on_best, keys_of, margin_keys, slam_loss
from online_rank._kernels.codes import DOCUMENTS, TIGHT
from online_rank._kernels.fits import require, require_block
from online_rank._kernels.graded import Target, grade_query, rank_pessimistically, ranking_loss
from online_rank._kernels.rounds import write_round
from online_rank._kernels.spread_credit import list_preferred
from online_rank._kernels.weight_vectors import weigh_documents
from online_rank._kernels.workspace import longest_query, workspace


class Rule(NamedTuple):
    """The settings of `SlamRanker`."""

    within_grade: int
    by_gap: int
    step: float
    margin: float


@inner
def settings(config, discounts):
    """The `Target` and the `Rule` of `learn`."""
    require(config.shape[0] == 7)
    kind, cutoff, threshold, within_grade, by_gap, step, margin = config
    return Target(int(kind), int(cutoff), int(threshold), discounts), Rule(int(within_grade), int(by_gap), step, margin)


@leaf
def descend(target, rule, graded, s, weight, work):
    """Write what the weights gain from each document of a query with scores s (m,) to the row CREDIT of `work`.

    Returns the loss, the mass, v_max, and the number of documents listed in the row PREFERRED. Without a loss the row is
    unchanged, and nothing is listed.
    """
    m = s.shape[0]
    order, v, c = work.integers[at.ORDER, :m], work.reals[at.WEIGHTS, :m], work.reals[at.CREDIT, :m]
    rank_pessimistically(s, graded, m if rule.within_grade == TIGHT else graded.depth, order, work)
    loss = ranking_loss(target, graded, order)
    v_max = weigh_documents(target, graded, rule.within_grade, order, work, v)
    if loss == 0.0:
        return loss, 0.0, v_max, 0
    n = list_preferred(graded.level, v, work.integers[at.PREFERRED])
    keys, offset = margin_keys(rule.margin, rule.by_gap, graded, s, work)
    c[:] = 0.0
    mass = argmax_credit(
        graded, v, keys, offset, True, work.integers[at.PREFERRED, :n], work.integers[at.BEST], work.reals[at.BARS], c
    )  # fmt: skip
    for i in range(m):
        c[i] *= weight
    return loss, weight * mass, v_max, n


@kernel
def learn(X, y, offsets, weights, discounts, config, w, average, counters, rounds):
    """Learn from a block of queries.

    Parameters
    ----------
    X, y, offsets, weights, discounts, w, rounds : as for `perceptron.learn`
    config : float64 array: measure kind, cutoff, threshold, within grade, margin by gap?, step size, margin Delta
    average : (0,), or False for `sparse.Rows`: the learning weights serve
    counters : (> DOCUMENTS,) float64, changed in place

    Returns
    -------
    Number of queries learned, as `perceptron.learn`.
    """
    require_block(features.n_documents(X), y, offsets, weights, discounts, rounds)
    require(counters.shape[0] > DOCUMENTS)
    learner = features.learner_of(X, w, average, None, 0, offsets)
    target, rule = settings(config, discounts)
    work = workspace(longest_query(offsets))
    for q in range(weights.shape[0]):
        first, weight = offsets[q], weights[q]
        m = offsets[q + 1] - first
        documents, s, c = features.query_of(X, first, m), work.reals[at.SCORES, :m], work.reals[at.CREDIT, :m]
        largest, norms = features.score_with_norms(documents, w, s)
        graded = grade_query(target, y[first : first + m], work)
        if not (graded.levels >= 0 and math.isfinite(norms) and all_finite(s) and weight >= 0.0 and math.isfinite(weight)):
            return q
        if graded.levels < 2:
            write_round(rounds[q], 0.0, 0.0, 0.0, 0.0, weight, m, largest, 0.0, True)
            continue
        loss, mass, v_max, _ = descend(target, rule, graded, s, weight, work)
        square = 0.0
        if loss > 0.0:
            n, square, _ = features.combine(documents, learner, c, None, work.integers[at.SPARE_ITEMS])
            finite = math.isfinite(square) and math.isfinite(mass)
            if not (finite and features.add(learner, n, rule.step, square, 1.0, counters)):
                return q
        counters[DOCUMENTS] += m
        write_round(rounds[q], loss, mass, square, rule.margin, weight, m, largest, v_max, False)
    return weights.shape[0]


@kernel
def compare(y, s, weight, scores, discounts, config, out):
    """Losses of comparators in a round with an update; its pairs are found again.

    Parameters
    ----------
    y : (m,) grades of the query
    s : (m,) scores by the weights that learned
    weight : sample weight of the round
    scores : (n, m) scores by the comparators
    discounts, config : as `learn` takes them
    out : (n, 2) out: F(u) = sum of a_ij hinge_ij(u), and f(u) = weight phi_v; infinity for overflow
    """
    m = s.shape[0]
    require(y.shape[0] == m == scores.shape[1] and discounts.shape[0] >= m)
    require(out.shape[0] == scores.shape[0] and out.shape[1] == 2)
    target, rule = settings(config, discounts)
    work = workspace(m)
    graded = grade_query(target, y, work)
    _, _, _, n = descend(target, rule, graded, s, weight, work)
    keys, offset = margin_keys(rule.margin, rule.by_gap, graded, s, work)
    gap = rule.margin - offset
    v, k, preferred, best = (
        work.reals[at.WEIGHTS, :m], work.reals[at.LISTED_SCORES, :m], work.integers[at.PREFERRED, :n], work.integers[at.BEST],
    )  # fmt: skip
    for row in range(out.shape[0]):
        if not keys_of(scores[row], graded, gap, k, work.reals[at.TERMS, :m]):
            out[row] = np.inf
            continue
        out[row, 0] = weight * hinge_on_best(graded, v, keys, offset, True, preferred, best, k, offset)
        out[row, 1] = weight * slam_loss(graded, v, preferred, k, offset, work.reals[at.KEYS])
