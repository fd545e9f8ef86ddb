"""Features of documents, nearly all of them zero."""

from typing import Any

import numpy as np

from online_rank._kernels.sparse import Rows, merge_repeated
from online_rank.arguments import integer

#: `SparseRows` pay off below this share of non-zeros, from this number of cells on.
_SHARE = 0.05
_CELLS = 1 << 12
#: Kernels count columns with 32 bits.
_MOST_COLUMNS = 2**31 - 1


class SparseRows(Rows):
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

    __slots__ = ()

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

    def taken(self, rows: np.ndarray) -> "SparseRows":
        """Some rows, in this order."""
        starts = self.starts
        lengths = starts[rows + 1] - starts[rows]
        ends = np.cumsum(lengths)
        entries = np.arange(int(lengths.sum())) + np.repeat(starts[rows] - (ends - lengths), lengths)
        made = np.concatenate([np.zeros(1, starts.dtype), ends.astype(starts.dtype)])
        return self._replace(starts=made, columns=self.columns[entries], values=self.values[entries])

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
    """A sparse array or matrix of scipy as rows; values are not copied if it is CSR with floats, and no entry occurs twice.

    Raises
    ------
    TypeError, ValueError
        It is not two-dimensional, its values are not numbers, or its indices do not fit.
    """
    if x.ndim != 2:
        raise ValueError(f"x has shape {x.shape}, but a query is an (m, d) array: one row a document, one column a feature")
    if x.dtype.kind not in "biuf":
        raise TypeError(f"x has dtype {x.dtype}; features are numbers")
    if x.format != "csr":
        try:
            x = _checked_copy(x).tocsr()
        except ValueError as error:
            raise ValueError(f"x is a broken {type(x).__name__}: {error}") from None
    if len(x.indptr) != x.shape[0] + 1:
        raise ValueError(f"x has shape {x.shape}, but starts of {len(x.indptr) - 1} rows")
    # Entries behind the last row are allowed, and of no row. What ends beyond them is refused below.
    n = max(0, int(x.indptr[-1]))
    values = x.data if x.dtype in (np.float32, np.float64) else x.data.astype(np.float64)
    return checked_rows(SparseRows(x.indptr, x.indices[:n], values[:n], x.shape[1]))


def _checked_copy(x: Any) -> Any:
    """A copy of a matrix whose indices were checked: scipy's compiled conversions take them as they are, and would read and
    write outside of arrays. Raises ValueError.
    """
    x = x.copy()
    if hasattr(x, "check_format"):
        x.check_format(full_check=True)
        if (x.indptr[1:] < x.indptr[:-1]).any():  # Not checked by scipy where the last one is 0.
            raise ValueError("its starts do not ascend")
    if x.format == "lil" and ([*map(len, x.rows)] != [*map(len, x.data)] or len(x.rows) != x.shape[0]):
        raise ValueError("its rows have other numbers of columns than of values")
    return x


def checked_rows(rows: SparseRows) -> SparseRows:
    """Rows in the form that kernels take: entries of the same row and column are added up.

    Raises TypeError or ValueError for rows that would make a kernel read outside an array.
    """
    integer("x.n_columns", rows.n_columns, 0, _MOST_COLUMNS)
    n_columns, values = int(rows.n_columns), np.ascontiguousarray(rows.values)[...]
    if values.dtype not in (np.float32, np.float64):
        raise TypeError(f"x: values have dtype {values.dtype}; they are float32 or float64")
    if values.ndim != 1:
        raise ValueError(f"x: values have shape {values.shape}; there is one an entry")
    starts, columns = _indices(rows.starts, rows.columns, len(values), n_columns)
    checked = SparseRows(starts, columns.astype(np.int32, copy=False), values, n_columns)
    falls = np.flatnonzero(columns[1:] <= columns[:-1]) + 1
    if np.isin(falls, starts).all():
        return checked
    without_repeats = merged(*checked)
    return without_repeats if len(without_repeats.columns) < len(columns) else checked


def _indices(starts: Any, columns: Any, n_entries: int, n_columns: int) -> tuple[np.ndarray, np.ndarray]:
    """Checked copies of the arrays used as indices: another thread may write to the caller's after the check."""
    starts, columns = np.array(starts, order="C"), np.array(columns, order="C")
    if starts.dtype.kind not in "iu" or columns.dtype.kind not in "iu":
        raise TypeError(f"x: starts have dtype {starts.dtype}, columns {columns.dtype}; they are integers")
    if starts.ndim != 1 or not len(starts) or columns.shape != (n_entries,):
        raise ValueError("x: starts are (n + 1,), and columns and values have one element an entry")
    if starts[0] != 0 or starts[-1] != n_entries or (starts[1:] < starts[:-1]).any():
        raise ValueError("x: starts do not ascend from 0 to the number of entries")
    if n_entries and not 0 <= columns.min() <= columns.max() < n_columns:
        i = int(np.flatnonzero((columns < 0) | (columns >= n_columns))[0])
        document = int(np.searchsorted(starts, i, side="right")) - 1
        raise ValueError(f"x: document {document} has a feature in column {columns[i]}, but there are {n_columns} columns")
    return starts.astype(np.int64, copy=False), columns


def merged(starts: np.ndarray, columns: np.ndarray, values: np.ndarray, n_columns: int) -> SparseRows:
    """A copy of rows in which entries of the same row and column are added up, in float64."""
    starts, columns, values = starts.copy(), columns.copy(), values.astype(np.float64)
    n = merge_repeated(starts, columns, values)
    return SparseRows(starts, columns[:n], values[:n], n_columns)
