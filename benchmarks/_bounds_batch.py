"""Section of `benchmarks.bounds` on the batch estimator of [CT]: its expected excess loss, and Lipschitz constants."""

import functools

import numpy as np

from benchmarks._common import table
from online_rank import batch_weights, bounds
from online_rank.evaluate import Spread
from online_rank.surrogates import hinge, listnet, slam
from tests.reference.bounds import gradient_l1_constant

FEATURES = 10
REPETITIONS = 20
#: Queries on which the best weights and all losses are measured: the expectation is that over these.
MANY = 4000

Block = tuple[np.ndarray, np.ndarray, np.ndarray]


def generalisation() -> str:
    """The batch estimator on new queries (Theorem 8, Corollary 9 of [CT])"""
    rows = []
    for m in (5, 20, 100):
        world = np.random.default_rng([m, 0])
        teacher = world.normal(size=FEATURES)
        draw = functools.partial(_queries, teacher / np.linalg.norm(teacher), m)
        best = batch_weights(draw(world, MANY), measure="ndcg", lam=0.01).weights
        norm, lipschitz = float(np.linalg.norm(best)), gradient_l1_constant("slam", m)
        test = draw(world, MANY)
        least = _losses(best, test)
        for n in (10, 100, 1000):
            lam = bounds.theorem_8_regularization(n=n, norm=norm, lipschitz=lipschitz)
            excess = []
            for repetition in range(REPETITIONS):
                learned = batch_weights(draw(np.random.default_rng([m, n, repetition + 1]), n), measure="ndcg", lam=lam)
                excess.append(float((_losses(learned.weights, test) - least).mean()))
            limit = bounds.theorem_8(n=n, norm=norm, lipschitz=lipschitz)
            found = Spread.of(excess)
            if found.mean > limit:
                raise SystemExit(f"Theorem 8 fails at m = {m}, n = {n}: {found.mean} > {limit}")
            rows.append((f"m = {m}, n = {n:,}", f"{norm:.2f}", f"{least.mean():.3f}", f"{found:.3f}", f"{limit:.2f}"))
    header = ("documents, training queries", "B", "L(w*)", "L(ŵ) - L(w*)", "at most (Theorem 8)")
    return f"""SLAM with NDCG weights; queries of m documents with {FEATURES} features, R_X = 1, a noisy teacher, grades 0 to 2.
ŵ: `batch_weights` on n queries with the lambda of the theorem; w*: the best weights of norm at most B on {MANY:,} other
queries. Expected losses are means over {MANY:,} new queries, for ŵ also over {REPETITIONS} draws of the training queries
(± standard error). The bound does not grow with m, since L₂ = 2 R_X (Corollary 9); it is far from tight.

{table(header, rows)}

The largest l1 norm of gradients in the scores in 2,000 random queries, and its bound (Corollary 9):

{_constants()}"""


def _queries(teacher: np.ndarray, m: int, rng: np.random.Generator, n: int) -> Block:
    """Queries of documents of norm 1, graded by a noisy teacher."""
    X = rng.normal(size=(n * m, len(teacher)))
    X /= np.linalg.norm(X, axis=1, keepdims=True)
    y = np.digitize(X @ teacher + 0.1 * rng.normal(size=n * m), [0.2, 0.5])
    return X, y, np.repeat(np.arange(n), m)


def _losses(w: np.ndarray, queries: Block) -> np.ndarray:
    """SLAM of each query."""
    X, y, qid = queries
    n = qid[-1] + 1
    loss = slam("ndcg")
    return np.array([loss.value(s, grades) for s, grades in zip((X @ w).reshape(n, -1), y.reshape(n, -1), strict=True)])


def _constants() -> str:
    """Largest gradients that were found, and their bounds."""
    rows = []
    kinds = {"slam": slam("ndcg"), "listnet": listnet(), "ranksvm": hinge(reduction="sum")}
    for m in (5, 20, 100):
        rng, found = np.random.default_rng(m), dict.fromkeys(kinds, 0.0)
        for _ in range(2000):
            s, y = rng.exponential() * rng.normal(size=m), rng.integers(3, size=m)
            for name, surrogate in kinds.items():
                found[name] = max(found[name], float(np.abs(surrogate.gradient(s, y)).sum()))
        cells = []
        for name, value in found.items():
            limit = gradient_l1_constant(name, m)
            if value > limit * (1.0 + 1e-12):
                raise SystemExit(f"Corollary 9 fails for {name} at m = {m}: {value} > {limit}")
            cells.append(f"{value:,.2f} / {limit:,.0f}")
        rows.append((f"m = {m}", *cells))
    return table(("", "SLAM", "ListNet", "RankSVM, sum over pairs"), rows)
