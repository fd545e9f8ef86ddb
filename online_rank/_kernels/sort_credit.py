"""Credit `sort`: the structured perceptron for whole rankings (`online_rank.bounds`: members of the mass theorem)."""

from typing import NamedTuple

import numpy as np

from online_rank._kernels import workspace as at
from online_rank._kernels._jit import leaf
from online_rank._kernels.graded import list_by_level
from online_rank._kernels.order import sort_descending
from online_rank._kernels.vector_math import TAIL, central_quantile, normal_quantile


class Moved(NamedTuple):
    """Credit `sort` as pairs: `amount[n]` goes from document `lower[n]` to `upper[n]`."""

    upper: np.ndarray
    lower: np.ndarray
    amount: np.ndarray


@leaf
def normal_scores(m, scores):
    """phi(p) = -Phi^-1((p - 3/8) / (m + 1/4)) of the 1-based positions p, to `scores` (m,). (Blom 1958.)"""
    half, first = (m + 1) // 2, 0
    while first < half and (first + 0.625) / (m + 0.25) < TAIL:
        scores[first] = -normal_quantile((first + 0.625) / (m + 0.25))
        first += 1
    # A loop without a branch vectorises.
    for p in range(first, half):
        scores[p] = -central_quantile((p + 0.625) / (m + 0.25))
    for p in range(half):
        scores[m - 1 - p] = -scores[p]


@leaf
def sort_credit(graded, s, offset, work, c):
    """phi(ideal position) - phi(position) of each document, to `c` (m,). Returns the mass. O(m log m).

    Positions are by s_i - tau level_i / (L - 1), with tau the margin `offset`, and the less relevant first among equals.
    Sorting that order stably by grade gives the ideal positions. Bubble sort leads from one to the other by exchanges of
    violated neighbours; each moves a positive difference of phi from one document to another. For equal documents of one grade,
    c is the mean over all their orders, so that the input order does not matter.
    """
    m = c.shape[0]
    level, levels = graded.level, graded.levels
    keys, placed, next_place = work.reals[at.KEYS], work.integers[at.LISTED], work.integers[at.LEVEL_START]
    phi = work.reals[at.NORMAL_SCORES]
    normal_scores(m, phi)
    # Listed by ascending level before a stable sort, so that among equals the less relevant come first.
    list_by_level(graded, next_place, placed)
    step = offset / (levels - 1)
    for p in range(m):
        keys[p] = s[placed[p]] - step * level[placed[p]]
    sort_descending(keys[:m], placed[:m], work.reals[at.SPARE_KEYS], work.integers[at.SPARE_ITEMS])
    # Levels from the highest down.
    next_place[levels - 1] = 0
    for lev in range(levels - 2, -1, -1):
        next_place[lev] = next_place[lev + 1] + graded.size[lev + 1]
    mass, p = 0.0, 0
    while p < m:
        lev, stop = level[placed[p]], p + 1
        while stop < m and keys[stop] == keys[p] and level[placed[stop]] == lev:
            stop += 1
        ideal = next_place[lev]
        next_place[lev] = ideal + stop - p
        total = phi[ideal] - phi[p]
        for q in range(1, stop - p):
            total += phi[ideal + q] - phi[p + q]
        if stop == p + 1:
            c[placed[p]] = total
        else:
            for q in range(p, stop):
                c[placed[q]] = total / (stop - p)
        mass += total if total > 0.0 else 0.0
        p = stop
    return mass


@leaf
def transport(graded, c, work, moved):
    """Credit c (m,), as `sort_credit` has just left it in this workspace, as pairs that are violated. O(m + pairs).

    Documents that gain are met in the order that `sort_credit` sorted, and each takes from the most relevant of the less
    relevant documents before it that still have to give: whom a document of a lower grade could take from, it leaves. What
    rounding leaves over is dropped. Pairs go to the arrays of `moved`, each of at least 2 m; returns their number.
    """
    m = c.shape[0]
    level, placed = graded.level, work.integers[at.LISTED]
    # Of each level, a stack of documents that came before and have to give.
    left, top, below = work.reals[at.SPARE_KEYS], work.integers[at.LEVEL_START], work.integers[at.SPARE_ITEMS]
    top[: graded.levels] = -1
    n = 0
    for p in range(m):
        i = placed[p]
        due, own = c[i], level[i]
        if due < 0.0:
            left[i], below[i], top[own] = due, top[own], i
            continue
        lev = own - 1
        while due > 0.0 and lev >= 0:
            j = top[lev]
            if j < 0:
                lev -= 1
                continue
            amount = min(due, -left[j])
            moved.upper[n], moved.lower[n], moved.amount[n] = i, j, amount
            n += 1
            due -= amount
            left[j] += amount
            following = below[j]
            top[lev] = following if left[j] >= 0.0 else j
    return n


@leaf
def hinge_of_moved(moved, size, k):
    """Sum of the amounts of the first `size` pairs times max(0, 1 + k_j - k_i), for a comparator's keys (m,)."""
    total = 0.0
    for n in range(size):
        total += moved.amount[n] * max(0.0, 1.0 + k[moved.lower[n]] - k[moved.upper[n]])
    return total
