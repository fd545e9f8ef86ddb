"""Users who teach a ranker, compiled: draw by draw what `show_one`, `User.clicks` and `learn_one` do, many times as fast.

`tests/benchmarks/test_simulation.py` compares the two.
"""

from collections.abc import Sequence
from typing import NamedTuple

import numpy as np

from online_rank._kernels import clicks as kernels
from online_rank._kernels._jit import kernel
from online_rank._kernels.codes import PLACKETT_LUCE
from online_rank._kernels.dense import score
from online_rank.base.draws import counted_generator
from online_rank.feedback import PlackettLuce
from online_rank.feedback.arrays import ShownBlock
from online_rank.stream.clicks import CascadeUser, DependentUser, PositionUser, TrustUser, User

__all__ = ["Chance", "Learner", "Queries", "beginner", "chance", "pdgd_rounds", "queries_in_one", "swap_rounds", "tables"]

K = 10


class Queries(NamedTuple):
    """Queries one after the other: features (n, d), gains 2^grade - 1 (n,), grades (n,), offsets (q + 1,), best DCG@k (q,)."""

    X: np.ndarray
    gains: np.ndarray
    y: np.ndarray
    offsets: np.ndarray
    ideal: np.ndarray


class Chance(NamedTuple):
    """All that is drawn in n impressions: the queries (n,), Gumbel noise (n, m), and what users draw (n, 2, k)."""

    queries: np.ndarray
    noise: np.ndarray
    users: np.ndarray


class Learner(NamedTuple):
    """A linear ranker: weights (d,), state of its optimizer (4, d), rate (1,); what clicks say of positions (16, K, K), and its
    baseline of positions; weights that it began with, (d,) or (0,), and the deviation that scores are still to be scaled to.
    """

    w: np.ndarray
    state: np.ndarray
    wins: np.ndarray
    rate: np.ndarray
    baseline: np.ndarray
    beginning: np.ndarray
    strength: np.ndarray


def beginner(d: int, wealth: float = 0.1, beginning: Sequence[float] | np.ndarray = (), strength: float = 0.0) -> Learner:
    """A ranker that has learned nothing, or one that begins with given weights."""
    state = np.zeros((4, d))
    state[3] = wealth
    baseline = np.zeros((2, kernels.PLACES, kernels.PLACES))
    begun = np.array(beginning, dtype=np.float64)
    w = begun.copy() if len(begun) else np.zeros(d)
    return Learner(w, state, np.zeros((16, K, K)), np.array([0.1]), baseline, begun, np.array([strength]))


def queries_in_one(queries: Sequence[tuple[np.ndarray, np.ndarray]], slots: int = K) -> Queries:
    """Queries (X, y) as one block; `slots` documents of each are shown."""
    y = np.concatenate([grades for _, grades in queries])
    offsets = np.cumsum([0, *(len(grades) for _, grades in queries)])
    discounts = 1.0 / np.log2(np.arange(2, slots + 2))
    best = [np.sort(2.0**grades - 1.0)[::-1][:slots] for _, grades in queries]
    ideal = np.array([gains @ discounts[: len(gains)] for gains in best])
    return Queries(np.concatenate([X for X, _ in queries]), 2.0**y - 1.0, y, offsets, ideal)


def chance(queries: Queries, drawn: np.ndarray, who: User, seed: int, counted: bool, slots: int = K) -> Chance:
    """What a policy and a user of these seeds would draw; `counted`: by number, as `PlackettLuce`; else one after the other."""
    sizes = np.diff(queries.offsets)[drawn]
    noise, users = np.zeros((len(drawn), sizes.max())), np.ones((len(drawn), 2, slots))
    rows = 2 if isinstance(who, CascadeUser | DependentUser) else 1
    one, policy = np.random.default_rng(seed), PlackettLuce()
    for t, m in enumerate(sizes.tolist()):
        noise[t, :m] = (counted_generator(policy, seed, t) if counted else one).gumbel(size=m)
        k = min(m, slots)
        users[t, :rows, :k] = counted_generator(who, who.seed, t).random((rows, k))
    if isinstance(who, DependentUser):
        # A user continues if the draw is small, and leaves otherwise.
        users[:, 1] = 1.0 - users[:, 1]
    return Chance(drawn, noise, users)


def tables(who: User, n_grades: int) -> tuple[np.ndarray, np.ndarray]:
    """Probabilities of a click, and of leaving after one, by grade and position (n_grades, K)."""
    position = np.arange(1.0, K + 1.0)
    leave = np.zeros((n_grades, K))
    if isinstance(who, TrustUser):
        relevant = np.array(who.relevant)[:n_grades, None]
        seen_as = relevant * (1.0 - (position + 1.0) / 100.0) + (1.0 - relevant) * 0.65 / position
        return position**-who.eta * seen_as, leave
    if isinstance(who, PositionUser):
        return position**-who.eta * np.array(who.click)[:n_grades, None], leave
    if isinstance(who, DependentUser):
        return np.array(who.click)[:n_grades, None] + leave, leave + 1.0 - who.persistence / position
    if isinstance(who, CascadeUser):
        return np.array(who.click)[:n_grades, None] + leave, np.array(who.stop)[:n_grades, None] + leave
    raise TypeError(f"{type(who).__name__} has no table")


@kernel
def _browse(grades, order, uniforms, click, leave, clicks):
    """The clicks (k,) of a user on what is shown."""
    clicks[:] = 0.0
    for p in range(order.shape[0]):
        g = grades[order[p]]
        if uniforms[0, p] < click[g, p]:
            clicks[p] = 1.0
            if uniforms[1, p] < leave[g, p]:
                return


@kernel
def _quality(gains, order, ideal):
    """NDCG of a list; 0 for a query without a relevant document."""
    total = 0.0
    for p in range(order.shape[0]):
        total += gains[order[p]] / np.log2(p + 2.0)
    return total / ideal if ideal > 0.0 else 0.0


@kernel
def swap_rounds(queries, chance, click, leave, with_rho, wealth, learner, first, stop, quality):
    """Impressions `first` to `stop` of a `SwapRanker`, or of one that takes every order for as likely as every other.

    At least three documents are shown; with fewer it would learn from those held back.
    """
    rounds, one, kinds = np.empty((1, 10)), np.ones(1), np.full(1, PLACKETT_LUCE)
    rests, counters = np.empty(1), np.zeros(6)
    for t in range(first, stop):
        q = chance.queries[t]
        a, b = queries.offsets[q], queries.offsets[q + 1]
        m = b - a
        k = min(m, chance.users.shape[2])
        X, scores, logits = queries.X[a:b], np.empty(m), np.empty(m)
        order, drawn, clicks = np.empty(k, np.int64), np.empty(k), np.empty(k)
        score(X, learner.w, scores)
        total, n = kernels.evidence(learner.state[0], learner.state[1])
        confidence = 1.0 if learner.beginning.shape[0] > 0 else kernels.confidence(total, n)
        kernels.mixed_logits(scores, confidence, logits)
        rests[0] = kernels.draw(logits, chance.noise[t, :m], k, order, drawn)
        quality[t] = _quality(queries.gains[a:b], order, queries.ideal[q])
        _browse(queries.y[a:b], order, chance.users[t], click, leave, clicks)
        kernels.harvest(clicks, drawn, rests[0], learner.wins[t % learner.wins.shape[0]])
        if not with_rho:
            drawn[:] = 0.0
            rests[0] = 0.0
        if learner.strength[0] > 0.0:
            spread = np.std(scores[order])
            if spread > 0.0:
                factor, learner.strength[0] = learner.strength[0] / spread, 0.0
                learner.w[:] *= factor
                learner.beginning[:] *= factor
        none = np.empty(0)
        shown = ShownBlock(
            order, np.array([0, k]), np.zeros(1, np.int64), clicks, np.arange(k), drawn, rests, kinds, none
        )  # fmt: skip
        feedback = np.array([0, m]), shown, one
        weights = learner.w, none, learner.state, learner.beginning
        kernels.learn(X, *feedback, wealth, *weights, learner.baseline, counters, rounds)


@kernel
def pdgd_rounds(queries, chance, click, leave, with_rho, decay, learner, first, stop, quality):
    """Impressions `first` to `stop` of `_pdgd.PDGD`, or of `_pdgd.ClickSkip`."""
    for t in range(first, stop):
        q = chance.queries[t]
        a, b = queries.offsets[q], queries.offsets[q + 1]
        m = b - a
        k = min(m, chance.users.shape[2])
        X, scores, e, c = queries.X[a:b], np.empty(m), np.empty(k), np.empty(k)
        order, shown, clicks = np.empty(k, np.int64), np.empty(k), np.empty(k)
        score(X, learner.w, scores)
        rest = kernels.draw(scores, chance.noise[t, :m], k, order, shown)
        quality[t] = _quality(queries.gains[a:b], order, queries.ideal[q])
        _browse(queries.y[a:b], order, chance.users[t], click, leave, clicks)
        # Of equal logits the weight of each pair is 1/2, where `ClickSkip` has 1.
        logits = shown if with_rho else np.zeros(k)
        drawn = kernels.Drawn(PLACKETT_LUCE, k, order, clicks, np.arange(k), logits, rest, np.zeros(k))
        total, _, _ = kernels.swap_credit(drawn, shown, np.nan, e, c)
        if total > 0.0:
            step = learner.rate[0] * (1.0 if with_rho else 2.0)
            for p in range(k):
                for j in range(X.shape[1]):
                    learner.w[j] += step * c[p] * X[order[p], j]
            learner.rate[0] *= decay
