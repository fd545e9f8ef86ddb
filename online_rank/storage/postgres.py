"""The state of a service in PostgreSQL: one server leads, others wait (extra `postgres`).

The session that reads holds an advisory lock, which ends with it, and a thread uses it once a second: PostgreSQL ends the
session of a server that has stopped. Whoever gets the lock begins a new epoch, and each transaction of a leader requires that
its epoch is the present one. So a server that was superseded, and does not know it, writes nothing.
"""

import contextlib
import errno
import functools
import threading
from collections.abc import Callable, Iterator
from typing import Any

from online_rank.storage.database import Query, Rows
from online_rank.storage.files import is_postgres
from online_rank.storage.folder import CheckpointError, FolderInUse
from online_rank.storage.journal import TABLES, Journal
from online_rank.storage.saved import Saved
from online_rank.support.lazy import needs

_SCHEMA = "online_rank"
#: The advisory lock of the leader; there is one of each number in a database.
_LOCK = int.from_bytes(_SCHEMA.encode()[:8])
#: Milliseconds after which PostgreSQL ends the sessions of a leader that has stopped, and seconds between two signs of life.
_LEASE_MS, _BEAT = 5000, 1.0
#: What notices that the network or the machine at the other end is gone; an address may say otherwise.
_PATIENCE: dict[str, Any] = {
    "connect_timeout": 5, "keepalives_idle": 2, "keepalives_interval": 1, "keepalives_count": 3, "tcp_user_timeout": 5000,
    "application_name": _SCHEMA,
}  # fmt: skip
#: The types of SQLite, in PostgreSQL.
_TYPES = {"INTEGER": "BIGINT", "BLOB": "BYTEA", "REAL": "DOUBLE PRECISION", " WITHOUT ROWID": ""}
_MORE_TABLES = """
CREATE TABLE IF NOT EXISTS leader(epoch BIGINT NOT NULL);
INSERT INTO leader SELECT 0 WHERE NOT EXISTS (SELECT 1 FROM leader);
CREATE TABLE IF NOT EXISTS file(name TEXT PRIMARY KEY, content BYTEA NOT NULL);
"""
_EPOCH = Query("SELECT epoch FROM leader", (int,))
_FILE = Query("SELECT content FROM file WHERE name = ?", (bytes,))
_FILES = Query("SELECT name FROM file", (str,))
_PUT_FILE = "INSERT INTO file VALUES(?, ?) ON CONFLICT(name) DO UPDATE SET content = excluded.content"


class _PostgresRows(Rows):
    """Read access to the state in a database; `failed` takes the errors after which a connection is of no use."""

    def __init__(self, place: str, connection: Any, failed: Callable[[OSError], None] = lambda _: None) -> None:
        super().__init__(shown(place), connection)
        self._failed = failed

    @contextlib.contextmanager
    def _translated(self) -> Iterator[None]:
        import psycopg

        try:
            yield
        except psycopg.Error as error:
            text = str(error).partition("\n")[0] or type(error).__name__
            if error.sqlstate in ("XX001", "XX002"):
                raise CheckpointError(f"{self.path} is damaged: {text}") from None
            if error.sqlstate in ("42703", "42P01"):
                raise CheckpointError(
                    f"{self.path} has other tables in the schema {_SCHEMA} than this release: {text}"
                ) from None
            if error.sqlstate == "53100":
                raise OSError(errno.ENOSPC, text, self.path) from None
            failure = OSError(errno.EIO, text, self.path)
            self._failed(failure)
            raise failure from None


class _PostgresDatabase(_PostgresRows):
    """The connection of a leader that writes in an epoch; transactions of several threads come in turn."""

    def __init__(self, place: str, connection: Any, failed: Callable[[OSError], None], epoch: int) -> None:
        super().__init__(place, connection, failed)
        self.epoch = epoch
        self._lock = threading.Lock()
        with self._translated():
            # One that has stopped in a transaction would keep others from beginning an epoch.
            connection.execute(f"SET idle_in_transaction_session_timeout = {_LEASE_MS}")

    @contextlib.contextmanager
    def transaction(self, wait: bool, n_bytes: int = 0) -> Iterator[Any]:
        """A transaction, as `Database` has it. Raises OSError, also where another server leads: nothing was changed."""
        with self._lock, self._translated(), self._connection.transaction():
            if not wait:
                self._connection.execute("SET LOCAL synchronous_commit = off")
            # It locks the row: another server cannot begin an epoch before this transaction ends.
            mine = self._connection.execute("UPDATE leader SET epoch = epoch WHERE epoch = ?", (self.epoch,))
            if mine.rowcount != 1:
                failure = OSError(errno.EIO, f"another server leads since epoch {self.epoch}", self.path)
                self._failed(failure)
                raise failure
            yield self._connection

    def sync(self) -> None:
        """Wait until everything written survives a crash of the database: a later transaction that waits does that."""
        with self.transaction(wait=True):
            pass

    def purge(self) -> None:
        """Rewrite the tables, without deleted rows."""
        with self._lock, self._translated():
            self._connection.execute("VACUUM FULL piece, generation, journal, query, learned, file")


class PostgresState(Journal):
    """The state of a service in a PostgreSQL database, in the schema `online_rank`, while this server leads.

    Parameters
    ----------
    place
        Address of the database, `postgresql://user@host/name`, as libpq takes it. Poolers must keep sessions.

    Attributes
    ----------
    epoch : int
        The number of the epoch in which this server leads, from 1.
    failure : OSError or None
        Why this server does not lead any more; None while it does, as far as it knows.

    Raises
    ------
    FolderInUse
        Another server leads.
    CheckpointError
        The state is damaged.
    OSError
        The database cannot be reached.
    ImportError
        psycopg is not installed.
    """

    #: The database has its own housekeeping.
    is_untidy = False

    def __init__(self, place: str) -> None:
        self._name = shown(place)
        self.failure: OSError | None = None
        self._connections: list[_PostgresRows] = []
        self._ended = threading.Event()
        try:
            self._reader = _PostgresRows(place, _connected(place), self._fail)
            self._connections.append(self._reader)
            with self._reader._translated():
                self.epoch = self._led(self._reader._connection)
            database = _PostgresDatabase(place, _connected(place), self._fail, self.epoch)
            self._connections.append(database)
            super().__init__(database, Saved(database), self._first_row, self.require_open)
        except BaseException:
            self.close()
            raise
        self._heart = threading.Thread(target=self._beat, name="online_rank leads", daemon=True)
        self._heart.start()

    def __str__(self) -> str:
        return self._name

    def _led(self, connection: Any) -> int:
        """The number of the epoch that begins, once this session holds the lock. Raises FolderInUse."""
        if not connection.execute("SELECT pg_try_advisory_lock(?)", (_LOCK,)).fetchone()[0]:
            raise FolderInUse(f"{self._name}: another server leads")
        connection.execute(f"SET idle_session_timeout = {_LEASE_MS}")
        tables = functools.reduce(lambda text, each: text.replace(*each), _TYPES.items(), TABLES)
        connection.execute(f"CREATE SCHEMA IF NOT EXISTS {_SCHEMA};{tables}{_MORE_TABLES}")
        # From here on, transactions of the leader before change nothing.
        return int(connection.execute("UPDATE leader SET epoch = epoch + 1 RETURNING epoch").fetchone()[0])

    def _beat(self) -> None:
        """Use the session that holds the lock, until it is lost."""
        while not self._ended.wait(_BEAT) and self.failure is None:
            with contextlib.suppress(OSError):
                (epoch,) = self._reader.first(_EPOCH)
                if epoch != self.epoch:
                    self._fail(OSError(errno.EIO, f"another server leads, in epoch {epoch}", self._name))

    def _fail(self, error: OSError) -> None:
        self.failure = self.failure or error

    def require_open(self) -> None:
        """Raise OSError when another server may lead, and CheckpointError after `close`."""
        if self._ended.is_set():
            raise CheckpointError(f"{self._name} is closed")
        if self.failure is not None:
            raise self.failure

    def _first_row(self, query: Query, *values: Any) -> Any:
        self.require_open()
        return self._reader.first(query, *values)

    def file(self, name: str) -> bytes | None:
        """A file; None if it is missing."""
        found = self._first_row(_FILE, name)
        return None if found is None else found[0]

    def put_file(self, name: str, content: bytes) -> None:
        """Replace a file, completely or not at all. Raises OSError."""
        self._write(_PUT_FILE, name, content)

    def file_names(self) -> list[str]:
        """The names of the files."""
        self.require_open()
        return [name for (name,) in self._reader.rows(_FILES)]

    def delete_file(self, name: str) -> None:
        """Delete a file, if it is there. Raises OSError."""
        self._write("DELETE FROM file WHERE name = ?", name)

    def _write(self, statement: str, *values: Any) -> None:
        self.require_open()
        with self._database.transaction(wait=True) as connection:
            connection.execute(statement, values)

    def has_room(self, n_bytes: int) -> bool:
        """Whether there is room for more: the database alone knows."""
        return True

    def tidy(self) -> None:
        """Nothing to do."""

    def purge(self) -> None:
        """Leave nothing of what was deleted in the tables; PostgreSQL's log and backups of it keep it for their time."""
        self.require_open()
        self._database.purge()

    def close(self) -> None:
        """Give the lead back. May be called again."""
        self._ended.set()
        for each in reversed(self._connections):
            each.close()


@contextlib.contextmanager
def saved_in_postgres(place: str) -> Iterator[Saved]:
    """The current state of a service in a database, read without its lock, while a server leads. Raises as `saved_state`."""
    with contextlib.closing(_PostgresRows(place, _connected(place))) as rows, rows._translated():
        rows._connection.execute("BEGIN ISOLATION LEVEL REPEATABLE READ READ ONLY")
        yield Saved(rows)


def require_folder(place: Any, instead: str) -> None:
    """Raise ValueError for the address of a database where a folder is needed; `instead` says what to do."""
    if is_postgres(place):
        raise ValueError(f"{shown(place)} is a database, not a folder: {instead}")


def shown(place: str) -> str:
    """An address without user, password and options, for messages.

    Examples
    --------
    >>> shown("postgresql://tester:secret@db.example:5432/shop?sslmode=require")
    'postgresql://db.example:5432/shop'
    """
    scheme, _, rest = place.partition("://")
    return f"{scheme}://{rest.partition('?')[0].rpartition('@')[2]}"


def _connected(place: str) -> Any:
    """A connection that takes SQLite's statements, and commits each outside of a transaction. Raises OSError, ImportError."""
    with needs("PostgreSQL", "postgres"):
        import psycopg
        from psycopg.conninfo import conninfo_to_dict, make_conninfo

    class Cursor(psycopg.Cursor[Any]):
        def execute(self, query: Any, params: Any = None, **options: Any) -> Any:
            return super().execute(_in_postgres(query), params, **options)

        def executemany(self, query: Any, params_seq: Any, **options: Any) -> None:
            super().executemany(_in_postgres(query), params_seq, **options)

    try:
        address = make_conninfo(**{**_PATIENCE, **conninfo_to_dict(place)})
        connection = psycopg.connect(address, autocommit=True, cursor_factory=Cursor)
        # What was acknowledged is on the disk, even if the database has another default.
        connection.execute(
            f"SET search_path = {_SCHEMA};"
            "SELECT set_config('synchronous_commit', 'on', false) WHERE current_setting('synchronous_commit') = 'off'"
        )
    except psycopg.Error as error:
        raise OSError(errno.EIO, str(error).partition("\n")[0], shown(place)) from None
    return connection


def _in_postgres(statement: str) -> str:
    """A statement of SQLite, for psycopg."""
    return statement.replace("?", "%s").replace(" INDEXED BY learned_id", "")
