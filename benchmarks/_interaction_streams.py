"""The streams of `benchmarks.interactions`: queries to learn from, and perhaps held-out queries, by name and seed."""

import importlib.util
import itertools
from collections.abc import Callable
from typing import Any, NamedTuple

import numpy as np

from benchmarks._additive_streams import GRADUAL, TURNS, Query, drifting, growing, shop, with_holes
from benchmarks._data import LIGHTGBM, MQ2008, data_folder, folds, mq2008_parts, offsets_of
from online_rank import read
from online_rank.stream import WebLike


class Stream(NamedTuple):
    """Queries to learn from in this order, queries that are ranked afterwards, and how many of the first do not count."""

    learned: list[Query]
    held_out: list[Query]
    uncounted: int = 0


Make = Callable[[int], Stream]

#: Held-out queries of a synthetic stream; their seed less the seed of the stream.
N_HELD_OUT, _APART = 400, 10**6
_GRADES = (0.5, 1.0, 1.8)


def web(truth: str, n_queries: int) -> Make:
    """Web-like queries; each seed has another truth."""

    def make(seed: int) -> Stream:
        sizes = ((n_queries, seed), (N_HELD_OUT, seed + _APART))
        return Stream(*(list(WebLike(n, truth=truth, n_documents=(40, 80), seed=s, world_seed=seed)) for n, s in sizes))

    return make


def products(n_queries: int) -> Make:
    """A truth of 15 products of two of 136 features, and a little of each; raw values are plain, exponentials and counts."""

    def make(seed: int) -> Stream:
        return Stream(_products(n_queries, seed, seed), _products(N_HELD_OUT, seed + _APART, seed))

    return make


def _products(n_queries: int, seed: int, world: int, d: int = 136, n_pairs: int = 15) -> list[Query]:
    rng = np.random.default_rng([world, 991])
    seen = rng.choice(d, 2 * n_pairs, replace=False)
    left, right = seen.reshape(-1, 2).T
    heights = rng.choice([-1, 1], n_pairs) * (0.5 + rng.random(n_pairs))
    slopes = rng.normal(size=d) * np.isin(np.arange(d), seen) * 0.15 * np.sqrt(n_pairs)
    kind, scale = rng.integers(3, size=d), 10 ** rng.uniform(-2, 5, size=d)
    deviation = np.sqrt((heights**2).sum() + (slopes**2).sum())
    rng, queries = np.random.default_rng([world, seed, 992]), []
    for _ in range(n_queries):
        Z = rng.normal(size=(rng.integers(40, 81), d))
        value = ((Z[:, left] * Z[:, right]) @ heights + Z @ slopes) / deviation + 0.5 * rng.normal(size=len(Z))
        raw = np.where(kind == 0, Z, np.where(kind == 1, np.exp(1.5 * Z) * scale, np.floor(2.0 * np.exp(1.2 * Z))))
        queries.append((raw, np.digitize(value, (0.0, 0.8, 1.6, 2.2))))
    return queries


def _held_out_last(queries: list[Query], n_learned: int) -> Stream:
    return Stream(queries[:n_learned], queries[n_learned:])


def _of_files(train: Any, test: Any, seed: int) -> Stream:
    """The training part in the order of a seed, and the test part."""
    learned, held_out = (
        [(part.X[a:b], part.y[a:b]) for a, b in itertools.pairwise(offsets_of(part).tolist())] for part in (train, test)
    )
    return Stream([learned[i] for i in np.random.default_rng(seed).permutation(len(learned))], held_out)


def mq2008(seed: int) -> Stream:
    *learned, tested = mq2008_parts(data_folder() / MQ2008)
    return _of_files(read(*learned, n_features=46).all(), read(tested, n_features=46).all(), seed)


def lightgbm_set(seed: int) -> Stream:
    fold = next(folds(data_folder() / LIGHTGBM))
    return _of_files(fold.train, fold.test, seed)


def label_noise(seed: int) -> Stream:
    """A linear truth of 20 features; two fifths of the grades to learn from are drawn from grades of other documents."""
    rng = np.random.default_rng([seed, 31])
    queries = _linear(rng, 700, n_features=20, n_documents=20)
    grades = np.concatenate([y for _, y in queries])
    noisy = [(X, np.where(rng.random(len(y)) < 0.4, rng.choice(grades, len(y)), y)) for X, y in queries[:500]]
    return Stream(noisy, queries[500:])


def two_documents(seed: int) -> Stream:
    """A linear truth of 20 features, two documents a query."""
    return _held_out_last(_linear(np.random.default_rng([seed, 32]), 800, n_features=20, n_documents=2), 600)


def many_features(seed: int) -> Stream:
    """500 features, of which 20 matter, and 50 queries."""
    return _held_out_last(_linear(np.random.default_rng([seed, 33]), 150, n_features=500, n_documents=20, n_seen=20), 50)


def _linear(
    rng: np.random.Generator, n_queries: int, *, n_features: int, n_documents: int, n_seen: int | None = None
) -> list[Query]:
    """Normal features; the first `n_seen` matter; the noise has half the deviation of the truth."""
    teacher = rng.normal(size=n_features) * (np.arange(n_features) < (n_seen or n_features))
    teacher /= np.linalg.norm(teacher)
    queries = []
    for _ in range(n_queries):
        X = rng.normal(size=(n_documents, n_features))
        queries.append((X, np.digitize(X @ teacher + 0.5 * rng.normal(size=n_documents), _GRADES)))
    return queries


def judged(seed: int) -> Stream:
    """100 judged queries of 20 documents with 16 numbers and 4 categories; held out are 400.

    Numbers interact with numbers, with categories, and categories with categories; seven features do not matter.
    """
    rng = np.random.default_rng([seed, 34])
    kinds, pairs = rng.normal(size=(4, 8)), rng.normal(size=(8, 8))
    slopes = rng.normal(size=8) * 0.5
    queries: list[Query] = []
    for _ in range(100 + N_HELD_OUT):
        Z, C = rng.normal(size=(20, 16)), rng.integers(8, size=(20, 4))
        value = (
            0.5 * Z[:, 0] + 0.4 * Z[:, 1] - 0.5 * np.abs(Z[:, 2]) + 0.7 * (Z[:, 3] > 0.5)
            + 0.8 * Z[:, 4] * Z[:, 5] + 0.9 * (Z[:, 6] > 0.0) * Z[:, 7]
            + 0.5 * kinds[0][C[:, 0]] + slopes[C[:, 1]] * Z[:, 0] + 0.6 * pairs[C[:, 0], C[:, 2]] + 0.5 * rng.normal(size=20)
        )  # fmt: skip
        raw = np.where(np.arange(16) % 2, np.exp(1.5 * Z), Z).tolist()
        names = [f"{kind}{level}" for kind in "pqrs" for level in range(8)]
        documents = [
            {f"f{j}": value for j, value in enumerate(row)} | {f"c{j}": names[8 * j + level] for j, level in enumerate(levels)}
            for row, levels in zip(raw, C.tolist(), strict=True)
        ]
        queries.append((documents, np.digitize(value, (0.5, 1.5, 2.5))))
    return _held_out_last(queries, 100)


def few_queries(seed: int) -> Stream:
    """72 queries of 136 features with a sum of curves of 20 features, without interactions; held out are 400."""
    rng = np.random.default_rng([seed, 35])
    seen, heights, places = rng.choice(136, 20, replace=False), rng.normal(size=20), rng.normal(size=20) * 0.7
    kind, scale = rng.integers(3, size=136), 10 ** rng.uniform(-2, 5, size=136)
    queries: list[Query] = []
    for _ in range(72 + N_HELD_OUT):
        Z = rng.normal(size=(rng.integers(60, 141), 136))
        V = Z[:, seen]
        shapes = (V, np.abs(V - places), (places < V) * 2.0, np.exp(-2.0 * (V - places) ** 2) * 2.0)
        parts = np.choose(np.arange(20) % 4, shapes)
        value = (parts - parts.mean(axis=0)) @ heights / np.linalg.norm(heights) + 0.5 * rng.normal(size=len(Z))
        raw = np.where(kind == 0, Z, np.where(kind == 1, np.exp(1.5 * Z) * scale, np.floor(2.0 * np.exp(1.2 * Z))))
        queries.append((raw, np.digitize(value, (0.0, 0.8, 1.6, 2.2))))
    return _held_out_last(queries, 72)


def hostile(n_hostile: int) -> Make:
    """3,000 clean queries, then hostile ones: two documents with values of +-3; the worst that can be is relevant."""

    def make(seed: int) -> Stream:
        rng = np.random.default_rng([seed, 36])
        teacher = rng.normal(size=10)

        def clean(n: int) -> list[Query]:
            drawn = (rng.normal(size=(20, 10)) for _ in range(n))
            return [(X, np.digitize(X @ teacher / np.linalg.norm(teacher), _GRADES)) for X in drawn]

        learned, held_out = clean(3000), clean(100)
        best = 3.0 * np.sign(teacher)
        learned += [(np.stack([best, -best]), np.array([0, 1]))] * n_hostile
        return Stream(learned, held_out, uncounted=len(learned) - 1)

    return make


def peers_pairs(seed: int) -> Stream:
    """The stream `pairs` that was written for comparisons with other libraries: 900 queries of 40 documents, 20 features."""
    path = data_folder().parent / "generate" / "peers_streams.py"
    if not path.exists():
        raise SystemExit(f"{path} is missing: leave out --part pairs, or set ONLINE_RANK_DATA")
    spec: Any = importlib.util.spec_from_file_location("peers_streams", path)
    module = importlib.util.module_from_spec(spec)
    spec.loader.exec_module(module)
    return Stream([(query["X"], query["y"]) for query in module.interactions(seed, n=900)], [])


def _after(queries: list[Query], uncounted: int = 0) -> Stream:
    return Stream(queries, [], uncounted)


#: Every stream by its name.
STREAMS: dict[str, Make] = {
    **{f"{truth}:{n}": web(truth, n) for truth in ("forest", "additive", "linear") for n in (1000, 4000)},
    **{f"products:{n}": products(n) for n in (1000, 4000)},
    "linear:200": web("linear", 200),
    TURNS: lambda seed: _after(drifting(seed, TURNS)),
    GRADUAL: lambda seed: _after(drifting(seed, GRADUAL)),
    "growth, day": lambda seed: _after(growing("day", seed), 75),
    "growth, running sum": lambda seed: _after(growing("running sum", seed), 75),
    "missing at random": lambda seed: _after(with_holes(seed, 0.3, "at random")[0]),
    "missing where high": lambda seed: _after(with_holes(seed, 0.3, "where it is high")[0]),
    "shop": lambda seed: _after(shop(seed)),
    "MQ2008": mq2008,
    "LightGBM's set": lightgbm_set,
    "label noise": label_noise,
    "two documents": two_documents,
    "many features": many_features,
    "judged": judged,
    "few queries": few_queries,
    "clean": hostile(0),
    "hostile": hostile(10),
    "pairs": peers_pairs,
}
