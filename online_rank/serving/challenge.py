"""A second model next to the serving one: compared on the same traffic, and promoted once it is known to be better."""

import copy
import dataclasses
import functools
from collections.abc import Callable, Hashable, Mapping
from typing import TYPE_CHECKING, Any, Self, TypeAlias

import numpy as np

from online_rank import arguments
from online_rank.arguments import number
from online_rank.base import abilities_of, ranker_of
from online_rank.base.anatomy import learned_measure
from online_rank.base.draws import counted_generator
from online_rank.base.schema import Array, Count, Derived, Real, Schema, Text
from online_rank.feedback import Clicks, Impression, PlackettLuce
from online_rank.intervals import PairedLosses
from online_rank.intervals.losses import served_loss
from online_rank.intervals.paired import Difference
from online_rank.query import Block
from online_rank.query.context import vectors_of
from online_rank.rankers.fixed import FixedRanker
from online_rank.rankers.frozen import FrozenRanker
from online_rank.serving.votes import HALF, kept_by_draft, least_drafted, share_of_votes

if TYPE_CHECKING:
    from online_rank.measures.learned import AnyMeasure

_NAMES = ("serving", "challenger")
#: How many of the worst drafts the budget may save up for.
_SAVED = 2.0
#: The confidence of `from_today`.
SURE = 0.95
#: What an answer says of evidence that names neither session nor user.
ASSUMED = "this list is the only evidence of its user today: it names neither session nor user"


#: Gives a query whose odd values some models refuse the kinds that they know; None if it has none.
Fit: TypeAlias = Callable[[Block, list[Any]], Block | None]


def drafted_by_challenge(feedback: Any) -> bool:
    """Whether feedback is clicks on a list that a challenge drafted; a ranker that drafts alone numbers its teams."""
    teams = feedback.impression.teams if isinstance(feedback, Clicks) else None
    return teams is not None and {*teams} <= {*_NAMES}


def seen_by(model: Any, query: Block) -> Block:
    """A query as one of two models that are compared takes it: without a context that only the other one looks at."""
    able = abilities_of(model)
    if query.context is None or able.takes_context:
        return query
    # Of vectors alone, if it takes these.
    vectors = tuple(vectors_of(context) for context in query.context) if able.takes_vectors else ()
    return query._replace(context=vectors if any(vectors) else None)


class Challenge:
    """A model that may replace the serving one.

    With grades it learns in the shadow: both models rank each query before they learn it, and their losses are compared. With
    clicks that comparison would favour the model whose lists were shown, so every other query shows a list drafted from those
    that each would show, draws included (`online_rank.metrics.TeamDraft`), and clicks are votes. Neither model learns from
    those lists.

    With a budget (`from_today`), both models order the documents that the serving one would show, and fewer lists are drafted:
    the next one is as soon as half of the budget pays for the worst draft. It costs what its draft takes from the documents of
    the serving model (`kept_by_draft`). The model that lost its place is the next challenger: it may come back.

    Of a session or a user that feedback names only the first evidence in a day counts: what comes after it depends on it, and
    the interval assumes that each piece of evidence, given all before it, has the mean over all users. Each list without a name
    is taken for the only one of its user. Names that somebody invents count as users.

    Parameters
    ----------
    model
        The challenger. It must learn from the same kind of feedback as the serving model, and for the same measure.
    origin
        Digest of its file.
    promote_at
        Confidence at which it replaces the serving model: the lower limit of the mean difference, which holds with this
        probability at all times, is above 0. None only compares.
    keep
        The budget: the least share of the serving model's DCG that users see in expectation, drafted lists included; None for
        none.
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
    25 the challenger is better than the serving model: +0.3691, at least +0.0101 with 95 % confidence, n = 25
    >>> service.challenge is None, service.model.weights
    (True, {'x': 1.0})
    """

    _schema = Schema(
        sums=Array(1, 3, low=0.0),
        n_drafted=Count(),
        n_asked=Count(),
        n_failed=Count(),
        n_shown=Count(),
        spent=Real(low=0.0),
        asked_before=Count(),
        since=Count(),
        n_turns=Count(),
        n_assumed=Count(),
        n_repeated=Count(),
        serving_origin=Text(optional=True),
        failure=Derived(),
    )

    #: Number of the first waiting query whose draft is of this comparison. Older files lack it.
    since: int = 0
    #: How often the two models have exchanged their roles, and the origin of the one that serves. Older files lack them.
    n_turns: int = 0
    serving_origin: str | None = None
    #: How much of the evidence named no session and no user, and how much more came of those that had given theirs that day.
    n_assumed: int = 0
    n_repeated: int = 0
    #: How many lists were drafted, how much of today's DCG they may have cost, with what was not saved up (`count_list`), and
    #: how many lists were shown before this comparison began. Older files lack them.
    n_shown: int = 0
    spent: float = 0.0
    asked_before: int = 0
    #: Why the model that waits could not rank or learn the last query of which it could not.
    failure: str | None = None

    def __init__(
        self,
        model: Any,
        *,
        origin: str | None = None,
        promote_at: float | None = None,
        keep: float | None = None,
        seed: int = 0,
    ) -> None:
        number("promote_at", promote_at, above=0.5, below=1.0, optional=True)
        number("keep", keep, above=0.0, below=1.0, optional=True)
        arguments.seed(seed)
        ranker_of(model)
        self.model = model
        self.origin = origin
        self.promote_at = promote_at
        self.keep = keep
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
        return self.least(self.promote_at) > 0.0

    def require_rival(self, model: Any) -> None:
        """Raise ValueError unless the two models can be compared."""
        if abilities_of(model).draws != abilities_of(self.model).draws:
            raise ValueError("challenger: one model learns from clicks, the other from grades")
        if learned_measure(model) != learned_measure(self.model):
            raise ValueError("challenger: the two models learn different measures")

    def begun(self, since: int) -> Self:
        """The same challenger at the beginning of a comparison, for queries with numbers from `since` on."""
        begun = copy.copy(self)
        begun.sums, begun.since = np.zeros((1, 3)), since
        begun.n_drafted = begun.n_failed = begun.n_assumed = begun.n_repeated = 0
        begun.failure = None
        begun.asked_before = self.n_asked
        return begun

    def turned(self, model: Any, since: int) -> Self | None:
        """The comparison after the challenger took the place of `model`: with a budget, that model is the next challenger."""
        if self.keep is None:
            return None
        turned = self.begun(since)
        turned.model, turned.n_turns = model, self.n_turns + 1
        turned.origin, turned.serving_origin = self.serving_origin, self.origin
        return turned

    def with_model(self, model: Any, since: int, same: bool) -> Self:
        """The comparison with another model that waits: with its evidence, if it is of the same line, or from the beginning."""
        made = copy.copy(self) if same else self.begun(since)
        made.model = model
        return made

    @property
    def share(self) -> float:
        """The least share of the lists that are drafted, if the models learn from clicks."""
        return HALF if self.keep is None else share_of_votes(self.keep, ranker_of(self.model).policy.k)

    def difference(self, level: float = 0.95) -> Difference:
        """By how much the loss of the serving model exceeds the challenger's."""
        return self.paired.difference("challenger", "serving", level)

    def least(self, level: float = 0.95) -> float:
        """The lower limit of this difference, which holds at all times with this probability."""
        return self.difference(2.0 * level - 1.0).lower

    @property
    def difference_text(self) -> str:
        """The difference, for people."""
        difference, level = self.difference(), self.promote_at or SURE
        return (
            f"{difference.mean:+.4f}, at least {self.least(level):+.4f} with {100 * level:g} % confidence, n = {difference.n:,}"
        )

    def in_words(self) -> str:
        """The difference, and how long a decision takes, for people."""
        left = self.left()
        if left is None:
            return f"{self.difference_text}; at this difference it does not take over"
        lists = f" or {left['lists']:,} lists" if "lists" in left else ""
        return f"{self.difference_text}; at this difference it takes over after about {left['votes']:,} more comparisons{lists}"

    def left(self) -> dict[str, int] | None:
        """How much more evidence, and how many more lists, a decision takes if all continues as so far; None without an end.

        `lists` is there if the models learn from clicks.
        """
        votes = self.paired.n_left("challenger", "serving", self.promote_at or SURE)
        if votes is None:
            return None
        shown = self.n_asked - self.asked_before
        return {"votes": votes, **({"lists": round(votes * shown / float(self.sums[0, 0]))} if shown else {})}

    def ask(self, asked: Callable[[Block], Any], query: Block, fit: Fit | None = None) -> Any:
        """What the challenger answers to a query; where it refuses odd values, `fit` gives them the kinds that it knows."""
        query = seen_by(self.model, query)
        try:
            return asked(query)
        except (ValueError, TypeError):
            if fit is None or (fitted := fit(query, [self.model])) is None:
                raise
            return asked(fitted)

    def compare(
        self, measure: "AnyMeasure", model: Any, query: Block, y: Any, whose: bool | None = None, fit: Fit | None = None
    ) -> None:
        """Compare both on a query with its grades, before they learn it; `whose` as in `count`."""
        if not self._counts(whose):
            return
        serving = served_loss(measure, _values(model.predict_one(seen_by(model, query))), y)
        try:
            challenger = served_loss(measure, _values(self.ask(self.model.predict_one, query, fit)), y)
        except (ValueError, TypeError) as error:  # Nobody would be answered by it, which is no ranking at all.
            self.fails(error)
            challenger = 1.0
        if serving is not None and challenger is not None:
            self._update({"serving": serving, "challenger": challenger})

    def drafted(
        self, shown: Impression, model: Any, query: Block, pins: Mapping[str, Any] | None = None, fit: Fit | None = None
    ) -> Impression | None:
        """A list drafted by both for the next query, which the serving model would show as `shown`; None if it is not drafted.

        What is drafted is what each would show, draws included: a challenger whose draws hide what it knows does not win. What
        the challenger cannot rank is no evidence.
        """
        if not self._is_paid(k := len(shown.order)):
            return None
        pins = pins or {}
        gone = {*pins.get("excluded", ()), *pins.get("pinned", {}).values()}
        kept = None
        try:
            ranking = self.ask(self.model.rank_one, query, fit)
            would = None if self.keep is not None else self.ask(functools.partial(self._would_show, pins), query, fit)
        except (ValueError, TypeError) as error:
            self.fails(error)
            return None
        own = model.rank_one(seen_by(model, query))
        if would is not None:  # What each would show, draws included, and then all other documents.
            lists = [
                [*each.order, *(document for document in others if document not in gone | {*each.order})]
                for each, others in ((shown, own), (would, ranking))
            ]
        else:
            place = {document: place for place, document in enumerate(ranking)}
            first = [document for document in own if document not in gone][:k]
            lists, kept = [first, sorted(first, key=place.__getitem__)], kept_by_draft([*map(place.__getitem__, first)])
            self.n_shown, self.spent = self.n_shown + 1, self.spent + 1.0 - kept
        drafted = Impression.drafted(dict(zip(_NAMES, lists, strict=True)), k, counted_generator(self, self.seed, self.n_asked))
        return dataclasses.replace(drafted, positions=shown.positions, pinned=shown.pinned, kept=kept)

    def count_list(self) -> None:
        """Count a list that was shown, and could be drafted. With a budget it pays for later drafts, as far as that is saved.

        Otherwise lists of one client, which cost nothing, would pay for many drafts in a row for others.
        """
        self.n_asked += 1
        if self.keep is not None:
            worst = 1.0 - least_drafted(ranker_of(self.model).policy.k)
            self.spent = max(self.spent, HALF * (1.0 - self.keep) * self.n_asked - _SAVED * worst)

    def _is_paid(self, k: int) -> bool:
        """Whether the next list, of k documents, is drafted: with a budget, if half of it pays for the worst draft."""
        if self.keep is None:
            return not self.n_asked * HALF % 1.0 >= HALF
        if self.n_shown > HALF * self.n_asked:
            return False
        return self.spent + 1.0 - least_drafted(k) <= HALF * (1.0 - self.keep) * (self.n_asked + 1)

    def _would_show(self, pins: Mapping[str, Any], query: Block) -> Impression:
        """What the challenger would show for the next query; it does not count as shown."""
        ranker = ranker_of(self.model)
        before, ranker.n_shown = ranker.n_shown, self.n_asked
        try:
            shown: Impression = self.model.show_one(query, **pins)
        finally:
            ranker.n_shown = before
        return shown

    def count(self, clicks: Clicks, whose: bool | None = None) -> None:
        """Count the clicks on a drafted list: True for the first of a session or user in a day, and False for others, which do
        not count; None for clicks without a name, which are assumed to be a person's only ones.
        """
        if not self._counts(whose):
            return
        won = clicks.vote("challenger")
        self.n_drafted += 1
        self._update({"serving": won, "challenger": 1.0 - won})

    def learn(self, query: Block, y: Any, fit: Fit | None = None) -> None:
        """Let the challenger learn a query that the serving model has learned; its errors have no other effect."""
        try:
            self.ask(lambda asked: self.model.learn_one(asked, y), query, fit)
        except (ValueError, TypeError, ArithmeticError, MemoryError) as error:
            self.fails(error)

    def fails(self, error: Exception) -> None:
        """Count a query that the challenger cannot rank or learn."""
        self.n_failed += 1
        self.failure = str(error) or type(error).__name__

    def figures(self) -> dict[str, Any]:
        """The result of the comparison, for JSON."""
        level = self.promote_at or 0.95
        difference = self.difference(level)
        is_counted = self.keep is not None and (self.n_shown or self.n_failed)
        return {
            "n": difference.n,
            "difference": difference.mean if difference.n else None,
            "least": self.least(level) if difference.n else None,
            "left": self.left(),
            "interval": [difference.lower, difference.upper],
            "level": level,
            "promote_at": self.promote_at,
            "failed": self.n_failed,
            "failure": self.failure,
            "share": self.n_shown / self.n_asked if self.n_asked and is_counted else self.share,
            "assumed": self.n_assumed,
            "repeated": self.n_repeated,
            "turns": self.n_turns,
        }

    def _counts(self, whose: bool | None) -> bool:
        """Whether evidence counts: what one cluster gives again is dependent."""
        self.n_assumed += whose is None
        self.n_repeated += whose is False
        return whose is not False

    def _update(self, losses: dict[str, float]) -> None:
        paired = self.paired
        paired.update(losses)
        self.sums = paired.sums


def from_today(
    today: Mapping[Hashable, float] | tuple[float, ...], model: Any, *, keep: float = 0.98, k: int = 10, seed: int = 0
) -> tuple[FixedRanker, Challenge]:
    """The ranking of today, which serves, and the challenge of a model that learns from its lists until it takes its place.

    Of what the budget may cost, draws around the serving ranking get one half, newcomers among them, and votes the other.

    Parameters
    ----------
    today
        The weights of the present ranking formula, as `FixedRanker` takes them: `{"score": 1.0}`, or `{"rank": -1.0}`.
    model
        The model that learns: `ClickCurves`, or a pipeline that ends in a `ClickRidge`, which need far fewer clicks than a
        `SwapRanker` or a `ClickPerceptron`. Any other model is compared as it is, and learns nothing (`FrozenRanker`). From now
        on it draws by the policy of today's ranking.
    keep, k
        The budget, and how many documents are shown, at least 3.
    seed
        Seed of the draws.

    Examples
    --------
    >>> from online_rank import ClickCurves
    >>> from online_rank.serving import RankingService
    >>> from online_rank.serving.challenge import from_today
    >>> today, challenge = from_today({"score": 1.0}, ClickCurves({"score": 1.0}))
    >>> service = RankingService(today, challenge=challenge)
    >>> round(challenge.share, 3), today.policy.newcomers, service.keep
    (0.038, 0.005..., 0.98)
    """
    model, ranker = drawn_around(model)
    arguments.integer("k", k, 3)
    # Half of the lists are votes at most, and what these keep is sure.
    number("keep", keep, above=HALF * least_drafted(k), below=1.0)
    share = share_of_votes(keep, k)
    drawn = (keep - share * least_drafted(k)) / (1.0 - share)
    ranker.policy = PlackettLuce(k, keep=drawn, newcomers=0.25 * (1.0 - keep), seed=seed)
    return FixedRanker(today, policy=copy.copy(ranker.policy)), Challenge(model, promote_at=SURE, keep=keep, seed=seed)


def drawn_around(model: Any) -> tuple[Any, Any]:
    """A model that draws lists and learns from clicks on the lists of another one, and its ranker; any other model as it is."""
    ranker = ranker_of(model)
    if not (hasattr(ranker, "policy") and getattr(ranker, "credit", "swap") == "swap" and ranker.abilities.takes_clicks):
        model = ranker = FrozenRanker(model)
    return model, ranker


def _values(scores: Any) -> Any:
    """Scores in the order of the documents."""
    return [*scores.values()] if isinstance(scores, dict) else scores
