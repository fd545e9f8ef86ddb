"""Objects as a JSON tree and a list of arrays, and back: what `persistence` writes to files.

An object of a class listed here becomes its constructor's parameters and the rest of its `__dict__`; it comes back by calling
the constructor with these parameters and putting the state into place, after every value was checked against what the
constructor made. Nothing else is ever called, so a file cannot make the library do anything but build these objects.
"""

import collections
import importlib
import inspect
import json
import math
import random
import sys
from collections.abc import Hashable
from typing import Any

import numpy as np
from river import base, drift, utils

from online_rank.base import QueryEstimator
from online_rank.query import MAX_FEATURES

__all__ = ["StateError", "adopt", "pack", "settings_of", "unpack"]

#: Our classes that may stand in a file, and the module that each is imported from. Files know them by their bare names, so a
#: class may move to another module without making old files unreadable.
OURS = {
    "BestRanker": "online_rank.selection",
    "DirectRanker": "online_rank.direct",
    "DriftAwareRanker": "online_rank.drift",
    "ERR": "online_rank.metrics",
    "ForEachDocument": "online_rank.preprocessing",
    "GradientRanker": "online_rank.gradient",
    "LetorPosition": "online_rank.stream.letor",
    "LinearNDCG": "online_rank.metrics",
    "LossTracker": "online_rank.bounds",
    "MAP": "online_rank.metrics",
    "MRR": "online_rank.metrics",
    "Measure": "online_rank.measures",
    "NDCG": "online_rank.metrics",
    "PairwiseAccuracy": "online_rank.metrics",
    "PendingQueries": "online_rank.stream.delay",
    "PerceptronRanker": "online_rank.perceptron",
    "PrecisionAtK": "online_rank.metrics",
    "QueryNormalizer": "online_rank.preprocessing",
    "RankingPipeline": "online_rank.compose",
    "RankingService": "online_rank.stream.protocol",
    "Round": "online_rank.base",
    "SignedLog": "online_rank.preprocessing",
    "StreamGaussianizer": "online_rank.preprocessing",
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

_CLASSES = {**OURS, **RIVER}
_MAX_DEPTH = 64

#: Attributes that follow from the parameters, so that they are made anew and neither saved nor taken from a file: what our
#: kernels take as their configuration, a tracker's comparators in the order of the columns, the plan of river's Pipeline.
_REBUILT = {
    *("_config", "_constants", "_surrogate", "_averages", "_widths", "_aligned"),
    *("_plan", "_inference_transformers", "_last_step_cached", "_last_step_params"),
}

_MISSING = object()


class StateError(ValueError):
    """A tree does not describe an object that can be restored."""


def pack(value: Any) -> tuple[Any, list[np.ndarray]]:
    """A JSON tree for `value`, and the arrays that the tree refers to by number.

    Raises
    ------
    TypeError
        Something inside `value` is of a type that is not saved; the message says where.
    """
    arrays: list[np.ndarray] = []
    seen: set[int] = set()

    def encode(value: Any, where: str, depth: int) -> Any:
        if depth > _MAX_DEPTH:
            raise TypeError(f"cannot save {where[:80]}...: nested deeper than {_MAX_DEPTH} levels, or containing itself")
        kind = type(value)
        if value is None or kind in (bool, int, str):
            return value
        if kind is float:
            return value if math.isfinite(value) else {"float": repr(value)}
        if kind is list:
            return [encode(item, f"{where}[{i}]", depth + 1) for i, item in enumerate(value)]
        if kind is np.ndarray:
            if value.dtype.kind not in "biuf":
                raise TypeError(f"cannot save {where}: an array of dtype {value.dtype}; arrays of numbers are saved")
            arrays.append(value)
            return {"array": len(arrays) - 1}
        if isinstance(value, np.generic) and value.dtype.kind in "biuf":
            return {"scalar": [value.dtype.str, value.tobytes().hex()]}
        if kind is tuple:
            return {"tuple": [encode(item, f"{where}[{i}]", depth + 1) for i, item in enumerate(value)]}
        if kind in (dict, collections.OrderedDict, collections.Counter, collections.defaultdict):
            return {
                "dict": [
                    [encode(key, f"a key of {where}", depth + 1), encode(item, f"{where}[{key!r}]", depth + 1)]
                    for key, item in value.items()
                ]
            }
        if kind in (set, frozenset):
            return {kind.__name__: sorted((encode(item, where, depth + 1) for item in value), key=json.dumps)}
        if kind is collections.deque:
            items = [encode(item, f"{where}[{i}]", depth + 1) for i, item in enumerate(value)]
            return {"deque": items, "maxlen": value.maxlen}
        if kind is random.Random:
            return {"random": encode(value.getstate(), where, depth + 1)}
        if kind is np.random.Generator and type(value.bit_generator) is np.random.PCG64:
            return {"generator": encode(value.bit_generator.state, where, depth + 1)}
        if kind.__module__ == "river._river_rust.drift" and kind.__name__ == "AdaptiveWindowing":
            return {"adwin": value.__getstate__().hex()}
        name = _name_of(kind)
        if name is None:
            raise TypeError(
                f"cannot save {where}: it is of type {kind.__module__}.{kind.__qualname__}. Saved are numbers, strings, "
                "containers, numeric arrays, the public classes of online_rank (but adapters around any river model or "
                "function) and the transformers of river that online_rank.persistence lists. Python's pickle keeps the rest, "
                "for the same versions of all libraries; load only pickles that you trust"
            )
        if issubclass(kind, tuple):
            return {"class": name, "items": [encode(item, f"{where}.{field}", depth + 1) for field, item in _fields(value)]}
        if id(value) in seen:
            raise TypeError(f"cannot save {where}: the same {name} also stands elsewhere in what is saved")
        seen.add(id(value))
        parameters, state = _split(value)
        return {
            "class": name,
            "parameters": {key: encode(item, f"{where}.{key}", depth + 1) for key, item in parameters.items()},
            "state": {key: encode(item, f"{where}.{key}", depth + 1) for key, item in state.items()},
        }

    return encode(value, "model" if _name_of(type(value)) else "value", 0), arrays


def unpack(tree: Any, arrays: list[np.ndarray]) -> Any:
    """The value that `pack` made `tree` and `arrays` of. Raises StateError when they do not fit together."""
    budget = max(MAX_FEATURES, sum(array.nbytes for array in arrays))
    unused = dict(enumerate(arrays))

    def decode(node: Any, where: str, depth: int) -> Any:
        if depth > _MAX_DEPTH:
            raise StateError(f"it is nested deeper than {_MAX_DEPTH} levels")
        if node is None or type(node) in (bool, int, float, str):
            return node
        if type(node) is list:
            return [decode(item, f"{where}[{i}]", depth + 1) for i, item in enumerate(node)]
        if "class" in node:
            return decode_object(node, where, depth)
        tag, body = next(iter(node.items()), (None, None))
        if tag == "float" and body in ("inf", "-inf", "nan"):
            return float(body)
        if tag == "array" and type(body) is int and body in unused:
            return unused.pop(body)
        if tag == "scalar" and type(body) is list and len(body) == 2 and all(type(part) is str for part in body):
            return _scalar(body[0], body[1], where)
        if tag in ("tuple", "set", "frozenset", "deque") and type(body) is list:
            items = [decode(item, f"{where}[{i}]", depth + 1) for i, item in enumerate(body)]
            if tag == "deque":
                maxlen = node.get("maxlen")
                if maxlen is not None and (type(maxlen) is not int or not len(items) <= maxlen <= sys.maxsize):
                    raise StateError(f"{where} has no valid maximum length")
                return collections.deque(items, maxlen)
            try:
                return {"tuple": tuple, "set": set, "frozenset": frozenset}[tag](items)
            except TypeError as error:
                raise StateError(f"{where}: {error}") from None
        if tag == "dict" and type(body) is list and all(type(pair) is list and len(pair) == 2 for pair in body):
            items = [(decode(key, f"a key of {where}", depth + 1), decode(item, where, depth + 1)) for key, item in body]
            if not all(isinstance(key, Hashable) for key, _ in items):
                raise StateError(f"{where} has a key that cannot be one")
            return dict(items)
        if tag == "adwin" and type(body) is str:
            return _adwin(body, where)
        if tag in ("random", "generator"):
            return _random(tag, decode(body, where, depth + 1), where)
        raise StateError(f"{where} is not understood ({json.dumps(node)[:60]})")

    def decode_object(node: dict, where: str, depth: int) -> Any:
        cls = _class_of(node["class"], where)
        if issubclass(cls, tuple):
            items = node.get("items")
            if type(items) is not list or len(items) != len(cls._fields):  # type: ignore[attr-defined]
                raise StateError(f"{where}: a {cls.__name__} has other fields")
            return cls(*(decode(item, where, depth + 1) for item in items))
        parts = {}
        for part in ("parameters", "state"):
            if type(node.get(part)) is not dict:
                raise StateError(f"{where} has no {part}")
            parts[part] = {key: decode(item, f"{where}.{key}", depth + 1) for key, item in node[part].items()}
        return _restore(cls, parts["parameters"], parts["state"], where, budget)

    try:
        value = decode(tree, "the model" if isinstance(tree, dict) and "class" in tree else "the value", 0)
    except RecursionError:
        raise StateError("it is nested too deeply") from None
    if unused:
        raise StateError("it has arrays that nothing refers to")
    return value


def settings_of(value: Any) -> Any:
    """The tree of `pack` without any state: which classes with which parameters an object is made of."""

    def without_state(node: Any) -> Any:
        if isinstance(node, dict):
            return {key: without_state(item) for key, item in node.items() if key != "state"}
        return [without_state(item) for item in node] if isinstance(node, list) else node

    return without_state(pack(value)[0])


def adopt(target: Any, source: Any) -> None:
    """Give `target` the state of `source`, an object with the same settings; the steps of a pipeline stay the same objects."""
    if hasattr(target, "steps"):
        for name, step in target.steps.items():
            adopt(step, source.steps[name])
    else:
        vars(target).clear()
        vars(target).update(vars(source))


def _name_of(cls: type) -> str | None:
    """The name by which files know a class; None for a class that is not listed."""
    for name, module in _CLASSES.items():
        if name.rpartition(".")[2] == cls.__name__ and getattr(sys.modules.get(module), cls.__name__, None) is cls:
            return name
    return None


def _class_of(name: Any, where: str) -> type:
    if type(name) is not str or name not in _CLASSES:
        raise StateError(f"{where} is of class {str(name)[:80]!r}, which this version of online_rank does not restore")
    return getattr(importlib.import_module(_CLASSES[name]), name.rpartition(".")[2])


def _fields(value: Any) -> list[tuple[str, Any]]:
    return list(zip(value._fields, value, strict=True))


def _parameter_names(cls: type) -> tuple[list[str], str | None]:
    """Names of the constructor's parameters, and of the one that takes all positional arguments."""
    parameters = list(inspect.signature(cls).parameters.values())
    variadic = next((p.name for p in parameters if p.kind is p.VAR_POSITIONAL), None)
    return [p.name for p in parameters if p.kind in (p.POSITIONAL_OR_KEYWORD, p.KEYWORD_ONLY)], variadic


def _split(value: Any) -> tuple[dict[str, Any], dict[str, Any]]:
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


def _restore(cls: type, parameters: dict[str, Any], state: dict[str, Any], where: str, budget: int) -> Any:
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


def _scalar(dtype: str, content: str, where: str) -> Any:
    try:
        return np.frombuffer(bytes.fromhex(content), _numeric(dtype))[0]
    except (ValueError, TypeError, IndexError):
        raise StateError(f"{where} is not a number") from None


def _numeric(name: str) -> np.dtype:
    """The dtype of that name, if it is a dtype of numbers."""
    dtype = np.dtype(name)
    if dtype.kind not in "biuf":
        raise ValueError(f"dtype {name!r} is not a dtype of numbers")
    return dtype


def _adwin(content: str, where: str) -> Any:
    """The window of `river.drift.ADWIN`, whose state is bytes that only river understands.

    Bytes of a file that was tampered with may be refused at once, or make a window that fails when it is used: by a panic of
    Rust, which is a BaseException. So a copy of the window is used for a while.
    """
    try:
        state = bytes.fromhex(content)
        window, probe = (drift.ADWIN()._helper for _ in range(2))
        window.__setstate__(state)
        probe.__setstate__(state)
        for i in range(300):
            probe.update(float(i % 2))
    except (KeyboardInterrupt, SystemExit):
        raise
    except BaseException as error:
        raise StateError(f"{where} is not the state of an ADWIN window: {error}") from None
    return window


def _random(tag: str, state: Any, where: str) -> Any:
    """A random number generator in a given state."""
    try:
        if tag == "random":
            plain = random.Random(0)
            plain.setstate(state)
            return plain
        generator = np.random.default_rng(0)
        generator.bit_generator.state = state
        return generator
    except (TypeError, ValueError, LookupError, OverflowError) as error:
        raise StateError(f"{where} is not the state of a random number generator: {error}") from None
