"""Streams for curves: turns, missing values, a feature that grows, and a shop."""

from collections.abc import Callable
from typing import Any

import numpy as np

from online_rank.stream import WebLike
from online_rank.stream.synth import Drifting

Query = tuple[Any, Any]

#: Grades of shops are above these.
_GRADES = (0.5, 1.5, 2.5)


def _web(n: int, truth: str, turn: int | None = None) -> Callable[[int], list[Query]]:
    return lambda seed: list(WebLike(n, truth=truth, turn=turn, n_documents=(40, 80), seed=200 + seed))


def _drifting(points: tuple[int, ...], width: int) -> Callable[[int], list[Query]]:
    return lambda seed: list(
        Drifting(1200, n_features=40, n_documents=20, drift_points=points, drift_width=width, seed=200 + seed)
    )


TURNS, GRADUAL = "three sudden turns", "gradual drift"


def drifting(seed: int, kind: str) -> list[Query]:
    """A stream under drift."""
    return (_drifting((300, 600, 900), 0) if kind == TURNS else _drifting((300,), 600))(seed)


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
