"""The verbs of `features` for `Rows`, of which few features are filled.

A feature's numbers are in one row of a table (d, 4 or more), so that it takes one cache line: its weight w, the u of its lazy
average (`averages`), two sums that are 0 except while a query is learned, and what an optimizer keeps of it. A query takes time
proportional to its entries, for any d.
"""

import math
from typing import NamedTuple

import numpy as np

from online_rank._kernels._jit import inner, kernel, leaf
from online_rank._kernels.averages import count_lazily, lag_of, scale_and_shift
from online_rank._kernels.fits import require, require_offsets
from online_rank._kernels.optimizers import bet
from online_rank._kernels.workspace import longest_query

# Largest norm of weights whose square is finite.
_LARGEST_NORM = 1e154

# Columns of the state; an optimizer's state begins at OPTIMIZER.
WEIGHT, LAZY, SUM, OTHER_SUM, OPTIMIZER = range(5)
# Indices in the counters of rankers on clicks: the sum of theta^2 / G over the features with gradients, and their number.
EVIDENCE, WITH_GRADIENTS = 4, 5
# Their initial weights are in the column of the lazy average, which rankers with bets do not have.
BEGINNING = LAZY


class Rows(NamedTuple):
    """Features of n documents, as in `online_rank.query.SparseRows`; the first entry is at `starts[0]`."""

    starts: np.ndarray
    columns: np.ndarray
    values: np.ndarray
    n_columns: int


class Learner(NamedTuple):
    """What learns: the table of the features, and whether an average of the weights serves.

    The rest is workspace: for the features that an update touches, for it and a second one, for ranges and numbers of features,
    for the rows of a query, and for what an optimizer keeps of its features.
    """

    w: np.ndarray
    averages: bool
    touched: np.ndarray
    z: np.ndarray
    other: np.ndarray
    low: np.ndarray
    high: np.ndarray
    numbers: np.ndarray
    starts: np.ndarray
    state: np.ndarray


class Taken(NamedTuple):
    """The documents of one query, with their features numbered from 0, and copies of the numbers that belong to these.

    `weights` (n, 1) is `w` as a table; feature number k is the column `touched[k]`.
    """

    documents: Rows | np.ndarray
    w: np.ndarray
    weights: np.ndarray
    state: np.ndarray
    z: np.ndarray
    touched: np.ndarray


@leaf
def require_rows(rows, n_columns):
    """Require sparse rows with valid entries, in columns below `n_columns`."""
    starts, columns = rows.starts, rows.columns
    require_offsets(starts, min(columns.shape[0], rows.values.shape[0]))
    inside = True
    for e in range(starts[0], starts[starts.shape[0] - 1]):
        inside &= (columns[e] >= 0) & (columns[e] < n_columns)
    require(inside)


@leaf
def n_documents(rows):
    """See `features`."""
    return rows.starts.shape[0] - 1


@inner
def query_of(rows, first, m):
    """See `features`."""
    return Rows(rows.starts[first : first + m + 1], rows.columns, rows.values, rows.n_columns)


@inner
def learner_of(rows, table, averages, state, n_kept, offsets):
    """See `features`. The state is in the table."""
    require_rows(rows, table.shape[0])
    require(table.shape[1] == OPTIMIZER + n_kept)
    most = 0
    for q in range(offsets.shape[0] - 1):
        most = max(most, rows.starts[offsets[q + 1]] - rows.starts[offsets[q]])
    reals, integers = np.empty((4, most)), np.empty(2 * most + 1, np.int64)
    starts, kept = np.empty(longest_query(offsets) + 1, np.int64), np.empty(n_kept * most)
    touched, numbers = integers[: most + 1], integers[most + 1 :]
    return Learner(table, averages, touched, reals[0], reals[1], reals[2], reals[3], numbers, starts, kept)


@kernel
def score(rows, table, scale, shift, s):
    """Scores by the served weights scale (w - shift u), accumulated in float64."""
    starts, columns, values = rows.starts, rows.columns, rows.values
    require_rows(rows, table.shape[0])
    require(table.shape[1] >= OPTIMIZER and s.shape[0] >= starts.shape[0] - 1)
    for i in range(starts.shape[0] - 1):
        total = 0.0
        for e in range(starts[i], starts[i + 1]):
            j = columns[e]
            total += values[e] * (table[j, WEIGHT] - shift * table[j, LAZY])
        s[i] = scale * total


@kernel
def score_with_norms(rows, table, s):
    """See `features`. The weights w may also be an array (d, 1)."""
    starts, columns, values = rows.starts, rows.columns, rows.values
    require_rows(rows, table.shape[0])
    require(table.shape[1] > WEIGHT and s.shape[0] >= starts.shape[0] - 1)
    largest = 0.0
    norms = 0.0
    for i in range(starts.shape[0] - 1):
        total = 0.0
        norm = 0.0
        for e in range(starts[i], starts[i + 1]):
            x = np.float64(values[e])
            total += x * table[columns[e], WEIGHT]
            norm += x * x
        s[i] = total
        norms += norm
        largest = max(largest, norm)
    return largest, norms


@leaf
def score_served(documents, learner, decay, counters, s):
    """See `features`."""
    scale, shift = scale_and_shift(decay, learner.averages, counters)
    score(documents, learner.w, scale, shift, s)


@leaf
def combine(documents, learner, c, other, spare):
    """See `features`. A feature may be listed twice if its sum was 0 in between; then its number is 0 there."""
    table, touched, n = learner.w, learner.touched, 0
    for i in range(c.shape[0]):
        if c[i] != 0.0 or (other is not None and other[i] != 0.0):
            for e in range(documents.starts[i], documents.starts[i + 1]):
                j = documents.columns[e]
                touched[n] = j
                n += (table[j, SUM] == 0.0) & (other is None or table[j, OTHER_SUM] == 0.0)
                table[j, SUM] += c[i] * documents.values[e]
                if other is not None:
                    table[j, OTHER_SUM] += other[i] * documents.values[e]
    square = _take_sums(table, SUM, touched[:n], learner.z)
    return n, square, 0.0 if other is None else _take_sums(table, OTHER_SUM, touched[:n], learner.other)


@leaf
def _take_sums(table, column, touched, z):
    """Move a column of sums, SUM or OTHER_SUM, of the touched features to z, and reset it to 0. Returns ||z||^2."""
    square = 0.0
    for k in range(touched.shape[0]):
        j = touched[k]
        z[k] = table[j, column]
        table[j, column] = 0.0
        square += z[k] * z[k]
    return square


@leaf
def mix(learner, n, share):
    """See `features`."""
    z, other, square = learner.z, learner.other, 0.0
    for k in range(n):
        z[k] = share * z[k] + (1.0 - share) * other[k]
        square += z[k] * z[k]
    return square


@leaf
def add(learner, n, step, square, decay, counters):
    """See `features`. The norm of the new weights is at most ||w|| + step ||z||."""
    table, touched, z, squares_of_w = learner.w, learner.touched, learner.z, 0.0
    for k in range(n):
        squares_of_w += table[touched[k], WEIGHT] * table[touched[k], WEIGHT]
    if not math.sqrt(squares_of_w) + step * math.sqrt(square) < _LARGEST_NORM:
        return False
    lag = lag_of(decay, counters) if learner.averages else 0.0
    for k in range(n):
        j = touched[k]
        d = step * z[k]
        table[j, WEIGHT] += d
        table[j, LAZY] += lag * d
    return True


@leaf
def add_with_squares(learner, n, decay, counters):
    """See `features`. The sums of squared updates are in the first of the optimizer's columns."""
    table, touched, z, fine = learner.w, learner.touched, learner.z, True
    for k in range(n):
        row = table[touched[k]]
        fine &= math.isfinite(row[WEIGHT] + z[k]) and math.isfinite(row[OPTIMIZER] + z[k] * z[k])
    if not fine:
        return False
    lag = lag_of(decay, counters) if learner.averages else 0.0
    for k in range(n):
        # One after the other, since a feature may be listed twice, the second time with z = 0.
        row = table[touched[k]]
        _replace_evidence(counters, row[WEIGHT], row[OPTIMIZER], row[WEIGHT] + z[k], row[OPTIMIZER] + z[k] * z[k])
        row[OPTIMIZER] += z[k] * z[k]
        row[WEIGHT] += z[k]
        row[LAZY] += lag * z[k]
    return True


@leaf
def _replace_evidence(counters, theta, squares, new_theta, new_squares):
    """Replace a feature's old theta^2 / G in the sum by the new value (`clicks.confidence`)."""
    if squares > 0.0:
        counters[EVIDENCE] -= theta / squares * theta
        counters[WITH_GRADIENTS] -= 1.0
    if new_squares > 0.0:
        counters[EVIDENCE] += new_theta / new_squares * new_theta
        counters[WITH_GRADIENTS] += 1.0
    # Rounding error of a sum of numbers >= 0.
    counters[EVIDENCE] = max(counters[EVIDENCE], 0.0)


@leaf
def count_average(learner, decay, counters):
    """See `features`."""
    if learner.averages:
        count_lazily(learner.w, LAZY, decay, counters)


@leaf
def shorten(learner, longest):
    """See `features`. It would touch all features."""
    raise ValueError("no norm cap goes with sparse rows")


@inner
def take(learner, rows, first, m):
    """See `features`."""
    table, starts = learner.w, learner.starts[: m + 1]
    a, b = rows.starts[first], rows.starts[first + m]
    for i in range(m + 1):
        starts[i] = rows.starts[first + i] - a
    numbers, values = learner.numbers[: b - a], rows.values[a:b]
    n = _number_features(rows.columns[a:b], table, learner.touched, numbers)
    touched, w = learner.touched[:n], learner.other[:n]
    for k in range(n):
        w[k] = table[touched[k], WEIGHT]
    _find_ranges(numbers, values, m, learner.low[:n], learner.high[:n], learner.z[:n])
    documents, state = Rows(starts, numbers, values, n), _copied_state(learner, touched)
    return Taken(documents, w, w.reshape((n, 1)), state, learner.z[:n], touched)


@inner
def take_drawn(learner, rows, drawn, first, beginning):
    """See `features`. The documents become a matrix with a column for each of their features."""
    table, touched, n = learner.w, learner.touched, 0
    for p in range(drawn.shape[0]):
        for e in range(rows.starts[first + drawn[p]], rows.starts[first + drawn[p] + 1]):
            j = rows.columns[e]
            if table[j, SUM] == 0.0:
                touched[n] = j
                n += 1
                table[j, SUM] = n
    touched, documents, largest, norms = touched[:n], np.zeros((drawn.shape[0], n)), 0.0, 0.0
    for p in range(drawn.shape[0]):
        norm = 0.0
        for e in range(rows.starts[first + drawn[p]], rows.starts[first + drawn[p] + 1]):
            x = np.float64(rows.values[e])
            documents[p, np.int64(table[rows.columns[e], SUM]) - 1] += x
            norm += x * x
        norms += norm
        largest = max(largest, norm)
    bets, begun = np.zeros(n), np.empty(n)
    for k in range(n):
        table[touched[k], SUM] = 0.0
        begun[k] = table[touched[k], BEGINNING]
    return Taken(documents, bets, bets, _copied_state(learner, touched), learner.z[:n], touched), begun, largest, norms


@inner
def _copied_state(learner, touched):
    """A copy (rows, n) of what the optimizer keeps of some features."""
    n_kept, n = learner.w.shape[1] - OPTIMIZER, touched.shape[0]
    state = learner.state[: n_kept * n].reshape((n_kept, n))
    for k in range(n):
        for r in range(n_kept):
            state[r, k] = learner.w[touched[k], OPTIMIZER + r]
    return state


@leaf
def count_evidence(learner, taken, counters):
    """See `features`."""
    for k in range(taken.touched.shape[0]):
        row = learner.w[taken.touched[k]]
        _replace_evidence(counters, row[OPTIMIZER], row[OPTIMIZER + 1], taken.state[0, k], taken.state[1, k])


@leaf
def _number_features(columns, table, touched, numbers):
    """Number the features of a query's entries from 0: `touched` lists them, `numbers` has one an entry. Returns n."""
    n = 0
    for e in range(columns.shape[0]):
        j = columns[e]
        if table[j, SUM] == 0.0:
            touched[n] = j
            n += 1
            table[j, SUM] = n
        numbers[e] = np.int64(table[j, SUM]) - 1
    for k in range(n):
        table[touched[k], SUM] = 0.0
    return n


@leaf
def _find_ranges(numbers, values, m, low, high, count):
    """The least and the largest value of each feature in a query of m documents, including 0 if a document lacks it.

    `count` (n,) is workspace.
    """
    count[:] = 0.0
    for e in range(numbers.shape[0]):
        k = numbers[e]
        x = np.float64(values[e])
        if count[k] == 0.0:
            low[k] = x
            high[k] = x
        count[k] += 1.0
        low[k] = x if x < low[k] else low[k]
        high[k] = x if x > high[k] else high[k]
    for k in range(count.shape[0]):
        if count[k] < m:
            low[k] = min(low[k], 0.0)
            high[k] = max(high[k], 0.0)


@leaf
def meet(learner, taken):
    """See `features`."""
    largest = taken.state[2]
    for k in range(largest.shape[0]):
        largest[k] = max(largest[k], learner.high[k] - learner.low[k])
    bet(taken.w, taken.state)


@leaf
def combine_differences(learner, taken, c):
    """See `features`."""
    documents, z, square = taken.documents, taken.z, 0.0
    z[:] = 0.0
    for i in range(c.shape[0]):
        if c[i] != 0.0:
            for e in range(documents.starts[i], documents.starts[i + 1]):
                z[documents.columns[e]] += c[i] * np.float64(documents.values[e])
    for k in range(z.shape[0]):
        if learner.low[k] == learner.high[k]:
            z[k] = 0.0
        square += z[k] * z[k]
    return square


@leaf
def keep(learner, taken, decay, counters):
    """See `features`."""
    lag = lag_of(decay, counters) if learner.averages else 0.0
    for k in range(taken.touched.shape[0]):
        row = learner.w[taken.touched[k]]
        row[LAZY] += lag * (taken.w[k] - row[WEIGHT])
        row[WEIGHT] = taken.w[k]
        for r in range(taken.state.shape[0]):
            row[OPTIMIZER + r] = taken.state[r, k]
    count_average(learner, decay, counters)


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
    size = 2
    while size < 2 * longest_query(starts):
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
def divide_by_largest(rows, offsets, largest, out, learns):
    """Write values / largest[column] to `out`; 0 if that is 0, or if the column is negative, for an unknown feature.

    If it learns, `largest` (d,) is updated with the |values| of each query before these are divided. Returns the number of
    queries
    before one with NaN or infinity.
    """
    starts, columns, values = rows.starts, rows.columns, rows.values
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
