"""A second model beside the serving one: compared on the same traffic, and promoted once it is known to be better."""

import copy
import dataclasses
from collections.abc import Mapping
from typing import Any, Self

import numpy as np

from online_rank import arguments
from online_rank.arguments import number
from online_rank.base import abilities_of, ranker_of
from online_rank.base.anatomy import learned_measure
from online_rank.base.draws import counted_generator
from online_rank.base.schema import Array, Count, Schema
from online_rank.feedback import Clicks, Impression
from online_rank.intervals import PairedLosses
from online_rank.intervals.losses import served_loss
from online_rank.intervals.paired import Difference
from online_rank.measures.learned import AnyMeasure
from online_rank.metrics.interleaving import draft, vote
from online_rank.query import Block

_NAMES = ("serving", "challenger")


def drafted_by_challenge(feedback: Any) -> bool:
    """Whether feedback is clicks on a list that a challenge drafted; a ranker that drafts by itself numbers its teams."""
    teams = feedback.impression.teams if isinstance(feedback, Clicks) else None
    return teams is not None and {*teams} <= {*_NAMES}


class Challenge:
    """A model that may replace the serving one.

    With grades it learns in the shadow: both models rank each query before they learn it, and their losses are compared. With
    clicks that comparison would favour the model whose lists were shown, so every other query shows a list drafted from those
    that each would show, draws included (`online_rank.metrics.TeamDraft`), and clicks are votes. Neither model learns from
    those lists.

    Parameters
    ----------
    model
        The challenger. It must learn from the same kind of feedback as the serving model, and for the same measure.
    origin
        Digest of its file.
    promote_at
        Confidence at which it replaces the serving model, at any time; None only compares.
    seed
        Seed of the drafts.

    Examples
    --------
    >>> from online_rank import PerceptronRanker
    >>> from online_rank.rankers.fixed import FixedRanker
    >>> from online_rank.serving import Challenge, RankingService
    >>> service = RankingService(FixedRanker({"x": -1.0}), challenge=Challenge(FixedRanker({"x": 1.0}), promote_at=0.95))
    >>> for i in range(30):
    ...     reply = service.handle(b'{"id": %d, "docs": {"a": {"x": 2}, "b": {"x": 1}}, "grades": {"a": 1, "b": 0}}' % i)
    ...     if reply.promoted:
    ...         print(i + 1, reply.promoted)
    29 the challenger is better than the serving model: +0.3691, 95 % interval +0.0035 to +0.7346, n = 29
    >>> service.challenge is None, service.model.weights
    (True, {'x': 1.0})
    """

    _schema = Schema(sums=Array(1, 3, low=0.0), n_drafted=Count(), n_asked=Count(), n_failed=Count(), since=Count())

    #: Number of the first waiting query whose draft is of this comparison. Older files lack it.
    since: int = 0

    def __init__(self, model: Any, *, origin: str | None = None, promote_at: float | None = None, seed: int = 0) -> None:
        number("promote_at", promote_at, above=0.5, below=1.0, optional=True)
        arguments.seed(seed)
        ranker_of(model)
        self.model = model
        self.origin = origin
        self.promote_at = promote_at
        self.seed = seed
        self.sums = np.zeros((1, 3))
        self.n_asked = 0
        self.n_drafted = 0
        self.n_failed = 0

    @property
    def paired(self) -> PairedLosses:
        """The account of the comparison; the loss of the challenger comes second."""
        return PairedLosses(_NAMES, sums=self.sums)

    @property
    def is_won(self) -> bool:
        """Whether the challenger should replace the serving model."""
        if self.promote_at is None:
            return False
        return any(statement.better == "challenger" for statement in self.paired.better(self.promote_at))

    def require_rival(self, model: Any) -> None:
        """Raise ValueError unless the two models can be compared."""
        if abilities_of(model).draws != abilities_of(self.model).draws:
            raise ValueError("challenger: one model learns from clicks, the other from grades")
        if learned_measure(model) != learned_measure(self.model):
            raise ValueError("challenger: the two models learn different measures")

    def begun(self, since: int) -> Self:
        """The same challenger at the beginning of a comparison, for queries with numbers from `since` on."""
        begun = copy.copy(self)
        begun.sums, begun.n_drafted, begun.since = np.zeros((1, 3)), 0, since
        return begun

    def difference(self, level: float = 0.95) -> Difference:
        """By how much the loss of the serving model exceeds that of the challenger."""
        return self.paired.difference("challenger", "serving", level)

    def compare(self, measure: AnyMeasure, model: Any, query: Block, y: Any) -> None:
        """Compare both on a query with its grades, before they learn it."""
        serving, challenger = (_loss(measure, each, query, y) for each in (model, self.model))
        if serving is not None and challenger is not None:
            self._update({"serving": serving, "challenger": challenger})

    def drafted(self, shown: Impression, model: Any, query: Block, pins: Mapping[str, Any] | None = None) -> Impression | None:
        """A list drafted by both for the next query, which the serving model would show as `shown`; None if it is not drafted.

        What is drafted is what each would show, draws included: a challenger whose draws hide what it knows does not win.
        """
        if self.n_asked % 2:
            return None
        pins = pins or {}
        gone = {*pins.get("excluded", ()), *pins.get("pinned", {}).values()}
        lists = [
            [*each.order, *(document for document in rival.rank_one(query) if document not in gone | {*each.order})]
            for rival, each in ((model, shown), (self.model, self._would_show(query, pins)))
        ]
        k = len(shown.order)
        drafted = draft(dict(zip(_NAMES, lists, strict=True)), k, counted_generator(self, self.seed, self.n_asked))
        return dataclasses.replace(drafted, positions=shown.positions, pinned=shown.pinned)

    def _would_show(self, query: Block, pins: Mapping[str, Any]) -> Impression:
        """What the challenger would show for the next query; it does not count as shown."""
        ranker = ranker_of(self.model)
        before, ranker.n_shown = ranker.n_shown, self.n_asked
        try:
            shown: Impression = self.model.show_one(query, **pins)
        finally:
            ranker.n_shown = before
        return shown

    def count(self, clicks: Clicks) -> None:
        """Count the clicks on a drafted list."""
        won = vote(clicks, "challenger")
        self.n_drafted += 1
        self._update({"serving": won, "challenger": 1.0 - won})

    def learn(self, query: Block, y: Any) -> None:
        """Let the challenger learn a query that the serving model has learned; its errors have no other effect."""
        try:
            self.model.learn_one(query, y)
        except (ValueError, TypeError, ArithmeticError, MemoryError):
            self.n_failed += 1

    def figures(self) -> dict[str, Any]:
        """The result of the comparison, for JSON."""
        level = self.promote_at or 0.95
        difference = self.difference(level)
        return {
            "n": difference.n,
            "difference": difference.mean if difference.n else None,
            "interval": [difference.lower, difference.upper],
            "level": level,
            "promote_at": self.promote_at,
            "failed": self.n_failed,
        }

    def _update(self, losses: dict[str, float]) -> None:
        paired = self.paired
        paired.update(losses)
        self.sums = paired.sums


def _loss(measure: AnyMeasure, model: Any, query: Block, y: Any) -> float | None:
    scores = model.predict_one(query)
    return served_loss(measure, [*scores.values()] if isinstance(scores, dict) else scores, y)
