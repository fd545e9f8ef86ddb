"""The additive learner: a perceptron on rows of curves, its averages, a second-order learner, and a blend of all of them."""

import math
from typing import NamedTuple

import numpy as np

from online_rank._kernels import newton as second
from online_rank._kernels._jit import inlined, inner, kernel, leaf
from online_rank._kernels.arrays import all_finite, copy_to
from online_rank._kernels.blend import settle, shares
from online_rank._kernels.codes import CAPPED_SQUARES, DOCUMENTS, MASS, N_COUNTERS, SORT_SQUARES, SPREAD_SQUARES, SQUARES
from online_rank._kernels.curves import (
    MISSING,
    N_CELLS,
    N_COLUMNS,
    N_MEMBERS,
    N_POINTS,
    NEWTON,
    POINTS,
    PRESENT,
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
from online_rank._kernels.encoder import standardised
from online_rank._kernels.fits import require, require_block
from online_rank._kernels.graded import find_grades, graded_of, rank_pessimistically, ranking_loss
from online_rank._kernels.hashing import draws
from online_rank._kernels.perceptron import margin_of, respond, settings, share_of_spread
from online_rank._kernels.primitives import lane_sum, sum_of_squares
from online_rank._kernels.quantile_map import SCORE
from online_rank._kernels.rounds import write_round
from online_rank._kernels.vector_math import normal_quantile
from online_rank._kernels.workspace import CREDIT, ORDER, OTHER_CREDIT, SCORES, longest_query, workspace

#: Numbers of the state after the perceptron's: effective numbers of weights in the two averages; numbers of the
#: second-order learner; and the running mean squares of the members' scores within queries, with their weights.
AVERAGES = N_COUNTERS
NUMBERS = AVERAGES + 2
SCALES = NUMBERS + second.N_NUMBERS
N_NUMBERS = SCALES + 2 * N_MEMBERS
#: By how much running scales forget in a query.
_SCALE_DECAY = 0.99
#: Deviations of scores below this share of their mean are rounding.
_ROUNDING = 1e-12
#: `places[j, 1]` of a feature that has had no missing values yet, and once it has.
UNMET, WANTED = -2, -3
#: Places in a `rankers.hedge.HedgeAccount`, and by how much blends may be worse than their candidates before one is drawn.
MIXABILITY_GAP, SERVING_GAP, LARGEST_WEIGHT, BUDGET = 2, 4, 6, 1.0
#: The heaviest query.
_HEAVIEST = 1e100


@leaf
def scale_of(numbers, k):
    """sigma of member k: the running root mean square of its scores' deviations within queries; 1 before the first."""
    mean, weight = numbers[SCALES + 2 * k], numbers[SCALES + 2 * k + 1]
    return math.sqrt(mean / weight) if mean > 0.0 else 1.0


@leaf
def _learn_scale(numbers, k, s):
    m = s.shape[0]
    mean = lane_sum(s) / m
    square = 0.0
    for i in range(m):
        square += (s[i] - mean) * (s[i] - mean)
    # Of equal scores only the rounding of their mean is left.
    if square > m * (_ROUNDING * mean) ** 2:
        numbers[SCALES + 2 * k] = _SCALE_DECAY * numbers[SCALES + 2 * k] + square / m
        numbers[SCALES + 2 * k + 1] = _SCALE_DECAY * numbers[SCALES + 2 * k + 1] + 1.0


@kernel
def choose(numbers, hedge, query, weights):
    """Write the served weights of the members over their scales to weights[:N_MEMBERS], and the candidates' shares after them.

    Served is the mean of the candidates by their shares; or, once blends have been worse than their candidates by `BUDGET`, the
    candidate that is drawn for this number of the `query`. Returns eta = min(1, ln N / Delta), as `rankers.hedge.step_of`.
    """
    candidates, losses, account = hedge.candidates, hedge.losses, hedge.account
    n, pi = losses.shape[0], weights[N_MEMBERS:]
    step = 1.0 / account[LARGEST_WEIGHT]
    if account[MIXABILITY_GAP] > 0.0:
        step = min(step, math.log(n) / account[MIXABILITY_GAP])
    shares(losses, hedge.prior, step, pi)
    chosen = -1
    if account[SERVING_GAP] > BUDGET:
        draws(hedge.seed, query, weights[:1])
        above, chosen = pi[0], 0
        while chosen < n - 1 and above <= weights[0]:
            chosen += 1
            above += pi[chosen]
    weights[:N_MEMBERS] = 0.0
    for c in range(n):
        share = pi[c] if chosen < 0 else 1.0 if c == chosen else 0.0
        for k in range(N_MEMBERS):
            weights[k] += share * candidates[c, k]
    for k in range(N_MEMBERS):
        weights[k] /= scale_of(numbers, k)
    return step


@leaf
def _mix(scores, a, b, c, e, out):
    """out (m,) = the sum of the scores (4 m,), four of each document, by four weights."""
    for i in range(out.shape[0]):
        out[i] = (a * scores[4 * i] + b * scores[4 * i + 1]) + (c * scores[4 * i + 2] + e * scores[4 * i + 3])


class Learner(NamedTuple):
    """The state, changed in place.

    weights : (d, N_COLUMNS, N_MEMBERS) those that learn, two averages of them, and weights of the second-order learner
    sums : (d, 2, 2, POINTS + 1) of the target encodings
    signs : (d,) int64, 0 for none
    places, gram, pending, curvatures : of the second-order learner (`newton.learn_newton`, `newton.learn_alone`)
    numbers : (N_NUMBERS,)
    """

    weights: np.ndarray
    sums: np.ndarray
    signs: np.ndarray
    places: np.ndarray
    gram: np.ndarray
    pending: np.ndarray
    curvatures: np.ndarray
    numbers: np.ndarray


class Hedge(NamedTuple):
    """A blend: candidates (N, N_MEMBERS) and their prior; their losses (N,) and a `rankers.hedge.HedgeAccount`, which change;
    the seed of draws, and the number of the first query.
    """

    candidates: np.ndarray
    prior: np.ndarray
    losses: np.ndarray
    account: np.ndarray
    seed: int
    first_query: int


class Room(NamedTuple):
    """Memory for a query: its rows; the encodings at points (d, 2, POINTS + 1); updates (2, d, N_COLUMNS); scores of members,
    and coefficients, four for each document; curves or sums of a feature, and the latter shared between points; served weights
    and shares; losses.
    """

    rows: CurveRows
    reading: Reading
    values: np.ndarray
    updates: np.ndarray
    scores: np.ndarray
    parts: np.ndarray
    cells: np.ndarray
    points: np.ndarray
    chosen: np.ndarray
    losses: np.ndarray


@inner
def _room(rows, d, longest, n):
    return Room(
        rows, room_for_reading(d, longest), np.empty((d, 2, POINTS + 1)), np.empty((2, d, N_COLUMNS)),
        np.empty(4 * longest), np.empty(4 * longest), np.empty(8 * N_CELLS), np.empty(4 * N_POINTS),
        np.empty(N_MEMBERS + n), np.empty(n + 1),
    )  # fmt: skip


@leaf
def _judge(target, graded, candidates, given, numbers, weights, scores, work, losses):
    """Losses of all candidates and, last, of what was served: `given` scores (m,), or the blend by `weights`."""
    m, n = graded.level.shape[0], candidates.shape[0]
    order, mixed = work.integers[ORDER, :m], work.reals[SCORES, :m]
    scale, slow, fast, newton = scale_of(numbers, 0), scale_of(numbers, 1), scale_of(numbers, 2), scale_of(numbers, 3)
    for c in range(n + 1):
        if c < n:
            own = candidates[c]
            _mix(scores, own[0] / scale, own[1] / slow, own[2] / fast, own[3] / newton, mixed)
        elif given.shape[0] > 0:
            copy_to(mixed, given)
        else:
            _mix(scores, weights[0], weights[1], weights[2], weights[3], mixed)
        rank_pessimistically(mixed, graded, graded.depth, order, work)
        losses[c] = ranking_loss(target, graded, order)


@leaf
def _combine(rows, m, relative, adaptive, all_sums, signs, mapping, all_values, parts, sums, points, updates):
    """Combine the columns by the credits in `parts`, learn the encodings `all_sums`, and write the updates by both credits.

    A feature with a sign has no encodings. Returns both ||z||^2, and an upper bound on the squared norm of a document.
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
def _score(rows, m, relative, W, sums, values, cells, scores):
    """Write the encodings at points and the scores (4 m,) of the members; whether these are finite. cells : workspace"""
    for j in range(W.shape[0]):
        encode(sums[j, 0], values[j, 0])
        encode(sums[j, 1], values[j, 1])
    score_members(rows, m, W, values, relative, cells, scores)
    return all_finite(scores[: 4 * m])


@inlined
def _learn_query(
    target, rule, graded, y, weight, keep, given, relative, W, learner, mapping, hedge, query, room, steps, work, row
):  # fmt: skip
    """Learn a query that was read and scored. Returns whether it was learned, and whether the Newton learner is to step."""
    m, numbers, n = y.shape[0], learner.numbers, hedge.losses.shape[0]
    s, c, other, scores = work.reals[SCORES, :m], work.reals[CREDIT, :m], work.reals[OTHER_CREDIT, :m], room.scores
    step = choose(numbers, hedge, query, room.chosen)
    drawn = hedge.account[SERVING_GAP] > BUDGET
    _judge(target, graded, hedge.candidates, given, numbers, room.chosen, scores, work, room.losses)
    if weight == 0.0:
        write_round(row, room.losses[n], 0.0, 0.0, 0.0, weight, m, 0.0, 0.0, False)
        return True, False
    for i in range(m):
        s[i] = given[i] if given.shape[0] > 0 else scores[4 * i]
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
        room.updates,
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
    for k in range(N_MEMBERS):
        for i in range(m):
            s[i] = scores[4 * i + k]
        _learn_scale(numbers, k, s)
        if k == NEWTON and learner.pending.shape[0] > 0:
            second.weigh_pairs(graded, s, weight / m, steps)
            own = numbers[NUMBERS:SCALES]
            due = second.learn_newton(rows, m, learner.places, keep[2], learner.gram, learner.pending, own, steps)
            second.learn_alone(rows, m, learner.places, learner.signs, keep[2], learner.curvatures, W, steps)
    settle(room.losses, weight, room.chosen[N_MEMBERS:], step, 1.0, drawn, hedge.losses, hedge.account)
    write_round(row, room.losses[n], mass, square, offset, weight, m, norm, v_max, False)
    return True, due


@kernel
def learn(X, y, offsets, weights, discounts, config, mapping, learner, hedge, keep, served, read, rounds):
    """Learn from a block of queries.

    Parameters
    ----------
    X, y, offsets, weights, discounts : as `perceptron.learn`
    config : as `perceptron.settings` takes it, followed by whether there are relative columns
    mapping : what maps raw values, the `table` of a `StreamQuantileMap`
    learner, hedge : a `Learner` and a `Hedge`
    keep : (q, 3) factors of the past: of two averages, and of Hessians
    served : (n,) scores that were served, or (0,)
    read : the query that was scored last with this map, (m, d) or (0, 0), and its rows; if X is the same, it is not read again
    rounds : (q, 10) out

    Returns
    -------
    Number of queries learned; the next has bad values, and nothing of it was learned. Below 0, -1 times that many: learning
    stopped because the last of them has missing values of a feature that had none before; its `places[j, 1]` is `WANTED`.
    """
    require_block(X.shape[0], y, offsets, weights, discounts, rounds)
    target, rule = settings(config[:9], discounts)
    relative, d, longest = config[9] > 0.0, X.shape[1], longest_query(offsets)
    _require_learner(learner, hedge, mapping, d)
    require(served.shape[0] in (0, X.shape[0]) and keep.shape[0] >= weights.shape[0] and keep.shape[1] == 3)
    W, work = learner.weights.reshape((d, 4 * N_COLUMNS)), workspace(longest)
    known = offsets.shape[0] == 2 and same_bits(X, read.X)
    rows = read.rows if known else room_for_rows(d, longest)
    room, steps = _room(rows, d, longest, hedge.losses.shape[0]), second.room_for_steps(learner.pending.shape[0], longest)
    return _learn_block(
        X, y, offsets, weights, target, rule, relative, mapping, learner, W, hedge, keep, served, known, room, steps, work,
        rounds,
    )  # fmt: skip


@leaf
def _learn_block(
    X, y, offsets, weights, target, rule, relative, mapping, learner, W, hedge, keep, served, known, room, steps, work, rounds
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
        if not _score(room.rows, m, relative, W, learner.sums, room.values, room.cells, room.scores):
            return t
        learned, due = _learn_query(
            target, rule, graded_of(m, levels, depth, ideal, work), own, weight, keep[t],
            served[first : first + m] if served.shape[0] > 0 else served, relative, W, learner, mapping, hedge,
            hedge.first_query + t, room, steps, work, rounds[t],
        )  # fmt: skip
        if not learned:
            return t
        if due:
            second.step_newton(learner.places, learner.gram, learner.pending, learner.numbers[NUMBERS:SCALES], W, steps)
        if weight > 0.0 and _want_presence(room.rows.cells, m, learner.places):
            return -(t + 1)
    return weights.shape[0]


@leaf
def _require_learner(learner, hedge, mapping, d):
    """Require a state of d features."""
    D, n = learner.pending.shape[0], hedge.losses.shape[0]
    require(learner.weights.shape[0] == learner.sums.shape[0] == learner.places.shape[0] == learner.signs.shape[0] == d)
    require(mapping.counts.shape[0] == d and learner.numbers.shape[0] == N_NUMBERS)
    require(learner.gram.shape[0] == D * (D + 1) // 2 and learner.curvatures.shape[0] == d)
    require(hedge.candidates.shape[0] == hedge.prior.shape[0] == n and hedge.candidates.shape[1] == N_MEMBERS)
