"""The additive learner: a perceptron on rows of curves, its averages, a second-order learner, and a blend of all of them."""

import math
from typing import NamedTuple

import numpy as np

from online_rank._kernels import newton as second
from online_rank._kernels._jit import inlined, inner, kernel, leaf
from online_rank._kernels.arrays import all_finite
from online_rank._kernels.blend import settle
from online_rank._kernels.codes import CAPPED_SQUARES, DOCUMENTS, MASS, N_COUNTERS, SORT_SQUARES, SPREAD_SQUARES, SQUARES
from online_rank._kernels.curves import (
    MISSING,
    N_CELLS,
    N_COLUMNS,
    N_MEMBERS,
    N_PLAIN,
    N_POINTS,
    NEWTON,
    POINTS,
    PRESENT,
    RIDGE,
    STRAIGHT,
    CurveRows,
    Reading,
    combine_columns,
    combine_rank_columns,
    encode,
    gather,
    learn_encoding,
    norm_bound,
    read_rows,
    room_for_reading,
    room_for_rows,
    same_bits,
    score_members,
    spread_to_points,
)
from online_rank._kernels.drawn import score_served
from online_rank._kernels.encoder import standardised
from online_rank._kernels.fits import require, require_block
from online_rank._kernels.graded import find_grades, graded_of
from online_rank._kernels.hedge import (
    BUDGET,
    SERVING_GAP,
    choose,
    judge_candidates,
    judge_given,
    learn_scale,
    lost,
    mix,
    nearly_tie,
)
from online_rank._kernels.perceptron import margin_of, respond, settings, share_of_spread
from online_rank._kernels.plain import FIRST_QUERIES, N_RIDGE, learn_ridge, learn_straight, learn_sums, score_plain, step_ridge
from online_rank._kernels.primitives import sum_of_squares
from online_rank._kernels.quantile_map import SCORE
from online_rank._kernels.rounds import write_round
from online_rank._kernels.vector_math import normal_quantile
from online_rank._kernels.workspace import CREDIT, OTHER_CREDIT, SCORES, longest_query, workspace

#: Numbers of the state after the perceptron's: effective numbers of weights in the two averages, numbers of the second-order
#: learner and of the ridge regression, and the counters of the perceptron on g alone.
AVERAGES = N_COUNTERS
NUMBERS = AVERAGES + 2
RIDGES = NUMBERS + second.N_NUMBERS
STRAIGHTS = RIDGES + N_RIDGE
N_NUMBERS = STRAIGHTS + N_COUNTERS
#: `places[j, 1]` of a feature that has had no missing values yet, and once it has.
UNMET, WANTED = -2, -3
#: The heaviest query.
_HEAVIEST = 1e100
#: A sum of columns by weights is off by at most this, for each addition and each unit of the largest column and of the weights.
_UNIT = 64.0 * 2.0**-52


class Learner(NamedTuple):
    """The state, changed in place.

    weights : (d, N_COLUMNS, N_MEMBERS) those that learn, two averages of them, and weights of the second-order learner
    plain, marginals : (d, N_PLAIN + 1) weights of the plain members, and (d, 2) sums of the last of them; or both (d, 0)
    sums : (d, 2, 2, POINTS + 1) of the target encodings
    signs : (d,) int64, 0 for none
    places, gram, pending, curvatures : of the second-order learner (`newton.learn_newton`, `newton.learn_alone`)
    slow_gram, left : of the ridge regression (`plain.learn_ridge`); or both (0,)
    numbers : (N_NUMBERS,)
    """

    weights: np.ndarray
    plain: np.ndarray
    marginals: np.ndarray
    sums: np.ndarray
    signs: np.ndarray
    places: np.ndarray
    gram: np.ndarray
    pending: np.ndarray
    slow_gram: np.ndarray
    left: np.ndarray
    curvatures: np.ndarray
    numbers: np.ndarray


class Room(NamedTuple):
    """Memory for a query of m documents.

    values : (d, 2, POINTS + 1) the encodings at points
    updates, plain_updates, moments : (2, d, N_COLUMNS); (2, d); and (d, 2) sums of t g and of g
    scores, parts : scores of members, and coefficients, four for each document
    members : (K, m) scores by member
    cells, points : curves or sums of a feature, and the latter shared between points
    chosen, candidate, losses : served weights and shares; weights of a candidate; losses
    columns, drawn : weights of columns and served curves of a feature
    """

    rows: CurveRows
    reading: Reading
    values: np.ndarray
    updates: np.ndarray
    plain_updates: np.ndarray
    moments: np.ndarray
    scores: np.ndarray
    parts: np.ndarray
    members: np.ndarray
    cells: np.ndarray
    points: np.ndarray
    chosen: np.ndarray
    candidate: np.ndarray
    losses: np.ndarray
    columns: np.ndarray
    drawn: np.ndarray


@inner
def _room(rows, d, longest, n, K):
    return Room(
        rows, room_for_reading(d, longest), np.empty((d, 2, POINTS + 1)), np.empty((2, d, N_COLUMNS)), np.empty((2, d)),
        np.empty((d, 2)), np.empty(4 * longest), np.empty(4 * longest), np.empty((K, longest)), np.empty(8 * N_CELLS),
        np.empty(4 * N_POINTS), np.empty(K + n), np.empty(K), np.empty(n + 1), np.empty(N_COLUMNS),
        np.empty((2, 2, N_CELLS)),
    )  # fmt: skip


@leaf
def _judge_served(target, graded, relative, learner, hedge, room, rounding, work):
    """The loss of what is served: the curves that answer, and other members' scores; drawn only where rounding could decide."""
    m, K = graded.level.shape[0], hedge.candidates.shape[1]
    weights, s = room.chosen[:K], work.reals[SCORES, :m]
    mix(weights, room.members, s)
    loss, largest = lost(target, graded, s, work), 0.0
    for k in range(K):
        largest = max(largest, abs(weights[k]))
    if not nearly_tie(s, graded, rounding * largest, work):
        return loss
    first = N_MEMBERS + max(learner.plain.shape[1] - 1, 0)
    values, columns, drawn = room.values[0, 0], room.columns, room.drawn
    score_served(room.rows, m, relative, weights, learner.weights, learner.plain, learner.sums, values, columns, drawn, s)
    for k in range(first, K):
        own = room.members[k]
        for i in range(m):
            s[i] += weights[k] * own[i]
    return lost(target, graded, s, work)


@leaf
def _combine(rows, m, relative, adaptive, all_sums, signs, mapping, all_values, parts, sums, points, updates, moments):
    """Combine the columns by the credits in `parts`, learn the encodings `all_sums`, and write the updates by both credits.

    A feature with a sign has no encodings. moments : (d, 2) out, the sums of t g and of g, by weight. Returns both ||z||^2, and
    an upper bound on the squared norm of a document.
    """
    square, other, norm = 0.0, 0.0, 0.0
    rank = normal_quantile(0.5 / m) if relative else 0.0
    for j in range(signs.shape[0]):
        signed, values, rank_values = signs[j] != 0, all_values[j, 0], all_values[j, 1]
        encoded, rank_encoded = 0.0, 0.0
        for p in range(POINTS + 1):
            encoded, rank_encoded = max(encoded, abs(values[p])), max(rank_encoded, abs(rank_values[p]))
        scores = mapping.knots[j, SCORE]
        norm += norm_bound(max(abs(scores[0]), abs(scores[max(mapping.counts[j] - 1, 0)])), rank, encoded, rank_encoded)
        if signed:
            values[:], rank_values[:] = 0.0, 0.0
        gather(rows.g[j, :m], rows.cells[j, :m], parts, sums)
        spread_to_points(sums, points)
        moments[j, 0], moments[j, 1] = points[4 * (POINTS + 1) + 2], points[4 * (POINTS + 1) + 3]
        combine_columns(points, values, 0, updates[0, j])
        if adaptive:
            combine_columns(points, values, 1, updates[1, j])
        if not signed:
            learn_encoding(points, POINTS + 1, all_sums[j, 0])
        if relative:
            gather(rows.q[j, :m], rows.q_cells[j, :m], parts, sums)
            spread_to_points(sums, points)
            if not signed:
                learn_encoding(points, POINTS, all_sums[j, 1])
        else:
            points[:] = 0.0
        combine_rank_columns(points, rank_values, 0, updates[0, j])
        square += sum_of_squares(updates[0, j])
        if adaptive:
            combine_rank_columns(points, rank_values, 1, updates[1, j])
            other += sum_of_squares(updates[1, j])
    return square, other, norm


@leaf
def _mix_updates(share, updates):
    """updates[0] = the mixture of both, by the share of the first. Returns its ||z||^2."""
    square = 0.0
    for j in range(updates.shape[1]):
        own, other = updates[0, j], updates[1, j]
        for k in range(N_COLUMNS):
            own[k] = share * own[k] + (1.0 - share) * other[k]
        square += sum_of_squares(own)
    return square


@leaf
def _add_and_average(W, Z, signs, numbers, updates, keep):
    """Add Z (d, N_COLUMNS) to the weights that learn, project them on those with the given signs, and average them."""
    for h in range(2):
        numbers[AVERAGES + h] = keep[h] * numbers[AVERAGES + h] + 1.0
    slow, fast = 1.0 / numbers[AVERAGES], 1.0 / numbers[AVERAGES + 1]
    for j in range(W.shape[0]):
        for k in range(N_COLUMNS):
            w = W[j, 4 * k] + (Z[j, k] if updates else 0.0)
            if k != PRESENT and w * signs[j] < 0.0:
                w = 0.0
            W[j, 4 * k] = w
            W[j, 4 * k + 1] += (w - W[j, 4 * k + 1]) * slow
            W[j, 4 * k + 2] += (w - W[j, 4 * k + 2]) * fast


@leaf
def _want_presence(cells, m, places):
    """Mark the features with missing values that may have a column of presence and have none yet; whether any is marked."""
    found = False
    for j in range(places.shape[0]):
        if places[j, 1] == UNMET:
            own, misses = cells[j], False
            for i in range(m):
                misses |= own[i] == MISSING
            if misses:
                places[j, 1] = WANTED
        found |= places[j, 1] == WANTED
    return found


@leaf
def _score(rows, m, relative, W, learner, room, others, first):
    """Write the encodings at points and the scores of all members; whether these are finite.

    others : (F, n) scores of further members; this query begins at `first`
    Returns how far rounding may move a sum of the curve members by weights of 1; -1 if a score is not finite.
    """
    values, scores, rounding, plain, sums = room.values, room.scores, 0.0, learner.plain, learner.sums
    n = N_MEMBERS
    for j in range(W.shape[0]):
        largest = max(encode(sums[j, 0], values[j, 0]), encode(sums[j, 1], values[j, 1]))
        rounding += (10.0 + largest) * math.sqrt(4.0 * N_COLUMNS * sum_of_squares(W[j]))
    score_members(rows, m, W, values, relative, room.cells, scores)
    for k in range(n):
        for i in range(m):
            room.members[k, i] = scores[4 * i + k]
    if plain.shape[1] > 0:
        score_plain(rows, m, plain, n, room.members)
        for j in range(plain.shape[0]):
            rounding += 10.0 * math.sqrt((N_PLAIN + 1.0) * sum_of_squares(plain[j]))
        n += N_PLAIN
    finite = True
    for f in range(others.shape[0]):
        for i in range(m):
            room.members[n + f, i] = others[f, first + i]
    for k in range(n + others.shape[0]):
        finite &= all_finite(room.members[k, :m])
        if k >= n:
            for i in range(m):
                rounding += abs(room.members[k, i])
    return rounding * (W.shape[0] + 64.0) * _UNIT if finite else -1.0


@inlined
def _learn_query(
    target, rule, graded, y, weight, keep, given, relative, W, learner, mapping, hedge, query, room, steps, work, row, rounding
):  # fmt: skip
    """Learn a query that was read and scored. Returns whether it was learned, and whether the Newton learner is to step."""
    m, numbers, n, K = y.shape[0], learner.numbers, hedge.losses.shape[0], hedge.candidates.shape[1]
    s, c, other, members = work.reals[SCORES, :m], work.reals[CREDIT, :m], work.reals[OTHER_CREDIT, :m], room.members
    step = choose(hedge, query, room.chosen)
    drawn = hedge.account[SERVING_GAP] > BUDGET
    judge_candidates(target, graded, hedge, members, room.candidate, work, room.losses)
    if given.shape[0] > 0:
        room.losses[n] = judge_given(target, graded, given, work)
    else:
        room.losses[n] = _judge_served(target, graded, relative, learner, hedge, room, rounding, work)
    if weight == 0.0:
        write_round(row, room.losses[n], 0.0, 0.0, 0.0, weight, m, 0.0, 0.0, False)
        return True, False
    for i in range(m):
        s[i] = given[i] if given.shape[0] > 0 else members[0, i]
    offset = margin_of(rule, numbers)
    loss, mass, v_max, _ = respond(target, rule, graded, s, weight, offset, work)
    if not math.isfinite(mass):
        return False, False
    updates, parts, rows = loss > 0.0, room.parts, room.rows
    standardised(y, s)
    for i in range(m):
        parts[4 * i], parts[4 * i + 1] = (c[i], other[i]) if updates else (0.0, 0.0)
        parts[4 * i + 2], parts[4 * i + 3] = weight * s[i], weight
    square, other_square, norm = _combine(
        rows, m, relative, updates, learner.sums, learner.signs, mapping, room.values, parts, room.cells, room.points,
        room.updates, room.moments,
    )  # fmt: skip
    if updates and mass > 0.0:
        share, numbers[SPREAD_SQUARES], numbers[SORT_SQUARES] = share_of_spread(square, other_square, mass, numbers)
        square = _mix_updates(share, room.updates)
    _add_and_average(W, room.updates[0], learner.signs, numbers, updates, keep)
    numbers[DOCUMENTS] += m
    numbers[SQUARES] += square
    numbers[MASS] += mass
    numbers[CAPPED_SQUARES] += square + 2.0 * offset * mass
    due = False
    for k in range(K):
        learn_scale(hedge.scales, k, members[k, :m])
    if learner.pending.shape[0] > 0:
        second.weigh_pairs(graded, members[NEWTON, :m], weight / m, steps)
        own = numbers[NUMBERS:RIDGES]
        due = second.learn_newton(rows, m, learner.places, keep[2], learner.gram, learner.pending, own, steps)
        second.learn_alone(rows, m, learner.places, learner.signs, keep[2], learner.curvatures, W, steps)
    if learner.plain.shape[1] > 0:
        if learner.left.shape[0] > 0:
            own = numbers[RIDGES:STRAIGHTS]
            ridge = members[N_MEMBERS + RIDGE, :m]
            grown = learn_ridge(rows, learner.places, s, ridge, weight, keep[0], learner.slow_gram, learner.left, own, steps)
            # Solving takes longer than the rest of a query: only a first query takes two solutions.
            if grown and (not due or own[0] < FIRST_QUERIES):
                step_ridge(learner.places, learner.slow_gram, learner.left, own, learner.plain, steps)
        learn_sums(rows, m, room.moments, weight, keep[0], learner.signs, learner.marginals, learner.plain)
        learn_straight(
            target, rule, graded, members[N_MEMBERS + STRAIGHT, :m], weight, rows, learner.signs, learner.plain,
            numbers[STRAIGHTS:], room.plain_updates, work,
        )  # fmt: skip
    settle(room.losses, weight, room.chosen[K:], step, 1.0, drawn, hedge.losses, hedge.account)
    write_round(row, room.losses[n], mass, square, offset, weight, m, norm, v_max, False)
    return True, due


@kernel
def learn(X, y, offsets, weights, discounts, config, mapping, learner, hedge, keep, served, others, read, rounds):
    """Learn from a block of queries.

    Parameters
    ----------
    X, y, offsets, weights, discounts : as `perceptron.learn`
    config : as `perceptron.settings` takes it, followed by whether there are relative columns
    mapping : what maps raw values, the `table` of a `StreamQuantileMap`
    learner, hedge : a `Learner` and a `hedge.Hedge`
    keep : (q, 3) factors of the past: of two averages, and of Hessians
    served : (n,) scores that were served, or (0,)
    others : (F, n) scores of further members, the last of the hedge's K, as they were before each query
    read : the query that was scored last with this map, (m, d) or (0, 0), and its rows; if X is the same, it is not read again
    rounds : (q, 10) out

    Returns
    -------
    Number of queries learned; the next has bad values, and nothing of it was learned. Below 0, -1 times that many: learning
    stopped because the last of them has missing values of a feature that had none before; its `places[j, 1]` is `WANTED`.
    """
    return learn_queries(
        X, y, offsets, weights, discounts, config, mapping, learner, hedge, keep, served, others, read, rounds
    )  # fmt: skip


@inner
def learn_queries(X, y, offsets, weights, discounts, config, mapping, learner, hedge, keep, served, others, read, rounds):
    """What `learn` does; another kernel calls it, so that neither compiles the other."""
    require_block(X.shape[0], y, offsets, weights, discounts, rounds)
    target, rule = settings(config[:9], discounts)
    relative, d, longest = config[9] > 0.0, X.shape[1], longest_query(offsets)
    _require_learner(learner, hedge, others, mapping, d)
    require(served.shape[0] in (0, X.shape[0]) and keep.shape[0] >= weights.shape[0] and keep.shape[1] == 3)
    require(others.shape[0] == 0 or others.shape[1] == X.shape[0])
    W, work = learner.weights.reshape((d, 4 * N_COLUMNS)), workspace(longest)
    known = offsets.shape[0] == 2 and same_bits(X, read.X)
    rows = read.rows if known else room_for_rows(d, longest)
    room = _room(rows, d, longest, hedge.losses.shape[0], hedge.candidates.shape[1])
    steps = second.room_for_steps(learner.pending.shape[0], longest)
    return _learn_block(
        X, y, offsets, weights, target, rule, relative, mapping, learner, W, hedge, keep, served, others, known, room, steps,
        work, rounds,
    )  # fmt: skip


@leaf
def _learn_block(
    X, y, offsets, weights, target, rule, relative, mapping, learner, W, hedge, keep, served, others, known, room, steps, work,
    rounds,
):  # fmt: skip
    """What `learn` does, with room for a query. A leaf counts no references, which would take longer to compile and to run."""
    for t in range(weights.shape[0]):
        first, m, weight = offsets[t], offsets[t + 1] - offsets[t], weights[t]
        if not (weight >= 0.0 and weight <= _HEAVIEST):
            return t
        if not (known or read_rows(X, first, m, mapping, relative, room.reading, room.rows)):
            return t
        own = y[first : first + m]
        levels, depth, ideal = find_grades(target, own, work)
        if levels < 0:
            return t
        if levels < 2:
            write_round(rounds[t], 0.0, 0.0, 0.0, 0.0, weight, m, 0.0, 0.0, True)
            continue
        rounding = _score(room.rows, m, relative, W, learner, room, others, first)
        if rounding < 0.0:
            return t
        learned, due = _learn_query(
            target, rule, graded_of(m, levels, depth, ideal, work), own, weight, keep[t],
            served[first : first + m] if served.shape[0] > 0 else served, relative, W, learner, mapping, hedge,
            hedge.first_query + t, room, steps, work, rounds[t], rounding,
        )  # fmt: skip
        if not learned:
            return t
        if due:
            second.step_newton(learner.places, learner.gram, learner.pending, learner.numbers[NUMBERS:RIDGES], W, steps)
        if weight > 0.0 and _want_presence(room.rows.cells, m, learner.places):
            return -(t + 1)
    return weights.shape[0]


@leaf
def _require_learner(learner, hedge, others, mapping, d):
    """Require a state of d features, and a hedge of its members and of others."""
    D, n, plain = learner.pending.shape[0], hedge.losses.shape[0], learner.plain.shape[1]
    require(learner.weights.shape[0] == learner.sums.shape[0] == learner.places.shape[0] == learner.signs.shape[0] == d)
    require(learner.plain.shape[0] == learner.marginals.shape[0] == d and plain in (0, N_PLAIN + 1))
    require(plain == 0 or learner.marginals.shape[1] == 2)
    require(
        learner.left.shape[0] == (D if plain > 0 else 0)
        and learner.slow_gram.shape[0] == (D * (D + 1) // 2 if plain > 0 else 0)
    )
    require(mapping.counts.shape[0] == d and learner.numbers.shape[0] == N_NUMBERS)
    require(learner.gram.shape[0] == D * (D + 1) // 2 and learner.curvatures.shape[0] == d)
    require(hedge.candidates.shape[0] == hedge.prior.shape[0] == n)
    require(hedge.candidates.shape[1] == hedge.scales.shape[0] == N_MEMBERS + max(plain - 1, 0) + others.shape[0])
