"""Costs of pairs (i, j) with R_i > R_j, weighted by w_ij = alpha + beta R_i + gamma R_j.

Each function adds the gradient in the scores to `gradient` (m,), which starts at zero, and returns the value. Documents are
listed by ascending grade: level b has positions start[b]:start[b + 1]. With `neighbours` only neighbouring levels are
paired.
"""

import numpy as np

from online_rank._kernels import fenwick
from online_rank._kernels._jit import inner
from online_rank._kernels.codes import LOGISTIC
from online_rank._kernels.primitives import lane_sum
from online_rank._kernels.vector_math import exp_negative, log1p_unit


@inner
def pair_weight(form, grade, upper, lower):
    """w_ij of a document in level `upper` and one in level `lower`; `form` is (alpha, beta, gamma)."""
    return form[0] + form[1] * grade[upper] + form[2] * grade[lower]


@inner
def total_weight(form, neighbours, graded):
    """Sum of w_ij over all pairs."""
    total = 0.0
    for a in range(1, graded.levels):
        for b in range(a - 1 if neighbours else 0, a):
            total += pair_weight(form, graded.grade, a, b) * graded.size[a] * graded.size[b]
    return total


@inner
def squared_identity(form, neighbours, t, start, levels, grade, mean, square, gradient):
    """Sum of w_ij (1 - (s_i - s_j))^2 from the sizes, means and squared deviations of the levels. O(m + L^2).

    `mean` and `square` (levels,) are workspace.
    """
    for a in range(levels):
        total = 0.0
        for p in range(start[a], start[a + 1]):
            total += t[p]
        mean[a] = total / (start[a + 1] - start[a])
        total = 0.0
        for p in range(start[a], start[a + 1]):
            total += (t[p] - mean[a]) ** 2
        square[a] = total
    value = 0.0
    for a in range(levels):
        n_a = start[a + 1] - start[a]
        slope = 0.0
        at_mean = 0.0
        for b in range(max(a - 1, 0) if neighbours else 0, min(a + 2, levels) if neighbours else levels):
            if b == a:
                continue
            n_b = start[b + 1] - start[b]
            w = pair_weight(form, grade, max(a, b), min(a, b))
            slope += w * n_b
            # The derivative of (1 - (s_i - s_j))^2, or of (1 - (s_j - s_i))^2 where b is the more relevant, summed over b.
            at_mean += w * n_b * (mean[a] - mean[b] + (1.0 if b > a else -1.0))
            if b < a:
                value += w * (n_a * n_b * (1.0 - (mean[a] - mean[b])) ** 2 + n_b * square[a] + n_a * square[b])
        for p in range(start[a], start[a + 1]):
            gradient[p] += 2.0 * (slope * (t[p] - mean[a]) + at_mean)
    return value


@inner
def _smooth_row(cost, slope, t_i, t, weights, valued, costs, forces, gradient):
    """The costs of pairs with less relevant documents j. Returns their sum and minus its derivative in t_i.

    With x = slope (t_i - t_j), LOGISTIC is log(1 + exp(-x)), SQUARED (1 - tanh(x / 2))^2. The sum is 0 unless `valued`: its
    logarithms take as long as all else.
    """
    # Short loops, not one: more documents are under way at once where fewer steps wait for one another.
    for j in range(t.shape[0]):
        forces[j] = exp_negative(-abs(slope * (t_i - t[j])))
    if valued:
        for j in range(t.shape[0]):
            x, e = slope * (t_i - t[j]), forces[j]
            # 1 - tanh(x / 2) = 2 q and 1 + tanh(x / 2) = 2 p, without cancellation.
            q = (e if x > 0.0 else 1.0) / (1.0 + e)
            costs[j] = weights[j] * ((0.0 if x > 0.0 else -x) + log1p_unit(e) if cost == LOGISTIC else 4.0 * q * q)
    for j in range(t.shape[0]):
        x, e = slope * (t_i - t[j]), forces[j]
        q = (e if x > 0.0 else 1.0) / (1.0 + e)
        p = (1.0 if x > 0.0 else e) / (1.0 + e)
        if cost == LOGISTIC:
            forces[j] = weights[j] * slope * (e if x > 0.0 else 1.0) / (1.0 + e)
        else:
            forces[j] = weights[j] * slope * 8.0 * p * q * q
        gradient[j] += forces[j]
    return lane_sum(costs) if valued else 0.0, lane_sum(forces)


@inner
def smooth_pairs(cost, slope, form, neighbours, t, start, levels, grade, valued, weights, costs, forces, gradient):
    """The logistic cost, or the squared cost of a tanh output, over all pairs; 0 unless `valued`. O(m^2) scalars.

    `weights`, `costs` and `forces` (m,) are workspace.
    """
    value = 0.0
    for a in range(1, levels):
        lowest = a - 1 if neighbours else 0
        for b in range(lowest, a):
            weights[start[b] : start[b + 1]] = pair_weight(form, grade, a, b)
        lower = slice(start[lowest], start[a])
        for i in range(start[a], start[a + 1]):
            t_j, w, c, f, g = t[lower], weights[lower], costs[lower], forces[lower], gradient[lower]
            total, pull = _smooth_row(cost, slope, t[i], t_j, w, valued, c, f, g)
            value += total
            gradient[i] -= pull
    return value


@inner
def _put(table, lev, value, neighbours):
    """Add `value` at level lev: to a Fenwick tree, or to its own entry if only neighbours are needed."""
    if neighbours:
        table[lev + 1] += value
    else:
        fenwick.add(table, lev, value)


@inner
def _lower(table, lev, neighbours):
    """Sum over the levels lower than lev, or only over the next lower level."""
    return (table[lev] if lev > 0 else 0.0) if neighbours else fenwick.sum_before(table, lev)


@inner
def hinge(form, neighbours, margin, s, order, graded, numbers, grades, gradient):
    """Sum of w_ij max(0, margin - (s_i - s_j)). O(m log m).

    `s` (m,) and `gradient` are in document order here, `order` lists documents by descending score. `numbers` and `grades`
    (levels + 1,) are workspace: the number of documents so far in each level, and the sum of their grades.
    """
    mass = _sweep(True, form, neighbours, margin, s, order, graded, numbers, grades, gradient)
    _sweep(False, form, neighbours, margin, s, order, graded, numbers, grades, gradient)
    # Each violated pair costs w (margin - s_i + s_j), and contributes w to the gradient; scores are relative to the best one.
    value = margin * mass
    for i in range(s.shape[0]):
        value += gradient[i] * (s[i] - s[order[0]])
    return value


@inner
def _sweep(down, form, neighbours, margin, s, order, graded, numbers, grades, gradient):
    """Subtract from `gradient` the weights of violated pairs in which a document is the more relevant one, if `down`; otherwise
    add those in which it is the less relevant one. Returns their sum.

    Down the ranking each document meets those that score at least its score less the margin; up the ranking it is the reverse,
    with levels counted from the top, so that smaller indices in the tables are more relevant.
    """
    level, levels, grade, m = graded.level, graded.levels, graded.grade, s.shape[0]
    of_own, of_other = (form[1], form[2]) if down else (form[2], form[1])
    numbers[:] = 0.0
    grades[:] = 0.0
    seen, mass = 0, 0.0
    for p in range(m):
        i = order[p] if down else order[m - 1 - p]
        own = level[i] if down else levels - 1 - level[i]
        while seen < m:
            j = order[seen] if down else order[m - 1 - seen]
            if not (s[j] > s[i] - margin if down else s[i] > s[j] - margin):
                break
            other = level[j] if down else levels - 1 - level[j]
            _put(numbers, other, 1.0, neighbours)
            _put(grades, other, np.float64(grade[level[j]]), neighbours)
            seen += 1
        weight = (form[0] + of_own * grade[level[i]]) * _lower(numbers, own, neighbours)
        weight += of_other * _lower(grades, own, neighbours)
        gradient[i] += -weight if down else weight
        mass += weight
    return mass
