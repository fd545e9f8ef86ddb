"""Primitives that numba lacks: sums in the same order on every machine, four additions at once, the bits of a float, leaves of
trees for many documents at once, calls of functions by their address.

A sum of n terms has four lanes: lane l adds the terms l, l + 4, l + 8, ..., one after the other; the remainder goes to the
first lanes, and the sum is (lane 0 + lane 1) + (lane 2 + lane 3). Nothing is regrouped and no multiplication that rounds is
fused with an addition, so SSE2, AVX2, AVX-512, aarch64 and numpy give the same bits, while four lanes fill a vector register.

This file has the numpy versions, which run under NUMBA_DISABLE_JIT=1; `_intrinsics` has the compiled ones.
"""

from typing import Any

import numpy as np

LANES = 4
#: Nodes of a complete tree of depth 4, and documents whose leaves are found at once.
N_NODES, TOGETHER = 15, 32


def _lane_sums(terms):
    """The sums of the rows of `terms` (k, n), in the order of the lanes."""
    k, n = terms.shape
    whole = n - n % LANES
    lanes = np.zeros((k, LANES))
    for first in range(0, whole, LANES):
        lanes += terms[:, first : first + LANES]
    lanes[:, : n - whole] += terms[:, whole:]
    return (lanes[:, 0] + lanes[:, 1]) + (lanes[:, 2] + lanes[:, 3])


def _sums(*terms):
    return tuple(float(total) for total in _lane_sums(np.array(terms, dtype=np.float64)))


def _wide(x):
    return np.asarray(x, dtype=np.float64)


def lane_sum(x):
    """The sum of x (n,), accumulated in float64 like all sums here."""
    return _sums(_wide(x))[0]


def dot(a, b):
    """a . b for vectors of one length."""
    return _sums(_wide(a) * _wide(b))[0]


def sum_of_squares(x):
    """||x||^2."""
    return _sums(_wide(x) * _wide(x))[0]


def squared_distance(a, b):
    """||a - b||^2 for vectors of one length."""
    difference = _wide(a) - _wide(b)
    return _sums(difference * difference)[0]


def row_dot(X, i, w):
    """X_i . w, for row i of X (n, d)."""
    return dot(X[i], w)


def four_row_dots(X, i, w):
    """X_i . w and the same of the next three rows: w is read once."""
    return _sums(*(_wide(X[k]) * _wide(w) for k in range(i, i + 4)))


def eight_row_dots(X, i, w):
    """X_i . w and the same of the next seven rows. If X is float32, w has float32 numbers."""
    return _sums(*(_wide(X[k]) * _wide(w) for k in range(i, i + 8)))


def four_row_squares(X, i):
    """||X_i||^2 and the same of the next three rows."""
    return _sums(*(_wide(X[k]) * _wide(X[k]) for k in range(i, i + 4)))


def row_dot_and_square(X, i, w):
    """X_i . w, and ||X_i||^2."""
    x = _wide(X[i])
    return _sums(x * _wide(w), x * x)


def four_row_dots_and_squares(X, i, w):
    """X_i . w and the same of the next three rows, then their squares."""
    rows = [_wide(X[k]) for k in range(i, i + 4)]
    return _sums(*(x * _wide(w) for x in rows), *(x * x for x in rows))


def three_row_double_dots_and_squares(X, i, w, v):
    """X_i . w and the same of the next two rows, then the same by v, then their squares.

    If X is float32, v has float32 numbers.
    """
    rows = [_wide(X[k]) for k in range(i, i + 3)]
    return _sums(*(x * _wide(w) for x in rows), *(x * _wide(v) for x in rows), *(x * x for x in rows))


def fetch(X, i, n):
    """Have the first n numbers of row i of X (m, d) fetched from memory, which is read soon."""


def add_scaled_four(target, i, x, source, k):
    """target[i : i + 4] += x source[k : k + 4], for contiguous float64 vectors, in two instructions if there are such."""
    for n in range(LANES):
        target[i + n] += x * source[k + n]


def add_line_four(target, i, x, source, k):
    """target[i : i + 4] += source[k : k + 4] + x source[k + 4 : k + 8], for contiguous float64 vectors."""
    for n in range(LANES):
        target[i + n] += source[k + n] + x * source[k + LANES + n]


def sum_fours(target, i, step, source, k, jump, n):
    """Running sums of n fours of `source`, at k, k + jump, ..., to fours of `target`, at i, i + step, ...; float64 vectors."""
    total = np.zeros(LANES)
    for r in range(n):
        total += source[k + r * jump : k + r * jump + LANES]
        target[i + r * step : i + r * step + LANES] = total


def count_eight(values, i, counts):
    """counts[i] = how many of each of the eight columns of `values` (n, 8) are smaller than its number in row i, and how many
    are not larger, added up; 0 for NaN, which is neither. Contiguous float64 and int64.
    """
    counts[i] = (values < values[i]).sum(axis=0) + (values <= values[i]).sum(axis=0)


def find_leaves(bins, first, splits, out):
    """out (n,) = the leaves of n documents, from `first` on, of bins (d, N), by a complete tree of depth 4, for 32 at once.

    Node k has the children 2 k + 1 and 2 k + 2. A document goes right if its bin is above the threshold. splits (30,) : the
    features of the 15 nodes, then their thresholds. Contiguous; bins, thresholds and leaves are bytes.
    """
    own, nodes = bins[:, first : first + len(out)], np.zeros(len(out), dtype=np.int64)
    for _ in range(4):
        nodes = 2 * nodes + 1 + (own[splits[nodes], np.arange(len(out))] > splits[nodes + N_NODES])
    out[:] = nodes - N_NODES


def power_of_two(shifted):
    """2^n, read off the bits of n + 1.5 * 2^52 (of n + 1.5 * 2^23 in float32), n a whole number of a normal 2^n."""
    number: Any = np.asarray(shifted)
    integer: Any
    integer, mantissa, bias = (np.int64, 52, 1023) if number.dtype == np.float64 else (np.int32, 23, 127)
    return ((number.view(integer) + integer(bias)) << integer(mantissa)).view(number.dtype)[()]


def split_float(x):
    """m and n with x = m 2^n and m in [sqrt(1/2), sqrt(2)), of a positive normal float64; n as a float64."""
    bits = int(np.float64(x).view(np.int64)) + (0x3FF0000000000000 - 0x3FE6A09E667F3BCD)
    mantissa = np.int64((bits & 0x000FFFFFFFFFFFFF) + 0x3FE6A09E667F3BCD).view(np.float64)
    return float(mantissa), float((bits >> 52) - 1023)


def bit_pattern(x):
    """The bits of a float64 as an int64. Of positive numbers they ascend with the number, about as its logarithm does."""
    return np.float64(x).view(np.int64)


def own_gradient(address, s, y, gradient):
    """Call a loss of the user's own, a C function `int64 f(double *s, int64 *y, int64 m, double *gradient)`.

    It writes the gradient (m,) at scores s (m,) and grades y (m,), and returns 1, or 0 if it fails. All three are contiguous.
    """
    import ctypes

    pointers = [ctypes.c_void_p(a.ctypes.data) for a in (s, y, gradient)]
    function = ctypes.CFUNCTYPE(ctypes.c_int64, ctypes.c_void_p, ctypes.c_void_p, ctypes.c_int64, ctypes.c_void_p)(int(address))
    return function(pointers[0], pointers[1], len(s), pointers[2])
