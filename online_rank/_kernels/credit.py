"""Credit: how the mass of an update is spread over the pairs of a query (`online_rank.bounds`: members of the mass theorem).

This file has both kernel sides of a credit: its assignment (`assign_credit`), and the loss of a comparator on the same pairs
(`prepare_hinges`, once for each query, and `hinge`). The entry in `codes.CREDITS` has its name, its code, and its default mass
and margin. An unknown code is refused on both sides.
"""

from typing import NamedTuple

import numpy as np

from online_rank._kernels import workspace as at
from online_rank._kernels._jit import inlined, inner, leaf
from online_rank._kernels.best_violators import argmax_credit, hinge_on_best
from online_rank._kernels.codes import ADAPTIVE, ARGMAX, SORT, SPREAD
from online_rank._kernels.graded import Graded
from online_rank._kernels.sort_credit import Moved, hinge_of_moved, sort_credit, transport
from online_rank._kernels.spread_credit import hinge_of_spread, list_preferred, spread_credit


@inlined
def assign_credit(credit, graded, v, s, offset, work, c):
    """Write the credit c (m,) of a query's documents with scores s (m,) and margin `offset`. Returns the mass.

    For ADAPTIVE it is the credit `spread`, at mass 1, and the row OTHER_CREDIT of `work` has the credit `sort`.
    """
    c[:] = 0.0
    if credit == SORT:
        return sort_credit(graded, s, offset, work, c)
    n = list_preferred(graded.level, v, work.integers[at.PREFERRED])
    preferred = work.integers[at.PREFERRED, :n]
    if credit in (SPREAD, ADAPTIVE):
        mass = spread_credit(graded, v, s, offset, preferred, work, c)
        return mass if credit == SPREAD else _both_at_mass_one(graded, s, offset, mass, work, c)
    if credit == ARGMAX:
        return argmax_credit(graded, v, s, offset, False, preferred, work.integers[at.BEST], work.reals[at.BARS], c)
    raise ValueError("no kernel assigns this credit")


@leaf
def _both_at_mass_one(graded, s, offset, mass, work, c):
    """Scale the credit `spread`, c (m,), to mass 1, and write the credit `sort`, at mass 1 too, to the row OTHER_CREDIT."""
    other = work.reals[at.OTHER_CREDIT, : c.shape[0]]
    other_mass = sort_credit(graded, s, offset, work, other)
    for i in range(c.shape[0]):
        c[i] /= mass
        other[i] /= other_mass
    return 1.0


@inner
def room_for_pairs(longest):
    """Arrays for the pairs of `sort` of queries of up to `longest` documents."""
    size = 2 * longest
    return Moved(np.empty(size, dtype=np.int64), np.empty(size, dtype=np.int64), np.empty(size))


class Update(NamedTuple):
    """An update whose pairs are found again: what `assign_credit` was given, by which the credit in the workspace was scaled.

    `of_spread` is the share of `spread` in ADAPTIVE; `moved` receives the pairs of `sort`.
    """

    credit: int
    graded: Graded
    v: np.ndarray
    s: np.ndarray
    offset: float
    scale: float
    of_spread: float
    moved: Moved


@leaf
def prepare_hinges(update, work):
    """Find the pairs of an `Update`, whose credit `assign_credit` has left in `work`, scaled or not.

    Returns the number of documents that may be preferred in a pair (the row PREFERRED of `work`), the number of pairs of
    `sort`, and the mass of `spread` before it was scaled.
    """
    credit, graded, v = update.credit, update.graded, update.v
    m = v.shape[0]
    n = list_preferred(graded.level, v, work.integers[at.PREFERRED])
    size, mass = 0, 0.0
    if credit in (SORT, ADAPTIVE):
        row = at.CREDIT if credit == SORT else at.OTHER_CREDIT
        size = transport(graded, work.reals[row, :m], work, update.moved)
    if credit in (SPREAD, ADAPTIVE):
        for i in work.integers[at.PREFERRED, :n]:
            if work.reals[at.SHARES, i] > 0.0:
                mass += v[i]
    return n, size, mass


@leaf
def hinge(update, pairs, k, work):
    """Sum of a_ij max(0, 1 + k_j - k_i) over the `pairs` of `prepare_hinges`, for a comparator's keys (m,).

    The a_ij are as in `assign_credit`, scaled.
    """
    credit, graded, s, offset = update.credit, update.graded, update.s, update.offset
    n_preferred, n_moved, mass = pairs
    preferred = work.integers[at.PREFERRED, :n_preferred]
    if credit == ARGMAX:
        best = work.integers[at.BEST]
        return update.scale * hinge_on_best(graded, update.v, s, offset, False, preferred, best, k, 1.0)
    if credit not in (SPREAD, SORT, ADAPTIVE):
        raise ValueError("no kernel has a comparator's hinges for this credit")
    sort = hinge_of_moved(update.moved, n_moved, k)
    if credit == SORT:
        return sort
    spread = hinge_of_spread(graded.level, s, offset, preferred, k, work)
    if credit == SPREAD:
        return update.scale * spread
    return update.of_spread * (update.scale * (spread / mass)) + (1.0 - update.of_spread) * sort
