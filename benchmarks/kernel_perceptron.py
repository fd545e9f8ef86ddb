"""What does a budget of stored documents buy where the truth is not linear in the features, and does the bound hold?

    python -m benchmarks.kernel_perceptron [--streams 5] [--bounds 1000]

Five features; relevance is sin(2 a) + b c + |d| / 2 plus noise, cut into four grades; 1,500 queries of 20 documents are
learned once, 300 others ranked. Nothing is tuned: gamma is the default, 1 / d. The bounds are checked on short random streams
with random kernels, budgets and tolerances.
"""

import time
from typing import Any

import numpy as np

from benchmarks._common import environment, parser, save, table
from online_rank import DirectRanker, KernelPerceptronRanker, PerceptronRanker
from online_rank.bounds.projection import certify_projection
from online_rank.metrics import NDCG

GAMMA = 1 / 5


def stream(n_queries: int, seed: int, n_documents: int = 20) -> list[tuple[np.ndarray, np.ndarray]]:
    """Queries whose relevance no linear score orders."""
    rng = np.random.default_rng(seed)
    queries = []
    for _ in range(n_queries):
        X = rng.normal(size=(n_documents, 5))
        a, b, c, d, _ = X.T
        relevance = np.sin(2.0 * a) + b * c + 0.5 * np.abs(d) + 0.1 * rng.normal(size=n_documents)
        queries.append((X, np.digitize(relevance, [0.0, 0.8, 1.6])))
    return queries


def block(queries: list[tuple[np.ndarray, np.ndarray]]) -> tuple[np.ndarray, np.ndarray, np.ndarray]:
    X, y = (np.concatenate(part) for part in zip(*queries, strict=True))
    return X, y, np.repeat(np.arange(len(queries)), [len(y) for _, y in queries])


def contestants() -> dict[str, Any]:
    found: dict[str, Any] = {
        "PerceptronRanker(), linear": PerceptronRanker,
        "DirectRanker(), a network": lambda: DirectRanker(seed=0),
    }
    for budget in (20, 100, 500):
        found[f"RBF, budget {budget}"] = lambda budget=budget: KernelPerceptronRanker(gamma=GAMMA, budget=budget)
    found["RBF, budget 500, tolerance 0.3"] = lambda: KernelPerceptronRanker(gamma=GAMMA, tolerance=0.3)
    found["polynomial of degree 3, budget 500"] = lambda: KernelPerceptronRanker("polynomial", gamma=GAMMA)
    return found


def quality(streams: int) -> str:
    """NDCG@10 on held-out queries, stored documents and cost, mean over streams; differences from the linear one are paired."""
    rows, linear = [], np.empty(0)
    for name, make in contestants().items():
        scores, stored, seconds, lost = [], [], [], []
        for seed in range(streams):
            train, test = block(stream(1500, seed)), block(stream(300, 1000 + seed))
            make().learn_many(*(part[:40] for part in train))
            model = make()
            start = time.perf_counter()
            model.learn_many(*train)
            seconds.append(time.perf_counter() - start)
            metric = NDCG(10)
            metric.update_many(test[1], model.predict_many(test[0], test[2]), test[2])
            scores.append(metric.get())
            stored.append(getattr(model, "n_stored", 0))
            lost.append(getattr(model, "projection_error", 0.0))
        if not len(linear):
            linear = np.array(scores)
        ahead = np.array(scores) - linear
        error = ahead.std(ddof=1) / np.sqrt(streams) if streams > 1 else 0.0
        kernel = "budget" in name
        rows.append(
            (
                name,
                f"{np.mean(scores):.4f}",
                f"{ahead.mean():+.4f} ± {error:.4f}" if ahead.any() else "",
                f"{np.mean(stored):.0f}" if kernel else "",
                f"{np.mean(lost):.2f}" if kernel else "",
                f"{1e3 * np.median(seconds) / 1500:.3f}",
            )
        )
    header = ("ranker", "NDCG@10", "ahead of the linear one", "stored documents", "sum of projection errors", "ms a query")
    return table(header, rows)


def bounds(n_streams: int) -> str:
    """How often a bound was violated, and how near it was come."""
    violated, checked, tightest = 0, 0, {}
    for seed in range(n_streams):
        rng = np.random.default_rng([seed, 3])
        kernel: dict[str, Any] = ({"gamma": 0.3}, {"kernel": "polynomial", "gamma": 0.2, "degree": 2})[seed % 2]
        model = KernelPerceptronRanker(
            budget=int(rng.choice([2, 10, 60])),
            tolerance=float(rng.choice([0.0, 0.1, 0.5])),
            relative_margin=float(rng.choice([0.0, 0.3, 1.0])),
            **kernel,
        )
        queries = stream(40, seed, int(rng.integers(2, 9)))
        best = model.clone()
        best.learn_many(*block(queries))
        # A function that has seen the whole stream, at a random scale.
        documents = np.concatenate([X for X, _ in queries])[:60]
        coefficients = np.linalg.lstsq(_gram(model, documents), best.values_one(documents), rcond=1e-6)[0]
        certificate = certify_projection(model, queries, documents, coefficients * 10.0 ** rng.uniform(-1, 1.5))
        violated += not certificate.holds
        for check in certificate.bounds:
            checked += 1
            tightest[check.name] = max(tightest.get(check.name, 0.0), certificate.totals["mass"] / check.value)
    rows = [(name, f"{ratio:.4f}") for name, ratio in sorted(tightest.items())]
    return f"""{n_streams:,} streams, {checked:,} bounds: **{violated} violated**.

{table(("bound", "largest ratio of mass to bound"), rows)}"""


def _gram(model: KernelPerceptronRanker, documents: np.ndarray) -> np.ndarray:
    """The Gram matrix of the model's kernel, in numpy."""
    products = documents @ documents.T
    if model.kernel == "polynomial":
        return (model.gamma * products + model.coef0) ** model.degree
    squares = np.diag(products)
    return np.exp(-model.gamma * (squares[:, None] + squares[None, :] - 2.0 * products))


def main() -> None:
    """Measure quality, then check the bounds."""
    arguments = parser(__doc__)
    arguments.add_argument("--streams", type=int, default=5)
    arguments.add_argument("--bounds", type=int, default=1000)
    chosen = arguments.parse_args()
    save(
        "kernel_perceptron",
        f"""# The kernel perceptron with a budget

1,500 queries of 20 documents with five features, learned once; relevance is not linear in the features. Mean over
{chosen.streams} streams; differences are paired, ± one standard error. {environment()}

{quality(chosen.streams)}

## Bounds

{bounds(chosen.bounds)}
""",
    )


if __name__ == "__main__":
    main()
