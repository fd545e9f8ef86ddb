"""Words that a ranker of clicks has met: how many lists showed each, and which of them have a column."""

from typing import Any

import numpy as np
from river import base

from online_rank.base.schema import Array, Count, Flag, Schema
from online_rank.base.undo import Undo, record_state
from online_rank.query.words import Tokens

__all__ = ["ClickWords"]

#: A word may have a column once this many lists with clicks showed it.
_LISTS = 20
#: The most words that are counted; beyond that, those without a column that the fewest lists showed leave.
_MOST = 1 << 14
_NO_ROW = -1


class ClickWords(base.Base):
    """Words by the hashes of their names: no word is kept as a text.

    Examples
    --------
    >>> words = ClickWords()
    >>> for _ in range(20):
    ...     words.meet(np.array([7, 7, 9]))
    >>> words.wanted(1)  # Both are wanted; there is room for one.
    array([7])
    """

    _schema = Schema(
        has_names=Flag(),
        n_lists=Count(),
        _keys=Array(None, dtype="int64"),
        _counts=Array(lambda own: len(own._keys), dtype="int64", low=0),
        _places=Array(lambda own: len(own._keys), dtype="int64", low=-1),
        _weights=Array(lambda own: len(own._keys)),
    )

    #: What a blend with words would multiply curves and words by (`rankers.words.Words`).
    factor, share, has_pairs = 1.0, 1.0, False

    def __init__(self) -> None:
        #: Whether names of features may be among the words.
        self.has_names = False
        #: How many lists with clicks were met.
        self.n_lists = 0
        # Ascending keys; of each the lists that showed it, its column or -1, and its weight.
        self._keys = np.zeros(0, dtype=np.int64)
        self._counts = np.zeros(0, dtype=np.int64)
        self._places = np.zeros(0, dtype=np.int64)
        self._weights = np.zeros(0)

    def _check_state(self) -> None:
        if (np.diff(self._keys) <= 0).any():
            raise ValueError("_keys: keys of words ascend")

    def _record(self, log: list[Undo], _block: Any = None) -> None:
        """Add to a log what undoes learning, which replaces all arrays."""
        record_state(log, self, copied=False)

    @property
    def n_words(self) -> int:
        """How many words have a column."""
        return int((self._places >= 0).sum())

    @property
    def n_lately(self) -> float:
        """How many lists were met."""
        return float(self.n_lists)

    def rows_of(self, keys: np.ndarray) -> np.ndarray:
        """The row of each key, int64 (n,), and -1 for unknown ones."""
        if not len(self._keys):
            return np.full(len(keys), _NO_ROW)
        rows = np.minimum(np.searchsorted(self._keys, keys), len(self._keys) - 1)
        return np.where(self._keys[rows] == keys, rows, _NO_ROW)

    def counts_of(self, keys: np.ndarray) -> np.ndarray:
        """How many lists showed each key, float64 (n,)."""
        rows = self.rows_of(keys)
        return np.where(rows >= 0, np.append(self._counts, 0)[rows], 0).astype(np.float64)

    def weights_of(self, keys: np.ndarray) -> np.ndarray:
        """The weight of each key, float64 (n,)."""
        return np.append(self._weights, 0.0)[self.rows_of(keys)]

    def columns_of(self, keys: np.ndarray) -> np.ndarray:
        """The column of each key, int64 (n,), and -1 for keys without one."""
        return np.append(self._places, _NO_ROW)[self.rows_of(keys)]

    def scores(self, tokens: Tokens) -> np.ndarray:
        """What words add to the scores of documents, float64 (n,)."""
        n = len(tokens.starts) - 1
        documents = np.repeat(np.arange(n), np.diff(tokens.starts))
        return np.bincount(documents, tokens.values * self.weights_of(tokens.keys), minlength=n)

    def meet(self, keys: np.ndarray) -> None:
        """Count the words of a list, each once."""
        self.n_lists += 1
        own, rows = np.unique(keys), self.rows_of(keys)
        rows = self.rows_of(own)
        counts = self._counts.copy()
        counts[rows[rows >= 0]] += 1
        self._counts = counts
        new = own[rows < 0]
        if not len(new):
            return
        at = np.searchsorted(self._keys, new)
        self._keys, self._counts = np.insert(self._keys, at, new), np.insert(self._counts, at, 1)
        self._places, self._weights = np.insert(self._places, at, _NO_ROW), np.insert(self._weights, at, 0.0)
        if len(self._keys) > _MOST:
            self._leave()

    def _leave(self) -> None:
        """Forget half of the words without a column: those that the fewest lists showed."""
        free = np.flatnonzero(self._places < 0)
        gone = free[np.argsort(self._counts[free], kind="stable")[: len(free) // 2]]
        for name in ("_keys", "_counts", "_places", "_weights"):
            setattr(self, name, np.delete(getattr(self, name), gone))

    def wanted(self, room: int) -> np.ndarray:
        """The keys that may have a column, and lack one: at most this many, those first that most lists showed."""
        free = np.flatnonzero((self._places < 0) & (self._counts >= _LISTS))
        return self._keys[free[np.argsort(-self._counts[free], kind="stable")[: max(room, 0)]]]

    def give(self, keys: np.ndarray, first: int) -> None:
        """Give some keys the columns from `first` on."""
        self._places = self._places.copy()
        self._places[self.rows_of(keys)] = np.arange(first, first + len(keys))

    def follow(self, weights: np.ndarray) -> None:
        """Take the weights of columns (D,)."""
        self._weights = np.where(self._places >= 0, np.append(weights, 0.0)[self._places], 0.0)
