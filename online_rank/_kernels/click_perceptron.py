"""The perceptron on clicks: pairs in the wrong order, or right by less than the margin, and the mass for certificates.

Comparators are not part of learning: for their losses the pairs are found again, from scores and clicks.
"""

import math

import numpy as np

from online_rank._kernels import features
from online_rank._kernels._jit import inner, kernel
from online_rank._kernels.arrays import all_finite
from online_rank._kernels.clicks import are_gains, begin_pairs, considered, drawn_of, pair_weight, swap_credit
from online_rank._kernels.codes import ALL_PAIRS, DOCUMENTS
from online_rank._kernels.fits import require, require_drawn
from online_rank._kernels.rounds import write_round
from online_rank._kernels.workspace import longest_query

# Index of the mean of ||x||^2 in the counters. The others have the indices of the perceptron's.
MEAN_SQUARE = 3


@inner
def cost_of_rank(by_discount, discounts, above):
    """lambda(rank) of a document with `above` others above it: rank - 1, or 1 - D(rank)."""
    return 1.0 - discounts[above] if by_discount else float(above)


@inner
def propensity_credit(by_discount, discounts, scores, rows, gains, chances, margin, c):
    """Credit for an additive cost sum_i r_i lambda(rank_i), estimated without bias from clicks with known propensities.

    For each document i clicked, the p-th: mass g_i lambda(n + 1) / chances_p, in equal parts on the n documents j, of
    all of the query, with s_j >= s_i - margin. Adds to c (m,), which holds zeros. Returns the cost as the clicks estimate it
    (margin 0), and the mass.
    """
    loss = 0.0
    mass = 0.0
    for p in range(rows.shape[0]):
        if not gains[p] > 0.0:
            continue
        i = rows[p]
        above = 0
        near = 0
        for j in range(scores.shape[0]):
            above += scores[j] >= scores[i]
            near += scores[j] >= scores[i] - margin
        # Excluding the document itself.
        above -= 1
        near -= 1
        weight = gains[p] / chances[p]
        loss += weight * cost_of_rank(by_discount, discounts, above)
        if near > 0:
            part = weight * cost_of_rank(by_discount, discounts, near)
            mass += part
            for j in range(scores.shape[0]):
                if scores[j] >= scores[i] - margin:
                    c[j] -= part / near
            c[i] += part / near + part
    return loss, mass


@inner
def credit_clicks(drawn, by_discount, discounts, s, margin, reals, c):
    """Credit c (m,) of all documents of a query with scores s, from the `Drawn` among them.

    Returns the weight of the clicks, the loss and the mass.
    """
    c[:] = 0.0
    k = drawn.rows.shape[0]
    if drawn.chances.shape[0] > 0 and drawn.kind != ALL_PAIRS:
        loss, mass = propensity_credit(by_discount, discounts, s, drawn.rows, drawn.gains, drawn.chances, margin, c)
        return drawn.gains.sum(), loss, mass
    shown, credit, e = reals[2, :k], reals[3, :k], reals[4, :k]
    for p in range(k):
        shown[p] = s[drawn.rows[p]]
    total, loss, mass = swap_credit(drawn, shown, margin, e, credit)
    for p in range(k):
        c[drawn.rows[p]] = credit[p]
    return total, loss, mass


@kernel
def learn(X, offsets, shown, weights, discounts, config, w, average, squares, counters, rounds):
    """Learn from the clicks of a block of queries.

    Parameters
    ----------
    X, offsets, shown, weights : as for `clicks.learn`; without `shown.chances` the credit is by exchanges of pairs
    discounts : (>= largest m,) table of D(p)
    config : float64 array: relative margin beta, factor by which the average forgets, cost of a rank by discount?
        (`cost_of_rank`)
    w, average : as for `perceptron.learn`
    squares : (1, d) sums of squared updates, changed in place; None for `sparse.Rows`, whose table has them
    counters : (6,) at AVERAGED the effective number of averaged weight vectors, at DOCUMENTS the number of documents seen,
        at MEAN_SQUARE the mean of ||x||^2, and for `sparse.Rows` what `sparse.count_evidence` counts; changed in place
    rounds : (q, 10) out, a `Round` a row

    Returns
    -------
    Number of queries learned, as `clicks.learn` counts them.
    """
    beta, decay, by_discount = config
    require_drawn(features.n_documents(X), offsets, shown, weights, rounds)
    require(not by_discount or discounts.shape[0] >= longest_query(offsets))
    require(counters.shape[0] == 6)
    learner = features.learner_of(X, w, average, squares, 1, offsets)
    longest = max(longest_query(offsets), longest_query(shown.starts))
    reals = np.empty((5, longest))
    spare = np.empty(longest, np.int64)
    for q in range(weights.shape[0]):
        drawn, weight = drawn_of(shown, q), weights[q]
        m = offsets[q + 1] - offsets[q]
        documents = features.query_of(X, offsets[q], m)
        s, c = reals[0, :m], reals[1, :m]
        largest, norms = features.score_with_norms(documents, w, s)
        if not (math.isfinite(norms) and all_finite(s) and weight >= 0.0 and math.isfinite(weight)):
            return q
        if not are_gains(drawn.kind, drawn.gains):
            return q
        n_seen, mean_square = counters[DOCUMENTS] + m, counters[MEAN_SQUARE]
        mean_square += (norms - m * mean_square) / n_seen if m > 0 else 0.0
        margin = beta * mean_square
        total, loss, mass = credit_clicks(drawn, by_discount, discounts, s, margin, reals, c)
        mass *= weight
        square = 0.0
        if mass > 0.0:
            for i in range(m):
                c[i] *= weight
            n, square, _ = features.combine(documents, learner, c, None, spare)
            finite = math.isfinite(square) and math.isfinite(mass)
            if not (finite and features.add_with_squares(learner, n, decay, counters)):
                return q
        counters[DOCUMENTS] = n_seen
        counters[MEAN_SQUARE] = mean_square
        if total > 0.0:
            features.count_average(learner, decay, counters)
        write_round(rounds[q], loss, mass, square, margin, weight, m, largest, 0.0, not total > 0.0)
    return weights.shape[0]


@kernel
def compare_on_clicks(shown, by_discount, discounts, s, margin, weight, scores, out):
    """Losses F(u) = sum of a_ij max(0, 1 - (u_i - u_j)) of comparators in a round of `click_perceptron.learn`.

    Parameters
    ----------
    shown : one query, as for `click_perceptron.learn`
    by_discount, discounts : the cost of a rank (`cost_of_rank`)
    s : (m,) scores that decided the update
    margin, weight : margin tau and sample weight of the round
    scores : (n, m) scores by the comparators
    out : (n,) losses, added to
    """
    m = s.shape[0]
    require(scores.shape == (out.shape[0], m) and discounts.shape[0] >= m)
    require_drawn(m, np.array([0, m]), shown, np.empty(1), np.empty((1, 10)))
    drawn = drawn_of(shown, 0)
    if drawn.chances.shape[0] > 0 and drawn.kind != ALL_PAIRS:
        for p in range(drawn.rows.shape[0]):
            if drawn.gains[p] > 0.0:
                cost = weight * drawn.gains[p] / drawn.chances[p]
                _compare_cost(drawn.rows[p], cost, by_discount, discounts, s, margin, scores, out)
    else:
        _compare_pairs(drawn, s, margin, weight, scores, out)


@inner
def _compare_cost(i, cost, by_discount, discounts, s, margin, scores, out):
    """For a click on document i, equal parts on all documents that the scores do not rank below it by more than the margin."""
    near = -1
    for j in range(s.shape[0]):
        near += s[j] >= s[i] - margin
    for j in range(s.shape[0]):
        if j != i and s[j] >= s[i] - margin:
            _add_hinges(scores, i, j, cost * cost_of_rank(by_discount, discounts, near) / near, out)


@inner
def _compare_pairs(drawn, s, margin, weight, scores, out):
    """Pairs of the documents shown, with the weights of `clicks.swap_credit`."""
    kind, rows, gains = drawn.kind, drawn.rows, drawn.gains
    e = np.empty(gains.shape[0])
    n = gains.shape[0] if kind == ALL_PAIRS else considered(gains)
    unshown, total, below = begin_pairs(drawn, e), 1.0, 0.0
    if kind == ALL_PAIRS:
        total = 0.0
        for b in range(n):
            for a in range(b):
                total += 0.5 * abs(gains[a] - gains[b])
    for p in range(n, gains.shape[0]):
        below += e[p]
    for b in range(n - 1, 0, -1):
        for a in range(b):
            upper, lower = (rows[a], rows[b]) if gains[a] > gains[b] else (rows[b], rows[a])
            amount = weight * abs(gains[a] - gains[b])
            if amount != 0.0 and s[upper] - s[lower] <= margin:
                amount *= pair_weight(kind, e, unshown, below, a, b) / total
                _add_hinges(scores, upper, lower, amount, out)
        below += e[b]


@inner
def _add_hinges(scores, upper, lower, amount, out):
    for u in range(scores.shape[0]):
        out[u] += amount * max(0.0, 1.0 - (scores[u, upper] - scores[u, lower]))
