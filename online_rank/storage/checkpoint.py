"""Folders that hold the state of a run in SQLite, so that it survives being killed at any instant."""

import os
from collections.abc import Iterator
from typing import Any

from online_rank.storage.database import Database, Query, Rows, delete, digest_of, reader
from online_rank.storage.files import ModelFileError
from online_rank.storage.folder import Folder, sync_directory
from online_rank.storage.generations import Snapshot, assembled, pieces_of, taken

#: The database in a folder.
STATE = "state.db"

#: A piece is stored under its digest; a generation lists its pieces. `change` counts the changes of the value before it.
GENERATIONS = """
CREATE TABLE IF NOT EXISTS piece(digest BLOB PRIMARY KEY, content BLOB NOT NULL) WITHOUT ROWID;
CREATE TABLE IF NOT EXISTS generation(
    number INTEGER PRIMARY KEY, change INTEGER NOT NULL, notes BLOB NOT NULL, manifest BLOB NOT NULL, digest BLOB NOT NULL);
"""

_DIGESTS = Query("SELECT digest FROM piece", (bytes,))
_PIECE = Query("SELECT content FROM piece WHERE digest = ?", (bytes,))
_GENERATIONS = Query("SELECT change, notes, manifest, digest FROM generation ORDER BY number DESC", (int, bytes, bytes, bytes))
_PUT_PIECE = "INSERT INTO piece VALUES(?, ?) ON CONFLICT(digest) DO UPDATE SET content = excluded.content"
_PUT_GENERATION = "INSERT INTO generation SELECT coalesce(max(number), 0) + 1, ?, ?, ?, ? FROM generation"

#: Bytes of pieces written in one transaction; other transactions may come in between.
_AT_ONCE = 1 << 18


class Generations:
    """States in a database, the newest of which counts; see `CheckpointDirectory`."""

    #: The database, and the digests of the pieces that it has.
    _database: Any
    _stored: set[bytes]

    def require_open(self) -> None:
        """Raise CheckpointError, or OSError, if the database cannot be used any more."""
        raise NotImplementedError

    def read(self) -> Any:
        """The last state written, or None. Raises ModelFileError if it is damaged."""
        self.require_open()
        found = newest(self._database)
        return None if found is None else found[2]

    def write(self, state: Any) -> None:
        """Replace the state in one step; when this returns, it is on the disk and has been read back."""
        for _ in self.writing(taken(state)):
            pass

    def writing(self, snapshot: Snapshot, change: int = 0, notes: bytes = b"") -> Iterator[None]:
        """Replace the state in several transactions, between which the caller may make others.

        Raises
        ------
        OSError, MemoryError, CheckpointError
            The previous state is still there, alone or with the new one.
        """
        self.require_open()
        manifest, contents = pieces_of(snapshot)
        new = [(name, content) for name, content in contents.items() if name not in self._stored]
        while new:
            size = 0
            with self._database.transaction(wait=False, n_bytes=_AT_ONCE) as connection:
                while new and size < _AT_ONCE:
                    name, content = new.pop()
                    connection.execute(_PUT_PIECE, (name, content))
                    self._stored.add(name)
                    size += len(content)
            yield
        with self._database.transaction(wait=True, n_bytes=len(manifest)) as connection:
            row = (change, notes, manifest, _sealed(change, notes, manifest))
            connection.execute(_PUT_GENERATION, row)
        yield
        # The previous state is deleted only after the new one was read back.
        try:
            _value_of(row, self._database)
        except ModelFileError:
            self._stored.clear()  # so that the next attempt writes every piece again
            raise
        yield
        kept = set(contents)
        with self._database.transaction(wait=False) as connection:
            connection.execute("DELETE FROM generation WHERE number < (SELECT max(number) FROM generation)")
            delete(connection, "piece", "digest", [*self._stored - kept])
            self._replaced(connection, change)
        self._stored = kept

    def _replaced(self, connection: Any, change: int) -> None:
        """Delete pieces that only earlier states needed."""


class CheckpointDirectory(Folder, Generations):
    """A folder with the state of one run, locked while it is open.

    A new state is written next to the previous one, which is deleted once the new one has been read back. Only changes are
    written: a state is stored in pieces of 64 KiB, each under its digest.

    Parameters
    ----------
    path
        The folder; it is created if missing, but its parent must exist.

    Raises
    ------
    CheckpointError
        Another process, or another part of this one, is using the folder; or it is damaged.
    OSError
        The folder cannot be created or written to.

    Examples
    --------
    >>> import tempfile
    >>> from online_rank.storage.checkpoint import CheckpointDirectory
    >>> with CheckpointDirectory(tempfile.mkdtemp()) as directory:
    ...     print(directory.read())
    ...     directory.write({"queries": 10})
    ...     print(directory.read())
    None
    {'queries': 10}
    """

    _tables = GENERATIONS

    def __init__(self, path: str | os.PathLike[str]) -> None:
        super().__init__(path)
        try:
            self._database = Database(self.path, STATE, self._tables)
            self._reader = reader(self.path, STATE)
            sync_directory(self.path)
            self._stored = {name for (name,) in self._database.rows(_DIGESTS)}
        except BaseException:
            self.close()
            raise

    def close(self) -> None:
        """Release the folder. May be called again."""
        # In a forked child the connections are not this process's to close.
        for each in () if self._forked else self._connections():
            each.close()
        super().close()

    def _give_up(self) -> None:
        super()._give_up()
        for each in self._connections():
            each.abandon()

    def _connections(self) -> list[Rows]:
        """The open connections, the writer's last: it is closed last."""
        return [vars(self)[name] for name in ("_reader", "_database") if name in vars(self)]


def newest(rows: Rows) -> tuple[int, bytes, Any] | None:
    """The newest complete state: the number of its last change, its notes, and the value. Raises ModelFileError."""
    failure: ModelFileError | None = None
    for row in list(rows.rows(_GENERATIONS)):
        try:
            return row[0], row[1], _value_of(row, rows)
        except ModelFileError as error:
            failure = failure or error
    if failure is not None:
        raise failure
    return None


def _value_of(row: Any, rows: Rows) -> Any:
    """The value of a row of `generation`."""
    change, notes, manifest, digest = row

    def piece(name: bytes) -> bytes | None:
        found = rows.first(_PIECE, name)
        return None if found is None else found[0]

    try:
        if digest != _sealed(change, notes, manifest):
            raise ModelFileError("a state is damaged (its digest is wrong)")
        return assembled(manifest, piece)
    except ModelFileError as error:
        raise ModelFileError(f"{rows.path}: {error}") from None


def _sealed(change: int, notes: bytes, manifest: bytes) -> bytes:
    return digest_of(b"%d %d " % (change, len(notes)), notes, manifest)
