"""Does every export rank as the model does? Every public ranker, alone, behind transformers and in a blend, to every target.

    python -m benchmarks.exports [--part PART ...] [--queries 784] [--keep FILE] [--minutes 60]

`models`: they learn 100 queries of MQ2008's training part. Their files are read by the programs themselves where these are
Python packages (ONNX Runtime, LightGBM, XGBoost) or a compiler, and otherwise by independent readers written from the targets'
documentation (`tests.reference.engines`). A score is compared in units of the largest score of its query, less what is added to
all documents of it. "equal": within 1e-9; "float32": within 1e-5, where program or model compute in single precision. A query
is ranked otherwise if two documents further apart than 1e-6 stand in the other order. With `--keep`, models that FILE has are
not measured again. Databases are in `tests/export`.

`times`: what a query takes. `served`: held-out queries through the engines themselves. `sizes`: what a model takes in each
target, with trees and without.
"""

import sys
import tempfile
import time
from collections import Counter
from collections.abc import Callable, Iterator
from functools import partial
from itertools import pairwise
from pathlib import Path
from typing import Any, NamedTuple

import numpy as np
from river import linear_model

from benchmarks._common import environment, parser, save, table
from benchmarks._data import MQ2008, data_folder, folds, offsets_of
from benchmarks._exports_served import show_served, show_sizes
from benchmarks._exports_times import compiled, show_times
from benchmarks._kept import Kept, add_keep
from online_rank import (
    AdditiveRanker,
    BlendRanker,
    ClickPerceptron,
    DirectRanker,
    GradientRanker,
    KernelPerceptronRanker,
    LossTracker,
    PairwiseRanker,
    PerceptronRanker,
    PointwiseRanker,
    QueryNormalizer,
    RidgeRanker,
    StreamQuantileMap,
    StreamScaler,
    SwapRanker,
)
from online_rank.export import export
from online_rank.export.table import TARGETS
from online_rank.rankers.fixed import FixedRanker
from tests.reference import engines

LEARNED, NAMES = 100, [f"f{j}" for j in range(46)]
_EQUAL, _SINGLE, _TIE = 1e-9, 1e-5, 1e-6

RANKERS: dict[str, Callable[[], Any]] = {
    "PerceptronRanker": PerceptronRanker,
    "PerceptronRanker, signs": lambda: PerceptronRanker(signs={"f1": 1, "f2": -1}),
    "GradientRanker": GradientRanker,
    "RidgeRanker": RidgeRanker,
    "SwapRanker": SwapRanker,
    "ClickPerceptron": ClickPerceptron,
    "FixedRanker": lambda: FixedRanker({name: 1.0 + j % 3 for j, name in enumerate(NAMES)}),
    "DirectRanker": lambda: DirectRanker(hidden=(8,), dtype="float64"),
    "KernelPerceptronRanker": lambda: KernelPerceptronRanker(budget=20),
    "PairwiseRanker": lambda: PairwiseRanker(linear_model.LogisticRegression()),
    "PointwiseRanker": lambda: PointwiseRanker(linear_model.LinearRegression()),
    "LossTracker": lambda: LossTracker(PerceptronRanker()),
    "AdditiveRanker": AdditiveRanker,
    "AdditiveRanker, relative=False": lambda: AdditiveRanker(relative=False),
}
FRONTS: dict[str, Callable[[], list[Any]]] = {
    "alone": list,
    "StreamScaler": lambda: [StreamScaler()],
    "QueryNormalizer": lambda: [QueryNormalizer()],
    "StreamQuantileMap": lambda: [StreamQuantileMap()],
}
#: Targets that see a whole query; all others see one document at a time, so all documents are scored at once.
_OF_QUERIES = ("c", "json", "onnx")
_DATABASES = ("duckdb", "postgresql")
_OF_RAW = tuple(name for name in RANKERS if name.startswith("Additive"))


class Cell(NamedTuple):
    """How an export compares: the largest difference, the queries ranked otherwise; or why there is none."""

    difference: float = 0.0
    otherwise: int = 0
    refused: str = ""

    def __str__(self) -> str:
        if self.refused:
            return "refused"
        if self.otherwise:
            return f"OTHERWISE: {self.otherwise}"
        return "equal" if self.difference <= _EQUAL else "float32" if self.difference <= _SINGLE else f"{self.difference:.0e}"


def models() -> Iterator[tuple[str, str, Callable[[], Any]]]:
    """Every ranker behind each transformer, and in a blend."""
    for name, make in RANKERS.items():
        for front, steps in FRONTS.items():
            if name not in _OF_RAW or front == "alone":
                yield name, front, lambda make=make, steps=steps: _chained(steps(), make())  # type: ignore[misc]
        if name not in _OF_RAW:
            yield name, "in a blend", lambda make=make: BlendRanker([make(), StreamScaler() | RidgeRanker()])  # type: ignore[misc]


def _chained(steps: list[Any], ranker: Any) -> Any:
    for step in reversed(steps):
        ranker = step | ranker
    return ranker


def taught(make: Callable[[], Any], queries: list[tuple[np.ndarray, np.ndarray]]) -> Any:
    """A model that has learned, from clicks on the relevant documents where it takes no grades."""
    model = make()
    for X, y in queries:
        query = _named(X)
        if model.abilities.takes_clicks and model.abilities.draws:
            shown = model.show_one(query)
            model.learn_one(query, shown.clicked([i for i in shown.order if y[i] > 0]))
        else:
            model.learn_one(query, y)
    return model


def _named(X: np.ndarray) -> list[dict[str, float]]:
    return [dict(zip(NAMES, row, strict=True)) for row in X.tolist()]


def compared(model: Any, to: str, queries: list[np.ndarray], expected: list[np.ndarray]) -> Cell:
    """An export compared with the model."""
    try:
        content = export(model, to, name="model")
    except (TypeError, ValueError) as error:
        return Cell(refused=str(error))
    with tempfile.TemporaryDirectory() as folder:
        score = (
            compiled(content, Path(folder), len(NAMES))
            if to == "c"
            else lambda X: engines.scores(to, content, NAMES, X, folder)
        )
        if to in _OF_QUERIES:
            answers = [score(X) for X in queries]
        else:
            answers = np.split(score(np.concatenate(queries)), np.cumsum([len(X) for X in queries])[:-1])
        worst, otherwise = 0.0, 0
        for answer, scores in zip(answers, expected, strict=True):
            found = np.asarray(answer, dtype=np.float64)
            # Engines leave out what is added to all documents.
            found, scores = found - found.mean(), scores - scores.mean()
            largest = max(float(np.abs(scores).max()), 1e-12)
            worst = max(worst, float(np.abs(found - scores).max()) / largest)
            otherwise += ranked_otherwise(scores, found, _TIE * largest)
    return Cell(worst, otherwise)


def ranked_otherwise(expected: np.ndarray, found: np.ndarray, tie: float) -> bool:
    """Whether two documents that are further apart than `tie` stand in the other order, or are equal, by `found`."""
    order = np.argsort(-found, kind="stable")
    # The least score so far, of those that are ranked before: nothing after it may be larger by more than a tie.
    least = np.minimum.accumulate(expected[order])
    return bool((expected[order] > least + tie).any())


def measured(make: Callable[[], Any], targets: list[str], learned: Any, asked: list[np.ndarray]) -> list[list[Any]]:
    """The cells of a model, a target each; a single refused one if the model cannot be made."""
    try:
        model = taught(make, learned)
    except (TypeError, ValueError) as error:
        return [list(Cell(refused=f"no such model: {error}"))]
    expected = [np.array(model.predict_one(_named(X))) for X in asked]
    return [list(compared(model, to, asked, expected)) for to in targets]


def show_models(given: Any) -> str:
    """Every model, every export."""
    until, kept = time.monotonic() + 60.0 * given.minutes, Kept(given.keep)
    parts = list(folds(data_folder() / MQ2008))
    learned = [(parts[0].train.X[a:b], parts[0].train.y[a:b]) for a, b in list(pairwise(offsets_of(parts[0].train)))[:LEARNED]]
    # In single precision, as engines store features, so that all see the same.
    asked = [
        part.test.X[a:b].astype(np.float32).astype(np.float64) for part in parts for a, b in pairwise(offsets_of(part.test))
    ]
    asked = asked[:: max(1, len(asked) // given.queries)][: given.queries]
    targets = [name for name, target in TARGETS.items() if target.kinds != ("fusion",) and name not in _DATABASES]
    rows, reasons, n_models, n_otherwise = [], Counter[str](), 0, 0
    for name, front, make in models():
        n_models += 1
        part = f"{name}, {front}, {len(asked)} queries"
        if part not in kept and time.monotonic() > until:
            continue
        cells = [Cell(*cell) for cell in kept.part(part, partial(measured, make, targets, learned, asked))]
        n_otherwise += sum(cell.otherwise > 0 for cell in cells)
        reasons.update(cell.refused for cell in cells if cell.refused)
        rows.append((name, front, *map(str, cells if len(cells) > 1 else ["no such model"] * len(targets))))
        print(*rows[-1], file=sys.stderr, flush=True)
    refused = "\n".join(f"- {count} x {reason}" for reason, count in reasons.most_common())
    return f"""{len(asked)} held-out queries of MQ2008. *equal*: scores within 1e-9 of the largest; *float32*: within 1e-5;
*OTHERWISE*: the number of queries in which two documents further apart than 1e-6 stand in another order; a number: the largest
difference, where all are ranked alike. {len(rows)} of {n_models} models were measured; {n_otherwise} of their exports rank
otherwise; curves that became trees do so in a few queries. {kept.code}

{table(("ranker", "behind", *targets), rows)}

{environment("onnx", "onnxruntime", "lightgbm", "xgboost-cpu")}

Refused:

{refused}"""


#: The sections of the page: their headings, and what makes them.
_PARTS: dict[str, tuple[str, Callable[[Any], str]]] = {
    "models": ("Every model to every target", show_models),
    "times": ("What a query takes", show_times),
    "served": ("Held-out queries through engines", show_served),
    "sizes": ("What a model takes in each target", show_sizes),
}


def main() -> None:
    arguments = parser(__doc__)
    arguments.add_argument("--part", nargs="+", choices=_PARTS, default=[*_PARTS])
    arguments.add_argument("--queries", type=int, default=784)
    arguments.add_argument("--minutes", type=float, default=float("inf"), help="begin no other model after this")
    add_keep(arguments)
    given = arguments.parse_args()
    sections = [f"## {heading}\n\n{show(given)}" for heading, show in (_PARTS[part] for part in given.part)]
    save("exports", "\n\n".join(["# Exported models compared with the models", *sections]), part=True)


if __name__ == "__main__":
    main()
