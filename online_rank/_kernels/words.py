"""Words: a hash index that grows, and a regression of standardised grades with a weight and a precision for each word.

A word is known by a hash of 64 bits. Its numbers are in one row of a table, and an index with open addressing finds the row. So
a query takes time proportional to its words, however many are known.

The regression predicts t, the standardised grades, by a c + sum of w_j x_j, with c the scores of the learner next to it over
their running scale. Weights are independent, of prior variance 1/P and noise 1: a Kalman filter with a diagonal covariance
(Crammer, Kulesza & Dredze, *Adaptive Regularization of Weight Vectors*, 2009). With v_j = 1 / (P + q_j), a document of error e
changes

    S = 1/w + sum of v_j x_j^2,    w_j += v_j x_j e / S,    1 / v_j += x_j^2 / (S - v_j x_j^2).
"""

import math

import numpy as np

from online_rank._kernels._jit import inlined, kernel, leaf
from online_rank._kernels.arrays import all_finite
from online_rank._kernels.blend import settle
from online_rank._kernels.encoder import standardised
from online_rank._kernels.fits import require
from online_rank._kernels.graded import find_grades, graded_of
from online_rank._kernels.hashing import OFFSET, SEPARATOR, finished, mixed, with_byte
from online_rank._kernels.hedge import (
    BUDGET,
    OF_WORDS,
    SERVING_GAP,
    Hedge,
    choose,
    judge_candidates,
    judge_given,
    learn_scale,
    scale_of,
)
from online_rank._kernels.perceptron import settings
from online_rank._kernels.primitives import lane_sum
from online_rank._kernels.workspace import workspace

#: A row of the table: weight, precision beyond the prior's, the number of queries with the word, of which older ones count
#: less, and the clock when it was last changed.
WEIGHT, PRECISION, COUNT, LAST = range(4)
N_OF_WORD = 4
#: The precisions that weights begin with: of a word, and of the scores next to the words.
PRIOR, OWN_PRIOR = 10.0, 1.0
#: Candidates, and members: what is next to the words, and both.
N_CANDIDATES, N_MEMBERS = 3, 2
#: Numbers: losses of candidates, a `rankers.hedge.HedgeAccount`, scales of members. Served are the scores next to the words
#: times one factor, and the words times another. Then come a and its precision beyond the prior's. The last are the clock, in
#: half-lives, and the number of queries, of which older ones count less.
LOSSES, ACCOUNT, SCALES = 0, N_CANDIDATES, N_CANDIDATES + 10
FACTOR, SHARE, SLOPE, SURE, CLOCK, LATELY = range(SCALES + 2 * N_MEMBERS, SCALES + 2 * N_MEMBERS + 6)
N_NUMBERS = LATELY + 1
#: No key: of an empty place.
_NONE = np.uint64(0)


@kernel
def hash_lines(text, begins, lengths, keys):
    """Keys (n,), int64, of n texts with a `SEPARATOR` between each two, each after one of several beginnings.

    text, begins : uint8; the beginnings follow one another, with a `SEPARATOR` after each
    lengths : (k,) int64, how many of the texts belong to each beginning
    """
    at, start, i = 0, 0, 0
    for k in range(lengths.shape[0]):
        first = OFFSET
        while start < begins.shape[0] and begins[start] != SEPARATOR:
            first = with_byte(first, begins[start])
            start += 1
        start += 1
        for _ in range(lengths[k]):
            require(i < keys.shape[0])
            h = first
            while at < text.shape[0] and text[at] != SEPARATOR:
                h = with_byte(h, text[at])
                at += 1
            at += 1
            h = finished(h)
            keys[i] = np.int64(h if h != _NONE else np.uint64(1))
            i += 1


@leaf
def _crossed_key(one, other):
    """The key of a pair of keys."""
    h = mixed(mixed(np.uint64(one)) + np.uint64(other))
    return np.int64(h if h != _NONE else np.uint64(1))


@kernel
def cross(starts, keys, values, firsts, wanted, out_starts, out_keys, out_values, out_owners):
    """Pair the entries of documents with entries of their queries; how many pairs there are, or -1 if they need more room.

    starts, keys, values : entries of n documents, to be crossed
    firsts, wanted : (n, 2) where the entries of the query of each document begin and end among the wanted keys
    out_starts, out_keys, out_values, out_owners : (n + 1,), (e,), (e,), (e,) out; the last are the wanted keys
    """
    n, at = starts.shape[0] - 1, 0
    require(firsts.shape[0] == n and firsts.shape[1] == 2 and out_starts.shape[0] == n + 1)
    out_starts[0] = 0
    for i in range(n):
        for e in range(starts[i], starts[i + 1]):
            for k in range(firsts[i, 0], firsts[i, 1]):
                if at >= out_keys.shape[0]:
                    return -1
                out_keys[at], out_values[at], out_owners[at] = _crossed_key(wanted[k], keys[e]), values[e], wanted[k]
                at += 1
        out_starts[i + 1] = at
    return at


@leaf
def _place_of(index, keys, key):
    """The place of a key in the index: its own, or the empty one where it belongs."""
    last = np.uint64(index.shape[0] - 1)
    place = np.uint64(key) & last
    while index[place] != 0 and keys[index[place] - 1] != key:
        place = (place + np.uint64(1)) & last
    return place


@kernel
def find(index, keys, n, wanted, rows):
    """rows (e,) = the numbers of wanted keys among n, -1 for those that are unknown.

    index : (a power of 2 above n,) int32, 1 more than a row, or 0; keys : (n or more,) int64
    """
    require(index.shape[0] > n and keys.shape[0] >= n and rows.shape[0] == wanted.shape[0])
    for e in range(wanted.shape[0]):
        rows[e] = index[_place_of(index, keys, wanted[e])] - 1


@kernel
def build(index, keys, n):
    """Fill an empty index with n keys."""
    require(index.shape[0] > n and keys.shape[0] >= n)
    for i in range(n):
        index[_place_of(index, keys, keys[i])] = i + 1


@leaf
def _print_of(key):
    """16 bits of a key, never 0."""
    return np.uint16((np.uint64(key) >> np.uint64(48)) | np.uint64(1))


@kernel
def add(index, keys, owners, table, n, clock, wanted, of_query, seen, rows, places, before):
    """Give wanted keys that are unknown a row; pairs only if an earlier query had them. Returns how many there are.

    index, keys, owners, table : as `find`, (n + e or more,), (n + e or more, N_OF_WORD); there is room for all
    of_query : (e,) int64, of pairs the key of the query's entry, which `owners` gets; 0 for others
    seen : (a power of 2,) uint16, bits of keys that were met lately
    rows : (e,) as `find` gives them, changed
    places, before : (e,) int64 and uint16 out, the places of `seen` that changed and what was there, -1 where nothing changed
    """
    e = wanted.shape[0]
    require(keys.shape[0] >= n + e and table.shape[0] >= n + e and index.shape[0] > n + e and seen.shape[0] > 0)
    require(
        owners.shape[0] == keys.shape[0]
        and of_query.shape[0] == rows.shape[0] == places.shape[0] == before.shape[0] == e
        and table.shape[1] == N_OF_WORD
    )
    last = np.uint64(seen.shape[0] - 1)
    for k in range(e):
        key = wanted[k]
        if rows[k] >= 0 or (of_query[k] != 0 and seen[np.uint64(key) & last] != _print_of(key)):
            continue
        place = _place_of(index, keys, key)
        if index[place] == 0:
            keys[n], owners[n] = key, of_query[k]
            table[n, WEIGHT], table[n, PRECISION], table[n, COUNT], table[n, LAST] = 0.0, 0.0, 0.0, clock
            n += 1
            index[place] = n
        rows[k] = index[place] - 1
    for k in range(e):
        places[k] = -1
        if rows[k] < 0:
            place = np.int64(np.uint64(wanted[k]) & last)
            places[k], before[k] = place, seen[place]
            seen[place] = _print_of(wanted[k])
    return n


@kernel
def add_words(starts, rows, values, table, share, scores):
    """scores (n,) += share times the sum of the weights of each document's words; unknown ones count 0."""
    n = scores.shape[0]
    require(starts.shape[0] == n + 1 and rows.shape[0] == values.shape[0] >= starts[n] and table.shape[1] == N_OF_WORD)
    for i in range(n):
        total = 0.0
        for e in range(starts[i], starts[i + 1]):
            if rows[e] >= 0:
                require(rows[e] < table.shape[0])
                total += table[rows[e], WEIGHT] * values[e]
        scores[i] += share * total


@leaf
def _refresh(rows, table, clock, share):
    """Let the words of a query fade to the present, and count it."""
    for e in range(rows.shape[0]):
        if rows[e] >= 0:
            row = table[rows[e]]
            if row[LAST] < clock:
                left = 2.0 ** (row[LAST] - clock)
                row[PRECISION] *= left
                row[COUNT] *= left
                row[LAST] = clock
            row[COUNT] += share


@leaf
def _learn_document(rows, values, table, c, error, weight, numbers):
    """Let a document of this error change the weights of its words, and a."""
    v = 1.0 / (OWN_PRIOR + numbers[SURE])
    S = 1.0 / weight + v * c * c
    for e in range(rows.shape[0]):
        if rows[e] >= 0:
            S += values[e] * values[e] / (PRIOR + table[rows[e], PRECISION])
    numbers[SLOPE] += v * c * error / S
    numbers[SURE] += c * c / (S - v * c * c)
    for e in range(rows.shape[0]):
        if rows[e] >= 0:
            row, x = table[rows[e]], values[e]
            u = 1.0 / (PRIOR + row[PRECISION])
            row[WEIGHT] += u * x * error / S
            row[PRECISION] += x * x / (S - u * x * x)


@leaf
def _learn_words(starts, rows, values, order, table, base, t, weight, numbers):
    """Learn the documents of a query one after the other; t (m,) the standardised grades, base (m,) scores over their scale."""
    m, mean = t.shape[0], 0.0
    for i in range(m):
        mean += numbers[SLOPE] * base[i] / m
        for e in range(starts[i], starts[i + 1]):
            if rows[e] >= 0:
                mean += table[rows[e], WEIGHT] * values[e] / m
    for k in range(m):
        i = order[k]
        own, x = rows[starts[i] : starts[i + 1]], values[starts[i] : starts[i + 1]]
        error = t[i] + mean - numbers[SLOPE] * base[i]
        for e in range(own.shape[0]):
            if own[e] >= 0:
                error -= table[own[e], WEIGHT] * x[e]
        _learn_document(own, x, table, base[i], error, weight, numbers)


@leaf
def _serve(hedge, numbers, query, chosen):
    """Choose what is served next."""
    choose(hedge, query, chosen)
    scale = scale_of(hedge.scales, 0)
    words = chosen[1] * scale
    # Scores next to the words never count against their own order.
    numbers[FACTOR] = chosen[0] * scale + words * max(numbers[SLOPE], 0.0) / scale
    numbers[SHARE] = words
    if words == 0.0 or not numbers[FACTOR] >= 0.0:
        numbers[FACTOR] = 1.0


@inlined
def _hedge_of(numbers, candidates, prior, seed, query):
    scales = numbers[SCALES:FACTOR].reshape((N_MEMBERS, 2))
    return Hedge(candidates, prior, scales, numbers[LOSSES:ACCOUNT], numbers[ACCOUNT:SCALES], seed + OF_WORDS, query)


@leaf
def _members(starts, rows, values, table, base, numbers, members, c):
    """Scores of both members (2, m), and c (m,), the scores next to the words over their scale around their mean."""
    m = base.shape[0]
    mean, scale, slope = lane_sum(base) / m, scale_of(numbers[SCALES:FACTOR].reshape((N_MEMBERS, 2)), 0), numbers[SLOPE]
    for i in range(m):
        members[0, i] = base[i]
        c[i] = (base[i] - mean) / scale
        total = max(slope, 0.0) * c[i]
        for e in range(starts[i], starts[i + 1]):
            if rows[e] >= 0:
                total += table[rows[e], WEIGHT] * values[e]
        members[1, i] = total


@kernel
def learn(
    y, weight, given, base, starts, rows, values, order, table, numbers, gone, candidates, prior, config, discounts, seed, query
):  # fmt: skip
    """Learn a query that has words.

    Parameters
    ----------
    y, weight : (m,) grades, and the weight of the query
    given, base : (m,) scores that were served, or (0,); and the scores by what is next to the words
    starts, rows, values : (m + 1,), (e,), (e,) the words of each document: rows of the table, -1 for none
    order : (m,) in which documents are learned
    table, numbers : (n, N_OF_WORD), (N_NUMBERS,) changed in place
    gone : half-lives since the query before
    candidates, prior : (N_CANDIDATES, N_MEMBERS), (N_CANDIDATES,)
    config, discounts : as `perceptron.settings` takes them
    seed, query : the seed of draws, and the number of the query

    Returns
    -------
    The loss of what was served; NaN withoutthing to learn, and nothing was changed.
    """
    m = y.shape[0]
    require(base.shape[0] == m and starts.shape[0] == m + 1 and order.shape[0] == m and given.shape[0] in (0, m))
    require(numbers.shape[0] == N_NUMBERS and table.shape[1] == N_OF_WORD and rows.shape[0] == values.shape[0] >= starts[m])
    require(candidates.shape == (N_CANDIDATES, N_MEMBERS) and prior.shape[0] == N_CANDIDATES and discounts.shape[0] >= m)
    for e in range(rows.shape[0]):
        require(rows[e] < table.shape[0])
    for i in range(m):
        require(0 <= starts[i] <= starts[i + 1] and 0 <= order[i] < m)
    target, _ = settings(config[:9], discounts)
    work = workspace(m)
    levels, depth, ideal = find_grades(target, y, work)
    if levels < 2 or not (weight >= 0.0 and math.isfinite(weight)) or not all_finite(base):
        return np.nan
    graded, hedge = graded_of(m, levels, depth, ideal, work), _hedge_of(numbers, candidates, prior, seed, query)
    members, c, t, served = np.empty((N_MEMBERS, m)), np.empty(m), np.empty(m), np.empty(m)
    chosen, own, losses = np.empty(N_MEMBERS + N_CANDIDATES), np.empty(N_MEMBERS), np.empty(N_CANDIDATES + 1)
    _members(starts, rows, values, table, base, numbers, members, c)
    for i in range(m):
        served[i] = base[i] * numbers[FACTOR]
    add_words(starts, rows, values, table, numbers[SHARE], served)
    if not (all_finite(members[1]) and all_finite(served)):
        return np.nan
    step = choose(hedge, query, chosen)
    judge_candidates(target, graded, hedge, members, own, work, losses)
    losses[N_CANDIDATES] = judge_given(target, graded, given if given.shape[0] > 0 else served, work)
    if weight == 0.0:
        return losses[N_CANDIDATES]
    drawn = hedge.account[SERVING_GAP] > BUDGET
    settle(losses, weight, chosen[N_MEMBERS:], step, 1.0, drawn, hedge.losses, hedge.account)
    for k in range(N_MEMBERS):
        learn_scale(hedge.scales, k, members[k])
    numbers[CLOCK] += gone
    numbers[SURE] *= 2.0**-gone
    numbers[LATELY] = numbers[LATELY] * 2.0**-gone + 1.0
    _refresh(rows[: starts[m]], table, numbers[CLOCK], 1.0 / m)
    standardised(y, t)
    _learn_words(starts, rows, values, order, table, c, t, weight, numbers)
    _serve(hedge, numbers, query + 1, chosen)
    return losses[N_CANDIDATES]
