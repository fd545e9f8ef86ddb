"""Names of features with their hashes, by which many are told apart and looked up at once."""

import functools
import os
import re
from collections.abc import Hashable, Iterable, Sequence
from typing import Any

import numpy as np

from online_rank._kernels.names import hash_texts, number_names

__all__ = ["HashedNames", "are_texts", "distinct", "hashes_of", "index_among", "is_index_name"]

#: Of the hash of names, on which nothing that is kept depends: nobody can choose names that collide.
_SEEDS = np.frombuffer(os.urandom(16), np.uint64)

_ONLY_TEXTS = {str}

#: What pandas calls the index of a frame that it writes to a file without a name of its own, and reads again as a column.
_INDEX = re.compile(r"Unnamed: \d+(_level_\d+)?|__index_level_\d+__")


def is_index_name(name: str) -> bool:
    """Whether a column is called as the index of a pandas frame is in a file, or not called anything."""
    return not name or _INDEX.fullmatch(name) is not None


@functools.lru_cache(maxsize=256)
def index_among(names: tuple[str, ...]) -> str | None:
    """The first of some names of columns that `is_index_name`."""
    return next((name for name in names if isinstance(name, str) and is_index_name(name)), None)


class HashedNames(tuple):
    """Different names, all of them texts, with their `hashes`, int64 (n, 2)."""

    hashes: np.ndarray

    def __reduce__(self) -> Any:
        # Another process has other seeds.
        return tuple, (tuple(self),)


def are_texts(names: Iterable[Hashable]) -> bool:
    """Whether all names are texts: not of a subclass, which may compare otherwise."""
    return {*map(type, names)} == _ONLY_TEXTS


def hashes_of(names: Sequence[Hashable]) -> np.ndarray:
    """The hashes of names, int64 (n, 2). Names that are no texts, and have no hash here, have all the same."""
    hashes = np.empty((len(names), 2), np.int64)
    try:
        text = _encoded("\n".join(names))  # type: ignore[arg-type]
    except TypeError:
        text = None
    if text is None or text.count(b"\n") != len(names) - 1:
        # UTF-8 has neither byte 255, which stands for a separator within a name, nor 254.
        parts = (_encoded(name).replace(b"\n", b"\xff") if isinstance(name, str) else b"\xfe" for name in names)
        text = b"\n".join(parts)
    hash_texts(np.frombuffer(text, np.uint8), _SEEDS, hashes)
    return hashes


def _encoded(text: str) -> bytes:
    return text.encode("utf-8", "surrogatepass")


def distinct(names: Sequence[str]) -> tuple[HashedNames, np.ndarray]:
    """The different ones of n names, in the order in which they first appear, and which of these each is, int32 (n,).

    Examples
    --------
    >>> distinct(["clicks", "age", "clicks"])
    (('clicks', 'age'), array([0, 1, 0], dtype=int32))
    """
    hashes, columns, first = hashes_of(names), np.empty(len(names), np.int32), np.empty(len(names), np.int64)
    n = number_names(hashes, columns, first)
    different = HashedNames(names if n == len(names) else [names[i] for i in first[:n].tolist()])
    different.hashes = hashes[:n]
    return different, columns
