"""Credit: how the mass of an update is spread over the pairs of a query (`online_rank.bounds`: members of the mass theorem).

This file has both kernel sides of a credit: its assignment (`assign_credit`), and the loss of a comparator on the same pairs
(`prepare_hinges`, once for each query, and `hinges`). The entry in `codes.CREDITS` has its name, its code, its default mass and
margin, and whether the mass theorem covers it. An unknown code is refused on both sides.
"""

from typing import NamedTuple

import numpy as np

from online_rank._kernels._jit import inlined, inner, leaf
from online_rank._kernels.codes import ADAPTIVE, ARGMAX, DELTA, GAIN, PAIRS, SORT, SPREAD
from online_rank._kernels.graded import Graded, Target
from online_rank._kernels.hinges import hinge_by_delta, hinge_of_sorted, hinge_on_best, hinges_of_few, hinges_of_moved
from online_rank._kernels.pair_credits import argmax_credit, delta_credit, pair_credit, spread_credit, spread_over_few
from online_rank._kernels.sort_credit import Moved, sort_credit, transport
from online_rank._kernels.violations import Violation, list_preferred, sort_violators
from online_rank._kernels.workspace import BARS, BEST, CREDIT, OTHER_CREDIT, PREFERRED, SHARES

# Up to this number of preferred documents their violators are counted one by one.
_FEW = 64


@inlined
def assign_credit(credit, target, graded, v, violation, work, c, all_forms):
    """Write the credit c (m,) of a query's documents. Returns the mass.

    For ADAPTIVE it is that of `spread`, at mass 1, and the row OTHER_CREDIT of `work` has that of `sort`. The row ORDER has the
    ranking of the query, complete if `credit` is DELTA. If `all_forms` is None, the credit is SPREAD, SORT or ADAPTIVE, and no
    others are compiled.
    """
    c[:] = 0.0
    if credit == SORT:
        return sort_credit(graded, violation, work, c)
    n = list_preferred(graded.level, v, credit in (PAIRS, GAIN, DELTA), work.integers[PREFERRED])
    preferred = work.integers[PREFERRED, :n]
    if credit in (SPREAD, ADAPTIVE):
        mass = _spread(graded, v, violation, preferred, work, c)
        return mass if credit == SPREAD else _both_at_mass_one(graded, violation, mass, work, c)
    if all_forms is not None:
        if credit == ARGMAX:
            return argmax_credit(graded, v, violation, preferred, work.integers[BEST], work.reals[BARS], c)
        if credit == DELTA:
            return delta_credit(target, graded, violation, work, c)
        if credit in (PAIRS, GAIN):
            sort_violators(graded, violation, preferred, work)
            return pair_credit(credit, target.kind, graded, preferred, work, c)
    raise ValueError("no kernel assigns this credit")


@leaf
def _spread(graded, v, violation, preferred, work, c):
    """v_i in equal parts on all violators of i, to `c`, which is zero. Returns the mass."""
    if preferred.shape[0] <= _FEW:
        return spread_over_few(graded.level, v, violation, preferred, work.reals[SHARES], c)
    sort_violators(graded, violation, preferred, work)
    return spread_credit(graded, v, preferred, work, c)


@leaf
def _both_at_mass_one(graded, violation, mass, work, c):
    """Scale the credit `spread`, c (m,), to mass 1, and write that of `sort`, at mass 1 too, to the row OTHER_CREDIT."""
    other = work.reals[OTHER_CREDIT, : c.shape[0]]
    other_mass = sort_credit(graded, violation, work, other)
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
    target: Target
    graded: Graded
    v: np.ndarray
    violation: Violation
    scale: float
    of_spread: float
    moved: Moved


class Pairs(NamedTuple):
    """How many pairs an update has, as `hinges` needs them; they stand in the workspace.

    `preferred` documents may be preferred in one (the row PREFERRED), and `moved` pairs are those of `sort`; `spread` is the
    mass of `spread` before it was scaled.
    """

    preferred: int
    moved: int
    spread: float


@leaf
def prepare_hinges(update, work, all_forms):
    """The `Pairs` of an `Update` whose credit `assign_credit` has left in `work`, scaled or not."""
    credit, graded, v, moved = update.credit, update.graded, update.v, update.moved
    m = v.shape[0]
    n = list_preferred(graded.level, v, credit in (PAIRS, GAIN, DELTA), work.integers[PREFERRED])
    size, mass = 0, 0.0
    if credit == SORT:
        size = transport(graded, work.reals[CREDIT, :m], work, moved)
    elif credit == ADAPTIVE:
        size = transport(graded, work.reals[OTHER_CREDIT, :m], work, moved)
    for i in work.integers[PREFERRED, :n]:
        if credit in (SPREAD, ADAPTIVE) and work.reals[SHARES, i] > 0.0:
            mass += v[i]
    if (all_forms is not None and credit in (PAIRS, GAIN)) or (credit in (SPREAD, ADAPTIVE) and n > _FEW):
        sort_violators(graded, update.violation, work.integers[PREFERRED, :n], work)
    return Pairs(n, size, mass)


@leaf
def hinges(update, pairs, k, other, two, margin, work, all_forms):
    """Sums of a_ij times the hinges of two comparators' keys (m,) over the pairs, a_ij as `assign_credit` has them, scaled.

    Additions wait for one another, so two sums take little longer than one. Without `two`, the second is worth nothing.
    `all_forms` is as for `assign_credit`.
    """
    credit, scale, of_spread = update.credit, update.scale, update.of_spread
    sort, other_sort = 0.0, 0.0
    if credit in (SORT, ADAPTIVE):
        sort, other_sort = hinges_of_moved(update.moved, pairs.moved, k, other, margin)
    if credit == SORT:
        return sort, other_sort
    preferred = work.integers[PREFERRED, : pairs.preferred]
    if credit in (SPREAD, ADAPTIVE) and pairs.preferred <= _FEW:
        shares = work.reals[SHARES]
        own, others = hinges_of_few(update.graded, update.violation, preferred, shares, k, other, two, margin, work)
    else:
        own = _hinge(update, preferred, k, margin, work, all_forms)
        others = _hinge(update, preferred, other, margin, work, all_forms) if two else 0.0
    if credit != ADAPTIVE:
        return scale * own, scale * others
    own, others = scale * (own / pairs.spread), scale * (others / pairs.spread)
    return of_spread * own + (1.0 - of_spread) * sort, of_spread * others + (1.0 - of_spread) * other_sort


@leaf
def _hinge(update, preferred, k, margin, work, all_forms):
    """The sum for a comparator's keys k (m,), unscaled: of a query whose violators are sorted, or of another credit's pairs."""
    credit, target, graded, violation = update.credit, update.target, update.graded, update.violation
    if credit in (SPREAD, ADAPTIVE):
        return hinge_of_sorted(SPREAD, target.kind, graded, preferred, k, margin, work)
    if all_forms is not None:
        if credit == ARGMAX:
            return hinge_on_best(graded, update.v, violation, k, margin, work.integers[BEST])
        if credit == DELTA:
            return hinge_by_delta(target, graded, violation, k, margin, work)
        if credit in (PAIRS, GAIN):
            return hinge_of_sorted(credit, target.kind, graded, preferred, k, margin, work)
    raise ValueError("no kernel has a comparator's hinges for this credit")
