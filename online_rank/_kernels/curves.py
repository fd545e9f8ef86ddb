"""Rows of curves: each feature's normal score, and the cell of a grid that it is in, for all documents of a query.

A feature has the columns `LINE`, g, the normal score of the value in the stream; 15 ramps from `RAMPS` on, r_k(g) - r_k(0)
with r_k(g) = clip((g - P_k) / D, 0, 1); `RANK`, q, the normal score of its rank within the query; `ENCODED` and
`ENCODED_RANK`, target encodings of g and q; and `PRESENT`, 1. All are 0 for a missing value, except that a missing value has a
separate encoding. A weighted sum of the columns is linear within each cell in g, and in q: a table of two numbers for each
cell, and no operation costs O(knots) for each value. Features are outside and documents inside, so that tables stay in the
fastest cache.
"""

import math
from typing import NamedTuple

import numpy as np

from online_rank._kernels._jit import inner, kernel, leaf
from online_rank._kernels.fits import require, require_offsets
from online_rank._kernels.primitives import add_line_four, add_scaled_four, bit_pattern, sum_fours
from online_rank._kernels.quantile_map import (
    DENSITY,
    FINDER,
    HIGHEST,
    LOWEST,
    ORIGIN,
    SCORE,
    SHIFT,
    SLOPE,
    STEPS,
    UNIT,
    VALUE,
    are_finite,
)
from online_rank._kernels.query_ranks import FEW, Ranking, find_scores, rank_few, rank_many, room_for_ranks, scores_of_ranks
from online_rank._kernels.workspace import longest_query

#: Points of the grid, their distance, and the first one; ramps run over the 16 in the middle, from -2 to 2.
POINTS, N_RAMPS = 20, 15
STEP = 4.0 / N_RAMPS
FIRST = -2.0 - 2.0 * STEP
#: Cell 0 is below the first point, cell k between the points k - 1 and k, cell 20 above the last one; the last is for missing
#: values. The first ramp rises in cell 3.
MISSING, N_CELLS, RISES = POINTS + 1, POINTS + 2, 3
#: Fours of `spread_to_points`.
N_POINTS = POINTS + 2
#: Where ramps are centred: half of them, and half of the one in the middle.
MIDDLE = N_RAMPS // 2
#: Columns of a feature.
LINE, RAMPS, RANK, ENCODED, ENCODED_RANK, PRESENT = 0, 1, 16, 17, 18, 19
N_COLUMNS = 20
#: Members, whose scores are computed at once; the last has weights of g and presence alone.
N_MEMBERS, NEWTON = 4, 3
#: Plain members, linear in g: a ridge regression, a perceptron, and sums cut off near 0. `KNOWN` is the place of the weight of
#: presence, which only the first has.
RIDGE, STRAIGHT, SPARSE, KNOWN = range(4)
N_PLAIN = 3
#: Encodings are 10 S / (C + 20).
_SCALE, _PRIOR = 10.0, 20.0
#: Features whose values are transposed at once.
_AT_ONCE = 8


class CurveRows(NamedTuple):
    """A query of m documents and d features: normal scores (d, m), their cells, normal scores of ranks, and their cells."""

    g: np.ndarray
    cells: np.ndarray
    q: np.ndarray
    q_cells: np.ndarray


class Read(NamedTuple):
    """A query (m, d), and its rows."""

    X: np.ndarray
    rows: CurveRows


@leaf
def same_bits(X, Y):
    """Whether two arrays (m, d) have the same shape and the same bits."""
    if X.shape != Y.shape:
        return False
    away = 0
    for i in range(X.shape[0]):
        for j in range(X.shape[1]):
            away |= bit_pattern(X[i, j]) ^ bit_pattern(Y[i, j])
    return away == 0


@leaf
def _find_cells(z, cells):
    """The cells of scores z (m,) on the grid."""
    for i in range(z.shape[0]):
        cells[i] = np.uint8(min(max((z[i] - FIRST) * (1.0 / STEP) + 1.0, 0.0), POINTS + 0.5))


@leaf
def _clip_and_find(x, finder, clipped, found):
    """Values clipped to the knots, and their cells in the look-up table (`quantile_map`); NaN becomes the lowest."""
    lowest, highest, density, unit = finder[LOWEST], finder[HIGHEST], finder[DENSITY], finder[UNIT]
    origin, shift, one = np.int64(finder[ORIGIN]), np.int64(finder[SHIFT]), bit_pattern(1.0)
    if density > 0.0 or unit == 0.0:
        for i in range(x.shape[0]):
            z = x[i] if x[i] > lowest else lowest
            z = z if z < highest else highest
            clipped[i] = z
            found[i] = np.uint8(np.int32((z - lowest) * density))
        return
    for i in range(x.shape[0]):
        z = x[i] if x[i] > lowest else lowest
        z = z if z < highest else highest
        clipped[i] = z
        place, sign = (bit_pattern(1.0 + abs(z) * unit) - one) >> shift, bit_pattern(z) >> np.int64(63)
        found[i] = np.uint8(origin + ((place ^ sign) - sign))


@leaf
def _map_values(z, found, steps, knots, starts, g, below):
    """g (m,) of clipped values z (m,), linear between knots, and the knots `below`; cells `found` have up to 2^steps - 1."""
    values, scores, slopes, one = knots[VALUE], knots[SCORE], knots[SLOPE], np.uint64(1)
    if steps < 2:
        for i in range(z.shape[0]):
            at = np.uint64(starts[np.uint64(found[i])])
            at += np.uint64(values[at + one] <= z[i])
            g[i] = scores[at] + (z[i] - values[at]) * slopes[at]
            below[i] = np.uint8(at)
        return
    last = np.uint64(values.shape[0]) - one
    for i in range(z.shape[0]):
        at = np.uint64(starts[np.uint64(found[i])])
        for s in range(steps - 1, -1, -1):
            step = one << np.uint64(s)
            at += step * np.uint64(values[min(at + step, last)] <= z[i])
        g[i] = scores[at] + (z[i] - values[at]) * slopes[at]
        below[i] = np.uint8(at)


@leaf
def _transpose(X, first, begin, wide, values):
    """values (8, m) = columns of documents of X."""
    if wide == _AT_ONCE:
        for i in range(values.shape[1]):
            for k in range(_AT_ONCE):
                values[k, i] = X[first + i, begin + k]
        return
    for i in range(values.shape[1]):
        for k in range(wide):
            values[k, i] = X[first + i, begin + k]


@leaf
def _n_known(x):
    """How many values are not missing; -1 if one is infinite."""
    n, infinite = 0, False
    for i in range(x.shape[0]):
        infinite |= math.isinf(x[i])
        n += 1 if x[i] == x[i] else 0
    return -1 if infinite else n


@leaf
def _mark_missing(x, g, cells):
    for i in range(x.shape[0]):
        if x[i] != x[i]:
            g[i], cells[i] = 0.0, np.uint8(MISSING)


@inner
def room_for_rows(d, m):
    """`CurveRows` to be filled."""
    shape = (d, m)
    return CurveRows(
        np.empty(shape, np.float32), np.empty(shape, np.uint8), np.empty(shape, np.float32), np.empty(shape, np.uint8)
    )


class Reading(NamedTuple):
    """Memory for `read_rows`."""

    values: np.ndarray
    clipped: np.ndarray
    found: np.ndarray
    below: np.ndarray
    finder: np.ndarray
    zeros: np.ndarray
    ranking: Ranking


@inner
def room_for_reading(d, longest):
    """A `Reading` for queries of d features and up to `longest` documents."""
    return Reading(
        np.empty((_AT_ONCE, longest)), np.empty(longest), np.empty(longest, np.uint8), np.empty(longest, np.uint8),
        np.empty(FINDER), np.zeros(d), room_for_ranks(longest),
    )  # fmt: skip


@leaf
def read_rows(X, first, m, mapping, relative, room, rows):
    """Fill `rows` with the m documents of X (n, d) from `first` on. Returns whether no value is infinite; NaN is missing.

    mapping : what maps raw values, the `table` of a `StreamQuantileMap`
    """
    d, all_known = X.shape[1], are_finite(X, first, first + m, room.zeros)
    few, ranking = m <= FEW, room.ranking
    clipped, found, below, finder = room.clipped[:m], room.found[:m], room.below[:m], room.finder
    ranks, integers, normal = ranking.eight_ranks, ranking.integers, ranking.scores
    start = scores_of_ranks(m, normal, ranking.computed)
    for begin in range(0, d, _AT_ONCE):
        wide = min(_AT_ONCE, d - begin)
        _transpose(X, first, begin, wide, room.values[:, :m])
        if relative and few:
            rank_few(X, first, begin, wide, ranking.eight_values[:m], ranks)
        for k in range(wide):
            j = begin + k
            x, g, cells, q, q_cells = room.values[k, :m], rows.g[j, :m], rows.cells[j, :m], rows.q[j, :m], rows.q_cells[j, :m]
            n = m if all_known else _n_known(x)
            if n < 0:
                return False
            for f in range(FINDER):
                finder[f] = mapping.finders[f, j]
            _clip_and_find(x, finder, clipped, found)
            _map_values(clipped, found, np.int64(finder[STEPS]), mapping.knots[j], mapping.cells[j], g, below)
            _find_cells(g, cells)
            if n < m:
                _mark_missing(x, g, cells)
            if relative:
                if not few:
                    rank_many(x, found, below, n, ranking.counts, ranking.values, integers)
                own = start if n == m else scores_of_ranks(n, normal, ranking.computed)
                find_scores(k, few, integers, ranks, own, normal, q)
                _find_cells(q, q_cells)
                if n < m:
                    _mark_missing(x, q, q_cells)
    return True


@leaf
def encode(sums, values):
    """values (POINTS + 1,) = the encodings at the points and of missing values, from the sums S and weights C of one column.

    sums : (2, POINTS + 1). Returns the largest in absolute value.
    """
    largest = 0.0
    for p in range(POINTS + 1):
        values[p] = _SCALE * sums[0, p] / (sums[1, p] + _PRIOR)
    for p in range(POINTS + 1):
        largest = max(largest, abs(values[p]))
    return largest


@leaf
def line_of(values, c):
    """Constant and slope of an encoding in cell c, from its values at the points; of missing values the constant."""
    if c == 0 or c >= POINTS:
        return values[max(c - 1, 0)], 0.0
    slope = (values[c] - values[c - 1]) * (1.0 / STEP)
    return values[c - 1] - slope * (FIRST + (c - 1) * STEP), slope


@leaf
def draw_curves_of(w, values, curves):
    """curves (8 N_CELLS,): in each cell four constants and four slopes of the sums of all columns of g, by w (4 N_COLUMNS,)."""
    base, full = 8 * MISSING + 4, RISES + N_RAMPS
    curves[:] = 0.0
    # Below the first ramp the constant is the weight of presence, less what ramps have at 0; each cell after that adds a ramp.
    sum_fours(curves, 0, 0, w, 4 * RAMPS, 4, MIDDLE)
    add_scaled_four(curves, base, -1.0, curves, 0)
    add_scaled_four(curves, base, -0.5, w, 4 * (RAMPS + MIDDLE))
    add_scaled_four(curves, base, 1.0, w, 4 * PRESENT)
    curves[:4] = 0.0
    sum_fours(curves, 8 * (RISES + 1), 8, w, 4 * RAMPS, 4, N_RAMPS)
    for c in range(full + 1, MISSING):
        add_scaled_four(curves, 8 * c, 1.0, curves, 8 * full)
    for c in range(MISSING):
        start, slope = line_of(values, c)
        add_scaled_four(curves, 8 * c, 1.0, curves, base)
        add_scaled_four(curves, 8 * c, start, w, 4 * ENCODED)
        add_scaled_four(curves, 8 * c + 4, slope, w, 4 * ENCODED)
        add_scaled_four(curves, 8 * c + 4, 1.0, w, 4 * LINE)
    for r in range(N_RAMPS):
        c = RISES + r
        add_scaled_four(curves, 8 * c, -(FIRST + (c - 1) * STEP) / STEP, w, 4 * (RAMPS + r))
        add_scaled_four(curves, 8 * c + 4, 1.0 / STEP, w, 4 * (RAMPS + r))
    curves[base:] = 0.0
    add_scaled_four(curves, 8 * MISSING, values[POINTS], w, 4 * ENCODED)


@leaf
def draw_rank_curves_of(w, values, curves):
    """The same for the columns of q."""
    curves[:] = 0.0
    for c in range(MISSING):
        start, slope = line_of(values, c)
        add_scaled_four(curves, 8 * c, start, w, 4 * ENCODED_RANK)
        add_scaled_four(curves, 8 * c + 4, slope, w, 4 * ENCODED_RANK)
        add_scaled_four(curves, 8 * c + 4, 1.0, w, 4 * RANK)


@leaf
def add_curves(z, cells, curves, scores):
    """scores (4 m,), four of each document, += four curves (8 N_CELLS,) at z (m,): in each cell constants, then slopes."""
    for i in range(z.shape[0]):
        add_line_four(scores, 4 * i, np.float64(z[i]), curves, 8 * np.int64(cells[i]))


@leaf
def add_curve(z, cells, curve, scores):
    """scores (m,) += one curve (2, N_CELLS) at z (m,)."""
    starts, slopes = curve[0], curve[1]
    for i in range(z.shape[0]):
        scores[i] += starts[cells[i]] + slopes[cells[i]] * z[i]


@leaf
def gather(z, cells, parts, sums):
    """sums (8 N_CELLS,) = in each cell the sums of four numbers of each document, `parts` (4 m,), and of these times z (m,)."""
    sums[:] = 0.0
    for i in range(z.shape[0]):
        cell = 8 * np.int64(cells[i])
        add_scaled_four(sums, cell, 1.0, parts, 4 * i)
        add_scaled_four(sums, cell + 4, np.float64(z[i]), parts, 4 * i)


@leaf
def spread_to_points(sums, points):
    """points (4 N_POINTS,) = the four numbers that `gather` summed, shared between the points next to each value.

    Shares fall linearly with the distance, and add up to 1. The last two fours belong to missing values, and to sums
    times values. The moments in `sums` are changed.
    """
    points[:] = 0.0
    sum_fours(points, 4 * (POINTS + 1), 0, sums, 4, 8, MISSING)
    for c in range(1, POINTS):
        add_scaled_four(sums, 8 * c + 4, -(FIRST + (c - 1) * STEP), sums, 8 * c)
        add_scaled_four(points, 4 * c - 4, 1.0, sums, 8 * c)
        add_scaled_four(points, 4 * c - 4, -1.0 / STEP, sums, 8 * c + 4)
        add_scaled_four(points, 4 * c, 1.0 / STEP, sums, 8 * c + 4)
    add_scaled_four(points, 0, 1.0, sums, 0)
    add_scaled_four(points, 4 * (POINTS - 1), 1.0, sums, 8 * POINTS)
    add_scaled_four(points, 4 * POINTS, 1.0, sums, 8 * MISSING)


@leaf
def combine_columns(points, values, which, out):
    """out (N_COLUMNS,) = the sum of the columns of g by the coefficients in place `which` of each four of points."""
    encoded, above = values[POINTS] * points[4 * POINTS + which], 0.0
    # Points RISES.. are at the upper ends of ramps.
    for p in range(POINTS - 1, -1, -1):
        own = points[4 * p + which]
        encoded += values[p] * own
        above += own
        if RISES <= p < RISES + N_RAMPS:
            out[RAMPS + p - RISES] = above
    for r in range(MIDDLE):
        out[RAMPS + r] -= above
    out[RAMPS + MIDDLE] -= 0.5 * above
    out[LINE], out[PRESENT], out[ENCODED] = points[4 * (POINTS + 1) + which], above, encoded


@leaf
def combine_rank_columns(points, values, which, out):
    """The same for the columns of q."""
    encoded = 0.0
    for p in range(POINTS):
        encoded += values[p] * points[4 * p + which]
    out[RANK], out[ENCODED_RANK] = points[4 * (POINTS + 1) + which], encoded


@leaf
def learn_encoding(points, n, sums):
    """Add grades and weights, the last two of each four of `spread_to_points`, of the first n points to sums of an encoding."""
    for p in range(n):
        sums[0, p] += points[4 * p + 2]
        sums[1, p] += points[4 * p + 3]


@leaf
def norm_bound(largest, rank, encoded, rank_encoded):
    """An upper bound on the squared norm of the columns of a feature, by the largest absolute values of g, q and encodings."""
    # Ramps differ from their values at 0 by a half, then by whole ones.
    return 1.0 + largest * largest + min(largest, 2.0) / STEP + rank * rank + encoded * encoded + rank_encoded * rank_encoded


@leaf
def score_members(rows, m, W, values, relative, curves, scores):
    """Scores (4 m,) of a query, `N_MEMBERS` of each document, by weights W (d, 4 N_COLUMNS) and encodings (d, 2, POINTS + 1).

    curves : (8 N_CELLS,) workspace
    """
    scores[: 4 * m] = 0.0
    for j in range(W.shape[0]):
        draw_curves_of(W[j], values[j, 0], curves)
        add_curves(rows.g[j, :m], rows.cells[j, :m], curves, scores)
        if relative:
            draw_rank_curves_of(W[j], values[j, 1], curves)
            add_curves(rows.q[j, :m], rows.q_cells[j, :m], curves, scores)


@kernel
def score(X, offsets, mapping, relative, curves, scores, given):
    """Scores (n,) of the documents of queries by served curves (d, 2, 2, N_CELLS); NaN where a query has an infinite value.

    given : `CurveRows` for the rows of the last query, if they have room for the longest
    """
    d, longest = X.shape[1], longest_query(offsets)
    rows = given if given.g.shape == (d, longest) else room_for_rows(d, longest)
    room = room_for_reading(d, longest)
    for t in range(offsets.shape[0] - 1):
        _score_query(X, offsets[t], offsets[t + 1] - offsets[t], mapping, relative, curves, room, rows, scores)


@leaf
def _score_query(X, first, m, mapping, relative, curves, room, rows, scores):
    s = scores[first : first + m]
    if not read_rows(X, first, m, mapping, relative, room, rows):
        s[:] = np.nan  # The cells of the rows are not filled, and could be anything.
        return
    s[:] = 0.0
    for j in range(X.shape[1]):
        add_curve(rows.g[j, :m], rows.cells[j, :m], curves[j, 0], s)
        if relative:
            add_curve(rows.q[j, :m], rows.q_cells[j, :m], curves[j, 1], s)


@kernel
def contributions(X, mapping, relative, curves, out):
    """What each feature adds to the scores of a query's documents, by served curves: out (d, m). NaN for infinite values."""
    d, m = X.shape[1], X.shape[0]
    rows = room_for_rows(d, m)
    if not read_rows(X, 0, m, mapping, relative, room_for_reading(d, m), rows):
        out[:] = np.nan
        return
    out[:] = 0.0
    for j in range(d):
        add_curve(rows.g[j], rows.cells[j], curves[j, 0], out[j])
        if relative:
            add_curve(rows.q[j], rows.q_cells[j], curves[j, 1], out[j])


@kernel
def mapped(X, offsets, mapping, lowest, out):
    """The first columns of out (n, d or more) = g of each feature, at least `lowest`, and 2 `lowest` if missing.

    Returns whether no value is infinite.
    """
    d, longest = X.shape[1], longest_query(offsets)
    require_offsets(offsets, min(X.shape[0], out.shape[0]))
    require(mapping.counts.shape[0] == d <= out.shape[1])
    room, rows = room_for_reading(d, longest), room_for_rows(d, longest)
    for t in range(offsets.shape[0] - 1):
        first, m = offsets[t], offsets[t + 1] - offsets[t]
        if not read_rows(X, first, m, mapping, False, room, rows):
            return False
        for j in range(d):
            for i in range(m):
                g = max(rows.g[j, i], lowest)
                out[first + i, j] = 2.0 * lowest if rows.cells[j, i] == MISSING else g
    return True
