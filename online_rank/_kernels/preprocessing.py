"""Feature transforms over whole queries.

Every kernel processes a block one query at a time, and its effect depends only on the query and the state before it, so the
result does not depend on how a stream is cut into blocks. All inner loops run over features, without reductions.
"""

import numpy as np

from online_rank._kernels._jit import inner, kernel
from online_rank._kernels.arrays import all_finite
from online_rank._kernels.fits import require, require_offsets


@inner
def _column_moments(X, a, b, mean, m2):
    """Mean, and sum of squared deviations from it, of each column of X[a:b]; there is at least one row.

    Sums are over differences from the first row. So a constant column gives exactly 0; and since the squared distance of the
    first row from the mean is at most m2, the cancellation in m2 costs at most a factor b - a of precision.
    """
    m = b - a
    mean[:] = 0.0
    m2[:] = 0.0
    for i in range(a + 1, b):
        for j in range(X.shape[1]):
            difference = np.float64(X[i, j]) - np.float64(X[a, j])
            mean[j] += difference
            m2[j] += difference * difference
    for j in range(X.shape[1]):
        shift = mean[j] / m
        m2[j] -= mean[j] * shift
        m2[j] = 0.0 if m2[j] < 0.0 else m2[j]
        mean[j] = np.float64(X[a, j]) + shift


@inner
def _write_scaled(X, a, b, shift, factor, out):
    """out[a:b] = (X[a:b] - shift) factor."""
    for i in range(a, b):
        for j in range(X.shape[1]):
            out[i, j] = (np.float64(X[i, j]) - shift[j]) * factor[j]


@inner
def _inverse_deviation(m2, n, factor, with_std):
    """factor = 1 / sqrt(m2 / n), and 0 for a column that never varied; 1 without `with_std`."""
    for j in range(len(m2)):
        deviates = 1.0 / np.sqrt(m2[j] / n) if m2[j] > 0.0 else 0.0
        factor[j] = deviates if with_std else 1.0


@inner
def _join(n, other_mean, other_m2, count, mean, m2):
    """Combine means and sums of squared deviations of `n` rows with the same of `count` others (Chan, Golub & LeVeque 1979)."""
    share = n / (count + n)
    common = count * share
    for j in range(mean.shape[0]):
        delta = other_mean[j] - mean[j]
        other_m2[j] += m2[j] + (delta * delta * common if count > 0 else 0.0)
        other_mean[j] = mean[j] + delta * share


@kernel
def join(n, other_mean, other_m2, count, mean, m2):
    """Combine `mean` and `m2` of `count` rows with the same of `n` others; at least one of the two is not empty."""
    joined_mean, joined_m2 = other_mean.copy(), other_m2.copy()
    _join(n, joined_mean, joined_m2, count, mean, m2)
    mean[:] = joined_mean
    m2[:] = joined_m2


@kernel
def learn_and_scale(X, offsets, count, mean, m2, with_std, out, own_count, own, asked, before):
    """Learn the running mean and variance of each column from each query, then write the scaled query to `out`.

    `mean` and `m2` (sum of squared deviations from the mean) are of the `count` documents before; they are changed in place.
    Means and deviations of a query are joined to the stream's by the formula of Chan, Golub & LeVeque (1979).

    `own` (2, d), if not None, has mean and m2 of only the last `own_count` documents; it is changed in the same way.

    `before` (n, d), if not None, receives the documents `asked` as `scale` gives them before their query is learned.

    Returns the number of queries learned, which is smaller if one would make the state non-finite, and the new count.
    """
    require_offsets(offsets, min(X.shape[0], out.shape[0]))
    require(X.shape[1] == mean.shape[0] == m2.shape[0] == out.shape[1])
    if own is not None:
        require(own.shape[0] == 2 and own.shape[1] == X.shape[1])
    if before is not None:
        require(asked.shape == before.shape == out.shape)
    query_mean = np.empty(X.shape[1])
    query_m2 = np.empty(X.shape[1])
    for t in range(len(offsets) - 1):
        a, b = offsets[t], offsets[t + 1]
        if a == b:
            continue
        if before is not None:
            _inverse_deviation(m2, count, query_m2, with_std)
            _write_scaled(asked, a, b, mean, query_m2, before)
        _column_moments(X, a, b, query_mean, query_m2)
        if own is not None:
            own_mean, own_m2 = query_mean.copy(), query_m2.copy()
            _join(b - a, own_mean, own_m2, own_count, own[0], own[1])
        _join(b - a, query_mean, query_m2, count, mean, m2)
        if not (all_finite(query_m2) and all_finite(query_mean)):
            return t, count
        if own is not None:
            own[0] = own_mean
            own[1] = own_m2
            own_count += b - a
        count += b - a
        mean[:] = query_mean
        m2[:] = query_m2
        _inverse_deviation(m2, count, query_m2, with_std)
        _write_scaled(X, a, b, mean, query_m2, out)
    return len(offsets) - 1, count


@kernel
def scale(X, count, mean, m2, with_std, out):
    """`out` = X, scaled by the learned statistics, as in `learn_and_scale`."""
    require(X.shape[1] == mean.shape[0] == m2.shape[0] == out.shape[1] and X.shape[0] <= out.shape[0])
    factor = np.empty(X.shape[1])
    _inverse_deviation(m2, count, factor, with_std)
    _write_scaled(X, 0, len(X), mean, factor, out)


@kernel
def divide_by_largest(X, offsets, largest, out, learns):
    """`out` = X / largest, a column at a time, and 0 where that is 0.

    If it learns, `largest` (d,) is updated with the |X| of each query before that query is divided. Returns the number of
    queries before one
    with NaN or infinity.
    """
    require_offsets(offsets, min(X.shape[0], out.shape[0]))
    require(X.shape[1] == out.shape[1] <= largest.shape[0])
    for t in range(len(offsets) - 1):
        a, b = offsets[t], offsets[t + 1]
        for i in range(a, b):
            if not all_finite(X[i]):
                return t
            if learns:
                for j in range(X.shape[1]):
                    largest[j] = max(largest[j], abs(np.float64(X[i, j])))
        for i in range(a, b):
            for j in range(X.shape[1]):
                out[i, j] = X[i, j] / largest[j] if largest[j] > 0.0 else 0.0
    return len(offsets) - 1


@kernel
def normalise_queries(X, offsets, minmax, out):
    """Each column of each query with mean 0 and variance 1, or with minimum 0 and maximum 1; a constant one is 0.

    Returns the number of queries before one that is not finite.
    """
    require_offsets(offsets, min(X.shape[0], out.shape[0]))
    require(X.shape[1] == out.shape[1])
    low, span = np.empty(X.shape[1]), np.empty(X.shape[1])
    for t in range(len(offsets) - 1):
        a, b = offsets[t], offsets[t + 1]
        if a == b:
            continue
        if not minmax:
            _column_moments(X, a, b, low, span)
            if not (all_finite(span) and all_finite(low)):
                return t
            _inverse_deviation(span, b - a, span, True)
            _write_scaled(X, a, b, low, span, out)
            continue
        low[:] = X[a]
        span[:] = X[a]
        for i in range(a + 1, b):
            for j in range(X.shape[1]):
                low[j] = min(low[j], np.float64(X[i, j]))
                span[j] = max(span[j], np.float64(X[i, j]))
        for j in range(X.shape[1]):
            span[j] -= low[j]
        if not all_finite(span):
            return t
        for i in range(a, b):
            for j in range(X.shape[1]):
                # A division, unlike a product with 1 / span, gives exactly 1 at the maximum.
                out[i, j] = (np.float64(X[i, j]) - low[j]) / span[j] if span[j] != 0.0 else 0.0
    return len(offsets) - 1
