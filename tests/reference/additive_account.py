"""What the certificate of an additive ranker speaks of, from losses and updates alone, with 50 digits.

These are statements 1, 7 and 8 of `docs/paper.md`. Members are scored by explicit columns (`tests.reference.additive`),
rankings are judged by the equations, shares, steps and gaps follow from the losses, and masses, norms and margins from losses
and from the changes of the weights.
"""

import functools
import itertools
from collections.abc import Iterator, Sequence
from decimal import Decimal, localcontext
from typing import Any, NamedTuple

import numpy as np

from online_rank import AdditiveRanker
from online_rank.base.schema import declared_state
from online_rank.bounds import certificate_of
from tests.reference import additive as reference

DIGITS = 50
ZERO = Decimal(0)
#: Members: the last weights, two averages and the second-order learner, then plain ones: a ridge regression, a perceptron and
#: sums that are cut off. Candidates: each of the former alone, and pairs half and half; each of the plain ones alone, halved
#: with the slow average, and with the second-order learner.
N_MEMBERS, CURVED, HALF = 7, 4, Decimal("0.5")
CANDIDATES = [{k: Decimal(1)} for k in range(CURVED)] + [
    {i: HALF, k: HALF} for i in range(CURVED) for k in range(i + 1, CURVED)
]
N_CURVED = len(CANDIDATES)
for _k in range(CURVED, N_MEMBERS):
    CANDIDATES += [{_k: Decimal(1)}, {1: HALF, _k: HALF}, {3: HALF, _k: HALF}]
#: Those without plain members share .65 of the prior, and the others .35; those with the ridge regression count four times.
PRIOR = [Decimal("0.65") / N_CURVED] * N_CURVED + [Decimal("0.35") * part / 18 for part in (4, 4, 4, 1, 1, 1, 1, 1, 1)]
#: Scores that differ by less, relative to their size, may be ranked either way by float32 columns.
_CLOSE = Decimal("1e-5")


class Check(NamedTuple):
    """`smaller` is at most `larger`, says a statement; rounding goes by `size`."""

    statement: str
    smaller: float
    larger: float
    size: float


def exact(values: Any) -> np.ndarray:
    """Floats as decimal numbers, without rounding."""
    return np.array([Decimal(float(x)) for x in np.ravel(values)], dtype=object).reshape(np.shape(values))


@functools.cache
def discount(place: int) -> Decimal:
    """1 / log2(place + 1)."""
    with localcontext(prec=DIGITS):
        return Decimal(2).ln() / Decimal(place + 1).ln()


def loss(scores: list[Decimal], y: list[int], k: int = 10) -> Decimal:
    """1 - NDCG@10; of equal scores the less relevant document comes first."""

    def dcg(grades: list[int]) -> Decimal:
        return sum(((2**r - 1) * discount(p) for p, r in enumerate(grades[:k], 1)), ZERO)

    ranked = sorted(range(len(y)), key=lambda i: (-scores[i], y[i]))
    return 1 - dcg([y[i] for i in ranked]) / dcg(sorted(y, reverse=True))


def has_near_tie(scores: list[Decimal], y: list[int], size: Decimal) -> bool:
    """Whether two documents of different grades have almost the same score, a sum of numbers of this size."""
    placed = sorted(range(len(y)), key=lambda i: scores[i])
    return any(y[a] != y[b] and scores[b] - scores[a] <= _CLOSE * size for a, b in itertools.pairwise(placed))


class Account:
    """The losses of candidates and of what was served, and what the updates of the last weights add up to."""

    def __init__(self, prior: Sequence[Decimal] = PRIOR) -> None:
        self.prior = prior
        self.losses = [ZERO] * len(prior)
        self.served = self.gap = self.serving = ZERO
        self.mass = self.squares = self.capped = ZERO
        self.updates: list[tuple[Decimal, np.ndarray]] = []

    @property
    def eta(self) -> Decimal:
        """The step of the next query."""
        size = Decimal(len(self.prior)).ln()
        return min(Decimal(1), size / self.gap) if self.gap > 0 else Decimal(1)

    def price(self, c: int) -> Decimal:
        """By how much the served loss may exceed the loss of a candidate."""
        return -self.prior[c].ln() / self.eta + self.gap + self.serving

    @property
    def limit(self) -> Decimal:
        """The least of the bounds by the candidates on what was served."""
        return min(L + self.price(c) for c, L in enumerate(self.losses))

    def settle(self, new: list[Decimal], served: Decimal) -> None:
        """Count the losses of a query."""
        eta, lowest = self.eta, min(self.losses)
        pi = [p * (-eta * (L - lowest)).exp() for p, L in zip(self.prior, self.losses, strict=True)]
        total = sum(pi, ZERO)
        mean = sum((p * x for p, x in zip(pi, new, strict=True)), ZERO) / total
        mixed = -(sum((p * (-eta * x).exp() for p, x in zip(pi, new, strict=True)), ZERO) / total).ln() / eta
        self.losses = [L + x for L, x in zip(self.losses, new, strict=True)]
        self.served, self.gap, self.serving = self.served + served, self.gap + mean - mixed, self.serving + served - mean

    def learn(self, mass: Decimal, z: np.ndarray) -> Decimal:
        """Count an update of the last weights; returns its margin."""
        margin = self.squares / self.mass if self.mass else ZERO
        square = sum(z * z, ZERO)
        self.mass, self.squares, self.capped = self.mass + mass, self.squares + square, self.capped + square + 2 * margin * mass
        self.updates.append((mass, z))
        return margin

    def mass_limit(self, u: np.ndarray) -> Decimal:
        """F(u) + ||u|| sqrt(Q + 2 sum tau V), with the least F(u) that these updates allow: V - <u, z> of each, or 0."""
        hinges = sum((max(ZERO, mass - z @ u[: len(z)]) for mass, z in self.updates), ZERO)
        return hinges + (sum(u * u, ZERO) * self.capped).sqrt()


def queries(rng: np.random.Generator, kind: int, model: AdditiveRanker) -> Iterator[tuple[np.ndarray, list[int], float]]:
    """Queries with weights: random, of a teacher that may turn, or graded against what is served or favoured."""
    d, n = int(rng.integers(1, 4)), int(rng.integers(5, 30))
    teacher, holes, weighted = rng.normal(size=d), rng.random() < 0.3, rng.random() < 0.3
    m = int(rng.integers(2, 9))
    for t in range(n):
        X = rng.integers(-2, 3, (m, d)).astype(float) if kind == 5 else np.exp(rng.normal(size=(m, d)))
        if holes:
            X[rng.random(X.shape) < 0.2] = np.nan
        value = np.nan_to_num(X) @ teacher * (-1.0 if kind == 3 and t > n / 2 else 1.0)
        y = np.digitize(value + 0.5 * rng.normal(size=m), [0.0, 1.5, 3.0])
        served = np.argsort(np.argsort(model.predict_one(X), kind="stable"), kind="stable")
        if kind == 0:
            y = rng.integers(0, 4, m)
        elif kind == 1:  # What is served is the worst.
            y = np.maximum(0, 3 - served)
        elif kind == 2:  # The first document is never relevant, and one other is.
            y = (served == rng.integers(0, m - 1)).astype(int)
        yield X, y.tolist(), float(rng.choice([0.25, 1.0])) if weighted else 1.0


def checks(seed: int) -> Iterator[Check]:
    """What must hold on one stream, after each query for the first two statements."""
    rng, model, account = np.random.default_rng([26, seed]), AdditiveRanker(seed=seed, trees=0), Account()
    with localcontext(prec=DIGITS):
        for X, y, weight in queries(rng, seed % 6, model):
            yield from _learned(model, account, X, y, weight)
        final = exact(declared_state(model).weights[:, :, 0].ravel())
        size = float(account.mass + account.served)
        comparators = [
            final,
            final * Decimal("0.3"),
            exact(rng.normal(size=len(final))),
            exact(0.01 * rng.normal(size=len(final))),
        ]
        for u in (final * 0, *comparators):
            limit = account.mass_limit(u)
            yield Check("V <= F(u) + ‖u‖ sqrt(Q + 2 sum tau V)", float(account.mass), float(limit), size)
            yield Check("loss of the last weights <= F(u) + ...", float(account.losses[0]), float(limit), size)
            yield Check(
                "served <= F(u) + ... + ln(1 / pi) / eta + Delta + G",
                float(account.served),
                float(limit + account.price(0)),
                size,
            )
        if account.updates:
            yield from _certified(model, account)


def _member_scores(columns: np.ndarray, weights: np.ndarray, plain: np.ndarray) -> list[Decimal]:
    """The scores of a document by its columns (d, 20): of four members by weights (d, 20, 4), and of plain ones (d, 4)."""
    curved = [columns.ravel() @ weights[:, :, k].ravel() for k in range(CURVED)]
    g, known = columns[:, 0], columns[:, 19]
    straight = [g @ plain[:, k] for k in range(N_MEMBERS - CURVED)]
    return [*curved, straight[0] + known @ plain[:, 3], *straight[1:]]


def _learned(model: AdditiveRanker, account: Account, X: np.ndarray, y: list[int], weight: float) -> Iterator[Check]:
    """Teach a query, and count what it was about."""
    answered, before, plain = (
        exact(model.predict_one(X)).tolist(),
        declared_state(model).weights.copy(),
        exact(declared_state(model).plain),
    )
    if not len(before):
        members = np.full((len(X), N_MEMBERS), ZERO)
    else:
        knots = [declared_state(model).front.knots(j) for j in range(len(before))]
        columns = exact(reference.columns(X, knots, declared_state(model).sums))
        members = np.array([_member_scores(row, exact(before), plain) for row in columns], dtype=object)
    # Any scales do that are fixed before the query.
    scaled = members / exact(model._sigmas())
    earlier, served = model.candidate_losses, model.account.served
    model.learn_one(X, y, weight)
    if len(set(y)) < 2:
        return
    w = Decimal(weight)
    scored = [[sum((part * s[k] for k, part in c.items()), ZERO) for s in scaled] for c in CANDIDATES]
    told = [*(model.candidate_losses - earlier).tolist(), model.account.served - served]
    new = [w * loss(s, y) for s in (*scored, answered)]
    for c, change in enumerate(told):
        if abs(change - float(new[c])) > 1e-9:
            # The loss of what was served is the loss of the answer, even where scores nearly tie.
            if c == len(CANDIDATES) or not has_near_tie(scored[c], y, abs(scaled).max()):
                raise AssertionError(f"candidate {c} lost {change}, and {float(new[c])} by columns: {scored}, {answered}, {y}")
            new[c] = Decimal(change)
    account.settle(new[:-1], new[-1])
    yield Check(
        "served <= min of L(c) + ln(1 / pi) / eta + Delta + G, at all times",
        float(account.served), float(account.limit), float(account.served),
    )  # fmt: skip
    if new[0] > 0:
        start = exact(np.vstack([before[:, :, 0], np.zeros((len(declared_state(model).weights) - len(before), 20))]).ravel())
        z, mass = exact(declared_state(model).weights[:, :, 0].ravel()) - start, w * (new[0] / w).sqrt()
        margin = account.learn(mass, z)
        yield Check("<w, z> <= tau V, at all times", float(z @ start), float(margin * mass), float(sum(abs(z * start), ZERO)))


def _certified(model: AdditiveRanker, account: Account) -> Iterator[Check]:
    """The certificate says what the account says."""
    certificate = certificate_of(model)
    limit, by_mass = float(account.limit), float(account.mass + account.price(0))
    away = abs(certificate.bound("blend_bound") - limit)
    yield Check("certificate: blend_bound agrees with the account", away, 1e-6 * (1.0 + limit), 0.0)
    yield Check("certificate: served <= blend_bound", certificate.loss, limit, limit)
    yield Check("served <= V + ln(1 / pi) / eta_T + Delta + G", certificate.loss, by_mass, by_mass)
