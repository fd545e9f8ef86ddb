"""Rows of any source, on their way to queries."""

from bisect import bisect_right
from collections import Counter
from collections.abc import Callable, Sequence
from itertools import accumulate, chain
from typing import Any, NamedTuple

import numpy as np

from online_rank.query import SparseRows
from online_rank.query.sparse import as_rows
from online_rank.stream.bounded import note_long_texts, shared
from online_rank.stream.plan import Column, Options, Plan
from online_rank.stream.tables import Batch, Table
from online_rank.stream.values import (
    MISSING_WORDS,
    Faults,
    arrow,
    grades_of,
    ids_of,
    is_text,
    kind_of,
    numbers_of,
    plain,
    times_of,
)
from online_rank.stream.vectors import joined_vectors, vectors_in
from online_rank.stream.wide import numbers_in


class Rows(NamedTuple):
    """Some rows: a document each.

    Attributes
    ----------
    X
        Features (n, d): an array, NaN where missing, or `SparseRows`.
    y
        int64 (n,): grades.
    starts, qids
        The rows at which the queries begin, the first at 0, and the ids of the queries.
    docids
        Ids of documents, if they are known.
    where
        The place of a row, for messages.
    faults
        What is wrong with rows.
    names
        The features; none if they are `numbered`.
    times
        Times of rows, or None.
    more
        Further columns as lists: texts, the context, the position, ...
    numbered
        Whether the features are known by their numbers, 1, 2, ...
    weights
        float64 (n,): the weight of the query of each row; None for 1.
    """

    X: Any
    y: np.ndarray
    starts: list[int]
    qids: list[str]
    docids: list[str]
    where: Callable[[int], str]
    faults: dict[int, str]
    names: tuple[str, ...]
    times: np.ndarray | None = None
    more: dict[str, list[Any]] = {}  # noqa: RUF012
    numbered: bool = False
    weights: np.ndarray | None = None

    @property
    def fault(self) -> str | None:
        """The place of the first row that cannot be read, and why; None if all can."""
        return f"{self.where(first)}: {self.faults[first]}" if (first := min(self.faults, default=None)) is not None else None

    def part(self, a: int, b: int, qid: str) -> "Rows":
        """The rows a:b as one query; arrays are views."""
        faults = {i - a: self.faults[i] for i in range(a, b) if i in self.faults} if self.faults else {}
        more = {name: values[a:b] for name, values in self.more.items()} if self.more else self.more
        X = self.X.rows(a, b) if isinstance(self.X, SparseRows) else self.X[a:b]
        times, weights = (None if of is None else of[a:b] for of in (self.times, self.weights))
        y, docids, where, names = self.y[a:b], self.docids[a:b], self.where, self.names
        return Rows(X, y, [0], [qid], docids, lambda i: where(a + i), faults, names, times, more, self.numbered, weights)

    def taken(self, rows: np.ndarray, qid: str) -> "Rows":
        """The rows with these numbers, in this order, as one query."""
        places, where = rows.tolist(), self.where
        return self._replace(
            X=taken(self.X, rows),
            y=self.y[rows],
            starts=[0],
            qids=[qid],
            docids=[self.docids[i] for i in places if self.docids],
            where=lambda i: where(places[i]),
            faults={i: self.faults[row] for i, row in enumerate(places) if row in self.faults},
            times=None if self.times is None else self.times[rows],
            weights=None if self.weights is None else self.weights[rows],
            more={name: [values[i] for i in places] for name, values in self.more.items()},
        )


class Trimmed:
    """Categories that lost the blanks around them: how many of each column, and the first of all; and what looks like a
    missing value: the first of each column.
    """

    def __init__(self) -> None:
        self.counts: Counter[str] = Counter()
        self._first = ""
        self._doubtful: dict[str, str] = {}

    def trim(self, values: Any, column: str, where: Callable[[int], str]) -> Any:
        """Texts of Arrow (n,) without the blanks around them; texts that rows share are trimmed once."""
        compute, is_shared = arrow("pyarrow.compute"), arrow("pyarrow.types").is_dictionary(values.type)
        texts = values.dictionary if is_shared else plain(values)
        trimmed = compute.utf8_trim_whitespace(texts)
        changed = compute.not_equal(trimmed, texts)
        if column not in self._doubtful:
            doubtful = compute.is_in(trimmed, arrow().array(MISSING_WORDS[1:], trimmed.type))
            doubtful = doubtful.take(values.indices) if is_shared else doubtful
            if (row := doubtful.index(True).as_py()) >= 0:
                self._doubtful[column] = f"{values[row].as_py().strip()!r} in column {column!r} ({where(row)})"
        if is_shared:
            trimmed, changed = arrow().DictionaryArray.from_arrays(values.indices, trimmed), changed.take(values.indices)
        changed = compute.fill_null(changed, False)
        if n := changed.true_count:
            row = changed.index(True).as_py()
            self._first = self._first or f"the first is {values[row].as_py()!r:.60} ({where(row)})"
            self.counts[column] += n
        return trimmed

    @property
    def in_words(self) -> str:
        """What was trimmed; empty for nothing."""
        if not self.counts:
            return ""
        of = ", ".join(f"{n:,} in column {column!r}" for column, n in self.counts.items())
        return f"blanks around categories were trimmed: {of}; {self._first}"

    @property
    def doubtful_in_words(self) -> str:
        """The categories that look like missing values; empty for none."""
        found = ", ".join(self._doubtful.values())
        return found and f"read as categories, although they look like missing values that were written as text: {found}"


def rows_of(table: Table, batch: Batch, plan: Plan, options: Options, trimmed: Trimmed) -> Rows:
    """The rows of a batch of a table, by the roles of its columns; `trimmed` counts."""
    faults, n, numbers = Faults(), len(batch.rows), [name for name in plan.features if name not in plan.categories]
    kinds = (plan.kinds[name] for name in numbers)
    given = list(zip(numbers, kinds, table.columns(batch.rows, numbers), strict=True))
    X = numbers_in(given, faults, table.is_text) if given else np.empty((n, 0))
    bad = ~np.isfinite(X) if options.missing == "error" else np.isinf(X)

    def what(i: int) -> str:
        j = int(bad[i].argmax())
        if np.isinf(X[i, j]):
            return f"the value of {numbers[j]!r} is not finite"
        return f'the value of {numbers[j]!r} is missing; missing="zero" reads it as 0, "keep" keeps it for models that take it'

    faults.note(bad.any(axis=1), what)
    grade, query, time, document = (plan.of(role) for role in ("grade", "query", "event time", "document"))
    y = np.zeros(n, np.int64)
    if grade is not None:
        y = grades_of(table.column(batch.rows, grade), options.negative, options.max_grade, faults, grade)
    qids: Any = arrow().array([""] * n)
    if query is not None:
        qids = _ids(table, batch, query, "query", faults)
        faults.note(arrow("pyarrow.compute").equal(qids, "").to_numpy(False), lambda i: f"{query!r}, the query, is missing")
    docids = []
    if document is not None:
        docids = _ids(table, batch, document, "document", faults).to_pylist()

    def trimmed_of(column: Column) -> Trimmed | None:
        return None if column.name in options.untrimmed else trimmed

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
        None if time is None else times_of(table.column(batch.rows, time), plan.time_format(time), faults, time),
        {
            column.name: _listed(table, batch, column, faults, trimmed_of(column), plan.joined.get(column.name, ()))
            for column in plan.columns
            if _is_listed(column, plan)
        },
    )


def _ids(table: Table, batch: Batch, column: str, role: str, faults: Faults) -> Any:
    """A column of ids as an array of text."""
    values = table.column(batch.rows, column, as_id=True)
    note_long_texts(values, faults, column)
    return ids_of(values, role, faults, batch.rows.schema.field(column))


def _is_listed(column: Column, plan: Plan) -> bool:
    """Whether a column is kept as a list of values."""
    return column.role in ("context", "position", "click", "propensity") or column.name in plan.categories


def _listed(
    table: Table, batch: Batch, column: Column, faults: Faults, trimmed: Trimmed | None, parts: Sequence[str] = ()
) -> list[Any]:
    """The values of such a column: numbers, texts, vectors, or what the context takes; NaN or None where missing.

    A vector may have other columns as its `parts`.
    """
    if column.type == "vector":
        columns = [*table.columns(batch.rows, parts or [column.name])]
        alone = len(columns) == 1 and kind_of(columns[0]) in ("vector", "text")
        return vectors_in(columns[0], faults, column.name) if alone else joined_vectors(columns, faults, parts)
    values = table.column(batch.rows, column.name, as_id=column.type == "text")
    if column.role in ("position", "propensity") or (column.role == "click" and column.type != "text"):
        return numbers_of(values, column.type, faults, column.name).tolist()
    if is_text(values) and column.type in ("number", "boolean"):
        found = numbers_of(values, column.type, faults, column.name).tolist()
        return [None if x != x else bool(x) if column.type == "boolean" else x for x in found]
    note_long_texts(values, faults, column.name)
    if column.role == "feature" and trimmed is not None and kind_of(values) == "text":
        values = trimmed.trim(values, column.name, batch.where)
    return [None if x != x or x == "" else x for x in shared(values)]


def joined(parts: Sequence[Rows]) -> Rows:
    """Rows as one, with the features of the widest."""
    if len(parts) == 1:
        return parts[0]
    bounds = [*accumulate((len(rows.y) for rows in parts), initial=0)]

    def where(i: int) -> str:
        k = bisect_right(bounds, i) - 1
        return parts[k].where(i - bounds[k])

    widest, zero = max(parts, key=lambda rows: rows.X.shape[1]), ("0",)
    # A feature 0 that comes late moves the others by one.
    X = stacked([_moved(rows.X) if widest.names[:1] == zero != rows.names[:1] else rows.X for rows in parts])
    return widest._replace(
        X=X,
        y=np.concatenate([rows.y for rows in parts]),
        docids=[*chain.from_iterable(rows.docids for rows in parts)],
        where=where,
        faults={begin + i: what for begin, rows in zip(bounds, parts, strict=False) for i, what in rows.faults.items()},
        times=None if widest.times is None else np.concatenate([rows.times for rows in parts]),
        more={name: [*chain.from_iterable(rows.more[name] for rows in parts)] for name in widest.more},
        weights=_joined_weights(parts),
    )


def _joined_weights(parts: Sequence[Rows]) -> np.ndarray | None:
    """The weights of all rows, 1 where a source has none; None if all sources have none."""
    if all(rows.weights is None for rows in parts):
        return None
    return np.concatenate([np.ones(len(rows.y)) if rows.weights is None else rows.weights for rows in parts])


def _moved(X: Any) -> Any:
    """Features with a new first column, 0 everywhere."""
    if isinstance(X, SparseRows):
        return SparseRows(X.starts, X.columns + 1, X.values, X.n_columns + 1)
    return np.pad(X, ((0, 0), (1, 0)))


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
    X = np.zeros((sum(map(len, parts)), width))
    n = 0
    for one in parts:
        X[n : n + len(one), : one.shape[1]] = one
        n += len(one)
    return X


def taken(X: Any, rows: Any) -> Any:
    """The rows of features with these numbers, in this order."""
    if not isinstance(X, SparseRows):
        return X[rows]
    sizes = np.diff(X.starts)[rows]
    starts = np.append(0, np.cumsum(sizes))
    entries = np.arange(starts[-1]) + np.repeat(X.starts[rows] - starts[:-1], sizes)
    return SparseRows(starts, X.columns[entries], X.values[entries], X.n_columns)
