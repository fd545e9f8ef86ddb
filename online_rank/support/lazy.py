"""Imports public names, and modules of others, when they are first used."""

import contextlib
import importlib
import importlib.util
import sys
from collections.abc import Callable, Iterable, Iterator, Mapping
from typing import Any


def lazily(
    package: str, homes: Mapping[str, str], modules: Iterable[str] = ()
) -> tuple[Callable[[str], Any], Callable[[], list[str]]]:
    """The functions `__getattr__` and `__dir__` of a package whose public names are defined in its modules.

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


class MissingExtra(ImportError):
    """Packages of an extra are missing; the message says how to install them."""


@contextlib.contextmanager
def needs(what: str, extra: str) -> Iterator[None]:
    """A context for imports from the packages of an extra, of which one that is missing raises MissingExtra with the remedy.

    Within another one the inner remedy counts.

    Examples
    --------
    >>> with needs("the demonstration", "demo"):
    ...     import no_such_package
    Traceback (most recent call last):
        ...
    online_rank.support.lazy.MissingExtra: the demonstration needs no_such_package: pip install "online_rank[demo]"
    """
    try:
        yield
    except MissingExtra:
        raise
    except ImportError as error:
        missing = (error.name or "").partition(".")[0]
        if missing == "online_rank":
            raise
        reason = f"needs {missing}" if missing else f"cannot begin ({error})"
        raise MissingExtra(f'{what} {reason}: pip install "online_rank[{extra}]"') from None


def postpone(*names: str) -> None:
    """Load submodules when one of their attributes is first used, rather than when they are imported.

    Examples
    --------
    >>> postpone("email.mime.image")
    >>> from email.mime import image
    >>> image.MIMEImage.__name__
    'MIMEImage'
    """
    for name in names:
        package, _, child = name.rpartition(".")
        if name in sys.modules or (spec := importlib.util.find_spec(name)) is None or spec.loader is None:
            continue
        # `from package import child` looks for an attribute; an import would load it after all.
        spec.loader = importlib.util.LazyLoader(spec.loader)
        module = importlib.util.module_from_spec(spec)
        sys.modules[name] = module
        spec.loader.exec_module(module)
        setattr(sys.modules[package], child, module)
