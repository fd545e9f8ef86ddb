"""A growing tree: its state, and its splits, level by level, from histograms of a sample of documents.

The sums in histograms are integers (`leaves.packed`), so their order does not matter. Of two siblings the one with fewer
documents is counted; the other is the rest of their parent.
"""

import math
from typing import NamedTuple

import numpy as np

from online_rank._kernels._jit import inner, leaf
from online_rank._kernels.leaves import COUNT as BITS
from online_rank._kernels.leaves import (
    FEATURES,
    N_BINS,
    N_LEAVES,
    N_SPLITS,
    NEVER,
    SHRINKAGE,
    THRESHOLDS,
    UNIT,
    WEIGHTS,
)
from online_rank._kernels.primitives import N_NODES, find_leaves
from online_rank._kernels.window import HELD, oldest

#: What a growing tree does next: nothing, copy documents, find splits, part documents, find leaves, score the window.
IDLE, COPY, SPLIT, PART, LEAVES, SCORE = range(6)
#: Integers of the state: what it does, how far it is, level and column, documents and columns of the sample, the number of the
#: query before which it looks, and the place of the new tree. Then the nodes of a level that have fewer documents on the right,
#: as bits, and how many documents are in the smaller one of two siblings.
PHASE, AT, LEVEL, COLUMN, SAMPLED, COLUMNS, END, PLACE, SMALLER, LISTED = range(7, 17)
#: Then the new splits, the splits of the tree that is replaced, and the new ones by the columns of the sample. Each node of a
#: level has its best column and threshold there. Features of the sample's columns follow, and a histogram of each of them for
#: each node of a level.
NEW = LISTED + 1
OLD, OF_SAMPLE = NEW + N_SPLITS, NEW + 2 * N_SPLITS
BEST, BEST_BIN = OF_SAMPLE + N_SPLITS, OF_SAMPLE + N_SPLITS + 8
#: Columns whose histograms are filled together, the bins of one for all nodes, and the integers of a column.
ABREAST, WIDE, _BITS_OF_BIN = 4, 8 * N_BINS, np.uint64(5)
CHOSEN, OF_COLUMN = BEST_BIN + 8, 1 + WIDE
#: Numbers of the state: operations to spend, a typical number of values of a query, documents learned, the heaviest weight, all
#: operations; gains of the nodes of a level; sums of leaves, and values of the tree that is replaced; the use of each feature.
HAVE, TYPICAL, LEARNED, HEAVIEST, SPENT = range(5)
GAINS, SUMS, OLD_VALUES = 8, 16, 16 + 2 * N_LEAVES
USES = OLD_VALUES + N_LEAVES
#: Documents of a step, and its additions to histograms, which then stay in the cache; and the least documents on either side.
STEP, _ADDITIONS, _LEAST = 1024, 16384, 20.0


class Growth(NamedTuple):
    """A growing tree, and those that have grown.

    splits (T, N_SPLITS) and trees (T, N_PARTS) : see `leaves`
    sample : (columns + 1, n) bins of the sampled documents; a multiple of `ABREAST` and one row for their nodes
    packed : (n,) their residuals and weights
    listed : (n,) int16, those in the smaller one of two siblings
    integers, numbers : of the state
    """

    splits: np.ndarray
    trees: np.ndarray
    sample: np.ndarray
    packed: np.ndarray
    listed: np.ndarray
    integers: np.ndarray
    numbers: np.ndarray


@leaf
def _place_of_column(growth, c):
    """Where the histograms (WIDE,) of a column of the sample begin among the integers."""
    return growth.integers.shape[0] - WIDE * (growth.sample.shape[0] - 1 - c)


@leaf
def _fill(sample, first, residuals, a, b, pairs, integers, place):
    """Add the documents from a to b, none of which was parted yet, to the histograms of four columns.

    They are counted by the pairs of bins of two columns, which takes half as many additions: pairs (2, N_BINS^2), workspace.
    """
    x0, x1, x2, x3 = sample[first, a:b], sample[first + 1, a:b], sample[first + 2, a:b], sample[first + 3, a:b]
    add, one, other = residuals[a:b], pairs[0], pairs[1]
    pairs[:] = 0
    for i in range(b - a):
        p = add[i]
        one[np.uint64(x0[i]) << _BITS_OF_BIN | np.uint64(x1[i])] += p
        other[np.uint64(x2[i]) << _BITS_OF_BIN | np.uint64(x3[i])] += p
    for k in range(2):
        at = place + 2 * k * WIDE
        _add_margins(pairs[k], integers[at : at + N_BINS], integers[at + WIDE : at + WIDE + N_BINS])


@leaf
def _add_margins(pairs, one, other):
    """Add the sums of pairs of bins (N_BINS^2,) to the histograms of both columns (N_BINS,)."""
    for x in range(N_BINS):
        row, total = pairs[N_BINS * x : N_BINS * (x + 1)], 0
        for y in range(N_BINS):
            total += row[y]
            other[y] += row[y]
        one[x] += total


@leaf
def _fill_listed(sample, first, nodes, residuals, listed, integers, place):
    """The same of some documents, by their numbers."""
    x0, x1, x2, x3 = sample[first], sample[first + 1], sample[first + 2], sample[first + 3]
    h0, h1 = integers[place : place + WIDE], integers[place + WIDE : place + 2 * WIDE]
    h2, h3 = integers[place + 2 * WIDE : place + 3 * WIDE], integers[place + 3 * WIDE : place + 4 * WIDE]
    for k in range(listed.shape[0]):
        i = np.uint64(listed[k])
        v, p = np.uint64(nodes[i]) << np.uint64(5), residuals[i]
        h0[v | np.uint64(x0[i])] += p
        h1[v | np.uint64(x1[i])] += p
        h2[v | np.uint64(x2[i])] += p
        h3[v | np.uint64(x3[i])] += p


@leaf
def _give_to_larger(own, smaller, n_nodes):
    """Turn the histograms `own` (WIDE,) of a level into histograms of the next one, with `n_nodes` nodes, before it is counted.

    The larger one of each two siblings has all of its parent, and the smaller one, which the bits of `smaller` tell, nothing.
    """
    for v in range(n_nodes // 2 - 1, -1, -1):
        right = (smaller >> v) & 1
        less, more, parent = N_BINS * (2 * v + right), N_BINS * (2 * v + 1 - right), N_BINS * v
        for b in range(N_BINS):
            # The first node's own place is the one of its child on the left.
            own[more + b], own[less + b] = own[parent + b], 0


@leaf
def _take_from_larger(own, smaller, n_nodes):
    """Take from the larger ones what the smaller ones have got."""
    for v in range(n_nodes // 2):
        right = (smaller >> v) & 1
        less, more = N_BINS * (2 * v + right), N_BINS * (2 * v + 1 - right)
        for b in range(N_BINS):
            own[more + b] -= own[less + b]


@leaf
def _begin_level(growth):
    """Prepare the histograms of all columns for the documents of a level. Returns the cost."""
    integers, n_nodes = growth.integers, 1 << growth.integers[LEVEL]
    for v in range(8):
        integers[BEST + v], integers[BEST_BIN + v], growth.numbers[GAINS + v] = -1, 0, 0.0
    for c in range(growth.sample.shape[0] - 1):
        place = _place_of_column(growth, c)
        if n_nodes == 1:
            for b in range(N_BINS):
                integers[place + b] = 0
        else:
            _give_to_larger(integers[place : place + WIDE], integers[SMALLER], n_nodes)
    return 20.0 * n_nodes * integers[COLUMNS]


@inner
def split(growth):
    """Add some documents to the histograms of columns; after the last one look for the best splits by four of them."""
    integers = growth.integers
    cost = _begin_level(growth) if integers[AT] == 0 and integers[COLUMN] == 0 else 0.0
    if integers[AT] == (integers[SAMPLED] if integers[LEVEL] == 0 else integers[LISTED]):
        return cost + _find_splits(growth)
    return cost + (_count_sample(growth) if integers[LEVEL] == 0 else _count_listed(growth))


@inner
def _count_sample(growth):
    """Add many documents of the sample to the histograms of four columns, then of the next four. Returns the cost."""
    integers, first, c = growth.integers, growth.integers[AT], growth.integers[COLUMN]
    stop = min(first + 8 * STEP, integers[SAMPLED])
    pairs = np.empty((2, N_BINS * N_BINS), np.int64)
    _fill(growth.sample, c, growth.packed, first, stop, pairs, integers, _place_of_column(growth, c))
    integers[AT] = stop
    if stop == integers[SAMPLED] and c + ABREAST < integers[COLUMNS]:
        integers[AT], integers[COLUMN] = 0, c + ABREAST
    elif stop == integers[SAMPLED]:
        integers[COLUMN] = 0
    return 500.0 + 0.2 * ABREAST * (stop - first)


@leaf
def _count_listed(growth):
    """Add some documents of the smaller siblings to the histograms of all columns. Returns the cost."""
    integers, first, n = growth.integers, growth.integers[AT], growth.integers[COLUMNS]
    stop = min(first + max(_ADDITIONS // n, 64), integers[LISTED])
    nodes, listed = growth.sample[growth.sample.shape[0] - 1], growth.listed[first:stop]
    for c in range(0, n, ABREAST):
        _fill_listed(growth.sample, c, nodes, growth.packed, listed, integers, _place_of_column(growth, c))
    integers[AT] = stop
    return (30.0 + 0.5 * ABREAST * (stop - first)) * ((n + ABREAST - 1) // ABREAST)


@inner
def _find_splits(growth):
    """Look for the best splits by four columns whose documents are counted. Returns the cost."""
    integers, n_nodes, first = growth.integers, 1 << growth.integers[LEVEL], growth.integers[COLUMN]
    share, sums = max(0.25, 1.0 * integers[SAMPLED] / max(integers[HELD], 1)), np.empty((3, N_BINS))
    for c in range(first, min(first + ABREAST, integers[COLUMNS])):
        place = _place_of_column(growth, c)
        if n_nodes > 1:
            _take_from_larger(integers[place : place + WIDE], integers[SMALLER], n_nodes)
        for v in range(n_nodes):
            own = integers[place + N_BINS * v : place + N_BINS * (v + 1)]
            gain, where = best_split(own, SHRINKAGE * share, _LEAST * share, sums)
            if gain > growth.numbers[GAINS + v]:
                growth.numbers[GAINS + v], integers[BEST + v], integers[BEST_BIN + v] = gain, c, where
    integers[COLUMN] += ABREAST
    if integers[COLUMN] >= integers[COLUMNS]:
        integers[AT], integers[COLUMN], integers[PHASE] = 0, 0, PART
    return 100.0 * ABREAST * n_nodes


@leaf
def best_split(histogram, shrinkage, least, sums):
    """Gain and bin of the best threshold of a histogram (N_BINS,) of packed sums: G^2 / (n + shrinkage) of both sides less the
    same of all; gain 0 for none. Both sides have at least `least` documents.

    sums : (3, N_BINS) workspace
    """
    left_g, left_n, gains, g, n = sums[0], sums[1], sums[2], 0.0, 0.0
    for b in range(N_BINS):
        count = histogram[b] & BITS
        n += count * (1.0 / WEIGHTS)
        g += ((histogram[b] - count) >> 32) * (1.0 / (UNIT * WEIGHTS))
        left_g[b], left_n[b] = g, n
    best, where = 0.0, 0
    if n < 2.0 * least:
        return best, where
    whole = g * g / (n + shrinkage)
    for b in range(N_BINS):
        right, rest = g - left_g[b], n - left_n[b]
        gain = left_g[b] * left_g[b] / (left_n[b] + shrinkage) + right * right / (rest + shrinkage) - whole
        gains[b] = gain if left_n[b] >= least and rest >= least else 0.0
    for b in range(N_BINS - 1):
        if gains[b] > best:
            best, where = gains[b], b
    return best, where


@leaf
def part(growth):
    """Send some documents to the nodes of the next level, and list those in the smaller siblings; first note the splits."""
    integers, level, first = growth.integers, growth.integers[LEVEL], growth.integers[AT]
    if first == 0:
        _note_splits(growth, level)
        integers[LISTED] = 0
    if level == 3:
        # What follows looks at the documents of the window.
        integers[LEVEL], integers[PHASE], integers[AT] = 4, LEAVES, oldest(integers)
        growth.numbers[SUMS : SUMS + 2 * N_LEAVES] = 0.0
        return 200.0
    nodes, stop = growth.sample[growth.sample.shape[0] - 1], min(first + 4 * STEP, integers[SAMPLED])
    own, listed, n, smaller = nodes[first:stop], growth.listed, integers[LISTED], integers[SMALLER]
    find_leaves(growth.sample, first, integers[OF_SAMPLE : OF_SAMPLE + N_SPLITS], own)
    # Nodes of later levels do not split yet: all of their documents are in the leaf on the left.
    for i in range(stop - first):
        own[i] >>= np.uint8(3 - level)
    for i in range(stop - first):
        node = np.int64(own[i])
        # Written in any case, but counted only if the node is the smaller one.
        listed[n] = np.int16(first + i)
        n += 1 - (((smaller >> (node >> 1)) ^ node) & 1)
    integers[LISTED], integers[AT] = n, stop
    if stop == integers[SAMPLED]:
        integers[AT], integers[LEVEL], integers[PHASE] = 0, level + 1, SPLIT
    return 200.0 + 1.5 * (stop - first)


@leaf
def _note_splits(growth, level):
    """Note the best splits of the nodes of a level, and on which side of each there is less."""
    integers = growth.integers
    integers[SMALLER] = 0
    for node in range(N_NODES if level == 0 else 0):
        integers[OF_SAMPLE + FEATURES + node], integers[OF_SAMPLE + THRESHOLDS + node] = 0, NEVER
        integers[NEW + FEATURES + node], integers[NEW + THRESHOLDS + node] = 0, NEVER
    share = max(0.25, 1.0 * integers[SAMPLED] / max(integers[HELD], 1))
    for v in range(1 << level):
        node, c, where = (1 << level) - 1 + v, integers[BEST + v], integers[BEST_BIN + v]
        if c < 0:
            integers[SMALLER] |= 1 << v
            continue
        feature, left, right = integers[CHOSEN + c], 0, 0
        integers[OF_SAMPLE + FEATURES + node], integers[OF_SAMPLE + THRESHOLDS + node] = c, where
        integers[NEW + FEATURES + node], integers[NEW + THRESHOLDS + node] = feature, where
        growth.numbers[USES + feature] += math.sqrt(growth.numbers[GAINS + v] / share)
        place = _place_of_column(growth, c) + N_BINS * v
        for b in range(N_BINS):
            count = integers[place + b] & BITS
            if b <= where:
                left += count
            else:
                right += count
        integers[SMALLER] |= (1 if right < left else 0) << v
