"""A hundred tenants on one stream: shared weights, weights of each tenant, and both in one model."""

import functools
from collections.abc import Callable
from typing import Any

import numpy as np

from benchmarks._common import table
from benchmarks._kept import Kept
from online_rank import CrossFeatures, PerceptronRanker, PlackettLuce, SwapRanker
from online_rank.metrics import NDCG
from online_rank.stream.clicks import user

__all__ = ["section"]

TENANTS, QUERIES, DOCUMENTS, FEATURES = 100, 6_000, 10, 8
#: What part of its taste is a tenant's own.
OWN = (0.0, 0.3, 1.0)
SEEDS = 3
MODELS = ("shared", "own", "both")


class Each:
    """A model for each tenant."""

    def __init__(self, make: Callable[[int], Any]) -> None:
        self._models = [make(tenant) for tenant in range(TENANTS)]

    def of(self, context: dict[str, str]) -> Any:
        return self._models[int(context["tenant"])]

    def learn_one(self, x: Any, y: Any, context: dict[str, str]) -> None:
        self.of(context).learn_one(x, y)

    def show_one(self, x: Any, context: dict[str, str]) -> Any:
        return self.of(context).show_one(x)

    def predict_one(self, x: Any, context: dict[str, str]) -> Any:
        return self.of(context).predict_one(x)


class Shared(Each):
    """One model for all, which does not see who asks."""

    def __init__(self, make: Callable[[int], Any]) -> None:
        self._models = [make(0)] * TENANTS


def _made(kind: str, clicks: bool, seed: int) -> Any:
    def ranker(tenant: int) -> Any:
        return SwapRanker(PlackettLuce(DOCUMENTS, seed=1000 * seed + tenant)) if clicks else PerceptronRanker()

    return CrossFeatures("tenant") | ranker(0) if kind == "both" else (Each if kind == "own" else Shared)(ranker)


def measured(clicks: bool, own: float, kind: str, seed: int) -> list[float]:
    """Mean NDCG@10 of each query ranked before it is learned: of all queries, and of the last fifth."""
    rng = np.random.default_rng([seed, int(10 * own)])
    tastes = np.sqrt(1.0 - own) * rng.normal(size=FEATURES) + np.sqrt(own) * rng.normal(size=(TENANTS, FEATURES))
    model, who = _made(kind, clicks, seed), user("navigational", max_grade=2, seed=seed)
    values = NDCG(k=10), NDCG(k=10)
    for t in range(QUERIES):
        tenant = int(rng.integers(TENANTS))
        X, context = rng.normal(size=(DOCUMENTS, FEATURES)), {"tenant": str(tenant)}
        noisy = X @ tastes[tenant] + 0.5 * np.sqrt(FEATURES) * rng.normal(size=DOCUMENTS)
        y = np.zeros(DOCUMENTS, np.int64)
        y[np.argsort(-noisy)[:3]] = 2, 1, 1
        scores = model.predict_one(X, context=context)
        for value in values if t >= 0.8 * QUERIES else values[:1]:
            value.update(y, scores)
        model.learn_one(X, who.clicks(model.show_one(X, context=context), y, t) if clicks else y, context=context)
    return [value.get() for value in values]


def section(kept: Kept) -> str:
    """Measure what is missing, and write the section."""
    rows = []
    for clicks in (False, True):
        for own in OWN:
            cells, last = [], {}
            for kind in MODELS:
                parts = [f"tenants, {clicks}, {own}, {kind}, {seed}" for seed in range(SEEDS)]
                found = np.array(
                    [kept.part(part, functools.partial(measured, clicks, own, kind, seed)) for seed, part in enumerate(parts)]
                )
                last[kind] = float(found[:, 1].mean())
                cells.append(f"{found[:, 0].mean():.3f} / {last[kind]:.3f} ± {found[:, 1].std(ddof=1) / SEEDS**0.5:.3f}")
            rows.append(["clicks" if clicks else "grades", own, *cells, max(last, key=lambda kind: last[kind])])
            print(*rows[-1], flush=True)
    return f"""## A hundred tenants

{QUERIES:,} queries of {DOCUMENTS} documents with {FEATURES} features, {QUERIES // TENANTS} of each of {TENANTS} tenants. *Own*:
the part of a tenant's taste (of the variance of its weights) that differs from the common taste. Grades are learned by
`PerceptronRanker()`, clicks of navigational users by `SwapRanker()`. *Shared*: one model; *own*: a model for each tenant;
*both*: `CrossFeatures("tenant")` in front of one model. NDCG@10 of rankings by scores, before each query is learned: of all
queries / of the last fifth, {SEEDS} seeds.

{table(("feedback", "own", *MODELS, "best in the last fifth"), rows)}
"""
