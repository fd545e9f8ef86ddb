"""Sparse rows in the LETOR reader: buffers for rows, and joining pieces of queries."""

from collections.abc import Sequence
from typing import Any, Literal, TypeAlias

import numpy as np

from online_rank.query import SparseRows
from online_rank.query.sparse import as_rows

#: Whether rows are sparse: never, always, or if there are more than `WIDE` features.
Sparse: TypeAlias = bool | Literal["auto"]

#: Features from which on `sparse="auto"` reads sparse rows.
WIDE = 1 << 12
#: Largest number of columns of sparse rows.
MOST_COLUMNS = int(np.iinfo(np.int32).max)
#: Fewest bytes of text that name a feature: "1:0 ".
_BYTES_A_FEATURE = 4


def room_for(n_bytes: int, n_rows: int, dtype: Any) -> tuple[np.ndarray, np.ndarray, np.ndarray]:
    """Arrays (starts, columns, values) large enough for the features of `n_rows` rows in `n_bytes` bytes of text."""
    n = n_bytes // _BYTES_A_FEATURE + 1
    return np.zeros(n_rows + 1, np.int64), np.empty(n, np.int32), np.empty(n, dtype)


def put(rows: tuple[np.ndarray, np.ndarray, np.ndarray], row: int, column: int, value: float) -> float:
    """Set the entry of a row in a column. Returns the value in its dtype."""
    starts, columns, values = rows
    entry = starts[row] + np.searchsorted(columns[starts[row] : starts[row + 1]], column)
    values[entry] = value
    return values[entry]


def rows_at(X: Any, rows: np.ndarray) -> Any:
    """The rows of features with these numbers, in this order."""
    if not isinstance(X, SparseRows):
        return X[rows]
    sizes = np.diff(X.starts)[rows]
    starts = np.append(0, np.cumsum(sizes))
    entries = np.arange(starts[-1]) + np.repeat(X.starts[rows] - starts[:-1], sizes)
    return SparseRows(starts, X.columns[entries], X.values[entries], X.n_columns)


def joined(pieces: Sequence[Any]) -> Any:
    """Stack features, arrays or sparse rows, into new arrays with as many columns as the widest."""
    if not isinstance(pieces[0], SparseRows):
        return np.concatenate(pieces)
    ends = np.cumsum([0, *(len(piece.values) for piece in pieces)])
    starts = [np.zeros(1, np.int64), *(piece.starts[1:] + end for piece, end in zip(pieces, ends[:-1].tolist(), strict=True))]
    return SparseRows(
        np.concatenate(starts),
        np.concatenate([piece.columns for piece in pieces]),
        np.concatenate([piece.values for piece in pieces]),
        max(piece.n_columns for piece in pieces),
    )


def part(X: Any, first: int, last: int) -> Any:
    """Some rows of features."""
    return X.rows(first, last) if isinstance(X, SparseRows) else X[first:last]


class Gathered:
    """Stacks the features of blocks, each of which has at least as many columns as the one before.

    From the first sparse block on all are sparse.
    """

    def __init__(self, n_columns: int, dtype: Any) -> None:
        self._X = np.empty((0, n_columns), dtype)
        self._n = 0
        self._rows: list[SparseRows] = []

    def add(self, X: Any) -> None:
        """Add the features of the next block."""
        if isinstance(X, SparseRows):
            if self._n:
                self._rows, self._n = [as_rows(self._X[: self._n])], 0
            self._rows.append(X)
            return
        m, d = X.shape
        if d > self._X.shape[1]:
            self._X = np.concatenate([self._X, np.zeros((len(self._X), d - self._X.shape[1]), self._X.dtype)], axis=1)
        if self._n + m > len(self._X):
            # In place, so that the numbers are never stored twice; by an eighth, so that they are not moved too often.
            self._X.resize((self._n + m + (self._n + m) // 8, d), refcheck=False)
        self._X[self._n : self._n + m] = X
        self._n += m

    def all(self) -> Any:
        """All features: an array, or sparse rows."""
        if self._rows:
            return joined(self._rows)
        self._X.resize((self._n, self._X.shape[1]), refcheck=False)
        return self._X
