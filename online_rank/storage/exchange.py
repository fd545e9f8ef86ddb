"""Where learners of one stream leave their models for each other: a folder that all of them see, or PostgreSQL.

A name is given once: of two processes that put something under one name, the first one counts, for everybody and for ever. So
a process that was believed dead, and continues next to its successor, cannot change what others have read.
"""

import contextlib
import os
import re
import secrets
from pathlib import Path
from typing import Any, Protocol

from online_rank.storage.database import Query
from online_rank.storage.files import is_postgres, sync_directory
from online_rank.storage.folder import open_in
from online_rank.storage.postgres import PostgresRows, connected
from online_rank.storage.rights import begin_schema, require_own

_NAME = re.compile(r"[0-9a-z-]{1,100}")
_TABLE = "CREATE TABLE IF NOT EXISTS exchange(name TEXT PRIMARY KEY, content BYTEA NOT NULL)"
_PUT = "INSERT INTO exchange VALUES(?, ?) ON CONFLICT(name) DO NOTHING"
_GET = Query("SELECT content FROM exchange WHERE name = ?", (bytes,))
_NAMES = Query("SELECT name FROM exchange", (str,))


class Exchange(Protocol):
    """What learners need of a place. Names are of lower-case letters, digits and hyphens."""

    def put(self, name: str, content: bytes) -> None:
        """Keep a content under a name, unless the name has one. When this returns, the name has one that survives a crash.

        A process that deletes the name meanwhile comes after this.
        """

    def get(self, name: str) -> bytes | None:
        """The content of a name; None if it has none."""

    def names(self) -> set[str]:
        """The names that have a content."""

    def delete(self, name: str) -> None:
        """Delete a name with its content, if it is there."""

    def close(self) -> None:
        """Give back what is open."""


def exchange_at(place: str | os.PathLike[str]) -> Exchange:
    """The exchange in a folder, or in the PostgreSQL database with an address.

    Parameters
    ----------
    place
        A path, or `postgresql://user@host/name`.

    Raises
    ------
    CheckpointError
        Others own something in the schema of the database.
    OSError
        The folder cannot be made, or the database cannot be reached.

    Examples
    --------
    >>> import tempfile
    >>> from online_rank.storage.exchange import exchange_at
    >>> exchange = exchange_at(tempfile.mkdtemp())
    >>> exchange.put("3-mix", b"first")
    >>> exchange.put("3-mix", b"second")
    >>> exchange.get("3-mix"), exchange.names()
    (b'first', {'3-mix'})
    """
    return PostgresExchange(place) if is_postgres(place) else FolderExchange(place)


class FolderExchange:
    """An exchange in a folder, on one machine or on a file system that several mount.

    Parameters
    ----------
    path
        The folder. It is made if it is missing, for its owner alone; its parent must exist.
    """

    def __init__(self, path: str | os.PathLike[str]) -> None:
        self.path = Path(path)
        with contextlib.suppress(FileExistsError):
            self.path.mkdir(mode=0o700)
        sync_directory(self.path)

    def __str__(self) -> str:
        return str(self.path)

    def put(self, name: str, content: bytes) -> None:
        """Write a new file, and give it the name unless another one has it."""
        beginning = f".{_checked(name)}."
        hidden = beginning + secrets.token_hex(8)
        with os.fdopen(open_in(self.path, hidden, os.O_WRONLY | os.O_CREAT | os.O_EXCL), "wb") as file:
            file.write(content)
            file.flush()
            os.fsync(file.fileno())
        # FileNotFoundError: another process has deleted the name, and the hidden file with it.
        with contextlib.suppress(FileExistsError, FileNotFoundError):
            os.link(self.path / hidden, self.path / name)
        (self.path / hidden).unlink(missing_ok=True)
        sync_directory(self.path)

    def get(self, name: str) -> bytes | None:
        """The content of a file."""
        try:
            return (self.path / _checked(name)).read_bytes()
        except FileNotFoundError:
            return None

    def names(self) -> set[str]:
        """The names of whole files."""
        return {name for name in os.listdir(self.path) if _NAME.fullmatch(name)}

    def delete(self, name: str) -> None:
        """Delete a file, and what killed processes left of others that were to have its name."""
        for path in (self.path / _checked(name), *self.path.glob(f".{name}.*")):
            path.unlink(missing_ok=True)

    def close(self) -> None:
        """Nothing is open."""


class PostgresExchange(PostgresRows):
    """An exchange in a table of the schema `online_rank` of a database (extra `postgres`).

    Parameters
    ----------
    place
        Its address, as libpq takes it.
    """

    def __init__(self, place: Any) -> None:
        super().__init__(place, connected(place))
        with self._translated():
            begin_schema(self.connection)
            require_own(self.connection, str(self))
            self.connection.execute(_TABLE)

    def __str__(self) -> str:
        return str(self.path)

    def put(self, name: str, content: bytes) -> None:
        """Insert a row, unless the name has one; it is committed when this returns."""
        self._change(_PUT, _checked(name), content)

    def get(self, name: str) -> bytes | None:
        """The content of a row."""
        found = self.first(_GET, _checked(name))
        return None if found is None else found[0]

    def names(self) -> set[str]:
        """The names of all rows."""
        return {name for (name,) in self.rows(_NAMES)}

    def delete(self, name: str) -> None:
        """Delete a row."""
        self._change("DELETE FROM exchange WHERE name = ?", _checked(name))

    def _change(self, statement: str, *values: Any) -> None:
        with self._translated():
            self.connection.execute(statement, values)


def _checked(name: str) -> str:
    if not _NAME.fullmatch(name):
        raise ValueError(f"name is {name!r:.120}; it must be of lower-case letters, digits and hyphens, at most 100")
    return name
