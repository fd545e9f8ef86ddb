"""Converts values to a JSON tree, a pool of strings and a list of arrays, and back.

Long strings, and the strings of long lists, go to the pool, which is two arrays of the file. So a value takes a small multiple
of its size in the file, and a header that would take more is refused before it is parsed.
"""

import collections
import contextlib
import hashlib
import json
import math
import numbers
import sys
from collections.abc import Callable, Hashable, Iterator
from typing import Any

import numpy as np

from online_rank import extensions
from online_rank.base.anatomy import share_lock, steps_of
from online_rank.base.names import Columns
from online_rank.base.schema import StateError
from online_rank.base.step import QueryStep
from online_rank.limits import MAX_DEPTH, is_integer
from online_rank.storage.objects import Budget, check_settled, class_of, name_of, registered, restore, split
from online_rank.storage.river_classes import COMPILED, TYPES, compiled_name
from online_rank.storage.runs import MOST_BYTES, as_runs, of_runs

#: Bytes that objects may allocate in addition to twice the arrays of a file.
_SPARE_BYTES = 8 << 20

#: Strings longer than this, and lists with more strings than this, go to the pool.
_LONG = 32

_DICTS = (dict, collections.OrderedDict, collections.Counter, collections.defaultdict)
_SEQUENCES: dict[str, Callable[[list], Any]] = {"tuple": tuple, "set": set, "frozenset": frozenset}


class _Packer:
    """Encodes values; `settings_only` leaves out state, and replaces arrays by their digests; `checked` refuses values that do
    not match their declaration.
    """

    def __init__(self, settings_only: bool = False, held: contextlib.ExitStack | None = None, checked: bool = True) -> None:
        self._checked = checked
        # Holds the locks of the models being written; None for settings, which do not change.
        self._held = held
        self.arrays: list[np.ndarray] = []
        self.strings: list[str] = []
        self._settings_only = settings_only
        self._seen: set[int] = set()

    def encode(self, value: Any, where: str, depth: int) -> Any:
        """The JSON tree of a value. Raises TypeError for objects that cannot be saved."""
        if depth > MAX_DEPTH:
            raise TypeError(f"cannot save {where[:80]}...: nested deeper than {MAX_DEPTH} levels, or containing itself")
        kind = type(value)
        if value is None or kind in (bool, int):
            return value
        if kind is str:
            return value if len(value) <= _LONG or self._settings_only else {"text": self._pooled([value])}
        if kind is float:
            return value if math.isfinite(value) else {"float": repr(value)}
        if kind is list:
            return self._items(value, where, depth)
        if kind is np.ndarray:
            return self._array(value, where)
        if isinstance(value, np.generic) and value.dtype.kind in "biuf":
            return {"scalar": [value.dtype.str, value.tobytes().hex()]}
        if kind is tuple:
            return {"tuple": self._items(value, where, depth)}
        if kind in _DICTS:
            keys = self._items(list(value), f"the keys of {where}", depth)
            return {"dict": [keys, [self.encode(item, f"{where}[{key!r}]", depth + 1) for key, item in value.items()]]}
        if kind in (set, frozenset):
            plain = _Packer(settings_only=True)  # Sorted, because the pool must not depend on the order of a set.
            return {kind.__name__: sorted((plain.encode(item, where, depth + 1) for item in value), key=json.dumps)}
        if kind is Columns:
            return {"columns": self._items(list(value.names), where, depth)}
        if kind is collections.deque:
            return {"deque": self._items(value, where, depth), "maxlen": value.maxlen}
        if (compiled := compiled_name(value)) is not None:
            return {compiled: value.__getstate__().hex()}
        if (own := extensions.name_of(value)) is not None:
            return {"registered": own}
        if kind is type or value is numbers.Number:
            return {"type": _type_name(value, where)}
        return self._object(value, where, depth)

    def _items(self, values: Any, where: str, depth: int) -> Any:
        if len(values) > _LONG and not self._settings_only and all(type(item) is str for item in values):
            return {"texts": [self._pooled(values), len(values)]}
        return [self.encode(item, f"{where}[{i}]", depth + 1) for i, item in enumerate(values)]

    def _pooled(self, strings: Any) -> int:
        """The number in the pool of the first of `strings`."""
        first = len(self.strings)
        self.strings.extend(strings)
        return first

    def _array(self, value: np.ndarray, where: str) -> dict:
        if value.dtype.kind not in "biuf":
            raise TypeError(f"cannot save {where}: an array of dtype {value.dtype}; arrays of numbers are saved")
        if self._settings_only:
            content = np.ascontiguousarray(value).tobytes()
            return {"array": [value.dtype.str, list(value.shape), hashlib.sha256(content).hexdigest()]}
        runs = as_runs(value)
        self.arrays += [value] if runs is None else runs
        n = len(self.arrays)
        return {"array": n - 1} if runs is None else {"runs": [n - 2, list(value.shape)]}

    def _object(self, value: Any, where: str, depth: int) -> dict:
        kind = type(value)
        name = name_of(kind)
        if name is None:
            raise TypeError(
                f"cannot save {where}: it is of type {kind.__module__}.{kind.__qualname__}. Saved are numbers, strings, "
                "containers, numeric arrays, the public classes of online_rank (except adapters around any river model or "
                "function), classes and functions named by online_rank.register, and the transformers of river that "
                "online_rank.storage.files lists. Python's pickle keeps the rest, for the same versions of all libraries; load "
                "only pickles that you trust"
            )
        if issubclass(kind, tuple):
            return {"class": name, "items": self._items(tuple(value), where, depth)}
        if id(value) in self._seen:
            raise TypeError(f"cannot save {where}: the same {name} also occurs elsewhere in the model")
        self._seen.add(id(value))
        if self._held is not None and issubclass(type(value), QueryStep):
            self._held.enter_context(value._lock)
        settings, state = split(value, where)
        if self._checked:
            check_settled(value, settings, state, where)
        parts = {"parameters": settings} if self._settings_only else {"parameters": settings, "state": state}
        return {
            "class": name,
            **{
                part: {key: self.encode(item, f"{where}.{key}", depth + 1) for key, item in items.items()}
                for part, items in parts.items()
            },
        }


def pack(value: Any, held: contextlib.ExitStack, checked: bool = True) -> tuple[Any, list[np.ndarray], bool]:
    """A JSON tree for `value`, the arrays that it refers to by number, and whether the last two are the pool of strings.

    Unless `checked`, what does not match its declaration is found only when it is read.

    The locks of all models are `held` from here on, since the arrays are not copied.

    Raises
    ------
    TypeError
        Something inside `value` is of a type that cannot be saved, or does not match its declaration; the message says where.
    """
    packer = _Packer(held=held, checked=checked)
    tree = packer.encode(value, "model" if name_of(type(value)) else "value", 0)
    if not packer.strings:
        return tree, packer.arrays, False
    text = "".join(packer.strings).encode("utf-8", "surrogatepass")
    pool: list[np.ndarray] = [
        np.frombuffer(text, np.uint8),
        np.fromiter(map(len, packer.strings), np.int64, len(packer.strings)),
    ]
    return tree, packer.arrays + pool, True


class _Unpacker:
    """Decodes trees; every array and every string of the pool is used once."""

    def __init__(self, arrays: list[np.ndarray], strings: list[str]) -> None:
        self._budget = Budget(_SPARE_BYTES + sum(array.nbytes for array in arrays))
        self._strings = strings
        self._next = 0
        #: The bytes that arrays of runs may still take.
        self._left = MOST_BYTES
        self.unused = dict(enumerate(arrays))

    def decode(self, node: Any, where: str, depth: int) -> Any:
        """The value of a tree. Raises StateError."""
        if depth > MAX_DEPTH:
            raise StateError(f"it is nested deeper than {MAX_DEPTH} levels")
        if node is None or type(node) in (bool, int, float, str):
            return node
        if type(node) is list:
            return [self.decode(item, where, depth + 1) for item in node]
        if "class" in node:
            return self._object(node, where, depth)
        tag, body = next(iter(node.items()), (None, None))
        if tag == "float" and body in ("inf", "-inf", "nan"):
            return float(body)
        if tag == "array" and type(body) is int and body in self.unused:
            return self.unused.pop(body)
        if tag == "runs" and type(body) is list and len(body) == 2 and type(body[0]) is int:
            return self._of_runs(body[0], body[1], where)
        if tag == "text":
            return self._pooled(body, 1, where)[0]
        if tag == "texts" and type(body) is list and len(body) == 2:
            return self._pooled(body[0], body[1], where)
        if tag == "scalar" and type(body) is list and len(body) == 2 and all(type(part) is str for part in body):
            return _scalar(body[0], body[1], where)
        if tag == "columns":
            names = self._items(body, where, depth)
            if not all(isinstance(name, Hashable) for name in names) or len(set(names)) != len(names):
                raise StateError(f"{where} has names that cannot stand for columns, or two that are equal")
            return Columns(names)
        if tag in ("tuple", "set", "frozenset", "deque", "dict"):
            return self._container(tag, node, where, depth)
        if tag in COMPILED and type(body) is str:
            return _compiled(tag, body, where)
        if tag == "type" and type(body) is str and body in TYPES:
            return TYPES[body]
        if tag == "registered" and type(body) is str:
            return registered(body, where)
        raise StateError(f"{where} is not understood ({json.dumps(node)[:60]})")

    def _of_runs(self, first: int, shape: Any, where: str) -> np.ndarray:
        """An array of which two arrays of the file have the runs."""
        if first not in self.unused or first + 1 not in self.unused:
            raise StateError(f"{where} refers to arrays that the file does not have, or has used before")
        array = of_runs(self.unused.pop(first), self.unused.pop(first + 1), shape, self._left, where)
        self._left -= array.nbytes
        return array

    def _items(self, node: Any, where: str, depth: int) -> list[Any]:
        items = self.decode(node, where, depth + 1)
        if type(items) is not list:
            raise StateError(f"{where} is not understood: it is no list")
        return items

    def _pooled(self, first: Any, count: Any, where: str) -> list[str]:
        """Strings of the pool, each of which is referred to once, in order."""
        known = type(first) is int and type(count) is int and first == self._next
        if not known or not 0 < count <= len(self._strings) - first:
            raise StateError(f"{where} refers to strings that the file does not have, or has used before")
        self._next += count
        return self._strings[first : first + count]

    def check_all_used(self) -> None:
        """Raise StateError if part of the file was not referred to."""
        if self.unused or self._next != len(self._strings):
            raise StateError("it has arrays or strings that nothing refers to")

    def _container(self, tag: str, node: dict, where: str, depth: int) -> Any:
        body = node[tag]
        try:
            if tag == "dict":
                if type(body) is not list or len(body) != 2:
                    raise StateError(f"{where} is not understood: it is no dict")
                keys, values = (self._items(part, where, depth) for part in body)
                if len(keys) != len(values) or not all(isinstance(key, Hashable) for key in keys):
                    raise StateError(f"{where} has a key that cannot be one, or without a value")
                return dict(zip(keys, values, strict=True))
            items = self._items(body, where, depth)
            if tag != "deque":
                return _SEQUENCES[tag](items)
        except TypeError as error:
            raise StateError(f"{where}: {error}") from None
        maxlen = node.get("maxlen")
        if maxlen is not None and (type(maxlen) is not int or not len(items) <= maxlen <= sys.maxsize):
            raise StateError(f"{where} has no valid maximum length")
        return collections.deque(items, maxlen)

    def _object(self, node: dict, where: str, depth: int) -> Any:
        cls: Any = class_of(node["class"], where)
        if issubclass(cls, tuple):
            items = self._items(node.get("items", []), where, depth)
            if len(items) != len(cls._fields) or not all(type(item) is int and is_integer(item) for item in items):
                raise StateError(f"{where}: a {cls.__name__} has other fields")
            return cls(*items)
        parts = {}
        for part in ("parameters", "state"):
            if type(node.get(part)) is not dict:
                raise StateError(f"{where} has no {part}")
            parts[part] = {key: self.decode(item, f"{where}.{key}", depth + 1) for key, item in node[part].items()}
        return restore(cls, parts["parameters"], parts["state"], where, self._budget)


def strings_of(value: Any) -> Iterator[str]:
    """Every string that a file of a value would have: names of features, settings, keys of dicts.

    Raises TypeError for objects that cannot be saved.

    Examples
    --------
    >>> [*strings_of(({"user": 1}, "u17"))]
    ['user', 'u17']
    """
    with contextlib.ExitStack() as held:
        packer = _Packer(held=held)
        trees = [packer.encode(value, "model", 0)]
    while trees:
        tree = trees.pop()
        if isinstance(tree, str):
            yield tree
        elif isinstance(tree, list):
            trees += reversed(tree)
        elif isinstance(tree, dict):
            trees += [part for name, part in reversed(tree.items()) if name != "class"]
    yield from packer.strings


def unpack(tree: Any, arrays: list[np.ndarray], pooled: bool) -> Any:
    """The inverse of `pack`. Raises StateError if the parts do not fit together."""
    strings: list[str] = []
    if pooled:
        if len(arrays) < 2:
            raise StateError("it has no pool of strings")
        strings, arrays = _split_pool(*arrays[-2:]), arrays[:-2]
    unpacker = _Unpacker(arrays, strings)
    try:
        value = unpacker.decode(tree, "the model" if isinstance(tree, dict) and "class" in tree else "the value", 0)
    except RecursionError:
        raise StateError("it is nested too deeply") from None
    unpacker.check_all_used()
    return value


def settings_of(value: Any) -> Any:
    """A tree of `value` without state: the classes and parameters of an object."""
    return _Packer(settings_only=True).encode(value, "value", 0)


def adopt(target: Any, source: Any) -> None:
    """Copy the state of `source`, an object with the same settings, to `target`; the steps of a pipeline remain the same
    objects.
    """
    for own, other in zip(steps_of(target), steps_of(source), strict=True):
        vars(own).clear()
        vars(own).update(vars(other))
    share_lock(target)


def _split_pool(text: np.ndarray, lengths: np.ndarray) -> list[str]:
    """The strings of a pool: one text in UTF-8, and the length of each string in characters."""
    if (text.dtype, text.ndim, lengths.dtype, lengths.ndim) != (np.uint8, 1, np.int64, 1):
        raise StateError("its pool of strings has arrays of another kind")
    try:
        whole = text.tobytes().decode("utf-8", "surrogatepass")
    except UnicodeDecodeError:
        raise StateError("its pool of strings is not UTF-8") from None
    ends = np.cumsum(lengths, dtype=np.int64)
    within = not len(lengths) or (lengths.min() >= 0 and lengths.max() <= len(whole) and (ends >= 0).all())
    if not within or (ends[-1] if len(ends) else 0) != len(whole):
        raise StateError("its pool of strings has other lengths")
    starts = (ends - lengths).tolist()
    return [whole[start:end] for start, end in zip(starts, ends.tolist(), strict=True)]


def _scalar(dtype: str, content: str, where: str) -> Any:
    try:
        return np.frombuffer(bytes.fromhex(content), numeric(dtype))[0]
    except (ValueError, TypeError, IndexError):
        raise StateError(f"{where} is not a number") from None


def numeric(name: str) -> np.dtype:
    """The dtype of that name, if it is a dtype of numbers."""
    dtype = np.dtype(name[:8])
    if dtype.kind not in "biuf":
        raise ValueError(f"dtype {name!r} is not a dtype of numbers")
    return dtype


def _type_name(value: Any, where: str) -> str:
    for name, known in TYPES.items():
        if value is known:
            return name
    raise TypeError(f"cannot save {where}: it is the type {value.__qualname__}; saved are {', '.join(TYPES)}")


def _compiled(name: str, content: str, where: str) -> Any:
    """A part that river implements in Rust, whose state is bytes that only river understands.

    Bytes from a file that was tampered with may be refused at once, or make a part that fails in use, by a panic of Rust, which
    is a BaseException. So a copy is tried out first.
    """
    try:
        state = bytes.fromhex(content)
        part, probe = (COMPILED[name][1]() for _ in range(2))
        if len(state) != len(part.__getstate__()):
            raise ValueError("it has another size")
        part.__setstate__(state)
        probe.__setstate__(state)
        for i in range(300):
            probe.update(float(i % 2))
        if not math.isfinite(probe.get()):
            raise ValueError("its value is not finite")
    except (KeyboardInterrupt, SystemExit):
        raise
    except BaseException as error:
        raise StateError(f"{where} is not the state of {name}: {error}") from None
    return part
