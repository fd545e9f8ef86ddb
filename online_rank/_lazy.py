"""Public names that are imported when they are first used."""

import importlib
import sys
from collections.abc import Callable, Iterable, Mapping
from typing import Any


def lazily(
    package: str, homes: Mapping[str, str], modules: Iterable[str] = ()
) -> tuple[Callable[[str], Any], Callable[[], list[str]]]:
    """The functions `__getattr__` and `__dir__` of a package whose public names stand in its modules.

    Parameters
    ----------
    package
        Full name of the package.
    homes
        The module, relative to the package, that each name is imported from.
    modules
        Modules of the package that are public themselves.

    Examples
    --------
    >>> get, names = lazily("online_rank", {"Round": "base"})
    >>> get("Round").__name__
    'Round'
    """
    public = {*homes, *modules}

    def get(name: str) -> Any:
        if name in homes:
            value = getattr(importlib.import_module(f"{package}.{homes[name]}"), name)
        elif name in public:
            value = importlib.import_module(f"{package}.{name}")
        else:
            raise AttributeError(f"module {package!r} has no attribute {name!r}")
        setattr(sys.modules[package], name, value)
        return value

    def names() -> list[str]:
        return sorted({*vars(sys.modules[package]), *public})

    return get, names
