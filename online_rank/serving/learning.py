"""A service learns queries: those that wait when their feedback comes, and those that somebody else ranked."""

import json
import math
from typing import Any

import numpy as np

from online_rank.base import abilities_of, learn_within
from online_rank.base.growth import growth_limited
from online_rank.base.undo import all_or_nothing
from online_rank.feedback import Clicks, Impression
from online_rank.intervals import LossInterval
from online_rank.intervals.losses import served_loss, served_losses
from online_rank.limits import CELLS_A_BYTE, MAX_GROWTH
from online_rank.measures.learned import as_scores
from online_rank.metrics.base import running_means
from online_rank.query import Block, Runs, as_grades, read_query
from online_rank.query.blocks import ONE, with_feedback
from online_rank.serving.answers import (
    as_served,
    completed,
    ranked,
    require_few_pairs,
    require_known,
    require_moderate,
    require_short_context,
)
from online_rank.serving.challenge import drafted_by_challenge
from online_rank.serving.outcomes import Outcome, Reply
from online_rank.serving.requests import asked_of, digest_of, ids_of, require_feedback
from online_rank.serving.service_state import ServiceState
from online_rank.serving.wire import decoded

__all__ = ["NOT_CLICKS", "LearningService"]

NOT_CLICKS = "this service learns from grades: its ranker draws no rankings that clicks could be learned from"


class LearningService(ServiceState):
    """A service that learns a query at once, with all of its feedback."""

    def _learn(self, kind: str, fields: dict[str, Any], request: bytes, at: float | None) -> Reply:
        """Learn a query from the first feedback that comes for it, at a time, if the model asks for one."""
        query_id = fields["id"]
        digest = digest_of(kind, fields)
        if (before := self.learned_as(query_id)) is not None:
            return self._came_again(query_id, before, digest)
        number = self._pending.number(query_id)
        if number is None:
            raise ValueError("no query is waiting under this id: it was never ranked, or dropped since (see stats: evicted)")
        when = () if at is None else (at,)
        outcome = Outcome(("learn", query_id, number, *when), feedback=request, gone=(number,), digest=digest)
        return self._learn_waiting(query_id, kind, fields[kind], fields.get("ungraded"), outcome, at)

    def _teach(self, fields: dict[str, Any], request: bytes, at: float | None, *, n_bytes: int | None) -> Reply:
        """Learn a query that somebody else has ranked, from its documents and their grades; `n_bytes` as for `_query_of`."""
        require_feedback("grades", fields)
        query_id, digest = fields["id"], digest_of("grades", fields)
        if (before := self.learned_as(query_id)) is not None:
            return self._came_again(query_id, before, digest)
        grades, ungraded = fields["grades"], fields.get("ungraded")
        query = self._query_of(fields, grades if ungraded == "skip" else None, n_bytes=n_bytes)
        if n_bytes is not None and self.draws:
            require_few_pairs(query, n_bytes)
        y = as_grades(completed(grades, query, ungraded), query.n_documents, query.ids)
        scores = self.model.predict_one(query)
        loss = served_loss(self._target, [*scores.values()], y)
        number = self._pending.number(query_id)
        when, gone = () if at is None else (at,), () if number is None else (number,)
        outcome = Outcome(("teach", query_id, *when), feedback=request, gone=gone, digest=digest)
        reply = Reply({"id": query_id, "learned": True, "loss": loss or 0.0}, outcome, learned=True)
        with self._changing(query) as changes:
            self._learn_once(query, y, None, at, changes, len(request))
            self._end(changes, query_id, number, digest, "learned")
        return reply

    def _learn_waiting(
        self, query_id: Any, kind: str, feedback: Any, ungraded: Any, outcome: Outcome, at: float | None
    ) -> Reply:
        """Learn a query that waits, which waits no longer."""
        number = self._pending.number(query_id) or 0
        text, scores, drawn = self._pending.get(query_id)
        query = self._read.get(number)
        if query is None:
            query = self._query_of(decoded(text.encode()))
        if kind == "clicks" and drawn is None:
            raise ValueError(NOT_CLICKS)
        account = LossInterval(self._served)
        with self._changing(query) as changes:
            loss: float | None = None
            by: np.ndarray | None = None
            if kind == "clicks":
                feedback = Impression.from_dict(json.loads(drawn)).clicked(feedback)
                y = feedback
                if drafted_by_challenge(y) and (self.challenge is None or number < self.challenge.since):
                    # Its vote is for a comparison that has ended.
                    return self._forgotten_as_late(query_id, outcome)
            else:
                if drawn:
                    require_few_pairs(query, len(text))
                    answered = ranked(query_id, dict(zip(query.ids or (), scores, strict=True)), json.loads(drawn)["order"])
                    scores = as_served(query.ids, answered["ranking"])
                if ungraded == "skip":
                    of_all = dict(zip(query.ids or (), scores, strict=True))
                    query = self._query_of(decoded(text.encode()), feedback)
                    scores = [of_all[name] for name in query.ids or ()]
                feedback = completed(feedback, query, ungraded)
                y = as_grades(feedback, query.n_documents, query.ids)
                by = as_scores(scores)
                running_means(self._metric, by, y, query.offsets, [1])
                lost = served_losses(self._target, by, y, query.offsets).item() if len(y) else math.nan
                loss = None if math.isnan(lost) else lost
                if loss is not None:
                    account.update(loss)
            self._learn_once(query, y, by if self.learn_served else None, at, changes, len(text))
            shown_loss = loss or 0.0
            if kind == "clicks" and feedback.impression.teams is None:
                shown_loss = self.model.last_round.loss
            known: Any = None if kind == "clicks" else dict(zip(query.ids or (), scores, strict=True))
            answer = {"id": query_id, "learned": True, "loss": shown_loss}
            reply = Reply(answer, outcome, True, None, feedback, known, loss, None if loss is None else account)
            self._longest_delay = max(self._longest_delay, len(self._pending) - 1)
            self._served = account.sums
            self._end(changes, query_id, number, outcome.digest, "learned")
        return reply

    def _changing(self, query: Block) -> all_or_nothing:
        """Undo what learning a query changes, unless the request is answered."""
        changes = all_or_nothing(self, self._metric, goes_on=True)
        if self.challenge is not None:
            changes.include(self.challenge.model, query)
        return changes

    def _end(self, changes: all_or_nothing, query_id: Any, number: int | None, digest: int, counted: str) -> None:
        """A query, which waits under this number or not, was learned, or goes: the last of the changes, which undo it."""
        self._remember(changes, query_id, digest)
        self._count(counted)
        self._leave(changes, query_id, number)

    def _learn_once(
        self, query: Block, y: Any, served: np.ndarray | None, at: float | None, changes: all_or_nothing, n_bytes: int
    ) -> None:
        """Let the models learn a query from `Clicks` or grades (m,); `changes` undo it (`_changing`).

        The query is of so many bytes, which limit what its new features may add to the models, unless it is replayed.
        """
        challenge, drafted = self.challenge, drafted_by_challenge(y)
        if challenge is not None and not isinstance(y, Clicks):
            challenge.compare(self._target, self.model, query, y)
        within = growth_limited(MAX_GROWTH + CELLS_A_BYTE * n_bytes)
        if not drafted:
            learned = with_feedback(query, (y,) if isinstance(y, Clicks) else y, ONE, served)
            within.run(learn_within, self.model, learned if at is None else _at_time(self.model, learned, at), changes)
        if challenge is not None and drafted:
            challenge.count(y)
        elif challenge is not None:
            within.run(challenge.learn, query if at is None else _at_time(challenge.model, query, at), y)

    def _query_of(self, fields: dict[str, Any], only: Any = None, *, n_bytes: int | None = None) -> Block:
        """The query of a request, all of its documents or some.

        Parameters
        ----------
        fields
            The request.
        only
            The documents that are meant; None for all.
        n_bytes
            Size of a new request, which must not ask for too large an array; None for one that was accepted before.
        """
        asked = asked_of(fields, self.null_is_missing)
        if n_bytes is not None:
            docs: Any = asked.documents if isinstance(asked, Runs) else asked
            for model in (self.model,) if self.challenge is None else (self.model, self.challenge.model):
                require_moderate(model, docs, n_bytes)
                if model.abilities.takes_context and "context" in fields:
                    require_short_context(docs, fields["context"], n_bytes)
        if only is not None:
            require_known(only, ids_of(asked))
            if isinstance(asked, Runs):
                raise ValueError("ungraded is 'skip'; documents of runs cannot be left out: ranks are those of whole lists")
            asked = {name: features for name, features in asked.items() if name in only}
        return read_query(asked, context=fields.get("context"), documents=abilities_of(self.model).takes_documents)

    def _known(self, text: str, drawn: str | None) -> Any:
        """The documents that feedback on a query may be about."""
        return json.loads(drawn)["order"] if drawn else ids_of(asked_of(decoded(text.encode()), self.null_is_missing))

    def _came_again(self, query_id: Any, before: int, digest: int) -> Reply:
        """The answer to feedback on a learned query: repeated, or a correction, which comes too late."""
        return self._duplicate(query_id) if before in (0, digest) else self._too_late(query_id, Outcome(("late", None)))

    def _too_late(self, query_id: Any, outcome: Outcome) -> Reply:
        reply = Reply({"id": query_id, "learned": False, "late": True}, outcome, learned=True)
        with all_or_nothing(self):
            self._count("late")
        return reply

    def _forgotten_as_late(self, query_id: Any, outcome: Outcome) -> Reply:
        """The answer to clicks on a list that two models drafted, one of which serves or challenges no longer."""
        reply = Reply({"id": query_id, "learned": False, "late": True}, outcome, learned=True)
        with all_or_nothing(self) as changes:
            self._end(changes, query_id, self._pending.number(query_id), outcome.digest, "late")
        return reply

    def _duplicate(self, query_id: Any) -> Reply:
        reply = Reply({"id": query_id, "learned": False, "duplicate": True}, Outcome(("duplicate",)), learned=True)
        with all_or_nothing(self):
            self._count("duplicates")
        return reply


def _at_time(model: Any, query: Block, at: float) -> Block:
    """A query, with its time if a model asks for that."""
    return query._replace(at=np.array([float(at)])) if abilities_of(model).takes_time else query
