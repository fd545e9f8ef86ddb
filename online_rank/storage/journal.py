"""The journal of a service in a database, its waiting queries, and its learned ids: in SQLite and in PostgreSQL alike.

A generation holds the model and other small state after some change. The journal has a row for each change since then, with a
digest of it and of all rows before it. So the acknowledged state consists of the newest generation, the queries waiting and ids
known at that time, each in its own row, and the journal.
"""

import functools
import json
import secrets
from collections.abc import Callable, Iterator, Mapping, Sequence
from typing import Any

from online_rank.storage.checkpoint import GENERATIONS, Generations
from online_rank.storage.database import Query, delete, insert
from online_rank.storage.saved import Saved, chained, digest_of_id, digest_of_query
from online_rank.storage.store import Change, Generation

#: Each generation deletes up to twice as many expired ids as there were changes since the last one, and this many more.
_MORE = 1000

_QUERY = Query("SELECT content, digest FROM query WHERE number = ?", (bytes, bytes))
#: The last one: an id that was learned again may have another row, which was forgotten or has expired.
_LEARNED = Query(
    "SELECT change, id, feedback, at, digest FROM learned WHERE id = ? AND change <= ? ORDER BY change DESC LIMIT 1",
    (int, str, int, float, bytes),
)
_N_LEARNED = Query("SELECT count(*) FROM learned WHERE change >= ?", (int,))
_OLDEST = Query("SELECT change, at FROM learned WHERE change >= ? ORDER BY change LIMIT ?", (int, float))

TABLES = f"""{GENERATIONS}
CREATE TABLE IF NOT EXISTS journal(change INTEGER PRIMARY KEY, outcome BLOB NOT NULL, number INTEGER, digest BLOB NOT NULL);
CREATE TABLE IF NOT EXISTS query(number INTEGER PRIMARY KEY, content BLOB NOT NULL, digest BLOB NOT NULL);
CREATE TABLE IF NOT EXISTS learned(
    change INTEGER PRIMARY KEY, id TEXT NOT NULL, feedback INTEGER NOT NULL, at REAL NOT NULL, digest BLOB NOT NULL);
CREATE INDEX IF NOT EXISTS learned_id ON learned(id);
"""


class Journal:
    """The state of a service in a database: the part of a `StateStore` that folders and PostgreSQL have in common.

    Parameters
    ----------
    database
        The database, which is written here alone.
    saved
        The state in it.
    read
        Returns the first row of a query, from any thread. Raises OSError, CheckpointError.
    require_usable
        Raises OSError or CheckpointError if the database cannot be used any more.
    acknowledge
        Called when all changes so far survive, and are about to be acknowledged, with the name of the run and the number of the
        last one. Raises OSError, CheckpointError.
    covered
        Called when a generation was written.
    """

    def __init__(
        self,
        database: Any,
        saved: Saved,
        read: Callable[..., Any],
        require_usable: Callable[[], None],
        acknowledge: Callable[[str, int], None] = lambda run, change: None,
        covered: Callable[[], None] = lambda: None,
    ) -> None:
        self.database, self.generations = database, Generations(database)
        self._read, self._require_usable, self._acknowledge, self._when_covered = read, require_usable, acknowledge, covered
        self.saved, self._run, self._chain = saved, saved.run or secrets.token_hex(16), saved.chain
        self.change, self.journal_bytes = saved.change, saved.journal_bytes
        #: The last change that the newest generation covers; the oldest whose learned id is remembered, and their number.
        self._covered, self._first = saved.start, saved.first
        (self._n_learned,) = database.first(_N_LEARNED, self._first)

    def read_again(self) -> None:
        """Let `saved` be the state as it is in the database now. Raises CheckpointError, ModelFileError."""
        Journal.__init__(
            self, self.database, Saved(self.database), self._read, self._require_usable, self._acknowledge, self._when_covered
        )

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

    def append(self, changes: Sequence[Change], wait: bool) -> None:
        """Write changes, in order; if `wait`, they are on the disk and counted as acknowledged when this returns.

        Raises
        ------
        OSError, CheckpointError
            They are not on the disk. Nothing may be acknowledged, and nothing more appended.
        """
        self._require_usable()
        at, chain = self.change, self._chain
        journal: list[tuple[Any, ...]] = []
        queries: list[tuple[Any, ...]] = []
        learned: list[tuple[Any, ...]] = []
        n_bytes = 0
        for outcome, number, content, ended in changes:
            at += 1
            n_bytes += len(outcome) + len(content)
            own = b"" if number is None else digest_of_query(number, content)
            chain = chained(chain, at, outcome, own)
            journal.append((at, outcome, number, chain))
            if number is not None:
                queries.append((number, content, own))
            if ended is not None:
                query_id, feedback, time_of = ended
                learned.append((at, query_id, feedback, time_of, digest_of_id(at, query_id, feedback, time_of)))
        if journal:
            with self.database.transaction(wait, n_bytes) as connection:
                for table, rows in (("journal", journal), ("query", queries), ("learned", learned)):
                    if rows:
                        insert(connection, table, rows)
        elif wait:
            self.database.sync()
        self.change, self._chain = at, chain
        self._n_learned += len(learned)
        self.journal_bytes += n_bytes
        if wait:
            self._acknowledge(self._run, at)

    def replacing(self, generation: Generation) -> Iterator[None]:
        """Write a generation, whose last change is the last that was appended, as `Generations.writing` does.

        Raises ValueError if it is not: its state would look like a damaged one. The one before is still there.
        """
        self._require_usable()
        if generation.change != self.change:
            raise ValueError(f"the state after change {generation.change} is to be written, but the journal has {self.change}")
        before = self.journal_bytes
        # Rows since the last generation have come: as many may go, and some more.
        oldest = self.database.rows(_OLDEST, self._first, 2 * (self.change - self._covered) + _MORE)
        expired = [each for each, at in oldest if at < generation.expired]
        self._first, self._n_learned = max([self._first, *(each + 1 for each in expired)]), self._n_learned - len(expired)
        notes = json.dumps((self._run, self._chain.hex(), self._first, self._n_learned)).encode()
        gone = functools.partial(self._delete, generation)
        yield from self.generations.writing(generation.snapshot, generation.change, notes, gone)
        self.journal_bytes -= before
        self._covered = generation.change
        self._when_covered()

    def replace_queries(self, queries: Mapping[int, bytes]) -> None:
        """Replace queries by others, under the same numbers; they are on the disk when this returns.

        No change was appended after the newest generation: later ones have digests of these queries.
        """
        self._require_usable()
        rows = [(content, digest_of_query(number, content), number) for number, content in queries.items()]
        with self.database.transaction(wait=True) as connection:
            connection.cursor().executemany("UPDATE query SET content = ?, digest = ? WHERE number = ?", rows)

    def _delete(self, generation: Generation, connection: Any) -> None:
        """Delete the journal up to a generation, and what goes with it."""
        connection.execute("DELETE FROM journal WHERE change <= ?", (generation.change,))
        connection.execute("DELETE FROM learned WHERE change < ?", (self._first,))
        for forgotten in generation.forgotten:
            while (row := self.database.first(_LEARNED, *forgotten)) is not None:
                # Rows are counted, so this one stays, with an id that nobody knows.
                learned_by, nobody = row[0], json.dumps(secrets.token_hex(16))
                new = nobody, digest_of_id(learned_by, nobody, *row[2:4]), learned_by
                connection.execute("UPDATE learned SET id = ?, digest = ? WHERE change = ?", new)
        delete(connection, "query", "number", generation.gone)
