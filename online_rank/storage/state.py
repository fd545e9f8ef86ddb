"""The state of a service in SQLite: its model, the waiting queries, the learned ids, and the journal of outcomes.

A generation holds the model and other small state after some change. The journal has a row for each change since then, with a
digest of it and of all rows before it. So the acknowledged state consists of the newest generation, the queries waiting and ids
known at that time, each in its own row, and the journal.

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
import json
import os
import secrets
import shutil
import time
from collections.abc import Iterator, Mapping, Sequence
from pathlib import Path
from typing import Any

from online_rank.storage.checkpoint import GENERATIONS, STATE, CheckpointDirectory
from online_rank.storage.database import Query, delete, digest_of, insert
from online_rank.storage.files import write_atomically
from online_rank.storage.folder import OWNER, CheckpointError, identity, open_in, sync_directory
from online_rank.storage.saved import Saved, chained, digest_of_id, digest_of_query
from online_rank.storage.store import Change, Generation, StateStore

_COUNT = "acknowledged"
_COUNT_SIZE = 128
#: The files of a state: the database, which is the first to come, with SQLite's log, the count, and the owner of the lock.
STATE_FILES = (STATE, f"{STATE}-wal", f"{STATE}-shm", _COUNT, OWNER)
#: The count is written into two places in turn, in sectors of their own: one that is cut short leaves the one before.
_PLACES = (0, 512)
_SECONDS_BETWEEN_SYNCS = 1.0
#: With each generation as many of the ids that have expired go as twice the changes since the last one, and so many more.
_MORE = 1000

_QUERY = Query("SELECT content, digest FROM query WHERE number = ?", (bytes, bytes))
#: The last one: an id that was learned again may have another row, which was forgotten or has expired.
_LEARNED = Query(
    "SELECT change, id, feedback, at, digest FROM learned WHERE id = ? AND change <= ? ORDER BY change DESC LIMIT 1",
    (int, str, int, float, bytes),
)
_N_LEARNED = Query("SELECT count(*) FROM learned WHERE change >= ?", (int,))
_OLDEST = Query("SELECT change, at FROM learned WHERE change >= ? ORDER BY change LIMIT ?", (int, float))

_TABLES = f"""{GENERATIONS}
CREATE TABLE IF NOT EXISTS journal(change INTEGER PRIMARY KEY, outcome BLOB NOT NULL, number INTEGER, digest BLOB NOT NULL);
CREATE TABLE IF NOT EXISTS query(number INTEGER PRIMARY KEY, content BLOB NOT NULL, digest BLOB NOT NULL);
CREATE TABLE IF NOT EXISTS learned(
    change INTEGER PRIMARY KEY, id TEXT NOT NULL, feedback INTEGER NOT NULL, at REAL NOT NULL, digest BLOB NOT NULL);
CREATE INDEX IF NOT EXISTS learned_id ON learned(id);
"""


class StateDirectory(CheckpointDirectory, StateStore):
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

    saved: Saved

    _tables = _TABLES

    _acknowledged = _synced = -1
    _synced_at = 0.0

    def __init__(self, path: str | os.PathLike[str]) -> None:
        self._count = -1
        super().__init__(path)
        try:
            # Everything read so far is on the disk.
            self.saved = Saved(self._database)
            counted, self._place = _read_count(self.path / _COUNT)
            self._require_acknowledged(counted)
            self._run, self._chain = self.saved.run or secrets.token_hex(16), self.saved.chain
            self.change, self.journal_bytes = self.saved.change, self.saved.journal_bytes
            #: The last change that the newest generation covers; the oldest whose learned id is remembered, and their number.
            self._covered, self._first = self.saved.start, self.saved.first
            (self._n_learned,) = self._database.first(_N_LEARNED, self._first)
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

    def query(self, number: int) -> bytes:
        """A query, from any thread. Raises CheckpointError when it is damaged or missing."""
        row = self._read(_QUERY, number)
        self.saved.require(
            row is not None and row[1] == digest_of_query(number, row[0]), f"query {number} is missing or damaged"
        )
        return row[0]

    def learned(self, query_id: str) -> tuple[int, int, float] | None:
        """The change by which an id, in JSON, was learned, the digest of its feedback, and when; None for an unknown one.

        From any thread. Raises CheckpointError when it is damaged.
        """
        row = self._read(_LEARNED, query_id, self.change)
        if row is None:
            return None
        *found, digest = row
        self.saved.require(digest == digest_of_id(*found), f"the id learned by change {found[0]} is damaged")
        change, _, feedback, at = found
        return change, feedback, at

    def _read(self, query: Query, *values: Any) -> Any:
        """The first row of a query, from any thread. Raises OSError, and CheckpointError if the files are others now."""
        self.require_open()
        try:
            return self._reader.first(query, *values)
        except OSError:
            self._database.require_in_place()
            raise

    def append(self, changes: Sequence[Change], wait: bool) -> None:
        """Write changes, in order; if `wait`, they are on the disk and counted as acknowledged when this returns.

        Raises
        ------
        OSError, CheckpointError
            They are not on the disk. Nothing may be acknowledged, and nothing more appended.
        """
        self.require_open()
        at, chain = self.change, self._chain
        journal: list[tuple[Any, ...]] = []
        queries: list[tuple[Any, ...]] = []
        learned: list[tuple[Any, ...]] = []
        for outcome, number, content, ended in changes:
            at += 1
            own = b"" if number is None else digest_of_query(number, content)
            chain = chained(chain, at, outcome, own)
            journal.append((at, outcome, number, chain))
            if number is not None:
                queries.append((number, content, own))
            if ended is not None:
                query_id, feedback, time_of = ended
                learned.append((at, query_id, feedback, time_of, digest_of_id(at, query_id, feedback, time_of)))
        n_bytes = sum(len(change.outcome) + len(change.query) for change in changes)
        if journal:
            with self._database.transaction(wait, n_bytes) as connection:
                for table, rows in (("journal", journal), ("query", queries), ("learned", learned)):
                    insert(connection, table, rows)
        elif wait:
            self._database.sync()
        self.change, self._chain = at, chain
        self._n_learned += len(learned)
        self.journal_bytes += n_bytes
        if wait:
            self._acknowledge()

    def replacing(self, generation: Generation) -> Iterator[None]:
        """Write a generation, whose last change is the last that was appended, as `writing` does.

        Raises ValueError where it is not: its state could not be told from a damaged one, and the one before is still there.
        """
        if generation.change != self.change:
            raise ValueError(f"the state after change {generation.change} is to be written, but the journal has {self.change}")
        self._generation, before = generation, self.journal_bytes
        # Rows since the last generation have come: as many may go, and some more.
        oldest = self._database.rows(_OLDEST, self._first, 2 * (self.change - self._covered) + _MORE)
        expired = [each for each, at in oldest if at < generation.expired]
        self._first, self._n_learned = max([self._first, *(each + 1 for each in expired)]), self._n_learned - len(expired)
        notes = json.dumps((self._run, self._chain.hex(), self._first, self._n_learned)).encode()
        yield from self.writing(generation.snapshot, generation.change, notes)
        self.journal_bytes -= before
        self._covered = generation.change
        self.sync_count(at_once=True)

    def replace_queries(self, queries: Mapping[int, bytes]) -> None:
        """Replace queries by others, under the same numbers; they are on the disk when this returns.

        The last change appended is that of the newest generation: later ones have digests of these queries.
        """
        self.require_open()
        rows = [(content, digest_of_query(number, content), number) for number, content in queries.items()]
        with self._database.transaction(wait=True) as connection:
            connection.executemany("UPDATE query SET content = ?, digest = ? WHERE number = ?", rows)

    def file(self, name: str) -> bytes | None:
        """A file in the folder; None if there is none."""
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

    def purge(self) -> None:
        """Leave nothing of what was deleted in the files."""
        self.require_open()
        self._database.purge()

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
        there, _ = identity(self.path / _COUNT)
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

    def _replaced(self, connection: Any, change: int) -> None:
        connection.execute("DELETE FROM journal WHERE change <= ?", (change,))
        connection.execute("DELETE FROM learned WHERE change < ?", (self._first,))
        for forgotten in self._generation.forgotten:
            while (row := self._database.first(_LEARNED, *forgotten)) is not None:
                # Rows are counted, so this one stays, with an id that nobody knows.
                learned_by, nobody = row[0], json.dumps(secrets.token_hex(16))
                new = nobody, digest_of_id(learned_by, nobody, *row[2:4]), learned_by
                connection.execute("UPDATE learned SET id = ?, digest = ? WHERE change = ?", new)
        delete(connection, "query", "number", self._generation.gone)


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
