"""Blends of several rankers, weighted by how well they have ranked so far."""

import itertools
import math
from collections.abc import Sequence
from typing import Any

import numpy as np
from river import base

from online_rank._kernels import blend as kernels
from online_rank._kernels.arrays import all_finite
from online_rank._kernels.codes import MAX_GRADE
from online_rank.arguments import integer, number
from online_rank.arguments import seed as require_seed
from online_rank.base import (
    Abilities,
    Ranker,
    RankingPipeline,
    share_lock,
    steps_of,
)
from online_rank.base.closed import form_of
from online_rank.base.draws import counted_generator
from online_rank.base.form import Blend, Head
from online_rank.base.lock import locked
from online_rank.base.rounds import largest_norm
from online_rank.base.schema import Array, Derived, ListOf, Nested, Schema
from online_rank.measures.learned import discounts
from online_rank.measures.learned import measure as parse_measure
from online_rank.preprocessing._columns import names_made
from online_rank.query import Block
from online_rank.rankers.hedge import BUDGET, LEAST, HedgeAccount, Hedged, choose, opening, shares_of
from online_rank.rankers.nested import RankerOfSeveral, first_step

_MAX_CANDIDATES = 2000


class BlendRanker(Hedged, RankerOfSeveral):
    r"""Rank by a convex blend of rankers, weighted by how well the candidate blends have ranked so far.

    Scores are standardised within the query (z-scores), so that rankers of different scales can be added. Candidates are all
    weights of the grid with steps 1/`grid` that add up to 1. Before a query is learned, it is ranked by the blend of each
    candidate c, and with L_c the cumulative loss (1 - `measure`, ties broken pessimistically) the weights that serve are

    .. math:: p = \sum_c \pi_c c, \qquad \pi_c \propto \pi_c^1 \exp(-\eta L_c).

    Every query is ranked before it is learned, so no query has to be held out, and a ranker that does not help gets no weight.
    The step is eta = min(`rate`, ln N / Delta), with N candidates and Delta the mixability gap so far
    (`online_rank.bounds`, "Blends"); losses of queries with weights above 1 are divided by the largest weight. A blend of
    blends may rank worse than all of them, and no deterministic rule could exclude that. So once the blends served have been
    worse than their candidates by more than the loss of one query, a candidate drawn from pi is served alone, until the excess
    is made up. Then, on any stream and at any time: **the loss of what was served is at most that of the best fixed blend, plus
    ln N / eta + Delta + G**, with G the sum of the served losses less the mean losses of the candidates.
    `online_rank.bounds.certificate_of` prints it. It speaks of fixed blends of the members as they were at each query: where a
    stream drifts, members that forget carry the blend along.

    A document's score depends on the other documents of its query.

    Parameters
    ----------
    rankers
        Rankers and pipelines that end in one, which all get the same features; copies of them learn. None: the default blend of
        a perceptron that averages all its weights, one on ramps with a half-life of 100 queries, ridge with one of 500 on
        target encodings, small trees that forget within some 200 queries, and large ones that forget within some thousands.
        `"light"`: the first three. Both take raw features, since they contain a `StreamQuantileMap` in front of all members,
        and both follow a stream that drifts: members that forget get the weight once they rank better.
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

    _schema = Schema(
        _candidates=Derived(),
        _learners=ListOf(Nested("Ranker", "RankingPipeline"), lambda ranker: ranker._candidates.shape[1]),
        _losses=Array(lambda ranker: len(ranker._candidates)),
        _account=Array(len(HedgeAccount._fields), low=LEAST),
        _prior=Derived(),
        _front=Nested("StreamQuantileMap", optional=True),
    )

    def __init__(
        self,
        rankers: Sequence[Ranker | RankingPipeline] | str | None = None,
        *,
        measure: str = "ndcg@10",
        grid: int = 4,
        rate: float = 1.0,
        half_life: float | str | None = None,
        prior: Sequence[float] | None = None,
        seed: int = 0,
    ) -> None:
        chosen = _recommended(rankers) if rankers is None or isinstance(rankers, str) else rankers
        super().__init__(chosen, half_life)
        integer("grid", grid, 1)
        if math.comb(grid + len(chosen) - 1, grid) > _MAX_CANDIDATES:
            raise ValueError(f"grid is {grid}: with {len(chosen)} rankers that makes more than {_MAX_CANDIDATES} candidates")
        number("rate", rate, 0.0)
        require_seed(seed)
        self.rankers = rankers
        self.measure = measure
        self.grid = grid
        self.rate = rate
        self.prior = prior
        self.seed = seed
        self._measure = parse_measure(measure)
        self._candidates = _grid(grid, len(chosen))
        self._front = None if chosen is rankers else _own_map()
        self._losses = np.zeros(len(self._candidates))
        self._prior = _prior_of(prior, self._candidates)
        self._account = opening()
        # Learners that were trained before serve at once.
        self._meet_features_of([learner for learner in map(first_step, self._learners) if learner is not None])
        share_lock(self)

    @property
    @locked
    def weights(self) -> np.ndarray:
        """The weight of each learner in the served blend, float64 (number of rankers,), >= 0, with sum 1."""
        return self._choice(shares_of(self._losses, self._prior, self.step))

    @property
    @locked
    def _mean_weights(self) -> np.ndarray:
        """The mean of the candidates by their shares, also where one is drawn for each query."""
        return choose(shares_of(self._losses, self._prior, self.step), self._candidates, None)

    @property
    def draws_candidates(self) -> bool:
        """Whether a candidate is drawn for the next query, because blends have been worse than their candidates."""
        return bool(self._account[HedgeAccount._fields.index("serving_gap")] > BUDGET)

    def _choice(self, shares: np.ndarray) -> np.ndarray:
        """The served weights, by the shares of the candidates: their mean, or one drawn candidate."""
        drawn = counted_generator(self, self.seed, self._n_queries).random() if self.draws_candidates else None
        return choose(shares, self._candidates, drawn)

    def _share_columns(self) -> None:
        """The rankers and pipelines inside read queries themselves, and add features as they learn."""

    def _abilities(self) -> Abilities:
        # Served scores are not passed to the members: they only enter the account.
        return super()._abilities()._replace(takes_served=True)

    @property
    def _parts(self) -> list[base.Base]:
        return [*self._learners, *self._in_front]

    @property
    def _in_front(self) -> list[Any]:
        """The transformers in front of all learners."""
        return [] if self._front is None else [self._front]

    @property
    def _serving(self) -> None:
        return None

    def _blended(self) -> tuple[list[Any], list[Any], np.ndarray]:
        return self._in_front, self._learners, self.weights

    def _head(self) -> Head:
        names, n_features = self.feature_names, self.n_features
        if self._front is None or self._front.passes:
            return Blend(tuple(form_of(learner, names, n_features) for learner in self._learners), self._mean_weights)
        layers, columns = self._front._layers(n_features), names_made(self._front, self._own_names())
        forms = (form_of(learner, None if names is None else columns, len(columns)) for learner in self._learners)
        raw = (form._replace(names=names, n_features=n_features, layers=(*layers, *form.layers)) for form in forms)
        return Blend(tuple(raw), self._mean_weights)

    def _score_queries(self, X: np.ndarray, offsets: np.ndarray) -> np.ndarray:
        if not all_finite(X.reshape(-1)):
            # The caller knows the documents' ids, and names the bad one.
            return np.full(len(X), np.nan)
        block = Block(X, None, offsets, np.ones(len(offsets) - 1), names=self.feature_names)
        if self._front is not None:
            block = self._front._transform_block(block)
        S = np.stack([learner._score_all(block) for learner in self._learners])
        scores, weights = np.empty(len(X)), self.weights
        for start, stop in itertools.pairwise(offsets.tolist()):
            kernels.blend(S[:, start:stop], weights, scores[start:stop])
        return scores

    def _learn_query(self, query: Block, row: np.ndarray) -> bool:
        """As in `Ranker`; an error of a learner about a valid query is raised."""
        if self._front is not None:
            query = self._front._learn_block(query)
        X, y, m, w = query.X, query.y, len(query.y), float(query.w[0])
        good = math.isfinite(w) and w >= 0.0 and all_finite(X.reshape(-1))
        if not (good and y.min(initial=0) >= 0 and y.max(initial=0) <= MAX_GRADE):
            return False
        step, drawn = self.step, self.draws_candidates
        shares = shares_of(self._losses, self._prior, step)
        served = self._choice(shares)
        S, losses = np.empty((len(self._learners), m)), np.empty(len(self._losses) + 1)
        asked = query._replace(served=None)
        for scores, learner in zip(S, self._learners, strict=True):
            scores[:] = _answered(learner, asked)
        levels = kernels.judge_blends(*self._measure, S, y, discounts(m), self._candidates, served, losses)
        if levels > 1:
            if query.served is not None:
                losses[-1] = self._measure.loss(query.served, y, ties="pessimistic")
            kernels.settle(losses, w, shares, step, self._kept(query), drawn, self._losses, self._account)
            self._pass_time(query)
        self._n_queries += 1
        row[:] = losses[-1], np.nan, 0.0, 0.0, 0.0, w, m, largest_norm(X), 0.0, levels < 2
        return True


def _recommended(name: str | None) -> list[Ranker | RankingPipeline]:
    """The default blend, and the light one."""
    from online_rank.preprocessing import Ramps, StreamTargetEncoder
    from online_rank.rankers.boosted import BoostedRanker
    from online_rank.rankers.perceptron import PerceptronRanker
    from online_rank.rankers.ridge import RidgeRanker

    if name not in (None, "light"):
        raise ValueError(f"rankers is {name!r}; it is a list of rankers, None for the default blend, or 'light'")
    # Chosen by `python -m benchmarks.blends`, and on two other worlds of `benchmarks.year`; they forget, as those truths turn.
    fast = Ramps() | PerceptronRanker(credit="spread", relative_margin=0.1, half_life=100)
    # The first is the steady one: it averages all its weights.
    light = [PerceptronRanker(half_life=None), fast, StreamTargetEncoder(keep="relative") | RidgeRanker(half_life=500)]
    if name == "light":
        return light
    fast_trees = BoostedRanker(window=150, depth=3, rate=30.0, decay=0.06, learning_rate=0.6, longest_gap=10)
    return [*light, fast_trees, BoostedRanker(decay=0.012, learning_rate=0.2, longest_gap=20)]


def _own_map() -> Any:
    """The transformer between raw features and the members of the recommended blends."""
    from online_rank.preprocessing import StreamQuantileMap

    return StreamQuantileMap()


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
