"""Grades that arrive later than the rankings they speak of."""

from collections.abc import Hashable
from typing import Any

from online_rank.base.schema import Count, DictOf, ListOf, Plain, Real, Schema, Text, TupleOf

__all__ = ["PendingQueries"]


class PendingQueries:
    """Queries that wait for their grades, in bounded memory.

    The oldest are forgotten when there are too many, when they are too large together, or when too many others came after
    them. Time is counted in queries, not in seconds, so that a replay forgets the same queries as the original run.

    Parameters
    ----------
    max_queries
        Most queries that wait at the same time.
    max_age
        Most queries that may come after a query before it is forgotten.
    max_bytes
        Most memory that waiting queries take together, as told to `remember`.

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
    )

    def __init__(self, max_queries: int = 10_000, max_age: int = 100_000, max_bytes: int = 1 << 28) -> None:
        for name, value in (("max_queries", max_queries), ("max_age", max_age), ("max_bytes", max_bytes)):
            if isinstance(value, bool) or not isinstance(value, int) or value < 1:
                raise ValueError(f"{name} is {value!r}; it must be an integer >= 1")
        self.max_queries = max_queries
        self.max_age = max_age
        self.max_bytes = max_bytes
        self.n_evicted = 0
        self._clock = 0
        self._n_bytes = 0
        self._queries: dict[Hashable, tuple[int, int, Any]] = {}

    def remember(self, query_id: Hashable, query: Any, n_bytes: int = 0) -> None:
        """Let a query, which takes `n_bytes`, wait for its grades; one that waits under the same id is replaced.

        Raises ValueError, before anything changes, when it takes more than `max_bytes` by itself.
        """
        if n_bytes > self.max_bytes:
            raise ValueError(f"the query takes {n_bytes} bytes, but all that wait may take {self.max_bytes} together")
        self._clock += 1
        if query_id in self._queries:
            self.take(query_id)
        self._queries[query_id] = (self._clock, n_bytes, query)
        self._n_bytes += n_bytes
        while (
            len(self._queries) > self.max_queries
            or self._n_bytes > self.max_bytes
            or self._clock - self._queries[self._oldest()][0] > self.max_age
        ):
            self.take(self._oldest())
            self.n_evicted += 1

    def get(self, query_id: Hashable) -> Any:
        """The query that waits under an id, or None."""
        return self._queries.get(query_id, (0, 0, None))[2]

    def take(self, query_id: Hashable) -> Any:
        """The query that waits under an id, which waits no longer. Raises KeyError when there is none."""
        _, n_bytes, query = self._queries.pop(query_id)
        self._n_bytes -= n_bytes
        return query

    def __contains__(self, query_id: Hashable) -> bool:
        return query_id in self._queries

    def __len__(self) -> int:
        return len(self._queries)

    def _oldest(self) -> Hashable:
        return next(iter(self._queries))

    def _check_state(self) -> None:
        if self._n_bytes != sum(n_bytes for _, n_bytes, _ in self._queries.values()):
            raise ValueError("the waiting queries do not add up to the bytes that they take")
