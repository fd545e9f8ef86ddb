"""Streaming gradient boosting: bins, histograms, splits and scores of trees.

A tree of depth D is complete: node k has the children 2 k + 1 and 2 k + 2, and the nodes of level l begin at 2^l - 1. A
document goes right if its bin is above the node's threshold; a node that is not split sends all documents left.
"""

import math

import numpy as np

from online_rank._kernels._jit import kernel, leaf
from online_rank._kernels.arrays import copy_to
from online_rank._kernels.fits import require
from online_rank._kernels.primitives import add_scaled_four

# Added to the weight of documents: leaves are shrunk towards 0, leaves of few documents most.
_SHRINKAGE = 50.0
# The columns of a growing tree are stored in parts of this many: a power of 2.
PART = 16
_SHIFT = 4
# Documents that are scored side by side.
_TOGETHER = 64


@kernel
def to_bins(X, lowest, step, n_bins, bins):
    """bins[i, j] = number of the points lowest, lowest + step, ... (n_bins - 1 of them) that are <= X[i, j].

    Returns False if a value is not finite.
    """
    require(bins.shape[0] >= X.shape[0] and bins.shape[1] == X.shape[1])
    for i in range(X.shape[0]):
        for j in range(X.shape[1]):
            x = np.float64(X[i, j])
            if not math.isfinite(x):
                return False
            place = min(max((x - lowest) / step + 1.0, 0.0), n_bins - 1.0)
            bins[i, j] = np.uint8(np.int64(place))
    return True


@kernel
def score_trees(bins, features, thresholds, leaves, keep, rate, scores):
    """Update scores (n,) for one tree after the other: score = keep score + rate leaf.

    bins : (n, d) uint8; features, thresholds : (T, 2^D - 1) int64; leaves : (T, 2^D)
    """
    require(features.shape[0] == thresholds.shape[0] == leaves.shape[0] and features.shape[1] == thresholds.shape[1])
    require(leaves.shape[1] == features.shape[1] + 1 and scores.shape[0] >= bins.shape[0])
    require(features.size == 0 or (features.min() >= 0 and features.max() < bins.shape[1]))
    nodes = np.empty(min(bins.shape[0], _TOGETHER), dtype=np.int64)
    for first in range(0, bins.shape[0], _TOGETHER):
        own = bins[first : first + _TOGETHER]
        _score_together(own, features, thresholds, leaves, keep, rate, nodes[: own.shape[0]], scores[first:])


@leaf
def _score_together(bins, features, thresholds, leaves, keep, rate, nodes, scores):
    """Scores of a few documents, which go down a tree side by side: steps of different documents do not wait for each other.

    nodes : (n,) workspace
    """
    inner = features.shape[1]
    for t in range(features.shape[0]):
        columns, least, values = features[t], thresholds[t], leaves[t]
        nodes[:] = 0
        begin = 0
        while begin < inner:
            for i in range(nodes.shape[0]):
                node = nodes[i]
                nodes[i] = 2 * node + 1 + (bins[i, columns[node]] > least[node])
            begin = 2 * begin + 1
        for i in range(nodes.shape[0]):
            scores[i] = keep * scores[i] + rate * values[nodes[i] - inner]


@kernel
def gather(bins, columns, first, gathered):
    """Some columns of documents, in parts of 16: gathered[c // 16, first + i, c % 16] = bins[i, columns[c]]."""
    for part in range(gathered.shape[0]):
        own = columns[PART * part : PART * (part + 1)]
        for i in range(bins.shape[0]):
            source, row = bins[i], gathered[part, first + i]
            for c in range(own.shape[0]):
                row[c] = source[own[c]]


@leaf
def _add_to_histograms(bins, width, rows, gh, n_bins, histograms):
    """Add residuals, weights and number of the documents `rows` to histograms of the first `width` columns of bins.

    gh, histograms : flat, four numbers a document and a bin: the last is 0
    """
    for k in range(rows.shape[0]):
        r = rows[k]
        row = bins[r]
        for c in range(width):
            add_scaled_four(histograms, 4 * (n_bins * c + np.int64(row[c])), 1.0, gh, 4 * r)


@leaf
def _best_split(histogram, least, left, gains):
    """Gain and bin of the best threshold of a histogram: G^2 / (H + 50) of both sides less the same of all; gain 0 for none.

    left : (3, B), gains : (B,) workspace
    """
    last = histogram.shape[0] - 1
    left_g, left_h, left_n = left[0], left[1], left[2]
    g, h, n = 0.0, 0.0, 0.0
    for b in range(last + 1):
        g += histogram[b, 0]
        h += histogram[b, 1]
        n += histogram[b, 2]
        left_g[b], left_h[b], left_n[b] = g, h, n
    _gains(g, h, n, least, left_g[:last], left_h[:last], left_n[:last], gains)
    best, where = 0.0, 0
    for b in range(last):
        if gains[b] > best:
            best, where = gains[b], b
    return best, where


@leaf
def _gains(g, h, n, least, left_g, left_h, left_n, gains):
    """The gain of each threshold, from the sums over all bins and over those up to it; 0 where a side is too small."""
    whole = g * g / (h + _SHRINKAGE)
    for b in range(left_g.shape[0]):
        right_g = g - left_g[b]
        # Rounding of differences may make a sum of squares negative.
        one, other = left_h[b], h - left_h[b]
        one = one if one > 0.0 else 0.0
        other = other if other > 0.0 else 0.0
        gain = left_g[b] * left_g[b] / (one + _SHRINKAGE) + right_g * right_g / (other + _SHRINKAGE) - whole
        gains[b] = gain if left_n[b] >= least and n - left_n[b] >= least else 0.0


@kernel
def find_splits(level, first, width, bins, rows, bounds, gh, least, histograms, best):
    """Histograms, and the best splits, of a part of the columns, `first` and those after, for all nodes of a level.

    Of two siblings the one with fewer documents is counted; the other is the difference from their parent.

    width, bins : number of columns, and their bins (n, 16); rows : (D + 1, n) documents in the order of the nodes of each
    level; bounds : (nodes, 2) where nodes begin and end there; histograms : (2^D - 1, 16, B, 4); best : (2^D - 1, 3) out: gain,
    column, threshold
    """
    begin = 2**level - 1
    n_bins = histograms.shape[2]
    size, flat = 4 * n_bins * width, gh.reshape(-1)
    for node in range(begin, 2 * begin + 1):
        best[node, 0] = 0.0
        best[node, 1] = -1.0
        best[node, 2] = 0.0
    for node in range(begin, 2 * begin + 1):
        less = node
        if level > 0:
            if node % 2 == 0:
                continue
            less += bounds[node, 1] - bounds[node, 0] > bounds[node + 1, 1] - bounds[node + 1, 0]
        own = histograms[less].reshape(-1)
        own[:size] = 0.0
        _add_to_histograms(bins, width, rows[level][bounds[less, 0] : bounds[less, 1]], flat, n_bins, own)
        if level > 0:
            parent, other = histograms[(node - 1) // 2].reshape(-1), histograms[2 * node + 1 - less].reshape(-1)
            for k in range(size):
                other[k] = parent[k] - own[k]
    left, gains = np.empty((3, n_bins)), np.empty(n_bins)
    for c in range(width):
        for node in range(begin, 2 * begin + 1):
            if bounds[node, 1] - bounds[node, 0] >= 2 * least:
                gain, where = _best_split(histograms[node, c], least, left, gains)
                if gain > best[node, 0]:
                    best[node, 0] = gain
                    best[node, 1] = first + c
                    best[node, 2] = where


@leaf
def _bin(bins, column, i):
    """The bin of document i in a column of parts (parts, n, 16)."""
    return bins[column >> _SHIFT, i, column & (PART - 1)]


@leaf
def _part_documents(bins, column, threshold, rows, parted, spare):
    """Partition the documents `rows` of a node stably: those that go left first. Returns their number; `spare` is workspace."""
    n = rows.shape[0]
    if column < 0:
        copy_to(parted, rows)
        return n
    left = 0
    for k in range(n):
        # Both are written, but only one is counted, so that no branch is mispredicted.
        r = rows[k]
        parted[left] = r
        spare[k - left] = r
        left += _bin(bins, column, r) <= threshold
    copy_to(parted[left:], spare[: n - left])
    return left


@kernel
def split_level(level, best, bins, rows, bounds, columns, thresholds):
    """Choose the splits of a level from the best of all parts of the columns, (parts, nodes, 3), and partition its documents.

    bins : (parts, n, 16); columns, thresholds : (2^D - 1,) int64 out: column (-1 without a split), and threshold
    """
    begin = 2**level - 1
    spare = np.empty(rows.shape[1] + 1, dtype=np.int64)
    for node in range(begin, 2 * begin + 1):
        gain, columns[node], thresholds[node] = 0.0, -1, 0
        for part in range(best.shape[0]):
            if best[part, node, 0] > gain:
                gain = best[part, node, 0]
                columns[node] = np.int64(best[part, node, 1])
                thresholds[node] = np.int64(best[part, node, 2])
        start, stop = bounds[node]
        own, parted = rows[level][start:stop], rows[level + 1][start:stop]
        middle = start + _part_documents(bins, columns[node], thresholds[node], own, parted, spare)
        bounds[2 * node + 1, 0], bounds[2 * node + 1, 1] = start, middle
        bounds[2 * node + 2, 0], bounds[2 * node + 2, 1] = middle, stop


@kernel
def fill_leaves(rows, bounds, gh, leaves):
    """leaves (2^D,) = G / (H + 50) over the documents of each; 0 for one without documents."""
    inner = leaves.shape[0] - 1
    for end in range(leaves.shape[0]):
        g, h = 0.0, 0.0
        for k in range(bounds[inner + end, 0], bounds[inner + end, 1]):
            r = rows[rows.shape[0] - 1, k]
            g += gh[r, 0]
            h += gh[r, 1]
        leaves[end] = g / (h + _SHRINKAGE)


@kernel
def add_tree(bins, columns, thresholds, leaves, keep, rate, scores):
    """scores[i] = keep scores[i] + rate leaf, for documents whose columns are stored in parts: bins (parts, n, 16)."""
    inner = columns.shape[0]
    for i in range(bins.shape[1]):
        node = 0
        while node < inner:
            right = columns[node] >= 0 and _bin(bins, columns[node], i) > thresholds[node]
            node = 2 * node + (2 if right else 1)
        scores[i] = keep * scores[i] + rate * leaves[node - inner]
