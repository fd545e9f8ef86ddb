"""The three verbs that touch features, for rows of which few features are filled; twins of `dense`.

A feature's numbers stand side by side in one row of the state (d, 4), so that it costs one line of cache: its weight w, the u
of its lazy average (`averages`), and two sums that are 0 but while a query is learned. A query costs O(its entries), whatever
d is.
"""

from typing import NamedTuple

import numpy as np

from online_rank._kernels._jit import fast_kernel, kernel, leaf

# Columns of the state.
WEIGHT, LAZY, SUM, OTHER_SUM = range(4)


class Rows(NamedTuple):
    """Rows of features, as `online_rank.query.SparseRows` has them; the first is `starts[0]`."""

    starts: np.ndarray
    columns: np.ndarray
    values: np.ndarray


@kernel
def score(starts, columns, values, state, scale, shift, s):
    """Scores by the served weights scale (w - shift u), accumulated in float64."""
    for i in range(starts.shape[0] - 1):
        total = 0.0
        for e in range(starts[i], starts[i + 1]):
            j = columns[e]
            total += values[e] * (state[j, WEIGHT] - shift * state[j, LAZY])
        s[i] = scale * total


@fast_kernel
def score_by(starts, columns, values, w, s):
    """Scores by weights w (d,), accumulated in float64."""
    for i in range(starts.shape[0] - 1):
        total = 0.0
        for e in range(starts[i], starts[i + 1]):
            total += values[e] * w[columns[e]]
        s[i] = total


@fast_kernel
def score_with_norms(starts, columns, values, state, s):
    """Scores by the weights w. Returns the largest and the sum of the documents' squared norms."""
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
def combine_rows(rows, c, state, touched):
    """Add c_i x_i over documents to the SUM of each feature; lists the features to `touched`. Returns their number.

    A feature may be listed twice, where its sum was 0 in between.
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
def take_sums(state, touched, z):
    """Move the SUM of the touched features to `z`, leaving 0. Returns ||z||^2, and ||w||^2 over these features."""
    norm = 0.0
    weights = 0.0
    for k in range(touched.shape[0]):
        j = touched[k]
        z[k] = state[j, SUM]
        state[j, SUM] = 0.0
        norm += z[k] * z[k]
        weights += state[j, WEIGHT] * state[j, WEIGHT]
    return norm, weights


@leaf
def take_both_sums(state, touched, z, other):
    """Move SUM to `z` and OTHER_SUM to `other`, leaving 0. Returns their squared norms, and ||w||^2 over these features."""
    norm, other_norm, weights = 0.0, 0.0, 0.0
    for k in range(touched.shape[0]):
        j = touched[k]
        z[k], other[k] = state[j, SUM], state[j, OTHER_SUM]
        state[j, SUM] = 0.0
        state[j, OTHER_SUM] = 0.0
        norm += z[k] * z[k]
        other_norm += other[k] * other[k]
        weights += state[j, WEIGHT] * state[j, WEIGHT]
    return norm, other_norm, weights


@leaf
def add_scaled(state, step, touched, z, lag):
    """w += step z, and u += lag step z (`averages.lag_of`), for the touched features."""
    for k in range(touched.shape[0]):
        j = touched[k]
        d = step * z[k]
        state[j, WEIGHT] += d
        state[j, LAZY] += lag * d


@kernel
def moments(starts, columns, values, largest):
    """Write the largest |value| of each column, so far in `largest` (d,)."""
    for e in range(starts[0], starts[starts.shape[0] - 1]):
        largest[columns[e]] = max(largest[columns[e]], abs(values[e]))
