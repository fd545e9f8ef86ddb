"""Features mapped by their quantiles: sketches of a stream, knots computed from them, and the map.

The sketch of a feature is a sorted list of values other than 0, of equal weight, and the weight of all of them; the rest of the
weight of all documents belongs to 0. Sketches are merged by systematic sampling, which keeps ranks unbiased. Only
comparisons decide which values stay: the knots are values of the stream.
"""

import math
from typing import NamedTuple

import numpy as np

from online_rank._kernels._jit import kernel, leaf
from online_rank._kernels.arrays import copy_to
from online_rank._kernels.fits import require
from online_rank._kernels.primitives import bit_pattern, four_row_dots, row_dot
from online_rank._kernels.vector_math import normal_quantile
from online_rank._kernels.workspace import longest_query

# Added to the standard deviation within a query, so that a feature that hardly varies there stays small.
_SOFT = 0.1
# If most documents have 0, scores of other values are at least this far from 0.
_APART, _TINY = 0.5, 5e-324
# Knots closer than this are not joined by a line.
_CLOSE = 1e-300
# Rows of numbers that describe how a value finds its cell: the smallest and the largest knot, cells a unit (0 for logarithmic
# ones), and of those the unit, the cell of 0 and how many bits of a number are left out; how often a search halves.
LOWEST, HIGHEST, DENSITY, UNIT, ORIGIN, SHIFT, STEPS = range(7)
FINDER = 7
# Rows of numbers of knots: their values, their scores, and the slopes to the next ones. After the last one come `BEYOND`
# infinite ones, with which values are compared without asking whether there is a next knot.
VALUE, SCORE, SLOPE = range(3)
KNOT, BEYOND = 3, 3


@leaf
def _join(a, n_a, w_a, b, n_b, w_b, draw, out):
    """Merge sorted values a[:n_a] of weight w_a each and b[:n_b] of weight w_b each into values of equal weight in `out`.

    All of them if they fit and have equal weights; otherwise as many as there is room for, at equal steps of the cumulative
    weight, starting at the share `draw` of a step. Returns their number.
    """
    room = out.shape[0]
    i, k = 0, 0
    if n_a + n_b <= room and (n_a == 0 or n_b == 0 or abs(w_a - w_b) <= 1e-9 * w_a):
        for n in range(n_a + n_b):
            if k == n_b or (i < n_a and a[i] <= b[k]):
                out[n] = a[i]
                i += 1
            else:
                out[n] = b[k]
                k += 1
        return n_a + n_b
    step = (n_a * w_a + n_b * w_b) / room
    above, value = 0.0, 0.0
    for n in range(room):
        target = (n + draw) * step
        while above <= target and (i < n_a or k < n_b):
            if k == n_b or (i < n_a and a[i] <= b[k]):
                value = a[i]
                above += w_a
                i += 1
            else:
                value = b[k]
                above += w_b
                k += 1
        out[n] = value
    return room


@leaf
def _sort_few(values, ascending):
    """Sort by counting smaller values: n^2 comparisons without branches, in a third of the time of quicksort for n = 96."""
    n = values.shape[0]
    for i in range(n):
        x, place = values[i], 0
        for k in range(i):
            place += values[k] <= x
        for k in range(i + 1, n):
            place += values[k] < x
        ascending[place] = x


@kernel
def join_documents(first, stop, documents, share, keep, draw, largest, points, sizes, masses, lacking):
    """Merge sampled documents (n, d), each standing for `share` documents, into the sketches of the features first..stop.

    NaN is a missing value.

    keep : factor for the earlier weight of the sketches
    largest : larger values are clipped to this
    points : (d, P), sizes, masses and lacking : (d,), changed in place
    """
    found, column = np.empty(documents.shape[0]), np.empty(documents.shape[0])
    joined = np.empty(points.shape[1])
    for j in range(first, stop):
        n, missing = 0, 0
        for i in range(documents.shape[0]):
            if documents[i, j] != documents[i, j]:
                missing += 1
            elif documents[i, j] != 0.0:
                found[n] = min(max(documents[i, j], -largest), largest)
                n += 1
        masses[j] *= keep
        lacking[j] = keep * lacking[j] + missing * share
        if n > 0:
            _sort_few(found[:n], column)
            size = sizes[j] if masses[j] > 0.0 else 0
            weight = masses[j] / size if size > 0 else 0.0
            sizes[j] = _join(points[j], size, weight, column, n, share, draw, joined)
            masses[j] += n * share
            copy_to(points[j, : sizes[j]], joined[: sizes[j]])


@kernel
def join_sketches(points, sizes, masses, draw, others, other_sizes, other_masses):
    """Merge other sketches of the same features into `points` (d, P), `sizes` and `masses` (d,), which change in place."""
    joined = np.empty(points.shape[1])
    for j in range(points.shape[0]):
        size, n = sizes[j], other_sizes[j]
        if n > 0:
            weight = masses[j] / size if size > 0 else 0.0
            sizes[j] = _join(points[j], size, weight, others[j], n, other_masses[j] / n, draw, joined)
            masses[j] += other_masses[j]
            copy_to(points[j, : sizes[j]], joined[: sizes[j]])


@leaf
def _distinct(points, size, mass, zeros, values, weights):
    """The distinct values of a sketch, ascending, including 0 if `zeros` > 0, and their weights. Returns their number."""
    each = mass / size if size > 0 else 0.0
    n = 0
    placed = not zeros > 0.0
    for i in range(size + 1):
        if not placed and (i == size or points[i] > 0.0):
            values[n], weights[n] = 0.0, zeros
            n += 1
            placed = True
        if i < size:
            if n > 0 and values[n - 1] == points[i]:
                weights[n - 1] += each
            else:
                values[n], weights[n] = points[i], each
                n += 1
    return n


@leaf
def _choose_knots(values, weights, n, rare, knots, scores):
    """Knots among n distinct values at equal steps of their weight, always the smallest, the largest and 0; how many.

    The score of a knot is Phi^-1 of its mid-rank share: of the smaller values, and half of the equal ones.
    """
    total = 0.0
    for i in range(n):
        total += weights[i]
    slots = knots.shape[0] - 5
    size, below, passed, origin = 0, 0.0, 0.0, 0.0
    for i in range(n):
        above = below + weights[i]
        if above * slots > passed * total or values[i] == 0.0 or i == n - 1:
            score = normal_quantile((below + 0.5 * weights[i]) / total)
            if rare and values[i] == 0.0:
                origin = score
                if i == 0 or values[i - 1] < -_TINY:
                    knots[size], scores[size] = -_TINY, score - _APART
                    size += 1
                knots[size], scores[size] = 0.0, score
                size += 1
                if i == n - 1 or values[i + 1] > _TINY:
                    knots[size], scores[size] = _TINY, score + _APART
                    size += 1
            else:
                knots[size], scores[size] = values[i], score
                size += 1
            passed = math.floor(above * slots / total) + 1.0
        below = above
    for k in range(size):
        scores[k] -= origin
    return size


class Sketches(NamedTuple):
    """Sketches of d features: points (d, P), how many there are (d,) and their weight (d,); the weight of all documents, and of
    those without the feature (d,).
    """

    points: np.ndarray
    sizes: np.ndarray
    masses: np.ndarray
    total: float
    lacking: np.ndarray


@leaf
def _require_sketches(sketches):
    """Require as many points as a sketch says, in each row."""
    points, sizes = sketches.points, sketches.sizes
    require(sizes.shape[0] == points.shape[0] == sketches.masses.shape[0] == sketches.lacking.shape[0])
    inside = True
    for j in range(sizes.shape[0]):
        inside &= (sizes[j] >= 0) & (sizes[j] <= points.shape[1])
    require(inside)


@kernel
def find_knots(first, stop, sketches, old, draw, table):
    """Knots of the features first..stop, and the table by which a value finds the two it is between.

    If 0 has more than half of the weight, it counts for half, its score is set to 0, and the feature is `rare`.

    sketches : `Sketches` of d features
    old : `Sketches` of the first features, d' <= d, that count too
    table : out; rare, counts (d,): 1 if 0 has more than half of the weight, number of knots; knots (d, KNOT, K + BEYOND), whose
        values after the last one are infinite; cells (d, 256) uint8: the last knot before each cell; finders (FINDER, d)
    """
    points, sizes, masses, total, lacking = sketches
    old_points, old_sizes, old_masses, old_total, old_lacking = old
    rare, counts, knots, cells, finders = table
    _require_sketches(sketches)
    _require_sketches(old)
    require(first >= 0 and first <= stop <= points.shape[0] and old_points.shape[1] == points.shape[1])
    require(stop <= rare.shape[0] == counts.shape[0] == knots.shape[0] == cells.shape[0] == finders.shape[1])
    require(knots.shape[2] > BEYOND and knots.shape[1] == KNOT and finders.shape[0] == FINDER)
    room = 2 * points.shape[1]
    joined, values, weights = np.empty(room), np.empty(room + 1), np.empty(room + 1)
    chosen, scores = np.empty(knots.shape[2] - BEYOND), np.empty(knots.shape[2] - BEYOND)
    held, finder, best = np.empty(cells.shape[1], dtype=np.int64), np.empty(FINDER), np.empty(FINDER)
    for j in range(first, stop):
        size, mass, whole = sizes[j], masses[j], total + old_total - lacking[j]
        n = old_sizes[j] if j < old_points.shape[0] else 0
        whole -= old_lacking[j] if j < old_points.shape[0] else 0.0
        if n > 0:
            weight = mass / size if size > 0 else 0.0
            size = _join(points[j], size, weight, old_points[j], n, old_masses[j] / n, draw, joined)
            mass += old_masses[j]
        else:
            copy_to(joined[:size], points[j, :size])
        zeros = max(whole - mass, 0.0)
        rare[j] = 1 if zeros > mass else 0
        if rare[j]:
            zeros = mass if mass > 0.0 else 1.0
        elif zeros < 1e-9 * mass:
            zeros = 0.0
        counts[j] = 0
        if mass + zeros > 0.0:
            n = _distinct(joined, size, mass, zeros, values, weights)
            counts[j] = _choose_knots(values, weights, n, rare[j], chosen, scores)
        _draw_lines(chosen, scores, counts[j], knots[j])
        _make_cells(chosen, counts[j], cells[j], best, held, finder)
        for k in range(FINDER):
            finders[k, j] = best[k]


@leaf
def _draw_lines(values, scores, n, knots):
    """Score and slope from each of n knots to the next one; nothing beyond the last."""
    knots[:] = 0.0
    for k in range(n):
        gap = values[k + 1] - values[k] if k + 1 < n else 0.0
        knots[VALUE, k] = values[k]
        knots[SCORE, k] = scores[k]
        knots[SLOPE, k] = (scores[k + 1] - scores[k]) / gap if gap > _CLOSE else 0.0
    for k in range(max(n, 1), knots.shape[1]):
        knots[VALUE, k] = np.inf


@leaf
def _cell(z, finder):
    """The cell of a value between the smallest and the largest knot; it is non-decreasing in the value.

    Cells have equal widths, or about equal widths in the logarithm of 1 + |z| / unit, on both sides of 0.
    """
    if finder[DENSITY] > 0.0 or finder[UNIT] == 0.0:
        return np.int64((z - finder[LOWEST]) * finder[DENSITY])
    place = (bit_pattern(1.0 + abs(z) * finder[UNIT]) - bit_pattern(1.0)) >> np.int64(finder[SHIFT])
    return np.int64(finder[ORIGIN]) + (place if z >= 0.0 else -place)


@leaf
def _steps(knots, n, finder, held):
    """How many times a search must halve the knots of the fullest cell; held (C,) out: knots in each cell."""
    for c in range(held.shape[0]):
        held[c] = 0
    most = 0
    for k in range(n):
        c = _cell(knots[k], finder)
        held[c] += 1
        most = max(most, held[c])
    steps = 0
    while (1 << steps) <= most:
        steps += 1
    return steps


@leaf
def _make_cells(knots, n, cells, best, held, finder):
    """Choose cells with few knots in the fullest one, and write the last knot before each; best (FINDER,) out.

    held : (C,) and finder : (FINDER,) workspace
    """
    n_cells = cells.shape[0]
    best[:] = 0.0
    finder[:] = 0.0
    cells[:] = 0
    if n == 0:
        return
    width = knots[n - 1] - knots[0]
    best[LOWEST], best[HIGHEST] = knots[0], knots[n - 1]
    best[DENSITY] = (n_cells - 1.0) / width if width > _CLOSE else 0.0
    best[STEPS] = _steps(knots, n, best, held)
    for kind in range(1, 4):
        size = abs(knots[(n * kind * kind) // 16])
        if best[STEPS] > 1.0 and _CLOSE < size < 1.0 / _CLOSE:
            finder[LOWEST], finder[HIGHEST], finder[UNIT] = knots[0], knots[n - 1], 1.0 / size
            # The finest cells that suffice.
            shift = 44
            while True:
                finder[ORIGIN], finder[SHIFT] = 0.0, shift
                low = _cell(knots[0], finder)
                if _cell(knots[n - 1], finder) - low < n_cells:
                    break
                shift += 1
            finder[ORIGIN] = -low
            finder[STEPS] = _steps(knots, n, finder, held)
            if finder[STEPS] < best[STEPS]:
                copy_to(best, finder)
    _steps(knots, n, best, held)
    below = 0
    for c in range(n_cells):
        cells[c] = max(below - 1, 0)
        below += held[c]


@leaf
def are_finite(X, first, stop, zeros):
    """Whether all values of some rows are finite; `zeros` (d,) are 0. It also brings them into the cache, row after row."""
    total, rest = 0.0, stop - (stop - first) % 4
    for i in range(first, rest, 4):
        a, b, c, d = four_row_dots(X, i, zeros)
        total += (a + b) + (c + d)
    for i in range(rest, stop):
        total += row_dot(X, i, zeros)
    return total == 0.0


@leaf
def _find_cells(X, finders, origins, shifts, clipped, cells):
    """Values clipped to the knots of their features, and their cells, as `_cell` finds them."""
    lowest, highest, density, unit = finders[LOWEST], finders[HIGHEST], finders[DENSITY], finders[UNIT]
    one = bit_pattern(1.0)
    for i in range(X.shape[0]):
        row, own, found = X[i], clipped[i], cells[i]
        for j in range(row.shape[0]):
            x = np.float64(row[j])
            # NaN becomes the lowest: every comparison with it is false.
            z = x if x > lowest[j] else lowest[j]
            z = z if z < highest[j] else highest[j]
            own[j] = z
            # Of cells of equal widths only the first term is not 0, of logarithmic ones only the others; the last is
            # negative for negative values.
            place = (bit_pattern(1.0 + abs(z) * unit[j]) - one) >> shifts[j]
            sign = bit_pattern(z) >> np.int64(63)
            cell = np.int64(np.int32((z - lowest[j]) * density[j])) + origins[j] + ((place ^ sign) - sign)
            found[j] = np.uint8(cell)


@leaf
def _map_column(Z, j, steps, knots, starts, cells):
    """Replace the column j of Z, values clipped to the knots, by their scores: linear between knots.

    The last knot below a value is found among up to 2^steps - 1 knots of its cell. No branch depends on a value, because which
    knot it is cannot be predicted: a comparison is added to an index, which is one instruction. Indices are unsigned, which
    avoids tests for negative ones.
    """
    values, scores, slopes, own, one = knots[VALUE], knots[SCORE], knots[SLOPE], np.uint64(j), np.uint64(1)
    two, three, last = one + one, one + one + one, np.uint64(values.shape[0]) - one
    for i in range(Z.shape[0]):
        z = Z[i, own]
        at = np.uint64(starts[np.uint64(cells[i, own])])
        if steps < 2:
            at += np.uint64(values[at + one] <= z)
        elif steps == 2:
            first, second = np.uint64(values[at + one] <= z), np.uint64(values[at + two] <= z)
            at += first + second + np.uint64(values[at + three] <= z)
        else:
            for s in range(steps - 1, -1, -1):
                step = one << np.uint64(s)
                at += step * np.uint64(values[min(at + step, last)] <= z)
        Z[i, own] = scores[at] + (z - values[at]) * slopes[at]


@leaf
def _relate(scores, rare, first, means, factors):
    """The means to subtract from each column of scores (m, d), rounded to float32, and the factors to multiply by, (d,).

    Sums are of differences to the `first` row: they are exactly 0 where scores are constant.
    """
    m = scores.shape[0]
    for j in range(scores.shape[1]):
        first[j], means[j], factors[j] = np.float64(np.float32(scores[0, j])), 0.0, 0.0
    for i in range(m):
        row = scores[i]
        for j in range(row.shape[0]):
            away = np.float64(np.float32(row[j])) - first[j]
            means[j] += away
            factors[j] += away * away
    for j in range(scores.shape[1]):
        mean = means[j] / m
        variance = factors[j] / m - mean * mean
        means[j] = 0.0 if rare[j] else first[j] + mean
        factors[j] = 1.0 / (math.sqrt(variance) + _SOFT) if variance > 0.0 else 0.0


@leaf
def _write(scores, means, factors, out):
    for i in range(scores.shape[0]):
        row, pairs = scores[i], out[i]
        for j in range(row.shape[0]):
            g = np.float32(row[j])
            pairs[2 * j] = g
            pairs[2 * j + 1] = (np.float64(g) - means[j]) * factors[j]


@kernel
def map_queries(X, offsets, rare, knots, cells, finders, out):
    """For each feature j and document: out[:, 2 j] = g, out[:, 2 j + 1] = (g - mean) / (deviation + 0.1) within the query.

    g is in float32. Of rare features the mean is not subtracted: 0 stays 0. The second is 0 if g is constant in the query, and
    both are if a feature has no knots yet. Returns whether all values are finite.

    out : (n, 2 d) float32
    """
    longest, d = longest_query(offsets), X.shape[1]
    g, found = np.empty((longest, d)), np.empty((longest, d), dtype=np.uint8)
    zeros, first, means, factors, sound = np.zeros(d), np.empty(d), np.empty(d), np.empty(d), True
    origins, shifts = np.empty(d, dtype=np.int64), np.empty(d, dtype=np.int64)
    for j in range(d):
        origins[j], shifts[j] = np.int64(finders[ORIGIN, j]), np.int64(finders[SHIFT, j])
    for t in range(offsets.shape[0] - 1):
        a, b = offsets[t], offsets[t + 1]
        m = b - a
        if m == 0:
            continue
        sound &= are_finite(X, a, b, zeros)
        scores, places = g[:m], found[:m]
        _find_cells(X[a:b], finders, origins, shifts, scores, places)
        for j in range(d):
            _map_column(scores, j, np.int64(finders[STEPS, j]), knots[j], cells[j], places)
        _relate(scores, rare, first, means, factors)
        _write(scores, means, factors, out[a:b])
    return sound
