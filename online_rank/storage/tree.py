"""Values as a JSON tree and a list of arrays, and back: what `persistence` writes to files."""

import collections
import json
import math
import random
import sys
from collections.abc import Hashable
from typing import Any

import numpy as np
from river import drift

from online_rank.base import Columns
from online_rank.query import MAX_FEATURES
from online_rank.storage.objects import StateError, class_of, name_of, restore, split

__all__ = ["adopt", "pack", "settings_of", "unpack"]

_MAX_DEPTH = 64


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
        if kind is Columns:
            return {"columns": [encode(name, f"a name of {where}", depth + 1) for name in value.names]}
        if kind is collections.deque:
            items = [encode(item, f"{where}[{i}]", depth + 1) for i, item in enumerate(value)]
            return {"deque": items, "maxlen": value.maxlen}
        if kind is random.Random:
            return {"random": encode(value.getstate(), where, depth + 1)}
        if kind is np.random.Generator and type(value.bit_generator) is np.random.PCG64:
            return {"generator": encode(value.bit_generator.state, where, depth + 1)}
        if kind.__module__ == "river._river_rust.drift" and kind.__name__ == "AdaptiveWindowing":
            return {"adwin": value.__getstate__().hex()}
        name = name_of(kind)
        if name is None:
            raise TypeError(
                f"cannot save {where}: it is of type {kind.__module__}.{kind.__qualname__}. Saved are numbers, strings, "
                "containers, numeric arrays, the public classes of online_rank (but adapters around any river model or "
                "function) and the transformers of river that online_rank.storage.files lists. Python's pickle keeps the rest, "
                "for the same versions of all libraries; load only pickles that you trust"
            )
        if issubclass(kind, tuple):
            return {"class": name, "items": [encode(item, f"{where}.{field}", depth + 1) for field, item in _fields(value)]}
        if id(value) in seen:
            raise TypeError(f"cannot save {where}: the same {name} also stands elsewhere in what is saved")
        seen.add(id(value))
        parameters, state = split(value)
        return {
            "class": name,
            "parameters": {key: encode(item, f"{where}.{key}", depth + 1) for key, item in parameters.items()},
            "state": {key: encode(item, f"{where}.{key}", depth + 1) for key, item in state.items()},
        }

    return encode(value, "model" if name_of(type(value)) else "value", 0), arrays


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
        if tag == "columns" and type(body) is list:
            names = [decode(name, f"a name of {where}", depth + 1) for name in body]
            if not all(isinstance(name, Hashable) for name in names) or len(set(names)) != len(names):
                raise StateError(f"{where} has names that are not all different")
            return Columns(names)
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
        cls = class_of(node["class"], where)
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
        return restore(cls, parts["parameters"], parts["state"], where, budget)

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


def _fields(value: Any) -> list[tuple[str, Any]]:
    return list(zip(value._fields, value, strict=True))


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
