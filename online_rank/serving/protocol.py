"""A ranker behind JSON lines, for programs in any language.

Each request is a JSON object on a line of its own, and each gets one line in answer, in order:

    {"id": "q1", "docs": {"a": {"clicks": 3}, "b": {"clicks": 1}}}
        -> {"id": "q1", "ranking": ["a", "b"], "scores": [0.7, 0.2]}             best first
    {"id": "q1", "grades": {"a": 0, "b": 2}}
        -> {"id": "q1", "learned": true, "loss": 0.37}
        -> {"id": "q1", "learned": false, "duplicate": true}                     its grades were learned before

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
    {"cmd": "stats"}
        -> {"stats": {...}}
    {"cmd": "save"}
        -> {"saved": "model.npz"}
    anything else
        -> {"error": "what is wrong", "line": 17}                                and nothing has changed

Ids are strings or integers; each identifies one query.
"""

import copy
import json
import math
import time
from collections.abc import Callable, Sequence
from typing import Any

import numpy as np

from online_rank.arguments import flag, integer
from online_rank.base import abilities_of, parts_of, ranker_of
from online_rank.base.schema import Array, Count, Derived, DictOf, Nested, Plain, Schema, Text
from online_rank.base.undo import all_or_nothing
from online_rank.feedback import Clicks, Impression
from online_rank.intervals import Interval, LossInterval, served_loss
from online_rank.limits import CELLS_A_BYTE, MAX_CELLS, MAX_DOCUMENTS, is_id
from online_rank.measures import learned_measure
from online_rank.metrics import metric
from online_rank.query import Block, Runs, as_grades, read_query
from online_rank.query.grades import MAX_GRADE
from online_rank.serving.challenge import Challenge, drafted_by_challenge
from online_rank.serving.outcomes import Outcome, Reply
from online_rank.serving.pending import PendingQueries
from online_rank.serving.plan import GRADE, FeedbackPlan
from online_rank.serving.requests import asked_of, ids_of, kind_of, require_feedback
from online_rank.serving.wire import decoded
from online_rank.storage.files import to_bytes

__all__ = ["Outcome", "RankingService", "Reply"]

#: Approximate memory of a waiting query besides its text, and of each document besides its features: names, scores, the draw.
_ENTRY = 500
_DOCUMENT = 200

#: Most queries that are learned after one request since their windows have ended; the others follow after the next ones.
_MOST_CLOSED = 32

#: What is counted.
_COUNTED = ("ranked", "learned", "duplicates", "accepted", "late", "unanswered", "refused")

_NOT_CLICKS = "this service learns from grades: its ranker draws no rankings that clicks could be learned from"

#: Number of queries kept in parsed form until their feedback arrives, and the largest size of each in bytes.
_READ = 256
_LARGEST_READ = 1 << 18


class RankingService:
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
    max_learned
        Number of learned ids to remember, to recognise repeated feedback.
    learn_served
        Whether to learn from the mistakes of the scores that were served. A certificate under delay needs it
        (`online_rank.bounds.delay_bound`). Otherwise a query is scored again when its grades arrive, which ranks better, but
        only the new scores are certified.
    origin
        Digest of the model's file; None for a new model. A folder continues only with the file that it began with.
    plan
        What counts as feedback, and when it is learned; None for one piece of feedback a query, learned when it comes.
    challenge
        A second model that is compared with this one, and may take its place; None for none.
    null_is_missing
        Whether a feature that is null counts as missing; else it is refused.

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

    _schema = Schema(
        n_changes=Count(),
        _pending=Nested("PendingQueries"),
        _metric=Nested("RankingMetric"),
        _learned=DictOf(Plain(), Plain()),
        _counts=DictOf(Text(*_COUNTED), Count()),
        _served=Array(3),
        _longest_delay=Count(),
        _promoted=Text(optional=True),
        replaced=Derived(),
        _target=Derived(),
        _read=Derived(),
    )

    def __init__(
        self,
        model: Any,
        *,
        measure: str = "ndcg@10",
        max_pending: int = 10_000,
        max_age: int = 100_000,
        max_learned: int = 100_000,
        max_pending_bytes: int = 1 << 28,
        learn_served: bool = False,
        origin: str | None = None,
        plan: FeedbackPlan | None = None,
        challenge: Challenge | None = None,
        null_is_missing: bool = False,
    ) -> None:
        integer("max_pending", max_pending, 1)
        integer("max_pending_bytes", max_pending_bytes, 1)
        integer("max_learned", max_learned, 1)
        flag("learn_served", learn_served)
        flag("null_is_missing", null_is_missing)
        self.model = model
        self.measure = measure
        self.max_pending = max_pending
        self.max_age = max_age
        self.max_learned = max_learned
        self.max_pending_bytes = max_pending_bytes
        self.learn_served = learn_served
        self.origin = origin
        self.plan = plan
        self.challenge = challenge
        self.null_is_missing = null_is_missing
        if challenge is not None:
            challenge.require_rival(model)
        self.n_changes = 0
        self._promoted: str | None = None
        #: The model whose place the challenger took last in this process.
        self.replaced: Any = None
        self._pending = PendingQueries(
            max_queries=max_pending, max_age=max_age, max_bytes=max_pending_bytes, plan=copy.copy(plan)
        )
        self._require_plan()
        self._metric = metric(measure)
        #: The learned ids, with the numbers of the changes.
        self._learned: dict[str | int, int] = {}
        #: Waiting queries in parsed form.
        self._read: dict[int, Block] = {}
        self._counts = dict.fromkeys(_COUNTED, 0)
        self._target = learned_measure(model)
        self._served = np.zeros(3)
        self._longest_delay = 0

    def handle(self, request: bytes, line: int = 0, at: float | None = None) -> Reply:
        """Answer one request. A bad one changes nothing, and raises nothing.

        Parameters
        ----------
        request
            JSON.
        line
            Its number, for error answers.
        at
            Its time in seconds, where it has none of its own; None for the time on the clock.
        """
        try:
            fields = decoded(request)
        except ValueError as error:
            return Reply({"error": f"not a JSON object: {error}", "line": line})
        except MemoryError:
            return Reply({"error": "not enough memory for this request", "line": line})
        try:
            reply = self._handled(kind_of(fields), fields, request, at)
        except (ValueError, TypeError, OverflowError) as error:
            message = str(error)
        except MemoryError:
            message = "not enough memory for this request"
        else:
            if "meta" in fields:
                reply.answer["meta"] = fields["meta"]
            return self._with_what_follows(reply) if reply.outcome is not None else reply
        query_id = fields.get("id")
        known = {"id": query_id} if is_id(query_id) else {}
        return Reply({**known, "error": message, "line": line})

    def advance(self, at: float) -> Reply:
        """Let it be a time, although no request says so: queries are learned whose windows have ended by then.

        For times without requests; where nothing has ended, nothing changes.
        """
        end = self._pending.next_end
        if end is None or end > at:
            return Reply({})
        self._pending.advance(at)
        self.n_changes += 1
        return self._with_what_follows(Reply({}, Outcome(("time", at))))

    @property
    def now(self) -> float | None:
        """The latest time of requests, where there is a window and there was one."""
        now = self._pending.now
        return None if math.isinf(now) else now

    def answer_again(self, request: bytes) -> Reply:
        """Answer a request that was handled before, as far as possible; nothing changes.

        A waiting query gets its earlier answer; a learned or dropped query, and feedback, get `"duplicate": true`.
        """
        try:
            fields = decoded(request)
            kind = kind_of(fields)
        except ValueError as error:
            return Reply({"error": str(error), "line": 0})
        if kind == "cmd" or fields.get("greedy"):
            return self.handle(request)
        query_id = fields["id"]
        waiting = self._pending.get(query_id) if kind == "rank" else None
        if waiting is None:
            gathers = self._pending.window is not None and kind != "teach"
            done = {} if kind == "rank" else {"accepted" if gathers else "learned": False}
            return Reply({"id": query_id, **done, "duplicate": True})
        asked = asked_of(decoded(waiting[0].encode()), self.null_is_missing)
        scores = dict(zip(asked.ids if isinstance(asked, Runs) else asked, waiting[1], strict=True))
        return Reply(_ranked(query_id, scores, json.loads(waiting[2])["order"] if waiting[2] else None))

    def stats(self) -> dict[str, Any]:
        """Counts and figures since the first start of the service, across restarts with a checkpoint.

        Losses are those of rankings whose grades arrived (`served_interval`): their sum, their mean, and its interval.
        """
        interval = self.served_interval()
        return {
            **self.counts(),
            "pending": self.n_waiting,
            "early": self._pending.n_early,
            self.measure: self._metric.get(),
            "loss_sum": float(self._served[1]),
            "loss_mean": interval.mean if interval.n else None,
            "loss_mean_interval": [interval.lower, interval.upper],
            "longest_delay": self._longest_delay,
            **({} if self.challenge is None else {"challenger": self.challenge.figures()}),
        }

    @property
    def draws(self) -> bool:
        """Whether the model draws the rankings to show, to learn from clicks on them."""
        return abilities_of(self.model).draws

    @property
    def n_waiting(self) -> int:
        """Number of queries waiting for feedback."""
        return len(self._pending)

    def counts(self) -> dict[str, int]:
        """What only grows: how many queries were ranked, learned, and forgotten, and what became of feedback."""
        return {**self._counts, "evicted": self._pending.n_evicted, "expired": self._pending.n_expired}

    def served_interval(self, level: float = 0.95) -> Interval:
        """Interval for the mean expected loss of the rankings served so far, valid at all times with probability `level`.

        It covers queries whose grades arrived, and is valid on any stream (`online_rank.intervals`).
        """
        return LossInterval(self._served).interval(level)

    def replay(self, fields: list[Any], number: int | None, waiting: Any, feedback: bytes) -> None:
        """Repeat the change of an `Outcome`."""
        kind, *rest = fields
        if kind == "rank":
            n_shown, gone, n_asked = rest
            if n_shown is not None:
                ranker_of(self.model).n_shown = n_shown
            if self.challenge is not None:
                self.challenge.n_asked = n_asked
            self._ranked(number, waiting, gone)
        elif kind == "learn":
            request = decoded(feedback)
            self._learn(kind_of(request), request, feedback)
        elif kind == "teach":
            self._teach(decoded(feedback), feedback)
        elif kind == "feedback":
            request = decoded(feedback)
            self._gathered(kind_of(request), request, rest[0])
        elif kind == "close":
            self._closed(rest[0], Outcome(tuple(fields)))
        elif kind == "promote":
            self._promote()
        elif kind == "drop":
            self._dropped(rest[0])
        else:
            if kind != "duplicate":
                self._pending.advance(rest[0])
            if kind != "time":
                self._counts["late" if kind == "late" else "duplicates"] += 1
            self.n_changes += 1

    def limit(self, max_pending: int, max_age: int, max_learned: int, max_pending_bytes: int) -> None:
        """Change the limits; anything beyond them is dropped at the next query. A checkpoint has to follow."""
        self.max_pending, self.max_age, self.max_pending_bytes = max_pending, max_age, max_pending_bytes
        self.max_learned = max_learned
        pending = self._pending
        pending.max_queries, pending.max_age, pending.max_bytes = max_pending, max_age, max_pending_bytes

    def replace_model(self, model: Any, origin: str | None) -> None:
        """Replace the model by another one, from the file `origin`. Waiting queries and counts are kept.

        A checkpoint must follow, because the journal can only be replayed with the model that it began with.

        Raises
        ------
        TypeError, ValueError
            It is not a ranker, or it learns from another kind of feedback than the present model.
        """
        if abilities_of(model).draws != self.draws:
            raise ValueError("one model learns from clicks, the other from grades")
        target = learned_measure(model)
        ranker_of(model)
        if target != self._target:
            # Earlier losses are in another measure.
            self._served = np.zeros(3)
        self.model, self.origin, self._target = model, origin, target
        self._read.clear()

    def without_rows(self) -> "RankingService":
        """A copy of the service without the waiting queries and the learned ids.

        It is only for saving: rows kept in tables are not written again with the model.
        """
        bare = copy.copy(self)
        bare._learned, bare._read = {}, {}
        bare._pending = self._pending.without_queries()
        return bare

    def whole_file(self) -> bytes:
        """The whole service in a file, with the queries that wait: what a replica begins with."""
        whole = copy.copy(self)
        whole._read, whole._pending = {}, self._pending.in_memory()
        return to_bytes(whole)

    def rank_greedily(self, request: bytes) -> Reply | None:
        """Rank a query by the scores; None for a request of another kind. Nothing changes."""
        try:
            fields = decoded(request)
            if kind_of(fields) != "rank":
                return None
            return self._rank({**fields, "greedy": True}, request, None)
        except (ValueError, TypeError, OverflowError) as error:
            return Reply({"error": str(error)})

    def waiting_numbers(self) -> list[int]:
        """The numbers of the waiting queries, in order."""
        return self._pending.numbers()

    def learned_changes(self) -> list[int]:
        """The numbers of the changes by which the known ids were learned, in order."""
        return [*self._learned.values()]

    def stored(self, number: int) -> None:
        """Queries up to this number are on the disk."""
        self._pending.n_stored = max(self._pending.n_stored, number)

    def read_queries_from(self, fetch: Callable[[int], Any]) -> None:
        """Declare that queries are also on the disk, where `fetch` reads them by number: only the last ones stay in memory."""
        self._pending.read_from(fetch)

    def restore(self, learned: dict[str | int, int], waiting: dict[int, tuple[Any, ...]]) -> None:
        """Restore the ids, with their changes, and the queries, by number, of a service saved `without_rows`."""
        self._learned = learned
        for number, (query_id, size, at, *query) in waiting.items():
            self._pending.put(query_id, tuple(query), size, number, [], at)

    def change_plan(self, plan: FeedbackPlan | None) -> None:
        """Let other feedback count from now on, or at another time. A checkpoint has to follow.

        Raises ValueError for a plan that is not for this model. Without a window, what was given to queries that wait is lost.
        """
        before, self.plan = self.plan, plan
        try:
            self._require_plan()
        except ValueError:
            self.plan = before
            raise
        self._pending.follow(copy.copy(plan), time.time())

    def _handled(self, kind: str, fields: dict[str, Any], request: bytes, at: float | None) -> Reply:
        """Answer a request of a kind. Raises ValueError, and others, before anything changes."""
        if kind == "cmd":
            return self._command(fields["cmd"])
        if kind == "teach":
            return self._teach(fields, request)
        window = self._pending.window
        if window is not None:
            at = fields.get("ts", time.time() if at is None else at)
        if kind == "rank":
            return self._rank(fields, request, None if window is None else at)
        require_feedback(kind, fields)
        if window is not None and at is not None:
            return self._gather(kind, fields, request, at)
        if kind == "event":
            raise ValueError("events are added up over a window, and this service has none: start it with --feedback-window")
        return self._learn(kind, fields, request)

    def _rank(self, fields: dict[str, Any], request: bytes, at: float | None) -> Reply:
        query_id, greedy = fields["id"], fields.get("greedy", False)
        if type(greedy) is not bool:
            raise ValueError("greedy must be true or false")
        asked = asked_of(fields, self.null_is_missing)
        docs: Any = asked.documents if isinstance(asked, Runs) else asked
        self._require_moderate(docs, len(request))
        # Before anything is drawn, because a refused request must not change the next draw.
        text = request.decode()
        size = _ENTRY + len(text) * (1 if text.isascii() else 4) + _DOCUMENT * len(docs)
        self._pending.require_room(size)
        able = abilities_of(self.model)
        query = read_query(asked, context=fields.get("context"), documents=able.takes_documents)
        scores = self.model.predict_one(query)
        if greedy:
            return Reply(_ranked(query_id, scores))
        if not able.draws:
            reply = self._waiting(_ranked(query_id, scores), None, (query_id, size, at, text, [*scores.values()], None))
        else:
            ranker = ranker_of(self.model)
            before = ranker.n_shown
            try:
                shown = self.model.show_one(query)
                if self.challenge is not None:
                    shown = self.challenge.drafted(self.model, query, len(shown.order)) or shown
                answer = _ranked(query_id, scores, [*shown.order])
                drawn = json.dumps(shown.to_dict(), separators=(",", ":"))
                reply = self._waiting(answer, ranker.n_shown, (query_id, size, at, text, [*scores.values()], drawn))
            except BaseException:
                ranker.n_shown = before
                raise
        if reply.outcome is not None and reply.outcome.number is not None and size <= _LARGEST_READ:
            self._read[reply.outcome.number] = query
            if len(self._read) > _READ:
                del self._read[next(iter(self._read))]
        return reply

    def _waiting(self, answer: dict[str, Any], n_shown: int | None, waiting: tuple[Any, ...]) -> Reply:
        """Let a ranked query wait for its feedback, unless it was already learned. Returns the answer."""
        query_id, size, *_ = waiting
        number, gone = None, list[int]()
        replaced = self._pending.number(query_id)
        if query_id not in self._learned:
            number, gone = self._pending.next_number, self._pending.crowded_out(query_id, size)
        # Of those that feedback was given for the windows end: they go when they are learned.
        forgotten = [each for each in gone if not self._pending.is_given(each)] if gone else gone
        if replaced is not None:
            forgotten = [*forgotten, replaced]
        n_asked = 0
        if self.challenge is not None and n_shown is not None:
            n_asked = self.challenge.n_asked = self.challenge.n_asked + 1
        outcome = Outcome(("rank", n_shown, gone, n_asked), number, waiting, gone=tuple(forgotten))
        reply = Reply(answer, outcome)
        self._ranked(number, waiting, gone)
        return reply

    def _ranked(self, number: int | None, waiting: Any, gone: list[int]) -> None:
        """Count a ranking."""
        if number is not None:
            query_id, size, at, *query = waiting
            self._pending.put(query_id, tuple(query), size, number, gone, at)
        self._counts["ranked"] += 1
        self.n_changes += 1

    def _learn(self, kind: str, fields: dict[str, Any], request: bytes) -> Reply:
        """Learn a query from the first feedback that comes for it."""
        query_id = fields["id"]
        if query_id in self._learned:
            return self._duplicate(query_id)
        number = self._pending.number(query_id)
        if number is None:
            raise ValueError("no query is waiting under this id: it was never ranked, or dropped since (see stats: evicted)")
        outcome = Outcome(("learn", query_id, number), feedback=request, gone=(number,))
        return self._learn_waiting(query_id, kind, fields[kind], fields.get("ungraded"), outcome)

    def _teach(self, fields: dict[str, Any], request: bytes) -> Reply:
        """Learn a query that somebody else has ranked, from its documents and their grades."""
        query_id, asked = fields["id"], asked_of(fields, self.null_is_missing)
        require_feedback("grades", fields)
        if query_id in self._learned:
            return self._duplicate(query_id)
        docs: Any = asked.documents if isinstance(asked, Runs) else asked
        self._require_moderate(docs, len(request))
        grades, ungraded = fields["grades"], fields.get("ungraded")
        query = self._query_of(fields, grades if ungraded == "skip" else None)
        y = as_grades(_completed(grades, query, ungraded), query.n_documents, query.ids)
        scores = self.model.predict_one(query)
        loss = served_loss(self._target, [*scores.values()], y)
        number = self._pending.number(query_id)
        self._learn_once(query_id, query, y, {})
        if number is not None:
            self._pending.take(query_id)
            self._read.pop(number, None)
        outcome = Outcome(("teach", query_id), feedback=request, gone=() if number is None else (number,))
        return Reply({"id": query_id, "learned": True, "loss": loss or 0.0}, outcome, learned=True)

    def _query_of(self, fields: dict[str, Any], only: Any = None) -> Block:
        """The query of a request that was accepted, all of its documents or some."""
        asked = asked_of(fields, self.null_is_missing)
        if only is not None:
            _require_known(only, ids_of(asked))
            if isinstance(asked, Runs):
                raise ValueError("ungraded is 'skip'; documents of runs cannot be left out: ranks are those of whole lists")
            asked = {name: features for name, features in asked.items() if name in only}
        return read_query(asked, context=fields.get("context"), documents=abilities_of(self.model).takes_documents)

    def _known(self, text: str, drawn: str | None) -> Any:
        """The documents that feedback on a query may be about."""
        return json.loads(drawn)["order"] if drawn else ids_of(asked_of(decoded(text.encode()), self.null_is_missing))

    def _duplicate(self, query_id: Any) -> Reply:
        self._counts["duplicates"] += 1
        self.n_changes += 1
        return Reply({"id": query_id, "learned": False, "duplicate": True}, Outcome(("duplicate",)), learned=True)

    def _gather(self, kind: str, fields: dict[str, Any], request: bytes, at: float) -> Reply:
        """Take feedback that is learned when the window of its query ends."""
        query_id, pending = fields["id"], self._pending
        place = "late" if query_id in self._learned else pending.placed(query_id, at)
        given = self._given(kind, fields)
        if place == "late":
            pending.advance(at)
            self._counts["late"] += 1
            self.n_changes += 1
            return Reply({"id": query_id, "accepted": False, "late": True}, Outcome(("late", at)), learned=True)
        if place == "waits":
            text, _, drawn = pending.get(query_id)
            _require_known(given, self._known(text, drawn))
        else:
            pending.require_room_for_early(len(given))
        self._gathered(kind, fields, at)
        early = {"early": True} if place == "early" else {}
        return Reply({"id": query_id, "accepted": True, **early}, Outcome(("feedback", at), feedback=request), learned=True)

    def _given(self, kind: str, fields: dict[str, Any]) -> dict[Any, float]:
        """What feedback gives to documents, checked. Raises ValueError."""
        if kind == "event":
            given = {fields["doc"]: self._pending.plan.value_of(fields["event"], fields.get("value"))}  # type: ignore[union-attr]
        elif kind == "grades" and self.draws:
            raise ValueError("this service learns from clicks and events, not from grades")
        elif kind == "clicks" and not self.draws:
            raise ValueError(_NOT_CLICKS)
        else:
            given = fields[kind] if isinstance(fields[kind], dict) else dict.fromkeys(fields[kind], 1)
        for name, value in given.items():
            whole = self.draws or (type(value) in (int, float) and value == int(value))
            if type(value) not in (int, float) or not whole or not 0 <= value <= MAX_GRADE:
                wanted = f"{'a number' if self.draws else 'an integer'} from 0 to {MAX_GRADE}"
                raise ValueError(f"document {name[:100]!r} is given {str(value)[:40]}; it must be {wanted}")
        return given

    def _gathered(self, kind: str, fields: dict[str, Any], at: float) -> None:
        """Feedback was accepted."""
        event = fields["event"] if kind == "event" else GRADE
        self._pending.give(fields["id"], self._given(kind, fields), event, at, fields.get("ungraded"))
        self._counts["accepted"] += 1
        self.n_changes += 1

    def _with_what_follows(self, reply: Reply) -> Reply:
        """A reply, with what happens after its request."""
        if self._pending.window is not None:
            reply = reply._replace(closed=self._close_due())
        if self.challenge is not None and self.challenge.is_won:
            level = self.challenge.promote_at or 0.95
            won = f"the challenger is better than the serving model: {self.challenge.difference(level)}"
            self._promote()
            promotion = Reply({}, Outcome(("promote",)), promoted=won)
            reply = reply._replace(closed=(*reply.closed, promotion), promoted=won)
        return reply

    def _promote(self) -> None:
        """Let the challenger serve from now on."""
        if self.challenge is not None:
            self._promoted = self.challenge.origin or ""
            self.replaced, self.model, self.challenge = self.model, self.challenge.model, None
            self._read.clear()
        self.n_changes += 1

    def _close_due(self) -> tuple[Reply, ...]:
        """Learn queries whose windows have ended."""
        closed: list[Reply] = []
        while len(closed) < _MOST_CLOSED and (query_id := self._pending.next_closed()) is not None:
            number = self._pending.number(query_id) or 0
            try:
                closed.append(self._closed(query_id, Outcome(("close", query_id), gone=(number,))))
            except (ValueError, TypeError, OverflowError):
                # Checked when it came; what is left is a model that cannot learn this query at all.
                self._dropped(query_id)
                closed.append(Reply({}, Outcome(("drop", query_id), gone=(number,))))
            except MemoryError:
                break
        return tuple(closed)

    def _closed(self, query_id: Any, outcome: Outcome) -> Reply:
        """Learn a query from all that was given to it."""
        pending, plan = self._pending, self._pending.plan
        totals = pending.totals(query_id)
        if plan is None or (not pending.has_feedback(query_id) and plan.unanswered == "skip"):
            self._forgotten(query_id)
            self._counts["unanswered"] += 1
            return Reply({}, outcome)
        text, _, drawn = pending.get(query_id)
        # Feedback that arrived before its query may name other documents.
        documents = {*self._known(text, drawn)}
        known = {name: value for name, value in totals.items() if name in documents}
        if drawn:
            return self._learn_waiting(query_id, "clicks", known, None, outcome)
        return self._learn_waiting(query_id, "grades", known, pending.ungraded(query_id) if totals else 0, outcome)

    def _dropped(self, query_id: Any) -> None:
        """A query cannot be learned."""
        self._forgotten(query_id)
        self._counts["refused"] += 1

    def _forgotten(self, query_id: Any) -> None:
        """A query goes without being learned; feedback on it is late from now on."""
        self._learned[query_id] = self.n_changes + 1
        self._read.pop(self._pending.number(query_id) or 0, None)
        self._pending.take(query_id)
        self._limit_learned()
        self.n_changes += 1

    def _learn_waiting(self, query_id: Any, kind: str, feedback: Any, ungraded: Any, outcome: Outcome) -> Reply:
        """Learn a query that waits, which waits no longer."""
        number = self._pending.number(query_id) or 0
        text, scores, drawn = self._pending.get(query_id)
        query = self._read.get(number)
        if query is None:
            query = self._query_of(decoded(text.encode()))
        if kind == "clicks" and drawn is None:
            raise ValueError(_NOT_CLICKS)
        served = self._served
        with all_or_nothing(self._metric) as changes, changes:
            loss: float | None = None
            if kind == "clicks":
                feedback = Impression.from_dict(json.loads(drawn)).clicked(feedback)
                y, options = feedback, {}
            else:
                if drawn:
                    answered = _ranked(query_id, dict(zip(query.ids or (), scores, strict=True)), json.loads(drawn)["order"])
                    scores = _as_served(query.ids, answered["ranking"])
                if ungraded == "skip":
                    of_all = dict(zip(query.ids or (), scores, strict=True))
                    query = self._query_of(decoded(text.encode()), feedback)
                    scores = [of_all[name] for name in query.ids or ()]
                feedback = _completed(feedback, query, ungraded)
                y = as_grades(feedback, query.n_documents, query.ids)
                self._metric.update(y, scores)
                loss = served_loss(self._target, scores, y)
                options = {"served": scores} if self.learn_served else {}
                if loss is not None:
                    account = LossInterval(served)
                    account.update(loss)
                    served = account.sums
            self._learn_once(query_id, query, y, options)
        self._pending.take(query_id)
        self._read.pop(number, None)
        self._longest_delay = max(self._longest_delay, len(self._pending))
        self._served = served
        shown_loss = loss or 0.0
        if kind == "clicks" and feedback.impression.teams is None:
            shown_loss = self.model.last_round.loss
        known: Any = None if kind == "clicks" else dict(zip(query.ids or (), scores, strict=True))
        return Reply({"id": query_id, "learned": True, "loss": shown_loss}, outcome, True, None, feedback, known, loss)

    def _learn_once(self, query_id: Any, query: Block, y: Any, options: dict[str, Any]) -> None:
        """Let the model learn, and remember the id: the last that can fail, and what makes it known has its place already."""
        challenge = self.challenge
        drafted = drafted_by_challenge(y)
        if challenge is not None and not isinstance(y, Clicks):
            before = challenge.sums
            challenge.compare(self._target, self.model, query, y)
        self._learned[query_id] = self.n_changes + 1
        try:
            if not drafted:
                self.model.learn_one(query, y, **options)
        except BaseException:
            del self._learned[query_id]
            if challenge is not None and not isinstance(y, Clicks):
                challenge.sums = before
            raise
        if challenge is not None and drafted:
            challenge.count(y)
        elif challenge is not None:
            challenge.learn(query, y)
        self._limit_learned()
        self._counts["learned"] += 1
        self.n_changes += 1

    def _limit_learned(self) -> None:
        if len(self._learned) > self.max_learned:
            del self._learned[next(iter(self._learned))]

    def _require_plan(self) -> None:
        if self.plan is not None and not self.draws:
            self.plan.require_whole()

    def _require_moderate(self, docs: dict[str, dict], n_bytes: int) -> None:
        """Raise ValueError for too many documents, or if a step would turn them into a much larger array."""
        if len(docs) > MAX_DOCUMENTS:
            raise ValueError(f"docs has {len(docs)} documents; a query may have {MAX_DOCUMENTS}")
        allowed = MAX_CELLS + CELLS_A_BYTE * n_bytes
        known = max(getattr(step, "n_features", None) or 0 for step in parts_of(self.model))
        if len(docs) * (known + sum(map(len, docs.values()))) <= allowed:  # Regardless of their features.
            return
        n_features = max(known, len(set().union(*docs.values())))
        if len(docs) * n_features > allowed and not abilities_of(self.model).takes_sparse:
            raise ValueError(
                f"docs has {len(docs)} documents, and they or the model have {n_features} features: a model with a step that "
                f"needs an array of all of them takes {allowed // n_features} documents of a request of {n_bytes} bytes. "
                "Behind HashedFeatures or MaxAbsStreamScaler, documents stay sparse"
            )

    def _command(self, command: Any) -> Reply:
        if command == "stats":
            return Reply({"stats": self.stats()})
        if command == "save":
            return Reply({}, command="save")
        raise ValueError(f"cmd is {str(command)[:40]!r}; there are 'save' and 'stats'")


def _completed(grades: dict[str, Any], query: Block, ungraded: Any) -> dict[Any, Any]:
    """Grades of all documents of a query, where those that have none are 0."""
    return grades if ungraded is None else dict.fromkeys(query.ids or (), 0) | grades


def _require_known(given: Any, documents: Any) -> None:
    """Raise ValueError for feedback on a document that a query does not have."""
    for name in given:
        if name not in documents:
            raise ValueError(f"document {name[:100]!r} is not among those of the query")


def _ranked(query_id: Any, scores: dict[Any, float], drawn: Sequence[Any] | None = None) -> dict[str, Any]:
    """The answer to a query: its documents, best first, and their scores. The documents `drawn` to be shown come first."""
    ranking = sorted(scores, key=scores.__getitem__, reverse=True)
    if drawn is None:
        return {"id": query_id, "ranking": ranking, "scores": [scores[name] for name in ranking]}
    first = {*drawn}
    ranking = [*drawn, *(name for name in ranking if name not in first)]
    return {"id": query_id, "ranking": ranking, "scores": [scores[name] for name in ranking], "shown": len(drawn)}


def _as_served(documents: Any, order: list[str]) -> list[float]:
    """Scores that rank documents as they were shown; the others are tied after them."""
    place = {document: -float(position) for position, document in enumerate(order)}
    return [place.get(document, -float(len(order))) for document in documents]
