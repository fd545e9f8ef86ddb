"""Access to SQLite: one writer, any number of readers, and no failure unnoticed."""

import contextlib
import ctypes
import errno
import hashlib
import os
import sqlite3
import tempfile
from collections.abc import Iterator, Sequence
from pathlib import Path
from typing import Any, NamedTuple

from online_rank.storage.folder import CheckpointError, ValueRefused, identity, open_in, sync_directory

#: Number of pages of the write-ahead log from which it is moved into the database; and where the disk is nearly full.
_MANY_PAGES, _FEW_PAGES = 1000, 32
#: Pages that the connections of the writer and of readers keep, in KiB: by the default of 2 MB, the memory of many models
#: grows with their files.
_CACHE_KIB, _READER_KIB = 192, 32
_LEAST_PAGES = 3

#: Bytes of the log that are written again at once.
_AT_ONCE = 1 << 20

#: Number of compiled statements to cache.
_STATEMENTS = 64

# Python's lock is released and taken again around each statement, and around each digest of 2,048 bytes or more. Next to a busy
# event loop every time takes up to a switch interval: a second's rankings took four seconds to write.
#: Rows of one statement.
_ROWS = 128
#: Bytes digested at once.
_SLICE = 2047

_NUMBERS = {"SQLITE_FULL": errno.ENOSPC, "SQLITE_CANTOPEN": errno.EMFILE, "SQLITE_READONLY": errno.EROFS}
#: SQLite tells a full disk only where the system says ENOSPC, and not from a quota or a limit of the size of files.
_NOT_WRITTEN = ("SQLITE_IOERR_WRITE", "SQLITE_IOERR_SHMSIZE")
#: Numbers of the errors that say that there is no room.
FULL = errno.ENOSPC, errno.EDQUOT, errno.EFBIG
_DAMAGED = ("SQLITE_CORRUPT", "SQLITE_NOTADB", "SQLITE_FORMAT")


class Query(NamedTuple):
    """A statement that selects rows, and the kind of each of their values."""

    statement: str
    kinds: tuple[Any, ...]


class Rows:
    """Read access to a database, for its writer and for others (`reading`).

    Parameters
    ----------
    path
        The file, or where else the database is; for messages.
    connection
        A connection to it.
    """

    def __init__(self, path: Path | str, connection: Any) -> None:
        self.path = path
        self.connection = connection

    def rows(self, query: Query, *values: Any) -> Iterator[Any]:
        """The rows of a query. Raises CheckpointError if a value is of another kind than the query declares."""
        with self._translated():
            for row in self.connection.execute(query.statement, values):
                yield self._whole(row, query)

    def first(self, query: Query, *values: Any) -> Any:
        """The first row of a query, or None. Raises CheckpointError as `rows` does."""
        with self._translated():
            row = self.connection.execute(query.statement, values).fetchone()
        return None if row is None else self._whole(row, query)

    def copy_to(self, target: Path) -> None:
        """Copy the database to an empty file, without a log next to it, in one step of SQLite's backup."""
        with self._translated(), contextlib.closing(sqlite3.connect(target, isolation_level=None)) as copy:
            self.connection.backup(copy)
            copy.execute("PRAGMA journal_mode=DELETE")

    def close(self) -> None:
        """Close the database; may be called again."""
        self.connection.close()

    def abandon(self) -> None:
        """In a forked child: never use the connection again. Not even closing it is safe, because the locks are the
        parent's.
        """
        ctypes.pythonapi.Py_IncRef(ctypes.py_object(self.connection))

    def _whole(self, row: Any, query: Query) -> Any:
        # SQLite keeps with each value what it is: one damaged bit makes a text of a blob.
        if not all(map(isinstance, row, query.kinds)):
            raise CheckpointError(f"{self.path} is damaged: a row has a value of the wrong kind")
        return row

    @contextlib.contextmanager
    def _translated(self) -> Iterator[None]:
        """A context that turns errors of SQLite into errors of this library, with the name of the file."""
        try:
            yield
        except sqlite3.Error as error:
            name = getattr(error, "sqlite_errorname", "")
            if name.startswith(_DAMAGED) or (isinstance(error, sqlite3.DatabaseError) and not name):
                raise CheckpointError(f"{self.path} is damaged: {error}") from None
            if name in ("SQLITE_TOOBIG", "SQLITE_MISMATCH"):
                raise ValueRefused(f"{self.path} cannot keep this: {error}") from None
            if name == "SQLITE_NOMEM":
                raise MemoryError(str(error)) from None
            number = self._reason() if name in _NOT_WRITTEN else _NUMBERS.get(name, errno.EIO)
            raise OSError(number, str(error), str(self.path)) from None

    def _reason(self) -> int:
        """The number of the error with which a file of the folder cannot be written where the log ends."""
        log = Path(f"{self.path}-wal")
        try:
            with tempfile.TemporaryFile(dir=log.parent) as file:
                os.pwrite(file.fileno(), bytes(_CACHE_KIB << 10), log.stat().st_size)
        except OSError as error:
            return error.errno or errno.EIO
        return errno.EIO


class Database(Rows):
    """A database in a locked folder, in write-ahead mode.

    With `wait` a transaction is on the disk when it returns (`synchronous=FULL`, one sync). Others survive the process, and
    reach the disk with the next transaction that waits. SQLite never moves its log into the database in the middle of a
    transaction: `tidy` moves it between two.

    What was read back after a failed sync only looks written: pages in the system's cache may not be on the disk, and another
    sync says that they are. So all that the log holds is written again, to the log and then into the database, before anything
    is given out.

    Parameters
    ----------
    path
        The folder, which a `Folder` has locked.
    name
        Name of the file.
    tables
        SQL that creates the tables if they do not exist.

    Raises
    ------
    CheckpointError
        The file is damaged, or not a database.
    OSError
        It cannot be read or written, or is not a regular file.
    """

    def __init__(self, path: Path, name: str, tables: str) -> None:
        self._file = file = path / name
        self._log = path / f"{name}-wal"
        for each in (name, f"{name}-wal", f"{name}-shm"):
            with contextlib.suppress(FileNotFoundError):
                os.close(open_in(path, each, os.O_RDWR))
        # Accessible only to the owner; SQLite gives its other files the same mode.
        os.close(open_in(path, name, os.O_RDWR | os.O_CREAT))
        self._names = str(self._file), str(self._log)
        self._in_place: dict[str, Any] = {}
        self._pages = 0
        self._write_log_anew()
        super().__init__(
            file, sqlite3.connect(file, isolation_level=None, check_same_thread=False, cached_statements=_STATEMENTS)
        )
        try:
            with self._translated():
                self._open(tables)
            self._see()
        except BaseException:
            self.connection.close()
            raise

    def _open(self, tables: str) -> None:
        for pragma in (
            "trusted_schema=OFF", "cell_size_check=ON", "wal_autocheckpoint=0", "synchronous=FULL", f"cache_size=-{_CACHE_KIB}",
        ):  # fmt: skip
            self.connection.execute(f"PRAGMA {pragma}")
        if self.connection.execute("PRAGMA journal_mode=WAL").fetchone() != ("wal",):
            raise OSError(errno.EINVAL, "cannot be written ahead", str(self.path))
        self._checkpoint("TRUNCATE")
        found = self.connection.execute("PRAGMA quick_check(1)").fetchone()[0]
        if found != "ok":
            raise CheckpointError(f"{self.path} is damaged: {found}")
        self.connection.executescript(tables)

    def _write_log_anew(self) -> None:
        """Write the log over itself, and wait until it is on the disk: SQLite brings into the database only what is in both."""
        with contextlib.suppress(FileNotFoundError):
            log = open_in(self._log.parent, self._log.name, os.O_RDWR)
            try:
                for at in range(0, os.fstat(log).st_size, _AT_ONCE):
                    content = os.pread(log, _AT_ONCE, at)
                    if os.pwrite(log, content, at) != len(content):
                        raise OSError(errno.ENOSPC, "was not written", str(self._log))
                os.fsync(log)
            finally:
                os.close(log)
            sync_directory(self._log.parent)

    @contextlib.contextmanager
    def transaction(self, wait: bool, n_bytes: int = 0) -> Iterator[sqlite3.Connection]:
        """A transaction; on the disk afterwards if `wait`. `n_bytes` is its approximate size.

        Raises
        ------
        OSError, CheckpointError
            Nothing was changed; or the files were removed, replaced or truncated while in use.
        """
        if wait:
            self.require_in_place()
        with self._translated():
            self.connection.execute(f"PRAGMA synchronous={'FULL' if wait else 'NORMAL'}")
            self.connection.execute("BEGIN IMMEDIATE")
            try:
                yield self.connection
                self.connection.execute("COMMIT")
            except BaseException:
                if self.connection.in_transaction:
                    self.connection.execute("ROLLBACK")
                raise
        self._pages += _LEAST_PAGES + n_bytes // 4096
        if _FEW_PAGES <= self._pages < _MANY_PAGES and self._lacks_room():
            self._pages = _MANY_PAGES
        self._see()

    def sync(self) -> None:
        """Wait until everything written is on the disk."""
        self.require_in_place()
        file = os.open(self._log, os.O_RDONLY)
        try:
            os.fsync(file)
        finally:
            os.close(file)

    def purge(self) -> None:
        """Rewrite database and log, so that nothing of deleted rows is left in the files.

        Raises
        ------
        OSError, CheckpointError
            The disk fails, or others read at the time: what was deleted may be in the files still.
        """
        self.require_in_place()
        with self._translated():
            self.connection.execute("PRAGMA synchronous=FULL")
            self.connection.execute("VACUUM")
            busy, _, _ = self.connection.execute("PRAGMA wal_checkpoint(TRUNCATE)").fetchone()
        self._pages = 0
        self._see()
        if busy:
            raise OSError(errno.EBUSY, "is being read, and keeps what was deleted", str(self.path))

    def tidy(self) -> None:
        """Move the log into the database if it has become long: to be called by the committing thread, after it has
        answered.
        """
        if self.is_untidy:
            with self._translated():
                self._checkpoint("PASSIVE")
            self._pages = 0

    def moved_log(self) -> bool:
        """Move the log into the database, where the disk is full: the next transactions then take the place that it has.

        Returns whether they do: a reader may need the log, and the database may lack room to grow.
        """
        with self._translated():
            _, length, moved = self.connection.execute("PRAGMA wal_checkpoint(PASSIVE)").fetchone()
        self._pages = 0
        return 0 < length == moved

    def _lacks_room(self) -> bool:
        """Whether the disk has so little room that the database may soon not grow by what the log has."""
        disk = os.statvfs(self._file)
        return disk.f_bavail * disk.f_frsize < 2 * 4096 * self._pages

    @property
    def is_untidy(self) -> bool:
        """Whether the log has become long."""
        return self._pages >= _MANY_PAGES

    def require_in_place(self) -> None:
        """Raise CheckpointError unless database and log are where a restart looks for them, as long as they were."""
        for path, (file, size) in self._in_place.items():
            there, now = identity(path)
            if there != file:
                raise CheckpointError(f"{path} was replaced while it was in use")
            if now < size:
                raise CheckpointError(f"{path} was cut short while it was in use")

    def _checkpoint(self, kind: str) -> None:
        self.connection.execute(f"PRAGMA wal_checkpoint({kind})").fetchall()

    def _see(self) -> None:
        """Remember the identity and size of the files."""
        before = self._in_place
        self._in_place = {path: identity(path) for path in self._names if path in before or os.path.exists(path)}


def insert(connection: sqlite3.Connection, table: str, rows: Sequence[tuple[Any, ...]]) -> None:
    """Insert rows, of all columns of a table."""
    for some in _batches(rows):
        marks = ", ".join(["(" + ", ".join("?" * len(some[0])) + ")"] * len(some))
        connection.execute(f"INSERT INTO {table} VALUES {marks}", [value for row in some for value in row])


def delete(connection: sqlite3.Connection, table: str, column: str, values: Sequence[Any]) -> None:
    """Delete the rows that have one of these values in a column."""
    for some in _batches(values):
        connection.execute(f"DELETE FROM {table} WHERE {column} IN ({', '.join('?' * len(some))})", some)


def _batches(rows: Sequence[Any]) -> Iterator[Sequence[Any]]:
    return (rows[at : at + _ROWS] for at in range(0, len(rows), _ROWS))


def digest_of(*parts: bytes | memoryview) -> bytes:
    """A 16-byte digest of concatenated parts."""
    digest = hashlib.blake2b(digest_size=16)
    for part in parts:
        if len(part) <= _SLICE:
            digest.update(part)
            continue
        for at in range(0, len(part), _SLICE):
            digest.update(part[at : at + _SLICE])
    return digest.digest()


def reader(path: str | os.PathLike[str], name: str) -> Rows:
    """Read access to a database, from any thread, while the writer continues.

    Raises OSError if the file is missing, CheckpointError if it is damaged.
    """
    file = Path(path).absolute() / name
    if not file.is_file():
        raise FileNotFoundError(errno.ENOENT, "there is no state", str(file))
    connection = sqlite3.connect(f"{file.as_uri()}?mode=ro", uri=True, isolation_level=None, check_same_thread=False)
    rows = Rows(file, connection)
    try:
        with rows._translated():
            connection.execute(f"PRAGMA cache_size=-{_READER_KIB}")
    except BaseException:
        rows.close()
        raise
    return rows


@contextlib.contextmanager
def at_rest(path: Path, name: str) -> Iterator[Rows]:
    """A database as it lies in a folder that this process has locked: nothing is written, not even what readers share.

    Raises OSError if the file is missing or cannot be read, CheckpointError if it is damaged.
    """
    file, log = path.absolute() / name, path.absolute() / f"{name}-wal"
    file.stat()
    # What lies in the log counts. SQLite takes none that is missing, and would have to create it.
    how = "vfs=unix-none" if log.is_file() and log.stat().st_size else "immutable=1"
    rows = Rows(file, sqlite3.connect(f"{file.as_uri()}?mode=ro&{how}", uri=True, isolation_level=None))
    try:
        with rows._translated():
            # Before the log is read: its index is then in this process alone.
            rows.connection.execute("PRAGMA locking_mode=EXCLUSIVE").fetchall()
            rows.connection.execute("BEGIN")
        yield rows
    finally:
        rows.close()


@contextlib.contextmanager
def reading(path: str | os.PathLike[str], name: str) -> Iterator[Rows]:
    """A snapshot of a database for reading, in any thread or process, while the writer continues.

    Raises OSError if the file is missing, CheckpointError if it is damaged.
    """
    rows = reader(path, name)
    try:
        rows.connection.execute("BEGIN")
        yield rows
    finally:
        rows.close()
