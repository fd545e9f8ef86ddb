"""Weights and their averages, and the base class of linear rankers."""

import copy
import warnings
from collections.abc import Hashable, Mapping, Sequence
from typing import Any, Self

import numpy as np

from online_rank import arguments
from online_rank._kernels import dense, sparse
from online_rank._kernels.averages import scale_and_shift
from online_rank._kernels.codes import AVERAGED, SINCE_REFERENCE
from online_rank.base import Ranker
from online_rank.base.form import Head, Linear
from online_rank.base.growth import with_zeros
from online_rank.base.halving import halved
from online_rank.base.lock import locked
from online_rank.base.reader import Reader, columns_of, own_names
from online_rank.base.schema import Array, Derived, FeaturesWhere, Schema
from online_rank.query import Block, SparseRows
from online_rank.query.sparse import as_rows
from online_rank.rankers.rules import as_weights, rule_weights
from online_rank.rankers.signs import against_signs, clip, require_in_array


def averaging(half_life: float | None) -> float:
    """The decay factor of an average of weights in one query, by its half-life: None if none is forgotten, 0 for no average.

    Raises TypeError or ValueError for anything else than None and numbers >= 0.
    """
    arguments.number("half_life", half_life, 0.0, optional=True)
    # Below 2^-300 only the last weights count; the limit keeps the inverse finite.
    return halved(min(1.0 / half_life, 300.0)) if half_life else 1.0


#: Values this many times as large as most of a sparse query, whose words and ids count 1, decide its ranking alone.
_LARGE = 20.0
_SCALE_HINT = (
    "some sparse features are more than 20 times as large as most, as prices among words are, and outweigh them: put "
    "MaxAbsStreamScaler() before the ranker, as in HashedFeatures() | MaxAbsStreamScaler() | PerceptronRanker()"
)


def _served(ranker: Any) -> np.ndarray:
    return ranker._average if ranker._averages else ranker._weights


#: The weights that serve rankings: a property of rankers with weights that learn, and an average of them if they average.
served = property(_served)


def begin_to_average(ranker: Any, half_life: float | None, n_counters: int) -> None:
    """Give a ranker weights that learn, and an average of them unless `half_life` is 0.

    Its kernel keeps the effective number of averaged weight vectors in `_counters[0]`.
    """
    ranker._averages = half_life != 0
    ranker._weights, ranker._average = np.empty(0), np.empty(0)
    ranker._counters = np.zeros(n_counters)


class RowReader(Reader):
    """Reads features for linear weights, which become rows with the first sparse query, and are rows from then on."""

    def fits(self, step: Any, block: Block) -> bool:
        """As for every reader; the first sparse query does not fit, since it converts the state to rows."""
        return (step._rows is not None or type(block.X) is np.ndarray) and super().fits(step, block)

    def touched(self, step: Any, block: Block) -> np.ndarray | None:
        """As for every reader; a lazy average with decay moves its reference once in 400 half-lives, which changes all rows."""
        rounds = step._counters[SINCE_REFERENCE] + len(block.w) + 2.0
        moves = step._decay < 1.0 and rounds > 400.0 * step.half_life
        return None if moves else super().touched(step, block)


class LinearRanker(Ranker):
    """A ranker whose scores are linear in the features.

    Its state is two arrays (d,), or, from the first sparse query on, one array with a row for each feature (`_kernels.sparse`),
    of which a query touches only the rows of its features.
    """

    _schema = Schema(
        _averages=Derived(),
        _rows=Array("d", "_row_width", spare=True, optional=True),
        _weights=Array(FeaturesWhere(lambda ranker: ranker._rows is None)),
        _average=Array(FeaturesWhere(lambda ranker: ranker._averages and ranker._rows is None)),
    )

    _reader = RowReader(touched_only="_rows")
    _served = served
    _averages: bool
    _weights: np.ndarray
    _average: np.ndarray
    _counters: np.ndarray

    _lets_leave = True

    half_life: Any = 0

    #: Number of columns of `_rows`.
    _row_width = sparse.OPTIMIZER

    #: The signs of weights that are known, where the ranker takes them.
    signs: Mapping[Any, int] | None = None

    #: How `from_rule` begins where the caller does not say: arguments of `from_weights`.
    _rule_beginning: Mapping[str, float] = {}

    def __init__(self, half_life: float | None, n_counters: int) -> None:
        super().__init__()
        begin_to_average(self, half_life, n_counters)
        self._rows: np.ndarray | None = None

    @classmethod
    def from_weights(
        cls, weights: Sequence[float] | np.ndarray | Mapping[Hashable, float], *, strength: float = 1.0, **parameters: Any
    ) -> Self:
        """A ranker that begins with given weights, for example from a model trained offline or the present ranking formula.

        It ranks by them at once, and learns from there. The larger they are, the longer they prevail: an update of a perceptron
        adds at most the difference of two documents.

        Parameters
        ----------
        weights
            d numbers for features known by their position, or `{feature: weight}`.
        strength
            Factor of the weights: the larger, the longer the ranker holds on to them. For `SwapRanker`, which is scale-free:
            the standard deviation of their scores within a query.
        parameters
            Arguments of the constructor.

        Raises
        ------
        TypeError, ValueError
            `weights` is empty or of another type, a weight is not a finite number, or the ranker cannot begin with weights.

        Examples
        --------
        >>> from online_rank import PerceptronRanker
        >>> model = PerceptronRanker.from_weights({"clicks": 2.0, "age": -0.5})
        >>> model.rank_one({"old": {"clicks": 1.0, "age": 9.0}, "new": {"clicks": 4.0, "age": 1.0}})
        ['new', 'old']
        """
        arguments.number("strength", strength, above=0)
        names, values = as_weights(weights)
        model = cls(**parameters)
        model._reader.extend(model, names, 0 if names else len(values))
        model._begin_with(values, strength)
        return model

    @classmethod
    def from_rule(
        cls,
        rule: str,
        runs: Sequence[str],
        *,
        weights: Sequence[float] | None = None,
        strength: float | None = None,
        **parameters: Any,
    ) -> Self:
        """A ranker that begins as a fusion rule, behind `RunFeatures`, and learns from there.

        Before the first feedback it ranks exactly as the rule; equal scores keep the order of the candidates.

        Parameters
        ----------
        rule
            `"rrf"`, reciprocal rank fusion; `"minmax"` or `"zscore"`, the weighted sum of normalised scores.
        runs
            Names of the retrievers.
        weights
            One weight for each run; None for 1 each.
        strength
            How strongly the ranker holds on to the rule, as for `from_weights`. None for 1, or 10 for `SwapRanker`.
        parameters
            Arguments of the constructor. The default of `wealth` of `SwapRanker` is 3 here: it and `strength` are chosen on
            synthetic fusion streams.

        Raises
        ------
        TypeError, ValueError
            The rule is unknown, or an argument is out of its range.

        Examples
        --------
        >>> from online_rank import PerceptronRanker, RunFeatures, Runs
        >>> model = RunFeatures() | PerceptronRanker.from_rule("minmax", ["bm25", "vector"], weights=[0.3, 0.7])
        >>> query = Runs({"bm25": [("a", 9.0), ("b", 5.0)], "vector": [("b", 0.8), ("c", 0.2)]})
        >>> model.predict_one(query)
        {'a': 0.3, 'b': 0.7, 'c': 0.0}
        """
        given = parameters if strength is None else {"strength": strength, **parameters}
        return cls.from_weights(rule_weights(rule, runs, weights), **{**cls._rule_beginning, **given})

    def _signed_columns(self) -> tuple[np.ndarray, np.ndarray]:
        """The columns that have a sign, and their signs, float64."""
        if self._columns is None:
            require_in_array(self.signs, self._n_features)
        names = tuple(self.signs or ())
        columns, signs = columns_of(self, names), np.array(list((self.signs or {}).values()), dtype=np.float64)
        return columns[columns >= 0], signs[columns >= 0]

    def _warn_of_unknown_signs(self, columns: np.ndarray) -> None:
        """Before the first round, warn if a feature with a sign is not there: it may be misspelt."""
        if self._last_round is None and len(columns) < len(self.signs or ()):
            lacking = [name for name in self.signs or () if self._columns is None or self._columns.missing([name])]
            warnings.warn(
                f"signs: the first query has no feature {', '.join(map(repr, lacking))}; a sign holds for "
                "features of that name alone",
                stacklevel=7,
            )

    def _check_state(self) -> None:
        """Raise ValueError if a weight that learns has the wrong sign."""
        wrong = against_signs(self.signs, own_names(self), self.weights)
        if wrong is not None:
            name, weight = wrong
            raise ValueError(f"weights: {name!r} has weight {weight:g}, but signs={{{name!r}: {(self.signs or {})[name]}}}")

    def _begin_with(self, weights: np.ndarray, strength: float) -> None:
        """Set the initial weights (d,), for known features, of a ranker that has learned nothing yet."""
        self._weights = strength * weights
        if self._averages:
            self._average = self._weights.copy()

    @property
    @locked
    def weights(self) -> np.ndarray:
        """The weights that learn, float64 (d,), a copy; in the order of `feature_names` when features are named."""
        if self._rows is not None:
            return self._rows[: self._n_features, sparse.WEIGHT].copy()
        return self._weights.copy()

    @property
    @locked
    def served_weights(self) -> np.ndarray:
        """The weights that serve rankings, float64 (d,), a copy: the average of those that learn, if the ranker averages."""
        weights = self._served.copy() if self._rows is None else self._served_in(self._rows[: self._n_features])
        if self.signs is not None:
            # An average kept for sparse queries is computed from sums, whose rounding may leave a 0 with the wrong sign.
            clip(weights, *self._signed_columns())
        return weights

    def _served_in(self, rows: np.ndarray) -> np.ndarray:
        """The weights that serve rankings, from rows of the state."""
        scale, shift = self._scale_and_shift()
        served: np.ndarray = scale * (rows[:, sparse.WEIGHT] - shift * rows[:, sparse.LAZY])
        return served

    @property
    def _decay(self) -> float:
        return averaging(self.half_life)

    def _scale_and_shift(self) -> tuple[float, float]:
        return scale_and_shift(self._decay, self._averages, self._counters)

    def _mix_weights(self, shards: Sequence[Any], base: Any) -> None:
        """Average the weights, mix averages (`_mixed_average`), and add up counters, counting `base` once."""
        weights, counters = np.zeros(self._n_features), base._counters.copy()
        served, share = [], 1.0 / len(shards)
        for shard in shards:
            learned, its_average = self._reader.placed_from(self, shard, np.stack((shard.weights, shard.served_weights)))
            weights += share * learned
            served.append(its_average)
            counters += shard._counters - base._counters
        average, number = self._mixed_average(shards, served, base)
        # The relative error that two roundings leave in a sum of numbers >= 0.
        self._counters = np.maximum(counters, 0.0)
        self._counters[[AVERAGED, SINCE_REFERENCE]] = number, 0.0
        sparse_state = any(ranker._rows is not None for ranker in (base, *shards))
        self._rows, self._weights = None, weights
        if self._averages:
            self._average = average if number > 0.0 else weights.copy()
        if sparse_state:
            self._make_sparse()
        self._last_round = copy.copy(shards[-1]._last_round)  # Each instance overwrites its own row.

    def _mixed_average(self, shards: Sequence[Any], served: Sequence[np.ndarray], base: Any) -> tuple[np.ndarray, float]:
        """The average of a mixture (d,), given the averages of its shards in its own columns, and the number of vectors in it.

        An average of all vectors is taken over the vectors of all machines; the vectors of `base` count once. With a half-life
        it is the average of the mixed weights, as if the n-th last queries of all machines had come together: the sum of
        vectors, each times its power of one half, is linear in them.
        """
        # The sum of the vectors, and their number behind it.
        sums = [shard._counters[AVERAGED] * np.append(own, 1.0) for shard, own in zip(shards, served, strict=True)]
        if self._decay == 1.0:
            before = base._counters[AVERAGED] * np.append(
                self._reader.placed_from(self, base, base.served_weights[None])[0], 1.0
            )
            mixed = sum((own - before for own in sums), before)
        else:
            mixed = sum((1.0 / len(shards) * own for own in sums), np.zeros(self._n_features + 1))
        number = max(float(mixed[-1]), 0.0)
        return (mixed[:-1] / number if number > 0.0 else mixed[:-1]), number

    def _grow(self, n_new: int) -> None:
        if self._rows is not None:
            self._rows = _grown(self._rows, self._n_features, n_new)
            return
        self._weights = with_zeros(self._weights, n_new)
        if self._averages:
            self._average = with_zeros(self._average, n_new)

    def _make_sparse(self) -> np.ndarray:
        """Convert the state to rows, for good. Returns them."""
        if self._rows is not None:
            return self._rows
        rows = _aligned_zeros(self._n_features, self._row_width)
        if self._weights.any() or self._average.any():
            self._fill(rows)
        # In one statement, so that an interrupt leaves either the old or the new state.
        vars(self).update(_rows=rows, _weights=np.empty(0), _average=np.empty(0), **self._in_rows(rows))
        return rows

    def _for_kernel(self, X: Any) -> tuple[Any, np.ndarray, Any]:
        """The features of a block, and the `w` and `average` that kernels learn with."""
        if self._rows is None and type(X) is not SparseRows:
            return X, self._weights, self._average
        if self._rows is None:
            sizes = np.abs(X.values[X.values != 0.0])
            if len(sizes) and np.median(sizes / sizes.max()) < 1.0 / _LARGE:  # 20 times 1e308 is no number
                warnings.warn(_SCALE_HINT, stacklevel=6)
        return as_rows(X), self._make_sparse(), self._averages

    def _in_rows(self, rows: np.ndarray) -> dict[str, Any]:
        """Write further state of the features to new rows. Returns the attributes that the rows replace."""
        return {}

    def _fill(self, rows: np.ndarray) -> None:
        """Write the weights, and the state of the lazy average, to new rows."""
        rows[:, sparse.WEIGHT] = self._weights
        if self._averages and self._counters[AVERAGED] > 0.0:
            scale, shift = self._scale_and_shift()
            rows[:, sparse.LAZY] = (self._weights - self._average / scale) / shift
        elif self._averages and self._decay < 1.0:
            rows[:, sparse.LAZY] = self._weights / self._decay

    def _linear_weights(self, columns: Any = slice(None)) -> np.ndarray:
        return self._served[columns] if self._rows is None else self._served_in(self._rows[: self._n_features][columns])

    def _head(self) -> Head:
        return Linear(self.served_weights)

    def _score(self, X: Any) -> np.ndarray:
        if self._rows is not None:
            scores = np.empty(X.shape[0])
            sparse.score(as_rows(X), self._rows, *self._scale_and_shift(), scores)
            return scores
        return scores_by(self._served, X)

    def _unaveraged_scores(self, X: Any) -> np.ndarray:
        """Scores of documents by the weights that learn, as learning computes them."""
        scores = np.empty(X.shape[0])
        if self._rows is not None:
            sparse.score_with_norms(as_rows(X), self._rows, scores)
        elif isinstance(X, SparseRows):
            sparse.score_with_norms(X, self._weights[:, None], scores)
        else:
            dense.score_with_norms(X, self._weights, scores)
        return scores


def _aligned_zeros(n: int, width: int) -> np.ndarray:
    """Zeros (n, width) aligned to cache lines: otherwise every second row of 32 bytes would cross two."""
    flat = np.zeros(n * width + 8)
    skipped = -flat.ctypes.data % 64 // 8
    return flat[skipped : skipped + n * width].reshape(n, width)


def _grown(rows: np.ndarray, n: int, n_new: int) -> np.ndarray:
    """Rows of which `n` are in use, with room for `n_new` more, which are zero."""
    if n + n_new > len(rows):
        # Twice as much as needed, so that growing takes O(1) for each feature.
        grown = _aligned_zeros(2 * (n + n_new), rows.shape[1])
        grown[:n] = rows[:n]
        return grown
    rows[n : n + n_new] = 0.0
    return rows


def scores_by(w: np.ndarray, X: Any) -> np.ndarray:
    """Scores of documents by weights (d,), float64."""
    scores = np.empty(X.shape[0])
    if isinstance(X, SparseRows):
        sparse.score_with_norms(X, w[:, None], scores)
    else:
        dense.score(X, w, scores)
    return scores
