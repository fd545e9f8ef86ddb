"""Ridge regression within queries, with several regularisation strengths at once."""

import copy
import itertools
import math
from collections.abc import Sequence
from typing import Any

import numpy as np

from online_rank._kernels import ridge as kernels
from online_rank._kernels.dense import score
from online_rank.base import Abilities, Ranker
from online_rank.base.form import Head, Linear
from online_rank.base.growth import grown_triangle, with_zeros
from online_rank.base.lock import locked
from online_rank.base.schema import Array, Count, Derived, Integer, ListOf, Schema
from online_rank.measures.learned import discounts
from online_rank.measures.learned import measure as parse_measure
from online_rank.query import Block
from online_rank.rankers import fading

#: Largest first: until something has been ranked, the most cautious one serves.
_LAMBDAS = 10.0 ** np.linspace(2.0, -3.0, 11)
#: The weights are solved for again when the number of queries has grown by this factor.
_GROWTH = 1.2
#: Smallest number of documents added to the equations at once.
_AT_ONCE = 256
#: Approximate limit of the multiplications spent on decompositions in one query.
_WORK = 2e7


class RidgeRanker(Ranker):
    r"""Linear ranker that solves a ridge regression on the grades, standardised within each query.

    With C the features of a query (m, d) less their means in the query, and t its grades, standardised in the query,

    .. math:: A \mathrel{+}= C^\top C / m, \qquad b \mathrel{+}= C^\top t / m, \qquad w_\lambda = (A + \lambda I)^{-1} b

    for eleven lambdas from 10^-3 to 10^2. Before a query is learned, each w_lambda ranks it; the lambda with the least
    cumulative loss (1 - `measure`, ties broken pessimistically) so far serves rankings. Nothing has to be tuned.

    The equations are solved again whenever the number of queries has grown by a fifth, with the work spread over queries. A
    query takes O(m d^2), and the memory is 4 d^2 bytes plus 256 documents, so use it for up to a few hundred columns of about
    unit scale, behind `StreamQuantileMap` or a scaler.

    Nothing is learned from a query with a single grade or a single document.

    Parameters
    ----------
    measure
        The measure by which the lambdas are compared (see `online_rank.measure`).
    half_life
        The weight of a query halves after this many queries, for streams that change; or, as a text, after a time: `"12h"`,
        `"7d"`. Then `learn_one` needs `at=`, the time of each query, and each query is added to the equations at once, which
        takes longer with many features. None: all count alike.

    Raises
    ------
    ValueError
        A parameter is out of its range.

    References
    ----------
    Hoerl & Kennard, *Ridge Regression: Biased Estimation for Nonorthogonal Problems*, 1970.

    Examples
    --------
    >>> from online_rank import RidgeRanker, StreamQuantileMap
    >>> from online_rank.stream.synth import NoisyTeacher
    >>> model = StreamQuantileMap() | RidgeRanker()
    >>> for X, y in NoisyTeacher(n_queries=100, n_features=10, n_documents=20):
    ...     model.learn_one(X, y)
    >>> round(model["RidgeRanker"].best_lambda, 3)
    3.162
    """

    _schema = Schema(
        **fading.STATE,
        _measure=Derived(),
        _gram=Array(lambda ranker: ranker._n_features * (ranker._n_features + 1) // 2),
        _pending=ListOf(Array(None, "d"), kind=tuple),
        _moment=Array("d"),
        _weights=Array(len(_LAMBDAS), "d"),
        _losses=Array(len(_LAMBDAS)),
        _n_queries=Count(),
        _due=Count(),
        _next=Integer(0, len(_LAMBDAS)),
    )

    #: The stored triangle has half the square of this many entries.
    max_features = 2048
    _changes_in_place = False

    #: Older files lack it.
    _at: float | None = None

    half_life: float | str | None
    _keep: float
    _seconds: float | None

    def __init__(self, measure: str = "ndcg@10", *, half_life: float | str | None = None) -> None:
        super().__init__()
        self.measure = measure
        fading.fade_by(self, half_life)
        self._measure = parse_measure(measure)
        # The upper triangle of A, row by row, without the last queries, whose rows are still to be added.
        self._gram = np.empty(0)
        self._pending: tuple[np.ndarray, ...] = ()
        self._moment = np.empty(0)
        self._weights = np.empty((len(_LAMBDAS), 0))
        self._losses = np.zeros(len(_LAMBDAS))
        self._n_queries = 0
        self._due = 1
        # The index of the next lambda to solve for; equal to their number when all are done.
        self._next = len(_LAMBDAS)

    @property
    @locked
    def best_lambda(self) -> float:
        """The lambda that serves rankings."""
        return float(_LAMBDAS[self._best])

    @property
    @locked
    def weights(self) -> np.ndarray:
        """The weights that serve rankings, float64 (d,), a copy; in the order of `feature_names` when features are named."""
        return self._weights[self._best].copy()

    @property
    @locked
    def losses(self) -> dict[float, float]:
        """The cumulative loss of each lambda."""
        return dict(zip(_LAMBDAS.tolist(), self._losses.tolist(), strict=True))

    def _abilities(self) -> Abilities:
        return Abilities(takes_time=self._seconds is not None)

    def _mix(self, shards: Sequence[Any], base: Any) -> None:
        """Add to the base the sums that each shard has beyond it."""
        if self.half_life is not None:
            raise ValueError(
                f"half_life={self.half_life} depends on the order of queries, which several machines do not have; "
                "half_life=None can be mixed"
            )
        self._add_pending()
        gram, moment = self._gram, self._moment
        for shard in shards:
            self._gram = self._gram + (self._placed_gram(shard) - gram)
            self._moment = self._moment + (self._reader.placed_from(self, shard, shard._moment[None])[0] - moment)
            self._losses = self._losses + (shard._losses - base._losses)
            self._n_queries += shard._n_queries - base._n_queries
        self._last_round = copy.copy(shards[-1]._last_round)  # Each instance overwrites its own row.
        self._solve_all()

    def _placed_gram(self, other: "RidgeRanker") -> np.ndarray:
        """The matrix of another ranker, with its features in the order of this one."""
        if other.feature_names == self.feature_names and other._n_features == self._n_features:
            return other._full_gram()
        upper = np.zeros((other._n_features, other._n_features))
        upper[np.triu_indices(other._n_features)] = other._full_gram()
        placed = self._reader.placed_from(self, other, upper + np.triu(upper, 1).T)
        return self._reader.placed_from(self, other, placed.T)[np.triu_indices(self._n_features)]

    def _solve_all(self) -> None:
        """Solve for all lambdas now."""
        self._due = max(1, self._n_queries)
        self._next = len(_LAMBDAS)
        while self._solve_some():
            pass

    @property
    def _best(self) -> int:
        return int(np.argmin(self._losses))

    def _grow(self, n_new: int) -> None:
        self._gram = grown_triangle(self._gram, self._n_features, n_new)
        self._pending = tuple(with_zeros(rows, n_new, axis=1) for rows in self._pending)
        self._moment = with_zeros(self._moment, n_new)
        self._weights = with_zeros(self._weights, n_new, axis=1)

    def _added(self, n_new: int) -> int:
        # Half of each matrix, without the last queries and with them, and the one that is solved by.
        d = self._n_features
        return super()._added(n_new) + 2 * ((d + n_new) ** 2 - d**2)

    def _linear_weights(self, columns: Any = slice(None)) -> np.ndarray:
        return self._weights[self._best][columns]

    def _head(self) -> Head:
        return Linear(self.weights)

    def _score(self, X: np.ndarray) -> np.ndarray:
        scores = np.empty(len(X))
        score(X, self._weights[self._best], scores)
        return scores

    def _learn(self, block: Block, rounds: np.ndarray) -> int:
        for t, (start, stop) in enumerate(itertools.pairwise(block.offsets.tolist())):
            X, y, weight = block.X[start:stop], block.y[start:stop], block.w[t]
            losses = np.empty_like(self._losses)
            learns = kernels.judge_query(
                X, y, weight, *self._measure, discounts(stop - start), self._weights, self._best, self._gram, losses, rounds[t]
            )
            if learns < 0:
                return t
            keep = fading.kept(self, block, t)
            if learns:
                self._add(X, y, weight, keep)
                self._losses = keep * self._losses + weight * losses
                fading.pass_time(self, block, t)
                self._solve_some()
        return len(block.w)

    def _add(self, X: np.ndarray, y: np.ndarray, weight: float, keep: float) -> None:
        """Multiply the equations by `keep`, and add a query."""
        rows, moment = np.empty(X.shape), np.empty_like(self._moment)
        kernels.add_query(X, y, weight, keep, self._moment, rows, moment)
        if self._seconds is None:
            self._pending += (rows,)
        else:
            # Those that wait all fade alike; here each query fades on its own.
            gram = np.empty_like(self._gram)
            kernels.add_rows(rows, keep, self._gram, gram)
            self._gram = gram
        self._moment = moment
        self._n_queries += 1
        if sum(map(len, self._pending)) >= _AT_ONCE:
            self._add_pending()

    def _full_gram(self) -> np.ndarray:
        """The upper triangle of A, row by row, with all queries."""
        if not self._pending:
            return self._gram
        rows = np.concatenate(self._pending)
        if self._keep < 1.0:
            age = np.repeat(np.arange(len(self._pending))[::-1], [len(own) for own in self._pending])
            rows *= self._keep ** (0.5 * age[:, None])
        gram = np.empty_like(self._gram)
        kernels.add_rows(rows, self._keep ** len(self._pending), self._gram, gram)
        return gram

    def _add_pending(self) -> None:
        self._gram, self._pending = self._full_gram(), ()

    def _solve_some(self) -> bool:
        """Solve for a few lambdas if it is due. Returns whether there was anything to solve."""
        total, d = len(_LAMBDAS), self._n_features
        if self._next == total and self._n_queries >= self._due:
            self._next = 0
            self._due = math.ceil(_GROWTH * self._n_queries)
        if self._next == total or not d:
            return False
        self._add_pending()
        # So that all are done before they are due again, unless that takes too long for a query.
        gap = max(1.0, (_GROWTH - 1.0) * self._n_queries)
        number = min(math.ceil(total / gap), max(1, int(_WORK / (d**3 / 6.0))))
        stop, weights = min(self._next + number, total), self._weights.copy()
        kernels.solve(self._gram, self._moment, _LAMBDAS[self._next : stop], weights[self._next : stop])
        self._weights = weights
        self._next = stop
        return True
