"""Stores a value as pieces under their digests, so that writing it again writes only changes.

A generation is a manifest: the digests of the pieces of its header and of each of its arrays. Pieces common to two generations
are stored once.
"""

import contextlib
import json
import math
from collections.abc import Callable
from typing import Any, NamedTuple

import numpy as np

from online_rank.limits import FORMAT_VERSION, is_integer
from online_rank.storage.database import digest_of
from online_rank.storage.files import ModelFileError, described, restored
from online_rank.storage.tree import numeric

_PIECE = 1 << 16


class Snapshot(NamedTuple):
    """A snapshot of a value, unaffected by later changes.

    Attributes
    ----------
    header
        Its tree, as JSON.
    arrays
        Copies of its arrays.
    """

    header: bytes
    arrays: list[np.ndarray]


class Pieces(NamedTuple):
    """A snapshot in pieces: its manifest, and the pieces by digest."""

    manifest: bytes
    contents: dict[bytes, memoryview]


def taken(value: Any) -> Snapshot:
    """Take a snapshot. Raises TypeError for objects that cannot be saved.

    It is taken while nothing else happens, so that the state is compared with its declaration only when it is read back.
    """
    with contextlib.ExitStack() as held:
        header, arrays = described(value, held, checked=False)
        return Snapshot(header, [np.array(array, order="C") for array in arrays])


def pieces_of(snapshot: Snapshot) -> Pieces:
    """A snapshot in pieces."""
    contents: dict[bytes, memoryview] = {}

    def cut(data: memoryview) -> list[str]:
        names = []
        for at in range(0, len(data), _PIECE):
            piece = data[at : at + _PIECE]
            names.append(digest_of(piece))
            contents[names[-1]] = piece
        return [name.hex() for name in names]

    arrays = [[array.dtype.str, array.shape, cut(array.reshape(-1).view(np.uint8).data)] for array in snapshot.arrays]
    manifest = {"format": FORMAT_VERSION, "header": cut(memoryview(snapshot.header)), "arrays": arrays}
    return Pieces(json.dumps(manifest, separators=(",", ":")).encode(), contents)


def assembled(manifest: bytes, read: Callable[[bytes], bytes | None]) -> Any:
    """The value of a manifest; `read` returns pieces by digest. Raises ModelFileError."""
    try:
        header, arrays = _lists_of(json.loads(manifest))
    except (ValueError, RecursionError) as error:
        raise ModelFileError(f"a list of its pieces cannot be read: {error}") from None

    def joined(names: list[bytes]) -> bytes:
        found = []
        for name in names:
            piece = read(name)
            if piece is None or digest_of(piece) != name:
                raise ModelFileError("a piece of it is missing or damaged")
            found.append(piece)
        return b"".join(found)

    made = []
    for dtype, shape, names in arrays:
        content = joined(names)
        if math.prod(shape) * dtype.itemsize != len(content):
            raise ModelFileError(f"an array is declared as {shape} {dtype}, which is not what its pieces hold")
        made.append(np.ndarray(shape, dtype, bytearray(content)))
    return restored(joined(header), made)


def _lists_of(manifest: Any) -> tuple[list[bytes], list[tuple[np.dtype, tuple[int, ...], list[bytes]]]]:
    """The pieces of the header; type, shape and pieces of each array. Raises ValueError for a manifest that is none."""
    fields = manifest if isinstance(manifest, dict) else {}
    version, header, arrays = (fields.get(name) for name in ("format", "header", "arrays"))
    if is_integer(version, FORMAT_VERSION + 1):
        raise ModelFileError(f"format version {version} was written by a newer online_rank: upgrade online_rank")
    if not is_integer(version, 1) or not isinstance(arrays, list):
        raise ValueError("it has no version, or no arrays")
    found = []
    for array in arrays:
        if not isinstance(array, list) or len(array) != 3:
            raise ValueError("an array has a type, a shape and pieces")
        dtype, shape, names = array
        if type(dtype) is not str or not isinstance(shape, list) or len(shape) > 32 or not all(is_integer(n, 0) for n in shape):
            raise ValueError("an array has no type, or an impossible shape")
        found.append((_dtype_of(dtype), tuple(shape), _names_of(names)))
    return _names_of(header), found


def _dtype_of(name: str) -> np.dtype:
    try:
        return numeric(name)
    except TypeError:
        raise ValueError(f"{name!r} is no type of an array") from None


def _names_of(names: Any) -> list[bytes]:
    if not isinstance(names, list) or not all(type(name) is str for name in names):
        raise ValueError("pieces go by their digests")
    return [bytes.fromhex(name) for name in names]
