"""The blend of curves and trees that learns from clicks on displayed lists."""

import math
from collections.abc import Hashable, Mapping, Sequence
from typing import Any, NamedTuple, cast

import numpy as np

from online_rank import arguments
from online_rank._kernels import blend as kernels
from online_rank._kernels import curves
from online_rank.base import Abilities
from online_rank.base.closed import form_of
from online_rank.base.explain import Split, shares_of_features
from online_rank.base.form import Blend, Curves, Form, Head, Linear
from online_rank.base.lock import locked
from online_rank.base.reader import own_names
from online_rank.base.schema import Derived, Schema
from online_rank.feedback import Greedy, Policy
from online_rank.feedback.arrays import shown_block
from online_rank.feedback.position_bias import MOST_POSITIONS
from online_rank.query import Block, SparseRows, single
from online_rank.query.levels import is_level
from online_rank.rankers.additive import AdditiveRanker
from online_rank.rankers.blend import LARGEST_NORM, BlendRanker
from online_rank.rankers.click_growth import REACH
from online_rank.rankers.click_trees import ClickTrees
from online_rank.rankers.curved import as_read, n_curves
from online_rank.rankers.hedge import shares_of
from online_rank.rankers.leaf_tables import within_reach
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

    #: The curves read each query, for the trees, too.
    _passes = False

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
        self.relative = relative
        known = None if examination is None else tuple(examination)
        learners = [
            AdditiveRanker(measure, relative=relative, signs=signs, kinds=kinds, trees=0, seed=seed),
            ClickTrees(examination=known, shown_on=shown_on, seed=seed),
        ]
        super().__init__(learners, measure=measure, seed=seed)
        # Its learners follow from its own settings.
        self.rankers = []

    def _abilities(self) -> Abilities:
        return Abilities(
            takes_documents=True, takes_missing=True, takes_sparse=True, takes_context=True, takes_clicks=True,
            takes_any_list=True, draws=True,
        )  # fmt: skip

    @property
    def _own_policy(self) -> Policy:
        return Greedy(self.k)

    def _confidence(self) -> float:
        return 1.0

    @property
    def _curves(self) -> AdditiveRanker:
        """The learner that reads queries, and by whose map trees see the features."""
        return cast(AdditiveRanker, self._learners[0])

    @property
    def _trees(self) -> ClickTrees:
        return cast(ClickTrees, self._learners[1])

    @property
    def positions(self) -> np.ndarray:
        """h, the term of each position in the log odds of a click, float64 (100,)."""
        return self._trees.positions

    @property
    def examined(self) -> tuple[float, ...]:
        """How often each position is looked at, over the first: as given, or as learned, down to the lowest with a click.

        It is learned by the clicks on documents that trees find equally attractive, without clicks that come from `trust`.
        """
        return tuple(self.examination) if self.examination is not None else self._trees.looked.examination

    @property
    def trust(self) -> float:
        """The share of users who click the first document because it is the first."""
        return self._trees.looked.trust

    @property
    @locked
    def importance(self) -> dict[Hashable, float]:
        """Total gain of the trees' splits by each feature, `{name: gain}`; empty for sparse rows."""
        if not self._curves.has_curves:
            return {}
        gains, features = self._trees._gains, self._curves._columns_of_features()
        return {name: float(gains[columns].sum()) for name, columns in features.items()}

    def _grow(self, n_new: int) -> None:
        # Sparse rows have no columns for trees, but one that says nothing.
        width = self._n_features + n_new if self._curves.has_curves else 1
        self._trees._reader.extend(self._trees, None, max(width - self._trees._n_features, 0))

    def _extended(self, n_before: int) -> None:
        if self._curves.has_curves:
            # Earlier documents lacked the new features; of new levels they had the value 0, as trees suppose.
            lacked = [n_before + k for k, name in enumerate(own_names(self)[n_before:]) if not is_level(name)]
            for bins in self._trees._bins:
                bins[:, lacked] = 0

    def _blended(self) -> tuple[list[Any], np.ndarray] | None:
        # Sparse rows are ranked by the curves alone; otherwise it splits differences itself.
        return None if self._curves.has_curves else (self._learners[:1], (self.weights / self.scales)[:1])

    def _split(self, block: Block, a: int, b: int) -> Split | None:
        told = self._curves._split(block, a, b)
        if told is None:
            return None
        X = block.X if self._reader.fits(self, block) else self._reader.align(self, block).X
        shares = shares_of_features(self._trees, *self._for_trees(X[[a, b]], single(2)))
        by_feature = [shares[columns].sum() for columns in self._curves._columns_of_features().values()]
        factors = self.weights / self.scales
        values = factors[0] * told.values
        # Words come after features, and trees know none.
        values[: len(by_feature)] += factors[1] * np.array(by_feature)
        return told._replace(values=values, exact=not shares.any())

    def _linear_weights(self, columns: Any = slice(None)) -> np.ndarray | None:
        own = self._curves._linear_weights(columns)
        return None if own is None else (self.weights / self.scales)[0] * own

    def _head(self) -> Head:
        reader, n_features = self._curves, self.n_features
        linear = reader._linear_weights()
        if linear is not None:
            return Linear(self._mean_weights[0] * linear)
        # What the map has not learned yet it takes for 0.
        n, mapped = n_curves(reader), reader._mapped()
        seen = [within_reach(*knots) for knots in mapped.knots]
        seen += [(np.zeros(1), np.zeros(1))] * (n_features - n)
        missing, lacked = np.full(n_features, -2.0 * REACH), np.append(mapped.lacked, np.zeros(n_features - n, dtype=bool))
        layer = Curves(np.arange(n_features), tuple(seen), missing, lacked)
        trees = Form(self.feature_names, n_features, (layer,), self._trees._head())
        return Blend((form_of(reader), trees), self._mean_weights)

    def _for_trees(self, X: Any, offsets: np.ndarray) -> np.ndarray:
        """The columns that trees get: by the map of the curves; missing values have a separate bin."""
        if not self._curves.has_curves:
            return np.zeros((X.shape[0], 1), dtype=np.float32)
        table = self._curves._front.table
        # What the map has not learned yet it takes for 0.
        mapped = np.where(np.isnan(X), -2.0 * REACH, 0.0).astype(np.float32)
        curves.mapped(as_read(X[:, : len(table.counts)]), offsets, table, -REACH, mapped)
        if self.signs:
            # No tree splits by a feature with a sign.
            mapped[:, np.flatnonzero(self._curves._signs)] = 0.0
        return mapped

    def _score_each(self, block: Block) -> np.ndarray:
        return self._score_both(block, self._for_trees(block.X, block.offsets))

    def _score_both(self, block: Block, X: np.ndarray) -> np.ndarray:
        """The scores by curves and by trees, which get X."""
        return np.stack([self._curves._score_all(block), self._trees._score(X)])

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
        if not (gains >= 0.0).all():
            return False
        X, m = self._for_trees(own.X, own.offsets), len(gains)
        S = self._score_both(own, X)
        if not teach(self._curves, own, row):
            return False
        self._trees.learn_shown(X, places, gains, w, query.context)
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
        odds = weights @ (S / scales[:, None]) * scales[1] + self._trees._positions[np.minimum(places, MOST_POSITIONS - 1)]
        odds -= odds.max(axis=1, keepdims=True)
        log = odds - np.log(np.exp(odds).sum(axis=1, keepdims=True))
        lost = -(log @ gains) / (gains.sum() * _LOGARITHMS * math.log(len(gains)))
        return np.ascontiguousarray(np.minimum(lost, 1.0))
