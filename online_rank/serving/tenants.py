"""The folders of models by key: what they take, when they were last used, and how they go."""

import contextlib
import os
import secrets
import shutil
from pathlib import Path
from typing import NamedTuple

from online_rank.storage.folder import sync_directory

__all__ = ["Usage", "keys_in", "remove", "usage_of"]

#: Folders that are being deleted begin with this; keys begin otherwise.
_DELETED = ".deleted-"


class Usage(NamedTuple):
    """What a folder takes, in bytes, and when something in it last changed, in seconds since 1970."""

    n_bytes: int
    changed: float


def keys_in(directory: Path) -> set[str]:
    """The keys that have a folder. Removes what an earlier process could not delete any more."""
    keys = set()
    for entry in directory.iterdir():
        if entry.name.startswith(_DELETED):
            shutil.rmtree(entry, ignore_errors=True)
        else:
            keys.add(entry.name)
    return keys


def usage_of(path: Path) -> Usage:
    """The usage of a folder; nothing if there is none."""
    n_bytes, changed = 0, 0.0
    with contextlib.suppress(OSError), os.scandir(path) as entries:
        for entry in entries:
            with contextlib.suppress(OSError):  # SQLite's log comes and goes.
                found = entry.stat()
                n_bytes, changed = n_bytes + found.st_size, max(changed, found.st_mtime)
    return Usage(n_bytes, changed)


def remove(path: Path) -> None:
    """Delete a folder, in one step for whoever looks for it: it is renamed before its files go. Raises OSError."""
    renamed = path.with_name(_DELETED + secrets.token_hex(8))
    path.rename(renamed)
    sync_directory(path.parent)
    shutil.rmtree(renamed, ignore_errors=True)
