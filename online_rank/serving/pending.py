"""Grades that arrive later than the rankings they speak of."""

from collections.abc import Hashable
from typing import Any

from online_rank.base.schema import Count, DictOf, ListOf, Plain, Real, Schema, Text, TupleOf

__all__ = ["PendingQueries"]


class PendingQueries:
    """Queries that wait for their grades, in bounded memory.

    The oldest are forgotten when there are too many, or when too many others came after them. Time is counted in queries, not
    in seconds, so that a replay forgets the same queries as the original run.

    Parameters
    ----------
    max_queries
        Most queries that wait at the same time.
    max_age
        Most queries that may come after a query before it is forgotten.

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
        _queries=DictOf(Plain(), TupleOf(Count(), TupleOf(Text(), ListOf(Real())))),
    )

    def __init__(self, max_queries: int = 10_000, max_age: int = 100_000) -> None:
        for name, value in (("max_queries", max_queries), ("max_age", max_age)):
            if isinstance(value, bool) or not isinstance(value, int) or value < 1:
                raise ValueError(f"{name} is {value!r}; it must be an integer >= 1")
        self.max_queries = max_queries
        self.max_age = max_age
        self.n_evicted = 0
        self._clock = 0
        self._queries: dict[Hashable, tuple[int, Any]] = {}

    def remember(self, query_id: Hashable, query: Any) -> None:
        """Let a query wait for its grades; one that waits under the same id is replaced."""
        self._clock += 1
        self._queries.pop(query_id, None)
        self._queries[query_id] = (self._clock, query)
        while len(self._queries) > self.max_queries or self._clock - self._oldest() > self.max_age:
            del self._queries[next(iter(self._queries))]
            self.n_evicted += 1

    def get(self, query_id: Hashable) -> Any:
        """The query that waits under an id, or None."""
        return self._queries.get(query_id, (0, None))[1]

    def take(self, query_id: Hashable) -> Any:
        """The query that waits under an id, which waits no longer. Raises KeyError when there is none."""
        return self._queries.pop(query_id)[1]

    def __contains__(self, query_id: Hashable) -> bool:
        return query_id in self._queries

    def __len__(self) -> int:
        return len(self._queries)

    def _oldest(self) -> int:
        return self._queries[next(iter(self._queries))][0]
