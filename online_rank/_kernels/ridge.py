"""Ridge regression of the standardised grade on features centred within the query.

Products of matrices are BLAS's, in tiles so small that one thread makes each: bits depend on the processor, but not on the
number of its threads.
"""

import math

import numpy as np

from online_rank._kernels._jit import fast_kernel, fast_leaf, kernel, leaf
from online_rank._kernels.arrays import all_finite, copy_to
from online_rank._kernels.encoder import standardised
from online_rank._kernels.judge import judge_rankings
from online_rank._kernels.rounds import write_round

# Cholesky's decomposition is computed in blocks of 4 x 4 entries, which stay in registers.
_BLOCK = 4
# Most columns of a tile, and most documents at once.
_TILE, _DOCUMENTS = 56, 64


@fast_kernel
def _products(P, i, Q, j, n, out):
    """out[r, c] = sum over k < n of P[i + r, k] Q[j + c, k], for r, c < 4."""
    p, q, r, s = P[i], P[i + 1], P[i + 2], P[i + 3]
    a, b, c, e = Q[j], Q[j + 1], Q[j + 2], Q[j + 3]
    pa = pb = pc = pe = qa = qb = qc = qe = ra = rb = rc = re = sa = sb = sc = se = 0.0
    for k in range(n):
        t, u, v, w = p[k], q[k], r[k], s[k]
        f, g, h, o = a[k], b[k], c[k], e[k]
        pa, pb, pc, pe = pa + t * f, pb + t * g, pc + t * h, pe + t * o
        qa, qb, qc, qe = qa + u * f, qb + u * g, qc + u * h, qe + u * o
        ra, rb, rc, re = ra + v * f, rb + v * g, rc + v * h, re + v * o
        sa, sb, sc, se = sa + w * f, sb + w * g, sc + w * h, se + w * o
    out[0, 0], out[0, 1], out[0, 2], out[0, 3] = pa, pb, pc, pe
    out[1, 0], out[1, 1], out[1, 2], out[1, 3] = qa, qb, qc, qe
    out[2, 0], out[2, 1], out[2, 2], out[2, 3] = ra, rb, rc, re
    out[3, 0], out[3, 1], out[3, 2], out[3, 3] = sa, sb, sc, se


@kernel
def padded(n, multiple):
    """The smallest multiple that is at least n."""
    return (n + multiple - 1) // multiple * multiple


@kernel
def _row_start(r, d):
    """Where entry (r, c) of an upper triangle stands, less c."""
    return r * d - (r * (r + 1)) // 2


@kernel
def centre(X, factor, out):
    """out = factor (X - the means of its columns), both (m, d); exactly 0 for columns that are constant."""
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


@kernel
def add_rows(rows, keep, gram, new_gram):
    """new_gram = keep gram + rows' rows, for rows (m, d) and the upper triangles of (d, d) matrices, row by row."""
    m, d = rows.shape
    n = max(1, (d + _TILE - 1) // _TILE)
    width = (d + n - 1) // n
    panels = np.zeros((n, m, width))
    for p in range(n):
        for i in range(m):
            copy_to(panels[p, i, : min(width, d - p * width)], rows[i, p * width : min((p + 1) * width, d)])
    tile, part = np.empty((width, width)), np.empty((width, width))
    for p in range(n):
        top, bottom = p * width, min((p + 1) * width, d)
        for q in range(p, n):
            np.dot(panels[p, :_DOCUMENTS].T, panels[q, :_DOCUMENTS], tile)
            for i in range(_DOCUMENTS, m, _DOCUMENTS):
                np.dot(panels[p, i : i + _DOCUMENTS].T, panels[q, i : i + _DOCUMENTS], part)
                tile += part
            right = min((q + 1) * width, d)
            for r in range(top, bottom):
                left, row = max(r, q * width), _row_start(r, d)
                old, new = gram[row + left : row + right], new_gram[row + left : row + right]
                _fade_and_add(keep, old, 1.0, tile[r - top, left - q * width :], new)


@kernel
def solve(gram, moment, ridge, factor, solution):
    """Solve (gram + ridge I) solution = moment by Cholesky's decomposition L L'.

    gram : the upper triangle, row by row; factor : workspace, d padded to a multiple of 4 in both directions
    Returns False where the matrix is not positive definite in floating point.
    """
    d = moment.shape[0]
    block = np.empty((_BLOCK, _BLOCK))
    for i in range(0, d, _BLOCK):
        for j in range(0, i + 1, _BLOCK):
            _products(factor, i, factor, j, j, block)
            for r in range(i, i + _BLOCK):
                for c in range(j, min(j + _BLOCK, r + 1)):
                    if r < d:
                        value = gram[_row_start(c, d) + r] + (ridge if r == c else 0.0) - block[r - i, c - j]
                    else:
                        value = 1.0 if r == c else 0.0
                    for k in range(j, c):
                        value -= factor[r, k] * factor[c, k]
                    if r == c:
                        if not value > 0.0:
                            return False
                        factor[r, r] = math.sqrt(value)
                    else:
                        factor[r, c] = value / factor[c, c]
    for i in range(d):
        value = moment[i]
        for k in range(i):
            value -= factor[i, k] * solution[k]
        solution[i] = value / factor[i, i]
    for i in range(d - 1, -1, -1):
        solution[i] /= factor[i, i]
        for k in range(i):
            solution[k] -= factor[i, k] * solution[i]
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


@fast_leaf
def _square(x):
    total = 0.0
    for j in range(x.shape[0]):
        total += np.float64(x[j]) * np.float64(x[j])
    return total


@kernel
def learn_query(
    X, y, weight, keep, kind, cutoff, threshold, discounts, weights, best, gram, moment, losses,
    rows, new_moment, new_losses, row,
):  # fmt: skip
    """Learn from one query: judge the rankings by all weight vectors, then make ready what it adds to the normal equations.

    Parameters
    ----------
    X, y : features (m, d), grades (m,)
    weight, keep : sample weight, and the factor by which the past fades
    kind, cutoff, threshold, discounts : the measure that weight vectors are judged by, and its table
    weights, best : (K, d), and which of them serves rankings
    gram, moment, losses : (d (d + 1) / 2,), (d,), (K,): normal equations, and losses so far
    rows : (m, d) out: the matrix grows by rows' rows
    new_moment, new_losses : `moment` and `losses` after the query, written when it is learned
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
        square = _square(X[i])
        if not math.isfinite(square):
            return -1
        largest = max(largest, square)
    if not (all_finite(S.reshape(-1)) and weight >= 0.0 and math.isfinite(weight)):
        return -1
    levels = judge_rankings(kind, cutoff, threshold, S, y, discounts, judged)
    if levels < 0:
        return -1
    target = np.empty(m)
    learns = levels > 1 and weight > 0.0 and standardised(y, target)
    if learns:
        # Entries are at most the largest square, so no product can overflow, nor can the sums of some queries.
        diagonal = 0.0
        for j in range(d):
            diagonal = max(diagonal, gram[_row_start(j, d) + j])
        if not math.isfinite(diagonal + 4096.0 * max(weight, 1.0) * max(largest, 1.0) * m):
            return -1
        factor = math.sqrt(weight / m)
        centre(X, factor, rows)
        new_moment[:] = 0.0
        for i in range(m):
            for j in range(d):
                new_moment[j] += rows[i, j] * target[i]
        _fade_and_add(keep, moment, factor, new_moment, new_moment)
        for k in range(judged.shape[0]):
            new_losses[k] = keep * losses[k] + weight * judged[k]
    write_round(row, judged[best], 0.0, 0.0, 0.0, weight, m, largest, 0.0, levels < 2)
    return np.int64(learns)
