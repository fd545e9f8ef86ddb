"""The three verbs that touch features, for rows of which few features are filled; twins of `dense`.

A feature's numbers are in one row of the state (d, 4 or more), so that it takes one cache line: its weight w, the u of its lazy
average (`averages`), and two sums that are 0 except while a query is learned. A query takes time proportional to its entries,
for any d.
"""

import math
from typing import NamedTuple

import numpy as np

from online_rank._kernels._jit import inner, kernel, leaf
from online_rank._kernels.fits import require, require_offsets, require_rows

# Largest norm of weights whose square is finite.
_LARGEST_NORM = 1e154

# Columns of the state; an optimizer's state begins at OPTIMIZER.
WEIGHT, LAZY, SUM, OTHER_SUM, OPTIMIZER = range(5)


class Rows(NamedTuple):
    """Rows of features, as in `online_rank.query.SparseRows`; the first entry is at `starts[0]`."""

    starts: np.ndarray
    columns: np.ndarray
    values: np.ndarray


@kernel
def score(starts, columns, values, state, scale, shift, s):
    """Scores by the served weights scale (w - shift u), accumulated in float64."""
    require_rows(starts, columns, values, state.shape[0])
    require(state.shape[1] >= OPTIMIZER and s.shape[0] >= starts.shape[0] - 1)
    for i in range(starts.shape[0] - 1):
        total = 0.0
        for e in range(starts[i], starts[i + 1]):
            j = columns[e]
            total += values[e] * (state[j, WEIGHT] - shift * state[j, LAZY])
        s[i] = scale * total


@kernel
def score_by(starts, columns, values, w, s):
    """Scores by weights w (d,), accumulated in float64."""
    require_rows(starts, columns, values, w.shape[0])
    require(s.shape[0] >= starts.shape[0] - 1)
    for i in range(starts.shape[0] - 1):
        total = 0.0
        for e in range(starts[i], starts[i + 1]):
            total += values[e] * w[columns[e]]
        s[i] = total


@kernel
def score_with_norms(starts, columns, values, state, s):
    """Scores by the weights w. Returns the largest and the sum of the documents' squared norms."""
    require_rows(starts, columns, values, state.shape[0])
    require(state.shape[1] >= OPTIMIZER and s.shape[0] >= starts.shape[0] - 1)
    largest = 0.0
    norms = 0.0
    for i in range(starts.shape[0] - 1):
        total = 0.0
        norm = 0.0
        for e in range(starts[i], starts[i + 1]):
            x = np.float64(values[e])
            total += x * state[columns[e], WEIGHT]
            norm += x * x
        s[i] = total
        norms += norm
        largest = max(largest, norm)
    return largest, norms


@leaf
def most_entries(starts, offsets):
    """The largest number of entries of a query in a block."""
    most = 0
    for q in range(offsets.shape[0] - 1):
        most = max(most, starts[offsets[q + 1]] - starts[offsets[q]])
    return most


@leaf
def combine_rows(rows, c, state, touched):
    """Add c_i x_i over documents to the SUM of each feature; lists the features to `touched`. Returns their number.

    A feature may be listed twice if its sum was 0 in between.
    """
    n = 0
    for i in range(c.shape[0]):
        if c[i] != 0.0:
            for e in range(rows.starts[i], rows.starts[i + 1]):
                j = rows.columns[e]
                touched[n] = j
                n += state[j, SUM] == 0.0
                state[j, SUM] += c[i] * rows.values[e]
    return n


@leaf
def combine_rows_twice(rows, c, other, state, touched):
    """`combine_rows` for two credits in one pass: to SUM and OTHER_SUM."""
    n = 0
    for i in range(c.shape[0]):
        if c[i] != 0.0 or other[i] != 0.0:
            for e in range(rows.starts[i], rows.starts[i + 1]):
                j = rows.columns[e]
                touched[n] = j
                n += (state[j, SUM] == 0.0) & (state[j, OTHER_SUM] == 0.0)
                state[j, SUM] += c[i] * rows.values[e]
                state[j, OTHER_SUM] += other[i] * rows.values[e]
    return n


@leaf
def take_sums(state, column, touched, z):
    """Move a column of sums, SUM or OTHER_SUM, of the touched features to z, and reset it to 0. Returns ||z||^2."""
    square = 0.0
    for k in range(touched.shape[0]):
        j = touched[k]
        z[k] = state[j, column]
        state[j, column] = 0.0
        square += z[k] * z[k]
    return square


@leaf
def stay_finite(state, touched, step, square):
    """Whether the weights w + step z stay finite, `square` being ||z||^2: their norm is at most ||w|| + step ||z||."""
    squares_of_w = 0.0
    for k in range(touched.shape[0]):
        squares_of_w += state[touched[k], WEIGHT] * state[touched[k], WEIGHT]
    return math.sqrt(squares_of_w) + step * math.sqrt(square) < _LARGEST_NORM


@leaf
def add_scaled(state, step, touched, z, lag):
    """w += step z, and u += lag step z (`averages.lag_of`), for the touched features."""
    for k in range(touched.shape[0]):
        j = touched[k]
        d = step * z[k]
        state[j, WEIGHT] += d
        state[j, LAZY] += lag * d


@kernel
def repeats(starts, columns):
    """Whether some row has two entries in one column."""
    require_offsets(starts, columns.shape[0])
    table = _table(starts)
    mask = table.shape[0] - 1
    for i in range(starts.shape[0] - 1):
        first, stop = starts[i], starts[i + 1]
        ascending = True
        for e in range(first + 1, stop):
            ascending &= columns[e - 1] < columns[e]
        if ascending:
            continue
        for e in range(first, stop):
            k = _place(table, mask, columns, first, columns[e])
            if table[k] >= first:
                return True
            table[k] = e
    return False


@kernel
def merge_repeated(starts, columns, values):
    """Add up entries of the same row and column, in place, compacting rows and `starts`. Returns the number of remaining
    entries.
    """
    require_offsets(starts, min(columns.shape[0], values.shape[0]))
    table = _table(starts)
    mask = table.shape[0] - 1
    n, start = 0, starts[0]
    for i in range(starts.shape[0] - 1):
        first, stop = n, starts[i + 1]
        for e in range(start, stop):
            k = _place(table, mask, columns, first, columns[e])
            if table[k] >= first:
                values[table[k]] += values[e]
            else:
                table[k] = n
                columns[n] = columns[e]
                values[n] = values[e]
                n += 1
        start = stop
        starts[i] = first
    starts[starts.shape[0] - 1] = n
    return n


@inner
def _table(starts):
    """A hash table for the entries of one row at a time: -1 in at least twice as many slots as any row needs, a power of 2."""
    longest = 0
    for i in range(starts.shape[0] - 1):
        longest = max(longest, starts[i + 1] - starts[i])
    size = 2
    while size < 2 * longest:
        size *= 2
    return np.full(size, -1)


@leaf
def _place(table, mask, columns, first, column):
    """The slot in a table of the row's entry in a column, or the empty slot where it would go.

    Entries before the row's `first` count as empty slots, so that nothing has to be cleared between rows.
    """
    k = column & mask
    while table[k] >= first and columns[table[k]] != column:
        k = (k + 1) & mask
    return k


@kernel
def take_rows(state, rows, out):
    """Copy rows of the state (d, k) to `out` (n, k), several times as fast as numpy's indexing."""
    require(out.shape[0] >= rows.shape[0] and out.shape[1] == state.shape[1])
    inside = True
    for i in range(rows.shape[0]):
        inside &= (rows[i] >= 0) & (rows[i] < state.shape[0])
    require(inside)
    for i in range(rows.shape[0]):
        for k in range(state.shape[1]):
            out[i, k] = state[rows[i], k]


@kernel
def divide_by_largest(starts, columns, values, offsets, largest, out, learns):
    """Write values / largest[column] to `out`; 0 if that is 0, or if the column is negative, for an unknown feature.

    If it learns, `largest` (d,) is updated with the |values| of each query before these are divided. Returns the number of
    queries
    before one with NaN or infinity.
    """
    require_offsets(starts, min(min(columns.shape[0], values.shape[0]), out.shape[0]))
    require_offsets(offsets, starts.shape[0] - 1)
    inside = True
    for e in range(starts[0], starts[starts.shape[0] - 1]):
        inside &= (columns[e] < largest.shape[0]) & (columns[e] >= 0 or not learns)
    require(inside)
    for t in range(offsets.shape[0] - 1):
        a, b = starts[offsets[t]], starts[offsets[t + 1]]
        for e in range(a, b):
            if not math.isfinite(values[e]):
                return t
            if learns:
                largest[columns[e]] = max(largest[columns[e]], abs(values[e]))
        for e in range(a, b):
            scale = largest[columns[e]] if columns[e] >= 0 else 0.0
            out[e] = values[e] / scale if scale > 0.0 else 0.0
    return offsets.shape[0] - 1
