"""Stores a long value in a key-value store as parts, writing only the parts that are not there yet.

The content decides where parts are cut, so bytes inserted or removed in the middle change only the parts around them. A part is
named by its digest, so equal parts are stored once.
"""

import hashlib
import zlib
from typing import Any

import numpy as np

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
    """Write the missing parts of a content to a store; returns the digests of all its parts, in order."""
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


def has_parts(digests: list[str], state: Any) -> bool:
    """Whether all parts are in a store."""
    return all(state.get_bytes(_name(digest)) is not None for digest in digests)


def names_of(digests: list[str]) -> set[str]:
    """The names of parts in the store."""
    return set(map(_name, digests))


def _name(digest: str) -> str:
    return f"part {digest}"


def _cuts(content: bytes) -> np.ndarray:
    """Where to cut: after windows of bytes whose hash has zeros in its upper bits."""
    if len(content) < _WINDOW:
        return np.empty(0, np.int64)
    windows = np.lib.stride_tricks.sliding_window_view(np.frombuffer(content, np.uint8), _WINDOW)
    hashes = np.zeros(len(windows), np.uint32)
    for k in range(_WINDOW):
        hashes = hashes * np.uint32(0x9E3779B1) + windows[:, k]
    return np.flatnonzero(hashes >> np.uint32(16) == 0) + _WINDOW
