"""The streams of `benchmarks.additive`."""

from collections.abc import Callable, Iterator
from typing import Any

import numpy as np

from benchmarks._data import LIGHTGBM, MQ2008, data_folder, folds, mq2008_parts, offsets_of
from online_rank import read
from online_rank.stream import WebLike
from online_rank.stream.synth import Drifting

Query = tuple[Any, Any]

#: Grades of small streams and of shops are above these.
_GRADES = (0.5, 1.5, 2.5)


def _web(n: int, truth: str, turn: int | None = None) -> Callable[[int], list[Query]]:
    return lambda seed: list(WebLike(n, truth=truth, turn=turn, n_documents=(40, 80), seed=200 + seed))


def _drifting(points: tuple[int, ...], width: int) -> Callable[[int], list[Query]]:
    return lambda seed: list(
        Drifting(1200, n_features=40, n_documents=20, drift_points=points, drift_width=width, seed=200 + seed)
    )


def _mq2008(seed: int) -> list[Query]:
    return _of_letor(read(*mq2008_parts(data_folder() / MQ2008)[:4], n_features=46).all(), seed)


def _lightgbm(seed: int) -> list[Query]:
    return _of_letor(next(folds(data_folder() / LIGHTGBM)).train, seed)


def _of_letor(block: Any, seed: int) -> list[Query]:
    offsets = offsets_of(block)
    return [
        (block.X[offsets[i] : offsets[i + 1]], block.y[offsets[i] : offsets[i + 1]])
        for i in np.random.default_rng(seed).permutation(len(offsets) - 1)
    ]


def _searches(seed: int) -> list[Query]:
    """300 searches in a shop, without words: prices count relative to the query's other prices, ratings from 4.2 on."""
    rng, queries = np.random.default_rng([seed, 6]), []
    for _ in range(300):
        m = int(rng.integers(15, 40))
        match, price, age = rng.normal(size=(3, m))
        rating, sales = np.clip(4.0 + 0.6 * rng.normal(size=m), 1.0, 5.0), rng.poisson(np.exp(1.5 * rng.normal(size=m)))
        value = (
            0.5 * match - 0.7 * price + 0.9 * (rating > 4.2) - 1.2 * np.abs(age) + 0.3 * np.log1p(sales) + rng.normal(size=m)
        )
        raw = np.column_stack([match, np.exp(price + 2.0 * rng.normal()), rating, sales, np.exp(age), rng.normal(size=(m, 3))])
        queries.append((raw, np.digitize(value, _GRADES)))
    return queries


def _small(kind: int) -> Callable[[int], list[Query]]:
    """400 queries of one of six kinds, most of them linear."""

    def make(seed: int) -> Iterator[Query]:
        rng = np.random.default_rng([seed, 7, kind])
        d, m, noise = ((8, 10, 0.8), (3, 10, 1.2), (30, 12, 1.5), (10, 10, 1.2), (8, 20, 1.2), (8, 10, 1.0))[kind]
        teacher = rng.normal(size=d) / np.sqrt(d) * 2.0
        for _ in range(400):
            Z = rng.normal(size=(m, d))
            value = Z @ teacher + noise * rng.normal(size=m)
            if kind == 3:
                Z = (Z > 0.5).astype(float)
                value = Z @ teacher + noise * rng.normal(size=m)
            if kind == 5:
                value = np.abs(Z[:, 0]) + Z[:, 1:] @ teacher[1:] + noise * rng.normal(size=m)
            # In the fifth kind one document of a query is relevant, the best.
            grades = (value == value.max()).astype(np.int64) if kind == 4 else np.digitize(value, _GRADES)
            yield (Z if kind == 3 else np.exp(Z)), grades

    return lambda seed: list(make(seed))


TURNS, GRADUAL = "three sudden turns", "gradual drift"
#: Groups of streams, by seed.
GROUPS: dict[str, tuple[Callable[[int], list[Query]], ...]] = {
    "additive, 500 and 1,500 queries": (_web(500, "additive"), _web(1500, "additive")),
    "linear, 300": (_web(300, "linear"),),
    "forest, 500": (_web(500, "forest"),),
    "MQ2008, S1 to S4": (_mq2008,),
    "LightGBM's training set": (_lightgbm,),
    "shop, 300": (_searches,),
    "six small streams, 400": tuple(map(_small, range(6))),
    "additive that turns, 1,000": (_web(1000, "additive", 500),),
    f"{TURNS}, 1,200": (_drifting((300, 600, 900), 0),),
    f"{GRADUAL}, 1,200": (_drifting((300,), 600),),
}


def drifting(seed: int, kind: str) -> list[Query]:
    """A stream under drift."""
    return next(makes[0] for name, makes in GROUPS.items() if name.startswith(kind))(seed)


def growing(kind: str, seed: int) -> list[Query]:
    """150 queries of 12 documents whose publication day, or its running sum, grows; the newest are the best."""
    rng, total, queries = np.random.default_rng(seed), 0.0, []
    for t in range(150):
        day = t + rng.random(12)
        total += float(day.mean())
        queries.append(((day if kind == "day" else total + day)[:, None], np.argsort(np.argsort(day)) // 4))
    return queries


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


def shop(seed: int, n_queries: int = 600) -> list[Query]:
    """Searches in a shop: prices, ratings and sales, 40 brands and 10 categories, each with its taste."""
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
        y = np.digitize(value, _GRADES)
        documents = [
            {"match": a, "price": b, "rating": c, "sales": d, "brand": f"brand {e}", "category": f"category {f}"}
            for a, b, c, d, e, f in zip(
                match.tolist(), np.exp(price).tolist(), rating.tolist(), sales.tolist(), brand.tolist(), category.tolist(),
                strict=True,
            )
        ]  # fmt: skip
        queries.append((documents, y))
    return queries


def coded(queries: list[Query], *, one_hot: bool) -> list[Query]:
    """The queries of a shop as arrays: with a column for each brand and each category, or with their numbers."""
    made = []
    for documents, y in queries:
        rows = np.zeros((len(documents), 54 if one_hot else 6))
        for row, x in zip(rows, documents, strict=True):
            row[:4] = x["match"], x["price"], x["rating"], x["sales"]
            brand, category = (int(x[name].split()[1]) for name in ("brand", "category"))
            if one_hot:
                row[4 + brand] = row[44 + category] = 1.0
            else:
                row[4:] = brand, category
        made.append((rows, y))
    return made
