"""A blend of members on running scales: its candidates, what they lose, and which weights serve."""

import math
from typing import NamedTuple

import numpy as np

from online_rank._kernels._jit import kernel, leaf
from online_rank._kernels.arrays import copy_to
from online_rank._kernels.blend import shares
from online_rank._kernels.graded import rank_pessimistically, ranking_loss
from online_rank._kernels.hashing import draws
from online_rank._kernels.primitives import lane_sum
from online_rank._kernels.workspace import ORDER, SCORES

#: By how much running scales forget in a query.
_SCALE_DECAY = 0.99
#: Deviations of scores below this share of their mean are rounding. So are those below this: where the terms of a score cancel,
#: only the rounding of the terms is left, which are about 1.
_ROUNDING = 1e-12
#: Places in a `rankers.hedge.HedgeAccount`, and by how much blends may be worse than their candidates before one is drawn.
MIXABILITY_GAP, SERVING_GAP, LARGEST_WEIGHT, BUDGET = 2, 4, 6, 1.0
#: What is added to the seed of a ranker for draws of the blends around its curves, which must not depend on each other; primes,
#: so that no other ranker has these seeds by chance.
OF_TREES, OF_WORDS = 7_477_081, 15_485_863


class Hedge(NamedTuple):
    """A blend of K members by N candidates: candidates (N, K) and their prior (N,); what changes in place: running mean squares
    of the members' scores within queries, with their weights, (K, 2), losses (N,) and a `rankers.hedge.HedgeAccount`; the seed
    of draws, and the number of the first query.
    """

    candidates: np.ndarray
    prior: np.ndarray
    scales: np.ndarray
    losses: np.ndarray
    account: np.ndarray
    seed: int
    first_query: int


@leaf
def scale_of(scales, k):
    """sigma of member k: the running root mean square of its scores' deviations within queries; 1 before the first."""
    mean, weight = scales[k, 0], scales[k, 1]
    return math.sqrt(mean / weight) if mean > 0.0 else 1.0


@leaf
def learn_scale(scales, k, s):
    """Let the scale of member k learn its scores s (m,)."""
    m = s.shape[0]
    mean = lane_sum(s) / m
    square = 0.0
    for i in range(m):
        square += (s[i] - mean) * (s[i] - mean)
    # Of equal scores only rounding is left. A scale of it would make the next scores of the member 10^16 times too large.
    least = _ROUNDING * max(abs(mean), 1.0)
    if square > m * least * least:
        scales[k, 0] = _SCALE_DECAY * scales[k, 0] + square / m
        scales[k, 1] = _SCALE_DECAY * scales[k, 1] + 1.0


@kernel
def choose(hedge, query, weights):
    """Write the served weights of the K members over their scales to weights[:K], and the candidates' shares after them.

    Served is the mean of the candidates by their shares; or, once blends have been worse than their candidates by `BUDGET`, the
    candidate that is drawn for this number of the `query`. Returns eta = min(1, ln N / Delta), as `rankers.hedge.step_of`.
    """
    candidates, losses, account = hedge.candidates, hedge.losses, hedge.account
    n, K = losses.shape[0], candidates.shape[1]
    pi = weights[K:]
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
    weights[:K] = 0.0
    for c in range(n):
        share = pi[c] if chosen < 0 else 1.0 if c == chosen else 0.0
        for k in range(K):
            weights[k] += share * candidates[c, k]
    for k in range(K):
        weights[k] /= scale_of(hedge.scales, k)
    return step


@leaf
def mix(weights, S, out):
    """out (m,) = the sum of weights[k] S[k]; S (K, m or more)."""
    m = out.shape[0]
    out[:] = 0.0
    for k in range(weights.shape[0]):
        if weights[k] != 0.0:
            own = S[k]
            for i in range(m):
                out[i] += weights[k] * own[i]


@leaf
def lost(target, graded, s, work):
    """The loss of the ranking by scores s (m,), of equal ones the less relevant document first."""
    order = work.integers[ORDER, : s.shape[0]]
    rank_pessimistically(s, graded, graded.depth, order, work)
    return ranking_loss(target, graded, order)


@leaf
def judge_candidates(target, graded, hedge, S, own, work, losses):
    """losses[:N] = the losses of the candidates, by scores S (K, m or more) of the members; own : (K,) workspace"""
    n, K = hedge.candidates.shape
    mixed = work.reals[SCORES, : graded.level.shape[0]]
    for c in range(n):
        for k in range(K):
            weight = hedge.candidates[c, k]
            own[k] = weight / scale_of(hedge.scales, k) if weight != 0.0 else 0.0
        mix(own, S, mixed)
        losses[c] = lost(target, graded, mixed, work)


@leaf
def nearly_tie(s, graded, rounding, work):
    """Whether documents of different grades have scores so close, right after `lost` ranked s, that rounding may order them."""
    order, level, depth = work.integers[ORDER], graded.level, graded.depth
    last, found = order[depth - 1], False
    lowest = s[last]
    for p in range(depth - 1):
        above, below = order[p], order[p + 1]
        found |= s[above] - s[below] <= rounding and level[above] != level[below]
    for i in range(s.shape[0]):
        found |= abs(s[i] - lowest) <= rounding and level[i] != level[last]
    return found


@leaf
def judge_given(target, graded, given, work):
    """The loss of the ranking by `given` scores (m,), which are not changed."""
    s = work.reals[SCORES, : given.shape[0]]
    copy_to(s, given)
    return lost(target, graded, s, work)
