"""Ranks of feature values within a query."""

import numpy as np

from online_rank._kernels._jit import kernel
from online_rank._kernels.order import sort_descending


@kernel
def beside_ranks(X, offsets, first, out):
    """out[:, first + j] = (share of the query's documents with a smaller value of feature j, equal ones half) - 1/2."""
    longest = 0
    for t in range(offsets.shape[0] - 1):
        longest = max(longest, offsets[t + 1] - offsets[t])
    values = np.empty(longest)
    spare = np.empty(longest)
    order = np.empty(longest, np.int64)
    spare_order = np.empty(longest, np.int64)
    for t in range(offsets.shape[0] - 1):
        a = offsets[t]
        m = offsets[t + 1] - a
        for j in range(X.shape[1]):
            for i in range(m):
                values[i] = X[a + i, j]
                order[i] = i
            sort_descending(values[:m], order[:m], spare[:m], spare_order[:m])
            start = 0
            while start < m:
                stop = start + 1
                while stop < m and values[stop] == values[start]:
                    stop += 1
                # m - stop documents are below, stop - start are equal.
                share = (m - stop + 0.5 * (stop - start)) / m - 0.5
                for r in range(start, stop):
                    out[a + order[r], first + j] = share
                start = stop
