"""Members that are linear in g, for data that bear no curves: they follow less noise, and learn from fewer queries."""

import math

import numpy as np

from online_rank._kernels._jit import inlined, leaf
from online_rank._kernels.codes import MASS, SORT_SQUARES, SPREAD_SQUARES, SQUARES
from online_rank._kernels.curves import KNOWN, LINE, MISSING, N_PLAIN, NEWTON, PRESENT, SPARSE, STEADY, STRAIGHT
from online_rank._kernels.perceptron import margin_of, respond, share_of_spread
from online_rank._kernels.primitives import add_line_four, dot, sum_of_squares
from online_rank._kernels.workspace import CREDIT, OTHER_CREDIT, SCORES

#: A sum counts as this many standard deviations less than it is, each at least that of so many documents.
_CUT, _PRIOR = 2.0, 20.0


@leaf
def score_plain(rows, m, plain, table, scores):
    """Scores (4 m,) of a query, `N_PLAIN` and a spare one of each document, by weights (d, N_PLAIN + 1).

    The last weight of a feature is one of presence, of the member `STEADY`. table : (16,) or more, workspace
    """
    scores[: 4 * m] = 0.0
    table[:] = 0.0
    for j in range(plain.shape[0]):
        own, g, cells = plain[j], rows.g[j, :m], rows.cells[j, :m]
        table[KNOWN] = own[KNOWN]
        for k in range(N_PLAIN):
            table[4 + k] = own[k]
        for i in range(m):
            add_line_four(scores, 4 * i, np.float64(g[i]), table, 8 if cells[i] == MISSING else 0)
    for i in range(m):
        scores[4 * i + STEADY] += scores[4 * i + KNOWN]


@leaf
def average_newton(W, plain, count):
    """Let the slow average of the Newton learner's weights, W (d, 4 N_COLUMNS), take them in; `count` vectors are in it."""
    share = 1.0 / count
    for j in range(plain.shape[0]):
        plain[j, STEADY] += (W[j, 4 * LINE + NEWTON] - plain[j, STEADY]) * share
        plain[j, KNOWN] += (W[j, 4 * PRESENT + NEWTON] - plain[j, KNOWN]) * share


@leaf
def learn_sums(rows, m, moments, weight, keep, signs, marginals, plain):
    """Add a query to the sums of t g and of squared deviations of g, which fade; their quotients, cut off near 0, are weights.

    moments : (d, 2) the sums of t g and of g of this query, times its weight, t the standardised grades
    marginals : (d, 2) changed in place, as the member `SPARSE` of `plain`
    """
    for j in range(plain.shape[0]):
        g, around = rows.g[j, :m], moments[j, 1]
        marginals[j, 0] = keep * marginals[j, 0] + moments[j, 0]
        marginals[j, 1] = keep * marginals[j, 1] + max(weight * dot(g, g) - around * around / (weight * m), 0.0)
    for j in range(plain.shape[0]):
        n = marginals[j, 1] + _PRIOR
        z, cut = marginals[j, 0] / n, _CUT / math.sqrt(n)
        w = math.copysign(max(abs(z) - cut, 0.0), z)
        plain[j, SPARSE] = 0.0 if w * signs[j] < 0.0 else w


@inlined
def learn_straight(target, rule, graded, scores, weight, rows, signs, plain, counters, updates, work):
    """Let a perceptron on g alone learn a query by its scores (m,); counters (N_COUNTERS,), updates (2, d): workspace"""
    m = scores.shape[0]
    s, c, other = work.reals[SCORES, :m], work.reals[CREDIT, :m], work.reals[OTHER_CREDIT, :m]
    for i in range(m):
        s[i] = scores[i]
    offset = margin_of(rule, counters)
    loss, mass, _, _ = respond(target, rule, graded, s, weight, offset, work)
    if not (loss > 0.0 and mass > 0.0 and math.isfinite(mass)):
        return
    own, others = updates[0], updates[1]
    for j in range(plain.shape[0]):
        own[j], others[j] = dot(c, rows.g[j, :m]), dot(other, rows.g[j, :m])
    share, counters[SPREAD_SQUARES], counters[SORT_SQUARES] = share_of_spread(
        sum_of_squares(own), sum_of_squares(others), mass, counters
    )
    for j in range(plain.shape[0]):
        own[j] = share * own[j] + (1.0 - share) * others[j]
        w = plain[j, STRAIGHT] + own[j]
        plain[j, STRAIGHT] = 0.0 if w * signs[j] < 0.0 else w
    counters[SQUARES] += sum_of_squares(own)
    counters[MASS] += mass
