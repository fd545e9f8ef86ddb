"""A second-order learner of the logistic loss of pairs: Newton steps on sums of Hessians that fade."""

import math

import numpy as np

from online_rank._kernels._jit import inlined, leaf
from online_rank._kernels.curves import LINE, MISSING, NEWTON, PRESENT
from online_rank._kernels.primitives import dot, lane_sum
from online_rank._kernels.ridge import add_rows, solve
from online_rank._kernels.vector_math import exp_negative

#: Numbers of the state: sum of the h_i that fades like the Hessians, the same at the last step, and queries since then.
MASS, SOLVED, SINCE = range(3)
N_NUMBERS = 3
#: The ridge lambda, queries to the next step at the latest, growth that calls for one, and the documents in a Hessian.
_RIDGE, _LATEST, _GROWN, _DOCUMENTS = 2.5, 8.0, 1.1, 40


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
def _push(score, s, factor, lost, curved, pushes, curves):
    """The pairs of one document with less relevant ones of scores s (n,): add to what they lose, and to their curvatures."""
    for j in range(s.shape[0]):
        away = score - s[j]
        e = exp_negative(-abs(away))
        share = (e if away > 0.0 else 1.0) / (1.0 + e)
        push = factor * share
        curve = push * (1.0 - share)
        lost[j] += push
        curved[j] += curve
        pushes[j], curves[j] = push, curve


@leaf
def weigh_pairs(graded, s, factor, order, room, c, h):
    """c_i and h_i: first derivatives, negative, and second ones of the logistic loss of all pairs of levels, by s (m,).

    order, room : workspace (2 m + 1,) and (5, m)
    """
    m = s.shape[0]
    sorted_s, lost, curved, pushes, curves = room[0, :m], room[1, :m], room[2, :m], room[3, :m], room[4, :m]
    _sort_by_level(graded, s, order, sorted_s)
    lost[:] = 0.0
    curved[:] = 0.0
    below = 0
    for lev in range(graded.levels):
        stop = below + graded.size[lev]
        for p in range(below, stop):
            i = order[p]
            c[i], h[i] = 0.0, 0.0
            if below > 0:
                _push(sorted_s[p], sorted_s[:below], factor, lost[:below], curved[:below], pushes[:below], curves[:below])
                c[i], h[i] = lane_sum(pushes[:below]), lane_sum(curves[:below])
        below = stop
    for p in range(m):
        c[order[p]] -= lost[p]
        h[order[p]] += curved[p]


@leaf
def _weighted_rows(rows, places, h, step, total, out):
    """out (n, D) = the columns of every `step`-th document less their means, times the roots of h_i of sum `total`."""
    n = out.shape[0]
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
                out[r, column] = math.sqrt(h[r * step] * step) * (out[r, column] - mean)


@inlined
def learn_newton(rows, m, places, c, h, keep, gram, pending, numbers, W):
    """Add a query by c and h (m,) to the gradient and the Hessian, and take a step if one is due.

    places : (d, 2) the columns of g and of presence of each feature among D, -1 for none
    gram, pending, numbers : (D (D + 1) / 2,), (D,), (N_NUMBERS,) state, changed in place
    W : (d, N_COLUMNS, N_MEMBERS) weights; those of g and of presence of the last member change
    """
    for j in range(places.shape[0]):
        if places[j, 0] >= 0:
            pending[places[j, 0]] += dot(c, rows.g[j, :m])
        if places[j, 1] >= 0:
            cells, total = rows.cells[j], 0.0
            for i in range(m):
                total += c[i] if cells[i] != MISSING else 0.0
            pending[places[j, 1]] += total
    step = (m + _DOCUMENTS - 1) // _DOCUMENTS
    n, mass, drawn = (m + step - 1) // step, 0.0, 0.0
    for i in range(m):
        mass += h[i]
    for r in range(n):
        drawn += h[r * step]
    columns = np.zeros((n, pending.shape[0]))
    if drawn > 0.0:
        _weighted_rows(rows, places, h, step, drawn, columns)
    add_rows(columns, keep, gram, gram)
    numbers[MASS] = keep * numbers[MASS] + mass
    numbers[SINCE] += 1.0
    if numbers[SINCE] >= _LATEST or numbers[MASS] >= _GROWN * numbers[SOLVED]:
        ridge, solution = np.full(1, _RIDGE), np.zeros((1, pending.shape[0]))
        solve(gram, pending, ridge, solution)
        for j in range(places.shape[0]):
            if places[j, 0] >= 0:
                W[j, LINE, NEWTON] += solution[0, places[j, 0]]
            if places[j, 1] >= 0:
                W[j, PRESENT, NEWTON] += solution[0, places[j, 1]]
        pending[:] = 0.0
        numbers[SOLVED], numbers[SINCE] = numbers[MASS], 0.0
