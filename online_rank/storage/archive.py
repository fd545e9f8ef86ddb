"""The container of a model file: a plain zip archive, every byte of which is determined by its content.

Members are stored one after the other, uncompressed and without gaps, followed by the directory and, as the archive's comment,
a SHA-256 of everything before. `numpy.load` and every zip tool open it. Reading accepts exactly what writing produces: no
member can overlap
another, so their sizes add up to no more than the file.
"""

import hashlib
import struct
import zlib
from collections.abc import Iterable, Sequence

_LOCAL = struct.Struct("<4s5H3L2H")
_CENTRAL = struct.Struct("<4s6H3L5H2L")
_END = struct.Struct("<4s4H2LH")
_VERSION, _UNIX_VERSION = 20, (3 << 8) | 20
_DATE = (1 << 5) | 1  # 1980-01-01, the earliest date in zip files
_MODE = 0o600 << 16
_DIGEST_SIZE = 64
_MOST = 2**32 - 1


class ModelFileError(ValueError):
    """A file is not a model that this version of online_rank can restore; the message gives the reason.

    Attributes
    ----------
    later : bool
        Whether it is whole, and a later version has written it.
    """

    def __init__(self, message: str, *, later: bool = False) -> None:
        super().__init__(message)
        self.later = later


def write_archive(members: Iterable[tuple[str, *tuple[bytes | memoryview, ...]]]) -> bytes:
    """The archive of members, each a name and the pieces of its content. Raises ModelFileError if it is larger than 4 GiB."""
    pieces: list[bytes | memoryview] = []
    directory: list[bytes] = []
    offset = 0
    for name, *data in members:
        local, central = _entries(name.encode("ascii"), data, offset)
        pieces += (local, *data)
        directory.append(central)
        offset += len(local) + sum(map(len, data))
    pieces += _closing(directory, offset)
    digest = hashlib.sha256()
    for piece in pieces:
        digest.update(piece)
    return b"".join([*pieces, digest.hexdigest().encode()])


def read_archive(content: bytes) -> list[tuple[str, memoryview]]:
    """The members of an archive, as views of its bytes. Raises ModelFileError."""
    view = memoryview(content)
    if not content.startswith(b"PK\x03\x04"):
        raise ModelFileError("not a model file of online_rank" if content else "the file is empty")
    if hashlib.sha256(view[:-_DIGEST_SIZE]).hexdigest().encode() != content[-_DIGEST_SIZE:]:
        raise ModelFileError("the file is damaged or cut short (its checksum is wrong), or was not written by online_rank")
    members, directory = [], []
    offset = 0
    while content.startswith(b"PK\x03\x04", offset):
        if len(content) < offset + _LOCAL.size:
            raise ModelFileError("the archive is malformed: it ends within a member")
        *_, size, _, name_size, _ = _LOCAL.unpack_from(content, offset)
        start = offset + _LOCAL.size + name_size
        name, data = bytes(view[offset + _LOCAL.size : start]), view[start : start + size]
        local, central = _entries(name, [data], offset)
        if len(data) != size or local != view[offset:start]:
            raise ModelFileError(f"the archive is malformed: its member {name[:40]!r} is not stored as online_rank stores it")
        members.append((name.decode("latin-1"), data))
        directory.append(central)
        offset = start + size
    if b"".join(_closing(directory, offset)) != view[offset:-_DIGEST_SIZE]:
        raise ModelFileError("the archive is malformed: its directory does not match its members")
    return members


def _entries(name: bytes, data: Sequence[bytes | memoryview], offset: int) -> tuple[bytes, bytes]:
    """The header of a member, and its entry in the directory."""
    size, check = sum(map(len, data)), 0
    if offset + size > _MOST:
        raise ModelFileError("a model file can hold at most 4 GiB")
    for piece in data:
        check = zlib.crc32(piece, check)
    common = (_VERSION, 0, 0, 0, _DATE, check, size, size, len(name), 0)
    local = _LOCAL.pack(b"PK\x03\x04", *common) + name
    return local, _CENTRAL.pack(b"PK\x01\x02", _UNIX_VERSION, *common, 0, 0, 0, _MODE, offset) + name


def _closing(directory: list[bytes], offset: int) -> list[bytes]:
    """The directory and the end record; the digest follows as the comment."""
    size, count = sum(map(len, directory)), len(directory)
    if count > 65_535:
        raise ModelFileError("a model file can hold at most 65,534 arrays")
    return [*directory, _END.pack(b"PK\x05\x06", 0, 0, count, count, size, offset, _DIGEST_SIZE)]
