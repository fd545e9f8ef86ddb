"""Defaults that earlier versions did not have: what began without them continues without them."""

import inspect
import warnings
from typing import Any

import online_rank

__all__ = ["as_begun", "continues"]


def continues(kept: Any, given: Any, where: str, stacklevel: int = 3) -> bool:
    """Whether an object may continue what was stored: the settings are the same, or an earlier version had them as defaults.

    A warning names the place, and each setting that remains as it began.
    """
    settings, told = as_begun(kept, given)
    if kept != settings:
        return False
    for line in told:
        warnings.warn(f"{where}: {line}", stacklevel=stacklevel)
    return True


def as_begun(kept: Any, given: Any) -> tuple[Any, list[str]]:
    """The settings that were given, with settings of an earlier version where a default is newer than what was kept.

    After an upgrade the same program is to continue what it began.

    Parameters
    ----------
    kept, given
        Trees of settings (`online_rank.storage.tree.settings_of`) of what was stored, and of what is to continue it.

    Returns
    -------
    The tree of `given`, and a sentence for each setting that differs from it.
    """
    if isinstance(kept, list) and isinstance(given, list) and len(kept) == len(given):
        parts = [as_begun(a, b) for a, b in zip(kept, given, strict=True)]
        return [part for part, _ in parts], [line for _, told in parts for line in told]
    if not (isinstance(kept, dict) and isinstance(given, dict) and kept.get("class") == given.get("class")):
        return given, []
    made, told = {}, []
    for name, value in given.items():
        made[name], more = as_begun(kept.get(name), value)
        told += more
    if "class" in made and "parameters" in made:
        told += _set_back(made, kept["parameters"])
    return made, told


def _set_back(made: dict[str, Any], kept: dict[str, Any]) -> list[str]:
    """Give an object the settings of an earlier version that were kept, where its own are the defaults."""
    cls: Any = getattr(online_rank, made["class"], None)
    told, own = [], dict(made["parameters"])
    for name, value in getattr(cls, "_earlier", {}).items():
        default = inspect.signature(cls).parameters[name].default
        if kept.get(name) == value != own[name] == default:
            own[name] = value
            told.append(f"{cls.__name__} keeps {name}={value!r}, with which it began; the default is {name}={default!r} now")
    made["parameters"] = own
    return told
