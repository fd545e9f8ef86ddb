"""Tables as streams of queries: a row is a document, columns are its query, its grade and its features."""

import warnings
from collections.abc import Generator, Iterator, Sequence
from itertools import pairwise
from typing import Any, Literal, get_args

import numpy as np

from online_rank.arguments import choice, flag, integer
from online_rank.query import ONE, Block, single
from online_rank.query.context import read_context
from online_rank.stream.columns import MISSING, TablePlan, plan_columns, require_names
from online_rank.stream.grouped import grouped
from online_rank.stream.letor.rows import RepeatedQid
from online_rank.stream.table_order import QueryOrder, TableWarning, notice_new_columns
from online_rank.stream.table_rows import Rows, as_text, first_repeated, read_rows
from online_rank.stream.table_sources import Batches, batches_of
from online_rank.stream.table_text import TableError


class TableIterator(Iterator[tuple[Any, ...]]):
    """The queries of tables, one after the other; what `iter_table` returns.

    Attributes
    ----------
    plan : TablePlan
        The roles of the columns.
    n_rows : int
        Number of rows before the next query.
    n_missing : int
        Number of missing feature values in these rows.
    """

    def __init__(self, tables: Sequence[Batches], plan: TablePlan, options: dict[str, Any]) -> None:
        self.plan = plan
        self.n_rows = self.n_missing = 0
        self._negative, self._with_ids, self._max_bytes = (
            options[name] for name in ("negative", "with_ids", "max_query_bytes")
        )
        self._n_rows_in_all = None if any(t.n_rows is None for t in tables) else sum(t.n_rows or 0 for t in tables)
        self._repeated: str | None = None
        self._order = QueryOrder(options["repeated_qid"], plan, ', or repeated_qid="group" (--group-by-qid) does it')
        self._queries = self._assembled(tables)

    @property
    def feature_names(self) -> tuple[str, ...]:
        """The columns that are features."""
        return self.plan.features

    @property
    def fraction(self) -> float | None:
        """The share of rows that has been read; None if their number is unknown."""
        return None if self._n_rows_in_all is None else self.n_rows / max(1, self._n_rows_in_all)

    def __next__(self) -> tuple[Any, ...]:
        return next(self._queries)

    def close(self) -> None:
        """Close the open source. This happens automatically at the end."""
        self._queries.close()

    def __enter__(self) -> "TableIterator":
        return self

    def __exit__(self, *exception: object) -> None:
        self.close()

    def _assembled(self, tables: Sequence[Batches]) -> Generator[tuple[Any, ...], None, None]:
        """Assemble queries from their pieces in batches."""
        pieces: list[Rows] = []
        current = ""
        for table in tables:
            for frame in table.frames():
                rows = read_rows(frame, self.plan, self._negative)
                n, qids = len(rows.y), rows.qids
                starts = np.flatnonzero(np.append(True, qids[1:] != qids[:-1])) if n else np.empty(0, int)
                for a, b in pairwise([*starts.tolist(), n]):
                    # As it is printed: one table may have 7 where another has "7" or 7.0.
                    qid = as_text(qids[a].item() if isinstance(qids[a], np.generic) else qids[a])
                    if qid != current and pieces:
                        yield self._query(pieces, current)
                        pieces = []
                    if not pieces:
                        self._order.notice(qid, rows.times[a], frame, a)
                        current = qid
                    pieces.append(rows.part(a, b))
                    if sum(piece.X.nbytes for piece in pieces) > self._max_bytes:
                        what = f"query {current} takes more than max_query_bytes={self._max_bytes} as an array"
                        raise TableError(f"{frame.where(b - 1)}: {what}")
        if pieces:
            yield self._query(pieces, current)

    def _query(self, pieces: list[Rows], qid: str) -> tuple[Any, ...]:
        X, y = (np.concatenate([getattr(piece, name) for piece in pieces]) for name in ("X", "y"))
        docids = [name for piece in pieces for name in piece.docids]
        self.n_rows += len(y)
        if self._repeated is None and (repeated := first_repeated(docids)) is not None:
            self._repeated = repeated
            warnings.warn(f"query {qid} has document {repeated!r} several times", TableWarning, stacklevel=4)
        if self._negative == "skip" and (y < 0).any():
            kept = y >= 0
            X, y, docids = X[kept], y[kept], [name for name, stays in zip(docids, kept.tolist(), strict=True) if stays]
        X, names = self._filled(X)
        x = Block(X, None, single(len(y)), ONE, names=names, context=self._context(pieces, qid))
        return (x, y, qid, docids) if self._with_ids else (x, y)

    def _context(self, pieces: list[Rows], qid: str) -> tuple[dict[str, Any]] | None:
        """What the rows of a query say of it, which must be one thing."""
        contexts = [context for piece in pieces for context in piece.contexts]
        if not contexts:
            return None
        for name in self.plan.context:
            different = {context[name]: None for context in contexts}
            if len(different) > 1:
                one, two, *_ = different
                raise TableError(
                    f"query {qid} has {one!r:.60} and {two!r:.60} in column {name!r}, which is of the query itself"
                )
        try:
            return (read_context(contexts[0]),)
        except (TypeError, ValueError) as error:
            raise TableError(f"query {qid}: {error}") from None

    def _filled(self, X: np.ndarray) -> tuple[np.ndarray, tuple[str, ...]]:
        """The features of a query with missing values filled in, and their names."""
        absent = np.isnan(X)
        if not absent.any():
            return X, self.plan.features
        self.n_missing += int(np.count_nonzero(absent))
        columns = np.flatnonzero(absent.any(axis=0))
        values = np.zeros(len(columns))
        if self.plan.missing == "mean":
            present = ~absent[:, columns]
            sums = np.where(present, X[:, columns], 0.0).sum(axis=0)
            values = sums / np.maximum(present.sum(axis=0), 1)
        X[:, columns] = np.where(absent[:, columns], values, X[:, columns])
        if self.plan.missing != "indicator":
            return X, self.plan.features
        marks = [f"{self.plan.features[j]} is missing" for j in columns.tolist()]
        return np.column_stack([X, absent[:, columns]]), (*self.plan.features, *marks)


def iter_table(
    *sources: Any,
    query: str,
    grade: str | None,
    features: Sequence[str] | None = None,
    exclude: Sequence[str] = (),
    document: str | None = None,
    event_time: str | None = None,
    context: Sequence[str] = (),
    with_ids: bool = False,
    negative: Literal["error", "zero", "skip"] = "error",
    missing: Literal["error", "zero", "mean", "indicator"] = "error",
    repeated_qid: RepeatedQid = "error",
    batch_rows: int = 1 << 14,
    max_query_bytes: int = 1 << 26,
) -> TableIterator:
    """Stream the queries of tables, in memory that does not grow with them, but for the ids of queries.

    Consecutive rows with the same query id are a query. Several tables are read one after the other; all must have the columns
    of the first, in any order. The attribute `plan` of the result says which columns are features, which are left out, and why.

    Parameters
    ----------
    *sources
        Paths of parquet or csv files (`.parquet`, `.csv`, `.tsv`, also `.csv.gz`; extra `tables`), pyarrow tables and record
        batch readers, polars frames and lazy frames (such as scans), pandas frames.
    query, grade
        The columns with the query's id, and with grades: integers >= 0. `grade` is None for queries to rank; grades are then 0.
    features
        The columns that are features; None for all other columns of numbers and booleans, in the order of the first table,
        except the index of a pandas frame that was written to the file.
    exclude
        Columns that are not features.
    document
        The column with the document's id.
    event_time
        The column with the time of each row: a date, a time, or a number. Queries must come in the order of their first rows'
        times.
    context
        The columns with what is known of a query itself, the same in all of its rows (`CrossFeatures`); no features.
    with_ids
        Whether to yield ids, too.
    negative
        How to treat a negative grade: as an error, as 0, or leave the document out.
    missing
        How to treat a missing value (null or NaN): as an error; as 0; as the mean of the query's other documents (0 if none has
        a value); or as 0 with a further feature, "NAME is missing", which is 1.
    repeated_qid
        How to treat an id that comes back after another one, or a query older than the one before it: as an error, for which
        all ids are kept in memory, about 100 bytes each; as a separate query, with a warning ("warn", of the first 100,000
        queries) or without ("new"); or "group", which collects the rows of each query, and sorts queries by time if
        `event_time` is given, using temporary files.
    batch_rows
        Number of rows read at once.
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
        With table and row, counted from 1: while iterating, at the first missing or non-numeric value, or bad grade.
    ValueError, TypeError
        A column does not exist, or a source is not a table.
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
    choice("negative", negative, ("error", "zero", "skip"))
    choice("missing", missing, MISSING)
    choice("repeated_qid", repeated_qid, get_args(RepeatedQid))
    flag("with_ids", with_ids)
    integer("batch_rows", batch_rows, 1)
    integer("max_query_bytes", max_query_bytes, 1)
    require_names(features=features, exclude=exclude, context=context)
    roles: Any = {"query": query, "grade": grade, "document": document, "event_time": event_time}
    plan = plan_columns(sources[0], features=features, exclude=exclude, context=context, missing=missing, **roles)
    notice_new_columns(sources, plan)
    if repeated_qid == "group":
        tables = [grouped(sources, plan, batch_rows)]
    else:
        tables = [batches_of(source, plan.read, batch_rows) for source in sources]
    return TableIterator(
        tables,
        plan,
        {"negative": negative, "with_ids": with_ids, "max_query_bytes": max_query_bytes, "repeated_qid": repeated_qid},
    )
