"""Trees beside curves: the additive learner and trees learn a query together, and a blend of both is served.

The curves are one member of the blend, as they would be served alone; the others are the trees by the averages of their leaves,
and by their last values. Nine tenths of the prior are on the curves. The shares follow all losses, and trees are served once
the best of their mixtures has lost less than the curves by enough (`EVIDENCE`); until then the answers are those of the curves,
to the bit.
"""

import math

import numpy as np

from online_rank._kernels import additive
from online_rank._kernels import leaves as tree
from online_rank._kernels._jit import inner, kernel, leaf
from online_rank._kernels.additive import BUDGET, LARGEST_WEIGHT, MIXABILITY_GAP, SERVING_GAP
from online_rank._kernels.arrays import all_finite, copy_to
from online_rank._kernels.blend import settle
from online_rank._kernels.curves import Read, add_curve, read_rows, room_for_reading, room_for_rows, same_bits
from online_rank._kernels.encoder import standardised
from online_rank._kernels.fits import require
from online_rank._kernels.graded import find_grades, graded_of, rank_pessimistically, ranking_loss
from online_rank._kernels.growing import HEAVIEST, LEARNED, Growth, Plan, earn, grow
from online_rank._kernels.hashing import draws
from online_rank._kernels.leaves import MEANS, N_LEAVES, TOGETHER, VALUES
from online_rank._kernels.perceptron import settings
from online_rank._kernels.primitives import lane_sum
from online_rank._kernels.window import N_TREES, Window, push
from online_rank._kernels.workspace import ORDER, SCORES, workspace

#: Members: curves, averages of leaves, last leaves. Candidates: curves alone, mixtures of them with averages, and trees.
MIXTURES = (
    (1.0, 0.0, 0.0), (0.75, 0.25, 0.0), (0.5, 0.5, 0.0), (0.25, 0.75, 0.0), (0.0, 1.0, 0.0), (0.0, 0.0, 1.0), (0.5, 0.0, 0.5),
)  # fmt: skip
N_CANDIDATES, N_MEMBERS = 7, 3
#: The prior of the curves alone; the other candidates share the rest.
PRIOR = 0.9
#: Numbers of the blend: losses of the candidates; a `rankers.hedge.HedgeAccount`; running mean squares of the members' scores
#: within queries, with their weights; the factor of the curves in what is served; and how many trees are served.
LOSSES, ACCOUNT, SCALES = 0, N_CANDIDATES, N_CANDIDATES + 10
FACTOR, SERVED = SCALES + 2 * N_MEMBERS, SCALES + 2 * N_MEMBERS + 1
N_NUMBERS = SERVED + 1
_SCALE_DECAY, _ROUNDING = 0.99, 1e-12
#: Places of `limits`: how many trees there may be, by how much they fade with each new one, and documents of a sample;
#: operations of growth for each value that is read, in the end and at first, and after how many documents half of the
#: difference is gone; and by how much mixtures with trees must have lost less than the curves before trees are served.
MOST, KEEP, ROOM, CREDIT, EARLY, HALF, EVIDENCE = range(7)


@leaf
def _scale_of(blend, k):
    mean, weight = blend[SCALES + 2 * k], blend[SCALES + 2 * k + 1]
    return math.sqrt(mean / weight) if mean > 0.0 else 1.0


@leaf
def _learn_scale(blend, k, s):
    m = s.shape[0]
    mean, square = lane_sum(s) / m, 0.0
    for i in range(m):
        square += (s[i] - mean) * (s[i] - mean)
    if square > m * (_ROUNDING * mean) ** 2:
        blend[SCALES + 2 * k] = _SCALE_DECAY * blend[SCALES + 2 * k] + square / m
        blend[SCALES + 2 * k + 1] = _SCALE_DECAY * blend[SCALES + 2 * k + 1] + 1.0


@leaf
def share(blend, pi):
    """Write the shares of the candidates (N_CANDIDATES,); returns eta = min(1, ln N / Delta)."""
    account, losses = blend[ACCOUNT:SCALES], blend[LOSSES:ACCOUNT]
    step = 1.0 / account[LARGEST_WEIGHT]
    if account[MIXABILITY_GAP] > 0.0:
        step = min(step, math.log(N_CANDIDATES) / account[MIXABILITY_GAP])
    lowest, total = np.inf, 0.0
    for c in range(N_CANDIDATES):
        lowest = min(lowest, losses[c])
    for c in range(N_CANDIDATES):
        prior = PRIOR if c == 0 else (1.0 - PRIOR) / (N_CANDIDATES - 1)
        pi[c] = prior * math.exp(-step * (losses[c] - lowest))
        total += pi[c]
    for c in range(N_CANDIDATES):
        pi[c] /= total
    return step


@leaf
def evidence(blend):
    """By how much the best mixture with trees has lost less than the curves."""
    least = np.inf
    for c in range(1, N_CANDIDATES):
        least = min(least, blend[LOSSES + c])
    return blend[LOSSES] - least


@leaf
def serve(blend, trees, n, enough, seed, query, pi, table):
    """Choose what is served next: the factor of the curves, and table (T, N_LEAVES) of n trees, or of none.

    The scores have the scale of the curves. Once blends have been worse than their candidates by `BUDGET`, a candidate is drawn
    for this number of the `query`. pi : (N_CANDIDATES,) workspace
    """
    share(blend, pi)
    drawn = blend[ACCOUNT + SERVING_GAP] > BUDGET
    blend[FACTOR], blend[SERVED] = 1.0, 0.0
    if n == 0 or (not drawn and evidence(blend) < enough):
        return
    curves, means, values = 0.0, 0.0, 0.0
    if drawn:
        draws(seed, query, table[0, :1])
        chosen, above = 0, pi[0]
        while chosen < N_CANDIDATES - 1 and above <= table[0, 0]:
            chosen += 1
            above += pi[chosen]
        curves, means, values = MIXTURES[chosen]
    else:
        for c in range(N_CANDIDATES):
            curves += pi[c] * MIXTURES[c][0]
            means += pi[c] * MIXTURES[c][1]
            values += pi[c] * MIXTURES[c][2]
    if means == 0.0 and values == 0.0:
        return
    scale = _scale_of(blend, 0)
    means, values = means * scale / _scale_of(blend, 1), values * scale / _scale_of(blend, 2)
    for k in range(n):
        own, row = trees[k], table[k]
        for v in range(N_LEAVES):
            row[v] = means * own[MEANS + v] + values * own[VALUES + v]
    blend[FACTOR], blend[SERVED] = curves, n


@kernel
def draw_leaves(blend, trees, n, enough, seed, query, table):
    """As `serve`, for a state that was loaded, copied or mixed."""
    require(blend.shape[0] == N_NUMBERS and 0 <= n <= trees.shape[0] and table.shape[0] >= trees.shape[0])
    serve(blend, trees, n, enough, seed, query, np.empty(N_CANDIDATES), table)


@leaf
def _judge(target, graded, blend, scores, answered, given, work, losses):
    """Losses of the candidates and, last, of what was served: `given` scores, or what was `answered`.

    scores : (N_MEMBERS, m)
    """
    m = answered.shape[0]
    order, mixed = work.integers[ORDER, :m], work.reals[SCORES, :m]
    curves, means, values = scores[0], scores[1], scores[2]
    scale, of_means, of_values = _scale_of(blend, 0), _scale_of(blend, 1), _scale_of(blend, 2)
    for c in range(N_CANDIDATES + 1):
        if c == 0:
            copy_to(mixed, curves)
        elif c < N_CANDIDATES:
            a, b, e = MIXTURES[c][0] / scale, MIXTURES[c][1] / of_means, MIXTURES[c][2] / of_values
            for i in range(m):
                mixed[i] = a * curves[i] + b * means[i] + e * values[i]
        elif given.shape[0] > 0:
            copy_to(mixed, given)
        else:
            copy_to(mixed, answered)
        rank_pessimistically(mixed, graded, graded.depth, order, work)
        losses[c] = ranking_loss(target, graded, order)


@leaf
def _score_trees(bins, growth, n, m, found, scores):
    """Scores (2, m) of n trees, by the averages of their leaves and by their values, and the leaves `found` (n, M)."""
    scores[:] = 0.0
    means, values = scores[0], scores[1]
    for k in range(n):
        own, row = found[k], growth.trees[k]
        tree.find_leaves(bins, growth.splits[k], own)
        for i in range(m):
            leaf_number = np.int64(own[i])
            means[i] += row[MEANS + leaf_number]
            values[i] += row[VALUES + leaf_number]


@leaf
def _learn_leaves(growth, n, found, target, scores, unit, rest, sums):
    """Let the leaves of n trees learn a query: from targets (m,) less `scores` by the values of leaves.

    found : (a multiple of 4, at least n; M); rest (m,), sums (4, N_LEAVES) int64 : workspace
    """
    m = target.shape[0]
    mean = lane_sum(scores) / m
    for i in range(m):
        rest[i] = tree.packed(target[i] - (scores[i] - mean), unit)
    for k in range(0, n, 4):
        tree.sum_abreast(found, k, rest, sums)
        for each in range(min(4, n - k)):
            tree.learn_leaves(sums[each], growth.trees[k + each])


@inner
def _learn_beside(
    X, y, weight, given, target, rows, curves, answered, known, window, growth, plan, limits, signs, blend, table, query, row
):  # fmt: skip
    """Let the trees learn a query that the curves have learned; `curves` (m,) are the scores of these before."""
    m, d, n, work = X.shape[0], X.shape[1], growth.integers[N_TREES], workspace(X.shape[0])
    levels, depth, ideal = find_grades(target, y, work)
    graded = graded_of(m, levels, depth, ideal, work)
    wide = (m + TOGETHER - 1) // TOGETHER * TOGETHER
    bins, found = np.empty((d, wide), np.uint8), np.zeros((n + 3, wide), np.uint8)
    scores, losses, pi, t = np.empty((N_MEMBERS, m)), np.empty(N_CANDIDATES + 1), np.empty(N_CANDIDATES), np.empty(m)
    tree.bin_rows(rows.g, rows.cells, m, bins)
    copy_to(scores[0], curves)
    _score_trees(bins, growth, n, m, found, scores[1:])
    if not known:
        for i in range(m):
            answered[i] = curves[i] * blend[FACTOR]
        for k in range(np.int64(blend[SERVED])):
            tree.add_leaves(found[k], table[k], answered)
    step = share(blend, pi)
    drawn = blend[ACCOUNT + SERVING_GAP] > BUDGET
    _judge(target, graded, blend, scores, answered, given, work, losses)
    row[0] = losses[N_CANDIDATES]
    if weight == 0.0:
        return
    settle(losses, weight, pi, step, 1.0, drawn, blend[LOSSES:ACCOUNT], blend[ACCOUNT:SCALES])
    for k in range(N_MEMBERS):
        _learn_scale(blend, k, scores[k])
    numbers = growth.numbers
    numbers[HEAVIEST] = max(numbers[HEAVIEST], weight)
    numbers[LEARNED] += m
    standardised(y, t)
    rest, sums = np.empty(m, np.int64), np.empty((4, N_LEAVES), np.int64)
    _learn_leaves(growth, n, found, t, scores[2], tree.unit_of(weight, numbers[HEAVIEST]), rest, sums)
    push(window, bins, m, scores[2], t, weight, query)
    credit = limits[CREDIT] + (limits[EARLY] - limits[CREDIT]) / (1.0 + (numbers[LEARNED] / limits[HALF]) ** 2)
    grow(window, growth, plan, signs, earn(numbers, 1.0 * m * d, credit))


@leaf
def _score_curves(rows, m, relative, curves, scores):
    """scores (m,) of the served curves (d, 2, 2, N_CELLS), as `curves.score` gives them."""
    scores[:] = 0.0
    for j in range(curves.shape[0]):
        add_curve(rows.g[j, :m], rows.cells[j, :m], curves[j, 0], scores)
        if relative:
            add_curve(rows.q[j, :m], rows.q_cells[j, :m], curves[j, 1], scores)


@kernel
def learn(
    X, y, offsets, weights, discounts, config, mapping, learner, hedge, keep, served, read, rounds, curves, answers, splits,
    trees, sample, packed, bins, documents, queries, integers, numbers, blend, table, limits,
):  # fmt: skip
    """Learn one query with curves and trees.

    Parameters
    ----------
    X to rounds : as `additive.learn`, of one query
    curves : (d, 2, 2, N_CELLS) what the curves serve
    answers : (2, m) scores of the query `read` by the curves alone, and as it was served
    splits, trees, sample, packed : a `growing.Growth`
    bins, documents, queries : a `window.Window`
    integers, numbers : of the state of both
    blend : (N_NUMBERS,)
    table : (T, N_LEAVES) what the trees serve
    limits : (7,) settings, see `MOST` to `EVIDENCE`

    Returns
    -------
    As `additive.learn`.
    """
    m, d = X.shape
    relative = config[9] > 0.0
    require(offsets.shape[0] == 2 and offsets[0] == 0 and offsets[1] == m and curves.shape[0] == bins.shape[0] == d)
    require(splits.shape[0] == trees.shape[0] == table.shape[0] and integers[N_TREES] <= trees.shape[0])
    require(
        limits.shape[0] == 7
        and documents.shape[1] == bins.shape[1]
        and sample.shape[1] == packed.shape[0]
        and blend.shape[0] == N_NUMBERS
    )
    known = same_bits(X, read.X) and answers.shape[1] == m
    rows = read.rows if known else room_for_rows(d, m)
    scores = answers if known else np.empty((2, m))
    if not known:
        if not read_rows(X, 0, m, mapping, relative, room_for_reading(d, m), rows):
            return 0
        _score_curves(rows, m, relative, curves, scores[0])
    if not all_finite(scores[0]):
        return 0
    learned = additive.learn(
        X, y, offsets, weights, discounts, config, mapping, learner, hedge, keep, served, Read(X, rows), rounds
    )
    if learned == 0:
        return 0
    query = hedge.first_query
    if rounds[0, 9] == 0.0:
        target, _ = settings(config[:9], discounts)
        plan = Plan(np.int64(limits[MOST]), limits[KEEP], hedge.seed, np.int64(limits[ROOM]))
        _learn_beside(
            X, y, weights[0], served, target, rows, scores[0], scores[1], known, Window(bins, documents, queries, integers),
            Growth(splits, trees, sample, packed, integers, numbers), plan, limits, learner.signs, blend, table, query,
            rounds[0],
        )  # fmt: skip
    serve(blend, trees, integers[N_TREES], limits[EVIDENCE], hedge.seed, query + 1, np.empty(N_CANDIDATES), table)
    return learned
