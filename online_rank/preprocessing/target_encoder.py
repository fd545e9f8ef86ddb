"""Encodes features by the mean grades of documents with similar values."""

import functools
import itertools
from collections.abc import Hashable

import numpy as np

from online_rank import arguments
from online_rank._kernels import encoder as kernels
from online_rank._kernels.arrays import all_finite
from online_rank.base.anatomy import Abilities
from online_rank.base.form import Curves, Layer
from online_rank.base.growth import with_zeros
from online_rank.base.schema import Array, Schema
from online_rank.feedback.arrays import shown_block
from online_rank.preprocessing._columns import ColumnTransformer
from online_rank.query import Block

#: The grid of every feature covers the range of normal scores.
_REACH = 2.6
#: The features whose values are kept beside their encodings.
_KEPT = ("none", "relative", "all")


class StreamTargetEncoder(ColumnTransformer):
    r"""Add to each feature an encoding: the mean grade, in the stream so far, of documents with similar values.

    Grades are standardised within their query. A grid of `n_points` points over [-2.6, 2.6], for features scaled to that range
    by `StreamQuantileMap` or another scaler, keeps for each point the sum S of these grades and the weight C of
    the documents near it; a document counts for the two points next to its value, with shares that fall linearly with the
    distance. Every feature gives two columns: z itself, and

    .. math:: e(z) = \text{prior} \cdot S / (C + \text{prior}),

    linear between points. A linear ranker behind it can follow any function of a single feature.

    It is supervised: a query is transformed with the tables from before its grades were learned. From `Clicks` it learns the
    shown documents, with clicks in place of grades; position bias is not removed, so documents at the top get larger encodings.

    Parameters
    ----------
    n_points
        Points of the grid.
    prior
        Number of documents of mean grade 0 that every point begins with.
    keep
        `"all"`: every feature gives z and e(z). `"relative"`, behind `StreamQuantileMap`: of its two columns for a feature only
        the second one, relative to the query, is kept beside the encodings of both. Within a query the two differ only by a
        constant and a factor, and a ridge regression takes half the time with three columns.

    Raises
    ------
    ValueError
        A parameter is out of its range.

    References
    ----------
    Micci-Barreca, *A Preprocessing Scheme for High-Cardinality Categorical Attributes*, 2001, with grid points in place of
    categories.

    Examples
    --------
    >>> import numpy as np
    >>> from online_rank import StreamTargetEncoder
    >>> encoder = StreamTargetEncoder(n_points=3, prior=1.0)
    >>> encoder.learn_one(np.array([[-2.6], [0.0], [0.0]]), [1, 0, 0])

    The standardised grades are 1.414, -0.707 and -0.707; half of 1.414 at -2.6, and a third of their sum at 0:

    >>> encoder.transform_one(np.array([[-2.6], [-1.3], [0.0]])).round(3)
    array([[-2.6  ,  0.707],
           [-1.3  ,  0.118],
           [ 0.   , -0.471]])
    """

    _changes_in_place = False

    _schema = Schema(_sums=Array("d", "n_points"), _counts=Array("d", "n_points", low=0.0))

    def __init__(self, n_points: int = 20, *, prior: float = 20.0, keep: str = "all"):
        super().__init__()
        arguments.integer("n_points", n_points, 2)
        arguments.number("prior", prior, above=0.0)
        arguments.choice("keep", keep, _KEPT)
        self.n_points = n_points
        self.prior = prior
        self.keep = keep
        self._sums = np.empty((0, n_points))
        self._counts = np.empty((0, n_points))

    _supervised = True

    def _abilities(self) -> Abilities:
        return super()._abilities()._replace(takes_clicks=True)

    def _grow(self, n_new: int) -> None:
        self._sums = with_zeros(self._sums, n_new)
        self._counts = with_zeros(self._counts, n_new)

    def _added(self, n_new: int) -> int:
        return super()._added(n_new) + 2 * n_new * self.n_points

    def _given(self, n_features: int) -> int:
        return n_features * (1 + (self.keep != _KEPT[0]))

    def _room(self, X: np.ndarray, n: int = 1) -> np.ndarray:
        d = X.shape[1]
        return np.empty((n * len(X), d + (0, d // 2, d)[_KEPT.index(self.keep)]))

    def _given_names(self, names: tuple[Hashable, ...]) -> tuple[Hashable, ...]:
        return _encoded_names(names, _KEPT.index(self.keep))

    def _layers(self, n_features: int) -> tuple[Layer, ...]:
        points = -_REACH + self._step * np.arange(self.n_points)
        encodings = self.prior * (self._sums / (self._counts + self.prior))
        sources: list[int] = []
        knots: list[tuple[np.ndarray, np.ndarray] | None] = []
        for j in range(n_features):
            if self.keep == "all" or (self.keep == "relative" and j % 2):
                sources.append(j)
                knots.append(None)
            sources.append(j)
            knots.append((points, encodings[j]))
        return (Curves(np.array(sources, dtype=np.int64), tuple(knots)),)

    def _learn_transform(self, block: Block, out: np.ndarray) -> int:
        if not all_finite(block.X.reshape(-1)):
            return 0
        self._sums, self._counts = self._sums.copy(), self._counts.copy()
        keep = _KEPT.index(self.keep)
        if isinstance(block.y, tuple):
            self._encode_clicks(block, out)
            return len(block.w)
        kernels.encode(block.X, block.y, block.offsets, -_REACH, self._step, self.prior, keep, self._sums, self._counts, out)
        return len(block.w)

    def _encode_clicks(self, block: Block, out: np.ndarray) -> None:
        """Encode each query, and learn from the shown documents, with clicks as their grades."""
        shown = shown_block(block, drawn=False)
        settings = -_REACH, self._step, self.prior, _KEPT.index(self.keep), self._sums, self._counts
        for q, (first, stop) in enumerate(itertools.pairwise(block.offsets.tolist())):
            documents = block.X[first:stop]
            kernels.encode(documents, None, np.array([0, stop - first]), *settings, out[first:stop])
            drawn = slice(shown.starts[q], shown.starts[q + 1] - shown.held[q])
            X = documents[shown.rows[drawn]]
            kernels.encode(X, shown.gains[drawn], np.array([0, len(X)]), *settings, self._room(X))

    def _transform(self, X: np.ndarray, offsets: np.ndarray, out: np.ndarray) -> None:
        keep = _KEPT.index(self.keep)
        kernels.encode(X, None, np.array([0, len(X)]), -_REACH, self._step, self.prior, keep, self._sums, self._counts, out)

    @property
    def _step(self) -> float:
        return 2.0 * _REACH / (self.n_points - 1)


@functools.lru_cache(maxsize=64)
def _encoded_names(names: tuple[Hashable, ...], keep: int) -> tuple[Hashable, ...]:
    """Each name, unless it is left out, followed by that of its encoding; new features come last."""
    given: list[Hashable] = []
    for j, name in enumerate(names):
        if keep == 2 or (keep == 1 and j % 2):
            given.append(name)
        given.append(f"{name} encoded" if isinstance(name, str) else (name, "encoded"))
    return tuple(given)
