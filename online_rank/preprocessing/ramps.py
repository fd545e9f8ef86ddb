"""Expands features into ramps."""

import functools
from collections.abc import Hashable

import numpy as np

from online_rank import arguments
from online_rank._kernels import quantile_map as kernels
from online_rank.base.columns import are_numbers
from online_rank.base.form import Curves, Layer
from online_rank.preprocessing._columns import StatelessTransformer, names_of_several, source_of

#: Ramps run over [-2, 2], in which 95 % of normal scores lie, and are this high.
_REACH, _HEIGHT = 2.0, 0.7


class Ramps(StatelessTransformer):
    """Expand every feature into ramps, so that a linear ranker can learn piecewise linear functions of it.

    A value z gives z and 0.7 clip((z - P_k) / (P_{k+1} - P_k), 0, 1) for the `n_knots` knots P_k at equal distances over [-2,
    2], so put it behind `StreamQuantileMap`, whose columns have about that range, or another scaler.

    Parameters
    ----------
    n_knots
        Number of knots, from 2 to 256; each feature becomes as many columns.

    Raises
    ------
    TypeError, ValueError
        `n_knots` is no such number.

    Examples
    --------
    >>> import numpy as np
    >>> from online_rank.preprocessing import Ramps
    >>> Ramps(3).transform_one(np.array([[-1.0], [3.0]]))
    array([[-1.  ,  0.35,  0.  ],
           [ 3.  ,  0.7 ,  0.7 ]])
    """

    _rises = True

    def __init__(self, n_knots: int = 12):
        super().__init__()
        arguments.integer("n_knots", n_knots, 2, 256)
        self.n_knots = n_knots

    def _given(self, n_features: int) -> int:
        return n_features * self.n_knots

    def _given_names(self, names: tuple[Hashable, ...]) -> tuple[Hashable, ...]:
        return _ramp_names(names, self.n_knots)

    def _risen_from(self, column: Hashable) -> Hashable:
        if are_numbers((column,)):
            return source_of(column, self.n_knots)
        is_ramp = isinstance(column, tuple) and isinstance(column[-1], str) and column[-1].startswith("> ")
        return column[0] if is_ramp else column  # type: ignore[index]

    def _layers(self, n_features: int) -> tuple[Layer, ...]:
        points, ends = _knots(self.n_knots), np.array([0.0, _HEIGHT])
        own = [None, *((points[k : k + 2], ends) for k in range(self.n_knots - 1))]
        return (Curves(np.repeat(np.arange(n_features), self.n_knots), tuple(own * n_features)),)

    def _room(self, X: np.ndarray) -> np.ndarray:
        return np.empty((len(X), X.shape[1] * self.n_knots), X.dtype)

    def _transform(self, X: np.ndarray, offsets: np.ndarray, out: np.ndarray) -> int:
        kernels.ramps(X, _knots(self.n_knots), _HEIGHT, out)
        return len(offsets) - 1


@functools.cache
def _knots(n_knots: int) -> np.ndarray:
    return np.linspace(-_REACH, _REACH, n_knots)


@functools.lru_cache(maxsize=64)
def _ramp_names(names: tuple[Hashable, ...], n_knots: int) -> tuple[Hashable, ...]:
    ends = [f"> {start:.3g}" for start in _knots(n_knots)[:-1].tolist()]
    return names_of_several(names, n_knots, lambda name: (name, *((name, end) for end in ends)))
