"""One API: options are named and keyword-only, and each is checked when it is given."""

import dataclasses
import importlib
import inspect
import io
import math

import numpy as np
import pytest
from river import linear_model, preprocessing
from sklearn import tree

import online_rank
from online_rank import PerceptronRanker
from online_rank.feedback import PositionBias
from online_rank.serving import RankingService
from online_rank.stream import clicks, synth
from online_rank.support.registry import ROOMS

#: What stands for arguments without a default.
from tests.models import STUMP

GIVEN = {
    "model": PerceptronRanker(),
    ("FixedTrees", "model"): STUMP,
    "ranker": PerceptronRanker(),
    "rankers": [PerceptronRanker()],
    "a": PerceptronRanker(),
    "b": PerceptronRanker(),
    "measure": "ndcg@10",
    "queries": [(np.eye(2), [0, 1])],
    "stream": [(np.eye(2), [0, 1])],
    "make": PerceptronRanker,
    "bias": PositionBias(3),
    "transformer": preprocessing.StandardScaler(),
    "weights": {"a": 1.0},
    ("PairwiseRanker", "model"): linear_model.LogisticRegression(),
    ("PointwiseRanker", "model"): linear_model.LinearRegression(),
    ("hybrid", "runs"): ["a", "b"],
    ("mix", "models"): [PerceptronRanker()],
    "scores": [1.0, 0.0],
    "X": np.eye(2),
    "estimator": tree.DecisionTreeRegressor(),
    "models": {"a": PerceptronRanker()},
    "streams": [(np.eye(2), [0, 1])],
    "user": clicks.user("position", max_grade=1),
    "y": [0, 1],
    ("Models", "make"): lambda: RankingService(PerceptronRanker()),
}
#: Positional arguments of readers.
EXTRA = {"read": (io.StringIO(""),)}


def callables():
    """Every public function and class of every room, without records of values and exceptions."""
    seen = set()
    for room in [online_rank, *(importlib.import_module(f"online_rank.{name}") for name in ROOMS), clicks, synth]:
        for name in room.__all__:
            own = getattr(room, name)
            record = isinstance(own, type) and (dataclasses.is_dataclass(own) or issubclass(own, tuple | Exception))
            if callable(own) and not record and own not in seen and own.__module__.startswith("online_rank"):
                seen.add(own)
                yield own


def parameters(own):
    return [p for p in inspect.signature(own).parameters.values() if p.kind not in (p.VAR_POSITIONAL, p.VAR_KEYWORD)]


#: River's names, and what is data rather than an option.
DATA = {
    "w",
    "metrics",
    "block",
    "y",
    "x",
    "qid",
    "ids",
    "names",
    "base",
    "reference",
    "comparators",
    "features",
    "served",
    "documents",
}


def test_options_are_keyword_only():
    # The first argument may be an option, as in PerceptronRanker("ap") and NDCG(5).
    for own in callables():
        for p in parameters(own)[1:]:
            assert p.default is p.empty or p.kind is p.KEYWORD_ONLY or p.name in DATA, f"{own.__name__}({p.name}=)"


#: What each kind of option refuses.
BAD = {
    "int": (8.5, "x", math.nan, [1], True),
    "float": ("x", math.nan, (1.0,), True),
    "bool": (1, "x", None),
    "str": (8, "no such thing", True, ["x"]),
    "seed": (-1, 8.5, "x", True, None),
}
#: What opens files before it looks at anything else, and what needs torch; their rooms test them.
FILES = ("read_clicks", "parts", "learn_shard", "TorchRanker", "verify")
#: Rooms whose functions are called by other rooms, with what these have checked; and pictures.
INNER = ("base", "query", "plot", "checks", "intervals")
#: Text that users make up: names, columns, paths.
FREE = {"name", "query", "grade", "document", "event_time", "position", "click", "propensity", "store", "text", "token", "key",
        "origin", "directory", "statement", "command", "to", "bound", "comparator", "progress", "vector", "by",
        "shown_on"}  # fmt: skip


def kind_of(own, p):
    """The kind of an option, by its annotation; None for what is neither a number, nor a flag, nor one of some words."""
    annotation = p.annotation if isinstance(p.annotation, str) else inspect.formatannotation(p.annotation)
    kinds = set(annotation.split(" | ")) - {"None"}
    if p.name == "seed":
        return "seed"
    if kinds == {"float", "bool"}:
        return "float"
    if len(kinds) != 1 or not kinds <= set(BAD) or (kinds <= {"str", "bool"} and p.name in FREE):
        return None
    kind = kinds.pop()
    if own is online_rank.batch_weights:
        return kind
    # Bounds are proved for integers, and computed for any number.
    return "float" if kind == "int" and own.__module__.startswith("online_rank.bounds.") and inspect.isfunction(own) else kind


def bad_options():
    """Callables, their options, and what each of these refuses."""
    for own in callables():
        if inspect.isabstract(own) or own.__name__ in FILES or own.__module__.split(".")[1] in INNER:
            continue
        for p in parameters(own):
            text = inspect.formatannotation(p.annotation)
            bad = BAD.get(kind_of(own, p), ())
            allowed = {True: "bool" in text, None: "None" in text}
            if refused := [value for value in bad if not (isinstance(value, bool | None) and allowed.get(value))]:
                yield pytest.param(own, p.name, refused, id=f"{own.__name__}({p.name})")


@pytest.mark.parametrize(("own", "name", "refused"), list(bad_options()))
def test_options_are_checked_when_they_are_given(own, name, refused):
    given = {p.name: GIVEN.get((own.__name__, p.name), GIVEN.get(p.name, 1.0)) for p in parameters(own) if p.default is p.empty}
    for value in refused:
        with pytest.raises((ValueError, TypeError), match=rf"\b{'metric|' * (name == 'measure')}{name}\b"):
            own(*EXTRA.get(own.__name__, ()), **{**given, name: value})
