"""Queries waiting for feedback, which may come in pieces, or before the query."""

import copy
import functools
import heapq
import itertools
import math
from collections.abc import Container, Hashable, Iterable, Mapping
from typing import TYPE_CHECKING, Any

from online_rank.arguments import integer
from online_rank.arguments import number as real
from online_rank.base.schema import Count, Derived, DictOf, Plain, Real, Schema, Text, TupleOf
from online_rank.base.undo import all_or_nothing
from online_rank.limits import MAX_DOCUMENTS
from online_rank.serving.plan import PLACE, FeedbackPlan, Given
from online_rank.serving.waiting import MARK, WaitingQueries, asked_as

if TYPE_CHECKING:
    from online_rank.base.undo import Undo

#: About what a value that was given takes.
_VALUE = 300
#: Ids that have no several pages any more are kept until there are this many.
_PAGED = 1000
#: Queries whose time is over that go at once.
_AT_ONCE = 32


class PendingQueries(WaitingQueries):
    """Queries that wait for their feedback, for a time and in bounded memory.

    The oldest are dropped when all of them take too much memory, and, when others come, after their time. With a window
    (`FeedbackPlan`), feedback on a query is gathered until the window ends; feedback that comes before its query waits for it
    as long. Time is the time of events, and moves with them. Windows of the oldest end sooner where they would be forgotten, if
    anything was given to them.

    Parameters
    ----------
    max_seconds
        Seconds for which a query waits, if it has a time; with a window at least as long as the window.
    max_bytes
        Most memory, or disk space, of all waiting queries, by the sizes passed to `put`.
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
    """

    _schema = Schema(
        n_expired=Count(),
        now=Real(finite=False),
        _since=Real(finite=False),
        _n_early=Count(),
        _given=DictOf(Plain(), DictOf(Plain(), DictOf(Text(), TupleOf(Real(), Real())))),
        _ungraded=DictOf(Plain(), TupleOf(Plain(), Real())),
        _early=DictOf(Plain(), Real()),
        _ends=Derived(),
    )

    def __init__(
        self,
        *,
        max_seconds: float = 604_800.0,
        max_bytes: int = 1 << 28,
        plan: FeedbackPlan | None = None,
    ) -> None:
        real("max_seconds", max_seconds, above=0.0)
        integer("max_bytes", max_bytes, 1)
        super().__init__(max_bytes)
        self.max_seconds = max_seconds
        self.plan = plan
        self.n_expired = 0
        self.now = -math.inf
        #: When the windows begin of queries that were ranked before there were any.
        self._since = -math.inf
        self._n_early = 0
        self._given: dict[Hashable, Given] = {}
        self._ungraded: dict[Hashable, tuple[Any, float]] = {}
        #: What time it was when the last feedback came for those that were not ranked yet, the earliest first.
        self._early: dict[Hashable, float] = {}
        # A heap of when windows end; what has changed since has another entry.
        self._ends: list[tuple[float, int, Any]] = []

    @property
    def window(self) -> float | None:
        """Seconds for which a query takes feedback; None if it is learned from the first."""
        return None if self.plan is None else self.plan.window

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
        self,
        changes: all_or_nothing,
        query_id: Hashable,
        given: Mapping[Hashable, float],
        kind: str,
        at: float,
        ungraded: int | str | None,
        now: float | None = None,
    ) -> None:
        """Take feedback that is not late; what has a later time already stays. `changes` undo it.

        `now` is the time that it is, if the time of the feedback is ahead of it.
        """
        before = self._given.get(query_id, {})
        kept = {document: {**kinds} for document, kinds in before.items()}
        if kind == PLACE:  # Of a list that was displayed at the same time, no document may stay.
            of_before = [document for document, kinds in kept.items() if kinds.get(PLACE, (0, math.inf))[1] <= at]
            for document in of_before:
                del kept[document][PLACE]
                if not kept[document]:
                    del kept[document]
        for document, value in given.items():
            kinds = kept.setdefault(document, {})
            if kind not in kinds or kinds[kind][1] <= at:
                kinds[kind] = (value, at)
        expired = self._expired(at if now is None else now, query_id)
        changes.include_entries(self._given, [query_id])
        if query_id not in self._queries:
            changes.include_entries(self._early, [query_id], sort=True)
            self._n_early += n_values(kept) - n_values(before)
            self._early.pop(query_id, None)
            self._early[query_id] = self.now
        self._given[query_id] = kept
        if ungraded is not None and (query_id not in self._ungraded or self._ungraded[query_id][1] <= at):
            changes.include_entries(self._ungraded, [query_id])
            self._ungraded[query_id] = (ungraded, at)
        self._forget_early(changes, expired)

    def require_room_for_early(self, n_values: int) -> None:
        """Raise ValueError where too much feedback waits for queries that have not come, or more than any query can take."""
        if n_values > MAX_DOCUMENTS:
            raise ValueError(f"feedback is on {n_values} documents; a query may have {MAX_DOCUMENTS}")
        if (len(self._early) + self._n_early + n_values) * _VALUE > self.max_bytes:
            raise ValueError(f"no query waits under this id, and feedback on {len(self._early)} others is early already")

    def advance(self, changes: all_or_nothing, at: float) -> None:
        """It becomes a time, unless it is later already; `changes` undo it.

        Early feedback whose query has not come is forgotten.
        """
        self._forget_early(changes, self._expired(at))

    def _expired(self, at: float, coming: Hashable = None) -> list[Hashable]:
        """It becomes a time: the queries whose early feedback is to be forgotten.

        Feedback on `coming` stays: this query, or more feedback on it, comes now.
        """
        self.now = max(self.now, at)
        over = itertools.takewhile(lambda query_id: self._early[query_id] + (self.window or 0.0) <= at, self._early)
        return [query_id for query_id in over if query_id != coming]

    def lost(self, query_id: Hashable, at: float | None, documents: Container[Any]) -> tuple[int, int]:
        """Of the values that were given early to a query, which was ranked at a time: how many are late, and how many of the
        others are of documents that it does not have.
        """
        timely = self._timely(query_id, at)
        of_others = {document: kinds for document, kinds in timely.items() if document not in documents}
        return n_values(self._given[query_id]) - n_values(timely), n_values(of_others)

    def _timely(self, query_id: Hashable, at: float | None) -> Given:
        """What was given early to a query that was ranked at a time, until the end of its window."""
        end = self._end(at)
        timely = {
            document: {kind: value for kind, value in kinds.items() if value[1] <= end}
            for document, kinds in self._given[query_id].items()
        }
        return {document: kinds for document, kinds in timely.items() if kinds}

    def early_ids(self) -> list[Hashable]:
        """The ids of the queries that feedback came for, and that may yet be ranked."""
        return [*self._early]

    def _forget_early(self, changes: all_or_nothing, expired: list[Hashable], come: Iterable[Hashable] = ()) -> None:
        """Early feedback on some queries has expired; that on those that have come is not early any more.

        The last of the changes: what has left comes back at the end if it is undone.
        """
        if not (early := [*expired, *come]):
            return
        self._n_early -= sum([n_values(self._given[query_id]) for query_id in early])
        self.n_expired += len(expired)
        for entries, gone in ((self._given, expired), (self._ungraded, expired), (self._early, early)):
            changes.include_entries(entries, gone, sort=entries is self._early)
            for query_id in gone:
                entries.pop(query_id, None)

    def next_closed(self) -> Any:
        """The id of the waiting query whose window ended first, or None."""
        end = self.next_end
        return None if end is None or end > self.now else self._ends[0][2]

    def totals(self, query_id: Hashable) -> dict[Hashable, float]:
        """What the documents of a query are worth by what was given so far."""
        given = self._given.get(query_id)
        return {} if given is None or self.plan is None else self.plan.totals(given)

    def displayed(self, query_id: Hashable) -> list[Hashable] | None:
        """The documents of a query as a client displayed them last; None if no feedback has said that."""
        places = [(kinds[PLACE], document) for document, kinds in self._given.get(query_id, {}).items() if PLACE in kinds]
        last = max((at for (_, at), _ in places), default=None)
        return sorted((d for (_, at), d in places if at == last), key=lambda d: self._given[query_id][d][PLACE]) or None

    def ungraded(self, query_id: Hashable) -> int | str | None:
        """What becomes of documents that were given nothing."""
        if self.plan is None:
            return None
        return self._ungraded.get(query_id, (self.plan.ungraded, 0.0))[0]

    def _end(self, at: float | None) -> float:
        """When the window ends of a query that was ranked at a time."""
        return (self._since if at is None else max(at, self._since)) + (self.window or 0.0)

    def crowded_out(self, query_id: Hashable, n_bytes: int, now: float | None) -> list[int]:
        """The numbers of the queries that must go before another one of `n_bytes` can wait under an id, the oldest first.

        Those whose time is over go too, but only some at once.
        """
        same = self._queries.get(query_id)
        total = self._n_bytes + n_bytes - (same[1] if same else 0)
        longest = max(self.max_seconds, self.window or 0.0)
        over, gone = (self.now if now is None else max(now, self.now)) - longest, list[int]()
        for number, size, at, _ in self._queries.values():
            is_over = at is not None and at < over and len(gone) < _AT_ONCE
            if total <= self.max_bytes and not is_over:
                break
            if same is None or number != same[0]:
                gone.append(number)
                total -= size
        return gone

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

        They are forgotten; if feedback was given for one, its window ends. `now` is the time that it is, if the time of the
        query is ahead of it. `spill` must follow.
        """
        forgotten = self._forgotten({*gone}, query_id) if gone else []
        come = query_id in self._early
        # Whichever comes first, the query or its feedback: what is of a time after the window is late.
        timely = self._timely(query_id, at) if come else {}
        time, expired = at if now is None else now, list[Hashable]()
        if time is not None and at is not None:
            if self._early:
                expired = self._expired(time, query_id)
            elif time > self.now:
                self.now = time
        if forgotten or query_id in self._queries:
            changes.include_entries(self._queries, [query_id, *forgotten], sort=True)
            for each in forgotten if query_id not in self._queries else [*forgotten, query_id]:
                self._n_bytes -= self._queries.pop(each)[1]
        else:
            changes.log.append(functools.partial(self._queries.pop, query_id, None))
        self.n_evicted += len(forgotten)
        self._queries[query_id] = (number, n_bytes, at, query)
        if type(query_id) is str and query_id.startswith(MARK):
            self.paged.add(asked_as(query_id))
            if len(self.paged) > 2 * len(self._queries) + _PAGED:
                self._derive()
        if number > self._clock:
            self._clock = number
        self._n_bytes += n_bytes
        # What has an end in the heap, and does not wait, is passed over there.
        if self.plan is not None and self.plan.window is not None:
            heapq.heappush(self._ends, (self._end(at), number, query_id))
        if self._fetch is not None:
            self._hold(query_id, number, n_bytes)
        if expired or come:
            self._forget_early(changes, expired, [query_id] if come else [])
        if come:
            changes.include_entries(self._given, [query_id])
            changes.include_entries(self._ungraded, [query_id])
            if timely:
                self._given[query_id] = timely
            else:
                self._given.pop(query_id, None)
                self._ungraded.pop(query_id, None)

    def leave(self, changes: all_or_nothing, query_id: Hashable) -> None:
        """The query under an id, if one waits, waits no longer; `changes` undo it.

        The last of the changes to what waits: what was given to it comes back at the end if it is undone.
        """
        if query_id in self._queries:
            changes.include_entries(self._queries, [query_id], sort=True)
            self._n_bytes -= self._queries.pop(query_id)[1]
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

    def _record(self, log: "list[Undo]", _: Any = None) -> None:
        """Add to a log what undoes changes of attributes, and derives again what is derived; for entries: `include_entries`."""
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

    def without_queries(self) -> "PendingQueries":
        """Everything but the queries, for saving: what was given so far, time, counts."""
        bare = copy.copy(self)
        bare._queries, bare._n_bytes = {}, 0
        bare._given = {query_id: {d: {**kinds} for d, kinds in given.items()} for query_id, given in self._given.items()}
        bare._ungraded, bare._early = {**self._ungraded}, {**self._early}
        return bare

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

    def _derive(self) -> None:
        window = self.window
        ends = [] if window is None else [(self._end(at), n, i) for i, (n, _, at, _) in self._queries.items()]
        heapq.heapify(ends)
        paged = {asked_as(query_id) for query_id in self._queries if type(query_id) is str and query_id.startswith(MARK)}
        vars(self).update(_ends=ends, paged=paged)


def n_values(given: Given) -> int:
    """The number of values that were given."""
    return sum(map(len, given.values()))
