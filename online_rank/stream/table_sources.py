"""Sources of tables: files, frames and readers, each read as frames of some rows.

pyarrow alone reads the files, parquet as well as text: pandas writes parquet through it, and it reads both some rows at a time.
"""

import os
from collections.abc import Callable, Collection, Iterable, Iterator, Sequence
from dataclasses import dataclass
from typing import Any, NamedTuple

import numpy as np

from online_rank.stream.table_text import arrow, require_own_names, text_header, text_tables

#: Suffixes of files that are tables.
TABLES = (".parquet", ".csv", ".tsv", ".csv.gz", ".tsv.gz")

#: Endings of files that are no tables, and what to do.
_OTHERWISE = {
    (".zst", ".bz2", ".xz", ".gz", ".zip", ".lz4"): "unpack it first",
    (".feather", ".arrow", ".orc", ".avro", ".json", ".jsonl", ".ndjson", ".xlsx", ".xls", ".ods", ".db", ".sqlite"): (
        "write it as parquet, as pandas.read_...(...).to_parquet(...) does"
    ),
}


class Column(NamedTuple):
    """A column of a table.

    Attributes
    ----------
    name : str
        Its name.
    type : str
        "number", "boolean" (0 and 1 as a feature), "text", "datetime", "empty" or "other".
    role : str
        "feature", "query", "grade", "document", "event time", "context", or "left out".
    why : str
        Why it is left out.
    """

    name: str
    type: str
    role: str
    why: str = ""


class Frame(NamedTuple):
    """Some rows of a table: a narwhals frame, and the position of each row, for messages."""

    rows: Any
    where: Callable[[int], str]


@dataclass(frozen=True)
class Batches:
    """A table, read some rows at a time.

    Attributes
    ----------
    name
        Its name in messages.
    frames
        Returns an iterator over frames of some rows, with the requested columns.
    n_rows
        Number of rows; None if unknown.
    """

    name: str
    frames: Callable[[], Iterator[Frame]]
    n_rows: int | None = None


def _numbered(name: str, native: Callable[[], Iterator[Any]], first: int = 1) -> Callable[[], Iterator[Frame]]:
    """`Frame`s of narwhals frames, the first of which begins with row number `first`."""

    def frames() -> Iterator[Frame]:
        row = first
        for rows in native():
            yield Frame(rows, lambda i, row=row: f"{name}, row {row + i}")  # type: ignore[misc]
            row += len(rows)

    return frames


def is_table(path: Any) -> bool:
    """Whether a file is a readable table, by its name."""
    return isinstance(path, str | os.PathLike) and os.fspath(path).lower().endswith(TABLES)


def remedy_for(path: str) -> str:
    """What to do with a file that is not read, by the ending of its name; empty if that says nothing."""
    return "".join(what for ends, what in _OTHERWISE.items() if path.lower().endswith(ends))


def batches_of(source: Any, columns: Sequence[Column], n_rows: int) -> Batches:
    """A source of `iter_table` as frames of up to about `n_rows` rows with these columns.

    Raises TypeError or ValueError if it is not a table, or lacks a column.
    """
    names = [column.name for column in columns]
    if isinstance(source, tuple) and len(source) == 3:
        path, begin, end = source
        return _parquet(path, names, n_rows, begin, end)
    if isinstance(source, str | os.PathLike):
        path = os.fspath(source)
        _require_table(path)
        return _parquet(path, names, n_rows) if path.lower().endswith(".parquet") else _text(path, columns)
    return _in_memory(source, names, n_rows)


class Header(NamedTuple):
    """What the beginning of a table says of its columns.

    Attributes
    ----------
    types : dict
        The type of each column as `Column` names it, in order; those of text files are inferred from the first block.
    metadata : dict or None
        The metadata of an arrow schema.
    words : dict
        For columns of text files with numbers and other words: the first word, and where it stands.
    """

    types: dict[str, str]
    metadata: dict[bytes, bytes] | None = None
    words: dict[str, str] = {}  # noqa: RUF012


def columns_of(source: Any) -> Header:
    """The columns of a table."""
    import narwhals as nw

    if isinstance(source, tuple) and len(source) == 3:
        source = source[0]
    metadata, given = None, source
    if isinstance(source, str | os.PathLike):
        _require_table(path := os.fspath(source))
        if not path.lower().endswith(".parquet"):
            types, words = text_header(path)
            return Header(types, None, words)
        with _open_parquet(path) as file:
            source = file.schema_arrow
        source, metadata = source.empty_table(), source.metadata
    elif hasattr(source, "read_next_batch"):
        source, metadata = source.schema.empty_table(), source.schema.metadata
    elif nw.dependencies.is_pyarrow_table(source):
        metadata = source.schema.metadata
    elif not (nw.dependencies.is_into_dataframe(source) or _is_lazy(source)):
        raise _no_table(source)
    require_own_names(name_of(given), list(_native_names(source)))
    schema = nw.from_native(source).collect_schema()
    kinds = source.dtypes if nw.dependencies.is_pandas_dataframe(source) else {}
    types = {name: _type_of(dtype, getattr(kinds.get(name), "kind", "") == "c") for name, dtype in schema.items()}
    return Header(types, metadata)


def name_of(source: Any) -> str:
    """The name of a table in messages."""
    return os.fspath(source) if isinstance(source, str | os.PathLike) else type(source).__name__


def _native_names(source: Any) -> Sequence[Any]:
    """The names of a table's columns as its library gives them, which may repeat one or give no text."""
    if hasattr(source, "column_names"):
        return source.column_names
    return () if _is_lazy(source) else list(source.columns)


def _type_of(dtype: Any, is_complex: bool = False) -> str:
    import narwhals as nw

    if dtype.is_numeric():
        return "number"
    if dtype == nw.Boolean:
        return "boolean"
    if dtype.is_temporal():
        return "datetime"
    if dtype in (nw.String, nw.Categorical, nw.Enum):
        return "text"
    # Narwhals knows neither null columns nor complex numbers.
    return "empty" if dtype == nw.Unknown and not is_complex else "other"


def row_bounds(path: str, n: int, query: str) -> list[int]:
    """The rows at which a parquet file is cut into `n` parts of whole queries, or fewer, from 0: near row groups."""
    with _open_parquet(path) as file:
        groups = np.cumsum([0, *(file.metadata.row_group(i).num_rows for i in range(file.num_row_groups))]).tolist()
        wanted = sorted({min(groups, key=lambda row: abs(row - k * groups[-1] / n)) for k in range(1, n)} - {0, groups[-1]})
        bounds = {0, groups[-1]}
        for row in wanted:
            bounds.add(_end_of_query(file, groups, row, query))
    return sorted(bounds)


def _end_of_query(file: Any, groups: list[int], row: int, query: str) -> int:
    """The first row, from the beginning `row` of a row group, whose query differs from the row before it."""
    group = groups.index(row)
    last = file.read_row_group(group - 1, columns=[query])[query][-1].as_py()
    while group < len(groups) - 1:
        ids = file.read_row_group(group, columns=[query])[query].to_pylist()
        for offset, qid in enumerate(ids):
            if qid != last:
                return groups[group] + offset
        group += 1
    return groups[-1]


def _require_table(path: str) -> None:
    if not is_table(path):
        remedy = f": {what}" if (what := remedy_for(path)) else ""
        raise ValueError(f"{path}: not a table by its name{remedy}; tables are {', '.join(TABLES)}")


def require_columns(name: str, columns: Iterable[str], there: Collection[str]) -> None:
    """Raise ValueError unless a table has these columns."""
    for column in columns:
        if column not in there:
            shown = ", ".join(map(repr, list(there)[:10])) + (", ..." if len(there) > 10 else "")
            raise ValueError(f"{name}: no column {column!r}; there are {shown}")


def _open_parquet(path: str) -> Any:
    """A file of parquet. Raises ValueError with its name if it is damaged, or something else."""
    parquet, lib = arrow("pyarrow.parquet"), arrow("pyarrow.lib")
    try:
        return parquet.ParquetFile(path)
    except lib.ArrowInvalid as error:
        raise ValueError(f"{path}: not a file of parquet, or cut short ({error})") from None


def _parquet(path: str, columns: Sequence[str], n_rows: int, begin: int = 0, end: int | None = None) -> Batches:
    import narwhals as nw

    with _open_parquet(path) as file:
        require_columns(path, columns, file.schema_arrow.names)
        groups = np.cumsum([0, *(file.metadata.row_group(i).num_rows for i in range(file.num_row_groups))])
    stop = int(groups[-1]) if end is None else end
    wanted = [i for i in range(len(groups) - 1) if groups[i] < stop and groups[i + 1] > begin]

    def frames() -> Iterator[Any]:
        import pyarrow

        with _open_parquet(path) as file:
            row = int(groups[wanted[0]]) if wanted else stop
            for batch in file.iter_batches(n_rows, row_groups=wanted, columns=list(columns)):
                a, b = max(0, begin - row), min(batch.num_rows, stop - row)
                row += batch.num_rows
                if b > a:
                    yield nw.from_native(pyarrow.Table.from_batches([batch.slice(a, b - a)]))

    return Batches(path, _numbered(path, frames, begin + 1), stop - begin)


def _text(path: str, columns: Sequence[Column]) -> Batches:
    """A csv or tsv file, each column in the type that its role in the plan asks for."""
    import narwhals as nw

    require_columns(path, [column.name for column in columns], columns_of(path).types)

    kinds = {column.name: _kind(column) for column in columns}
    return Batches(path, _numbered(path, lambda: map(nw.from_native, text_tables(path, kinds))))


def _kind(column: Column) -> str:
    """The type as which a column of text is read."""
    if column.role in ("query", "document"):
        return "text"
    return "number" if column.role in ("grade", "feature") and column.type != "boolean" else column.type


def _in_memory(source: Any, columns: Sequence[str], n_rows: int) -> Batches:
    import narwhals as nw

    name = type(source).__name__
    if hasattr(source, "read_next_batch"):
        import pyarrow

        require_columns(name, columns, source.schema.names)

        def read() -> Iterator[Any]:
            return (nw.from_native(pyarrow.Table.from_batches([batch]).select(list(columns))) for batch in source)

        return Batches(name, _numbered(name, read))
    if not (nw.dependencies.is_into_dataframe(source) or _is_lazy(source)):
        raise _no_table(source)
    require_columns(name, columns, nw.from_native(source).collect_schema().names())
    if _is_lazy(source):
        return Batches(name, _numbered(name, lambda: map(nw.from_native, _collected(source.select(list(columns)), n_rows))))
    frame = nw.from_native(source, eager_only=True).select(list(columns))

    def slices() -> Iterator[Any]:
        for start in range(0, len(frame), n_rows):
            yield frame[start : start + n_rows]

    return Batches(name, _numbered(name, slices), len(frame))


def _no_table(source: Any) -> TypeError:
    return TypeError(f"a table is a path, a pyarrow table or reader, or a polars or pandas frame, not {type(source).__name__}")


def _is_lazy(source: Any) -> bool:
    import narwhals as nw

    return nw.dependencies.is_polars_lazyframe(source)


def _collected(frame: Any, n_rows: int) -> Iterator[Any]:
    """A polars lazy frame, read some rows at a time if polars supports it."""
    if hasattr(frame, "collect_batches"):
        return frame.collect_batches(chunk_size=n_rows, maintain_order=True)
    return frame.collect().iter_slices(n_rows)
