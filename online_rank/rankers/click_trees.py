"""Boosted trees that learn from clicks on displayed lists, together with the effect of each position."""

import functools
from typing import Any

import numpy as np

from online_rank import arguments
from online_rank._kernels import trees as kernels
from online_rank.base import Abilities
from online_rank.base.lock import locked
from online_rank.base.rounds import largest_norm
from online_rank.base.schema import Array, Derived, ListOf, Real, Schema, Text
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
#: The most values of `shown_on`, with one for none.
_MOST_VALUES = 64


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

    With `shown_on` each value of an entry of the context, such as the device or the page, has a term, which adds to
    the log odds of all clicks there. It is learned as h is, and left out as h is.

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
    shown_on
        The name of an entry of the context that says on what a list is shown; the first 63 values have terms. None for none.
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
            Array(None, dtype="int64", low=0, high=MOST_POSITIONS * _MOST_VALUES - 1),
            lambda ranker: len(ranker._scores),
            kind=tuple,
        ),
        _positions=Array(MOST_POSITIONS),
        _values=ListOf(Text(), kind=tuple),
        _terms=Array(_MOST_VALUES),
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
        shown_on: str | None = None,
        k: int = 10,
        seed: int = 0,
    ) -> None:
        super().__init__(window=window, depth=depth, rate=rate, decay=decay, learning_rate=learning_rate, seed=seed)
        arguments.integer("k", k, 1)
        arguments.examination(examination)
        if shown_on is not None and not isinstance(shown_on, str):
            raise TypeError(f"shown_on is {shown_on!r}; it is the name of an entry of the context, or None")
        self.examination = examination
        self.shown_on = shown_on
        self.k = k
        # The gains of the window, as its scores are kept. `_grades` has the positions, from 0; 100 more for each value of
        # `shown_on`; 0 stands for none, which has no term.
        self._clicks: tuple[np.ndarray, ...] = (np.empty(0),)
        self._positions = np.full(MOST_POSITIONS, -3.0)
        if examination is not None:
            self._positions += _of_each(np.log(examination))
        self._values: tuple[str, ...] = ()
        self._terms = np.zeros(_MOST_VALUES)
        self._largest = 0.0

    def _abilities(self) -> Abilities:
        return Abilities(takes_clicks=True, takes_any_list=True, draws=True, takes_context=self.shown_on is not None)

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
        clicks, cells, scores = (np.concatenate(parts) for parts in (self._clicks, self._grades, self._scores))
        value, places = np.divmod(cells, MOST_POSITIONS)
        return looked_at(scores + self._terms[value], places, self._fractions(clicks))

    @property
    @locked
    def terms(self) -> dict[str, float]:
        """The term of each value of `shown_on` in the log odds of a click."""
        return dict(zip(self._values, self._terms[1:].tolist(), strict=False))

    def _learn_query(self, query: Block, row: np.ndarray) -> bool:
        shown, w, norm = shown_block(query, drawn=False), float(query.w[0]), largest_norm(query.X)
        n = len(shown.rows) - int(shown.held[0])
        if not (0.0 <= w <= self._heaviest and np.isfinite(norm) and (shown.gains >= 0.0).all()):
            return False
        self.learn_shown(query.X[shown.rows[:n]], shown.places[:n], shown.gains[:n], w, query.context)
        row[:] = 0.0, np.nan, 0.0, 0.0, 0.0, w, query.n_documents, norm, 0.0, True
        return True

    def learn_shown(self, X: np.ndarray, places: np.ndarray, gains: np.ndarray, w: float, context: Any = None) -> None:
        """Learn the documents of a list in the order displayed: X (m, d), positions from 0, gains, and its context (1,)."""
        if not (w > 0.0 and len(X)):
            return
        bins = self._bins_of(X)
        self._bins += (bins,)
        self._grades += (np.minimum(places, MOST_POSITIONS - 1) + MOST_POSITIONS * self._number_of(context),)
        self._clicks += (gains.copy(),)
        self._scores += (self._score_bins(bins),)
        self._query_weights += (np.array([w]),)
        if gains.any():
            self._largest = max(self._largest, float(gains.max()))
            self._n_queries += 1
            self._grow_trees()

    def _number_of(self, context: Any) -> int:
        """The number of the value of `shown_on` in the context of a list; 0 without one, and beyond the most values."""
        value = None if self.shown_on is None or context is None else context[0].get(self.shown_on)
        if value is None:
            return 0
        name = f"{value:g}" if isinstance(value, int | float) else str(value)
        if name not in self._values and len(self._values) < _MOST_VALUES - 1:
            self._values += (name,)
        known = self._values[: _MOST_VALUES - 1]
        return 1 + known.index(name) if name in known else 0

    @property
    def _odds(self) -> np.ndarray:
        """The terms of positions and of values together, by the numbers in `_grades`."""
        return np.add.outer(self._terms, self._positions).ravel()

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
        residuals = functools.partial(_residuals, self._fractions(self._clicks[0]), self._odds)
        pages = self._bins[: self._n_pages]
        return Growth(pages, self._lengths, self._chances, self.depth, rng, self._share, levels, residuals)

    def _finish(self, growth: Growth) -> None:
        super()._finish(growth)
        values, places = np.divmod(self._grades[0], MOST_POSITIONS)
        pushes, curves = self._pushed(places, MOST_POSITIONS)
        if self.examination is not None:
            pushes, curves = pushes.sum(), curves.sum()
        self._positions = _stepped(self._positions, pushes, curves)
        if self._values:
            pushes, curves = self._pushed(values, _MOST_VALUES)
            pushes[0] = 0.0
            self._terms = _stepped(self._terms, pushes, curves)

    def _pushed(self, groups: np.ndarray, n: int) -> tuple[np.ndarray, np.ndarray]:
        """The gradients and curvatures of the terms of n groups of the documents of the window."""
        weights = np.repeat(self._query_weights[0], self._lengths)
        chances = chance_of(self._scores[0], self._odds[self._grades[0]])
        pushes = np.bincount(groups, weights * (self._fractions(self._clicks[0]) - chances), n)
        return pushes, np.bincount(groups, weights * chances * (1.0 - chances), n)


def _stepped(terms: np.ndarray, pushes: Any, curves: Any) -> np.ndarray:
    """Terms after a step of Newton's method."""
    return np.clip(terms + np.clip(pushes / (curves + 1.0), -1.0, 1.0), -_FARTHEST, _FARTHEST)


def _residuals(
    clicks: np.ndarray, odds: np.ndarray, scores: np.ndarray, cells: np.ndarray, weights: np.ndarray,
    offsets: np.ndarray, used: np.ndarray, first: int, stop: int, gh: np.ndarray,
) -> None:  # fmt: skip
    """Fill `gh` for the queries first..stop, as `kernels.residuals` does: residuals of clicks, with their variances."""
    a, b = offsets[[first, stop]]
    chances = chance_of(scores[a:b], odds[cells[a:b]])
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
