"""The state of a class, declared in its body.

Storage and tests use this declaration and never name private attributes. Every attribute of an instance is one of three things:

- a setting: an argument of the constructor, stored under its name. It needs no declaration, but a type annotation;
- state: learned from data. It is saved, and read back only if it matches its field;
- derived: recomputed from settings and state. It is neither saved nor read.

How to declare a new class
--------------------------
1. Write `_schema = Schema(attribute=field, ...)` in the class body. It adds to the schema of the base classes: declare only
   what the class itself sets.
   `_schema = None` says that a class and its subclasses cannot be saved, for example because they hold arbitrary objects.
2. Add the class to the registry, `online_rank.support.registry`.
3. Run `tests/storage/test_schemas.py`. It trains an instance of every listed class, and fails when an attribute is
   undeclared, a declared one is missing, or a value does not match its field.

>>> from online_rank.base.schema import Array, Count, Derived, Schema, schema_of
>>> class Scaler:
...     _schema = Schema(
...         _n_features=Count(),
...         _mean=Array("d"),             # finite float64 (d,), d = _n_features
...         _m2=Array("d", low=0.0),      # the same, with no entry below 0
...         _config=Derived(),            # the constructor makes it
...     )
>>> list(schema_of(Scaler))
['_n_features', '_mean', '_m2', '_config']

Sizes of an `Array` are numbers, `"d"`, names of other attributes (`Array("d", "n_centroids")`) or functions of the object
(`Array(lambda ranker: len(ranker._candidates))`). What has d entries only in some objects is
`Array(FeaturesWhere(lambda ranker: ranker._averages))`: features that leave take their entries with them. Declare an attribute
before the fields whose sizes need it. Two optional methods of the class cover what fields cannot express. Storage calls them in
this order once the state is set:

- `_check_state()` raises ValueError when fields contradict one another, for example when an index points outside an array;
- `_derive()` makes the derived attributes that depend on state. Give such an array its shape, `Derived("n_rows", "d")`, so
  that a small file cannot ask for a large array.

Kernels do not check bounds. Anything that a kernel uses as an index or a length must be limited by `low` and `high` or by
`_check_state`, and loops that end by arithmetic on the state need finite numbers (the default of `Array`). Constructors must
not allocate memory in proportion to a setting, and must refuse settings for which no machine has enough memory.
"""

import functools
import math
import sys
from collections.abc import Callable, Hashable, Mapping
from types import SimpleNamespace
from typing import Any

import numpy as np

from online_rank.limits import INT64_HIGH, INT64_LOW, MAX_COUNT, is_integer, is_name

__all__ = [
    "Array",
    "Count",
    "Derived",
    "DictOf",
    "Field",
    "Flag",
    "Integer",
    "ListOf",
    "Names",
    "Nested",
    "Plain",
    "Real",
    "Schema",
    "StateError",
    "Text",
    "TupleOf",
    "declared_state",
]

#: A size: a number, "d", the name of an attribute, a function of the object, or None for any.
Size = int | str | Callable[[Any], int] | None


class StateError(ValueError):
    """State does not match its declaration; the message says where and how."""


class Field:
    """The values that one attribute may have."""

    #: Whether None may stand in its place.
    optional = False

    #: The size of each dimension, of an array, and whether the first one may be larger.
    shape: tuple[Size, ...] = ()
    spare = False

    def __init__(self, *, optional: bool = False) -> None:
        self.optional = optional or self.optional

    def check(self, value: Any, where: str, owner: Any) -> None:
        """Raise StateError unless `value`, an attribute of `owner` called `where` in messages, matches."""
        if value is None and self.optional:
            return
        self._check(value, where, owner)

    def trim(self, value: Any, owner: Any) -> Any:
        """The part of `value` to save: all of it, except the spare rows of arrays."""
        return value[: size_of(self.shape[0], owner)] if self.spare and value is not None else value

    def _check(self, value: Any, where: str, owner: Any) -> None:
        raise NotImplementedError


class Schema(dict[str, Field]):
    """The fields of a class, by the names of its attributes: `Schema(_count=Count(), _mean=Array("d"))`."""

    def __init__(self, **fields: Field) -> None:
        super().__init__(fields)


class FeaturesWhere:
    """A size: the number of features where a condition of the object holds, and 0 elsewhere."""

    def __init__(self, condition: Callable[[Any], bool]) -> None:
        self.condition = condition

    def __call__(self, owner: Any) -> int:
        """The size for an object."""
        return owner._n_features if self.condition(owner) else 0


class Array(Field):
    """An array of numbers.

    Parameters
    ----------
    *shape
        The size of each dimension; None for any.
    dtype
        Name of the dtype, or of the attribute that holds it.
    low, high
        Smallest and largest entry: numbers, or names of attributes. `low` may be a tuple, with one number for each entry of the
        last dimension.
    finite
        Whether NaN and infinity are refused.
    spare
        Whether the first dimension may be larger than declared in memory, as room to grow. Only the declared part is saved, and
        only that is loaded: kernels take the rows of several arrays to be the same.
    optional
        Whether None may stand in its place.
    """

    def __init__(
        self,
        *shape: Size,
        dtype: str = "float64",
        low: float | str | tuple[float, ...] = -math.inf,
        high: float | str = math.inf,
        finite: bool = True,
        spare: bool = False,
        optional: bool = False,
    ) -> None:
        self.shape = shape
        self.dtype = dtype
        self.low = low
        self.high = high
        self.finite = finite
        self.spare = spare
        self.optional = optional

    def feature_axes(self, owner: Any) -> list[int]:
        """The axes that are as long as there are features."""
        return [
            axis
            for axis, size in enumerate(self.shape)
            if size == "d" or (isinstance(size, FeaturesWhere) and size.condition(owner))
        ]

    def _check(self, value: Any, where: str, owner: Any) -> None:
        dtype = np.dtype(getattr(owner, self.dtype, self.dtype))
        shape = tuple(size_of(size, owner) for size in self.shape)
        of_kind = isinstance(value, np.ndarray) and value.dtype == dtype and value.ndim == len(shape)
        if not of_kind or any(size not in (None, found) for found, size in zip(value.shape, shape, strict=True)):
            found = f"{value.dtype} {value.shape}" if isinstance(value, np.ndarray) else type(value).__name__
            expected = ", ".join("any" if size is None else str(size) for size in shape) + ("," if len(shape) == 1 else "")
            raise StateError(f"{where} should be an array {dtype} ({expected}), not {found}")
        if not value.size:
            return
        if self.finite and dtype.kind == "f" and not np.isfinite(value).all():
            raise StateError(f"{where} has entries that are not finite")
        # Comparisons with NaN are False, so NaN passes if it is allowed.
        low, high = (np.asarray(getattr(owner, end) if isinstance(end, str) else end) for end in (self.low, self.high))
        # Integers are compared by the least and the largest of them, without an array of answers.
        small, large = (value.min(), value.max()) if dtype.kind in "iu" and not low.ndim else (value, value)
        if ((low > -math.inf).any() and (small < low).any()) or (high < math.inf and (large > high).any()):
            least = f"{low:g}" if not low.ndim else low.tolist()
            raise StateError(f"{where} has entries outside {least} to {high:g}")


class Derived(Field):
    """An attribute that is recomputed from settings and state, by the constructor or by `_derive()`.

    Parameters
    ----------
    *shape
        Its shape, if it is an array of 8-byte numbers made by `_derive()`: its memory is counted before it is allocated.
    """

    def __init__(self, *shape: Size) -> None:
        self.shape = shape

    def n_bytes(self, owner: Any) -> int:
        """The bytes that `_derive()` allocates for it."""
        return 8 * math.prod(size_of(size, owner) or 0 for size in self.shape) if self.shape else 0

    def _check(self, value: Any, where: str, owner: Any) -> None:
        pass


class Integer(Field):
    """An integer from `low` to `high`, of at most 64 bits."""

    def __init__(self, low: Size = INT64_LOW, high: Size = INT64_HIGH, *, optional: bool = False) -> None:
        self.low = low
        self.high = high
        self.optional = optional

    def _check(self, value: Any, where: str, owner: Any) -> None:
        low, high = size_of(self.low, owner), size_of(self.high, owner)
        if not is_integer(value, low, high):
            raise StateError(f"{where} should be an integer from {low} to {high}, not {_shown(value)}")


class Count(Integer):
    """How often something happened: an integer >= 0 that float64 holds exactly."""

    def __init__(self) -> None:
        super().__init__(0, MAX_COUNT)


class Real(Field):
    """A number from `low` to `high`; not NaN, and infinite only if `finite` is False."""

    def __init__(self, low: float = -math.inf, high: float = math.inf, *, finite: bool = True, optional: bool = False) -> None:
        self.low = low
        self.high = high
        self.finite = finite
        self.optional = optional

    def _check(self, value: Any, where: str, owner: Any) -> None:
        number = isinstance(value, int | float | np.integer | np.floating) and not isinstance(value, bool)
        if not (number and self.low <= value <= self.high and (abs(value) <= sys.float_info.max or not self.finite)):
            raise StateError(f"{where} should be a number from {self.low:g} to {self.high:g}, not {_shown(value)}")


class Flag(Field):
    """True or False."""

    def _check(self, value: Any, where: str, owner: Any) -> None:
        if not isinstance(value, bool):
            raise StateError(f"{where} should be True or False, not {_shown(value)}")


class Text(Field):
    """A string, one of `choices` if they are given."""

    def __init__(self, *choices: str, optional: bool = False) -> None:
        self.choices = choices
        self.optional = optional

    def _check(self, value: Any, where: str, owner: Any) -> None:
        if type(value) is not str or (self.choices and value not in self.choices):
            among = f" among {', '.join(map(repr, self.choices))}" if self.choices else ""
            raise StateError(f"{where} should be a string{among}, not {_shown(value)}")


class Plain(Field):
    """A key: None, a bool, a number, a string, or tuples of these. Integers have at most 64 bits."""

    optional = True

    def _check(self, value: Any, where: str, owner: Any) -> None:
        if not is_name(value):
            raise StateError(f"{where} should be a string or a number of at most 64 bits, not {_shown(value)}")


class Names(Field):
    """The `Columns` of d features, by name; or None where features are known by position."""

    optional = True

    def _check(self, value: Any, where: str, owner: Any) -> None:
        d = size_of("d", owner)
        if type(value).__name__ != "Columns" or len(value) != d:
            raise StateError(f"{where} should have one name for each of {d} features")
        for i, name in enumerate(value.names):
            if type(name) is not str:
                Plain().check(name, f"{where}[{i}]", owner)


class Nested(Field):
    """An object that has a declaration itself.

    Parameters
    ----------
    *classes
        The allowed classes, or their names, so that nothing has to be imported.
    features
        Whether it has the same features, by number and name, as the object around it. A pipeline has none itself.
    optional
        Whether None may stand in its place.
    """

    def __init__(self, *classes: type | str, features: bool = False, optional: bool = False) -> None:
        self.classes = classes
        self.features = features
        self.optional = optional

    def _check(self, value: Any, where: str, owner: Any) -> None:
        names = {cls if isinstance(cls, str) else cls.__name__ for cls in self.classes}
        # Not isinstance: river lets a pipeline pass for its last step.
        if not names & {cls.__name__ for cls in type(value).__mro__}:
            raise StateError(f"{where} should be a {' or '.join(sorted(names))}, not {_shown(value)}")
        if self.features and hasattr(value, "_n_features"):
            for name in ("_n_features", "_columns"):
                if getattr(value, name, None) != getattr(owner, name, None):
                    found, expected = getattr(value, "_n_features", 0), getattr(owner, "_n_features", 0)
                    raise StateError(
                        f"{where} has {found} features, but the {type(owner).__name__} around it {expected}, or other names"
                    )


class ListOf(Field):
    """A list of one kind of field, of a given length; `kind` sets another container, such as tuple or collections.deque."""

    def __init__(self, field: Field, length: Size = None, *, kind: Any = list, optional: bool = False) -> None:
        self.field = field
        self.length = length
        self.kind = kind
        self.optional = optional

    def _check(self, value: Any, where: str, owner: Any) -> None:
        length = size_of(self.length, owner)
        if type(value) is not self.kind or (length is not None and len(value) != length):
            of = "" if length is None else f" of {length}"
            raise StateError(f"{where} should be a {self.kind.__name__}{of}, not {_shown(value)}")
        for i, item in enumerate(value):
            self.field.check(item, f"{where}[{i}]", owner)


class TupleOf(Field):
    """A tuple with one field for each entry."""

    def __init__(self, *fields: Field, optional: bool = False) -> None:
        self.fields = fields
        self.optional = optional

    def _check(self, value: Any, where: str, owner: Any) -> None:
        if type(value) is not tuple or len(value) != len(self.fields):
            raise StateError(f"{where} should be a tuple of {len(self.fields)}, not {_shown(value)}")
        for i, (field, item) in enumerate(zip(self.fields, value, strict=True)):
            field.check(item, f"{where}[{i}]", owner)


class DictOf(Field):
    """A dict with one kind of key and one kind of value."""

    def __init__(self, key: Field, value: Field, *, optional: bool = False) -> None:
        self.key = key
        self.value = value
        self.optional = optional

    def _check(self, value: Any, where: str, owner: Any) -> None:
        if not isinstance(value, dict):
            raise StateError(f"{where} should be a dict, not {_shown(value)}")
        for key, item in value.items():
            self.key.check(key, f"a key of {where}", owner)
            self.value.check(item, f"{where}[{key!r:.40}]", owner)


@functools.cache
def schema_of(cls: Any) -> Mapping[str, Field] | None:
    """The fields of a class, inherited ones first; None when it declares none, or `_schema = None`."""
    declared = [vars(base)["_schema"] for base in reversed(cls.__mro__) if "_schema" in vars(base)]
    if not declared or None in declared:
        return None
    return {name: field for part in declared for name, field in part.items()}


def declared_state(value: Any) -> SimpleNamespace:
    """The state that an object declares, by names without the underscore: what its file holds. Arrays are no copies.

    Raises
    ------
    TypeError
        Its class declares no state.

    Examples
    --------
    >>> from online_rank import RidgeRanker
    >>> from online_rank.base.schema import declared_state
    >>> model = RidgeRanker()
    >>> model.learn_one([[1.0], [0.0]], [1, 0])
    >>> declared_state(model).moment.shape
    (1,)
    """
    cls: Any = type(value)
    if (fields := schema_of(cls)) is None:
        raise TypeError(f"{cls.__name__} declares no state")
    declared = (name for name, field in fields.items() if not isinstance(field, Derived))
    return SimpleNamespace(**{name.removeprefix("_"): getattr(value, name, None) for name in declared})


@functools.cache
def settings_names(cls: Any) -> tuple[str, ...]:
    """Names of the constructor's arguments; an argument `*steps` too."""
    import inspect

    # Without a constructor the signature comes from `__new__`, which takes anything where a base class makes a lock.
    no_names = (inspect.Parameter.VAR_KEYWORD, *([inspect.Parameter.VAR_POSITIONAL] if cls.__init__ is object.__init__ else []))
    return tuple(name for name, p in inspect.signature(cls).parameters.items() if p.kind not in no_names)


def check_object(value: Any, where: str) -> None:
    """Raise StateError when the state of an object does not match the declaration of its class."""
    cls: Any = type(value)
    for name, field in (schema_of(cls) or {}).items():
        field.check(field.trim(getattr(value, name, None), value), f"{where}.{name}", value)
    if hasattr(value, "_check_state"):
        try:
            value._check_state()
        except StateError:
            raise
        except ValueError as error:
            raise StateError(f"{where}: {error}") from None


def size_of(size: Size, owner: Any) -> Any:
    """A declared size of an object as a number; None for any."""
    if size is None or isinstance(size, int):
        return size
    if callable(size):
        return size(owner)
    return getattr(owner, "_n_features" if size == "d" else size)


def _shown(value: Hashable) -> str:
    return f"{value!r:.40}" if isinstance(value, int | float | str | bool | None) else f"a {type(value).__name__}"
