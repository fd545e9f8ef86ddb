"""One API: options are named and keyword-only, and each is checked when it is given."""

import dataclasses
import importlib
import inspect
import math

import numpy as np
import pytest
from river import preprocessing

import online_rank
from online_rank import LossTracker, PerceptronRanker
from online_rank._registry import ROOMS
from online_rank.feedback import PositionBias
from online_rank.stream import clicks, synth

TRACKER = LossTracker(PerceptronRanker(), {"u": np.ones(2)})
TRACKER.learn_one(np.eye(2), [0, 1])


class Untouched:
    """Stands for an argument without a default that is none of the options: the checks come before it is used."""


#: What stands for arguments without a default.
GIVEN = {
    "model": PerceptronRanker(),
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
}


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


@pytest.mark.parametrize("own", list(callables()), ids=lambda own: own.__name__)
def test_options_are_keyword_only(own):
    # The first argument may be an option, as in PerceptronRanker("ap") and NDCG(5).
    for p in parameters(own)[1:]:
        assert p.default is p.empty or p.kind is p.KEYWORD_ONLY or p.name in DATA, f"{own.__name__}({p.name}=)"


#: What each kind of option refuses. Kinds are read from annotations.
BAD = {
    "int": (8.5, "x", math.nan, [1], True),
    "float": ("x", math.nan, math.inf, [1.0], True),
    "bool": (1, "x", None),
    "str": (8, "no such thing", True, ["x"]),
    "seed": (-1, 8.5, "x", True, None),
}
#: Strings that are no choices: names and paths that users make up.
FREE = {"name", "query", "grade", "document", "event_time", "position", "click", "propensity", "path", "store", "text", "label",
        "unit", "ours", "measured", "x_label", "token", "key", "origin", "directory", "checkpoint", "comparator"}  # fmt: skip
#: Kinds that may also be something else of the kinds above.
ALSO = {
    "learning_rate": {"x"},
}


def kind_of(p):
    if p.name == "seed":
        return "seed"
    kinds = set(
        str(p.annotation if isinstance(p.annotation, str) else getattr(p.annotation, "__name__", p.annotation)).split(" | ")
    )
    kinds = set(str(inspect.formatannotation(p.annotation)).replace("'", "").split(" | ")) - {"None"}
    if kinds == {"float", "bool"} or kinds == {"bool", "float"}:
        return "float"
    return next(iter(kinds)) if len(kinds) == 1 and kinds <= set(BAD) else None


def bad_values():
    for own in callables():
        every = parameters(own)
        for p in every:
            kind = kind_of(p)
            if kind is None or (kind == "str" and p.name in FREE):
                continue
            for value in BAD[kind]:
                if value is True and "bool" in inspect.formatannotation(p.annotation):
                    continue
                if value is None and kind == "seed" and "None" in inspect.formatannotation(p.annotation):
                    continue
                yield pytest.param(own, p.name, value, id=f"{own.__name__}({p.name}={value!r:.20})")


@pytest.mark.parametrize(("own", "name", "value"), bad_values())
def test_options_are_checked_when_they_are_given(own, name, value):
    arguments = {p.name: GIVEN.get(p.name, 1.0) for p in parameters(own) if p.default is p.empty}
    with pytest.raises((ValueError, TypeError), match=rf"\b{name}\b"):
        answer = own(**{**arguments, name: value})
        next(iter(answer))  # what is read or drawn step by step
