"""A ranker behind JSON lines, for programs in any language.

Each request is a JSON object on a line of its own, and each gets one line in answer, in order:

    {"id": "q1", "docs": {"a": {"clicks": 3}, "b": {"clicks": 1}}}
        -> {"id": "q1", "ranking": ["a", "b"], "scores": [0.7, 0.2]}             best first
    {"id": "q1", "grades": {"a": 0, "b": 2}}
        -> {"id": "q1", "learned": true, "loss": 0.37}
        -> {"id": "q1", "learned": false, "duplicate": true}                     its grades were learned before

A service that learns from clicks draws the ranking that is to be shown, and is told what was clicked on it:

    {"id": "q1", "docs": {"a": {"clicks": 3}, "b": {"clicks": 1}}}
        -> {"id": "q1", "ranking": ["b", "a"]}                                   show these, in this order
    {"id": "q1", "clicks": ["a"]}                                                [] = looked at, nothing clicked
        -> {"id": "q1", "learned": true, "loss": 0.5}
    {"id": "q2", "clicks": {"a": 0.7}}                                           engagement: time, purchases, ...

What learning from clicks needs to know of the draw waits with the query; none of it crosses the wire. Also

    {"cmd": "stats"}
        -> {"stats": {...}}
    {"cmd": "save"}
        -> {"saved": "model.npz"}
    anything else
        -> {"error": "what is wrong", "line": 17}                                and nothing has changed

Ids are strings or integers, and stand for one query each.
"""

import json
from typing import Any, NamedTuple

import numpy as np

from online_rank.base import abilities_of, parts_of
from online_rank.base.schema import Array, Count, Derived, DictOf, Nested, Plain, Schema, Text
from online_rank.base.undo import all_or_nothing
from online_rank.feedback import Clicks, Impression
from online_rank.intervals import Interval, LossInterval, add_losses, served_loss
from online_rank.limits import CELLS_A_BYTE, MAX_CELLS, MAX_DOCUMENTS, MAX_ID_LENGTH, is_id
from online_rank.measures import learned_measure
from online_rank.metrics import metric
from online_rank.serving.pending import PendingQueries
from online_rank.serving.wire import decoded

__all__ = ["RankingService", "Reply"]

_FIELDS = {frozenset({"id", "docs"}), frozenset({"id", "grades"}), frozenset({"id", "clicks"}), frozenset({"cmd"})}

#: About what a waiting query takes besides its text and its scores.
_ENTRY = 500


class Reply(NamedTuple):
    """What a request led to.

    Attributes
    ----------
    answer
        The answer, for JSON.
    changed
        Whether the request changed the state of the service, so that a journal must hold it.
    learned
        Whether feedback was learned, so that the answer must wait until the journal is on the disk.
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
    changed: bool = False
    learned: bool = False
    command: str | None = None
    feedback: Clicks | dict[str, Any] | None = None
    served: dict[str, float] | None = None
    loss: float | None = None


class RankingService:
    """Answers requests, and learns from grades or clicks whenever they come.

    Its state follows from the requests alone, so that replaying those that changed it brings it back.

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
    {'id': 1, 'error': 'a request has the fields id and docs, id and grades, id and clicks, or cmd; this one ...', 'line': 4}
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
    )

    def __init__(
        self,
        model: Any,
        measure: str = "ndcg@10",
        max_pending: int = 10_000,
        max_age: int = 100_000,
        max_learned: int = 100_000,
        max_pending_bytes: int = 1 << 28,
        learn_served: bool = False,
    ) -> None:
        if isinstance(max_learned, bool) or not isinstance(max_learned, int) or max_learned < 1:
            raise ValueError(f"max_learned is {max_learned!r}; it must be an integer >= 1")
        self.model = model
        self.measure = measure
        self.max_pending = max_pending
        self.max_age = max_age
        self.max_learned = max_learned
        self.max_pending_bytes = max_pending_bytes
        self.learn_served = learn_served
        self.n_changes = 0
        self._pending = PendingQueries(max_pending, max_age, max_pending_bytes)
        self._metric = metric(measure)
        self._learned: dict[str | int, None] = {}
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
            if "docs" in fields:
                return self._rank(query_id, fields["docs"], request)
            kind = "clicks" if "clicks" in fields else "grades"
            return self._learn(query_id, kind, fields[kind])
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
        if "cmd" in fields:
            return self.handle(request)
        query_id = fields["id"]
        waiting = self._pending.get(query_id) if "docs" in fields else None
        if waiting is None:
            learned = {} if "docs" in fields else {"learned": False}
            return Reply({"id": query_id, **learned, "duplicate": True})
        if waiting[2]:
            return Reply({"id": query_id, "ranking": list(json.loads(waiting[2])["order"])})
        return Reply(_ranked(query_id, dict(zip(decoded(waiting[0].encode())["docs"], waiting[1], strict=True))))

    def stats(self) -> dict[str, Any]:
        """Counts and figures since the service was first started, across restarts with a checkpoint."""
        return {
            **self.counts(),
            "pending": self.n_waiting,
            self.measure: self._metric.get(),
            "loss": float(self._served[1]),
            "loss_interval": list(self.served_interval()[:2]),
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

    def _rank(self, query_id: Any, docs: Any, request: bytes) -> Reply:
        if not isinstance(docs, dict) or not all(isinstance(features, dict) for features in docs.values()):
            raise ValueError("docs must be {document: {feature: value}}")
        self._require_moderate(docs, len(request))
        if self.draws:
            shown = self.model.show_one(docs)
            answer = {"id": query_id, "ranking": list(shown.order)}
            scores, drawn = {}, json.dumps(shown.to_dict(), separators=(",", ":"))
        else:
            scores, drawn = self.model.predict_one(docs), None
            answer = _ranked(query_id, scores)
        if query_id not in self._learned:
            # The request itself: a fraction of the memory that dicts of floats take, and nothing to write out anew.
            text = request.decode()
            size = _ENTRY + len(text) * (1 if text.isascii() else 4) + 32 * len(scores) + len(drawn or "")
            self._pending.remember(query_id, (text, list(scores.values()), drawn), size)
        self._counts["ranked"] += 1
        self.n_changes += 1
        return Reply(answer, changed=True)

    def _learn(self, query_id: Any, kind: str, feedback: Any) -> Reply:
        if kind == "grades" and not isinstance(feedback, dict):
            raise ValueError("grades must be {document: grade}")
        if kind == "clicks" and not isinstance(feedback, dict | list):
            raise ValueError("clicks must be [document, ...] or {document: engagement}")
        if kind == "clicks" and isinstance(feedback, dict):
            _require_numbers(feedback)
        if query_id in self._learned:
            self._counts["duplicates"] += 1
            return Reply({"id": query_id, "learned": False, "duplicate": True})
        waiting = self._pending.get(query_id)
        if waiting is None:
            raise ValueError("no query waits under this id: it was never ranked, or forgotten since (see stats: evicted)")
        docs, shown = decoded(waiting[0].encode())["docs"], waiting[2] and json.loads(waiting[2])
        if kind == "clicks" and shown is None:
            raise ValueError("this service learns from grades: its ranker draws no rankings that clicks could be learned from")
        with all_or_nothing(self._metric):
            loss, scores = None, None
            if kind == "clicks":
                feedback = Impression.from_dict(shown).clicked(feedback)
                self.model.learn_one(docs, feedback)
            else:
                scores = _as_served(docs, shown["order"]) if shown else dict(zip(docs, waiting[1], strict=True))
                self._metric.update(feedback, scores)
                loss = served_loss(self._target, scores, feedback)
                self.model.learn_one(docs, feedback, **({"served": scores} if self.learn_served else {}))
        self._pending.take(query_id)
        self._longest_delay = max(self._longest_delay, len(self._pending))
        self._learned[query_id] = None
        if len(self._learned) > self.max_learned:
            del self._learned[next(iter(self._learned))]
        self._counts["learned"] += 1
        if loss is not None:
            add_losses(self._served, np.array([loss]))
        self.n_changes += 1
        shown_loss = self.model.last_round.loss if kind == "clicks" else loss or 0.0
        answer = {"id": query_id, "learned": True, "loss": shown_loss}
        return Reply(answer, changed=True, learned=True, feedback=feedback, served=scores, loss=loss)

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


def _ranked(query_id: Any, scores: dict[str, float]) -> dict[str, Any]:
    """The answer to a query: its documents, best first, and their scores."""
    ranking = sorted(scores, key=scores.__getitem__, reverse=True)
    return {"id": query_id, "ranking": ranking, "scores": [scores[name] for name in ranking]}


def _as_served(docs: dict[str, Any], order: list[str]) -> dict[str, float]:
    """Scores that rank the documents as they were shown; those that were not tie behind them."""
    place = {document: -float(position) for position, document in enumerate(order)}
    return {document: place.get(document, -float(len(order))) for document in docs}


def _require_fields(fields: dict[str, Any]) -> None:
    if frozenset(fields) not in _FIELDS:
        found = ", ".join(name[:20] for name in list(fields)[:5]) or "none"
        raise ValueError(f"a request has the fields id and docs, id and grades, id and clicks, or cmd; this one has {found}")
    if "id" in fields and not is_id(fields["id"]):
        raise ValueError(f"id must be a string of at most {MAX_ID_LENGTH} characters, or an integer of at most 64 bits")
