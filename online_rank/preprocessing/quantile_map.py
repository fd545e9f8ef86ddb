"""Maps features by their quantiles in the stream: the recommended first step for raw features."""

import functools
import math
from collections.abc import Hashable, Sequence
from typing import Any, NamedTuple

import numpy as np

from online_rank._kernels import quantile_map as kernels
from online_rank._kernels.arrays import all_finite
from online_rank._kernels.hashing import draws
from online_rank.arguments import integer
from online_rank.arguments import seed as require_seed
from online_rank.base.form import Curves, InQuery, Layer
from online_rank.base.growth import with_zeros
from online_rank.base.lock import locked
from online_rank.base.names import are_numbers
from online_rank.base.schema import Array, Count, Derived, Flag, Integer, ListOf, Real, Schema
from online_rank.base.transformer import Naming
from online_rank.preprocessing import _map_mixing as mixing
from online_rank.preprocessing._columns import ColumnTransformer
from online_rank.preprocessing._growing import note_growing
from online_rank.query import Block, SparseRows, require_finite

#: Values that the sketch of a feature keeps, and documents that join it at once. A map of d features is saved in
#: 8 d (_POINTS + _DOCUMENTS) bytes: 348 kB at 136 features.
_POINTS, _DOCUMENTS = 224, 96
#: A stretch of the stream is this share of what came before, until memory is full.
_GROWTH, _OLDEST = 8, 16
#: Sketches are renewed in parts, one in each query, so that no query waits for all: the least number of features of a part, and
#: the number of parts. At first, until sketches have been renewed this often, parts are large, so that no feature waits.
_AT_FIRST, _OFTEN, _LATER = (160, 4), 24, (8, 8)
#: The same in queries of fewer documents than this, whose own time is short: a part takes less than that.
_LONG, _SHORT = 32, (3, 16)
#: A shorter memory would be smaller than a sketch.
_LEAST_MEMORY = 1024
_MASK = (1 << 63) - 1
#: More documents than any stream has.
_FOREVER = 1 << 62
#: Cells of a feature's look-up table of knots.
_CELLS = 256
#: Larger values are clipped to this, so that differences of values stay finite.
_LARGEST = 8e307
#: Added to the standard deviation within a query.
_SOFT = 0.1
#: The least number, at which the knots next to 0 stand, and the distance at which they are exported.
_SMALLEST, _NARROW = 5e-324, 1e-37
#: The end of the name of a column relative to the query.
_IN_QUERY = " in query"

#: No documents that are sampled stand side by side.
_NONE_GATHERED: tuple[tuple[np.ndarray, ...], np.ndarray] = (), np.empty((0, 0))

#: More knots add no information about a sketch.
_MOST_KNOTS = 256


class _Table(NamedTuple):
    """The map of each feature, made by `find_knots` from the sketches."""

    rare: np.ndarray
    counts: np.ndarray
    knots: np.ndarray
    cells: np.ndarray
    finders: np.ndarray

    @classmethod
    def of(cls, d: int, n_knots: int) -> "_Table":
        """A table for d features without knots."""
        return cls(
            np.zeros(d, dtype=np.uint8),
            np.zeros(d, dtype=np.int64),
            np.zeros((d, kernels.KNOT, n_knots + kernels.BEYOND)),
            np.zeros((d, _CELLS), dtype=np.uint8),
            np.zeros((kernels.FINDER, d)),
        )

    def copy(self) -> "_Table":
        """A copy."""
        return _Table(*(array.copy() for array in self))

    def extended(self, n_new: int) -> "_Table":
        """The features of this table, followed by new ones without knots."""
        return _Table._make(with_zeros(array, n_new, int(name == "finders")) for name, array in self._asdict().items())


@functools.lru_cache(maxsize=64)
def _column_names(names: tuple[Hashable, ...]) -> tuple[Hashable, ...]:
    given: list[Hashable] = []
    for name in names:
        if are_numbers((name,)):
            given += str(2 * int(name) - 1), str(2 * int(name))  # type: ignore[call-overload]
        else:
            given += name, name + _IN_QUERY if isinstance(name, str) else (name, "in query")
    return tuple(given)


def _feature_of(column: Hashable) -> Hashable:
    """The feature that a column is made of."""
    if are_numbers((column,)):
        return str((int(column) + 1) // 2)  # type: ignore[call-overload]
    if isinstance(column, tuple):
        return column[0]
    return column.removesuffix(_IN_QUERY) if isinstance(column, str) else column


class StreamQuantileMap(ColumnTransformer):
    r"""Map each raw feature to normal scores by its quantiles in the stream, both absolute and relative to the query.

    Every feature gives two columns. With F the mid-rank share of a value among the documents of the stream,

    .. math:: g(x) = \Phi^{-1}(F(x)), \qquad q = (g - \bar g) / (\sigma_g + 0.1),

    where mean and standard deviation of g are taken over the query (q is 0 if g is constant in the query). Only the order of
    values
    counts: outliers, units and tails up to 10^8 and beyond need no logarithm and no scaler. Both columns are float32.

    **If most documents have 0**, as with counts, names and labels crossed with attributes, 0 stays 0 in both columns: 0 gets as
    much weight in F as all other values together, g(0) is subtracted from g, and q = g / (sigma + 0.1). A feature that has only
    been 0 so far gives 0.5 for any value above it.

    **A feature that grows with the stream**, such as a date, soon lies beyond all knots, where values tie. It raises a warning
    once. Give an age in its place, or take `AdditiveRanker`, which ranks values within the query.

    **State.** Each feature has a sketch of 224 values, from which at most `n_knots` knots are computed, between which g is
    linear (constant beyond the smallest and the largest). The stream is cut into stretches, each an eighth of what came before,
    from each of which 96 documents, drawn one from every 96th part, are merged into the sketches, a few features in each query.
    Ranks are unbiased, with errors of about 0.01. A stretch has at most `memory` / 16 documents: from then on old documents
    count less and less, and the map follows drift. With `frozen_after` the map stays fixed after that many documents, so that
    from then on all bounds for fixed features hold; a map that continues to learn moves the comparator, as in
    `online_rank.bounds.drift`.

    A feature `"clicks"` gives `"clicks"` and `"clicks in query"`; one known by its number n, as in arrays and LETOR text, gives
    the columns number 2 n - 1 and 2 n.

    **Sparse rows** pass unchanged: a stream that begins with `SparseRows` or a sparse matrix of scipy, such as text features,
    is not mapped, and its features keep their names.

    Sketches can be merged: `online_rank.distributed.mix` combines the maps of several machines.

    Parameters
    ----------
    n_knots
        Most knots of a feature.
    memory
        Approximate number of documents that the map remembers.
    frozen_after
        Number of documents after which the map stays fixed; None for never.
    seed
        Seed of the draws of documents.

    Raises
    ------
    TypeError, ValueError
        A parameter is of the wrong type, or out of its range.

    References
    ----------
    Mergeable quantile sketches: Karnin, Lang & Liberty, *Optimal Quantile Approximation in Streams*, 2016.

    Examples
    --------
    >>> from online_rank import StreamQuantileMap
    >>> quantiles = StreamQuantileMap()
    >>> quantiles.learn_one([{"clicks": 1}, {"clicks": 1}, {"clicks": 10_000}])

    F is 1/3 for the value 1 (half the share of the two documents that have it), and 5/6 for 10,000:

    >>> for x in quantiles.transform_one([{"clicks": 1}, {"clicks": 10_000}, {"clicks": 1e9}]):
    ...     print({name: round(value, 3) for name, value in x.items()})
    {'clicks': -0.431, 'clicks in query': -1.228}
    {'clicks': 0.967, 'clicks in query': 0.614}
    {'clicks': 0.967, 'clicks in query': 0.614}
    """

    _schema = Schema(
        _count=Count(),
        _total=Real(0.0),
        _points=Array("d", _POINTS, low=-_LARGEST, high=_LARGEST),
        _sizes=Array("d", dtype="int64", low=0, high=_POINTS),
        _masses=Array("d", low=0.0),
        _lacking=Array("d", low=0.0, optional=True),
        _rows=ListOf(Array("d", finite=False), kind=tuple),
        _start=Count(),
        _due=Count(),
        _span=Count(),
        _cursor=Integer(0, "d"),
        _n_joined=Count(),
        _base_points=Array(None, _POINTS, low=-_LARGEST, high=_LARGEST),
        _base_sizes=Array(lambda step: len(step._base_points), dtype="int64", low=0, high=_POINTS),
        _base_masses=Array(lambda step: len(step._base_points), low=0.0),
        _base_total=Real(0.0),
        _base_lacking=Array(lambda step: len(step._base_points), low=0.0, optional=True),
        _count_before=Count(),
        _passes=Flag(),
        _places=Derived(),
        _gathered=Derived(),
        _table=Derived("d", lambda step: kernels.KNOT * (step.n_knots + kernels.BEYOND) + _CELLS // 8 + kernels.FINDER + 2),
    )

    _naming = Naming(_column_names, _feature_of)
    _n_made, _made_type = 2, np.float32

    _changes_in_place = False

    _lets_leave = True

    #: The weight of the documents that lack each feature, for rankers that pass missing values as NaN; None refuses NaN. For a
    #: shard, `_base_lacking` belongs to its initial sketches.
    _lacking: np.ndarray | None = None
    _base_lacking: np.ndarray | None = None

    #: A sketch and its table take 4 kB for each feature.
    max_features = 1 << 14

    def __init__(
        self,
        *,
        n_knots: int = 64,
        memory: int = 131_072,
        frozen_after: int | None = None,
        seed: int = 0,
    ):
        super().__init__()
        integer("n_knots", n_knots, 8, _MOST_KNOTS)
        integer("memory", memory, _LEAST_MEMORY)
        integer("frozen_after", frozen_after, 1, optional=True)
        require_seed(seed)
        self.n_knots = n_knots
        self.memory = memory
        self.frozen_after = frozen_after
        self.seed = seed
        self._count = 0
        # The sketches: values other than 0, their number and weight, and the weight of all documents.
        self._points = np.empty((0, _POINTS))
        self._sizes = np.empty(0, dtype=np.int64)
        self._masses = np.empty(0)
        self._total = 0.0
        # The stretch of the stream that is being sampled, and the documents taken from it.
        self._rows: tuple[np.ndarray, ...] = ()
        self._start, self._due = 0, 1
        # The documents of the last stretch are still to be merged into the features from `_cursor` on, and stand for `_span`
        # documents. None are left if `_cursor` is the number of features.
        self._span, self._cursor, self._n_joined = 0, 0, 0
        # Whether the stream began with sparse rows, which pass unchanged.
        self._passes = False
        # For a shard: its initial sketches. Those above then cover only the documents after `_count_before`.
        self._forget_base()
        self._derive()

    @classmethod
    def taking_missing(cls, seed: int) -> "StreamQuantileMap":
        """A map for a ranker that passes missing values as NaN; they are not among the values of the stream."""
        made = cls(seed=seed)
        made._lacking = made._base_lacking = np.zeros(0)
        return made

    def _forget_base(self) -> None:
        self._base_points, self._base_sizes = np.empty((0, _POINTS)), np.empty(0, dtype=np.int64)
        self._base_masses, self._base_total = np.empty(0), 0.0
        self._base_lacking = None if self._lacking is None else np.zeros(0)
        self._count_before = 0

    @property
    def n_documents(self) -> int:
        """Number of documents learned from."""
        return self._count

    @locked
    def knots(self, feature: Hashable) -> tuple[np.ndarray, np.ndarray]:
        """Values and scores between which the map of a feature (its name, or its number) is linear.

        If most documents have 0, then 0 is a knot with score 0, between knots at the adjacent numbers -5e-324 and 5e-324.

        Returns
        -------
        Two float64 arrays of at most `n_knots` numbers, both ascending.
        """
        j = self.feature_names.index(feature) if self.feature_names is not None else int(feature)  # type: ignore[call-overload]
        knots = self._table.knots[j, :, : self._table.counts[j]]
        return knots[kernels.VALUE].copy(), knots[kernels.SCORE].copy()

    @locked
    def sample(self, j: int) -> tuple[np.ndarray, np.ndarray, float]:
        """Values of feature number j in the stream, ascending, how many documents each stands for, and how many lack it."""
        parts, lacking = [(self._points[j, : self._sizes[j]], self._masses[j])], 0.0
        total = self._total + self._base_total + (self._span if j < self._cursor else 0.0)
        if j < len(self._base_points):
            parts.append((self._base_points[j, : self._base_sizes[j]], self._base_masses[j]))
        for each in (self._lacking, self._base_lacking):
            lacking += 0.0 if each is None else float(each[j : j + 1].sum())
        zeros = max(total - lacking - sum(mass for _, mass in parts), 0.0)
        values = np.concatenate([*(points for points, _ in parts), np.zeros(int(zeros > 0.0))])
        weights = np.concatenate(
            [*(np.full(len(x), mass / max(len(x), 1)) for x, mass in parts), np.full(int(zeros > 0.0), zeros)]
        )
        order = np.argsort(values, kind="stable")
        return values[order], weights[order], lacking

    def _derive(self) -> None:
        """Compute the positions of sampled documents, and the knots, from the state."""
        self._places: list[int] | None = None
        self._gathered = _NONE_GATHERED
        self._table = _Table.of(self._n_features, self.n_knots)
        self._find_knots(0, self._cursor, self._total + self._span if self._span else self._total)
        # Features still waiting for the documents of a stretch keep their earlier knots.
        self._find_knots(self._cursor, self._n_features, self._total)

    def _check_state(self) -> None:
        """Raise ValueError if loaded sketches or stretches are impossible."""
        beyond = np.arange(1, _POINTS)
        for points, sizes in ((self._points, self._sizes), (self._base_points, self._base_sizes)):
            if not ((points[:, 1:] >= points[:, :-1]) | (beyond >= sizes[:, None])).all():
                raise ValueError("the values of a sketch do not ascend")
            if (points[np.arange(_POINTS) < sizes[:, None]] == 0.0).any():
                raise ValueError("a sketch holds a 0")
        rows = np.concatenate([np.zeros(0), *self._rows])
        if np.isinf(rows).any() or (self._lacking is None and np.isnan(rows).any()):
            raise ValueError("a sampled document is not finite")
        if len(self._base_points) > self._n_features:
            raise ValueError("the sketches that a shard began with are of other features")
        if not self._start <= self._count or not self._start < self._due:
            raise ValueError("the stretch that is sampled has no length, or begins in the future")
        if self._cursor < self._n_features and not (self._rows and self._span):
            raise ValueError("no documents are there to join the sketches")

    def _grow(self, n_new: int) -> None:
        # New features were 0 in earlier documents, so they have no other values yet.
        idle = self._cursor == self._n_features
        d = self._n_features + n_new
        self._points = with_zeros(self._points, n_new)
        self._sizes = with_zeros(self._sizes, n_new)
        self._masses = with_zeros(self._masses, n_new)
        if self._lacking is None:
            self._rows = tuple(with_zeros(row, n_new) for row in self._rows)
        else:
            self._lacking = np.append(self._lacking, np.full(n_new, self._total + self._base_total))
            self._rows = tuple(np.append(row, np.full(n_new, np.nan)) for row in self._rows)
        self._table = self._table.extended(n_new)
        self._find_knots(d - n_new, d, self._total)
        if idle:
            self._cursor = d

    @property
    def is_shard(self) -> bool:
        """Whether it learns one part of a stream, and keeps the sketches that it began with, in the columns of then."""
        return len(self._base_points) > 0

    @property
    def _holds_features(self) -> bool:
        return self.is_shard

    def _keep_only(self, kept: np.ndarray) -> None:
        super()._keep_only(kept)
        self._rows = tuple(row[kept] for row in self._rows)
        arrays = self._table._asdict().items()
        self._table = _Table._make(np.take(array, kept, axis=int(name == "finders")) for name, array in arrays)
        self._cursor = int(np.searchsorted(kept, self._cursor))

    def leave(self, kept: np.ndarray) -> None:
        """Keep only some features, which are known by their position."""
        self._keep_only(kept)
        self._n_features = len(kept)

    def _added(self, n_new: int) -> int:
        table = (self.n_knots + kernels.BEYOND) * kernels.KNOT + _CELLS // 8 + kernels.FINDER
        return super()._added(n_new) + n_new * (_POINTS + len(self._rows) + table)

    @property
    def passes(self) -> bool:
        """Whether queries pass unchanged, because the first were sparse rows."""
        return self._passes

    def _learn_block(self, block: Block) -> Block:
        if not self._n_features and isinstance(block.X, SparseRows) and block.n_documents:
            self._passes = True
        return self._passed(block) if self._passes else super()._learn_block(block)

    def _transform_block(self, block: Block) -> Block:
        if self._passes:
            return self._passed(block)
        if self._n_features and self._reader.fits(self, block):
            out = self._room(block.X)
            if self._transform(block.X, block.offsets, out):
                return self._made(block, out, True)
        return super()._transform_block(block)

    def _passed(self, block: Block) -> Block:
        require_finite(block)
        return block

    _rises = True

    def _layers(self, n_features: int) -> tuple[Layer, ...]:
        zero = (np.zeros(1), np.zeros(1))
        found = [(_widened(table[kernels.VALUE, :n]), table[kernels.SCORE, :n].copy()) for table, n in zip(
            self._table.knots, self._table.counts.tolist(), strict=True)]  # fmt: skip
        both = np.repeat(np.arange(n_features), 2)
        # The mean is not subtracted from features that keep their zero.
        centred = np.repeat(self._table.rare == 0, 2)
        return (
            Curves(np.arange(n_features), tuple(knots if len(knots[0]) else zero for knots in found)),
            InQuery(both, np.arange(2 * n_features) % 2 == 1, "standard", _SOFT, centred),
        )

    def _learn_transform(self, block: Block, out: np.ndarray, asked: Any = None, before: Any = None) -> int:
        X, offsets, n = block.X, block.offsets, len(block.w)
        if before is not None:
            require_finite(asked)
        elif n == 1:
            return int(self.learn_run(X) and self._transform(X, offsets, out))
        t = 0
        while t < n:
            start = int(offsets[t])
            # Queries in which the map stays are mapped together.
            upto = self.run_from(offsets, t)
            stop, places, table = int(offsets[upto]), offsets[t : upto + 1] - start, self._table
            if before is not None:
                self._transform(asked.X[start:stop], places, before[start:stop])
            if not self.learn_run(X[start:stop]):
                return t
            if before is not None and asked.X is X and self._table is table:
                out[start:stop] = before[start:stop]
            elif not self._transform(X[start:stop], places, out[start:stop]):
                return t
            t = upto
        return n

    def _transform(self, X: np.ndarray, offsets: np.ndarray, out: np.ndarray) -> bool:
        """Write transformed queries to `out`. Returns whether all values are finite."""
        table = self._table
        return kernels.map_queries(X, offsets, table.rare, table.knots, table.cells, table.finders, out)

    @property
    def table(self) -> _Table:
        """The arrays by which kernels map values; replaced, never changed, as the map learns."""
        return self._table

    def run_from(self, offsets: np.ndarray, t: int) -> int:
        """The end of the run of queries, from query t on, that the map stays the same for until it has learned them."""
        return max(t + 1, int(np.searchsorted(offsets, int(offsets[t]) + self._documents_left(), side="right")) - 1)

    def widen(self, n_new: int) -> None:
        """Add features known by their position."""
        self._grow(n_new)
        self._n_features += n_new

    def were_zero(self, columns: list[int]) -> None:
        """The latest features were 0 in the documents before, not missing; `columns` are some of them, in order."""
        self._lacking = np.array(self._lacking)
        self._lacking[columns] = 0.0
        rows = [row.copy() for row in self._rows]
        for row in rows:
            row[columns] = 0.0
        self._rows = tuple(rows)
        self._find_knots(columns[0], columns[-1] + 1, self._total)

    def _documents_left(self) -> int:
        """How many documents may come before the sketches change; 0 in a short stretch, of which whole queries are taken."""
        if self._cursor < self._n_features:
            return 0
        if self.frozen_after is not None and self._start >= self.frozen_after:
            return _FOREVER
        return self._due - 1 - self._count if self._due - self._start > _DOCUMENTS else 0

    def learn_run(self, X: np.ndarray) -> bool:
        """Learn documents, NaN for what is missing: sample them, and after a stretch merge the sample into the sketches due.

        Returns False if a document to be merged is not finite.
        """
        with self._lock:
            if not len(X):
                return True
            ends = False
            if self.frozen_after is None or self._start < self.frozen_after:
                if self._cursor == self._n_features:
                    self._sample(X)
                    ends = self._count + len(X) >= self._due
                    if ends:
                        if self._lacking is None and not all_finite(np.concatenate(self._rows)):
                            return False
                        self._note_growing()
                        self._span, self._cursor = self._count + len(X) - self._start, 0
                self._count += len(X)
            if self._cursor < self._n_features:
                short = self._n_joined >= _OFTEN and len(X) < _LONG
                least, parts = _SHORT if short else _LATER if self._n_joined >= _OFTEN else _AT_FIRST
                at_once = max(least, math.ceil(self._n_features / parts))
                if short and ends and at_once < self._n_features:
                    # All parts need them side by side, which is enough for this query.
                    self._sampled()
                else:
                    self._join(at_once)
            return True

    def _note_growing(self) -> None:
        """Warn of features of which most values of the last stretch lie beyond the knots."""
        # A ranker that passes missing values has columns of ranks, which keep the order of such values.
        if self._lacking is not None or not self._rows:
            return
        counts, values = self._table.counts, self._table.knots[:, kernels.VALUE]
        places = np.arange(len(counts))
        ends = [np.where(counts > 0, values[places, each], np.nan) for each in (0 * counts, np.maximum(counts - 1, 0))]
        note_growing(self, ends[0], ends[1], np.stack(self._rows), self._start)

    def _sample(self, X: np.ndarray) -> None:
        """Take the documents of a query that are to be sampled."""
        if self._due - self._start <= _DOCUMENTS:
            # All documents of a short stretch are taken, and about `_DOCUMENTS` of a long query.
            self._rows += tuple(X[:: math.ceil(len(X) / _DOCUMENTS)].astype(np.float64))
            return
        if self._places is None:
            # Not where the stretch begins: the query before had sketches to renew.
            self._places = self._draw_places()
        while len(self._rows) < _DOCUMENTS and (i := self._places[len(self._rows)] - self._count) < len(X):
            self._rows += (X[i].astype(np.float64),)

    def _sampled(self) -> np.ndarray:
        """The sampled documents side by side, (n, d): found once for all parts."""
        rows, documents = self._gathered
        if rows is not self._rows:
            documents = np.concatenate(self._rows).reshape(len(self._rows), -1)
            self._gathered = self._rows, documents
        return documents

    def _join(self, at_once: int) -> None:
        """Merge the documents of a stretch into the sketches of the next features, and find their knots."""
        stop = min(self._n_features, self._cursor + at_once)
        total = max(float(min(self._total + self._span, self.memory)), float(self._span))
        keep = (total - self._span) / self._total if self._total > 0.0 else 0.0
        self._points, self._sizes, self._masses = self._points.copy(), self._sizes.copy(), self._masses.copy()
        lacking = np.zeros(self._n_features) if self._lacking is None else self._lacking.copy()
        kernels.join_documents(
            self._cursor, stop, self._sampled(), self._span / len(self._rows), keep, self._draw(), _LARGEST,
            self._points, self._sizes, self._masses, lacking,
        )  # fmt: skip
        self._lacking = None if self._lacking is None else lacking
        self._table = self._table.copy()
        self._find_knots(self._cursor, stop, total)
        self._cursor = stop
        if stop == self._n_features:
            self._total = total
            self._n_joined += 1
            self._begin_stretch()

    def _begin_stretch(self) -> None:
        """Begin a new stretch here."""
        own = self._count - self._count_before
        length = min(max(own // _GROWTH, min(_DOCUMENTS, own // 2), 1), self.memory // _OLDEST)
        self._rows, self._gathered, self._span = (), _NONE_GATHERED, 0
        self._start, self._due = self._count, self._count + length
        if self.frozen_after is not None and self._start < self.frozen_after:
            self._due = min(self._due, self.frozen_after)
        self._places = None

    def _draw_places(self) -> list[int]:
        """The numbers of the documents to be sampled from a long stretch, ascending."""
        length, uniform = self._due - self._start, np.empty(_DOCUMENTS)
        draws(self.seed, self._start, uniform)
        return (self._start + ((np.arange(_DOCUMENTS) + uniform) * (length / _DOCUMENTS)).astype(np.int64)).tolist()

    def _draw(self) -> float:
        """A uniform random number for the next merge."""
        uniform = np.empty(1)
        draws(~self.seed & _MASK, self._n_joined, uniform)
        return float(uniform[0])

    def _find_knots(self, first: int, stop: int, total: float) -> None:
        """Write the knots of some features to the table, in place."""
        none, n_base = np.zeros(len(self._points)), len(self._base_points)
        lacking = none if self._lacking is None else self._lacking
        base_lacking = none[:n_base] if self._base_lacking is None else self._base_lacking
        sketches = kernels.Sketches(self._points, self._sizes, self._masses, total, lacking)
        base = kernels.Sketches(self._base_points, self._base_sizes, self._base_masses, self._base_total, base_lacking)
        kernels.find_knots(first, stop, sketches, base, self._draw(), self._table)

    def _join_all(self) -> None:
        """Merge all sampled documents into all sketches now."""
        if self._rows and self._cursor == self._n_features:
            self._span, self._cursor = self._count - self._start, 0
        if self._cursor < self._n_features:
            self._join(self._n_features)

    def _fork(self, number: int) -> None:
        mixing.fork(self)

    def arranged(self, order: np.ndarray) -> "StreamQuantileMap":
        """A copy for mixing, with the features known by their position in another order."""
        return mixing.arranged(self, order)

    def _mix(self, shards: Sequence[Any], base: Any) -> None:
        mixing.mix(self, shards, base)


def _widened(values: np.ndarray) -> np.ndarray:
    """Knots for other programs: next to 0 they move to distances that single precision has and whose products do not vanish."""
    around = [float(other) for other in np.abs(values).tolist() if other > _SMALLEST]
    narrow = min([_NARROW, *(other / 2.0 for other in around)])
    return np.where(np.abs(values) == _SMALLEST, np.copysign(narrow, values), values)
