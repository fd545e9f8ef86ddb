"""Is one curve for each feature, averaged over several half-lives, better than the light blend, at what cost?

    python -m benchmarks.additive [--part streams drift growth missing shop cost] [--seeds 3]

NDCG@10 of each query before it is learned, one pass. `streams` and `drift` compare `AdditiveRanker()` with the default and the
light blend; under drift also with a perceptron with half-life 50, and with AROW and AdaGrad on pairs behind
`StreamQuantileMap()`, each with the best of three settings on other seeds. `growth` has a feature that grows with time,
`missing` values that are missing, `shop` documents with brands and categories, and `cost` processor time next to the default.
"""

import time
from collections.abc import Callable, Iterator
from typing import Any

import numpy as np

from benchmarks._common import parser, save, table
from benchmarks._data import LIGHTGBM, MQ2008, data_folder, folds, mq2008_parts, offsets_of
from online_rank import AdditiveRanker, BlendRanker, PerceptronRanker, StreamQuantileMap, measure, read
from online_rank.stream import WebLike
from online_rank.stream.synth import Drifting
from online_rank.support.progress import progress

Query = tuple[Any, Any]
NDCG = measure("ndcg@10")
DEFAULT, LIGHT, ADDITIVE = "default", "light blend", "AdditiveRanker()"
MODELS: dict[str, Callable[[], Any]] = {
    DEFAULT: lambda: StreamQuantileMap() | PerceptronRanker(),
    LIGHT: lambda: BlendRanker("light"),
    ADDITIVE: AdditiveRanker,
}
FIRST = 50


class OnPairs:
    """A linear learner of the differences of pairs, behind a quantile map; `step` changes its weights by a query."""

    def __init__(self, setting: float) -> None:
        self.map, self.setting, self.w, self.state = StreamQuantileMap(), setting, np.zeros(0), np.zeros(0)

    def predict_one(self, X: np.ndarray) -> list[float]:
        """Scores of documents."""
        return (self._rows(X) @ self.w).tolist() if len(self.w) else [0.0] * len(X)

    def learn_one(self, X: np.ndarray, y: np.ndarray) -> None:
        """Learn all pairs of documents with different grades."""
        self.map.learn_one(X)
        Z = self._rows(X)
        if not len(self.w):
            self.w, self.state = np.zeros(Z.shape[1]), np.full(Z.shape[1], self.first)
        self.step(Z, *np.nonzero(y[:, None] > y))

    def _rows(self, X: np.ndarray) -> np.ndarray:
        return np.asarray(self.map.transform_one(X), dtype=np.float64)


class Arow(OnPairs):
    """AROW (Crammer, Kulesza & Dredze 2009) with a diagonal covariance; the setting is r."""

    first = 1.0

    def step(self, Z: np.ndarray, better: np.ndarray, worse: np.ndarray) -> None:
        """One step for each pair whose hinge is above 0."""
        for i, j in zip(better.tolist(), worse.tolist(), strict=True):
            x = Z[i] - Z[j]
            if (short := 1.0 - self.w @ x) > 0.0:
                spread = self.state * x
                beta = 1.0 / (x @ spread + self.setting)
                self.w += short * beta * spread
                self.state -= beta * spread * spread


class AdaGrad(OnPairs):
    """AdaGrad on the mean logistic loss of a query's pairs; the setting is the step."""

    first = 1e-8

    def step(self, Z: np.ndarray, better: np.ndarray, worse: np.ndarray) -> None:
        """One step for the query."""
        if len(better):
            s = Z @ self.w
            push = np.zeros(len(Z))
            shares = 1.0 / (1.0 + np.exp(s[better] - s[worse])) / len(better)
            np.add.at(push, better, shares)
            np.add.at(push, worse, -shares)
            gradient = push @ Z
            self.state += gradient**2
            self.w += self.setting * gradient / np.sqrt(self.state)


def gains(model: Any, queries: list[Query]) -> np.ndarray:
    """NDCG@10 of each query before it is learned; NaN where all grades are equal."""
    found = np.full(len(queries), np.nan)
    for t, (x, y) in enumerate(queries):
        grades = np.array([*y.values()] if isinstance(y, dict) else y)
        answer = model.predict_one(x)
        if grades.min() < grades.max():
            scores = np.array([*answer.values()] if isinstance(answer, dict) else answer)
            found[t] = 1.0 - NDCG.loss(scores, grades, ties="expected")
        model.learn_one(x, y)
    return found


def of_letor(block: Any, seed: int) -> list[Query]:
    offsets = offsets_of(block)
    return [
        (block.X[offsets[i] : offsets[i + 1]], block.y[offsets[i] : offsets[i + 1]])
        for i in np.random.default_rng(seed).permutation(len(offsets) - 1)
    ]


def small(seed: int) -> Iterator[Query]:
    """400 queries of 10 documents with 8 features: a linear truth of some of them."""
    rng = np.random.default_rng(seed)
    teacher = rng.normal(size=8) * (rng.random(8) < 0.6)
    for _ in range(400):
        Z = rng.normal(size=(10, 8))
        yield np.exp(Z), np.digitize(Z @ teacher + 0.5 * rng.normal(size=10), [0.5, 1.5, 2.5])


def stream(name: str, seed: int) -> list[Query]:
    """The queries of a stream."""
    if name in ("additive", "linear", "forest"):
        n = {"additive": 500, "linear": 300, "forest": 500}[name]
        return list(WebLike(n, truth=name, n_documents=(40, 80), seed=200 + seed))
    if name == "additive that turns":
        return list(WebLike(1000, truth="additive", turn=500, n_documents=(40, 80), seed=200 + seed))
    if name == "MQ2008, S1 to S4":
        return of_letor(read(*mq2008_parts(data_folder() / MQ2008)[:4], n_features=46).all(), seed)
    if name == "LightGBM's training set":
        return of_letor(next(folds(data_folder() / LIGHTGBM)).train, seed)
    if name == "small":
        return list(small(seed))
    points, width = ((300, 600, 900), 0) if name == "three sudden turns" else ((300,), 600)
    return list(Drifting(1200, n_features=40, n_documents=20, drift_points=points, drift_width=width, seed=200 + seed))


STREAMS = ("additive", "linear", "forest", "MQ2008, S1 to S4", "LightGBM's training set", "small", "additive that turns")
DRIFTS = ("three sudden turns", "gradual")


def compared(names: tuple[str, ...], models: dict[str, Callable[[], Any]], seeds: int) -> str:
    """A table: a line for each stream, means over seeds, and the paired difference to the light blend."""
    rows, total = [], np.zeros((len(models), 2))
    with progress("streams", len(names) * seeds * len(models), "runs") as show:
        done = 0
        for name in names:
            found = np.empty((len(models), seeds, 2))
            for seed in range(seeds):
                queries = stream(name, seed)
                for k, make in enumerate(models.values()):
                    each = gains(make(), queries)
                    found[k, seed] = np.nanmean(each), np.nanmean(each[:FIRST])
                    show(done := done + 1)
            means = found.mean(axis=1)
            total += means / len(names)
            rows.append((name, *(f"{a:.4f} ({b:.3f})" for a, b in means), against(found[:, :, 0], [*models])))
    rows.append(("mean", *(f"{a:.4f} ({b:.3f})" for a, b in total), ""))
    return table(("stream", *models, "to the light blend"), rows)


def against(found: np.ndarray, names: list[str]) -> str:
    """The paired difference of the additive ranker to the light blend."""
    away = found[names.index(ADDITIVE)] - found[names.index(LIGHT)]
    error = f" ± {away.std(ddof=1) / len(away) ** 0.5:.4f}" if len(away) > 1 else ""
    return f"{away.mean():+.4f}{error}"


def tuned(make: Callable[[float], Any], settings: tuple[float, ...]) -> Callable[[], Any]:
    """A learner with the best of three settings on another seed."""
    queries = stream(DRIFTS[0], 77)
    best = max(settings, key=lambda setting: float(np.nanmean(gains(make(setting), queries))))
    return lambda: make(best)


def drift(seeds: int) -> str:
    others = {
        "half-life 50": lambda: StreamQuantileMap() | PerceptronRanker(average=50),
        "AROW": tuned(Arow, (0.1, 1.0, 10.0)),
        "AdaGrad": tuned(AdaGrad, (0.03, 0.1, 0.3)),
    }
    return compared(DRIFTS, MODELS | others, seeds)


def growing(kind: str, seed: int) -> list[Query]:
    """150 queries of 12 documents whose publication day, or its running sum, grows; the newest are the best."""
    rng, total, queries = np.random.default_rng(seed), 0.0, []
    for t in range(150):
        day = t + rng.random(12)
        total += float(day.mean())
        queries.append(((day if kind == "day" else total + day)[:, None], np.argsort(np.argsort(day)) // 4))
    return queries


def growth(seeds: int) -> str:
    rows = []
    for kind in ("day", "running sum"):
        second = [[np.nanmean(gains(make(), growing(kind, s))[75:]) for s in range(seeds)] for make in MODELS.values()]
        rows.append((kind, *(f"{np.mean(one):.4f}" for one in second)))
    return table(("feature", *MODELS), rows)


def with_holes(seed: int, share: float, how: str) -> tuple[list[Query], list[Query]]:
    """400 queries of 20 documents with missing values; and with indicators and means in their place."""
    rng = np.random.default_rng(seed)
    teacher, holed, filled = rng.normal(size=14), [], []
    for _ in range(400):
        Z = rng.normal(size=(20, 14))
        y = np.digitize(Z @ teacher / np.linalg.norm(teacher) + 0.5 * rng.normal(size=20), [0.5, 1.0, 1.8])
        chance = rng.random(Z.shape)
        absent = chance < share if how == "at random" else chance < 2.0 * share * (Z > 0.0)
        X = np.where(absent, np.nan, np.exp(1.5 * Z + 2.0))
        holed.append((X, y))
        mean = np.nanmean(np.vstack([X, np.full((1, 14), 10.0)]), axis=0)
        filled.append((np.hstack([np.where(absent, mean, X), absent]), y))
    return holed, filled


def missing(seeds: int) -> str:
    rows = []
    for how, share in (("at random", 0.1), ("at random", 0.3), ("at random", 0.5), ("where it is high", 0.3)):
        found = np.empty((seeds, 2))
        for seed in range(seeds):
            holed, filled = with_holes(seed, share, how)
            found[seed] = [
                np.nanmean(gains(make(), queries)[200:])
                for make, queries in ((AdditiveRanker, holed), (MODELS[DEFAULT], filled))
            ]
        rows.append((f"{share:.0%} {how}", *(f"{value:.4f}" for value in found.mean(axis=0))))
    return table(("missing", ADDITIVE, "default with means and indicators"), rows)


def shop(seed: int, n_queries: int = 600) -> list[Query]:
    """Searches in a shop: prices, ratings and sales, 40 brands and 10 categories, each with a taste of its own."""
    rng = np.random.default_rng([seed, 5])
    brands, categories = rng.normal(size=40), rng.normal(size=10)
    prices, chances = rng.normal(size=10), rng.dirichlet(np.ones(40))
    queries = []
    for _ in range(n_queries):
        m = int(rng.integers(15, 40))
        category, brand = rng.integers(10, size=m), rng.choice(40, size=m, p=chances)
        price, rating = rng.normal(size=m) + prices[category], np.clip(4.0 + 0.6 * rng.normal(size=m), 1.0, 5.0)
        sales, match = rng.poisson(np.exp(rng.normal(size=m) + 0.5 * brands[brand])), rng.normal(size=m)
        value = (
            match - 0.6 * np.abs(price) + 0.8 * (rating > 4.2) + 0.3 * np.log1p(sales)
            + 0.7 * brands[brand] + 0.5 * categories[category] + 0.7 * rng.normal(size=m)
        )  # fmt: skip
        y = np.digitize(value, [0.5, 1.5, 2.5])
        documents = [
            {"match": a, "price": b, "rating": c, "sales": d, "brand": f"brand {e}", "category": f"category {f}"}
            for a, b, c, d, e, f in zip(
                match.tolist(), np.exp(price).tolist(), rating.tolist(), sales.tolist(), brand.tolist(), category.tolist(),
                strict=True,
            )
        ]  # fmt: skip
        queries.append((documents, y))
    return queries


def one_hot(queries: list[Query]) -> list[Query]:
    """The queries as arrays, with a column for each brand and each category."""
    made = []
    for documents, y in queries:
        rows = np.zeros((len(documents), 54))
        for row, x in zip(rows, documents, strict=True):
            row[:4] = x["match"], x["price"], x["rating"], x["sales"]
            row[4 + int(x["brand"].split()[1])] = row[44 + int(x["category"].split()[1])] = 1.0
        made.append((rows, y))
    return made


def shops(seeds: int) -> str:
    names = ("without", "AdditiveRanker()", "light blend, one-hot by hand", "default, one-hot by hand")
    found = np.empty((seeds, len(names)))
    for seed in range(seeds):
        queries = shop(seed)
        numbers = [([{k: v for k, v in x.items() if k not in ("brand", "category")} for x in X], y) for X, y in queries]
        hot = one_hot(queries)
        runs = ((AdditiveRanker, numbers), (AdditiveRanker, queries), (MODELS[LIGHT], hot), (MODELS[DEFAULT], hot))
        found[seed] = [np.nanmean(gains(make(), given)) for make, given in runs]
    away = found[:, 1] - found[:, 2]
    error = away.std(ddof=1) / seeds**0.5 if seeds > 1 else 0.0
    rows = [(name, f"{value:.4f}") for name, value in zip(names, found.mean(axis=0), strict=True)]
    return (
        f"{table(('categories', 'NDCG@10'), rows)}\n\nPaired difference to the light blend: {away.mean():+.4f} ± {error:.4f}."
    )


def cost(seeds: int) -> str:
    rows = []
    for m, d in ((20, 46), (120, 136)):
        rng = np.random.default_rng(0)
        queries = [(rng.normal(size=(m, d)), rng.integers(0, 5, m)) for _ in range(1000)]
        models = {name: MODELS[name]() for name in (DEFAULT, ADDITIVE)}
        spent = dict.fromkeys(models, 0.0)
        for first in range(0, len(queries), 100):
            for name, model in models.items():
                begun = time.thread_time()
                for X, y in queries[first : first + 100]:
                    model.predict_one(X)
                    model.learn_one(X, y)
                spent[name] += time.thread_time() - begun if first else 0.0
        own = [f"{seconds / 900 * 1e6:.0f}" for seconds in spent.values()]
        rows.append((f"{m} x {d}", *own, f"{spent[ADDITIVE] / spent[DEFAULT]:.2f}"))
    return table(("query", "default, microseconds", ADDITIVE, "ratio"), rows)


PARTS: dict[str, tuple[str, Callable[[int], str]]] = {
    "streams": ("Streams: all queries (the first 50)", lambda seeds: compared(STREAMS, MODELS, seeds)),
    "drift": ("Drift: all queries (the first 50)", drift),
    "growth": ("A feature that grows with time, second half", growth),
    "missing": ("Missing values, second half", missing),
    "shop": ("A shop with 40 brands and 10 categories", shops),
    "cost": ("Processor time to rank and to learn, after the first 100 of 1,000 queries", cost),
}


def main() -> None:
    arguments = parser(__doc__)
    arguments.add_argument("--part", nargs="+", choices=PARTS, default=[*PARTS])
    arguments.add_argument("--seeds", type=int, default=3)
    given = arguments.parse_args()
    sections = [f"## {PARTS[part][0]}\n\n{PARTS[part][1](given.seeds)}\n" for part in given.part]
    save("additive", "\n".join(["# One curve for each feature\n", *sections]), part=len(sections) < len(PARTS))


if __name__ == "__main__":
    main()
