"""Rows of curves: each feature's normal score, and the cell of a grid that it is in, for all documents of a query.

A feature has the columns `LINE`, g, the normal score of the value among those of the stream; 15 ramps from `RAMPS` on, r_k(g) -
r_k(0) with r_k(g) = clip((g - P_k) / D, 0, 1); `RANK`, q, the normal score of its rank within the query; `ENCODED` and
`ENCODED_RANK`, target encodings of g and q; and `PRESENT`, 1. All are 0 for a missing value, except that a missing value has an
encoding of its own. A weighted sum of the columns is linear within each cell in g, and in q: a table of two numbers for each
cell, and no operation costs O(knots) for each value. Features are outside and documents inside, so that tables stay in the
fastest cache.
"""

import math
from typing import NamedTuple

import numpy as np

from online_rank._kernels._jit import inlined, inner, kernel, leaf
from online_rank._kernels.fits import require, require_offsets
from online_rank._kernels.primitives import add_scaled_four, bit_pattern
from online_rank._kernels.quantile_map import DENSITY, FINDER, HIGHEST, LOWEST, ORIGIN, SCORE, SHIFT, SLOPE, STEPS, UNIT, VALUE
from online_rank._kernels.query_ranks import Ranking, rank_scores, room_for_ranks
from online_rank._kernels.workspace import longest_query

#: Points of the grid, their distance, and the first one; ramps run over the 16 in the middle, from -2 to 2.
POINTS, N_RAMPS = 20, 15
STEP = 4.0 / N_RAMPS
FIRST = -2.0 - 2.0 * STEP
#: Cell 0 is below the first point, cell k between the points k - 1 and k, cell 20 above the last one; the last is for missing
#: values. The first ramp rises in cell 3.
MISSING, N_CELLS, RISES = POINTS + 1, POINTS + 2, 3
#: Where ramps are centred: half of them, and half of the one in the middle.
_MIDDLE = N_RAMPS // 2
#: Columns of a feature.
LINE, RAMPS, RANK, ENCODED, ENCODED_RANK, PRESENT = 0, 1, 16, 17, 18, 19
N_COLUMNS = 20
#: Members, whose scores are computed at once; the last has weights of g and presence alone.
N_MEMBERS, NEWTON = 4, 3
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


class Map(NamedTuple):
    """What maps raw values, as `find_knots` made it."""

    counts: np.ndarray
    knots: np.ndarray
    cells: np.ndarray
    finders: np.ndarray


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
def _map_values(z, found, steps, knots, starts, g):
    """g (m,) of clipped values z (m,), linear between knots; their cells `found` have up to 2^steps - 1 knots."""
    values, scores, slopes, one = knots[VALUE], knots[SCORE], knots[SLOPE], np.uint64(1)
    if steps < 2:
        for i in range(z.shape[0]):
            at = np.uint64(starts[np.uint64(found[i])])
            at += np.uint64(values[at + one] <= z[i])
            g[i] = scores[at] + (z[i] - values[at]) * slopes[at]
        return
    last = np.uint64(values.shape[0]) - one
    for i in range(z.shape[0]):
        at = np.uint64(starts[np.uint64(found[i])])
        for s in range(steps - 1, -1, -1):
            step = one << np.uint64(s)
            at += step * np.uint64(values[min(at + step, last)] <= z[i])
        g[i] = scores[at] + (z[i] - values[at]) * slopes[at]


@leaf
def _transpose(X, first, begin, wide, values, doubts):
    """values (8, m) = columns of documents of X; doubts (8,) are NaN for columns with values that are not finite."""
    doubts[:] = 0.0
    for i in range(values.shape[1]):
        for k in range(wide):
            x = np.float64(X[first + i, begin + k])
            values[k, i] = x
            doubts[k] += x - x


@leaf
def _any_infinite(x):
    found = False
    for i in range(x.shape[0]):
        found |= math.isinf(x[i])
    return found


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
    finder: np.ndarray
    doubts: np.ndarray
    ranking: Ranking


@inner
def room_for_reading(longest):
    """A `Reading` for queries of up to `longest` documents."""
    return Reading(
        np.empty((_AT_ONCE, longest)), np.empty(longest), np.empty(longest, np.uint8), np.empty(FINDER), np.empty(_AT_ONCE),
        room_for_ranks(longest),
    )  # fmt: skip


@leaf
def read_rows(X, first, m, mapping, relative, room, rows):
    """Fill `rows` with the m documents of X (n, d) from `first` on. Returns whether no value is infinite; NaN is missing."""
    d, finder, doubts = X.shape[1], room.finder, room.doubts
    clipped, found = room.clipped[:m], room.found[:m]
    for begin in range(0, d, _AT_ONCE):
        wide = min(_AT_ONCE, d - begin)
        _transpose(X, first, begin, wide, room.values[:, :m], doubts)
        for k in range(wide):
            j = begin + k
            x, g, cells, q, q_cells = room.values[k, :m], rows.g[j, :m], rows.cells[j, :m], rows.q[j, :m], rows.q_cells[j, :m]
            misses = doubts[k] != doubts[k]
            if misses and _any_infinite(x):
                return False
            for f in range(FINDER):
                finder[f] = mapping.finders[f, j]
            _clip_and_find(x, finder, clipped, found)
            _map_values(clipped, found, np.int64(finder[STEPS]), mapping.knots[j], mapping.cells[j], g)
            _find_cells(g, cells)
            if misses:
                _mark_missing(x, g, cells)
            if relative:
                rank_scores(x, found, misses, room.ranking, q)
                _find_cells(q, q_cells)
                if misses:
                    _mark_missing(x, q, q_cells)
    return True


@leaf
def encode(sums, encodings):
    """The encodings of one column as lines: encodings[0] + encodings[1] z in each cell (2, N_CELLS), from its sums S and
    weights C (2, POINTS + 1), of which the last are those of missing values. Returns the largest in absolute value.
    """
    starts, slopes = encodings[0], encodings[1]
    S, C = sums[0], sums[1]
    for k in range(POINTS + 1):
        starts[k + 1] = _SCALE * S[k] / (C[k] + _PRIOR)
    largest = 0.0
    for k in range(1, MISSING + 1):
        largest = max(largest, abs(starts[k]))
    starts[0], slopes[0], slopes[POINTS], slopes[MISSING] = starts[1], 0.0, 0.0, 0.0
    for k in range(1, POINTS):
        slopes[k] = (starts[k + 1] - starts[k]) * (1.0 / STEP)
    for k in range(1, POINTS):
        starts[k] -= slopes[k] * (FIRST + (k - 1) * STEP)
    return largest


@leaf
def draw_curves_of(w, encodings, base, curves):
    """curves (8 N_CELLS,): in each cell four constants and four slopes of the sums of all columns of g, by w (4 N_COLUMNS,).

    base : (4,) workspace
    """
    starts, slopes = encodings[0], encodings[1]
    base[:] = 0.0
    add_scaled_four(base, 0, 1.0, w, 4 * PRESENT)
    for r in range(_MIDDLE + 1):
        add_scaled_four(base, 0, -1.0 if r < _MIDDLE else -0.5, w, 4 * (RAMPS + r))
    curves[:] = 0.0
    for c in range(N_CELLS - 1):
        own = 8 * c
        add_scaled_four(curves, own, 1.0, base, 0)
        add_scaled_four(curves, own, starts[c], w, 4 * ENCODED)
        add_scaled_four(curves, own + 4, 1.0, w, 4 * LINE)
        add_scaled_four(curves, own + 4, slopes[c], w, 4 * ENCODED)
        if RISES <= c < RISES + N_RAMPS:
            ramp = 4 * (RAMPS + c - RISES)
            add_scaled_four(curves, own, -(FIRST + (c - 1) * STEP) / STEP, w, ramp)
            add_scaled_four(curves, own + 4, 1.0 / STEP, w, ramp)
            add_scaled_four(base, 0, 1.0, w, ramp)
    add_scaled_four(curves, 8 * MISSING, starts[MISSING], w, 4 * ENCODED)


@leaf
def draw_rank_curves_of(w, encodings, curves):
    """The same for the columns of q."""
    starts, slopes = encodings[0], encodings[1]
    curves[:] = 0.0
    for c in range(N_CELLS - 1):
        add_scaled_four(curves, 8 * c, starts[c], w, 4 * ENCODED_RANK)
        add_scaled_four(curves, 8 * c + 4, 1.0, w, 4 * RANK)
        add_scaled_four(curves, 8 * c + 4, slopes[c], w, 4 * ENCODED_RANK)


@leaf
def add_curves(z, cells, curves, scores):
    """scores (4 m,), four of each document, += four curves (8 N_CELLS,) at z (m,): in each cell constants, then slopes."""
    for i in range(z.shape[0]):
        cell = 8 * np.int64(cells[i])
        add_scaled_four(scores, 4 * i, 1.0, curves, cell)
        add_scaled_four(scores, 4 * i, np.float64(z[i]), curves, cell + 4)


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
def combine_columns(of_g, of_q, which, encodings, rank_encodings, out):
    """out (N_COLUMNS,) = the sum of the columns of one feature by the coefficients that `gather` summed in lane `which`."""
    present, line, encoded = 0.0, 0.0, encodings[0, MISSING] * of_g[MISSING, which]
    for c in range(N_CELLS - 1):
        total, moment = of_g[c, which], of_g[c, 4 + which]
        present += total
        line += moment
        encoded += encodings[0, c] * total + encodings[1, c] * moment
    out[LINE], out[PRESENT], out[ENCODED] = line, present, encoded
    above = of_g[N_CELLS - 2, which] + of_g[N_CELLS - 3, which] + of_g[N_CELLS - 4, which]
    for k in range(N_RAMPS - 1, -1, -1):
        c = k + RISES
        total = of_g[c, which]
        rising = (of_g[c, 4 + which] - (FIRST + (c - 1) * STEP) * total) * (1.0 / STEP)
        centre = 1.0 if k < _MIDDLE else 0.5 if k == _MIDDLE else 0.0
        out[RAMPS + k] = rising + above - centre * present
        above += total
    rank, encoded = 0.0, 0.0
    for c in range(N_CELLS - 1):
        rank += of_q[c, 4 + which]
        encoded += rank_encodings[0, c] * of_q[c, which] + rank_encodings[1, c] * of_q[c, 4 + which]
    out[RANK], out[ENCODED_RANK] = rank, encoded


@leaf
def learn_encoding(found, missing, sums):
    """Add grades and weights, which `gather` summed in the lanes 2 and 3, to the sums of the points next to the values."""
    for k in range(2):
        own = sums[k]
        own[0] += found[0, 2 + k]
        for c in range(1, POINTS):
            right = (found[c, 6 + k] - (FIRST + (c - 1) * STEP) * found[c, 2 + k]) * (1.0 / STEP)
            own[c - 1] += found[c, 2 + k] - right
            own[c] += right
        own[POINTS - 1] += found[POINTS, 2 + k]
        if missing:
            own[POINTS] += found[MISSING, 2 + k]


@leaf
def norm_bound(largest, rank, encoded, rank_encoded):
    """An upper bound on the squared norm of the columns of a feature, by the largest absolute values of g, q and encodings."""
    # Ramps differ from those of 0 by a half, then by whole ones.
    return 1.0 + largest * largest + min(largest, 2.0) / STEP + rank * rank + encoded * encoded + rank_encoded * rank_encoded


@inlined
def score_members(rows, m, W, sums, relative, curves, lines, base, scores):
    """Scores (m, N_MEMBERS) of a query, by weights W (d, N_COLUMNS, N_MEMBERS) and sums of encodings (d, 2, 2, POINTS + 1).

    curves, lines, base : workspace
    """
    scores[:m] = 0.0
    line = curves.reshape(-1)
    for j in range(W.shape[0]):
        w = W[j].reshape(-1)
        encode(sums[j, 0], lines[0])
        draw_curves_of(w, lines[0], base, line)
        add_curves(rows.g[j, :m], rows.cells[j, :m], line, scores.reshape(-1))
        if relative:
            encode(sums[j, 1], lines[1])
            draw_rank_curves_of(w, lines[1], line)
            add_curves(rows.q[j, :m], rows.q_cells[j, :m], line, scores.reshape(-1))


@leaf
def _draw_curve(w, encodings, curve):
    """curve (2, N_CELLS) = constants and slopes of the sum of all columns of g by weights w (N_COLUMNS,)."""
    starts, slopes = curve[0], curve[1]
    middle = 0.5 * w[RAMPS + _MIDDLE]
    for r in range(_MIDDLE):
        middle += w[RAMPS + r]
    base = w[PRESENT] - middle
    for c in range(N_CELLS - 1):
        starts[c], slopes[c] = base, 0.0
        if RISES <= c < RISES + N_RAMPS:
            up = w[RAMPS + c - RISES] * (1.0 / STEP)
            starts[c], slopes[c] = base - up * (FIRST + (c - 1) * STEP), up
            base += w[RAMPS + c - RISES]
    starts[MISSING], slopes[MISSING] = 0.0, 0.0
    for c in range(N_CELLS):
        starts[c] += w[ENCODED] * encodings[0, c]
        slopes[c] += w[LINE] + w[ENCODED] * encodings[1, c]
    slopes[MISSING] = 0.0


@kernel
def draw_curves(weights, W, sums, out):
    """The served curves: out (d, 2, 2, N_CELLS) = the members' by their weights (N_MEMBERS,), of g and of q."""
    lines, w = np.empty((2, N_CELLS)), np.empty(N_COLUMNS)
    for j in range(W.shape[0]):
        for k in range(N_COLUMNS):
            own = W[j, k]
            w[k] = (weights[0] * own[0] + weights[1] * own[1]) + (weights[2] * own[2] + weights[3] * own[3])
        encode(sums[j, 0], lines)
        _draw_curve(w, lines, out[j, 0])
        encode(sums[j, 1], lines)
        for c in range(N_CELLS):
            known = 1.0 if c != MISSING else 0.0
            out[j, 1, 0, c] = known * w[ENCODED_RANK] * lines[0, c]
            out[j, 1, 1, c] = known * (w[RANK] + w[ENCODED_RANK] * lines[1, c])


@kernel
def score(X, offsets, counts, knots, cells, finders, relative, curves, scores):
    """Scores (n,) of the documents of queries by served curves (d, 2, 2, N_CELLS); NaN where a query has an infinite value."""
    longest = 0
    for t in range(offsets.shape[0] - 1):
        longest = max(longest, offsets[t + 1] - offsets[t])
    mapping, room = Map(counts, knots, cells, finders), room_for_reading(longest)
    rows = room_for_rows(X.shape[1], longest)
    for t in range(offsets.shape[0] - 1):
        first, m = offsets[t], offsets[t + 1] - offsets[t]
        s = scores[first : first + m]
        s[:] = 0.0 if read_rows(X, first, m, mapping, relative, room, rows) else np.nan
        for j in range(X.shape[1]):
            add_curve(rows.g[j, :m], rows.cells[j, :m], curves[j, 0], s)
            if relative:
                add_curve(rows.q[j, :m], rows.q_cells[j, :m], curves[j, 1], s)


@kernel
def contributions(X, counts, knots, cells, finders, relative, curves, out):
    """What each feature adds to the scores of a query's documents, by served curves: out (m, d). NaN for infinite values."""
    m = X.shape[0]
    rows = room_for_rows(X.shape[1], m)
    sound = read_rows(X, 0, m, Map(counts, knots, cells, finders), relative, room_for_reading(m), rows)
    own = np.empty(m)
    for j in range(X.shape[1]):
        own[:] = 0.0 if sound else np.nan
        add_curve(rows.g[j], rows.cells[j], curves[j, 0], own)
        if relative:
            add_curve(rows.q[j], rows.q_cells[j], curves[j, 1], own)
        for i in range(m):
            out[i, j] = own[i]


@kernel
def mapped(X, offsets, counts, knots, cells, finders, lowest, out):
    """The first columns of out (n, d or more) = g of each feature, at least `lowest`, and 2 `lowest` if missing.

    Returns whether no value is infinite.
    """
    d, longest = X.shape[1], longest_query(offsets)
    require_offsets(offsets, min(X.shape[0], out.shape[0]))
    require(counts.shape[0] == d <= out.shape[1])
    mapping, room, rows = Map(counts, knots, cells, finders), room_for_reading(longest), room_for_rows(d, longest)
    for t in range(offsets.shape[0] - 1):
        first, m = offsets[t], offsets[t + 1] - offsets[t]
        if not read_rows(X, first, m, mapping, False, room, rows):
            return False
        for j in range(d):
            for i in range(m):
                g = max(rows.g[j, i], lowest)
                out[first + i, j] = 2.0 * lowest if rows.cells[j, i] == MISSING else g
    return True
