"""Leaves of complete trees of depth 4 on binned normal scores: bins, look-up by whole columns, and learning along the stream.

Node k of a tree has the children 2 k + 1 and 2 k + 2; its leaves have the numbers 0 to 15. A document goes right if its bin is
above the threshold of the node. Bin 0 is for missing values, which therefore go left at every node; the bins 1 to 31 are equal
steps of normal scores from -2.6 to 2.6. A node that does not split has the threshold `NEVER`.

Documents are inside and columns outside: a leaf of a tree takes 15 comparisons of whole columns of bytes and 11 selections,
which the processor does for 32 documents at once (`primitives.find_leaves`).
"""

import numpy as np

from online_rank._kernels._jit import kernel, leaf
from online_rank._kernels.curves import MISSING
from online_rank._kernels.fits import require
from online_rank._kernels.primitives import N_NODES as N_NODES
from online_rank._kernels.primitives import TOGETHER, find_leaves

#: Bins of a feature, the lowest normal score with a bin, and the width of a bin.
N_BINS, LOWEST = 32, -2.6
WIDTH = -2.0 * LOWEST / (N_BINS - 1)
#: The bin of normal score 0.
MIDDLE = N_BINS // 2
#: Leaves of a tree; the threshold that nothing is above.
N_LEAVES, NEVER = N_NODES + 1, 255
#: A row of splits: features, then thresholds.
FEATURES, THRESHOLDS, N_SPLITS = 0, N_NODES, 2 * N_NODES
#: A row of leaves: their values, averages of these, the weight of the documents that each has seen; then the number of queries
#: since the tree grew, and the tree's number.
VALUES, MEANS, SEEN, AGE, BORN, N_PARTS = 0, 16, 32, 48, 49, 50
#: A leaf learns as if it had seen this many more documents; the step of learning, and the most queries in an average.
SHRINKAGE, _STEP, _MOST_AVERAGED = 100.0, 0.5, 200.0

#: Residuals are clipped to the first; units of their sums, and of weights; and the bits of the weights.
LARGEST, UNIT, WEIGHTS, COUNT = 8.0, 256.0, 16.0, 0xFFFFFFFF

_LOWEST, _FACTOR, _LAST = np.float32(LOWEST), np.float32(1.0 / WIDTH), np.float32(N_BINS - 2)
_ZERO = np.float32(0.0)


@leaf
def bin_rows(g, cells, m, bins):
    """bins (d, M) = the bins of the normal scores g (d, m), and 0 beyond document m. cells (d, m) : which are missing"""
    for j in range(g.shape[0]):
        own, found, places = g[j, :m], cells[j, :m], bins[j]
        places[m:] = 0
        for i in range(m):
            z = (own[i] - _LOWEST) * _FACTOR
            z = z if z > _ZERO else _ZERO
            z = z if z < _LAST else _LAST
            places[i] = np.uint8(0) if found[i] == MISSING else np.uint8(np.int32(z) + 1)


@leaf
def add_leaves(found, table, scores):
    """scores (m,) += the values of the leaves: found (M,), table (N_LEAVES,)."""
    for i in range(scores.shape[0]):
        scores[i] += table[found[i]]


@leaf
def sum_by_leaf(found, target, given, mean, weight, sums):
    """Add the residuals target - (given - mean) of documents (m,) in each leaf, and their weights: sums (4, 2, N_LEAVES).

    Four neighbours have different sums, which do not wait for one another.
    """
    for i in range(found.shape[0]):
        own, v = sums[i & 3], np.uint64(found[i])
        own[0, v] += weight * (np.float64(target[i]) - (np.float64(given[i]) - mean))
        own[1, v] += weight


@leaf
def sum_abreast(found, k, packed, sums):
    """sums (4, N_LEAVES) = the sums of `packed` (m,) in the leaves of the trees from k on: found (T, M)."""
    f0, f1, f2, f3, s0, s1, s2, s3 = found[k], found[k + 1], found[k + 2], found[k + 3], sums[0], sums[1], sums[2], sums[3]
    for v in range(N_LEAVES):
        s0[v] = s1[v] = s2[v] = s3[v] = 0
    for i in range(packed.shape[0]):
        p = packed[i]
        s0[np.uint64(f0[i])] += p
        s1[np.uint64(f1[i])] += p
        s2[np.uint64(f2[i])] += p
        s3[np.uint64(f3[i])] += p


@leaf
def packed(residual, unit):
    """A residual of a document and its weight as one integer, so that sums are exact in any order.

    Above 32 bits 256 W r, with r clipped to 8; below W, a whole number of sixteenths.
    """
    return (np.int64(np.rint(UNIT * unit * min(max(residual, -LARGEST), LARGEST))) << 32) + np.int64(unit)


@leaf
def unit_of(weight, heaviest):
    """W, the weight of a query in sixteenths of the heaviest, or of 1, and at least 1."""
    return max(np.rint(WEIGHTS * weight / max(heaviest, 1.0)), 1.0)


@leaf
def learn_leaves(sums, tree):
    r"""Let the leaves of a tree, a row (N_PARTS,), learn a query, and average them.

    v += 0.5 G / (n + 100), with G the sum of the residuals of its documents, n the documents seen before; and averages
    a += (v - a) / min(age, 200).

    sums : (N_LEAVES,) of `packed` residuals
    """
    tree[AGE] += 1.0
    part = 1.0 / min(tree[AGE], _MOST_AVERAGED)
    values, means, seen = tree[VALUES:MEANS], tree[MEANS:SEEN], tree[SEEN:AGE]
    for v in range(N_LEAVES):
        count = sums[v] & COUNT
        values[v] += (_STEP / (UNIT * WEIGHTS)) * ((sums[v] - count) >> 32) / (seen[v] + SHRINKAGE)
        seen[v] += count * (1.0 / WEIGHTS)
        means[v] += part * (values[v] - means[v])


@kernel
def answer(g, cells, splits, table, served, scores, answers):
    """answers (2, m) = the scores (m,) of curves, and what is served: a factor times these + the leaves of trees, in order.

    g, cells : rows of the query, (d, m); splits : (T, N_SPLITS), of features below d; table : (T, N_LEAVES)
    served : (2,) the factor, and how many trees are served.
    """
    d, m, factor, n = g.shape[0], scores.shape[0], served[0], np.int64(served[1])
    require(cells.shape[0] == d and g.shape[1] >= m and cells.shape[1] >= m and answers.shape == (2, m))
    require(0 <= n <= splits.shape[0] and n <= table.shape[0])
    wide = (m + TOGETHER - 1) // TOGETHER * TOGETHER
    bins, found, own = np.empty((d, wide), np.uint8), np.empty(wide, np.uint8), answers[1]
    for i in range(m):
        answers[0, i] = own[i] = scores[i]
    if n == 0:
        return
    bin_rows(g, cells, m, bins)
    for i in range(m):
        own[i] *= factor
    for k in range(n):
        find_leaves(bins, 0, splits[k], found)
        add_leaves(found, table[k], own)
