"""The one way a kernel is compiled.

Every kernel of this package is decorated with `kernel` (or `fast_kernel`): compiled lazily, on first call, for the dtypes it
meets; cached on disk; the GIL released while it runs.
"""

import functools
import hashlib
from collections.abc import Callable
from pathlib import Path
from typing import Any

import numba

# Additions may be regrouped and fused, so that reductions vectorise. Never "nnan" or "ninf": kernels meet NaN and infinity and
# must see them. Only for sums in which the order of the terms does not matter (no compensated sums).
REASSOCIATE = {"reassoc", "contract"}


@functools.cache
def _source_digest() -> bytes:
    """Digest of all kernel sources.

    numba invalidates a cached function when *its own* file changes, not when a function it calls, in another file, does. With
    this digest as the stamp a cached kernel is used only while every kernel file is as it was.
    """
    digest = hashlib.sha256()
    for path in sorted(Path(__file__).parent.glob("*.py")):
        digest.update(path.read_bytes())
    return digest.digest()


def _compile(function: Callable[..., Any], **options: Any) -> Any:
    # error_model="numpy": division by zero gives inf or NaN as in numpy, and no check in the inner loops.
    options = {"nogil": True, "error_model": "numpy", **options}
    try:
        dispatcher = numba.njit(cache=True, **options)(function)
    except RuntimeError:
        # Neither the package folder nor the user's cache folder is writable: compile in every process.
        return numba.njit(**options)(function)
    cache_file = getattr(getattr(dispatcher, "_cache", None), "_cache_file", None)
    if cache_file is not None:
        cache_file._source_stamp = _source_digest()
    return dispatcher


def kernel(function: Callable[..., Any]) -> Any:
    """Compile `function` with strict floating-point semantics."""
    return _compile(function)


def fast_kernel(function: Callable[..., Any]) -> Any:
    """Compile `function` with sums that may be regrouped (see `REASSOCIATE`)."""
    return _compile(function, fastmath=REASSOCIATE)
