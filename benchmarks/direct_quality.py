"""How do the systems of two papers do under one protocol? NDCG@10, MAP and run times: every row of the DirectRanker
paper's tables ([DR], section 4.4).

    python -m benchmarks.direct_quality [FOLDER ...] [--threshold 1] [--keep FILE]

FOLDER: as in `benchmarks.quality`; without one, `../shared/data/mq2008`. Grades are binarised (relevant from the threshold on:
1 for MQ2007 and MQ2008, 2 for MSLR), queries without a relevant document left out, features mapped to a normal distribution of
standard deviation 1/3 by the quantiles of the training part. Settings come from a grid search inside the training part alone: a
fifth of its queries is held out, the setting with the best NDCG@10 there learns from the whole part, and is tested once.
With `--keep` an interrupted run continues where it stopped.

The published figures of the evolution strategies are far below all others, as a protocol's are that counts queries without a
relevant document as 0. A separate table follows that protocol: graded, features as they come, all queries.

[DR] Köppel et al., *Pairwise Learning to Rank by Neural Networks Revisited*, 2019.
[IL] Ibrahim & Landa-Silva, *ES-Rank*, 2017, and their later initialisations, as [DR] quotes them.
"""

import time
from collections.abc import Callable, Iterator
from functools import partial
from pathlib import Path
from typing import Any, NamedTuple

import numpy as np

from benchmarks._baselines import AdaRank, ESRank, RankingSVM, TrainingNDCG, XGBoost
from benchmarks._common import environment, parser, save, table
from benchmarks._data import MQ2008, Fold, data_folder, folds, shuffled
from benchmarks._kept import Kept, add_keep
from benchmarks._models import LambdaMART
from benchmarks.quality import ndcg
from online_rank import DirectRanker, GradientRanker, PerceptronRanker
from online_rank.metrics import MAP
from online_rank.query import query_offsets
from online_rank.stream import Documents

_SYSTEMS = ("DirectRanker", "RankNet", "ListNet", "LambdaMART", "AdaRank", "ES-Rank", "IESR-Rank", "IESVM-Rank")

#: Published NDCG@10 / MAP: tables 1 and 2 of [DR], by folder, in the order of `_SYSTEMS`. Figures of the evolution strategies
#: are [IL]'s, which [DR] quotes.
PUBLISHED = {
    folder: dict(zip(_SYSTEMS, values, strict=True))
    for folder, values in {
        "mq2008": (
            "0.720 / 0.636", "0.716 / 0.642", "0.719 / 0.647", "0.723 / 0.624", "0.722 / 0.653",
            "0.507 / 0.483", "0.517 / 0.494", "0.498 / 0.473",
        ),
        "mq2007": (
            "0.540 / 0.534", "0.525 / 0.525", "0.526 / 0.525", "0.531 / 0.510", "0.526 / 0.527",
            "0.451 / 0.470", "0.455 / 0.473", "0.436 / 0.456",
        ),
        "MSLR-WEB10K": (
            "0.440 / 0.365", "0.157 / 0.195", "0.157 / 0.192", "0.476 / 0.366", "0.400 / 0.322",
            "0.382 / 0.570", "0.415 / 0.603", "0.224 / 0.457",
        ),
    }.items()
}  # fmt: skip

#: NDCG@10 / MAP by folder, mean of five folds, of the logs of RankLib's AdaRank that the authors of [DR] publish with their
#: code (github.com/kramerlab/direct-ranker, table2/results_ranklib).
LOGS_OF_ADARANK = {"mq2008": "0.4941 / 0.4725 (logs of RankLib)"}


class Method(NamedTuple):
    """How a row is made: a model for each setting of a grid, and the numbers of passes to try."""

    make: Callable[..., Any]
    grid: tuple[dict[str, Any], ...] = ({},)
    passes: tuple[int, ...] = (1,)


RATES = ({"learning_rate": 1e-3}, {"learning_rate": 3e-3})
TREES = tuple({"n_estimators": n, "max_depth": depth, "learning_rate": 0.1} for n in (30, 100) for depth in (3, 6))

#: The rows of [DR]'s tables, by the name of the system that was published, and more of this library's.
RANKERS = {
    "DirectRanker": Method(lambda **s: DirectRanker(seed=0, **s), RATES, (1, 5)),
    "RankNet": Method(lambda **s: DirectRanker(surrogate="logistic", output="half_tanh", seed=0, **s), RATES, (1, 5)),
    "ListNet, the same network": Method(lambda **s: DirectRanker(surrogate="listnet", seed=0, **s), RATES, (1, 5)),
    "LambdaMART, LightGBM": Method(lambda **s: LambdaMART(n_jobs=1, random_state=0, **s), TREES),
    "LambdaMART, XGBoost": Method(lambda **s: XGBoost(n_jobs=1, random_state=0, **s), TREES),
    "AdaRank": Method(AdaRank, tuple({"rounds": rounds} for rounds in (5, 20, 100))),
    "ES-Rank": Method(lambda: ESRank("zero")),
    "IESR-Rank": Method(lambda: ESRank("least squares")),
    "IESVM-Rank": Method(lambda: ESRank("ranking SVM")),
    "ranking SVM": Method(RankingSVM),
    "LambdaRank, the network of DirectRanker": Method(
        lambda **s: DirectRanker(surrogate="lambdarank", seed=0, **s), RATES, (1, 5)
    ),
    "linear ListNet": Method(lambda: GradientRanker("listnet"), passes=(1, 5)),
    "perceptron": Method(
        lambda **s: PerceptronRanker(credit="spread", **s), tuple({"relative_margin": beta} for beta in (0.0, 0.3, 1.0)), (1, 5)
    ),
    "Rank LR (linear RankNet)": Method(lambda: GradientRanker("logistic"), passes=(1, 5)),
}


def prepared(block: Documents, threshold: int, reference: np.ndarray) -> Documents:
    """Grades binarised, queries without a relevant document left out, features mapped by the quantiles of `reference`."""
    y = (block.y >= threshold).astype(np.int64)
    offsets = query_offsets(block.qid, len(y))
    kept = np.repeat(np.add.reduceat(y, offsets[:-1]) > 0, np.diff(offsets))
    return Documents(_normal_scores(block.X[kept], reference), y[kept], np.asarray(block.qid)[kept], None)


def _normal_scores(X: np.ndarray, reference: np.ndarray) -> np.ndarray:
    """Each feature mapped to a normal distribution of standard deviation 1/3 by its exact quantiles in `reference`."""
    from scipy.special import ndtri

    out = np.empty_like(X)
    for j in range(X.shape[1]):
        column = np.sort(reference[:, j])
        x = np.clip(X[:, j], column[0], column[-1])
        share = (np.searchsorted(column, x, side="left") + np.searchsorted(column, x, side="right")) / (2 * len(column))
        out[:, j] = ndtri(share) / 3.0
    return out


def inner_split(block: Documents) -> Fold:
    """Four fifths of the queries to learn from, one fifth to choose by."""
    X, y, qid = shuffled(block, seed=0)
    first = qid < 0.8 * (qid[-1] + 1)
    parts = (Documents(X[mask], y[mask], qid[mask], None) for mask in (first, ~first))
    return Fold(*parts)


def trained(method: Method, setting: dict[str, Any], passes: int, block: Documents) -> Any:
    """A model that went over the queries `passes` times, each time in another order."""
    model = method.make(**setting)
    for seed in range(passes):
        model.learn_many(*shuffled(block, seed))
    return model


def choices(method: Method) -> Iterator[tuple[dict[str, Any], int]]:
    """Every setting with every number of passes."""
    return ((setting, passes) for setting in method.grid for passes in method.passes)


def run(method: Method, fold: Fold) -> tuple[float, float, float, float]:
    """NDCG@10 and MAP on the test part; seconds of the search and of the final training."""
    start = time.perf_counter()
    inner = inner_split(fold.train)
    candidates = list(choices(method))
    best = candidates[0]
    if len(candidates) > 1:
        scores = [ndcg(trained(method, *choice, inner.train).predict_many(inner.test.X), inner.test) for choice in candidates]
        best = candidates[int(np.argmax(scores))]
    chosen = time.perf_counter()
    model = trained(method, *best, fold.train)
    done = time.perf_counter()
    predicted = model.predict_many(fold.test.X)
    average_precision = MAP()
    average_precision.update_many(fold.test.y, predicted, fold.test.qid)
    return ndcg(predicted, fold.test), average_precision.get(), chosen - start, done - chosen


class Row(NamedTuple):
    """Of each fold: NDCG@10, MAP, seconds of the search and of the final training."""

    name: str
    folds: np.ndarray

    def cells(self, published: str = "") -> tuple[str, ...]:
        mean = self.folds.mean(axis=0)
        spread = self.folds.std(axis=0, ddof=1) if len(self.folds) > 1 else np.zeros(4)
        quality = (f"{m:.3f} ± {s:.3f}" for m, s in zip(mean[:2], spread, strict=False))
        return (self.name, *quality, published, f"{mean[2]:.1f}", f"{mean[3]:.2f}")


def compiled(method: Method, block: Documents) -> None:
    """Learn a few queries: the first call of a kernel may wait for its compilation, which is no part of a run time."""
    few = np.asarray(block.qid) < np.unique(block.qid)[20]
    trained(method, method.grid[0], 1, Documents(block.X[few], block.y[few], np.asarray(block.qid)[few], None))


def each(parts: list[Fold], measure: Callable[[Fold], Any], kept: Kept, name: str) -> np.ndarray:
    """What is measured on each fold."""
    return np.array([kept.part(f"{name}, fold {k}", partial(measure, fold)) for k, fold in enumerate(parts, start=1)])


def measured(methods: dict[str, Method], parts: list[Fold], kept: Kept, where: str) -> dict[str, Row]:
    """Every method on every fold."""
    rows = {}
    for name, method in methods.items():

        def one(fold: Fold, method: Method = method) -> tuple[float, ...]:
            compiled(method, fold.train)
            return run(method, fold)

        rows[name] = Row(name, each(parts, one, kept, f"{where}, {name}"))
        print(*rows[name].cells(), flush=True)
    return rows


def graded(make: Callable[..., Any], fold: Fold) -> tuple[float, float]:
    """NDCG@10 and MAP of grades as they are; a query without a relevant document counts 0."""
    model = make()
    model.learn_many(fold.train.X, fold.train.y, fold.train.qid)
    scores = model.predict_many(fold.test.X)
    measure = TrainingNDCG(fold.test.y, fold.test.qid)
    average_precision = MAP()
    average_precision.update_many(fold.test.y, scores, fold.test.qid)
    return float(measure.each(scores).mean()), float(average_precision.get() * measure.taught.mean())


def evolution(parts: list[Fold], published: dict[str, str], kept: Kept, where: str) -> str:
    """Graded, features as they come, queries without a relevant document count 0: the level of what [IL] publish."""
    methods = {"AdaRank": AdaRank, **{name: RANKERS[name].make for name in ("ES-Rank", "IESR-Rank", "IESVM-Rank")}}
    rows = []
    for name, make in methods.items():
        found = each(parts, partial(graded, make), kept, f"{where}, graded, {name}")
        mean, spread = np.mean(found, axis=0), np.std(found, axis=0, ddof=1) if len(found) > 1 else np.zeros(2)
        quoted = LOGS_OF_ADARANK.get(where, "") if name == "AdaRank" else published.get(name, "")
        rows.append((name, *(f"{m:.3f} ± {s:.3f}" for m, s in zip(mean, spread, strict=True)), quoted))
    return table(["method", "NDCG@10", "MAP", "published, NDCG@10 / MAP"], rows)


def main() -> None:
    """Run every method on every folder."""
    arguments = parser(__doc__)
    arguments.add_argument("folders", nargs="*", type=Path, metavar="FOLDER")
    arguments.add_argument("--threshold", type=int, default=1)
    add_keep(arguments)
    chosen = arguments.parse_args()
    kept = Kept(chosen.keep)
    sections = []
    for folder in chosen.folders or [data_folder() / MQ2008]:
        if not folder.exists():
            raise SystemExit("no data: name a folder of LETOR folds")
        raw = list(folds(folder))
        parts = [Fold(*(prepared(block, chosen.threshold, fold.train.X) for block in (fold.train, fold.test))) for fold in raw]
        published = PUBLISHED.get(folder.name, {})
        rankers = measured(RANKERS, parts, kept, folder.name)
        header = ["method", "NDCG@10", "MAP", "published, NDCG@10 / MAP", "search, s", "training, s"]
        first = [row.cells(published.get(name.partition(",")[0], "")) for name, row in rankers.items()]
        sections.append(f"""## {folder.name}, {len(parts)} folds

{table(header, first)}

### The evolution strategies, all queries counted

Graded, features as they come, all queries; those without a relevant document count 0 in both measures. Published by [IL]; for
AdaRank, the logs of RankLib that the authors of [DR] publish with their code.

{evolution(raw, published, kept, folder.name)}""")
    save(
        "direct_quality",
        f"""# Systems of the literature under one protocol

The protocol of the DirectRanker's paper [DR]: binarised grades, Gaussian features, inner grid search over the training part
only; mean over folds ± standard deviation over folds. Times are seconds a fold. *Published* values are from [DR]'s tables, not
measured here. [DR] quotes the ones of ES-Rank, IESR-Rank and IESVM-Rank from [IL]; their level suggests a protocol that counts
queries without a relevant document as 0 (see the last table). {kept.code}
{environment("lightgbm", "xgboost-cpu", "scikit-learn")}

{(chr(10) * 2).join(sections)}
""",
    )


if __name__ == "__main__":
    main()
