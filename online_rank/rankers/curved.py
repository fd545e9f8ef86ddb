"""Base class of rankers with curves: what they read, and what they serve."""

import operator
import warnings
import weakref
from collections import Counter
from collections.abc import Callable, Hashable, Mapping, Sequence
from typing import Any, Self

import numpy as np

from online_rank import arguments
from online_rank._kernels import curves
from online_rank._kernels.drawn import draw_curves
from online_rank.base import Ranker, share_lock
from online_rank.base.explain import Split
from online_rank.base.form import Curves, Head, InQuery, Layer, Layered, Linear
from online_rank.base.kinds import Kinds
from online_rank.base.lock import locked
from online_rank.base.reader import Reader, as_array, as_numbers, own_names
from online_rank.base.undo import all_or_nothing
from online_rank.measures.learned import discounts
from online_rank.preprocessing import StreamQuantileMap
from online_rank.preprocessing.vector_columns import VectorColumns, columns_of_vector
from online_rank.query import Block, SparseRows, require_finite, single, with_features
from online_rank.query.embeddings import VectorsMet
from online_rank.query.forms import as_floats
from online_rank.query.levels import Levels, is_level, read_block, read_known
from online_rank.query.words import Worded
from online_rank.rankers import loose
from online_rank.rankers.perceptron import PerceptronRanker
from online_rank.rankers.weighed_levels import let_stale_leave, levels_of, renew_levels
from online_rank.rankers.with_vectors import learn_with_vectors, without_vectors_of
from online_rank.rankers.worded import Texts

__all__ = ["CurvedRanker", "as_read", "cells_of", "n_curves"]

#: The scores at which curves bend, and one that no rank reaches.
_BENDS, _FARTHEST = curves.FIRST + curves.STEP * np.arange(curves.POINTS), 40.0
#: The most values of a query that is kept after it was scored.
_MOST_READ = 1 << 16
#: How many texts of each feature had blanks around them. It is not state: trimmed texts are what is learned.
_TRIMMED: "weakref.WeakKeyDictionary[Any, Counter[Hashable]]" = weakref.WeakKeyDictionary()
#: How many values of each feature were ignored. It is not state either.
_IGNORED: "weakref.WeakKeyDictionary[Any, Counter[Hashable]]" = weakref.WeakKeyDictionary()


def n_curves(ranker: Any) -> int:
    """How many features have curves: none where queries are sparse, or before the first is learned."""
    return int(ranker._front.n_features)


def _missing_everywhere(ranker: Any, m: int, _dtype: Any) -> np.ndarray:
    """The columns of documents that have none of the features: their values are missing, and their levels 0."""
    blank = np.full((m, ranker._n_features), np.nan)
    blank[:, levels_of(ranker).columns] = 0.0
    return blank


def _note_trimmed(ranker: Any, trimmed: dict[Hashable, int]) -> None:
    """Count categories with blanks around them, and warn once."""
    if ranker not in _TRIMMED:
        _TRIMMED[ranker] = Counter()
        name, n = max(trimmed.items(), key=operator.itemgetter(1))
        warnings.warn(
            f"{type(ranker).__name__}: blanks around categories are trimmed, here of {name!r} in {n} documents, and counted "
            "(attribute n_trimmed)",
            stacklevel=2,
        )
    _TRIMMED[ranker].update(trimmed)


def _note_ignored(ranker: Any, texts: Texts) -> None:
    """Count ignored values, and warn once of a feature that the values decide about."""
    if ranker not in _IGNORED:
        _IGNORED[ranker] = Counter()
        if decided := [name for name in texts.ignored if name not in texts.declared]:
            warnings.warn(
                f"{type(ranker).__name__}: values of {decided[0]!r} hardly ever come again, as ids, or are no texts as others; "
                "they are ignored, and counted (attribute n_ignored); kinds= decides otherwise",
                stacklevel=2,
            )
    _IGNORED[ranker].update(texts.ignored)


class CurveReader(Reader):
    """Reads raw features, missing values and categories; or rows, for the ranker inside that learns a sparse stream."""

    def __init__(self) -> None:
        # A feature that a document lacks is missing, not 0.
        super().__init__(makes_rows=False, blank=_missing_everywhere)

    def fits(self, step: Any, block: Block) -> bool:
        """As for every reader; of a ranker with a linear one inside, whether the features are the columns of that one."""
        if step._linear is not None:
            return bool(step._linear._reader.fits(step._linear, block))
        if type(block.X) is Worded:
            block = block._replace(X=np.asarray(block.X))
        return type(block.X) is np.ndarray and super().fits(step, block)

    def align(self, step: Any, block: Block, grow: bool = False) -> Block:
        """As for every reader; the first query that is learned decides whether there are curves."""
        if grow and step._linear is None and not len(step._weights) and _is_sparse(block):
            step._begin_linear()
        if (linear := step._linear) is not None:
            block = linear._reader.align(linear, as_numbers(block) if type(block.X) is list else block, grow)
            step._columns, step._n_features = linear._columns, linear._n_features
            return block
        if type(block.X) is list:
            known = None if grow or step._columns is None else read_known(block, step._columns._names or step._columns.names)
            return self._align_documents(step, block, grow) if known is None else known
        if block.names is not None:
            levels_of(step).require_numbers(block.names)
        if isinstance(block.X, SparseRows):
            block = with_features(block, as_array(block.X, step), block.names)
        return self._align_named(step, block, grow)

    def _align_named(self, step: Any, block: Block, grow: bool) -> Block:
        """As `align`, of an array; names that come as words do are no columns, but carried as words."""
        found = None if block.names is None or self.fits(step, block) else loose.loose_in(step, block, grow)
        if found is None:
            return super().align(step, block, grow)
        return loose.attached(super().align(step, loose.without(step, block, found, grow), grow), found)

    def _align_documents(self, step: Any, block: Block, grow: bool) -> Block:
        """As `align`, of documents with texts and categories."""
        names = step._columns
        if grow:
            let_stale_leave(step, levels_of(step))
        texts, read = self._known_read(step, block, grow) if step._columns is names else self._read(step, block, grow)
        if grow and texts.levels and step._words is not None:
            names = step._columns
            renew_levels(step, texts, levels_of(step))
            if step._columns is not names:
                texts, read = self._read(step, block, grow)
        if texts.trimmed:
            _note_trimmed(step, texts.trimmed)
        if texts.ignored:
            _note_ignored(step, texts)
        # Most queries are numbers alone.
        made = texts.with_columns(read) if texts.texts else read
        found = loose.loose_in(step, made, grow)
        read = super().align(step, made if found is None else loose.without(step, made, found, grow), grow)
        read = texts.attached(read) if texts.texts or texts.levels else read
        read = read if found is None else loose.attached(read, found)
        if grow and texts.seen and type(read.X) is np.ndarray:
            step._kinds = texts.kinds.learned(texts.seen)
        return read

    def _read(self, step: Any, block: Block, learns: bool) -> tuple[Texts, Block]:
        """What is read of documents, by the features that are known."""
        texts = Texts(step, block, learns)
        return texts, read_block(block, levels_of(step), texts.trimmed, texts.take, texts.taken)

    def _known_read(self, step: Any, block: Block, learns: bool) -> tuple[Texts, Block]:
        """As `_read`, of the same query as `with_known` just before."""
        last, step._read_last = step._read_last, None
        return last if last is not None and last[0].block is block and learns else self._read(step, block, learns)

    def with_known(self, step: Any, block: Block) -> tuple[Block, bool]:
        """As for every reader, of documents whose features are all known and in the order of the columns."""
        if type(block.X) is not list or step._linear is not None or 2 * step._n_features >= step.max_features:
            return block, False
        if step._columns is not None and (read := read_known(block, step._columns._names or step._columns.names)) is not None:
            return read, True
        texts, read = self._read(step, block, True)
        made = texts.with_columns(read) if texts.texts else read
        if texts.trimmed or not super().fits(step, made):
            step._read_last = texts, read
            return block, False
        if texts.ignored:
            _note_ignored(step, texts)
        return texts.attached(made) if texts.texts or texts.levels else made, True

    def features_of(self, step: Any, names: list[Hashable]) -> tuple[list[Hashable], int]:
        """As for every reader; levels stand for their category."""
        levels = levels_of(step)
        own = [name for name in names if not (is_level(name) and levels.kind_of(name[0]))]  # type: ignore[index]
        features = [name[0] if is_level(name) else name for name in own]  # type: ignore[index]
        return [*dict.fromkeys(features)], len(names) - len(own)


class CurvedRanker(Ranker):
    """A ranker that reads raw features, missing values and categories, and serves a sum of one curve for each feature.

    What follows from the state is remembered in slots: copies and files compute it again. A stream that begins with a sparse
    query is learned by a `PerceptronRanker`.
    """

    __slots__ = ("_answers", "_by_place", "_drawn", "_known_levels", "_read", "_read_last")

    _reader = CurveReader()

    _drawn: np.ndarray | None
    #: The query that was scored last and the map that it was read by: often it is learned next, without being read again.
    _read: tuple[curves.Read, Any] | None
    #: The discounts of places (`discounts`), of at least as many as a query had documents.
    _by_place: np.ndarray
    #: The scores of that query by the curves, and as it was answered, (2, m).
    _answers: np.ndarray | None
    _known_levels: Levels | None
    #: What was read of a query that is learned next, and its features.
    _read_last: tuple[Texts, Block] | None
    _front: StreamQuantileMap
    _linear: PerceptronRanker | None
    _vectors: VectorColumns | None
    _kinds: Kinds | None
    _sums: np.ndarray
    _weights: np.ndarray
    _plain: np.ndarray
    _places: np.ndarray
    _numbers: np.ndarray
    measure: str
    signs: Mapping[Any, int] | None
    relative: bool
    max_levels: int
    #: The served weights of the members over their scales, then the shares of the candidates.
    _choice: Callable[[], np.ndarray]
    #: The scale of each member, (K,), and their names.
    _sigmas: Callable[[], np.ndarray]
    members: Any

    def __new__(cls, *arguments: Any, **named: Any) -> Self:
        """Make the ranker."""
        self = super().__new__(cls, *arguments, **named)
        self._answers = self._drawn = self._known_levels = self._read = self._read_last = None
        self._by_place = discounts(0)
        return self

    @property
    def n_trimmed(self) -> int:
        """How many categories of ranked and learned queries lost the blanks around them, since the model was made or loaded."""
        return sum(_TRIMMED.get(self, Counter()).values())

    @property
    def n_ignored(self) -> int:
        """How many values of ignored features, and odd ones of texts, it has met since it was made or loaded."""
        return sum(_IGNORED.get(self, Counter()).values())

    @property
    @locked
    def query_names(self) -> set[Hashable]:
        """The names of its features in queries: of a level the category, of a column of a vector or a text that feature."""
        own = {name[0] if is_level(name) else name for name in own_names(self)}  # type: ignore[index]
        kinds, vectors = self._kinds, self._vectors
        made = {column for name in (vectors.names if vectors else ()) for column in columns_of_vector(name)}
        texts = {name for name in (kinds.known() if kinds else ()) if not isinstance(name, tuple)}
        return (own - made) | texts | {*(vectors.names if vectors else ())}

    @property
    @locked
    def has_curves(self) -> bool:
        """Whether it has curves: not if its first query was sparse."""
        return self._linear is None

    def _begin_linear(self) -> None:
        """Learn sparse rows from here on."""
        self._linear = PerceptronRanker(self.measure, signs=self.signs)
        self._linear._reader.meet_features_of(self._linear, [self])
        share_lock(self)

    def _cells(self, n_documents: int, n_features: int) -> int:
        # Documents are read as an array; a first query that is sparse is not.
        return n_documents * n_features if n_curves(self) else 0

    def _require_values(self, block: Block) -> None:
        """Raise ValueError that names the first document and feature that is infinite; NaN is a missing value."""
        if self._linear is not None:
            self._linear._require_values(as_numbers(block) if type(block.X) is list else block)
            return
        if type(block.X) is list:
            block = read_block(block, levels_of(self))
        if isinstance(block.X, SparseRows):
            require_finite(block)
            return
        require_finite(with_features(block, np.where(np.isnan(block.X), 0.0, block.X), block.names))

    def _curves(self) -> np.ndarray:
        """The served curves, (d, 2, 2, N_CELLS)."""
        if self._drawn is None:
            self._drawn = self._drawn_by(self._choice())
        return self._drawn

    def _drawn_by(self, weights: np.ndarray) -> np.ndarray:
        """The curves of the members by their weights (K,), which others may follow, (d, 2, 2, N_CELLS)."""
        drawn = np.empty((len(self._weights), 2, 2, curves.N_CELLS))
        draw_curves(weights, self._weights, self._plain, self._sums, drawn)
        return drawn

    def _drawn_alone(self, member: str) -> np.ndarray:
        """The curves of one member, over its scale, (d, 2, 2, N_CELLS)."""
        k = self.members.index(member)
        return self._drawn_by(np.eye(len(self.members))[k] / self._sigmas())

    @property
    def vector_columns(self) -> VectorColumns | None:
        """What is learned of vectors; None before there are any."""
        return self._vectors

    def _without_vectors(self, block: Block) -> Block:
        """A block with columns in place of its vectors, or as it is."""
        has_vectors = self._vectors is not None and type(block.X) is list
        return without_vectors_of(self, block) if has_vectors else block

    def _learn_block(self, block: Block, changes: all_or_nothing | None = None) -> None:
        if len(block.w) > 1 or self._vectors is None or type(block.X) is not list:
            try:
                return super()._learn_block(block, changes)  # Which learns several queries of dicts one by one.
            except VectorsMet:  # Nothing has changed: they are met when a query is read.
                pass
        learn_with_vectors(self, block, changes, super()._learn_block)

    def _score_all(self, block: Block, score: Any = None) -> np.ndarray:
        if self._vectors is None or type(block.X) is not list:
            try:
                return super()._score_all(block, score)
            except VectorsMet:
                pass
        return super()._score_all(without_vectors_of(self, block), score)

    def _score(self, X: Any) -> np.ndarray:
        return self._score_queries(X, single(X.shape[0]))

    def _head(self) -> Head | Layered:
        if self._linear is not None:
            return self._linear._head()
        return Layered(tuple(self._layers()), Linear(np.ones(n_curves(self) * (2 if self.relative else 1))))

    def _layers(self) -> Sequence[Layer]:
        """The layers between features and the columns that are added up."""
        n, mapped, drawn, made = n_curves(self), self._mapped(), self._curves(), []
        for (values, scores), curve in zip(mapped.knots, drawn[:, 0], strict=True):
            bent, g = _bent(values, scores)
            made.append((bent, _on_cells(curve, g)))
        missing = drawn[:, 0, 0, curves.MISSING]
        if not self.relative:
            return (mapped._replace(knots=tuple(made), missing=missing),)
        # The scores of ranks have no end.
        q = np.array([-_FARTHEST, *_BENDS, _FARTHEST])
        made += [(q, _on_cells(curve, q)) for curve in drawn[:, 1]]
        ranked = InQuery(np.tile(np.arange(n), 2), np.repeat([False, True], n), "ranks")
        lacked = np.append(mapped.lacked, np.zeros(n, dtype=bool))
        return ranked, Curves(np.arange(2 * n), tuple(made), np.append(missing, np.zeros(n)), lacked)

    def _mapped(self) -> Any:
        """The map of the features that have curves, and of which of them values were missing."""
        n = n_curves(self)
        lacked = (self._places[:n, 1] >= 0) | np.array([self._front.sample(j)[2] > 0.0 for j in range(n)], dtype=bool)
        return self._front._layers(n)[0]._replace(lacked=lacked)  # type: ignore[call-arg]

    def _linear_weights(self, columns: Any = slice(None)) -> np.ndarray | None:
        return None if self._linear is None else self._linear._linear_weights(columns)

    def _score_queries(self, X: Any, offsets: np.ndarray) -> np.ndarray:
        if self._linear is not None:
            return self._linear._score_queries(X, offsets)
        return self._score_rows(X, offsets, wanted=False)[0]

    def _score_rows(self, X: np.ndarray, offsets: np.ndarray, wanted: bool = True) -> tuple[np.ndarray, curves.CurveRows]:
        """The scores of queries by the curves, and the rows of a single query, if it is kept or they are wanted."""
        scores, table = np.empty(len(X)), self._front.table
        # Features that another ranker has met may have no curves yet.
        X = as_read(X[:, : len(table.counts)])
        keeps = len(offsets) == 2 and X.size <= _MOST_READ
        rows = _room_for_rows(X.shape[1], len(X)) if keeps or wanted else _NO_ROWS
        curves.score(X, offsets, table, self.relative, self._curves(), scores, rows)
        if keeps and len(X) and scores[0] == scores[0]:  # Not NaN, which an infinite value gives.
            # By the class it would take three times as long.
            self._read = tuple.__new__(curves.Read, (X.copy(), rows)), table
        return scores, rows

    def _read_before(self, table: Any) -> curves.Read:
        """The query that was scored last, if this is the map that it was read by."""
        return self._read[0] if self._read is not None and self._read[1] is table else _NOT_READ

    @locked
    def curve(self, feature: Hashable, member: str | None = None) -> tuple[np.ndarray, np.ndarray, np.ndarray]:
        """The curve of a feature: linear between values of the stream at which it bends.

        Parameters
        ----------
        feature
            Its name; of an array its number, "1", "2", ..., as a text.
        member
            One of `members`, alone and over its scale; None for what is served.

        Returns
        -------
        Values, ascending; f there, the part that depends on the value alone; and h for a value whose rank in the query is that
        which it has in the stream, q = g.

        Raises
        ------
        KeyError
            There is no such feature, or no curves because queries are sparse.
        ValueError
            There is no such member.
        """
        arguments.choice("member", member, self.members, optional=True)
        j = self._place_of(feature)
        drawn = self._curves() if member is None else self._drawn_alone(member)
        values, g = self._bends(j)
        own, ranked = (_on_cells(curve, g) for curve in drawn[j])
        return values, own, ranked

    def _place_of(self, feature: Hashable) -> int:
        """The number of the curve of a feature. Raises KeyError if it has none."""
        names = own_names(self)[: n_curves(self)]
        if feature not in names:
            raise KeyError(f"there is no curve of {feature!r}")
        return names.index(feature)

    def _bends(self, j: int) -> tuple[np.ndarray, np.ndarray]:
        """The values of a feature at which its curve bends, ascending, and their normal scores."""
        values, scores = self._front.knots(j)
        return _bent(values, scores) if len(values) else (values, scores)

    def _columns_of_features(self) -> dict[Hashable, list[int]]:
        """The columns of each feature: one, or one for each level of a category."""
        found: dict[Hashable, list[int]] = {}
        for j, name in enumerate(own_names(self)[: n_curves(self)]):
            found.setdefault(name[0] if is_level(name) else name, []).append(j)  # type: ignore[index]
        return found

    def missing_value(self, feature: Hashable) -> float:
        """What a missing value of a feature adds to a score, on the scale of `curve`. Raises KeyError without a curve."""
        with self._lock:
            return float(self._curves()[self._place_of(feature), 0, 0, curves.MISSING])

    def _split(self, block: Block, a: int, b: int) -> Split | None:
        """Splits a difference of scores among the raw features, categories as one."""
        if self._linear is not None:
            return None
        self._score_all(block)  # Raises for bad values.
        X = (block.X if self._reader.fits(self, block) else self._reader.align(self, block).X)[:, : n_curves(self)]
        added = np.zeros(X.T.shape)
        if X.size:
            curves.contributions(as_read(X), self._front.table, self.relative, self._curves(), added)
        features = self._columns_of_features()
        differences = added[:, a] - added[:, b]
        return Split(tuple(features), np.array([differences[columns].sum() for columns in features.values()]), True, {})


def _is_sparse(block: Block) -> bool:
    """Whether documents are sparse rows, or have many names of which each has few, in dicts with counts, as of words."""
    X = block.X
    if isinstance(X, SparseRows):
        n_names, filled = X.n_columns, len(X.values)
        if block.names is None:
            return True
    elif type(X) is list:
        documents = [x for x in X if isinstance(x, Mapping)]
        n_names, filled = len({name for x in documents for name in x}), sum(map(len, documents))
        values = as_floats([value for x in documents for value in x.values()])
        if values is None or not ((values >= 1.0) & (values == np.floor(values))).all():
            return False
    else:
        return False
    return n_names >= loose.MANY_NAMES and filled < loose.FILLED * block.n_documents * n_names


def _room_for_rows(d: int, m: int) -> curves.CurveRows:
    """Rows of a query of m documents and d features, to be filled."""
    shape = d, m
    own = np.empty(shape, np.float32), np.empty(shape, np.uint8), np.empty(shape, np.float32), np.empty(shape, np.uint8)
    return tuple.__new__(curves.CurveRows, own)  # As above.


_NO_ROWS = _room_for_rows(0, 0)
_NOT_READ = curves.Read(np.empty((0, 0)), _NO_ROWS)


def cells_of(g: np.ndarray) -> np.ndarray:
    """The cell of each score on the grid."""
    return np.clip((g - curves.FIRST) / curves.STEP + 1.0, 0.0, curves.POINTS + 0.5).astype(np.intp)


def _bent(values: np.ndarray, scores: np.ndarray) -> tuple[np.ndarray, np.ndarray]:
    """The values of a feature at which its curve bends, ascending, and their normal scores, from the knots of its map."""
    bends = _BENDS[(scores[0] < _BENDS) & (scores[-1] > _BENDS)]
    # Between knots at neighbouring numbers there is no value.
    bent = np.unique(np.concatenate([values, np.interp(bends, scores, values)]))
    return bent, np.interp(bent, values, scores)


def _on_cells(curve: np.ndarray, g: np.ndarray) -> np.ndarray:
    """A curve (2, N_CELLS), constants and slopes, at scores."""
    cells = cells_of(g)
    return curve[0][cells] + curve[1][cells] * g


def as_read(X: np.ndarray) -> np.ndarray:
    """Features as kernels take them: one dtype and layout, so that they compile once."""
    return np.ascontiguousarray(X, dtype=np.float64)
