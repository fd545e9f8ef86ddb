"""Where tables come from: files, frames and readers, each as frames of some rows."""

import os
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np

__all__ = ["TABLES", "Batches", "batches_of", "is_table", "numeric_columns", "row_bounds"]

#: Suffixes of files that are tables.
TABLES = (".parquet", ".csv", ".tsv", ".csv.gz", ".tsv.gz")

_CSV_BLOCK = 1 << 20


@dataclass(frozen=True)
class Batches:
    """A table, read some rows at a time.

    Attributes
    ----------
    name
        What messages call it.
    frames
        Gives narwhals frames with the wanted columns.
    n_rows
        Their number; None where it is not known.
    first_row
        The number of the first one.
    """

    name: str
    frames: Callable[[], Iterator[Any]]
    n_rows: int | None = None
    first_row: int = 1


def is_table(path: Any) -> bool:
    """Whether a file is one of the tables that can be read, by its name."""
    return isinstance(path, str | os.PathLike) and os.fspath(path).lower().endswith(TABLES)


def batches_of(source: Any, columns: Sequence[str], n_rows: int, query: str) -> Batches:
    """A source of `iter_table` as frames of at most about `n_rows` rows with these columns.

    Raises TypeError or ValueError for what is no table, or has not the columns.
    """
    if isinstance(source, tuple) and len(source) == 3:
        path, begin, end = source
        return _parquet(path, columns, n_rows, begin, end)
    if isinstance(source, str | os.PathLike):
        path = os.fspath(source)
        _require_table(path)
        return _parquet(path, columns, n_rows) if path.lower().endswith(".parquet") else _csv(path, columns, query)
    return _in_memory(source, columns, n_rows)


def numeric_columns(source: Any) -> list[str]:
    """The columns of a table that hold numbers, in order; for csv as far as its beginning shows."""
    import narwhals as nw

    if isinstance(source, str | os.PathLike):
        _require_table(path := os.fspath(source))
        if path.lower().endswith(".parquet"):
            with _arrow("pyarrow.parquet").ParquetFile(path) as file:
                source = file.schema_arrow.empty_table()
        else:
            with _open_csv(path) as reader:
                source = reader.schema.empty_table()
    elif hasattr(source, "read_next_batch"):
        source = source.schema.empty_table()
    schema = nw.from_native(source).collect_schema()
    return [name for name, dtype in schema.items() if dtype.is_numeric() or dtype in (nw.Boolean, nw.Unknown)]


def row_bounds(path: str, n: int, query: str) -> list[int]:
    """Rows of a parquet file between `n` parts of whole queries, or fewer, from 0 on: nearly whole row groups."""
    with _arrow("pyarrow.parquet").ParquetFile(path) as file:
        groups = np.cumsum([0, *(file.metadata.row_group(i).num_rows for i in range(file.num_row_groups))]).tolist()
        wanted = sorted({min(groups, key=lambda row: abs(row - k * groups[-1] / n)) for k in range(1, n)} - {0, groups[-1]})
        bounds = {0, groups[-1]}
        for row in wanted:
            bounds.add(_end_of_query(file, groups, row, query))
    return sorted(bounds)


def _end_of_query(file: Any, groups: list[int], row: int, query: str) -> int:
    """The first row from `row`, where a row group begins, that is of another query than the one before it."""
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
        raise ValueError(f"{path}: not a table by its name; there are {', '.join(TABLES)}")


def _require_columns(name: str, columns: Sequence[str], there: Sequence[str]) -> None:
    for column in columns:
        if column not in there:
            shown = ", ".join(map(repr, list(there)[:10])) + (", ..." if len(there) > 10 else "")
            raise ValueError(f"{name}: no column {column!r}; there are {shown}")


def _arrow(module: str) -> Any:
    import importlib

    try:
        return importlib.import_module(module)
    except ImportError:
        raise ImportError('reading parquet and csv needs pyarrow: pip install "online_rank[tables]"') from None


def _parquet(path: str, columns: Sequence[str], n_rows: int, begin: int = 0, end: int | None = None) -> Batches:
    import narwhals as nw

    parquet = _arrow("pyarrow.parquet")
    with parquet.ParquetFile(path) as file:
        _require_columns(path, columns, file.schema_arrow.names)
        groups = np.cumsum([0, *(file.metadata.row_group(i).num_rows for i in range(file.num_row_groups))])
    stop = int(groups[-1]) if end is None else end
    wanted = [i for i in range(len(groups) - 1) if groups[i] < stop and groups[i + 1] > begin]

    def frames() -> Iterator[Any]:
        import pyarrow

        with parquet.ParquetFile(path) as file:
            row = int(groups[wanted[0]]) if wanted else stop
            for batch in file.iter_batches(n_rows, row_groups=wanted, columns=list(columns)):
                a, b = max(0, begin - row), min(batch.num_rows, stop - row)
                row += batch.num_rows
                if b > a:
                    yield nw.from_native(pyarrow.Table.from_batches([batch.slice(a, b - a)]))

    return Batches(path, frames, stop - begin, begin + 1)


def _csv(path: str, columns: Sequence[str], query: str) -> Batches:
    import narwhals as nw

    csv = _arrow("pyarrow.csv")
    with _open_csv(path) as reader:
        schema = reader.schema
    _require_columns(path, columns, schema.names)

    def frames() -> Iterator[Any]:
        import pyarrow

        # What a column holds is known only at the end; where it began with integers, there may be fractions later.
        types = {
            name: pyarrow.string() if name == query else pyarrow.float64()
            for name in columns
            if name == query or not pyarrow.types.is_string(schema.field(name).type)
        }
        convert = csv.ConvertOptions(include_columns=list(columns), column_types=types, strings_can_be_null=True)
        try:
            with _open_csv(path, convert) as reader:
                for batch in reader:
                    yield nw.from_native(pyarrow.Table.from_batches([batch]))
        except pyarrow.ArrowInvalid as error:
            raise ValueError(f"{path}: {error}") from None

    return Batches(path, frames)


def _open_csv(path: str, convert: Any = None) -> Any:
    csv = _arrow("pyarrow.csv")
    import pyarrow

    os.stat(path)
    tabs = path.lower().removesuffix(".gz").endswith(".tsv")
    try:
        return csv.open_csv(
            path,
            read_options=csv.ReadOptions(block_size=_CSV_BLOCK),
            parse_options=csv.ParseOptions(delimiter="\t" if tabs else ","),
            convert_options=convert,
        )
    except pyarrow.ArrowInvalid as error:
        raise ValueError(f"{path}: {error}") from None


def _in_memory(source: Any, columns: Sequence[str], n_rows: int) -> Batches:
    import narwhals as nw

    name = type(source).__name__
    if hasattr(source, "read_next_batch"):
        import pyarrow

        _require_columns(name, columns, source.schema.names)
        return Batches(name, lambda: (nw.from_native(pyarrow.Table.from_batches([b]).select(list(columns))) for b in source))
    if not (nw.dependencies.is_into_dataframe(source) or _is_lazy(source)):
        raise TypeError(f"a table is a path, a pyarrow table or reader, or a polars or pandas frame, not {name}")
    _require_columns(name, columns, nw.from_native(source).collect_schema().names())
    if _is_lazy(source):
        return Batches(name, lambda: map(nw.from_native, _collected(source.select(list(columns)), n_rows)))
    frame = nw.from_native(source, eager_only=True).select(list(columns))

    def slices() -> Iterator[Any]:
        for start in range(0, len(frame), n_rows):
            yield frame[start : start + n_rows]

    return Batches(name, slices, len(frame))


def _is_lazy(source: Any) -> bool:
    import narwhals as nw

    return nw.dependencies.is_polars_lazyframe(source)


def _collected(frame: Any, n_rows: int) -> Iterator[Any]:
    """A polars lazy frame, some rows at a time where polars can."""
    if hasattr(frame, "collect_batches"):
        return frame.collect_batches(chunk_size=n_rows, maintain_order=True)
    return frame.collect().iter_slices(n_rows)
