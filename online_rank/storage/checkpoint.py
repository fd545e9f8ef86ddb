"""Folders that hold the state of a run in SQLite, so that it survives being killed at any instant."""

import os
from collections.abc import Callable, Iterator
from typing import Any

from online_rank.storage.database import Database, Query, Rows, delete, digest_of
from online_rank.storage.earlier import continues
from online_rank.storage.files import ModelFileError
from online_rank.storage.folder import CheckpointError, Folder, sync_directory
from online_rank.storage.generations import Snapshot, assembled, pieces_of, taken
from online_rank.storage.tree import settings_of

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
    """States in a database, the newest of which counts; see `CheckpointDirectory`.

    Parameters
    ----------
    database
        The database, which is written here alone.
    """

    def __init__(self, database: Any) -> None:
        self.database = database
        #: The digests of the pieces that it has.
        self._stored = {name for (name,) in database.rows(_DIGESTS)}

    def writing(
        self,
        snapshot: Snapshot,
        change: int = 0,
        notes: bytes = b"",
        replaced: Callable[[Any], None] = lambda _: None,
    ) -> Iterator[None]:
        """Replace the state in several transactions, between which the caller may make others.

        `replaced` deletes what only earlier states needed, in the transaction that deletes them.

        Raises
        ------
        OSError, MemoryError, CheckpointError
            The previous state is still there, alone or with the new one.
        """
        manifest, contents = pieces_of(snapshot)
        new = [(name, content) for name, content in contents.items() if name not in self._stored]
        while new:
            size = 0
            with self.database.transaction(wait=False, n_bytes=_AT_ONCE) as connection:
                while new and size < _AT_ONCE:
                    name, content = new.pop()
                    connection.execute(_PUT_PIECE, (name, content))
                    self._stored.add(name)
                    size += len(content)
            yield
        with self.database.transaction(wait=True, n_bytes=len(manifest)) as connection:
            row = (change, notes, manifest, _sealed(change, notes, manifest))
            connection.execute(_PUT_GENERATION, row)
        yield
        # The previous state is deleted only after the new one was read back.
        try:
            _value_of(row, self.database)
        except ModelFileError:
            self._stored.clear()  # so that the next attempt writes every piece again
            raise
        yield
        kept = set(contents)
        with self.database.transaction(wait=False) as connection:
            connection.execute("DELETE FROM generation WHERE number < (SELECT max(number) FROM generation)")
            delete(connection, "piece", "digest", [*self._stored - kept])
            replaced(connection)
        self._stored = kept


class CheckpointDirectory(Folder):
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

    def __init__(self, path: str | os.PathLike[str]) -> None:
        super().__init__(path)
        try:
            self.database = database_in(self, GENERATIONS)
            self.generations = Generations(self.database)
        except BaseException:
            self.close()
            raise

    def read(self) -> Any:
        """The last state written, or None. Raises ModelFileError if it is damaged."""
        self.require_open()
        found = newest(self.database)
        return None if found is None else found[2]

    def write(self, state: Any) -> None:
        """Replace the state in one step; when this returns, it is on the disk and has been read back."""
        self.require_open()
        for _ in self.generations.writing(taken(state)):
            pass

    def require_same(self, name: str, kept: Any, given: Any) -> None:
        """Raise CheckpointError unless an object of the run has the settings of what was read, or may continue it."""
        if not continues(settings_of(kept), settings_of(given), str(self.path), stacklevel=5):
            raise CheckpointError(f"{self.path} holds the checkpoint of another run: its {name} has other parameters")


def database_in(folder: Folder, tables: str) -> Database:
    """The database in a folder, which closes it. Raises CheckpointError, OSError."""
    database = Database(folder.path, STATE, tables)
    folder._held.append(database)
    sync_directory(folder.path)
    return database


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
        raise ModelFileError(f"{rows.path}: {error}", later=error.later) from None


def _sealed(change: int, notes: bytes, manifest: bytes) -> bytes:
    return digest_of(b"%d %d " % (change, len(notes)), notes, manifest)
