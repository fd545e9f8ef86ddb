"""The growth of a tree in small steps, from a window of queries, and the budget of steps.

A tree is grown from a sample of the queries of the window and a quarter of the columns: its bins are copied, level by level the
best splits are found in histograms, and the values of its leaves come from the whole window. Then all other trees fade a
little, and the window learns what its documents get now. Each of these takes many queries: a step looks at some thousand
documents, and all that the next one needs is in plain arrays. Operations are counted, of about a nanosecond each, never timed.

A residual is t - (s - mean of s in the query), t the standardised grade and s the score by the trees so far. The sums in
histograms are integers (`leaves.packed`), so their order does not matter.
"""

from typing import NamedTuple

import numpy as np

from online_rank._kernels import leaves as tree
from online_rank._kernels._jit import inner, leaf
from online_rank._kernels.arrays import copy_to
from online_rank._kernels.hashing import uniform
from online_rank._kernels.leaves import COUNT as BITS
from online_rank._kernels.leaves import (
    FEATURES,
    N_BINS,
    N_LEAVES,
    N_NODES,
    N_SPLITS,
    NEVER,
    SHRINKAGE,
    THRESHOLDS,
    UNIT,
    WEIGHTS,
    packed,
    unit_of,
)
from online_rank._kernels.vector_math import log
from online_rank._kernels.window import (
    COUNT,
    GIVEN,
    HELD,
    N_GROWN,
    N_TREES,
    PUSHED,
    SIZE,
    START,
    TARGET,
    WEIGHT,
    oldest,
    place_of,
)

#: What a growing tree does next: nothing, copy documents, find splits, part documents, find leaves, score the window.
IDLE, COPY, SPLIT, PART, LEAVES, SCORE = range(6)
#: Integers of the state: what it does, how far it is, level and column, documents and columns of the sample, the number of the
#: query before which it looks, and the place of the new tree.
PHASE, AT, LEVEL, COLUMN, SAMPLED, COLUMNS, END, PLACE = range(7, 15)
#: Then the new splits, the splits of the tree that is replaced, and the new ones by the columns of the sample. Each node of a
#: level has its best column and threshold there, and a histogram for some columns at a time. The last are the features of the
#: sample's columns.
NEW, OLD, OF_SAMPLE = 16, 16 + N_SPLITS, 16 + 2 * N_SPLITS
BEST, BEST_BIN = OF_SAMPLE + N_SPLITS, OF_SAMPLE + N_SPLITS + 8
HISTOGRAMS = BEST_BIN + 8
#: Columns whose histograms are filled together, and the bins of one.
ABREAST, _WIDE = 4, 8 * N_BINS
CHOSEN = HISTOGRAMS + ABREAST * _WIDE
#: Numbers of the state: operations to spend, a typical number of values of a query, documents learned, the heaviest weight, all
#: operations; gains of the nodes of a level; sums of leaves, and values of the tree that is replaced; the use of each feature.
HAVE, TYPICAL, LEARNED, HEAVIEST, SPENT = range(5)
GAINS, SUMS, OLD_VALUES = 8, 16, 16 + 2 * N_LEAVES
USES = OLD_VALUES + N_LEAVES
#: Queries in the window before the first tree.
_FIRST = 8
#: Share of the queries in a sample, and of draws of columns that are of any column.
_SAMPLED, _ANY = 0.8, 0.15
#: Documents of a step; queries that come into a sample together, once the window has many documents.
_STEP, _TOGETHER, _MANY = 1024, 16, 4096
#: By how much a use of a column counts less after each tree; how much a new tree adds, and the least documents on either side.
_FORGETS, _RATE, _LEAST = 0.995, 0.2, 20.0
#: Operations that are put by for later queries: how many times what a typical query earns.
_PUT_BY = 16.0


class Growth(NamedTuple):
    """A growing tree, and those that have grown.

    splits (T, N_SPLITS) and trees (T, N_PARTS) : see `leaves`
    sample : (columns + 1, n) bins of the sampled documents; a multiple of `ABREAST` and one row for their nodes
    packed : (n,) their residuals and weights
    integers, numbers : of the state
    """

    splits: np.ndarray
    trees: np.ndarray
    sample: np.ndarray
    packed: np.ndarray
    integers: np.ndarray
    numbers: np.ndarray


class Plan(NamedTuple):
    """How many trees there may be, by how much they fade with each new one, the seed of draws, and documents of a sample.

    Growth waits for room: for as large a sample, and for one more tree.
    """

    most: int
    keep: float
    seed: int
    room: int


@leaf
def earn(numbers, n_values, credit):
    """Let a query of some values pay for growth; returns the most operations that it may take.

    No query takes more than a query of the typical size may: the running median of sizes.
    """
    typical = numbers[TYPICAL]
    if typical <= 0.0:
        typical = n_values
    typical *= 1.03125 if n_values > typical else 0.96875 if n_values < typical else 1.0
    numbers[TYPICAL] = typical
    most = credit * typical
    numbers[HAVE] = min(numbers[HAVE] + credit * n_values, _PUT_BY * most)
    return most


@inner
def grow(window, growth, plan, signs, most):
    """Take steps while there is something to spend, at most about `most` operations.

    signs : (d,) not 0 for features that no tree may split by
    """
    integers, numbers, spent = growth.integers, growth.numbers, 0.0
    while numbers[HAVE] > 0.0 and spent < most:
        phase = integers[PHASE]
        if phase == IDLE:
            full = integers[N_TREES] == growth.trees.shape[0] and integers[N_TREES] < plan.most
            if integers[COUNT] < _FIRST or full or growth.sample.shape[1] < plan.room:
                break
            cost = _begin(window, growth, plan, signs)
            if cost == 0.0:
                break
        elif phase == COPY:
            cost = _copy(window, growth, plan)
        elif phase == SPLIT:
            cost = _split(window, growth)
        elif phase == PART:
            cost = _part(growth)
        elif phase == LEAVES:
            cost = _find_leaves(window, growth, plan)
        else:
            cost = _score(window, growth, plan)
        numbers[HAVE] -= cost
        numbers[SPENT] += cost
        spent += cost


@inner
def _begin(window, growth, plan, signs):
    """Draw the columns of a tree. Returns 0 without any."""
    integers, numbers, d = growth.integers, growth.numbers, window.bins.shape[0]
    uses, total, n = numbers[USES : USES + d], 0.0, 0
    for j in range(d):
        total += uses[j] if signs[j] == 0 else 0.0
        n += 1 if signs[j] == 0 else 0
    n = min(n, growth.sample.shape[0] - 1)
    if n == 0 or growth.sample.shape[1] == 0:
        return 0.0
    keys, first = np.empty(d), integers[N_GROWN] * d
    for j in range(d):
        share = _ANY / d + (1.0 - _ANY) * (uses[j] / total if total > 0.0 else 1.0 / d)
        keys[j] = -log(1.0 - uniform(np.uint64(plan.seed), first + j)) / share if signs[j] == 0 else np.inf
        uses[j] *= _FORGETS
    order = np.argsort(keys, kind="mergesort")
    for c in range(n):
        integers[CHOSEN + c] = order[c]
    integers[PHASE], integers[AT], integers[END] = COPY, integers[PUSHED], integers[PUSHED]
    integers[COLUMNS], integers[SAMPLED], integers[LEVEL], integers[COLUMN] = n, 0, 0, 0
    return 500.0 + 20.0 * d


@leaf
def _mean_given(window, at, m):
    """The mean score of the documents of a query."""
    total, given = 0.0, window.documents[GIVEN]
    for i in range(at, at + m):
        total += np.float64(given[i])
    return total / m


@leaf
def _copy(window, growth, plan):
    """Copy the bins of some queries of the sample, from the last one on, and their residuals."""
    integers, numbers, given, target = growth.integers, growth.numbers, window.documents[GIVEN], window.documents[TARGET]
    room, held, n = growth.sample.shape[1], integers[HELD], integers[COLUMNS]
    share, together = min(_SAMPLED, 1.0 * room / max(held, 1)), 1 if held < _MANY else _TOGETHER
    seed, shift, cost = np.uint64(plan.seed + 1), integers[N_GROWN] * 1048576, 0.0
    while cost < _STEP * 3.0:
        number, to = integers[AT] - 1, integers[SAMPLED]
        if number < oldest(integers):
            integers[PHASE], integers[AT] = SPLIT, 0
            break
        integers[AT] = number
        cost += 2.0
        if uniform(seed, shift + number // together) >= share:
            continue
        row = window.queries[place_of(integers, window.queries, number)]
        at, m, weight = np.int64(row[START]), np.int64(row[SIZE]), row[WEIGHT]
        if weight == 0.0 or to + m > room:
            continue
        for c in range(n):
            copy_to(growth.sample[c, to : to + m], window.bins[integers[CHOSEN + c], at : at + m])
        mean, unit = _mean_given(window, at, m), unit_of(weight, numbers[HEAVIEST])
        nodes = growth.sample[growth.sample.shape[0] - 1]
        for i in range(m):
            growth.packed[to + i] = packed(target[at + i] - (given[at + i] - mean), unit)
            nodes[to + i] = 0
        integers[SAMPLED] = to + m
        cost += (10.0 + 0.2 * m) * n + 4.0 * m
    return cost


@leaf
def _fill(sample, first, nodes, residuals, a, b, histograms):
    """Add the documents from a to b to the histograms (4, _WIDE) of four columns: sums that do not wait for one another."""
    x0, x1, x2, x3 = sample[first, a:b], sample[first + 1, a:b], sample[first + 2, a:b], sample[first + 3, a:b]
    h0, h1, h2, h3 = histograms[0], histograms[1], histograms[2], histograms[3]
    node, add = nodes[a:b], residuals[a:b]
    for i in range(b - a):
        v, p = np.uint64(node[i]) << np.uint64(5), add[i]
        h0[v | np.uint64(x0[i])] += p
        h1[v | np.uint64(x1[i])] += p
        h2[v | np.uint64(x2[i])] += p
        h3[v | np.uint64(x3[i])] += p


@inner
def _split(window, growth):
    """Add some documents to the histograms of four columns; after the last one look for their best splits."""
    integers, n_nodes, first = growth.integers, 1 << growth.integers[LEVEL], growth.integers[AT]
    histograms = integers[HISTOGRAMS:CHOSEN].reshape((ABREAST, _WIDE))
    if first == 0:
        histograms[:] = 0
        if integers[COLUMN] == 0:
            integers[BEST : BEST + 8], integers[BEST_BIN : BEST_BIN + 8] = -1, 0
            growth.numbers[GAINS : GAINS + 8] = 0.0
    stop = min(first + 2 * _STEP, integers[SAMPLED])
    nodes = growth.sample[growth.sample.shape[0] - 1]
    _fill(growth.sample, integers[COLUMN], nodes, growth.packed, first, stop, histograms)
    integers[AT] = stop
    cost = 50.0 + 0.4 * ABREAST * (stop - first)
    if stop < integers[SAMPLED]:
        return cost
    share, sums = max(0.25, 1.0 * integers[SAMPLED] / max(integers[HELD], 1)), np.empty((3, N_BINS))
    for c in range(min(ABREAST, integers[COLUMNS] - integers[COLUMN])):
        for v in range(n_nodes):
            own = histograms[c, N_BINS * v : N_BINS * (v + 1)]
            gain, where = best_split(own, SHRINKAGE * share, _LEAST * share, sums)
            if gain > growth.numbers[GAINS + v]:
                growth.numbers[GAINS + v], integers[BEST + v], integers[BEST_BIN + v] = gain, integers[COLUMN] + c, where
    integers[AT] = 0
    integers[COLUMN] += ABREAST
    if integers[COLUMN] >= integers[COLUMNS]:
        integers[COLUMN], integers[PHASE] = 0, PART
    return cost + 100.0 * ABREAST * n_nodes


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
def _part(growth):
    """Send some documents to the nodes of the next level; first note the splits of this level."""
    integers, level, first = growth.integers, growth.integers[LEVEL], growth.integers[AT]
    if first == 0:
        _note_splits(growth, level)
    nodes, stop = growth.sample[growth.sample.shape[0] - 1], min(first + 4 * _STEP, integers[SAMPLED])
    own = nodes[first:stop]
    tree.find_leaves_within(growth.sample, first, stop, integers[OF_SAMPLE : OF_SAMPLE + N_SPLITS], own)
    # Nodes of later levels do not split yet: all of their documents are in the leaf on the left.
    for i in range(stop - first):
        own[i] >>= np.uint8(3 - level)
    integers[AT] = stop
    if stop == integers[SAMPLED]:
        integers[AT] = 0
        integers[LEVEL] += 1
        integers[PHASE] = SPLIT
        if integers[LEVEL] == 4:
            integers[PHASE], integers[AT] = LEAVES, oldest(integers)
            growth.numbers[SUMS : SUMS + 2 * N_LEAVES] = 0.0
    return 200.0 + 0.5 * (stop - first)


@leaf
def _note_splits(growth, level):
    """Note the best splits of the nodes of a level."""
    integers = growth.integers
    for node in range(N_NODES if level == 0 else 0):
        integers[OF_SAMPLE + FEATURES + node], integers[OF_SAMPLE + THRESHOLDS + node] = 0, NEVER
        integers[NEW + FEATURES + node], integers[NEW + THRESHOLDS + node] = 0, NEVER
    for v in range(1 << level):
        node, c = (1 << level) - 1 + v, integers[BEST + v]
        if c >= 0:
            feature = integers[CHOSEN + c]
            integers[OF_SAMPLE + FEATURES + node], integers[OF_SAMPLE + THRESHOLDS + node] = c, integers[BEST_BIN + v]
            integers[NEW + FEATURES + node], integers[NEW + THRESHOLDS + node] = feature, integers[BEST_BIN + v]
            growth.numbers[USES + feature] += 1.0


@inner
def _find_leaves(window, growth, plan):
    """Sum the residuals of some queries of the window in the leaves of the new tree; after the last one it joins the others."""
    integers, numbers, given, target = growth.integers, growth.numbers, window.documents[GIVEN], window.documents[TARGET]
    sums, splits, cost = numbers[SUMS : SUMS + 2 * N_LEAVES].reshape((2, N_LEAVES)), integers[NEW : NEW + N_SPLITS], 0.0
    integers[AT] = max(integers[AT], oldest(integers))
    while cost < _STEP * 3.0 and integers[AT] < integers[PUSHED]:
        row = window.queries[place_of(integers, window.queries, integers[AT])]
        at, m, weight = np.int64(row[START]), np.int64(row[SIZE]), row[WEIGHT] / max(numbers[HEAVIEST], 1.0)
        integers[AT] += 1
        if weight > 0.0:
            found, rest = np.empty(m, np.uint8), np.empty(m)
            tree.find_leaves_within(window.bins, at, at + m, splits, found)
            mean = _mean_given(window, at, m)
            for i in range(m):
                rest[i] = target[at + i] - (given[at + i] - mean)
            tree.sum_by_leaf(found, rest, weight, sums)
        cost += 150.0 + 3.0 * m
    if integers[AT] == integers[PUSHED]:
        _join(growth, plan)
        integers[PHASE], integers[END], integers[AT] = SCORE, integers[PUSHED], oldest(integers)
        cost += 1.0 * N_LEAVES * integers[N_TREES]
    return cost


@leaf
def _join(growth, plan):
    """Let the new tree join the others, all of which fade; if there are as many as there may be it replaces the oldest."""
    integers, numbers, trees, n = growth.integers, growth.numbers, growth.trees, growth.integers[N_TREES]
    place = n
    if n >= plan.most:
        place = 0
        for k in range(n):
            place = k if trees[k, tree.BORN] < trees[place, tree.BORN] else place
    replaces = place < n
    for i in range(N_SPLITS):
        integers[OLD + i] = growth.splits[place, i] if replaces else (NEVER if i >= THRESHOLDS else 0)
    for v in range(N_LEAVES):
        numbers[OLD_VALUES + v] = trees[place, v] if replaces else 0.0
    for k in range(n):
        for v in range(tree.SEEN):
            trees[k, v] *= plan.keep
    for i in range(N_SPLITS):
        growth.splits[place, i] = integers[NEW + i]
    for v in range(N_LEAVES):
        weight = numbers[SUMS + N_LEAVES + v]
        value = _RATE * numbers[SUMS + v] / (weight + SHRINKAGE)
        trees[place, tree.VALUES + v] = trees[place, tree.MEANS + v] = value
        trees[place, tree.SEEN + v] = weight
    trees[place, tree.AGE], trees[place, tree.BORN] = 1.0, integers[N_GROWN]
    integers[PLACE] = place
    integers[N_GROWN] += 1
    integers[N_TREES] = max(n, place + 1)


@inner
def _score(window, growth, plan):
    """Tell some queries of the window, of those before the new tree, what their documents get now."""
    integers, numbers, given, cost = growth.integers, growth.numbers, window.documents[GIVEN], 0.0
    values, old, replaces = growth.integers[NEW : NEW + N_SPLITS], growth.integers[OLD : OLD + N_SPLITS], False
    for v in range(N_LEAVES):
        replaces |= numbers[OLD_VALUES + v] != 0.0
    before = numbers[OLD_VALUES : OLD_VALUES + N_LEAVES]
    integers[AT] = max(integers[AT], oldest(integers))
    while cost < _STEP * 3.0 and integers[AT] < integers[END]:
        row = window.queries[place_of(integers, window.queries, integers[AT])]
        at, m = np.int64(row[START]), np.int64(row[SIZE])
        integers[AT] += 1
        found = np.empty(m, np.uint8)
        if replaces:
            tree.find_leaves_within(window.bins, at, at + m, old, found)
            for i in range(m):
                given[at + i] -= np.float32(before[found[i]])
        tree.find_leaves_within(window.bins, at, at + m, values, found)
        new = numbers[SUMS : SUMS + 2 * N_LEAVES]
        for i in range(m):
            # The values as they were when the tree joined.
            value = _RATE * new[found[i]] / (new[N_LEAVES + found[i]] + SHRINKAGE)
            given[at + i] = np.float32(plan.keep * given[at + i] + value)
        cost += (200.0 if replaces else 100.0) + 2.0 * m
    if integers[AT] >= integers[END]:
        integers[PHASE] = IDLE
    return max(cost, 1.0)
