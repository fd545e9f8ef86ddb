"""Trees next to curves: the additive learner and trees learn a query together, and a blend of both is served.

The curves are one member of the blend, as they would be served alone; the others are the trees by the averages of their leaves,
and by their last values. The shares follow all losses. Trees are served once the best of their mixtures has lost less than the
curves by enough (`EVIDENCE`). Until then the curves answer alone.
"""

import numpy as np

from online_rank._kernels import additive
from online_rank._kernels import leaves as tree
from online_rank._kernels._jit import inlined, inner, kernel, leaf
from online_rank._kernels.arrays import all_finite, copy_to
from online_rank._kernels.blend import settle
from online_rank._kernels.curves import Read, add_curve, read_rows, room_for_reading, room_for_rows, same_bits
from online_rank._kernels.encoder import standardised
from online_rank._kernels.fits import require
from online_rank._kernels.graded import find_grades, graded_of
from online_rank._kernels.growing import Plan, earn, grow
from online_rank._kernels.hedge import (
    BUDGET,
    OF_TREES,
    SERVING_GAP,
    Hedge,
    choose,
    judge_candidates,
    judge_given,
    learn_scale,
    scale_of,
)
from online_rank._kernels.leaves import MEANS, N_LEAVES, VALUES
from online_rank._kernels.perceptron import settings
from online_rank._kernels.primitives import TOGETHER, find_leaves, lane_sum
from online_rank._kernels.splitting import HEAVIEST, LEARNED, Growth
from online_rank._kernels.window import N_TREES, Window, push
from online_rank._kernels.workspace import workspace

#: Candidates, and members: curves, averages of leaves, last leaves.
N_CANDIDATES, N_MEMBERS = 7, 3
#: Numbers of the blend. First the losses of the candidates, then a `rankers.hedge.HedgeAccount`. Running mean squares of the
#: members' scores within queries follow, with their weights. The last are the factor of the curves in what is served, and the
#: number of trees that are served.
LOSSES, ACCOUNT, SCALES = 0, N_CANDIDATES, N_CANDIDATES + 10
FACTOR, SERVED = SCALES + 2 * N_MEMBERS, SCALES + 2 * N_MEMBERS + 1
N_NUMBERS = SERVED + 1
#: Places of `limits`: how many trees there may be, by how much they fade with each new one, and documents of a sample. Then
#: operations of growth for each value that is read, in the end and at first, and the documents after which half of the
#: difference is gone. Last, by how much mixtures must have lost less than the curves before trees are served.
MOST, KEEP, ROOM, CREDIT, EARLY, HALF, EVIDENCE = range(7)
#: A tree takes as many operations however long queries are: only this many documents of a query pay for growth.
_MOST_PAYING = 64


@inlined
def _hedge_of(blend, mixtures, prior, seed, query):
    """The `Hedge` of curves and trees; what it draws does not depend on what the blend of the curves draws."""
    scales = blend[SCALES:FACTOR].reshape((N_MEMBERS, 2))
    return Hedge(mixtures, prior, scales, blend[LOSSES:ACCOUNT], blend[ACCOUNT:SCALES], seed + OF_TREES, query)


@leaf
def evidence(losses):
    """By how much the best mixture with trees has lost less than the curves, the first candidate."""
    least = np.inf
    for c in range(1, losses.shape[0]):
        least = min(least, losses[c])
    return losses[0] - least


@leaf
def _serve(hedge, blend, trees, n, enough, query, chosen, table):
    """Choose what is served next: the factor of the curves, and table (T, N_LEAVES) of n trees, or of none.

    The scores have the scale of the curves. chosen : (N_MEMBERS + N_CANDIDATES,) workspace
    """
    choose(hedge, query, chosen)
    blend[FACTOR], blend[SERVED] = 1.0, 0.0
    if n == 0 or (hedge.account[SERVING_GAP] <= BUDGET and evidence(hedge.losses) < enough):
        return
    scale = scale_of(hedge.scales, 0)
    curves, means, values = chosen[0] * scale, chosen[1] * scale, chosen[2] * scale
    if means == 0.0 and values == 0.0:
        return
    for k in range(n):
        own, row = trees[k], table[k]
        for v in range(N_LEAVES):
            row[v] = means * own[MEANS + v] + values * own[VALUES + v]
    blend[FACTOR], blend[SERVED] = curves, n


@kernel
def draw_leaves(blend, mixtures, prior, trees, n, enough, seed, query, table):
    """Choose what is served next, of a state that was loaded, copied or mixed."""
    require(blend.shape[0] == N_NUMBERS and 0 <= n <= trees.shape[0] and table.shape[0] >= trees.shape[0])
    require(mixtures.shape == (N_CANDIDATES, N_MEMBERS) and prior.shape[0] == N_CANDIDATES)
    hedge = _hedge_of(blend, mixtures, prior, seed, query)
    _serve(hedge, blend, trees, n, enough, query, np.empty(N_MEMBERS + N_CANDIDATES), table)


@leaf
def _score_trees(bins, growth, n, m, found, scores):
    """Scores (2, m) of n trees, by the averages of their leaves and by their values, and the leaves `found` (n, M)."""
    scores[:] = 0.0
    means, values = scores[0], scores[1]
    for k in range(n):
        own, row = found[k], growth.trees[k]
        find_leaves(bins, 0, growth.splits[k], own)
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
    X, y, weight, given, target, rows, curves, answered, known, window, growth, plan, limits, signs, hedge, blend, table, row
):
    """Let the trees learn a query that the curves have learned; `curves` (m,) are the scores of these before."""
    m, d, n, work = X.shape[0], X.shape[1], growth.integers[N_TREES], workspace(X.shape[0])
    levels, depth, ideal = find_grades(target, y, work)
    graded = graded_of(m, levels, depth, ideal, work)
    wide = (m + TOGETHER - 1) // TOGETHER * TOGETHER
    bins, found = np.empty((d, wide), np.uint8), np.zeros((n + 3, wide), np.uint8)
    scores, losses, t = np.empty((N_MEMBERS, m)), np.empty(N_CANDIDATES + 1), np.empty(m)
    chosen, own = np.empty(N_MEMBERS + N_CANDIDATES), np.empty(N_MEMBERS)
    tree.bin_rows(rows.g, rows.cells, m, bins)
    copy_to(scores[0], curves)
    _score_trees(bins, growth, n, m, found, scores[1:])
    if not known:
        for i in range(m):
            answered[i] = curves[i] * blend[FACTOR]
        for k in range(np.int64(blend[SERVED])):
            tree.add_leaves(found[k], table[k], answered)
    step = choose(hedge, hedge.first_query, chosen)
    judge_candidates(target, graded, hedge, scores, own, work, losses)
    losses[N_CANDIDATES] = judge_given(target, graded, given if given.shape[0] > 0 else answered, work)
    row[0] = losses[N_CANDIDATES]
    if weight == 0.0:
        return
    drawn = hedge.account[SERVING_GAP] > BUDGET
    settle(losses, weight, chosen[N_MEMBERS:], step, 1.0, drawn, hedge.losses, hedge.account)
    for k in range(N_MEMBERS):
        learn_scale(hedge.scales, k, scores[k])
    numbers = growth.numbers
    numbers[HEAVIEST] = max(numbers[HEAVIEST], weight)
    numbers[LEARNED] += m
    standardised(y, t)
    rest, sums = np.empty(m, np.int64), np.empty((4, N_LEAVES), np.int64)
    _learn_leaves(growth, n, found, t, scores[2], tree.unit_of(weight, numbers[HEAVIEST]), rest, sums)
    push(window, bins, m, scores[2], t, weight, hedge.first_query)
    credit = limits[CREDIT] + (limits[EARLY] - limits[CREDIT]) / (1.0 + (numbers[LEARNED] / limits[HALF]) ** 2)
    grow(window, growth, plan, signs, earn(numbers, 1.0 * min(m, _MOST_PAYING) * d, credit))


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
    X, y, offsets, weights, discounts, config, mapping, learner, hedge, keep, served, others, read, rounds, curves, answers,
    splits, trees, sample, packed, listed, bins, documents, queries, integers, numbers, blend, table, mixtures, prior, limits,
):  # fmt: skip
    """Learn one query with curves and trees.

    Parameters
    ----------
    X to rounds : as `additive.learn`, of one query
    curves : (d, 2, 2, N_CELLS) what the curves serve
    answers : (2, m) scores of the query `read` by the curves alone, and as it was served
    splits, trees, sample, packed, listed : a `growing.Growth`
    bins, documents, queries : a `window.Window`
    integers, numbers : of the state of both
    blend : (N_NUMBERS,)
    table : (T, N_LEAVES) what the trees serve
    mixtures, prior : (N_CANDIDATES, N_MEMBERS), (N_CANDIDATES,) candidates
    limits : (7,) settings, see `MOST` to `EVIDENCE`

    Returns
    -------
    As `additive.learn`.
    """
    m, d = X.shape
    relative = config[9] > 0.0
    require(offsets.shape[0] == 2 and offsets[0] == 0 and offsets[1] == m and curves.shape[0] == bins.shape[0] == d)
    require(splits.shape[0] == trees.shape[0] == table.shape[0] and integers[N_TREES] <= trees.shape[0])
    require(limits.shape[0] == 7 and documents.shape[1] == bins.shape[1])
    require(sample.shape[1] == packed.shape[0] == listed.shape[0])
    require(blend.shape[0] == N_NUMBERS and mixtures.shape == (N_CANDIDATES, N_MEMBERS) and prior.shape[0] == N_CANDIDATES)
    known = same_bits(X, read.X) and answers.shape[1] == m
    rows = read.rows if known else room_for_rows(d, m)
    scores = answers if known else np.empty((2, m))
    if not known:
        # By the literal 0, numba would compile another version of all that reads.
        if not read_rows(X, offsets[0], m, mapping, relative, room_for_reading(d, m), rows):
            return 0
        _score_curves(rows, m, relative, curves, scores[0])
    if not all_finite(scores[0]):
        return 0
    learned = additive.learn_queries(
        X, y, offsets, weights, discounts, config, mapping, learner, hedge, keep, served, others, Read(X, rows), rounds
    )
    if learned == 0:
        return 0
    query = hedge.first_query
    both = _hedge_of(blend, mixtures, prior, hedge.seed, query)
    if rounds[0, 9] == 0.0:
        target, _ = settings(config[:9], discounts)
        plan = Plan(int(limits[MOST]), limits[KEEP], hedge.seed, int(limits[ROOM]))
        _learn_beside(
            X, y, weights[0], served, target, rows, scores[0], scores[1], known, Window(bins, documents, queries, integers),
            Growth(splits, trees, sample, packed, listed, integers, numbers), plan, limits, learner.signs, both, blend, table,
            rounds[0],
        )  # fmt: skip
    chosen = np.empty(N_MEMBERS + N_CANDIDATES)
    _serve(both, blend, trees, integers[N_TREES], limits[EVIDENCE], query + 1, chosen, table)
    return learned
