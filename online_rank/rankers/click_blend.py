"""The blend of curves and trees that learns from clicks on displayed lists."""

import math
from collections.abc import Mapping, Sequence
from typing import Any, NamedTuple, cast

import numpy as np

from online_rank import arguments
from online_rank._kernels import blend as kernels
from online_rank.base import Abilities, Ranker, RankingPipeline, ranker_of
from online_rank.base.schema import Derived, Schema
from online_rank.feedback import Greedy, Policy
from online_rank.feedback.arrays import shown_block
from online_rank.feedback.position_bias import MOST_POSITIONS
from online_rank.query import Block, SparseRows, single
from online_rank.rankers.additive import AdditiveRanker
from online_rank.rankers.blend import LARGEST_NORM, BlendRanker
from online_rank.rankers.click_trees import ClickTrees
from online_rank.rankers.hedge import shares_of
from online_rank.rankers.nested import teach

#: The loss of a click is its negative log probability over this many logarithms of the length of the list, and at most 1.
_LOGARITHMS = 2.0


class _Shown(NamedTuple):
    """The displayed documents of a list: the query of these alone, with grades; their positions, from 0; and gains."""

    query: Block
    places: np.ndarray
    gains: np.ndarray


class ClickBlendRanker(BlendRanker):
    r"""Learns from clicks on displayed lists of any origin, without knowing how often positions are looked at.

    The effect of a position is a nuisance: a term h of the log odds of a click, which is learned together with trees and left
    out when documents are ranked (`ClickTrees`). So h is what a position adds for equal documents, and no query has to come
    again. An `AdditiveRanker` without trees reads raw features, and learns from plain clicks, larger gains as higher grades;
    trees see the features by its map. What both serve is a blend, as `BlendRanker` makes it: the loss of a candidate s is the
    negative log probability of the documents that were clicked, among those displayed, before the list was learned:

    .. math:: - \log \frac{\exp(s_i + h_i)}{\sum_j \exp(s_j + h_j)}

    over twice the logarithm of the length of the list, and at most 1. Trees alone are a candidate. Plain clicks teach curves
    what the displayed ranking knew, too; positions are in the loss, so curves count only as far as they foretell clicks beyond
    positions. Lists without a click teach trees, and no curves.

    Assumptions: who looks at a position does not depend on the features of its document, and documents got their positions by
    features that the ranker sees, or at random. So give it the score of the displayed ranking as a feature.

    Parameters
    ----------
    measure
        The measure that curves learn for (see `online_rank.measure`).
    k
        How many documents `show_one` shows, best first.
    examination
        How often each position is looked at, one probability > 0 each, the last one for all below; None: learned.
    shown_on
        The name of an entry of the context that says on what a list is shown, such as the device or the page. How much users
        click there is a nuisance, too. None for none.
    signs
        `{feature: 1 or -1}`, as for `AdditiveRanker`. No tree splits by such a feature.
    relative
        Whether curves have the columns of ranks in the query.
    kinds
        `{feature: kind}`, as for `AdditiveRanker`.
    seed
        Seed of all draws.

    Raises
    ------
    TypeError, ValueError
        A parameter is of the wrong type, or out of its range.

    Examples
    --------
    >>> from online_rank import ClickBlendRanker
    >>> model = ClickBlendRanker(k=2)
    >>> news = {"a": {"fresh": 0.1}, "b": {"fresh": 0.9}, "c": {"fresh": 0.2}}
    >>> for _ in range(100):
    ...     shown = model.show_one(news)
    ...     model.learn_one(news, shown.clicked(["b"] if "b" in shown.order else []))
    >>> model.rank_one(news)[0]
    'b'
    """

    _schema = Schema(rankers=Derived(), grid=Derived(), rate=Derived(), half_life=Derived(), prior=Derived())

    def __init__(
        self,
        measure: str = "ndcg@10",
        *,
        k: int = 10,
        examination: Sequence[float] | None = None,
        shown_on: str | None = None,
        signs: Mapping[Any, int] | None = None,
        relative: bool = True,
        kinds: Mapping[Any, str] | None = None,
        seed: int = 0,
    ) -> None:
        arguments.integer("k", k, 1)
        self.k, self.examination, self.shown_on, self.signs, self.kinds = k, examination, shown_on, signs, kinds
        super().__init__(None, measure=measure, relative=relative, seed=seed)

    def _recommended(self, measure: str, relative: bool, seed: int) -> list[Ranker | RankingPipeline]:
        curves = AdditiveRanker(measure, relative=relative, signs=self.signs, kinds=self.kinds, trees=0, seed=seed)
        known = None if self.examination is None else tuple(self.examination)
        return [curves, ClickTrees(examination=known, shown_on=self.shown_on, seed=seed)]

    def _abilities(self) -> Abilities:
        return super()._abilities()._replace(takes_clicks=True, takes_any_list=True, draws=True, takes_served=False)

    @property
    def _own_policy(self) -> Policy:
        return Greedy(self.k)

    def _confidence(self) -> float:
        return 1.0

    @property
    def _clicked(self) -> ClickTrees:
        return cast(ClickTrees, self._learners[1])

    @property
    def positions(self) -> np.ndarray:
        """h, the term of each position in the log odds of a click, float64 (100,)."""
        return self._clicked.positions

    @property
    def examined(self) -> tuple[float, ...]:
        """How often each position is looked at, over the first: as given, or as learned, down to the lowest with a click.

        It is learned by the clicks on documents that trees find equally attractive, without clicks that come from `trust`.
        """
        return tuple(self.examination) if self.examination is not None else self._clicked.looked.examination

    @property
    def trust(self) -> float:
        """The share of users who click the first document because it is the first."""
        return self._clicked.looked.trust

    def _shown(self, query: Block) -> _Shown:
        """The displayed documents of a list."""
        shown = shown_block(query, drawn=False)
        n = len(shown.rows) - int(shown.held[0])
        rows, gains = shown.rows[:n], shown.gains[:n]
        if type(query.X) is list:
            X: Any = [query.X[i] for i in rows.tolist()]
        else:
            X = query.X.taken(rows) if isinstance(query.X, SparseRows) else query.X[rows]
        ids = range(n) if isinstance(query.ids, range) or query.ids is None else tuple(query.ids[i] for i in rows.tolist())
        # 0 for no click, then the ranks of gains.
        grades = np.unique(np.append(0.0, gains), return_inverse=True)[1][1:].astype(np.int64)
        return _Shown(query._replace(X=X, y=grades, offsets=single(n), ids=ids), shown.places[:n], gains)

    def _learn_query(self, query: Block, row: np.ndarray) -> bool:
        """As in `Ranker`; an error of a learner about a valid query is raised."""
        w = float(query.w[0])
        if not (math.isfinite(w) and w >= 0.0 and self._is_sound(query.X)):
            return False
        own, places, gains = self._shown(query)
        curves, m = self._learners[0], len(gains)
        if not (gains >= 0.0).all():
            return False
        for_curves, for_trees = self._for_learners(own)
        S = np.stack([ranker_of(curves)._score_all(for_curves), self._clicked._score(for_trees.X)])
        if not teach(curves, for_curves, row):
            return False
        self._clicked.learn_shown(for_trees.X, places, gains, w, query.context)
        loss = 0.0
        if m > 1 and gains.any():
            step, drawn = self.step, self.draws_candidates
            shares = shares_of(self._losses, self._prior, step)
            weights = np.vstack([self._candidates, self._choice(shares)])
            losses = self._judged(S, weights, places, gains)
            kernels.settle(losses, w, shares, step, 1.0, drawn, self._losses, self._account)
            loss = float(losses[-1])
            if w > 0.0:
                kernels.learn_scales(S, self._scales)
        self._n_queries += 1
        row[:] = loss, np.nan, 0.0, 0.0, 0.0, w, query.n_documents, row[0, LARGEST_NORM], 0.0, not loss
        return True

    def _judged(self, S: np.ndarray, weights: np.ndarray, places: np.ndarray, gains: np.ndarray) -> np.ndarray:
        """The loss of each row of weights (N, 2), by the scores of curves and trees (2, m) for one list."""
        scales = self.scales
        odds = weights @ (S / scales[:, None]) * scales[1] + self._clicked._positions[np.minimum(places, MOST_POSITIONS - 1)]
        odds -= odds.max(axis=1, keepdims=True)
        log = odds - np.log(np.exp(odds).sum(axis=1, keepdims=True))
        lost = -(log @ gains) / (gains.sum() * _LOGARITHMS * math.log(len(gains)))
        return np.ascontiguousarray(np.minimum(lost, 1.0))
