"""How many classes is a ranker spread over, and how many of their methods does exactly one other class override?"""

import functools
import importlib
import inspect
import pkgutil
from typing import Any

import online_rank

#: What a class may define and a subclass override.
_METHODS = (staticmethod, classmethod, property, functools.cached_property)


def is_ours(cls: type) -> bool:
    """Whether a class is defined in the package."""
    return cls.__module__.partition(".")[0] == "online_rank"


@functools.cache
def classes() -> frozenset[type]:
    """All classes of the package, of modules that can be imported here."""
    found: set[type] = set()
    for module in pkgutil.walk_packages(online_rank.__path__, "online_rank."):
        if not module.name.endswith("__main__"):
            members = vars(importlib.import_module(module.name)).values()
            found |= {member for member in members if inspect.isclass(member) and is_ours(member)}
    return frozenset(found)


def house_of(cls: type) -> list[str]:
    """The classes of ours that a class consists of: itself, and its base classes."""
    return [base.__name__ for base in cls.__mro__ if is_ours(base)]


def rankers() -> dict[str, list[str]]:
    """For each public ranker the classes of ours in its method resolution order."""
    from online_rank.support import registry

    found = (getattr(importlib.import_module(f"online_rank.{home}"), name) for name, home in registry.classes().items())
    return {cls.__name__: house_of(cls) for cls in found if getattr(cls, "_is_ranker", False)}


def hooks() -> dict[tuple[str, str], list[str]]:
    """Methods that classes of ours override, each by the class that defines it first, with the classes that override it.

    Functions, properties, class methods and static methods count, and methods of Python (`__init__`) do not.
    """
    found: dict[tuple[str, str], list[str]] = {}
    for cls in sorted(classes(), key=lambda cls: (cls.__module__, cls.__name__)):
        above = [base for base in reversed(cls.__mro__[1:]) if is_ours(base)]
        for name, member in vars(cls).items():
            if name.startswith("__") or not _is_method(member):
                continue
            first = next((base for base in above if _is_method(vars(base).get(name))), None)
            if first is not None:
                found.setdefault((first.__name__, name), []).append(cls.__name__)
    return found


def _is_method(member: Any) -> bool:
    return inspect.isfunction(member) or isinstance(member, _METHODS)


def hooks_of_one() -> dict[str, str]:
    """The methods that exactly one class overrides, `Class.method`, and that class."""
    return {".".join(hook): overriders[0] for hook, overriders in sorted(hooks().items()) if len(overriders) == 1}
