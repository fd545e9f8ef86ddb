"""Costs of whole lists: SLAM, ListNet, LambdaRank.

Each function adds the gradient in the scores to `gradient` (m,), which starts at zero, and returns the value.
"""

import math

import numpy as np

from online_rank._kernels._jit import inner
from online_rank._kernels.pair_credits import argmax_credit, sum_before_positions, swap_change
from online_rank._kernels.vector_math import exp_negative, log1p_unit
from online_rank._kernels.violations import Violation, list_preferred
from online_rank._kernels.workspace import BARS, BEST, PREFERRED, RANK


@inner
def slam(margin, t, graded, v, work, gradient):
    """Sum of v_i max(0, margin + max over less relevant j of t_j - t_i) [CT, eq. 3]. O(m + L)."""
    n = list_preferred(graded.level, v, False, work.integers[PREFERRED])
    mass = argmax_credit(
        graded, v, Violation(t, margin, True), work.integers[PREFERRED, :n], work.integers[BEST], work.reals[BARS], gradient
    )
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
    rank = work.integers[RANK]
    rank[:m] = m
    sum_before_positions(target.kind, graded, order[:depth], work)
    value = 0.0
    for p in range(depth):
        first = order[p]
        for other in range(m):
            if rank[other] <= p or level[other] == level[first]:
                continue
            i, j = (first, other) if level[first] > level[other] else (other, first)
            delta = swap_change(target, graded, work, i, j)
            x = slope * (s[i] - s[j])
            e = exp_negative(-abs(x))
            force = slope * delta * (e if x > 0.0 else 1.0) / (1.0 + e)
            value += delta * ((0.0 if x > 0.0 else -x) + log1p_unit(e))
            gradient[i] -= force
            gradient[j] += force
    return value
