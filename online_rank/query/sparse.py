"""Features of documents of which nearly all are zero."""

from typing import NamedTuple

import numpy as np

__all__ = ["SparseRows"]


class SparseRows(NamedTuple):
    """Features of n documents, row by row, without the zeros (CSR).

    Attributes
    ----------
    starts
        (n + 1,) int64: row i holds the entries `starts[i]:starts[i + 1]`.
    columns
        Column of each entry, int32.
    values
        Value of each entry, float32 or float64.
    n_columns
        d, the number of columns.

    Examples
    --------
    >>> rows = SparseRows(np.array([0, 1, 3]), np.array([2, 0, 1], np.int32), np.array([5.0, 1.0, 2.0]), 3)
    >>> rows.toarray()
    array([[0., 0., 5.],
           [1., 2., 0.]])
    >>> rows.rows(1, 2).toarray()
    array([[1., 2., 0.]])
    """

    starts: np.ndarray
    columns: np.ndarray
    values: np.ndarray
    n_columns: int

    @property
    def shape(self) -> tuple[int, int]:
        """(n, d)."""
        return len(self.starts) - 1, self.n_columns

    @property
    def dtype(self) -> np.dtype:
        """The dtype of the values."""
        return self.values.dtype

    @property
    def nbytes(self) -> int:
        """Bytes of memory."""
        return self.starts.nbytes + self.columns.nbytes + self.values.nbytes

    def rows(self, start: int, stop: int) -> "SparseRows":
        """The rows `start:stop`; columns and values are not copied."""
        first, last = int(self.starts[start]), int(self.starts[stop])
        return SparseRows(
            self.starts[start : stop + 1] - first, self.columns[first:last], self.values[first:last], self.n_columns
        )

    def toarray(self) -> np.ndarray:
        """The rows as an (n, d) array. Entries of one row and column add up."""
        X = np.zeros(self.shape, self.dtype)
        np.add.at(X, (np.repeat(np.arange(len(X)), np.diff(self.starts)), self.columns), self.values)
        return X
