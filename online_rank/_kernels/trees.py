"""Streaming LambdaMART: bins, gradients of NDCG, histograms, splits and scores of trees.

A tree of depth D is complete: node k has the children 2 k + 1 and 2 k + 2, and the nodes of level l stand at 2^l - 1 and after.
A document goes right when its bin is above the node's threshold; a node that is not split sends all to the left.
"""

import math

import numpy as np

from online_rank._kernels._jit import kernel, leaf
from online_rank._kernels.order import sort_descending

# Added to sums of second derivatives, and to differences of scores.
_RIDGE = 0.01
# Scores that are farther behind the best one than this count as if they were so far: exp of it is no subnormal number.
_FARTHEST = 600.0


@kernel
def to_bins(X, lowest, step, n_bins, bins):
    """bins[i, j] = number of the points lowest, lowest + step, ... (n_bins - 1 of them) that are <= X[i, j].

    Returns False when a value is not finite.
    """
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
    """scores (n,): for one tree after the other, score = keep score + rate leaf, beginning at the scores given.

    bins : (n, d) uint8; features, thresholds : (T, 2^D - 1) int64; leaves : (T, 2^D)
    """
    inner = features.shape[1]
    for i in range(bins.shape[0]):
        row = bins[i]
        s = scores[i]
        for t in range(features.shape[0]):
            node = 0
            while node < inner:
                node = 2 * node + (2 if row[features[t, node]] > thresholds[t, node] else 1)
            s = keep * s + rate * leaves[t, node - inner]
        scores[i] = s


@kernel
def gradients(scores, y, weights, offsets, used, first, stop, cutoff, depth, discounts, gh):
    """First and second derivatives by LambdaMART (Burges 2010) for the queries first..stop of a window, as far as `used`.

    A pair counts |change of NDCG@cutoff when the two swap| if one of them is among the best `depth`, divided by 0.01 + the
    difference of their scores unless all scores of the query are equal; a query is scaled by log2(1 + S) / S, S twice the sum
    of its first derivatives (as LightGBM does).

    gh : (n, 2) out: how much each document should go up, and the second derivative
    """
    longest = 0
    for q in range(first, stop):
        longest = max(longest, offsets[q + 1] - offsets[q])
    keys, spare_keys = np.empty(longest), np.empty(longest)
    order, spare = np.empty(longest, dtype=np.int64), np.empty(longest, dtype=np.int64)
    gains, ideal, powers = np.empty(longest), np.empty(longest), np.empty(longest)
    for q in range(first, stop):
        a, m = offsets[q], offsets[q + 1] - offsets[q]
        gh[a : a + m] = 0.0
        if not used[q]:
            continue
        for i in range(m):
            keys[i] = scores[a + i]
            order[i] = i
            gains[i] = np.float64(1 << min(y[a + i], 60)) - 1.0
            ideal[i] = gains[i]
        sort_descending(keys[:m], order[:m], spare_keys, spare)
        ideal[:m].sort()
        best = 0.0
        for p in range(min(cutoff, m)):
            best += ideal[m - 1 - p] * discounts[p]
        if not best > 0.0:
            continue
        separate = keys[0] > keys[m - 1]
        # 1 / (1 + exp(s_up - s_down)) is the share of `down` in these powers; no two of them are 0.
        for i in range(m):
            powers[i] = math.exp(max(scores[a + i] - keys[0], -_FARTHEST))
        total = 0.0
        for p in range(min(depth, m)):
            i = order[p]
            for r in range(p + 1, m):
                j = order[r]
                if gains[i] == gains[j]:
                    continue
                delta = abs(gains[i] - gains[j]) * (discounts[p] - discounts[r])
                whole = best * (powers[i] + powers[j])
                if separate:
                    whole *= _RIDGE + keys[p] - keys[r]
                up, down = (i, j) if gains[i] > gains[j] else (j, i)
                share = powers[down] / (powers[i] + powers[j])
                slope = delta * powers[down] / whole
                bend = slope * (1.0 - share)
                gh[a + up, 0] += slope
                gh[a + down, 0] -= slope
                gh[a + up, 1] += bend
                gh[a + down, 1] += bend
                total += 2.0 * slope
        if total > 0.0:
            factor = weights[q] * math.log2(1.0 + total) / total
            for i in range(a, a + m):
                gh[i, 0] *= factor
                gh[i, 1] *= factor


@kernel
def gather(bins, columns, first, gathered):
    """gathered[c, first + i] = bins[i, columns[c]]: some columns of documents, one after the other."""
    for c in range(columns.shape[0]):
        column = gathered[c]
        j = columns[c]
        for i in range(bins.shape[0]):
            column[first + i] = bins[i, j]


@leaf
def _add_to_histograms(first, second, rows, gh, one, two):
    """Add gradients, second derivatives and number of the documents `rows` to histograms (B, 3) of two columns of bins.

    Two at once: what they share is read once, and additions to one need not wait for those to the other.
    """
    for k in range(rows.shape[0]):
        r = rows[k]
        g, h = gh[r, 0], gh[r, 1]
        b, c = first[r], second[r]
        one[b, 0] += g
        one[b, 1] += h
        one[b, 2] += 1.0
        two[c, 0] += g
        two[c, 1] += h
        two[c, 2] += 1.0


@leaf
def _add_to_histogram(bins, rows, gh, histogram):
    """As `_add_to_histograms`, for one column."""
    for k in range(rows.shape[0]):
        r = rows[k]
        b = bins[r]
        histogram[b, 0] += gh[r, 0]
        histogram[b, 1] += gh[r, 1]
        histogram[b, 2] += 1.0


@leaf
def _best_split(histogram, least):
    """Gain and bin of the best threshold of a histogram: G^2 / (H + 0.01) of both sides less that of all; gain 0 for none."""
    g, h, n = 0.0, 0.0, 0.0
    for b in range(histogram.shape[0]):
        g += histogram[b, 0]
        h += histogram[b, 1]
        n += histogram[b, 2]
    whole = g * g / (h + _RIDGE)
    best, where = 0.0, 0
    left_g, left_h, left_n = 0.0, 0.0, 0.0
    for b in range(histogram.shape[0] - 1):
        left_g += histogram[b, 0]
        left_h += histogram[b, 1]
        left_n += histogram[b, 2]
        if left_n < least or n - left_n < least:
            continue
        right_g = g - left_g
        # Differences may leave a sum of squares below zero by rounding.
        gain = left_g * left_g / (max(left_h, 0.0) + _RIDGE) + right_g * right_g / (max(h - left_h, 0.0) + _RIDGE) - whole
        if gain > best:
            best, where = gain, b
    return best, where


@kernel
def find_splits(level, first, stop, bins, rows, bounds, gh, least, histograms, best):
    """Histograms, and the best splits, of the columns first..stop for all nodes of a level.

    Of two siblings the one with fewer documents is counted; the other is the difference to their parent.

    bins : (c, n) uint8; rows : (D + 1, n) documents in the order of the nodes of each level; bounds : (nodes, 2) where nodes
    begin and end there; histograms : (2^D - 1, c, B, 3); best : (2^D - 1, 3) out: gain, column, threshold
    """
    begin = 2**level - 1
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
        own = rows[level, bounds[less, 0] : bounds[less, 1]]
        histograms[less, first:stop] = 0.0
        for c in range(first, stop - 1, 2):
            _add_to_histograms(bins[c], bins[c + 1], own, gh, histograms[less, c], histograms[less, c + 1])
        if (stop - first) % 2 == 1:
            _add_to_histogram(bins[stop - 1], own, gh, histograms[less, stop - 1])
        if level > 0:
            more = 2 * node + 1 - less
            for c in range(first, stop):
                for b in range(histograms.shape[2]):
                    for k in range(3):
                        histograms[more, c, b, k] = histograms[(node - 1) // 2, c, b, k] - histograms[less, c, b, k]
    for c in range(first, stop):
        for node in range(begin, 2 * begin + 1):
            if bounds[node, 1] - bounds[node, 0] >= 2 * least:
                gain, where = _best_split(histograms[node, c], least)
                if gain > best[node, 0]:
                    best[node, 0] = gain
                    best[node, 1] = c
                    best[node, 2] = where


@kernel
def split_level(level, best, bins, rows, bounds, columns, thresholds):
    """Choose the splits of a level from those of all parts of the columns, best (parts, nodes, 3), and part its documents.

    columns, thresholds : (2^D - 1,) int64 out: column of `bins` (-1 where there is no split), and threshold
    """
    begin = 2**level - 1
    for node in range(begin, 2 * begin + 1):
        gain, columns[node], thresholds[node] = 0.0, -1, 0
        for part in range(best.shape[0]):
            if best[part, node, 0] > gain:
                gain = best[part, node, 0]
                columns[node] = np.int64(best[part, node, 1])
                thresholds[node] = np.int64(best[part, node, 2])
        start, stop = bounds[node]
        middle = start
        for k in range(start, stop):
            r = rows[level, k]
            middle += columns[node] < 0 or bins[columns[node], r] <= thresholds[node]
        left, right = start, middle
        for k in range(start, stop):
            r = rows[level, k]
            if columns[node] < 0 or bins[columns[node], r] <= thresholds[node]:
                rows[level + 1, left] = r
                left += 1
            else:
                rows[level + 1, right] = r
                right += 1
        bounds[2 * node + 1, 0], bounds[2 * node + 1, 1] = start, middle
        bounds[2 * node + 2, 0], bounds[2 * node + 2, 1] = middle, stop


@kernel
def fill_leaves(rows, bounds, gh, leaves):
    """leaves (2^D,) = G / (H + 0.01) over the documents of each; 0 for one without documents."""
    inner = leaves.shape[0] - 1
    for end in range(leaves.shape[0]):
        g, h = 0.0, 0.0
        for k in range(bounds[inner + end, 0], bounds[inner + end, 1]):
            r = rows[rows.shape[0] - 1, k]
            g += gh[r, 0]
            h += gh[r, 1]
        leaves[end] = g / (h + _RIDGE)


@kernel
def add_tree(bins, columns, thresholds, leaves, keep, rate, scores):
    """scores[i] = keep scores[i] + rate leaf, for documents whose columns stand one after the other: bins (c, n)."""
    inner = columns.shape[0]
    for i in range(bins.shape[1]):
        node = 0
        while node < inner:
            right = columns[node] >= 0 and bins[columns[node], i] > thresholds[node]
            node = 2 * node + (2 if right else 1)
        scores[i] = keep * scores[i] + rate * leaves[node - inner]
