"""Whether a file of machine code may be run: only its user and root can have written it, and it is whole.

A file of code ends in its length and a digest of its name and its bytes, so that a truncated file, a damaged one and one of
another version are refused before they are run. That is no signature: who may write the file may write the digest too. So
nobody else may be able to write the file, or a folder on the way to it.
"""

import functools
import hashlib
import os
import stat
import struct
import warnings
from pathlib import Path

_END = struct.Struct("<16sQ32s")
_MARK = b"online_rank code"


class Distrusted(Exception):
    """A file or folder must not be used; the message says why, and what to do."""


def sealed(code: bytes, name: str) -> bytes:
    """The content of a file `name` of machine code."""
    return code + _END.pack(_MARK, len(code), _digest(code, name))


def write_sealed(path: Path, code: bytes) -> None:
    """Write a file of machine code: whole, or not at all."""
    make_folder(path.parent)
    spare = path.with_suffix(f".{os.getpid()}")
    with open(spare, "wb", opener=lambda name, flags: os.open(name, flags, 0o644)) as file:
        if os.name == "posix":
            os.fchmod(file.fileno(), 0o644)
        file.write(sealed(code, path.name))
        file.flush()
        os.fsync(file.fileno())
    os.replace(spare, path)


def make_folder(folder: Path) -> None:
    """Make a folder and what is missing on the way to it, which only this user can write to, with any umask."""
    for one in reversed([folder, *folder.parents]):
        if not one.exists():
            one.mkdir(mode=0o755, exist_ok=True)


def read_sealed(path: Path, *, anyones: bool = False) -> bytes:
    """The machine code in a file. Raises Distrusted, and OSError for a missing file.

    With `anyones` its owner and permissions do not matter: next to the sources of this package, which run anyway.
    """
    with open(path, "rb") as file:
        if not anyones:
            _require_own(path, os.fstat(file.fileno()))
            require_own_folder(path.parent)
        content = file.read()
    code, end = content[: -_END.size], content[-_END.size :]
    if len(end) < _END.size or _END.unpack(end) != (_MARK, len(code), _digest(code, path.name)):
        raise Distrusted(f"{path} is truncated or damaged: delete it, and run `online-rank warm-up`")
    return code


def require_own_folder(folder: Path) -> None:
    """Raise Distrusted unless this folder and all above it belong to this user or root, and nobody else can write to them.

    Folders above it may be such that all may add files and none may rename another user's file, as /tmp.
    """
    real = folder.resolve()
    _require_own(real, os.stat(real))
    for above in real.parents:
        found = os.stat(above)
        if not found.st_mode & stat.S_ISVTX:
            _require_own(above, found)


def _require_own(path: Path, found: os.stat_result) -> None:
    if not hasattr(os, "geteuid"):
        return
    if found.st_uid not in (0, os.geteuid()):
        raise Distrusted(f"{path} belongs to another user (number {found.st_uid}), who could change what runs")
    if found.st_mode & (stat.S_IWGRP | stat.S_IWOTH):
        raise Distrusted(f"others can write to {path} (mode {stat.S_IMODE(found.st_mode):o}): `chmod go-w` it, or use another")


@functools.cache
def say_distrust(reason: str) -> None:
    """Warn, once, that something is not used."""
    warnings.warn_explicit(f"compiled code is not used: {reason}", RuntimeWarning, "<online_rank>", 0)


def _digest(code: bytes, name: str) -> bytes:
    return hashlib.sha256(name.encode() + b"\0" + code).digest()
