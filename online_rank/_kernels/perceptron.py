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
from online_rank._kernels.credit import Update, assign_credit, room_for_pairs
from online_rank._kernels.fits import require, require_block
from online_rank._kernels.graded import Target, grade_query, rank_pessimistically, ranking_loss
from online_rank._kernels.rounds import write_round
from online_rank._kernels.watching import Watch, compare_round, score_under_watch
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
def _update(rule, graded, s, offset, scale, counters, moved, work):
    """The `Update` of a round that is counted, and whose credit is in `work`, scaled by `scale`."""
    of_spread, _, _ = share_of_spread(0.0, 0.0, 1.0, counters)
    return Update(rule.credit, graded, work.reals[at.WEIGHTS, : s.shape[0]], s, offset, scale, of_spread, moved)


@inlined
def _learn_block(X, y, offsets, weights, discounts, config, w, average, counters, rounds, served, watch):
    """The body of `learn`; `served` and `watch`, a `Watch`, are for `learn_watched`, otherwise None."""
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
        if watch is None:
            largest, norms = features.score_with_norms(documents, w, s)
        else:
            largest, norms = score_under_watch(watch, X, first, m, w, average, s)
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
        loss, mass, v_max, scale = respond(target, rule, graded, s, weight, offset, work)
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
            if watch is not None:
                for j in range(watch.gained.shape[0]):
                    watch.gained[j] += learner.z[j]
            counters[codes.SPREAD_SQUARES], counters[codes.SORT_SQUARES] = of_spread, of_sort
            counters[codes.CAPPED_SQUARES] += square + 2.0 * offset * mass
            if rule.cap > 0.0:
                features.shorten(learner, rule.cap * math.sqrt(counters[codes.CAPPED_SQUARES]))
        counters[codes.DOCUMENTS] += m
        counters[codes.SQUARES] += square
        counters[codes.MASS] += mass
        features.count_average(learner, rule.decay, counters)
        if watch is not None and loss > 0.0 and watch.values.shape[1] > 0:
            update = _update(rule, graded, s, offset, scale, counters, watch.moved, work)
            compare_round(update, watch.scores, weight, work, watch.values[q])
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
def learn_watched(X, y, offsets, weights, discounts, config, w, average, counters, rounds, served, watched):
    """Learn from a block of queries as `learn`, bit for bit, and measure by the weights before each update.

    Optional arguments and tuples cost a microsecond for each call, so `learn` has none.

    Parameters
    ----------
    X, y, offsets, weights, discounts, config, w, average, counters, rounds : as for `learn`
    served : None, or (n,) scores that were served: they, not those of w, decide loss, pairs and mass
    watched : None, or for arrays the first fields of a `watching.Watch`: comparators (c, d), and `values` (q, c, 2), out, their
        losses; documents `asked` (n, d), before transformers learned their query, and their `answers` (n,), out, or (0,); the
        sum `gained` (d,) of all updates, changed in place, what the weights would be without a cap of their norm, or (0,)

    Returns
    -------
    Number of queries learned, as `learn`.
    """
    if watched is None:
        return _learn_block(X, y, offsets, weights, discounts, config, w, average, counters, rounds, served, None)
    comparators, values, asked, answers, gained = watched
    c = comparators.shape[0]
    require(c == 0 or comparators.shape[1] == w.shape[0])
    require(values.shape[0] >= weights.shape[0] and values.shape[1] == c and values.shape[2] == 2)
    require(answers.shape[0] in (0, X.shape[0]) and asked.shape[0] >= answers.shape[0])
    require(answers.shape[0] == 0 or asked.shape[1] == w.shape[0])
    require(gained.shape[0] in (0, w.shape[0]))
    longest = longest_query(offsets)
    scores, moved = np.empty((c, longest)), room_for_pairs(longest if c > 0 else 0)
    watch = Watch(comparators, values, asked, answers, gained, scores, moved)
    return _learn_block(X, y, offsets, weights, discounts, config, w, average, counters, rounds, served, watch)


@kernel
def compare(y, s, weight, offset, scores, discounts, config, counters, out):
    """Losses of comparators in a round with an update that was learned elsewhere; its pairs are found again.

    Parameters
    ----------
    y : (m,) grades of the query
    s : (m,) scores that decided the update
    weight, offset : sample weight and margin tau of the round
    scores : (n, m) scores by the comparators
    discounts, config : as `learn` takes them
    counters : those of the ranker after the round
    out : (n, 2) out: F(u) = sum of a_ij hinge_ij(u), and f(u) = weight phi_v; infinity for overflow
    """
    require(y.shape[0] == s.shape[0] == scores.shape[1] and discounts.shape[0] >= s.shape[0])
    require(out.shape[0] == scores.shape[0] and out.shape[1] == 2 and counters.shape[0] == codes.N_COUNTERS)
    target, rule = settings(config, discounts)
    m = s.shape[0]
    work = workspace(m)
    graded = grade_query(target, y, work)
    _, _, _, scale = respond(target, rule, graded, s, weight, offset, work)
    compare_round(_update(rule, graded, s, offset, scale, counters, room_for_pairs(m), work), scores, weight, work, out)
