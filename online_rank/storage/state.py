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
from collections.abc import Iterator
from pathlib import Path
from typing import Any

from online_rank.storage.checkpoint import STATE, CheckpointDirectory
from online_rank.storage.database import Query, digest_of
from online_rank.storage.files import write_atomically
from online_rank.storage.folder import OWNER, CheckpointError, identity, open_in, sync_directory
from online_rank.storage.journal import TABLES, Journal
from online_rank.storage.store import Generation

_COUNT = "acknowledged"
_COUNT_SIZE = 128
#: The files of a state: the database, which is the first to come, with SQLite's log, the count, and the owner of the lock.
STATE_FILES = (STATE, f"{STATE}-wal", f"{STATE}-shm", _COUNT, OWNER)
#: The count is written into two places in turn, in separate sectors: one that is cut short leaves the one before.
_PLACES = (0, 512)
_SECONDS_BETWEEN_SYNCS = 1.0


class StateDirectory(Journal, CheckpointDirectory):
    """A folder with the state of a service, locked while it is open.

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

    _tables = TABLES

    _acknowledged = _synced = -1
    _synced_at = 0.0

    def __init__(self, path: str | os.PathLike[str]) -> None:
        self._count, self._count_path = -1, os.path.join(path, _COUNT)
        super().__init__(path)
        try:
            # Everything read so far is on the disk.
            self._continue()
            counted, self._place = _read_count(self.path / _COUNT)
            self._require_acknowledged(counted)
            self._count = open_in(self.path, _COUNT, os.O_RDWR | os.O_CREAT)
            sync_directory(self.path)
            self._acknowledge()
            self.sync_count(at_once=True)
        except BaseException:
            self.close()
            raise

    def __str__(self) -> str:
        return str(self.path)

    def close(self) -> None:
        """Release the folder. May be called again."""
        if self._count >= 0:
            if not self._forked:
                with contextlib.suppress(OSError):
                    self.sync_count(at_once=True)
            os.close(self._count)
            self._count = -1
        super().close()

    def _read(self, query: Query, *values: Any) -> Any:
        """The first row of a query, from any thread. Raises OSError, and CheckpointError if the files are others now."""
        self.require_open()
        try:
            return self._reader.first(query, *values)
        except OSError:
            self._database.require_in_place()
            raise

    def replacing(self, generation: Generation) -> Iterator[None]:
        """Write a generation, as a `StateStore` does; the count is synced."""
        yield from super().replacing(generation)
        self.sync_count(at_once=True)

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
        self._database.purge()
        yield

    def tidy(self) -> None:
        """Housekeeping between two commits, after requests were answered: move SQLite's log into the database, sync the
        count.
        """
        self._database.tidy()
        self.sync_count()

    @property
    def is_untidy(self) -> bool:
        """Whether `tidy` has something to do."""
        return self._database.is_untidy or self._is_late

    def sync_count(self, at_once: bool = False) -> None:
        """Sync the number of the last acknowledged change, now or if it was not synced for a second."""
        if (at_once and self._acknowledged != self._synced) or self._is_late:
            os.fsync(self._count)
            self._synced, self._synced_at = self._acknowledged, time.monotonic()

    @property
    def _is_late(self) -> bool:
        return self._acknowledged != self._synced and time.monotonic() - self._synced_at >= _SECONDS_BETWEEN_SYNCS

    def _require_acknowledged(self, counted: tuple[str, int] | None) -> None:
        """Raise CheckpointError if acknowledged changes, or the count itself, are missing."""
        saved = self.saved
        run, acknowledged = counted or (saved.run, 0)
        saved.require(bool(saved.run) or not (acknowledged or saved.change), "its first generation is missing")
        saved.require(counted is not None or not saved.change, f"{_COUNT} is missing or empty")
        saved.require(run == saved.run or not (saved.run and acknowledged), f"{_COUNT} is of another run")
        missing = acknowledged - saved.change
        saved.require(missing <= 0, f"{missing} acknowledged changes are missing: the end of its log is damaged or cut off")

    def _acknowledge(self) -> None:
        """Write the number of the last change outside the log."""
        line = _line(self._run, self.change)
        there, _ = identity(self._count_path)
        here = os.fstat(self._count)
        self.saved.require(there == (here.st_ino, here.st_dev), f"{_COUNT} was replaced while it was in use")
        try:
            is_written = os.pwrite(self._count, line, self._place) == _COUNT_SIZE
        except OSError:
            # Its place on the disk is there: this is another error than a full disk, after which the changes would come again.
            is_written = False
        if not is_written:
            raise OSError(errno.EIO, "was not written", str(self.path / _COUNT))
        self._place = _other(self._place)
        self._acknowledged = self.change


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
