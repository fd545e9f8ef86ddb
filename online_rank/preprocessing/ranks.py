"""Adds ranks within the query to the features."""

from collections.abc import Hashable

import numpy as np

from online_rank import arguments
from online_rank._kernels.preprocessing import beside_ranks
from online_rank.base.columns import are_numbers
from online_rank.base.form import InQuery, Layer
from online_rank.preprocessing._columns import StatelessTransformer

#: The beginning of the name of a rank.
_RANK_OF = "rank of "


class QueryRanks(StatelessTransformer):
    """Give each feature a companion: the rank of the document's value among those of its query.

    The companion of a value is the share of the query's documents with a smaller value, equal ones counted half, minus a half:
    so it is 0 in the middle, and for a feature that is constant in the query. The d features come first, then the d ranks, in
    the same
    order; the rank of a feature named f is called "rank of f".

    Put it first, and a scaler behind it: `QueryRanks() | StreamScaler() | SwapRanker()`. Ranks help where raw features have
    heavy tails (counts, lengths, page ranks of web search), since a linear model follows the few largest values. On features
    already normalised within the query they cost a little, mainly at first, because there are twice as many weights to learn.

    Parameters
    ----------
    keep
        Whether to keep the features beside their ranks.

    Examples
    --------
    >>> import numpy as np
    >>> from online_rank import QueryRanks
    >>> QueryRanks().transform_one(np.array([[5.0], [1e9], [7.0], [5.0]]))
    array([[ 5.00e+00, -2.50e-01],
           [ 1.00e+09,  3.75e-01],
           [ 7.00e+00,  1.25e-01],
           [ 5.00e+00, -2.50e-01]])
    >>> QueryRanks(keep=False).transform_one([{"clicks": 3}, {"clicks": 0}])
    [{'rank of clicks': 0.25}, {'rank of clicks': -0.25}]
    """

    def __init__(self, *, keep: bool = True) -> None:
        super().__init__()
        arguments.flag("keep", keep)
        self.keep = keep

    def _rising(self, feature: Hashable) -> tuple[Hashable, ...] | None:
        # The number of the rank of a feature without a name depends on how many there are.
        if are_numbers((feature,)):
            return None
        return self._given_names((feature,))

    def _risen_from(self, column: Hashable) -> Hashable:
        return column.removeprefix(_RANK_OF) if isinstance(column, str) else column

    def _layers(self, n_features: int) -> tuple[Layer, ...]:
        copies = 1 + self.keep
        relative = np.arange(copies * n_features) >= (n_features if self.keep else 0)
        return (InQuery(np.tile(np.arange(n_features), copies), relative, "ranks"),)

    def _given_names(self, names: tuple[Hashable, ...]) -> tuple[Hashable, ...]:
        given = (*(names if self.keep else ()), *(f"{_RANK_OF}{name}" for name in names))
        if len(set(given)) < len(given):
            raise ValueError(f"x: a feature is called {max(given, key=given.count)!r}, as the rank of another is")
        return given

    def _room(self, X: np.ndarray) -> np.ndarray:
        return np.empty((len(X), (1 + self.keep) * X.shape[1]), X.dtype)

    def _transform(self, X: np.ndarray, offsets: np.ndarray, out: np.ndarray) -> int:
        width = X.shape[1] if self.keep else 0
        out[:, :width] = X[:, :width]
        beside_ranks(X, offsets, width, out)
        return len(offsets) - 1
