"""Objects as the parameters of their constructor and the rest of their state, and back.

An object of a class listed here comes back by calling the constructor with its parameters and putting the state into place,
after every value was checked against what the constructor made. Nothing else is ever called, so a file cannot make the library
do anything but build these objects.
"""

import collections
import importlib
import inspect
import sys
from typing import Any

import numpy as np
from river import base, utils

from online_rank.base import QueryEstimator

__all__ = ["CLASSES", "StateError", "class_of", "name_of", "restore", "split"]

#: Our classes that may stand in a file, and the module that each is imported from. Files know them by their bare names, so a
#: class may move to another module without making old files unreadable.
OURS = {
    "BestRanker": "online_rank.rankers.selection",
    "BlendRanker": "online_rank.rankers.blend",
    "BoostedRanker": "online_rank.rankers.boosted",
    "DirectRanker": "online_rank.rankers.direct",
    "DriftAwareRanker": "online_rank.rankers.drift",
    "ERR": "online_rank.metrics",
    "ForEachDocument": "online_rank.preprocessing",
    "GradientRanker": "online_rank.rankers.gradient",
    "LetorPosition": "online_rank.stream.letor",
    "LinearNDCG": "online_rank.metrics",
    "LossTracker": "online_rank.bounds",
    "MAP": "online_rank.metrics",
    "MRR": "online_rank.metrics",
    "Measure": "online_rank.measures",
    "NDCG": "online_rank.metrics",
    "PairwiseAccuracy": "online_rank.metrics",
    "PendingQueries": "online_rank.serving.pending",
    "PerceptronRanker": "online_rank.rankers.perceptron",
    "PrecisionAtK": "online_rank.metrics",
    "QueryNormalizer": "online_rank.preprocessing",
    "Ramps": "online_rank.preprocessing",
    "RankingPipeline": "online_rank.base.pipeline",
    "RankingService": "online_rank.serving.protocol",
    "RidgeRanker": "online_rank.rankers.ridge",
    "Round": "online_rank.base",
    "SignedLog": "online_rank.preprocessing",
    "StreamGaussianizer": "online_rank.preprocessing",
    "StreamQuantileMap": "online_rank.preprocessing",
    "StreamTargetEncoder": "online_rank.preprocessing",
    "StreamScaler": "online_rank.preprocessing",
    "Trace": "online_rank.evaluate",
}

#: Classes of river that are restored the same way: their whole state is plain numbers and containers.
RIVER = {
    "river.compose.Discard": "river.compose",
    "river.compose.Pipeline": "river.compose",
    "river.compose.Prefixer": "river.compose",
    "river.compose.Renamer": "river.compose",
    "river.compose.Select": "river.compose",
    "river.compose.Suffixer": "river.compose",
    "river.compose.TransformerUnion": "river.compose",
    "river.drift.ADWIN": "river.drift",
    "river.drift.KSWIN": "river.drift",
    "river.drift.NoDrift": "river.drift",
    "river.feature_extraction.PolynomialExtender": "river.feature_extraction",
    "river.preprocessing.FeatureHasher": "river.preprocessing",
    "river.preprocessing.MaxAbsScaler": "river.preprocessing",
    "river.preprocessing.MinMaxScaler": "river.preprocessing",
    "river.preprocessing.Normalizer": "river.preprocessing",
    "river.preprocessing.StandardScaler": "river.preprocessing",
    "river.stats.AbsMax": "river.stats",
    "river.stats.Max": "river.stats",
    "river.stats.Min": "river.stats",
    "river.utils.Rolling": "river.utils",
}

CLASSES = {**OURS, **RIVER}

#: Attributes that follow from the parameters, so that they are made anew and neither saved nor taken from a file: what our
#: kernels take as their configuration, a tracker's comparators in the order of the columns, the plan of river's Pipeline.
_REBUILT = {
    *("_config", "_constants", "_surrogate", "_averages", "_widths", "_aligned", "_candidates", "_keep", "_ramps"),
    *("_plan", "_inference_transformers", "_last_step_cached", "_last_step_params"),
}

_MISSING = object()


class StateError(ValueError):
    """A tree does not describe an object that can be restored."""


def name_of(cls: type) -> str | None:
    """The name by which files know a class; None for a class that is not listed."""
    for name, module in CLASSES.items():
        if name.rpartition(".")[2] == cls.__name__ and getattr(sys.modules.get(module), cls.__name__, None) is cls:
            return name
    return None


def class_of(name: Any, where: str) -> type:
    """The class that files know by `name`. Raises StateError for one that is not listed."""
    if type(name) is not str or name not in CLASSES:
        raise StateError(f"{where} is of class {str(name)[:80]!r}, which this version of online_rank does not restore")
    return getattr(importlib.import_module(CLASSES[name]), name.rpartition(".")[2])


def _parameter_names(cls: type) -> tuple[list[str], str | None]:
    """Names of the constructor's parameters, and of the one that takes all positional arguments."""
    parameters = list(inspect.signature(cls).parameters.values())
    variadic = next((p.name for p in parameters if p.kind is p.VAR_POSITIONAL), None)
    return [p.name for p in parameters if p.kind in (p.POSITIONAL_OR_KEYWORD, p.KEYWORD_ONLY)], variadic


def split(value: Any) -> tuple[dict[str, Any], dict[str, Any]]:
    """The constructor's parameters of an object, and the rest of its state."""
    if isinstance(value, utils.Rolling):
        return {"window_size": value.window_size}, {"obj": value.obj, "window": value.window}
    names, variadic = _parameter_names(type(value))
    state = {key: item for key, item in vars(value).items() if key not in names and key not in _REBUILT}
    parameters = {name: vars(value)[name] for name in names}
    if variadic is not None:
        items = state.pop(variadic)
        parameters[variadic] = list(items.items()) if isinstance(items, dict) else sorted(items, key=repr)
    return parameters, state


def restore(cls: type, parameters: dict[str, Any], state: dict[str, Any], where: str, budget: int) -> Any:
    """A new object of `cls`; its state must fit what the constructor makes of its parameters."""
    if cls is utils.Rolling:
        return _restore_rolling(parameters, state, where)
    names, variadic = _parameter_names(cls)
    if not set(parameters) <= {*names, variadic}:
        raise StateError(f"{where}: a {cls.__name__} has no parameter {sorted(set(parameters) - {*names, variadic})[0]!r}")
    positional = parameters.pop(variadic, []) if variadic is not None else []
    # A constructor may want parts that have learned nothing; those that have come into place afterwards.
    parts = {key: value for key, value in parameters.items() if isinstance(value, base.Estimator)}
    try:
        made = cls(*positional, **{**parameters, **{key: part.clone() for key, part in parts.items()}})
        vars(made).update(parts)
        if isinstance(made, QueryEstimator):
            _extend(made, state, where, budget)
    except (TypeError, ValueError, ArithmeticError, AttributeError, LookupError, MemoryError) as error:
        if isinstance(error, StateError):
            raise
        raise StateError(f"{where}: {cls.__name__} does not accept its parameters: {error}") from None
    for key, part in parts.items():
        if isinstance(made, QueryEstimator) and isinstance(part, QueryEstimator) and part.n_features != made.n_features:
            raise StateError(f"{where} has {made.n_features} features, but its {key} has {part.n_features}")
    for key, value in state.items():
        present = vars(made).get(key, getattr(cls, key, _MISSING))
        if present is _MISSING or key in _REBUILT or callable(present) or isinstance(present, property):
            raise StateError(f"{where}: a {cls.__name__} has no {key!r}")
        vars(made)[key] = _fitted(value, present, f"{where}.{key}")
    if hasattr(made, "_check_state"):  # of classes whose kernels take positions from the state
        try:
            made._check_state()
        except ValueError as error:
            raise StateError(f"{where}: {error}") from None
    return made


def _extend(made: QueryEstimator, state: dict[str, Any], where: str, budget: int) -> None:
    """Extend a new estimator to the features that its state was saved with."""
    names, n_features = state.get("_names"), state.get("_n_features", 0)
    if type(n_features) is not int or not 0 <= n_features <= budget:
        raise StateError(f"{where} has an impossible number of features")
    if names is not None and (type(names) is not tuple or len(names) != n_features or len(set(names)) != n_features):
        raise StateError(f"{where} does not have one name for each of its {n_features} features")
    if type(limit := state.get("max_features", 0)) is int and limit:
        made.max_features = limit
    if n_features:
        made._extend(names, n_features)


def _restore_rolling(parameters: dict[str, Any], state: dict[str, Any], where: str) -> Any:
    """A metric in a rolling window; river's constructor would make the metric itself."""
    size, inner, window = parameters.get("window_size"), state.get("obj"), state.get("window")
    calls = window if type(window) is collections.deque and window.maxlen == size and size else [None]
    if not all(type(call) is tuple and [type(part) for part in call] == [tuple, dict] for call in calls):
        raise StateError(f"{where} has no valid window")
    if not isinstance(inner, utils.rolling.Rollable):
        raise StateError(f"{where} rolls over something without update and revert")
    made = utils.Rolling.__new__(utils.Rolling)
    vars(made).update(obj=inner, _window_size=size, window=window)
    return made


def _fitted(value: Any, made: Any, where: str) -> Any:
    """`value`, if it can take the place of `made`, which the constructor made."""
    if isinstance(made, np.ndarray):
        if not isinstance(value, np.ndarray) or value.dtype != made.dtype or value.shape != made.shape:
            found = f"{value.dtype} {value.shape}" if isinstance(value, np.ndarray) else type(value).__name__
            raise StateError(f"{where} should be an array {made.dtype} {made.shape}, not {found}")
    elif isinstance(made, dict):
        if type(value) is not dict:
            raise StateError(f"{where} should be a dict, not {type(value).__name__}")
        made.clear()
        made.update(value)
        return made
    elif hasattr(made, "_fields"):
        if value != made:
            raise StateError(f"{where} should be {made}, not {value}")
    elif isinstance(made, list | tuple) and made:
        if type(value) is not type(made) or len(value) != len(made):
            raise StateError(f"{where} should be a {type(made).__name__} of {len(made)}")
        return type(made)(_fitted(v, m, f"{where}[{i}]") for i, (v, m) in enumerate(zip(value, made, strict=True)))
    elif made is not None and type(value) is not type(made) and not (_is_number(value) and _is_number(made)):
        raise StateError(f"{where} should be of type {type(made).__name__}, not {type(value).__name__}")
    elif type(value) is int and not -(2**63) <= value < 2**63:
        raise StateError(f"{where} is an integer of more than 64 bits")
    return value


def _is_number(value: Any) -> bool:
    return isinstance(value, int | float | np.integer | np.floating) and not isinstance(value, bool)
