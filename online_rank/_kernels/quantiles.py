"""A quantile sketch for each feature: the merging t-digest of Dunning & Ertl (2019), with exact ties.

The sketch of a feature is a list of at most C centroids (value, weight), in ascending order of their values. A positive weight
is the number of documents with exactly that value; a negative one, of documents around it: the centroid stands for several
values. While a feature has at most C distinct values there are none of those, and the sketch is exact. Every kernel processes a
block query by query, so the result does not depend on how a stream is cut into blocks.
"""

import numpy as np

from online_rank._kernels._jit import inner, kernel, leaf
from online_rank._kernels.fits import require, require_offsets
from online_rank._kernels.vector_math import log


@inner
def _merge(values, weights, size, column, merged, merged_weights):
    """The `size` centroids and the sorted values of `column`, in one ascending list without ties; its length."""
    n = 0
    i = 0
    k = 0
    while i < size or k < len(column):
        if k == len(column) or (i < size and values[i] <= column[k]):
            value, weight = values[i], weights[i]
            i += 1
        else:
            value, weight = column[k], 1.0
            k += 1
        if n > 0 and merged[n - 1] == value:
            joined = merged_weights[n - 1] < 0.0 or weight < 0.0
            both = abs(merged_weights[n - 1]) + abs(weight)
            merged_weights[n - 1] = -both if joined else both
        else:
            merged[n] = value
            merged_weights[n] = weight
            n += 1
    return n


@inner
def _compress(values, weights, size, total, width):
    """Merge neighbouring centroids, in place, while their joint weight is at most total width q (1 - q); returns the new size.

    q is the share of the joint centroid's middle. So centroids are spaced about evenly in Phi^-1(q), even in the tails. The
    first and the last, the smallest and the largest value seen, are never merged.
    """
    n = 1
    before = abs(weights[0])
    for i in range(1, size):
        joint = abs(weights[n - 1]) + abs(weights[i])
        q = (before - abs(weights[n - 1]) + 0.5 * joint) / total
        if n > 1 and i < size - 1 and joint <= total * width * q * (1.0 - q):
            # A mean that cannot overflow, nor leave the interval by rounding.
            mean = values[n - 1] * (abs(weights[n - 1]) / joint) + values[i] * (abs(weights[i]) / joint)
            values[n - 1] = min(max(mean, values[n - 1]), values[i])
            weights[n - 1] = -joint
        else:
            values[n] = values[i]
            weights[n] = weights[i]
            n += 1
        before += abs(weights[i])
    return n


@inner
def learn_quantiles(X, a, b, count, values, weights, sizes):
    """Learn the documents X[a:b] after `count` others.

    values and weights have shape (d, C) and are changed in place, as is sizes (d,). Returns False, before anything is changed,
    if a feature is not finite.
    """
    for i in range(a, b):
        for j in range(X.shape[1]):
            if not np.isfinite(X[i, j]):
                return False
    capacity = values.shape[1]
    column = np.empty(b - a)
    merged = np.empty(capacity + b - a)
    merged_weights = np.empty(capacity + b - a)
    for j in range(X.shape[1]):
        for i in range(a, b):
            column[i - a] = X[i, j]
        column.sort()
        n = _merge(values[j], weights[j], sizes[j], column, merged, merged_weights)
        # The integral of 1 / (q (1 - q)) from 1 / total to 1 - 1 / total, divided by C / 2: half the room is left for new
        # values.
        width = 4.0 * log(np.float64(count + b - a)) / capacity
        while n > capacity:
            n = _compress(merged, merged_weights, n, count + b - a, width)
            width *= 1.5
        values[j, :n] = merged[:n]
        weights[j, :n] = merged_weights[:n]
        sizes[j] = n
    return True


@inner
def normal_quantile(p):
    """Phi^-1(p), 0 < p < 1, by the rational approximations of Acklam (2003), within 1.2e-9 relative."""
    tail = min(p, 1.0 - p)
    if tail < 0.02425:
        t = np.sqrt(-2.0 * log(tail))
        up = ((((-7.784894002430293e-03 * t - 3.223964580411365e-01) * t - 2.400758277161838) * t - 2.549732539343734) * t
              + 4.374664141464968) * t + 2.938163982698783  # fmt: skip
        down = (((7.784695709041462e-03 * t + 3.224671290700398e-01) * t + 2.445134137142996) * t + 3.754408661907416) * t + 1.0
        return up / down if p < 0.5 else -up / down
    q = p - 0.5
    r = q * q
    up = ((((-3.969683028665376e01 * r + 2.209460984245205e02) * r - 2.759285104469687e02) * r + 1.383577518672690e02) * r
          - 3.066479806614716e01) * r + 2.506628277459239  # fmt: skip
    down = ((((-5.447609879822406e01 * r + 1.615858368580409e02) * r - 1.556989798598866e02) * r + 6.680131188771972e01) * r
            - 1.328068155288572e01) * r + 1.0  # fmt: skip
    return q * up / down


@leaf
def _require_sketches(d, values, weights, sizes):
    """Require a sketch for each of d features, of no more centroids than there is room for."""
    require(values.shape[0] == d == sizes.shape[0] and weights.shape == values.shape)
    inside = True
    for j in range(d):
        inside &= (sizes[j] >= 0) & (sizes[j] <= values.shape[1])
    require(inside)


@kernel
def gaussianize(X, a, b, count, values, weights, sizes, deviation, out):
    """out[a:b] = deviation Phi^-1(F(X[a:b])), with F the share of smaller documents plus half the share of equal ones.

    Between two centroids F is linear, and half of the documents around a centroid are taken to be there. Beyond the smallest
    and the largest value F is constant.
    """
    require(0 <= a <= b <= X.shape[0] and out.shape[0] >= b and out.shape[1] == X.shape[1])
    _require_sketches(X.shape[1], values, weights, sizes)
    middle = np.empty(values.shape[1])
    upper = np.empty(values.shape[1])
    for j in range(X.shape[1]):
        n = sizes[j]
        before = 0.0
        for k in range(n):
            weight = abs(weights[j, k])
            middle[k] = (before + 0.5 * weight) / count
            before += weight
            upper[k] = before / count
        for i in range(a, b):
            x = np.float64(X[i, j])
            # The number of values smaller than x, by a search with the same steps for every x, so that no branch is
            # mispredicted.
            low = 0
            length = n
            while length > 1:
                half = length // 2
                low += half if values[j, low + half - 1] < x else 0
                length -= half
            low += 1 if n > 0 and values[j, low] < x else 0
            if n == 0:
                share = 0.5
            elif low == n:
                share = middle[n - 1]
            elif low == 0 or values[j, low] == x:
                share = middle[low]
            else:
                # The halves keep the difference of huge values finite.
                left = middle[low - 1] if weights[j, low - 1] < 0.0 else upper[low - 1]
                right = middle[low] if weights[j, low] < 0.0 else upper[low - 1]
                part = (0.5 * x - 0.5 * values[j, low - 1]) / (0.5 * values[j, low] - 0.5 * values[j, low - 1])
                share = left + part * (right - left)
            out[i, j] = deviation * normal_quantile(share)


@kernel
def learn_and_gaussianize(X, offsets, count, values, weights, sizes, deviation, out):
    """For each query: learn it, then write the transformed query to `out`. Returns the number of queries learned, and the new
    count.
    """
    require_offsets(offsets, min(X.shape[0], out.shape[0]))
    require(out.shape[1] == X.shape[1] and values.shape[1] >= 2)
    _require_sketches(X.shape[1], values, weights, sizes)
    for t in range(len(offsets) - 1):
        a, b = offsets[t], offsets[t + 1]
        if a == b:
            continue
        if not learn_quantiles(X, a, b, count, values, weights, sizes):
            return t, count
        count += b - a
        gaussianize(X, a, b, count, values, weights, sizes, deviation, out)
    return len(offsets) - 1, count
