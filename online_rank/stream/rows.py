"""Rows of any source, on their way to queries."""

from collections.abc import Callable, Sequence
from typing import Any, NamedTuple

import numpy as np

from online_rank.query import SparseRows
from online_rank.query.sparse import as_rows
from online_rank.stream.plan import Column, Plan
from online_rank.stream.tables import Batch, Table
from online_rank.stream.values import Faults, arrow, grades_of, ids_of, is_text, numbers_of, plain, times_of


class Rows(NamedTuple):
    """Some rows: a document each.

    Attributes
    ----------
    X
        Features (n, d): an array, NaN where missing, or `SparseRows`.
    y
        int64 (n,): grades.
    starts, qids
        The rows at which a query begins, of which the first is 0, and its id.
    docids
        Ids of documents, if there are any.
    where
        The place of a row, for messages.
    faults
        What is wrong with rows.
    names
        The features; None if they are numbered from 1.
    times
        Times of rows, or None.
    more
        Further columns as lists: those of text and of the context, the position, ...
    """

    X: Any
    y: np.ndarray
    starts: list[int]
    qids: list[str]
    docids: list[str]
    where: Callable[[int], str]
    faults: dict[int, str]
    names: tuple[str, ...] | None = None
    times: np.ndarray | None = None
    more: dict[str, list[Any]] = {}  # noqa: RUF012


def rows_of(table: Table, batch: Batch, plan: Plan, negative: str, missing: str) -> Rows:
    """The rows of a batch of a table, by the roles of its columns. Raises ReadError if it lacks a column."""
    faults, n, numbers = Faults(), len(batch.rows), [name for name in plan.features if plan.kinds[name] != "text"]
    X = np.empty((n, len(numbers)))
    for j, name in enumerate(numbers):
        X[:, j] = numbers_of(table.column(batch.rows, name), plan.kinds[name], faults, name)
    bad = ~np.isfinite(X) if missing == "error" else np.isinf(X)

    def what(i: int) -> str:
        j = int(bad[i].argmax())
        if np.isinf(X[i, j]):
            return f"the value of {numbers[j]!r} is not finite"
        return f'the value of {numbers[j]!r} is missing; missing="zero" reads it as 0, "keep" keeps it for models that take it'

    faults.note(bad.any(axis=1), what)
    grade, query, time, document = (plan.of(role) for role in ("grade", "query", "event time", "document"))
    y = np.zeros(n, np.int64)
    if grade is not None:
        y = grades_of(table.column(batch.rows, grade), negative, faults, grade)
    qids: Any = arrow().array([""] * n)
    if query is not None:
        qids = ids_of(table.column(batch.rows, query, as_id=True), "query", faults, batch.rows.schema.field(query))
        faults.note(arrow("pyarrow.compute").equal(qids, "").to_numpy(False), lambda i: f"{query!r}, the query, is missing")
    docids = []
    if document is not None:
        field = batch.rows.schema.field(document)
        docids = ids_of(table.column(batch.rows, document, as_id=True), "document", faults, field).to_pylist()
    changed = arrow("pyarrow.compute").not_equal(qids[1:], qids[:-1]).to_numpy(zero_copy_only=False)
    starts = [0, *(np.flatnonzero(changed) + 1).tolist()] if n else []
    return Rows(
        X,
        y,
        starts,
        qids.take(starts).to_pylist(),
        docids,
        batch.where,
        faults,
        tuple(numbers),
        None if time is None else times_of(table.column(batch.rows, time), faults, time),
        {column.name: _listed(table, batch, column, faults) for column in plan.columns if _is_listed(column)},
    )


def _is_listed(column: Column) -> bool:
    """Whether a column is kept as a list of values."""
    return column.role in ("context", "position", "click", "propensity") or (column.role == "feature" and column.type == "text")


def _listed(table: Table, batch: Batch, column: Column, faults: Faults) -> list[Any]:
    """The values of such a column: numbers, texts, or what the context takes; NaN or None where missing."""
    values = table.column(batch.rows, column.name, as_id=column.type == "text")
    if column.role in ("position", "propensity") or (column.role == "click" and column.type != "text"):
        return numbers_of(values, column.type, faults, column.name).tolist()
    if is_text(values) and column.type in ("number", "boolean"):
        found = numbers_of(values, column.type, faults, column.name).tolist()
        return [None if x != x else bool(x) if column.type == "boolean" else x for x in found]
    return [None if x != x or x == "" else x for x in plain(values).to_pylist()]


def stacked(parts: Sequence[Any]) -> Any:
    """Features, arrays or sparse rows, one below the other in new arrays, with as many columns as the widest has."""
    if len(parts) == 1 and isinstance(parts[0], np.ndarray):
        return parts[0].copy()
    width = max((X.shape[1] for X in parts), default=0)
    if any(isinstance(X, SparseRows) for X in parts):
        rows = [as_rows(X) for X in parts]
        ends = np.cumsum([0, *(len(one.values) for one in rows)])
        starts = [np.zeros(1, np.int64), *(one.starts[1:] + end for one, end in zip(rows, ends[:-1].tolist(), strict=True))]
        columns, values = (np.concatenate([getattr(one, name) for one in rows]) for name in ("columns", "values"))
        return SparseRows(np.concatenate(starts), columns, values, width)
    if all(X.shape[1] == width for X in parts):
        return np.concatenate(parts)
    X = np.zeros((sum(map(len, parts)), width))
    n = 0
    for one in parts:
        X[n : n + len(one), : one.shape[1]] = one
        n += len(one)
    return X


def taken(X: Any, rows: np.ndarray) -> Any:
    """The rows of features with these numbers, in this order."""
    if not isinstance(X, SparseRows):
        return X[rows]
    sizes = np.diff(X.starts)[rows]
    starts = np.append(0, np.cumsum(sizes))
    entries = np.arange(starts[-1]) + np.repeat(X.starts[rows] - starts[:-1], sizes)
    return SparseRows(starts, X.columns[entries], X.values[entries], X.n_columns)
