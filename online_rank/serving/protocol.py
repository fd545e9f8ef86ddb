"""A ranker behind JSON lines, for programs in any language.

Each request is a JSON object on a line of its own, and each gets one line in answer, in order:

    {"id": "q1", "docs": {"a": {"clicks": 3}, "b": {"clicks": 1}}}
        -> {"id": "q1", "ranking": ["a", "b"], "scores": [0.7, 0.2]}             best first
    {"id": "q1", "grades": {"a": 0, "b": 2}}
        -> {"id": "q1", "learned": true, "loss": 0.37}
        -> {"id": "q1", "learned": false, "duplicate": true}                     these grades were learned before
        -> {"id": "q1", "learned": false, "late": true}                          other grades were learned before: too late

A service that learns from clicks draws the documents to show, which come first in the ranking, and learns from the clicks on
them. The other documents follow, by score:

    {"id": "q1", "docs": {"a": {"clicks": 3}, "b": {"clicks": 1}}}
        -> {"id": "q1", "ranking": ["b", "a"], "scores": [0.2, 0.7], "shown": 2} show the first two, in this order
    {"id": "q1", "clicks": ["a"]}                                                [] = looked at, nothing clicked
        -> {"id": "q1", "learned": true, "loss": 0.5}
    {"id": "q2", "clicks": {"a": 0.7}}                                           engagement: time, purchases, ...

What learning from clicks needs to know of the draw waits with the query; none of it crosses the wire.

For models that look at what is known of the query itself (`CrossFeatures`), and for those that fuse what retrievers returned
(`RunFeatures`):

    {"id": "q3", "docs": {...}, "context": {"user": "u17"}}
    {"id": "q4", "runs": {"bm25": [["d7", 12.3], ["d2", 11.9]], "vector": {"d2": 0.83}}}
    {"id": "q5", "runs": {...}, "docs": {"d7": {"price": 3}}}                    what else is known of the candidates

A service with a window (`FeedbackPlan`) learns a query when its window ends, from all that was given until then:

    {"id": "q1", "grades": {"a": 2}}                                             grades of some documents
    {"id": "q1", "event": "purchase", "doc": "b"}                                events that were declared with their values
    {"id": "q1", "event": "purchase", "doc": "b", "value": 0}                    taken back
        -> {"id": "q1", "accepted": true}                                        of several, the one with the latest time counts
        -> {"id": "q1", "accepted": true, "early": true}                         its query has not come yet
        -> {"id": "q1", "accepted": false, "late": true}                         its window has ended: not learned

Any request may have `"ts"`, its time in seconds, and `"meta"`, which is answered as it came. Also

    {"id": "q1", "grades": {"a": 2}, "ungraded": 0}                              the other documents have grade 0, or "skip"
    {"id": "q3", "docs": {...}, "grades": {...}}                                 learned at once: somebody else ranked it
        -> {"id": "q3", "learned": true, "loss": 0.2}                            by the scores before learning
    {"id": "q3", "docs": {...}, "greedy": true}
        -> {"id": "q3", "ranking": [...], "scores": [...]}                       by score: nothing is drawn, nothing waits
    {"id": "q3", "docs": {...}, "explain": ["a", "b"]}
        -> {"id": "q3", "explanation": {"difference": 0.5, "contributions": [["clicks", 0.5]], "exact": true}}
    {"cmd": "stats"}
        -> {"stats": {...}}
    {"cmd": "save"}
        -> {"saved": "model.npz"}
    anything else
        -> {"error": "what is wrong", "line": 17}                                and nothing has changed

Ids are strings or integers; each identifies one query.
"""

import contextlib
import dataclasses
import functools
import json
import math
from collections.abc import Collection
from typing import Any

import numpy as np

from online_rank import arguments
from online_rank.base import abilities_of, ranker_of
from online_rank.base.growth import growth_limited
from online_rank.base.undo import all_or_nothing
from online_rank.limits import MAX_COUNT, is_id, is_integer
from online_rank.query import Block, Runs
from online_rank.serving.answers import explained, ranked
from online_rank.serving.clock import CLOCK
from online_rank.serving.outcomes import Outcome, Reply
from online_rank.serving.requests import KindRefused, asked_of, kind_of, require_feedback
from online_rank.serving.windows import WindowedService
from online_rank.serving.wire import decoded
from online_rank.storage.files import from_bytes

__all__ = ["Outcome", "RankingService", "Reply"]

#: Approximate memory of a waiting query besides its text, and of each document besides its features: names, scores, the draw.
_ENTRY = 500
_DOCUMENT = 200

#: Number of queries kept in parsed form until their feedback arrives, and the largest size of each in bytes.
_READ = 256
_LARGEST_READ = 1 << 18


class RankingService(WindowedService):
    """Answers requests, and learns from grades or clicks whenever they arrive.

    Its state is a function of the outcomes of its requests, so replaying them (`replay`) restores it.

    Parameters
    ----------
    model
        A ranker, or a pipeline that ends in one. One that learns from clicks draws the rankings that are served.
    measure
        The measure of served rankings when their grades arrive.
    max_pending, max_age, max_pending_bytes
        Most queries waiting for feedback, the number of further queries for which they wait, and their total size in bytes (see
        `PendingQueries`).
    learn_served
        Whether to learn from the mistakes of the scores that were served. A certificate under delay needs it
        (`online_rank.bounds`, "Late grades"). Otherwise a query is scored again when its grades arrive, which ranks better, but
        only the new scores are certified.
    origin
        Digest of the model's file; None for a new model. A folder continues only with the file that it began with.
    plan
        What counts as feedback, and when it is learned; None for one piece of feedback a query, learned when it comes.
    challenge
        A second model that is compared with this one, and may take its place; None for none.
    null_is_missing
        Whether a feature that is null counts as missing; else it is refused.
    clock_skew
        Seconds by which the time of a request (`"ts"`) may be ahead of the clock; more is refused.

    Examples
    --------
    >>> from online_rank import PerceptronRanker
    >>> from online_rank.serving.protocol import RankingService
    >>> service = RankingService(PerceptronRanker())
    >>> service.handle(b'{"id": 1, "docs": {"a": {"clicks": 3}, "b": {"clicks": 1}}}').answer
    {'id': 1, 'ranking': ['a', 'b'], 'scores': [0.0, 0.0]}
    >>> service.handle(b'{"id": 1, "grades": {"a": 0, "b": 2}}').answer
    {'id': 1, 'learned': True, 'loss': 0.369...}
    >>> service.handle(b'{"id": 1, "grades": {"a": 0, "b": 2}}').answer
    {'id': 1, 'learned': False, 'duplicate': True}
    >>> service.handle(b'{"id": 1, "grade": 2}', line=4).answer
    {'id': 1, 'error': 'a request has the fields id and docs (or runs), id and grades, ...; this one has id, grade', 'line': 4}
    """

    def handle(self, request: bytes, line: int = 0, at: float | None = None, kinds: Collection[str] | None = None) -> Reply:
        """Answer one request. A bad one changes nothing, and raises nothing.

        Parameters
        ----------
        request
            JSON.
        line
            Its number, for error answers.
        at
            When it arrived, in seconds: its time, where it has none of its own (`"ts"`); None for the time on the clock.
        kinds
            The kinds of requests that are answered (`kind_of`); None for all.
        """
        try:
            fields = decoded(request)
        except ValueError as error:
            return Reply({"error": f"not a JSON object: {error}", "line": line})
        except MemoryError:
            return Reply({"error": "not enough memory for this request", "line": line})
        is_refused = False
        try:
            reply = self._handled(kind_of(fields, kinds), fields, request, at)
        except (ValueError, TypeError, OverflowError) as error:
            message, is_refused = str(error), isinstance(error, KindRefused)
        except MemoryError:
            message = "not enough memory for this request"
        else:
            if "meta" in fields:
                with contextlib.suppress(MemoryError):  # What has changed must be known to the journal.
                    reply.answer["meta"] = fields["meta"]
            alone = reply.outcome is None or (self.plan is None and self.challenge is None)
            return reply if alone else self._with_what_follows(reply)
        query_id = fields.get("id")
        known = {"id": query_id} if is_id(query_id) else {}
        return Reply({**known, "error": message, "line": line}, is_refused=is_refused)

    def answer_again(self, request: bytes) -> Reply:
        """Answer a request that was handled before, as far as possible; nothing changes.

        A waiting query gets its earlier answer; a learned or dropped query, and feedback, get `"duplicate": true`.
        """
        try:
            fields = decoded(request)
            kind = kind_of(fields)
        except ValueError as error:
            return Reply({"error": str(error), "line": 0})
        if kind in ("cmd", "explain") or fields.get("greedy"):
            return self.handle(request)
        query_id = fields["id"]
        waiting = self._pending.get(query_id) if kind == "rank" else None
        if waiting is None:
            gathers = self._pending.window is not None and kind != "teach"
            done = {} if kind == "rank" else {"accepted" if gathers else "learned": False}
            return Reply({"id": query_id, **done, "duplicate": True})
        asked = asked_of(decoded(waiting[0].encode()), self.null_is_missing)
        scores = dict(zip(asked.ids if isinstance(asked, Runs) else asked, waiting[1], strict=True))
        return Reply(ranked(query_id, scores, json.loads(waiting[2])["order"] if waiting[2] else None))

    def exchange_model(self, model: Any, content: bytes) -> Outcome:
        """Replace the model as `replace_model` does, between two requests.

        Parameters
        ----------
        model
            The new model.
        content
            Its file, for the journal: what follows was learned by this model.

        Returns
        -------
        The change, which a journal must record.
        """
        outcome = Outcome(("replace",), feedback=content)
        with all_or_nothing(self):
            replaced = self.model
            self.replace_model(model, self.origin)
            self.replaced, self._promoted = replaced, self._promoted or ""
            self._count(None)
        return outcome

    def replay(self, fields: list[Any], number: int | None, waiting: Any, feedback: bytes) -> None:
        """Repeat the change of an `Outcome`."""
        # What was accepted before is accepted again.
        growth_limited(math.inf).run(self._replay, fields, number, waiting, feedback)

    def _replay(self, fields: list[Any], number: int | None, waiting: Any, feedback: bytes) -> None:
        kind, *rest = fields
        if kind in ("learn", "teach", "close", "drop"):
            # What is learned again had been forgotten.
            self._learned.pop(rest[0], None)
        if kind == "rank":
            # Journals of older versions lack the share that was kept, and the time if it is not that of the query.
            n_shown, gone, n_asked, kept, now = (*rest, None, None)[:5]
            if not all(is_integer(count, 0, MAX_COUNT) for count in (n_shown or 0, n_asked)):
                raise ValueError("a ranking has counts that no file can hold")
            arguments.number("the share of the DCG that a draw keeps", kept, 0.0, 1.001, optional=True)
            if now is not None:
                arguments.require_time("the time of a ranking", now)
            if number is not None and (type(number) is not int or number != self._pending.next_number):
                raise ValueError(f"a query waits under number {number}, but the next is {self._pending.next_number}")
            if n_shown is not None:
                ranker_of(self.model).n_shown = n_shown
            if self.challenge is not None:
                self.challenge.n_asked = n_asked
            with all_or_nothing(self) as changes:
                self._ranked(changes, number, waiting, gone, now, kept)
            self._pending.spill()
        elif kind == "learn":
            request = decoded(feedback)
            self._learn(kind_of(request), request, feedback, _time_in(rest, 2))
        elif kind == "teach":
            self._teach(decoded(feedback), feedback, _time_in(rest, 1), n_bytes=None)
        elif kind == "feedback":
            for time in rest:
                arguments.require_time("the time of feedback", time)
            request = decoded(feedback)
            kind = kind_of(request)
            self._gathered(kind, request, self._given(kind, request), *rest)
        elif kind == "close":
            self._closed(rest[0], Outcome(tuple(fields)))
        elif kind == "replace":
            self.exchange_model(from_bytes(feedback), feedback)
        elif kind == "promote":
            self._promote()
        elif kind == "drop":
            self._dropped(rest[0])
        else:
            passes = kind != "duplicate" and rest[0] is not None
            if passes:
                arguments.require_time("time", rest[0])
            with all_or_nothing(self) as changes:
                self._count({"time": None, "late": "late"}.get(kind, "duplicates"))
                if passes:
                    self._pending.advance(changes, rest[0])

    def _handled(self, kind: str, fields: dict[str, Any], request: bytes, at: float | None) -> Reply:
        """Answer a request of a kind. Raises ValueError, and others, before anything changes."""
        if kind == "cmd":
            return self._command(fields["cmd"])
        own, now = self._times(fields.get("ts"), at)
        learned_at = self._time(None if at is None and "ts" not in fields else now)
        if kind == "teach":
            return self._teach(fields, request, learned_at, n_bytes=len(request))
        if kind == "explain":
            return self._explain(fields, request)
        gathers = self.plan is not None and self.plan.window is not None
        if kind == "rank":
            return self._rank(fields, request, *((own, now) if gathers else (None, None)))
        require_feedback(kind, fields)
        if gathers:
            return self._gather(kind, fields, request, own, now)
        if kind == "event":
            raise ValueError("events are added up over a window, and this service has none: start it with --feedback-window")
        return self._learn(kind, fields, request, learned_at)

    def _times(self, ts: float | None, at: float | None) -> tuple[float, float]:
        """A request's own time, and the time that it is, which is not ahead of the clock; `at` is when it arrived.

        Raises ValueError for a time that is too far ahead.
        """
        latest = CLOCK.now() if at is None else max(at, CLOCK.now())
        if ts is None:
            own = CLOCK.now() if at is None else at
        elif (own := CLOCK.read(ts)) > latest + self.clock_skew:
            raise ValueError(
                f"ts is {ts}, {own - latest:,.0f} seconds ahead of the clock; {self.clock_skew:g} are accepted (--clock-skew)"
            )
        return own, min(own, latest)

    def _rank(self, fields: dict[str, Any], request: bytes, at: float | None, now: float | None) -> Reply:
        query_id, greedy = fields["id"], fields.get("greedy", False)
        if type(greedy) is not bool:
            raise ValueError("greedy must be true or false")
        query, text = self._query_of(fields, n_bytes=len(request)), request.decode()
        # Before anything is drawn, because a refused request must not change the next draw.
        size = _ENTRY + len(text) * (1 if text.isascii() else 4) + _DOCUMENT * query.n_documents
        self._pending.require_room(size)
        scores = self.model.predict_one(query)
        if greedy:
            return Reply(ranked(query_id, scores))
        with all_or_nothing(self) as changes:
            answer, drawn, draw = ranked(query_id, scores), None, None
            if abilities_of(self.model).draws:
                ranker = ranker_of(self.model)
                changes.undo_by(functools.partial(vars(ranker).update, {"_n_shown": ranker.n_shown}))
                shown = self.model.show_one(query)
                if self.challenge is not None:
                    shown = self.challenge.drafted(self.model, query, len(shown.order)) or shown
                if shown.teams is None:
                    shown = dataclasses.replace(shown, kept=ranker.kept_share([*scores.values()]))
                answer = ranked(query_id, scores, [*shown.order])
                drawn = json.dumps(shown.to_dict(), separators=(",", ":"))
                draw = ranker.n_shown, shown.kept
            waiting = (query_id, size, at, text, [*scores.values()], drawn)
            reply = self._waiting(changes, answer, draw, waiting, query, now)
        self._pending.spill()
        return reply

    def _explain(self, fields: dict[str, Any], request: bytes) -> Reply:
        """Explain the difference between the scores of two documents. Nothing changes."""
        query = self._query_of(fields, n_bytes=len(request))
        return Reply({"id": fields["id"], "explanation": explained(self.model, query, fields["explain"])})

    def _waiting(
        self,
        changes: all_or_nothing,
        answer: dict[str, Any],
        draw: tuple[int, float | None] | None,
        waiting: tuple[Any, ...],
        read: Block,
        now: float | None,
    ) -> Reply:
        """The answer to a query that was ranked, and waits for its feedback, unless it was already learned; `changes` undo it.

        `draw` is the number of draws so far, and the share of the DCG that the last one keeps; `now` is the time, if it counts.
        """
        n_shown, kept = (None, None) if draw is None else draw
        query_id, size, at, *_ = waiting
        # Only a query ahead of the clock has another time than it is.
        ahead = () if now == at else (now,)
        number, gone = None, list[int]()
        replaced = self._pending.number(query_id)
        if self.learned_as(query_id) is None:
            number, gone = self._pending.next_number, self._pending.crowded_out(query_id, size)
        # Of those that feedback was given for the windows end: they go when they are learned.
        forgotten = [each for each in gone if not self._pending.is_given(each)] if gone else gone
        if replaced is not None:
            forgotten = [*forgotten, replaced]
        n_asked = 0
        if self.challenge is not None and draw is not None:
            self.challenge.n_asked += 1
            n_asked = self.challenge.n_asked
        reply = Reply(answer, Outcome(("rank", n_shown, gone, n_asked, kept, *ahead), number, waiting, gone=tuple(forgotten)))
        if number is not None and size <= _LARGEST_READ:
            if len(self._read) >= _READ:
                self._read.pop(next(iter(self._read)), None)
            self._read[number] = read
        self._ranked(changes, number, waiting, gone, now, kept)
        return reply

    def _ranked(
        self,
        changes: all_or_nothing,
        number: int | None,
        waiting: tuple[Any, ...],
        gone: list[int],
        now: float | None,
        kept: float | None,
    ) -> None:
        """A query was ranked, and waits under its number; the last of the changes, which undo it."""
        self._count("ranked")
        if kept is not None:
            self._kept = self._kept + np.array((1.0, kept))
        if number is not None:
            query_id, size, at, *query = waiting
            if self._pending.is_early(query_id):
                text, _, drawn = query
                n_late, n_unknown = self._pending.lost(query_id, at, {*self._known(text, drawn)})
                self._counts["late"] += n_late
                self._counts["unknown_documents"] += n_unknown
            self._pending.put(changes, query_id, tuple(query), size, number, gone, at, now)

    def _command(self, command: Any) -> Reply:
        if command == "stats":
            return Reply({"stats": self.stats()})
        if command == "save":
            return Reply({}, command="save")
        raise ValueError(f"cmd is {str(command)[:40]!r}; there are 'save' and 'stats'")


def _time_in(fields: list[Any], i: int) -> float | None:
    """The time at which a query was learned, among the fields of a change; None where it has none. Raises ValueError."""
    if len(fields) <= i:
        return None
    arguments.require_time("the time of a change", fields[i])
    return float(fields[i])
