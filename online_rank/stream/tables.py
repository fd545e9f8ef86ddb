"""Tables as batches of Arrow: csv, tsv, JSON lines, parquet and Arrow files, frames of pandas, polars and pyarrow.

pyarrow alone reads the files: pandas writes parquet through it, polars hands its frames over to it without a copy, and it reads
all formats some rows at a time. Text is cut into whole lines here, so that each row has a line, and a column of csv is text.
"""

import itertools
import re
from collections.abc import Collection, Iterator, Sequence
from typing import Any

from online_rank.query.embeddings import is_vector
from online_rank.query.names import in_nfc
from online_rank.stream.bounded import Batch, pieces, require_columns, require_dense
from online_rank.stream.objects import array_of, has_changing_names, is_array, json_of, n_names
from online_rank.stream.parquet import rows_at_once, shared_texts
from online_rank.stream.separated import NOT_UTF8, UNCLOSED, closed, fault, has_swallowed, places_of, split
from online_rank.stream.source import UTF8, FileRange, ReadError, Text, lines_of, name_of
from online_rank.stream.values import MIXED, arrow, kind_of, kind_of_words, plain
from online_rank.stream.vectors import IN_CONTEXT
from online_rank.stream.wide import kinds_of

#: Separators of csv columns, the likeliest first.
_SEPARATORS = ",;\t|"
#: A number with a decimal comma, between separators other than commas.
_COMMA = re.compile(rb"(^|[;\t|\r\n])-?\d+,\d+(?=[;\t|\r\n]|$)")
_POINT = re.compile(rb"(^|[;\t|\r\n])-?\d+\.\d+(?=[;\t|\r\n]|$)")
#: What a line of JSON calls its documents, if it is a whole query, and the columns made of such a line.
_DOCUMENTS = ("docs", "documents")
#: The most objects of JSON that are made rows at once.
_OBJECTS = 1 << 14


class Table:
    """A source of rows, opened once.

    Attributes
    ----------
    name, form : str
        Its name in messages, and its format.
    kinds : dict
        The kind of each column: "number", "boolean", "text", "time", "empty" or "other"; in a file of text by the first rows.
    metadata : dict or None
        The metadata of an Arrow schema.
    is_text, of_queries : bool
        Whether it is csv or tsv, in which all is text; whether it is JSON of which each line is a whole query.
    first, where
        The first rows, and the place of each.
    """

    def __init__(self, source: Any, fmt: str, text: Text | None, batch_rows: int) -> None:
        self.name = name_of(source)
        self._n_rows: int | None = None
        self._begin = self._n_read = 0
        # Frames may have a column of this name.
        self._place = source.place if hasattr(type(source), "place") else lambda row: f"{self.name}, row {row}"
        self._text = text
        of_json = "JSON, an array of objects" if text is not None and is_array(text.head) else "JSON lines"
        self.form: str = getattr(type(source), "form", {"json": of_json, "arrow": "Arrow"}.get(fmt, fmt))
        self.is_text, self._is_json = fmt in ("csv", "tsv"), fmt == "json"
        self._decimal_comma = self.of_queries = False
        if text is not None and fmt in ("csv", "tsv", "json"):
            batches = self._of_json(text) if fmt == "json" else self._of_csv(text, fmt == "csv")
        elif text is not None:
            batches = self._numbered(self._of_file(text.file, source, fmt, batch_rows))
        else:
            batches = self._numbered(_of_frame(source, self.name, batch_rows))
            self._n_rows = None if hasattr(source, "read_next_batch") or not hasattr(source, "__len__") else len(source)
        batches = self._named(batches)
        first = next(batches, None)
        if first is None:
            raise ReadError(f"{self.name}: no rows")
        self.first, self.where = next(pieces(first, first.rows.schema.names))
        schema = self.first.schema
        self.metadata = schema.metadata
        columns = dict(zip(schema.names, map(_whole, self.first.columns), strict=True))
        if self.is_text:
            self.kinds = kinds_of({name: self._pointed(values) for name, values in columns.items()})
        else:
            self.kinds = {name: _kind_of(values) for name, values in columns.items()}
        if set(self.kinds.values()) == {"empty"}:
            raise ReadError(f"{self.name}: no rows below the header, or none with a value")
        self._batches: Iterator[Batch] = itertools.chain([first], batches)

    @property
    def share(self) -> float | None:
        """The share of the source that was read, if it is known."""
        if self._n_rows is not None:
            return self._n_read / max(1, self._n_rows)
        return None if self._text is None else self._text.share

    def close(self) -> None:
        """Close the file."""
        if self._text is not None:
            self._text.close()

    def column(self, rows: Any, name: str, as_id: bool = False) -> Any:
        """A column of a batch as one array; in numbers of a file with decimal commas these are points."""
        return next(self.columns(rows, [name], as_id))

    def columns(self, rows: Any, names: Sequence[str], as_id: bool = False) -> Iterator[Any]:
        """Columns of a batch, as `column` gives each. Arrow looks for a name among all of them."""
        every = dict(zip(rows.schema.names, rows.columns, strict=True)) if len(names) > 1 else rows
        for name in names:
            values = _whole(every[name])
            yield values if as_id else self._pointed(values)

    def batches(self, wanted: Collection[str]) -> Iterator[Batch]:
        """All rows, some at a time. Raises ReadError if a column that is wanted is not there; null in JSON."""
        for rows, where in self._batches:
            names = set(rows.schema.names)
            if lacking := [name for name in wanted if name not in names]:
                if not self._is_json:
                    there = ", ".join(rows.schema.names[:10])
                    raise ReadError(f"{where(0) if len(rows) else self.name}: no column {lacking[0]!r}; there are {there}")
                rows = _with_nulls(rows, lacking)
            if rows.num_rows:
                yield from pieces(Batch(rows, where), wanted)

    def _pointed(self, values: Any) -> Any:
        if not self._decimal_comma:
            return values
        return arrow("pyarrow.compute").replace_substring_regex(values, r"^\s*([-+]?\d+),(\d+)\s*$", r"\1.\2")

    def _named(self, batches: Iterator[Batch]) -> Iterator[Batch]:
        """The same rows, with the names of columns in Unicode's form C, as models keep names."""
        names, in_form = None, list[str]()
        for rows, where in batches:
            if rows.schema.names != names:
                names = rows.schema.names
                if not names:
                    raise ReadError(f"{self.name}: no columns: its rows have no values")
                require_columns(self.name, in_form := [in_nfc(name) for name in names])
            yield Batch(rows if in_form == names else rows.rename_columns(in_form), where)

    def _numbered(self, tables: Iterator[Any]) -> Iterator[Batch]:
        for rows in tables:
            row = self._begin + self._n_read + 1
            yield Batch(rows, lambda i, row=row: self._place(row + i))  # type: ignore[misc]
            self._n_read += len(rows)

    def _of_csv(self, text: Text, quoted: bool) -> Iterator[Batch]:
        pa, reader = arrow(), arrow("pyarrow.csv")
        names: list[str] = []
        is_empty = True
        for block, line in closed(text, quoted):
            if not names:
                mark = self._punctuation(bytes(block[: 1 << 16]), quoted)
                _, last, names = next(split(block[: 1 << 20], line, mark, quoted), (0, 0, []))
                if NOT_UTF8.search("".join(names)):
                    raise ReadError(f"{self.name}, line {line}: not text in UTF-8: {UTF8}")
                require_columns(self.name, names)
                block, line = block.split(b"\n", last + 1 - line)[-1] if names else bytearray(), last + 1
                parse = reader.ParseOptions(delimiter=mark, quote_char='"' if quoted else False, newlines_in_values=quoted)
                convert = reader.ConvertOptions(column_types=dict.fromkeys(names, pa.string()), strings_can_be_null=False)
            if not block.strip():
                continue
            options = reader.ReadOptions(column_names=names, block_size=len(block) + 1, use_threads=False)
            try:
                rows = reader.read_csv(pa.py_buffer(bytes(block)), options, parse, convert)
                if quoted and b'"' in block and has_swallowed(rows, mark):
                    raise pa.ArrowInvalid(UNCLOSED)
            except pa.ArrowInvalid as error:
                raise ReadError(f"{self.name}{fault(block, line, mark, quoted, len(names)) or f': {error}'}") from None
            is_empty = False
            yield Batch(rows, places_of(self.name, block, line, mark, quoted))
        if names and is_empty:
            yield Batch(pa.table({name: pa.array([], pa.string()) for name in names}), lambda i: self.name)

    def _punctuation(self, sample: bytes, quoted: bool) -> str:
        """The separator of the columns; notes whether decimals have commas."""
        separator = "\t"
        if quoted:
            header = re.sub(r'"[^"]*"', "", sample.lstrip().partition(b"\n")[0].decode("utf-8", "replace"))
            separator = max(_SEPARATORS, key=lambda mark: (header.count(mark), -_SEPARATORS.index(mark)))
        self._decimal_comma = bool(separator != "," and _COMMA.search(sample) and not _POINT.search(sample))
        return separator

    def _of_json(self, text: Text) -> Iterator[Batch]:
        if is_array(text.head):
            yield from self._of_objects(array_of(text))
            return
        pa, reader = arrow(), arrow("pyarrow.json")
        schema, order = None, dict[str, int]()
        for block, first in text.blocks():
            if not block.strip():
                continue
            if schema is None:
                found = json_of(self.name, *next(lines_of(block, first)))
                self.of_queries = any(name in found for name in _DOCUMENTS)
                # Otherwise, texts that look like times would become times, and ids change.
                schema = pa.schema([(name, pa.string()) for name, value in found.items() if isinstance(value, str)])
                order = {name: i for i, name in enumerate(found)}
            objects = ((f"{self.name}, line {line}", json_of(self.name, line, each)) for line, each in lines_of(block, first))
            if self.of_queries or has_changing_names(block):
                yield from self._of_objects(objects, schema)
                continue
            try:
                options = reader.ReadOptions(block_size=len(block) + 1, use_threads=False)
                parse = reader.ParseOptions(explicit_schema=schema, newlines_in_values=False)
                rows = reader.read_json(pa.py_buffer(bytes(block)), options, parse)
                rows.validate(full=True)  # pyarrow takes bytes that are not UTF-8
                # It also takes the last of several values with one name.
                n_values = sum(len(rows) - values.null_count for values in rows.columns)
                if (n := n_names(block)) > n_values and n > n_values + block.count(b"null"):
                    raise pa.ArrowInvalid
            except (pa.ArrowInvalid, UnicodeDecodeError):
                yield from self._of_objects(objects, schema)
                continue
            # pyarrow puts columns of the schema first.
            rows = rows.select(sorted(rows.column_names, key=lambda name: order.get(name, len(order))))
            yield Batch(rows, places_of(self.name, block, first, ",", False))

    def _of_objects(self, objects: Iterator[tuple[str, dict[str, Any]]], schema: Any = None) -> Iterator[Batch]:
        """Objects of JSON as rows, a document each. The first object of an array shows whether each is a whole query."""
        begin = 1
        while found := [*itertools.islice(objects, _OBJECTS)]:
            if schema is None and begin == 1:
                self.of_queries = any(name in found[0][1] for name in _DOCUMENTS)
            if self.of_queries:
                numbered = enumerate(found, start=begin)
                rows = [(at, row) for i, (at, one) in numbered for row in _documents_of(at, one, str(i))]
            else:
                rows = found
            begin += len(found)
            places = [at for at, _ in rows]
            yield Batch(of_dicts([row for _, row in rows], places[0] if places else self.name), places.__getitem__)

    def _of_file(self, file: Any, source: Any, fmt: str, batch_rows: int) -> Iterator[Any]:
        pa, invalid = arrow(), arrow("pyarrow.lib").ArrowInvalid
        if file is None:
            raise ReadError(
                f"{self.name}: {'parquet' if fmt == 'parquet' else 'Arrow'} has to be read from its end: give the file's path"
            )
        file.seek(0)
        try:
            if fmt == "arrow":
                is_stream, what = file.read(6) != b"ARROW1", "Arrow"
                file.seek(0)
                with pa.ipc.open_stream(file) if is_stream else pa.ipc.open_file(file) as opened:
                    n = getattr(opened, "num_record_batches", None)
                    batches = iter(opened) if n is None else map(opened.get_batch, range(n))
                    yield from _sliced(batches, batch_rows)
                return
            what = "parquet"
            opened = arrow("pyarrow.parquet").ParquetFile(file)
            if shared := shared_texts(opened):
                opened = arrow("pyarrow.parquet").ParquetFile(file, read_dictionary=shared)
        except (invalid, OSError) as error:
            raise ReadError(f"{self.name}: not a file of {what}, or cut short ({error})") from None
        begin, end = (source.begin, source.end) if isinstance(source, FileRange) else (0, opened.metadata.num_rows)
        bounds = list(
            itertools.accumulate((opened.metadata.row_group(i).num_rows for i in range(opened.num_row_groups)), initial=0)
        )
        groups = [i for i in range(opened.num_row_groups) if bounds[i] < end and bounds[i + 1] > begin]
        self._n_rows, self._begin = end - begin, begin
        row = bounds[groups[0]] if groups else end
        if begin == end:
            yield opened.schema_arrow.empty_table()
        for batch in self._undamaged(opened.iter_batches(min(batch_rows, rows_at_once(opened.metadata)), row_groups=groups)):
            a, b = max(0, begin - row), min(batch.num_rows, end - row)
            row += batch.num_rows
            if b > a:
                yield pa.Table.from_batches([batch.slice(a, b - a)]).replace_schema_metadata(opened.schema_arrow.metadata)

    def _undamaged(self, batches: Iterator[Any]) -> Iterator[Any]:
        """The same batches. Raises ReadError, with the name of the file, for one that cannot be read."""
        lib = arrow("pyarrow.lib")
        try:
            yield from batches
        except (lib.ArrowInvalid, lib.ArrowNotImplementedError, OSError) as error:
            raise ReadError(f"{self._place(self._begin + self._n_read + 1)}, or one that follows: {error}") from None


def _kind_of(values: Any) -> str:
    """The kind of a column of a frame or of JSON: texts that are all dates are times, true and false are booleans."""
    kind = kind_of(values)
    return kind_of_words(plain(values)) if kind == "text" else kind


def _whole(values: Any) -> Any:
    """A column as one array."""
    return values.chunk(0) if values.num_chunks == 1 else values.combine_chunks()


def _with_nulls(rows: Any, names: Collection[str]) -> Any:
    """Rows with further columns, which are empty."""
    pa, n = arrow(), rows.num_rows
    schema = pa.schema([*rows.schema, *(pa.field(name, pa.null()) for name in names)], rows.schema.metadata)
    return pa.table([*rows.columns, *([pa.nulls(n)] * len(names))], schema=schema)


def _of_frame(source: Any, name: str, batch_rows: int) -> Iterator[Any]:
    """A frame of any library as tables of pyarrow."""
    pa = arrow()
    if hasattr(source, "read_next_batch"):
        yield from _sliced(source, batch_rows)
        return
    if type(source).__module__.startswith("polars") and hasattr(source, "collect"):
        if hasattr(source, "collect_batches"):
            frames = source.collect_batches(chunk_size=batch_rows, maintain_order=True)
        else:
            frames = source.collect().iter_slices(batch_rows)
        yield from (frame.to_arrow() for frame in frames)
        return
    if hasattr(source, "to_arrow"):
        # Arrow lacks integers of 128 bits.
        wide = {column: float for column, kind in source.schema.items() if str(kind) in ("Int128", "UInt128")}
        source = source.cast(wide) if wide else source
        source = source.to_arrow()
    elif type(source).__module__.startswith("pandas") and hasattr(source, "columns"):
        require_columns(name, list(source.columns))
        source = _table([(column, _values(source[column])) for column in source.columns])
    if not isinstance(source, pa.Table):
        raise TypeError(
            f"a source is a path, an open file, or a frame of pandas, polars or pyarrow, not {type(source).__name__}"
        )
    require_columns(name, source.column_names)
    for start in range(0, max(1, len(source)), batch_rows):
        yield source.slice(start, batch_rows)


def _sliced(batches: Any, n_rows: int) -> Iterator[Any]:
    for batch in batches:
        for start in range(0, batch.num_rows, n_rows):
            yield arrow().Table.from_batches([batch.slice(start, n_rows)])


def _values(values: Any) -> tuple[Any, bool]:
    """Values of any types as an array of Arrow, as text if they are of several types, and whether they are."""
    pa = arrow()
    if hasattr(values, "sparse"):  # of pandas
        values = values.sparse.to_dense()
    try:
        return pa.array(values, from_pandas=True), False
    except (pa.ArrowInvalid, pa.ArrowTypeError, pa.ArrowNotImplementedError, OverflowError):
        # NaN and the missing value of pandas are not equal to themselves.
        texts = [None if x is None or x != x else x if isinstance(x, str) else str(x) for x in values if x is not Ellipsis]
        return pa.array(texts, pa.string()), True


def _table(columns: Sequence[tuple[str, tuple[Any, bool]]]) -> Any:
    pa = arrow()
    fields = [pa.field(name, values.type, metadata=MIXED if mixed else None) for name, (values, mixed) in columns]
    return pa.table([values for _, (values, _) in columns], schema=pa.schema(fields))


def of_dicts(rows: Sequence[dict[str, Any]], where: str) -> Any:
    """Dicts of values as a table. Raises ReadError, with the place of the rows, if nearly all of its cells would be empty."""
    names = dict.fromkeys(name for row in rows for name in row)
    require_dense(where, len(rows), len(names), sum(map(len, rows)))
    columns: dict[str, list[Any]] = {name: [None] * len(rows) for name in names}
    for i, row in enumerate(rows):
        for name, value in row.items():
            columns[name][i] = value
    return _table([(name, _values(values)) for name, values in columns.items()])


def _documents_of(where: str, found: dict[str, Any], number: str) -> Iterator[dict[str, Any]]:
    """The documents of an object with a whole query, as `POST /learn` of a service takes it: a row each.

    A query without an id is called by its `number`.
    """
    key = next((key for key in _DOCUMENTS if key in found), "docs")
    docs, grades, context = found.pop(key, None), found.pop("grades", None), found.pop("context", {})
    if not isinstance(docs, dict | list):
        raise ReadError(f"{where}: {key} is of type {type(docs).__name__}; it is a list or an object of documents")
    context = {IN_CONTEXT + name if is_vector(value) else name: value for name, value in context.items()}
    ids = [*docs] if isinstance(docs, dict) else [one.get("id") if isinstance(one, dict) else None for one in docs]
    if any(isinstance(id, dict | list) for id in ids):
        raise ReadError(f"{where}: the id of a document is a list or an object; it is a text or a number")
    given = grades if isinstance(grades, list) else [(grades or {}).get(id) for id in ids]
    docs = [*docs.values()] if isinstance(docs, dict) else docs
    if len(given) != len(docs) or not all(isinstance(one, dict) for one in docs):
        raise ReadError(f"{where}: {len(docs)} documents and {len(given)} grades; a document is an object")
    if isinstance(grades, dict) and (others := grades.keys() - {*ids}):
        raise ReadError(f"{where}: grades has {min(others)!r:.60}, which is no document of the query")
    query = found.pop("id", None) if "query" not in found else found.pop("query")
    about = {"query": query if query is not None else number, **found, **context}
    for id, one, grade in zip(ids, docs, given, strict=True):
        roles = ({} if id is None else {"document": str(id)}) | ({} if grade is None else {"grade": grade})
        if taken := [name for name in one if name in roles or name in about]:
            raise ReadError(f"{where}: a document has {taken[0]!r:.60}, which is also said of it otherwise: rename it")
        yield about | {name: value for name, value in one.items() if name != "id"} | roles
