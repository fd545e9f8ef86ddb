"""Groups the rows of a table by query, in memory that does not grow with its columns."""

import contextlib
import tempfile
from collections.abc import Iterator, Sequence
from itertools import pairwise
from typing import Any, NamedTuple

import numpy as np

from online_rank.stream.columns import TablePlan
from online_rank.stream.table_rows import document_ids, numbers_of, require_queries, times_of
from online_rank.stream.table_sources import Batches, Frame, batches_of
from online_rank.stream.table_text import arrow

#: Approximate number of values sorted at once, and the largest number of temporary files.
_VALUES, _MOST_FILES = 1 << 22, 256

#: Further columns of the temporary files: the place of a row's query, its source, and its number there.
_PLACE, _SOURCE, _ROW = "place of query", "number of source", "number of row"


class _Order(NamedTuple):
    """Where each row of all sources goes.

    Attributes
    ----------
    places
        int32 (n,): the place of its query among the queries.
    files
        int32 (n,): the file that it is written to.
    n_files
        Number of files.
    """

    places: np.ndarray
    files: np.ndarray
    n_files: int


def grouped(sources: Sequence[Any], plan: TablePlan, n_rows: int) -> Batches:
    """All sources as one table with the rows of each query grouped.

    Queries are in order of first appearance, or of their first event if the plan has a column of times; the rows of a query
    keep their order. The sources are read twice: first only the ids, then everything, which goes to temporary files that are
    sorted one at a time. Memory holds the id and 8 bytes for each row.

    Raises
    ------
    TypeError
        A source can be read only once.
    """
    for source in sources:
        if hasattr(source, "read_next_batch"):
            raise TypeError("a record batch reader can be read only once; to group the rows of queries give files or tables")

    tables = [batches_of(source, plan.read, n_rows) for source in sources]
    total = None if any(table.n_rows is None for table in tables) else sum(table.n_rows or 0 for table in tables)
    return Batches(", ".join(table.name for table in tables), lambda: _sorted_frames(sources, plan, n_rows), total)


def _sorted_frames(sources: Sequence[Any], plan: TablePlan, n_rows: int) -> Iterator[Frame]:
    import narwhals as nw
    import pyarrow

    ipc = arrow("pyarrow.ipc")
    names = [batches_of(source, plan.read, n_rows).name for source in sources]
    order, id_type = _order(sources, plan, n_rows)
    with tempfile.TemporaryDirectory(prefix="online_rank-") as folder:
        paths = [f"{folder}/{k}.arrow" for k in range(order.n_files)]
        _divide(sources, plan, n_rows, order, id_type, paths)
        for path in paths:
            with pyarrow.memory_map(path) as file, ipc.open_stream(file) as reader:
                table = reader.read_all()
            table = table.take(np.argsort(table[_PLACE].to_numpy(), kind="stable"))
            for start in range(0, len(table), n_rows):
                rows = table.slice(start, n_rows)
                source, number = (rows[name].to_numpy() for name in (_SOURCE, _ROW))
                yield Frame(
                    nw.from_native(rows),
                    lambda i, source=source, number=number: f"{names[source[i]]}, row {number[i]}",  # type: ignore[misc]
                )


def _order(sources: Sequence[Any], plan: TablePlan, n_rows: int) -> tuple[_Order, Any]:
    """Where each row goes, and the type in which ids of queries are compared."""
    import pyarrow

    wanted = [column for column in plan.read if column.role in ("query", "event time")]
    query, time = plan.of("query"), plan.of("event time")
    ids, times = [], [np.empty(0)]
    for source in sources:
        for frame in batches_of(source, wanted, n_rows).frames():
            require_queries(frame, str(query))
            ids += frame.rows[query].to_frame().to_arrow()[query].chunks
            if time is not None:
                times.append(times_of(frame, time))
    types = {chunk.type for chunk in ids}
    id_type = pyarrow.string() if len(types) > 1 else next(iter(types), pyarrow.null())
    column = pyarrow.chunked_array([chunk.cast(id_type) for chunk in ids], id_type)
    if pyarrow.types.is_dictionary(id_type):
        column = column.cast(id_type := id_type.value_type)
    # Codes number ids in order of first appearance.
    codes = column.combine_chunks().dictionary_encode().indices.to_numpy().astype(np.int32)
    sizes = np.bincount(codes)
    if time is not None:
        first = np.full(len(sizes), np.inf)
        np.minimum.at(first, codes, np.concatenate(times))
        by_time = np.argsort(first, kind="stable")
        places = np.empty(len(sizes), np.int32)
        places[by_time] = np.arange(len(sizes))
        codes, sizes = places[codes], sizes[by_time]
    ends = np.cumsum(sizes)
    n = int(ends[-1]) if len(ends) else 0
    n_files = min(_MOST_FILES, n * len(plan.read) // _VALUES + 1)
    of_query = ((ends - 1) * n_files // max(1, n)).astype(np.int32)
    return _Order(codes, of_query[codes], n_files), id_type


def _divide(sources: Sequence[Any], plan: TablePlan, n_rows: int, order: _Order, id_type: Any, paths: Sequence[str]) -> None:
    """Write every row to its file."""
    import pyarrow

    ipc = arrow("pyarrow.ipc")
    schema = _schema(plan, id_type, batches_of(sources[0], plan.read, n_rows))
    with contextlib.ExitStack() as stack:
        writers = [stack.enter_context(ipc.new_stream(path, schema)) for path in paths]
        done = 0
        for k, source in enumerate(sources):
            number = 1
            for frame in batches_of(source, plan.read, n_rows).frames():
                rows = frame.rows.to_arrow()
                n = len(rows)
                columns = [_column(frame, rows, field, plan) for field in list(schema)[:-3]]
                own = [order.places[done : done + n], np.full(n, k, np.int32), np.arange(number, number + n)]
                whole = pyarrow.table([*columns, *own], schema=schema)
                files = order.files[done : done + n]
                by_file = np.argsort(files, kind="stable")
                bounds = np.flatnonzero(np.diff(files[by_file], prepend=-1, append=len(paths)))
                for a, b in pairwise(bounds.tolist()):
                    writers[files[by_file[a]]].write_table(whole.take(by_file[a:b]))
                done, number = done + n, number + n


def _column(frame: Frame, rows: Any, field: Any, plan: TablePlan) -> Any:
    """A column of a frame in the type of the files. Raises TableError for anything but a number."""
    import pyarrow

    if field.name == plan.of("document"):
        return pyarrow.array(document_ids(frame, field.name), field.type)
    if field.name == plan.of("grade") or field.name in plan.features:
        return pyarrow.array(numbers_of(frame, field.name), field.type)
    return rows[field.name].combine_chunks().cast(field.type)


def _schema(plan: TablePlan, id_type: Any, first: Batches) -> Any:
    """The columns of the files; those with what is known of queries have the types that they have in the first table."""
    import pyarrow

    types = {"query": id_type, "document": pyarrow.string(), "grade": pyarrow.float64(), "feature": pyarrow.float64()}
    fields = [(column.name, types[column.role]) for column in plan.read if column.role in types]
    if plan.context:
        rows = next((frame.rows.select(list(plan.context)).to_arrow() for frame in first.frames()), None)
        known = pyarrow.schema([]) if rows is None else rows.schema
        kinds = [field.type for field in known]
        plain = [kind.value_type if pyarrow.types.is_dictionary(kind) else kind for kind in kinds]
        fields += zip(known.names, plain, strict=True)
    return pyarrow.schema([*fields, (_PLACE, pyarrow.int32()), (_SOURCE, pyarrow.int32()), (_ROW, pyarrow.int64())])
