"""Features of documents, nearly all of them zero."""

from typing import Any, NamedTuple

import numpy as np

from online_rank._kernels.sparse import merge_repeated, repeats

__all__ = ["SparseRows", "as_rows", "checked_rows", "from_scipy", "is_scipy", "merged", "worth_rows"]

#: `SparseRows` pay off below this share of non-zeros, from this number of cells on.
_SHARE = 0.05
_CELLS = 1 << 12


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


def worth_rows(n_entries: int, n_cells: int) -> bool:
    """Whether features with this many entries in this many cells are better kept as `SparseRows`."""
    return n_cells >= _CELLS and n_entries < _SHARE * n_cells


def as_rows(X: Any) -> SparseRows:
    """Features as sparse rows: an (n, d) array without its zeros."""
    if isinstance(X, SparseRows):
        return X
    i, j = X.nonzero()
    starts = np.zeros(len(X) + 1, dtype=np.int64)
    np.cumsum(np.bincount(i, minlength=len(X)), out=starts[1:])
    return SparseRows(starts, j.astype(np.int32), X[i, j], X.shape[1])


def is_scipy(x: Any) -> bool:
    """Whether `x` is a sparse array or matrix of scipy; scipy is not imported to find out."""
    return type(x).__module__.startswith("scipy.sparse") and hasattr(x, "tocsr")


def from_scipy(x: Any) -> SparseRows:
    """A sparse array or matrix of scipy as rows; values are not copied if it is CSR in canonical form with floats.

    Raises
    ------
    TypeError, ValueError
        It is not two-dimensional, or its values are not numbers.
    """
    if x.ndim != 2:
        raise ValueError(f"x has shape {x.shape}, but a query is an (m, d) array: one row a document, one column a feature")
    if x.dtype.kind not in "biuf":
        raise TypeError(f"x has dtype {x.dtype}; features are numbers")
    rows = x.tocsr()
    if not rows.has_canonical_format:
        rows = rows.copy()
        rows.sum_duplicates()
    values = rows.data if rows.dtype in (np.float32, np.float64) else rows.data.astype(np.float64)
    if rows.shape[1] > np.iinfo(np.int32).max:
        raise ValueError(f"x has {rows.shape[1]} columns; at most {np.iinfo(np.int32).max} are accepted")
    return checked_rows(SparseRows(rows.indptr, rows.indices, values, int(rows.shape[1])))


def checked_rows(rows: SparseRows) -> SparseRows:
    """Rows in the form that kernels take: entries of the same row and column are added up.

    Raises TypeError or ValueError for rows that would make a kernel read outside an array.
    """
    # Copies of the arrays used as indices: another thread may write to the caller's after the check.
    starts, columns = np.array(rows.starts, dtype=np.int64, order="C"), np.array(rows.columns, order="C")
    values = np.ascontiguousarray(rows.values)
    if columns.dtype.kind not in "iu" or values.dtype not in (np.float32, np.float64):
        raise TypeError(
            f"x: columns have dtype {columns.dtype}, values {values.dtype}; they are integers, and float32 or float64"
        )
    if starts.ndim != 1 or not len(starts) or columns.ndim != 1 or values.shape != columns.shape:
        raise ValueError("x: starts are (n + 1,), and columns and values have one element an entry")
    if starts[0] != 0 or starts[-1] != len(values) or (starts[1:] < starts[:-1]).any():
        raise ValueError("x: starts do not ascend from 0 to the number of entries")
    if len(columns) and not 0 <= columns.min() <= columns.max() < rows.n_columns:
        i = int(np.flatnonzero((columns < 0) | (columns >= rows.n_columns))[0])
        document = int(np.searchsorted(starts, i, side="right")) - 1
        raise ValueError(f"x: document {document} has a feature in column {columns[i]}, but there are {rows.n_columns} columns")
    checked = SparseRows(starts, columns.astype(np.int32, copy=False), values, int(rows.n_columns))
    return merged(*checked) if repeats(starts, checked.columns) else checked


def merged(starts: np.ndarray, columns: np.ndarray, values: np.ndarray, n_columns: int) -> SparseRows:
    """A copy of rows in which entries of the same row and column are added up, in float64."""
    starts, columns, values = starts.copy(), columns.copy(), values.astype(np.float64)
    n = merge_repeated(starts, columns, values)
    return SparseRows(starts, columns[:n], values[:n], n_columns)
