"""Converts the rows of a table to arrays: features, grades, ids and times; errors name row and column."""

from collections.abc import Sequence
from numbers import Number
from typing import Any, NamedTuple

import numpy as np

from online_rank.stream.columns import TablePlan
from online_rank.stream.table_sources import Frame
from online_rank.stream.table_text import TableError

#: From here on, floats skip whole numbers.
_WHOLE = 2.0**53


class Rows(NamedTuple):
    """Some rows, read: features (n, d), NaN where missing, grades, ids, times in seconds, ids of documents, and contexts."""

    X: np.ndarray
    y: np.ndarray
    qids: np.ndarray
    times: np.ndarray
    docids: list[str]
    contexts: list[dict[str, Any]]

    def part(self, a: int, b: int) -> "Rows":
        """The rows a..b."""
        return Rows(self.X[a:b], self.y[a:b], self.qids[a:b], self.times[a:b], self.docids[a:b], self.contexts[a:b])


def read_rows(frame: Frame, plan: TablePlan, negative: str) -> Rows:
    """The rows of a frame, by the roles of their columns. Raises TableError that names table, row and column."""
    n, features = len(frame.rows), plan.features
    X = np.empty((n, len(features)))
    for j, feature in enumerate(features):
        X[:, j] = numbers_of(frame, feature)
    bad = ~np.isfinite(X) if plan.missing == "error" else np.isinf(X)
    if bad.any():
        i, j = np.argwhere(bad)[0].tolist()
        what = "not finite" if np.isinf(X[i, j]) else 'missing; missing= (--missing) "zero", "mean" or "indicator" takes it'
        raise TableError(f"{frame.where(i)}: the value of {features[j]!r} is {what}")
    grade, query, time, document = (plan.of(role) for role in ("grade", "query", "event time", "document"))
    y = np.zeros(n, np.int64) if grade is None else _grades(frame, grade, negative)
    # Rows that were sorted by time have lost it.
    times = times_of(frame, str(time)) if time in frame.rows.columns else np.zeros(n)
    docids = [""] * n if document is None else document_ids(frame, document)
    return Rows(X, y, require_queries(frame, str(query)), times, docids, _contexts(frame, plan.context))


def as_text(value: Any) -> str:
    """An id as it is printed; empty if it is missing. pandas turns integers with missing values among them into floats."""
    if value is None or value != value:
        return ""
    return str(int(value)) if isinstance(value, float) and value.is_integer() else str(value)


def document_ids(frame: Frame, column: str) -> list[str]:
    """The ids of documents, as they are printed. Raises TableError for a number that has lost digits."""
    values = frame.rows[column].to_list()
    for i, value in enumerate(values):
        if isinstance(value, float) and abs(value) >= _WHOLE:
            raise _lost_digits(frame, i, column, "the document", value)
    return [as_text(value) for value in values]


def first_repeated(docids: Sequence[str]) -> str | None:
    """The first id of a document that comes back within a query; documents may lack one."""
    named = [docid for docid in docids if docid]
    return None if len(set(named)) == len(named) else next(docid for i, docid in enumerate(named) if docid in named[:i])


def _lost_digits(frame: Frame, i: int, column: str, role: str, value: float) -> TableError:
    what = f"{frame.where(i)}: {column!r}, {role}, is {value:.17g}, a float too large to tell ids apart"
    return TableError(f"{what}: read ids as integers or text")


def require_queries(frame: Frame, column: str) -> np.ndarray:
    """The ids of queries (n,). Raises TableError if one is missing."""
    qids = np.asarray(frame.rows[column].to_numpy())
    absent = np.array([qid is None or qid != qid for qid in qids.tolist()], dtype=bool)
    if absent.any():
        raise TableError(f"{frame.where(int(absent.argmax()))}: {column!r}, the query, is missing")
    if qids.dtype.kind == "f" and (large := np.abs(qids) >= _WHOLE).any():
        i = int(large.argmax())
        raise _lost_digits(frame, i, column, "the query", float(qids[i]))
    if qids.dtype.kind == "O" and len({type(qid) for qid in qids.tolist()}) > 1:
        _require_different_text(frame, column, qids.tolist())
    return qids.astype(np.int64) if qids.dtype.kind == "f" and (qids == np.rint(qids)).all() else qids


def _require_different_text(frame: Frame, column: str, qids: list[Any]) -> None:
    """Raise TableError if ids of different types, such as 1 and "1", are the same in print."""
    first: dict[str, Any] = {}
    for i, qid in enumerate(qids):
        other = first.setdefault(str(qid), qid)
        if other != qid:
            raise TableError(
                f"{frame.where(i)}: {column!r}, the query, is {qid!r}, and {other!r} in another row: take one type"
            )


def times_of(frame: Frame, column: str) -> np.ndarray:
    """The times of events, float64 (n,): numbers unchanged, dates and times in seconds. Raises TableError."""
    series = frame.rows[column]
    if series.dtype.is_temporal():
        values = np.asarray(series.to_numpy())
        absent = np.isnat(values) if values.dtype.kind in "mM" else np.array([value is None for value in values.tolist()])
        times = values.astype("datetime64[us]").astype(np.float64) / 1e6
    elif series.dtype.is_numeric():
        times = series.to_numpy().astype(np.float64)
        absent = ~np.isfinite(times)
    else:
        raise TableError(f"{frame.where(0)}: {column!r}, the event time, is neither a time nor a number")
    if absent.any():
        raise TableError(f"{frame.where(int(absent.argmax()))}: {column!r}, the event time, is missing")
    return times


def _contexts(frame: Frame, columns: Sequence[str]) -> list[dict[str, Any]]:
    """What each row says of its query; None for what is missing."""
    if not columns:
        return []
    values = frame.rows.select(list(columns)).iter_rows(named=True)
    return [{name: None if value != value else value for name, value in row.items()} for row in values]


def numbers_of(frame: Frame, column: str) -> np.ndarray:
    """A column as float64 (n,); NaN for missing values. Raises TableError."""
    series = frame.rows[column]
    if series.dtype.is_temporal():
        raise TableError(
            f"{frame.where(0)}: column {column!r} holds times, and numbers are wanted: make them numbers, such as days"
        )
    # numpy lacks integers of 128 bits.
    values = np.array(series.to_list(), dtype=object) if str(series.dtype) in ("Int128", "UInt128") else series.to_numpy()
    if values.dtype.kind in "biuf":
        return values.astype(np.float64)
    numbers = np.empty(len(values))
    for i, value in enumerate(values.tolist()):
        # pandas has a missing value of its own, which cannot be compared.
        if value is None or type(value).__name__ == "NAType":
            numbers[i] = np.nan
        elif isinstance(value, Number) and not isinstance(value, complex):
            numbers[i] = float(value)  # type: ignore[arg-type]
        else:
            raise TableError(f"{frame.where(i)}: {value!r:.60} in column {column!r} is not a number")
    return numbers


def _grades(frame: Frame, column: str, negative: str) -> np.ndarray:
    values = numbers_of(frame, column)
    lowest = 0.0 if negative == "error" else -(2.0**53)
    good = (values >= lowest) & (values <= 2.0**53) & (values == np.rint(values))
    if not good.all():
        i = int(np.argmin(good))
        what = "the grade is missing" if np.isnan(values[i]) else f"the grade {values[i]:g} is not an integer >= 0"
        raise TableError(f"{frame.where(i)}: {what}, in column {column!r}")
    grades = values.astype(np.int64)
    return np.maximum(grades, 0) if negative == "zero" else grades
