"""Ridge regression of the standardised grade on features centred within the query.

Matrix products and Cholesky decompositions use the same sums, eight terms and two rows of the result at a time, in one thread,
so results do not depend on the number of threads.
"""

import math

import numpy as np

from online_rank._kernels._jit import inner, kernel, leaf
from online_rank._kernels.arrays import all_finite, copy_to
from online_rank._kernels.dense import score_with_norms
from online_rank._kernels.encoder import standardised
from online_rank._kernels.fits import require
from online_rank._kernels.graded import judge_rankings
from online_rank._kernels.primitives import dot
from online_rank._kernels.rounds import write_round

# Number of rows multiplied at once, of rows computed at once, and of float64 in a cache line.
_EIGHT = 8


@leaf
def padded(n, multiple):
    """The smallest multiple that is at least n."""
    return (n + multiple - 1) // multiple * multiple


@leaf
def _row_start(r, d):
    """The index of entry (r, c) of an upper triangle, minus c."""
    return r * d - (r * (r + 1)) // 2


@inner
def centre(X, factor, out):
    """out = factor (X - the means of its columns), both (m, d); exactly 0 for constant columns."""
    m, d = X.shape
    means = np.zeros(d)
    for i in range(m):
        for j in range(d):
            out[i, j] = np.float64(X[i, j]) - np.float64(X[0, j])
            means[j] += out[i, j]
    for j in range(d):
        means[j] /= m
    for i in range(m):
        for j in range(d):
            out[i, j] = factor * (out[i, j] - means[j])


@leaf
def _fade_and_add(keep, old, factor, new, out):
    """out = keep old + factor new."""
    for c in range(out.shape[0]):
        out[c] = keep * old[c] + factor * new[c]


@inner
def aligned(n, width):
    """An array (n, width) aligned to cache lines, as are its rows if `width` is a multiple of 8."""
    room = np.empty(n * width + _EIGHT)
    first = (-(room.ctypes.data // 8)) % _EIGHT
    return room[first : first + n * width].reshape((n, width))


@leaf
def _add_eight(x0, x1, x2, x3, x4, x5, x6, x7, a, b, out_a, out_b):
    """out_a += sum of x_k[a] x_k, out_b += sum of x_k[b] x_k."""
    p0, p1, p2, p3, p4, p5, p6, p7 = x0[a], x1[a], x2[a], x3[a], x4[a], x5[a], x6[a], x7[a]
    q0, q1, q2, q3, q4, q5, q6, q7 = x0[b], x1[b], x2[b], x3[b], x4[b], x5[b], x6[b], x7[b]
    for c in range(out_a.shape[0]):
        out_a[c] += p0 * x0[c] + p1 * x1[c] + p2 * x2[c] + p3 * x3[c] + p4 * x4[c] + p5 * x5[c] + p6 * x6[c] + p7 * x7[c]
        out_b[c] += q0 * x0[c] + q1 * x1[c] + q2 * x2[c] + q3 * x3[c] + q4 * x4[c] + q5 * x5[c] + q6 * x6[c] + q7 * x7[c]


@leaf
def _products(rows, n, i, out):
    """out[r, c] = sum of rows[k, i + r] rows[k, i + c] over k < n, a multiple of 8, for r < 8 and c from 0 on.

    out : (8, at least the columns of `rows`)
    """
    width = rows.shape[1] - i
    for r in range(_EIGHT):
        for c in range(width):
            out[r, c] = 0.0
    for k in range(0, n, _EIGHT):
        x0, x1, x2, x3 = rows[k][i:], rows[k + 1][i:], rows[k + 2][i:], rows[k + 3][i:]
        x4, x5, x6, x7 = rows[k + 4][i:], rows[k + 5][i:], rows[k + 6][i:], rows[k + 7][i:]
        for r in range(0, _EIGHT, 2):
            _add_eight(x0, x1, x2, x3, x4, x5, x6, x7, r, r + 1, out[r][:width], out[r + 1][:width])


@kernel
def add_rows(rows, keep, gram, new_gram):
    """new_gram = keep gram + rows' rows, for rows (m, d) and the upper triangles of (d, d) matrices, row by row."""
    require(gram.shape[0] == new_gram.shape[0] == rows.shape[1] * (rows.shape[1] + 1) // 2)
    m, d = rows.shape
    n, width = padded(m, _EIGHT), padded(d, _EIGHT)
    own, sums = aligned(n, width), aligned(_EIGHT, width)
    for k in range(m):
        copy_to(own[k][:d], rows[k])
        own[k, d:] = 0.0
    own[m:] = 0.0
    add_products(own, d, keep, sums, gram, new_gram)


@leaf
def add_products(rows, d, keep, sums, gram, new_gram):
    """The same for an aligned number of rows, aligned and padded with zeros, as `sums` is, workspace for eight of them."""
    n = rows.shape[0]
    for i in range(0, d, _EIGHT):
        _products(rows, n, i, sums)
        for r in range(i, min(i + _EIGHT, d)):
            row = _row_start(r, d)
            _fade_and_add(keep, gram[row + r : row + d], 1.0, sums[r - i][r - i :], new_gram[row + r : row + d])


@leaf
def _subtract_scaled(a, x, out):
    """out -= a x."""
    for c in range(out.shape[0]):
        out[c] -= a * x[c]


@leaf
def _decompose(gram, ridge, sums, factor):
    """Cholesky's decomposition gram + ridge I = U' U, eight rows of U at a time; False if a pivot is not positive.

    gram : the upper triangle of (d, d), row by row; sums : (8, w) workspace; factor : (w, w) out, w = d padded to a multiple of
    8: U in its upper triangle, continued by the identity
    """
    width = factor.shape[0]
    d = np.int64((math.sqrt(8.0 * gram.shape[0] + 1.0) - 1.0) / 2.0 + 0.5)
    for i in range(0, width, _EIGHT):
        _products(factor, i, i, sums)
        for r in range(i, i + _EIGHT):
            row, less = factor[r], sums[r - i][r - i :]
            row[r:] = 0.0
            row[r] = 1.0
            if r >= d:
                continue
            copy_to(row[r:d], gram[_row_start(r, d) + r : _row_start(r, d) + d])
            row[r] += ridge
            _subtract_scaled(1.0, less[: d - r], row[r:d])
            for k in range(i, r):
                _subtract_scaled(factor[k, r], factor[k][r:d], row[r:d])
            if not row[r] > 0.0:
                return False
            scale = 1.0 / math.sqrt(row[r])
            for c in range(r, d):
                row[c] *= scale
    return True


@kernel
def solve(gram, moment, ridges, solutions):
    """Solve (gram + ridges[k] I) solutions[k] = moment for all k, by Cholesky's decomposition.

    gram : the upper triangle of (d, d), row by row; solutions : (K, d); rows are unchanged if the matrix is not positive
    definite in floating point, or the solution is not finite
    """
    require(gram.shape[0] == moment.shape[0] * (moment.shape[0] + 1) // 2)
    require(solutions.shape[0] >= ridges.shape[0] and solutions.shape[1] == moment.shape[0])
    d = moment.shape[0]
    width = padded(d, _EIGHT)
    factor, sums, x = aligned(width, width), aligned(_EIGHT, width), np.empty(d)
    for k in range(ridges.shape[0]):
        if not _decompose(gram, ridges[k], sums, factor):
            continue
        copy_to(x, moment)
        for i in range(d):
            x[i] /= factor[i, i]
            _subtract_scaled(x[i], factor[i][i + 1 : d], x[i + 1 :])
        for i in range(d - 1, -1, -1):
            x[i] = (x[i] - dot(factor[i][i + 1 : d], x[i + 1 :])) / factor[i, i]
        if all_finite(x):
            copy_to(solutions[k], x)


@leaf
def _may_overflow(gram, d, weight, largest, m):
    """Whether sums of a query with m documents, of squared norms up to `largest`, could overflow."""
    # Entries are at most the largest square, so no product can overflow, nor can the sums of some queries.
    diagonal = 0.0
    for j in range(d):
        diagonal = max(diagonal, gram[_row_start(j, d) + j])
    return not math.isfinite(diagonal + 4096.0 * max(weight, 1.0) * max(largest, 1.0) * m)


@kernel
def judge_query(X, y, weight, kind, cutoff, threshold, discounts, weights, best, gram, losses, row):
    """Measure the rankings of a query by all weight vectors.

    Parameters
    ----------
    X, y, weight : features (m, d), grades (m,), and the sample weight
    kind, cutoff, threshold, discounts : the measure of the rankings, and its table
    weights, best : (K, d), and which of them serves rankings
    gram : (d (d + 1) / 2,) of the normal equations
    losses : (K,) out
    row : a `Round` of the ranking served, written last

    Returns
    -------
    1 if there is something to learn, 0 if not, -1 if the query is bad or would make the equations overflow.
    """
    d = weights.shape[1]
    require(X.shape[0] == y.shape[0] and X.shape[1] == d and discounts.shape[0] >= y.shape[0] and row.shape[0] == 10)
    require(losses.shape[0] == weights.shape[0] and 0 <= best < weights.shape[0] and gram.shape[0] == d * (d + 1) // 2)
    S = np.empty((weights.shape[0], X.shape[0]))
    largest, norms = 0.0, 0.0
    for k in range(weights.shape[0]):
        largest, norms = score_with_norms(X, weights[k], S[k])
    if not math.isfinite(norms):
        return -1
    if not (all_finite(S.reshape(-1)) and weight >= 0.0 and math.isfinite(weight)):
        return -1
    levels = judge_rankings(kind, cutoff, threshold, S, y, discounts, losses)
    learns = levels > 1 and weight > 0.0
    if levels < 0 or (learns and _may_overflow(gram, d, weight, largest, X.shape[0])):
        return -1
    write_round(row, losses[best], 0.0, 0.0, 0.0, weight, X.shape[0], largest, 0.0, levels < 2)
    return np.int64(learns)


@kernel
def add_query(X, y, weight, keep, moment, rows, new_moment):
    """Prepare what a query, in which grades differ, adds to the normal equations.

    Parameters
    ----------
    X, y : features (m, d), grades (m,)
    weight, keep : sample weight, and the factor by which the past fades
    moment, new_moment : (d,) right side of the equations before and after the query; the latter is out
    rows : (m, d) out: the matrix grows by rows' rows
    """
    require(X.shape[0] == y.shape[0] == rows.shape[0] and X.shape[1] == moment.shape[0] == new_moment.shape[0] == rows.shape[1])
    m, d = X.shape
    target = np.empty(m)
    standardised(y, target)
    factor = math.sqrt(weight / m)
    centre(X, factor, rows)
    new_moment[:] = 0.0
    for i in range(m):
        for j in range(d):
            new_moment[j] += rows[i, j] * target[i]
    _fade_and_add(keep, moment, factor, new_moment, new_moment)
