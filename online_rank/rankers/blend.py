"""Blends of several rankers, weighted by how well they have ranked so far."""

import copy
import itertools
import math
from collections.abc import Callable, Sequence
from typing import Any

import numpy as np

from online_rank._kernels import blend as kernels
from online_rank._kernels.arrays import all_finite
from online_rank._kernels.codes import MAX_GRADE
from online_rank.arguments import integer, number
from online_rank.arguments import seed as require_seed
from online_rank.base import Abilities, Ranker, RankingPipeline, Round, ranker_of, share_lock, steps_of
from online_rank.base.closed import form_of
from online_rank.base.draws import counted_generator
from online_rank.base.form import Blend, Head
from online_rank.base.lock import locked
from online_rank.base.rounds import largest_norm
from online_rank.base.schema import Array, Count, Derived, ListOf, Nested, Schema
from online_rank.measures.learned import discounts
from online_rank.measures.learned import measure as parse_measure
from online_rank.query import Block, SparseRows
from online_rank.rankers import fading, hedge
from online_rank.rankers.hedge import BUDGET, LEAST, HedgeAccount, choose, opening, shares_of
from online_rank.rankers.nested import NestedRanker, first_step, require_model

#: Settings of rankers that decide how documents are read, and what rankers without them have.
_READ_BY = {"kinds": None, "max_levels": 100, "dimensions": None}
_MAX_CANDIDATES = 2000
LARGEST_NORM = Round._fields.index("largest_norm")


class BlendRanker(NestedRanker):
    r"""Rank by a convex blend of rankers, weighted by how well the candidate blends have ranked so far.

    The scores of each ranker are divided by a running scale, the mean of their deviations within queries, of which older ones
    count less, so that rankers of different scales can be added. So a blend of rankers whose score of a document depends on
    that document alone is such a ranker. Candidates are all weights of the grid with steps 1/`grid` that add up to 1. Before a
    query is learned, it is ranked by the blend of each candidate c, and with L_c the cumulative loss (1 - `measure`, ties
    broken pessimistically) the weights that serve are

    .. math:: p = \sum_c \pi_c c, \qquad \pi_c \propto \pi_c^1 \exp(-\eta L_c).

    Every query is ranked before it is learned, so no query has to be held out, and a ranker that does not help gets no weight.
    The step is eta = min(`rate`, ln N / Delta), with N candidates and Delta the mixability gap so far
    (`online_rank.bounds`, "Blends"); losses of queries with weights above 1 are divided by the largest weight. A blend of
    blends may rank worse than all of them, and no deterministic rule could exclude that. So once the blends served have been
    worse than their candidates by more than the loss of one query, a candidate drawn from pi is served alone, until the excess
    is made up. Then, on any stream and at any time: **the served loss is at most the loss of the best fixed blend, plus
    ln N / eta + Delta + G**, with G the sum of the served losses less the mean losses of the candidates.
    `online_rank.bounds.certificate_of` prints it. It speaks of fixed blends of the members and their scales as they were at
    each query: where a stream drifts, members that forget carry the blend along.

    A blend is for rankers that you choose, such as today's ranking and a learner next to it. Features that interact need none:
    `AdditiveRanker()` learns curves and trees, and blends them itself.

    Parameters
    ----------
    rankers
        Rankers and pipelines that end in one, which all get the same features; copies of them learn. If all of them take
        documents with text, as `AdditiveRanker` and `HashedFeatures` do, they get the documents as they are.
    measure
        The measure of the loss (see `online_rank.measure`).
    grid
        The grid of the candidates' weights has steps 1/`grid`.
    rate
        The largest step eta: how fast the weights follow the losses.
    half_life
        The weight of a loss halves after this many queries, for streams whose best blend changes; or, as a text, after a time:
        `"12h"`, `"7d"`. Then `learn_one` needs `at=`, the time of each query. None: all losses count alike. With a half-life
        the step stays at `rate`.
    prior
        The initial weight pi^1 of each ranker alone, numbers >= 0 with a sum of at most 1; all candidates share the rest
        equally. With 0.5 on the ranking that users have today, `prior=(0.5, 0)`, a blend loses at most ln 2 / eta + Delta + G
        more than that ranking. None: all candidates equally.
    seed
        Seed of the draws. A draw depends only on the seed and the number of queries learned.

    Raises
    ------
    TypeError, ValueError
        `rankers` is empty or contains other objects, or a parameter is out of its range.

    References
    ----------
    Vovk, *Aggregating strategies*, 1990; Littlestone & Warmuth, *The weighted majority algorithm*, 1994; de Rooij, van Erven,
    Grünwald & Koolen, *Follow the leader if you can, hedge if you must*, 2014.

    Examples
    --------
    >>> from online_rank import BlendRanker, PerceptronRanker, RidgeRanker
    >>> from online_rank.stream.synth import NoisyTeacher
    >>> model = BlendRanker([PerceptronRanker(), RidgeRanker()])
    >>> for X, y in NoisyTeacher(n_queries=200, n_features=10, n_documents=20):
    ...     model.learn_one(X, y)
    >>> model.weights.round(2)
    array([0.52, 0.48])
    """

    _combines = True

    step, account, candidates = hedge.step, hedge.account, hedge.candidates
    candidate_losses, candidate_prior = hedge.candidate_losses, hedge.candidate_prior

    #: Older files lack it.
    _at: float | None = None
    #: Settings of older files.
    _former = ("relative",)

    half_life: float | str | None
    _keep: float
    _seconds: float | None

    _schema = Schema(
        **fading.STATE,
        _measure=Derived(),
        _candidates=Derived(),
        _prior=Derived(),
        _n_queries=Count(),
        _learners=ListOf(Nested("Ranker", "RankingPipeline"), lambda ranker: ranker._candidates.shape[1]),
        _scales=Array(lambda ranker: ranker._candidates.shape[1], 2, low=0.0),
        _losses=Array(lambda ranker: len(ranker._candidates)),
        _account=Array(len(HedgeAccount._fields), low=LEAST),
    )

    def __init__(
        self,
        rankers: Sequence[Ranker | RankingPipeline],
        *,
        measure: str = "ndcg@10",
        grid: int = 4,
        rate: float = 1.0,
        half_life: float | str | None = None,
        prior: Sequence[float] | None = None,
        seed: int = 0,
    ) -> None:
        super().__init__()
        self._measure = parse_measure(measure)
        require_seed(seed)
        if not isinstance(rankers, list | tuple) or not rankers:
            raise TypeError(
                f"rankers is {rankers!r}; it is a list of rankers and pipelines. AdditiveRanker() needs none: it blends curves "
                "and trees itself"
            )
        for i, ranker in enumerate(rankers):
            require_model(f"rankers[{i}]", ranker)
        integer("grid", grid, 1)
        if math.comb(grid + len(rankers) - 1, grid) > _MAX_CANDIDATES:
            raise ValueError(f"grid is {grid}: with {len(rankers)} rankers that makes more than {_MAX_CANDIDATES} candidates")
        number("rate", rate, 0.0)
        fading.fade_by(self, half_life)
        self.rankers = rankers
        self.measure = measure
        self.grid = grid
        self.rate = rate
        self.prior = prior
        self.seed = seed
        self._candidates = _grid(grid, len(rankers))
        self._prior = _prior_of(prior, self._candidates)
        self._learners = [copy.deepcopy(ranker) for ranker in rankers]
        self._scales = np.zeros((len(rankers), 2))
        self._losses = np.zeros(len(self._candidates))
        self._account = opening()
        self._n_queries = 0
        # Learners that were trained before serve at once.
        self._reader.meet_features_of(self, [learner for learner in map(first_step, self._learners) if learner is not None])
        if (reader := self._reader.of(self)) is not None:
            # It reads queries for all, so it knows the features of all.
            reader._reader.meet_features_of(reader, [self])
        share_lock(self)

    @property
    @locked
    def learners(self) -> list[Ranker | RankingPipeline]:
        """The rankers that learn, in the order of `rankers`."""
        return list(self._learners)

    @property
    def n_queries(self) -> int:
        """Number of queries learned."""
        return self._n_queries

    @property
    @locked
    def weights(self) -> np.ndarray:
        """The weight of each learner in the served blend, float64 (number of rankers,), >= 0, with sum 1."""
        return self._choice(shares_of(self._losses, self._prior, self.step))

    @property
    def fades(self) -> bool:
        """Whether the losses of candidates count less as queries, or time, go by."""
        return self.half_life is not None

    @property
    @locked
    def scales(self) -> np.ndarray:
        """The running scale of each learner's scores, float64 (number of rankers,), by which they are divided."""
        return np.where(self._scales[:, 0] > 0.0, self._scales[:, 0], 1.0)

    @property
    @locked
    def _mean_weights(self) -> np.ndarray:
        """The mean of the candidates by their shares, also where one is drawn for each query, over the scales."""
        return choose(shares_of(self._losses, self._prior, self.step), self._candidates, None) / self.scales

    @property
    def draws_candidates(self) -> bool:
        """Whether a candidate is drawn for the next query, because blends have been worse than their candidates."""
        return bool(self._account[HedgeAccount._fields.index("serving_gap")] > BUDGET)

    def _choice(self, shares: np.ndarray) -> np.ndarray:
        """The served weights, by the shares of the candidates: their mean, or one drawn candidate."""
        drawn = counted_generator(self, self.seed, self._n_queries).random() if self.draws_candidates else None
        return choose(shares, self._candidates, drawn)

    def _abilities(self) -> Abilities:
        # Served scores are not passed to the members: they only enter the account.
        able = super()._abilities()._replace(takes_served=True)
        if self._seconds is not None:
            able = able._replace(takes_time=True)
        if all(learner.abilities.takes_documents for learner in self._learners):
            able = able._replace(takes_documents=True, takes_missing=True)
        return able

    @property
    def _wrapped(self) -> list[Ranker | RankingPipeline]:
        return self._learners

    def _blended(self) -> tuple[list[Any], np.ndarray] | None:
        return self._learners, self.weights / self.scales

    def _head(self) -> Head:
        names, n_features = self.feature_names, self.n_features
        return Blend(tuple(form_of(learner, names, n_features) for learner in self._learners), self._mean_weights)

    def _is_sound(self, X: Any) -> bool:
        """Whether features have no value that is refused."""
        if type(X) is list:
            return True  # Learners read documents, and raise.
        values = (X.values if isinstance(X, SparseRows) else X).reshape(-1)
        return bool(all_finite(values) or ((self._known or self.abilities).takes_missing and not np.isinf(values).any()))

    @property
    def _passes(self) -> bool:
        """Whether each learner reads documents itself: some make other features of them, or read them by other settings."""
        if not (self._known or self.abilities).takes_documents:
            return False
        if any(isinstance(learner, RankingPipeline) for learner in self._learners):
            return True
        own = [[getattr(learner, name, default) for name, default in _READ_BY.items()] for learner in self._learners]
        return any(settings != own[0] for settings in own)

    def _score_all(self, block: Block, score: Callable[[Any, np.ndarray], np.ndarray] | None = None) -> np.ndarray:
        if not self._passes:
            return super()._score_all(block, score)
        return self._blend_of(block if self._reader.fits(self, block) else self._reader.align(self, block))

    def _score_queries(self, X: Any, offsets: np.ndarray) -> np.ndarray:
        if not self._is_sound(X):
            # The caller knows the documents' ids, and names the bad one.
            return np.full(X.shape[0], np.nan)
        return self._blend_of(Block(X, None, offsets, np.ones(len(offsets) - 1), names=self.feature_names))

    def _blend_of(self, block: Block) -> np.ndarray:
        """The scores of queries that the learners take."""
        S = self._score_each(block)
        scores = np.empty(S.shape[1])
        kernels.blend(S, self._scales, self.weights, scores)
        return scores

    def _score_each(self, block: Block) -> np.ndarray:
        """The scores by each learner, a row for each."""
        return np.stack([learner._score_all(block) for learner in self._learners])

    def _learn_query(self, query: Block, row: np.ndarray) -> bool:
        """As in `Ranker`; an error of a learner about a valid query is raised."""
        X, y, m, w = query.X, query.y, len(query.y), float(query.w[0])
        good = math.isfinite(w) and w >= 0.0 and self._is_sound(X)
        if not (good and y.min(initial=0) >= 0 and y.max(initial=0) <= MAX_GRADE):
            return False
        step, drawn = self.step, self.draws_candidates
        shares = shares_of(self._losses, self._prior, step)
        served = self._choice(shares)
        S, losses = np.empty((len(self._learners), m)), np.empty(len(self._losses) + 1)
        for scores, learner in zip(S, self._learners, strict=True):
            scores[:] = _answered(learner, query._replace(served=None))
        levels = kernels.judge_blends(
            *self._measure, S, self._scales, y, discounts(m), self._candidates, served, losses
        )  # fmt: skip
        if levels > 1:
            if query.served is not None:
                losses[-1] = self._measure.loss(query.served, y, ties="pessimistic")
            kernels.settle(losses, w, shares, step, fading.kept(self, query), drawn, self._losses, self._account)
            if w > 0.0:
                kernels.learn_scales(S, self._scales)
            fading.pass_time(self, query)
        self._n_queries += 1
        norm = ranker_of(self._learners[0])._last_round[0, LARGEST_NORM] if self.abilities.takes_documents else largest_norm(X)
        row[:] = losses[-1], np.nan, 0.0, 0.0, 0.0, w, m, norm, 0.0, levels < 2
        return True


def _prior_of(prior: Sequence[float] | None, candidates: np.ndarray) -> np.ndarray:
    """The first share of each candidate. Raises TypeError or ValueError for a bad prior."""
    n, k = candidates.shape
    if prior is None:
        return np.full(n, 1.0 / n)
    if not isinstance(prior, list | tuple) or len(prior) != k:
        raise TypeError(f"prior is {prior!r}; it is one number for each of the {k} rankers, or None")
    for i, share in enumerate(prior):
        number(f"prior[{i}]", share, 0.0, 1.0)
    if (given := math.fsum(prior)) > 1.0 + 1e-12:
        raise ValueError(f"prior has a sum of {given:g}; it must be at most 1")
    shares = np.full(n, max(0.0, 1.0 - given) / n)
    for i, share in enumerate(prior):
        shares[candidates[:, i] == 1.0] += share
    return shares


def _grid(steps: int, n: int) -> np.ndarray:
    """All vectors of n multiples of 1/steps, >= 0, that add up to 1: (number, n)."""
    bars = itertools.combinations(range(steps + n - 1), n - 1)
    return np.array([np.diff([-1, *bar, steps + n - 1]) - 1 for bar in bars]) / steps


def _answered(learner: Ranker | RankingPipeline, query: Block) -> np.ndarray:
    """The learner's scores before it has seen the grades; then it learns from them.

    Features pass through the transformers of a pipeline once, so unsupervised transformers have already learned from the query.
    """
    *transformers, ranker = steps_of(learner)
    for step in transformers:
        query = step._learn_block(query)
    scores: np.ndarray = ranker._score_all(query)
    ranker._learn_block(query)
    return scores
