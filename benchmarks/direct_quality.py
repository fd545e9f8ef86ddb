"""How do the rankers do under the protocol of the DirectRanker's paper ([DR], section 4.4)? NDCG@10 and MAP beside run times.

    python -m benchmarks.direct_quality [FOLDER ...] [--threshold 1] [--forest]

FOLDER: as in `benchmarks.quality`; without one, `../shared/data/mq2008`. Grades are binarised (relevant from the threshold on:
1 for MQ2007 and MQ2008, 2 for MSLR), queries without a relevant document left out, features mapped to a normal distribution of
standard deviation 1/3 by the quantiles of the training part. Settings come from a grid search inside the training part alone: a
fifth of its queries is held out, the setting with the best NDCG@10 there learns from the whole part, and is tested once.
`--forest` adds river's adaptive random forest, which takes minutes.
"""

import time
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any, NamedTuple

import numpy as np
from river import forest, linear_model

from benchmarks._common import environment, parser, save, table
from benchmarks._data import MQ2008, Fold, data_folder, folds, shuffled
from benchmarks._models import LambdaMART
from benchmarks.quality import ndcg
from online_rank import DirectRanker, GradientRanker, PairwiseRanker, PerceptronRanker, PointwiseRanker
from online_rank.metrics import MAP
from online_rank.preprocessing import batch_gaussianize
from online_rank.query import query_offsets
from online_rank.stream.letor import LetorBlock

#: Published NDCG@10 / MAP of the DirectRanker [DR], by folder.
PUBLISHED = {"mq2008": "0.720 / 0.636", "mq2007": "0.540 / 0.534", "MSLR-WEB10K": "0.440 / 0.365"}


class Method(NamedTuple):
    """How a row is made: a model for each setting of a grid, and the numbers of passes to try."""

    make: Callable[..., Any]
    grid: tuple[dict[str, Any], ...] = ({},)
    passes: tuple[int, ...] = (1,)


RATES = ({"learning_rate": 1e-3}, {"learning_rate": 3e-3})
METHODS = {
    "DirectRanker": Method(lambda **s: DirectRanker(seed=0, **s), RATES, (1, 5)),
    "RankNet": Method(lambda **s: DirectRanker(cost="logistic", output="half_tanh", seed=0, **s), RATES, (1, 5)),
    "ListNet, the same network": Method(lambda **s: DirectRanker(cost="listnet", seed=0, **s), RATES, (1, 5)),
    "LambdaRank, the same network": Method(lambda **s: DirectRanker(cost="lambdarank", seed=0, **s), RATES, (1, 5)),
    "Rank LR (linear RankNet)": Method(lambda: GradientRanker("logistic"), passes=(1, 5)),
    "linear ListNet": Method(lambda: GradientRanker("listnet"), passes=(1, 5)),
    "perceptron": Method(PerceptronRanker, tuple({"relative_margin": beta} for beta in (0.0, 0.3, 1.0)), (1, 5)),
    "pointwise: Class LR": Method(lambda: PointwiseRanker(linear_model.LogisticRegression())),
    "pointwise: Reg": Method(lambda: PointwiseRanker(linear_model.LinearRegression())),
    "pairwise: LR on differences": Method(lambda: PairwiseRanker(linear_model.LogisticRegression(), seed=0)),
    "LightGBM LambdaMART, batch": Method(
        LambdaMART, tuple({"random_state": 0, "n_estimators": n, "num_leaves": leaves} for n in (50, 200) for leaves in (7, 31))
    ),
}
FOREST = {"pointwise: Class RF": Method(lambda: PointwiseRanker(forest.ARFClassifier(n_models=5, seed=0)))}


def prepared(block: LetorBlock, threshold: int, reference: np.ndarray) -> LetorBlock:
    """Grades binarised, queries without a relevant document left out, features mapped by the quantiles of `reference`."""
    y = (block.y >= threshold).astype(np.int64)
    offsets = query_offsets(block.qid, len(y))
    kept = np.repeat(np.add.reduceat(y, offsets[:-1]) > 0, np.diff(offsets))
    return LetorBlock(batch_gaussianize(block.X[kept], reference), y[kept], np.asarray(block.qid)[kept], None)


def inner_split(block: LetorBlock) -> Fold:
    """Four fifths of the queries to learn from, one fifth to choose by."""
    X, y, qid = shuffled(block, seed=0)
    first = qid < 0.8 * (qid[-1] + 1)
    parts = (LetorBlock(X[mask], y[mask], qid[mask], None) for mask in (first, ~first))
    return Fold(*parts)


def trained(method: Method, setting: dict[str, Any], passes: int, block: LetorBlock) -> Any:
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


def main() -> None:
    """Run every method on every folder."""
    arguments = parser(__doc__)
    arguments.add_argument("folders", nargs="*", type=Path, metavar="FOLDER")
    arguments.add_argument("--threshold", type=int, default=1)
    arguments.add_argument("--forest", action="store_true")
    chosen = arguments.parse_args()
    sections = []
    for folder in chosen.folders or [data_folder() / MQ2008]:
        if not folder.exists():
            raise SystemExit("no data: name a folder of LETOR folds")
        parts = [
            Fold(*(prepared(block, chosen.threshold, fold.train.X) for block in (fold.train, fold.test)))
            for fold in folds(folder)
        ]
        rows = []
        for name, method in (METHODS | (FOREST if chosen.forest else {})).items():
            # The first call of a kernel may wait for its compilation, which is no part of a run time.
            trained(method, method.grid[0], 1, inner_split(parts[0].train).train)
            results = np.array([run(method, fold) for fold in parts])
            mean, spread = results.mean(axis=0), results.std(axis=0, ddof=1) if len(results) > 1 else np.zeros(4)
            published = PUBLISHED.get(folder.name, "") if name == "DirectRanker" else ""
            rows.append(
                (
                    name,
                    f"{mean[0]:.3f} ± {spread[0]:.3f}",
                    f"{mean[1]:.3f} ± {spread[1]:.3f}",
                    published,
                    f"{mean[2]:.1f}",
                    f"{mean[3]:.2f}",
                )
            )
        header = ["method", "NDCG@10", "MAP", "published in [DR], NDCG@10 / MAP", "search, s", "training, s"]
        sections.append(f"## {folder.name}, {len(parts)} folds\n\n{table(header, rows)}")
    save(
        "direct_quality",
        f"""# Rankers under the protocol of the DirectRanker's paper

Binarised grades, Gaussian features, inner grid search over the training part only; mean over folds ± standard deviation. Times
are seconds a fold. Published values are the paper's, not measured here. {environment("lightgbm")}

{(chr(10) * 2).join(sections)}
""",
    )


if __name__ == "__main__":
    main()
