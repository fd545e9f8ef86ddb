"""Features mapped by the quantiles of a uniform sample of documents: which documents to keep, knots, and the map."""

import math

import numpy as np

from online_rank._kernels._jit import kernel
from online_rank._kernels.quantiles import normal_quantile

# Added to the standard deviation within a query, so that a feature that hardly varies there stays small.
_SOFT = 0.1


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
def find_knots(sample, first, values, scores, sizes):
    """Knots of the features `first`, `first + 1`, ... from a sample (n, k) of their values, n > 0.

    Knots are the distinct ones of the sorted values at steps of n / K, K = values.shape[1], and always the largest value. The
    score of a knot is Phi^-1 of its mid-rank share: of the smaller values, and half of the equal ones.

    values, scores : (d, K), and sizes : (d,), changed in place
    """
    n = sample.shape[0]
    room = values.shape[1]
    column = np.empty(n)
    for k in range(sample.shape[1]):
        for i in range(n):
            column[i] = sample[i, k]
        column.sort()
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


@kernel
def _mapped(x, values, scores, size):
    """g(x): linear between knots, constant beyond the first and the last."""
    low = 0
    length = size
    while length > 1:
        half = length // 2
        low += half if values[low + half - 1] < x else 0
        length -= half
    low += 1 if values[low] < x else 0
    if low == size:
        return scores[size - 1]
    if low == 0 or values[low] == x:
        return scores[low]
    # The halves keep the difference of huge values finite.
    part = (0.5 * x - 0.5 * values[low - 1]) / (0.5 * values[low] - 0.5 * values[low - 1])
    return scores[low - 1] + part * (scores[low] - scores[low - 1])


@kernel
def map_queries(X, offsets, values, scores, sizes, out):
    """For each feature j and document: out[:, 2 j] = g, out[:, 2 j + 1] = (g - mean) / (deviation + 0.1) within the query.

    The second is 0 where g is constant in the query, and both are where a feature has no knots yet.
    """
    for t in range(offsets.shape[0] - 1):
        a, b = offsets[t], offsets[t + 1]
        m = b - a
        for j in range(X.shape[1]):
            if sizes[j] == 0 or m == 0:
                out[a:b, 2 * j] = 0.0
                out[a:b, 2 * j + 1] = 0.0
                continue
            total, lowest, highest = 0.0, np.inf, -np.inf
            for i in range(a, b):
                g = _mapped(np.float64(X[i, j]), values[j], scores[j], sizes[j])
                out[i, 2 * j] = g
                total += g
                lowest = min(lowest, g)
                highest = max(highest, g)
            mean = total / m
            square = 0.0
            for i in range(a, b):
                difference = out[i, 2 * j] - mean
                square += difference * difference
            factor = 1.0 / (math.sqrt(square / m) + _SOFT) if highest > lowest else 0.0
            for i in range(a, b):
                out[i, 2 * j + 1] = (out[i, 2 * j] - mean) * factor


@kernel
def ramps(Z, knots, height, out):
    """For each column of Z: its value, then height clip((z - P_k) / (P_{k+1} - P_k), 0, 1) for all neighbouring knots.

    out : (n, columns * number of knots)
    """
    width = knots.shape[0]
    for i in range(Z.shape[0]):
        for c in range(Z.shape[1]):
            z = np.float64(Z[i, c])
            out[i, c * width] = z
            for k in range(width - 1):
                part = (z - knots[k]) / (knots[k + 1] - knots[k])
                out[i, c * width + 1 + k] = height * min(max(part, 0.0), 1.0)
