"""Leaves of complete trees of depth 4 on binned normal scores: bins, look-up by whole columns, and learning along the stream.

Node k of a tree has the children 2 k + 1 and 2 k + 2; its leaves have the numbers 0 to 15. A document goes right if its bin is
above the threshold of the node. Bin 0 is for missing values, which therefore go left at every node; the bins 1 to 31 are equal
steps of normal scores from -2.6 to 2.6. A node that does not split has the threshold `NEVER`.

Documents are inside and columns outside: a leaf of a tree takes 15 comparisons of whole columns of bytes and 11 selections,
which the processor does for 16 to 64 documents at once.
"""

import numpy as np

from online_rank._kernels._jit import kernel, leaf
from online_rank._kernels.curves import MISSING
from online_rank._kernels.fits import require

#: Bins of a feature, the lowest normal score with a bin, and the width of a bin.
N_BINS, LOWEST = 32, -2.6
WIDTH = -2.0 * LOWEST / (N_BINS - 1)
#: The bin of normal score 0.
MIDDLE = N_BINS // 2
#: Nodes and leaves of a tree; the threshold that nothing is above.
N_NODES, N_LEAVES, NEVER = 15, 16, 255
#: A row of splits: features, then thresholds.
FEATURES, THRESHOLDS, N_SPLITS = 0, N_NODES, 2 * N_NODES
#: A row of leaves: their values, averages of these, the weight of the documents that each has seen; then the number of queries
#: since the tree grew, and the tree's number.
VALUES, MEANS, SEEN, AGE, BORN, N_PARTS = 0, 16, 32, 48, 49, 50
#: Queries have columns of a multiple of this many documents.
TOGETHER = 64
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
def _compare(x0, x1, x2, x3, x4, x5, x6, x7, x8, x9, x10, x11, x12, x13, x14, t, out):
    t0, t1, t2, t3, t4 = np.uint8(t[15]), np.uint8(t[16]), np.uint8(t[17]), np.uint8(t[18]), np.uint8(t[19])
    t5, t6, t7, t8, t9 = np.uint8(t[20]), np.uint8(t[21]), np.uint8(t[22]), np.uint8(t[23]), np.uint8(t[24])
    t10, t11, t12, t13, t14 = np.uint8(t[25]), np.uint8(t[26]), np.uint8(t[27]), np.uint8(t[28]), np.uint8(t[29])
    for i in range(out.shape[0]):
        a = x0[i] > t0
        b1, b2 = x1[i] > t1, x2[i] > t2
        c3, c4, c5, c6 = x3[i] > t3, x4[i] > t4, x5[i] > t5, x6[i] > t6
        d7, d8, d9, d10 = x7[i] > t7, x8[i] > t8, x9[i] > t9, x10[i] > t10
        d11, d12, d13, d14 = x11[i] > t11, x12[i] > t12, x13[i] > t13, x14[i] > t14
        b = (a & b2) | (~a & b1)
        low, high = (b & c4) | (~b & c3), (b & c6) | (~b & c5)
        c = (a & high) | (~a & low)
        p, q = (c & d8) | (~c & d7), (c & d10) | (~c & d9)
        u, v = (c & d12) | (~c & d11), (c & d14) | (~c & d13)
        low, high = (b & q) | (~b & p), (b & v) | (~b & u)
        d = (a & high) | (~a & low)
        one, two = np.uint8(8 if a else 0) | np.uint8(4 if b else 0), np.uint8(2 if c else 0) | np.uint8(1 if d else 0)
        out[i] = one | two


@leaf
def find_leaves(x, f, out):
    """out (M,) = the leaves of documents with bins x (d, M), by a row of splits f (N_SPLITS,)."""
    _compare(
        x[f[0]], x[f[1]], x[f[2]], x[f[3]], x[f[4]], x[f[5]], x[f[6]], x[f[7]], x[f[8]], x[f[9]], x[f[10]], x[f[11]], x[f[12]],
        x[f[13]], x[f[14]], f, out,
    )  # fmt: skip


@leaf
def find_leaves_within(x, a, b, f, out):
    """The same for the documents from a to b of a longer array of bins: out (b - a,)."""
    _compare(
        x[f[0], a:b], x[f[1], a:b], x[f[2], a:b], x[f[3], a:b], x[f[4], a:b], x[f[5], a:b], x[f[6], a:b], x[f[7], a:b],
        x[f[8], a:b], x[f[9], a:b], x[f[10], a:b], x[f[11], a:b], x[f[12], a:b], x[f[13], a:b], x[f[14], a:b], f, out,
    )  # fmt: skip


@leaf
def add_leaves(found, table, scores):
    """scores (m,) += the values of the leaves: found (M,), table (N_LEAVES,)."""
    for i in range(scores.shape[0]):
        scores[i] += table[found[i]]


@leaf
def sum_by_leaf(found, values, weight, sums):
    """sums (2, N_LEAVES) += in each leaf the sum of weight times `values` (m,), and the weight of its documents."""
    for i in range(values.shape[0]):
        sums[0, found[i]] += weight * values[i]
        sums[1, found[i]] += weight


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
def score_leaves(g, cells, splits, table, factor, scores):
    """scores (m,) = factor times themselves + the leaves of trees, in their order.

    g, cells : rows of the query, (d, m); splits : (T, N_SPLITS), of features below d; table : (T, N_LEAVES)
    """
    d, m = g.shape[0], scores.shape[0]
    require(cells.shape[0] == d and g.shape[1] >= m and cells.shape[1] >= m and table.shape[0] <= splits.shape[0])
    wide = (m + TOGETHER - 1) // TOGETHER * TOGETHER
    bins, found = np.empty((d, wide), np.uint8), np.empty(wide, np.uint8)
    bin_rows(g, cells, m, bins)
    for i in range(m):
        scores[i] *= factor
    for k in range(table.shape[0]):
        find_leaves(bins, splits[k], found)
        add_leaves(found, table[k], scores)
