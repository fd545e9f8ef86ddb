"""The state of a service in PostgreSQL: one server leads, others wait (extra `postgres`).

A session of the leader holds a lock on the view `lead`, in a transaction that stays open, and a thread uses it once a second:
PostgreSQL ends the session of a server that has stopped. Only who may write to the schema can take this lock; a transaction
that has written nothing keeps no row from being vacuumed, and a view has none. Whoever gets the lock begins a new epoch, and
each transaction of a leader requires that its epoch is the present one. So a server that was superseded, and does not know it,
writes nothing.

Every statement has a time limit, also while it waits for a lock. `SECURITY.md` has what other roles and programs may do.
"""

import contextlib
import errno
import functools
import threading
from collections.abc import Callable, Iterator
from typing import Any

from online_rank.storage.database import Query, Rows
from online_rank.storage.files import is_postgres
from online_rank.storage.folder import CheckpointError, FolderInUse, StatementFailed, ValueRefused
from online_rank.storage.journal import TABLES, Journal
from online_rank.storage.rights import SCHEMA as _SCHEMA
from online_rank.storage.rights import begin_schema, require_own, require_sessions
from online_rank.storage.saved import Saved
from online_rank.support.lazy import needs

#: Milliseconds after which PostgreSQL ends the sessions of a leader that has stopped, and seconds between two signs of life.
_LEASE_MS, _BEAT = 5000, 1.0
#: Milliseconds that a statement may take, and may wait for a lock; rewriting pages may take longer, and is repeated later.
_STATEMENT_MS, _LOCK_MS, _PURGE_MS = 30_000, 3000, 600_000
#: What notices that the network or the machine at the other end is gone; an address may say otherwise.
_PATIENCE: dict[str, Any] = {
    "connect_timeout": 5, "keepalives_idle": 2, "keepalives_interval": 1, "keepalives_count": 3, "tcp_user_timeout": 5000,
    "application_name": _SCHEMA,
}  # fmt: skip
#: The types of SQLite, in PostgreSQL.
_TYPES = {"INTEGER": "BIGINT", "BLOB": "BYTEA", "REAL": "DOUBLE PRECISION", " WITHOUT ROWID": "",
          # An entry of a btree has at most 2,704 bytes, an id up to 12,002; a hash index has digests.
          "learned_id ON learned(id)": "learned_by_hash ON learned USING hash(id)"}  # fmt: skip
_MORE_TABLES = """
DROP INDEX IF EXISTS learned_id;
CREATE OR REPLACE VIEW lead AS SELECT 1 AS one;
CREATE TABLE IF NOT EXISTS leader(epoch BIGINT NOT NULL);
INSERT INTO leader SELECT 0 WHERE NOT EXISTS (SELECT 1 FROM leader);
CREATE TABLE IF NOT EXISTS file(name TEXT PRIMARY KEY, content BYTEA NOT NULL);
"""
_EPOCH = Query("SELECT epoch FROM leader", (int,))
_FILE = Query("SELECT content FROM file WHERE name = ?", (bytes,))
_FILES = Query("SELECT name FROM file", (str,))
#: What is rewritten to leave nothing of deleted rows, one after the other.
_PURGED = ("piece", "generation", "journal", "query", "learned", "file")
_DEAD = Query(
    "SELECT coalesce(sum(n_dead_tup), 0)::bigint FROM pg_stat_user_tables WHERE schemaname = ? AND relname = ?", (int,)
)
#: SQLSTATE of what fails for now and has changed nothing, with the number of the error.
_FOR_NOW = {"53100": errno.ENOSPC, "55P03": errno.EBUSY, "57014": errno.EBUSY}
#: Classes of SQLSTATE that say that a value cannot be kept: invalid data, and what exceeds a limit of the program.
_OF_VALUES = ("22", "54")
_PUT_FILE = "INSERT INTO file VALUES(?, ?) ON CONFLICT(name) DO UPDATE SET content = excluded.content"


class PostgresRows(Rows):
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
            if isinstance(error, psycopg.DataError) or (error.sqlstate or "")[:2] in _OF_VALUES:
                raise ValueRefused(f"{self.path} cannot keep this: {text}") from None
            if error.sqlstate in _FOR_NOW:
                raise OSError(_FOR_NOW[error.sqlstate], text, self.path) from None
            kind = OSError if isinstance(error, psycopg.OperationalError) else StatementFailed
            failure = kind(errno.EIO, text, self.path)
            self._failed(failure)
            raise failure from None


class _PostgresDatabase(PostgresRows):
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
        """A transaction, as `Database` has it. Raises OSError, also where another server leads, and ValueRefused: nothing was
        changed.
        """
        with self._lock, self._translated(), self.connection.transaction():
            if not wait:
                self.connection.execute("SET LOCAL synchronous_commit = off")
            # It locks the row: another server cannot begin an epoch before this transaction ends.
            mine = self.connection.execute("UPDATE leader SET epoch = epoch WHERE epoch = ?", (self.epoch,))
            if mine.rowcount != 1:
                failure = OSError(errno.EIO, f"another server leads since epoch {self.epoch}", self.path)
                self._failed(failure)
                raise failure
            yield self.connection

    def sync(self) -> None:
        """Wait until everything written survives a crash of the database: a later transaction that waits does that."""
        with self.transaction(wait=True):
            pass


class PostgresState(Journal):
    """The state of a service in a PostgreSQL database, in the schema `online_rank`, while this server leads.

    Parameters
    ----------
    place
        Address of the database, `postgresql://user@host/name`, as libpq takes it. A pooler must keep sessions.

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
        The state is damaged; somebody else owns the schema, or has put a trigger, a rule or a function there; or a pooler gives
        one session to several connections.
    OSError
        The database cannot be reached, or is a standby.
    ImportError
        psycopg is not installed.
    """

    #: The database has its own housekeeping.
    is_untidy = False

    def __init__(self, place: str) -> None:
        self._name, self._place = shown(place), place
        self.failure: OSError | None = None
        self._connections: list[PostgresRows] = []
        self._ended = threading.Event()
        try:
            self._lead, self._reader, writer = self._rows(), self._rows(), self._rows()
            with self._lead._translated():
                self.epoch = self._led(self._lead.connection, writer.connection)
            database = _PostgresDatabase(place, writer.connection, self._fail, self.epoch)
            super().__init__(database, Saved(database), self._first_row, self.require_open)
        except BaseException:
            self.close()
            raise
        self._heart = threading.Thread(target=self._beat, name="online_rank leads", daemon=True)
        self._heart.start()

    def __str__(self) -> str:
        return self._name

    def _rows(self) -> PostgresRows:
        """Another connection."""
        rows = PostgresRows(self._place, connected(self._place), self._fail)
        self._connections.append(rows)
        return rows

    def _led(self, lead: Any, connection: Any) -> int:
        """The number of the epoch that begins, once a session holds the lock. Raises FolderInUse, CheckpointError, OSError."""
        import psycopg

        lead.execute(f"SET idle_in_transaction_session_timeout = {_LEASE_MS}")
        lead.execute("BEGIN ISOLATION LEVEL READ COMMITTED")
        require_sessions(self._name, *[each.connection for each in self._connections])
        begin_schema(connection)
        require_own(connection, self._name)
        self._make_tables(connection)
        try:
            lead.execute("LOCK TABLE lead IN EXCLUSIVE MODE NOWAIT")
        except psycopg.errors.LockNotAvailable:
            raise FolderInUse(f"{self._name}: another server leads") from None
        # From here on, transactions of the leader before change nothing.
        return int(connection.execute("UPDATE leader SET epoch = epoch + 1 RETURNING epoch").fetchone()[0])

    def _make_tables(self, connection: Any) -> None:
        """Make the tables that are missing."""
        found = connection.execute("SELECT to_regclass('learned_by_hash'), to_regclass('file'), to_regclass('lead')").fetchone()
        if None in found:
            tables = functools.reduce(lambda text, each: text.replace(*each), _TYPES.items(), TABLES)
            connection.execute(f"{tables}{_MORE_TABLES}")

    def _beat(self) -> None:
        """Use the session that holds the lock, until it is lost."""
        while not self._ended.wait(_BEAT) and self.failure is None:
            try:
                (epoch,) = self._lead.first(_EPOCH)
                if epoch != self.epoch:
                    self._fail(OSError(errno.EIO, f"another server leads, in epoch {epoch}", self._name))
            except (OSError, CheckpointError) as error:  # The transaction, and with it the lock, is gone.
                self._fail(error if isinstance(error, OSError) else OSError(errno.EIO, str(error), self._name))

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
        with self.database.transaction(wait=True) as connection:
            connection.execute(statement, values)

    def has_room(self, n_bytes: int) -> bool:
        """Whether there is room for more: the database alone knows."""
        return True

    def tidy(self) -> None:
        """Nothing to do."""

    def purge(self) -> Iterator[None]:
        """Leave nothing of deleted rows in the tables: a step for each, while others read and write.

        PostgreSQL's log and backups of it keep them for their time, and free space in pages until it is used again.

        Raises
        ------
        OSError
            Somebody reads an earlier state of the database, such as `pg_dump`, which keeps deleted rows for as long.
        """
        self.require_open()
        with contextlib.closing(PostgresRows(self._place, connected(self._place))) as rows:
            with rows._translated():
                rows.connection.execute(f"SET statement_timeout = {_PURGE_MS}")
            for table in _PURGED:
                for _ in range(2):  # What the writer has deleted may be reported after the first time.
                    with rows._translated():
                        rows.connection.execute(f"VACUUM (INDEX_CLEANUP ON) {table}")
                    if not (dead := rows.first(_DEAD, _SCHEMA, table)[0]):
                        break
                else:
                    raise OSError(errno.EBUSY, f"is being read, and keeps {dead} deleted rows of {table}", self._name)
                yield

    def close(self) -> None:
        """Give the lead back. May be called again."""
        self._ended.set()
        for each in reversed(self._connections):
            each.close()


@contextlib.contextmanager
def saved_in_postgres(place: str) -> Iterator[Saved]:
    """The current state of a service in a database, read without its lock, while a server leads. Raises as `saved_state`."""
    with contextlib.closing(PostgresRows(place, connected(place, "any"))) as rows, rows._translated():
        rows.connection.execute("BEGIN ISOLATION LEVEL REPEATABLE READ READ ONLY")
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


def connected(place: str, server: str = "read-write") -> Any:
    """A connection that takes SQLite's statements, and commits each outside of a transaction; to a server that is no standby,
    or to "any". Raises OSError, ImportError.
    """
    with needs("PostgreSQL", "postgres"):
        import psycopg
        from psycopg.conninfo import conninfo_to_dict, make_conninfo

    class Cursor(psycopg.Cursor[Any]):
        def execute(self, query: Any, params: Any = None, **options: Any) -> Any:
            return super().execute(_in_postgres(query), params, **options)

        def executemany(self, query: Any, params_seq: Any, **options: Any) -> None:
            super().executemany(_in_postgres(query), params_seq, **options)

    try:
        address = make_conninfo(**{**_PATIENCE, "target_session_attrs": server, **conninfo_to_dict(place)})
        connection = psycopg.connect(address, autocommit=True, cursor_factory=Cursor)
        # What was acknowledged is on the disk, even if the database has another default.
        connection.execute(
            f"SET search_path = {_SCHEMA}, pg_temp; SET statement_timeout = {_STATEMENT_MS}; SET lock_timeout = {_LOCK_MS};"
            "SELECT set_config('synchronous_commit', 'on', false) WHERE current_setting('synchronous_commit') = 'off'"
        )
    except psycopg.Error as error:
        raise OSError(errno.EIO, str(error).partition("\n")[0], shown(place)) from None
    return connection


def _in_postgres(statement: str) -> str:
    """A statement of SQLite, for psycopg."""
    return statement.replace("?", "%s").replace(" INDEXED BY learned_id", "")
