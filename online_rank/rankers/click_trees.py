"""Boosted trees that learn from clicks on displayed lists, together with the effect of each position."""

import math
import weakref
from typing import Any

import numpy as np

from online_rank import arguments
from online_rank._kernels import trees as kernels
from online_rank._kernels.arrays import all_finite
from online_rank.base import Abilities, Ranker
from online_rank.base.draws import counted_generator
from online_rank.base.form import Head
from online_rank.base.growth import with_zeros
from online_rank.base.lock import locked
from online_rank.base.rounds import largest_norm
from online_rank.base.schema import Array, Count, ListOf, Real, Schema, Text
from online_rank.feedback import Greedy, Policy
from online_rank.feedback.arrays import shown_block
from online_rank.feedback.position_bias import MOST_POSITIONS
from online_rank.feedback.trust import Looked, looked_at
from online_rank.query import Block
from online_rank.rankers.click_growth import (
    N_BINS,
    ZERO,
    Growth,
    bins_of,
    chance_of,
    chances_of_columns,
    check_window,
    form_of_trees,
    joined,
    last_rows,
    n_steps,
    stepped,
)

#: Number of lists with a click before the first trees grow.
_FIRST = 8
#: Every third tree is a stump, which learns what is a sum of single features.
_STUMP = 3
#: The share of the columns that a tree may split by, and the fewest columns.
_COLUMNS, _FEWEST = 0.5, 8
#: The number of last trees: columns are drawn in proportion to their splits there; three tenths of the draws are of any column.
_REMEMBERED = 200
#: The most values of `shown_on`, with one for none.
_MOST_VALUES = 64
# Limits of the weights of lists, leaves and scores, so that squares of their sums stay finite.
_HEAVIEST, _LARGEST = 1e100, 1e120
_MAX_TREES = 2000
#: Largest `rate`: after list n all trees of that list grow, `rate`/n of them.
_FASTEST = 1000.0
#: Trees are dropped after this many times 1/decay newer ones: they count by a factor of e^-5 then.
_FADED = 5.0
#: Most bytes of bins in the window.
_MOST_BYTES = 1 << 23
#: A tree grows in steps of a page or of 16 columns, spread over at most this many lists with a click.
_LONGEST_GROWTH = 64

#: The tree that each ranker is growing. It is not state: it follows from the window and the number of steps done.
_GROWTHS: "weakref.WeakKeyDictionary[ClickTrees, Growth]" = weakref.WeakKeyDictionary()

#: The query that each ranker scored last, which is often the next to be learned: leaves of the trees, bins, and scores.
_SCORED: "weakref.WeakKeyDictionary[ClickTrees, tuple[np.ndarray, Any, np.ndarray]]" = weakref.WeakKeyDictionary()

#: What the window has of each document, except its bins.
_OF_DOCUMENTS = ("_grades", "_scores", "_clicks")


class ClickTrees(Ranker):
    r"""Gradient boosting on clicks: the log odds of a click are a term of the position and a sum of trees.

    .. math:: \log \frac{P}{1 - P} = h_p + F(x)

    The position p is a nuisance: h is learned together with the trees, and is left out when documents are ranked. It is never a
    feature of trees, so no tree can explain a position by the documents that stand there, or the reverse. No query has to come
    again. Unlike inverse propensities, nothing is divided by small numbers: a position where nobody clicks says little because
    the variance P (1 - P) is small there.

    A tree is grown at intervals, from a window of displayed lists, clicked or not, to the residuals c - P with the weights
    P (1 - P), and old trees fade:

    .. math:: F \leftarrow (1 - \rho) F + \eta \, \text{tree} \quad \text{for each new tree}.

    It grows level by level on 80 % of the lists and half of the columns. A split gains G^2/(H + 50), with G the sum of the
    residuals and H the sum of their weights; a leaf has at least 20 documents and the value G/(H + 50): one of few documents is
    shrunk towards 0. Columns are drawn in proportion to how often the last 200 trees split by them; three tenths of the draws
    are of any column. Every third tree is a single split. After each tree h takes a step of Newton's method. Growth counts
    lists with a click, and not lists: that many new clicks are the evidence for a tree. It is spread in small steps over the
    lists until the next tree is due, so the cost of a list is bounded, and the result does not depend on timing. Only displayed
    documents are learned. A gain counts as a fraction of the largest gain so far.

    With `shown_on` each value of an entry of the context, such as the device or the page, has a term, which adds to
    the log odds of all clicks there. It is learned as h is, and left out as h is.

    Columns are cut into 64 bins at fixed places between -2.6 and 2.6, the range of normal scores, so put `StreamQuantileMap` in
    front. `ClickBlendRanker` takes raw features.

    Parameters
    ----------
    window
        Number of lists that trees are grown from; fewer if their bins would take more than 8 MB.
    depth
        Depth of the trees.
    rate
        A tree is grown when the lists with a click have become more by the factor 1 + 1/`rate`; after n of them there have been
        about `rate` ln(n / 8). From 1 to 1,000.
    decay
        rho. About 1/`decay` trees count; trees are dropped once 5/`decay` newer ones have grown.
    learning_rate
        eta, at most 1.
    examination
        How often each position is looked at, if this is known: h is then its logarithm, and one constant is learned. None: h is
        learned.
    shown_on
        The name of an entry of the context that says on what a list is shown; the first 63 values have terms. None for none.
    k
        How many documents `show_one` shows, best first.
    seed
        Seed of the draws of lists and columns.

    Raises
    ------
    TypeError, ValueError
        A parameter is of the wrong type, or out of its range.

    References
    ----------
    Friedman, *Greedy Function Approximation: A Gradient Boosting Machine*, 2001. Positions as a term of a sum: Zhao et al.,
    *Recommending What Video to Watch Next*, 2019. Histograms as in Ke et al.,
    *LightGBM: A Highly Efficient Gradient Boosting Decision Tree*, 2017.

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
        _features=Array(None, "_n_inner", dtype="int64", low=0),
        _thresholds=Array("n_trees", "_n_inner", dtype="int64", low=0, high=N_BINS),
        _leaves=Array("n_trees", lambda ranker: ranker._n_inner + 1, low=-_LARGEST, high=_LARGEST),
        _gains=Array("d"),
        _lengths=Array(None, dtype="int64", low=1),
        _bins=ListOf(Array(None, "d", dtype="uint8", high=N_BINS - 1), kind=tuple),
        _scores=ListOf(Array(None, low=-_LARGEST, high=_LARGEST), kind=tuple),
        _grades=ListOf(
            Array(None, dtype="int64", low=0, high=MOST_POSITIONS * _MOST_VALUES - 1),
            lambda ranker: len(ranker._scores),
            kind=tuple,
        ),
        _clicks=ListOf(Array(None, low=0.0), lambda ranker: len(ranker._scores), kind=tuple),
        _query_weights=ListOf(Array(None, low=5e-324, high=_HEAVIEST), lambda ranker: len(ranker._scores), kind=tuple),
        _n_queries=Count(),
        _n_grown=Count(),
        _due=Real(_FIRST),
        _step=Count(),
        _pace=Count(),
        _positions=Array(MOST_POSITIONS),
        _values=ListOf(Text(), kind=tuple),
        _terms=Array(_MOST_VALUES),
        _largest=Real(0.0),
    )

    _changes_in_place = False
    _heaviest = _HEAVIEST

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
        super().__init__()
        arguments.integer("window", window, _FIRST)
        arguments.integer("depth", depth, 1, 6)
        arguments.number("rate", rate, 1.0, _FASTEST)
        arguments.number("decay", decay, 0.0, below=1.0)
        arguments.number("learning_rate", learning_rate, high=1.0, above=0.0)
        arguments.integer("k", k, 1)
        arguments.examination(examination)
        if shown_on is not None and not isinstance(shown_on, str):
            raise TypeError(f"shown_on is {shown_on!r}; it is the name of an entry of the context, or None")
        arguments.seed(seed)
        self.window = window
        self.depth = depth
        self.rate = rate
        self.decay = decay
        self.learning_rate = learning_rate
        self.examination = examination
        self.shown_on = shown_on
        self.k = k
        self.seed = seed
        # For each tree, oldest first: feature and threshold of its nodes, values of its leaves.
        inner = self._n_inner
        self._features = np.empty((0, inner), dtype=np.int64)
        self._thresholds = np.empty((0, inner), dtype=np.int64)
        self._leaves = np.empty((0, inner + 1))
        self._gains = np.empty(0)
        # The window, oldest list first: bins, places, scores and gains of its documents, and a weight for each list. The first
        # entry of each is of all lists that the last tree grew from, which have `_lengths`; each later entry is of one list.
        # Bins, most of it, are in pages instead of a first entry, so that a tree more does not copy them. A place in `_grades`
        # is a position, from 0, with 100 more for each value of `shown_on`; 0 stands for none, which has no term.
        self._lengths = np.empty(0, dtype=np.int64)
        self._bins: tuple[np.ndarray, ...] = ()
        self._grades: tuple[np.ndarray, ...] = (np.empty(0, dtype=np.int64),)
        self._scores: tuple[np.ndarray, ...] = (np.empty(0),)
        self._clicks: tuple[np.ndarray, ...] = (np.empty(0),)
        self._query_weights: tuple[np.ndarray, ...] = (np.empty(0),)
        self._n_queries = 0
        self._n_grown = 0
        self._due = float(_FIRST)
        # The growing tree: steps done, and steps for each list with a click (0 if no tree grows).
        self._step = 0
        self._pace = 0
        self._positions = np.full(MOST_POSITIONS, -3.0)
        if examination is not None:
            self._positions += _of_each(np.log(examination))
        self._values: tuple[str, ...] = ()
        self._terms = np.zeros(_MOST_VALUES)
        # A tree is grown again when the largest gain rises: gains are learned as fractions of it.
        self._largest = 0.0

    def _abilities(self) -> Abilities:
        return Abilities(takes_clicks=True, takes_any_list=True, draws=True, takes_context=self.shown_on is not None)

    @property
    def _own_policy(self) -> Policy:
        return Greedy(self.k)

    def _confidence(self) -> float:
        return 1.0

    @property
    def n_trees(self) -> int:
        """Number of trees in the sum."""
        return len(self._features)

    @property
    def _n_inner(self) -> int:
        """Number of nodes of a tree that are not leaves."""
        return 2**self.depth - 1

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

    def _grow(self, n_new: int) -> None:
        self._gains = with_zeros(self._gains, n_new)
        # New features were 0 in earlier documents. A growing tree is started again with the new columns.
        self._bins = tuple(np.pad(bins, ((0, 0), (0, n_new)), constant_values=ZERO) for bins in self._bins)

    def _added(self, n_new: int) -> int:
        # A byte for each document that is kept.
        return super()._added(n_new) + n_new * sum(map(len, self._bins)) // 8

    def _head(self) -> Head:
        ages = np.arange(self.n_trees)[::-1, None]
        return form_of_trees(self._features, self._thresholds, self.learning_rate * (1.0 - self.decay) ** ages * self._leaves)

    def _score(self, X: np.ndarray) -> np.ndarray:
        bins = bins_of(X)
        return np.full(len(X), np.nan) if bins is None else self._score_bins(bins)

    def _score_bins(self, bins: np.ndarray) -> np.ndarray:
        query, last = (bins.shape, bins.tobytes()), _SCORED.get(self)
        if last is not None and last[0] is self._leaves and last[1] == query:
            return last[2].copy()
        scores, keep = np.zeros(len(bins)), 1.0 - self.decay
        kernels.score_trees(bins, self._features, self._thresholds, self._leaves, keep, self.learning_rate, scores)
        _SCORED[self] = self._leaves, query, scores.copy()
        return scores

    def _learn_query(self, query: Block, row: np.ndarray) -> bool:
        shown, w, norm = shown_block(query, drawn=False), float(query.w[0]), largest_norm(query.X)
        n = len(shown.rows) - int(shown.held[0])
        # The norm of a document with NaN is no largest norm.
        good = 0.0 <= w <= self._heaviest and np.isfinite(norm) and all_finite(query.X.reshape(-1))
        if not (good and (shown.gains >= 0.0).all()):
            return False
        self.learn_shown(query.X[shown.rows[:n]], shown.places[:n], shown.gains[:n], w, query.context)
        row[:] = 0.0, np.nan, 0.0, 0.0, 0.0, w, query.n_documents, norm, 0.0, True
        return True

    def learn_shown(self, X: np.ndarray, places: np.ndarray, gains: np.ndarray, w: float, context: Any = None) -> None:
        """Learn the documents of a list in the order displayed: X (m, d), positions from 0, gains, and its context (1,)."""
        if not (w > 0.0 and len(X)) or (bins := bins_of(X)) is None:
            return
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

    def _fractions(self, gains: np.ndarray) -> np.ndarray:
        """Gains as fractions of the largest so far."""
        return np.minimum(gains, self._largest) / (self._largest or 1.0)

    def _grow_trees(self) -> None:
        """Take the steps of growth that are due."""
        if self._pace:
            self._take_steps(self._pace)
        while self._n_queries >= self._due:
            while self._pace:
                self._take_steps(self._n_steps)
            gap = self._due / self.rate
            self._due *= 1.0 + 1.0 / self.rate
            self._slide()
            self._pace = math.ceil(self._n_steps / min(_LONGEST_GROWTH, max(1, math.floor(gap))))
            self._take_steps(self._pace)

    @property
    def _most_trees(self) -> int:
        """How many trees are kept."""
        return math.ceil(min(_MAX_TREES, _FADED / self.decay)) if self.decay > 0.0 else _MAX_TREES

    def _slide(self) -> None:
        """Join the lists since the last tree to the window, and drop old ones."""
        lengths = np.append(self._lengths, np.array([len(scores) for scores in self._scores[1:]], dtype=np.int64))
        most = max(1, _MOST_BYTES // max(1, self._n_features))
        kept = min(self.window, max(1, int(np.searchsorted(np.cumsum(lengths[::-1]), most, side="right"))))
        n = int(lengths[-kept:].sum())
        self._bins = last_rows(joined(self._bins, self._n_pages), n)
        for name in _OF_DOCUMENTS:
            setattr(self, name, (np.concatenate(getattr(self, name))[-n:],))
        self._lengths, self._query_weights = lengths[-kept:], (np.concatenate(self._query_weights)[-kept:],)

    @property
    def _n_pages(self) -> int:
        return len(self._bins) - (len(self._scores) - 1)

    @property
    def _n_steps(self) -> int:
        return n_steps(self._n_pages, self._n_features, self.depth, self._share)

    def _take_steps(self, number: int) -> None:
        """Grow the tree by some steps; after the last step it joins the others."""
        last = self._n_steps - 1
        self._step = min(self._step + number, last + 1)
        growth = _GROWTHS.get(self)
        # It is missing, or another one, in a copy and after a change was undone: the steps are then repeated.
        if growth is None or growth.pages[-1] is not self._bins[self._n_pages - 1] or growth.largest != self._largest:
            rng = counted_generator(self, self.seed, self._n_grown)
            growth = self._growth(rng)
            growth.largest = self._largest
            _GROWTHS[self] = growth
        for step in range(growth.done, min(self._step, last)):
            growth.take(step, self._scores[0], self._grades[0], self._query_weights[0])
            growth.done = step + 1
        if self._step == last + 1:
            self._finish(growth)

    @property
    def _share(self) -> float:
        return min(1.0, max(_COLUMNS, _FEWEST / max(1, self._n_features)))

    def _growth(self, rng: np.random.Generator) -> Growth:
        """The next tree, of which no step is done."""
        levels = self.depth if self._n_grown % _STUMP else 1
        pages, clicks = self._bins[: self._n_pages], self._fractions(self._clicks[0])
        last = self._features[-_REMEMBERED:], self._thresholds[-_REMEMBERED:]
        chances = chances_of_columns(*last, self._n_features)
        return Growth(pages, self._lengths, chances, self.depth, rng, self._share, levels, clicks, self._odds)

    def _finish(self, growth: Growth) -> None:
        """Add the finished tree to the others, and to the scores of the window."""
        features, thresholds, leaves, gained = growth.tree()
        keep, rate = 1.0 - self.decay, self.learning_rate
        scores = tuple(own.copy() for own in self._scores)
        kernels.add_tree(growth.bins, growth.columns, growth.thresholds, leaves[0], keep, rate, scores[0])
        for bins, own in zip(self._bins[self._n_pages :], scores[1:], strict=True):
            kernels.score_trees(bins, features, thresholds, leaves, keep, rate, own)
        self._scores = scores
        gains = self._gains.copy()
        np.add.at(gains, features[0], gained)
        self._gains = gains
        for name, new in (("_features", features), ("_thresholds", thresholds), ("_leaves", leaves)):
            setattr(self, name, np.concatenate([getattr(self, name), new])[-self._most_trees :])
        self._n_grown += 1
        self._step = self._pace = 0
        _GROWTHS.pop(self, None)
        self._step_terms()

    def _step_terms(self) -> None:
        """Let the terms of positions and values take a step of Newton's method."""
        values, places = np.divmod(self._grades[0], MOST_POSITIONS)
        pushes, curves = self._pushed(places, MOST_POSITIONS)
        if self.examination is not None:
            pushes, curves = pushes.sum(), curves.sum()
        self._positions = stepped(self._positions, pushes, curves)
        if self._values:
            pushes, curves = self._pushed(values, _MOST_VALUES)
            pushes[0] = 0.0
            self._terms = stepped(self._terms, pushes, curves)

    def _pushed(self, groups: np.ndarray, n: int) -> tuple[np.ndarray, np.ndarray]:
        """The gradients and curvatures of the terms of n groups of the documents of the window."""
        weights = np.repeat(self._query_weights[0], self._lengths)
        chances = chance_of(self._scores[0], self._odds[self._grades[0]])
        pushes = np.bincount(groups, weights * (self._fractions(self._clicks[0]) - chances), n)
        return pushes, np.bincount(groups, weights * chances * (1.0 - chances), n)

    def _check_state(self) -> None:
        """Raise ValueError if loaded trees or windows would make kernels read out of bounds or run forever."""
        if self._features.max(initial=-1) >= self._n_features:
            raise ValueError("a tree splits by a feature that does not exist")
        if not self._scores or self._n_pages < 0:
            raise ValueError("the window lacks its documents' bins or scores")
        parts = [getattr(self, name) for name in _OF_DOCUMENTS]
        check_window(self._lengths, self._bins, self._n_pages, parts, self._query_weights)
        if not self._n_queries < self._due:
            raise ValueError("a tree is overdue")
        if self._step >= (self._n_steps if self._pace else 1) or (self._pace and not len(self._lengths)):
            raise ValueError("the tree that is growing does not fit the window")


def _of_each(known: Any) -> np.ndarray:
    """Numbers of the first positions for all; lower ones have the last."""
    return np.asarray(known)[np.minimum(np.arange(MOST_POSITIONS), len(known) - 1)]
