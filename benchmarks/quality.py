"""How good is the ranking after one pass? All rankers on real data, compared with LightGBM and XGBoost with tuned rounds.

    python -m benchmarks.quality [FOLDER ...] [--orders 5] [--keep FILE]

FOLDER: as `benchmarks._data.folds` reads it; without one, the sets in `../shared/data`. Online rankers see each training query
once, with the same settings on every set. Batch learners have two settings each; their rounds are chosen on the validation part
of each fold, or, in sets without one, by training on four fifths of the training queries first. The *oracle* chooses them on
the test part, which nobody can: it is what a batch learner could reach at best. `--keep` continues from the methods that
FILE has. Queries without a relevant document are left out of the mean; ties get their expected value. Standard errors are over
queries, of the differences to the first LightGBM, query by query.
"""

import itertools
import sys
from collections.abc import Callable
from pathlib import Path
from typing import Any

import numpy as np

from benchmarks._common import environment, parser, save, table
from benchmarks._data import LIGHTGBM, MQ2008, Fold, folds, known_folders, offsets_of, shuffled
from benchmarks._kept import Kept, add_keep
from online_rank import (
    AdditiveRanker,
    DirectRanker,
    GradientRanker,
    PerceptronRanker,
    RidgeRanker,
    StreamQuantileMap,
    StreamScaler,
)
from online_rank.base import Ranker
from online_rank.evaluate import Spread
from online_rank.measures.learned import gains, measure, query_values
from online_rank.metrics import NDCG
from online_rank.stream import Documents

#: Rounds at which batch learners are looked at.
ROUNDS = (5, 10, 20, 30, 50, 75, 100, 150, 200, 300, 500)
RANDOM, REFERENCE = "random ranking", "LightGBM, 31 leaves, rate 0.1"

ONLINE: dict[str, Callable[[], Ranker]] = {
    "PerceptronRanker() (default: adaptive, mass sqrt)": lambda: StreamScaler() | PerceptronRanker(),
    "PerceptronRanker(credit='spread')": lambda: StreamScaler() | PerceptronRanker(credit="spread"),
    "PerceptronRanker(credit='argmax') ([CT]'s subgradient)": lambda: StreamScaler() | PerceptronRanker(credit="argmax"),
    "GradientRanker()": GradientRanker,
    "map | DirectRanker()": lambda: StreamQuantileMap() | DirectRanker(seed=0),
    "map | PerceptronRanker()": lambda: StreamQuantileMap() | PerceptronRanker(),
    "map | RidgeRanker()": lambda: StreamQuantileMap() | RidgeRanker(),
    "AdditiveRanker()": lambda: AdditiveRanker(),
}


def lightgbm(leaves: int, rate: float) -> Callable[[Documents], Callable[[np.ndarray, int], np.ndarray]]:
    """LightGBM's lambdarank: fits the most rounds, and then scores by the first `rounds` of them."""

    def fit(block: Documents) -> Callable[[np.ndarray, int], np.ndarray]:
        import lightgbm

        settings: dict[str, Any] = {"num_leaves": leaves, "learning_rate": rate, "n_estimators": ROUNDS[-1], "verbose": -1}
        model = lightgbm.LGBMRanker(objective="lambdarank", n_jobs=1, **settings)
        model.fit(block.X, block.y, group=np.diff(offsets_of(block)))
        return lambda X, rounds: np.asarray(model.predict(X, num_iteration=rounds))

    return fit


def xgboost(depth: int, rate: float) -> Callable[[Documents], Callable[[np.ndarray, int], np.ndarray]]:
    """XGBoost's rank:ndcg, in the same way."""

    def fit(block: Documents) -> Callable[[np.ndarray, int], np.ndarray]:
        import xgboost

        model = xgboost.XGBRanker(
            objective="rank:ndcg", n_estimators=ROUNDS[-1], max_depth=depth, learning_rate=rate, n_jobs=1, tree_method="hist"
        )
        model.fit(block.X, block.y, qid=np.repeat(np.arange(len(offsets_of(block)) - 1), np.diff(offsets_of(block))))
        return lambda X, rounds: model.predict(X, iteration_range=(0, rounds))

    return fit


BATCH = {
    REFERENCE: lightgbm(31, 0.1),
    "LightGBM, 8 leaves, rate 0.05": lightgbm(8, 0.05),
    "XGBoost, depth 6, rate 0.3": xgboost(6, 0.3),
    "XGBoost, depth 3, rate 0.1": xgboost(3, 0.1),
}


def ndcg(scores: np.ndarray, block: Documents) -> float:
    """Mean NDCG@10 over the queries of a block."""
    metric = NDCG(k=10)
    for start, stop in itertools.pairwise(offsets_of(block)):
        metric.update(block.y[start:stop], scores[start:stop])
    return metric.get()


def each_ndcg(scores: np.ndarray, block: Documents) -> np.ndarray:
    """NDCG@10 of each query of a block; NaN for one without a relevant document."""
    kind, k, threshold = measure("ndcg@10")
    return query_values(kind, k, threshold, 0, gains(), np.asarray(scores, dtype=np.float64), block.y, offsets_of(block))


def part_of(block: Documents, queries: np.ndarray) -> Documents:
    """Some queries of a block."""
    offsets = offsets_of(block)
    rows = np.concatenate([np.arange(offsets[q], offsets[q + 1]) for q in queries])
    return Documents(block.X[rows], block.y[rows], block.qid[rows], None)


def one_pass(make: Callable[[], Ranker], fold: Fold, order: int) -> np.ndarray:
    """NDCG@10 of each test query after one pass over the training queries in a random order."""
    model = make()
    model.learn_many(*shuffled(fold.train, order))
    return each_ndcg(model.predict_many(fold.test.X, fold.test.qid), fold.test)


def tuned(fit: Callable, fold: Fold) -> tuple[np.ndarray, np.ndarray]:
    """NDCG@10 of each test query, with the rounds that are best on the validation part, and on the test part (the oracle)."""
    model = fit(fold.train)
    judge, held_out = model, fold.validation
    if held_out is None:
        n = len(offsets_of(fold.train)) - 1
        held_out = part_of(fold.train, np.arange(0, n, 5))
        judge = fit(part_of(fold.train, np.flatnonzero(np.arange(n) % 5)))
    best = max(ROUNDS, key=lambda rounds: ndcg(judge(held_out.X, rounds), held_out))
    oracle = max(ROUNDS, key=lambda rounds: ndcg(model(fold.test.X, rounds), fold.test))
    return each_ndcg(model(fold.test.X, best), fold.test), each_ndcg(model(fold.test.X, oracle), fold.test)


def values_of(parts: list[Fold], name: str, orders: int) -> dict[str, np.ndarray]:
    """NDCG@10 of every test query of all folds by a method: (orders, queries); and NDCG@10 of the oracle of a batch learner."""
    if name == RANDOM:
        return {"values": np.concatenate([each_ndcg(np.zeros(len(fold.test.y)), fold.test) for fold in parts])[None]}
    if name in ONLINE:
        passes = [[one_pass(ONLINE[name], fold, seed) for fold in parts] for seed in range(orders)]
        return {"values": np.array([np.concatenate(each) for each in passes])}
    values, oracle = zip(*(tuned(BATCH[name], fold) for fold in parts), strict=True)
    return {"values": np.concatenate(values)[None], "oracle": np.concatenate(oracle)[None]}


def all_values(folder: Path, orders: int, kept: Kept) -> dict[str, dict[str, np.ndarray]]:
    """`values_of` each method."""
    found, parts = {}, list(folds(folder))
    for name in (RANDOM, *ONLINE, *BATCH):

        def measured(name: str = name) -> dict[str, list[Any]]:
            return {what: values.tolist() for what, values in values_of(parts, name, orders).items()}

        found[name] = {what: np.array(values) for what, values in kept.part(f"{folder.name}, {name}", measured).items()}
        print(f"{folder.name}: {name} {np.nanmean(found[name]['values']):.4f}", file=sys.stderr, flush=True)
    return found


def difference_of(found: dict[str, dict[str, np.ndarray]], name: str, reference: str) -> str:
    """The mean difference of two methods, and its standard error, paired over queries."""
    difference = found[name]["values"].mean(axis=0) - found[reference]["values"].mean(axis=0)
    return f"{Spread.of(difference):+.4f}"


def cells(found: dict[str, dict[str, np.ndarray]], name: str) -> tuple[str, str, str]:
    """Mean, paired difference to the reference, and the oracle, as text."""
    values = found[name]["values"]
    orders = f" ± {np.nanmean(values, axis=1).std(ddof=1):.3f}" if len(values) > 1 else ""
    compared = "" if name == REFERENCE else difference_of(found, name, REFERENCE)
    oracle = f"{np.nanmean(found[name]['oracle']):.4f}" if "oracle" in found[name] else ""
    return f"{np.nanmean(values):.4f}{orders}", compared, oracle


def compare(folders: list[Path], orders: int, kept: Kept) -> None:
    """The table of all methods."""
    results = {folder.name: all_values(folder, orders, kept) for folder in folders}
    header = ["NDCG@10, one pass"]
    for name in results:
        header += [f"{name}", f"{name}, difference", f"{name}, oracle"]
    rows = [
        [name.replace("|", r"\|"), *(cell for found in results.values() for cell in cells(found, name))]
        for name in next(iter(results.values()))
    ]
    save(
        "quality",
        f"""# Quality of the ranking after one pass

NDCG@10 (gain 2^r - 1) on held-out queries: mean over folds and {orders} orders of the training queries ± standard deviation
over orders; difference to the first LightGBM ± standard error, paired over queries. Rounds of batch learners were chosen on
validation parts; *oracle*: on the test parts, which nobody can. `map` is `StreamQuantileMap()`. The same settings on every set.
{environment("lightgbm", "xgboost-cpu")}

{table(header, rows)}
""",
    )


def main() -> None:
    arguments = parser(__doc__)
    arguments.add_argument("folders", nargs="*", type=Path, metavar="FOLDER")
    arguments.add_argument("--orders", type=int, default=5)
    add_keep(arguments)
    chosen = arguments.parse_args()
    folders = chosen.folders or known_folders(MQ2008, LIGHTGBM)
    if not folders:
        raise SystemExit("no data: name a folder of LETOR folds")
    compare(folders, chosen.orders, Kept(chosen.keep))


if __name__ == "__main__":
    main()
