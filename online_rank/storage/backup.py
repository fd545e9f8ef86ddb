"""Backups of the state of a service: one file, written while the service runs."""

import contextlib
import errno
import os
import secrets
import sqlite3
from collections.abc import Iterator
from pathlib import Path

from online_rank.storage.checkpoint import STATE
from online_rank.storage.database import reading
from online_rank.storage.files import require_replaceable
from online_rank.storage.folder import CheckpointError, Folder, open_in, sync_directory
from online_rank.storage.saved import Saved
from online_rank.storage.state import write_count


def back_up(folder: str | os.PathLike[str], file: str | os.PathLike[str]) -> int:
    """Copy the state in a folder to a file, in one step of SQLite's backup, while another process may write it.

    The copy is read in full before it replaces an older file. Returns the number of its last change.

    Raises
    ------
    CheckpointError, ModelFileError
        The state is damaged, or there is none; an older file is as it was.
    OSError
        It cannot be read or written.
    """
    require_replaceable(file)
    target = Path(os.path.realpath(file))
    with reading(folder, STATE) as rows, _temporary(target) as temporary:
        change = _copied(rows.path, temporary).change
        os.replace(temporary, target)
    sync_directory(target.parent)
    return change


def restore(file: str | os.PathLike[str], folder: str | os.PathLike[str]) -> int:
    """Write the state of a backup to a folder that has none. Returns the number of its last change.

    If it is killed, there is no state yet, and it can be done again.

    Raises
    ------
    CheckpointError, ModelFileError
        The backup is damaged, or the folder has a state, or is in use.
    OSError
        It cannot be read or written.
    """
    with Folder(folder) as held:
        if (held.path / STATE).exists():
            raise CheckpointError(f"{folder} has a state already: restore to another folder")
        with _temporary(held.path / STATE) as temporary:
            saved = _copied(Path(file).absolute(), temporary)
            write_count(held.path, saved.run, saved.change)
            os.replace(temporary, held.path / STATE)
        sync_directory(held.path)
    return saved.change


@contextlib.contextmanager
def _temporary(target: Path) -> Iterator[Path]:
    """A file beside another one, for its owner alone, which is removed if it is still there at the end."""
    path = target.with_name(f".{target.name}.{secrets.token_hex(8)}.tmp")
    os.close(open_in(path.parent, path.name, os.O_RDWR | os.O_CREAT | os.O_EXCL))
    try:
        yield path
    finally:
        path.unlink(missing_ok=True)


def _copied(source: Path, target: Path) -> Saved:
    """Copy a database to an empty file, which is then on the disk, and read it in full."""
    if not source.is_file():
        raise FileNotFoundError(errno.ENOENT, "there is no state", str(source))
    try:
        with (
            contextlib.closing(sqlite3.connect(f"{source.as_uri()}?mode=ro", uri=True, isolation_level=None)) as there,
            contextlib.closing(sqlite3.connect(target, isolation_level=None)) as here,
        ):
            there.backup(here)
            # One file, without a log beside it.
            here.execute("PRAGMA journal_mode=DELETE")
    except sqlite3.DatabaseError as error:
        name = getattr(error, "sqlite_errorname", "")
        if name.startswith(("SQLITE_CORRUPT", "SQLITE_NOTADB", "SQLITE_FORMAT")):
            raise CheckpointError(f"{source} is damaged: {error}") from None
        raise OSError(errno.ENOSPC if name == "SQLITE_FULL" else errno.EIO, str(error), str(source)) from None
    with reading(target.parent, target.name) as rows:
        saved = Saved(rows)
        saved.require(bool(saved.run), "it has no state of a service")
        for each in (saved.learned(), saved.waiting(), saved.since()):
            for _ in each:
                pass
    file = os.open(target, os.O_RDONLY)
    try:
        os.fsync(file)
    finally:
        os.close(file)
    return saved
