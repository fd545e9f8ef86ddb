"""An EBM for ranking that learns online? Ours in one pass, next to InterpretML's EBM and LightGBM, which see all data at once.

    python -m benchmarks.ebm --ebm PYTHON [--seeds 5]

PYTHON is the interpreter of an environment with `interpret` (0.7 was measured), which has no objective for rankings: it fits
grades, pointwise. LightGBM fits grades, or pairs by LambdaMART, with its defaults, and with stumps, which are a sum of curves.

Writes benchmarks/results/ebm.md and ebm.png, curves next to curves.
"""

import itertools
import pickle
import subprocess
import time
from collections.abc import Callable
from pathlib import Path
from typing import Any, NamedTuple

import numpy as np

from benchmarks._common import RESULTS, environment, parser, save, table
from online_rank import AdditiveRanker, measure
from online_rank.plot._style import COLOURS, GREY

#: What customers of the shop want, by feature; a product without stars counts as one with 2.5.
TRUTH: dict[str, Callable[[Any], Any]] = {
    "match": lambda match: 3.0 * match,
    "price": lambda price: -np.abs(np.log(price / 25.0)),
    "stars": lambda stars: 0.5 * np.where(np.isnan(stars), 2.5, stars),
    "sold": lambda sold: 0.15 * np.log(sold),
    "weight": lambda weight: 0.0 * weight,
}
BRANDS = {"Aro": 0.8, "Bex": 0.0, "Cim": -0.8}
N_TRAIN, N_TEST, N_PRODUCTS = 1000, 500, 12
POINTS = 200
OURS, CURVES = "`AdditiveRanker()`, one pass online", "`AdditiveRanker(trees=0)`, one pass online"
EBM, ALONE = "EBM on grades", "EBM on grades, without interactions"


class Task(NamedTuple):
    """Columns of the training and of the test part, (n,) each; their grades; and where queries begin and the last one ends."""

    names: list[str]
    train: list[np.ndarray]
    y: np.ndarray
    offsets: np.ndarray
    test: list[np.ndarray]
    y_test: np.ndarray
    offsets_test: np.ndarray


def shop(seed: int) -> Task:
    """Searches in a shop with a known truth: match, price, stars (a fifth have none), sales, weight and brand of products."""
    rng, n = np.random.default_rng(seed), (N_TRAIN + N_TEST) * N_PRODUCTS
    columns: dict[str, np.ndarray] = {
        "match": rng.random(n),
        "price": rng.lognormal(3.2, 0.7, n),
        "stars": np.where(rng.random(n) < 0.2, np.nan, rng.uniform(1.0, 5.0, n)),
        "sold": 1.0 + rng.lognormal(4.0, 1.5, n).astype(int),
        "weight": rng.uniform(0.1, 4.0, n),
    }
    brands = rng.choice(list(BRANDS), n)
    useful = sum(truth(columns[name]) for name, truth in TRUTH.items()) + np.vectorize(BRANDS.get)(brands)
    y = np.digitize(useful + rng.normal(0.0, 0.3, n), [2.6, 3.6, 4.6])
    cut, offsets = N_TRAIN * N_PRODUCTS, np.arange(0, n + 1, N_PRODUCTS)
    every = [*columns.values(), brands.astype(object)]
    first = [column[:cut] for column in every], y[:cut], offsets[: N_TRAIN + 1]
    second = [column[cut:] for column in every], y[cut:], offsets[N_TRAIN:] - cut
    return Task([*columns, "brand"], *first, *second)


def queries_of(columns: list[np.ndarray], names: list[str], offsets: np.ndarray) -> list[Any]:
    """Queries as our rankers take them."""
    rows = [dict(zip(names, values, strict=True)) for values in zip(*(column.tolist() for column in columns), strict=True)]
    return [rows[a:b] for a, b in itertools.pairwise(offsets)]


def online(task: Task, **options: Any) -> tuple[np.ndarray, float, AdditiveRanker]:
    """One pass: scores of the test part, processor seconds, and the model."""
    model, began = AdditiveRanker(**options), time.process_time()
    for x, (a, b) in zip(
        queries_of(task.train, task.names, task.offsets), zip(task.offsets, task.offsets[1:], strict=False), strict=True
    ):
        model.learn_one(x, task.y[a:b])
    seconds = time.process_time() - began
    scores = [np.asarray(model.predict_one(x)) for x in queries_of(task.test, task.names, task.offsets_test)]
    return np.concatenate(scores), seconds, model


def lightgbm(task: Task, rounds: int = 100, **settings: Any) -> tuple[np.ndarray, float]:
    """Scores of the test part, and processor seconds."""
    import lightgbm as lgb

    coded = [[_coded(column) for column in columns] for columns in (task.train, task.test)]
    X, X_test = (np.stack(columns, axis=1).astype(float) for columns in coded)
    texts = [j for j, column in enumerate(task.train) if column.dtype == object]
    data = lgb.Dataset(X, task.y, group=np.diff(task.offsets), categorical_feature=texts)
    began = time.process_time()
    booster = lgb.train({"verbosity": -1, "num_threads": 1, "seed": 0, **settings}, data, rounds)
    return np.asarray(booster.predict(X_test)), time.process_time() - began


def _coded(column: np.ndarray) -> np.ndarray:
    return np.unique(column, return_inverse=True)[1] if column.dtype == object else column


def ebm(python: Path, bags: int | None, task: Task, interactions: int | None, grid: list[np.ndarray]) -> dict[str, Any]:
    """What the worker says, in the Python that has InterpretML."""
    sent = {
        "names": task.names,
        "train": task.train,
        "test": task.test,
        "grid": grid,
        "y": task.y,
        "interactions": interactions,
        "bags": bags,
    }
    worker = Path(__file__).with_name("_ebm_worker.py")
    done = subprocess.run([python.absolute(), worker], input=pickle.dumps(sent), stdout=subprocess.PIPE, check=True)
    return dict(pickle.loads(done.stdout))


def losses(task: Task, scores: np.ndarray) -> np.ndarray:
    """NDCG@10 of each test query that can be ranked wrongly."""
    ndcg, found = measure("ndcg@10"), []
    for a, b in zip(task.offsets_test, task.offsets_test[1:], strict=False):
        if len({*task.y_test[a:b].tolist()}) > 1:
            found.append(1.0 - ndcg.loss(scores[a:b], task.y_test[a:b]))
    return np.array(found)


def contestants(
    task: Task, python: Path, bags: int | None, grid: list[np.ndarray]
) -> tuple[dict[str, tuple[np.ndarray, float]], Any, Any]:
    """(NDCG@10 of each query, processor seconds) of all, our model of curves, and what the EBM without interactions says."""
    found: dict[str, tuple[np.ndarray, float]] = {}
    scores, seconds, _ = online(task)
    found[OURS] = losses(task, scores), seconds
    scores, seconds, curves = online(task, trees=0)
    found[CURVES] = losses(task, scores), seconds
    told: dict[str, Any] = {}
    for name, interactions in ((EBM, None), (ALONE, 0)):
        told = ebm(python, bags, task, interactions, grid)
        found[name] = losses(task, told["scores"]), told["seconds"]
    peers: dict[str, dict[str, Any]] = {
        "LightGBM on grades": {"objective": "regression"},
        "LightGBM on pairs, LambdaMART": {"objective": "lambdarank"},
        "LightGBM on pairs, stumps: a sum of curves": {"objective": "lambdarank", "num_leaves": 2, "rounds": 400},
    }
    for name, settings in peers.items():
        scores, seconds = lightgbm(task, **settings)
        found[name] = losses(task, scores), seconds
    return found, curves, told


def grid_of(task: Task) -> list[np.ndarray]:
    """For each feature of the shop its values, ascending, with the median of the others: one block of rows after the other."""
    middle = [column[0] if column.dtype == object else np.nanmedian(column) for column in task.train]
    blocks = []
    for j in range(len(TRUTH)):
        block = [np.full(POINTS, value, dtype=column.dtype) for value, column in zip(middle, task.train, strict=True)]
        block[j] = np.nanquantile(task.train[j], np.linspace(0.01, 0.99, POINTS))
        blocks.append(block)
    return [np.concatenate(columns) for columns in zip(*blocks, strict=True)]


def drawn(curves: AdditiveRanker, told: dict[str, Any], grid: list[np.ndarray]) -> str:
    """Our curves, the EBM's and the truth, on the scale of the truth, as a picture."""
    from matplotlib import pyplot as plt

    figure, axes = plt.subplots(2, 3, figsize=(11.0, 6.0), layout="constrained")
    axes.flat[5].axis("off")
    found: dict[str, list[np.ndarray]] = {"truth": [], "ours, one pass online": [], "EBM, all data at once": []}
    for j, name in enumerate(TRUTH):
        at = slice(j * POINTS, (j + 1) * POINTS)
        values, own, ranked = curves.curve(name)
        term = [set(features) for features in told["features"]].index({j})
        for kind, curve in zip(
            found,
            (TRUTH[name](grid[j][at]), np.interp(grid[j][at], values, own + ranked), told["terms"][at, term]),
            strict=True,
        ):
            found[kind].append(curve - curve.mean())
    truth = np.concatenate(found["truth"])
    colours = dict(zip(found, (GREY, COLOURS[0], COLOURS[1]), strict=True))
    for kind, parts in found.items():
        own = np.concatenate(parts)
        scale = float(own @ truth / (own @ own))
        for j, (name, part) in enumerate(zip(TRUTH, parts, strict=True)):
            ax, at = axes.flat[j], slice(j * POINTS, (j + 1) * POINTS)
            ax.plot(grid[j][at], scale * part, color=colours[kind], linestyle="--" if kind == "truth" else "-", label=kind)
            ax.set_title(name, loc="left")
            if name in ("price", "sold"):
                ax.set_xscale("log")
    handles, labels = axes.flat[0].get_legend_handles_labels()
    axes.flat[5].legend(handles, labels, loc="center", frameon=False)
    figure.savefig(RESULTS / "ebm.png", dpi=130)
    plt.close(figure)
    return "![Curves of a ranker that learned online, of an EBM, and the truth](ebm.png)"


def main() -> None:
    arguments = parser(__doc__)
    arguments.add_argument("--ebm", type=Path, required=True, help="the Python of an environment with interpret")
    arguments.add_argument("--seeds", type=int, default=5, help="shops")
    arguments.add_argument("--bags", type=int, help="bags of an EBM, each a model; the default is InterpretML's, 14")
    given = arguments.parse_args()
    pooled: dict[str, list[tuple[np.ndarray, float]]] = {}
    picture = ""
    for seed in range(given.seeds):
        task = shop(seed)
        grid = grid_of(task)
        found, curves, told = contestants(task, given.ebm, given.bags, grid)
        picture = picture or drawn(curves, told, grid)
        for name, one in found.items():
            pooled.setdefault(name, []).append(one)
        save("ebm", f"{_HEAD}\n\n## A shop whose truth is known\n\n{_of_shops(pooled, seed + 1, picture)}", part=True)


def _of_shops(pooled: dict[str, list[tuple[np.ndarray, float]]], n: int, picture: str) -> str:
    """The section on n shops."""
    found = {
        name: (np.concatenate([q for q, _ in ones]), float(np.mean([seconds for _, seconds in ones])))
        for name, ones in pooled.items()
    }
    shops = "one shop" if n == 1 else f"{n} shops"
    return (
        f"{N_TRAIN:,} searches of {N_PRODUCTS} products are learned, {N_TEST} are held back, in {shops}. The truth is a sum of "
        "curves and of the taste for three brands; a fifth of the products have no stars.\n\n"
        f"{table(_HEADER, rows_of(found))}\n\nThe curves of the first shop, on one scale for each model:\n\n{picture}"
    )


_HEADER = ("model", "NDCG@10", "less our default", "processor seconds")
_HEAD = (
    "# An EBM for ranking that learns online?\n\n"
    "An EBM [Lou et al. 2013; Nori et al. 2019] is a sum of one curve for each feature, and of pairs, fitted in many passes. "
    "InterpretML has no objective for rankings, so it fits grades. Ours learns from each query once. NDCG@10 is on held-back "
    f"queries; differences are paired over queries, ± standard error. {environment()}"
)


def rows_of(found: dict[str, tuple[np.ndarray, float]]) -> list[tuple[str, ...]]:
    """Rows of the table: mean, difference to the default with its error, seconds."""
    base = found[OURS][0]
    rows: list[tuple[str, ...]] = []
    for name, (values, seconds) in found.items():
        away = values - base
        error = f"{away.mean():+.4f} ± {away.std(ddof=1) / len(away) ** 0.5:.4f}" if name != OURS else ""
        rows.append((name, f"{values.mean():.4f}", error, f"{seconds:.1f}"))
    return rows


if __name__ == "__main__":
    main()
