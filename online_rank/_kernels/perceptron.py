"""The perceptron for ranking: scores, loss, credit and update of a block of queries in one call.

`learn_one` is this kernel with a block of one query, so that a block learns bit for bit what the queries learn one by one.
"""

import math

import numpy as np

from online_rank._kernels._jit import fast_kernel, kernel
from online_rank._kernels.arrays import all_finite, copy_to
from online_rank._kernels.codes import AP, ARGMAX, DELTA, MAX_GRADE, MEAN, SPREAD, TIGHT
from online_rank._kernels.comparators import compare
from online_rank._kernels.credit import (
    SHORT,
    argmax_credit,
    delta_credit,
    line_up,
    list_head,
    pair_credit,
    spread_credit,
    spread_over_few,
)
from online_rank._kernels.measures import grade_levels, ideal, level_weights, order_pessimistic, ranking_loss, weights_in_order
from online_rank._kernels.rounds import write_round


@fast_kernel
def score(X, w, s):
    """Scores s = X w of documents (n, d) by weights (d,), accumulated in float64."""
    n, d = X.shape
    for i in range(n):
        total = 0.0
        for j in range(d):
            total += X[i, j] * w[j]
        s[i] = total


@fast_kernel
def score_and_norms(X, first, m, w, s):
    """Scores of m documents from row `first` on. Returns the largest and the sum of their squared norms."""
    d = X.shape[1]
    largest = 0.0
    norms = 0.0
    for i in range(m):
        total = 0.0
        norm = 0.0
        for j in range(d):
            x = np.float64(X[first + i, j])
            total += x * w[j]
            norm += x * x
        s[i] = total
        norms += norm
        largest = max(largest, norm)
    return largest, norms


@fast_kernel
def score_twice_and_norms(X, first, m, w, served, s, served_s):
    """`score_and_norms`, with the scores by other weights from the same pass."""
    d = X.shape[1]
    largest = 0.0
    norms = 0.0
    for i in range(m):
        total = 0.0
        other = 0.0
        norm = 0.0
        for j in range(d):
            x = np.float64(X[first + i, j])
            total += x * w[j]
            other += x * served[j]
            norm += x * x
        s[i] = total
        served_s[i] = other
        norms += norm
        largest = max(largest, norm)
    return largest, norms


@fast_kernel
def combine_rows(X, first, c, rows, z):
    """z = sum of c_i x_i over documents from row `first` on; rows without credit are not touched. Returns ||z||^2.

    `rows` (m,) is workspace.
    """
    d = X.shape[1]
    n = 0
    for i in range(c.shape[0]):
        rows[n] = i
        n += c[i] != 0.0
    z[:] = 0.0
    # Four rows at a time, so that z is read and written a quarter as often.
    for r in range(0, n - 3, 4):
        i0, i1, i2, i3 = rows[r], rows[r + 1], rows[r + 2], rows[r + 3]
        c0, c1, c2, c3 = c[i0], c[i1], c[i2], c[i3]
        for j in range(d):
            z[j] += c0 * X[first + i0, j] + c1 * X[first + i1, j] + (c2 * X[first + i2, j] + c3 * X[first + i3, j])
    for r in range(n - n % 4, n):
        for j in range(d):
            z[j] += c[rows[r]] * X[first + rows[r], j]
    norm = 0.0
    for j in range(d):
        norm += z[j] * z[j]
    return norm


@fast_kernel
def add_scaled(w, a, z, out):
    """out = w + a z. Returns ||out||^2."""
    norm = 0.0
    for j in range(w.shape[0]):
        out[j] = w[j] + a * z[j]
        norm += out[j] * out[j]
    return norm


@kernel
def learn(
    X, y, offsets, weights, discounts, config, constants, w, served, counters, rounds,
    track=False, comparators=None, values=None,
):  # fmt: skip
    """Learn from a block of queries.

    Parameters
    ----------
    X, y, offsets : features (n, d), grades (n,), and where queries begin and end (q + 1,)
    weights : (q,) sample weights
    discounts : (>= largest m,) table of D(p)
    config : int64 array: measure kind, cutoff, threshold, credit, slam mass?, within grade, gradient update?, margin by gap?
    constants : float64 array: relative margin beta, step size, margin Delta, factor by which the average forgets
    w : (d,) learning weights, changed in place
    served : (d,) averaged weights, changed in place; (0,) when the learning weights serve
    counters : float64 array, changed in place: effective number of averaged weight vectors, documents seen, mean of ||x||^2
    rounds : (q, 10) out, a `Round` a row
    track : whether the loss of the served weights is computed too
    comparators : (n, d) weights whose losses on the pairs of the updates are computed too; None for none
    values : (q, n, 2) out, losses of the comparators (`compare`); not touched without comparators

    Returns
    -------
    Number of queries learned. When it is smaller than q, the next query has bad values or would make the state non-finite, and
    nothing of it was learned.
    """
    kind, cutoff, threshold, credit, slam_mass, within, by_gradient, by_gap = config
    beta, step, margin, keep = constants
    d = w.shape[0]
    longest = 0
    for q in range(weights.shape[0]):
        longest = max(longest, offsets[q + 1] - offsets[q])
    # One workspace of each kind, because for a short query the number of allocations is what counts. There are at most as many
    # levels as documents; `start`, `tree` and `prefix` have an element more.
    width = longest + 2
    floats = np.empty(10 * width + 2 * d)
    reals = floats[: 10 * width].reshape(10, width)
    tree = reals[6:8]
    prefix = reals[8:10]
    z, new = floats[10 * width : 10 * width + d], floats[10 * width + d :]
    numbers = np.empty(10 * width + MAX_GRADE + 1, dtype=np.int64)
    integers = numbers[: 10 * width].reshape(10, width)
    start, grade, count, per_level = integers[6], integers[7], integers[8], integers[9]
    table = numbers[10 * width :]
    # What is left out is known when the kernel is compiled, and nothing of it is.
    if comparators is not None:
        compare_reals = np.empty((7, longest + 1))
        compare_integers = np.empty((4, longest), dtype=np.int64)
    whole = credit == DELTA or within == TIGHT

    for q in range(weights.shape[0]):
        first = offsets[q]
        m = offsets[q + 1] - first
        # Row by row: only then does the compiler know that a row is contiguous.
        s, v, c = reals[0, :m], reals[1, :m], reals[2, :m]
        keys, other_keys, share = reals[3, :m], reals[4, :m], reals[5, :m]
        level, order, index = integers[0, :m], integers[1, :m], integers[2, :m]
        head, place, listed = integers[3, :m], integers[4, :m], integers[5, :m]
        weight = weights[q]
        if track and served.shape[0] > 0:
            largest, norms = score_twice_and_norms(X, first, m, w, served, s, share)
        else:
            largest, norms = score_and_norms(X, first, m, w, s)
        levels = grade_levels(y[first : first + m], kind, threshold, level, grade, count, table)
        if not (levels >= 0 and math.isfinite(norms) and all_finite(s) and weight >= 0.0 and math.isfinite(weight)):
            return q
        if comparators is not None:
            values[q] = 0.0
        if levels < 2:
            write_round(rounds[q], 0.0, 0.0 if track else np.nan, 0.0, 0.0, 0.0, weight, m, largest, 0.0, True)
            continue

        n_seen = counters[1] + m
        mean_square = counters[2] + (norms - m * counters[2]) / n_seen
        depth = min(cutoff, m) if cutoff > 0 else m
        ideal_value = ideal(kind, depth, m, levels, grade, count, discounts) if kind != AP else 1.0
        order_pessimistic(s, level, levels, m if whole else depth, order, index, per_level, keys, other_keys)
        loss = ranking_loss(kind, depth, order, level, levels, grade, count, ideal_value, discounts)
        if within == MEAN:
            v_max = level_weights(kind, cutoff, levels, grade, count, ideal_value, m, discounts, tree[0])
            for i in range(m):
                v[i] = tree[0, level[i]]
        elif within == TIGHT:
            v_max = weights_in_order(kind, cutoff, order, level, levels, grade, count, ideal_value, discounts, per_level, v)
        else:
            for i in range(m):
                index[i] = i
            v_max = weights_in_order(kind, cutoff, index, level, levels, grade, count, ideal_value, discounts, per_level, v)
        served_loss = loss if track else np.nan
        if track and served.shape[0] > 0:
            order_pessimistic(share, level, levels, depth, place, index, per_level, keys, other_keys)
            served_loss = ranking_loss(kind, depth, place, level, levels, grade, count, ideal_value, discounts)

        mass = 0.0
        square = 0.0
        offset = margin if by_gradient else beta * mean_square
        if loss > 0.0:
            c[:] = 0.0
            if by_gap:
                # s_j - s_i > -Delta (R_i - R_j) says the same of s - Delta R.
                for i in range(m):
                    share[i] = s[i] - margin * grade[level[i]]
                copy_to(s, share)
            t_offset = 0.0 if by_gap else offset
            n = list_head(level, v, credit != ARGMAX and credit != SPREAD, head)
            if credit == ARGMAX:
                mass = argmax_credit(s, level, levels, v, t_offset, by_gradient, head[:n], tree[0], per_level, c)
            elif credit == DELTA:
                mass = delta_credit(
                    kind, depth, s, level, levels, grade, count, t_offset, by_gradient,
                    order, index, prefix[0], prefix[1], ideal_value, discounts, c,
                )  # fmt: skip
            elif credit == SPREAD and n <= SHORT:
                mass = spread_over_few(s, level, v, t_offset, by_gradient, head[:n], share, c)
            else:
                line_up(s, level, levels, t_offset, by_gradient, head[:n], keys, index, other_keys, place, start, listed)
                if credit == SPREAD:
                    mass = spread_credit(level, levels, v, head[:n], start, listed, tree[0], share, c)
                else:
                    mass = pair_credit(credit, kind, level, levels, grade, head[:n], start, listed, tree[0], tree[1], c)
            scale = weight if slam_mass else weight * loss / mass
            if comparators is not None:
                compare(
                    X, first, comparators, kind, depth, credit, margin, by_gap, s, t_offset, by_gradient, level, levels, grade,
                    count, v, share, per_level, head[:n], start, listed, index, prefix, ideal_value, discounts, scale,
                    weight, compare_reals, compare_integers, values[q],
                )  # fmt: skip
            for i in range(m):
                c[i] *= scale
            mass = weight * mass if slam_mass else weight * loss
            square = combine_rows(X, first, c, index, z)
            if not (math.isfinite(square) and math.isfinite(mass) and math.isfinite(add_scaled(w, step, z, new))):
                return q
            copy_to(w, new)

        counters[1] = n_seen
        counters[2] = mean_square
        if served.shape[0] > 0:
            averaged = keep * counters[0] + 1.0
            counters[0] = averaged
            for j in range(d):
                served[j] += (w[j] - served[j]) / averaged
        write_round(rounds[q], loss, served_loss, mass, square, offset, weight, m, largest, v_max, False)
    return weights.shape[0]
