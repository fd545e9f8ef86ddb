"""Costs of whole lists: SLAM, ListNet, LambdaRank.

Each function adds the gradient in the scores to `gradient` (m,), which starts at zero, and returns the value.
"""

import math

import numpy as np

from online_rank._kernels import workspace as at
from online_rank._kernels._jit import inner, leaf
from online_rank._kernels.best_violators import argmax_credit
from online_rank._kernels.codes import AP
from online_rank._kernels.graded import discount
from online_rank._kernels.spread_credit import list_preferred
from online_rank._kernels.vector_math import exp_negative, log1p_unit


@inner
def slam(margin, t, graded, v, work, gradient):
    """Sum of v_i max(0, margin + max over less relevant j of t_j - t_i) [CT, eq. 3]. O(m + L)."""
    n = list_preferred(graded.level, v, work.integers[at.PREFERRED])
    preferred = work.integers[at.PREFERRED, :n]
    mass = argmax_credit(graded, v, t, margin, True, preferred, work.integers[at.BEST], work.reals[at.BARS], gradient)
    value = margin * mass
    highest = t.max()
    for i in range(t.shape[0]):
        gradient[i] = -gradient[i]
        value += gradient[i] * (t[i] - highest)
    return value


@inner
def listnet(s, graded, gradient):
    """Cross-entropy between the softmax of the grades and the softmax of the scores. O(m)."""
    level, grade = graded.level, graded.grade
    m = s.shape[0]
    highest = s.max()
    top = grade[graded.levels - 1]
    norm = 0.0
    target_norm = 0.0
    for i in range(m):
        gradient[i] = exp_negative(s[i] - highest)
        norm += gradient[i]
        target_norm += exp_negative(np.float64(grade[level[i]] - top))
    value = math.log(norm)
    for i in range(m):
        target = exp_negative(np.float64(grade[level[i]] - top)) / target_norm
        value -= target * (s[i] - highest)
        gradient[i] = gradient[i] / norm - target
    return value


@inner
def lambdarank(slope, target, graded, s, order, work, gradient):
    """Sum of |change of the measure when i and j swap| log(1 + exp(-slope (s_i - s_j))), the change taken as a constant.

    Only pairs with one document among the first `depth` of `order` can change the measure: O(m depth).
    """
    level, depth = graded.level, graded.depth
    m = s.shape[0]
    rank = work.integers[at.RANK]
    rank[:m] = m
    _sum_before_positions(target.kind, graded, order[:depth], work)
    value = 0.0
    for p in range(depth):
        first = order[p]
        for other in range(m):
            if rank[other] <= p or level[other] == level[first]:
                continue
            i, j = (first, other) if level[first] > level[other] else (other, first)
            delta = _swap_change(target, graded, work, i, j)
            x = slope * (s[i] - s[j])
            e = exp_negative(-abs(x))
            force = slope * delta * (e if x > 0.0 else 1.0) / (1.0 + e)
            value += delta * ((0.0 if x > 0.0 else -x) + log1p_unit(e))
            gradient[i] -= force
            gradient[j] += force
    return value


@leaf
def _sum_before_positions(kind, graded, order, work):
    """Prepare `_swap_change` for the first documents of a ranking: their `rank`, and for average precision sums before them.

    `harmonic[p]` is the sum of 1 / position over the relevant documents before position p, `relevant_before[p]` their number.
    """
    rank, harmonic, before = work.integers[at.RANK], work.reals[at.HARMONIC], work.reals[at.RELEVANT_BEFORE]
    harmonic[0] = 0.0
    before[0] = 0.0
    for p in range(order.shape[0]):
        rank[order[p]] = p
        hit = 1.0 if kind == AP and graded.level[order[p]] == 1 else 0.0
        harmonic[p + 1] = harmonic[p] + hit / (p + 1.0)
        before[p + 1] = before[p] + hit


@leaf
def _swap_change(target, graded, work, i, j):
    """|change of the measure| when documents i and j, R_i > R_j, swap places; after `_sum_before_positions`."""
    kind = target.kind
    p_i, p_j = work.integers[at.RANK, i], work.integers[at.RANK, j]
    if kind == AP:
        harmonic, before = work.reals[at.HARMONIC], work.reals[at.RELEVANT_BEFORE]
        a = min(p_i, p_j)
        b = max(p_i, p_j)
        # The relevant one is taken from b to a; the reverse swap changes AP by as much.
        at_a = (before[a] + 1.0) / (a + 1.0)
        between = harmonic[b] - harmonic[a + 1]
        # The document at b is then relevant: before[b] + 1, minus one if a was the relevant one.
        before_b = before[b] if p_i > p_j else before[b] - 1.0
        return (at_a + between - (before_b + 1.0) / (b + 1.0)) / np.float64(graded.size[graded.levels - 1])
    rise = graded.gain[graded.level[i]] - graded.gain[graded.level[j]]
    m = graded.level.shape[0]
    d_i = discount(kind, p_i, m, target.discounts) if p_i < graded.depth else 0.0
    d_j = discount(kind, p_j, m, target.discounts) if p_j < graded.depth else 0.0
    return rise * abs(d_i - d_j) / graded.ideal
