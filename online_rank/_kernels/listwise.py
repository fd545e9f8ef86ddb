"""Costs of whole lists: SLAM, ListNet, LambdaRank.

Each function adds the gradient in the scores to `gradient` (m,), which starts at zero, and returns the value.
"""

import math

import numpy as np

from online_rank._kernels._jit import kernel
from online_rank._kernels.codes import AP
from online_rank._kernels.credit import argmax_credit, list_head, swap_delta
from online_rank._kernels.measures import gain
from online_rank._kernels.vector_math import exp_negative, log1p_unit


@kernel
def slam(margin, s, level, levels, v, head, top, best, gradient):
    """Sum of v_i max(0, margin + max over less relevant j of s_j - s_i) [CT, eq. 3]. O(m + L).

    `head` (m,), `top` and `best` (L,) are workspace.
    """
    n = list_head(level, v, False, head)
    mass = argmax_credit(s, level, levels, v, margin, True, head[:n], top, best, gradient)
    value = margin * mass
    highest = s.max()
    for i in range(s.shape[0]):
        gradient[i] = -gradient[i]
        value += gradient[i] * (s[i] - highest)
    return value


@kernel
def listnet(s, level, levels, grade, gradient):
    """Cross-entropy between the softmax of the grades and the softmax of the scores. O(m)."""
    m = s.shape[0]
    highest = s.max()
    top = grade[levels - 1]
    norm = 0.0
    target_norm = 0.0
    for i in range(m):
        gradient[i] = math.exp(s[i] - highest)
        norm += gradient[i]
        target_norm += math.exp(np.float64(grade[level[i]] - top))
    value = math.log(norm)
    for i in range(m):
        target = math.exp(np.float64(grade[level[i]] - top)) / target_norm
        value -= target * (s[i] - highest)
        gradient[i] = gradient[i] / norm - target
    return value


@kernel
def lambdarank(
    slope, kind, depth, s, level, levels, grade, count, order, ideal_value, discounts, rank, harmonic, before, gains, gradient
):
    """Sum of |change of the measure when i and j swap| log(1 + exp(-slope (s_i - s_j))), the change taken as a constant.

    Only pairs with one document among the first `depth` of `order` can change the measure: O(m depth). `rank` and `gains`
    (m,), `harmonic` and `before` (m + 1,) are workspace.
    """
    m = s.shape[0]
    rank[:] = m
    harmonic[0] = 0.0
    before[0] = 0.0
    for p in range(depth):
        i = order[p]
        rank[i] = p
        hit = 1.0 if kind == AP and level[i] == 1 else 0.0
        harmonic[p + 1] = harmonic[p] + hit / (p + 1.0)
        before[p + 1] = before[p] + hit
    relevant = np.float64(count[levels - 1])
    for i in range(m):
        gains[i] = gain(kind, grade[level[i]])
    value = 0.0
    for p in range(depth):
        first = order[p]
        for other in range(m):
            if rank[other] <= p or level[other] == level[first]:
                continue
            i, j = (first, other) if level[first] > level[other] else (other, first)
            delta = swap_delta(
                kind, depth, rank[i], rank[j], gains[i], gains[j], harmonic, before, relevant, ideal_value, m, discounts
            )
            x = slope * (s[i] - s[j])
            e = exp_negative(-abs(x))
            force = slope * delta * (e if x > 0.0 else 1.0) / (1.0 + e)
            value += delta * ((0.0 if x > 0.0 else -x) + log1p_unit(e))
            gradient[i] -= force
            gradient[j] += force
    return value
