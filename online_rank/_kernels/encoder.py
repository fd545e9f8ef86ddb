"""Target encoding: the running mean of the standardised grade along a grid of each feature."""

import math

import numpy as np

from online_rank._kernels._jit import kernel


@kernel
def standardised(y, target):
    """target = (y - mean) / deviation within a query; False when all grades are the same (target is then 0)."""
    m = y.shape[0]
    total = 0.0
    same = True
    for i in range(m):
        total += y[i]
        same = same and y[i] == y[0]
    target[:] = 0.0
    if same:
        return False
    mean = total / m
    square = 0.0
    for i in range(m):
        target[i] = y[i] - mean
        square += target[i] * target[i]
    factor = 1.0 / math.sqrt(square / m)
    for i in range(m):
        target[i] *= factor
    return True


@kernel
def encode(Z, a, b, lowest, step, prior, keep, sums, counts, out):
    """For each feature: a column z, and a column prior S / (C + prior), linear between the grid's points.

    The column z is there for every feature where `keep` is 2, for every other one, the second first, where it is 1, and for
    none where it is 0.

    sums, counts : (d, K) sums S of grades and of weights C at the points lowest, lowest + step, ...; values beyond are clamped
    """
    last = sums.shape[1] - 1
    means = np.empty(sums.shape)
    for j in range(sums.shape[0]):
        for k in range(sums.shape[1]):
            means[j, k] = sums[j, k] / (counts[j, k] + prior)
    for i in range(a, b):
        column = 0
        for j in range(Z.shape[1]):
            z = np.float64(Z[i, j])
            place = min(max((z - lowest) / step, 0.0), np.float64(last))
            k = min(np.int64(place), last - 1)
            if keep == 2 or (keep == 1 and j % 2 == 1):
                out[i, column] = z
                column += 1
            out[i, column] = prior * (means[j, k] + (place - k) * (means[j, k + 1] - means[j, k]))
            column += 1


@kernel
def learn_encoding(Z, a, b, target, lowest, step, sums, counts):
    """Add the documents a..b to the sums of the two grid points next to each value, in shares that fall linearly (tents)."""
    last = sums.shape[1] - 1
    for i in range(a, b):
        for j in range(Z.shape[1]):
            place = min(max((np.float64(Z[i, j]) - lowest) / step, 0.0), np.float64(last))
            k = min(np.int64(place), last - 1)
            right = place - k
            sums[j, k] += (1.0 - right) * target[i - a]
            sums[j, k + 1] += right * target[i - a]
            counts[j, k] += 1.0 - right
            counts[j, k + 1] += right


@kernel
def encode_and_learn(Z, y, offsets, lowest, step, prior, keep, sums, counts, out):
    """For each query: write it, encoded, to `out`, then learn its grades. A query of one grade teaches nothing."""
    target = np.empty(Z.shape[0])
    for t in range(offsets.shape[0] - 1):
        a, b = offsets[t], offsets[t + 1]
        encode(Z, a, b, lowest, step, prior, keep, sums, counts, out)
        if b > a and standardised(y[a:b], target[: b - a]):
            learn_encoding(Z, a, b, target, lowest, step, sums, counts)
