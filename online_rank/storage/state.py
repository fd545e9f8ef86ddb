"""The state of a service in a folder, in SQLite: its model, and its journal (`storage.journal`).

Detection of damage
--------------------------------
Every row has a digest, and a generation lists the rows that belong to it. But if SQLite's log is damaged in the middle, SQLite
silently drops the rest of it. So the number of the last acknowledged change is also kept outside the log, in the file
`acknowledged`. It is written after the log was synced and before anything is acknowledged; this needs no sync and takes 2 µs.
Other processes see it at once. The committing thread syncs it after it has answered: once a second while changes are
acknowledged, at each new generation, and when the folder is closed. One kind of damage goes unnoticed: damage of the log in the
changes of the last second before a power failure.
"""

import contextlib
import errno
import os
import shutil
import time
from collections.abc import Iterator, Sequence
from pathlib import Path
from typing import Any

from online_rank.storage.checkpoint import STATE, database_in
from online_rank.storage.database import FULL, Query, digest_of, reader
from online_rank.storage.files import write_atomically
from online_rank.storage.folder import OWNER, CheckpointError, Folder, identity, open_in, sync_directory
from online_rank.storage.journal import TABLES, Journal
from online_rank.storage.saved import Saved
from online_rank.storage.store import Change

_COUNT = "acknowledged"
_COUNT_SIZE = 128
#: The files of a state: the database, which is the first to come, with SQLite's log, the count, and the owner of the lock.
STATE_FILES = (STATE, f"{STATE}-wal", f"{STATE}-shm", _COUNT, OWNER)
#: The count is written into two places in turn, in separate sectors: one that is cut short leaves the one before.
_PLACES = (0, 512)
_SECONDS_BETWEEN_SYNCS = 1.0


class AcknowledgedCount:
    """The number of the last acknowledged change, in a file outside SQLite's log; from one thread at a time.

    Parameters
    ----------
    folder
        The folder, which is locked.
    saved
        The state in it.

    Raises
    ------
    CheckpointError
        Acknowledged changes, or the count itself, are missing.
    """

    _written = _synced = -1
    _synced_at = 0.0

    def __init__(self, folder: Path, saved: Saved) -> None:
        self._path, self._require = folder / _COUNT, saved.require
        counted, self._place = _read_count(self._path)
        run, acknowledged = counted or (saved.run, 0)
        saved.require(bool(saved.run) or not (acknowledged or saved.change), "its first generation is missing")
        saved.require(counted is not None or not saved.change, f"{_COUNT} is missing or empty")
        saved.require(run == saved.run or not (saved.run and acknowledged), f"{_COUNT} is of another run")
        missing = acknowledged - saved.change
        saved.require(missing <= 0, f"{missing} acknowledged changes are missing: the end of its log is damaged or cut off")
        self._file = open_in(folder, _COUNT, os.O_RDWR | os.O_CREAT)

    @property
    def is_late(self) -> bool:
        """Whether it was not synced for a second."""
        return self._written != self._synced and time.monotonic() - self._synced_at >= _SECONDS_BETWEEN_SYNCS

    def write(self, run: str, change: int) -> None:
        """All changes up to this one are on the disk, and are about to be acknowledged. Raises OSError, CheckpointError."""
        there, _ = identity(self._path)
        here = os.fstat(self._file)
        self._require(there == (here.st_ino, here.st_dev), f"{_COUNT} was replaced while it was in use")
        try:
            is_written = os.pwrite(self._file, _line(run, change), self._place) == _COUNT_SIZE
        except OSError:
            # Its place on the disk is there: this is another error than a full disk, after which the changes would come again.
            is_written = False
        if not is_written:
            raise OSError(errno.EIO, "was not written", str(self._path))
        self._place = _other(self._place)
        self._written = change

    def sync(self, at_once: bool = True) -> None:
        """Sync it, if it has changed; not `at_once` only if it was not synced for a second."""
        if (at_once and self._written != self._synced) or self.is_late:
            os.fsync(self._file)
            self._synced, self._synced_at = self._written, time.monotonic()

    def close(self) -> None:
        """Sync and close it."""
        with contextlib.suppress(OSError):
            self.sync()
        self.abandon()

    def abandon(self) -> None:
        """Close it, in a forked child too: its parent syncs it."""
        os.close(self._file)


class StateDirectory(Folder, Journal):
    """A folder with the state of a service, locked while it is open; a `StateStore`.

    It is first read (`saved`), then written to by `append` and `replacing`, from one thread at a time.

    Parameters
    ----------
    path
        As in `CheckpointDirectory`.

    Attributes
    ----------
    saved : Saved
        The state when the folder was opened.
    change : int
        Number of the last change.
    journal_bytes : int
        Size of the changes since the newest generation, which a restart must replay.

    Raises
    ------
    CheckpointError
        Also if acknowledged changes are missing.
    """

    failure: OSError | None = None

    def __init__(self, path: str | os.PathLike[str]) -> None:
        Folder.__init__(self, path)
        try:
            database = database_in(self, TABLES)
            self._reader = reader(self.path, STATE)
            self._held.append(self._reader)
            # Everything read so far is on the disk.
            saved = Saved(database)
            count = self._count = AcknowledgedCount(self.path, saved)
            self._held.append(count)
            sync_directory(self.path)
            Journal.__init__(self, database, saved, self._first_row, self.require_open, count.write, count.sync)
            count.write(self._run, self.change)
            count.sync()
        except BaseException:
            self.close()
            raise

    def __str__(self) -> str:
        return str(self.path)

    def _first_row(self, query: Query, *values: Any) -> Any:
        """The first row of a query, from any thread. Raises OSError, and CheckpointError if the files are others now."""
        self.require_open()
        try:
            return self._reader.first(query, *values)
        except OSError:
            self.database.require_in_place()
            raise

    def append(self, changes: Sequence[Change], wait: bool) -> None:
        """Write changes, in order; on a full disk into the place of what has been moved into the database."""
        try:
            super().append(changes, wait)
        except OSError as error:
            if error.errno not in FULL:
                raise
            with contextlib.suppress(OSError):
                if self.database.moved_log():
                    super().append(changes, wait)
                    return
            raise

    def file(self, name: str) -> bytes | None:
        """A file in the folder; None if it is missing."""
        try:
            return (self.path / name).read_bytes()
        except FileNotFoundError:
            return None

    def put_file(self, name: str, content: bytes) -> None:
        """Replace a file in the folder, completely or not at all. Raises OSError."""
        write_atomically(self.path / name, content, 0o600)

    def file_names(self) -> list[str]:
        """The names of the files in the folder."""
        return os.listdir(self.path)

    def delete_file(self, name: str) -> None:
        """Delete a file in the folder, if it is there. Raises OSError."""
        (self.path / name).unlink(missing_ok=True)
        sync_directory(self.path)

    def has_room(self, n_bytes: int) -> bool:
        """Whether there is room on the disk for so much more."""
        return shutil.disk_usage(self.path).free >= n_bytes

    def purge(self) -> Iterator[None]:
        """Leave nothing of what was deleted in the files."""
        self.require_open()
        self.database.purge()
        yield

    def tidy(self) -> None:
        """Housekeeping between two commits, after requests were answered: move SQLite's log into the database, sync the
        count.
        """
        self.database.tidy()
        self._count.sync(at_once=False)

    @property
    def is_untidy(self) -> bool:
        """Whether `tidy` has something to do."""
        return self.database.is_untidy or self._count.is_late


def has_state(folder: Path) -> bool:
    """Whether something of a state lies in a folder. Raises OSError if nobody can tell."""
    sizes = [path.stat().st_size for path in (folder / STATE, folder / f"{STATE}-wal", folder / _COUNT) if path.exists()]
    return any(sizes)


def write_count(folder: Path, run: str, change: int) -> None:
    """Write the number of the last acknowledged change of a state that is about to be in a folder. Raises OSError."""
    write_atomically(folder / _COUNT, _line(run, change), 0o600)


def _line(run: str, change: int) -> bytes:
    """The number of the last acknowledged change, as a line of the count."""
    text = f"{run} {change}"
    return (f"{text} {digest_of(text.encode()).hex()}".ljust(_COUNT_SIZE - 1) + "\n").encode()


def _other(place: int) -> int:
    return _PLACES[1] if place == _PLACES[0] else _PLACES[0]


def _read_count(path: Path) -> tuple[tuple[str, int] | None, int]:
    """Name of the run, and number of the last acknowledged change, None where nothing was written yet; where to write next."""
    try:
        file = open_in(path.parent, path.name, os.O_RDONLY)
    except FileNotFoundError:
        return None, _PLACES[0]
    try:
        content = os.read(file, _PLACES[1] + _COUNT_SIZE + 1)
    finally:
        os.close(file)
    if not content.strip(b"\0"):
        return None, _PLACES[0]  # A crash of the system before the file was first synced: nothing had been acknowledged.
    whole = {place: found for place in _PLACES if (found := _parsed(content[place : place + _COUNT_SIZE])) is not None}
    if not whole:
        raise CheckpointError(f"{path} is damaged")
    newest = max(whole, key=lambda place: whole[place][1])
    return whole[newest], _other(newest)


def _parsed(line: bytes) -> tuple[str, int] | None:
    """Name of the run and number of the change on a line of the count; None for one that is damaged, or was never written."""
    parts = line.decode("latin-1").split()
    if len(line) != _COUNT_SIZE or len(parts) != 3 or digest_of(" ".join(parts[:2]).encode("latin-1")).hex() != parts[2]:
        return None
    return parts[0], int(parts[1])
