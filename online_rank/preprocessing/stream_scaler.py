"""Standardisation by running means and variances."""

from collections.abc import Sequence
from typing import Any

import numpy as np

from online_rank import arguments
from online_rank._kernels import preprocessing as kernels
from online_rank.base.form import Layer, Scale
from online_rank.base.growth import with_zeros
from online_rank.base.lock import locked
from online_rank.base.reader import by_name
from online_rank.base.schema import Array, Count, Schema
from online_rank.preprocessing._columns import ColumnTransformer
from online_rank.query import Block


class StreamScaler(ColumnTransformer):
    """Scale each feature to mean 0 and variance 1, by the running mean and variance over all documents seen.

    With the mean mu and the variance var of a feature over all documents so far, a value x becomes (x - mu) / sqrt(var). A
    feature that has been constant so far becomes 0. A feature that appears late, by name, counts as 0 in all documents before.

    Mean and sum of squared deviations M of the n earlier documents and the m of a query are combined by the formula of Chan,
    Golub & LeVeque (1979): with delta the difference of the means, mu += delta m / (n + m), M += M_query + delta^2 n m / (n +
    m).
    Columns with a large offset lose no precision, and constant ones are exactly constant.

    Parameters
    ----------
    with_std
        Whether to divide by the standard deviation.

    Examples
    --------
    >>> from online_rank import StreamScaler
    >>> scaler = StreamScaler()
    >>> scaler.learn_one([{"bm25": 1.0, "year": 2020}, {"bm25": 3.0, "year": 2020}])
    >>> scaler.transform_one([{"bm25": 4.0, "year": 2020}])
    [{'bm25': 2.0, 'year': 0.0}]
    >>> scaler.means, scaler.variances
    ({'bm25': 2.0, 'year': 2020.0}, {'bm25': 1.0, 'year': 0.0})
    """

    _schema = Schema(
        _count=Count(), _mean=Array("d"), _m2=Array("d", low=0.0), _own=Array(2, "d", optional=True), _count_before=Count()
    )

    #: For a shard: mean and sum of squared deviations of only the documents after the first `_count_before` (2, d).
    _own: np.ndarray | None = None
    _count_before = 0

    _maps_numbers = True

    _lets_leave = True

    def __init__(self, with_std: bool = True):
        super().__init__()
        arguments.flag("with_std", with_std)
        self.with_std = with_std
        self._count = 0
        self._mean = np.empty(0)
        self._m2 = np.empty(0)

    @property
    def n_documents(self) -> int:
        """Number of documents learned from."""
        return self._count

    @property
    @locked
    def means(self) -> np.ndarray | dict:
        """Mean of each feature: an array of shape (d,), or a dict for features with names."""
        return by_name(self, self._mean)

    @property
    @locked
    def variances(self) -> np.ndarray | dict:
        """Variance (divisor n) of each feature: an array of shape (d,), or a dict for features with names."""
        return by_name(self, self._m2 / max(self._count, 1))

    _rises = True

    def _scale(self) -> np.ndarray:
        """The standard deviations; 0 for a feature that has been constant, which becomes 0."""
        return np.sqrt(self._m2 / max(self._count, 1)) if self.with_std else np.ones(len(self._mean))

    def _grow(self, n_new: int) -> None:
        # Mean 0 and deviation 0, as if zeros had been learned from the start.
        self._mean = with_zeros(self._mean, n_new)
        self._m2 = with_zeros(self._m2, n_new)
        if self._own is not None:
            self._own = with_zeros(self._own, n_new, axis=1)

    def _fork(self, number: int) -> None:
        self._own = np.zeros((2, self._n_features))
        self._count_before = self._count

    def _mix(self, shards: Sequence[Any], base: Any) -> None:
        """Combine the statistics of each shard with the base's, by the formula of Chan et al."""
        for k, shard in enumerate(shards):
            if shard._count_before != base._count:
                raise ValueError(f"StreamScaler of models[{k}] did not begin as a fork of base: its own documents are unknown")
            own = np.stack((shard._mean, shard._m2)) if shard._own is None else shard._own
            if n := shard._count - shard._count_before:
                kernels.join(n, *self._reader.placed_from(self, shard, own), self._count, self._mean, self._m2)
                self._count += n
        self._own, self._count_before = None, 0

    def _learn_transform(self, block: Block, out: np.ndarray, asked: Any = None, before: Any = None) -> int:
        learned, count = kernels.learn_and_scale(
            block.X, block.offsets, self._count, self._mean, self._m2, self.with_std, out,
            self._count - self._count_before, self._own, asked and asked.X, before,
        )  # fmt: skip
        self._count = int(count)  # As plain Python, kernels return numpy's.
        return learned

    def _layers(self, n_features: int) -> tuple[Layer, ...]:
        scale = self._scale()
        return (Scale(self._mean.copy(), np.divide(1.0, scale, out=np.zeros_like(scale), where=scale > 0.0)),)

    def _transform(self, X: np.ndarray, offsets: np.ndarray, out: np.ndarray) -> None:
        kernels.scale(X, self._count, self._mean, self._m2, self.with_std, out)
