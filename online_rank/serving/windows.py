"""Windows of feedback: it is gathered for a while after a ranking, and the query is learned when its window ends."""

import contextlib
from typing import Any

from online_rank.base.undo import all_or_nothing
from online_rank.query.grades import MAX_GRADE
from online_rank.serving.answers import require_known
from online_rank.serving.learning import NOT_CLICKS, LearningService
from online_rank.serving.outcomes import Outcome, Reply
from online_rank.serving.plan import GRADE

__all__ = ["WindowedService"]

#: Most queries that are learned after one request since their windows have ended; the others follow after the next ones.
_MOST_CLOSED = 32


class WindowedService(LearningService):
    """A service that learns queries when their windows end (`FeedbackPlan`)."""

    def advance(self, at: float) -> Reply:
        """Let it be a time, although no request says so: queries are learned whose windows have ended by then.

        For times without requests; where nothing has ended, nothing changes.
        """
        end = self._pending.next_end
        if end is None or end > at:
            return Reply({})
        reply = Reply({}, Outcome(("time", at)))
        with all_or_nothing(self) as changes:
            self._count(None)
            self._pending.advance(changes, at)
        return self._with_what_follows(reply)

    def _gather(self, kind: str, fields: dict[str, Any], request: bytes, at: float, now: float) -> Reply:
        """Take feedback that is learned when the window of its query ends. Its time `at` may be ahead of `now`."""
        query_id, pending = fields["id"], self._pending
        place = pending.placed(query_id, at) if self.learned_as(query_id) is None else "late"
        given = self._given(kind, fields)
        if place == "late":
            reply = Reply({"id": query_id, "accepted": False, "late": True}, Outcome(("late", now)), learned=True)
            with all_or_nothing(self) as changes:
                self._count("late")
                pending.advance(changes, now)
            return reply
        if place == "waits":
            text, _, drawn = pending.get(query_id)
            require_known(given, self._known(text, drawn))
        else:
            pending.require_room_for_early(len(given))
        early = {"early": True} if place == "early" else {}
        times = (at,) if now == at else (at, now)
        reply = Reply(
            {"id": query_id, "accepted": True, **early}, Outcome(("feedback", *times), feedback=request), learned=True
        )
        self._gathered(kind, fields, given, *times)
        return reply

    def _given(self, kind: str, fields: dict[str, Any]) -> dict[Any, float]:
        """What feedback gives to documents, checked. Raises ValueError."""
        if kind == "event":
            given = {fields["doc"]: self._pending.plan.value_of(fields["event"], fields.get("value"))}  # type: ignore[union-attr]
        elif kind == "grades" and self.draws:
            raise ValueError("this service learns from clicks and events, not from grades")
        elif kind == "clicks" and not self.draws:
            raise ValueError(NOT_CLICKS)
        else:
            given = fields[kind] if isinstance(fields[kind], dict) else dict.fromkeys(fields[kind], 1)
        for name, value in given.items():
            whole = self.draws or (type(value) in (int, float) and value == int(value))
            if type(value) not in (int, float) or not whole or not 0 <= value <= MAX_GRADE:
                wanted = f"{'a number' if self.draws else 'an integer'} from 0 to {MAX_GRADE}"
                raise ValueError(f"document {name[:100]!r} is given {str(value)[:40]}; it must be {wanted}")
        return given

    def _gathered(
        self, kind: str, fields: dict[str, Any], given: dict[Any, float], at: float, now: float | None = None
    ) -> None:
        """Feedback was accepted."""
        event = fields["event"] if kind == "event" else GRADE
        with all_or_nothing(self) as changes:
            self._count("accepted")
            self._pending.give(changes, fields["id"], given, event, at, fields.get("ungraded"), now)

    def _close_due(self, closed: list[Reply]) -> None:
        """Learn queries whose windows have ended, and add what becomes of each to `closed`."""
        try:
            while len(closed) < _MOST_CLOSED and (query_id := self._pending.next_closed()) is not None:
                number = self._pending.number(query_id) or 0
                outcome = Outcome(("close", query_id), gone=(number,))
                # It has its place before it is learned: what was learned must be known.
                closed.append(Reply({}, outcome))
                try:
                    closed[-1] = self._closed(query_id, outcome)
                except (ValueError, TypeError, OverflowError):
                    # Checked when it came; what is left is a model that cannot learn this query at all.
                    closed[-1] = Reply({}, Outcome(("drop", query_id), gone=(number,)))
                    self._dropped(query_id)
        except MemoryError:
            if closed and closed[-1].outcome is not None and closed[-1].outcome.fields[1] not in self._learned:
                closed.pop()

    def _closed(self, query_id: Any, outcome: Outcome) -> Reply:
        """Learn a query from all that was given to it."""
        pending, plan = self._pending, self._pending.plan
        totals = pending.totals(query_id)
        if plan is None or (not pending.has_feedback(query_id) and plan.unanswered == "skip"):
            reply = Reply({}, outcome)
            self._forgotten(query_id, "unanswered")
            return reply
        text, _, drawn = pending.get(query_id)
        # Feedback that arrived before its query may name other documents.
        documents = {*self._known(text, drawn)}
        known = {name: value for name, value in totals.items() if name in documents}
        if drawn:
            return self._learn_waiting(query_id, "clicks", known, None, outcome, self._time(None))
        return self._learn_waiting(
            query_id, "grades", known, pending.ungraded(query_id) if totals else 0, outcome, self._time(None)
        )

    def _dropped(self, query_id: Any) -> None:
        """A query cannot be learned."""
        self._forgotten(query_id, "refused")

    def _forgotten(self, query_id: Any, counted: str) -> None:
        """A query goes without being learned; feedback on it is late from now on."""
        with all_or_nothing(self) as changes:
            self._end(changes, query_id, self._pending.number(query_id), 0, counted)

    def _with_what_follows(self, reply: Reply) -> Reply:
        """A reply, with what happens after its request. Nothing that has happened is missing where memory runs out."""
        with contextlib.suppress(MemoryError):
            closed: list[Reply] = []
            reply = reply._replace(closed=closed)
            if self.plan is not None and self.plan.window is not None:
                self._close_due(closed)
            if self.challenge is not None and self.challenge.is_won:
                level = self.challenge.promote_at or 0.95
                won = f"the challenger is better than the serving model: {self.challenge.difference(level)}"
                promoted, promotion = reply._replace(promoted=won), Reply({}, Outcome(("promote",)), promoted=won)
                self._promote()
                closed.append(promotion)
                reply = promoted
        return reply

    def _promote(self) -> None:
        """The challenger serves from now on."""
        with all_or_nothing(self):
            if self.challenge is not None:
                self.replaced, self.model = self.model, self.challenge.model
                self._promoted, self.challenge = self.challenge.origin or "", None
                self._read.clear()
            self._count(None)
