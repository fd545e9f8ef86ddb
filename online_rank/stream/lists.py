"""The rows of files and tables, and the lists that they make."""

import itertools
import os
import tempfile
import warnings
from collections.abc import Callable, Iterable, Iterator, Sequence
from itertools import pairwise
from typing import Any

import numpy as np

from online_rank.query.names import is_index_name
from online_rank.stream.letor import Letor
from online_rank.stream.neighbours import Sizes, ends_of, next_to, sizes_next_to, weights_of
from online_rank.stream.pace import Pace
from online_rank.stream.plan import Options, Plan, listed, plan_of
from online_rank.stream.rows import Rows, Trimmed, joined, rows_of
from online_rank.stream.source import FileRange, ReadError, ReadWarning, Text, format_of, is_letor, name_of
from online_rank.stream.tables import Table
from online_rank.stream.values import MISSING_WORDS

#: The number of first rows that show whether rows are in order.
_FIRST_ROWS = 1 << 14


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
        self._is_log = planned is not None
        self._told_of, self._told = set[str](), set[str]()
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

    def _warn_once(self, of: str, text: str) -> None:
        if of not in self._told:
            self._told.add(of)
            warnings.warn(text, ReadWarning, stacklevel=5)

    def _warn_of_missing(self, rows: Rows) -> None:
        """Warn, once, that missing values of this query and others are read as 0, unless the user asked for that."""
        if self._options.tells_missing:
            what = "missing values count as 0, since the model does not take them"
            self._warn_once("missing", f"{rows.where(0)}, the query there: {what}")

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
            if fmt == "letor" and (is_letor(text.head) or not (self._is_log or any(self._options.named.values()))):
                if self._is_log:
                    raise ValueError(f"{text.name}: LETOR text has no positions and clicks: a log of clicks is a table")
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
        joined = self.plan.joined
        used = [column.name for column in self.plan.columns if column.role != "left out"]
        wanted = [name for name in used if name not in joined or name in joined[name]]
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
            trimmed = self._trimmed
            for line in (trimmed.in_words, trimmed.doubtful_in_words, self._pace.warning(self._options.half_lives)):
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


def _groups_of(source: Any, sizes: Sizes) -> tuple[np.ndarray, np.ndarray | None]:
    """The ends of the groups of a source, and their weights if a file next to it has them."""
    ends, file = ends_of(sizes), next_to(source, ".weight")
    return ends, None if file is None else weights_of(file, ends)
