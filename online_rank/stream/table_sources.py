"""Sources of tables: files, frames and readers, each read as frames of some rows."""

import gzip
import os
import re
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass
from typing import Any, NamedTuple

import numpy as np

#: Suffixes of files that are tables.
TABLES = (".parquet", ".csv", ".tsv", ".csv.gz", ".tsv.gz")

_CSV_BLOCK = 1 << 20

#: Separators of csv columns, the likeliest first.
_SEPARATORS = ",;\t|"
#: The first bytes of files that are no csv in UTF-8, and what to do.
_NO_TEXT = {
    b"\xff\xfe": "text in UTF-16: write it as UTF-8 (iconv -f UTF-16 -t UTF-8)",
    b"\xfe\xff": "text in UTF-16: write it as UTF-8 (iconv -f UTF-16 -t UTF-8)",
    b"\x1f\x8b": "packed by gzip: call it .csv.gz",
    b"\x28\xb5\x2f\xfd": "packed by zstd: unpack it first (zstd -d)",
    b"BZh": "packed by bzip2: unpack it first (bunzip2)",
    b"\xfd7zXZ\x00": "packed by xz: unpack it first (unxz)",
    b"PK\x03\x04": "a zip archive or a spreadsheet: unpack it, or save it as csv",
    b"\x04\x22\x4d\x18": "packed by lz4: unpack it first (lz4 -d)",
    b"\xd0\xcf\x11\xe0": "a spreadsheet: save it as csv",
    b"PAR1": "parquet: call it .parquet",
    b"ARROW1": "feather: write it as parquet",
    b"{": "JSON: write it as parquet or csv, as pandas.read_json(..., lines=True).to_parquet(...) does",
    b"[": "JSON: write it as parquet or csv, as pandas.read_json(...).to_parquet(...) does",
}
#: Endings of files that are no tables, and what to do.
_OTHERWISE = {
    (".zst", ".bz2", ".xz", ".gz", ".zip", ".lz4"): "unpack it first",
    (".feather", ".arrow", ".orc", ".avro", ".json", ".jsonl", ".ndjson", ".xlsx", ".xls", ".ods", ".db", ".sqlite"): (
        "write it as parquet, as pandas.read_...(...).to_parquet(...) does"
    ),
}
#: A number with a decimal comma, between separators other than commas.
_COMMA = re.compile(rb"(^|[;\t|\r\n])-?\d+,\d+(?=[;\t|\r\n]|$)")
_POINT = re.compile(rb"(^|[;\t|\r\n])-?\d+\.\d+(?=[;\t|\r\n]|$)")


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
        return _parquet(path, names, n_rows) if path.lower().endswith(".parquet") else _csv(path, columns)
    return _in_memory(source, names, n_rows)


def columns_of(source: Any) -> tuple[dict[str, str], dict[bytes, bytes] | None]:
    """The columns of a table with their types as `Column` names them, in order, and the metadata of an arrow schema.

    The types of csv columns are inferred from the beginning.
    """
    import narwhals as nw

    if isinstance(source, tuple) and len(source) == 3:
        source = source[0]
    metadata, given = None, source
    if isinstance(source, str | os.PathLike):
        _require_table(path := os.fspath(source))
        if path.lower().endswith(".parquet"):
            with _open_parquet(path) as file:
                source = file.schema_arrow
        else:
            with _open_csv(path) as reader:
                source = reader.schema
        source, metadata = source.empty_table(), source.metadata
    elif hasattr(source, "read_next_batch"):
        source, metadata = source.schema.empty_table(), source.schema.metadata
    elif nw.dependencies.is_pyarrow_table(source):
        metadata = source.schema.metadata
    elif not (nw.dependencies.is_into_dataframe(source) or _is_lazy(source)):
        raise _no_table(source)
    _require_names(_name_of(given), list(_native_names(source)))
    schema = nw.from_native(source).collect_schema()
    kinds = source.dtypes if nw.dependencies.is_pandas_dataframe(source) else {}
    return {name: _type_of(dtype, getattr(kinds.get(name), "kind", "") == "c") for name, dtype in schema.items()}, metadata


def _name_of(source: Any) -> str:
    return os.fspath(source) if isinstance(source, str | os.PathLike) else type(source).__name__


def _native_names(source: Any) -> Sequence[Any]:
    """The names of a table's columns as its library gives them, which may repeat one or give no text."""
    if hasattr(source, "column_names"):
        return source.column_names
    return () if _is_lazy(source) else list(source.columns)


def _require_names(name: str, names: Sequence[Any]) -> None:
    """Raise TypeError or ValueError unless all columns have names of their own."""
    for column in names:
        if not isinstance(column, str):
            raise TypeError(f"{name}: the name of a column is {column!r}, not text: rename it, as df.rename(columns=str) does")
    if len(set(names)) < len(names):
        twice = next(column for i, column in enumerate(names) if column in names[:i])
        raise ValueError(f"{name}: several columns are called {twice!r}: rename all but one of them, or leave them out")


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


def _require_columns(name: str, columns: Sequence[str], there: Sequence[str]) -> None:
    for column in columns:
        if column not in there:
            shown = ", ".join(map(repr, list(there)[:10])) + (", ..." if len(there) > 10 else "")
            raise ValueError(f"{name}: no column {column!r}; there are {shown}")


def arrow(module: str) -> Any:
    """A module of pyarrow. Raises ImportError with advice if it is not installed."""
    import importlib

    try:
        return importlib.import_module(module)
    except ImportError:
        raise ImportError('reading parquet and csv needs pyarrow: pip install "online_rank[tables]"') from None


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
        _require_columns(path, columns, file.schema_arrow.names)
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


def _csv(path: str, columns: Sequence[Column]) -> Batches:
    import narwhals as nw

    with _open_csv(path) as reader:
        there = reader.schema.names
    names = [column.name for column in columns]
    _require_columns(path, names, there)

    def frames() -> Iterator[Any]:
        import pyarrow

        types = {column.name: kind for column in columns if (kind := _csv_type(column)) is not None}
        convert = {"include_columns": names, "column_types": types}
        try:
            with _open_csv(path, there, **convert) as reader:
                for batch in reader:
                    yield nw.from_native(_without_empty_text(pyarrow.Table.from_batches([batch])))
        except pyarrow.ArrowInvalid as error:
            raise ValueError(f"{path}: {_with_column(str(error), there)}") from None
        except OSError as error:
            if error.filename is not None:
                raise
            raise ValueError(f"{path}: packed by gzip, and cut short ({error})") from None

    return Batches(path, _numbered(path, frames))


def _without_empty_text(table: Any) -> Any:
    """A table of csv in which empty text is missing. Words such as NA are text, where they are not among numbers."""
    import pyarrow

    compute = arrow("pyarrow.compute")
    for j, field in enumerate(table.schema):
        if pyarrow.types.is_string(field.type):
            values = table.column(j)
            table = table.set_column(j, field, compute.if_else(compute.equal(values, ""), None, values))
    return table


def _csv_type(column: Column) -> Any:
    """The type with which a column of csv is read; None for the inferred one.

    The type is certain only at the end: a column that begins with integers may have fractions later.
    """
    import pyarrow

    if column.role in ("query", "document"):
        return pyarrow.string()
    if column.role == "grade" or (column.role == "feature" and column.type != "boolean"):
        return pyarrow.float64()
    return {"number": pyarrow.float64(), "boolean": pyarrow.bool_(), "text": pyarrow.string()}.get(column.type)


def _with_column(message: str, names: Sequence[str]) -> str:
    """A message of pyarrow with the name of the column instead of its number."""
    return re.sub(
        r"In CSV column #(\d+): ",
        lambda match: f"column {names[int(match[1])]!r}: " if int(match[1]) < len(names) else match[0],
        message,
    )


def _open_csv(path: str, names: Sequence[str] = (), **convert: Any) -> Any:
    csv = arrow("pyarrow.csv")
    import pyarrow

    os.stat(path)
    separator, decimal = _punctuation(path)
    try:
        reader = csv.open_csv(
            path,
            read_options=csv.ReadOptions(block_size=_CSV_BLOCK),
            parse_options=csv.ParseOptions(delimiter=separator),
            convert_options=csv.ConvertOptions(decimal_point=decimal, **convert),
        )
        _require_names(path, reader.schema.names)
        return reader
    except OSError as error:
        if error.filename is not None:
            raise
        raise ValueError(f"{path}: packed by gzip, and cut short ({error})") from None
    except UnicodeDecodeError:
        raise ValueError(f"{path}: not text in UTF-8: write it as UTF-8 (iconv -f LATIN1 -t UTF-8)") from None
    except pyarrow.ArrowInvalid as error:
        raise ValueError(f"{path}: {_with_column(str(error), names)}") from None


def _punctuation(path: str) -> tuple[str, str]:
    """The separator of a text file's columns and its decimal mark, from the first lines."""
    zipped = path.lower().endswith(".gz")
    try:
        with gzip.open(path) if zipped else open(path, "rb") as file:
            sample = file.read(1 << 16)
    except (gzip.BadGzipFile, EOFError) as error:
        raise ValueError(f"{path}: its name says gzip, but it is not gzip, or cut short ({error})") from None
    for magic, what in _NO_TEXT.items():
        if sample.startswith(magic):
            raise ValueError(f"{path}: {what}")
    if path.lower().removesuffix(".gz").endswith(".tsv"):
        separator = "\t"
    else:
        header = re.sub(r'"[^"]*"', "", sample.partition(b"\n")[0].decode("utf-8", "replace"))
        separator = max(_SEPARATORS, key=lambda mark: (header.count(mark), -_SEPARATORS.index(mark)))
    comma = separator != "," and _COMMA.search(sample) and not _POINT.search(sample)
    return separator, "," if comma else "."


def _in_memory(source: Any, columns: Sequence[str], n_rows: int) -> Batches:
    import narwhals as nw

    name = type(source).__name__
    if hasattr(source, "read_next_batch"):
        import pyarrow

        _require_columns(name, columns, source.schema.names)

        def read() -> Iterator[Any]:
            return (nw.from_native(pyarrow.Table.from_batches([batch]).select(list(columns))) for batch in source)

        return Batches(name, _numbered(name, read))
    if not (nw.dependencies.is_into_dataframe(source) or _is_lazy(source)):
        raise _no_table(source)
    _require_columns(name, columns, nw.from_native(source).collect_schema().names())
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
