"""The one entry for files and tables: `read`."""

import collections
import itertools
import os
import tempfile
import warnings
from collections.abc import Callable, Iterable, Iterator, Sequence
from itertools import pairwise
from typing import Any, Literal, NamedTuple, TypeAlias, get_args

import numpy as np

from online_rank import arguments
from online_rank.base import abilities_of
from online_rank.preprocessing._keys import DOCUMENT
from online_rank.query import ONE, Block, single
from online_rank.query.context import read_context
from online_rank.query.names import is_index_name
from online_rank.stream.letor import Letor
from online_rank.stream.neighbours import Sizes, ends_of, next_to, sizes_next_to, weights_of
from online_rank.stream.pace import Pace
from online_rank.stream.plan import Options, Plan, listed, n_features_of, options_of, plan_of
from online_rank.stream.rows import Rows, Trimmed, joined, rows_of, stacked
from online_rank.stream.source import FileRange, ReadError, ReadWarning, Text, format_of, is_letor, name_of
from online_rank.stream.tables import Table
from online_rank.stream.values import MISSING_WORDS

#: The number of first rows that show whether rows are in order.
_FIRST_ROWS = 1 << 14

Negative: TypeAlias = Literal["error", "zero", "skip"]
Missing: TypeAlias = Literal["error", "zero", "keep"]
Repeated: TypeAlias = Literal["error", "auto", "new", "group"]


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


class Lists:
    """The rows of sources, and the lists that they make: what `read` and `read_clicks` have in common.

    Attributes
    ----------
    plan : Plan
        The roles of the columns.
    n_bad : int
        Lists left out so far because of a row that cannot be read.
    n_trimmed : int
        Categories so far that lost the blanks around them.
    watch : callable or None
        It is given the number of rows and the columns, arrays of numpy or Arrow, of all that is read.
    """

    def __init__(
        self,
        sources: Sequence[Any],
        options: Options,
        group: Any = None,
        planned: Callable[[Table, Options], Plan] | None = None,
    ) -> None:
        self._sources: list[Any] = []
        for source in sources:
            self._sources += source if isinstance(source, list | tuple) else [source]
        if not self._sources:
            raise ValueError("nothing to read: give at least one file or table")
        one = len(self._sources) == 1
        self._group = [None] * len(self._sources) if group is None else [group] if one else list(group)
        if len(self._group) != len(self._sources):
            raise ValueError(f"group has {len(self._group)} entries for {len(self._sources)} sources")
        self._options = options
        self.n_bad = self._n_lists = self._n_sized = self._file = 0
        self._trimmed, self._pace = Trimmed(), Pace()
        self._told_of: set[str] = set()
        self.watch: Callable[[int, dict[str, Any]], None] | None = None
        self._open = self._opened(self._sources[0])
        try:
            if isinstance(self._open, Letor):
                self.plan: Plan = self._open.plan
            else:
                self.plan = self._planned(self._open) if planned is None else planned(self._open, options)
        except BaseException:
            self._open.close()
            raise

    @property
    def n_trimmed(self) -> int:
        """Categories so far that lost the blanks around them."""
        return sum(self._trimmed.counts.values())

    @property
    def is_letor(self) -> bool:
        """Whether the first source is LETOR text, whose features are numbered."""
        return isinstance(self._open, Letor)

    @property
    def form(self) -> str:
        """The format of the first source."""
        return self._open.form

    @property
    def _sorted_by(self) -> str:
        """The columns by which rows are sorted, in words."""
        # To ask the plan of LETOR text would make a column for each feature, perhaps millions.
        return "'qid'" if self.is_letor else " and ".join(map(repr, self.plan.all("event time") + self.plan.all("query")))

    @property
    def fraction(self) -> float | None:
        """The share of the sources that was read; None if it is unknown."""
        share = self._open.share
        return None if share is None else min(1.0, (self._file + share) / len(self._sources))

    def _opened(self, source: Any) -> Table | Letor:
        """A source as a `Table` or as `Letor` text."""
        if not (isinstance(source, str | os.PathLike | FileRange) or hasattr(source, "read")):
            return Table(source, "frame", None, self._options.batch_rows)
        rows = isinstance(source, FileRange) and source.path.endswith(".parquet")
        text = Text(source.path if rows else source)
        try:
            fmt = format_of(source, text.head)
            if fmt == "letor" and (self._options.named["query"] is None or is_letor(text.head)):
                return Letor(text, self._options)
            return Table(source, "csv" if fmt == "letor" else fmt, text, self._options.batch_rows)
        except BaseException:
            text.close()
            raise

    def _planned(self, table: Table) -> Plan:
        named = dict(self._options.named)
        for role in ("query", "grade", "document") if table.of_queries else ("query",):
            if named.get(role) is None and role in table.kinds:
                named[role] = role
        if named["query"] is None and self._group[0] is None:
            self._group[0] = sizes_next_to(self._sources[0])
            if self._group[0] is None:
                raise ValueError(
                    f"{table.name}: a table; name its columns: query= (--query COLUMN), grade= (--grade COLUMN); others are "
                    f"features. It has {', '.join(map(repr, list(table.kinds)[:10]))}"
                )
        return plan_of(table, named, self._options)

    def rows(self) -> Iterator[Rows]:
        """All rows of all sources, with groups made of their sizes."""
        for k, source in enumerate(self._sources):
            self._file = k
            if k:
                self._open = self._opened(source)
            opened = self._open
            if isinstance(opened, Letor):
                found = opened.rows(self.watch)
            else:
                self._notice_new_columns(opened.name, opened.kinds, "table")
                found = self._rows_of(opened)
            if isinstance(opened, Letor) and not opened.has_qid and self._group[k] is None:
                self._group[k] = sizes_next_to(source)
                if self._group[k] is None:
                    raise ReadError(f"{opened.name}: no qid:... and no file with the sizes of the groups: give it as group=")
            sizes = self._group[k]
            self._notice_neighbours(source, sizes is not None)
            yield from found if sizes is None else self._sized(found, *_groups_of(source, sizes))
            opened.close()

    @property
    def weights(self) -> list[str]:
        """The files with weights of queries next to the sources, as far as groups have sizes in the place of ids."""
        has_ids = self._open.has_qid if isinstance(self._open, Letor) else self.plan.of("query") is not None
        each = zip(self._sources, self._group, strict=True)
        sized = (source for source, group in each if group is not None or (not has_ids and sizes_next_to(source)))
        return [file for source in sized if (file := next_to(source, ".weight"))]

    def _notice_neighbours(self, source: Any, sized: bool) -> None:
        """Warn of files next to a source that are not used."""
        if not sized and (file := next_to(source, ".weight")):
            told = "not used: weights are read together with the sizes of the groups (FILE.query, FILE.group, or group=)"
            warnings.warn(f"{file}: {told}", ReadWarning, stacklevel=6)
        if file := next_to(source, ".position"):
            told = "not used: positions are for click models, which take them as a column (--position) of a click log"
            warnings.warn(f"{file}: {told}", ReadWarning, stacklevel=6)

    def _rows_of(self, table: Table) -> Iterator[Rows]:
        wanted = [column.name for column in self.plan.columns if column.role != "left out"]
        names = [*table.kinds]
        for batch in table.batches(wanted):
            if batch.rows.schema.names != names:
                names = batch.rows.schema.names
                self._notice_new_columns(table.name, names, "rows")
            if self.watch is not None:
                there = batch.rows.schema.names
                self.watch(len(batch.rows), dict(zip(there, table.columns(batch.rows, there), strict=True)))
            yield rows_of(table, batch, self.plan, self._options, self._trimmed)

    def _sized(self, found: Iterator[Rows], ends: np.ndarray, weights: np.ndarray | None) -> Iterator[Rows]:
        """The rows with the groups that the sizes say, numbered from 1, and with the weights of the groups."""
        numbers = self._n_sized + np.cumsum(np.diff(ends, prepend=0) > 0)
        done = 0
        for rows in found:
            groups = np.searchsorted(ends, np.arange(done, done + len(rows.y)), side="right")
            if groups[-1] == len(ends):
                first = int(np.searchsorted(groups, len(ends)))
                raise ReadError(f"{rows.where(first)}: more documents than the group sizes add up to ({done + first})")
            starts = np.flatnonzero(np.diff(groups, prepend=-1))
            qids = [str(number) for number in numbers[groups[starts]].tolist()]
            yield rows._replace(starts=starts.tolist(), qids=qids, weights=None if weights is None else weights[groups])
            done += len(rows.y)
        if len(ends) and done < ends[-1]:
            raise ReadError(f"{self._open.name}: {done} documents, but the group sizes add up to {ends[-1]}")
        self._n_sized = int(numbers[-1]) if len(numbers) else self._n_sized

    def _notice_new_columns(self, source: str, names: Iterable[str], of: str) -> None:
        """Warn, once for each source, of columns that the first table lacks; columns of JSON may begin at any row."""
        known = {column.name for column in self.plan.columns}
        if source not in self._told_of and (new := [name for name in names if name not in known and not is_index_name(name)]):
            self._told_of.add(source)
            told = f"{source}: columns that the first {of} lack{'s' * (of == 'table')} are left out: {listed(new)}"
            warnings.warn(told, ReadWarning, stacklevel=6)

    def lists(self) -> Iterator[tuple[str, Rows]]:
        """The id of each list, and its rows. Bad ones are left out, as far as allowed."""
        found, mode = self.rows(), self._options.repeated_qid
        if mode == "auto":
            begin, n = [], 0
            while n < _FIRST_ROWS and (rows := next(found, None)) is not None:
                begin.append(rows)
                n += len(rows.y)
            found, mode = itertools.chain(begin, found), "group" if _are_unsorted(begin) else "error"
            if mode == "group":
                told = f"rows are not sorted by {self._sorted_by}; they are sorted here, which reads everything first"
                warnings.warn(f"{begin[0].where(0)}: {told}", ReadWarning, stacklevel=6)
        order = _Order(mode, self._sorted_by + " (sort -s -k 2,2 FILE)" * self.is_letor)
        try:
            for qid, rows in self._grouped(found) if mode == "group" else self._contiguous(found):
                order.notice(qid, rows)
                self._n_lists += 1
                if self._options.half_lives and rows.times is not None:
                    self._pace.add(float(rows.times[0]))
                if (fault := rows.fault) is None:
                    yield qid, rows
                else:
                    self._leave_out(fault)
            for line in (self._trimmed.in_words, self._pace.warning(self._options.half_lives)):
                if line:
                    warnings.warn(f"{name_of(self._sources[0])}: {line}", ReadWarning, stacklevel=6)
        finally:
            self._open.close()

    def _contiguous(self, found: Iterator[Rows]) -> Iterator[tuple[str, Rows]]:
        """The rows of each query, as long as it does not change."""
        parts: list[Rows] = []
        current, size = "", 0
        for rows in found:
            for qid, (a, b) in zip(rows.qids, pairwise([*rows.starts, len(rows.y)]), strict=True):
                if qid != current and parts:
                    yield current, joined(parts)
                    parts, size = [], 0
                current, part = qid, rows.part(a, b, qid)
                parts.append(part)
                size += part.X.nbytes
                self._require_size(qid, size, part)
        if parts:
            yield current, joined(parts)

    def _require_size(self, qid: str, size: int, rows: Rows) -> None:
        if size > self._options.max_query_bytes:
            what = f"query {qid} takes more than max_query_bytes={self._options.max_query_bytes} as an array"
            raise ReadError(f"{rows.where(len(rows.y) - 1)}: {what}")

    def _grouped(self, given: Iterator[Rows]) -> Iterator[tuple[str, Rows]]:
        """The rows of each query together, queries in order of appearance, or of their first time.

        Features of tables go to a temporary file, so that memory holds only what else is known of each row.
        """
        every: list[Rows] = []
        codes: list[np.ndarray] = []
        numbers: dict[str, int] = {}
        with tempfile.TemporaryFile(prefix="online_rank-") as file:
            for rows in given:
                found = [numbers.setdefault(qid, len(numbers)) for qid in rows.qids]
                codes.append(np.repeat(found, np.diff([*rows.starts, len(rows.y)])))
                if not self.is_letor:
                    rows.X.tofile(file)
                    rows = rows._replace(X=rows.X[:, :0])
                every.append(rows)
            if not every:
                return
            whole, code, qids = joined(every), np.concatenate(codes), [*numbers]
            if not self.is_letor and whole.names:
                file.flush()
                whole = whole._replace(X=np.memmap(file, np.float64, "r", shape=(len(whole.y), len(whole.names))))
            first = np.full(len(qids), np.inf)
            np.minimum.at(first, code, np.arange(float(len(code))) if whole.times is None else whole.times)
            order, ends = np.argsort(code, kind="stable"), np.cumsum(np.bincount(code))
            for k in np.argsort(first, kind="stable").tolist():
                rows = whole.taken(order[ends[k - 1] if k else 0 : ends[k]], qids[k])
                self._require_size(qids[k], rows.X.nbytes, rows)
                yield qids[k], rows

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


def _are_unsorted(blocks: Sequence[Rows]) -> bool:
    """Whether the rows of a query do not follow each other, or a query is older than the one before it."""
    begun = [(qid, rows, start) for rows in blocks for qid, start in zip(rows.qids, rows.starts, strict=True)]
    begun = [next(part) for _, part in itertools.groupby(begun, key=lambda one: one[0])]
    times = [rows.times[start] for _, rows, start in begun if rows.times is not None]
    return len({qid for qid, _, _ in begun}) < len(begun) or any(late < early for early, late in pairwise(times))


class _Order:
    """Checks the order of queries: whether one comes back, or is older than the one before it."""

    def __init__(self, mode: str, sorted_by: str) -> None:
        self._sorted_by = sorted_by
        self._seen: set[str] | None = set() if mode == "error" else None
        self._doubtful: set[str] = set()
        self._latest = -np.inf

    def notice(self, qid: str, rows: Rows) -> None:
        """Check the first row of a query."""
        if qid in MISSING_WORDS and qid and qid not in self._doubtful:
            self._doubtful.add(qid)
            told = f"{rows.where(0)}: query {qid!r} looks like a missing value that was written as text; it is read as an id"
            warnings.warn(told, ReadWarning, stacklevel=7)
        if self._seen is None:
            return
        time = -np.inf if rows.times is None else rows.times[0]
        if time < self._latest:
            self._complain(f"{rows.where(0)}: query {qid} is older than the one before it")
        if qid in self._seen:
            self._complain(f"{rows.where(0)}: query {qid} comes back after another one")
        self._seen.add(qid)
        self._latest = time if time == time else self._latest  # NaN where the row is a fault.

    def _complain(self, what: str) -> None:
        raise ReadError(f'{what}; sort the rows by {self._sorted_by}, or repeated_qid="group" of read does it')


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

    def __init__(self, sources: Sequence[Any], options: Options, group: Any) -> None:
        super().__init__(sources, options, group)
        self.n_missing, self._told = 0, set[str]()
        self._ahead: collections.deque[Rows] = collections.deque()
        self._error: ReadError | None = None
        self._found = self._made()

    def __next__(self) -> tuple[Any, ...]:
        if not self._ahead and self._error is not None:
            raise self._error
        return self._query(self._ahead.popleft() if self._ahead else next(self._found))

    def first(self, n: int) -> list[tuple[Any, ...]]:
        """The next `n` queries, which are still to come; fewer if the sources end before, or an error follows."""
        try:
            self._ahead.extend(itertools.islice(self._found, max(0, n - len(self._ahead))))
        except ReadError as error:
            self._error = error
        return [self._query(rows) for rows in itertools.islice(self._ahead, n)]

    def all(self) -> Documents:
        """All queries that are still to come, at once. Raises TypeError if texts are features."""
        every, self._ahead = [*self._ahead, *self._found], collections.deque()
        if self._error is not None:
            raise self._error
        if any(self.plan.kinds[name] == "text" for name in self.plan.categories):
            raise TypeError("all() takes features that are numbers: exclude features of text, or read query by query")
        if not every:
            return Documents(np.empty((0, self._options.n_features or 0)), np.empty(0, np.int64), np.empty(0, np.int64), [])
        if any(rows.weights is not None for rows in every):
            warnings.warn("all() leaves out the weights of queries: read query by query", ReadWarning, stacklevel=2)
        whole, sizes = _with_booleans(joined(every), self.plan), [len(rows.y) for rows in every]
        return Documents(whole.X, whole.y, np.repeat(_integers([rows.qids[0] for rows in every]), sizes), whole.docids)

    def close(self) -> None:
        """Close the open source. This happens automatically at the end."""
        self._found.close()
        self._open.close()

    def __enter__(self) -> "Queries":
        return self

    def __exit__(self, *exception: object) -> None:
        self.close()

    def _made(self) -> Any:
        for _, rows in self.lists():
            if len((made := self._settled(rows)).y):
                yield made

    def _settled(self, rows: Rows) -> Rows:
        """A query as the options want it: negative grades, missing values, ids; none of its documents may be left."""
        qid, below = rows.qids[0], rows.y < 0
        if self._options.negative == "skip" and below.any():
            rows = rows.taken(np.flatnonzero(~below), qid)
        elif below.any():
            self._warn_once("negative", f"{rows.where(int(below.argmax()))}: grades below 0 count as 0")
            rows = rows._replace(y=np.maximum(rows.y, 0))
        # Copies, so that a stored query does not keep its block alive.
        docids = [""] * len(rows.y) if self._options.with_ids and not rows.docids else rows.docids
        rows = rows._replace(X=stacked([rows.X]), y=rows.y.copy(), docids=docids)
        may_lack = self._options.missing != "error" and isinstance(rows.X, np.ndarray)
        if may_lack and (absent := np.isnan(rows.X)).any():
            self.n_missing += int(np.count_nonzero(absent))
            if self._options.missing == "zero":
                rows.X[absent] = 0.0
                if self._options.tells_missing:
                    what = "missing values count as 0, since the model does not take them"
                    self._warn_once("missing", f"{rows.where(0)}, the query there: {what}")
        if (twice := first_repeated(docids)) is not None:
            _require_one_grade(qid, docids, rows.y)
            self._warn_once("twice", f"query {qid} has document {twice!r} several times")
        return rows

    def _warn_once(self, of: str, text: str) -> None:
        if of not in self._told:
            self._told.add(of)
            warnings.warn(text, ReadWarning, stacklevel=5)

    def _query(self, rows: Rows) -> tuple[Any, ...]:
        options = self._options
        plain = rows.numbered and rows.weights is None and not (options.keys or options.timed)
        x = rows.X if plain else self._block(rows)
        return (x, rows.y, rows.qids[0], rows.docids) if self._options.with_ids else (x, rows.y)

    def _block(self, rows: Rows) -> Block:
        context, n = context_of(rows, self.plan) if rows.more else None, len(rows.y)
        at = rows.times[:1] if self._options.timed and rows.times is not None else None
        ids = _ids_of(rows) if DOCUMENT in self._options.keys else None
        w = ONE if rows.weights is None else rows.weights[:1].copy()
        if len(rows.names) == len(self.plan.features) or self.is_letor:
            names = None if rows.numbered else rows.names
            return Block(rows.X, None, single(n), w, ids=ids, names=names, context=context, at=at)
        return Block(documents_of(rows, self.plan), None, single(n), w, ids=ids, form=dict, context=context, at=at)


def documents_of(rows: Rows, plan: Plan) -> list[dict[str, Any]]:
    """The documents as dicts of features, numbers and categories."""
    values = rows.more | dict(zip(rows.names, rows.X.T.tolist(), strict=True))
    cells = zip(*(values[name] for name in plan.features), strict=True)
    return [dict(zip(plan.features, row, strict=True)) for row in cells]


def _with_booleans(rows: Rows, plan: Plan) -> Rows:
    """Rows with booleans that are categories as columns of 1 and 0: in arrays everything is a number."""
    if not plan.categories:
        return rows
    of = dict(zip(rows.names, rows.X.T, strict=True))
    of |= {name: np.array([np.nan if x is None else float(x) for x in rows.more[name]]) for name in plan.categories}
    return rows._replace(X=np.column_stack([of[name] for name in plan.features]), names=plan.features)


def context_of(rows: Rows, plan: Plan) -> tuple[dict[str, Any]] | None:
    """What the rows of a query say of it, which must be one thing. Raises ReadError."""
    names = plan.all("context")
    if not names:
        return None
    found, qid = {}, rows.qids[0]
    for name in names:
        found[name], *others = dict.fromkeys(rows.more[name])
        if others:
            what = f"{found[name]!r:.60} and {others[0]!r:.60} in column {name!r}, which is of the query itself"
            raise ReadError(f"query {qid} has {what}")
    try:
        return (read_context(found),)
    except (TypeError, ValueError) as error:
        raise ReadError(f"query {qid}: {error}") from None


def _ids_of(rows: Rows) -> tuple[str, ...]:
    """The ids of the documents of a query, for a model that counts by them. Raises ReadError if they are not unique."""
    if not rows.docids or "" in rows.docids or first_repeated(rows.docids) is not None:
        what = "History('document') needs the id of each document, once in a query: document= (--document COLUMN) names them"
        raise ReadError(f"{rows.where(0)}: {what}")
    return tuple(rows.docids)


def first_repeated(docids: Sequence[str]) -> str | None:
    """The first id of a document that comes back within a query; documents may lack one."""
    if len(set(docids)) == len(docids):
        return None
    met: set[str] = set()
    for docid in docids:
        if docid and docid in met:
            return docid
        met.add(docid)
    return None


def _integers(qids: list[str]) -> np.ndarray:
    """The ids as int64 if all of them are integers in canonical form, otherwise as strings."""
    try:
        numbers = np.array([int(qid) for qid in qids], np.int64)
    except (ValueError, OverflowError):
        return np.array(qids)
    return numbers if all(map(str.__eq__, map(str, numbers.tolist()), qids)) else np.array(qids)


def _groups_of(source: Any, sizes: Sizes) -> tuple[np.ndarray, np.ndarray | None]:
    """The ends of the groups of a source, and their weights if a file next to it has them."""
    ends, file = ends_of(sizes), next_to(source, ".weight")
    return ends, None if file is None else weights_of(file, ends)


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
    batch_rows: int = 1 << 14,
    max_query_bytes: int = 1 << 26,
) -> Queries:
    r"""Read the queries of files and tables, one after the other; in memory only the ids of queries grow with them.

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
        The columns that are features; None for all other columns of numbers and booleans, and of dates for a model that takes
        them, in the order of the first table. The index of a pandas frame is none, and neither are columns named as outcomes
        (click, purchase, order, dwell, position, ...).
    exclude
        Columns that are not features.
    event_time
        The column with the time of each row, as dates, texts in ISO 8601, or numbers, whose size tells their unit: the plan
        says what was found. All rows must have this unit, and queries come in the order of their first rows.
    context
        The columns with what is known of a query itself, the same in all of its rows (`CrossFeatures`); no features.
    group : path or (q,) integers, or a sequence of these with one entry a source
        Sizes of the groups, in place of ids of queries. Without ids they are looked for in `FILE.query` and `FILE.group`.
        Weights of queries are read with them from `FILE.weight`: a line for each query, or for each document. A query is then a
        `Block` with its weight, which multiplies `w` of `learn_one`.
    with_ids
        Whether to yield ids, too.
    negative
        How to treat a negative grade: as an error, as 0, or leave the document out.
    missing
        How to treat a missing value, which is null, NaN, or in text one of `values.MISSING_WORDS`: as an error; as 0; or keep
        it as NaN, for models that take it. None keeps it for a `model` that takes it (`AdditiveRanker`), reads 0 for any
        other, and is an error without one.
    repeated_qid
        How to treat an id that comes back after another one, or a query older than the one before it. "error" raises, and keeps
        all ids in memory. "new" reads a separate query. "group" reads everything, joins the rows of each query, and sorts
        queries by time if `event_time` is given. "auto" does so, with a warning, if the first rows are not in order, and is
        "error" otherwise.
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
    usual = "error" if model is None else "keep" if abilities_of(model).takes_missing else "zero"
    options = options_of(
        model,
        {"query": query, "grade": grade, "document": document, "event time": event_time},
        features=features,
        exclude=exclude,
        context=context,
        with_ids=with_ids,
        negative=negative,
        missing=missing or usual,
        tells_missing=missing is None and model is not None,
        repeated_qid=repeated_qid,
        skip_bad=skip_bad,
        n_features=n_features or n_features_of(model),
        batch_rows=batch_rows,
        max_query_bytes=max_query_bytes,
    )
    return Queries(sources, options, group)


def _require_one_grade(qid: str, docids: list[str], y: np.ndarray) -> None:
    """Raise ReadError for a document that is judged twice, with different grades."""
    known: dict[str, int] = {}
    for docid, grade in zip(docids, y.tolist(), strict=True):
        if docid and known.setdefault(docid, grade) != grade:
            raise ReadError(f"query {qid} judges document {docid!r} twice, with grades {known[docid]} and {grade}: keep one")
