"""Features mapped by their quantiles in a sample of the stream: the recommended first step on raw features."""

import functools
import itertools
from collections.abc import Hashable

import numpy as np

from online_rank._kernels import quantile_map as kernels
from online_rank._kernels.arrays import all_finite
from online_rank.base.columns import as_array
from online_rank.base.schema import Array, Count, Derived, Integer, ListOf, Schema
from online_rank.preprocessing._columns import ColumnTransformer, StatelessTransformer
from online_rank.query import Block, require_finite, single

__all__ = ["Ramps", "StreamQuantileMap"]

#: Documents in a chunk of the sample: what is copied when one of them is replaced.
_CHUNK = 16
#: About how many values of the sample are sorted in one query, so that no query waits for all knots.
_SORTED_AT_ONCE = 32_768
#: How often knots are found anew: when so many times the documents of the last time were seen.
_GROWTH = 1.5
#: Ramps run over [-2, 2], in which 95 % of normal scores lie, and are this high.
_REACH, _HEIGHT = 2.0, 0.7


#: More knots say nothing more of a sample, and a file could ask for any number.
_MOST_KNOTS = 4096


class StreamQuantileMap(ColumnTransformer):
    r"""Map each raw feature to normal scores by its quantiles in the stream, as they are and relative to the query.

    Every feature gives two columns. With F the mid-rank share of a value among the documents of a uniform sample,

    .. math:: g(x) = \Phi^{-1}(F(x)), \qquad q = (g - \bar g) / (\sigma_g + 0.1),

    where mean and deviation of g are those of the query (q is 0 where g is constant in the query). Only the order of values
    counts: outliers, units and tails up to 10^8 and beyond need no logarithm and no scaler.

    g is linear between at most `n_knots` distinct values of the sample, and constant beyond the smallest and the largest. The
    knots are found anew when 1.5 times as many documents were seen as the last time, a few features a query. With `frozen` they
    stay what they are once the sample is full, so that from then on the map is fixed and every bound for fixed features holds
    (THEORY 15); a map that goes on learning is a moving scaler (THEORY 10c).

    Parameters
    ----------
    ramps
        None, or the number P of knots of `Ramps`, which then follow: each of the two columns becomes P columns. A linear ranker
        then learns a piecewise linear function of every feature.
    n_sample
        Documents in the sample; with d features it takes 8 d n_sample bytes.
    n_knots
        Most knots of a feature.
    frozen
        Whether the map stays fixed after the first `n_sample` documents.
    seed
        Seed of the draws of the sample.

    Raises
    ------
    ValueError
        A parameter is out of its range.

    References
    ----------
    The sample is that of Vitter, *Random Sampling with a Reservoir*, 1985.

    Examples
    --------
    >>> from online_rank import StreamQuantileMap
    >>> quantiles = StreamQuantileMap()
    >>> quantiles.learn_one([{"clicks": 0}, {"clicks": 0}, {"clicks": 10_000}])

    F is 1/3 for the value 0 (half the share of the two documents that have it), and 5/6 for 10,000:

    >>> for x in quantiles.transform_one([{"clicks": 0}, {"clicks": 10_000}, {"clicks": 1e9}]):
    ...     print({name: round(value, 3) for name, value in x.items()})
    {'clicks': -0.431, 'clicks in query': -1.228}
    {'clicks': 0.967, 'clicks in query': 0.614}
    {'clicks': 0.967, 'clicks in query': 0.614}
    """

    _schema = Schema(
        _ramps=Derived(),
        _count=Count(),
        _due=Count(),
        _cursor=Integer(0, "d"),
        _sample=ListOf(Array(_CHUNK, "d"), lambda made: -(-min(made._count, made.n_sample) // _CHUNK), kind=tuple),
        _values=Array("d", "n_knots"),
        _scores=Array("d", "n_knots"),
        _sizes=Array("d", dtype="int64", low=0, high="n_knots"),
    )

    _changes_in_place = False

    def __init__(
        self,
        ramps: int | None = None,
        *,
        n_sample: int = 2048,
        n_knots: int = 64,
        frozen: bool = False,
        seed: int = 0,
    ):
        super().__init__()
        if n_sample < _CHUNK:
            raise ValueError(f"n_sample is {n_sample}; at least {_CHUNK} documents are needed")
        if not 2 <= n_knots <= _MOST_KNOTS:
            raise ValueError(f"n_knots is {n_knots}; it is from 2 to {_MOST_KNOTS}")
        self.ramps = ramps
        self.n_sample = n_sample
        self.n_knots = n_knots
        self.frozen = frozen
        self.seed = seed
        self._ramps = None if ramps is None else Ramps(ramps)
        self._count = 0
        self._due = 0
        # Features before this one have the knots of the last time; n_features when all have.
        self._cursor = 0
        self._sample: tuple[np.ndarray, ...] = ()
        self._values = np.empty((0, n_knots))
        self._scores = np.empty((0, n_knots))
        self._sizes = np.empty(0, dtype=np.int64)

    @property
    def n_documents(self) -> int:
        """Number of documents learned from."""
        return self._count

    def knots(self, feature: Hashable) -> tuple[np.ndarray, np.ndarray]:
        """Values and normal scores between which the map of a feature (its name, or its number) is linear.

        Returns
        -------
        Two float64 arrays of at most `n_knots` numbers, both ascending.
        """
        j = self.feature_names.index(feature) if self.feature_names is not None else int(feature)  # type: ignore[call-overload]
        size = self._sizes[j]
        return self._values[j, :size].copy(), self._scores[j, :size].copy()

    def _check_state(self) -> None:
        """Raise ValueError unless the knots of each feature ascend, as the search for a place among them needs."""
        beyond = np.arange(1, self.n_knots) >= self._sizes[:, None]
        for table in (self._values, self._scores):
            if not ((table[:, 1:] > table[:, :-1]) | beyond).all():
                raise ValueError("the knots of a feature do not ascend")

    def _grow(self, n_new: int) -> None:
        # What the documents before would have left, had they shown the new features, as 0; their knots are found next.
        self._sample = tuple(np.concatenate([chunk, np.zeros((_CHUNK, n_new))], axis=1) for chunk in self._sample)
        new = np.zeros((n_new, self.n_knots))
        self._values = np.concatenate([self._values, new])
        self._scores = np.concatenate([self._scores, new])
        self._sizes = np.concatenate([self._sizes, np.zeros(n_new, dtype=np.int64)])

    def _room(self, X: np.ndarray) -> np.ndarray:
        return np.empty((len(X), X.shape[1] * 2 * (self.ramps or 1)))

    def _given_names(self, names: tuple[Hashable, ...]) -> tuple[Hashable, ...]:
        pairs = _pair_names(names)
        return pairs if self._ramps is None else _ramp_names(pairs, self._ramps.n_knots)

    def _learn_transform(self, block: Block, out: np.ndarray) -> int:
        if not all_finite(block.X.reshape(-1)):
            return 0
        for start, stop in itertools.pairwise(block.offsets.tolist()):
            if stop > start:
                X = block.X[start:stop]
                self._learn_documents(X)
                self._transform(X, single(stop - start), out[start:stop])
        return len(block.w)

    def _transform(self, X: np.ndarray, offsets: np.ndarray, out: np.ndarray) -> None:
        mapped = out if self._ramps is None else np.empty((len(X), 2 * X.shape[1]))
        kernels.map_queries(X, offsets, self._values, self._scores, self._sizes, mapped)
        if self._ramps is not None:
            self._ramps._transform(mapped, offsets, out)

    def _learn_documents(self, X: np.ndarray) -> None:
        """Take documents into the sample, and find the knots of as many features as it is time for."""
        full = self._count >= self.n_sample
        if not (self.frozen and full):
            slots = np.empty(len(X), dtype=np.int64)
            kernels.reservoir_slots(self.seed, self._count, self.n_sample, slots)
            self._take(X, slots)
            self._count += len(X)
            fills = not full and self._count >= self.n_sample
            if self._cursor == self._n_features and (self._count >= self._due or (self.frozen and fills)):
                self._cursor = 0
        if self._cursor < self._n_features:
            self._find_knots()

    def _take(self, X: np.ndarray, slots: np.ndarray) -> None:
        """Put each document into its slot. Chunks are replaced, never changed: undoing needs no copy of the sample."""
        sample, own = list(self._sample), set()
        for i in np.flatnonzero(slots >= 0).tolist():
            k, row = divmod(int(slots[i]), _CHUNK)
            if k == len(sample):
                sample.append(np.zeros((_CHUNK, self._n_features)))
                own.add(k)
            if k not in own:
                sample[k] = sample[k].copy()
                own.add(k)
            sample[k][row] = X[i]
        self._sample = tuple(sample)

    def _find_knots(self) -> None:
        rows = min(self._count, self.n_sample)
        if self._cursor == 0:
            self._due = int(_GROWTH * self._count)
        stop = min(self._n_features, self._cursor + max(1, _SORTED_AT_ONCE // rows))
        columns = np.concatenate([chunk[:, self._cursor : stop] for chunk in self._sample])[:rows].T.copy()
        columns.sort()
        # No knot is -0.0: which of two equal values comes first is chance.
        columns += 0.0
        self._values, self._scores, self._sizes = self._values.copy(), self._scores.copy(), self._sizes.copy()
        kernels.find_knots(columns, self._cursor, self._values, self._scores, self._sizes)
        self._cursor = stop


class Ramps(StatelessTransformer):
    """Make piecewise linear functions of every feature linear: its value, and a ramp between each pair of neighbouring knots.

    A value z gives z and 0.7 clip((z - P_k) / (P_{k+1} - P_k), 0, 1) for the `n_knots` knots P_k at equal distances over
    [-2, 2]; so it stands behind `StreamQuantileMap`, whose columns have about that range, or another scaler.

    Parameters
    ----------
    n_knots
        Number of knots, at least 2; each feature becomes as many columns.

    Raises
    ------
    ValueError
        `n_knots` is below 2.

    Examples
    --------
    >>> import numpy as np
    >>> from online_rank.preprocessing import Ramps
    >>> Ramps(3).transform_one(np.array([[-1.0], [3.0]]))
    array([[-1.  ,  0.35,  0.  ],
           [ 3.  ,  0.7 ,  0.7 ]])
    """

    _schema = Schema()

    def __init__(self, n_knots: int = 12):
        super().__init__()
        if isinstance(n_knots, bool) or not isinstance(n_knots, int) or not 2 <= n_knots <= _MOST_KNOTS:
            raise ValueError(f"the number of knots of ramps is {n_knots}; it is an integer from 2 to {_MOST_KNOTS}")
        self.n_knots = n_knots

    def _transform(self, X: np.ndarray, offsets: np.ndarray, out: np.ndarray) -> int:
        kernels.ramps(X, _knots(self.n_knots), _HEIGHT, out)
        return len(offsets) - 1

    def _transform_block(self, block: Block) -> Block:
        require_finite(block)
        X = as_array(block.X, self)
        out = np.empty((len(X), X.shape[1] * self.n_knots), X.dtype)
        self._transform(X, block.offsets, out)
        return block._replace(X=out, names=None if block.names is None else _ramp_names(block.names, self.n_knots))


@functools.cache
def _knots(n_knots: int) -> np.ndarray:
    return np.linspace(-_REACH, _REACH, n_knots)


@functools.lru_cache(maxsize=64)
def _pair_names(names: tuple[Hashable, ...]) -> tuple[Hashable, ...]:
    """Each name, and after it that of the column relative to the query: new features come last."""
    return tuple(
        given for name in names for given in (name, f"{name} in query" if isinstance(name, str) else (name, "in query"))
    )


@functools.lru_cache(maxsize=64)
def _ramp_names(names: tuple[Hashable, ...], n_knots: int) -> tuple[Hashable, ...]:
    starts = _knots(n_knots)[:-1].tolist()
    return tuple(given for name in names for given in (name, *((name, f"> {start:.3g}") for start in starts)))
