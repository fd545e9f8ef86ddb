"""The perceptron for ranking: scores, loss, credit and update of a block of queries in one call.

`learn_one` is this kernel with a block of one query, so that a block gives the same as its queries one by one, bit for bit.
"""

import math
from typing import NamedTuple

import numpy as np

from online_rank._kernels import codes, features
from online_rank._kernels import workspace as at
from online_rank._kernels._jit import inlined, inner, kernel, leaf
from online_rank._kernels.arrays import all_finite, copy_to
from online_rank._kernels.best_violators import keys_of, slam_loss
from online_rank._kernels.credit import Update, assign_credit, hinge, prepare_hinges, room_for_pairs
from online_rank._kernels.fits import require, require_block
from online_rank._kernels.graded import Target, grade_query, rank_pessimistically, ranking_loss
from online_rank._kernels.rounds import write_round
from online_rank._kernels.weight_vectors import weigh_by_level
from online_rank._kernels.workspace import longest_query, workspace


class Rule(NamedTuple):
    """The update rule of a perceptron: the settings of `PerceptronRanker`."""

    credit: int
    mass: int
    relative_margin: float
    decay: float
    cap: float
    by_average: float


@inlined
def judge(target, graded, s, v, work):
    """Rank a query by its scores s (m,) and weigh its documents.

    Returns the loss of the ranking, and v_max of the weight vector v (m,).
    """
    order = work.integers[at.ORDER, : s.shape[0]]
    rank_pessimistically(s, graded, graded.depth, order, work)
    loss = ranking_loss(target, graded, order)
    return loss, weigh_by_level(target, graded, work, v)


@inner
def settings(config, discounts):
    """The `Target` and the `Rule` of a perceptron."""
    require(config.shape[0] == 9)
    kind, cutoff, threshold, credit, mass, relative_margin, decay, cap, by_average = config
    rule = Rule(int(credit), int(mass), relative_margin, decay, cap, by_average)
    return Target(int(kind), int(cutoff), int(threshold), discounts), rule


@leaf
def margin_of(rule, counters):
    """tau of the next round: beta times the sum of ||z||^2 over the sum of V so far."""
    return rule.relative_margin * counters[codes.SQUARES] / counters[codes.MASS] if counters[codes.MASS] > 0.0 else 0.0


@leaf
def respond(target, rule, graded, s, weight, offset, work):
    """Compute the credit of a query with scores s (m,), scaled to its mass, in the row CREDIT of `work`.

    Returns loss, mass, v_max and what the credit was multiplied by. Without a loss the row is unchanged. For ADAPTIVE both
    credits are scaled (see `assign_credit`).
    """
    m = s.shape[0]
    v, c = work.reals[at.WEIGHTS, :m], work.reals[at.CREDIT, :m]
    loss, v_max = judge(target, graded, s, v, work)
    if loss == 0.0:
        return loss, 0.0, v_max, 0.0
    raw_mass = assign_credit(rule.credit, graded, v, s, offset, work, c)
    mass = weight * (loss if rule.mass == codes.LOSS else math.sqrt(loss))
    scale = mass / raw_mass
    for i in range(m):
        c[i] *= scale
    if rule.credit == codes.ADAPTIVE:
        other = work.reals[at.OTHER_CREDIT]
        for i in range(m):
            other[i] *= scale
    return loss, mass, v_max, scale


@leaf
def share_of_spread(square, other_square, mass, counters):
    """lambda of the credit ADAPTIVE, and the sums of the ||z||^2 of its two members at mass 1, including this round.

    The mixture is convex for any lambda, and a convex mixture of members of the mass theorem is a member.
    """
    of_spread = counters[codes.SPREAD_SQUARES] + square / (mass * mass)
    of_sort = counters[codes.SORT_SQUARES] + other_square / (mass * mass)
    # A^-2 / (A^-2 + A'^-2), as a ratio that cannot overflow.
    ratio = of_spread / of_sort if of_sort > 0.0 else 1.0
    return 1.0 / (1.0 + ratio * ratio), of_spread, of_sort


@inlined
def _learn_block(X, y, offsets, weights, discounts, config, w, average, counters, rounds, served, gained):
    """The body of `learn`; `served` and `gained` are for `learn_served`, otherwise None."""
    require_block(features.n_documents(X), y, offsets, weights, discounts, rounds)
    require(counters.shape[0] == codes.N_COUNTERS)
    if served is not None:
        require(served.shape[0] >= y.shape[0])
    learner = features.learner_of(X, w, average, None, 0, offsets)
    target, rule = settings(config, discounts)
    work = workspace(longest_query(offsets))
    spare = work.integers[at.SPARE_ITEMS]
    for q in range(weights.shape[0]):
        first, weight = offsets[q], weights[q]
        m = offsets[q + 1] - first
        documents, s, c = features.query_of(X, first, m), work.reals[at.SCORES, :m], work.reals[at.CREDIT, :m]
        largest, norms = features.score_with_norms(documents, w, s)
        if served is not None:
            copy_to(s, served[first : first + m])
        elif rule.by_average > 0.0:
            features.score_served(documents, learner, rule.decay, counters, s)
        graded = grade_query(target, y[first : first + m], work)
        if not (graded.levels >= 0 and math.isfinite(norms) and all_finite(s) and weight >= 0.0 and math.isfinite(weight)):
            return q
        if graded.levels < 2:
            write_round(rounds[q], 0.0, 0.0, 0.0, 0.0, weight, m, largest, 0.0, True)
            continue
        offset = margin_of(rule, counters)
        loss, mass, v_max, _ = respond(target, rule, graded, s, weight, offset, work)
        square = 0.0
        if loss > 0.0:
            of_spread, of_sort = counters[codes.SPREAD_SQUARES], counters[codes.SORT_SQUARES]
            if rule.credit == codes.ADAPTIVE and mass > 0.0:
                n, square, other_square = features.combine(documents, learner, c, work.reals[at.OTHER_CREDIT, :m], spare)
                share, of_spread, of_sort = share_of_spread(square, other_square, mass, counters)
                square = features.mix(learner, n, share)
            else:
                n, square, _ = features.combine(documents, learner, c, None, spare)
            finite = math.isfinite(square) and math.isfinite(mass)
            if not (finite and features.add(learner, n, 1.0, square, rule.decay, counters)):
                return q
            if gained is not None:
                for j in range(gained.shape[0]):
                    gained[j] += learner.z[j]
            counters[codes.SPREAD_SQUARES], counters[codes.SORT_SQUARES] = of_spread, of_sort
            counters[codes.CAPPED_SQUARES] += square + 2.0 * offset * mass
            if rule.cap > 0.0:
                features.shorten(learner, rule.cap * math.sqrt(counters[codes.CAPPED_SQUARES]))
        counters[codes.DOCUMENTS] += m
        counters[codes.SQUARES] += square
        counters[codes.MASS] += mass
        features.count_average(learner, rule.decay, counters)
        write_round(rounds[q], loss, mass, square, offset, weight, m, largest, v_max, False)
    return weights.shape[0]


@kernel
def learn(X, y, offsets, weights, discounts, config, w, average, counters, rounds):
    """Learn from a block of queries.

    Parameters
    ----------
    X, y, offsets : features of n documents, grades (n,), and where queries begin and end (q + 1,)
    weights : (q,) sample weights
    discounts : (>= largest m,) table of D(p)
    config : float64 array: measure kind, cutoff, threshold, credit, mass, relative margin beta, decay of the average, cap kappa
        of the norm (0 for none), whether to learn from the average's mistakes. A single array, since each array costs 0.2
        microseconds for each call
    w, average : learning weights (d,) and averaged weights, (d,) or (0,) if the learning weights serve, both changed in place;
        for `sparse.Rows` the table, changed in place, and whether an average serves
    counters : (N_COUNTERS,) float64, changed in place
    rounds : (q, 10) out, a `Round` a row

    Returns
    -------
    Number of queries learned. When it is smaller than q, the next query has bad values or would make the state non-finite, and
    nothing of it was learned.
    """
    return _learn_block(X, y, offsets, weights, discounts, config, w, average, counters, rounds, None, None)


@kernel
def learn_served(X, y, offsets, weights, discounts, config, w, average, counters, rounds, served, gained):
    """Learn from a block of queries as `learn`, from scores that were served.

    Optional arguments cost a microsecond for each call, so `learn` has none.

    Parameters
    ----------
    X, y, offsets, weights, discounts, config, w, average, counters, rounds : as for `learn`
    served : None, or (n,) scores that were served: they, not the scores by w, decide loss, pairs and mass
    gained : (0,), or for arrays (d,), changed in place: the sum of all updates, what the weights would be without a cap of
        their norm

    Returns
    -------
    Number of queries learned, as `learn`.
    """
    require(gained.shape[0] in (0, w.shape[0]))
    return _learn_block(X, y, offsets, weights, discounts, config, w, average, counters, rounds, served, gained)


@kernel
def compare(y, s, weight, offset, scores, discounts, config, counters, out):
    """Losses of comparators in a round with an update; its pairs are found again.

    The hinge of a pair (i, j) with R_i > R_j is max(0, 1 + k_j - k_i), with keys k = u-scores.

    Parameters
    ----------
    y : (m,) grades of the query
    s : (m,) scores that decided the update
    weight, offset : sample weight and margin tau of the round
    scores : (n, m) scores by the comparators
    discounts, config : as `learn` takes them
    counters : the ranker's counters after the round
    out : (n, 2) out: F(u) = sum of a_ij hinge_ij(u), and f(u) = weight phi_v; infinity for overflow
    """
    require(y.shape[0] == s.shape[0] == scores.shape[1] and discounts.shape[0] >= s.shape[0])
    require(out.shape[0] == scores.shape[0] and out.shape[1] == 2 and counters.shape[0] == codes.N_COUNTERS)
    target, rule = settings(config, discounts)
    m = s.shape[0]
    work = workspace(m)
    v, k = work.reals[at.WEIGHTS, :m], work.reals[at.LISTED_SCORES, :m]
    graded = grade_query(target, y, work)
    _, _, _, scale = respond(target, rule, graded, s, weight, offset, work)
    of_spread, _, _ = share_of_spread(0.0, 0.0, 1.0, counters)
    update = Update(rule.credit, graded, v, s, offset, scale, of_spread, room_for_pairs(m))
    pairs = prepare_hinges(update, work)
    preferred = work.integers[at.PREFERRED, : pairs[0]]
    for c in range(out.shape[0]):
        finite = keys_of(scores[c], graded, 0.0, k, work.reals[at.TERMS, :m])
        out[c, 0] = hinge(update, pairs, k, work) if finite else np.inf
        out[c, 1] = weight * slam_loss(graded, v, preferred, k, 1.0, work.reals[at.KEYS]) if finite else np.inf
