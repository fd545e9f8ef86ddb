"""Do exported models score and rank as the models do? ONNX, by onnxruntime, and Solr's formula, on held-out queries of MQ2008.

    python -m benchmarks.exports

On each fold a model learns the training part, is exported, and both score the test part. Differences are relative to the
largest score. Two scores closer than 1e-6 of it count as a tie: *queries ranked otherwise* have a pair of documents that are
further apart and stand in the other order. Needs onnx and onnxruntime.
"""

from collections.abc import Callable, Iterator
from itertools import pairwise
from typing import Any

import numpy as np

from benchmarks._common import environment, parser, save, table
from benchmarks._data import MQ2008, Fold, data_folder, folds, offsets_of
from online_rank import DirectRanker, PerceptronRanker, RidgeRanker, StreamGaussianizer, StreamScaler
from online_rank.export import serving_weights, to_onnx, to_solr

_TIE = 1e-6

MODELS: dict[str, Callable[[], Any]] = {
    "StreamScaler() | PerceptronRanker()": lambda: StreamScaler() | PerceptronRanker(),
    "StreamScaler() | RidgeRanker()": lambda: StreamScaler() | RidgeRanker(),
    "StreamGaussianizer() | DirectRanker(), float32": lambda: StreamGaussianizer() | DirectRanker(seed=0),
    "StreamGaussianizer() | DirectRanker(), float64": lambda: StreamGaussianizer() | DirectRanker(seed=0, dtype="float64"),
}


def onnx_scores(model: Any, X: np.ndarray) -> np.ndarray:
    """What onnxruntime makes of the export."""
    import onnxruntime

    session = onnxruntime.InferenceSession(to_onnx(model).SerializeToString(), providers=["CPUExecutionProvider"])
    return session.run(["scores"], {"features": X})[0]


def solr_scores(model: Any, X: np.ndarray, normalizers: bool) -> np.ndarray:
    """Solr's formula: weights times features, each through its normaliser; without them less a constant of all documents."""
    body = to_solr(model, normalizers=normalizers)
    scores = np.zeros(len(X)) if normalizers else np.full(len(X), serving_weights(model).constant)
    for feature, x in zip(body["features"], X.T, strict=True):
        if "norm" in feature:
            given = feature["norm"]["params"]
            x = (x - float(given["avg"])) / float(given["std"])
        scores += body["params"]["weights"][feature["name"]] * x
    return scores


def exported(model: Any, X: np.ndarray) -> Iterator[tuple[str, np.ndarray]]:
    """The scores of each export."""
    yield "ONNX", onnx_scores(model, X)
    if not isinstance(model[-1], DirectRanker):
        yield "Solr, folded", solr_scores(model, X, normalizers=False)
        yield "Solr, normalisers", solr_scores(model, X, normalizers=True)


def ranked_otherwise(expected: np.ndarray, found: np.ndarray, tie: float) -> bool:
    """Whether two documents that are further apart than `tie` stand in the other order, or are equal, by `found`."""
    order = np.argsort(-found, kind="stable")
    # The least score so far, of those that are ranked before: nothing after it may be larger by more than a tie.
    least = np.minimum.accumulate(expected[order])
    return bool((expected[order] > least + tie).any())


def measure(make: Callable[[], Any], parts: list[Fold]) -> dict[str, tuple[float, int, int]]:
    """For each export the largest difference over all folds, the queries ranked otherwise, and all queries."""
    found: dict[str, tuple[float, int, int]] = {}
    for fold in parts:
        model = make()
        model.learn_many(fold.train.X, fold.train.y, fold.train.qid)
        expected = model.predict_many(fold.test.X, fold.test.qid)
        largest = float(np.abs(expected).max())
        for name, scores in exported(model, fold.test.X):
            worst, otherwise, n = found.get(name, (0.0, 0, 0))
            for a, b in pairwise(offsets_of(fold.test)):
                otherwise += ranked_otherwise(expected[a:b], scores[a:b], _TIE * largest)
                n += 1
            found[name] = max(worst, float(np.abs(scores - expected).max()) / largest), otherwise, n
    return found


def main() -> None:
    """Every model, every export."""
    parser(__doc__).parse_args()
    parts = list(folds(data_folder() / MQ2008))
    rows = []
    for name, make in MODELS.items():
        for to, (worst, otherwise, n) in measure(make, parts).items():
            rows.append((f"`{name}`".replace("|", "\\|"), to, f"{worst:.1e}", otherwise, f"{n:,}"))
            print(*rows[-1], flush=True)
    header = ["model", "export", "largest difference, of the largest score", "queries ranked otherwise", "queries"]
    note = f"`python -m benchmarks.exports`: held-out queries of MQ2008, {len(parts)} folds. The bar is 1e-6."
    save(
        "exports",
        f"# Exported models beside the models\n\n{note}\n\n{table(header, rows)}\n\n{environment('onnx', 'onnxruntime')}",
    )


if __name__ == "__main__":
    main()
