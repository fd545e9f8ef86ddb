"""The perceptron for ranking: scores, loss, credit and update of a block of queries in one call.

`learn_one` is this kernel with a block of one query, so that a block learns bit for bit what the queries learn one by one.
"""

import math
from typing import NamedTuple

import numpy as np

from online_rank._kernels._jit import inner, kernel
from online_rank._kernels.arrays import all_finite, copy_to
from online_rank._kernels.averages import add_to_average
from online_rank._kernels.codes import DELTA, TIGHT
from online_rank._kernels.credit import Violation, assign_credit
from online_rank._kernels.dense import add_scaled, combine_rows, score, score_with_norms, shorten
from online_rank._kernels.graded import Target, grade_query, rank_pessimistically, ranking_loss
from online_rank._kernels.rounds import write_round
from online_rank._kernels.weight_vectors import weight_documents
from online_rank._kernels.workspace import (
    CREDIT,
    ORDER,
    SCORES,
    SPARE_ITEMS,
    VIOLATION_KEYS,
    WEIGHTS,
    longest_query,
    workspace,
)


class Rule(NamedTuple):
    """How a perceptron updates: its settings, as `PerceptronRanker` has them."""

    credit: int
    slam_mass: int
    within_grade: int
    by_gradient: int
    by_gap: int
    margin: float


@inner
def judge(target, rule, graded, s, v, work, all_forms):
    """Rank a query by its scores s (m,) and weigh its documents; the ranking is left in the row ORDER of `work`.

    Returns the loss of the ranking, and v_max of the weight vector v (m,).
    """
    m = s.shape[0]
    order = work.integers[ORDER, :m]
    whole = all_forms is not None and (rule.credit == DELTA or rule.within_grade == TIGHT)
    rank_pessimistically(s, graded, m if whole else graded.depth, order, work)
    loss = ranking_loss(target, graded, order)
    v_max = weight_documents(target, graded, rule.within_grade, order, work, v, all_forms)
    return loss, v_max


@inner
def violation(rule, graded, s, offset, keys, all_forms):
    """The `Violation` of a rule with scores s (m,) and the margin `offset`."""
    if all_forms is not None and rule.by_gap:
        # s_j - s_i > -Delta (R_i - R_j) says the same of s - Delta R.
        for i in range(s.shape[0]):
            keys[i] = s[i] - rule.margin * graded.grade[graded.level[i]]
        return Violation(keys, 0.0, rule.by_gradient)
    return Violation(s, offset, rule.by_gradient)


@kernel
def learn(
    X, y, offsets, weights, discounts, config, constants, w, average, counters, rounds, served=None, all_forms=None
):  # fmt: skip
    """Learn from a block of queries.

    Parameters
    ----------
    X, y, offsets : features (n, d), grades (n,), and where queries begin and end (q + 1,)
    weights : (q,) sample weights
    discounts : (>= largest m,) table of D(p)
    config : int64 array: measure kind, cutoff, threshold, credit, slam mass?, within grade, gradient update?, margin by gap?
    constants : float64 array: relative margin beta, step size, margin Delta, decay of the average, cap kappa of the norm (0 for
        none), whether the average's mistakes are learned from
    w : (d,) learning weights, changed in place
    average : (d,) averaged weights, changed in place; (0,) when the learning weights serve
    counters : float64 array, changed in place: effective number of averaged weight vectors, documents seen, mean of ||x||^2, sum
        of the ||z||^2 + 2 tau V
    rounds : (q, 10) out, a `Round` a row
    served : None, or (n,) scores that were served: they, not those of w, decide loss, pairs and mass
    all_forms : None for credit SPREAD, grade means and a constant margin, else True: the other forms are compiled only then

    Returns
    -------
    Number of queries learned. When it is smaller than q, the next query has bad values or would make the state non-finite, and
    nothing of it was learned.
    """
    kind, cutoff, threshold, credit, slam_mass, within, by_gradient, by_gap = config
    beta, step, margin, decay, cap, by_average = constants
    target = Target(kind, cutoff, threshold, discounts)
    rule = Rule(credit, slam_mass, within, by_gradient, by_gap, margin)
    work = workspace(longest_query(offsets))
    z, new = np.empty_like(w), np.empty_like(w)
    for q in range(weights.shape[0]):
        first, weight = offsets[q], weights[q]
        m = offsets[q + 1] - first
        documents = X[first : first + m]
        s, v, c = work.reals[SCORES, :m], work.reals[WEIGHTS, :m], work.reals[CREDIT, :m]
        largest, norms = score_with_norms(documents, w, s)
        if served is not None:
            copy_to(s, served[first : first + m])
        elif by_average > 0.0 and counters[0] > 0.0 and average.shape[0] > 0:
            score(documents, average, s)
        graded = grade_query(target, y[first : first + m], work)
        if not (graded.levels >= 0 and math.isfinite(norms) and all_finite(s) and weight >= 0.0 and math.isfinite(weight)):
            return q
        if graded.levels < 2:
            write_round(rounds[q], 0.0, 0.0, 0.0, 0.0, weight, m, largest, 0.0, True)
            continue
        n_seen = counters[1] + m
        mean_square = counters[2] + (norms - m * counters[2]) / n_seen
        offset = margin if by_gradient else beta * mean_square
        loss, v_max = judge(target, rule, graded, s, v, work, all_forms)
        mass = 0.0
        square = 0.0
        if loss > 0.0:
            violated = violation(rule, graded, s, offset, work.reals[VIOLATION_KEYS, :m], all_forms)
            raw_mass = assign_credit(credit, target, graded, v, violated, work, c, all_forms)
            scale = weight if slam_mass else weight * loss / raw_mass
            mass = weight * raw_mass if slam_mass else weight * loss
            for i in range(m):
                c[i] *= scale
            square = combine_rows(documents, c, work.integers[SPARE_ITEMS], z)
            if not (math.isfinite(square) and math.isfinite(mass) and math.isfinite(add_scaled(w, step, z, new))):
                return q
            copy_to(w, new)
            counters[3] += square + 2.0 * offset * mass
            if cap > 0.0:
                shorten(w, cap * math.sqrt(counters[3]))
        counters[1] = n_seen
        counters[2] = mean_square
        add_to_average(average, w, decay, counters)
        write_round(rounds[q], loss, mass, square, offset, weight, m, largest, v_max, False)
    return weights.shape[0]
