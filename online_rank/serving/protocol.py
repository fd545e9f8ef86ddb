"""A ranker behind JSON lines, for programs in any language.

Each request is a JSON object on a line of its own, and each gets one line in answer, in order:

    {"id": "q1", "docs": {"a": {"clicks": 3}, "b": {"clicks": 1}}}
        -> {"id": "q1", "ranking": ["a", "b"], "scores": [0.7, 0.2]}             best first
    {"id": "q1", "grades": {"a": 0, "b": 2}}
        -> {"id": "q1", "learned": true, "loss": 0.37}
        -> {"id": "q1", "learned": false, "duplicate": true}                     its grades were learned before

A service that learns from clicks draws the first documents of the ranking, as many as are to be shown, and learns what was
clicked among them. Behind them stand the others, by their scores:

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

Also

    {"id": "q6", "docs": {...}, "greedy": true}
        -> {"id": "q6", "ranking": [...], "scores": [...]}                       by the scores: nothing is drawn, nothing waits
    {"cmd": "stats"}
        -> {"stats": {...}}
    {"cmd": "save"}
        -> {"saved": "model.npz"}
    anything else
        -> {"error": "what is wrong", "line": 17}                                and nothing has changed

Ids are strings or integers, and stand for one query each.
"""

import copy
import json
from collections.abc import Callable, Sequence
from typing import Any, NamedTuple

import numpy as np

from online_rank.arguments import flag, integer
from online_rank.base import abilities_of, parts_of, ranker_of
from online_rank.base.schema import Array, Count, Derived, DictOf, Nested, Plain, Schema, Text
from online_rank.base.undo import all_or_nothing
from online_rank.feedback import Clicks, Impression
from online_rank.intervals import Interval, LossInterval, served_loss
from online_rank.limits import CELLS_A_BYTE, MAX_CELLS, MAX_DOCUMENTS, MAX_ID_LENGTH, is_id
from online_rank.measures import learned_measure
from online_rank.metrics import metric
from online_rank.query import Block, Runs, as_grades, read_query
from online_rank.serving.pending import PendingQueries
from online_rank.serving.wire import decoded

__all__ = ["Outcome", "RankingService", "Reply"]

_QUERY = {"docs", "runs", "greedy", "context"}
_FIELDS = {
    frozenset({"id", "grades"}),
    frozenset({"id", "clicks"}),
    frozenset({"cmd"}),
}

_DICTS = {dict}

#: About what a waiting query takes besides its text, and each of its documents besides its features: names, scores, the draw.
_ENTRY = 500
_DOCUMENT = 200

#: Queries that are kept as they were read until their feedback comes, and most bytes of each.
_READ = 256
_LARGEST_READ = 1 << 18


class Outcome(NamedTuple):
    """What a request changed: all that changing it again needs. Doing so draws nothing, and refuses nothing.

    Attributes
    ----------
    fields
        What happened, for JSON: `("rank", draws so far or None, numbers of the queries forgotten)`, `("learn", id, number of
        its query)` or `("duplicate",)`.
    number
        The number of the query that waits from then on; None where none does.
    waiting
        That query: its id, what it takes, the request, the scores or the draw.
    feedback
        The request that was learned from.
    gone
        The numbers of the queries that wait no longer.
    """

    fields: tuple[Any, ...]
    number: int | None = None
    waiting: tuple[Any, ...] = ()
    feedback: bytes = b""
    gone: tuple[int, ...] = ()


class Reply(NamedTuple):
    """What a request led to.

    Attributes
    ----------
    answer
        The answer, for JSON.
    outcome
        What the request changed, which a journal must hold; None where it changed nothing.
    learned
        Whether the answer says that feedback was learned, now or before, and so must wait until the journal is on the disk.
    command
        The command that whoever runs the service has to carry out, or None.
    feedback
        What was learned, for those who watch: clicks, or the grades by document.
    served
        The scores with which the documents were ranked that now got grades.
    loss
        Of that ranking; None without grades, and where there was nothing to order.
    """

    answer: dict[str, Any]
    outcome: Outcome | None = None
    learned: bool = False
    command: str | None = None
    feedback: Clicks | dict[str, Any] | None = None
    served: dict[str, float] | None = None
    loss: float | None = None

    @property
    def changed(self) -> bool:
        """Whether the request changed the state of the service."""
        return self.outcome is not None


class RankingService:
    """Answers requests, and learns from grades or clicks whenever they come.

    Its state follows from the outcomes of its requests alone, so that going through them again (`replay`) brings it back.

    Parameters
    ----------
    model
        A ranker, or a pipeline that ends in one. One that learns from clicks draws the rankings that are served.
    measure
        Name of the metric that measures the rankings that were served, where grades come.
    max_pending, max_age, max_pending_bytes
        How many queries wait for their feedback, for how many further queries, and how many bytes they may take together (see
        `PendingQueries`).
    max_learned
        How many ids of learned queries are remembered, to recognise feedback that comes twice.
    learn_served
        Whether to learn from the mistakes of the scores that were served. A certificate under delay needs it
        (`online_rank.bounds.delay_bound`). Otherwise a query is scored again when its grades come, which ranks better but is
        certified for the new scores alone.
    origin
        Digest of the file that the model came from; None for a model that began with nothing. A folder goes on only with the
        file that it began with.

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
    {'id': 1, 'error': 'a request has the fields id and docs (or runs), id and grades, id and clicks, ...', 'line': 4}
    """

    _schema = Schema(
        n_changes=Count(),
        _pending=Nested("PendingQueries"),
        _metric=Nested("RankingMetric"),
        _learned=DictOf(Plain(), Plain()),
        _counts=DictOf(Text("ranked", "learned", "duplicates"), Count()),
        _served=Array(3),
        _longest_delay=Count(),
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
    ) -> None:
        integer("max_pending", max_pending, 1)
        integer("max_pending_bytes", max_pending_bytes, 1)
        integer("max_learned", max_learned, 1)
        flag("learn_served", learn_served)
        self.model = model
        self.measure = measure
        self.max_pending = max_pending
        self.max_age = max_age
        self.max_learned = max_learned
        self.max_pending_bytes = max_pending_bytes
        self.learn_served = learn_served
        self.origin = origin
        self.n_changes = 0
        self._pending = PendingQueries(max_queries=max_pending, max_age=max_age, max_bytes=max_pending_bytes)
        self._metric = metric(measure)
        #: The ids that were learned, with the number of the change.
        self._learned: dict[str | int, int] = {}
        #: Queries that wait, as they were read.
        self._read: dict[int, Block] = {}
        self._counts = {"ranked": 0, "learned": 0, "duplicates": 0}
        self._target = learned_measure(model)
        self._served = np.zeros(3)
        self._longest_delay = 0

    def handle(self, request: bytes, line: int = 0) -> Reply:
        """Answer one request; `line` is its number, for error answers. A bad request changes nothing, and raises nothing."""
        try:
            fields = decoded(request)
        except ValueError as error:
            return Reply({"error": f"not a JSON object: {error}", "line": line})
        except MemoryError:
            return Reply({"error": "not enough memory for this request", "line": line})
        query_id = fields.get("id")
        try:
            _require_fields(fields)
            if "cmd" in fields:
                return self._command(fields["cmd"])
            if _is_query(fields):
                return self._rank(query_id, fields, request)
            kind = "clicks" if "clicks" in fields else "grades"
            return self._learn(query_id, kind, fields[kind], request)
        except (ValueError, TypeError, OverflowError) as error:
            message = str(error)
        except MemoryError:
            message = "not enough memory for this request"
        known = {"id": query_id} if is_id(query_id) else {}
        return Reply({**known, "error": message, "line": line})

    def answer_again(self, request: bytes) -> Reply:
        """Answer a request that was handled before, as far as that is known; nothing changes.

        A query that waits for its feedback is answered as it was; one that was learned, or forgotten since, and feedback, by
        `"duplicate": true`.
        """
        try:
            fields = decoded(request)
            _require_fields(fields)
        except ValueError as error:
            return Reply({"error": str(error), "line": 0})
        if "cmd" in fields or fields.get("greedy"):
            return self.handle(request)
        query_id = fields["id"]
        waiting = self._pending.get(query_id) if _is_query(fields) else None
        if waiting is None:
            learned = {} if _is_query(fields) else {"learned": False}
            return Reply({"id": query_id, **learned, "duplicate": True})
        asked = _asked(decoded(waiting[0].encode()))
        scores = dict(zip(asked.ids if isinstance(asked, Runs) else asked, waiting[1], strict=True))
        return Reply(_ranked(query_id, scores, json.loads(waiting[2])["order"] if waiting[2] else None))

    def stats(self) -> dict[str, Any]:
        """Counts and figures since the service was first started, across restarts with a checkpoint.

        Losses are of rankings whose grades came (`served_interval`): their sum, their mean, and the interval of the mean.
        """
        interval = self.served_interval()
        return {
            **self.counts(),
            "pending": self.n_waiting,
            self.measure: self._metric.get(),
            "loss_sum": float(self._served[1]),
            "loss_mean": interval.mean if interval.n else None,
            "loss_mean_interval": [interval.lower, interval.upper],
            "longest_delay": self._longest_delay,
        }

    @property
    def draws(self) -> bool:
        """Whether the model draws the rankings that are shown, to learn from clicks on them."""
        return abilities_of(self.model).draws

    @property
    def n_waiting(self) -> int:
        """How many queries wait for their feedback."""
        return len(self._pending)

    def counts(self) -> dict[str, int]:
        """What only grows: how many queries were ranked, learned, and forgotten, and how much feedback came twice."""
        return {**self._counts, "evicted": self._pending.n_evicted}

    def served_interval(self, level: float = 0.95) -> Interval:
        """What the rankings served so far lose on average in expectation, with probability `level` at all times (`Interval`).

        Of queries whose grades came; it is valid on any stream (`online_rank.intervals`).
        """
        return LossInterval(self._served).interval(level)

    def replay(self, fields: list[Any], number: int | None, waiting: Any, feedback: bytes) -> None:
        """Change the service once more, as an outcome says (`Outcome`), whatever it was that led to it."""
        kind, *rest = fields
        if kind == "rank":
            n_shown, gone = rest
            if n_shown is not None:
                ranker_of(self.model).n_shown = n_shown
            self._ranked(number, waiting, gone)
        elif kind == "learn":
            request = decoded(feedback)
            given = "clicks" if "clicks" in request else "grades"
            self._learn(rest[0], given, request[given], feedback)
        else:
            self._counts["duplicates"] += 1
            self.n_changes += 1

    def limit(self, max_pending: int, max_age: int, max_learned: int, max_pending_bytes: int) -> None:
        """Set other limits; what is over them goes with the next query. A checkpoint has to follow."""
        self.max_pending, self.max_age, self.max_pending_bytes = max_pending, max_age, max_pending_bytes
        self.max_learned = max_learned
        pending = self._pending
        pending.max_queries, pending.max_age, pending.max_bytes = max_pending, max_age, max_pending_bytes

    def replace_model(self, model: Any, origin: str | None) -> None:
        """Serve and teach another model from now on, of the file `origin`. Queries that wait, and what was counted, are kept.

        A checkpoint has to follow: the journal is of use only with the model that it began with.

        Raises
        ------
        TypeError, ValueError
            It is no ranker, or it learns from another kind of feedback than the one that is served.
        """
        if abilities_of(model).draws != self.draws:
            raise ValueError("one model learns from clicks, the other from grades")
        target = learned_measure(model)
        ranker_of(model)
        if target != self._target:
            # What was lost was lost in another measure.
            self._served = np.zeros(3)
        self.model, self.origin, self._target = model, origin, target
        self._read.clear()

    def without_rows(self) -> "RankingService":
        """A service that has everything of this one but the queries that wait and the ids that were learned.

        It is for saving only: what a table holds, row by row, is not written anew with the model.
        """
        bare = copy.copy(self)
        bare._learned, bare._read = {}, {}
        bare._pending = PendingQueries(max_queries=self.max_pending, max_age=self.max_age, max_bytes=self.max_pending_bytes)
        bare._pending._clock, bare._pending.n_evicted = self._pending._clock, self._pending.n_evicted
        return bare

    def waiting_numbers(self) -> list[int]:
        """The numbers of the queries that wait, in order."""
        return self._pending.numbers()

    def learned_changes(self) -> list[int]:
        """The numbers of the changes by which the ids that are known were learned, in order."""
        return [*self._learned.values()]

    def stored(self, number: int) -> None:
        """Queries up to this number are on the disk."""
        self._pending.n_stored = max(self._pending.n_stored, number)

    def read_queries_from(self, fetch: Callable[[int], Any]) -> None:
        """From now on queries are on the disk too, where `fetch` reads them by number: only the last ones stay in memory."""
        self._pending.read_from(fetch)

    def restore(self, learned: dict[str | int, int], waiting: dict[int, tuple[Any, ...]]) -> None:
        """Give a service that was saved `without_rows` its ids, with their changes, and its queries, by number."""
        self._learned = learned
        for number, (query_id, size, *query) in waiting.items():
            self._pending.put(query_id, tuple(query), size, number, [])

    def _rank(self, query_id: Any, fields: dict[str, Any], request: bytes) -> Reply:
        greedy = fields.get("greedy", False)
        if type(greedy) is not bool:
            raise ValueError("greedy must be true or false")
        asked = _asked(fields)
        docs: Any = asked.documents if isinstance(asked, Runs) else asked
        self._require_moderate(docs, len(request))
        # Before anything is drawn: what is refused must not have changed what is drawn next.
        text = request.decode()
        size = _ENTRY + len(text) * (1 if text.isascii() else 4) + _DOCUMENT * len(docs)
        self._pending.require_room(size)
        able = abilities_of(self.model)
        query = read_query(asked, context=fields.get("context"), documents=able.takes_documents)
        scores = self.model.predict_one(query)
        if greedy:
            return Reply(_ranked(query_id, scores))
        if not able.draws:
            reply = self._waiting(_ranked(query_id, scores), None, (query_id, size, text, [*scores.values()], None))
        else:
            ranker = ranker_of(self.model)
            before = ranker.n_shown
            try:
                shown = self.model.show_one(query)
                answer = _ranked(query_id, scores, [*shown.order])
                drawn = json.dumps(shown.to_dict(), separators=(",", ":"))
                reply = self._waiting(answer, ranker.n_shown, (query_id, size, text, [*scores.values()], drawn))
            except BaseException:
                ranker.n_shown = before
                raise
        if reply.outcome is not None and reply.outcome.number is not None and size <= _LARGEST_READ:
            self._read[reply.outcome.number] = query
            if len(self._read) > _READ:
                del self._read[next(iter(self._read))]
        return reply

    def _waiting(self, answer: dict[str, Any], n_shown: int | None, waiting: tuple[Any, ...]) -> Reply:
        """Let a query that was ranked wait for its feedback, unless that came before. Returns the answer to it."""
        query_id, size, *_ = waiting
        number, gone = None, list[int]()
        replaced = self._pending.number(query_id)
        if query_id not in self._learned:
            number, gone = self._pending.next_number, self._pending.crowded_out(query_id, size)
        outcome = Outcome(("rank", n_shown, gone), number, waiting, gone=tuple(gone if replaced is None else [*gone, replaced]))
        reply = Reply(answer, outcome)
        self._ranked(number, waiting, gone)
        return reply

    def _ranked(self, number: int | None, waiting: Any, gone: list[int]) -> None:
        """A ranking was given."""
        if number is not None:
            query_id, size, *query = waiting
            self._pending.put(query_id, tuple(query), size, number, gone)
        self._counts["ranked"] += 1
        self.n_changes += 1

    def _learn(self, query_id: Any, kind: str, feedback: Any, request: bytes) -> Reply:
        if kind == "grades" and not isinstance(feedback, dict):
            raise ValueError("grades must be {document: grade}")
        if kind == "clicks" and not isinstance(feedback, dict | list):
            raise ValueError("clicks must be [document, ...] or {document: engagement}")
        if kind == "clicks" and isinstance(feedback, dict):
            _require_numbers(feedback)
        if query_id in self._learned:
            self._counts["duplicates"] += 1
            self.n_changes += 1
            return Reply({"id": query_id, "learned": False, "duplicate": True}, Outcome(("duplicate",)), learned=True)
        number = self._pending.number(query_id)
        if number is None:
            raise ValueError("no query waits under this id: it was never ranked, or forgotten since (see stats: evicted)")
        text, scores, drawn = self._pending.get(query_id)
        query = self._read.get(number)
        if query is None:
            before = decoded(text.encode())
            able = abilities_of(self.model)
            query = read_query(_asked(before), context=before.get("context"), documents=able.takes_documents)
        if kind == "clicks" and drawn is None:
            raise ValueError("this service learns from grades: its ranker draws no rankings that clicks could be learned from")
        served = self._served
        outcome = Outcome(("learn", query_id, number), feedback=request, gone=(number,))
        with all_or_nothing(self._metric):
            loss: float | None = None
            if kind == "clicks":
                feedback = Impression.from_dict(json.loads(drawn)).clicked(feedback)
                y, options = feedback, {}
            else:
                y = as_grades(feedback, query.n_documents, query.ids)
                if drawn:
                    answered = _ranked(query_id, dict(zip(query.ids or (), scores, strict=True)), json.loads(drawn)["order"])
                    scores = _as_served(query.ids, answered["ranking"])
                self._metric.update(y, scores)
                loss = served_loss(self._target, scores, y)
                options = {"served": scores} if self.learn_served else {}
                if loss is not None:
                    account = LossInterval(served)
                    account.update(loss)
                    served = account.sums
            # The last that can fail, and the id that makes it known has its place already.
            self._learned[query_id] = self.n_changes + 1
            try:
                self.model.learn_one(query, y, **options)
            except BaseException:
                del self._learned[query_id]
                raise
        self._pending.take(query_id)
        self._read.pop(number, None)
        self._longest_delay = max(self._longest_delay, len(self._pending))
        if len(self._learned) > self.max_learned:
            del self._learned[next(iter(self._learned))]
        self._counts["learned"] += 1
        self._served = served
        self.n_changes += 1
        shown_loss = self.model.last_round.loss if kind == "clicks" else loss or 0.0
        known: Any = None if kind == "clicks" else dict(zip(query.ids or (), scores, strict=True))
        return Reply({"id": query_id, "learned": True, "loss": shown_loss}, outcome, True, None, feedback, known, loss)

    def _require_moderate(self, docs: dict[str, dict], n_bytes: int) -> None:
        """Raise ValueError for too many documents, or where a step would make an array of them much larger than they are."""
        if len(docs) > MAX_DOCUMENTS:
            raise ValueError(f"docs has {len(docs)} documents; a query may have {MAX_DOCUMENTS}")
        allowed = MAX_CELLS + CELLS_A_BYTE * n_bytes
        known = max(getattr(step, "n_features", None) or 0 for step in parts_of(self.model))
        if len(docs) * (known + sum(map(len, docs.values()))) <= allowed:  # Whatever their features are.
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


def _require_numbers(engagement: dict[str, Any]) -> None:
    for name, value in engagement.items():
        if type(value) not in (int, float):
            raise ValueError(
                f"the engagement with document {name[:100]!r} is of type {type(value).__name__}; it must be a number"
            )


def _ranked(query_id: Any, scores: dict[Any, float], drawn: Sequence[Any] | None = None) -> dict[str, Any]:
    """The answer to a query: its documents, best first, and their scores. Those that were `drawn` to be shown come first."""
    ranking = sorted(scores, key=scores.__getitem__, reverse=True)
    if drawn is None:
        return {"id": query_id, "ranking": ranking, "scores": [scores[name] for name in ranking]}
    first = {*drawn}
    ranking = [*drawn, *(name for name in ranking if name not in first)]
    return {"id": query_id, "ranking": ranking, "scores": [scores[name] for name in ranking], "shown": len(drawn)}


def _as_served(documents: Any, order: list[str]) -> list[float]:
    """Scores that rank documents as they were shown; those that were not tie behind them."""
    place = {document: -float(position) for position, document in enumerate(order)}
    return [place.get(document, -float(len(order))) for document in documents]


def _is_query(fields: dict[str, Any]) -> bool:
    return "docs" in fields or "runs" in fields


def _asked(fields: dict[str, Any]) -> Any:
    """The query of a request: `{document: features}`, or `Runs`. Raises TypeError or ValueError for what is none."""
    docs = fields.get("docs", {})
    if not isinstance(docs, dict) or not {*map(type, docs.values())} <= _DICTS:
        raise ValueError("docs must be {document: {feature: value}}")
    if "runs" not in fields:
        return docs
    runs = fields["runs"]
    if not isinstance(runs, dict):
        raise ValueError("runs must be {retriever: [[document, score], ...]} or {retriever: {document: score}}")
    # Documents are texts, as the keys of docs and of grades are.
    for name, run in runs.items():
        for entry in run if isinstance(run, list) else ():
            if isinstance(entry, list) and entry and type(entry[0]) is not str:
                raise ValueError(f"runs: {name[:100]!r} has the document {entry[0]!r:.60}; documents are strings")
    return Runs(runs, docs)


def _require_fields(fields: dict[str, Any]) -> None:
    is_query = _is_query(fields) and fields.keys() <= {"id", *_QUERY} and "id" in fields
    if not is_query and frozenset(fields) not in _FIELDS:
        found = ", ".join(name[:20] for name in list(fields)[:5]) or "none"
        raise ValueError(
            f"a request has the fields id and docs (or runs), id and grades, id and clicks, or cmd; this one has {found}"
        )
    if "id" in fields and not is_id(fields["id"]):
        raise ValueError(f"id must be a string of at most {MAX_ID_LENGTH} characters, or an integer of at most 64 bits")
