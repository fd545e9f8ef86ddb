"""Feedback that is gathered for queries until their windows end, or until the query comes."""

import heapq
import itertools
import math
from collections.abc import Container, Hashable, Iterable, Mapping
from typing import Any

from online_rank.base.schema import Count, Derived, DictOf, Plain, Real, Schema, Text, TupleOf
from online_rank.base.undo import all_or_nothing
from online_rank.serving.plan import FeedbackPlan, Given
from online_rank.serving.waiting import WaitingQueries

#: About what a value that was given takes.
_VALUE = 300


class GatheredFeedback(WaitingQueries):
    """The windows of `PendingQueries`: what was given to which query, when it ends, and what time it is."""

    _schema = Schema(
        n_expired=Count(),
        now=Real(finite=False),
        _since=Real(finite=False),
        _n_early=Count(),
        _given=DictOf(Plain(), DictOf(Plain(), DictOf(Text(), TupleOf(Real(), Real())))),
        _ungraded=DictOf(Plain(), TupleOf(Plain(), Real())),
        _early=DictOf(Plain(), Real()),
        _ends=Derived(),
        _early_ends=Derived(),
        _ties=Derived(),
    )

    def __init__(self, max_bytes: int, plan: FeedbackPlan | None) -> None:
        super().__init__(max_bytes)
        self.plan = plan
        self.n_expired = 0
        self.now = -math.inf
        #: When the windows begin of queries that were ranked before there were any.
        self._since = -math.inf
        self._n_early = 0
        self._given: dict[Hashable, Given] = {}
        self._ungraded: dict[Hashable, tuple[Any, float]] = {}
        #: When the last feedback came for those that were not ranked yet.
        self._early: dict[Hashable, float] = {}
        # Heaps of when windows end; what has changed since has another entry.
        self._ends: list[tuple[float, int, Any]] = []
        self._early_ends: list[tuple[float, int, Any]] = []
        self._ties = itertools.count()

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

        `now` is the time that it is, where that of the feedback is ahead of it.
        """
        before = self._given.get(query_id, {})
        kept = {document: {**kinds} for document, kinds in before.items()}
        for document, value in given.items():
            kinds = kept.setdefault(document, {})
            if kind not in kinds or kinds[kind][1] <= at:
                kinds[kind] = (value, at)
        expired = self._expired(at if now is None else now, query_id)
        changes.include_entries(self._given, [query_id])
        if query_id not in self._queries:
            changes.include_entries(self._early, [query_id])
            self._n_early += n_values(kept) - n_values(before)
            if query_id not in self._early:
                heapq.heappush(self._early_ends, (at + (self.window or 0.0), next(self._ties), query_id))
            self._early[query_id] = max(at, self._early.get(query_id, at))
        self._given[query_id] = kept
        if ungraded is not None and (query_id not in self._ungraded or self._ungraded[query_id][1] <= at):
            changes.include_entries(self._ungraded, [query_id])
            self._ungraded[query_id] = (ungraded, at)
        self._forget_early(changes, expired)

    def require_room_for_early(self, n_values: int) -> None:
        """Raise ValueError where too much feedback waits for queries that have not come."""
        if (len(self._early) + self._n_early + n_values) * _VALUE > self.max_bytes:
            raise ValueError(f"no query waits under this id, and feedback on {len(self._early)} others is early already")

    def advance(self, changes: all_or_nothing, at: float) -> None:
        """It becomes a time, unless it is later already; `changes` undo it.

        Early feedback whose query has not come is forgotten.
        """
        self._forget_early(changes, self._expired(at))

    def _expired(self, at: float, coming: Hashable = None) -> list[Hashable]:
        """It becomes a time: the queries whose early feedback is to be forgotten.

        Not that of `coming`: this query, or more feedback on it, comes now.
        """
        expired = []
        if at > self.now:
            self.now, ends = at, self._early_ends
            while ends and ends[0][0] <= at:
                _, _, query_id = heapq.heappop(ends)
                last = at if query_id == coming and query_id in self._early else self._early.get(query_id)
                if last is None:
                    continue
                end = last + (self.window or 0.0)
                if end > at:
                    heapq.heappush(ends, (end, next(self._ties), query_id))
                else:
                    expired.append(query_id)
        return [*dict.fromkeys(expired)]

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

    def is_early(self, query_id: Hashable) -> bool:
        """Whether feedback came for a query, and no ranking yet."""
        return query_id in self._early

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
            changes.include_entries(entries, gone)
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

    def ungraded(self, query_id: Hashable) -> int | str | None:
        """What becomes of documents that were given nothing."""
        if self.plan is None:
            return None
        return self._ungraded.get(query_id, (self.plan.ungraded, 0.0))[0]

    def _end(self, at: float | None) -> float:
        """When the window ends of a query that was ranked at a time."""
        return (self._since if at is None else max(at, self._since)) + (self.window or 0.0)

    def _derive(self) -> None:
        super()._derive()
        window = self.window
        ends = [] if window is None else [(self._end(at), n, i) for i, (n, _, at, _) in self._queries.items()]
        early = [(last + (window or 0.0), next(self._ties), query_id) for query_id, last in self._early.items()]
        heapq.heapify(ends)
        heapq.heapify(early)
        vars(self).update(_ends=ends, _early_ends=early)


def n_values(given: Given) -> int:
    """The number of values that were given."""
    return sum(map(len, given.values()))
