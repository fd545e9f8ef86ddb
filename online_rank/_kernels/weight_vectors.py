"""The weight vectors v of the SLAM family ([CT, eq. 6, 9, 31]): the contribution of an outscored document to the loss."""

import numpy as np

from online_rank._kernels import workspace as at
from online_rank._kernels._jit import leaf
from online_rank._kernels.codes import AP, MEAN, TIGHT
from online_rank._kernels.graded import discount


@leaf
def weigh_documents(target, graded, within, order, work, v):
    """Write v (m,) of a query, with the documents of a grade treated as `within` says; `order` is its whole ranking for TIGHT.

    Returns v_max: largest over smallest positive v_i (0 if none).
    """
    if within == MEAN:
        return weigh_by_level(target, graded, work, v)
    if within == TIGHT:
        return _weigh_in_order(target, graded, order, work.integers[at.PER_LEVEL], v)
    documents = work.integers[at.SPARE_ITEMS]
    for i in range(v.shape[0]):
        documents[i] = i
    return _weigh_in_order(target, graded, documents, work.integers[at.PER_LEVEL], v)


@leaf
def weigh_by_level(target, graded, work, v):
    """Write v (m,) of a query, the mean of v over its grade for each document. Returns v_max, as `weigh_documents`."""
    mean = work.reals[at.LEVEL_WEIGHTS]
    v_max = level_weights(target, graded, v.shape[0], mean)
    for i in range(v.shape[0]):
        v[i] = mean[graded.level[i]]
    return v_max


@leaf
def level_weights(target, graded, m, mean):
    """Mean of v over each grade, to `mean` (levels,). Returns v_max: largest over smallest positive v_i (0 if none)."""
    cutoff, count = target.cutoff, graded.size
    largest = 0.0
    smallest = np.inf
    position = 0
    for lev in range(graded.levels - 1, -1, -1):
        total = 0.0
        for p in range(position, position + count[lev] if cutoff == 0 else min(position + count[lev], cutoff)):
            total += _position_weight(target, graded, p, lev, m)
        mean[lev] = total / count[lev]
        if mean[lev] > 0.0:
            largest = max(largest, mean[lev])
            smallest = min(smallest, mean[lev])
        position += count[lev]
    return largest / smallest if largest > 0.0 else 0.0


@leaf
def _weigh_in_order(target, graded, listed, next_position, v):
    """v of every document, with positions within a grade assigned in the order of `listed` (m,).

    `next_position` (levels,) is workspace. Returns v_max.
    """
    m = v.shape[0]
    position = 0
    for lev in range(graded.levels - 1, -1, -1):
        next_position[lev] = position
        position += graded.size[lev]
    largest = 0.0
    smallest = np.inf
    for p in range(m):
        i = listed[p]
        lev = graded.level[i]
        v[i] = _position_weight(target, graded, next_position[lev], lev, m)
        next_position[lev] += 1
        if v[i] > 0.0:
            largest = max(largest, v[i])
            smallest = min(smallest, v[i])
    return largest / smallest if largest > 0.0 else 0.0


@leaf
def _position_weight(target, graded, position, lev, m):
    """v_i of the document at a 0-based position of the order by grade."""
    kind, discounts = target.kind, target.discounts
    if kind == AP:
        i = position + 1
        relevant = graded.size[graded.levels - 1]
        return (1.0 - i / (m - relevant + i)) / relevant if lev == 1 else 0.0
    if target.cutoff > 0:
        return graded.gain[lev] * discount(kind, position, m, discounts) / graded.ideal if position < target.cutoff else 0.0
    rise = graded.gain[lev] - graded.gain[0]
    return rise * (discount(kind, position, m, discounts) - discount(kind, m - 1, m, discounts)) / graded.ideal
