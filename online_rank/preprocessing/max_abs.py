"""Scaling by the largest absolute value so far, which keeps zeros."""

from typing import Any

import numpy as np

from online_rank._kernels import preprocessing as dense
from online_rank._kernels import sparse
from online_rank.base.anatomy import Abilities
from online_rank.base.form import Layer, Scale
from online_rank.base.lock import locked
from online_rank.base.reader import Reader, by_name, find, with_names
from online_rank.base.schema import Array, Schema
from online_rank.base.transformer import FeatureTransformer
from online_rank.query import Block, SparseRows, require_finite


class MaxAbsStreamScaler(FeatureTransformer):
    r"""Divide each feature by its largest absolute value in the stream so far, in one pass and without centring.

    With :math:`a_j = \max |x_{ij}|` over all documents so far, this query's included, a value x becomes x / a_j, which lies in
    [-1, 1]; a feature that has only been 0 stays 0. Zeros stay zeros, so sparse queries stay sparse, and a query takes time
    proportional to its entries, however many features are known. Unknown features become 0.

    See Also
    --------
    StreamScaler : mean 0 and variance 1, for dense features.

    Examples
    --------
    >>> from online_rank import MaxAbsStreamScaler
    >>> scaler = MaxAbsStreamScaler()
    >>> scaler.learn_one([{"tf": 4.0, "age": -10.0}, {"tf": 1.0}])
    >>> scaler.transform_one([{"tf": 2.0}, {"age": 5.0}])
    [{'tf': 0.5, 'age': 0.0}, {'tf': 0.0, 'age': 0.5}]
    >>> scaler.largest
    {'tf': 4.0, 'age': 10.0}
    """

    _schema = Schema(_largest=Array("d", low=0.0, spare=True))

    _reader = Reader(touched_only="_largest")

    _lets_leave = True

    _keeps_columns = True

    def _abilities(self) -> Abilities:
        return Abilities(takes_sparse=True)

    def __init__(self) -> None:
        super().__init__()
        self._largest = np.empty(0)

    @property
    @locked
    def largest(self) -> np.ndarray | dict:
        """The largest absolute value of each feature: an array of shape (d,), or a dict for features with names."""
        return by_name(self, self._largest[: self._n_features])

    _rises = True

    def _grow(self, n_new: int) -> None:
        n = self._n_features
        if n + n_new > len(self._largest):
            # Twice as much as needed, so that growing takes O(1) for each feature.
            grown = np.zeros(2 * (n + n_new))
            grown[:n] = self._largest[:n]
            self._largest = grown
        self._largest[n : n + n_new] = 0.0

    def _layers(self, n_features: int) -> tuple[Layer, ...]:
        largest = self._largest[: self._n_features]
        factors = np.divide(1.0, largest, out=np.zeros_like(largest), where=largest > 0.0)
        return (Scale(np.zeros(len(factors)), factors),)

    def _learn_block(self, block: Block) -> Block:
        block = with_names(self, block)
        self._reader.meet(self, block)
        columns = find(self, block) if block.n_documents else None
        # The largest values of the block's own features, in their order.
        largest = self._largest if columns is None else self._largest[columns]
        out = _divided(block, largest, True)
        if columns is not None:
            self._largest[columns] = largest
        return block._replace(X=out)

    def _transform_block(self, block: Block) -> Block:
        block = with_names(self, block)
        columns = find(self, block) if block.n_documents else None
        if columns is None:
            largest = self._largest if self._n_features else np.zeros(block.X.shape[1])
        else:
            largest = np.where(columns >= 0, self._largest[columns], 0.0) if self._n_features else np.zeros(len(columns))
        return block._replace(X=_divided(block, largest, False))


def _divided(block: Block, largest: np.ndarray, learns: bool) -> Any:
    """The features of a block divided by the `largest` value of each. Raises ValueError unless they are finite."""
    X = block.X
    if not block.n_documents:
        # Without documents X may be narrower or wider than the features known.
        return X
    is_sparse = isinstance(X, SparseRows)
    values = X.values if is_sparse else X
    out = np.empty_like(values)
    divide = sparse.divide_by_largest if is_sparse else dense.divide_by_largest
    if divide(X, block.offsets, largest, out, learns) < len(block.w):
        require_finite(block)
    return X._replace(values=out) if is_sparse else out
