"""Rows of tables in pieces that fit into memory, also where a file makes many cells of few bytes.

A table of Arrow may be far larger than its file: many columns of few values, and texts that many rows share.
"""

from collections.abc import Callable, Collection, Iterator, Sequence
from itertools import pairwise
from typing import Any, NamedTuple

import numpy as np

from online_rank.limits import FREE_CELLS, MAX_CELLS_A_VALUE, MAX_COLUMNS, MAX_NAME_LENGTH, MAX_TEXT
from online_rank.stream.source import ReadError
from online_rank.stream.values import Faults, arrow, kind_of, plain

#: Most cells of a piece, and most bytes of its texts, unless one row has more.
CELLS, TEXT = 1 << 22, 1 << 25


class Batch(NamedTuple):
    """Some rows: a table of pyarrow, and the place of each row, for messages."""

    rows: Any
    where: Callable[[int], str]


def require_columns(name: str, columns: Sequence[Any]) -> None:
    """Raise TypeError or ReadError unless all columns have different names, that are texts, and there are not too many."""
    if len(columns) > MAX_COLUMNS:
        what = "write features of which most are 0 as LETOR text, or several of them as one column of lists"
        raise ReadError(f"{name}: {len(columns):,} columns, and at most {MAX_COLUMNS:,} are read: {what}")
    met: set[str] = set()
    for column in columns:
        if not isinstance(column, str):
            raise TypeError(f"{name}: the name of a column is {column!r}, not text: rename it, as df.rename(columns=str) does")
        if len(column) > MAX_NAME_LENGTH:
            what = f"{len(column):,} characters, and at most {MAX_NAME_LENGTH:,} are read"
            raise ReadError(f"{name}: the name of column {len(met) + 1} has {what}: {column!r:.60}")
        if column in met:
            raise ReadError(f"{name}: several columns are called {column!r}: rename all but one of them, or leave them out")
        met.add(column)


def require_dense(where: str, n_rows: int, n_columns: int, n_values: int) -> None:
    """Raise ReadError for rows of JSON whose names leave nearly all cells of their table empty."""
    if n_columns > MAX_COLUMNS or n_rows * n_columns > max(FREE_CELLS, MAX_CELLS_A_VALUE * n_values):
        what = (
            "a name that changes from row to row is no column: write it as a value, or features that are mostly 0 as LETOR text"
        )
        raise ReadError(f"{where}: {n_columns:,} names in {n_rows:,} rows that have {n_values:,} values: {what}")


def pieces(batch: Batch, names: Collection[str]) -> Iterator[Batch]:
    """The same rows in pieces of few cells, in which the texts of the columns with these names are short together."""
    rows, where = batch
    ends = _ends(rows, names)
    if len(ends) == 1:
        yield batch
        return
    for begin, end in pairwise([0, *ends]):
        yield Batch(rows.slice(begin, end - begin), _moved(where, begin))


def _moved(where: Callable[[int], str], by: int) -> Callable[[int], str]:
    return lambda i: where(by + i)


def _ends(rows: Any, names: Collection[str]) -> list[int]:
    """The rows at which pieces end."""
    n = rows.num_rows
    step = max(1, CELLS // max(1, rows.num_columns))
    fields = [i for i, field in enumerate(rows.schema) if _is_shared(field.type) and field.name in names]
    if not fields:
        return [*range(step, n, step), n]
    before = np.append(0, np.cumsum(np.sum([_sizes(rows.column(i)) for i in fields], axis=0)))
    ends, end = [], 0
    while end < n:
        end = min(n, end + step, max(end + 1, int(np.searchsorted(before, before[end] + TEXT, side="right")) - 1))
        ends.append(end)
    return ends or [0]


def _is_shared(kind: Any) -> bool:
    """Whether rows of a type may share one text."""
    types = arrow("pyarrow.types")
    return types.is_dictionary(kind) and (types.is_string(kind.value_type) or types.is_large_string(kind.value_type))


def _sizes(column: Any) -> np.ndarray:
    """The bytes of the text of each row."""
    compute, found = arrow("pyarrow.compute"), [np.zeros(0, np.int64)]
    for chunk in column.chunks:
        lengths = compute.binary_length(chunk.dictionary).take(chunk.indices)
        found.append(compute.fill_null(lengths, 0).to_numpy(zero_copy_only=False).astype(np.int64))
    return np.concatenate(found)


def shared(values: Any) -> list[Any]:
    """The values of an array; rows with one text share it."""
    values = values if arrow("pyarrow.types").is_dictionary(values.type) else plain(values)
    if not _is_shared(values.type):
        return plain(values).to_pylist()
    texts = values.dictionary.to_pylist()
    return [None if i is None else texts[i] for i in values.indices.to_pylist()]


def note_long_texts(values: Any, faults: Faults, column: str) -> None:
    """Note the rows of an array in which a column has a text that is longer than the longest one."""
    if kind_of(values) != "text":
        return
    compute, is_shared = arrow("pyarrow.compute"), _is_shared(values.type)
    lengths = compute.binary_length(values.dictionary if is_shared else plain(values))
    if (longest := compute.max(lengths).as_py()) is None or longest <= MAX_TEXT:
        return
    long = compute.fill_null(lengths.take(values.indices) if is_shared else lengths, 0).to_numpy(zero_copy_only=False)
    what = f"and at most {MAX_TEXT:,} are read: exclude the column, or shorten the text"
    faults.note(long > MAX_TEXT, lambda i: f"the text in column {column!r} has {long[i]:,} bytes, {what}")
