"""Members that are linear in g, for data that bear no curves: they follow less noise, and learn from fewer queries."""

import math

from online_rank._kernels._jit import inlined, leaf
from online_rank._kernels.codes import MASS, SORT_SQUARES, SPREAD_SQUARES, SQUARES
from online_rank._kernels.curves import KNOWN, MISSING, N_PLAIN, RIDGE, SPARSE, STRAIGHT
from online_rank._kernels.newton import add_gradient, weigh_rows
from online_rank._kernels.perceptron import margin_of, respond, share_of_spread
from online_rank._kernels.primitives import dot, lane_sum, sum_of_squares
from online_rank._kernels.ridge import add_products, solve
from online_rank._kernels.workspace import CREDIT, OTHER_CREDIT, SCORES

#: Numbers of the ridge regression: queries in its equations, which fade, and since they were solved.
COUNTED, SINCE = range(2)
N_RIDGE = 2
#: Equations take in 40 documents of each of the first 64 queries, then 8, and are solved when they have grown by a tenth.
_DOCUMENTS, FIRST_QUERIES, _LATER, _GROWN = 40, 64.0, 8, 0.1
#: A sum counts as this many standard deviations less than it is, each at least the deviation of 20 documents.
_CUT, _PRIOR = 2.0, 20.0


@leaf
def _add_scaled(x, g, out):
    """out (m,) += x g."""
    for i in range(out.shape[0]):
        out[i] += x * g[i]


@leaf
def score_plain(rows, m, plain, first, members):
    """Rows `first` on of members (K, m or more) = scores of a query, by weights (d, N_PLAIN + 1).

    The last weight of a feature is one of presence, of the member `RIDGE`.
    """
    for k in range(N_PLAIN):
        members[first + k, :m] = 0.0
    known = members[first + RIDGE, :m]
    for j in range(plain.shape[0]):
        own, g = plain[j], rows.g[j, :m]
        for k in range(N_PLAIN):
            if own[k] != 0.0:
                _add_scaled(own[k], g, members[first + k, :m])
        if own[KNOWN] != 0.0:
            cells = rows.cells[j, :m]
            for i in range(m):
                known[i] += own[KNOWN] if cells[i] != MISSING else 0.0


@leaf
def learn_ridge(rows, places, t, scores, weight, keep, gram, pending, numbers, steps):
    """Add a query to a ridge regression of t (m,) on g and presence by its scores (m,); whether a step is due.

    Steps solve for what the scores left: so few documents do for the matrix, and fewer once many queries are in it.

    places : (d, 2) the columns of g and of presence of each feature among D, -1 for none
    gram, pending, numbers : (D (D + 1) / 2,), (D,), (N_RIDGE,) state, changed in place; steps : `newton.Steps`
    """
    m = t.shape[0]
    left, h, mean = steps.derivatives[0, :m], steps.derivatives[1, :m], lane_sum(scores) / m
    for i in range(m):
        left[i] = weight / m * (t[i] - (scores[i] - mean))
    add_gradient(rows, places, left, pending)
    most = _DOCUMENTS if numbers[COUNTED] < FIRST_QUERIES else _LATER
    step = (m + most - 1) // most
    n = (m + step - 1) // step
    h[:] = weight / (n * step)
    used = steps.rows[: (n + 7) // 8 * 8]
    used[n:] = 0.0
    weigh_rows(rows, places, h, step, n, weight / step, used)
    add_products(used, pending.shape[0], keep, steps.sums, gram, gram)
    numbers[COUNTED] = keep * numbers[COUNTED] + 1.0
    numbers[SINCE] += 1.0
    return numbers[SINCE] >= _GROWN * numbers[COUNTED]


@leaf
def step_ridge(places, gram, pending, numbers, plain, steps):
    """Take a step: weights of g and of presence of the member `RIDGE` of `plain` change."""
    steps.solution[:] = 0.0
    solve(gram, pending, steps.ridge, steps.solution)
    for j in range(places.shape[0]):
        if places[j, 0] >= 0:
            plain[j, RIDGE] += steps.solution[0, places[j, 0]]
        if places[j, 1] >= 0:
            plain[j, KNOWN] += steps.solution[0, places[j, 1]]
    pending[:] = 0.0
    numbers[SINCE] = 0.0


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
