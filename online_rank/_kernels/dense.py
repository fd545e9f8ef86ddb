"""The three verbs that touch dense features: score documents, combine rows, add to weights.

All other code for linear scores works only on scores and grades. `sparse` has the same verbs for sparse rows.
"""

import math

import numpy as np

from online_rank._kernels._jit import kernel, leaf
from online_rank._kernels.fits import require
from online_rank._kernels.primitives import (
    four_row_dots,
    four_row_squares,
    four_rows_by_two,
    row_dot,
    row_dot_and_square,
    sum_of_squares,
    two_row_dots_and_squares,
)


@kernel
def score(X, w, s):
    """Scores s = X w of documents (n, d) by weights (d,), accumulated in float64."""
    require(X.shape[1] == w.shape[0] and X.shape[0] <= s.shape[0])
    n = X.shape[0]
    for i in range(0, n - 3, 4):
        s[i], s[i + 1], s[i + 2], s[i + 3] = four_row_dots(X, i, w)
    for i in range(n - n % 4, n):
        s[i] = row_dot(X, i, w)


@kernel
def score_with_norms(X, w, s):
    """Scores s = X w of documents (m, d). Returns the largest and the sum of the documents' squared norms."""
    require(X.shape[1] == w.shape[0] and X.shape[0] <= s.shape[0])
    m = X.shape[0]
    largest = 0.0
    norms = 0.0
    # Of float32 two rows at a time, because each addition waits for the one before it; of float64 row by row, in the order of
    # memory, for which it waits longer.
    paired = m - m % 2 if X.itemsize < 8 else 0
    for i in range(0, paired, 2):
        s[i], s[i + 1], norm, other = two_row_dots_and_squares(X, i, w)
        norms += norm
        largest = max(largest, norm)
        norms += other
        largest = max(largest, other)
    for i in range(paired, m):
        s[i], norm = row_dot_and_square(X, i, w)
        norms += norm
        largest = max(largest, norm)
    return largest, norms


@kernel
def largest_square(X):
    """The largest squared norm of documents X (m, d); 0 without documents."""
    m = X.shape[0]
    largest = 0.0
    for i in range(0, m - 3, 4):
        a, b, c, d = four_row_squares(X, i)
        largest = max(largest, a, b, c, d)
    for i in range(m - m % 4, m):
        largest = max(largest, sum_of_squares(X[i]))
    return largest


@leaf
def score_rows_by_all(X, first, stop, vectors, scores):
    """scores[c, i] = X_i . vectors[c], for the rows from `first` to `stop` of X (m, d) and all c."""
    n = vectors.shape[0]
    last = stop - (stop - first) % 4
    for i in range(first, last, 4):
        for c in range(0, n - 1, 2):
            sums = four_rows_by_two(X, i, vectors[c], vectors[c + 1])
            scores[c, i], scores[c, i + 1], scores[c, i + 2], scores[c, i + 3] = sums[:4]
            scores[c + 1, i], scores[c + 1, i + 1], scores[c + 1, i + 2], scores[c + 1, i + 3] = sums[4:]
        if n % 2 == 1:
            four = four_row_dots(X, i, vectors[n - 1])
            scores[n - 1, i], scores[n - 1, i + 1], scores[n - 1, i + 2], scores[n - 1, i + 3] = four
    for i in range(last, stop):
        for c in range(n):
            scores[c, i] = row_dot(X, i, vectors[c])


@leaf
def combine_rows(X, c, rows, z):
    """z = sum of c_i x_i over documents (m, d); rows without credit are not touched. Returns ||z||^2.

    `rows` (m,) is workspace.
    """
    d = X.shape[1]
    n = 0
    for i in range(c.shape[0]):
        rows[n] = i
        n += c[i] != 0.0
    z[:] = 0.0
    # Four rows at a time, so that z is read and written a quarter as often.
    for r in range(0, n - 3, 4):
        i0, i1, i2, i3 = rows[r], rows[r + 1], rows[r + 2], rows[r + 3]
        c0, c1, c2, c3 = c[i0], c[i1], c[i2], c[i3]
        for j in range(d):
            z[j] += c0 * X[i0, j] + c1 * X[i1, j] + (c2 * X[i2, j] + c3 * X[i3, j])
    for r in range(n - n % 4, n):
        for j in range(d):
            z[j] += c[rows[r]] * X[rows[r], j]
    return sum_of_squares(z)


@leaf
def combine_differences(X, c, z):
    """z = sum of c_i x_i for c that sum to 0, as sum of c_i (x_i - x_0): exactly 0 for features that are constant in the query.

    A scale-free optimizer would bet on the rounding errors of such a feature. Returns ||z||^2.
    """
    z[:] = 0.0
    n = c.shape[0]
    # Four rows at a time, so that z is read and written a quarter as often.
    for i in range(1, n - 3, 4):
        c0, c1, c2, c3 = c[i], c[i + 1], c[i + 2], c[i + 3]
        for j in range(X.shape[1]):
            x = np.float64(X[0, j])
            z[j] += c0 * (X[i, j] - x) + c1 * (X[i + 1, j] - x) + (c2 * (X[i + 2, j] - x) + c3 * (X[i + 3, j] - x))
    for i in range(max(1, n - (n - 1) % 4), n):
        for j in range(X.shape[1]):
            z[j] += c[i] * (np.float64(X[i, j]) - np.float64(X[0, j]))
    return sum_of_squares(z)


@leaf
def add_scaled(w, a, z, out):
    """out = w + a z. Returns ||out||^2."""
    for j in range(w.shape[0]):
        out[j] = w[j] + a * z[j]
    return sum_of_squares(out)


@leaf
def shorten(w, longest):
    """Scale w down to the norm `longest` if it is longer."""
    norm = math.sqrt(sum_of_squares(w))
    if norm > longest:
        for j in range(w.shape[0]):
            w[j] *= longest / norm
