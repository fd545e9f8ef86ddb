"""Grades that arrive later than the rankings they speak of."""

from collections import deque
from collections.abc import Callable, Hashable
from typing import Any

from online_rank.arguments import integer
from online_rank.base.schema import Count, Derived, DictOf, ListOf, Plain, Real, Schema, Text, TupleOf

__all__ = ["PendingQueries"]

#: Bytes of queries that stay in memory where they are on the disk too.
_IN_MEMORY = 1 << 26


class PendingQueries:
    """Queries that wait for their grades, in bounded memory.

    The oldest are forgotten when there are too many, when they are too large together, or when too many others came after
    them. Time is counted in queries, not in seconds.

    Parameters
    ----------
    max_queries
        Most queries that wait at the same time.
    max_age
        Most queries that may come after a query before it is forgotten.
    max_bytes
        Most memory, or room on the disk, that waiting queries take together, as told to `remember`.

    Attributes
    ----------
    n_evicted : int
        Number of queries forgotten before their grades arrived.

    Examples
    --------
    >>> from online_rank.serving.pending import PendingQueries
    >>> pending = PendingQueries(max_queries=2)
    >>> for query in ("a", "b", "c"):
    ...     pending.remember(query, query.upper())
    >>> pending.take("c"), "a" in pending, pending.n_evicted
    ('C', False, 1)
    """

    _schema = Schema(
        n_evicted=Count(),
        _clock=Count(),
        _n_bytes=Count(),
        _queries=DictOf(Plain(), TupleOf(Count(), Count(), TupleOf(Text(), ListOf(Real()), Text(optional=True)))),
        n_stored=Derived(),
        _fetch=Derived(),
        _in_memory=Derived(),
        _in_memory_bytes=Derived(),
    )

    def __init__(self, *, max_queries: int = 10_000, max_age: int = 100_000, max_bytes: int = 1 << 28) -> None:
        integer("max_queries", max_queries, 1)
        integer("max_age", max_age, 1)
        integer("max_bytes", max_bytes, 1)
        self.max_queries = max_queries
        self.max_age = max_age
        self.max_bytes = max_bytes
        self.n_evicted = 0
        self._clock = 0
        self._n_bytes = 0
        self._queries: dict[Hashable, tuple[int, int, Any]] = {}
        # Where queries are on the disk too: how many of them have been written, how to read one, and those still in memory.
        self.n_stored = 0
        self._fetch: Callable[[int], Any] | None = None
        self._in_memory: deque[tuple[Hashable, int, int]] = deque()
        self._in_memory_bytes = 0

    @property
    def next_number(self) -> int:
        """The number that the next query will have: queries are numbered as they come."""
        return self._clock + 1

    def remember(self, query_id: Hashable, query: Any, n_bytes: int = 0) -> None:
        """Let a query, which takes `n_bytes`, wait for its grades; one that waits under the same id is replaced.

        Raises ValueError, before anything changes, when it takes more than `max_bytes` by itself.
        """
        self.require_room(n_bytes)
        self.put(query_id, query, n_bytes, self.next_number, self.crowded_out(query_id, n_bytes))

    def require_room(self, n_bytes: int) -> None:
        """Raise ValueError for a query that takes more than all that wait may take."""
        if n_bytes > self.max_bytes:
            raise ValueError(f"the query takes {n_bytes} bytes, but all that wait may take {self.max_bytes} together")

    def crowded_out(self, query_id: Hashable, n_bytes: int) -> list[int]:
        """The numbers of the queries that must be forgotten before another one of `n_bytes` can wait under an id."""
        same = self._queries.get(query_id)
        n, total = len(self._queries) + (same is None), self._n_bytes + n_bytes - (same[1] if same else 0)
        gone = []
        for number, size, _ in self._queries.values():
            if n <= self.max_queries and total <= self.max_bytes and self.next_number - number <= self.max_age:
                break
            if same is None or number != same[0]:
                gone.append(number)
                n, total = n - 1, total - size
        return gone

    def put(self, query_id: Hashable, query: Any, n_bytes: int, number: int, gone: list[int]) -> None:
        """Let a query wait under its number, in place of one under the same id and of the queries `gone`."""
        before = self._queries.pop(query_id, None)
        try:
            self._queries[query_id] = (number, n_bytes, query)
        except MemoryError:
            if before is not None:
                self._queries[query_id] = before
            raise
        self._clock = max(self._clock, number)
        self._n_bytes += n_bytes - (before[1] if before else 0)
        for _ in gone:  # They are the oldest.
            self.take(next(iter(self._queries)))
            self.n_evicted += 1
        if self._fetch is not None:
            self._spill(query_id, number, n_bytes)

    def number(self, query_id: Hashable) -> int | None:
        """The number of the query that waits under an id; None where none does."""
        found = self._queries.get(query_id)
        return None if found is None else found[0]

    def get(self, query_id: Hashable) -> Any:
        """The query that waits under an id, or None."""
        number, _, query = self._queries.get(query_id, (0, 0, None))
        return self._fetch(number) if query is None and number and self._fetch is not None else query

    def take(self, query_id: Hashable) -> Any:
        """The query that waits under an id, which waits no longer. Raises KeyError when there is none."""
        _, n_bytes, query = self._queries.pop(query_id)
        self._n_bytes -= n_bytes
        return query

    def numbers(self) -> list[int]:
        """The numbers of all queries that wait, in order."""
        return [number for number, _, _ in self._queries.values()]

    def read_from(self, fetch: Callable[[int], Any]) -> None:
        """Queries are on the disk too, where `fetch` reads them by number, those that wait now and all later ones.

        Only the last ones stay in memory.
        """
        self._fetch, self.n_stored = fetch, self._clock
        for query_id, (number, n_bytes, _) in [*self._queries.items()]:
            self._spill(query_id, number, n_bytes)

    def __contains__(self, query_id: Hashable) -> bool:
        return query_id in self._queries

    def __len__(self) -> int:
        return len(self._queries)

    def _spill(self, query_id: Hashable, number: int, n_bytes: int) -> None:
        """Keep the query that came last in memory, and of those before that are on the disk no more than there is room for."""
        self._in_memory.append((query_id, number, n_bytes))
        self._in_memory_bytes += n_bytes
        while self._in_memory_bytes > _IN_MEMORY and self._in_memory[0][1] <= self.n_stored:
            query_id, number, n_bytes = self._in_memory.popleft()
            self._in_memory_bytes -= n_bytes
            if self.number(query_id) == number:
                self._queries[query_id] = (number, self._queries[query_id][1], None)

    def _check_state(self) -> None:
        if self._n_bytes != sum(n_bytes for _, n_bytes, _ in self._queries.values()):
            raise ValueError("the waiting queries do not add up to the bytes that they take")
