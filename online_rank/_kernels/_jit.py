"""The one way a kernel is made.

`kernel` stands before what Python calls; `inner`, `leaf` and `inlined` before what only kernels call. Kernels are compiled when
they are first called, for the dtypes they meet, are cached on disk, and release the GIL while they run.
"""

import functools
import hashlib
from collections.abc import Callable
from pathlib import Path
from typing import Any

__all__ = ["inlined", "inner", "kernel", "leaf", "on_first_compilation"]

# Wrappers for calls from Python and from C take a fifth of the time to compile. A kernel called from kernels needs neither.
_NO_WRAPPERS = {"no_cpython_wrapper": True, "no_cfunc_wrapper": True}

# _nrt is named because a kernel that is compiled for a leaf would take it from there.
# error_model="numpy": division by zero gives inf or NaN as in numpy, and no check in the inner loops.
# No fast flags anywhere: bits must not depend on the processor. `primitives` has sums that vectorise without.
_OPTIONS = {"nogil": True, "error_model": "numpy", "_nrt": True}


@functools.cache
def source_digest() -> bytes:
    """Digest of all kernel sources.

    numba invalidates a cached function when *its own* file changes, not when a function it calls, in another file, does. With
    this digest as the stamp a cached kernel is used only while every kernel file is as it was.
    """
    digest = hashlib.sha256()
    for path in sorted(Path(__file__).parent.glob("*.py")):
        digest.update(path.read_bytes())
    return digest.digest()


def _dispatcher(function: Callable[..., Any], options: dict[str, Any]) -> Any:
    """What numba makes of a kernel."""
    import numba

    from online_rank._kernels import _intrinsics  # noqa: F401

    options = {**_OPTIONS, **options}
    try:
        dispatcher = numba.njit(cache=True, **options)(function)
    except RuntimeError:
        # Neither the package folder nor the user's cache folder is writable: compile in every process.
        return numba.njit(**options)(function)
    cache_file = getattr(getattr(dispatcher, "_cache", None), "_cache_file", None)
    if cache_file is not None:
        cache_file._source_stamp = source_digest()
    return dispatcher


def kernel(function: Callable[..., Any]) -> Any:
    """Make a kernel that Python calls."""
    return _dispatcher(function, {"no_cfunc_wrapper": True})


def inner(function: Callable[..., Any]) -> Any:
    """As `kernel`, for a function that only kernels call: Python cannot."""
    return _dispatcher(function, _NO_WRAPPERS)


def inlined(function: Callable[..., Any]) -> Any:
    """As `inner`, for the body of several kernels: it becomes a part of each, and is compiled with it alone."""
    return _dispatcher(function, {**_NO_WRAPPERS, "inline": "always"})


def leaf(function: Callable[..., Any]) -> Any:
    """As `inner`, for a function that neither makes nor returns an array: it does not count references to arrays.

    Counting takes a locked instruction each time a row is taken from a workspace, which is most of the time of a short query.
    """
    return _dispatcher(function, {**_NO_WRAPPERS, "_nrt": False})


def on_first_compilation(notify: Callable[[], None]) -> None:
    """Call `notify` once, when this process first compiles a kernel; never when all of them come from the cache."""
    from numba.core import event

    class Listener(event.Listener):
        told = False

        def on_start(self, event: Any) -> None:
            # Stays registered: to leave while an event is told lets numba pass over the listener after this one.
            if not self.told:
                self.told = True
                notify()

        def on_end(self, event: Any) -> None:
            """Compilation that began earlier has ended."""

    event.register("numba:compile", Listener())
