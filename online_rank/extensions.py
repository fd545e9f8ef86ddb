"""Names for classes and functions of your own, by which model files know them.

A model file holds names and numbers, never code. `register` gives a name to a loss, a ranker, a transformer, a metric or a
click policy of your own, and from then on `online_rank.save` writes models that contain it. A process that reads such a file
must have registered the same name before: it imports the module that does so. The environment variable `ONLINE_RANK_IMPORT`
names such modules, separated by commas, for processes that others start: they are imported when a name is not known.
`online-rank --import MODULE` does the same for a command.
"""

import contextlib
import importlib
import inspect
import os
import re
from collections.abc import Callable, Iterator, Sequence
from typing import Any, TypeVar

__all__ = ["import_modules", "name_of", "register", "registered"]

_Named = TypeVar("_Named")

#: A name has a dot, which no name of this library has or will have.
_NAME = re.compile(r"(?!river\.)[A-Za-z_][A-Za-z0-9_-]*(\.[A-Za-z0-9_-]+)+")
_MOST_CHARACTERS = 100

_things: dict[str, Any] = {}


def register(name: str) -> Callable[[_Named], _Named]:
    """Decorator that gives a class or a function of your own the name by which model files know it.

    Parameters
    ----------
    name
        Letters, digits, underscores and hyphens, with at least one dot: `"acme.focal"`. The dot keeps it apart from all names
        of this library. It must not change while there are files with it.

    Returns
    -------
    The decorator, which returns what it is given.

    Raises
    ------
    TypeError, ValueError
        `name` is not such a name, or something else has it. A class or function that is defined again, in a notebook or after
        a reload, takes the place of the earlier one.

    Examples
    --------
    >>> from online_rank import GradientRanker, register
    >>> @register("docs.softplus")
    ... def softplus(s, y):
    ...     import numpy as np
    ...     signs = np.where(y > y.mean(), 1.0, -1.0)
    ...     return np.logaddexp(0.0, -signs * s).sum(), -signs / (1.0 + np.exp(signs * s))
    >>> GradientRanker("docs.softplus")
    GradientRanker (...)
    """
    if not isinstance(name, str):
        raise TypeError(f"name is {name!r:.100}; it must be a string")
    if not _NAME.fullmatch(name) or len(name) > _MOST_CHARACTERS:
        raise ValueError(
            f"name is {name!r:.120}; it must be of letters, digits, _ and -, with a dot in it, as in 'acme.focal', "
            f"not begin with 'river.', and have at most {_MOST_CHARACTERS} characters"
        )

    def give(thing: _Named) -> _Named:
        if not callable(thing):
            raise TypeError(f"{name!r} is to name a {type(thing).__name__}; a class or a function can have a name")
        before = _things.get(name)
        if before is not None and _origin(before) != _origin(thing):
            raise ValueError(f"{name!r} is the name of {'.'.join(_origin(before))} already")
        if (known := name_of(thing)) not in (None, name):
            raise ValueError(f"{'.'.join(_origin(thing))} has the name {known!r} already")
        _things[name] = thing
        return thing

    return give


def registered(name: str) -> Any:
    """The class or function of that name.

    Raises
    ------
    ValueError
        The name is not registered, also not by a module that `ONLINE_RANK_IMPORT` names.
    ImportError
        A module that it names cannot be imported.
    """
    if name not in _things:
        for module in _named_in_environment():
            importlib.import_module(module)
    if name not in _things:
        raise ValueError(
            f"{name!r:.120} is not registered: import the module that calls online_rank.register({name!r:.120}), or name it in "
            "ONLINE_RANK_IMPORT or with online-rank --import"
        )
    return _things[name]


def name_of(thing: Any) -> str | None:
    """The name under which a class or function is registered, or None."""
    return next((name for name, known in [*_things.items()] if known is thing), None)


def called(thing: Any) -> str:
    """What messages call a user's object: its registered name, or the name of its class or function."""
    found = name_of(thing) or name_of(type(thing))
    return found or str(getattr(thing, "__qualname__", type(thing).__qualname__))


def own(argument: str, given: Any) -> Any:
    """The function or object of the user's own that an argument stands for: given as such, as its class, or by name.

    Raises
    ------
    ValueError
        The name is not registered.
    """
    if isinstance(given, str):
        try:
            given = registered(given)
        except ValueError as error:
            raise ValueError(f"{argument}: {error}") from None
    return given() if inspect.isclass(given) else given


def import_modules(modules: Sequence[str]) -> None:
    """Import modules that register names, here and, through `ONLINE_RANK_IMPORT`, in processes that this one starts.

    Raises
    ------
    ImportError
        A module cannot be imported; the message names it.
    """
    for module in modules:
        importlib.import_module(module)
    named = [*_named_in_environment(), *modules]
    os.environ["ONLINE_RANK_IMPORT"] = ",".join(dict.fromkeys(named))


@contextlib.contextmanager
def no_names() -> Iterator[None]:
    """A context that begins without names, and forgets those that it registers: tests and examples share one process."""
    before = {**_things}
    _things.clear()
    try:
        yield
    finally:
        _things.clear()
        _things.update(before)


def _named_in_environment() -> list[str]:
    return [part.strip() for part in os.environ.get("ONLINE_RANK_IMPORT", "").split(",") if part.strip()]


def _origin(thing: Any) -> tuple[str, str]:
    return thing.__module__, getattr(thing, "__qualname__", type(thing).__qualname__)
