"""A ranker behind JSON lines, for programs in any language.

Each request is a JSON object on a line of its own, and each gets one line in answer, in order:

    {"id": "q1", "docs": {"a": {"clicks": 3}, "b": {"clicks": 1}}}
        -> {"id": "q1", "ranking": ["a", "b"], "scores": [0.7, 0.2]}             best first
    {"id": "q1", "grades": {"a": 0, "b": 2}}
        -> {"id": "q1", "learned": true, "loss": 0.37}
        -> {"id": "q1", "learned": false, "duplicate": true}                     its grades were learned before
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

from online_rank.base.schema import Count, DictOf, Nested, Plain, Real, Schema, Text
from online_rank.base.undo import all_or_nothing
from online_rank.metrics import metric
from online_rank.serving.pending import PendingQueries

__all__ = ["RankingService", "Reply"]

_FIELDS = {frozenset({"id", "docs"}), frozenset({"id", "grades"}), frozenset({"cmd"})}
_MAX_ID = 1000


class Reply(NamedTuple):
    """What a request led to.

    Attributes
    ----------
    answer
        The answer, for JSON.
    changed
        Whether the request changed the state of the service, so that a journal must hold it.
    learned
        Whether grades were learned, so that the answer must wait until the journal is on the disk.
    command
        The command that whoever runs the service has to carry out, or None.
    """

    answer: dict[str, Any]
    changed: bool = False
    learned: bool = False
    command: str | None = None


class RankingService:
    """Answers requests, and learns from grades whenever they come.

    Its state follows from the requests alone, so that replaying those that changed it brings it back.

    Parameters
    ----------
    model
        A ranker, or a pipeline that ends in one.
    measure
        Name of the metric that measures the rankings that were served.
    max_pending, max_age
        How many queries wait for their grades, and for how many further queries (see `PendingQueries`).
    max_learned
        How many ids of learned queries are remembered, to recognise grades that come twice.

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
    {'id': 1, 'error': 'a request has the fields id and docs, id and grades, or cmd; this one has id, grade', 'line': 4}
    """

    _schema = Schema(
        n_changes=Count(),
        _pending=Nested("PendingQueries"),
        _metric=Nested("RankingMetric"),
        _learned=DictOf(Plain(), Plain()),
        _counts=DictOf(Text("ranked", "learned", "duplicates"), Count()),
        _loss=Real(0.0),
    )

    def __init__(
        self,
        model: Any,
        measure: str = "ndcg@10",
        max_pending: int = 10_000,
        max_age: int = 100_000,
        max_learned: int = 100_000,
    ) -> None:
        if isinstance(max_learned, bool) or not isinstance(max_learned, int) or max_learned < 1:
            raise ValueError(f"max_learned is {max_learned!r}; it must be an integer >= 1")
        self.model = model
        self.measure = measure
        self.max_pending = max_pending
        self.max_age = max_age
        self.max_learned = max_learned
        self.n_changes = 0
        self._pending = PendingQueries(max_pending, max_age)
        self._metric = metric(measure)
        self._learned: dict[str | int, None] = {}
        self._counts = {"ranked": 0, "learned": 0, "duplicates": 0}
        self._loss = 0.0

    def handle(self, request: bytes, line: int = 0) -> Reply:
        """Answer one request; `line` is its number, for error answers. A bad request changes nothing, and raises nothing."""
        try:
            fields = _parsed(request)
        except (ValueError, RecursionError) as error:
            return Reply({"error": f"not a JSON object: {error}", "line": line})
        query_id = fields.get("id")
        try:
            _require_fields(fields)
            if "cmd" in fields:
                return self._command(fields["cmd"])
            return self._rank(query_id, fields["docs"]) if "docs" in fields else self._learn(query_id, fields["grades"])
        except (ValueError, TypeError, OverflowError) as error:
            known = {"id": query_id} if _is_id(query_id) else {}
            return Reply({**known, "error": str(error), "line": line})

    def stats(self) -> dict[str, Any]:
        """Counts and figures since the service was first started, across restarts with a checkpoint."""
        return {
            **self._counts,
            "pending": len(self._pending),
            "evicted": self._pending.n_evicted,
            self.measure: self._metric.get(),
            "loss": self._loss,
        }

    def _rank(self, query_id: Any, docs: Any) -> Reply:
        if not isinstance(docs, dict) or not all(isinstance(features, dict) for features in docs.values()):
            raise ValueError("docs must be {document: {feature: value}}")
        scores = self.model.predict_one(docs)
        ranking = sorted(scores, key=scores.__getitem__, reverse=True)
        answer = {"id": query_id, "ranking": ranking, "scores": [scores[name] for name in ranking]}
        self._counts["ranked"] += 1
        self.n_changes += 1
        if query_id not in self._learned:
            # As text: a fraction of the memory that dicts of floats take.
            self._pending.remember(query_id, (json.dumps(docs, separators=(",", ":")), list(scores.values())))
        return Reply(answer, changed=True)

    def _learn(self, query_id: Any, grades: Any) -> Reply:
        if not isinstance(grades, dict):
            raise ValueError("grades must be {document: grade}")
        if query_id in self._learned:
            self._counts["duplicates"] += 1
            return Reply({"id": query_id, "learned": False, "duplicate": True})
        waiting = self._pending.get(query_id)
        if waiting is None:
            raise ValueError("no query waits under this id: it was never ranked, or forgotten since (see stats: evicted)")
        docs, scores = json.loads(waiting[0]), waiting[1]
        with all_or_nothing(self._metric):
            self._metric.update(grades, dict(zip(docs, scores, strict=True)))
            self.model.learn_one(docs, grades)
        loss = self.model.last_round.loss
        self._pending.take(query_id)
        self._learned[query_id] = None
        if len(self._learned) > self.max_learned:
            del self._learned[next(iter(self._learned))]
        self._counts["learned"] += 1
        self._loss += loss
        self.n_changes += 1
        return Reply({"id": query_id, "learned": True, "loss": loss}, changed=True, learned=True)

    def _command(self, command: Any) -> Reply:
        if command == "stats":
            return Reply({"stats": self.stats()})
        if command == "save":
            return Reply({}, command="save")
        raise ValueError(f"cmd is {str(command)[:40]!r}; there are 'save' and 'stats'")


def _parsed(request: bytes) -> dict[str, Any]:
    fields = json.loads(request.decode(), parse_constant=_refuse_constant, object_pairs_hook=_without_repeats)
    if not isinstance(fields, dict):
        raise ValueError(f"it is of type {type(fields).__name__}")
    return fields


def _refuse_constant(name: str) -> Any:
    raise ValueError(f"{name} is not a JSON number")


def _without_repeats(pairs: list[tuple[str, Any]]) -> dict[str, Any]:
    found = dict(pairs)
    if len(found) != len(pairs):
        names = [name for name, _ in pairs]
        raise ValueError(f"{next(name for name in names if names.count(name) > 1)[:100]!r} stands twice in an object")
    return found


def _require_fields(fields: dict[str, Any]) -> None:
    if frozenset(fields) not in _FIELDS:
        found = ", ".join(name[:20] for name in list(fields)[:5]) or "none"
        raise ValueError(f"a request has the fields id and docs, id and grades, or cmd; this one has {found}")
    if "id" in fields and not _is_id(fields["id"]):
        raise ValueError(f"id must be a string of at most {_MAX_ID} characters, or an integer of at most 64 bits")


def _is_id(value: Any) -> bool:
    if isinstance(value, str):
        return len(value) <= _MAX_ID
    return type(value) is int and -(2**63) <= value < 2**63
