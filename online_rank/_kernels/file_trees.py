"""Scores by trees of other libraries, which are binary trees of any shape."""

import numpy as np

from online_rank._kernels._jit import kernel
from online_rank._kernels.fits import require

#: LightGBM takes values up to this one for zeros.
ZERO = 1.0000000180025095e-35
#: Bits of a node: a missing value goes to the right; a zero is a missing value.
RIGHT, ZEROS = 1, 2


@kernel
def score_file_trees(X, columns, thresholds, missing, left, right, values, roots, base, scores):
    """scores[i] = base + the sum over trees of the value of the leaf that document i reaches.

    A node sends a value >= its threshold to the right, and others to the left; a missing value goes by `missing`. Children come
    after their parents, and X has every column.

    X : (n, d); columns : (N,) int64, -1 for a leaf; missing : (N,) uint8, bits `RIGHT` and `ZEROS`; roots : (T,)
    """
    n_nodes = columns.shape[0]
    require(thresholds.shape[0] == missing.shape[0] == left.shape[0] == right.shape[0] == values.shape[0] == n_nodes)
    require(n_nodes == 0 or columns.max() < X.shape[1])
    require(scores.shape[0] >= X.shape[0])
    for i in range(X.shape[0]):
        total = base
        for t in range(roots.shape[0]):
            node = roots[t]
            while columns[node] >= 0:
                x, way = np.float64(X[i, columns[node]]), missing[node]
                above = x >= thresholds[node]
                if x != x or ((way & ZEROS) != 0 and -ZERO <= x <= ZERO):
                    above = (way & RIGHT) != 0
                node = right[node] if above else left[node]
            total += values[node]
        scores[i] = total
