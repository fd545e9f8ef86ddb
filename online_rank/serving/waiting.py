"""Queries in bounded memory, numbered as they come, several under one id; most of them on the disk, if they are there too."""

import json
from collections import deque
from collections.abc import Callable, Collection, Hashable
from typing import Any

import numpy as np

from online_rank.base.schema import Count, Derived, DictOf, ListOf, Plain, Real, Schema, Text, TupleOf
from online_rank.limits import MAX_ID_LENGTH

#: Bytes of queries kept in memory if they are on the disk too.
_IN_MEMORY = 1 << 26
#: Most rankings that wait under one id, of which a further one takes the place of the last; and what marks their ids.
_MOST_PAGES, MARK = 10, "\x1f"


class WaitingQueries:
    """The queries of `PendingQueries`: which wait, and what they take."""

    _schema = Schema(
        n_evicted=Count(),
        _clock=Count(),
        _n_bytes=Count(),
        _queries=DictOf(
            Plain(), TupleOf(Count(), Count(), Real(optional=True), TupleOf(Text(), ListOf(Real()), Text(optional=True)))
        ),
        n_stored=Derived(),
        _fetch=Derived(),
        _in_memory=Derived(),
        paged=Derived(),
    )

    def __init__(self, max_bytes: int) -> None:
        self.max_bytes = max_bytes
        self.n_evicted = 0
        self._clock = 0
        self._n_bytes = 0
        #: Number, bytes, time and content of each query, the oldest first.
        self._queries: dict[Hashable, tuple[int, int, float | None, Any]] = {}
        #: The ids under which several rankings wait, or did.
        self.paged: set[Hashable] = set()
        # If queries are on the disk too: the number written, the function that reads one, and those still in memory.
        self.n_stored = 0
        self._fetch: Callable[[int], Any] | None = None
        # Each with its number, and the bytes of all that came before it, and with it.
        self._in_memory: deque[tuple[Hashable, int, int, int]] = deque()

    @property
    def next_number(self) -> int:
        """The number that the next query will have: queries are numbered as they come."""
        return self._clock + 1

    def require_room(self, n_bytes: int) -> None:
        """Raise ValueError for a query larger than the limit for all waiting queries."""
        if n_bytes > self.max_bytes:
            raise ValueError(f"the query takes {n_bytes} bytes, but all waiting queries together may take {self.max_bytes}")

    def number(self, query_id: Hashable) -> int | None:
        """The number of the query waiting under an id, or None."""
        found = self._queries.get(query_id)
        return None if found is None else found[0]

    def time(self, query_id: Hashable) -> float | None:
        """The time of the query waiting under an id, or None."""
        return self._queries[query_id][2] if query_id in self._queries else None

    def get(self, query_id: Hashable) -> Any:
        """The query that waits under an id, or None."""
        number, _, _, query = self._queries.get(query_id, (0, 0, None, None))
        return self._fetch(number) if query is None and number and self._fetch is not None else query

    def numbers(self) -> np.ndarray:
        """The numbers of all queries that wait, in order, int64."""
        return np.fromiter((number for number, *_ in self._queries.values()), np.int64, len(self._queries))

    def ids(self) -> list[Hashable]:
        """The ids of all queries that wait, in order."""
        return [*self._queries]

    def meant(self, query_id: str | int, documents: Collection[Any], known: Callable[[Any], Collection[Any]]) -> Any:
        """The id under which the ranking waits that feedback on these documents is meant for: the last one that has them all.

        `known` are the documents that feedback on a ranking may be about, by its id.
        """
        if query_id not in self.paged:
            return query_id
        waiting = [page for page in pages_of(query_id) if page in self._queries]
        if waiting in ([], [query_id]):
            return query_id
        return next((page for page in waiting[::-1] if {*known(page)}.issuperset(documents)), query_id)

    def page_for(
        self,
        query_id: str | int,
        documents: Collection[Any],
        known: Callable[[Any], Collection[Any]],
        learned_as: Callable[[Any], int | None],
    ) -> Any:
        """The id under which a ranking of an id is to wait, whose feedback may be about these documents.

        One of the same documents that waits gives way to it; `learned_as` is not None for ids that were learned.
        """
        if query_id not in self._queries:
            return query_id
        pages = pages_of(query_id)
        for page in pages:
            if {*known(page)} == {*documents} if page in self._queries else learned_as(page) is None:
                return page
        return pages[-1]

    def read_from(self, fetch: Callable[[int], Any]) -> None:
        """Queries are on the disk too, where `fetch` reads them by number, those that wait now and all later ones.

        Only the last ones stay in memory.
        """
        self._fetch, self.n_stored = fetch, self._clock
        for query_id, (number, n_bytes, *_) in [*self._queries.items()]:
            self._hold(query_id, number, n_bytes)
            self.spill()

    def __contains__(self, query_id: Hashable) -> bool:
        return query_id in self._queries

    def __len__(self) -> int:
        return len(self._queries)

    def _hold(self, query_id: Hashable, number: int, n_bytes: int) -> None:
        """The newest query is in memory, and on the disk too."""
        begin = self._in_memory[-1][3] if self._in_memory else 0
        self._in_memory.append((query_id, number, begin, begin + n_bytes))

    def spill(self) -> None:
        """Keep as many queries in memory as there is room for.

        Where memory runs out, that comes later: what was asked for has happened.
        """
        try:
            self._spill()
        except MemoryError:
            return

    def _spill(self) -> None:
        held = self._in_memory
        while held and held[-1][3] - held[0][2] > _IN_MEMORY and held[0][1] <= self.n_stored:
            query_id, number, *_ = held[0]
            if self.number(query_id) == number:
                _, size, at, _ = self._queries[query_id]
                self._queries[query_id] = (number, size, at, None)
            held.popleft()


def pages_of(query_id: str | int) -> list[Any]:
    """The ids under which the rankings of an id wait, such as the pages of a result: itself, and others that clients never see.

    Examples
    --------
    >>> [asked_as(page) for page in pages_of("q1")[:3]]
    ['q1', 'q1', 'q1']
    """
    told = json.dumps(query_id)
    return [query_id, *[f"{MARK}{page} {told}" for page in range(2, _MOST_PAGES + 1) if len(told) < MAX_ID_LENGTH - 10]]


def asked_as(page: Any) -> Any:
    """The id that a client gave, of one of `pages_of`.

    Examples
    --------
    >>> [asked_as(page) for page in pages_of(7)[:2]]
    [7, 7]
    """
    return json.loads(page.partition(" ")[2]) if type(page) is str and page[:1] == MARK else page
