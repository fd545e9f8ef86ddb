"""A learner with one curve for each feature."""

import itertools
from typing import Any

import numpy as np

from online_rank._kernels import additive as kernels
from online_rank._kernels import curves
from online_rank._kernels.codes import ADAPTIVE, N_COUNTERS, ROOT
from online_rank.arguments import flag, number
from online_rank.arguments import seed as require_seed
from online_rank.base import Abilities, Ranker
from online_rank.base.growth import with_zeros
from online_rank.base.schema import Array, Count, Derived, Nested, Schema
from online_rank.base.undo import Undo, record
from online_rank.measures.learned import discounts
from online_rank.measures.learned import measure as parse_measure
from online_rank.preprocessing import StreamQuantileMap
from online_rank.query import Block, single
from online_rank.rankers.hedge import LEAST, HedgeAccount, opening
from online_rank.rankers.halving import halved

#: The members, in the order of kernels.
MEMBERS = ("last", "slow", "fast", "newton")
_MARGIN = 0.3
_NEWTON_HALF_LIFE = 40.0
_CANDIDATES = np.array(
    [np.eye(4)[i] for i in range(4)] + [(np.eye(4)[i] + np.eye(4)[j]) / 2.0 for i, j in itertools.combinations(range(4), 2)]
)


class AdditiveRanker(Ranker):
    """One curve a feature."""

    _schema = Schema(
        _measure=Derived(),
        _config=Derived(),
        _served=Derived(),
        _front=Nested("StreamQuantileMap"),
        _weights=Array("d", curves.N_COLUMNS, curves.N_MEMBERS),
        _sums=Array("d", 2, 2, curves.POINTS + 1),
        _places=Array("d", 2, dtype="int64", low=-1),
        _gram=Array(None),
        _pending=Array(None),
        _numbers=Array(kernels.N_NUMBERS, low=0.0),
        _losses=Array(len(_CANDIDATES), low=0.0),
        _account=Array(len(HedgeAccount._fields), low=LEAST),
        _n_queries=Count(),
    )

    def __init__(self, measure: str = "ndcg@10", *, half_lives: Any = (1000, 50), relative: bool = True, rate: float = 1.0, seed: int = 0) -> None:
        super().__init__()
        number("rate", rate, 0.0)
        require_seed(seed)
        self.measure = measure
        self.half_lives = half_lives
        self.relative = relative
        self.rate = rate
        self.seed = seed
        self._measure = parse_measure(measure)
        config = [*self._measure, ADAPTIVE, ROOT, _MARGIN, 1.0, 0.0, 0.0, rate, 0.0, seed, relative]
        self._config = np.array(config, dtype=np.float64)
        self._front = StreamQuantileMap.taking_missing(seed)
        self._weights = np.zeros((0, curves.N_COLUMNS, curves.N_MEMBERS))
        self._sums = np.zeros((0, 2, 2, curves.POINTS + 1))
        self._places = np.zeros((0, 2), dtype=np.int64)
        self._gram = np.zeros(0)
        self._pending = np.zeros(0)
        self._numbers = np.zeros(kernels.N_NUMBERS)
        self._losses = np.zeros(len(_CANDIDATES))
        self._account = opening()
        self._n_queries = 0
        self._served: np.ndarray | None = None

    def _abilities(self) -> Abilities:
        return Abilities(takes_served=True)

    def _grow(self, n_new: int) -> None:
        self._front._extend(None, n_new) if not self._front._n_features else self._front._grow(n_new)
        self._weights = with_zeros(self._weights, n_new)
        self._sums = with_zeros(self._sums, n_new)
        d = len(self._pending)
        new = np.column_stack([np.arange(d, d + n_new), np.full(n_new, -1)])
        self._places = np.concatenate([self._places, new])
        self._pending = with_zeros(self._pending, n_new)
        self._gram = grown_triangle(self._gram, d, n_new)
        self._served = None

    def _record(self, log: list[Undo], block: Any = None) -> None:
        super()._record(log, block)
        record(log, self._front, block)

    def _shares(self) -> np.ndarray:
        chosen = np.empty(4 + len(self._losses))
        kernels.choose(self._numbers, _CANDIDATES, self._losses, self._account, np.full(len(_CANDIDATES), 1 / len(_CANDIDATES)), self.rate, False, -1.0, chosen)
        return chosen

    def _curves(self) -> np.ndarray:
        if self._served is None:
            chosen = self._shares()
            served = np.empty((self._n_features, 2, 2, curves.N_CELLS))
            curves.draw_curves(chosen[:4], self._weights, self._sums, served)
            self._served = served
        return self._served

    def _score(self, X: np.ndarray) -> np.ndarray:
        return self._score_queries(X, single(len(X)))

    def _score_queries(self, X: np.ndarray, offsets: np.ndarray) -> np.ndarray:
        _, counts, knots, cells, finders = self._front.table
        scores = np.empty(len(X))
        curves.score(X, offsets, counts, knots, cells, finders, self.relative, self._curves(), scores)
        return scores

    def _learn(self, block: Block, rounds: np.ndarray) -> int:
        X, offsets, front, t, n = block.X, block.offsets, self._front, 0, len(block.w)
        self._served = None
        while t < n:
            first = int(offsets[t])
            stop = front.run_from(offsets, t)
            begins = not front.n_documents
            if begins:
                front.learn_run(X[first : int(offsets[stop])])
            _, counts, knots, cells, finders = front.table
            end = int(offsets[stop])
            keep = np.empty((stop - t, 4))
            keep[:] = halved(1 / self.half_lives[0]), halved(1 / self.half_lives[1]), halved(1 / _NEWTON_HALF_LIFE), 1.0
            done = kernels.learn(
                X[first:end], block.y[first:end], offsets[t : stop + 1] - first, block.w[t:stop], discounts(end - first), self._config, counts, knots, cells, finders, self._weights, self._sums, self._places,
                self._gram, self._pending, self._numbers, _CANDIDATES, self._losses, self._account, np.full(len(_CANDIDATES), 1 / len(_CANDIDATES)), keep,
                None if block.served is None else block.served[first:end], self._n_queries, rounds[t:stop],
            )  # fmt: skip
            if done < stop - t:
                return t + done
            if not begins:
                front.learn_run(X[first:end])
            self._n_queries += stop - t
            t = stop
        return n


def grown_triangle(gram: np.ndarray, d: int, n_new: int) -> np.ndarray:
    """The upper triangle of a matrix (d, d), row by row, with zeros for `n_new` rows and columns more."""
    width = d + n_new
    grown = np.zeros(width * (width + 1) // 2)
    for r in range(d):
        row = r * d - r * (r - 1) // 2
        start = r * width - r * (r - 1) // 2
        grown[start : start + d - r] = gram[row : row + d - r]
    return grown
