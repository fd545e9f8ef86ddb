"""Tables in text, csv and tsv.

pyarrow splits the text into rows and columns, in blocks of bounded size, and reads every column as text. The types are decided
here, so that a value that cannot be read is an error with its row, and means the same at the beginning and at the end.
"""

import csv
import gzip
import os
import re
from collections.abc import Iterator, Mapping, Sequence
from typing import Any

_CSV_BLOCK = 1 << 20

#: What means missing in columns of numbers, booleans and times in text. In columns of text, such as ids, only empty text does.
MISSING_WORDS = ("", "NA", "N/A", "NaN", "nan", "NULL", "null", "\\N", "None", "NaT", "<NA>")

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
#: A number with a decimal comma, between separators other than commas.
_COMMA = re.compile(rb"(^|[;\t|\r\n])-?\d+,\d+(?=[;\t|\r\n]|$)")
_POINT = re.compile(rb"(^|[;\t|\r\n])-?\d+\.\d+(?=[;\t|\r\n]|$)")


class TableError(ValueError):
    """An error in a table; the message names the row and the column."""

    __module__ = "online_rank.stream"


def arrow(module: str) -> Any:
    """A module of pyarrow. Raises ImportError with advice if it is not installed."""
    import importlib

    try:
        return importlib.import_module(module)
    except ImportError:
        raise ImportError('reading parquet and csv needs pyarrow: pip install "online_rank[tables]"') from None


def require_own_names(name: str, names: Sequence[Any]) -> None:
    """Raise TypeError or ValueError unless all columns have names of their own."""
    for column in names:
        if not isinstance(column, str):
            raise TypeError(f"{name}: the name of a column is {column!r}, not text: rename it, as df.rename(columns=str) does")
    if len(set(names)) < len(names):
        twice = next(column for i, column in enumerate(names) if column in names[:i])
        raise ValueError(f"{name}: several columns are called {twice!r}: rename all but one of them, or leave them out")


def text_tables(path: str, kinds: Mapping[str, str]) -> Iterator[Any]:
    """The rows of a text file as arrow tables with these columns, each in the type of its kind. Raises TableError."""
    import pyarrow

    decimal, row = _punctuation(path)[1], 1
    for block in _blocks(path):
        read = {}
        for name, kind in kinds.items():
            values = block[name]
            try:
                read[name] = _converted(values, kind, decimal)
            except pyarrow.ArrowInvalid:
                bad = _first_unreadable(values, kind, decimal)
                what = f"column {name!r}: {values[bad].as_py()!r:.60} is not a {kind}"
                raise TableError(f"{path}, row {row + bad}: {what}") from None
        row += len(block)
        yield pyarrow.table(read)


def _converted(values: Any, kind: str, decimal: str) -> Any:
    """A column of text in the type of this name. Raises ArrowInvalid if a value cannot be read."""
    import pyarrow

    compute = arrow("pyarrow.compute")
    if kind not in ("number", "boolean", "datetime"):
        return compute.if_else(compute.equal(values, ""), None, values)
    if kind == "number" and decimal == ",":
        values = compute.replace_substring(values, ",", ".")
    if kind == "number":
        try:
            return values.cast(pyarrow.float64())
        except pyarrow.ArrowInvalid:
            pass
    values = compute.utf8_trim_whitespace(values)
    values = compute.if_else(compute.is_in(values, pyarrow.array(MISSING_WORDS)), None, values)
    if kind != "datetime":
        return values.cast(pyarrow.float64() if kind == "number" else pyarrow.bool_())
    try:
        return values.cast(pyarrow.timestamp("us"))
    except pyarrow.ArrowInvalid:
        zoned = compute.replace_substring_regex(values, " ?UTC$", "Z")
        return zoned.cast(pyarrow.timestamp("us", "UTC")).cast(pyarrow.timestamp("us"))


def _first_unreadable(values: Any, kind: str, decimal: str) -> int:
    """The first value of a column of text that cannot be read."""
    import pyarrow

    good, bad = 0, len(values)
    while good < bad - 1:
        middle = (good + bad) // 2
        try:
            _converted(values[:middle], kind, decimal)
            good = middle
        except pyarrow.ArrowInvalid:
            bad = middle
    return good


def text_header(path: str) -> tuple[dict[str, str], dict[str, str]]:
    """The types of the columns of a text file, from its first block, and the first word in those that have numbers too."""
    import pyarrow

    blocks, decimal = _blocks(path), _punctuation(path)[1]
    first = next(blocks)
    first = next(blocks, first)
    types, words = {}, {}
    for name in first.schema.names:
        values, types[name] = first[name], "text"
        for kind in ("number", "boolean", "datetime"):
            try:
                types[name] = kind if _converted(values, kind, decimal).null_count < len(values) else "empty"
                break
            except pyarrow.ArrowInvalid:
                continue
        if types[name] == "text" and arrow("pyarrow.compute").match_substring_regex(values, r"^\s*[-+]?[\d.,]+\s*$").true_count:
            row = _first_unreadable(values, "number", decimal)
            words[name] = f"{values[row].as_py()!r:.60} in row {row + 1}"
    return types, words


def _blocks(path: str) -> Iterator[Any]:
    """The rows of a csv or tsv file some at a time, all columns as text; first none. Quotation marks count in csv alone."""
    text = arrow("pyarrow.csv")
    import pyarrow

    os.stat(path)
    separator, _ = _punctuation(path)
    quoted = not path.lower().removesuffix(".gz").endswith(".tsv")
    parse = text.ParseOptions(delimiter=separator, quote_char='"' if quoted else False, newlines_in_values=quoted)
    options = {"read_options": text.ReadOptions(block_size=_CSV_BLOCK), "parse_options": parse}
    try:
        with text.open_csv(path, **options) as reader:
            names = reader.schema.names
        require_own_names(path, names)
        convert = text.ConvertOptions(column_types=dict.fromkeys(names, pyarrow.string()), strings_can_be_null=False)
        with text.open_csv(path, convert_options=convert, **options) as reader:
            yield reader.schema.empty_table()
            for batch in reader:
                if quoted and any(_is_swallowed(value, separator, len(names)) for value in _of_several_lines(batch)):
                    raise pyarrow.ArrowInvalid("an unclosed quotation mark")
                yield batch
    except OSError as error:
        if error.filename is not None:
            raise
        raise ValueError(f"{path}: packed by gzip, and cut short ({error})") from None
    except (UnicodeDecodeError, pyarrow.ArrowInvalid) as error:
        raise TableError(f"{path}{_fault(path, separator, quoted) or f': {error}'}") from None


def _of_several_lines(batch: Any) -> Iterator[str]:
    compute = arrow("pyarrow.compute")
    for values in batch.columns:
        yield from values.filter(compute.match_substring(values, "\n")).to_pylist()


def _is_swallowed(value: str, separator: str, n_columns: int) -> bool:
    """Whether a value contains the separators of whole rows: an unclosed quotation mark begins it."""
    ends = value.rstrip("\r\n").count("\n")
    return ends > 0 and n_columns > 1 and value.count(separator) == ends * (n_columns - 1)


def _fault(path: str, separator: str, quoted: bool) -> str:
    """The lines of the first row of a text file that cannot be read, and why; empty if there is none."""
    first, columns = 1, 0
    unclosed = "a quotation mark is not closed, or closed there: write it twice, or the table as tsv or parquet"
    with (gzip.open if path.lower().endswith(".gz") else open)(
        path, "rt", encoding="utf-8", errors="surrogateescape", newline=""
    ) as file:
        rows = csv.reader(file, delimiter=separator, quoting=csv.QUOTE_MINIMAL if quoted else csv.QUOTE_NONE)
        try:
            for row in rows:
                what = ""
                columns = columns or len(row)
                if any("\udc80" <= character <= "\udcff" for character in "".join(row)):
                    what = "not text in UTF-8: write it as UTF-8 (iconv -f LATIN1 -t UTF-8)"
                elif any(_is_swallowed(value, separator, columns) for value in row):
                    what = unclosed
                elif row and len(row) != columns:
                    what = f"Expected {columns} columns, got {len(row)}" + f"; {unclosed}" * (rows.line_num > first)
                if what:
                    break
                first = rows.line_num + 1
            else:
                return ""
        except csv.Error:
            what = unclosed
        lines = f"line {first}" if rows.line_num <= first else f"lines {first} to {rows.line_num}"
        return f", {lines}: {what}"


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
