"""Target encoding: the running mean of the standardised grade along a grid of each feature."""

import math

import numpy as np

from online_rank._kernels._jit import kernel
from online_rank._kernels.fits import require, require_offsets


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
def encode(Z, y, offsets, lowest, step, prior, keep, sums, counts, out):
    """For each feature: a column z, and a column prior S / (C + prior), linear between the grid's points.

    The column z is kept for every feature if `keep` is 2, for every second feature if it is 1, and for none if it is 0.

    y : None, or the grades (n,) that are learned from each query after its encoding is written; nothing is learned from a query
        of one grade
    sums, counts : (d, K) sums S of grades and of weights C at the points lowest, lowest + step, ...; values beyond are clamped;
        changed in place
    """
    require_offsets(offsets, min(Z.shape[0], out.shape[0]))
    require(Z.shape[1] == sums.shape[0] == counts.shape[0] and sums.shape[1] == counts.shape[1] >= 2)
    require(out.shape[1] == Z.shape[1] + (0, Z.shape[1] // 2, Z.shape[1])[keep])
    target, means, last = np.empty(Z.shape[0]), np.empty(sums.shape), sums.shape[1] - 1
    for t in range(offsets.shape[0] - 1):
        a, b = offsets[t], offsets[t + 1]
        # Encodings are read from this copy, since the sums change meanwhile.
        for j in range(sums.shape[0]):
            for k in range(sums.shape[1]):
                means[j, k] = sums[j, k] / (counts[j, k] + prior)
        teaches = False
        if y is not None:
            teaches = b > a and standardised(y[a:b], target[: b - a])
        for i in range(a, b):
            column = 0
            for j in range(Z.shape[1]):
                place = min(max((np.float64(Z[i, j]) - lowest) / step, 0.0), np.float64(last))
                k = min(np.int64(place), last - 1)
                right = place - k
                if keep == 2 or (keep == 1 and j % 2 == 1):
                    out[i, column] = Z[i, j]
                    column += 1
                out[i, column] = prior * (means[j, k] + right * (means[j, k + 1] - means[j, k]))
                column += 1
                if teaches:
                    # To the two points next to the value, in shares that fall linearly (tents).
                    sums[j, k] += (1.0 - right) * target[i - a]
                    sums[j, k + 1] += right * target[i - a]
                    counts[j, k] += 1.0 - right
                    counts[j, k + 1] += right
