"""Models of XGBoost, read from the JSON that `booster.save_model("model.json")` writes."""

import json
import math
from typing import Any

import numpy as np

from online_rank._kernels.file_trees import RIGHT
from online_rank.rankers.boosters import Booster, TreeArrays, checked, least_above_single

#: Objectives whose base score is a score, and those for which it is a probability.
_PLAIN = ("rank:", "reg:squarederror", "reg:absoluteerror", "reg:pseudohubererror", "reg:quantileerror")
_LOGISTIC = ("binary:logistic", "binary:logitraw", "reg:logistic")
_TREE_LISTS = ("split_indices", "split_conditions", "default_left", "left_children", "right_children")


class _Place:
    """A value of the file, and its place there."""

    def __init__(self, value: Any, name: str) -> None:
        self.value = value
        self.name = name

    def __getitem__(self, key: str) -> "_Place":
        """The value at a key of an object. Raises ValueError if it is missing."""
        if not isinstance(self.value, dict) or key not in self.value:
            raise ValueError(f"{self.name} has no {key!r}")
        return _Place(self.value[key], f"{self.name}.{key}" if self.name != "the file" else key)

    def get(self, key: str, default: Any) -> "_Place":
        """The value at a key of an object, or a default."""
        return self[key] if isinstance(self.value, dict) and key in self.value else _Place(default, f"{self.name}.{key}")

    def items(self) -> list["_Place"]:
        """The entries of a list."""
        if not isinstance(self.value, list):
            raise ValueError(f"{self.name} should be a list, not a {type(self.value).__name__}")
        return [_Place(value, f"{self.name}[{k}]") for k, value in enumerate(self.value)]

    def number(self) -> float:
        """A finite number, which may be a text, or a list of one."""
        given = self.value
        if isinstance(given, str):
            given = given.strip().removeprefix("[").removesuffix("]")
        elif isinstance(given, list) and len(given) == 1:
            given = given[0]
        try:
            found = float(given) if not isinstance(given, bool) else math.nan
        except (TypeError, ValueError, OverflowError):
            found = math.nan
        if not math.isfinite(found):
            raise ValueError(f"{self.name} is {self.value!r:.60}; it should be a finite number")
        return found

    def integer(self) -> int:
        """An integer of 64 bits."""
        found = self.number()
        if found != math.floor(found) or abs(found) >= 2**53:
            raise ValueError(f"{self.name} is {self.value!r:.60}; it should be an integer")
        return int(found)

    def array(self, dtype: Any) -> np.ndarray:
        """A list of numbers, or of booleans."""
        if not isinstance(self.value, list) or not all(isinstance(one, int | float) for one in self.value):
            raise ValueError(f"{self.name} should be a list of numbers")
        try:
            return np.array(self.value, dtype=dtype)
        except (ValueError, OverflowError) as error:
            raise ValueError(f"{self.name}: {error}") from None


def read_xgboost(text: str) -> Booster:
    """The trees of an XGBoost model with one score a document; trees of dart count by their weights.

    Raises
    ------
    ValueError
        The text is no such model, or its trees split by categories, or are not all used; the message names the place.
    """
    try:
        learner = _Place(json.loads(text), "the file")["learner"]
    except RecursionError:
        raise ValueError("the file is nested too deeply") from None
    except json.JSONDecodeError as error:
        raise ValueError(f"line {error.lineno}, column {error.colno}: it is no JSON ({error.msg})") from None
    parameters = learner["learner_model_param"]
    for key, most in (("num_class", 1), ("num_target", 1)):
        if (n := parameters.get(key, 0)).integer() > most:
            raise ValueError(f"{n.name} is {n.value}; a ranker has one score for each document")
    trees, weights = _trees_of(learner["gradient_booster"])
    _require_all_used(learner, len(trees.value))
    n_features = _n_features(parameters["num_feature"], text)
    read = tuple(_tree(tree, n_features, weight) for tree, weight in zip(trees.items(), weights, strict=True))
    if not read:
        raise ValueError(f"{trees.name}: the model has no trees")
    names = _names(learner.get("feature_names", []), n_features)
    return Booster("XGBoost", names, n_features, read, _base(learner["objective"]["name"], parameters["base_score"]))


def _trees_of(booster: _Place) -> tuple[_Place, list[float]]:
    """The trees, and a weight of each."""
    kind = booster["name"]
    if kind.value not in ("gbtree", "dart"):
        raise ValueError(f"{kind.name} is {kind.value!r:.60}; gbtree and dart can be read")
    trees = (booster["gbtree"] if kind.value == "dart" else booster)["model"]["trees"]
    n = len(trees.items())
    if kind.value == "gbtree":
        return trees, [1.0] * n
    weights = [each.number() for each in booster["weight_drop"].items()]
    if len(weights) != n:
        raise ValueError(f"{booster.name}.weight_drop has {len(weights)} numbers for {n} trees")
    return trees, weights


def _require_all_used(learner: _Place, n_trees: int) -> None:
    """Raise ValueError if training was stopped early: by default a ranker of scikit-learn's kind then leaves out trees."""
    best = learner.get("attributes", {}).get("best_iteration", None)
    if best.value is None:
        return
    model = learner["gradient_booster"]
    model = (model["gbtree"] if model["name"].value == "dart" else model)["model"]
    rounds = n_trees // max(1, model["gbtree_model_param"].get("num_parallel_tree", 1).integer())
    if best.integer() + 1 < rounds:
        raise ValueError(
            f"{best.name} is {best.integer()}, but there are {rounds} rounds: XGBRanker.predict leaves out the later ones, "
            'Booster.predict does not. Write those that serve: booster[:n].save_model("model.json"), and set the attribute '
            "best_iteration to None to keep all"
        )


def _n_features(given: _Place, text: str) -> int:
    n = given.integer()
    # A small file cannot ask for many columns.
    if not 0 < n <= len(text):
        raise ValueError(f"{given.name} is {n}, in a file of {len(text)} characters")
    return n


def _names(given: _Place, n_features: int) -> tuple[str, ...] | None:
    names = [each.value for each in given.items()]
    if not names:
        return None
    if len(names) != n_features or not all(isinstance(name, str) for name in names) or len({*names}) < len(names):
        raise ValueError(f"{given.name} should be {n_features} different texts")
    return tuple(names)


def _base(objective: _Place, score: _Place) -> float:
    """The base score as it is added to the sum of trees."""
    base = score.number()
    if str(objective.value).startswith(_PLAIN):
        return base
    if objective.value in _LOGISTIC and 0.0 < base < 1.0:
        return math.log(base / (1.0 - base))
    raise ValueError(
        f"{objective.name} is {objective.value!r:.60}, with a base score of {base:g}; it should be one of ranking, of squared "
        "errors, or logistic"
    )


def _tree(tree: _Place, n_features: int, weight: float) -> TreeArrays:
    columns, limits, default, left, right = (
        tree[key].array(np.float64 if key == "split_conditions" else np.int64) for key in _TREE_LISTS
    )
    kinds = tree.get("split_type", [0] * len(columns)).array(np.int64)
    n = len(columns)
    if not n or any(len(part) != n for part in (limits, default, left, right, kinds)):
        raise ValueError(f"{tree.name} has lists of different lengths, or empty ones")
    if tree.get("categories", []).items() or kinds.any():
        raise ValueError(
            f"{tree.name} splits by categories; only splits of numbers can be read: write levels as columns of 0 and 1"
        )
    if tree.get("tree_param", {}).get("size_leaf_vector", 1).integer() > 1:
        raise ValueError(f"{tree.name} has several values in a leaf; a ranker has one score for each document")
    inner = left != -1
    for k in np.flatnonzero(inner & (columns < 0))[:1].tolist():
        raise ValueError(f"{tree.name}, node {k}: it splits by feature {columns[k]}")
    for k in np.flatnonzero(~np.isfinite(limits) | (np.abs(limits) > np.finfo(np.float32).max))[:1].tolist():
        raise ValueError(f"{tree.name}, node {k}: {limits[k]} is not a finite number of single precision")
    missing = np.where(default != 0, 0, RIGHT).astype(np.uint8)
    arrays = TreeArrays(
        np.where(inner, columns, -1), least_above_single(limits), missing, left, right, weight * limits.astype(np.float32)
    )
    return checked(arrays, n_features, lambda k: f"{tree.name}, node {k}")
