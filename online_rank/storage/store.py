"""What a service needs of the place that keeps its state: a folder (`storage.state`), or any other that does the same."""

import abc
from collections.abc import Iterator, Mapping, Sequence
from typing import NamedTuple, Protocol

from online_rank.storage.generations import Snapshot
from online_rank.storage.saved import Saved


class Change(NamedTuple):
    """A change of the state, in the form of the journal.

    Attributes
    ----------
    outcome
        The outcome: everything needed to repeat it, except queries.
    number
        The number of the query that waits from now on, or None. Numbers rise.
    query
        That query.
    learned
        The learned id, as JSON, a digest of its feedback, and when it was learned; or None. Times are seconds for which the
        service has run, and never fall.
    """

    outcome: bytes
    number: int | None = None
    query: bytes = b""
    learned: tuple[str, int, float] | None = None


class Generation(NamedTuple):
    """A snapshot of a service, to be written.

    Attributes
    ----------
    change
        Number of its last change.
    snapshot
        Its state without queries and ids; and the numbers of the waiting queries, in order, int64.
    gone
        Numbers of queries that have stopped waiting since the previous generation.
    expired
        The time before which learned ids may go.
    forgotten
        Learned ids to be forgotten, as JSON, if they were not learned after a change.
    """

    change: int
    snapshot: Snapshot
    gone: tuple[int, ...]
    expired: float = 0.0
    forgotten: tuple[tuple[str, int], ...] = ()


class StateStore(Protocol):
    """Where `DurableService` keeps what it has acknowledged.

    The state is the newest generation, a snapshot, and the journal of all changes since. Waiting queries and learned ids are
    kept one by one, so that a generation does not write them again. A store is first read (`saved`), then written to from one
    thread at a time; `query` may be called from any thread. Its text, `str(store)`, names it in messages.

    Attributes
    ----------
    saved : Saved
        The state when the store was opened: a `Saved`, or an object with the same `start`, `value`, `latest`, `learned`,
        `since`, `queries` and `waiting`. All that was acknowledged is in it, or an error reports the damage.
    change : int
        Number of the last change.
    journal_bytes : int
        Size of the changes since the newest generation, which a restart must replay.
    failure : OSError or None
        Why it can be used no more, such as that another server leads; None as long as it has noticed nothing.
    """

    saved: Saved
    change: int
    journal_bytes: int
    failure: OSError | None = None

    @property
    def is_untidy(self) -> bool:
        """Whether `tidy` has something to do."""
        return False

    @abc.abstractmethod
    def append(self, changes: Sequence[Change], wait: bool) -> None:
        """Write changes, in order; if `wait`, all changes so far survive a crash once this returns.

        Raises
        ------
        OSError, CheckpointError
            They do not. Nothing may be acknowledged, and nothing more appended.
        ValueRefused
            A value of one of these changes cannot be kept. None was; others may be appended in their place.
        """

    @abc.abstractmethod
    def replacing(self, generation: Generation) -> Iterator[None]:
        """Write a generation in steps, between which `append` may be called. It covers all that was appended before.

        Once it can be read back, the journal up to it is deleted, in one step with the queries `gone`, the ids `forgotten`, and
        some of those that have expired: at least as many as come.

        Raises
        ------
        OSError, MemoryError, ValueError
            It could not be written, or does not end with the last change appended. The one before is still there.
        """

    @abc.abstractmethod
    def query(self, number: int) -> bytes:
        """A query, from any thread. Raises CheckpointError when it is damaged or missing."""

    @abc.abstractmethod
    def learned(self, query_id: str) -> tuple[int, int, float] | None:
        """The change by which an id, in JSON, was learned, the digest of its feedback, and when; None for an unknown one.

        From any thread. Raises CheckpointError when it is damaged.
        """

    @abc.abstractmethod
    def replace_queries(self, queries: Mapping[int, bytes]) -> None:
        """Replace queries by others, under the same numbers. No change was appended after the newest generation."""

    @abc.abstractmethod
    def purge(self) -> Iterator[None]:
        """Leave nothing of what was deleted, in steps, between which `append` may be called. Raises OSError."""

    @abc.abstractmethod
    def read_again(self) -> None:
        """Let `saved` be the state as the store has it now, and continue from there."""

    def tidy(self) -> None:
        """Housekeeping between two commits, after requests were answered."""
        return

    @abc.abstractmethod
    def file(self, name: str) -> bytes | None:
        """A file kept next to the state, such as the model before the last one; None if it is missing."""

    @abc.abstractmethod
    def put_file(self, name: str, content: bytes) -> None:
        """Replace a file kept next to the state, completely or not at all. Raises OSError."""

    @abc.abstractmethod
    def file_names(self) -> list[str]:
        """The names of the files kept next to the state, and perhaps of others. Raises OSError."""

    @abc.abstractmethod
    def delete_file(self, name: str) -> None:
        """Delete a file kept next to the state, if it is there. Raises OSError."""

    def has_room(self, n_bytes: int) -> bool:
        """Whether there is room for more, as far as the store knows."""
        return True

    @abc.abstractmethod
    def close(self) -> None:
        """Release the store. May be called again."""
