"""A ranker behind JSON lines, for programs in any language.

Each request is a JSON object on one line, a message of `online_rank.serving.messages`, and each gets one line in
answer, in order:

    {"id": "q1", "docs": {"a": {"clicks": 3}, "b": {"clicks": 1}}}
        -> {"id": "q1", "ranking": ["a", "b"], "scores": [0.7, 0.2]}             best first
    {"id": "q1", "grades": {"a": 0, "b": 2}}
        -> {"id": "q1", "learned": true, "loss": 0.37}
        -> {"id": "q1", "learned": false, "duplicate": true}                     these grades were learned before
        -> {"id": "q1", "learned": false, "late": true}                          other grades were learned before: too late
    anything that is no message
        -> {"error": "what is wrong", "line": 17}                                and nothing has changed

A service that learns from clicks draws the documents to show, which come first in the ranking, and learns from the clicks on
them. What it needs to know of the draw waits with the query. A service with a window (`FeedbackPlan`) learns a query when its
window ends, from all that was given until then.
"""

import contextlib
import contextvars
import copy
import math
from collections.abc import Collection
from typing import Any

from msgspec import UNSET

from online_rank import arguments
from online_rank.base import ranker_of
from online_rank.base.growth import growth_limited
from online_rank.base.undo import all_or_nothing
from online_rank.limits import MAX_COUNT, is_integer
from online_rank.query.embeddings import LENIENT
from online_rank.query.times import seconds_of_time
from online_rank.serving import learning, messages, queries, ranking, windows
from online_rank.serving.challenge import drawn_around
from online_rank.serving.clock import CLOCK
from online_rank.serving.outcomes import Outcome, Reply, UnknownQuery
from online_rank.serving.reading import DAY, NO_EVIDENCE, RequestError, evidence_of, read, request_of
from online_rank.serving.service_state import ServiceState
from online_rank.serving.tokens import roles_without
from online_rank.storage.files import from_bytes


class RankingService(ServiceState):
    """Answers requests, and learns from grades or clicks whenever they arrive.

    Its state is a function of the outcomes of its requests, so replaying them (`replay`) restores it.

    Parameters
    ----------
    model
        A ranker, or a pipeline that ends in one. One that learns from clicks draws the rankings that are served.
    measure
        The measure of served rankings when their grades arrive.
    wait, wait_bytes
        Seconds for which a query waits for its feedback, and the bytes that all of them may take (see `PendingQueries`).
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
    {'id': 1, 'error': 'a request has the fields id and docs (or runs or columns), ...; this one has id, grade', 'line': 4}
    """

    def handle(
        self,
        request: bytes,
        line: int = 0,
        at: float | None = None,
        kinds: Collection[str] | None = None,
        greedy: bool = False,
    ) -> Reply:
        """Answer one request. A bad one changes nothing, and raises nothing.

        Parameters
        ----------
        request
            JSON, or a query in binary (`messages.BINARY`).
        line
            Its number, for error answers.
        at
            When it arrived, in seconds: its time, if it has no `"ts"`; None for the time on the clock.
        kinds
            The kinds of requests that are answered, by the names of their types in small letters; None for all.
        greedy
            Whether each request to rank counts as one that says `"greedy": true`.
        """
        # One client must not decide how long everybody's vectors are.
        return _lenient().run(self._handle, None, request, line, at, kinds, greedy)

    def handle_read(self, message: Any, request: bytes, kinds: Collection[str] | None = None) -> Reply:
        """Answer one request as `handle` does, when it has been read: `message` is what `reading.read` makes of it."""
        return _lenient().run(self._handle, message, request, 0, None, kinds, False)

    def _handle(
        self, message: Any, request: bytes, line: int, at: float | None, kinds: Collection[str] | None, greedy: bool
    ) -> Reply:
        known: dict[str, Any] = {}
        try:
            if message is None:
                message = read(request)
            known = {} if isinstance(message, messages.Command) else {"id": message.id}
            if greedy and isinstance(message, messages.Rank):
                message.greedy = True
            if kinds is not None and (error := other_kind(message, kinds)):
                return Reply({**known, "error": error, "line": line}, is_refused=True)
            reply = self._handled(message, request, at)
        except RequestError as refused:
            known = {} if refused.query_id is None else {"id": refused.query_id}
            return Reply({**known, "error": str(refused), "line": line})
        except (ValueError, TypeError, OverflowError) as refused:
            return Reply({**known, "error": str(refused), "line": line}, is_unknown=isinstance(refused, UnknownQuery))
        except MemoryError:
            return Reply({**known, "error": "not enough memory for this request", "line": line})
        if known and message.meta is not UNSET:
            with contextlib.suppress(MemoryError):  # What has changed must be known to the journal.
                reply.answer["meta"] = message.meta
        alone = reply.outcome is None or (self.plan is None and self.challenge is None)
        return reply if alone else windows.with_what_follows(self, reply)

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
        return _lenient().run(windows.with_what_follows, self, reply)

    def answer_again(self, request: bytes) -> Reply:
        """Answer a request that was handled before, as far as possible; nothing changes.

        A waiting query gets its earlier answer; a learned or dropped query, and feedback, get `"duplicate": true`.
        """
        try:
            message: Any = read(request)
        except RequestError as error:
            return Reply({"error": str(error), "line": 0})
        is_rank = isinstance(message, messages.Rank)
        if isinstance(message, messages.Command | messages.Explain) or (is_rank and message.greedy is True):
            return self.handle(request)
        waiting = self._pending.get(message.id) if is_rank else None
        if waiting is None:
            gathers = self._pending.window is not None and not isinstance(message, messages.Teach)
            done = {} if is_rank else {"accepted" if gathers else "learned": False}
            return Reply({"id": message.id, **done, "duplicate": True})
        text, scores, drawn = waiting
        ids = self.block_of(self._pending.number(message.id) or 0, text).ids or ()
        asked: Any = read(request_of(text))
        shown = None if drawn is None else queries.drawn_as(drawn)
        return Reply(queries.arranged(asked, dict(zip(ids, scores, strict=True)), shown))

    def exchange_model(self, model: Any, content: bytes, at: float | None = None, why: str = "") -> Outcome:
        """Replace the model as `replace_model` does, between two requests.

        Parameters
        ----------
        model
            The new model.
        content
            Its file, for the journal: what follows was learned by this model.
        at, why
            Since when it serves, in seconds since 1970, and the reason.

        Returns
        -------
        The change, which a journal must record.
        """
        outcome = Outcome(("replace", *_when(at, why)), feedback=content)
        self.measure_served()
        with all_or_nothing(self):
            replaced = self.model
            self.replace_model(model, self.origin)
            self.replaced, self._promoted = replaced, self._promoted or ""
            self.serving_since = _when(at, why) or None
            self._count(None)
        return outcome

    def exchange_line(self, model: Any, content: bytes, same: bool, at: float | None = None, why: str = "") -> Outcome:
        """Replace the model that is compared with the ranking of today, whether it serves or waits, between two requests.

        Parameters
        ----------
        model, content
            The new model, and its file, for the journal.
        same
            Whether it is of the same line of models, such as one that is retrained each night: then the evidence stays. It is
            about all models of the line that were compared so far.
        at, why
            Since when it serves, if it does, and the reason.
        """
        challenge = self.challenge
        if challenge is None or challenge.keep is None:
            raise ValueError("no model is compared with the ranking of today (--from-today)")
        model, ranker = drawn_around(model)
        old = challenge.model if challenge.n_turns % 2 == 0 else self.model
        ranker.policy = copy.copy(ranker_of(old).policy)
        outcome = Outcome(("line", same, *_when(at, why)), feedback=content)
        with all_or_nothing(self):
            if challenge.n_turns % 2 == 0:
                self.challenge = challenge.with_model(model, self._pending.next_number, same)
            else:
                self.model = model
                self.challenge = challenge if same else challenge.begun(self._pending.next_number)
                self.serving_since = _when(at, why) or None
            self.replaced = old
            self._read.clear()
            self._count(None)
        return outcome

    def replay(self, fields: list[Any], number: int | None, waiting: Any, feedback: bytes) -> None:
        """Repeat the change of an `Outcome`."""
        # What was accepted before is accepted again.
        growth_limited(math.inf).run(_lenient).run(self._replay, fields, number, waiting, feedback)

    def _replay(self, fields: list[Any], number: int | None, waiting: Any, feedback: bytes) -> None:
        kind, *rest = fields
        if kind in ("learn", "teach", "close", "drop"):
            # What is learned again had been forgotten.
            self._learned.pop(rest[0], None)
        outcome = Outcome(tuple(fields))
        message: Any = read(feedback) if kind in ("learn", "teach", "feedback") else None
        if kind == "rank":
            self._rank_again(*rest, number=number, waiting=waiting)
        elif kind == "learn":
            day = rest[3] if rest[3:] else None
            evidence = evidence_of(message, (day or 0) * DAY)
            learning.learn(self, message, feedback, _first_of(rest[2:3]), evidence)
        elif kind == "teach":
            evidence = evidence_of(message, (rest[2] if rest[2:] else 0) * DAY)
            learning.teach(self, message, feedback, _first_of(rest[1:2]), evidence, n_bytes=None)
        elif kind == "feedback":
            _first_of(rest)
            windows.take(self, message, windows.given_by(self, message), evidence_of(message, rest[-1]), *rest)
        elif kind == "close":
            windows.close(self, rest[0], outcome)
        elif kind == "replace":
            self.exchange_model(from_bytes(feedback), feedback, *rest)
        elif kind == "line":
            self.exchange_line(from_bytes(feedback), feedback, rest[0] is True, *rest[1:])
        elif kind == "promote":
            windows.promote(self, *rest)
        elif kind == "drop":
            windows.drop(self, rest[0], outcome)
        else:
            now = _first_of(rest)
            with all_or_nothing(self) as changes:
                self._count({"time": None, "late": "late", "limited": "limited"}.get(kind, "duplicates"))
                if now is not None:
                    self._pending.advance(changes, now)

    def _rank_again(
        self,
        n_shown: Any,
        gone: Any,
        n_asked: Any,
        kept: Any = None,
        now: Any = None,
        n_drafts: Any = None,
        spent: Any = None,
        n_failed: Any = None,
        *,
        number: Any,
        waiting: Any,
    ) -> None:
        """A query was ranked. Raises ValueError for what no service has recorded."""
        if not all(is_integer(count, 0, MAX_COUNT) for count in (n_shown or 0, n_asked, n_drafts or 0, n_failed or 0)):
            raise ValueError("a ranking has counts that no file can hold")
        arguments.number("the share of the DCG that a draw keeps", kept, 0.0, 1.001, optional=True)
        if n_drafts is not None:
            arguments.number("what drafts may have cost", spent, 0.0)
        if now is not None:
            arguments.require_time("the time of a ranking", now)
        if number is not None and (type(number) is not int or number != self._pending.next_number):
            raise ValueError(f"a query waits under number {number}, but the next is {self._pending.next_number}")
        if n_shown is not None:
            ranker_of(self.model).n_shown = n_shown
        if self.challenge is not None:
            self.challenge.n_asked = n_asked
            if n_drafts is not None:
                self.challenge.n_shown, self.challenge.spent = n_drafts, spent
            if n_failed is not None:  # Older journals lack it.
                self.challenge.n_failed = n_failed
        with all_or_nothing(self) as changes:
            ranking.let_wait(self, changes, number, waiting, gone, now, kept)
        self._pending.spill()

    def _handled(self, message: Any, request: bytes, at: float | None) -> Reply:
        """Answer a request. Raises ValueError, and others, before anything changes."""
        if isinstance(message, messages.Command):
            return Reply({"stats": self.stats()}) if message.cmd == "stats" else Reply({}, command="save")
        if isinstance(message, messages.Explain):
            return ranking.explain(self, message, request)
        gathers, ts = self.plan is not None and self._pending.window is not None, None if message.ts is UNSET else message.ts
        is_rank = isinstance(message, messages.Rank)
        own: Any
        now: Any
        own, now = self._times(ts, at) if is_rank or gathers or ts is not None else (at, at)
        if is_rank:
            return ranking.rank(self, message, request, own, now)
        learned_at = self._time(now if ts is not None else at)
        if isinstance(message, messages.Teach):
            return learning.teach(self, message, request, learned_at, evidence_of(message, now), n_bytes=len(request))
        if gathers:
            return windows.gather(self, message, request, own, now)
        is_named = message.session is not UNSET or message.user is not UNSET
        return learning.learn(self, message, request, learned_at, evidence_of(message, now) if is_named else NO_EVIDENCE)

    def _times(self, ts: float | str | None, at: float | None) -> tuple[float, float]:
        """A request's own time, and the time that it is, which is not ahead of the clock; `at` is when it arrived.

        Raises ValueError for a time that is too far ahead.
        """
        clock = CLOCK.now()
        latest = clock if at is None else max(at, clock)
        if ts is None:
            own = clock if at is None else at
        elif (own := CLOCK.read(seconds_of_time("ts", ts))) > latest + self.clock_skew:
            raise ValueError(
                f"ts is {ts}, {own - latest:,.0f} seconds ahead of the clock; {self.clock_skew:g} are accepted (--clock-skew)"
            )
        return own, min(own, latest)


def _lenient() -> contextvars.Context:
    """A context in which vectors of other lengths than those learned are missing, and counted.

    It ends with the context, also after an exception: what the process learns next is checked as before.
    """
    within = contextvars.copy_context()
    within.run(LENIENT.set, True)
    return within


def other_kind(message: Any, kinds: Collection[str] | None) -> str:
    """Why a message is refused where only some kinds are answered; empty if it is of one of them, or all are."""
    kind = type(message).__name__.lower()
    if kinds is None or kind in kinds:
        return ""
    if roles := roles_without(kind, kinds):
        return f"this token has not the role {' or '.join(roles)}, which a request of the kind {kind} needs"
    return f"this is a request of the kind {kind}; here it must be of the kind {' or '.join(sorted(kinds))}"


def _first_of(times: list[Any]) -> float | None:
    """The first of the times among the fields of a change; None for none. Raises ValueError."""
    known = [time for time in times if time is not None]
    for time in known:
        arguments.require_time("the time of a change", time)
    return float(known[0]) if known else None


def _when(at: float | None, why: str) -> tuple[float, str] | tuple[()]:
    """Since when a model serves, and why; nothing where that is not known, as in older journals. Raises ValueError."""
    if at is None:
        return ()
    arguments.require_time("the time of another model", at)
    return float(at), str(why)
