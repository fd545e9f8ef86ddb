"""Losses of comparators: what other weights lose on the very pairs that a ranker learns from.

With keys k = u-scores (s - Delta R for a margin that grows with the grade gap, and margin 0), the hinge of a pair (i, j) with
R_i > R_j is max(0, margin + k_j - k_i). Nothing here is part of learning: the pairs are found again, from the scores that
decided them and the grades.
"""

import math

import numpy as np

from online_rank._kernels._jit import kernel, leaf
from online_rank._kernels.codes import N_COUNTERS, SORT_SQUARES, SPREAD_SQUARES
from online_rank._kernels.credit import assign_credit, hinges, prepare_hinges
from online_rank._kernels.fits import require
from online_rank._kernels.graded import grade_query
from online_rank._kernels.perceptron import judge, scale_and_mass, settings, violation
from online_rank._kernels.workspace import CREDIT, KEYS, VIOLATION_KEYS, WEIGHTS, workspace


@kernel
def compare(y, s, weight, offset, scores, discounts, config, counters, out):
    """Losses of comparators in a round with an update.

    Parameters
    ----------
    y : (m,) grades of the query
    s : (m,) scores that decided the update
    weight, offset : sample weight and margin tau of the round
    scores : (n, m) scores by the comparators
    discounts, config : as `perceptron.learn` takes them
    counters : those of the ranker after the round
    out : (n, 2) out: F(u) = sum of a_ij hinge_ij(u), and f(u) = weight phi_v; infinity stands for what overflows
    """
    require(y.shape[0] == s.shape[0] == scores.shape[1] and discounts.shape[0] >= s.shape[0])
    require(out.shape[0] >= scores.shape[0] and out.shape[1] == 2 and counters.shape[0] == N_COUNTERS)
    target, rule = settings(config, discounts)
    m = s.shape[0]
    work = workspace(m)
    v = work.reals[WEIGHTS, :m]
    graded = grade_query(target, y, work)
    loss, _ = judge(target, rule, graded, s, v, work, True)
    violated = violation(rule, graded, s, offset, work.reals[VIOLATION_KEYS, :m], True)
    mass = assign_credit(rule.credit, target, graded, v, violated, work, work.reals[CREDIT, :m], True)
    scale, _ = scale_and_mass(rule, loss, mass, weight)
    pairs = prepare_hinges(rule.credit, graded, v, violated, work)
    ratio = counters[SPREAD_SQUARES] / counters[SORT_SQUARES] if counters[SORT_SQUARES] > 0.0 else 1.0
    of_spread = 1.0 / (1.0 + ratio * ratio)
    k = np.empty(m)
    margin = 0.0 if rule.by_gap else rule.margin
    for n in range(scores.shape[0]):
        if not _keys_of(rule, graded, scores[n], k):
            out[n] = np.inf
            continue
        total = hinges(rule.credit, target, graded, v, violated, pairs, of_spread, k, margin, work)
        out[n, 0] = scale * total
        out[n, 1] = weight * slam_loss(k, graded.level, graded.levels, v, margin, work.reals[KEYS])


@leaf
def _keys_of(rule, graded, scores, k):
    """Write a comparator's keys (m,): its scores, less that of the first document, which cancels in every pair.

    Returns whether they are finite.
    """
    finite = True
    for i in range(k.shape[0]):
        k[i] = scores[i] - scores[0]
        if rule.by_gap:
            k[i] -= rule.margin * graded.grade[graded.level[i]]
        finite = finite and math.isfinite(k[i])
    return finite


@leaf
def slam_loss(k, level, levels, v, margin, best):
    """phi_v = sum of v_i max(0, margin + max over less relevant j of k_j - k_i) [CT, eq. 3]. O(m + L).

    `best` (levels,) is workspace.
    """
    best[:levels] = -np.inf
    for i in range(k.shape[0]):
        best[level[i]] = max(best[level[i]], k[i])
    for lev in range(1, levels):
        best[lev] = max(best[lev], best[lev - 1])
    total = 0.0
    for i in range(k.shape[0]):
        if level[i] > 0 and v[i] > 0.0:
            total += v[i] * max(0.0, margin + best[level[i] - 1] - k[i])
    return total
