"""Converts objects to their settings and state, and back.

The settings are the arguments of the constructor; the state is what the class declares (`online_rank.base.schema`). An object
is restored by calling the constructor with settings of the annotated types, and setting the state after each part was checked
against its declaration. So a file cannot make the library do anything but build these objects.
Arrays come from the file itself: a claimed size allocates nothing.
"""

import functools
import inspect
import types
import typing
from collections.abc import Mapping, Sequence
from typing import Any

import numpy as np
from river import base, utils

from online_rank import extensions
from online_rank.base.anatomy import share_lock
from online_rank.base.schema import Count, Derived, Field, StateError, check_object, schema_of, settings_names
from online_rank.base.step import QueryStep
from online_rank.limits import MAX_COUNT, is_integer
from online_rank.storage.river_classes import RIVER, river_class, river_name
from online_rank.support import registry

#: The largest count in a file: a model that is loaded counts on, and has to be saved again.
_MOST_COUNTED = MAX_COUNT - (1 << 40)


class Budget:
    """The bytes that objects of a file may still allocate in addition to the file's own arrays."""

    def __init__(self, n_bytes: int) -> None:
        self.left = n_bytes

    def spend(self, n_bytes: int, where: str) -> None:
        """Raise StateError if the budget is exceeded."""
        self.left -= n_bytes
        if self.left < 0:
            raise StateError(f"{where} takes much more memory than the file has bytes")


def name_of(cls: type) -> str | None:
    """The name of a class in files; None for one that cannot be saved. Imports nothing."""
    if (own := extensions.name_of(cls)) is not None:
        return own
    if registry.home_of(cls) is not None:
        return cls.__name__ if schema_of(cls) is not None or hasattr(cls, "_fields") else None
    return river_name(cls)


def class_of(name: Any, where: str) -> type:
    """The class with a name in files. Raises StateError for one that cannot be saved."""
    cls = None
    if type(name) is str and name in registry.GONE:
        raise StateError(f"{where} is a {name}, which this version of online_rank no longer has: {registry.GONE[name]}")
    if type(name) is str and name not in RIVER and "." in name:
        cls = registered(name, f"{where} is of class {name[:80]!r}, which this version of online_rank does not restore")
        if not inspect.isclass(cls):
            raise StateError(f"{where} is of class {name!r}, but that is the name of a function here")
    elif type(name) is str and (name in registry.classes() or name in RIVER):
        cls = registry.public_class(name) if name in registry.classes() else river_class(name)
    if cls is None or name_of(cls) is None:
        raise StateError(f"{where} is of class {str(name)[:80]!r}, which this version of online_rank does not restore")
    return cls


def registered(name: str, where: str) -> Any:
    """The class or function that is registered under a name in files. Raises StateError, whose message begins with `where`."""
    try:
        return extensions.registered(name)
    except (ValueError, ImportError) as error:
        raise StateError(f"{where}: {error}") from None


def schema(cls: type) -> Mapping[str, Field]:
    """The state declared by a class, or for a class of river."""
    return RIVER[name].state if (name := river_name(cls)) is not None else schema_of(cls) or {}


def split(value: Any, where: str) -> tuple[dict[str, Any], dict[str, Any]]:
    """The settings and the state of an object. Raises TypeError if an attribute is neither."""
    cls: Any = type(value)
    fields, settings = schema(cls), _settings(cls)
    # Some settings are properties.
    attributes = {name: getattr(value, name) for name in settings if name not in vars(value)} | vars(value)
    for name in vars(value):
        if name not in fields and name not in settings and (cls, name) != (utils.Rolling, "_window_size"):
            raise TypeError(f"cannot save {where}: {cls.__name__} does not declare its attribute {name!r} in _schema")
    state = {}
    for name, field in fields.items():
        if isinstance(field, Derived) or (name not in attributes and (hasattr(cls, name) or field.optional)):
            continue
        state[name] = field.trim(attributes[name], value)
    variadic = _variadic(cls)
    listed = {name: _listed(attributes[name]) if name == variadic else attributes[name] for name in settings}
    return {name: _plain(setting) for name, setting in listed.items()}, state


def _plain(setting: Any) -> Any:
    """A setting with numbers of NumPy, and strings of other classes, as plain ones: files hold no other settings."""
    if isinstance(setting, str):
        return str.__str__(setting)
    if isinstance(setting, np.generic):
        return setting.item()
    if type(setting) in (list, tuple):
        return type(setting)(map(_plain, setting))
    if type(setting) is dict:
        return {_plain(key): _plain(value) for key, value in setting.items()}
    return setting


def check_settled(value: Any, parameters: dict[str, Any], state: dict[str, Any], where: str) -> None:
    """Raise TypeError if settings or state of an object (`split`) do not match what its class declares."""
    cls: Any = type(value)
    fields = schema(cls)
    try:
        for name, item in state.items():
            fields[name].check(item, f"{where}.{name}", value)
        _check_settings(cls, parameters, where)
    except StateError as error:
        raise TypeError(f"cannot save {error}") from None


def restore(cls: type, parameters: dict[str, Any], state: dict[str, Any], where: str, budget: Budget) -> Any:
    """A new object of `cls` from a file; settings and state must match what the class declares."""
    # What a file does not set was this in the version that wrote it.
    parameters = {**getattr(cls, "_earlier", {}), **parameters}
    former = set(getattr(cls, "_former", ())) - set(_settings(cls))
    parameters = {name: value for name, value in parameters.items() if name not in former}
    _check_settings(cls, parameters, where)
    fields = schema(cls)
    stored = {name: field for name, field in fields.items() if not isinstance(field, Derived)}
    if hasattr(cls, "_of_earlier"):
        state = cls._of_earlier(state)
    for name in state:
        if name not in stored:
            raise StateError(f"{where}: a {cls.__name__} has no {name!r}")
    made = _constructed(cls, parameters, where)
    for name, field in stored.items():
        if name in state:
            field.check(state[name], f"{where}.{name}", made)
            vars(made)[name] = _typed(made, name, state[name])
        elif not hasattr(cls, name) and (name in vars(made) or not field.optional):
            raise StateError(f"{where} has no {name}")
    check_object(made, where)
    for name, field in fields.items():
        if isinstance(field, Count) and (getattr(made, name, None) or 0) > _MOST_COUNTED:
            raise StateError(f"{where}.{name} is {getattr(made, name)}: after little more nothing could be saved")
        if isinstance(field, Derived):
            budget.spend(field.n_bytes(made), f"{where}.{name}")
    share_lock(made)
    if hasattr(made, "_derive"):
        try:
            made._derive()
        except (TypeError, ValueError, ArithmeticError) as error:
            raise StateError(f"{where}: {error}") from None
    return made


def _typed(made: Any, name: str, value: Any) -> Any:
    """A value as what a new object has under a name."""
    present = vars(made).get(name)
    if isinstance(present, dict):
        # river's defaultdicts and Counters keep their types.
        present.clear()
        present.update(value)
        return present
    # A kernel that is given an integer in place of a float is compiled again, for ten seconds, or does not take it.
    is_float = type(present) is float and isinstance(made, QueryStep)
    return float(value) if is_float and type(value) is int else value


def _settings(cls: type) -> tuple[str, ...]:
    return ("window_size",) if cls is utils.Rolling else settings_names(cls)


@functools.cache
def _variadic(cls: type) -> str | None:
    found = inspect.signature(cls).parameters
    return next((name for name in _settings(cls) if found[name].kind is inspect.Parameter.VAR_POSITIONAL), None)


def _listed(items: Any) -> list[Any]:
    """The values given to an argument such as `*steps`."""
    return list(items.items()) if isinstance(items, dict) else sorted(items, key=repr)


def _constructed(cls: type, parameters: dict[str, Any], where: str) -> Any:
    """Call the constructor with settings."""
    if cls is utils.Rolling:  # Its constructor would make the metric itself.
        made = utils.Rolling.__new__(utils.Rolling)
        made._window_size = parameters["window_size"]
        return made
    arguments = dict(parameters)
    positional = arguments.pop(_variadic(cls) or "", [])
    parts = {name: part for name, part in arguments.items() if isinstance(part, base.Estimator)}
    # Constructors may require untrained parts; the trained ones are set afterwards. A service looks at what it serves.
    given = parts if getattr(cls, "_takes_trained", False) else {name: part.clone() for name, part in parts.items()}
    try:
        made = cls(*positional, **{**arguments, **given})
    except MemoryError:  # The file is right.
        raise
    except Exception as error:  # Any error, because river's constructors raise errors of all kinds.
        raise StateError(f"{where}: {cls.__name__} does not accept its parameters: {error}") from None
    vars(made).update(parts)
    return made


def _check_settings(cls: type, parameters: dict[str, Any], where: str) -> None:
    """Raise StateError unless `parameters` are the constructor's, each of the annotated type."""
    expected = _settings(cls)
    if unknown := sorted(set(parameters) - set(expected)):
        raise StateError(f"{where}: a {cls.__name__} has no parameter {unknown[0]!r}")
    # Parameters unknown to an older version take the constructor's default.
    if missing := sorted(name for name in set(expected) - set(parameters) if not _has_default(cls, name)):
        raise StateError(f"{where} has no parameter {missing[0]!r}")
    if (name := river_name(cls)) is not None:
        _check_river_settings(name, parameters, where)
        return
    hints = _hints(cls)
    for key, value in parameters.items():
        if not _is_a(value, hints.get(key, Any)):
            raise StateError(f"{where}: {cls.__name__} does not accept its parameters: {key} is a {type(value).__name__}")
        if type(value) is int and not is_integer(value):
            raise StateError(f"{where}.{key} is an integer of more than 64 bits")


@functools.cache
def _has_default(cls: type, name: str) -> bool:
    """Whether the constructor of a class of this library has a default for a parameter."""
    if river_name(cls) is not None:
        return False
    parameter = inspect.signature(cls).parameters.get(name)
    return parameter is not None and parameter.default is not inspect.Parameter.empty


@functools.cache
def _hints(cls: type) -> dict[str, Any]:
    """The annotated types of the constructor's parameters."""
    return typing.get_type_hints(vars(cls).get("__init__") or cls.__init__)  # type: ignore[misc]


def _check_river_settings(name: str, parameters: dict[str, Any], where: str) -> None:
    """Raise StateError unless settings of a class of river are as declared."""
    owner = types.SimpleNamespace(**parameters)
    for key, field in RIVER[name].settings.items():
        try:
            field.check(parameters[key], f"{where}.{key}", owner)
        except TypeError as error:  # from a limit that depends on another setting of a wrong type
            raise StateError(f"{where}.{key}: {error}") from None


def _is_a(value: Any, hint: Any) -> bool:
    """Whether a setting from a file is of the annotated type."""
    origin, arguments = typing.get_origin(hint), typing.get_args(hint)
    if hint is Any or isinstance(hint, typing.TypeVar):
        return True
    if origin in (types.UnionType, typing.Union):
        return any(_is_a(value, each) for each in arguments)
    if origin is typing.Literal:
        return type(value) in (str, int, bool, type(None)) and value in arguments
    if hint is None or hint is type(None):
        return value is None
    if hint is float:
        return isinstance(value, int | float) and not isinstance(value, bool)
    if hint is int:
        return isinstance(value, int) and not isinstance(value, bool)
    if origin in (list, Sequence) or (origin is tuple and arguments[1:] == (Ellipsis,)):
        return type(value) in (tuple, list) and all(_is_a(item, arguments[0]) for item in value)
    if origin in (dict, Mapping):
        return isinstance(value, dict) and all(_is_a(k, arguments[0]) and _is_a(v, arguments[1]) for k, v in value.items())
    return isinstance(value, origin or hint)
