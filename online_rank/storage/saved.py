"""Reads the state of a service, at its start or from another process."""

import contextlib
import json
import os
from collections.abc import Iterator
from typing import Any

import numpy as np

from online_rank.limits import is_integer
from online_rank.storage.checkpoint import STATE, newest
from online_rank.storage.database import Query, Rows, digest_of, reading
from online_rank.storage.folder import CheckpointError

#: Each change with the query that waits from then on.
_JOURNAL = Query(
    "SELECT change, outcome, number, journal.digest, content, query.digest FROM journal LEFT JOIN query USING (number)"
    " WHERE change > ? ORDER BY change",
    (int, bytes, int | None, bytes, bytes | None, bytes | None),
)
_WAITED = Query("SELECT number, content, digest FROM query WHERE number BETWEEN ? AND ? ORDER BY number", (int, bytes, bytes))
#: By the index, so that this is compared with the rows, too.
_LEARNED = Query(
    "SELECT change, id, feedback, at, digest FROM learned INDEXED BY learned_id WHERE change >= ?",
    (int, str, int, float, bytes),
)
_LATEST = Query("SELECT at FROM learned ORDER BY change DESC LIMIT 1", (float,))
_NUMBERS = Query("SELECT number FROM query ORDER BY number", (int,))


class Saved:
    """The newest generation of a service and the rows that belong to it. Every digest is verified.

    Parameters
    ----------
    rows
        The database.

    Attributes
    ----------
    run : str
        Name of the run; empty in a new folder.
    start : int
        Number of the last change that the generation covers.
    value
        The generation; None in a new folder.
    waited : list of int
        The numbers of the queries waiting at that time, in order.
    change : int
        Number of the last change of the journal.
    chain : bytes
        The digest of it and of all changes before it.
    first : int
        The oldest change whose learned id is still remembered.
    n_learned : int
        The number of learned ids from there to the generation.
    journal_bytes : int
        Size of the changes since the generation, which a restart must replay.

    Raises
    ------
    CheckpointError, ModelFileError
        Something is damaged or missing.
    """

    def __init__(self, rows: Rows) -> None:
        self._rows = rows
        found = newest(rows)
        self.run, self.chain, self.first, self.n_learned = "", b"", 1, 0
        self.start, self.value, self.waited = 0, None, list[int]()
        if found is not None:
            self.start, notes, value = found
            self._read_notes(notes)
            self._read_value(value)
        self.change, self.journal_bytes = self.start, 0
        for change, outcome, number, digest, content, own in rows.rows(_JOURNAL, self.start):
            if number is not None:
                self._require_query(number, content, own)
                self.journal_bytes += len(content)
            self.chain = chained(self.chain, change, outcome, own or b"")
            self.require(change == self.change + 1 and digest == self.chain, f"change {self.change + 1} is missing or damaged")
            self.change = change
            self.journal_bytes += len(outcome)

    def _read_notes(self, notes: bytes) -> None:
        try:
            run, chain, first, n_learned = json.loads(notes)
            self.chain = bytes.fromhex(chain)
        except (ValueError, TypeError, RecursionError):
            run = None
        whole = type(run) is str and is_integer(first, 0) and is_integer(n_learned, 0)
        self.require(whole, "the notes of its generation are damaged")
        self.run, self.first, self.n_learned = run, first, n_learned

    def _read_value(self, value: Any) -> None:
        whole = type(value) is tuple and len(value) == 2 and isinstance(value[1], np.ndarray)
        self.require(whole and value[1].dtype == np.int64 and value[1].ndim == 1, "its generation was not written by a service")
        self.value, self.waited = value[0], value[1].tolist()

    @property
    def latest(self) -> float:
        """When the last id was learned; 0.0 before the first."""
        (latest,) = self._rows.first(_LATEST) or (0.0,)
        return latest

    def learned(self) -> Iterator[tuple[str, int, int]]:
        """The learned ids, as JSON, each with the number of its change and the digest of its feedback.

        Raises CheckpointError when one is damaged, or missing from the generation.
        """
        n = 0
        for change, query_id, feedback, at, digest in self._rows.rows(_LEARNED, self.first):
            self.require(
                digest == digest_of_id(change, query_id, feedback, at), f"the id learned by change {change} is damaged"
            )
            n += change <= self.start
            yield query_id, change, feedback
        self.require(n == self.n_learned, f"{self.n_learned - n} learned ids are missing")

    def since(self) -> Iterator[tuple[bytes, int | None, bytes | None]]:
        """The outcomes since the generation, in order, each with the number of the query that waits from then on, and it."""
        for _, outcome, number, _, content, _ in self._rows.rows(_JOURNAL, self.start):
            yield outcome, number, content

    def queries(self) -> list[int]:
        """The numbers of all stored queries, including some that no longer wait."""
        return [number for (number,) in self._rows.rows(_NUMBERS)]

    def waiting(self) -> Iterator[tuple[int, bytes]]:
        """The queries that waited at the generation, by number. Raises CheckpointError when one is damaged or missing."""
        waited = {*self.waited}
        for number, content, digest in self._rows.rows(_WAITED, min(waited, default=0), max(waited, default=0)):
            if number in waited:
                waited.remove(number)
                self._require_query(number, content, digest)
                yield number, content
        for number in waited:
            self._require_query(number, None, None)

    def _require_query(self, number: int, content: bytes | None, digest: bytes | None) -> None:
        whole = content is not None and digest == digest_of_query(number, content)
        self.require(whole, f"query {number} is missing or damaged")

    def require(self, condition: bool, message: str) -> None:
        """Raise CheckpointError with a message unless a condition holds."""
        if not condition:
            raise CheckpointError(f"{self._rows.path}: {message}")


@contextlib.contextmanager
def saved_state(path: str | os.PathLike[str]) -> Iterator[Saved]:
    """The current state of a service in a folder, read without a lock, even while another process uses it.

    Raises
    ------
    CheckpointError, ModelFileError
        It is damaged.
    OSError
        There is none, or it cannot be read.
    """
    with reading(path, STATE) as rows:
        yield Saved(rows)


def chained(chain: bytes, change: int, outcome: bytes, query: bytes) -> bytes:
    """The digest of a change and of all before it; `query` is the digest of the query that waits from then on."""
    return digest_of(b"%d %d " % (change, len(outcome)), chain, query, outcome)


def digest_of_query(number: int, content: bytes) -> bytes:
    """The digest of a query under its number."""
    return digest_of(b"%d " % number, content)


def digest_of_id(change: int, query_id: str, feedback: int, at: float) -> bytes:
    """The digest of an id that was learned by a change, at a time, from feedback with a digest."""
    return digest_of(f"{change} {feedback} {at!r} {query_id}".encode())
