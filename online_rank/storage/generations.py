"""Stores a value as pieces under their digests, so that writing it again writes only changes.

A generation is a manifest: the digests of the pieces of its header and of each of its arrays. Pieces common to two generations
are stored once.
"""

import contextlib
import json
from collections.abc import Callable
from typing import Any, NamedTuple

import numpy as np

from online_rank import __version__
from online_rank.limits import FORMAT_VERSION
from online_rank.storage.database import digest_of
from online_rank.storage.files import ModelFileError, described, restored
from online_rank.storage.folder import CheckpointError
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


def taken(value: Any) -> Snapshot:
    """Take a snapshot. Raises TypeError for objects that cannot be saved.

    It is taken while nothing else happens, so that the state is compared with its declaration only when it is read back.
    """
    with contextlib.ExitStack() as held:
        header, arrays = described(value, held, checked=False)
        return Snapshot(header, [np.array(array, order="C") for array in arrays])


def pieces_of(snapshot: Snapshot) -> tuple[bytes, dict[bytes, memoryview]]:
    """A snapshot in pieces: its manifest, and the pieces by digest."""
    contents: dict[bytes, memoryview] = {}

    def cut(data: memoryview) -> list[str]:
        names = []
        for at in range(0, len(data), _PIECE):
            piece = data[at : at + _PIECE]
            names.append(digest_of(piece))
            contents[names[-1]] = piece
        return [name.hex() for name in names]

    arrays = [[array.dtype.str, array.shape, cut(array.reshape(-1).view(np.uint8).data)] for array in snapshot.arrays]
    manifest = {"format": FORMAT_VERSION, "library": __version__, "header": cut(memoryview(snapshot.header)), "arrays": arrays}
    return json.dumps(manifest, separators=(",", ":")).encode(), contents


def assembled(manifest: bytes, read: Callable[[bytes], bytes | None]) -> Any:
    """The value of a manifest; `read` returns pieces by digest. Raises ModelFileError."""

    def joined(names: list[str]) -> bytearray:
        found = bytearray()
        for name in map(bytes.fromhex, names):
            piece = read(name)
            if piece is None or digest_of(piece) != name:
                raise ModelFileError("a piece of it is missing or damaged")
            found += piece
        return found

    try:
        fields = json.loads(manifest)
        if fields["format"] > FORMAT_VERSION:
            writer = str(fields.get("library", "of a later version"))[:40]
            raise ModelFileError(
                f"format {str(fields['format'])[:20]} was written by online_rank {writer}; this is online_rank {__version__}, "
                f"which reads formats up to {FORMAT_VERSION}: upgrade online_rank",
                later=True,
            )
        header = joined(fields["header"])
        arrays = [np.frombuffer(joined(names), numeric(dtype)).reshape(shape) for dtype, shape, names in fields["arrays"]]
    except (ModelFileError, CheckpointError):
        raise
    except (ValueError, TypeError, LookupError, OverflowError, RecursionError) as error:
        raise ModelFileError(f"a list of its pieces cannot be read: {error}") from None
    return restored(bytes(header), arrays)
