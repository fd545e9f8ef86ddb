"""LETOR / svmlight text, ``grade qid:id feature:value ... # docid = X``: the loop around the kernel, and its faults."""

import functools
import os
import re
from collections.abc import Iterator
from dataclasses import dataclass
from typing import Any

import numpy as np

from online_rank._kernels import letor as kernels
from online_rank.query import SparseRows
from online_rank.stream.plan import Column, Plan
from online_rank.stream.rows import Rows
from online_rank.stream.source import Text, path_of, text_of
from online_rank.stream.values import MISSING_WORDS

LOOK_AHEAD = 1 << 23  # bytes of the text from which the number of features is inferred
WIDE = 1 << 12  # features beyond which rows are sparse
_MOST_COLUMNS = 1 << 24  # that are inferred
_BLOCK = 1 << 17  # numbers in a block of rows
_BYTES_A_FEATURE = 4  # at least: "1:0 "

_DOCID = re.compile(rb"docid\s*=\s*(\S+)")
_QID = re.compile(rb"\sqid:([^\s#]+)")
_TOKEN = re.compile(rb"[^\s#]{0,40}")
_VALUE = re.compile(
    rb"(?<![^\s])(\d+):([-+]?)(%s)(?![^\s#])" % b"|".join(re.escape(word.encode()) for word in MISSING_WORDS[::-1])
)
_STOPPED = (kernels.DONE, kernels.FULL)
_ID = re.compile(rb"(?<![^\s])(\d+):")
_VALUES = (kernels.BAD_VALUE, kernels.NOT_FINITE, kernels.NULL_VALUE)

_WRONG = {
    kernels.BAD_GRADE: "the grade {token} is not a number; a line is: grade qid:ID feature:value ...",
    kernels.GRADE_RANGE: 'the grade {token} is not an integer >= 0; negative="zero" or "skip" for those below',
    kernels.NO_QID: "no qid:..., which the first line has",
    kernels.UNEXPECTED_QID: "{token}, although the first line has no qid",
    kernels.EMPTY_QID: "qid: without an id",
    kernels.BAD_FEATURE: "{token} is not feature:value",
    kernels.FEATURE_RANGE: f"feature {{feature}}: more than {_MOST_COLUMNS} are not inferred: pass n_features={{feature}}",
    kernels.FEATURE_TWICE: "feature {feature} is given twice",
    kernels.BAD_VALUE: "the value {token} of feature {feature} is not a number",
    kernels.NOT_FINITE: "the value {token} of feature {feature} is not finite",
    kernels.NULL_VALUE: 'the value of feature {feature} is missing: {token}; missing="zero" reads it as 0',
}


@dataclass
class _Place:
    """How far a block of text has been read."""

    at: int
    line: int
    row: int
    qid_rule: int


class _Room:
    """What the kernel fills: up to `n` rows of d columns, in arrays, or in sparse rows with room for `n_bytes` of text."""

    def __init__(self, n: int, d: int, n_bytes: int | None):
        self.X, self.entries = np.empty((n if n_bytes is None else 0, d)), None
        if n_bytes is not None:
            most = n_bytes // _BYTES_A_FEATURE + 1
            self.entries = np.zeros(n + 1, np.int64), np.empty(most, np.int32), np.empty(most)
        self.y, self.meta = np.empty(n, np.int64), np.empty((n, kernels.META_COLUMNS), np.int64)
        self.slow = np.empty((1 + (len(self.entries[1]) if self.entries else d), 3), np.int64)
        self.seen = np.zeros(0 if self.entries else d, np.int64)
        self.filled = self.width = 0
        #: Features that are missing in rows.
        self.absent: list[tuple[int, list[int]]] = []

    def rows(self) -> Any:
        """The rows filled."""
        if self.entries is None:
            return self.X[: self.filled]
        starts, columns, values = self.entries
        n = starts[self.filled]
        return SparseRows(starts[: self.filled + 1], columns[:n].copy(), values[:n].copy(), self.X.shape[1])


class Letor:
    """A source of LETOR text, opened once.

    A feature is called as the text calls it. Features are the columns 1, 2, ... of arrays, as long as no feature is 0 or beyond
    those in the first 8 MiB of text.

    Attributes
    ----------
    name : str
        Its name in messages.
    found, width : int
        The number of columns found so far, and of those made, which may be more.
    has_qid : bool
        Whether lines have a qid.
    """

    def __init__(self, text: Text, n_features: int | None, by_name: bool, negative: str, missing: str, with_ids: bool) -> None:
        self.name, self._text = text.name, text
        self._lowest = 0.0 if negative == "error" else -(2.0**53)
        self._negative, self._missing, self._with_ids = negative, missing, with_ids
        self._qid = ""
        self._first_id, self.width, self.has_qid = 1, n_features or 0, True
        self._rule, self.found = kernels.QID_UNKNOWN, 0
        self._line_size = 100.0  # bytes, roughly
        self._blocks = text.blocks(0 if n_features else LOOK_AHEAD)
        self._first = next(self._blocks, None)
        if self._first is not None:
            self._widen(*self._first)
        # With this number of columns, their numbers are the names of features.
        self._usual = -1 if by_name or not self._first_id else n_features or self.width

    @property
    def share(self) -> float | None:
        """The share of the text that was read, if it is known."""
        return self._text.share

    def close(self) -> None:
        """Close the file."""
        self._text.close()

    def plan(self) -> Plan:
        """The features as columns of numbers."""
        names = _numbered(self._first_id, self.found)
        return Plan([Column("qid", "text", "query"), *(Column(name, "number", "feature") for name in names)])

    def rows(self) -> Iterator[Rows]:
        """All rows; a line that cannot be read is a row with a fault."""
        row = 0
        while self._first is not None:
            text, line = self._first
            place = _Place(0, line, row, self._rule)
            while place.at < len(text):
                yield from self._block(text, place)
            row, self._rule = place.row, place.qid_rule
            self._first = next(self._blocks, None)

    def _widen(self, text: bytearray, line: int, at: int = 0) -> tuple[int, int, int] | None:
        """As many columns as the lines of a text from `at` on need. Returns the first fault in them."""
        place, room = _Place(at, line, 0, self._rule), _Room(1, max(_MOST_COLUMNS, self.width), len(text) - at)
        first = None
        for fault in self._faults(bytearray(text), place, room, measure=True):
            if fault[0] == kernels.FEATURE_ZERO:
                # Columns that were made before shift by one.
                self._first_id, self.width = 0, self.width + (self.found > 0)
                return self._widen(text, line, at)
            first = first or fault
        self.found = max(self.found, room.width)
        needed = max(self.width, room.width)
        # Wide text brings new features all the time.
        self.width = max(needed, 2 * self.width) if WIDE < self.width < needed else needed
        self.has_qid = place.qid_rule != kernels.QID_ABSENT
        return first

    def _block(self, text: bytearray, place: _Place) -> Iterator[Rows]:
        """As many rows as fit into a block, up to the first line with a fault, and that line."""
        d, begin, left, first_id = self.width, place.at, len(text) - place.at, self._first_id
        # About as many rows as there are lines, estimated from earlier lines; too few only means another block.
        n = max(1, min(_BLOCK // (1 if d > WIDE else max(1, d)), int(1.2 * left / self._line_size) + 16))
        room = _Room(n, d, left if d > WIDE else None)
        fault = next(self._faults(text, place, room, measure=False), None)
        if room.filled:
            self._line_size = (place.at - begin) / room.filled
            yield self._rows(room, text, first_id)
        if fault is None:
            return
        if fault[0] in (kernels.FEATURE_RANGE, kernels.FEATURE_ZERO):
            before = self.width, first_id
            # The line may have another fault, and is then no document whose features count.
            fault = self._widen(text, place.line, place.at) or fault
            if before != (self.width, self._first_id):
                return
        code, where, feature = fault
        match = _TOKEN.match(text, where)
        token = repr(match.group().decode("utf-8", "backslashreplace") if match else "")
        what, column = _WRONG[code].format(token=token, feature=feature), where - place.at + 1
        end = text.index(b"\n", place.at)
        qid = _QID.search(text, place.at, end)
        at = f"{self.name}, line {place.line}, column {column}"
        # A line without a qid that can be read belongs to the query before it.
        id = bytes(qid[1]).decode("utf-8", "replace") if qid else self._qid
        zero = np.zeros(1, np.int64)
        yield Rows(np.zeros((1, 0)), zero, [0], [id], [""], lambda i: at, {0: what})
        place.at, place.line, place.row = end + 1, place.line + 1, place.row + 1

    def _faults(self, text: bytearray, place: _Place, room: _Room, *, measure: bool) -> Iterator[tuple[int, int, int]]:
        """Read lines until the room is full or the text ends, and yield (code, position, feature) of each that is wrong.

        If only the largest column is wanted (`measure`), all rows go to the same place. A wrong line is `place` until the next
        step.
        """
        buffer = np.frombuffer(text, np.uint8)
        rules = self._first_id, self._lowest, False, measure
        while place.at < len(text) and room.filled < len(room.y):
            state = place.at, len(text), room.filled, place.line, place.row, place.qid_rule
            code, place.at, place.line, place.row, room.filled, n_slow, place.qid_rule, width, where, feature = (
                kernels.parse_rows(buffer, state, rules, room.X, room.y, room.meta, room.slow, room.seen, room.entries)
            )
            room.width = max(room.width, width)
            if code in _STOPPED:
                continue
            fault: tuple[int, int, int] | None = (code, where, feature)
            if code in _VALUES:
                values = _VALUE.finditer(text, place.at, text.index(b"\n", where))
                found = next((value for value in values if value.end(1) + 1 == where), None)
                if found is not None and self._missing != "error":
                    if (fault := self._blank(text, place, room)) is None:
                        continue
                elif found is not None or code == kernels.NULL_VALUE:
                    fault = kernels.NULL_VALUE if found else kernels.BAD_VALUE, where, feature
            elif code == kernels.SLOW_ROW and (fault := self._settle(room, n_slow, text)) is None:
                if place.qid_rule == kernels.QID_UNKNOWN:
                    has_qid = room.meta[room.filled, kernels.QID_LENGTH] >= 0
                    place.qid_rule = kernels.QID_REQUIRED if has_qid else kernels.QID_ABSENT
                room.width = max(room.width, feature + 1 - self._first_id)
                room.filled += not measure
                place.row += 1
                place.at, place.line = text.index(b"\n", place.at) + 1, place.line + 1
                continue
            if fault is not None:
                yield fault
            place.at, place.line, place.row = text.index(b"\n", place.at) + 1, place.line + 1, place.row + 1

    def _blank(self, text: bytearray, place: _Place, room: _Room) -> tuple[int, int, int] | None:
        """Take the missing values out of a line, to be read again, and note them; or the fault of one that is given twice."""
        end = text.index(b"\n", place.at)
        features, sharp, comment = bytes(text[place.at : end]).partition(b"#")
        ids = [int(found[1]) for found in _VALUE.finditer(features)]
        given = [int(id) for id in _ID.findall(features)]
        if (twice := next((id for id in ids if given.count(id) > 1), None)) is not None:
            return kernels.FEATURE_TWICE, place.at, twice
        if min(ids) < self._first_id:
            return kernels.FEATURE_ZERO, place.at, 0
        room.absent.append((room.filled, ids))
        room.width = max(room.width, *(min(id, _MOST_COLUMNS) + 1 - self._first_id for id in ids))
        text[place.at : end] = _VALUE.sub(lambda token: b" " * len(token[0]), features) + sharp + comment
        room.seen[:] = 0
        return None

    def _settle(self, room: _Room, n_slow: int, text: bytearray) -> tuple[int, int, int] | None:
        """Convert the numbers of a row that the kernel left out; returns (code, position, feature) of one out of range."""
        for column, at, length in room.slow[:n_slow].tolist():
            value = float(text[at : at + length])
            if column < 0:
                if not (self._lowest <= value <= 2.0**53 and value == int(value)):
                    return kernels.GRADE_RANGE, at, 0
                room.y[room.filled] = value
                continue
            if room.entries is None:
                room.X[room.filled, column] = value
            else:
                starts, columns, values = room.entries
                first, last = starts[room.filled], starts[room.filled + 1]
                values[first + np.searchsorted(columns[first:last], column)] = value
            if not np.isfinite(value):
                return kernels.NOT_FINITE, at, column + self._first_id
        return None

    def _rows(self, room: _Room, text: bytearray, first_id: int) -> Rows:
        X, meta = room.rows(), room.meta[: room.filled]
        if self._missing == "keep" and not isinstance(X, SparseRows):
            for row, ids in room.absent:
                if row == len(X):  # The line has another fault.
                    break
                X[row, [id - first_id for id in ids if id - first_id < X.shape[1]]] = np.nan
        docids = []
        if self._with_ids:
            spans = meta[:, [kernels.COMMENT, kernels.COMMENT_LENGTH, kernels.LINE]].tolist()
            docids = [_docid_of(text, at + 1, at + n, self.name, line) for at, n, line in spans]
        first = np.flatnonzero(meta[:, kernels.FRESH])
        qids = [
            text_of(self.name, line, text[at : at + length]) if length > 0 else ""
            for line, at, length in meta[first][:, [kernels.LINE, kernels.QID, kernels.QID_LENGTH]].tolist()
        ]
        self._qid, lines = qids[-1], meta[:, kernels.LINE]
        usual = first_id == 1 and X.shape[1] == self._usual
        names = None if usual else _numbered(first_id, X.shape[1])
        y = room.y[: room.filled]
        if self._negative == "zero":
            np.maximum(y, 0, out=y)
        return Rows(X, y, first.tolist(), qids, docids, lambda i: f"{self.name}, line {lines[i]}", {}, names)


@functools.lru_cache(maxsize=4)
def _numbered(first: int, n: int) -> tuple[str, ...]:
    """The names of n features, numbered from the first."""
    return tuple(map(str, range(first, first + n)))


def _docid_of(text: bytearray, begin: int, end: int, name: str, line: int) -> str:
    """The X of a comment ``docid = X``; otherwise its first word, as in RankLib's "# 7555 rambo"; "" without a comment."""
    if match := _DOCID.search(text, begin, end):
        return text_of(name, line, match[1])
    words = text[begin:end].split(None, 1)
    return text_of(name, line, words[0]) if words else ""


def sizes_beside(source: Any) -> str | None:
    """The file with the sizes of groups that LightGBM would look for beside a file of documents."""
    path = path_of(source) or ""
    found = (stem + suffix for stem in dict.fromkeys((path, path.removesuffix(".gz"))) for suffix in (".query", ".group"))
    return next((file for file in found if path and os.path.exists(file)), None)
