"""Which credit should be the perceptron's default, and what does it cost? Without looking at a test part.

`python -m benchmarks.credits` compares `adaptive`, the default, and `sort` (both with mass sqrt and relative margin 0.3) with
`spread` (mass loss, no margin): averaged, one pass, behind a `StreamScaler`. NDCG@10 is of MQ2008's validation parts, of
LightGBM's training set, cross-validated, and of held-out queries of a noisy teacher; differences are paired over queries, with
standard errors. Results go to benchmarks/results/credits.md.
"""

import statistics
from collections.abc import Callable, Iterator
from typing import Any

import numpy as np

from benchmarks._common import environment, parser, save, table
from benchmarks._data import LIGHTGBM, MQ2008, Triple, data_folder, folds, offsets_of, shuffled
from benchmarks._timing import interleaved
from online_rank import PerceptronRanker, StreamScaler
from online_rank.metrics import NDCG
from online_rank.stream import NoisyTeacher
from online_rank.stream.letor import LetorBlock
from online_rank.support.progress import progress

Make = Callable[[], Any]

BASE = "spread"
MODELS: dict[str, Make] = {
    BASE: lambda: StreamScaler() | PerceptronRanker(credit="spread"),
    "adaptive": lambda: StreamScaler() | PerceptronRanker(),
    "sort": lambda: StreamScaler() | PerceptronRanker(credit="sort"),
}


#: Queries to learn from, queries to rank, and numbers by which the same query is known in other orders.
Part = tuple[Triple, Triple, np.ndarray]


def mq2008(orders: int) -> Iterator[Part]:
    """Training and validation part of each fold, the training queries in several orders."""
    for k, fold in enumerate(folds(data_folder() / MQ2008)):
        if fold.validation is not None:
            known = 1000 * k + np.arange(len(offsets_of(fold.validation)) - 1)
            for order in range(orders):
                yield shuffled(fold.train, order), fold.validation[:3], known


def lightgbm(orders: int) -> Iterator[Part]:
    """Five parts of the training set: each is ranked by what learned the others."""
    fold = next(iter(folds(data_folder() / LIGHTGBM)))
    offsets = offsets_of(fold.train)
    for order in range(orders):
        parts = np.array_split(np.random.default_rng(order).permutation(len(offsets) - 1), 5)
        for k in range(5):
            rest = np.concatenate([part for j, part in enumerate(parts) if j != k])
            yield _of(fold.train, offsets, rest), _of(fold.train, offsets, parts[k]), parts[k]


def teacher(orders: int) -> Iterator[Part]:
    """Streams of a noisy linear teacher, the last quarter held out."""
    for seed in range(orders):
        X, y, qid = NoisyTeacher(800, seed=100 + seed).block()
        cut = int(np.searchsorted(qid, 600))
        yield (X[:cut], y[:cut], qid[:cut]), (X[cut:], y[cut:], qid[cut:]), 1000 * seed + np.arange(200)


SETS: dict[str, Callable[[int], Iterator[Part]]] = {
    "MQ2008, validation": mq2008,
    "LightGBM's set, cross-validated": lightgbm,
    "noisy teacher": teacher,
}


def _of(block: LetorBlock, offsets: np.ndarray, queries: np.ndarray) -> Triple:
    """Some queries of a block, in this order."""
    rows = np.concatenate([np.arange(offsets[q], offsets[q + 1]) for q in queries])
    return block.X[rows], block.y[rows], np.repeat(np.arange(len(queries)), np.diff(offsets)[queries])


def values(make: Make, train: Triple, test: Triple) -> np.ndarray:
    """NDCG@10 of each test query after one pass; NaN where all grades are equal."""
    model = make()
    model.learn_many(*train)
    return NDCG(k=10).value_many(test[1], model.predict_many(test[0], test[2]), test[2])


def compare(parts: Iterator[Part]) -> dict[str, np.ndarray]:
    """NDCG@10 of every model for each query, the mean over orders."""
    found: dict[str, list[np.ndarray]] = {name: [] for name in MODELS}
    known: list[np.ndarray] = []
    for train, test, numbers in parts:
        known.append(numbers)
        for name, make in MODELS.items():
            found[name].append(values(make, train, test))
    _, query, times = np.unique(np.concatenate(known), return_inverse=True, return_counts=True)
    means = {name: np.bincount(query, np.concatenate(parts)) / times for name, parts in found.items()}
    judged = np.isfinite(means[BASE])
    return {name: mean[judged] for name, mean in means.items()}


def seconds(rounds: int) -> dict[str, float]:
    """Median seconds of one pass over 300 queries of the noisy teacher, without a scaler."""
    block = NoisyTeacher(300, seed=1).block()
    runs = {name: lambda make=make: make()["PerceptronRanker"].learn_many(*block) for name, make in MODELS.items()}
    for run in runs.values():
        run()
    return {name: statistics.median(took) for name, took in interleaved(runs, rounds).items()}


def report(orders: int, rounds: int) -> str:
    took = seconds(rounds)
    results = {}
    with progress("credits", len(SETS), "sets") as show:
        for k, (title, parts) in enumerate(SETS.items()):
            if title == "noisy teacher" or (data_folder() / (MQ2008 if title.startswith("MQ") else LIGHTGBM)).exists():
                results[title] = compare(parts(orders))
            show(k + 1)
    lines = []
    for name in MODELS:
        cells = [f"{took[name] / took[BASE]:.2f}"]
        for means in results.values():
            less = means[name] - means[BASE]
            error = less.std(ddof=1) / np.sqrt(len(less))
            cells.append(f"{means[name].mean():.4f}" + ("" if name == BASE else f" ({less.mean():+.4f} ± {error:.4f})"))
        lines.append((name, *cells))
    return f"""# The default credit

One pass, averaged, behind a `StreamScaler`. NDCG@10, the mean over {orders} orders of the training queries (of the teacher:
seeds), and the difference to `{BASE}` with its standard error over queries. `adaptive` and `sort` go with mass="sqrt" and
relative_margin=0.3. Time is of learning 300 queries of about 120 documents with 136 features in a block, without the scaler.
{environment()}.
`python -m benchmarks.credits`

{table(("", "time / spread", *results), lines)}
"""


if __name__ == "__main__":
    arguments = parser(__doc__)
    arguments.add_argument("--orders", type=int, default=4)
    arguments.add_argument("--rounds", type=int, default=15)
    options = arguments.parse_args()
    save("credits", report(options.orders, options.rounds))
