"""What the certificate of an additive ranker with trees speaks of, from losses alone, with 50 digits.

This is statement 9 of `docs/paper.md`. The curves' scores are what the ranker answers without its trees; trees are walked
document by document. Candidates are judged by the equations, and shares, steps and gaps follow from the losses, for the blend
of curves and trees; the account of the curves' own blend is checked elsewhere (`additive_account`).
"""

import copy
from collections.abc import Iterator
from decimal import Decimal, localcontext
from typing import Any

import numpy as np

from online_rank import AdditiveRanker
from online_rank._kernels import leaves
from online_rank.base.schema import declared_state
from online_rank.bounds import certificate_of
from online_rank.rankers import growing_trees
from tests.reference import growing_trees as reference
from tests.reference.additive_account import DIGITS, ZERO, Account, Check, exact, has_near_tie, loss, queries

_MIXTURES = exact(growing_trees.MIXTURES)
_PRIOR = [Decimal("0.5")] + [Decimal("0.5") / 6] * 6


def _scores(model: AdditiveRanker, X: np.ndarray) -> np.ndarray:
    """The scores (3, m) of curves, averages of leaves and last leaves, over their scales; decimal numbers."""
    curves, front, trees = copy.deepcopy(model), declared_state(model).front, declared_state(model).trees
    curves._trees = None
    scores, held = np.zeros((3, len(X))), declared_state(trees)
    scores[0] = curves.predict_one(X)
    if trees.n_trees:
        g = np.array([np.interp(X[:, j], *front.knots(j)) for j in range(X.shape[1])])
        for i in range(len(X)):
            row = [reference.bin_of(None if np.isnan(x) else float(np.float32(z))) for x, z in zip(X[i], g[:, i], strict=True)]
            for k in range(trees.n_trees):
                v = reference.leaf(row, held.splits[k, :15], held.splits[k, 15:])
                scores[1:, i] += held.trees[k, [leaves.MEANS + v, leaves.VALUES + v]]
    squares, weights = held.blend[growing_trees.SCALES].reshape(3, 2).T
    scales = np.where(squares > 0.0, np.sqrt(squares / np.maximum(weights, 1.0)), 1.0)
    return exact(scores) / exact(scales)[:, None]


def checks(seed: int) -> Iterator[Check]:
    """What must hold on one stream, after each query."""
    rng, account = np.random.default_rng([29, seed]), Account(_PRIOR)
    model = AdditiveRanker(seed=seed, trees=30)
    with localcontext(prec=DIGITS):
        for X, y, weight in queries(rng, seed % 6, model):
            yield from _learned(model, account, X, y, weight)
        yield from _certified(model, account)


def _learned(model: AdditiveRanker, account: Account, X: np.ndarray, y: Any, weight: float) -> Iterator[Check]:
    """Teach a query, and count what it was about."""
    answered = exact(model.predict_one(X)).tolist()
    began = not model.n_features
    scaled = _scores(model, X) if not began else np.full((3, len(X)), ZERO)
    earlier = model.trees_beside
    model.learn_one(X, y, weight)
    if len(set(y)) < 2:
        return
    w, hedge = Decimal(weight), model.trees_beside
    scored = [(c[:, None] * scaled).sum(axis=0).tolist() for c in _MIXTURES]
    told = [*(hedge.losses - earlier.losses).tolist(), hedge.account.served - earlier.account.served]
    new = [w * loss(s, y) for s in (*scored, answered)]
    for c, change in enumerate(told):
        if abs(change - float(new[c])) > 1e-9:
            if not has_near_tie((*scored, answered)[c], y, abs(scaled).max()):
                raise AssertionError(f"candidate {c} lost {change}, and {float(new[c])} by walks: {scored}, {answered}, {y}")
            new[c] = Decimal(change)
    account.settle(new[:-1], new[-1])
    yield Check(
        "served <= min L(c) + ln(1 / pi) / eta + Delta + G, at all times",
        float(account.served), float(account.limit), float(account.served),
    )  # fmt: skip


def _certified(model: AdditiveRanker, account: Account) -> Iterator[Check]:
    """The certificate says what the accounts of both blends say."""
    certificate, own = certificate_of(model), model.account
    limits = [L + account.price(c) for c, L in enumerate(account.losses)]
    of_curves = model.candidate_losses - np.log(model.candidate_prior) / model.step
    # The loss of the curves alone is the first of the outer blend.
    inner = of_curves + own.mixability_gap + float(account.losses[0]) - own.mixed
    against_curves = inner + float(limits[0] - account.losses[0])
    value = min(float(against_curves.min()), *map(float, limits[1:]))
    away = abs(certificate.bound("blend_bound") - value)
    yield Check("certificate: blend_bound agrees with the accounts", away, 1e-6 * (1.0 + value), 0.0)
    yield Check("certificate: served <= blend_bound", certificate.loss, value, value)
    by_mass = model.mass + float(against_curves[0]) - float(model.candidate_losses[0])
    yield Check("served <= V and the prices of both blends", certificate.loss, by_mass, by_mass)
