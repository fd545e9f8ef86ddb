"""What do vectors gain as features, and does a matrix that learns keep up with the cosine that it begins with?

    python -m benchmarks.vectors [--part quality|clicks|zero|times|taste] [--data FILE.npz] [--orders 3]

**Quality.** FILE.npz has queries and documents of two dictionaries: vectors, 50 candidates of each query in the order of their
cosines, which no model sees, and two further features, the overlap of words and the length. Ranked first, then learned, in
several orders of the queries. Without a file these parts are skipped.

**Clicks.** The same queries, drawn with replacement, are ranked, and simulated users click on the first ten: on a relevant
document with probability .9, on another one with .1, times 1 / place^.7. Nothing is drawn: the served list is the best one.

**Zero.** Synthetic vectors: a matrix between 6 and 9 dimensions begins at 0; and documents whose dimensions are shuffled, so
that the cosine knows nothing.

**Times.** Processor time of a query of 100 documents, over one float32 `W.T @ q` and `D @ q` of numpy, interleaved; medians.
Grades change from query to query, so that all of them bring updates.

**Taste.** A feed of 2,000 users whose tastes drift: `Tastes` keeps the decayed mean of the vectors of what they engaged with.
In a second feed all users like one direction, too.
"""

import itertools
import math
import statistics
import time
from collections.abc import Callable
from typing import Any

import numpy as np

from benchmarks._common import parser, save, table
from online_rank import AdditiveRanker, Greedy, PerceptronRanker, Tastes, VectorRanker

#: Probabilities of clicks, and by which power of the place they fall.
RELEVANT, OTHER, POWER, SHOWN = 0.9, 0.1, 0.7, 10


class Dictionary:
    """Queries and documents of a file, as `../shared/data/dictionary` describes it."""

    def __init__(self, path: str) -> None:
        with np.load(path) as file:
            self.documents, self.queries = (file[name].astype(np.float32) for name in ("documents", "queries"))
            self.candidates, self.relevant = file["candidates"], file["relevant"].astype(np.int64)
            self.others = np.stack([file["overlap"], file["length"]], axis=2).astype(np.float64)
        self.documents /= np.maximum(np.linalg.norm(self.documents, axis=1, keepdims=True), 1e-9)
        self.queries /= np.linalg.norm(self.queries, axis=1, keepdims=True)

    def query(self, i: int, order: np.ndarray) -> tuple[np.ndarray, np.ndarray, np.ndarray, np.ndarray]:
        """The vector of a query; vectors, other features and grades of its documents, in an order that says nothing."""
        return self.queries[i], self.documents[self.candidates[i][order]], self.others[i][order], self.relevant[i][order]


def ndcg(scores: Any, y: np.ndarray) -> float:
    """NDCG@10 of grades 0 and 1."""
    best = y[np.argsort(-np.asarray(scores), kind="stable")[:10]]
    discounts = 1.0 / np.log2(np.arange(2, 12))
    return float(best @ discounts[: len(best)] / discounts[: min(10, int(y.sum()))].sum())


def quality(data: Dictionary, orders: int, trees: int) -> np.ndarray:
    """(orders, queries, 4): NDCG@10 of the cosine, `VectorRanker`, and the default with the cosine and with vectors."""
    n = len(data.queries)
    found = np.zeros((orders, n, 4))
    for number in range(orders):
        rng = np.random.default_rng(number)
        alone, cosines, vectors = VectorRanker(), AdditiveRanker(trees=trees), AdditiveRanker(trees=trees)
        for t, i in enumerate(rng.permutation(n)):
            q, D, others, y = data.query(i, rng.permutation(data.candidates.shape[1]))
            cosine, context = D @ q, {"embedding": q}
            dicts = [{"overlap": a, "length": b, "embedding": d} for (a, b), d in zip(others.tolist(), D, strict=True)]
            X = np.column_stack([others, cosine.astype(np.float64)])
            matched, served = alone.predict_one(D, context=context), vectors.predict_one(dicts, context=context)
            found[number, t] = [ndcg(each, y) for each in (cosine, matched, cosines.predict_one(X), served)]
            alone.learn_one(D, y, context=context)
            cosines.learn_one(X, y)
            vectors.learn_one(dicts, y, context=context)
    return found


def quality_page(found: np.ndarray) -> str:
    """NDCG@10 in stretches, and the differences in the second half with standard errors over queries."""
    n = found.shape[1]
    bounds = [b for b in (0, 200, 1000, n // 2, n) if b <= n]
    stretches = [slice(a, b) for a, b in itertools.pairwise(bounds)]
    names = ["cosine", "`VectorRanker`", "`AdditiveRanker`, cosine", "`AdditiveRanker`, vectors"]
    rows = [[name, *(f"{found[:, s, j].mean():.4f}" for s in stretches)] for j, name in enumerate(names)]
    header = ["", *(f"{s.start:,}-{s.stop:,}" for s in stretches)]
    late, lines = found[:, n // 2 :], []
    for what, a, b in (("`VectorRanker` over the cosine", 1, 0), ("vectors over the cosine in the default", 3, 2)):
        # Queries come back in each order: the standard error is over queries.
        d = late[:, :, a] - late[:, :, b]
        first = (found[:, :200, a] - found[:, :200, b]).mean()
        error = d.std() / math.sqrt(d.size)
        lines.append(f"{what}, second half: {d.mean():+.4f} ± {error:.4f}; first 200: {first:+.4f}")
    return f"## Dictionaries, ranked then learned\n\n{table(header, rows)}\n\n" + ". ".join(lines) + "."


def clicks(data: Dictionary, runs: int, lists: int) -> np.ndarray:
    """(runs, lists): NDCG@10 of `VectorRanker` that learns from clicks, less the cosine's."""
    found = np.zeros((runs, lists))
    places = (1.0 + np.arange(SHOWN)) ** -POWER
    for run in range(runs):
        rng, model = np.random.default_rng(run), VectorRanker(policy=Greedy(k=SHOWN))
        for t in range(lists):
            q, D, _, y = data.query(int(rng.integers(len(data.queries))), rng.permutation(data.candidates.shape[1]))
            context = {"embedding": q}
            shown = model.show_one(D, context=context)
            found[run, t] = ndcg(model.predict_one(D, context=context), y) - ndcg(D @ q, y)
            chances = np.where(y[list(shown.order)] > 0, RELEVANT, OTHER) * places
            clicked = [d for d, chance in zip(shown.order, chances, strict=True) if rng.random() < chance]
            model.learn_one(D, shown.clicked(clicked), context=context)
    return found


def clicks_page(found: np.ndarray) -> str:
    """The gain over today's cosine in blocks of a thousand lists, with standard errors over runs."""
    n = min(1000, found.shape[1])
    blocks = found[:, : found.shape[1] // n * n].reshape(len(found), -1, n).mean(axis=2)
    header = ["lists", *(f"{(b + 1) * n:,}" for b in range(blocks.shape[1]))]
    mean, error = blocks.mean(axis=0), blocks.std(axis=0, ddof=1) / math.sqrt(len(blocks))
    rows = [["over the cosine", *(f"{m:+.4f}" for m in mean)], ["standard error", *(f"{e:.4f}" for e in error)]]
    late = found[:, 6 * found.shape[1] // 10 :].mean(axis=1)
    text = f"Last four tenths: {late.mean():+.4f} ± {late.std(ddof=1) / math.sqrt(len(late)):.4f} ({len(late)} runs)."
    return f"## Clicks, from today's cosine\n\n{table(header, rows)}\n\n{text}"


def zero_page(n: int = 3000) -> str:
    """Losses of the first and the last 300 queries where the cosine knows nothing."""
    rows = []
    for title, p, k in (("6 and 9 dimensions, from 0", 6, 9), ("16 dimensions, shuffled on one side", 16, 16)):
        rng = np.random.default_rng(0)
        W, order, model, losses = rng.normal(size=(p, k)), rng.permutation(k), VectorRanker(kappa=3.0), []
        for _ in range(n):
            q, D = rng.normal(size=p), rng.normal(size=(20, k))
            s = D @ (W.T @ q) if p != k else D @ q
            y = np.argsort(np.argsort(s)) // 7
            model.learn_one(D[:, order] if p == k else D, y, context={"embedding": q})
            losses.append(model.last_round.loss)  # type: ignore[union-attr]
        rows.append([title, f"{np.mean(losses[:300]):.3f}", f"{np.mean(losses[-300:]):.3f}"])
    return "## Where the cosine knows nothing\n\n" + table(["loss of the matrix that learns", "first 300", "last 300"], rows)


def _times(call: Callable[[], object], n: int) -> float:
    begun = time.process_time()
    for _ in range(n):
        call()
    return (time.process_time() - begun) / n


def _timed(d: int) -> list[Callable[[], object]]:
    """numpy's two products; `VectorRanker` that ranks and learns 100 documents of d numbers; `PerceptronRanker` that does."""
    rng = np.random.default_rng(0)
    model, plain, q = VectorRanker(), PerceptronRanker(), rng.normal(size=d).astype(np.float32)
    D, W, context = rng.normal(size=(100, d)).astype(np.float32), np.eye(d, dtype=np.float32), {"embedding": q}
    # Always other grades, so that each query brings an update.
    grades = itertools.cycle([rng.integers(0, 3, 100) for _ in range(199)])
    for _ in range(40):
        model.learn_one(D, next(grades), context=context)
        plain.learn_one(D, next(grades))
    return [
        lambda: (W.T @ q, D @ q),
        lambda: model.rank_one(D, context=context),
        lambda: model.learn_one(D, next(grades), context=context),
        lambda: plain.rank_one(D),
        lambda: plain.learn_one(D, next(grades)),
        lambda: model.learner.nbytes,
    ]


def times_page(repetitions: int) -> str:
    """Microseconds of a query of 100 documents, over numpy's two products."""
    rows = []
    for d in (128, 256, 768, 1536):
        *calls, size = _timed(d)
        # As many queries as terms that are folded in together.
        n = max(64, 64 * 128 // d)
        found = [[_times(call, n) for call in calls] for _ in range(repetitions)]
        base, rank, learn, least, least_learn = (f"{1e6 * statistics.median(each):.1f}" for each in zip(*found, strict=True))
        ratios = [statistics.median(one[j] / one[0] for one in found) for j in (1, 2)]
        rows.append(
            [d, base, rank, learn, least, least_learn, f"{ratios[0]:.1f}", f"{ratios[0] / 2:.1f}", f"{ratios[1]:.1f}",
             f"{size():,}"]
        )  # fmt: skip
    header = [
        "dimensions", "numpy, us", "rank, us", "learn, us", "perceptron's rank, us", "perceptron's learn, us", "rank / numpy",
        "for each of 2 matrices", "learn / numpy", "bytes",
    ]  # fmt: skip
    text = (
        "The perceptron is `PerceptronRanker` on the same arrays, whose times are the least that these calls take. Every query "
        "that is learned brings an update, and the time of folding updates into the matrices is part of it."
    )
    return f"## Processor time of a query of 100 documents\n\n{table(header, rows)}\n\n{text}"


def taste(seed: int, users: int, queries: int, with_vectors: bool, shared: float = 0.0, d: int = 16) -> np.ndarray:
    """(queries,): NDCG@10 in a feed of users whose tastes drift, with or without the vectors; `shared` is what all like."""
    rng = np.random.default_rng(seed)
    tastes, means, common = rng.normal(size=(users, d)), rng.normal(size=(8, d)), shared * rng.normal(size=d)
    model = Tastes("user") | AdditiveRanker() if with_vectors else AdditiveRanker()
    found = np.zeros(queries)
    for t in range(queries):
        user = int(rng.integers(users) ** 2 / users)
        tastes[user] = 0.99 * tastes[user] + math.sqrt(1.0 - 0.99**2) * rng.normal(size=d)
        D = means[rng.integers(8, size=20)] + rng.normal(size=(20, d))
        popular = rng.normal(size=20)
        logit = 1.5 * (D @ (tastes[user] + common)) / d + popular - 1.0
        y = (rng.random(20) < 1.0 / (1.0 + np.exp(-logit))).astype(np.int64)
        x = [
            {"popular": p, "embedding": v} if with_vectors else {"popular": p} for p, v in zip(popular.tolist(), D, strict=True)
        ]
        context = {"context": {"user": f"u{user}"}} if with_vectors else {}
        found[t] = ndcg(model.predict_one(x, **context), y) if y.any() else np.nan
        model.learn_one(x, y, **context)
    return found


def taste_page(seeds: int, queries: int) -> str:
    """The gain of tastes over the same feed without vectors, in the second half."""
    rows = []
    for feed, shared in (("users like different things", 0.0), ("and one thing in common", 1.0)):
        found = np.array(
            [
                [np.nanmean(taste(seed, 2000, queries, each, shared)[queries // 2 :]) for each in (True, False)]
                for seed in range(seeds)
            ]
        )
        d = found[:, 0] - found[:, 1]
        error = d.std(ddof=1) / math.sqrt(seeds) if seeds > 1 else math.nan
        rows.append([feed, *(f"{mean:.4f}" for mean in found.mean(axis=0)), f"{d.mean():+.4f} ± {error:.4f}"])
    return f"## Tastes of 2,000 users\n\n{table(['NDCG@10', 'with tastes', 'without vectors', 'difference'], rows)}"


def main() -> None:
    """Run the parts, and write the page."""
    arguments = parser(__doc__)
    arguments.add_argument("--part", choices=["quality", "clicks", "zero", "times", "taste"])
    arguments.add_argument("--data", help="vectors of two dictionaries, FILE.npz")
    arguments.add_argument("--orders", type=int, default=3)
    arguments.add_argument("--runs", type=int, default=20)
    arguments.add_argument("--lists", type=int, default=10_000)
    arguments.add_argument("--trees", type=int, default=400)
    arguments.add_argument("--queries", type=int, default=6000)
    given = arguments.parse_args()
    data, pages = None if given.data is None else Dictionary(given.data), []
    if given.part in (None, "quality") and data is not None:
        pages.append(quality_page(quality(data, given.orders, given.trees)))
    if given.part in (None, "clicks") and data is not None:
        pages.append(clicks_page(clicks(data, given.runs, given.lists)))
    if given.part in (None, "zero"):
        pages.append(zero_page())
    if given.part in (None, "times"):
        pages.append(times_page(9))
    if given.part in (None, "taste"):
        pages.append(taste_page(5, given.queries))
    if not pages:
        print("skipped: this part needs --data FILE.npz")
        return
    save("vectors", "# Vectors\n\n" + "\n\n".join(pages), part=given.part is not None or data is None)


if __name__ == "__main__":
    main()
