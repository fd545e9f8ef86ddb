"""From bytes to blocks of rows: the common part of `iter_letor` and `read_letor`."""

import gzip
import re
import zlib
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass
from typing import Any, NamedTuple

import numpy as np

from online_rank._kernels import letor as kernels
from online_rank.query import SparseRows
from online_rank.stream.letor.source import LineTooLongError, Source, open_source, plain_size, source_name, whole_lines
from online_rank.stream.letor.sparse import MOST_COLUMNS, Sparse, is_sparse, put, room_for, rows_at

LOOK_AHEAD = 1 << 23  # bytes of the stream from which the number of features is inferred
WIDEST_GUESS = 1 << 16  # largest number of features that is inferred
_CHUNK = 1 << 20
_BLOCK = 1 << 17  # numbers in a block of rows
_ALWAYS_ALLOWED = 1 << 22  # bytes of arrays, and for each byte of text, if the number of features was inferred
_ALLOWED_A_BYTE = 32
_KEPT_ERRORS = 10
_BOM = b"\xef\xbb\xbf"
_UTF16 = (b"\xff\xfe", b"\xfe\xff")
_DOCID = re.compile(rb"docid\s*=\s*(\S+)")
_TOKEN = re.compile(rb"[^\s#]{0,40}")

_WRONG = {
    kernels.BAD_GRADE: "the grade {token} is not a number; a line is: grade qid:ID feature:value ...",
    kernels.GRADE_RANGE: 'the grade {token} is not an integer >= 0; negative="zero" or "skip" for those below',
    kernels.NO_QID: "no qid:..., which the first line has",
    kernels.UNEXPECTED_QID: "{token}, although the first line has no qid",
    kernels.EMPTY_QID: "qid: without an id",
    kernels.BAD_FEATURE: "{token} is not feature:value",
    kernels.FEATURE_ZERO: "feature 0, but ids start at 1 (zero_based=True if they start at 0)",
    kernels.FEATURE_TWICE: "feature {feature} is given twice",
    kernels.BAD_VALUE: "the value {token} of feature {feature} is not a number",
    kernels.NOT_FINITE: "the value {token} of feature {feature} is not finite",
    kernels.NULL_VALUE: 'the value of feature {feature} is NULL (null="zero" reads it as 0)',
}


class LetorError(ValueError):
    """An error in a LETOR file.

    Attributes
    ----------
    what : str
        A description of the error.
    file : str
        Name of the file.
    line, column : int or None
        Counted from 1; the column in bytes. None if the error has no single position.
    """

    __module__ = "online_rank.stream.letor"

    def __init__(self, what: str, file: str, line: int | None = None, column: int | None = None):
        super().__init__(what, file, line, column)
        self.what, self.file, self.line, self.column = what, file, line, column

    def __str__(self) -> str:
        where = self.file
        if self.line is not None:
            where += f", line {self.line}"
        if self.column is not None:
            where += f", column {self.column}"
        return f"{where}: {self.what}"


class LetorPosition(NamedTuple):
    """A position between two queries of a stream, from which `iter_letor` can start again.

    Plain integers, so that it can be kept in a JSON file.

    Attributes
    ----------
    file : int
        Index of the file among the sources.
    offset : int
        Byte in the uncompressed content of that file.
    line : int
        Line number of that byte, counted from 1.
    row : int
        Lines with a document before it in this file.
    query : int
        Queries before it in the stream.
    skipped : int
        Bad lines left out before it in the stream.
    n_features : int
        Number of features of the stream; 0 if not known yet.
    """

    file: int = 0
    offset: int = 0
    line: int = 1
    row: int = 0
    query: int = 0
    skipped: int = 0
    n_features: int = 0


@dataclass(frozen=True)
class RowBlock:
    """Some rows of the stream, and the queries that start in them, as (row, qid, position)."""

    X: Any
    y: np.ndarray
    starts: list[tuple[int, str, LetorPosition]]
    docids: list[str] | None


@dataclass
class _FileState:
    """How far a file has been read."""

    index: int
    name: str
    origin: int  # offset of the buffer's first byte in the file
    line: int
    row: int
    qid_rule: int
    group_ends: np.ndarray | None = None


class RowReader:
    """Reads the sources one after the other and yields `RowBlock` after `RowBlock`.

    Attributes
    ----------
    n_features : int or None
        Columns of the following blocks; None until it is known. With `grow` it may still rise.
    errors : list of LetorError
        The first few of the bad lines left out.
    skipped : int
        Number of bad lines left out.
    n_bytes : int
        Bytes of text read so far.
    """

    def __init__(
        self,
        sources: Sequence[Source],
        groups: Sequence[np.ndarray | None],
        find_group: Callable[[Source], np.ndarray | None],
        *,
        dtype: Any,
        n_features: int | None,
        zero_based: bool,
        null_is_zero: bool,
        negative: str,
        skip_errors: bool,
        with_docid: bool,
        start: LetorPosition,
        grow: bool,
        sparse: Sparse,
    ):
        self.n_features = n_features or start.n_features or None
        self.errors: list[LetorError] = []
        self._fatal: LetorError | None = None
        self.skipped = start.skipped
        self.n_bytes = 0
        self._sources, self._groups, self._find_group = sources, groups, find_group
        self._dtype, self._itemsize = dtype, np.dtype(dtype).itemsize
        self._first_id = 0 if zero_based else 1
        self._null_is_zero, self._skip_errors, self._with_docid = null_is_zero, skip_errors, with_docid
        self._negative, self._lowest = negative, 0.0 if negative == "error" else -(2.0**53)
        self._start = start
        self._guessed, self._grow, self._sparse = self.n_features is None, grow, sparse
        self._queries = start.query
        self._query: tuple[str, object] | None = None
        self._seen = np.zeros(0, np.int64)
        self._line_size = 100.0  # bytes, roughly
        self._sizes: list[int | None] | None = None

    def __iter__(self) -> Iterator[RowBlock]:
        for index in range(self._start.file, len(self._sources)):
            source, start = self._sources[index], self._start if index == self._start.file else LetorPosition()
            state = _FileState(index, source_name(source), start.offset, start.line, start.row, kernels.QID_UNKNOWN)
            sizes = self._groups[index]
            if sizes is not None:
                state.qid_rule = kernels.QID_IGNORED
                state.group_ends = np.cumsum(sizes)
            try:
                with open_source(source, start.offset) as stream:
                    yield from self._read_file(stream, state)
            except LineTooLongError as error:
                raise LetorError(str(error), state.name, state.line) from None
            except (EOFError, zlib.error, gzip.BadGzipFile) as error:
                raise LetorError(f"cannot be uncompressed: {error}", state.name) from error
            if state.group_ends is not None and len(state.group_ends) and state.row < state.group_ends[-1]:
                raise LetorError(f"{state.row} documents, but the group sizes add up to {state.group_ends[-1]}", state.name)

    def _read_file(self, stream: Any, state: _FileState) -> Iterator[RowBlock]:
        """Yield the blocks of an open file."""
        self._seen = np.zeros(len(self._seen), np.int64)  # line numbers start over
        first_size = LOOK_AHEAD if self.n_features is None else 0
        for text, end in whole_lines(stream, first_size, _CHUNK):
            if state.origin == 0 and text.startswith(_UTF16):
                raise LetorError("is in UTF-16: convert it to UTF-8, by iconv -f UTF-16 -t UTF-8", state.name, 1)
            at = len(_BOM) if state.origin == 0 and text.startswith(_BOM) else 0
            buffer = np.frombuffer(text, np.uint8)
            if self.n_features is None:
                self.n_features = self._measure(buffer, text, at, end, state.qid_rule)
            while at < end:
                at, block = self._parse(buffer, text, at, end, state)
                if block is not None:
                    yield block
                if self._fatal is not None:
                    raise self._fatal
            state.origin += end

    def _rules(self, *, measure: bool) -> tuple[int, float, bool, bool]:
        """How `parse_rows` reads lines."""
        return self._first_id, self._lowest, self._null_is_zero, measure

    def _measure(self, buffer: np.ndarray, text: bytearray, at: int, end: int, qid_rule: int) -> int | None:
        """The largest feature number in good lines (or else in the bad line about to be reported); None without either."""
        widest = MOST_COLUMNS if self._sparse else WIDEST_GUESS
        # An array without rows takes no memory, however wide it is.
        X = np.empty((0 if self._sparse else 1, widest), self._dtype)
        entries = room_for(end - at, 1, self._dtype) if self._sparse else None
        most = len(entries[1]) if entries else widest
        y, meta = np.empty(1, np.int64), np.empty((1, kernels.META_COLUMNS), np.int64)
        slow, seen = np.empty((most + 1, 3), np.int64), np.zeros(0 if self._sparse else widest, np.int64)
        line, row, width, named = 1, 0, 0, None
        while at < end:
            place = at, end, 0, line, row, qid_rule
            code, at, line, row, _, slow_count, qid_rule, found, _, feature = kernels.parse_rows(
                buffer, place, self._rules(measure=True), X, y, meta, slow, seen, entries
            )
            width = max(width, found)
            if code != kernels.DONE:  # stopped at a line
                columns = feature + 1 - self._first_id
                if code == kernels.SLOW_ROW and self._settle(X, entries, 0, y, slow[:slow_count], text) is None:
                    width, row, qid_rule = max(width, columns), row + 1, _qid_rule(qid_rule, meta[0])
                elif code != kernels.FEATURE_RANGE:
                    named = max(named or 0, columns)
                at, line = text.index(b"\n", at) + 1, line + 1
        return width if row else None if self._skip_errors else named

    def _parse(self, buffer: np.ndarray, text: bytearray, at: int, end: int, state: _FileState) -> tuple[int, RowBlock | None]:
        """One block of rows from ``text[at:end]``, and where the next one starts."""
        d = self.n_features or 0
        rows_are_sparse = self.is_sparse
        if len(self._seen) < d and not rows_are_sparse:
            self._seen = np.zeros(d, np.int64)
        # About as many rows as there are lines, estimated from earlier lines; too few only means another block.
        room = max(1, min(_BLOCK // (1 if rows_are_sparse else max(1, d)), int(1.2 * (end - at) / self._line_size) + 16))
        entries = room_for(end - at, room, self._dtype) if rows_are_sparse else None
        X, y = np.empty((0 if entries else room, d), self._dtype), np.empty(room, np.int64)
        meta = np.empty((room, kernels.META_COLUMNS), np.int64)
        slow = np.empty(((len(entries[1]) if entries else d) + 1, 3), np.int64)
        filled, begin = 0, at
        while at < end and filled < room and self._fatal is None:
            before = filled
            place = at, end, filled, state.line, state.row, state.qid_rule
            code, at, state.line, state.row, filled, slow_count, state.qid_rule, _, where, feature = kernels.parse_rows(
                buffer, place, self._rules(measure=False), X, y, meta, slow, self._seen, entries
            )
            if code == kernels.FEATURE_RANGE and self._grow and self._guessed:
                wider = self._measure(buffer, text, at, end, state.qid_rule) or 0
                if wider > d:
                    self.n_features = wider
                    end = at  # the rest goes into a wider block
                    code = kernels.DONE
            fault = code if code not in (kernels.DONE, kernels.FULL) else None
            if code == kernels.SLOW_ROW:
                trouble = self._settle(X, entries, filled, y, slow[:slow_count], text)
                if trouble is None:
                    state.qid_rule = _qid_rule(state.qid_rule, meta[filled])
                    filled += 1
                    fault = None
                else:
                    fault, where, feature = trouble
            meta[before:filled, kernels.SKIPPED] = self.skipped
            if fault is not None:
                self._fault(fault, text, at, where, feature, state)
            if code not in (kernels.DONE, kernels.FULL):  # stopped at a line
                at, state.line, state.row = text.index(b"\n", at) + 1, state.line + 1, state.row + 1
        self.n_bytes += at - begin
        if filled:
            self._line_size = (at - begin) / filled
        rows: Any = X[:filled]
        if entries:
            starts, n = entries[0][: filled + 1], int(entries[0][filled])
            rows = SparseRows(starts, entries[1][:n].copy(), entries[2][:n].copy(), d)
        y, meta = y[:filled], meta[:filled]
        if self._lowest < 0.0:
            rows, y, meta = self._without_negatives(rows, y, meta)
        return at, self._block(rows, y, meta, text, state) if len(y) else None

    def _without_negatives(self, X: Any, y: np.ndarray, meta: np.ndarray) -> tuple[Any, np.ndarray, np.ndarray]:
        """The rows with negative grades as 0, or without them."""
        if self._negative == "skip" and (y < 0).any():
            kept = y >= 0
            groups = np.cumsum(meta[:, kernels.FRESH])[kept]
            X, y, meta = rows_at(X, np.flatnonzero(kept)), y[kept], meta[kept]
            meta[:, kernels.FRESH] = np.diff(groups, prepend=0) > 0
        np.maximum(y, 0, out=y)
        return X, y, meta

    def _settle(
        self, X: np.ndarray, entries: Any, row: int, y: np.ndarray, slow: np.ndarray, text: bytearray
    ) -> tuple[int, int, int] | None:
        """Convert the numbers of a row that the kernel skipped; returns (code, position, feature) of one out of range."""
        for column, place, length in slow.tolist():
            value = float(text[place : place + length])
            if column < 0:
                if not (self._lowest <= value <= 2.0**53 and value == int(value)):
                    return kernels.GRADE_RANGE, place, 0
                y[row] = value
                continue
            with np.errstate(over="ignore"):
                if entries is None:
                    X[row, column] = value
                    value = X[row, column]
                else:
                    value = put(entries, row, column, value)
            if not np.isfinite(value):
                return kernels.NOT_FINITE, place, column + self._first_id
        return None

    def _fault(self, code: int, text: bytearray, line_at: int, where: int, feature: int, state: _FileState) -> None:
        """Record the error of `code`: fatal, to be raised after the rows before it were returned, or one more line left out."""
        match = _TOKEN.match(text, where)
        token = repr(match.group().decode("utf-8", "backslashreplace") if match else "")
        if code == kernels.FEATURE_RANGE:
            origin = f"the first {LOOK_AHEAD >> 20} MiB of the stream name" if self._guessed else "the stream has"
            needed = feature + 1 - self._first_id
            if self._guessed and needed > WIDEST_GUESS:
                # They were not counted, although the beginning may name them.
                what = f"feature {feature}, but more than {WIDEST_GUESS} features are not inferred: "
            else:
                what = f"feature {feature}, but {origin} {self.n_features} features: "
            what += f"pass n_features={needed} or more (--n-features)"
        else:
            what = _WRONG[code].format(token=token, feature=feature)
        if 0 <= text.find(b"\r", line_at) < text.find(b"\n", line_at) - 1:
            what += "; lines end in CR alone: convert them to LF, by tr '\\r' '\\n'"
        error = LetorError(what, state.name, state.line, where - line_at + 1)
        if not self._skip_errors:
            self._fatal = error
            return
        self.skipped += 1
        if len(self.errors) < _KEPT_ERRORS:
            self.errors.append(error)

    def _block(self, X: Any, y: np.ndarray, meta: np.ndarray, text: bytearray, state: _FileState) -> RowBlock:
        """The rows, with the queries that start among them."""
        if state.qid_rule == kernels.QID_ABSENT and state.group_ends is None:
            sizes = self._find_group(self._sources[state.index])
            if sizes is None:
                line = int(meta[0, kernels.LINE])
                raise LetorError("no qid:... and no file with the sizes of the groups: give it as group=", state.name, line)
            state.group_ends = np.cumsum(sizes)
        if state.group_ends is None:
            groups = np.cumsum(meta[:, kernels.FRESH])
        else:
            groups = np.searchsorted(state.group_ends, meta[:, kernels.ROW], side="right")
            beyond = groups == len(state.group_ends)
            if beyond.any():
                line = int(meta[beyond.argmax(), kernels.LINE])
                raise LetorError(f"more documents than the group sizes add up to ({state.row})", state.name, line)
        starts = []
        for r in np.flatnonzero(np.diff(groups, prepend=groups[0] - 1)).tolist():
            line, place, row, qid_at, qid_length, _, _, _, skipped = meta[r].tolist()
            qid = text[qid_at : qid_at + qid_length].decode("utf-8", "backslashreplace")
            # Equal qids on both sides of a file's end are one query, as in the concatenation; a group ends with its file.
            query = ("qid", qid) if state.group_ends is None else ("group", (state.index, int(groups[r])))
            if query != self._query:
                self._query = query
                qid = qid if state.group_ends is None else str(self._queries + 1)
                position = LetorPosition(
                    state.index, state.origin + place, line, row, self._queries, skipped, self.n_features or 0
                )
                starts.append((r, qid, position))
                self._queries += 1
        docids = None
        if self._with_docid:
            docids = [_docid(text, *span) for span in meta[:, [kernels.COMMENT, kernels.COMMENT_LENGTH]].tolist()]
        return RowBlock(X, y, starts, docids)

    @property
    def is_sparse(self) -> bool:
        """Whether the following rows are sparse."""
        return is_sparse(self._sparse, self.n_features or 0)

    @property
    def row_bytes(self) -> int:
        """Bytes of a row of features in a dense array; 0 for sparse rows, whose size is proportional to the text."""
        return 0 if self.is_sparse else (self.n_features or 0) * self._itemsize

    def require_moderate(self, n_documents: int, what: str, begin: LetorPosition) -> None:
        """Raise LetorError if an array of `n_documents` documents is out of proportion to the text read.

        A short line can name a feature with a high number. With `n_features` the user has confirmed the width.
        """
        size = n_documents * self.row_bytes
        if self._guessed and size > max(_ALWAYS_ALLOWED, _ALLOWED_A_BYTE * self.n_bytes):
            what += f" {n_documents} documents or more with {self.n_features} features: {size} bytes as an array, from"
            what += f" {self.n_bytes} bytes of text; give n_features={self.n_features} (--n-features) if that is meant"
            raise LetorError(what, self.name_of(begin.file), begin.line)

    def name_of(self, file: int) -> str:
        """The name of a source in messages."""
        return source_name(self._sources[file])

    def fraction(self, position: LetorPosition) -> float | None:
        """The share of the sources' bytes before a position; None if unknown."""
        if self._sizes is None:
            self._sizes = [plain_size(source) for source in self._sources]
        sizes = [size for size in self._sizes if size is not None]
        if len(sizes) < len(self._sizes):
            return None
        return (sum(sizes[: position.file]) + position.offset) / max(1, sum(sizes))

    @property
    def end(self) -> LetorPosition:
        """The position after the last query."""
        return LetorPosition(len(self._sources), 0, 1, 0, self._queries, self.skipped, self.n_features or 0)


def _qid_rule(rule: int, meta: np.ndarray) -> int:
    """The estimate after one more row."""
    if rule != kernels.QID_UNKNOWN:
        return rule
    return kernels.QID_REQUIRED if meta[kernels.QID_LENGTH] >= 0 else kernels.QID_ABSENT


def _docid(text: bytearray, at: int, length: int) -> str:
    """The X of a comment ``docid = X``; otherwise its first word, as in RankLib's "# 7555 rambo"; "" without a comment."""
    comment = text[at + 1 : at + length]
    match = _DOCID.search(comment)
    first = comment.split(None, 1)[:1]
    return (match.group(1) if match else first[0] if first else b"").decode("utf-8", "backslashreplace")
