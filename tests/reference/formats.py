"""Files of models as each version wrote them, and what the models answered then.

    python -m tests.reference.formats

adds to the folder of the present version, `tests/storage/formats/VERSION`, what it lacks: a file for each model, with
`answers.json`, a service's folder, and a dump of PostgreSQL (`tests.reference.service_formats`). What exists is never written
again, so every later version must read it. Run it for each new kind of model, and before each release.
"""

import json
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import numpy as np
import scipy.sparse as sp
from river import compose, feature_extraction, preprocessing, stats

import online_rank
from online_rank import (
    AdditiveRanker,
    BlendRanker,
    ClickBlendRanker,
    ClickCurves,
    ClickRidge,
    CrossFeatures,
    DirectRanker,
    ForEachDocument,
    GradientRanker,
    HashedFeatures,
    History,
    KernelPerceptronRanker,
    LossTracker,
    MaxAbsStreamScaler,
    PerceptronRanker,
    QueryNormalizer,
    RidgeRanker,
    SlamRanker,
    StreamQuantileMap,
    StreamScaler,
    SwapRanker,
    VectorRanker,
    save,
)
from tests.reference import service_formats
from tests.reference.service_formats import WORDS

FOLDER = Path(__file__).parents[1] / "storage" / "formats"
ANSWERS = "answers.json"

MODELS: dict[str, Callable[[], Any]] = {
    "perceptron": lambda: PerceptronRanker(),
    "slam": lambda: SlamRanker(learning_rate=0.1, within_grade="tight"),
    "perceptron-signs": lambda: StreamScaler() | PerceptronRanker(signs={"1": 1, "3": -1}),
    "perceptron-sparse": lambda: MaxAbsStreamScaler() | PerceptronRanker(),
    "hashed": lambda: HashedFeatures(9) | PerceptronRanker(),
    "kernel-perceptron": lambda: KernelPerceptronRanker(budget=20),
    "map-perceptron": lambda: StreamQuantileMap() | PerceptronRanker(),
    "tracker": lambda: StreamScaler() | LossTracker(PerceptronRanker(), {"u": np.array([1.0, -1.0, 0.5])}),
    "gradient": lambda: StreamScaler() | GradientRanker("lambdarank", optimizer="adam"),
    "direct": lambda: QueryNormalizer() | DirectRanker(hidden=(4,), seed=1, dtype="float64"),
    "swap": lambda: SwapRanker(),
    "additive": lambda: AdditiveRanker(),
    "leaving": lambda: _bounded(AdditiveRanker()),
    "blend-of": lambda: BlendRanker([PerceptronRanker(), StreamScaler() | RidgeRanker()]),
    "ridge": lambda: StreamScaler() | RidgeRanker(),
    "groups": lambda: (
        ForEachDocument(
            (compose.Select("price", "kind") | feature_extraction.TargetAgg(by="kind", how=stats.BayesianMean(1.0, 2.0)))
            + (compose.Select("kind") | preprocessing.OneHotEncoder())
            + compose.Select("price", "age")
        )
        | PerceptronRanker()
    ),
    "lifted": lambda: ForEachDocument(preprocessing.StandardScaler()) | PerceptronRanker(),
    "whole": lambda: AdditiveRanker(trees=20),
    "vectors": lambda: VectorRanker("photo"),
    "crosses": lambda: CrossFeatures("kind") | PerceptronRanker(),
    "history": lambda: History("shelf", half_life=20) | AdditiveRanker(trees=0),
    "click-blend": lambda: ClickBlendRanker(),
    "click-curves": lambda: ClickCurves(),
    "click-ridge": lambda: ClickRidge(),
}
#: Files of models that later versions refuse.
REFUSED = ("blend", "boosted")
#: Models of clicks on lists that they drew.
OF_CLICKS = ("swap", "click-blend", "click-curves", "click-ridge")
#: Models of queries with a context.
WITH_CONTEXT = ("whole", "vectors", "crosses")


def _bounded(model: Any) -> Any:
    """A model that features leave."""
    model.max_features = 16
    return model


def queries(first: int, n: int) -> Iterator[tuple[np.ndarray, np.ndarray]]:
    """Queries that need no generator of random numbers, whose streams may change with numpy."""
    for t in range(first, first + n):
        i, j = np.meshgrid(np.arange(7.0), np.arange(3.0), indexing="ij")
        X = np.sin(1.7 * t + 2.3 * i + 0.9 * j * j) + 0.25 * np.round(4.0 * np.cos(t * i + j))
        yield X, np.digitize(X @ [1.0, -0.5, 0.25] + 0.3 * np.sin(5.0 * t + i[:, 0]), [0.0, 1.0])


def in_form(name: str, X: np.ndarray) -> Any:
    """A query as the model of this name takes it."""
    if name == "perceptron-sparse":
        return sp.csr_matrix(np.where(np.abs(X) > 0.4, X, 0.0))
    if name in ("hashed", "map-perceptron"):
        return [dict(zip(("price", "clicks", "age"), row, strict=True)) for row in X.tolist()]
    if name == "crosses":
        return [{"price": x, "age": z} for x, _, z in X.tolist()]
    if name == "history":
        return [{"price": x, "shelf": f"shelf {round(3.0 * abs(z))}"} for x, _, z in X.tolist()]
    if name in ("whole", "vectors"):
        return [
            {
                "price": None if i == 1 else x,
                "kind": "abc"[i % 3],
                "title": " ".join(WORDS[(round(100.0 * abs(y)) * j + i + j * j) % 10] for j in range(1, 5)),
                "photo": [x, y, z],
            }
            for i, (x, y, z) in enumerate(X.tolist())
        ]
    if name in ("additive", "leaving", "groups"):
        # Categories and missing values, and for the one that features leave, names that come and go.
        t = round(100.0 * abs(float(X[0, 0])))
        rows = [{"price": x, "kind": "abc"[i % 3], "age": z} for i, (x, _, z) in enumerate(X.tolist())]
        if name == "additive":
            rows = [{**row, "price": None if i == 1 else row["price"]} for i, row in enumerate(rows)]
        return [{**row, f"shelf {(t + i) % 30}": 1.0} for i, row in enumerate(rows)] if name == "leaving" else rows
    return X


def context_of(name: str, X: np.ndarray) -> dict[str, Any]:
    """What the model of this name is given next to a query."""
    if name not in WITH_CONTEXT:
        return {}
    t = round(100.0 * abs(float(X[0, 0])))
    words = f"{WORDS[t % 10]} {WORDS[t // 10 % 10]}"
    return {"context": {"kind": "xyz"[t % 3], "words": words, "photo": [0.5, float(X[0, 1]), -0.25]}}


def answers(name: str, model: Any) -> list[list[float]]:
    """The scores of five queries, the last two after learning two more."""
    found = [model.predict_one(in_form(name, X), **context_of(name, X)) for X, _ in queries(100, 3)]
    if name not in OF_CLICKS:
        for X, y in queries(200, 2):
            model.learn_one(in_form(name, X), y, **context_of(name, X))
    return found + [model.predict_one(in_form(name, X), **context_of(name, X)) for X, _ in queries(300, 2)]


def taught(name: str) -> Any:
    """The model of this name after 40 queries."""
    model = MODELS[name]()
    for X, y in queries(0, 40):
        if name in OF_CLICKS:
            shown = model.show_one(X)
            model.learn_one(X, shown.clicked([i for i in shown.order if y[i] > 0]))
        else:
            model.learn_one(in_form(name, X), y, **context_of(name, X))
    return model


def main() -> None:
    folder = FOLDER / online_rank.__version__
    folder.mkdir(parents=True, exist_ok=True)
    answered = folder / ANSWERS
    told = json.loads(answered.read_text()) if answered.exists() else {}
    for name in MODELS:
        if name not in told:
            model = taught(name)
            save(model, folder / f"{name}.npz")
            told[name] = answers(name, model)
    answered.write_text(json.dumps(told) + "\n")
    service_formats.write_missing(folder)


if __name__ == "__main__":
    main()
