"""What engines of trees rank: curves as trees, and a shop that a model is trained for."""

import csv
import itertools
import json
import subprocess
import sys
from collections.abc import Callable, Iterator
from pathlib import Path
from tempfile import TemporaryDirectory
from typing import Any

import numpy as np

from benchmarks._common import table
from benchmarks._data import LIGHTGBM, MQ2008, data_folder, folds, offsets_of
from online_rank import AdditiveRanker, BlendRanker, load, measure, read
from online_rank.base.form import Trees
from online_rank.export.checking import changes
from online_rank.export.ensembles import LEAVES, as_trees
from online_rank.export.reading import prepared
from online_rank.stream import WebLike

_Query = tuple[Any, np.ndarray]

#: Leaves of the tree of the most varied curve; the last is what exports have.
_LEAVES = (256, 512, 1024, LEAVES)
_MODELS: dict[str, Callable[[], Any]] = {
    "AdditiveRanker(relative=False)": lambda: AdditiveRanker(relative=False),
    "BlendRanker(relative=False)": lambda: BlendRanker(relative=False),
}

# Curves as trees.


def _streams() -> Iterator[tuple[str, list[_Query], list[_Query]]]:
    """Queries to learn from, and others to rank."""
    for name, folder, part in (("MQ2008, validation parts", MQ2008, "validation"), ("LightGBM's set", LIGHTGBM, "test")):
        for number, fold in enumerate(folds(data_folder() / folder), start=1):
            own = name if folder == LIGHTGBM else f"{name}: S{number}"
            yield own, _queries(fold.train), _queries(getattr(fold, part))
    for truth in ("additive", "forest"):
        parts = (
            [*WebLike(n, truth=truth, n_documents=(40, 80), seed=seed, world_seed=300)] for n, seed in ((1000, 300), (300, 301))
        )
        yield f"web-like, {truth}", *parts


def _queries(block: Any) -> list[_Query]:
    return [(block.X[a:b], block.y[a:b]) for a, b in itertools.pairwise(offsets_of(block))]


def show_leaves(_: Any) -> str:
    """How many leaves it takes until trees rank as curves do."""
    rows, ndcg = [], measure("ndcg@10")
    for name, learned, asked in _streams():
        for title, make in _MODELS.items():
            model = make()
            for X, y in learned:
                model.learn_one(X, y)
            given, whole = prepared(model, "lightgbm"), np.concatenate([X for X, _ in asked])
            cuts = np.cumsum([len(X) for X, _ in asked])[:-1]
            expected = [np.array(model.predict_one(X)) for X, _ in asked]
            for leaves in _LEAVES:
                trees = as_trees(given, leaves=leaves)
                sizes = [int((tree.columns < 0).sum()) for tree in trees]
                found = np.split(Trees(trees)(whole), cuts)
                first = np.mean([s[np.argmax(t)] < s.max() for s, t in zip(expected, found, strict=True)])
                here, there = (
                    np.array([ndcg.value(s, y) for s, (_, y) in zip(scores, asked, strict=True) if y.any()])
                    for scores in (expected, found)
                )
                rows.append(
                    (
                        *(name, title, f"{leaves:,}", f"{np.mean(sizes):.0f}", f"{len(asked):,}"),
                        *(f"{here.mean():.4f}", f"{(there - here).mean():+.5f}", f"{first:.2%}"),
                    )
                )
                print(*rows[-1], file=sys.stderr, flush=True)
    header = ("stream", "model", "most leaves", "leaves a tree", "queries", "NDCG@10", "change", "first places changed")
    return (
        "Each curve becomes one balanced tree; exports have up to 2,048 leaves in the tree of the most varied curve. A first "
        "place counts as changed if the model gives the new first document a lower score than the best.\n\n"
        f"{table(header, rows)}"
    )


# A shop.


def shop(seed: int) -> tuple[list[_Query], list[_Query]]:
    """A shop of 2,000 products: 400 searches, of which 300 are learned; all documents have the same columns."""
    rng, n = np.random.default_rng([seed, 9]), 2000
    category, brand = rng.integers(10, size=n), rng.choice(41, size=n, p=rng.dirichlet(np.ones(41)))
    tastes, brands, usual = rng.normal(size=10), rng.normal(size=41), rng.normal(size=10)
    price, stars = np.exp(rng.normal(size=n) + usual[category] + 3.0), np.clip(4.0 + 0.6 * rng.normal(size=n), 1.0, 5.0)
    sales, is_new = rng.poisson(np.exp(rng.normal(size=n) + 0.5 * brands[brand])), rng.random(n) < 0.2
    queries = []
    for _ in range(400):
        wanted = rng.choice(10, size=3, replace=False)
        rows = rng.choice(np.flatnonzero(np.isin(category, wanted)), size=int(rng.integers(15, 40)), replace=False)
        match = np.exp(rng.normal(size=len(rows)))
        deviation = np.log(price[rows]) - usual[category[rows]] - 3.0
        value = (
            np.log(match) - 0.6 * np.abs(deviation) + 0.8 * (stars[rows] > 4.2) * ~is_new[rows] + 0.4 * is_new[rows]
            + 0.3 * np.log1p(sales[rows]) + 0.7 * brands[brand[rows]] + 0.5 * tastes[category[rows]]
            + 0.7 * rng.normal(size=len(rows))
        )  # fmt: skip
        documents = [
            {
                "match": float(a), "price": float(price[i]), "stars": None if is_new[i] else float(stars[i]),
                "sales": float(sales[i]), "brand": f"brand {brand[i]}" if brand[i] else None,
                "category": f"category {category[i]}", "in_stock": bool(rng.random() < 0.9),
            }
            for a, i in zip(match, rows.tolist(), strict=True)
        ]  # fmt: skip
        queries.append((documents, np.digitize(value, [0.5, 1.5, 2.5])))
    return queries[:300], queries[300:]


def _write(queries: list[_Query], file: Path) -> None:
    with file.open("w", newline="") as stream:
        writer = csv.writer(stream)
        writer.writerow(["query", "grade", *queries[0][0][0]])
        for number, (documents, y) in enumerate(queries):
            writer.writerows([number, grade, *x.values()] for x, grade in zip(documents, y.tolist(), strict=True))


def _lightgbm(learned: list[_Query], asked: list[_Query], rounds: int) -> list[float]:
    """NDCG@10 of LightGBM on the same columns, categories among them; a missing value is NaN."""
    import lightgbm

    texts = ("brand", "category")
    codes: dict[str, dict[Any, float]] = {name: {} for name in texts}

    def rows(queries: list[_Query]) -> np.ndarray:
        def value(name: str, value: Any) -> float:
            if value is None:
                return np.nan
            return codes[name].setdefault(value, float(len(codes[name]))) if name in texts else float(value)

        return np.array([[value(*item) for item in x.items()] for documents, _ in queries for x in documents])

    data = lightgbm.Dataset(
        rows(learned), np.concatenate([y for _, y in learned]), group=[len(y) for _, y in learned],
        categorical_feature=[[*learned[0][0][0]].index(name) for name in texts],
    )  # fmt: skip
    booster = lightgbm.train({"objective": "lambdarank", "verbose": -1, "num_threads": 1}, data, rounds)
    scores = np.split(booster.predict(rows(asked)), np.cumsum([len(y) for _, y in asked])[:-1])
    return _values(scores, asked)


def _values(scores: Any, asked: list[_Query]) -> list[float]:
    ndcg = measure("ndcg@10")
    return [ndcg.value(np.asarray(s), y) for s, (_, y) in zip(scores, asked, strict=True)]


def show_shop(given: Any) -> str:
    """The model that `train --for elasticsearch` gives, and what its export ranks, next to LightGBM on the same columns."""
    command = ("train", "learned.csv", "--grade", "grade", "--for", "elasticsearch", "--test", "asked.csv", "--json")
    each: dict[str, list[float]] = {}
    first = []
    for seed in range(given.shops):
        learned, asked = shop(seed)
        with TemporaryDirectory() as folder:
            for name, queries in (("learned", learned), ("asked", asked)):
                _write(queries, Path(folder) / f"{name}.csv")
            ran = [sys.executable, "-c", "from online_rank.cli import main; main()", *command, "--save", "model.npz"]
            report = json.loads(subprocess.run(ran, check=True, cwd=folder, capture_output=True, text=True).stdout)
            model = load(Path(folder) / "model.npz")
            found = changes(model, "elasticsearch", read(Path(folder) / "asked.csv", grade="grade", model=model))
        first.append(found.first)
        for rounds in (50, 100, 200):
            each.setdefault(f"LightGBM, {rounds} rounds", []).append(float(np.mean(_lightgbm(learned, asked, rounds))))
        each.setdefault("train --for elasticsearch", []).append(report["test"]["metrics"]["ndcg@10"])
        each.setdefault("the same, exported", []).append(found.there)
        each.setdefault("the default model", []).append(report["default"]["test"])
        print(seed, *(f"{name} {values[-1]:.4f}" for name, values in each.items()), file=sys.stderr, flush=True)
    best = max((name for name in each if name.startswith("LightGBM")), key=lambda name: np.mean(each[name]))
    rows = []
    for name, values in each.items():
        differences = np.array(values) - np.array(each[best])
        error = differences.std(ddof=1) / np.sqrt(len(differences))
        rows.append((name, f"{np.mean(values):.4f}", "" if name == best else f"{differences.mean():+.4f} ± {error:.4f}"))
    return (
        f"{given.shops} shops of 2,000 products, each with 400 searches: 300 are learned in one pass, 100 are ranked. There "
        "are prices, stars and brands that may be missing, categories, sales, a boolean. Differences are to the number of "
        "rounds of LightGBM that is best on the ranked queries, ± standard error over shops. Of the first places, the export "
        f"changes {np.mean(first):.1%}.\n\n`online-rank {' '.join(command)}`\n\n{table(('', 'NDCG@10', 'difference'), rows)}"
    )
