"""The growth of a tree in small steps, from a window of queries, and the budget of steps.

A tree is grown from a sample of the queries of the window and a third of the columns: its bins are copied, level by level the
best splits are found in histograms, and the values of its leaves come from the whole window. Then all other trees fade a
little, and the window learns what its documents get now. Each of these takes many queries: a step looks at some thousand
documents, and all that the next one needs is in plain arrays. Operations are counted, of about a nanosecond each, never timed.

A residual is t - (s - mean of s in the query), t the standardised grade and s the score by the trees so far.
"""

from typing import NamedTuple

import numpy as np

from online_rank._kernels import leaves as tree
from online_rank._kernels._jit import inner, leaf
from online_rank._kernels.arrays import copy_to
from online_rank._kernels.hashing import uniform
from online_rank._kernels.leaves import N_LEAVES, N_SPLITS, NEVER, SHRINKAGE, THRESHOLDS, packed, unit_of
from online_rank._kernels.order import sort_descending
from online_rank._kernels.primitives import find_leaves, lane_sum
from online_rank._kernels.splitting import (
    AT,
    CHOSEN,
    COLUMN,
    COLUMNS,
    COPY,
    END,
    HAVE,
    HEAVIEST,
    IDLE,
    LEAVES,
    LEVEL,
    LISTED,
    NEW,
    OLD,
    OLD_VALUES,
    PART,
    PHASE,
    PLACE,
    SAMPLED,
    SCORE,
    SPENT,
    SPLIT,
    STEP,
    SUMS,
    TYPICAL,
    USES,
    part,
    split,
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

#: Queries in the window before the first tree.
_FIRST = 8
#: Share of the queries in a sample, and of draws of columns that are of any column.
_SAMPLED, _ANY = 0.8, 0.15
#: Queries that come into a sample together, once the window has many documents.
_TOGETHER, _MANY = 16, 4096
#: By how much gains of a column count less after each tree, and how much a new tree adds.
_FORGETS, _RATE = 0.98, 0.2
#: Operations that are put by for later queries: how many times what a typical query earns.
_PUT_BY = 16.0


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
            cost = split(growth)
        elif phase == PART:
            cost = part(growth)
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
    integers[COLUMNS], integers[SAMPLED], integers[LEVEL], integers[COLUMN], integers[LISTED] = n, 0, 0, 0, 0
    return 500.0 + 20.0 * d


@leaf
def _mean_given(window, at, m):
    """The mean score of the documents of a query."""
    return lane_sum(window.documents[GIVEN, at : at + m]) / m


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
    while cost < STEP * 3.0:
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


@inner
def _find_leaves(window, growth, plan):
    """Sum the residuals of some queries of the window in the leaves of the new tree; after the last one it joins the others."""
    integers, numbers, given, target = growth.integers, growth.numbers, window.documents[GIVEN], window.documents[TARGET]
    sums, splits, cost = np.zeros((4, 2, N_LEAVES)), integers[NEW : NEW + N_SPLITS], 0.0
    integers[AT] = max(integers[AT], oldest(integers))
    while cost < STEP * 3.0 and integers[AT] < integers[PUSHED]:
        number = integers[AT]
        integers[AT], begin, end = _side_by_side(window, number, integers[PUSHED], STEP)
        found = np.empty(end - begin, np.uint8)
        find_leaves(window.bins, begin, splits, found)
        at = place_of(integers, window.queries, number)
        for _ in range(integers[AT] - number):
            row = window.queries[at]
            a, m, weight = np.int64(row[START]), np.int64(row[SIZE]), row[WEIGHT] / max(numbers[HEAVIEST], 1.0)
            mean, own = _mean_given(window, a, m), found[a - begin : a - begin + m]
            tree.sum_by_leaf(own, target[a : a + m], given[a : a + m], mean, weight, sums)
            at = at + 1 if at + 1 < window.queries.shape[0] else 0
        cost += 150.0 + 20.0 * (integers[AT] - number) + 2.5 * (end - begin)
    for v in range(2 * N_LEAVES):
        k, leaf_number = v // N_LEAVES, v % N_LEAVES
        numbers[SUMS + v] += (sums[0, k, leaf_number] + sums[1, k, leaf_number]) + (
            sums[2, k, leaf_number] + sums[3, k, leaf_number]
        )
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
    before, new = numbers[OLD_VALUES : OLD_VALUES + N_LEAVES], np.empty(N_LEAVES)
    for v in range(N_LEAVES):
        # The values as they were when the tree joined.
        new[v] = _RATE * numbers[SUMS + v] / (numbers[SUMS + N_LEAVES + v] + SHRINKAGE)
    integers[AT] = max(integers[AT], oldest(integers))
    while cost < STEP * 3.0 and integers[AT] < integers[END]:
        integers[AT], begin, end = _side_by_side(window, integers[AT], integers[END], STEP)
        found = np.empty(end - begin, np.uint8)
        if replaces:
            find_leaves(window.bins, begin, old, found)
            for i in range(end - begin):
                given[begin + i] -= np.float32(before[np.uint64(found[i])])
        find_leaves(window.bins, begin, values, found)
        for i in range(end - begin):
            given[begin + i] = np.float32(plan.keep * given[begin + i] + new[np.uint64(found[i])])
        cost += 150.0 + (2.5 if replaces else 1.5) * (end - begin)
    if integers[AT] >= integers[END]:
        integers[PHASE] = IDLE
    return max(cost, 1.0)
