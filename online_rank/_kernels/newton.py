"""A second-order learner of the logistic loss of pairs: Newton steps on sums of Hessians that fade."""

import math
from typing import NamedTuple

import numpy as np

from online_rank._kernels._jit import inner, leaf
from online_rank._kernels.curves import LINE, MISSING, NEWTON, PRESENT
from online_rank._kernels.primitives import dot, lane_sum
from online_rank._kernels.ridge import add_products, aligned, padded, solve
from online_rank._kernels.vector_math import exp_negative

#: Numbers of the state: sum of the h_i that fades like the Hessians, the same at the last step, and queries since then.
MASS, SOLVED, SINCE = range(3)
N_NUMBERS = 3
#: The ridge lambda, queries to the next step at the latest, growth that calls for one, and the documents in a Hessian.
_RIDGE, _LATEST, _GROWN, _DOCUMENTS = 2.5, 8.0, 1.1, 40
#: The least share of its push that a pair has as curvature. A pair that is wrong by far has almost none, and a few such queries
#: would take a step without a bound.
_LEAST_CURVED = 0.07
#: The share of its Newton step that a feature without a column takes in each query.
_ALONE = 0.5


class Steps(NamedTuple):
    """Memory for `learn_newton`: documents by level; derivatives c and h, and four more numbers of each document; rows of a
    Hessian, and eight more; a step.
    """

    order: np.ndarray
    derivatives: np.ndarray
    rows: np.ndarray
    sums: np.ndarray
    ridge: np.ndarray
    solution: np.ndarray


@inner
def room_for_steps(d, longest):
    """`Steps` for d columns and queries of up to `longest` documents."""
    width = padded(d, 8)
    rows = aligned(padded(min(longest, _DOCUMENTS), 8), width)
    rows[:] = 0.0
    order, derivatives = np.empty(2 * longest + 1, np.int64), np.empty((7, longest))
    return Steps(order, derivatives, rows, aligned(8, width), np.full(1, _RIDGE), np.zeros((1, d)))


@leaf
def _sort_by_level(graded, s, order, sorted_s):
    """Documents by ascending level, and their scores; the second half of `order` (2 m,) is workspace."""
    m, place = s.shape[0], 0
    starts = order[m:]
    for lev in range(graded.levels):
        starts[lev] = place
        place += graded.size[lev]
    for i in range(m):
        p = starts[graded.level[i]]
        starts[graded.level[i]] = p + 1
        order[p], sorted_s[p] = i, s[i]


@leaf
def _push(own, e, factor, lost, curved, pushes, curves):
    """The pairs of a document with less relevant ones, by the powers of e, `own` and e (n,): add to what they lose, and to
    their curvatures.
    """
    for j in range(e.shape[0]):
        share = e[j] / (own + e[j])
        push = factor * share
        curve = push * max(1.0 - share, _LEAST_CURVED)
        lost[j] += push
        curved[j] += curve
        pushes[j], curves[j] = push, curve


@leaf
def weigh_pairs(graded, s, factor, room):
    """c_i and h_i: first derivatives, negative, and second ones of the logistic loss of all pairs of levels, by s (m,).

    They go to the first two rows of `room.derivatives`. Scores that are 700 below the best count as equal.
    """
    m, order = s.shape[0], room.order
    c, h, e = room.derivatives[0, :m], room.derivatives[1, :m], room.derivatives[2, :m]
    lost, curved = room.derivatives[3, :m], room.derivatives[4, :m]
    _sort_by_level(graded, s, order, e)
    best = -np.inf
    for p in range(m):
        best = max(best, e[p])
    for p in range(m):
        e[p] = exp_negative(e[p] - best)
    lost[:] = 0.0
    curved[:] = 0.0
    below = 0
    for lev in range(graded.levels):
        stop = below + graded.size[lev]
        pushes, curves = room.derivatives[5, :below], room.derivatives[6, :below]
        for p in range(below, stop):
            _push(e[p], e[:below], factor, lost[:below], curved[:below], pushes, curves)
            c[order[p]], h[order[p]] = lane_sum(pushes), lane_sum(curves)
        below = stop
    for p in range(m):
        c[order[p]] -= lost[p]
        h[order[p]] += curved[p]


@leaf
def weigh_rows(rows, places, h, step, n, total, out):
    """The first n of `out` = the columns of every `step`-th document less their means, times the roots of h_i, of this sum."""
    for j in range(places.shape[0]):
        g, cells = rows.g[j], rows.cells[j]
        for part in range(2):
            column, mean = places[j, part], 0.0
            if column < 0:
                continue
            for r in range(n):
                out[r, column] = g[r * step] if part == 0 else 1.0 if cells[r * step] != MISSING else 0.0
                mean += h[r * step] * out[r, column]
            mean /= total
            for r in range(n):
                out[r, column] -= mean
    for r in range(n):
        root = math.sqrt(h[r * step] * step)
        for column in range(out.shape[1]):
            out[r, column] *= root


@leaf
def add_gradient(rows, places, c, pending):
    """Add the sums of the columns times c (m,) to `pending` (D,)."""
    m = c.shape[0]
    for j in range(places.shape[0]):
        if places[j, 0] >= 0:
            pending[places[j, 0]] += dot(c, rows.g[j, :m])
        if places[j, 1] >= 0:
            cells, total = rows.cells[j], 0.0
            for i in range(m):
                total += c[i] if cells[i] != MISSING else 0.0
            pending[places[j, 1]] += total


@leaf
def learn_newton(rows, m, places, keep, gram, pending, numbers, room):
    """Add a query, by the derivatives that `weigh_pairs` found, to the gradient and the Hessian; whether a step is due.

    places : (d, 2) the columns of g and of presence of each feature among D, -1 for none
    gram, pending, numbers : (D (D + 1) / 2,), (D,), (N_NUMBERS,) state, changed in place
    """
    c, h = room.derivatives[0, :m], room.derivatives[1, :m]
    add_gradient(rows, places, c, pending)
    step = (m + _DOCUMENTS - 1) // _DOCUMENTS
    n, drawn = (m + step - 1) // step, 0.0
    for r in range(n):
        drawn += h[r * step]
    used = room.rows[: (n + 7) // 8 * 8]
    used[n if drawn > 0.0 else 0 :] = 0.0
    if drawn > 0.0:
        weigh_rows(rows, places, h, step, n, drawn, used)
    add_products(used, pending.shape[0], keep, room.sums, gram, gram)
    numbers[MASS] = keep * numbers[MASS] + lane_sum(h)
    numbers[SINCE] += 1.0
    return numbers[SINCE] >= _LATEST or numbers[MASS] >= _GROWN * numbers[SOLVED]


@leaf
def learn_alone(rows, m, places, signs, keep, curvatures, W, room):
    """Newton steps of g of each feature alone that has no column and no sign, by the derivatives that `weigh_pairs` found.

    curvatures : (d,) diagonal of the Hessian, changed in place, as are the weights W (d, 4 N_COLUMNS)
    """
    c, h = room.derivatives[0, :m], room.derivatives[1, :m]
    total = lane_sum(h)
    for j in range(places.shape[0]):
        if places[j, 0] < 0 and signs[j] == 0 and total > 0.0:
            g = rows.g[j, :m]
            mean, curvature = dot(h, g) / total, 0.0
            for i in range(m):
                curvature += h[i] * (g[i] - mean) * (g[i] - mean)
            curvatures[j] = keep * curvatures[j] + curvature
            W[j, 4 * LINE + NEWTON] += _ALONE * dot(c, g) / (curvatures[j] + _RIDGE)


@leaf
def step_newton(places, gram, pending, numbers, W, room):
    """Take a step: weights of g and of presence of the last member, W (d, 4 N_COLUMNS), change."""
    room.solution[:] = 0.0
    solve(gram, pending, room.ridge, room.solution)
    for j in range(places.shape[0]):
        if places[j, 0] >= 0:
            W[j, 4 * LINE + NEWTON] += room.solution[0, places[j, 0]]
        if places[j, 1] >= 0:
            W[j, 4 * PRESENT + NEWTON] += room.solution[0, places[j, 1]]
    pending[:] = 0.0
    numbers[SOLVED], numbers[SINCE] = numbers[MASS], 0.0
