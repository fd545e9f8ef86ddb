"""Queries waiting for feedback, which may come in pieces, or before the query."""

import functools
import heapq
import itertools
import math
from collections.abc import Hashable, Iterable, Iterator, Mapping
from typing import Any

from online_rank.arguments import integer, require_time
from online_rank.arguments import number as real
from online_rank.base.schema import Schema
from online_rank.base.undo import Undo, all_or_nothing
from online_rank.limits import is_name
from online_rank.serving.gathering import GatheredFeedback, n_values
from online_rank.serving.plan import GRADE, FeedbackPlan
from online_rank.serving.waiting import MOST_APART

#: Queries whose time is over that go at once.
_AT_ONCE = 32


class PendingQueries(GatheredFeedback):
    """Queries that wait for their feedback, for a time and in bounded memory.

    The oldest are dropped when all of them take too much memory, and, when others come, after their time. With a window
    (`FeedbackPlan`), feedback on a query is gathered until the window ends; feedback that comes before its query waits for it
    as long. Time is that of the events, and moves with them. Windows of the oldest end sooner where they would be forgotten, if
    anything was given to them.

    Parameters
    ----------
    max_seconds
        Seconds for which a query waits, if it has a time; with a window at least as long as the window.
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
    >>> pending = PendingQueries(max_seconds=60)
    >>> for at, query in enumerate(("a", "b", "c")):
    ...     pending.remember(query, query.upper(), at=50 * at)
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

    _schema = Schema()

    def __init__(
        self,
        *,
        max_seconds: float = 604_800.0,
        max_bytes: int = 1 << 28,
        plan: FeedbackPlan | None = None,
    ) -> None:
        real("max_seconds", max_seconds, above=0.0)
        integer("max_bytes", max_bytes, 1)
        super().__init__(max_bytes, plan)
        self.max_seconds = max_seconds

    def remember(self, query_id: Hashable, query: Any, n_bytes: int = 0, *, at: float | None = None) -> None:
        """Let a query, which takes `n_bytes`, wait for its feedback; one that waits under the same id is replaced.

        Parameters
        ----------
        query_id, query
            Its id, and whatever `take` and `closed` are to give back.
        n_bytes
            What it takes.
        at
            When it was ranked, in seconds; without it, it waits for however long, and it is needed where there is a window.

        Raises
        ------
        ValueError
            Before anything changes: it takes more than `max_bytes` by itself, or `at` is missing or no time.
        """
        _require_names(query_id)
        self.require_room(n_bytes)
        self._require_at(at)
        crowded = self.crowded_out(query_id, n_bytes, at)
        with all_or_nothing(self) as changes:
            self.put(changes, query_id, query, n_bytes, self.next_number, crowded, at)
        self.spill()

    def crowded_out(self, query_id: Hashable, n_bytes: int, now: float | None) -> list[int]:
        """The numbers of the queries that must go before another one of `n_bytes` can wait under an id, the oldest first.

        Those whose time is over go too, but only some at once.
        """
        same = self._queries.get(query_id)
        total = self._n_bytes + n_bytes - (same[1] if same else 0)
        longest = max(self.max_seconds, self.window or 0.0)
        over, gone, next_number = (self.now if now is None else max(now, self.now)) - longest, list[int](), self.next_number
        for number, size, at, _ in self._queries.values():
            is_over = at is not None and at < over and len(gone) < _AT_ONCE
            if total <= self.max_bytes and not is_over and next_number - number < MOST_APART:
                break
            if same is None or number != same[0]:
                gone.append(number)
                total -= size
        return gone

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
        _require_names(query_id, *grades)
        return self._add(query_id, dict(grades), GRADE, at, ungraded)

    def add_event(self, query_id: Hashable, event: str, document: Hashable, value: float | None = None, *, at: float) -> str:
        """Take an event of the plan on one document; one of that kind that was given before is replaced, unless it is later.

        `value` is what it is worth, where that is not what its kind is worth; 0 takes it back. Returns and raises as `add`.
        """
        if self.plan is None:
            raise ValueError("events need a plan: PendingQueries(plan=FeedbackPlan(window=..., events=...))")
        _require_names(query_id, document)
        return self._add(query_id, {document: self.plan.value_of(event, value)}, event, at, None)

    def closed(self, at: float) -> Iterator[tuple[Hashable, Any, dict[Hashable, float]]]:
        """The queries whose windows have ended by a time, the one that ended first at the beginning; they wait no longer.

        Each with its query and what its documents are worth; nothing where there was no feedback.
        """
        require_time("at", at)
        with all_or_nothing(self) as changes:
            self.advance(changes, at)
        while (query_id := self.next_closed()) is not None:
            totals = self.totals(query_id)
            yield query_id, self.take(query_id), totals

    def put(
        self,
        changes: all_or_nothing,
        query_id: Hashable,
        query: Any,
        n_bytes: int,
        number: int,
        gone: list[int],
        at: float | None,
        now: float | None = None,
    ) -> None:
        """A query waits under its number; the queries `gone`, and one under its id, go. `changes` undo it.

        Those are forgotten; of those that feedback was given for, the windows end. `now` is the time that it is, where that of
        the query is ahead of it. `spill` must follow.
        """
        forgotten = self._forgotten({*gone}, query_id) if gone else []
        come = [query_id] if query_id in self._early else []
        # Whichever comes first, the query or its feedback: what is of a time after the window is late.
        timely = self._timely(query_id, at) if come else {}
        expired = [] if at is None else self._expired(at if now is None else now, query_id)
        changes.include_entries(self._queries, [query_id, *forgotten], sort=True)
        for each in forgotten if query_id not in self._queries else [*forgotten, query_id]:
            earlier, size, *_ = self._queries.pop(each)
            self._waits[earlier - self._first] = 0
            self._n_bytes -= size
        self.n_evicted += len(forgotten)
        self._queries[query_id] = (number, n_bytes, at, query)
        place = number - self._first
        self._waits.extend(bytes(max(0, place + 1 - len(self._waits))))
        self._waits[place] = 1
        self._clock = max(self._clock, number)
        self._n_bytes += n_bytes
        # What has an end in the heap, and does not wait, is passed over there.
        if self.window is not None:
            heapq.heappush(self._ends, (self._end(at), number, query_id))
        if self._fetch is not None:
            self._hold(query_id, number, n_bytes)
        self._forget_early(changes, expired, come)
        if come:
            changes.include_entries(self._given, come)
            changes.include_entries(self._ungraded, come)
            if timely:
                self._given[query_id] = timely
            else:
                self._given.pop(query_id, None)
                self._ungraded.pop(query_id, None)

    def take(self, query_id: Hashable) -> Any:
        """Remove and return the query waiting under an id. Raises KeyError if there is none."""
        query = self._queries[query_id][3]
        with all_or_nothing(self) as changes:
            self.leave(changes, query_id)
        if len(self._ends) > 2 * len(self._queries) + 1000:
            self._derive()
        return query

    def leave(self, changes: all_or_nothing, query_id: Hashable) -> None:
        """The query under an id, if there is one, waits no longer; `changes` undo it.

        The last of the changes: what was given to it comes back at the end if it is undone.
        """
        if query_id in self._queries:
            changes.include_entries(self._queries, [query_id], sort=True)
            number, n_bytes, *_ = self._queries.pop(query_id)
            self._waits[number - self._first] = 0
            self._n_bytes -= n_bytes
            for entries in (self._given, self._ungraded):
                if query_id in entries:
                    changes.include_entries(entries, [query_id])
                    del entries[query_id]

    def forget(self, query_ids: Iterable[Hashable]) -> None:
        """Some queries wait no longer, and early feedback is gone."""
        gone = {*query_ids}
        for name in ("_queries", "_given", "_ungraded", "_early"):
            setattr(self, name, {query_id: row for query_id, row in getattr(self, name).items() if query_id not in gone})
        self._n_bytes = sum([n_bytes for _, n_bytes, *_ in self._queries.values()])
        self._n_early = sum([n_values(self._given[query_id]) for query_id in self._early])
        self._derive()

    def _record(self, log: list[Undo], _: Any = None) -> None:
        """Add to a log what undoes changes of attributes, and makes anew what is derived; of entries see `include_entries`."""
        log += [self._derive, functools.partial(vars(self).update, vars(self).copy())]

    def change_plan(self, plan: FeedbackPlan | None, at: float) -> None:
        """Let another plan count from the time `at` on. Windows of queries that were ranked without one begin then."""
        changed: dict[str, Any] = {"plan": plan}
        if self.window is None:
            changed["_since"] = max(at, self.now)
        if plan is None or plan.window is None:
            changed |= {"_given": {}, "_ungraded": {}, "_early": {}, "_n_early": 0}
        vars(self).update(changed)
        self._derive()

    def latest_time(self) -> float:
        """The latest time of all that waits, and of the windows; minus infinity if there is none."""
        ranked = [at for _, _, at, _ in self._queries.values() if at is not None]
        given = [at for given in self._given.values() for kinds in given.values() for _, at in kinds.values()]
        others = [at for _, at in self._ungraded.values()]
        return max(self.now, self._since, *self._early.values(), *ranked, *given, *others, -math.inf)

    def set_back(self, now: float) -> tuple[int, list[Hashable]]:
        """Let all times that lie ahead of `now` be that time. Returns how many there were, and the queries among them."""
        ids = [query_id for query_id, (_, _, at, _) in self._queries.items() if at is not None and at > now]
        n = len(ids) + (self.now > now) + (self._since > now) + sum(at > now for at in self._early.values())
        n += sum(at > now for given in self._given.values() for kinds in given.values() for _, at in kinds.values())
        n += sum(at > now for _, at in self._ungraded.values())
        for query_id in ids:
            number, n_bytes, _, query = self._queries[query_id]
            self._queries[query_id] = (number, n_bytes, now, query)
        self.now, self._since = min(self.now, now), min(self._since, now)
        self._early = {query_id: min(at, now) for query_id, at in self._early.items()}
        self._ungraded = {query_id: (ungraded, min(at, now)) for query_id, (ungraded, at) in self._ungraded.items()}
        self._given = {
            query_id: {
                document: {kind: (value, min(at, now)) for kind, (value, at) in kinds.items()}
                for document, kinds in given.items()
            }
            for query_id, given in self._given.items()
        }
        self._derive()
        return n, ids

    def without_queries(self) -> "PendingQueries":
        """Everything but the queries, for saving: what was given so far, time, counts."""
        bare = PendingQueries(max_seconds=self.max_seconds, max_bytes=self.max_bytes, plan=self.plan)
        for name in ("now", "n_evicted", "n_expired", "_since", "_clock", "_n_early"):
            setattr(bare, name, getattr(self, name))
        bare._given = {query_id: {d: {**kinds} for d, kinds in given.items()} for query_id, given in self._given.items()}
        bare._ungraded, bare._early = {**self._ungraded}, {**self._early}
        return bare

    def _add(self, query_id: Hashable, given: dict[Hashable, float], kind: str, at: float, ungraded: int | str | None) -> str:
        if self.window is None:
            raise ValueError("feedback is gathered over a window: PendingQueries(plan=FeedbackPlan(window=...))")
        require_time("at", at)
        place = self.placed(query_id, at)
        if place == "early" and query_id not in self._early:
            self.require_room_for_early(len(given))
        with all_or_nothing(self) as changes:
            if place == "late":
                self.advance(changes, at)
            else:
                self.give(changes, query_id, given, kind, at, ungraded)
        return place

    def _require_at(self, at: float | None) -> None:
        if at is not None:
            require_time("at", at)
        elif self.window is not None:
            raise ValueError("at is missing: with a window, queries have the time when they were ranked")

    def _forgotten(self, gone: set[int], coming: Hashable) -> list[Hashable]:
        """The ids of queries to forget, by their numbers; they are among the oldest, and not those under the id that comes."""
        ids = []
        for query_id, (number, *_) in self._queries.items():
            if number in gone and query_id != coming:
                ids.append(query_id)
                if len(ids) == len(gone):
                    break
        for query_id in ids:
            if query_id in self._given:
                # What was given to it is not lost: its window ends now.
                heapq.heappush(self._ends, (-math.inf, self._queries[query_id][0], query_id))
        return [query_id for query_id in ids if query_id not in self._given]

    def _check_state(self) -> None:
        numbers = [0, *(number for number, *_ in self._queries.values()), self.next_number]
        if any(one >= later for one, later in itertools.pairwise(numbers)):
            raise ValueError("the waiting queries are not in the order of their numbers, or have numbers still to come")
        if self._n_bytes != sum(n_bytes for _, n_bytes, _, _ in self._queries.values()):
            raise ValueError("the waiting queries do not add up to the bytes that they take")
        if any(query_id not in self._given or query_id in self._queries for query_id in self._early):
            raise ValueError("early feedback is of queries that have come, or is missing")
        if self._n_early != sum(n_values(self._given[query_id]) for query_id in self._early):
            raise ValueError("early feedback does not add up")


def _require_names(*names: Hashable) -> None:
    """Raise TypeError for an id of a query or a document that no file can hold."""
    for name in names:
        if not is_name(name):
            raise TypeError(
                f"the id {name!r:.80} is of type {type(name).__name__}: ids are strings, integers of 64 bits, or tuples"
            )
