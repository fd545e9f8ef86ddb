"""The growth of a tree in small steps, from a window of queries, and the budget of steps.

A tree is grown from a sample of the queries of the window and a third of the columns: its bins are copied, level by level the
best splits are found in histograms, and the values of its leaves come from the whole window. Of two siblings the one with fewer
documents is counted; the other is the rest of their parent. Then all other trees fade a little, and the window learns what its
documents get now. Each of these takes many queries: a step looks at some thousand documents, and all that the next one needs is
in plain arrays. Operations are counted, of about a nanosecond each, never timed.

A residual is t - (s - mean of s in the query), t the standardised grade and s the score by the trees so far. The sums in
histograms are integers (`leaves.packed`), so their order does not matter.
"""

import math
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
from online_rank._kernels.order import sort_descending
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
#: query before which it looks, the place of the new tree, which nodes of a level have fewer documents on the right, as bits, and
#: how many documents are in the smaller one of two siblings.
PHASE, AT, LEVEL, COLUMN, SAMPLED, COLUMNS, END, PLACE, SMALLER, LISTED = range(7, 17)
#: Then the new splits, the splits of the tree that is replaced, and the new ones by the columns of the sample. Each node of a
#: level has its best column and threshold there, and a histogram for some columns at a time. Features of the sample's columns
#: follow, and a histogram of each of them for each node of a level.
NEW = LISTED + 1
OLD, OF_SAMPLE = NEW + N_SPLITS, NEW + 2 * N_SPLITS
BEST, BEST_BIN = OF_SAMPLE + N_SPLITS, OF_SAMPLE + N_SPLITS + 8
HISTOGRAMS = BEST_BIN + 8
#: Columns whose histograms are filled together, the bins of one for all nodes, and the integers of a column.
ABREAST, WIDE = 4, 8 * N_BINS
CHOSEN, OF_COLUMN = HISTOGRAMS + ABREAST * WIDE, 1 + WIDE
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
#: By how much gains of a column count less after each tree; how much a new tree adds, and the least documents on either side.
_FORGETS, _RATE, _LEAST = 0.98, 0.2, 20.0
#: Operations that are put by for later queries: how many times what a typical query earns.
_PUT_BY = 16.0


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
    keys, order, first = np.empty(d), np.arange(d), integers[N_GROWN] * d
    for j in range(d):
        share = _ANY / d + (1.0 - _ANY) * (uses[j] / total if total > 0.0 else 1.0 / d)
        keys[j] = log(1.0 - uniform(np.uint64(plan.seed), first + j)) / share if signs[j] == 0 else -np.inf
        uses[j] *= _FORGETS
    sort_descending(keys, order, np.empty(d), np.empty(d, np.int64))
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
def _side_by_side(window, number, stop, most):
    """Queries from a number on, before `stop`, that lie side by side in the window: as many as have up to `most` documents.

    Returns the number after them, where their documents begin, and where these end. There is always one query.
    """
    queries, at = window.queries, place_of(window.integers, window.queries, number)
    begin = np.int64(queries[at, START])
    end = begin + np.int64(queries[at, SIZE])
    number += 1
    while number < stop:
        at = at + 1 if at + 1 < queries.shape[0] else 0
        m = np.int64(queries[at, SIZE])
        if np.int64(queries[at, START]) != end or end + m - begin > most:
            break
        end += m
        number += 1
    return number, begin, end


@leaf
def _copy(window, growth, plan):
    """Copy the bins of some queries of the sample, from the last ones on, and their residuals."""
    integers, room, held = growth.integers, growth.sample.shape[1], growth.integers[HELD]
    share, together = min(_SAMPLED, 1.0 * room / max(held, 1)), 1 if held < _MANY else _TOGETHER
    seed, shift, cost = np.uint64(plan.seed + 1), integers[N_GROWN] * 1048576, 0.0
    while cost < _STEP * 3.0:
        stop, least = integers[AT], oldest(integers)
        if stop <= least:
            integers[PHASE], integers[AT] = SPLIT, 0
            break
        group = (stop - 1) // together
        integers[AT] = max(group * together, least)
        cost += 2.0
        if uniform(seed, shift + group) >= share:
            continue
        number = integers[AT]
        while number < stop:
            first = number
            number, begin, end = _side_by_side(window, first, stop, room - integers[SAMPLED])
            if end - begin <= room - integers[SAMPLED]:
                cost += _copy_documents(window, growth, first, number, begin, end)
    return cost


@leaf
def _copy_documents(window, growth, first, stop, begin, end):
    """Copy the documents from `begin` to `end`, which are of the queries from `first` to `stop`. Returns the cost."""
    integers, given, target = growth.integers, window.documents[GIVEN], window.documents[TARGET]
    n, to, at = integers[COLUMNS], integers[SAMPLED], place_of(integers, window.queries, first)
    for c in range(n):
        copy_to(growth.sample[c, to : to + end - begin], window.bins[integers[CHOSEN + c], begin:end])
    nodes = growth.sample[growth.sample.shape[0] - 1]
    for i in range(to, to + end - begin):
        nodes[i] = 0
    for _ in range(stop - first):
        row = window.queries[at]
        a, m, weight = np.int64(row[START]), np.int64(row[SIZE]), row[WEIGHT]
        mean, unit = _mean_given(window, a, m), unit_of(weight, growth.numbers[HEAVIEST])
        for i in range(m):
            # A query without weight counts nothing.
            whole = packed(target[a + i] - (given[a + i] - mean), unit) if weight > 0.0 else 0
            growth.packed[to + a - begin + i] = whole
        at = at + 1 if at + 1 < window.queries.shape[0] else 0
    integers[SAMPLED] = to + end - begin
    return 20.0 * (stop - first) + (5.0 + 0.15 * (end - begin)) * n + 4.0 * (end - begin)


@leaf
def _fill(sample, first, nodes, residuals, a, b, histograms):
    """Add the documents from a to b to the histograms (4, WIDE) of four columns: sums that do not wait for one another."""
    x0, x1, x2, x3 = sample[first, a:b], sample[first + 1, a:b], sample[first + 2, a:b], sample[first + 3, a:b]
    h0, h1, h2, h3 = histograms[0], histograms[1], histograms[2], histograms[3]
    node, add = nodes[a:b], residuals[a:b]
    for i in range(b - a):
        v, p = np.uint64(node[i]) << np.uint64(5), add[i]
        h0[v | np.uint64(x0[i])] += p
        h1[v | np.uint64(x1[i])] += p
        h2[v | np.uint64(x2[i])] += p
        h3[v | np.uint64(x3[i])] += p


@leaf
def _fill_listed(sample, first, nodes, residuals, listed, histograms):
    """The same of some documents, by their numbers."""
    x0, x1, x2, x3 = sample[first], sample[first + 1], sample[first + 2], sample[first + 3]
    h0, h1, h2, h3 = histograms[0], histograms[1], histograms[2], histograms[3]
    for k in range(listed.shape[0]):
        i = np.uint64(listed[k])
        v, p = np.uint64(nodes[i]) << np.uint64(5), residuals[i]
        h0[v | np.uint64(x0[i])] += p
        h1[v | np.uint64(x1[i])] += p
        h2[v | np.uint64(x2[i])] += p
        h3[v | np.uint64(x3[i])] += p


@leaf
def _place_of_column(growth, c):
    """Where the histograms (WIDE,) of a column of the sample begin among the integers."""
    return growth.integers.shape[0] - WIDE * (growth.sample.shape[0] - 1 - c)


@leaf
def _complete(own, smaller, n_nodes, small):
    """Let the histograms `own` (WIDE,) of a level become those of the next one, with `n_nodes` nodes.

    small : (WIDE,) of the smaller one of each two siblings, which the bits of `smaller` tell; the other is the rest
    """
    for v in range(n_nodes // 2 - 1, -1, -1):
        right = (smaller >> v) & 1
        less, more, parent = N_BINS * (2 * v + right), N_BINS * (2 * v + 1 - right), N_BINS * v
        for b in range(N_BINS):
            # The parent's own place is the left child's if it is the first node.
            rest = own[parent + b] - small[less + b]
            own[more + b], own[less + b] = rest, small[less + b]


@inner
def _split(window, growth):
    """Add some documents to the histograms of four columns; after the last one look for their best splits."""
    integers, level, first = growth.integers, growth.integers[LEVEL], growth.integers[AT]
    histograms = integers[HISTOGRAMS:CHOSEN].reshape((ABREAST, WIDE))
    if first == 0:
        histograms[:] = 0
        if integers[COLUMN] == 0:
            integers[BEST : BEST + 8], integers[BEST_BIN : BEST_BIN + 8] = -1, 0
            growth.numbers[GAINS : GAINS + 8] = 0.0
    last = integers[SAMPLED] if level == 0 else integers[LISTED]
    stop = min(first + 2 * _STEP, last)
    nodes = growth.sample[growth.sample.shape[0] - 1]
    if level == 0:
        _fill(growth.sample, integers[COLUMN], nodes, growth.packed, first, stop, histograms)
    else:
        _fill_listed(growth.sample, integers[COLUMN], nodes, growth.packed, growth.listed[first:stop], histograms)
    integers[AT] = stop
    cost = 50.0 + 0.45 * ABREAST * (stop - first)
    return cost if stop < last else cost + _find_splits(growth, histograms)


@inner
def _find_splits(growth, histograms):
    """Look for the best splits by four columns whose histograms are filled. Returns the cost."""
    integers, n_nodes = growth.integers, 1 << growth.integers[LEVEL]
    share, sums = max(0.25, 1.0 * integers[SAMPLED] / max(integers[HELD], 1)), np.empty((3, N_BINS))
    for k in range(min(ABREAST, integers[COLUMNS] - integers[COLUMN])):
        c = integers[COLUMN] + k
        place = _place_of_column(growth, c)
        known = integers[place : place + WIDE]
        if n_nodes == 1:
            copy_to(known[:N_BINS], histograms[k, :N_BINS])
        else:
            _complete(known, integers[SMALLER], n_nodes, histograms[k])
        for v in range(n_nodes):
            gain, where = best_split(known[N_BINS * v : N_BINS * (v + 1)], SHRINKAGE * share, _LEAST * share, sums)
            if gain > growth.numbers[GAINS + v]:
                growth.numbers[GAINS + v], integers[BEST + v], integers[BEST_BIN + v] = gain, c, where
    integers[AT] = 0
    integers[COLUMN] += ABREAST
    if integers[COLUMN] >= integers[COLUMNS]:
        integers[COLUMN], integers[PHASE] = 0, PART
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
def _part(growth):
    """Send some documents to the nodes of the next level, and list those in the smaller siblings; first note the splits."""
    integers, level, first = growth.integers, growth.integers[LEVEL], growth.integers[AT]
    if first == 0:
        _note_splits(growth, level)
        integers[LISTED] = 0
    nodes, stop = growth.sample[growth.sample.shape[0] - 1], min(first + 4 * _STEP, integers[SAMPLED])
    own, listed, n, smaller = nodes[first:stop], growth.listed, integers[LISTED], integers[SMALLER]
    tree.find_leaves_within(growth.sample, first, stop, integers[OF_SAMPLE : OF_SAMPLE + N_SPLITS], own)
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
        integers[AT] = 0
        integers[LEVEL] += 1
        integers[PHASE] = SPLIT
        if integers[LEVEL] == 4:
            integers[PHASE], integers[AT] = LEAVES, oldest(integers)
            growth.numbers[SUMS : SUMS + 2 * N_LEAVES] = 0.0
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


@inner
def _find_leaves(window, growth, plan):
    """Sum the residuals of some queries of the window in the leaves of the new tree; after the last one it joins the others."""
    integers, numbers, given, target = growth.integers, growth.numbers, window.documents[GIVEN], window.documents[TARGET]
    sums, splits, cost = numbers[SUMS : SUMS + 2 * N_LEAVES].reshape((2, N_LEAVES)), integers[NEW : NEW + N_SPLITS], 0.0
    integers[AT] = max(integers[AT], oldest(integers))
    while cost < _STEP * 3.0 and integers[AT] < integers[PUSHED]:
        number = integers[AT]
        integers[AT], begin, end = _side_by_side(window, number, integers[PUSHED], _STEP)
        found, rest = np.empty(end - begin, np.uint8), np.empty(end - begin)
        tree.find_leaves_within(window.bins, begin, end, splits, found)
        at = place_of(integers, window.queries, number)
        for _ in range(integers[AT] - number):
            row = window.queries[at]
            a, m, weight = np.int64(row[START]), np.int64(row[SIZE]), row[WEIGHT] / max(numbers[HEAVIEST], 1.0)
            mean, own = _mean_given(window, a, m), rest[:m]
            for i in range(m):
                own[i] = target[a + i] - (given[a + i] - mean)
            tree.sum_by_leaf(found[a - begin : a - begin + m], own, weight, sums)
            at = at + 1 if at + 1 < window.queries.shape[0] else 0
        cost += 150.0 + 20.0 * (integers[AT] - number) + 2.5 * (end - begin)
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
        integers[AT], begin, end = _side_by_side(window, integers[AT], integers[END], _STEP)
        found = np.empty(end - begin, np.uint8)
        if replaces:
            tree.find_leaves_within(window.bins, begin, end, old, found)
            for i in range(end - begin):
                given[begin + i] -= np.float32(before[found[i]])
        tree.find_leaves_within(window.bins, begin, end, values, found)
        new = numbers[SUMS : SUMS + 2 * N_LEAVES]
        for i in range(end - begin):
            # The values as they were when the tree joined.
            value = _RATE * new[found[i]] / (new[N_LEAVES + found[i]] + SHRINKAGE)
            given[begin + i] = np.float32(plan.keep * given[begin + i] + value)
        cost += 150.0 + (2.5 if replaces else 1.5) * (end - begin)
    if integers[AT] >= integers[END]:
        integers[PHASE] = IDLE
    return max(cost, 1.0)
