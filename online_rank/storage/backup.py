"""Backups of the state of a service: one file, written while the service runs."""

import os
from pathlib import Path

from online_rank.storage.checkpoint import STATE
from online_rank.storage.database import Rows, reading
from online_rank.storage.files import replaced, require_replaceable
from online_rank.storage.folder import CheckpointError, Folder
from online_rank.storage.postgres import require_folder
from online_rank.storage.saved import Saved
from online_rank.storage.state import write_count

_BY_POSTGRES = "back it up and restore it with PostgreSQL's own tools"


def back_up(folder: str | os.PathLike[str], file: str | os.PathLike[str]) -> int:
    """Copy the state in a folder to a file, in one step of SQLite's backup, while another process may write it.

    The copy is read in full before it replaces an older file. Returns the number of its last change.

    Raises
    ------
    CheckpointError, ModelFileError
        The state is damaged, or there is none; an older file is as it was.
    ValueError
        The folder is the address of a database.
    OSError
        It cannot be read or written.
    """
    require_folder(folder, _BY_POSTGRES)
    require_replaceable(file)
    target = Path(os.path.realpath(file))
    with reading(folder, STATE) as rows, replaced(target) as temporary:
        return _copied(rows, temporary).change


def restore(file: str | os.PathLike[str], folder: str | os.PathLike[str]) -> int:
    """Write the state of a backup to a folder that has none. Returns the number of its last change.

    If it is killed, there is no state yet, and it can be done again.

    Raises
    ------
    CheckpointError, ModelFileError
        The backup is damaged, or the folder has a state, or is in use.
    ValueError
        The folder is the address of a database.
    OSError
        It cannot be read or written.
    """
    require_folder(folder, _BY_POSTGRES)
    with Folder(folder) as held:
        if (held.path / STATE).exists():
            raise CheckpointError(f"{folder} has a state already: restore to another folder")
        source = Path(file)
        with reading(source.parent, source.name) as rows, replaced(held.path / STATE) as temporary:
            saved = _copied(rows, temporary)
            write_count(held.path, saved.run, saved.change)
    return saved.change


def _copied(rows: Rows, target: Path) -> Saved:
    """Copy a database to an empty file, and read it in full."""
    rows.copy_to(target)
    with reading(target.parent, target.name) as copy:
        saved = Saved(copy)
        saved.require(bool(saved.run), "it has no state of a service")
        for each in (saved.learned(), saved.waiting(), saved.since()):
            for _ in each:
                pass
    return saved
