"""The additive learner: a perceptron on rows of curves, its averages, a second-order learner, and a blend of all of them."""

import math

import numpy as np

from online_rank._kernels import newton as second
from online_rank._kernels._jit import inlined, kernel, leaf
from online_rank._kernels.arrays import all_finite, copy_to
from online_rank._kernels.blend import settle, shares
from online_rank._kernels.codes import CAPPED_SQUARES, DOCUMENTS, MASS, N_COUNTERS, SORT_SQUARES, SPREAD_SQUARES, SQUARES
from online_rank._kernels.curves import (
    MISSING,
    N_CELLS,
    N_COLUMNS,
    N_MEMBERS,
    NEWTON,
    PRESENT,
    Map,
    combine_columns,
    encode,
    gather,
    learn_encoding,
    norm_bound,
    read_rows,
    room_for_reading,
    room_for_rows,
    score_members,
)
from online_rank._kernels.encoder import standardised
from online_rank._kernels.fits import require, require_block
from online_rank._kernels.graded import grade_query, rank_pessimistically, ranking_loss
from online_rank._kernels.hashing import draws
from online_rank._kernels.perceptron import margin_of, respond, settings, share_of_spread
from online_rank._kernels.primitives import sum_of_squares
from online_rank._kernels.quantile_map import SCORE
from online_rank._kernels.rounds import write_round
from online_rank._kernels.vector_math import normal_quantile
from online_rank._kernels.workspace import CREDIT, ORDER, OTHER_CREDIT, longest_query, workspace

#: Numbers of the state after the perceptron's: effective numbers of weights in the two averages; those of the second-order
#: learner; and the running mean squares of the members' scores within queries, with their weights.
AVERAGES = N_COUNTERS
NUMBERS = AVERAGES + 2
SCALES = NUMBERS + second.N_NUMBERS
N_NUMBERS = SCALES + 2 * N_MEMBERS
#: By how much running scales forget in a query.
_SCALE_DECAY = 0.99
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
    m, mean = s.shape[0], 0.0
    for i in range(m):
        mean += s[i]
    mean /= m
    square = 0.0
    for i in range(m):
        square += (s[i] - mean) * (s[i] - mean)
    if square > 0.0:
        numbers[SCALES + 2 * k] = _SCALE_DECAY * numbers[SCALES + 2 * k] + square / m
        numbers[SCALES + 2 * k + 1] = _SCALE_DECAY * numbers[SCALES + 2 * k + 1] + 1.0


@kernel
def choose(numbers, candidates, losses, account, prior, seed, query, weights):
    """Write the served weights of the members over their scales to weights[:N_MEMBERS], and the candidates' shares after them.

    Served is the mean of the candidates by their shares; or, once blends have been worse than their candidates by `BUDGET`, the
    candidate that is drawn for this number of the `query`. Returns eta = min(1, ln N / Delta), as `rankers.hedge.step_of`.
    """
    n, pi, uniform = losses.shape[0], weights[N_MEMBERS:], np.empty(1)
    step = 1.0 / account[LARGEST_WEIGHT]
    if account[MIXABILITY_GAP] > 0.0:
        step = min(step, math.log(n) / account[MIXABILITY_GAP])
    shares(losses, prior, step, pi)
    weights[:N_MEMBERS] = 0.0
    chosen = -1
    if account[SERVING_GAP] > BUDGET:
        draws(seed, query, uniform)
        above, chosen = pi[0], 0
        while chosen < n - 1 and above <= uniform[0]:
            chosen += 1
            above += pi[chosen]
    for c in range(n):
        share = pi[c] if chosen < 0 else 1.0 if c == chosen else 0.0
        for k in range(N_MEMBERS):
            weights[k] += share * candidates[c, k]
    for k in range(N_MEMBERS):
        weights[k] /= scale_of(numbers, k)
    return step


@leaf
def _mix(scores, a, b, c, e, out):
    """out (m,) = the sum of the scores (m, N_MEMBERS) by four weights."""
    for i in range(out.shape[0]):
        out[i] = (a * scores[i, 0] + b * scores[i, 1]) + (c * scores[i, 2] + e * scores[i, 3])


@inlined
def _judge(target, graded, scores, candidates, weights, served, numbers, losses, mixed, work):
    """Losses of all candidates and, last, of what was served: `served` scores (m,), or the blend by `weights`."""
    order, n = work.integers[ORDER, : mixed.shape[0]], candidates.shape[0]
    scale, slow, fast, newton = scale_of(numbers, 0), scale_of(numbers, 1), scale_of(numbers, 2), scale_of(numbers, 3)
    for c in range(n + 1):
        if c < n:
            own = candidates[c]
            _mix(scores, own[0] / scale, own[1] / slow, own[2] / fast, own[3] / newton, mixed)
        elif served.shape[0] > 0:
            copy_to(mixed, served)
        else:
            _mix(scores, weights[0], weights[1], weights[2], weights[3], mixed)
        rank_pessimistically(mixed, graded, graded.depth, order, work)
        losses[c] = ranking_loss(target, graded, order)


@inlined
def _update(rows, m, parts, sums, mapping, signs, Z, counters, mass, adaptive, relative, of_g, of_q, lines):
    """Combine the columns by the credits in `parts` (m, 4), learn encodings, and write the update to Z[0] (d, N_COLUMNS).

    A feature with a sign has no encodings.

    Returns ||z||^2, the new sums of the squares of both credits, and an upper bound on the squared norm of a document.
    """
    d, square, other, norm = sums.shape[0], 0.0, 0.0, 0.0
    rank = normal_quantile(0.5 / m) if relative else 0.0
    encodings, rank_encodings = lines[0], lines[1]
    for j in range(d):
        gather(rows.g[j, :m], rows.cells[j, :m], parts.reshape(-1), of_g.reshape(-1))
        encoded, rank_encoded = encode(sums[j, 0], encodings), encode(sums[j, 1], rank_encodings)
        if relative:
            gather(rows.q[j, :m], rows.q_cells[j, :m], parts.reshape(-1), of_q.reshape(-1))
        scores = mapping.knots[j, SCORE]
        norm += norm_bound(max(abs(scores[0]), abs(scores[max(mapping.counts[j] - 1, 0)])), rank, encoded, rank_encoded)
        if signs[j] != 0:
            encodings[:], rank_encodings[:] = 0.0, 0.0
        combine_columns(of_g, of_q, 0, encodings, rank_encodings, Z[0, j])
        square += sum_of_squares(Z[0, j])
        if adaptive:
            combine_columns(of_g, of_q, 1, encodings, rank_encodings, Z[1, j])
            other += sum_of_squares(Z[1, j])
        if signs[j] == 0:
            learn_encoding(of_g, True, sums[j, 0])
            if relative:
                learn_encoding(of_q, False, sums[j, 1])
    of_spread, of_sort = counters[SPREAD_SQUARES], counters[SORT_SQUARES]
    if adaptive and mass > 0.0:
        share, of_spread, of_sort = share_of_spread(square, other, mass, counters)
        square = 0.0
        for j in range(d):
            for k in range(N_COLUMNS):
                Z[0, j, k] = share * Z[0, j, k] + (1.0 - share) * Z[1, j, k]
            square += sum_of_squares(Z[0, j])
    return square, of_spread, of_sort, norm


@leaf
def _add_and_average(W, Z, signs, numbers, updates, keep):
    """Add Z (d, N_COLUMNS) to the weights that learn, project them on those with the given signs, and average them."""
    for h in range(2):
        numbers[AVERAGES + h] = keep[h] * numbers[AVERAGES + h] + 1.0
    slow, fast = 1.0 / numbers[AVERAGES], 1.0 / numbers[AVERAGES + 1]
    for j in range(W.shape[0]):
        for k in range(N_COLUMNS):
            own = W[j, k]
            w = own[0] + (Z[j, k] if updates else 0.0)
            if k != PRESENT and w * signs[j] < 0.0:
                w = 0.0
            own[0] = w
            own[1] += (w - own[1]) * slow
            own[2] += (w - own[2]) * fast


@leaf
def _want_presence(rows, m, places):
    """Mark the features with missing values that may have a column of presence and have none yet; whether there are any."""
    found = False
    for j in range(places.shape[0]):
        if places[j, 1] == UNMET:
            cells, misses = rows.cells[j], False
            for i in range(m):
                misses |= cells[i] == MISSING
            if misses:
                places[j, 1] = WANTED
                found = True
    return found


@kernel
def learn(
    X, y, offsets, weights, discounts, config, counts, knots, cells, finders, W, sums, signs, places, gram, pending, numbers,
    candidates, losses, account, prior, keep, served, seed, first_query, rounds,
):  # fmt: skip
    """Learn from a block of queries.

    Parameters
    ----------
    X, y, offsets, weights, discounts : as `perceptron.learn`
    config : as `perceptron.settings` takes it, followed by whether there are relative columns
    counts, knots, cells, finders : the map of raw values
    W : (d, N_COLUMNS, N_MEMBERS) the weights that learn, two averages, and those of the second-order learner
    sums : (d, 2, 2, POINTS + 1) of the target encodings
    signs : (d,) int64, 0 for none
    places, gram, pending : of the second-order learner (`newton.learn_newton`)
    numbers : (N_NUMBERS,)
    candidates, losses, account, prior : of the hedge
    keep : (q, 3) factors of the past: of two averages, and of Hessians
    served : (n,) scores that were served, or (0,)
    seed, first_query : of draws, and the number of the first query
    rounds : (q, 10) out

    Returns
    -------
    Number of queries learned; the next has bad values, and nothing of it was learned, or learning stopped because the last has
    missing values of a feature that had none before: its `places[j, 1]` is `WANTED`.
    """
    require_block(X.shape[0], y, offsets, weights, discounts, rounds)
    target, rule = settings(config[:9], discounts)
    relative, is_served, d, longest = config[9] > 0.0, served.shape[0] > 0, X.shape[1], longest_query(offsets)
    require(served.shape[0] in (0, X.shape[0]) and signs.shape[0] == X.shape[1])
    require(W.shape[0] == sums.shape[0] == places.shape[0] == counts.shape[0] == d and keep.shape[0] >= weights.shape[0])
    require(gram.shape[0] == pending.shape[0] * (pending.shape[0] + 1) // 2 and numbers.shape[0] == N_NUMBERS)
    mapping, room, work = Map(counts, knots, cells, finders), room_for_reading(longest), workspace(longest)
    rows, all_scores, parts = room_for_rows(d, longest), np.empty((longest, N_MEMBERS)), np.empty((longest, 4))
    curves, lines, base, Z = np.empty((N_CELLS, 8)), np.empty((2, 2, N_CELLS)), np.empty(N_MEMBERS), np.empty((2, d, N_COLUMNS))
    of_g, of_q = np.empty((N_CELLS, 8)), np.zeros((N_CELLS, 8))
    chosen, new_losses = np.empty(N_MEMBERS + losses.shape[0]), np.empty(losses.shape[0] + 1)
    mixed, pushes, bends, standard = np.empty(longest), np.empty(longest), np.empty(longest), np.empty(longest)
    order, pair_room = np.empty(2 * longest + 1, np.int64), np.empty((5, longest))
    for t in range(weights.shape[0]):
        first, weight = offsets[t], weights[t]
        m = offsets[t + 1] - first
        if not (weight >= 0.0 and weight <= _HEAVIEST and read_rows(X, first, m, mapping, relative, room, rows)):
            return t
        scores, s, c, other = all_scores[:m], mixed[:m], work.reals[CREDIT, :m], work.reals[OTHER_CREDIT, :m]
        graded = grade_query(target, y[first : first + m], work)
        if graded.levels < 0:
            return t
        if graded.levels < 2:
            write_round(rounds[t], 0.0, 0.0, 0.0, 0.0, weight, m, 0.0, 0.0, True)
            continue
        score_members(rows, m, W, sums, relative, curves, lines, base, scores)
        if not all_finite(scores.reshape(-1)):
            return t
        step = choose(numbers, candidates, losses, account, prior, seed, first_query + t, chosen)
        drawn = account[SERVING_GAP] > BUDGET
        given = served[first : first + m] if is_served else served
        _judge(target, graded, scores, candidates, chosen, given, numbers, new_losses, s, work)
        for i in range(m):
            s[i] = served[first + i] if is_served else scores[i, 0]
        if weight == 0.0:
            write_round(rounds[t], new_losses[candidates.shape[0]], 0.0, 0.0, 0.0, weight, m, 0.0, 0.0, False)
            continue
        offset = margin_of(rule, numbers)
        loss, mass, v_max, _ = respond(target, rule, graded, s, weight, offset, work)
        if not math.isfinite(mass):
            return t
        updates = loss > 0.0
        standardised(y[first : first + m], standard[:m])
        for i in range(m):
            parts[i, 0], parts[i, 1] = (c[i], other[i]) if updates else (0.0, 0.0)
            parts[i, 2], parts[i, 3] = weight * standard[i], weight
        square, of_spread, of_sort, norm = _update(
            rows, m, parts[:m], sums, mapping, signs, Z, numbers, mass, updates, relative, of_g, of_q, lines
        )
        numbers[SPREAD_SQUARES], numbers[SORT_SQUARES] = of_spread, of_sort
        _add_and_average(W, Z[0], signs, numbers, updates, keep[t])
        numbers[DOCUMENTS] += m
        numbers[SQUARES] += square
        numbers[MASS] += mass
        numbers[CAPPED_SQUARES] += square + 2.0 * offset * mass
        if pending.shape[0] > 0:
            for i in range(m):
                s[i] = scores[i, NEWTON]
            second.weigh_pairs(graded, s, weight / m, order, pair_room, pushes[:m], bends[:m])
            second.learn_newton(rows, m, places, pushes[:m], bends[:m], keep[t, 2], gram, pending, numbers[NUMBERS:SCALES], W)
        for k in range(N_MEMBERS):
            for i in range(m):
                s[i] = scores[i, k]
            _learn_scale(numbers, k, s)
        settle(new_losses, weight, chosen[N_MEMBERS:], step, 1.0, drawn, losses, account)
        write_round(rounds[t], new_losses[candidates.shape[0]], mass, square, offset, weight, m, norm, v_max, False)
        if _want_presence(rows, m, places):
            return t + 1
    return weights.shape[0]
