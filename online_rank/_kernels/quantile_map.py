"""Features mapped by the quantiles of a uniform sample of documents: which documents to keep, knots, and the map."""

import math

import numpy as np

from online_rank._kernels._jit import kernel, leaf
from online_rank._kernels.quantiles import normal_quantile

# Added to the standard deviation within a query, so that a feature that hardly varies there stays small.
_SOFT = 0.1
# Features that are mapped side by side, and knots among which counting is faster than halving.
_SIDE_BY_SIDE, _FEW = 8, 64


@kernel
def _mixed(z):
    """The finaliser of SplitMix64 (Steele, Lea & Flood 2014): a hash of 64 bits."""
    z = (z ^ (z >> np.uint64(30))) * np.uint64(0xBF58476D1CE4E5B9)
    z = (z ^ (z >> np.uint64(27))) * np.uint64(0x94D049BB133111EB)
    return z ^ (z >> np.uint64(31))


@kernel
def reservoir_slots(seed, count, size, slots):
    """Where in a uniform sample of `size` the documents number `count`, `count + 1`, ... go: slots (m,), -1 for nowhere.

    Algorithm R (Vitter 1985): document number n gets a uniform place of n + 1. A draw depends on `seed` and on n alone.
    """
    for i in range(slots.shape[0]):
        n = count + i
        if n < size:
            slots[i] = n
            continue
        bits = _mixed(_mixed(np.uint64(seed)) + np.uint64(n) * np.uint64(0x9E3779B97F4A7C15))
        place = np.int64(np.float64(bits >> np.uint64(11)) * 2.0**-53 * np.float64(n + 1))
        slots[i] = place if place < size else -1


@kernel
def find_knots(columns, first, values, scores, sizes):
    """Knots of the features `first`, `first + 1`, ... from `columns` (k, n): sorted values of each in a sample, n > 0.

    Knots are the distinct ones of the values at steps of n / K, K = values.shape[1], and always the largest value. The
    score of a knot is Phi^-1 of its mid-rank share: of the smaller values, and half of the equal ones.

    values, scores : (d, K), and sizes : (d,), changed in place
    """
    n = columns.shape[1]
    room = values.shape[1]
    for k in range(columns.shape[0]):
        column = columns[k]
        j = first + k
        size = 0
        below = 0
        for step in range(room):
            place = n - 1 if step == room - 1 else (step * n) // room
            if place < below:
                continue
            value = column[place]
            while below < n and column[below] < value:
                below += 1
            above = place + 1
            while above < n and column[above] == value:
                above += 1
            values[j, size] = value
            scores[j, size] = normal_quantile((below + above) / (2.0 * n))
            size += 1
            below = above
        sizes[j] = size


@leaf
def _map_column(x, values, scores, size, g):
    """g = g(x) for the values x of a feature: linear between knots, constant beyond the first and the last."""
    for i in range(x.shape[0]):
        first, length = 0, size
        while length > _FEW:
            half = length // 2
            first += half if values[first + half - 1] < x[i] else 0
            length -= half
        # The number of knots below x: every comparison is made, several at once, and none is waited for.
        few = values[first : first + length]
        low = first
        for k in range(length):
            low += 1 if few[k] < x[i] else 0
        if low == size:
            g[i] = scores[size - 1]
        elif low == 0 or values[low] == x[i]:
            g[i] = scores[low]
        else:
            # The halves keep the difference of huge values finite.
            part = (0.5 * x[i] - 0.5 * values[low - 1]) / (0.5 * values[low] - 0.5 * values[low - 1])
            g[i] = scores[low - 1] + part * (scores[low] - scores[low - 1])


@leaf
def _mean_and_factor(g):
    """The mean of g, and 1 / (deviation + 0.1); 0 where g is constant."""
    total, lowest, highest = 0.0, np.inf, -np.inf
    for i in range(g.shape[0]):
        total += g[i]
        lowest = min(lowest, g[i])
        highest = max(highest, g[i])
    mean = total / g.shape[0]
    square = 0.0
    for i in range(g.shape[0]):
        difference = g[i] - mean
        square += difference * difference
    return mean, 1.0 / (math.sqrt(square / g.shape[0]) + _SOFT) if highest > lowest else 0.0


@kernel
def map_queries(X, offsets, values, scores, sizes, out):
    """For each feature j and document: out[:, 2 j] = g, out[:, 2 j + 1] = (g - mean) / (deviation + 0.1) within the query.

    The second is 0 where g is constant in the query, and both are where a feature has no knots yet.
    """
    longest = 0
    for t in range(offsets.shape[0] - 1):
        longest = max(longest, offsets[t + 1] - offsets[t])
    # Some columns at once, so that rows of X and of `out` are read and written in pieces.
    x, g = np.empty((_SIDE_BY_SIDE, longest)), np.empty((_SIDE_BY_SIDE, longest))
    means, factors = np.empty(_SIDE_BY_SIDE), np.empty(_SIDE_BY_SIDE)
    for t in range(offsets.shape[0] - 1):
        a, m = offsets[t], offsets[t + 1] - offsets[t]
        for first in range(0, X.shape[1], _SIDE_BY_SIDE):
            width = min(_SIDE_BY_SIDE, X.shape[1] - first)
            for i in range(m):
                for c in range(width):
                    x[c, i] = X[a + i, first + c]
            for c in range(width):
                j, own = first + c, g[c, :m]
                if sizes[j] == 0 or m == 0:
                    own[:] = 0.0
                    means[c], factors[c] = 0.0, 0.0
                else:
                    _map_column(x[c, :m], values[j], scores[j], sizes[j], own)
                    means[c], factors[c] = _mean_and_factor(own)
            for i in range(m):
                row = out[a + i, 2 * first :]
                for c in range(width):
                    row[2 * c] = g[c, i]
                    row[2 * c + 1] = (g[c, i] - means[c]) * factors[c]


@kernel
def ramps(Z, knots, height, out):
    """For each column of Z: its value, then height clip((z - P_k) / (P_{k+1} - P_k), 0, 1) for all neighbouring knots.

    out : (n, columns * number of knots)
    """
    width = knots.shape[0]
    n = Z.shape[1] * width
    # All columns of a row in one loop. What it gives in place of the values themselves is written over.
    starts, slopes, row = np.zeros(n), np.zeros(n), np.empty(n)
    for j in range(n):
        k = j % width
        if k > 0:
            starts[j] = knots[k - 1]
            slopes[j] = 1.0 / (knots[k] - knots[k - 1])
    for i in range(Z.shape[0]):
        for c in range(Z.shape[1]):
            z = np.float64(Z[i, c])
            for k in range(width):
                row[c * width + k] = z
        _ramp(row, starts, slopes, height, out[i])
        for c in range(Z.shape[1]):
            out[i, c * width] = Z[i, c]


@leaf
def _ramp(z, starts, slopes, height, out):
    """out = height clip((z - starts) slopes, 0, 1)."""
    for j in range(z.shape[0]):
        part = (z[j] - starts[j]) * slopes[j]
        part = part if part > 0.0 else 0.0
        out[j] = height * (part if part < 1.0 else 1.0)
