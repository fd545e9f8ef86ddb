"""Makes features relative to their query."""

import numpy as np

from online_rank._kernels.preprocessing import normalise_queries
from online_rank.base.form import InQuery, Layer
from online_rank.preprocessing._columns import StatelessTransformer


class QueryNormalizer(StatelessTransformer):
    """Scale each feature within each query, using only the documents of that query.

    Parameters
    ----------
    method
        `"standard"`: mean 0 and variance 1 in every query. `"minmax"`: from 0 to 1 in every query, (x - min) / (max - min), as
        LETOR 3.0 does it. A feature that is constant in a query becomes 0.

    Raises
    ------
    ValueError
        `method` is unknown.

    Examples
    --------
    >>> import numpy as np
    >>> from online_rank import QueryNormalizer
    >>> QueryNormalizer("minmax").transform_one(np.array([[1.0, 7.0], [2.0, 7.0], [5.0, 7.0]]))
    array([[0.  , 0.  ],
           [0.25, 0.  ],
           [1.  , 0.  ]])
    """

    def __init__(self, method: str = "standard"):
        super().__init__()
        if method not in ("standard", "minmax"):
            raise ValueError(f"method is {method!r}; it is 'standard' or 'minmax'")
        self.method = method

    _rises = True

    def _layers(self, n_features: int) -> tuple[Layer, ...]:
        return (InQuery(np.arange(n_features), np.ones(n_features, dtype=bool), self.method),)

    def _transform(self, X: np.ndarray, offsets: np.ndarray, out: np.ndarray) -> int:
        return normalise_queries(X, offsets, self.method == "minmax", out)
