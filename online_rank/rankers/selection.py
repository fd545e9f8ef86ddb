"""Chooses among rankers while they learn."""

import functools
from collections.abc import Sequence
from typing import Any, NamedTuple

import numpy as np

from online_rank import arguments
from online_rank.base import Abilities, Ranker, RankingPipeline, Round, best_first, ranker_of, share_lock
from online_rank.base.anatomy import learned_measure
from online_rank.base.draws import counted_generator
from online_rank.base.lock import locked
from online_rank.base.schema import Array, Integer, ListOf, Nested, Schema
from online_rank.base.undo import Undo, record, roll_back
from online_rank.feedback import Clicks
from online_rank.intervals import LossInterval
from online_rank.intervals.losses import add_losses
from online_rank.measures.learned import AnyMeasure
from online_rank.measures.learned import measure as parse_measure
from online_rank.metrics.interleaving import draft, vote
from online_rank.query import Block
from online_rank.rankers.nested import RankerOfSeveral, adopt_features, teach

_SERVED_LOSS, _SKIPPED = Round._fields.index("served_loss"), Round._fields.index("skipped")
_WEIGHT, _N_DOCUMENTS = Round._fields.index("weight"), Round._fields.index("n_documents")

#: Probability that votes ever select a ranker that is not better.
_ALPHA = 0.05


class LeaderAccount(NamedTuple):
    """The account of following the leader; sums are discounted if losses are.

    Attributes
    ----------
    served
        Sum of the losses of the rankers that led.
    price
        P, the sum, over the queries after which the leader was replaced, of the loss of the leader less that of its successor.
    n_changes, n_counted
        How often the leader was replaced, and the number of queries in which something can be ranked wrongly.
    counted_weight
        The number of the latter, discounted where losses are.
    """

    served: float
    price: float
    n_changes: float
    n_counted: float
    counted_weight: float


class BestRanker(RankerOfSeveral):
    """Train several rankers, and rank with the one that has been best so far.

    A ranker ranks each query before learning it, and the loss (1 - `measure`, ties broken pessimistically) enters its mean. The
    ranker with the smallest mean serves; the first one wins ties. So parameters are chosen on the stream itself, without
    held-out queries. (The selectors of `river.model_selection` choose among classifiers and regressors.)

    On any stream and at any time, the loss of the leading rankers is at most the loss of the best ranker in hindsight, plus the
    price of changing the leader (`online_rank.bounds.certificate_of` prints it).

    `last_round` is the best ranker's.

    With `drafts`, clicks decide instead of losses: in `show_one` the best ranker and one of the others draft a ranking together
    (`online_rank.metrics.TeamDraft`), and the clicks on it, given to `learn_one`, are a vote between the two.
    When the anytime-valid interval of the votes for one of the others lies above 1/2, that one becomes the best, and all votes
    restart from zero: as long as none of the others is better, one of them becomes the best with probability at most 0.05. The
    rankers do not learn from votes, since the probability of a drafted order is unknown; they all learn from grades as usual.

    Parameters
    ----------
    rankers
        The rankers to choose from, and pipelines that end in one; copies of them learn.
    measure
        The measure of the loss (see `online_rank.measure`); None for the measure of the rankers.
    half_life
        The weight of a loss halves after this many queries, for streams whose best ranker changes; or, as a text, after a
        time: `"12h"`, `"7d"`. Then `learn_one` needs `at=`, the time of each query. None: all losses count alike.
    seed
        Seed of drafted rankings.
    drafts
        None: losses decide. A number: the number of documents in drafted rankings, whose clicks decide.

    Raises
    ------
    TypeError, ValueError
        `rankers` is empty or holds something else, or a parameter is out of its range, or both `drafts` and a parameter of the
        choice by losses are given.

    Examples
    --------
    >>> from online_rank import BestRanker, GradientRanker, PerceptronRanker
    >>> from online_rank.stream.synth import NoisyTeacher
    >>> model = BestRanker([PerceptronRanker(half_life=0), PerceptronRanker(), GradientRanker()])
    >>> for X, y in NoisyTeacher(n_queries=200, n_features=10, n_documents=20):
    ...     model.learn_one(X, y)
    >>> model.best_ranker is model.learners[1]
    True
    >>> model.mean_losses.round(3)
    array([0.114, 0.086, 0.118])

    Clicks decide between two rankers that were trained before:

    >>> old, new = PerceptronRanker.from_weights({"age": 1.0}), PerceptronRanker.from_weights({"age": -1.0})
    >>> model = BestRanker([old, new], drafts=2)
    >>> query = {"a": {"age": 9.0}, "b": {"age": 1.0}, "c": {"age": 5.0}}
    >>> for _ in range(30):
    ...     shown = model.show_one(query)
    ...     model.learn_one(query, shown.clicked([d for d in shown.order if d == "b"]))
    >>> model.rank_one(query)
    ['b', 'c', 'a']
    """

    _schema = Schema(
        _learners=ListOf(Nested("Ranker", "RankingPipeline", features=True), lambda ranker: len(ranker.rankers)),
        _losses=Array(lambda ranker: len(ranker.rankers), 2),
        _chosen=Integer(0, lambda ranker: len(ranker.rankers) - 1),
        _votes=Array(lambda ranker: len(ranker.rankers), 3, low=0.0),
        _leader=Array(len(LeaderAccount._fields)),
    )

    def __init__(
        self,
        rankers: Sequence[Ranker | RankingPipeline],
        *,
        measure: str | None = None,
        half_life: float | str | None = None,
        seed: int = 0,
        drafts: int | None = None,
    ) -> None:
        super().__init__(rankers, half_life)
        arguments.seed(seed)
        arguments.integer("drafts", drafts, 1, optional=True)
        if drafts is not None and (len(rankers) < 2 or half_life is not None):
            raise ValueError("drafts needs two rankers, and no half_life: clicks choose, and not losses")
        self.rankers = rankers
        self.measure = measure
        self.seed = seed
        self.drafts = drafts
        self._measure = _common_measure(rankers) if measure is None else parse_measure(measure)
        adopt_features(self, self._learners)
        share_lock(self)
        # Total weight and weighted mean of each ranker's losses.
        self._losses = np.zeros((len(rankers), 2))
        # With drafts: the best ranker, and the votes for each of the others against it (`LossInterval`).
        self._chosen = 0
        self._votes = np.zeros((len(rankers), 3))
        self._leader = np.zeros(len(LeaderAccount._fields))

    @property
    @locked
    def mean_losses(self) -> np.ndarray:
        """Mean loss of each learner, float64 (number of rankers,), a copy; NaN for one that has not ranked anything yet."""
        return np.where(self._losses[:, 0] > 0.0, self._losses[:, 1], np.nan)

    @property
    @locked
    def total_losses(self) -> np.ndarray:
        """Cumulative loss of each learner, discounted if there is a half-life, float64 (number of rankers,), a copy."""
        return self._losses[:, 0] * self._losses[:, 1]

    @property
    def account(self) -> LeaderAccount:
        """The account of following the leader, if all rankers are measured on every query (no `drafts`)."""
        return LeaderAccount(*self._leader.tolist())

    @property
    @locked
    def best_ranker(self) -> Ranker | RankingPipeline:
        """The learner that ranks."""
        return self._learners[self._best]

    @property
    @locked
    def votes(self) -> np.ndarray:
        """With `drafts`: the votes between each learner and the best one, and the share that it won, float64 (number, 2)."""
        counts = self._votes[:, 0]
        return np.column_stack((counts, self._votes[:, 1] / np.where(counts > 0.0, counts, np.nan)))

    @property
    def _best(self) -> int:
        if self.drafts is not None:
            return self._chosen
        return int(np.argmin(np.where(self._losses[:, 0] > 0.0, self._losses[:, 1], np.inf)))

    @property
    def _reporter(self) -> Ranker:
        return ranker_of(self.best_ranker)

    @property
    def _serving(self) -> Ranker | RankingPipeline:
        return self.best_ranker

    _forwards = ("takes_served", "takes_sparse")

    def _abilities(self) -> Abilities:
        drafts = self.drafts is not None
        return super()._abilities()._replace(measures_answers=True, takes_clicks=drafts, draws=drafts)

    def _show(self, query: Block, asked: Block, policy: Any) -> Any:
        if self.drafts is None or policy is not None:
            return super()._show(query, asked, policy)
        others = [i for i in range(len(self._learners)) if i != self._chosen]
        pair = (self._chosen, others[self._n_shown % len(others)])
        rng = counted_generator(self, self.seed, self._n_shown)
        scores = {i: self._score_all(query, functools.partial(self._scores_of, self._learners[i])) for i in pair}
        shown = draft({i: best_first(own, asked.ids) for i, own in scores.items()}, self.drafts, rng)
        self._n_shown += 1
        return shown

    def _learn(self, block: Block, rounds: np.ndarray) -> int:
        if not isinstance(block.y, tuple):
            return super()._learn(block, rounds)
        self._share_columns()
        return self._count(block.y, block, rounds)

    def _count(self, votes: tuple[Clicks, ...], block: Block, rounds: np.ndarray) -> int:
        """Count clicks on drafted rankings, unless the ranker has become the best in the meantime."""
        rounds[:] = 0.0
        rounds[:, _WEIGHT], rounds[:, _SKIPPED] = block.w, 1.0
        rounds[:, _N_DOCUMENTS] = np.diff(block.offsets)
        for clicks in votes:
            teams = clicks.impression.teams
            if teams is None or not {*range(len(self._learners))}.issuperset(teams):
                raise ValueError("y: the impression was not drafted by this ranker: show rankings by its show_one")
            if self._chosen in teams and len({*teams}) == 2:
                other = next(i for i in teams if i != self._chosen)
                self._vote(int(other), vote(clicks, other))
        return len(votes)

    def _vote(self, other: int, value: float) -> None:
        add_losses(self._votes[other], (value,))
        level = 1.0 - _ALPHA / (len(self._learners) - 1)
        if LossInterval(self._votes[other]).lower_limit(level) > 0.5:
            self._chosen = other
            self._votes[:] = 0.0

    def _learn_query(self, query: Block, row: np.ndarray) -> bool:
        row = row[0]
        learners, best = self._learners, self._best
        scores = [self._scores_of(learner, query.X, query.offsets) for learner in learners]
        answered = self._served_scores(query, learners[best])
        rows = np.empty((len(learners), 1, len(row)))
        log: list[Undo] = []
        for learner in learners[:-1]:
            record(log, learner, query)
        for learner, own in zip(learners, rows, strict=True):
            if not teach(learner, query, own):
                roll_back(log)
                return False
        self._n_queries += 1
        row[:] = rows[best, 0]
        if not row[_SKIPPED]:
            row[_SERVED_LOSS] = self._loss(answered, query.y)
            keep = self._kept(query)
            losses = [self._loss(served, query.y) for served in scores]
            self._losses[:, 0] = keep * self._losses[:, 0] + 1.0
            self._losses[:, 1] += (losses - self._losses[:, 1]) / self._losses[:, 0]
            if self.drafts is None:
                self._follow(best, losses, keep)
            self._pass_time(query)
        return True

    def _follow(self, led: int, losses: list[float], keep: float) -> None:
        """Count the loss of the leader, and the price if another ranker leads from now on."""
        served, price, n_changes, n_counted, weight = self._leader.tolist()
        follower = self._best
        price = keep * price + losses[led] - losses[follower]
        changed = n_changes + (follower != led)
        self._leader[:] = keep * served + losses[led], price, changed, n_counted + 1.0, keep * weight + 1.0

    def _loss(self, scores: np.ndarray, y: np.ndarray) -> float:
        return self._measure.loss(scores, y, ties="pessimistic") if np.isfinite(scores).all() else 1.0


def _common_measure(rankers: Sequence[Any]) -> AnyMeasure:
    """The common measure of all rankers. Raises ValueError if they learn for different measures."""
    found = dict.fromkeys(map(learned_measure, rankers))
    if len(found) > 1:
        names = " and ".join(measure.name for measure in found)
        raise ValueError(f"rankers learn for different measures, {names}: name the one to choose by (argument measure)")
    return next(iter(found))
