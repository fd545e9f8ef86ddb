"""A long value of a key-value store as parts, of which only those are written that the store does not have.

Parts are cut where the content says so, not at fixed places: so bytes that come or go in the middle change the parts around
them only. A part has its digest as its name; equal parts are one.
"""

import hashlib
import zlib
from typing import Any

import numpy as np

__all__ = ["MAX_VALUE", "cut", "joined", "names_of", "written"]

#: Largest value: brokers refuse messages of 1 MB or more by default.
MAX_VALUE = 900_000

_SMALLEST, _LARGEST = 1 << 14, 1 << 19
_WINDOW = 16


def cut(content: bytes) -> list[bytes]:
    """The parts of a content: `b"".join(cut(content)) == content`.

    Examples
    --------
    >>> content = np.random.default_rng(0).bytes(1 << 20)
    >>> before, after = cut(content), cut(content[:1000] + b"something" + content[1000:])
    >>> len(before), len({*after} - {*before})
    (14, 1)
    """
    ends = np.append(_cuts(content), len(content))
    parts, start = [], 0
    while start < len(content):
        after = np.searchsorted(ends, min(start + _SMALLEST, len(content)))
        end = min(int(ends[after]), start + _LARGEST)
        parts.append(content[start:end])
        start = end
    return parts


def written(content: bytes, state: Any) -> list[str]:
    """Write a content to a store, as far as its parts are not there yet; returns their digests, in order."""
    digests = []
    for part in cut(content):
        digest = hashlib.sha256(part).hexdigest()[:32]
        if state.get_bytes(_name(digest)) is None:
            state.set_bytes(_name(digest), zlib.compress(part, 1))
        digests.append(digest)
    return digests


def joined(digests: list[str], state: Any) -> bytes | None:
    """The content that has these parts; None where one is missing."""
    values = [state.get_bytes(_name(digest)) for digest in digests]
    return None if None in values else b"".join(map(zlib.decompress, values))


def names_of(digests: list[str]) -> set[str]:
    """The names of parts in the store."""
    return set(map(_name, digests))


def _name(digest: str) -> str:
    return f"part {digest}"


def _cuts(content: bytes) -> np.ndarray:
    """Where to cut: behind windows of bytes whose hash is 0 in its upper bits."""
    if len(content) < _WINDOW:
        return np.empty(0, np.int64)
    windows = np.lib.stride_tricks.sliding_window_view(np.frombuffer(content, np.uint8), _WINDOW)
    hashes = np.zeros(len(windows), np.uint32)
    for k in range(_WINDOW):
        hashes = hashes * np.uint32(0x9E3779B1) + windows[:, k]
    return np.flatnonzero(hashes >> np.uint32(16) == 0) + _WINDOW
