"""Maps features to a normal distribution, by their quantiles in the stream or in a training set."""

from collections.abc import Hashable
from typing import Any

import numpy as np

from online_rank import arguments
from online_rank._kernels import quantiles as kernels
from online_rank.base.columns import as_array
from online_rank.base.form import Layer, Quantiles
from online_rank.base.growth import with_zeros
from online_rank.base.schema import Array, Count, Schema
from online_rank.preprocessing._columns import ColumnTransformer
from online_rank.query import Block, in_form, read_query, require_finite

__all__ = ["StreamGaussianizer", "batch_gaussianize"]


_MOST_CENTROIDS = 1 << 16


class StreamGaussianizer(ColumnTransformer):
    """Map each feature to a normal distribution, by its quantiles over all documents seen, in constant memory.

    A value x becomes `deviation` Phi^-1(F(x)), with Phi the standard normal distribution function and F(x) the share of
    documents with a smaller value plus half the share of those with the same value. Only the order of values counts, not
    outliers, units or long tails; a feature that is constant so far becomes 0. [DR] transforms features in this way.

    F is kept as a sketch of at most `n_centroids` points for each feature, the merging t-digest (Dunning & Ertl 2019), finer in
    the tails. It is exact as long as a feature has at most `n_centroids` distinct values. Values beyond the range seen are
    treated as its ends. A feature that appears late, by name, counts as 0 in all documents before.

    Parameters
    ----------
    deviation
        Standard deviation of the normal distribution.
    n_centroids
        Size of the sketch, from 16 to 65,536. With d features the memory is 16 d n_centroids bytes.

    Raises
    ------
    ValueError
        A parameter is out of range.

    Examples
    --------
    >>> from online_rank import StreamGaussianizer
    >>> gaussianizer = StreamGaussianizer(deviation=1.0)
    >>> gaussianizer.learn_one([{"clicks": 0}, {"clicks": 0}, {"clicks": 10_000}])

    F is 1/3 for the value 0 (half the share of the two documents that have it), and 5/6 for 10,000:

    >>> [round(x["clicks"], 3) for x in gaussianizer.transform_one([{"clicks": 0}, {"clicks": 10_000}, {"clicks": 1e9}])]
    [-0.431, 0.967, 0.967]
    """

    _schema = Schema(
        _count=Count(),
        _values=Array("d", "n_centroids"),
        _weights=Array("d", "n_centroids"),
        _sizes=Array("d", dtype="int64", low=0, high="n_centroids"),
    )

    #: A sketch takes 3 kB for each feature.
    max_features = 1 << 14

    def __init__(self, deviation: float = 1 / 3, *, n_centroids: int = 200):
        super().__init__()
        arguments.number("deviation", deviation, above=0.0)
        arguments.integer("n_centroids", n_centroids, 16, _MOST_CENTROIDS)
        self.deviation = deviation
        self.n_centroids = n_centroids
        self._count = 0
        self._values = np.empty((0, n_centroids))
        self._weights = np.empty((0, n_centroids))
        self._sizes = np.empty(0, dtype=np.int64)

    @property
    def n_documents(self) -> int:
        """Number of documents learned from."""
        return self._count

    def _check_state(self) -> None:
        """Raise ValueError unless each sketch stands for `n_documents` documents: otherwise its compression would not end."""
        for j, size in enumerate(self._sizes.tolist()):
            values, weights = self._values[j, :size], np.abs(self._weights[j, :size])
            if (values[1:] < values[:-1]).any() or (weights < 1.0).any():
                raise ValueError(f"the centroids of feature {j} are not in order, or have weights below 1")
            if weights.sum() != self._count:
                raise ValueError(f"the centroids of feature {j} do not stand for {self._count} documents")

    def _rising(self, feature: Hashable) -> tuple[Hashable, ...]:
        return (feature,)

    def _grow(self, n_new: int) -> None:
        # The state that earlier documents would have left with the new features at 0.
        self._values, self._weights = with_zeros(self._values, n_new), with_zeros(self._weights, n_new)
        self._weights[len(self._sizes) :, 0] = self._count
        self._sizes = np.concatenate([self._sizes, np.full(n_new, int(self._count > 0))])

    def _added(self, n_new: int) -> int:
        return super()._added(n_new) + 2 * n_new * self.n_centroids

    def _learn_transform(self, block: Block, out: np.ndarray) -> int:
        learned, count = kernels.learn_and_gaussianize(
            block.X, block.offsets, self._count, self._values, self._weights, self._sizes, self.deviation, out
        )
        self._count = int(count)  # As plain Python, kernels return numpy's.
        return learned

    def _layers(self, n_features: int) -> tuple[Layer, ...]:
        rows = [(self._values[j, :n].copy(), self._weights[j, :n].copy()) for j, n in enumerate(self._sizes.tolist())]
        return (Quantiles(tuple(v for v, _ in rows), tuple(w for _, w in rows), self._count, self.deviation),)

    def _transform(self, X: np.ndarray, offsets: np.ndarray, out: np.ndarray) -> None:
        kernels.gaussianize(X, 0, len(X), self._count, self._values, self._weights, self._sizes, self.deviation, out)


def batch_gaussianize(X: Any, reference: Any = None, *, deviation: float = 1 / 3) -> Any:
    """Map each feature to a normal distribution by its exact quantiles in a training set, as [DR] section 4.4 does.

    The formula is that of `StreamGaussianizer`, with F over the documents of `reference`.

    Parameters
    ----------
    X
        Documents (n, d), in any form of a query; how they are grouped into queries does not matter.
    reference
        The training set that defines the quantiles, with the same features; None for X itself.
    deviation
        Standard deviation of the normal distribution.

    Returns
    -------
    The transformed X, in the form in which it was given.

    Raises
    ------
    ValueError
        A value is NaN or infinite, `reference` is empty, or the two have different features.

    Examples
    --------
    >>> import numpy as np
    >>> from online_rank.preprocessing import batch_gaussianize
    >>> train = np.array([[1.0], [2.0], [3000.0]])
    >>> batch_gaussianize(np.array([[1.0], [1.5], [2.0], [10_000.0]]), reference=train, deviation=1.0).round(3)
    array([[-0.967],
           [-0.431],
           [ 0.   ],
           [ 0.967]])

    F is 1/6, 1/3 (one of three documents is smaller than 1.5), 1/2 and, as for the largest value of the training set, 5/6.
    """
    from scipy.special import ndtri

    arguments.number("deviation", deviation, above=0.0)

    given = read_query(X)
    train = given if reference is None else read_query(reference)
    for block in (given, train):
        require_finite(block)
    values, known = as_array(given.X, batch_gaussianize), as_array(train.X, batch_gaussianize)
    if train.names != given.names or known.shape[1] != values.shape[1]:
        raise ValueError("X and reference must have the same features, in the same order")
    if not len(known):
        raise ValueError("reference has no documents")
    out = np.empty_like(values)
    for j in range(values.shape[1]):
        column = np.sort(known[:, j])
        x = np.clip(values[:, j], column[0], column[-1])
        share = (np.searchsorted(column, x, side="left") + np.searchsorted(column, x, side="right")) / (2 * len(column))
        out[:, j] = deviation * ndtri(share)
    return in_form(given._replace(X=out))
