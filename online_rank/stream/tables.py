"""Tables as streams of queries: a row is a document, columns are its query, its grade and its features."""

import os
import warnings
from collections.abc import Generator, Iterator, Sequence
from dataclasses import dataclass
from itertools import pairwise
from numbers import Number
from typing import Any, Literal

import numpy as np

from online_rank.query import ONE, Block, single
from online_rank.stream.letor.repeated import REMEMBERED
from online_rank.stream.table_sources import Batches, batches_of, numeric_columns

__all__ = ["TableError", "TableIterator", "TablePart", "TableWarning", "iter_table", "plan_tables"]


class TableError(ValueError):
    """What is wrong with a table, and where."""


class TableWarning(UserWarning):
    """A table is probably not what was meant: the rows of a query do not stand together."""


@dataclass(frozen=True)
class _Columns:
    """What the columns of a table are."""

    query: str
    grade: str | None
    document: str | None
    features: tuple[str, ...]


class TableIterator(Iterator[tuple[Any, ...]]):
    """The queries of tables, one after the other; what `iter_table` returns.

    Attributes
    ----------
    feature_names : tuple of str
        The columns that are features.
    n_rows : int
        Rows before the next query that has not been handed out.
    """

    def __init__(self, tables: Sequence[Batches], columns: _Columns, options: dict[str, Any]) -> None:
        self.feature_names = columns.features
        self.n_rows = 0
        self._columns = columns
        self._negative, self._missing = options["negative"], options["missing"]
        self._with_ids, self._max_bytes = options["with_ids"], options["max_query_bytes"]
        self._n_rows_in_all = None if any(t.n_rows is None for t in tables) else sum(t.n_rows or 0 for t in tables)
        self._seen: set[Any] | None = set()
        self._queries = self._assembled(tables)

    @property
    def fraction(self) -> float | None:
        """Which part of the rows has been read; None where their number is not known."""
        return None if self._n_rows_in_all is None else self.n_rows / max(1, self._n_rows_in_all)

    def __next__(self) -> tuple[Any, ...]:
        return next(self._queries)

    def close(self) -> None:
        """Close what is being read. Happens by itself at the end."""
        self._queries.close()

    def __enter__(self) -> "TableIterator":
        return self

    def __exit__(self, *exception: object) -> None:
        self.close()

    def _assembled(self, tables: Sequence[Batches]) -> Generator[tuple[Any, ...], None, None]:
        """Queries, put together from the pieces that batches hold of them."""
        pieces: list[tuple[Any, ...]] = []
        current: Any = None
        for table in tables:
            first = table.first_row
            for frame in table.frames():
                X, y, qids, docids = self._read(frame, table.name, first)
                starts = np.flatnonzero(np.append(True, qids[1:] != qids[:-1])) if len(qids) else np.empty(0, int)
                for a, b in pairwise([*starts.tolist(), len(qids)]):
                    qid = qids[a].item() if isinstance(qids[a], np.generic) else qids[a]
                    if qid != current and pieces:
                        yield self._query(pieces, current)
                        pieces = []
                    if qid != current:
                        self._notice(qid, table.name, first + a)
                        current = qid
                    pieces.append((X[a:b], y[a:b], docids[a:b]))
                    if sum(piece[0].nbytes for piece in pieces) > self._max_bytes:
                        raise TableError(
                            f"{table.name}, row {first + b}: query {current!r} takes more than "
                            f"max_query_bytes={self._max_bytes} as an array"
                        )
                first += len(qids)
        if pieces:
            yield self._query(pieces, current)

    def _query(self, pieces: list[tuple[Any, ...]], qid: Any) -> tuple[Any, ...]:
        X, y = (np.concatenate([piece[i] for piece in pieces]) for i in (0, 1))
        docids = [name for piece in pieces for name in piece[2]]
        self.n_rows += len(y)
        if self._negative == "skip" and (y < 0).any():
            kept = y >= 0
            X, y, docids = X[kept], y[kept], [name for name, stays in zip(docids, kept.tolist(), strict=True) if stays]
        x = Block(X, None, single(len(y)), ONE, names=self.feature_names)
        return (x, y, str(qid), docids) if self._with_ids else (x, y)

    def _read(self, frame: Any, name: str, first: int) -> tuple[np.ndarray, np.ndarray, np.ndarray, list[str]]:
        """Features (n, d), grades (n,), query ids (n,) and document ids of some rows, the first of which has number `first`."""
        columns, n = self._columns, len(frame)
        X = np.empty((n, len(columns.features)))
        for j, feature in enumerate(columns.features):
            X[:, j] = self._numbers(frame, feature, name, first)
        if self._missing == "zero":
            X[np.isnan(X)] = 0.0
        elif not np.isfinite(X).all():
            i, j = np.argwhere(~np.isfinite(X))[0].tolist()
            what = 'missing (missing="zero" takes it as 0)' if np.isnan(X[i, j]) else "not finite"
            raise TableError(f"{name}, row {first + i}: the value of {columns.features[j]!r} is {what}")
        y = np.zeros(n, np.int64) if columns.grade is None else self._grades(frame, columns.grade, name, first)
        qids = np.asarray(frame[columns.query].to_numpy())
        absent = np.array([qid is None or qid != qid for qid in qids.tolist()], dtype=bool)
        if absent.any():
            raise TableError(f"{name}, row {first + int(absent.argmax())}: {columns.query!r}, the query, is missing")
        if qids.dtype.kind == "f" and (qids == np.rint(qids)).all():
            qids = qids.astype(np.int64)
        docids = [""] * n
        if columns.document is not None:
            docids = ["" if value is None else str(value) for value in frame[columns.document].to_list()]
        return X, y, qids, docids

    def _numbers(self, frame: Any, column: str, name: str, first: int) -> np.ndarray:
        """A column as float64 (n,); NaN where it is missing."""
        values = frame[column].to_numpy()
        if values.dtype.kind not in "biuf":
            for i, value in enumerate(values.tolist()):
                if not (value is None or isinstance(value, Number)):
                    raise TableError(f"{name}, row {first + i}: {value!r:.60} in column {column!r} is not a number")
        return values.astype(np.float64)

    def _grades(self, frame: Any, column: str, name: str, first: int) -> np.ndarray:
        values = self._numbers(frame, column, name, first)
        lowest = 0.0 if self._negative == "error" else -(2.0**53)
        good = (values >= lowest) & (values <= 2.0**53) & (values == np.rint(values))
        if not good.all():
            i = int(np.argmin(good))
            raise TableError(f"{name}, row {first + i}: the grade {values[i]:g} in {column!r} is not an integer >= 0")
        grades = values.astype(np.int64)
        return np.maximum(grades, 0) if self._negative == "zero" else grades

    def _notice(self, qid: Any, name: str, row: int) -> None:
        """Warn, once, of a query id that was there before, among the first ones."""
        if self._seen is None:
            return
        if qid in self._seen:
            self._seen = None
            warnings.warn(
                f"{name}, row {row}: query {qid!r} comes back after another one, and is read as a query of its own; sort the "
                "table by query",
                TableWarning,
                stacklevel=4,
            )
        elif len(self._seen) < REMEMBERED:
            self._seen.add(qid)


def iter_table(
    *sources: Any,
    query: str,
    grade: str | None,
    features: Sequence[str] | None = None,
    document: str | None = None,
    with_ids: bool = False,
    negative: Literal["error", "zero", "skip"] = "error",
    missing: Literal["error", "zero"] = "error",
    batch_rows: int = 1 << 14,
    max_query_bytes: int = 1 << 26,
) -> TableIterator:
    """Stream the queries of tables, in memory that does not grow with them.

    Neighbouring rows with the same query id are a query; one that comes back later is a query of its own, and is warned of.
    Several tables are read one after the other; all have the columns of the first, in any order.

    Parameters
    ----------
    *sources
        Paths of parquet or csv files (`.parquet`, `.csv`, `.tsv`, also `.csv.gz`; extra `tables`), pyarrow tables and record
        batch readers, polars frames and lazy frames, pandas frames; of polars also what it scans.
    query, grade
        The columns with the query's id, and with grades: integers >= 0. `grade` is None for queries to rank; grades are then 0.
    features
        The columns that are features; None for all other columns of numbers, in the order of the first table.
    document
        The column with the document's id.
    with_ids
        Whether to yield ids too.
    negative
        What a negative grade is: an error, 0, or a document that is left out.
    missing
        What a missing value of a feature is (null or NaN): an error, or 0.
    batch_rows
        How many rows are read at once.
    max_query_bytes
        Largest array of a query's features.

    Returns
    -------
    TableIterator
        Yields (x, y), or (x, y, query id, document ids): x is a `Block` of one query with its features by name, which every
        model takes (`x.X` is the array (m, d)); y is (m,) int64.

    Raises
    ------
    TableError
        With table and row, counted from 1: while iterating, at the first value that is missing or no number, or bad grade.
    ValueError, TypeError
        There is no such column, or a source is no table.
    ImportError
        A file needs pyarrow.

    Examples
    --------
    >>> import polars
    >>> from online_rank import PerceptronRanker
    >>> from online_rank.stream import iter_table
    >>> log = polars.LazyFrame({"q": [7, 7, 8], "grade": [0, 2, 1], "clicks": [1.0, 4.0, 2.0], "url": ["a", "b", "c"]})
    >>> model = PerceptronRanker()
    >>> for x, y in iter_table(log, query="q", grade="grade"):
    ...     model.learn_one(x, y)
    >>> model.rank_one({"old": {"clicks": 0.0}, "new": {"clicks": 9.0}})
    ['new', 'old']
    """
    if not sources:
        raise ValueError("nothing to read: give at least one table")
    for name, value, choices in (
        ("negative", negative, ("error", "zero", "skip")),
        ("missing", missing, ("error", "zero")),
    ):
        if value not in choices:
            raise ValueError(f"{name} is {value!r}; it must be one of {', '.join(map(repr, choices))}")
    for name, size in (("batch_rows", batch_rows), ("max_query_bytes", max_query_bytes)):
        if isinstance(size, bool) or not isinstance(size, int) or size < 1:
            raise ValueError(f"{name} is {size!r}; it must be an integer >= 1")
    others = [column for column in (query, grade, document) if column is not None]
    if features is None:
        features = [name for name in numeric_columns(sources[0]) if name not in others]
    if isinstance(features, str) or not all(isinstance(name, str) for name in features):
        raise TypeError("features is a sequence of names of columns")
    if not features or len(set(features)) < len(features):
        raise ValueError("features is empty: no other column has numbers" if not features else "features names a column twice")
    columns = _Columns(query, grade, document, tuple(features))
    tables = [batches_of(source, [*others, *features], batch_rows, query) for source in sources]
    options = {"negative": negative, "missing": missing, "with_ids": with_ids, "max_query_bytes": max_query_bytes}
    return TableIterator(tables, columns, options)


@dataclass(frozen=True)
class TablePart:
    """A part of parquet or csv files: whole queries. It can be pickled, and read wherever the files are.

    Attributes
    ----------
    sources : tuple of (path, first row, row after the last)
        What it consists of; None for a whole file.
    query, grade : str
        Columns.
    features : tuple of str
        The columns that are features, the same for all parts.
    """

    sources: tuple[tuple[str, int, int | None], ...]
    query: str
    grade: str
    features: tuple[str, ...]
    negative: str = "error"

    def __iter__(self) -> Iterator[tuple[Any, ...]]:
        """Yields (x, y), as `iter_table` does."""
        options: Any = {"query": self.query, "grade": self.grade, "features": self.features, "negative": self.negative}
        with warnings.catch_warnings():
            warnings.simplefilter("ignore", TableWarning)
            yield from iter_table(
                *(path if end is None else (path, begin, end) for path, begin, end in self.sources), **options
            )


def plan_tables(
    files: Sequence[str | os.PathLike[str]],
    parts: int,
    *,
    query: str,
    grade: str,
    features: Sequence[str] | None = None,
    negative: str = "error",
) -> list[TablePart]:
    """Divide parquet files into parts of whole queries, as `online_rank.stream.letor.plan` divides text.

    A parquet file is cut where a query ends, near the boundary of a row group; a csv file stays whole.

    Parameters
    ----------
    files, parts
        As in `online_rank.stream.letor.plan`.
    query, grade, features, negative
        As in `iter_table`.
    """
    from online_rank.stream.letor.plan import in_runs, shared_pieces
    from online_rank.stream.table_sources import row_bounds

    paths = [os.fspath(file) for file in files]
    pieces: list[tuple[str, int, int | None]] = []
    numbers = shared_pieces(parts, [os.path.getsize(path) if path.endswith(".parquet") else 0 for path in paths])
    for path, n in zip(paths, numbers, strict=True):
        bounds = row_bounds(path, n, query) if n > 1 and path.endswith(".parquet") else []
        pieces += [(path, a, b) for a, b in pairwise(bounds)] or [(path, 0, None)]
    if features is None:
        features = [name for name in numeric_columns(paths[0]) if name not in (query, grade)]
    return [TablePart(tuple(run), query, grade, tuple(features), negative) for run in in_runs(pieces, parts)]
