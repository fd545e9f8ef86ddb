"""Boosted trees that learn from clicks on displayed lists, together with the effect of each position."""

import functools
from typing import Any

import numpy as np

from online_rank import arguments
from online_rank._kernels import trees as kernels
from online_rank.base import Abilities
from online_rank.base.lock import locked
from online_rank.base.rounds import largest_norm
from online_rank.base.schema import Array, Derived, ListOf, Real, Schema
from online_rank.feedback import Greedy, Policy
from online_rank.feedback.arrays import shown_block
from online_rank.feedback.position_bias import MOST_POSITIONS
from online_rank.feedback.trust import Looked, looked_at
from online_rank.query import Block
from online_rank.rankers.boosted import REACH, WIDTH, BoostedRanker
from online_rank.rankers.growing import N_BINS, Growth

#: Every third tree is a stump, which learns what is a sum of single features.
_STUMP = 3
#: The share of the columns that a tree may split by, and the fewest columns.
_COLUMNS, _FEWEST = 0.5, 8
#: Log odds are limited, so that sums stay finite.
_FARTHEST = 12.0


class ClickTrees(BoostedRanker):
    r"""Gradient boosting on clicks: the log odds of a click are a term of the position and a sum of trees.

    .. math:: \log \frac{P}{1 - P} = h_p + F(x)

    The position p is a nuisance: h is learned together with the trees, and is left out when documents are ranked. It is never a
    feature of trees, so no tree can explain a position by the documents that stand there, or the reverse. No query has to come
    again. Unlike inverse propensities, nothing is divided by small numbers: a position where nobody clicks says little because
    the variance P (1 - P) is small there.

    Trees grow and fade as the trees of `BoostedRanker` do, from a window of displayed lists, clicked or not: from the residuals
    c - P, with the weights P (1 - P). Every third tree is a single split. After each tree h takes a step of Newton's method.
    Growth counts lists with a click, and not lists: that many new clicks are the evidence for a tree. Only displayed documents
    are learned. A gain counts as a fraction of the largest gain so far.

    Put `StreamQuantileMap` in front. `ClickBlendRanker` takes raw features.

    Parameters
    ----------
    window
        Number of lists that trees are grown from; fewer if their bins would take more than 8 MB.
    depth
        Depth of the trees.
    rate, decay, learning_rate
        As for `BoostedRanker`, per list with a click.
    examination
        How often each position is looked at, if this is known: h is then its logarithm, and one constant is learned. None: h is
        learned.
    k
        How many documents `show_one` shows, best first.
    seed
        Seed of the draws of queries and columns.

    Raises
    ------
    TypeError, ValueError
        A parameter is of the wrong type, or out of its range.

    References
    ----------
    Friedman, *Greedy Function Approximation: A Gradient Boosting Machine*, 2001. Positions as a term of a sum: Zhao et al.,
    *Recommending What Video to Watch Next*, 2019.

    Examples
    --------
    >>> from online_rank.rankers.click_trees import ClickTrees
    >>> model = ClickTrees(k=2)
    >>> X = [[0.0], [1.0]]
    >>> for i in range(200):
    ...     shown = model.show_one(X)
    ...     model.learn_one(X, shown.clicked([1] if i % 2 else []))
    >>> model.rank_one(X)
    [1, 0]
    """

    _schema = Schema(
        measure=Derived(),
        longest_gap=Derived(),
        _clicks=ListOf(Array(None, low=0.0), lambda ranker: len(ranker._scores), kind=tuple),
        _grades=ListOf(
            Array(None, dtype="int64", low=0, high=MOST_POSITIONS - 1), lambda ranker: len(ranker._scores), kind=tuple
        ),
        _positions=Array(MOST_POSITIONS),
        _largest=Real(0.0),
    )

    _most_bytes = 1 << 23
    _max_trees, _always_forgets = 2000, True
    _of_documents = ("_grades", "_scores", "_clicks")

    def __init__(
        self,
        *,
        window: int = 16_000,
        depth: int = 4,
        rate: float = 300.0,
        decay: float = 0.003,
        learning_rate: float = 0.1,
        examination: tuple[float, ...] | None = None,
        k: int = 10,
        seed: int = 0,
    ) -> None:
        super().__init__(window=window, depth=depth, rate=rate, decay=decay, learning_rate=learning_rate, seed=seed)
        arguments.integer("k", k, 1)
        arguments.examination(examination)
        self.examination = examination
        self.k = k
        # The gains of the window, as its scores are kept. `_grades` has the positions, from 0.
        self._clicks: tuple[np.ndarray, ...] = (np.empty(0),)
        self._positions = np.full(MOST_POSITIONS, -3.0)
        if examination is not None:
            self._positions += _of_each(np.log(examination))
        self._largest = 0.0

    def _abilities(self) -> Abilities:
        return Abilities(takes_clicks=True, takes_any_list=True, draws=True)

    @property
    def _own_policy(self) -> Policy:
        return Greedy(self.k)

    def _confidence(self) -> float:
        return 1.0

    @property
    @locked
    def positions(self) -> np.ndarray:
        """h, the term of each position in the log odds of a click, float64 (100,)."""
        return self._positions.copy()

    @property
    @locked
    def looked(self) -> Looked:
        """How often each position is looked at, over the first, and how many users trust it, by the clicks of the window."""
        clicks, places, scores = (np.concatenate(parts) for parts in (self._clicks, self._grades, self._scores))
        return looked_at(scores, places, self._fractions(clicks))

    def _learn_query(self, query: Block, row: np.ndarray) -> bool:
        shown, w, norm = shown_block(query, drawn=False), float(query.w[0]), largest_norm(query.X)
        n = len(shown.rows) - int(shown.held[0])
        if not (0.0 <= w <= self._heaviest and np.isfinite(norm) and (shown.gains >= 0.0).all()):
            return False
        self.learn_shown(query.X[shown.rows[:n]], shown.places[:n], shown.gains[:n], w)
        row[:] = 0.0, np.nan, 0.0, 0.0, 0.0, w, query.n_documents, norm, 0.0, True
        return True

    def learn_shown(self, X: np.ndarray, places: np.ndarray, gains: np.ndarray, w: float) -> None:
        """Learn the documents of a list in the order displayed: X (m, d), positions from 0, and gains."""
        if not (w > 0.0 and len(X)):
            return
        bins = self._bins_of(X)
        self._bins += (bins,)
        self._grades += (np.minimum(places, MOST_POSITIONS - 1),)
        self._clicks += (gains.copy(),)
        self._scores += (self._score_bins(bins),)
        self._query_weights += (np.array([w]),)
        if gains.any():
            self._largest = max(self._largest, float(gains.max()))
            self._n_queries += 1
            self._grow_trees()

    def _bins_of(self, X: np.ndarray) -> np.ndarray:
        bins = np.empty(X.shape, dtype=np.uint8)
        kernels.to_bins(X, -REACH, WIDTH, N_BINS, bins)
        return bins

    def _fractions(self, gains: np.ndarray) -> np.ndarray:
        """Gains as fractions of the largest so far."""
        return np.minimum(gains, self._largest) / (self._largest or 1.0)

    @property
    def _share(self) -> float:
        return min(1.0, max(_COLUMNS, _FEWEST / max(1, self._n_features)))

    def _growth(self, rng: np.random.Generator) -> Growth:
        levels = self.depth if self._n_grown % _STUMP else 1
        # Not a method: a growth must not keep its ranker alive.
        residuals = functools.partial(_residuals, self._fractions(self._clicks[0]), self._positions)
        pages = self._bins[: self._n_pages]
        return Growth(pages, self._lengths, self._chances, self.depth, rng, self._share, levels, residuals)

    def _finish(self, growth: Growth) -> None:
        super()._finish(growth)
        self._positions = self._moved(growth)

    def _moved(self, growth: Growth) -> np.ndarray:
        """h after a step of Newton's method, on the window."""
        clicks, places = self._fractions(self._clicks[0]), self._grades[0]
        weights = np.repeat(self._query_weights[0], self._lengths)
        chances = chance_of(self._scores[0], self._positions[places])
        pushes = np.bincount(places, weights * (clicks - chances), MOST_POSITIONS)
        curves = np.bincount(places, weights * chances * (1.0 - chances), MOST_POSITIONS)
        if self.examination is not None:
            pushes, curves = pushes.sum(), curves.sum()
        return np.clip(self._positions + np.clip(pushes / (curves + 1.0), -1.0, 1.0), -_FARTHEST, _FARTHEST)


def _residuals(
    clicks: np.ndarray, positions: np.ndarray, scores: np.ndarray, places: np.ndarray, weights: np.ndarray,
    offsets: np.ndarray, used: np.ndarray, first: int, stop: int, gh: np.ndarray,
) -> None:  # fmt: skip
    """Fill `gh` for the queries first..stop, as `kernels.residuals` does: residuals of clicks, with their variances."""
    a, b = offsets[[first, stop]]
    chances = chance_of(scores[a:b], positions[places[a:b]])
    own = np.repeat(weights[first:stop] * used[first:stop], np.diff(offsets[first : stop + 1]))
    gh[a:b, 0] = own * (clicks[a:b] - chances)
    gh[a:b, 1] = own * chances * (1.0 - chances)
    gh[a:b, 2], gh[a:b, 3] = 1.0, 0.0


def chance_of(scores: np.ndarray, positions: np.ndarray) -> np.ndarray:
    """The probability of a click, by the log odds of what attracts and of the position."""
    odds: np.ndarray = np.exp(-np.clip(scores + positions, -_FARTHEST, _FARTHEST))
    return 1.0 / (1.0 + odds)


def _of_each(known: Any) -> np.ndarray:
    """Numbers of the first positions for all; lower ones have the last."""
    return np.asarray(known)[np.minimum(np.arange(MOST_POSITIONS), len(known) - 1)]
