"""Queries waiting for feedback, which may come in pieces, or before the query."""

import heapq
import itertools
import math
from collections import deque
from collections.abc import Callable, Hashable, Iterator, Mapping
from typing import Any

from online_rank.arguments import integer
from online_rank.base.schema import Count, Derived, DictOf, ListOf, Plain, Real, Schema, Text, TupleOf
from online_rank.serving.plan import GRADE, FeedbackPlan, Given, require_time

__all__ = ["PendingQueries"]

#: Bytes of queries kept in memory if they are on the disk too.
_IN_MEMORY = 1 << 26
#: About what a value that was given takes.
_VALUE = 300


class PendingQueries:
    """Queries that wait for their feedback, in bounded memory.

    The oldest are dropped when there are too many, when they take too much memory, or when too many others came after them.
    With a window (`FeedbackPlan`), feedback on a query is gathered until the window ends; feedback that comes before its
    query waits for it as long. Time is then that of the events, and moves with them. Windows of the oldest end sooner where
    they would be forgotten, if anything was given to them.

    Parameters
    ----------
    max_queries
        Most queries that wait at the same time, and most that have feedback and no ranking yet.
    max_age
        Most queries that may come after a query before it is dropped.
    max_bytes
        Most memory, or disk space, of all waiting queries, by the sizes passed to `remember`.
    plan
        What counts as feedback, and when it is learned; None for one piece of feedback a query.

    Attributes
    ----------
    n_evicted : int
        Number of queries forgotten before their feedback arrived.
    n_expired : int
        Number of queries that feedback came for, but no ranking.
    now : float
        The latest time seen; minus infinity before the first.

    Examples
    --------
    >>> from online_rank.serving import FeedbackPlan, PendingQueries
    >>> pending = PendingQueries(max_queries=2)
    >>> for query in ("a", "b", "c"):
    ...     pending.remember(query, query.upper())
    >>> pending.take("c"), "a" in pending, pending.n_evicted
    ('C', False, 1)

    Clicks at once and a purchase an hour later, learned together after two hours:

    >>> pending = PendingQueries(plan=FeedbackPlan(window=7200, events={"click": 1, "purchase": 3}))
    >>> pending.remember("q1", {"a": {"price": 9.0}, "b": {"price": 5.0}}, at=0)
    >>> pending.add_event("q1", "click", "a", at=5), pending.add_event("q1", "click", "b", at=9)
    ('waits', 'waits')
    >>> pending.add_event("q1", "purchase", "b", at=3600)
    'waits'
    >>> for query_id, query, grades in pending.closed(at=7200):
    ...     print(query_id, grades)
    q1 {'a': 1, 'b': 3}
    """

    _schema = Schema(
        n_evicted=Count(),
        n_expired=Count(),
        now=Real(finite=False),
        _since=Real(),
        _clock=Count(),
        _n_bytes=Count(),
        _n_early=Count(),
        _queries=DictOf(
            Plain(), TupleOf(Count(), Count(), Real(optional=True), TupleOf(Text(), ListOf(Real()), Text(optional=True)))
        ),
        _given=DictOf(Plain(), DictOf(Plain(), DictOf(Text(), TupleOf(Real(), Real())))),
        _ungraded=DictOf(Plain(), TupleOf(Plain(), Real())),
        _early=DictOf(Plain(), Real()),
        n_stored=Derived(),
        _fetch=Derived(),
        _in_memory=Derived(),
        _in_memory_bytes=Derived(),
        _ends=Derived(),
        _early_ends=Derived(),
        _ties=Derived(),
    )

    def __init__(
        self,
        *,
        max_queries: int = 10_000,
        max_age: int = 100_000,
        max_bytes: int = 1 << 28,
        plan: FeedbackPlan | None = None,
    ) -> None:
        integer("max_queries", max_queries, 1)
        integer("max_age", max_age, 1)
        integer("max_bytes", max_bytes, 1)
        self.max_queries = max_queries
        self.max_age = max_age
        self.max_bytes = max_bytes
        self.plan = plan
        self.n_evicted = 0
        self.n_expired = 0
        self.now = -math.inf
        #: When the windows begin of queries that were ranked before there were any.
        self._since = 0.0
        self._clock = 0
        self._n_bytes = 0
        self._n_early = 0
        #: Number, bytes, time and content of each query, the oldest first.
        self._queries: dict[Hashable, tuple[int, int, float | None, Any]] = {}
        self._given: dict[Hashable, Given] = {}
        self._ungraded: dict[Hashable, tuple[Any, float]] = {}
        #: When the last feedback came for those that were not ranked yet.
        self._early: dict[Hashable, float] = {}
        # Heaps of when windows end; what has changed since has another entry.
        self._ends: list[tuple[float, int, Any]] = []
        self._early_ends: list[tuple[float, int, Any]] = []
        self._ties = itertools.count()
        # If queries are on the disk too: the number written, the function that reads one, and those still in memory.
        self.n_stored = 0
        self._fetch: Callable[[int], Any] | None = None
        self._in_memory: deque[tuple[Hashable, int, int]] = deque()
        self._in_memory_bytes = 0

    @property
    def next_number(self) -> int:
        """The number that the next query will have: queries are numbered as they come."""
        return self._clock + 1

    @property
    def window(self) -> float | None:
        """Seconds for which a query takes feedback; None if it is learned from the first."""
        return None if self.plan is None else self.plan.window

    def remember(self, query_id: Hashable, query: Any, n_bytes: int = 0, *, at: float | None = None) -> None:
        """Let a query, which takes `n_bytes`, wait for its feedback; one that waits under the same id is replaced.

        Parameters
        ----------
        query_id, query
            Its id, and whatever `take` and `closed` are to give back.
        n_bytes
            What it takes.
        at
            When it was ranked, in seconds; needed where there is a window.

        Raises
        ------
        ValueError
            Before anything changes: it takes more than `max_bytes` by itself, or `at` is missing or no time.
        """
        self.require_room(n_bytes)
        self._require_at(at)
        crowded = self.crowded_out(query_id, n_bytes)
        self.put(query_id, query, n_bytes, self.next_number, crowded, at)

    def add(self, query_id: Hashable, grades: Mapping[Hashable, float], *, at: float, ungraded: int | str | None = None) -> str:
        """Take grades of documents, some or all; one that was given before is replaced, unless its time is later.

        Parameters
        ----------
        query_id
            The query.
        grades
            What documents are worth.
        at
            When that was found out, in seconds.
        ungraded
            What becomes of the other documents, where the plan is not meant.

        Returns
        -------
        "waits" where it is learned at the end of the query's window, "early" where the query has yet to come, "late" where the
        window has ended, so that it is not learned.

        Raises
        ------
        ValueError
            There is no window, or too much feedback waits for queries that have not come.
        """
        return self._add(query_id, dict(grades), GRADE, at, ungraded)

    def add_event(self, query_id: Hashable, event: str, document: Hashable, value: float | None = None, *, at: float) -> str:
        """Take an event of the plan on one document; one of that kind that was given before is replaced, unless it is later.

        `value` is what it is worth, where that is not what its kind is worth; 0 takes it back. Returns and raises as `add`.
        """
        if self.plan is None:
            raise ValueError("events need a plan: PendingQueries(plan=FeedbackPlan(window=..., events=...))")
        return self._add(query_id, {document: self.plan.value_of(event, value)}, event, at, None)

    def closed(self, at: float) -> Iterator[tuple[Hashable, Any, dict[Hashable, float]]]:
        """The queries whose windows have ended by a time, the one that ended first at the beginning; they wait no longer.

        Each with its query and what its documents are worth; nothing where there was no feedback.
        """
        require_time("at", at)
        self.advance(at)
        while (query_id := self.next_closed()) is not None:
            totals = self.totals(query_id)
            yield query_id, self.take(query_id), totals

    def require_room(self, n_bytes: int) -> None:
        """Raise ValueError for a query larger than the limit for all waiting queries."""
        if n_bytes > self.max_bytes:
            raise ValueError(f"the query takes {n_bytes} bytes, but all waiting queries together may take {self.max_bytes}")

    def crowded_out(self, query_id: Hashable, n_bytes: int) -> list[int]:
        """The numbers of the queries that must go before another one of `n_bytes` can wait under an id, the oldest first."""
        same = self._queries.get(query_id)
        n, total = len(self._queries) + (same is None), self._n_bytes + n_bytes - (same[1] if same else 0)
        gone = []
        for number, size, _, _ in self._queries.values():
            if n <= self.max_queries and total <= self.max_bytes and self.next_number - number <= self.max_age:
                break
            if same is None or number != same[0]:
                gone.append(number)
                n, total = n - 1, total - size
        return gone

    def put(self, query_id: Hashable, query: Any, n_bytes: int, number: int, gone: list[int], at: float | None = None) -> None:
        """Let a query wait under its number, replacing one under the same id and dropping the queries `gone`.

        Those are forgotten; of those that feedback was given for, the windows end.
        """
        before = self._queries.pop(query_id, None)
        try:
            self._queries[query_id] = (number, n_bytes, at, query)
            if self.window is not None:
                heapq.heappush(self._ends, (self._end(at), number, query_id))
        except MemoryError:
            if before is not None:
                self._queries[query_id] = before
            raise
        self._clock = max(self._clock, number)
        self._n_bytes += n_bytes - (before[1] if before else 0)
        if gone:
            self._forget({*gone})
        if self._early.pop(query_id, None) is not None:
            self._n_early -= _n_values(self._given[query_id])
        if self._fetch is not None:
            self._spill(query_id, number, n_bytes)
        if at is not None:
            self.advance(at)

    @property
    def n_early(self) -> int:
        """Number of queries that feedback came for, and that may yet be ranked."""
        return len(self._early)

    @property
    def next_end(self) -> float | None:
        """When the next window ends; None if none is open."""
        while self._ends:
            end, number, query_id = self._ends[0]
            if self.number(query_id) == number:
                return end
            heapq.heappop(self._ends)
        return None

    def has_feedback(self, query_id: Hashable) -> bool:
        """Whether anything was given to the documents of a query."""
        return query_id in self._given

    def is_given(self, number: int) -> bool:
        """Whether anything was given to the documents of the query with a number."""
        return bool(self._given) and any(own == number and i in self._given for i, (own, *_) in self._queries.items())

    def placed(self, query_id: Hashable, at: float) -> str:
        """What becomes of feedback that is of a time: "waits", "early" or "late"."""
        found = self._queries.get(query_id)
        if found is None:
            return "early"
        end = self._end(found[2])
        return "late" if at > end or self.now >= end else "waits"

    def give(
        self, query_id: Hashable, given: Mapping[Hashable, float], kind: str, at: float, ungraded: int | str | None
    ) -> None:
        """Take feedback that is not late; what has a later time already stays."""
        kept = self._given.setdefault(query_id, {})
        before = _n_values(kept) if query_id not in self._queries else 0
        for document, value in given.items():
            kinds = kept.setdefault(document, {})
            if kind not in kinds or kinds[kind][1] <= at:
                kinds[kind] = (value, at)
        if ungraded is not None and (query_id not in self._ungraded or self._ungraded[query_id][1] <= at):
            self._ungraded[query_id] = (ungraded, at)
        if query_id not in self._queries:
            self._n_early += _n_values(kept) - before
            if query_id not in self._early:
                heapq.heappush(self._early_ends, (at + (self.window or 0.0), next(self._ties), query_id))
            self._early[query_id] = max(at, self._early.get(query_id, at))
        self.advance(at)

    def require_room_for_early(self, n_values: int) -> None:
        """Raise ValueError where too much feedback waits for queries that have not come."""
        if len(self._early) >= self.max_queries or (self._n_early + n_values) * _VALUE > self.max_bytes:
            raise ValueError(f"no query waits under this id, and feedback on {len(self._early)} others is early already")

    def advance(self, at: float) -> None:
        """Let it be a time, unless it is later already; early feedback whose query has not come is forgotten."""
        if at <= self.now:
            return
        self.now = at
        while self._early_ends and self._early_ends[0][0] <= at:
            _, _, query_id = heapq.heappop(self._early_ends)
            last = self._early.get(query_id)
            if last is None:
                continue
            end = last + (self.window or 0.0)
            if end > at:
                heapq.heappush(self._early_ends, (end, next(self._ties), query_id))
            else:
                self._n_early -= _n_values(self._given.pop(query_id))
                self._ungraded.pop(query_id, None)
                del self._early[query_id]
                self.n_expired += 1

    def next_closed(self) -> Any:
        """The id of the waiting query whose window ended first, or None."""
        end = self.next_end
        return None if end is None or end > self.now else self._ends[0][2]

    def totals(self, query_id: Hashable) -> dict[Hashable, float]:
        """What the documents of a query are worth by what was given so far."""
        given = self._given.get(query_id)
        return {} if given is None or self.plan is None else self.plan.totals(given)

    def ungraded(self, query_id: Hashable) -> int | str | None:
        """What becomes of documents that were given nothing."""
        if self.plan is None:
            return None
        return self._ungraded.get(query_id, (self.plan.ungraded, 0.0))[0]

    def number(self, query_id: Hashable) -> int | None:
        """The number of the query waiting under an id, or None."""
        found = self._queries.get(query_id)
        return None if found is None else found[0]

    def get(self, query_id: Hashable) -> Any:
        """The query that waits under an id, or None."""
        number, _, _, query = self._queries.get(query_id, (0, 0, None, None))
        return self._fetch(number) if query is None and number and self._fetch is not None else query

    def take(self, query_id: Hashable) -> Any:
        """Remove and return the query waiting under an id. Raises KeyError if there is none."""
        _, n_bytes, _, query = self._queries.pop(query_id)
        self._n_bytes -= n_bytes
        self._given.pop(query_id, None)
        self._ungraded.pop(query_id, None)
        if len(self._ends) > 2 * len(self._queries) + 1000:
            self._derive()
        return query

    def numbers(self) -> list[int]:
        """The numbers of all queries that wait, in order."""
        return [number for number, *_ in self._queries.values()]

    def read_from(self, fetch: Callable[[int], Any]) -> None:
        """Queries are on the disk too, where `fetch` reads them by number, those that wait now and all later ones.

        Only the last ones stay in memory.
        """
        self._fetch, self.n_stored = fetch, self._clock
        for query_id, (number, n_bytes, *_) in [*self._queries.items()]:
            self._spill(query_id, number, n_bytes)

    def follow(self, plan: FeedbackPlan | None, at: float) -> None:
        """Let another plan count from the time `at` on. Windows of queries that were ranked without one begin then."""
        if self.window is None:
            self._since = max(at, self.now)
        self.plan = plan
        if self.window is None:
            self._given, self._ungraded, self._early, self._n_early = {}, {}, {}, 0
        self._derive()

    def in_memory(self) -> "PendingQueries":
        """A copy with all queries, those on disk read again."""
        whole = self.without_queries()
        whole._queries = {
            query_id: (number, n_bytes, at, tuple(self.get(query_id)) if query is None else query)
            for query_id, (number, n_bytes, at, query) in self._queries.items()
        }
        whole._n_bytes = self._n_bytes
        return whole

    def without_queries(self) -> "PendingQueries":
        """Everything but the queries, for saving: what was given so far, time, counts."""
        bare = PendingQueries(max_queries=self.max_queries, max_age=self.max_age, max_bytes=self.max_bytes, plan=self.plan)
        for name in ("now", "n_evicted", "n_expired", "_since", "_clock", "_n_early"):
            setattr(bare, name, getattr(self, name))
        bare._given = {query_id: {d: {**kinds} for d, kinds in given.items()} for query_id, given in self._given.items()}
        bare._ungraded, bare._early = {**self._ungraded}, {**self._early}
        return bare

    def __contains__(self, query_id: Hashable) -> bool:
        return query_id in self._queries

    def __len__(self) -> int:
        return len(self._queries)

    def _add(self, query_id: Hashable, given: dict[Hashable, float], kind: str, at: float, ungraded: int | str | None) -> str:
        if self.window is None:
            raise ValueError("feedback is gathered over a window: PendingQueries(plan=FeedbackPlan(window=...))")
        require_time("at", at)
        place = self.placed(query_id, at)
        if place == "late":
            self.advance(at)
            return place
        if place == "early" and query_id not in self._early:
            self.require_room_for_early(len(given))
        self.give(query_id, given, kind, at, ungraded)
        return place

    def _require_at(self, at: float | None) -> None:
        if at is not None:
            require_time("at", at)
        elif self.window is not None:
            raise ValueError("at is missing: with a window, queries have the time when they were ranked")

    def _end(self, at: float | None) -> float:
        """When the window ends of a query that was ranked at a time."""
        return (self._since if at is None else at) + (self.window or 0.0)

    def _forget(self, gone: set[int]) -> None:
        """Forget queries by their numbers; they are among the oldest."""
        ids = []
        for query_id, (number, *_) in self._queries.items():
            if number in gone:
                ids.append(query_id)
                if len(ids) == len(gone):
                    break
        for query_id in ids:
            if query_id in self._given:
                # What was given to it is not lost: its window ends now.
                heapq.heappush(self._ends, (-math.inf, self._queries[query_id][0], query_id))
            else:
                self.take(query_id)
                self.n_evicted += 1

    def _spill(self, query_id: Hashable, number: int, n_bytes: int) -> None:
        """Keep the newest query in memory, and as many of the earlier ones as there is room for."""
        self._in_memory.append((query_id, number, n_bytes))
        self._in_memory_bytes += n_bytes
        while self._in_memory_bytes > _IN_MEMORY and self._in_memory[0][1] <= self.n_stored:
            query_id, number, n_bytes = self._in_memory.popleft()
            self._in_memory_bytes -= n_bytes
            if self.number(query_id) == number:
                _, size, at, _ = self._queries[query_id]
                self._queries[query_id] = (number, size, at, None)

    def _derive(self) -> None:
        window = self.window
        self._ends = [] if window is None else [(self._end(at), n, i) for i, (n, _, at, _) in self._queries.items()]
        early = ((last + (window or 0.0), query_id) for query_id, last in self._early.items())
        self._early_ends = [(end, next(self._ties), query_id) for end, query_id in early]
        heapq.heapify(self._ends)
        heapq.heapify(self._early_ends)

    def _check_state(self) -> None:
        if self._n_bytes != sum(n_bytes for _, n_bytes, _, _ in self._queries.values()):
            raise ValueError("the waiting queries do not add up to the bytes that they take")
        if any(query_id not in self._given or query_id in self._queries for query_id in self._early):
            raise ValueError("early feedback is of queries that have come, or is missing")
        if self._n_early != sum(_n_values(self._given[query_id]) for query_id in self._early):
            raise ValueError("early feedback does not add up")


def _n_values(given: Given) -> int:
    return sum(map(len, given.values()))
