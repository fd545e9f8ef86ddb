"""Losses of comparators: what other weights lose on the very pairs that a ranker learns from.

With keys k = u-scores (s - Delta R for a margin that grows with the grade gap, and margin 0), the hinge of a pair (i, j) with
R_i > R_j is max(0, margin + k_j - k_i).
"""

import math

import numpy as np

from online_rank._kernels._jit import fast_kernel, kernel
from online_rank._kernels.codes import ARGMAX, DELTA, GAIN, SPREAD
from online_rank._kernels.credit import least_violating, line_up, swap_delta
from online_rank._kernels.measures import gain
from online_rank._kernels.order import sort_descending

# Up to this number of steps a document, pairs are added up one by one; beyond, by sweeps. Where the two take equally long.
_STEPS = 1024


@fast_kernel
def _scores_from_first(X, first, u, k):
    """Scores of the documents from row `first` on by weights u, less that of the first one, which cancels in every pair."""
    d = X.shape[1]
    for i in range(k.shape[0]):
        total = 0.0
        for j in range(d):
            total += X[first + i, j] * u[j]
        k[i] = total
    origin = k[0]
    for i in range(k.shape[0]):
        k[i] -= origin


@kernel
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


@kernel
def _hinge_on_best(k, level, v, margin, t, offset, strict, best):
    """Sum of v_i times the hinge of (i, best[level of i - 1]), the pairs of `argmax_credit`."""
    total = 0.0
    for i in range(k.shape[0]):
        if level[i] > 0 and v[i] > 0.0:
            j = best[level[i] - 1]
            if t[j] >= least_violating(t[i], offset, strict):
                total += v[i] * max(0.0, margin + k[j] - k[i])
    return total


@kernel
def _hinge_by_delta(
    kind, depth, k, margin, t, offset, strict, level, levels, grade, count, rank, harmonic, before, ideal_value, discounts
):
    """Sum of |change of the measure when i and j swap| times the hinge, over the violated pairs. O(m^2) scalars."""
    m = k.shape[0]
    relevant = np.float64(count[levels - 1])
    total = 0.0
    for i in range(m):
        gain_i = gain(kind, grade[level[i]])
        bar = least_violating(t[i], offset, strict)
        for j in range(m):
            if level[j] < level[i] and t[j] >= bar:
                hinge = margin + k[j] - k[i]
                if hinge > 0.0:
                    gain_j = gain(kind, grade[level[j]])
                    total += hinge * swap_delta(
                        kind, depth, rank[i], rank[j], gain_i, gain_j, harmonic, before, relevant, ideal_value, m, discounts
                    )
    return total


@fast_kernel
def _hinge_one_by_one(credit, kind, k, margin, level, levels, grade, share, head, start, listed, k_at, level_at, gain_at):
    """Sum over the violated pairs of a_ij times the hinge: a_ij = share_i (`spread`), 1 (`pairs`) or G_i - G_j (`gain`).

    For a query that is lined up (`line_up`); O(pairs). The last three (m,) are workspace.
    """
    unit = gain(kind, grade[levels - 1])
    for p in range(start[head.shape[0]]):
        j = listed[p]
        k_at[p] = k[j]
        level_at[p] = level[j]
        gain_at[p] = gain(kind, grade[level[j]]) / unit
    total = 0.0
    for r in range(head.shape[0]):
        i = head[r]
        own = level[i]
        short = margin - k[i]
        hinges = 0.0
        if credit == GAIN:
            gain_i = gain(kind, grade[own]) / unit
            for p in range(start[r + 1]):
                hinge = max(0.0, short + k_at[p])
                hinges += (gain_i - gain_at[p]) * hinge if level_at[p] < own else 0.0
        else:
            for p in range(start[r + 1]):
                hinge = max(0.0, short + k_at[p])
                hinges += hinge if level_at[p] < own else 0.0
        total += share[i] * hinges if credit == SPREAD else hinges
    return total * unit if credit == GAIN else total


@kernel
def _hinge_by_sweeps(
    credit, kind, k, margin, level, levels, grade, share, head, start, listed, place, reach, order, other_order,
    keys, other_keys, tree,
):  # fmt: skip
    """What `_hinge_one_by_one` computes, in O(m L log m).

    One sweep a grade, by descending k: a document below the grade enters the trees when its hinge with the next document of the
    grade turns positive. They are Fenwick trees over places in `listed`, where a prefix holds the violators: `tree` (4, m + 1)
    has the number, and the sums of k, G and G k, of what has entered. What follows `listed` is workspace.
    """
    m = k.shape[0]
    sums = 4 if credit == GAIN else 2
    unit = gain(kind, grade[levels - 1])
    for p in range(m):
        place[listed[p]] = p
        reach[p] = 0
        order[p] = p
        keys[p] = k[p]
    for r in range(head.shape[0]):
        reach[head[r]] = start[r + 1]
    sort_descending(keys, order, other_keys, other_order)
    total = 0.0
    for lev in range(1, levels):
        tree[:, : m + 1] = 0.0
        seen = 0
        gain_i = gain(kind, grade[lev]) / unit
        for p in range(m):
            i = order[p]
            if level[i] != lev or reach[i] == 0:
                continue
            while seen < m and margin + k[order[seen]] - k[i] > 0.0:
                j = order[seen]
                seen += 1
                if level[j] < lev:
                    gain_j = gain(kind, grade[level[j]]) / unit
                    position = place[j] + 1
                    while position <= m:
                        tree[0, position] += 1.0
                        tree[1, position] += k[j]
                        if sums == 4:
                            tree[2, position] += gain_j
                            tree[3, position] += gain_j * k[j]
                        position += position & -position
            n, key_sum, gains, gain_keys = 0.0, 0.0, 0.0, 0.0
            position = reach[i]
            while position > 0:
                n += tree[0, position]
                key_sum += tree[1, position]
                if sums == 4:
                    gains += tree[2, position]
                    gain_keys += tree[3, position]
                position -= position & -position
            hinges = n * (margin - k[i]) + key_sum
            if credit == SPREAD:
                total += share[i] * hinges
            elif credit == GAIN:
                total += gain_i * hinges - (gains * (margin - k[i]) + gain_keys)
            else:
                total += hinges
    return total * unit if credit == GAIN else total


@kernel
def compare(
    X, first, U, kind, depth, credit, margin, by_gap, t, offset, strict, level, levels, grade, count, v, share, best,
    head, start, listed, delta_rank, prefix, ideal_value, discounts, scale, weight, reals, integers, out,
):  # fmt: skip
    """Losses of comparators in a round with an update.

    Parameters
    ----------
    X, first : the documents are the rows from `first` on
    U : (n, d) comparators
    margin, by_gap : the comparators' margin Delta, or Delta (R_i - R_j) when `by_gap`
    t, offset, strict : keys of the ranker and which pairs they violate
    share, best : what `spread_credit` and `argmax_credit` left behind
    head : the documents that can be outscored (`list_head`)
    start, listed : workspace for them (`line_up`)
    delta_rank, prefix : what `delta_credit` left behind
    scale : factor between a credit's pair weights and the a_ij of the update
    weight : sample weight
    reals, integers : (7, at least m + 1) and (4, at least m) workspace
    out : (n, 2) out: F(u) = sum of a_ij hinge_ij(u), and f(u) = weight phi_v

    Infinity stands for what overflows.
    """
    if U.shape[0] == 0:
        return
    m = t.shape[0]
    k, keys, other_keys = reals[0, :m], reals[1, :m], reals[2, :m]
    place, reach, order, other_order = integers[0, :m], integers[1, :m], integers[2, :m], integers[3, :m]
    steps = 0
    if credit != ARGMAX and credit != DELTA:
        line_up(t, level, levels, offset, strict, head, keys, order, other_keys, place, start, listed)
        for r in range(head.shape[0]):
            steps += start[r + 1]
    for n in range(U.shape[0]):
        _scores_from_first(X, first, U[n], k)
        pair_margin = margin
        if by_gap:
            pair_margin = 0.0
            for i in range(m):
                k[i] -= margin * grade[level[i]]
        finite = True
        for i in range(m):
            finite = finite and math.isfinite(k[i])
        if not finite:
            out[n] = np.inf
            continue
        if credit == ARGMAX:
            pairs = _hinge_on_best(k, level, v, pair_margin, t, offset, strict, best)
        elif credit == DELTA:
            pairs = _hinge_by_delta(
                kind, depth, k, pair_margin, t, offset, strict, level, levels, grade, count, delta_rank, prefix[0], prefix[1],
                ideal_value, discounts,
            )  # fmt: skip
        elif steps <= _STEPS * m:
            pairs = _hinge_one_by_one(
                credit, kind, k, pair_margin, level, levels, grade, share, head, start, listed, keys, order, other_keys
            )
        else:
            pairs = _hinge_by_sweeps(
                credit, kind, k, pair_margin, level, levels, grade, share, head, start, listed, place, reach, order,
                other_order, keys, other_keys, reals[3:],
            )  # fmt: skip
        # The sweep adds and takes away: rounding may leave a little below the least there is.
        out[n, 0] = scale * max(0.0, pairs)
        out[n, 1] = weight * slam_loss(k, level, levels, v, pair_margin, keys)


@kernel
def accumulate(rounds, values, totals, sums):
    """Add rounds (q, 10) and losses of comparators (q, n, 2) to running totals (`bounds.tracker.Totals`) and sums (n, 2).

    One after the other, so that a block adds up bit for bit as its queries do one by one.
    """
    for q in range(rounds.shape[0]):
        loss, served_loss, mass, square, margin, weight, m, norm, v_max, skipped = rounds[q]
        totals[0] += 1.0
        totals[1] += skipped
        totals[2] += 1.0 if loss > 0.0 else 0.0
        totals[3] += weight * loss
        totals[4] += weight * served_loss
        totals[5] += mass
        totals[6] += square
        totals[7] += margin * mass
        totals[8] = max(totals[8], mass)
        totals[9] = max(totals[9], norm)
        totals[10] = max(totals[10], m)
        totals[11] = max(totals[11], v_max)
        totals[12] = max(totals[12], weight)
        for n in range(sums.shape[0]):
            sums[n, 0] += values[q, n, 0]
            sums[n, 1] += values[q, n, 1]
