"""Grades by level, the pessimistic loss of a ranking, and the weight vectors v of the SLAM family."""

import math

import numpy as np

from online_rank._kernels._jit import kernel
from online_rank._kernels.arrays import copy_to
from online_rank._kernels.codes import AP, LINEAR_NDCG, MAX_GRADE, NDCG
from online_rank._kernels.order import shortlist, sort_descending


@kernel
def grade_levels(y, kind, threshold, level, grade, count, table):
    """Number the distinct grades of a query from the lowest, 0, to the highest.

    Average precision knows two grades: 1 from `threshold` on, else 0.

    Parameters
    ----------
    y : (m,) int64 grades
    level : (m,) out: level of each document
    grade, count : (at least min(m, MAX_GRADE + 1),) out: grade of each level, number of its documents
    table : (MAX_GRADE + 1,) workspace

    Returns
    -------
    Number of levels; -1 when a grade is out of range.
    """
    m = y.shape[0]
    lowest = 0
    highest = 0
    for i in range(m):
        lowest = min(lowest, y[i])
        highest = max(highest, y[i])
    if lowest < 0 or highest > MAX_GRADE:
        return -1
    for i in range(m):
        level[i] = y[i] if kind != AP else np.int64(y[i] >= threshold)
    if kind == AP:
        highest = 1
    table[: highest + 1] = 0
    for i in range(m):
        table[level[i]] += 1
    levels = 0
    for g in range(highest + 1):
        if table[g] > 0:
            grade[levels] = g
            count[levels] = table[g]
            table[g] = levels
            levels += 1
    for i in range(m):
        level[i] = table[level[i]]
    return levels


@kernel
def gain(kind, grade):
    """G(r) = 2^r - 1; r itself for linear NDCG and (binary) average precision."""
    if kind == NDCG:
        # A shift where it is exact: `ldexp` is a call, and the power of most grades is taken many times a query.
        return np.float64((1 << grade) - 1) if grade < 53 else math.ldexp(1.0, int(grade)) - 1.0
    return np.float64(grade)


@kernel
def discount(kind, position, m, discounts):
    """D(p) = 1 / log2(p + 1) at the 0-based position p - 1; m - p for linear NDCG."""
    if kind == LINEAR_NDCG:
        return np.float64(m - 1 - position)
    return discounts[position]


@kernel
def ideal(kind, depth, m, levels, grade, count, discounts):
    """Z(R): the best attainable sum of G D over the first `depth` positions."""
    total = 0.0
    position = 0
    for lev in range(levels - 1, -1, -1):
        g = gain(kind, grade[lev])
        for _ in range(count[lev]):
            if position == depth:
                return total
            total += g * discount(kind, position, m, discounts)
            position += 1
    return total


@kernel
def order_pessimistic(s, level, levels, depth, order, index, start, keys, spare_keys):
    """Rank documents by score, equal scores by ascending grade, then by document order.

    Writes the first `depth` documents to `order` (m,), and after them others, or nothing. `index`, `keys` and `spare_keys` (m,)
    and `start` (levels,) are workspace.
    """
    m = s.shape[0]
    for i in range(m):
        index[i] = i
    n = shortlist(depth, -np.inf, s, index, keys, order)
    sort_descending(keys[:n], order[:n], spare_keys, index)
    first = 0
    while first < depth:
        end = first + 1
        while end < n and keys[end] == keys[first]:
            end += 1
        if end - first > levels:
            _sort_by_level(order[first:end], level, levels, start, index)
        elif end - first > 1:
            # Among equals the level takes the place of the score.
            for p in range(first, end):
                keys[p] = -level[order[p]]
            sort_descending(keys[first:end], order[first:end], spare_keys, index)
        first = end


@kernel
def _sort_by_level(items, level, levels, start, spare_items):
    """Sort documents by ascending level, stably, by counting; `start` (levels,) and `spare_items` are workspace."""
    start[:levels] = 0
    for i in items:
        start[level[i]] += 1
    place = 0
    for lev in range(levels):
        start[lev], place = place, place + start[lev]
    for i in items:
        spare_items[start[level[i]]] = i
        start[level[i]] += 1
    copy_to(items, spare_items)


@kernel
def ranking_loss(kind, depth, order, level, levels, grade, count, ideal_value, discounts):
    """RML: 1 - NDCG, 1 - NDCG@k, 1 - AP or 1 - linear NDCG of a ranking; exactly 0 for every ideal ranking.

    Summed as the differences from the ideal ranking, position by position, so that nothing cancels.
    """
    m = level.shape[0]
    loss = 0.0
    if kind == AP:
        found = 0
        for p in range(m):
            if level[order[p]] == 1:
                found += 1
                loss += (p + 1 - found) / (p + 1)
        return loss / count[1]
    ideal_level = levels - 1
    left = count[ideal_level]
    for p in range(depth):
        if left == 0:
            ideal_level -= 1
            left = count[ideal_level]
        left -= 1
        here = level[order[p]]
        if here != ideal_level:
            loss += (gain(kind, grade[ideal_level]) - gain(kind, grade[here])) * discount(kind, p, m, discounts)
    return max(loss, 0.0) / ideal_value


@kernel
def position_weight(kind, cutoff, position, lev, grade, relevant, ideal_value, m, discounts):
    """v_i of the SLAM surrogate for the document at a 0-based position of the order by grade ([CT, eq. 6, 9, 31])."""
    if kind == AP:
        i = position + 1
        return (1.0 - i / (m - relevant + i)) / relevant if lev == 1 else 0.0
    if cutoff > 0:
        return gain(kind, grade[lev]) * discounts[position] / ideal_value if position < cutoff else 0.0
    rise = gain(kind, grade[lev]) - gain(kind, grade[0])
    return rise * (discount(kind, position, m, discounts) - discount(kind, m - 1, m, discounts)) / ideal_value


@kernel
def level_weights(kind, cutoff, levels, grade, count, ideal_value, m, discounts, mean):
    """Mean of v over each grade, to `mean` (levels,). Returns v_max: largest over smallest positive v_i (0 if none)."""
    largest = 0.0
    smallest = np.inf
    position = 0
    for lev in range(levels - 1, -1, -1):
        total = 0.0
        for p in range(position, position + count[lev] if cutoff == 0 else min(position + count[lev], cutoff)):
            total += position_weight(kind, cutoff, p, lev, grade, count[levels - 1], ideal_value, m, discounts)
        mean[lev] = total / count[lev]
        if mean[lev] > 0.0:
            largest = max(largest, mean[lev])
            smallest = min(smallest, mean[lev])
        position += count[lev]
    return largest / smallest if largest > 0.0 else 0.0


@kernel
def weights_in_order(kind, cutoff, listed, level, levels, grade, count, ideal_value, discounts, next_position, v):
    """v of every document, positions within a grade given in the order in which `listed` (m,) lists its documents.

    `next_position` (levels,) is workspace. Returns v_max: largest over smallest positive v_i (0 if none).
    """
    m = level.shape[0]
    position = 0
    for lev in range(levels - 1, -1, -1):
        next_position[lev] = position
        position += count[lev]
    largest = 0.0
    smallest = np.inf
    for p in range(m):
        i = listed[p]
        lev = level[i]
        v[i] = position_weight(kind, cutoff, next_position[lev], lev, grade, count[levels - 1], ideal_value, m, discounts)
        next_position[lev] += 1
        if v[i] > 0.0:
            largest = max(largest, v[i])
            smallest = min(smallest, v[i])
    return largest / smallest if largest > 0.0 else 0.0
