"""The perceptron for ranking: scores, loss, credit and update of a block of queries in one call.

`learn_one` is this kernel with a block of one query, so that a block gives the same as its queries one by one, bit for bit.
"""

import math
from typing import NamedTuple

import numpy as np

from online_rank._kernels._jit import inlined, inner, kernel, leaf
from online_rank._kernels.arrays import all_finite, copy_to
from online_rank._kernels.averages import add_to_average
from online_rank._kernels.codes import (
    ADAPTIVE,
    AVERAGED,
    CAPPED_SQUARES,
    DELTA,
    DOCUMENTS,
    LOSS,
    MASS,
    N_COUNTERS,
    ROOT,
    SLAM_MASS,
    SORT_SQUARES,
    SPREAD_SQUARES,
    SQUARES,
    TIGHT,
)
from online_rank._kernels.credit import assign_credit
from online_rank._kernels.dense import add_scaled, combine_rows, score, score_with_norms, shorten
from online_rank._kernels.fits import require, require_block
from online_rank._kernels.graded import Target, grade_query, rank_pessimistically, ranking_loss
from online_rank._kernels.primitives import sum_of_squares
from online_rank._kernels.rounds import write_round
from online_rank._kernels.violations import Violation
from online_rank._kernels.watching import add_up_updates, compare_round, score_under_watch
from online_rank._kernels.weight_vectors import weight_documents
from online_rank._kernels.workspace import (
    CREDIT,
    ORDER,
    OTHER_CREDIT,
    SCORES,
    SPARE_ITEMS,
    VIOLATION_KEYS,
    WEIGHTS,
    longest_query,
    workspace,
)


class Rule(NamedTuple):
    """The update rule of a perceptron: the settings of `PerceptronRanker`."""

    credit: int
    mass: int
    within_grade: int
    by_gradient: int
    by_gap: int
    margin: float
    relative_margin: float
    step: float
    decay: float
    cap: float
    by_average: float


@inlined
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


@inlined
def violation(rule, graded, s, offset, keys, all_forms):
    """The `Violation` of a rule with scores s (m,) and the margin `offset`."""
    if all_forms is not None and rule.by_gap:
        # s_j - s_i > -Delta (R_i - R_j) is the same condition on s - Delta R.
        for i in range(s.shape[0]):
            keys[i] = s[i] - rule.margin * graded.grade[graded.level[i]]
        return Violation(keys, 0.0, rule.by_gradient)
    return Violation(s, offset, rule.by_gradient)


@inner
def settings(config, discounts):
    """The `Target` and the `Rule` of a perceptron."""
    require(config.shape[0] == 14)
    (
        kind, cutoff, threshold, credit, mass, within_grade, by_gradient, by_gap,
        relative_margin, step, margin, decay, cap, by_average,
    ) = config  # fmt: skip
    rule = Rule(
        int(credit), int(mass), int(within_grade), int(by_gradient), int(by_gap), margin, relative_margin, step, decay, cap,
        by_average,
    )  # fmt: skip
    return Target(int(kind), int(cutoff), int(threshold), discounts), rule


@leaf
def margin_of(rule, counters):
    """tau of the next round: beta times the sum of ||z||^2 over the sum of V so far, or the margin of the gradient update."""
    if rule.by_gradient:
        return rule.margin
    return rule.relative_margin * counters[SQUARES] / counters[MASS] if counters[MASS] > 0.0 else 0.0


@leaf
def respond(target, rule, graded, s, weight, offset, work, all_forms):
    """Compute the credit of a query with scores s (m,), scaled to its mass, in the row CREDIT of `work`.

    Returns loss, mass, v_max and what the credit was multiplied by. Without a loss the row is unchanged. For ADAPTIVE both
    credits are scaled (see `assign_credit`).
    """
    m = s.shape[0]
    v, c = work.reals[WEIGHTS, :m], work.reals[CREDIT, :m]
    loss, v_max = judge(target, rule, graded, s, v, work, all_forms)
    if loss == 0.0:
        return loss, 0.0, v_max, 0.0
    violated = violation(rule, graded, s, offset, work.reals[VIOLATION_KEYS, :m], all_forms)
    raw_mass = assign_credit(rule.credit, target, graded, v, violated, work, c, all_forms)
    scale, mass = scale_and_mass(rule, loss, raw_mass, weight)
    for i in range(m):
        c[i] *= scale
    if rule.credit == ADAPTIVE:
        other = work.reals[OTHER_CREDIT]
        for i in range(m):
            other[i] *= scale
    return loss, mass, v_max, scale


@inlined
def scale_and_mass(rule, loss, raw_mass, weight):
    """The factor for a credit of mass `raw_mass`, and the mass V of the update."""
    if rule.mass == SLAM_MASS:
        return weight, weight * raw_mass
    if rule.mass == LOSS:
        mass = weight * loss
    elif rule.mass == ROOT:
        mass = weight * math.sqrt(loss)
    else:
        raise ValueError("no kernel knows this mass")
    return mass / raw_mass, mass


@leaf
def share_of_spread(square, other_square, mass, counters):
    """lambda of the credit ADAPTIVE, and the sums of the ||z||^2 of its two members at mass 1, including this round.

    The mixture is convex for any lambda, and a convex mixture of members of the mass theorem is a member.
    """
    of_spread = counters[SPREAD_SQUARES] + square / (mass * mass)
    of_sort = counters[SORT_SQUARES] + other_square / (mass * mass)
    # A^-2 / (A^-2 + A'^-2), as a ratio that cannot overflow.
    ratio = of_spread / of_sort if of_sort > 0.0 else 1.0
    return 1.0 / (1.0 + ratio * ratio), of_spread, of_sort


@leaf
def count_update(counters, n_documents, mass, square):
    """Count a round that was not skipped."""
    counters[DOCUMENTS] += n_documents
    counters[SQUARES] += square
    counters[MASS] += mass


@leaf
def _mix(share, z, other):
    """z <- share z + (1 - share) other. Returns ||z||^2."""
    for j in range(z.shape[0]):
        z[j] = share * z[j] + (1.0 - share) * other[j]
    return sum_of_squares(z)


@leaf
def _compare(watch, q, target, rule, graded, s, weight, offset, scale, counters, work, all_forms):
    """Write the losses of the comparators in round q, whose update is counted and whose credit is in `work`."""
    of_spread, _, _ = share_of_spread(0.0, 0.0, 1.0, counters)
    violated = violation(rule, graded, s, offset, work.reals[VIOLATION_KEYS, : s.shape[0]], all_forms)
    compare_round(
        watch.scores,
        watch.moved,
        target,
        rule,
        graded,
        violated,
        weight,
        scale,
        of_spread,
        work,
        watch.values[q],
        all_forms,
    )


@inlined
def learn_block(X, y, offsets, weights, discounts, config, w, average, counters, rounds, served, all_forms, watch):
    """The body of `learn_any_form`; `watch` is None, or a `Watch` of comparators and answers (`watching`)."""
    require_block(X.shape[0], y, offsets, weights, discounts, rounds)
    require(X.shape[1] == w.shape[0] and average.shape[0] in (0, w.shape[0]) and counters.shape[0] == N_COUNTERS)
    if served is not None:
        require(served.shape[0] >= y.shape[0])
    target, rule = settings(config, discounts)
    work = workspace(longest_query(offsets))
    steps = np.empty((3, w.shape[0]))
    z, other_z, new = steps[0], steps[1], steps[2]
    for q in range(weights.shape[0]):
        first, weight = offsets[q], weights[q]
        m = offsets[q + 1] - first
        documents, s, c = X[first : first + m], work.reals[SCORES, :m], work.reals[CREDIT, :m]
        if watch is None:
            largest, norms = score_with_norms(documents, w, s)
        else:
            largest, norms = score_under_watch(watch, X, first, m, w, average, s)
        if served is not None:
            copy_to(s, served[first : first + m])
        elif rule.by_average > 0.0 and counters[AVERAGED] > 0.0 and average.shape[0] > 0:
            score(documents, average, s)
        graded = grade_query(target, y[first : first + m], work)
        if not (graded.levels >= 0 and math.isfinite(norms) and all_finite(s) and weight >= 0.0 and math.isfinite(weight)):
            return q
        if graded.levels < 2:
            write_round(rounds[q], 0.0, 0.0, 0.0, 0.0, weight, m, largest, 0.0, True)
            continue
        offset = margin_of(rule, counters)
        loss, mass, v_max, scale = respond(target, rule, graded, s, weight, offset, work, all_forms)
        square = 0.0
        if loss > 0.0:
            square = combine_rows(documents, c, work.integers[SPARE_ITEMS], z)
            if rule.credit == ADAPTIVE and mass > 0.0:
                other_square = combine_rows(documents, work.reals[OTHER_CREDIT, :m], work.integers[SPARE_ITEMS], other_z)
                share, of_spread, of_sort = share_of_spread(square, other_square, mass, counters)
                square = _mix(share, z, other_z)
            if not (math.isfinite(square) and math.isfinite(mass) and math.isfinite(add_scaled(w, rule.step, z, new))):
                return q
            copy_to(w, new)
            if watch is not None:
                add_up_updates(watch, rule.step, z)
            if rule.credit == ADAPTIVE and mass > 0.0:
                counters[SPREAD_SQUARES], counters[SORT_SQUARES] = of_spread, of_sort
            counters[CAPPED_SQUARES] += square + 2.0 * offset * mass
            if rule.cap > 0.0:
                shorten(w, rule.cap * math.sqrt(counters[CAPPED_SQUARES]))
        count_update(counters, m, mass, square)
        add_to_average(average, w, rule.decay, counters)
        if watch is not None and loss > 0.0 and watch.values.shape[1] > 0:
            _compare(watch, q, target, rule, graded, s, weight, offset, scale, counters, work, all_forms)
        write_round(rounds[q], loss, mass, square, offset, weight, m, largest, v_max, False)
    return weights.shape[0]


@kernel
def learn(X, y, offsets, weights, discounts, config, w, average, counters, rounds):
    """As `learn_any_form`, for the lean forms without `served`: optional arguments cost half a microsecond for each call."""
    return learn_block(X, y, offsets, weights, discounts, config, w, average, counters, rounds, None, None, None)


@kernel
def learn_any_form(X, y, offsets, weights, discounts, config, w, average, counters, rounds, served, all_forms):
    """Learn from a block of queries.

    Parameters
    ----------
    X, y, offsets : features (n, d), grades (n,), and where queries begin and end (q + 1,)
    weights : (q,) sample weights
    discounts : (>= largest m,) table of D(p)
    config : float64 array: measure kind, cutoff, threshold, credit, mass, within grade, gradient update?, margin by gap?,
        relative margin beta, step size, margin Delta, decay of the average, cap kappa of the norm (0 for none), whether to
        learn from the average's mistakes. A single array, since each array costs 0.2 microseconds for each call
    w : (d,) learning weights, changed in place
    average : (d,) averaged weights, changed in place; (0,) if the learning weights serve
    counters : (N_COUNTERS,) float64, changed in place
    rounds : (q, 10) out, a `Round` a row
    served : None, or (n,) scores that were served: they, not those of w, decide loss, pairs and mass
    all_forms : None for credit SPREAD, SORT or ADAPTIVE, grade means and a constant margin, otherwise True; the other forms are
        compiled only then

    Returns
    -------
    Number of queries learned. When it is smaller than q, the next query has bad values or would make the state non-finite, and
    nothing of it was learned.
    """
    return learn_block(X, y, offsets, weights, discounts, config, w, average, counters, rounds, served, all_forms, None)
