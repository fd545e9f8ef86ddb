"""Gradient boosted trees that grow along the stream."""

import math
import weakref
from typing import Any

import numpy as np

from online_rank import arguments
from online_rank._kernels import trees as kernels
from online_rank._kernels.codes import MAX_GRADE
from online_rank._kernels.graded import judge_rankings
from online_rank.base import Ranker
from online_rank.base.draws import counted_generator
from online_rank.base.form import Head, Trees, first_at_least, full_tree
from online_rank.base.growth import with_zeros
from online_rank.base.lock import locked
from online_rank.base.rounds import largest_norm
from online_rank.base.schema import Array, Count, Derived, ListOf, Real, Schema
from online_rank.measures.learned import discounts
from online_rank.measures.learned import measure as parse_measure
from online_rank.query import Block
from online_rank.rankers.growing import COLUMNS, N_BINS, Growth, joined, last_rows, n_steps

#: Bins are cut at equal distances over [-REACH, REACH], the range of normal scores.
REACH = 2.6
WIDTH = 2.0 * REACH / (N_BINS - 2)
#: Number of queries before the first trees grow.
_FIRST = 8
#: The number of last trees: columns are drawn in proportion to their splits there; three tenths of the draws are of any column.
_REMEMBERED = 200
# Limits of query weights, leaves and scores, so that squares of their sums stay finite.
_HEAVIEST, _LARGEST = 1e100, 1e120
_MAX_TREES = 800
#: Largest `rate`: after query n all trees of that query grow, `rate`/n of them.
_FASTEST = 1000.0
#: Trees of a ranker that forgets are dropped after this many times 1/decay newer ones: they count by a factor of e^-5 then.
_FADED = 5.0
#: Most bytes of bins in the window.
_MAX_BYTES = 1 << 24
#: A tree grows in steps of a page or of 16 columns, spread over at most this many queries.
_LONGEST_GROWTH = 64


#: The tree that each ranker is growing. It is not state: it follows from the window and the number of steps done.
_GROWTHS: "weakref.WeakKeyDictionary[BoostedRanker, Growth]" = weakref.WeakKeyDictionary()

#: The query that each ranker scored last, which is often the next to be learned: leaves of the trees, bins, and scores.
_SCORED: "weakref.WeakKeyDictionary[BoostedRanker, tuple[np.ndarray, Any, np.ndarray]]" = weakref.WeakKeyDictionary()


class BoostedRanker(Ranker):
    r"""Gradient boosting along the stream: grows another tree at intervals, from a window of the last queries.

    The score of a document is a sum over trees, in which old trees fade:

    .. math:: s \leftarrow (1 - \rho) s + \eta \, \text{tree}(x) \quad \text{for each new tree}.

    A tree is fitted to what the scores s lack of the grades t of the window, both as seen within their query: to the residuals
    t - (s - mean of s), where t has mean 0 and deviation 1. It grows level by level on 80 % of the queries of the window and
    30 % of the columns. A split gains G^2/(H + 50), with G the sum of the residuals and H the number of documents (both
    weighted by the queries' weights); a leaf has at least 20 documents and the value G/(H + 50): one of few documents is shrunk
    towards 0. Columns are drawn in proportion to how often the last 200 trees split by them; three tenths of the draws are of
    any column.

    Columns are cut into 64 bins at fixed places between -2.6 and 2.6, the range of normal scores, so put `StreamQuantileMap` or
    a scaler in front. Trees then see raw features by their quantiles, and relative to the query.

    The growth of a tree is spread in small steps over the queries until the next one is due, so the cost of a query is bounded,
    and the result does not depend on timing.

    Parameters
    ----------
    measure
        The measure of the losses in `last_round` (see `online_rank.measure`). Trees do not depend on it.
    window
        Number of queries that trees are grown from; fewer if their bins would take more than 16 MB.
    depth
        Depth of the trees.
    rate
        A tree is grown when the stream has become longer by the factor 1 + 1/`rate`; after n queries there have been about
        `rate` ln(n / 8). From 1 to 1,000.
    decay
        rho. About 1/`decay` trees count.
    learning_rate
        eta, at most 1.
    longest_gap
        A tree is grown at the latest this many queries after the one before, for streams that drift: what was learned more than
        `longest_gap`/`decay` queries ago then fades, however long the stream, and trees are dropped once 5/`decay` newer ones
        have grown. None: no limit; trees grow ever more slowly, and remember a constant share of the stream.
    seed
        Seed of the draws of queries and columns.

    Raises
    ------
    ValueError
        A parameter is out of its range.

    References
    ----------
    Friedman, *Greedy Function Approximation: A Gradient Boosting Machine*, 2001. Histograms as in Ke et al., *LightGBM: A
    Highly Efficient Gradient Boosting Decision Tree*, 2017.

    Examples
    --------
    >>> from online_rank import BoostedRanker, StreamQuantileMap
    >>> from online_rank.stream.synth import NoisyTeacher
    >>> model = StreamQuantileMap() | BoostedRanker()
    >>> for X, y in NoisyTeacher(n_queries=30, n_features=5, n_documents=20):
    ...     model.learn_one(X, y)
    >>> model["BoostedRanker"].n_trees
    266
    """

    _schema = Schema(
        _measure=Derived(),
        _features=Array(None, "_n_inner", dtype="int64", low=0),
        _thresholds=Array("n_trees", "_n_inner", dtype="int64", low=0, high=N_BINS),
        _leaves=Array("n_trees", lambda ranker: ranker._n_inner + 1, low=-_LARGEST, high=_LARGEST),
        _gains=Array("d"),
        _lengths=Array(None, dtype="int64", low=1),
        _bins=ListOf(Array(None, "d", dtype="uint8", high=N_BINS - 1), kind=tuple),
        _scores=ListOf(Array(None, low=-_LARGEST, high=_LARGEST), kind=tuple),
        _grades=ListOf(Array(None, dtype="int64", low=0, high=MAX_GRADE), lambda ranker: len(ranker._scores), kind=tuple),
        _query_weights=ListOf(Array(None, low=5e-324, high=_HEAVIEST), lambda ranker: len(ranker._scores), kind=tuple),
        _n_queries=Count(),
        _n_grown=Count(),
        _due=Real(_FIRST),
        _step=Count(),
        _pace=Count(),
    )

    _changes_in_place = False
    _heaviest = _HEAVIEST
    #: The share of the columns that a tree may split by, and the most bytes of bins in the window.
    _share: Any = COLUMNS
    _most_bytes = _MAX_BYTES
    #: The most trees, and whether those that have faded are dropped also without a `longest_gap`.
    _max_trees, _always_forgets = _MAX_TREES, False
    #: What the window has of each document, except its bins.
    _of_documents: tuple[str, ...] = ("_grades", "_scores")
    #: The largest gain so far, where gains are learned as fractions of it: a tree is grown again when it rises.
    _largest = 0.0

    def __init__(
        self,
        measure: str = "ndcg@10",
        *,
        window: int = 1000,
        depth: int = 5,
        rate: float = 200.0,
        decay: float = 0.006,
        learning_rate: float = 0.1,
        longest_gap: int | None = None,
        seed: int = 0,
    ) -> None:
        super().__init__()
        parsed = parse_measure(measure)
        arguments.integer("window", window, _FIRST)
        arguments.integer("depth", depth, 1, 6)
        arguments.number("rate", rate, 1.0, _FASTEST)
        arguments.number("decay", decay, 0.0, below=1.0)
        arguments.number("learning_rate", learning_rate, high=1.0, above=0.0)
        arguments.integer("longest_gap", longest_gap, 1, optional=True)
        arguments.seed(seed)
        self.measure = measure
        self.window = window
        self.depth = depth
        self.rate = rate
        self.decay = decay
        self.learning_rate = learning_rate
        self.longest_gap = longest_gap
        self.seed = seed
        self._measure = parsed
        # For each tree, oldest first: feature and threshold of its nodes, values of its leaves.
        inner = self._n_inner
        self._features = np.empty((0, inner), dtype=np.int64)
        self._thresholds = np.empty((0, inner), dtype=np.int64)
        self._leaves = np.empty((0, inner + 1))
        self._gains = np.empty(0)
        # The window, oldest query first: bins, grades and scores of its documents, and a weight for each query. The first entry
        # of each is of all queries that the last tree grew from, which have `_lengths`; each later entry is of one query.
        # Bins, most of it, are in pages instead of a first entry, so that a tree more does not copy them.
        self._lengths = np.empty(0, dtype=np.int64)
        self._bins: tuple[np.ndarray, ...] = ()
        self._grades: tuple[np.ndarray, ...] = (np.empty(0, dtype=np.int64),)
        self._scores: tuple[np.ndarray, ...] = (np.empty(0),)
        self._query_weights: tuple[np.ndarray, ...] = (np.empty(0),)
        self._n_queries = 0
        self._n_grown = 0
        self._due = float(_FIRST)
        # The growing tree: steps done, and steps for each query (0 if no tree grows).
        self._step = 0
        self._pace = 0

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
    def importance(self) -> np.ndarray | dict:
        """Total gain of the splits of each feature: float64 (d,), or `{name: gain}` for features with names."""
        if self.feature_names is None:
            return self._gains.copy()
        return dict(zip(self.feature_names, self._gains.tolist(), strict=True))

    def _grow(self, n_new: int) -> None:
        zero = int((0.0 + REACH) / WIDTH + 1.0)
        self._gains = with_zeros(self._gains, n_new)
        # New features were 0 in earlier documents. A growing tree is started again with the new columns.
        self._bins = tuple(np.pad(bins, ((0, 0), (0, n_new)), constant_values=zero) for bins in self._bins)

    def _added(self, n_new: int) -> int:
        # A byte for each document that is kept.
        return super()._added(n_new) + n_new * sum(map(len, self._bins)) // 8

    def _head(self) -> Head:
        def bins(x: np.ndarray) -> np.ndarray:
            found = np.empty((len(x), 1), dtype=np.uint8)
            kernels.to_bins(x[:, None], -REACH, WIDTH, N_BINS, found)
            return found[:, 0]

        # The least value of each bin: smaller values go left. A node that does not split has the last bin.
        least = np.append(first_at_least(bins, np.arange(1, N_BINS)), [np.inf, np.inf])
        n, keep, trees = len(self._features), 1.0 - self.decay, []
        for t in range(n):
            leaves = self.learning_rate * keep ** (n - 1 - t) * self._leaves[t]
            trees.append(full_tree(self._features[t], least[self._thresholds[t]], leaves))
        return Trees(tuple(trees))

    def _score(self, X: np.ndarray) -> np.ndarray:
        bins = np.empty(X.shape, dtype=np.uint8)
        if not kernels.to_bins(X, -REACH, WIDTH, N_BINS, bins):
            return np.full(len(X), np.nan)
        return self._score_bins(bins)

    def _score_bins(self, bins: np.ndarray) -> np.ndarray:
        query, last = (bins.shape, bins.tobytes()), _SCORED.get(self)
        if last is not None and last[0] is self._leaves and last[1] == query:
            return last[2].copy()
        scores, keep = np.zeros(len(bins)), 1.0 - self.decay
        kernels.score_trees(bins, self._features, self._thresholds, self._leaves, keep, self.learning_rate, scores)
        _SCORED[self] = self._leaves, query, scores.copy()
        return scores

    def _learn_query(self, query: Block, row: np.ndarray) -> bool:
        X, y, w = query.X, query.y, float(query.w[0])
        m = len(y)
        bins, loss = np.empty(X.shape, dtype=np.uint8), np.empty(1)
        if not (0.0 <= w <= _HEAVIEST and kernels.to_bins(X, -REACH, WIDTH, N_BINS, bins)):
            return False
        scores = self._score_bins(bins)
        levels = judge_rankings(*self._measure, scores[None], y, discounts(m), loss)
        if levels < 0:
            return False
        row[:] = loss[0], np.nan, 0.0, 0.0, 0.0, w, m, largest_norm(X), 0.0, levels < 2
        if levels > 1 and w > 0.0:
            self._bins += (bins,)
            self._grades += (y.copy(),)
            self._scores += (scores,)
            self._query_weights += (np.array([w]),)
            self._n_queries += 1
            self._grow_trees()
        return True

    def _grow_trees(self) -> None:
        """Take the steps of growth that are due."""
        if self._pace:
            self._take_steps(self._pace)
        while self._n_queries >= self._due:
            while self._pace:
                self._take_steps(self._n_steps)
            gap = self._due / self.rate
            if self.longest_gap is None:
                self._due *= 1.0 + 1.0 / self.rate
            else:
                gap = min(gap, float(self.longest_gap))
                self._due += gap
            self._slide()
            self._pace = math.ceil(self._n_steps / min(_LONGEST_GROWTH, max(1, math.floor(gap))))
            self._take_steps(self._pace)

    @property
    def _most_trees(self) -> int:
        """How many trees are kept."""
        forgets = (self._always_forgets or self.longest_gap is not None) and self.decay > 0.0
        return math.ceil(min(self._max_trees, _FADED / self.decay)) if forgets else self._max_trees

    def _slide(self) -> None:
        """Join the queries since the last tree to the window, and drop old ones."""
        lengths = np.append(self._lengths, np.array([len(scores) for scores in self._scores[1:]], dtype=np.int64))
        most = max(1, self._most_bytes // max(1, self._n_features))
        kept = min(self.window, max(1, int(np.searchsorted(np.cumsum(lengths[::-1]), most, side="right"))))
        n = int(lengths[-kept:].sum())
        self._bins = last_rows(joined(self._bins, self._n_pages), n)
        for name in self._of_documents:
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

    def _growth(self, rng: np.random.Generator) -> Growth:
        """The next tree, of which no step is done."""
        return Growth(self._bins[: self._n_pages], self._lengths, self._chances, self.depth, rng, self._share)

    @property
    def _chances(self) -> np.ndarray:
        """In what proportion each column is drawn: float64 (d,)."""
        features, split = self._features[-_REMEMBERED:], self._thresholds[-_REMEMBERED:] < N_BINS
        splits, d = np.bincount(features[split], minlength=self._n_features), self._n_features
        return 3.0 * max(1, int(splits.sum())) + 7.0 * d * splits

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

    def _check_state(self) -> None:
        """Raise ValueError if loaded trees or windows would make kernels read out of bounds or run forever."""
        if self._features.max(initial=-1) >= self._n_features:
            raise ValueError("a tree splits by a feature that does not exist")
        if not self._scores or self._n_pages < 0:
            raise ValueError("the window lacks its documents' bins or scores")
        lengths = [[len(part) for part in getattr(self, name)] for name in self._of_documents]
        pages, bins = self._n_pages, [len(part) for part in self._bins]
        n, k = len(self._scores[0]), len(self._lengths)
        # None is longer than all together, so their sum does not overflow.
        fits = self._lengths.max(initial=0) <= n and self._lengths.sum() == n
        if any(own != [n, *bins[pages:]] for own in lengths) or 0 in bins or not fits:
            raise ValueError("a query of the window is empty, or its parts have different lengths")
        if not np.isin(np.cumsum(bins[:pages]), np.cumsum(self._lengths)).all() or sum(bins[:pages]) != n:
            raise ValueError("a page of the window ends within a query")
        if [len(weights) for weights in self._query_weights] != [k, *[1] * len(bins[pages:])]:
            raise ValueError("the window does not have one weight for each query")
        if not self._n_queries < self._due:
            raise ValueError("a tree is overdue")
        if self._step >= (self._n_steps if self._pace else 1) or (self._pace and k == 0):
            raise ValueError("the tree that is growing does not fit the window")
