"""Clicks on random rankings: the draw, the weight of each pair, and learning from the pairs.

A ranking of k of m documents is drawn from the Plackett-Luce distribution of logits l: document after document, with
probabilities proportional to e^l among the remaining ones. R* is the ranking R with the documents at the positions a < b
exchanged, and

    rho = P(R*) / (P(R) + P(R*)),    P(R) rho(R) = P(R*) rho(R*).

So, weighted by rho, a pair occurs equally often in either order, for any users at the two positions (Oosterhuis & de Rijke
2018).
"""

import math
from typing import NamedTuple

import numpy as np

from online_rank._kernels import features
from online_rank._kernels._jit import inner, kernel
from online_rank._kernels.arrays import all_finite
from online_rank._kernels.codes import ALL_PAIRS, MAX_GRADE, OPTIMIZER_ROWS, PLACKETT_LUCE, SCALE_FREE
from online_rank._kernels.dense import score
from online_rank._kernels.fits import require, require_drawn
from online_rank._kernels.optimizers import descend, meet_features
from online_rank._kernels.order import sort_descending
from online_rank._kernels.primitives import sum_of_squares
from online_rank._kernels.rounds import write_round
from online_rank._kernels.vector_math import exp_negative, log
from online_rank._kernels.workspace import longest_query

# Logits are cut this far below the largest: e^-600 is still a number.
_DEEPEST = 600.0
# From here on rho is 1, and so is confidence.
_CERTAIN = 1e300
# Number of cells of the baseline of positions, and of cells for a single position.
PLACES, _OWN_PLACES = 24, 16
# Weight of its initial mean of 0.
_PRIOR = 5.0
# Grades teach pairs only above this position: otherwise a list of n documents would take n^3.
_NEAR = 50
# Largest contribution of a round to a sum, so that sums stay finite for any realistic number of rounds.
_LARGEST_SUM = 1e200


@kernel
def mixed_logits(scores, confidence, logits):
    """logits = confidence (8 (s - mean) / deviation - 4 ln rank): half depends on scores, half on ranks.

    Tied documents have different ranks, in the order of the greedy ranking. Returns whether the logits are finite.
    """
    m = scores.shape[0]
    require(logits.shape[0] == m)
    keys = np.empty(m)
    spare = np.empty(m)
    order = np.arange(m)
    spare_order = np.empty(m, np.int64)
    mean = 0.0
    for i in range(m):
        keys[i] = scores[i]
        mean += scores[i] / m
    variance = 0.0
    for i in range(m):
        variance += (scores[i] - mean) ** 2 / m
    sort_descending(keys, order, spare, spare_order)
    # Where all are equal, the deviation is rounding.
    varies = m > 0 and keys[0] > keys[m - 1] and variance > 0.0
    deviation = math.sqrt(variance) if varies else math.inf
    for r in range(m):
        logits[order[r]] = confidence * (8.0 * ((keys[r] - mean) / deviation) - 4.0 * log(r + 1.0)) + 0.0  # never -0
    return math.isfinite(variance)


@kernel
def draw(logits, noise, k, order, shown_logits):
    """The k documents with the largest logit + Gumbel noise, best first: a draw from the Plackett-Luce distribution.

    Returns logsumexp of the logits of the documents that are not shown; -inf when all are.
    """
    m = logits.shape[0]
    require(noise.shape[0] == m and 0 <= k <= m and order.shape[0] >= k and shown_logits.shape[0] >= k)
    keys = np.empty(m)
    ids = np.arange(m)
    for i in range(m):
        keys[i] = logits[i] + noise[i]
    sort_descending(keys, ids, np.empty(m), np.empty(m, np.int64))
    largest = -np.inf
    for p in range(m):
        if p < k:
            order[p] = ids[p]
            shown_logits[p] = logits[ids[p]]
        else:
            largest = max(largest, logits[ids[p]])
    total = 0.0
    for p in range(k, m):
        total += exp_negative(logits[ids[p]] - largest)
    return largest + log(total) if total > 0.0 else -np.inf


@kernel
def evidence(direction, squares):
    """The sum of theta_j^2 / G_j over the coordinates that have gradients, and their number.

    theta_j is the sum of a coordinate's gradients and G_j the sum of their squares.
    """
    require(direction.shape[0] == squares.shape[0])
    total, n = 0.0, 0.0
    for j in range(direction.shape[0]):
        if squares[j] > 0.0:
            total += direction[j] / squares[j] * direction[j]
            n += 1.0
    return total, n


@kernel
def confidence(total, n):
    """How far a scale-free learner trusts its own scores: e / (e + 2), e = max(0, mean_j theta_j^2 / G_j - 1), by `evidence`.

    theta^2 / G is 1 in expectation if gradients are noise, and otherwise grows with the number of queries.
    """
    excess = min(total / n - 1.0, _CERTAIN) if n > 0.0 else 0.0
    return excess / (excess + 2.0) if excess > 0.0 else 0.0


@kernel
def exponentials(logits, rest, e):
    """e = exp(logits - largest), none below e^-600; returns the same of `rest`, the logsumexp of what is not shown, or 0."""
    require(e.shape[0] >= logits.shape[0])
    largest = rest
    for p in range(logits.shape[0]):
        largest = max(largest, logits[p])
    for p in range(logits.shape[0]):
        e[p] = exp_negative(max(logits[p] - largest, -_DEEPEST))
    return exp_negative(max(rest - largest, -_DEEPEST)) if rest > -np.inf else 0.0


@kernel
def swap_weight(e, unshown, below, a, b):
    """rho of the positions a < b, in O(b - a), from positive sums alone.

    P(R*) / P(R) = prod over p = a+1..b of (C_p + e_b) / (C_p + e_a), where C_p is the sum over all positions from p on except
    b, plus the documents not shown; `below` is the sum of the positions after b.
    """
    require(0 <= a <= b < e.shape[0])
    others = unshown + below
    ratio = 1.0
    for p in range(b, a, -1):
        if p < b:
            others += e[p]
        ratio *= (others + e[b]) / (others + e[a])
    return ratio / (1.0 + ratio) if ratio < _CERTAIN else 1.0


@inner
def begin_pairs(drawn, e):
    """Write what `pair_weight` needs to e (n,), for PLACKETT_LUCE alone. Returns what is not shown, or 0."""
    if drawn.kind == PLACKETT_LUCE:
        return exponentials(drawn.logits, drawn.rest, e)
    e[:] = 0.0
    return 0.0


@inner
def pair_weight(kind, e, unshown, below, a, b):
    """The weight of the pair of positions a < b: rho, or half for the other kinds; 0 for pairs that do not count."""
    if kind == PLACKETT_LUCE:
        return swap_weight(e, unshown, below, a, b)
    return 0.5 if kind == ALL_PAIRS or (b == a + 1 and (a - kind) % 2 == 0) else 0.0


@inner
def considered(gains):
    """The positions whose documents the user is known to have seen: up to one after the last click."""
    last = -1
    for p in range(gains.shape[0]):
        if gains[p] > 0.0:
            last = p
    return min(last + 2, gains.shape[0]) if last >= 0 else 0


@inner
def swap_credit(drawn, scores, margin, e, c):
    """Credit of the documents shown: for each pair of gains g_i > g_j, c_i += rho (g_i - g_j) h(s_i - s_j), c_j -= the same.

    h is the derivative of the logistic function; with a margin (not NaN), h is 1 up to it and 0 beyond. For ALL_PAIRS (grades:
    both orders of a pair are equally likely) weights are divided by their sum. Returns the sums of the weights rho (g_i - g_j)
    of all pairs, of those that the scores order wrongly or tie, and of those within the margin.
    """
    kind, gains, by_margin = drawn.kind, drawn.gains, not math.isnan(margin)
    n = gains.shape[0] if kind == ALL_PAIRS else considered(gains)
    c[:] = 0.0
    total, wrong, within = 0.0, 0.0, 0.0
    unshown = begin_pairs(drawn, e)
    below = 0.0
    for p in range(n, gains.shape[0]):
        below += e[p]
    for b in range(n - 1, 0, -1):
        for a in range(b - 1, -1, -1):
            difference = gains[a] - gains[b]
            if difference == 0.0:
                continue
            weight = pair_weight(kind, e, unshown, below, a, b) * abs(difference)
            lead = scores[a] - scores[b] if difference > 0.0 else scores[b] - scores[a]
            total += weight
            wrong += weight if lead <= 0.0 else 0.0
            within += weight if lead <= margin else 0.0
            if by_margin:
                push = weight if lead <= margin else 0.0
            else:
                x = exp_negative(-abs(lead))
                push = weight * (x / (1.0 + x) / (1.0 + x))
            push = push if difference > 0.0 else -push
            c[a] += push
            c[b] -= push
        below += e[b]
    if kind == ALL_PAIRS and total > 0.0:
        for p in range(n):
            c[p] /= total
        return 1.0, wrong / total, within / total
    return total, wrong, within


@inner
def _gradient(X, c, z):
    """z = -sum of c_p x_p for c that sum to 0; exactly 0 where all rows are alike. Returns ||z||^2."""
    z[:] = 0.0
    for p in range(1, X.shape[0]):
        if c[p] != 0.0:
            for j in range(X.shape[1]):
                z[j] -= c[p] * (X[p, j] - X[0, j])
    return sum_of_squares(z)


@inner
def are_gains(kind, gains):
    """Whether all gains are numbers >= 0, and grades not too large."""
    for p in range(gains.shape[0]):
        if not (gains[p] >= 0.0 and gains[p] < np.inf and (kind != ALL_PAIRS or gains[p] <= MAX_GRADE)):
            return False
    return True


@inner
def place_of(position):
    """The cell of a position in the baseline: the first positions have separate cells, further down ever more share one."""
    if position < _OWN_PLACES:
        return position
    return min(_OWN_PLACES + int(math.log2(position / _OWN_PLACES)), PLACES - 1)


@inner
def baseline_credit(drawn, scores, baseline, e, c, met):
    """Credit of the drawn documents, the first `n_shown` of which were shown, minus the average effect of positions.

    For positions a < b, a shown, c_a += rho h(s_a - s_b) (g_a - g_b - beta_ab), c_b -= the same, with h as in `swap_credit` and
    beta_ab the mean of g_a - g_b so far, weighted by rho. For any beta that is fixed beforehand and depends only on the
    positions, equally attractive documents are pushed up in one order as much as down in the other. The mean subtracts the
    average effect of a pair of positions, which reduces the variance. Pairs of shown documents count if anything was
    clicked (which does not depend on their order either); pairs with a document held back always count.

    Parameters
    ----------
    drawn : of kind PLACKETT_LUCE, or the position of FairPairs' first pair; gains of documents that were not shown are 0
    scores : (n,) of the documents drawn
    baseline : (2, PLACES, PLACES) sums of rho and of rho (g_a - g_b) of the rounds before
    e, c : (n,) workspace, and the credit out
    met : (2, PLACES, PLACES) zeros, to which this round's contribution to the baseline is added

    Returns
    -------
    Sums of the weights rho |g_a - g_b| of all pairs, and of those that the scores order wrongly or tie; whether there is
    anything to learn.
    """
    kind, gains, places, n_shown = drawn.kind, drawn.gains, drawn.places, drawn.n_shown
    n = gains.shape[0]
    c[:] = 0.0
    total, wrong, learns, clicked = 0.0, 0.0, False, False
    for p in range(n_shown):
        clicked |= gains[p] > 0.0
    unshown = begin_pairs(drawn, e)
    below = 0.0
    for b in range(n - 1, 0, -1):
        to = place_of(places[min(b, n_shown)])
        whole = b < _NEAR and (clicked or b >= n_shown)
        for a in range(min(b, n_shown) - 1, -1, -1):
            difference = gains[a] - gains[b]
            if difference == 0.0 and not whole:
                continue
            rho = pair_weight(kind, e, unshown, below, a, b)
            if rho == 0.0 and kind != PLACKETT_LUCE:
                continue
            lead = scores[a] - scores[b]
            if difference != 0.0:
                weight = rho * abs(difference)
                total += weight
                wrong += weight if (lead <= 0.0 if difference > 0.0 else lead >= 0.0) else 0.0
            at = place_of(places[a])
            surplus = difference - baseline[1, at, to] / (baseline[0, at, to] + _PRIOR)
            met[0, at, to] += rho
            met[1, at, to] += rho * difference
            if surplus != 0.0:
                learns = True
                x = math.exp(-abs(lead))
                push = rho * surplus * (x / (1.0 + x) / (1.0 + x))
                c[a] += push
                c[b] -= push
        below += e[b]
    return total, wrong, learns


class Drawn(NamedTuple):
    """The documents drawn for one query, best first; the first `n_shown` were shown, as in `ShownBlock`."""

    kind: int
    n_shown: int
    rows: np.ndarray
    gains: np.ndarray
    places: np.ndarray
    logits: np.ndarray
    rest: float
    chances: np.ndarray


@inner
def drawn_of(shown, q):
    """The `Drawn` of query q of a `ShownBlock`."""
    first, stop = shown.starts[q], shown.starts[q + 1]
    return Drawn(
        shown.kinds[q],
        stop - first - shown.held[q],
        shown.rows[first:stop],
        shown.gains[first:stop],
        shown.places[first:stop],
        shown.logits[first:stop],
        shown.rests[q],
        shown.chances[first:stop],
    )


@inner
def teach(taken, spare, beginning, drawn, weight, wealth, baseline, met, reals):
    """Move the bets and the state of the scale-free optimizer by the clicks on one query; both are changed in place.

    `taken` has the documents drawn, (k, n), and `beginning` (n,), or (0,) for none, the weights to which the bets are added.
    `spare` (n,) is workspace; `met` receives the round's contribution to the baseline. Returns whether all is finite, whether
    anything was learned, the sums of `baseline_credit`, and ||z||^2.
    """
    X, bets = taken.documents, taken.w
    n = X.shape[0]
    s, e, c = reals[0, :n], reals[1, :n], reals[2, :n]
    meet_features(X, taken.z, spare, bets, taken.state)
    w = bets
    if beginning.shape[0] > 0:
        w = taken.z
        for j in range(w.shape[0]):
            w[j] = beginning[j] + bets[j]
    score(X, w, s)
    if not all_finite(s):
        return False, False, 0.0, 0.0, 0.0
    if drawn.kind == ALL_PAIRS:
        total, wrong, _ = swap_credit(drawn, s, np.nan, e, c)
        learns = total > 0.0
    else:
        total, wrong, learns = baseline_credit(drawn, s, baseline, e, c, met)
    if not weight * (total + n * n) <= _LARGEST_SUM:
        return False, False, total, wrong, 0.0
    if not (learns and weight > 0.0):
        return True, False, total, wrong, 0.0
    for p in range(n):
        c[p] *= weight
    square = _gradient(X, c, taken.z)
    descend(SCALE_FREE, wealth, 1.0, taken.z, bets, taken.state)
    return math.isfinite(square) and all_finite(bets) and all_finite(taken.state.ravel()), True, total, wrong, square


@inner
def add_to_baseline(drawn, baseline, met, weight):
    """Add a round's contribution, times its weight, to the baseline, and clear it. Cells of lower places have none."""
    last = 0
    for p in range(drawn.places.shape[0]):
        last = max(last, drawn.places[p])
    last = place_of(last)
    for i in range(last + 1):
        for j in range(last + 1):
            if met[0, i, j] > 0.0:
                baseline[0, i, j] += weight * met[0, i, j]
                baseline[1, i, j] += weight * met[1, i, j]
                met[0, i, j] = 0.0
                met[1, i, j] = 0.0


@kernel
def learn(X, offsets, shown, weights, wealth, w, average, state, beginning, baseline, counters, rounds):
    """Learn from the clicks of a block of queries.

    Parameters
    ----------
    X, offsets : features of n documents, and where queries begin and end (q + 1,)
    shown : the documents drawn and the clicks on them, an `online_rank.feedback.arrays.ShownBlock`
    weights : (q,) sample weights
    wealth : initial wealth of every coordinate of the scale-free optimizer
    w, average : as for `slam.learn`
    state, beginning : of the scale-free optimizer (4, d), and initial weights, (d,) or (0,) for zeros; None for `sparse.Rows`,
        whose table has them, and which have no column twice in a row
    baseline : (2, PLACES, PLACES) of `baseline_credit`
    counters : (6,), for `sparse.Rows` with what `sparse.count_evidence` counts
    rounds : (q, 10) out, a `Round` a row; the loss is the weighted share of pairs that the scores order wrongly or tie

    Returns
    -------
    Number of queries learned. When it is smaller than q, the next query has bad values or would make the state non-finite, and
    nothing of it was learned.
    """
    require_drawn(features.n_documents(X), offsets, shown, weights, rounds)
    require(baseline.shape == (2, PLACES, PLACES) and counters.shape[0] == 6)
    learner = features.learner_of(X, w, average, state, OPTIMIZER_ROWS[SCALE_FREE], offsets)
    if beginning is not None:
        require(beginning.shape[0] in (0, w.shape[0]))
    reals = np.empty((3, longest_query(shown.starts)))
    met = np.zeros(baseline.shape)
    for q in range(weights.shape[0]):
        drawn, weight = drawn_of(shown, q), weights[q]
        m = offsets[q + 1] - offsets[q]
        taken, own, largest, norms = features.take_drawn(learner, X, drawn.rows, offsets[q], beginning)
        if not (math.isfinite(norms) and weight >= 0.0 and math.isfinite(weight) and are_gains(drawn.kind, drawn.gains)):
            return q
        if taken.documents.size == 0:
            write_round(rounds[q], 0.0, 0.0, 0.0, 0.0, weight, m, largest, 0.0, True)
            continue
        fine, learned, total, wrong, square = teach(
            taken, learner.other[: taken.w.shape[0]], own, drawn, weight, wealth, baseline, met, reals
        )
        if not fine:
            return q
        if learned:
            for j in range(own.shape[0]):
                taken.w[j] += own[j]
            features.count_evidence(learner, taken, counters)
            features.keep(learner, taken, 1.0, counters)
        if drawn.kind != ALL_PAIRS:
            add_to_baseline(drawn, baseline, met, weight)
        loss = wrong / total if total > 0.0 else 0.0
        # No theorem covers this update, so it has no mass and no margin.
        write_round(rounds[q], loss, 0.0, square, 0.0, weight, m, largest, 0.0, not total > 0.0)
    return weights.shape[0]


@kernel
def harvest(clicks, logits, rest, wins):
    """Add one ranking to the counts from which the examination of positions is estimated.

    wins (n, n): for positions a < b < n of the ranking, wins[a, b] += rho c_a and wins[b, a] += rho c_b. Weighted by rho, a
    document is at a as often as at b, so the two sums have the ratio of the positions' examination.
    """
    k = clicks.shape[0]
    require(logits.shape[0] == k and wins.shape[0] == wins.shape[1])
    e = np.empty(k)
    unshown = exponentials(logits, rest, e)
    below = 0.0
    for b in range(k - 1, 0, -1):
        if b < wins.shape[0]:
            for a in range(b - 1, -1, -1):
                if clicks[a] > 0.0 or clicks[b] > 0.0:
                    rho = swap_weight(e, unshown, below, a, b)
                    wins[a, b] += rho * clicks[a]
                    wins[b, a] += rho * clicks[b]
        below += e[b]
