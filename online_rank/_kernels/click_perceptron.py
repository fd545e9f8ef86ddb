"""The perceptron on clicks: pairs in the wrong order, or right by less than the margin, and the mass for certificates."""

import math

import numpy as np

from online_rank._kernels._jit import inner, kernel, leaf
from online_rank._kernels.arrays import all_finite, copy_to
from online_rank._kernels.averages import add_to_average
from online_rank._kernels.clicks import are_gains, drawn_of, longest_list, swap_credit
from online_rank._kernels.codes import ALL_PAIRS, DOCUMENTS
from online_rank._kernels.dense import add_scaled, combine_rows, score_with_norms
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
    total, loss, mass = swap_credit(drawn.kind, drawn.gains, drawn.logits, drawn.rest, shown, margin, e, credit)
    for p in range(k):
        c[drawn.rows[p]] = credit[p]
    return total, loss, mass


@inner
def mean_square_with(counters, norms, m):
    """The number of documents seen and the mean of ||x||^2, with m more documents."""
    n_seen = counters[DOCUMENTS] + m
    mean_square = counters[MEAN_SQUARE]
    mean_square += (norms - m * mean_square) / n_seen if m > 0 else 0.0
    return n_seen, mean_square


@leaf
def require_costs(offsets, by_discount, discounts, counters):
    """Require a cost for every rank, and counters."""
    require(not by_discount or discounts.shape[0] >= longest_query(offsets))
    require(counters.shape[0] == 6)


@kernel
def learn(X, offsets, shown, weights, discounts, config, w, served, squares, counters, rounds):
    """Learn from the clicks of a block of queries.

    Parameters
    ----------
    X, offsets, shown, weights : as for `clicks.learn`; without `shown.chances` the credit is by exchanges of pairs
    discounts : (>= largest m,) table of D(p)
    config : float64 array: relative margin beta, factor by which the average forgets, cost of a rank by discount?
        (`cost_of_rank`)
    w, served : (d,) learning and averaged weights, changed in place; served is (0,) when the learning weights serve
    squares : (d,) sums of squared updates, changed in place
    counters : (6,) at AVERAGED the effective number of averaged weight vectors, at DOCUMENTS that of documents seen, at
        MEAN_SQUARE the mean of ||x||^2; changed in place
    rounds : (q, 10) out, a `Round` a row

    Returns
    -------
    Number of queries learned, as `clicks.learn` counts them.
    """
    beta, keep, by_discount = config
    require_drawn(X.shape[0], offsets, shown, weights, rounds)
    require_costs(offsets, by_discount, discounts, counters)
    d = w.shape[0]
    require(X.shape[1] == d == squares.shape[0] and served.shape[0] in (0, d))
    longest = max(longest_query(offsets), longest_list(shown.starts))
    reals = np.empty((5, longest))
    index = np.empty(longest, np.int64)
    z = np.empty(d)
    new = np.empty(d)

    for q in range(weights.shape[0]):
        drawn = drawn_of(shown, q)
        m = offsets[q + 1] - offsets[q]
        weight = weights[q]
        documents = X[offsets[q] : offsets[q + 1]]
        s, c = reals[0, :m], reals[1, :m]
        largest, norms = score_with_norms(documents, w, s)
        if not (math.isfinite(norms) and all_finite(s) and weight >= 0.0 and math.isfinite(weight)):
            return q
        if not are_gains(drawn.kind, drawn.gains):
            return q
        n_seen, mean_square = mean_square_with(counters, norms, m)
        margin = beta * mean_square
        total, loss, mass = credit_clicks(drawn, by_discount, discounts, s, margin, reals, c)
        mass *= weight
        square = 0.0
        if mass > 0.0:
            for i in range(m):
                c[i] *= weight
            square = combine_rows(documents, c, index, z)
            if not (math.isfinite(square) and math.isfinite(mass) and math.isfinite(add_scaled(w, 1.0, z, new))):
                return q
            copy_to(w, new)
            for j in range(d):
                squares[j] += z[j] * z[j]
        counters[DOCUMENTS] = n_seen
        counters[MEAN_SQUARE] = mean_square
        if total > 0.0:
            add_to_average(served, w, keep, counters)
        write_round(rounds[q], loss, mass, square, margin, weight, m, largest, 0.0, not total > 0.0)
    return weights.shape[0]
