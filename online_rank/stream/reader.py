"""The one entry for files and tables: `read`."""

import collections
import itertools
import os
import tempfile
import warnings
from collections.abc import Callable, Iterator, Sequence
from itertools import pairwise
from typing import Any, Literal, NamedTuple, TypeAlias, get_args

import numpy as np
import numpy.typing as npt

from online_rank import arguments
from online_rank.base import abilities_of, steps_of
from online_rank.query import ONE, Block, SparseRows, single
from online_rank.query.context import read_context
from online_rank.query.levels import is_level
from online_rank.query.names import in_nfc, is_index_name
from online_rank.stream.letor import Letor, sizes_beside
from online_rank.stream.plan import Plan, plan_of
from online_rank.stream.rows import Rows, rows_of, stacked, taken
from online_rank.stream.source import FileRange, ReadError, ReadWarning, Text, format_of, is_letor, name_of
from online_rank.stream.tables import Batch, Table
from online_rank.stream.values import MISSING_WORDS

#: Number of first queries checked for ids that come back, so that memory does not grow with the stream.
REMEMBERED = 100_000
_ROWS = 1 << 14

Negative: TypeAlias = Literal["error", "zero", "skip"]
Missing: TypeAlias = Literal["error", "zero", "keep"]
Repeated: TypeAlias = Literal["error", "warn", "new", "group"]
Sizes: TypeAlias = str | os.PathLike[str] | Sequence[int] | npt.NDArray[np.integer]


class Documents(NamedTuple):
    """All queries in memory, as `Ranker.learn_many` takes them.

    Attributes
    ----------
    X : (n, d) float array, or SparseRows
        Features.
    y : (n,) int64
        Grades.
    qid : (n,) int64, or str where an id is not an integer
        Ids of the queries; documents of one query are contiguous.
    docid : list of str
        Ids of the documents, with `with_ids`.
    """

    X: Any
    y: np.ndarray
    qid: np.ndarray
    docid: list[str]


class Options(NamedTuple):
    """How rows are read: the arguments of `read`."""

    with_ids: bool = False
    negative: str = "error"
    missing: str = "error"
    repeated_qid: str = "error"
    skip_bad: float = 0.0
    n_features: int | None = None
    by_name: bool = False
    tells_missing: bool = False
    categories: bool = False
    batch_rows: int = _ROWS
    max_query_bytes: int = 1 << 26


class Lists:
    """The rows of sources, and the lists that they make: what `read` and `read_clicks` have in common.

    Attributes
    ----------
    plan : Plan
        The roles of the columns.
    n_bad : int
        Lists left out so far because of a row that cannot be read.
    watch : callable or None
        It is given the number of rows and the columns, arrays of numpy or Arrow, of all that is read.
    """

    def __init__(self, sources: Sequence[Any], roles: dict[str, Any], options: Options, group: Any = None) -> None:
        self._sources: list[Any] = []
        for source in sources:
            self._sources += source if isinstance(source, list | tuple) else [source]
        if not self._sources:
            raise ValueError("nothing to read: give at least one file or table")
        one = len(self._sources) == 1
        self._group = [None] * len(self._sources) if group is None else [group] if one else list(group)
        if len(self._group) != len(self._sources):
            raise ValueError(f"group has {len(self._group)} entries for {len(self._sources)} sources")
        self._roles, self._options = roles, options
        self.n_bad = self._n_lists = self._n_sized = self._file = 0
        self.watch: Callable[[int, dict[str, Any]], None] | None = None
        self._open = self._opened(self._sources[0])
        self.plan = self._planned(self._open)
        if self.plan.of("event time") is None and roles["named"].get("event time"):
            raise ValueError(f"{self._open.name}: LETOR text has no times")

    @property
    def is_letor(self) -> bool:
        """Whether the first source is LETOR text, whose features are numbered."""
        return isinstance(self._open, Letor)

    @property
    def fraction(self) -> float | None:
        """The share of the sources that was read; None if it is unknown."""
        share = self._open.share
        return None if share is None else min(1.0, (self._file + share) / len(self._sources))

    def _opened(self, source: Any) -> Any:
        """A source as a `Table` or as `Letor` text."""
        named, options = self._roles["named"], self._options
        if not (isinstance(source, str | os.PathLike | FileRange) or hasattr(source, "read")):
            return Table(source, "frame", None, options.batch_rows)
        rows = isinstance(source, FileRange) and source.path.endswith(".parquet")
        text = Text(source.path if rows else source)
        fmt = format_of(source, text.head)
        if fmt == "letor" and named.get("query") is not None and not is_letor(text.head):
            fmt = "csv"
        if fmt == "letor":
            columns = [name for name in ("grade", "document", "event time") if named.get(name)]
            if named.get("query") or columns or self._roles["features"] or self._roles["exclude"]:
                text.close()
                raise ValueError(f"{text.name}: LETOR text has no columns: leave out their names")
            return Letor(text, options.n_features, options.by_name, options.negative, options.missing, options.with_ids)
        return Table(source, fmt, text, options.batch_rows)

    def _planned(self, opened: Any) -> Plan:
        if isinstance(opened, Letor):
            return opened.plan()
        named = dict(self._roles["named"])
        defaults = ("query", "grade", "document") if opened.of_queries else ("query",)
        for role in defaults:
            if named.get(role) is None and role in opened.kinds:
                named[role] = role
        if named["query"] is None and self._group[0] is None:
            self._group[0] = sizes_beside(self._sources[0])
            if self._group[0] is None:
                raise ValueError(
                    f"{opened.name}: a table; name its columns: query= (--query COLUMN), grade= (--grade COLUMN); others are "
                    f"features. It has {', '.join(map(repr, list(opened.kinds)[:10]))}"
                )
        others = {key: value for key, value in self._roles.items() if key != "named"}
        return plan_of(opened, named, categories=self._options.categories, **others)

    def rows(self) -> Iterator[Rows]:
        """All rows of all sources, with groups made of their sizes."""
        for k, source in enumerate(self._sources):
            self._file = k
            if k:
                self._open = self._opened(source)
                if isinstance(self._open, Table):
                    self._notice_new_columns(self._open)
            ends = None if (sizes := self._group[k]) is None else _ends_of(sizes)
            if isinstance(self._open, Letor) and not self._open.has_qid and ends is None:
                if (sizes := sizes_beside(source)) is None:
                    raise ReadError(
                        f"{self._open.name}: no qid:... and no file with the sizes of the groups: give it as group="
                    )
                ends = _ends_of(sizes)
            n = 0
            for rows in self._rows_of(self._open):
                yield rows if ends is None else self._sized(rows, n, ends)
                n += len(rows.y)
            if ends is not None and len(ends) and n < ends[-1]:
                raise ReadError(f"{self._open.name}: {n} documents, but the group sizes add up to {ends[-1]}")
            self._n_sized += 0 if ends is None else int(np.count_nonzero(np.diff(ends, prepend=0)))
            self._open.close()

    def _rows_of(self, opened: Any) -> Iterator[Rows]:
        if isinstance(opened, Letor):
            for rows in opened.rows():
                if self.watch is not None:
                    X = rows.X.toarray() if isinstance(rows.X, SparseRows) else rows.X
                    self.watch(len(rows.y), dict(zip(rows.names or map(str, range(1, X.shape[1] + 1)), X.T, strict=True)))
                yield rows
            return
        for batch in opened.batches:
            there = set(batch.rows.schema.names)
            lacking = [column.name for column in self.plan.columns if column.role != "left out" and column.name not in there]
            for name in lacking if opened.is_json else ():
                batch = Batch(batch.rows.append_column(name, [[None] * batch.rows.num_rows]), batch.where)
            if lacking and not opened.is_json and batch.rows.num_rows:
                raise ReadError(
                    f"{batch.where(0)}: no column {lacking[0]!r}; there are {', '.join(batch.rows.schema.names[:10])}"
                )
            if self.watch is not None:
                self.watch(batch.rows.num_rows, {name: opened.column(batch.rows, name) for name in there})
            if batch.rows.num_rows:
                yield rows_of(opened, batch, self.plan, self._options.negative, self._options.missing)

    def _sized(self, rows: Rows, done: int, ends: np.ndarray) -> Rows:
        """The rows with the groups that the sizes say, numbered from 1."""
        groups = np.searchsorted(ends, np.arange(done, done + len(rows.y)), side="right")
        if groups[-1] == len(ends):
            first = int(np.searchsorted(groups, len(ends)))
            raise ReadError(f"{rows.where(first)}: more documents than the group sizes add up to ({done + first})")
        starts = np.flatnonzero(np.diff(groups, prepend=-1))
        numbers = self._n_sized + np.cumsum(np.diff(ends, prepend=0) > 0)
        return rows._replace(starts=starts.tolist(), qids=[str(number) for number in numbers[groups[starts]].tolist()])

    def _notice_new_columns(self, table: Table) -> None:
        known = {column.name for column in self.plan.columns}
        new = [name for name in table.kinds if name not in known and not is_index_name(name)]
        if new:
            told = f"{table.name}: columns that the first table lacks are left out: {', '.join(new)}"
            warnings.warn(told, ReadWarning, stacklevel=6)

    def lists(self) -> Iterator[tuple[str, list[tuple[Rows, int, int]]]]:
        """The id of each list, and the parts of rows that it is made of. Bad ones are left out, as far as allowed."""
        order = _Order(self._options.repeated_qid, self.plan)
        parts: list[tuple[Rows, int, int]] = []
        current, size = "", 0
        for rows in self._grouped() if self._options.repeated_qid == "group" else self.rows():
            for qid, (a, b) in zip(rows.qids, pairwise([*rows.starts, len(rows.y)]), strict=True):
                if qid != current or not parts:
                    if parts and self._is_good(parts):
                        yield current, parts
                    order.notice(qid, rows, a)
                    current, parts, size = qid, [], 0
                parts.append((rows, a, b))
                size += (b - a) * rows.X.shape[1] * 8 if isinstance(rows.X, np.ndarray) else rows.X.rows(a, b).nbytes
                if size > self._options.max_query_bytes:
                    what = f"query {current} takes more than max_query_bytes={self._options.max_query_bytes} as an array"
                    raise ReadError(f"{rows.where(b - 1)}: {what}")
        if parts and self._is_good(parts):
            yield current, parts

    def _is_good(self, parts: list[tuple[Rows, int, int]]) -> bool:
        """Whether all rows of a list can be read; if not, it is left out (`_leave_out`)."""
        self._n_lists += 1
        found = (f"{rows.where(i)}: {rows.faults[i]}" for rows, a, b in parts for i in sorted(rows.faults) if a <= i < b)
        fault = next(found, None)
        if fault is not None:
            self._leave_out(fault)
        return fault is None

    def _leave_out(self, fault: str) -> None:
        """Leave out a list, with a warning. Raises ReadError for more bad lists than the share that may be left out."""
        self.n_bad += 1
        share = self._options.skip_bad
        if self.n_bad > share * self._n_lists + (share > 0.0):
            more = f"; {self.n_bad:,} of {self._n_lists:,} lists are bad, and skip_bad={share:g}" if share else ""
            raise ReadError(fault + more)
        warnings.warn(
            f"{fault}; the list is left out (number {self.n_bad:,} of {self._n_lists:,} lists)", ReadWarning, stacklevel=6
        )

    def _grouped(self) -> Iterator[Rows]:
        """All rows, those of each query together, queries in order of appearance, or of their first time.

        Features go to a temporary file, so that memory holds only what else is known of each row.
        """
        every, features = [], []
        numbers: dict[str, int] = {}
        with tempfile.TemporaryFile(prefix="online_rank-") as file:
            for rows in self.rows():
                faults = {i: f"{rows.where(i)}: {what}" for i, what in rows.faults.items()}
                codes = np.repeat(
                    [numbers.setdefault(qid, len(numbers)) for qid in rows.qids], np.diff([*rows.starts, len(rows.y)])
                )
                if self.is_letor:
                    features.append(rows.X)
                else:
                    rows.X.tofile(file)
                every.append((rows._replace(X=None, faults=faults), codes))
            if not every:
                return
            y, codes = np.concatenate([rows.y for rows, _ in every]), np.concatenate([codes for _, codes in every])
            if features:
                X = stacked(features)
            else:
                file.flush()
                X = (
                    np.memmap(file, np.float64, "r", shape=(len(y), len(every[0][0].names)))
                    if every[0][0].names
                    else np.empty((len(y), 0))
                )
            yield from _in_order(every, X, y, codes, list(numbers))


def _in_order(
    every: Sequence[tuple[Rows, np.ndarray]], X: Any, y: np.ndarray, codes: np.ndarray, qids: list[str]
) -> Iterator[Rows]:
    """The rows of each query, as rows of their own."""
    first, bounds = every[0][0], np.cumsum([0, *(len(rows.y) for rows, _ in every)])
    times = None if first.times is None else np.concatenate([rows.times for rows, _ in every])
    if times is not None:
        begin = np.full(len(qids), np.inf)
        np.minimum.at(begin, codes, times)
        places = np.empty(len(qids), np.int64)
        by_time = np.argsort(begin, kind="stable")
        places[by_time] = np.arange(len(qids))
        codes, qids = places[codes], [qids[k] for k in by_time.tolist()]
    docids = np.array([docid for rows, _ in every for docid in rows.docids], object)
    more = {name: np.fromiter((x for rows, _ in every for x in rows.more[name]), object, len(y)) for name in first.more}
    faults = {int(a) + i: what for a, (rows, _) in zip(bounds[:-1], every, strict=True) for i, what in rows.faults.items()}
    order, ends = np.argsort(codes, kind="stable"), np.cumsum(np.bincount(codes))
    names = max((rows.names for rows, _ in every), key=lambda names: len(names or ()))

    def where(i: int) -> str:
        k = int(np.searchsorted(bounds, i, side="right")) - 1
        return every[k][0].where(i - int(bounds[k]))

    for qid, (a, b) in zip(qids, pairwise([0, *ends.tolist()]), strict=True):
        rows = order[a:b]
        yield Rows(
            taken(X, rows),
            y[rows],
            [0],
            [qid],
            docids[rows].tolist() if len(docids) else [],
            lambda i, rows=rows: where(int(rows[i])),  # type: ignore[misc]
            {i: faults[row] for i, row in enumerate(rows.tolist()) if row in faults} if faults else {},
            names,
            None if times is None else times[rows],
            {name: values[rows].tolist() for name, values in more.items()},
        )


class _Order:
    """Checks the order of queries: whether one comes back, or is older than the one before it."""

    def __init__(self, mode: str, plan: Plan) -> None:
        self._mode, self._plan = mode, plan
        self._seen: set[str] | None = set() if mode in ("error", "warn") else None
        self._doubtful: set[str] = set()
        self._latest = -np.inf

    def notice(self, qid: str, rows: Rows, i: int) -> None:
        """Check the first row of a query."""
        if qid in MISSING_WORDS and qid and qid not in self._doubtful:
            self._doubtful.add(qid)
            told = f"{rows.where(i)}: query {qid!r} looks like a missing value that was written as text; it is read as an id"
            warnings.warn(told, ReadWarning, stacklevel=7)
        if self._seen is None:
            return
        time = -np.inf if rows.times is None else rows.times[i]
        if time < self._latest:
            self._complain(f"{rows.where(i)}: query {qid} is older than the one before it", "event time")
        elif qid in self._seen:
            self._complain(f"{rows.where(i)}: query {qid} comes back after another one", "query")
        elif self._mode == "error" or len(self._seen) < REMEMBERED:
            self._seen.add(qid)
        self._latest = time

    def _complain(self, what: str, role: str) -> None:
        remedy = f'sort the rows by {self._plan.of(role)!r}, or repeated_qid="group" (--group-by-qid) does it'
        if self._mode == "error":
            raise ReadError(f"{what}; {remedy}")
        self._seen = None
        warnings.warn(f"{what}, and is read as a separate query; {remedy}", ReadWarning, stacklevel=7)


class Queries(Lists, Iterator[tuple[Any, ...]]):
    """The queries of files and tables, one after the other; what `read` returns.

    Attributes
    ----------
    plan : Plan
        The roles of the columns.
    fraction : float or None
        The share of the sources that was read; None if it is unknown.
    n_bad : int
        Lists left out so far because of a row that cannot be read.
    n_missing : int
        Missing values of features in the queries so far.
    """

    def __init__(self, sources: Sequence[Any], roles: dict[str, Any], options: Options, group: Any) -> None:
        super().__init__(sources, roles, options, group)
        self.n_missing, self._twice, self._tells_missing = 0, False, options.tells_missing
        self._ahead: collections.deque[tuple[Any, ...]] = collections.deque()
        self._error: ReadError | None = None
        self._queries = self._made()

    def __next__(self) -> tuple[Any, ...]:
        if not self._ahead and self._error is not None:
            raise self._error
        query = self._ahead.popleft() if self._ahead else next(self._queries)
        return query if self._options.with_ids else query[:2]

    def first(self, n: int) -> list[tuple[Any, ...]]:
        """The next `n` queries, which are still to come; fewer if there are no more, or after them is an error."""
        try:
            self._ahead.extend(itertools.islice(self._queries, max(0, n - len(self._ahead))))
        except ReadError as error:
            self._error = error
        return [query if self._options.with_ids else query[:2] for query in itertools.islice(self._ahead, n)]

    def all(self) -> Documents:
        """All queries that are still to come, at once."""
        found, self._ahead = [*self._ahead, *self._queries], collections.deque()
        if self._error is not None:
            raise self._error
        X = stacked([getattr(x, "X", x) for x, *_ in found]) if found else np.empty((0, self._options.n_features or 0))
        sizes, docids = [len(y) for _, y, *_ in found], [docid for *_, ids in found for docid in ids]
        y = np.concatenate([np.empty(0, np.int64), *(y for _, y, *_ in found)])
        return Documents(X, y, np.repeat(_integers([qid for _, _, qid, _ in found]), sizes), docids)

    def close(self) -> None:
        """Close the open source. This happens automatically at the end."""
        self._queries.close()
        self._open.close()

    def __enter__(self) -> "Queries":
        return self

    def __exit__(self, *exception: object) -> None:
        self.close()

    def _made(self) -> Any:
        for qid, parts in self.lists():
            if (made := self._query(qid, parts)) is not None:
                yield made

    def _query(self, qid: str, parts: list[tuple[Rows, int, int]]) -> tuple[Any, np.ndarray, str, list[str]] | None:
        """Copies, so that a stored query does not keep its block alive; None if no document is left."""
        X = stacked([rows.X[a:b] if isinstance(rows.X, np.ndarray) else rows.X.rows(a, b) for rows, a, b in parts])
        y = np.concatenate([rows.y[a:b] for rows, a, b in parts])
        rows = parts[-1][0]
        docids, more = [docid for rows, a, b in parts for docid in rows.docids[a:b]], {}
        if self._options.with_ids:
            docids = docids or [""] * len(y)
        if rows.more:
            more = {name: [value for rows, a, b in parts for value in rows.more[name][a:b]] for name in rows.more}
        kept = np.flatnonzero(y >= 0) if self._options.negative == "skip" and (y < 0).any() else None
        if kept is not None:
            X, y, docids = taken(X, kept), y[kept], [docids[i] for i in kept.tolist() if docids]
            more = {name: [values[i] for i in kept.tolist()] for name, values in more.items()}
        if not len(y):
            return None
        # Text without missing values has none, and reads faster.
        may_lack = isinstance(X, np.ndarray) and (rows.names is not None or self._options.missing == "keep")
        if may_lack and (absent := np.isnan(X)).any():
            self.n_missing += int(np.count_nonzero(absent))
            if self._options.missing == "zero":
                X[absent] = 0.0
                if self._tells_missing:
                    self._tells_missing = False
                    where = next(rows.where(a) for rows, a, b in parts if np.isnan(rows.X[a:b]).any())
                    warnings.warn(
                        f"{where}, the query there: missing values count as 0, since the model does not take them",
                        ReadWarning,
                        stacklevel=5,
                    )
        if (twice := first_repeated(docids)) is not None:
            _require_one_grade(qid, docids, y)
            if not self._twice:
                self._twice = True
                warnings.warn(f"query {qid} has document {twice!r} several times", ReadWarning, stacklevel=4)
        x = X if rows.names is None else self._block(qid, X, len(y), rows.names, more)
        return x, y, qid, docids

    def _block(self, qid: str, X: Any, n: int, names: tuple[str, ...], more: dict[str, list[Any]]) -> Block:
        context = context_of(qid, self.plan, more)
        texts = [name for name in self.plan.features if name in more]
        if not texts:
            return Block(X, None, single(n), ONE, names=names, context=context)
        values = {**dict(zip(names, X.T.tolist(), strict=True)), **{name: more[name] for name in texts}}
        cells = zip(*(values[name] for name in self.plan.features), strict=True)
        documents = [dict(zip(self.plan.features, row, strict=True)) for row in cells]
        return Block(documents, None, single(n), ONE, form=dict, context=context)


def context_of(qid: str, plan: Plan, more: dict[str, list[Any]]) -> tuple[dict[str, Any]] | None:
    """What the rows of a query say of it, which must be one thing. Raises ReadError."""
    names = plan.all("context")
    if not names:
        return None
    found = {}
    for name in names:
        found[name], *others = dict.fromkeys(more[name])
        if others:
            what = f"{found[name]!r:.60} and {others[0]!r:.60} in column {name!r}, which is of the query itself"
            raise ReadError(f"query {qid} has {what}")
    try:
        return (read_context(found),)
    except (TypeError, ValueError) as error:
        raise ReadError(f"query {qid}: {error}") from None


def first_repeated(docids: Sequence[str]) -> str | None:
    """The first id of a document that comes back within a query; documents may lack one."""
    named = [docid for docid in docids if docid]
    return None if len(set(named)) == len(named) else next(docid for i, docid in enumerate(named) if docid in named[:i])


def _integers(qids: list[str]) -> np.ndarray:
    """The ids as int64 if all of them are integers in canonical form, otherwise as strings."""
    try:
        numbers = np.array([int(qid) for qid in qids], np.int64)
    except (ValueError, OverflowError):
        return np.array(qids)
    return numbers if all(map(str.__eq__, map(str, numbers.tolist()), qids)) else np.array(qids)


def _ends_of(sizes: Sizes) -> np.ndarray:
    """The number of documents up to the end of each group; `sizes` are a file, with one on each line, or a sequence."""
    if not isinstance(sizes, str | os.PathLike):
        array = np.asarray(sizes)
        if array.ndim != 1 or not (np.issubdtype(array.dtype, np.integer) or array.size == 0) or (array < 0).any():
            raise ValueError("group must be a path or a one-dimensional sequence of integers >= 0")
        return np.cumsum(array, dtype=np.int64)
    numbers = []
    for line, text in Text(sizes).lines():
        token = text.strip()
        if not (token.isdigit() and len(token) < 19):
            shown = token[:40].decode("utf-8", "backslashreplace")
            raise ReadError(f"{name_of(sizes)}, line {line}: {shown!r} is not the size of a group")
        numbers.append(int(token))
    return np.cumsum(numbers, dtype=np.int64)


def read(
    *sources: Any,
    query: str | None = None,
    grade: str | None = None,
    document: str | None = None,
    features: Sequence[str] | None = None,
    exclude: Sequence[str] = (),
    event_time: str | None = None,
    context: Sequence[str] = (),
    group: Sizes | Sequence[Sizes | None] | None = None,
    with_ids: bool = False,
    negative: Negative = "error",
    missing: Missing | None = None,
    repeated_qid: Repeated = "error",
    skip_bad: float = 0.0,
    model: Any = None,
    n_features: int | None = None,
    batch_rows: int = _ROWS,
    max_query_bytes: int = 1 << 26,
) -> Queries:
    r"""Read the queries of files and tables, one after the other; memory does not grow with them, but for the ids of queries.

    The format is recognised by name and content. **Tables** have a row for each document: csv and tsv, JSON lines, parquet,
    Arrow (feather), and frames of pandas, polars (also lazy) and pyarrow. **JSON lines** may also hold a query each, with its
    documents and grades: `{"id": "q1", "docs": {"a": {"clicks": 3}}, "grades": {"a": 1}}`, or lists of both. **LETOR text** has
    lines `2 qid:10 1:0.5 3:1 # docid = GX000`. Text may be compressed by gzip, and end its lines by LF, CR LF or CR.

    Consecutive rows with the same query id are a query. Several sources are read one after the other; all tables must have the
    columns of the first. The attribute `plan` of the result says which columns are features, which are left out, and why.

    Parameters
    ----------
    *sources
        Paths, "-" for standard input, open files, frames, or lists of these.
    query, grade
        The columns of a table with the query's id, by default "query", and with grades: integers >= 0, true or false. Without
        `grade`, which are queries to rank, grades are 0.
    document
        The column with the document's id. In LETOR text it is X where a comment says `docid = X`, else its first word.
    features
        The columns that are features; None for all other columns of numbers and booleans, in the order of the first table,
        except the index of a pandas frame, and columns named as outcomes (click, purchase, order, dwell, position, ...).
    exclude
        Columns that are not features.
    event_time
        The column with the time of each row: a date, a time, or a number. Queries must come in the order of their first rows.
    context
        The columns with what is known of a query itself, the same in all of its rows (`CrossFeatures`); no features.
    group : path or (q,) integers, or a sequence of these with one entry a source
        Sizes of the groups, in place of ids of queries. Without ids they are looked for in `FILE.query` and `FILE.group`.
    with_ids
        Whether to yield ids, too.
    negative
        How to treat a negative grade: as an error, as 0, or leave the document out.
    missing
        How to treat a missing value, which is null, NaN, or in text one of `values.MISSING_WORDS`: as an error; as 0; or keep
        it as NaN, for models that take it. None keeps it for a `model` that takes it (`AdditiveRanker`), reads 0 for any
        other, and is an error without one.
    repeated_qid
        How to treat an id that comes back after another one, or a query older than the one before it: as an error, for which
        all ids are kept in memory; as a separate query, with a warning ("warn", of the first 100,000 queries) or without
        ("new"); or "group", which reads everything, joins the rows of each query, and sorts queries by time if `event_time` is
        given.
    skip_bad
        The share of lists that may be left out because a row of theirs cannot be read, such as 0.001; one more is allowed.
        Each is reported by a warning that names the row, and counted in `n_bad`.
    model
        The model that is to rank or learn the queries. If it has learned, the features are those that it has learned from, as
        far as they are there. For one that takes dicts with texts (`AdditiveRanker`), columns of text with few values are
        features, too.
    n_features
        The least number of columns of LETOR text. By default as many as in its first 8 MiB.
    batch_rows
        Number of rows of parquet and of frames read at once.
    max_query_bytes
        Largest array of a query's features.

    Returns
    -------
    Queries
        Yields (x, y), or (x, y, query id, document ids): x is a `Block` of one query with its features by name, which every
        model takes (`x.X` is the array (m, d)), or, for LETOR text, an array (m, d), or `SparseRows` beyond 4096 features; y is
        (m,) int64. `all()` is everything at once. LETOR text with a feature 0, or with more features than in its first 8 MiB,
        comes as blocks with features called as the text calls them.

    Raises
    ------
    ReadError
        With file and line, or row of a frame: a value that is missing or no number, a bad grade, a file that is damaged, a row
        with other columns, quotation marks that are not closed, ...
    ValueError, TypeError
        A column does not exist, or a source is no file and no frame.
    ImportError
        A table needs pyarrow.
    OSError
        A file cannot be read.

    Examples
    --------
    >>> import polars
    >>> from online_rank import PerceptronRanker, read
    >>> log = polars.LazyFrame({"q": [7, 7, 8], "grade": [0, 2, 1], "clicks": [1.0, 4.0, 2.0], "url": ["a", "b", "c"]})
    >>> model = PerceptronRanker()
    >>> for x, y in read(log, query="q", grade="grade"):
    ...     model.learn_one(x, y)
    >>> model.rank_one({"old": {"clicks": 0.0}, "new": {"clicks": 9.0}})
    ['new', 'old']

    >>> import io
    >>> text = "2 qid:a 1:0.5 3:1 # docid = first\n0 qid:a 2:1e-3\n1 qid:b 1:-7\n"
    >>> for X, y, qid, docids in read(io.StringIO(text), with_ids=True):
    ...     print(qid, docids, y, X.tolist())
    a ['first', ''] [2 0] [[0.5, 0.0, 1.0], [0.0, 0.001, 0.0]]
    b [''] [1] [[-7.0, 0.0, 0.0]]
    >>> list(read(io.StringIO("1 qid:a 1:0.5 2:x")))
    Traceback (most recent call last):
    ...
    online_rank.stream.ReadError: StringIO, line 1, column 17: the value 'x' of feature 2 is not a number
    """
    for name, value, choices in (
        ("negative", negative, get_args(Negative)),
        ("missing", missing, (None, *get_args(Missing))),
        ("repeated_qid", repeated_qid, get_args(Repeated)),
    ):
        arguments.choice(name, value, choices)
    arguments.flag("with_ids", with_ids)
    arguments.number("skip_bad", skip_bad, 0.0, 1.0)
    arguments.integer("n_features", n_features, 1, optional=True)
    arguments.integer("batch_rows", batch_rows, 1)
    arguments.integer("max_query_bytes", max_query_bytes, 1)
    named = {"query": query, "grade": grade, "document": document, "event time": event_time}
    known, width, able = known_to(model), n_features_of(model), abilities_of(model)
    tells_missing = missing is None and model is not None
    if missing is None:
        missing = "error" if model is None else "keep" if able.takes_missing else "zero"
    options = Options(
        with_ids,
        negative,
        missing,
        repeated_qid,
        skip_bad,
        n_features or width,
        known is not None,
        tells_missing,
        able.takes_documents,
        batch_rows,
        max_query_bytes,
    )
    return Queries(sources, roles_of(named, features=features, exclude=exclude, context=context, known=known), options, group)


def _require_one_grade(qid: str, docids: list[str], y: np.ndarray) -> None:
    """Raise ReadError for a document that is judged twice, with different grades."""
    known: dict[str, int] = {}
    for docid, grade in zip(docids, y.tolist(), strict=True):
        if docid and known.setdefault(docid, grade) != grade:
            raise ReadError(f"query {qid} judges document {docid!r} twice, with grades {known[docid]} and {grade}: keep one")


def known_to(model: Any) -> list[str] | None:
    """The features that a model has learned from, if it knows them by name."""
    steps = () if model is None else steps_of(model)
    names = next((names for step in steps if (names := getattr(step, "feature_names", None))), None)
    # The levels of a category are features of the model, and one of a table.
    return None if names is None else [*dict.fromkeys(str(name[0] if is_level(name) else name) for name in names)]


def n_features_of(model: Any) -> int | None:
    """The number of features that a model or pipeline has learned from in arrays; None if there are none yet."""
    counts = [step.n_features for step in (() if model is None else steps_of(model)) if getattr(step, "n_features", 0)]
    return counts[0] if counts else None


def roles_of(named: dict[str, str | None], **columns: Any) -> dict[str, Any]:
    """The columns with roles, checked. Raises TypeError unless `columns` are None or sequences of names."""
    for name, given in columns.items():
        if given is not None and (isinstance(given, str) or not all(isinstance(column, str) for column in given)):
            raise TypeError(f"{name} is a sequence of names of columns")
    in_form = {name: given if given is None else [in_nfc(column) for column in given] for name, given in columns.items()}
    return {"named": {role: column if column is None else in_nfc(column) for role, column in named.items()}, **in_form}
