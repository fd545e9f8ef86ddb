"""Ridge regression of the standardised grade on features centred within the query, without BLAS: the bits do not depend on threads."""

import math

import numpy as np

from online_rank._kernels._jit import fast_kernel, kernel
from online_rank._kernels.arrays import all_finite
from online_rank._kernels.encoder import standardised
from online_rank._kernels.judge import judge
from online_rank._kernels.rounds import write_round

# Rows that are added to a matrix at once: one load and store of an entry for eight products.
_ROWS = 8


@fast_kernel
def _add_products(A, sign, rows, first):
    """A[i, j] += sign sum_k rows[k, i] rows[k, j] for first <= i <= j: eight rows at once."""
    d = A.shape[0]
    a, b, c, e = rows[0], rows[1], rows[2], rows[3]
    f, g, h, o = rows[4], rows[5], rows[6], rows[7]
    for i in range(first, d):
        row = A[i]
        p, q, r, s = sign * a[i], sign * b[i], sign * c[i], sign * e[i]
        t, u, v, w = sign * f[i], sign * g[i], sign * h[i], sign * o[i]
        for j in range(i, d):
            row[j] += p * a[j] + q * b[j] + r * c[j] + s * e[j] + t * f[j] + u * g[j] + v * h[j] + w * o[j]


@kernel
def centre(X, centred):
    """Write X (m, d) minus its column means to `centred` (at least m rows, d), 0 to the rows below; the largest square sum.

    Exactly 0 in columns that are constant.
    """
    m, d = X.shape
    mean = np.zeros(d)
    for i in range(1, m):
        for j in range(d):
            mean[j] += np.float64(X[i, j]) - np.float64(X[0, j])
    for j in range(d):
        mean[j] = np.float64(X[0, j]) + mean[j] / m
    centred[m:] = 0.0
    for i in range(m):
        for j in range(d):
            centred[i, j] = np.float64(X[i, j]) - mean[j]


@kernel
def add_query(centred, m, target, weight, keep, gram, moment):
    """gram = keep gram + weight C'C / m (upper triangle), moment = keep moment + weight C't / m.

    centred : (rows, d), rows a multiple of 8 of which those from m on are 0; it is scaled by sqrt(weight / m)
    """
    d = gram.shape[0]
    factor = math.sqrt(weight / m)
    for j in range(d):
        moment[j] *= keep
    for i in range(m):
        for j in range(d):
            centred[i, j] *= factor
            moment[j] += factor * target[i] * centred[i, j]
    if keep < 1.0:
        for i in range(d):
            for j in range(i, d):
                gram[i, j] *= keep
    for first in range(0, centred.shape[0], _ROWS):
        _add_products(gram, 1.0, centred[first : first + _ROWS], 0)


@kernel
def solve(gram, moment, ridge, factor, solution):
    """Solve (gram + ridge I) solution = moment by Cholesky's decomposition U'U; `factor` (d, d) is workspace, U after it.

    Only the upper triangle of `gram` is read. Returns False where the matrix is not positive definite in floating point.
    """
    d = gram.shape[0]
    for i in range(d):
        for j in range(i, d):
            factor[i, j] = gram[i, j]
        factor[i, i] += ridge
    for first in range(0, d, _ROWS):
        end = min(first + _ROWS, d)
        for i in range(first, end):
            for k in range(first, i):
                u = factor[k, i]
                for j in range(i, d):
                    factor[i, j] -= u * factor[k, j]
            if not factor[i, i] > 0.0:
                return False
            inverse = 1.0 / math.sqrt(factor[i, i])
            for j in range(i, d):
                factor[i, j] *= inverse
        if end - first == _ROWS:
            _add_products(factor, -1.0, factor[first:end], end)
    for i in range(d):
        solution[i] = moment[i]
    for i in range(d):
        solution[i] /= factor[i, i]
        for j in range(i + 1, d):
            solution[j] -= factor[i, j] * solution[i]
    for i in range(d - 1, -1, -1):
        total = solution[i]
        for j in range(i + 1, d):
            total -= factor[i, j] * solution[j]
        solution[i] = total / factor[i, i]
    return True


@fast_kernel
def score_all(X, W, S):
    """S[k, i] = W[k] . X[i]: scores (K, m) by K weight vectors (K, d)."""
    for i in range(X.shape[0]):
        for k in range(W.shape[0]):
            total = 0.0
            for j in range(X.shape[1]):
                total += X[i, j] * W[k, j]
            S[k, i] = total


@kernel
def learn_query(X, y, weight, keep, kind, cutoff, threshold, discounts, weights, best, gram, moment, losses, row):
    """Learn from one query: judge the rankings by all weight vectors, then add the query to the normal equations.

    Parameters
    ----------
    X, y : features (m, d), grades (m,)
    weight, keep : sample weight, and the factor by which the past fades
    kind, cutoff, threshold, discounts : the measure that weight vectors are judged by, and its table
    weights, best : (K, d), and which of them serves rankings
    gram, moment, losses : (d, d), (d,), (K,), changed in place
    row : a `Round`, written last

    Returns
    -------
    1 when the query was learned, 0 when there was nothing to learn, -1 when it is bad: then nothing was changed.
    """
    m, d = X.shape
    S = np.empty((weights.shape[0], m))
    judged = np.empty(weights.shape[0])
    score_all(X, weights, S)
    largest = 0.0
    for i in range(m):
        square = 0.0
        for j in range(d):
            square += np.float64(X[i, j]) * np.float64(X[i, j])
        if not math.isfinite(square):
            return -1
        largest = max(largest, square)
    if not (all_finite(S.reshape(-1)) and weight >= 0.0 and math.isfinite(weight)):
        return -1
    levels = judge(kind, cutoff, threshold, S, y, discounts, judged)
    if levels < 0:
        return -1
    target = np.empty(m)
    learns = levels > 1 and weight > 0.0 and standardised(y, target)
    if learns:
        centred = np.empty(((m + _ROWS - 1) // _ROWS * _ROWS, d))
        centre(X, centred)
        # A bound on every entry of the new matrix: no product can overflow, nor can the sums.
        bound = weight * 4.0 * largest * (m + math.sqrt(m))
        for j in range(d):
            bound = max(bound, bound + gram[j, j])
        if not math.isfinite(bound * m):
            return -1
        add_query(centred, m, target, weight, keep, gram, moment)
        for k in range(judged.shape[0]):
            losses[k] = keep * losses[k] + weight * judged[k]
    write_round(row, judged[best], np.nan, 0.0, 0.0, 0.0, weight, m, largest, 0.0, levels < 2)
    return np.int64(learns)
