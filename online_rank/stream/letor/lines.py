"""Lines of text into rows: the loop around the kernel, and what its complaints say."""

import re
from collections.abc import Iterator
from dataclasses import dataclass
from typing import Any

import numpy as np

from online_rank._kernels import letor as kernels
from online_rank.query import SparseRows
from online_rank.stream.letor.sparse import put, room_for

UTF8 = "convert the file, for example with iconv -f latin1 -t utf-8"
_DOCID = re.compile(rb"docid\s*=\s*(\S+)")
_TOKEN = re.compile(rb"[^\s#]{0,40}")
_MISSING = re.compile(rb":(NULL|[+-]?[nN][aA][nN])(?![^\s#])")
_STOPPED = (kernels.DONE, kernels.FULL)

_WRONG = {
    kernels.BAD_GRADE: "the grade {token} is not a number; a line is: grade qid:ID feature:value ...",
    kernels.GRADE_RANGE: 'the grade {token} is not an integer >= 0; negative="zero" or "skip" for those below',
    kernels.NO_QID: "no qid:..., which the first line has",
    kernels.UNEXPECTED_QID: "{token}, although the first line has no qid",
    kernels.EMPTY_QID: "qid: without an id",
    kernels.BAD_FEATURE: "{token} is not feature:value",
    kernels.FEATURE_ZERO: "feature 0, but ids start at 1; zero_based=True (--zero-based) if those of all files start at 0",
    kernels.FEATURE_TWICE: "feature {feature} is given twice",
    kernels.BAD_VALUE: "the value {token} of feature {feature} is not a number",
    kernels.NOT_FINITE: "the value {token} of feature {feature} is not finite",
    kernels.NULL_VALUE: 'the value of feature {feature} is missing: {token}; missing="zero" (--missing zero) reads it as 0',
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


@dataclass
class Place:
    """How far a file has been read. `at` counts from the first byte of the text in memory, which is byte `origin`."""

    file: int
    name: str
    origin: int
    line: int
    row: int
    qid_rule: int
    group_ends: np.ndarray | None
    at: int = 0


class Room:
    """What the kernel fills: up to `n` rows of d columns, in arrays, or in sparse rows with room for `n_bytes` of text."""

    def __init__(self, n: int, d: int, dtype: Any, n_bytes: int | None):
        self.X = np.empty((n if n_bytes is None else 0, d), dtype)
        self.entries = None if n_bytes is None else room_for(n_bytes, n, dtype)
        self.y, self.meta = np.empty(n, np.int64), np.empty((n, kernels.META_COLUMNS), np.int64)
        self.slow = np.empty((1 + (len(self.entries[1]) if self.entries else d), 3), np.int64)
        self.seen = np.zeros(0 if self.entries else d, np.int64)
        self.filled = self.width = 0

    @property
    def rows(self) -> Any:
        """The rows filled."""
        if self.entries is None:
            return self.X[: self.filled]
        starts, columns, values = self.entries
        n = starts[self.filled]
        return SparseRows(starts[: self.filled + 1], columns[:n].copy(), values[:n].copy(), self.X.shape[1])


def described(code: int, where: int, feature: int, text: bytearray) -> str:
    """What is wrong with a line."""
    match = _TOKEN.match(text, where)
    token = repr(match.group().decode("utf-8", "backslashreplace") if match else "")
    return _WRONG[code].format(token=token, feature=feature)


@dataclass(frozen=True)
class Lines:
    """How lines are read: the number of the first feature, the lowest grade, and whether missing values are 0."""

    first_id: int
    lowest: float
    missing_is_zero: bool

    def faults(self, text: bytearray, place: Place, room: Room, *, measure: bool) -> Iterator[tuple[int, int, int]]:
        """Read lines until the room is full or the text ends, and yield (code, position, feature) of each that is wrong.

        If only the largest column is wanted (`measure`), all rows go to the same place. A wrong line is `place` until the next
        step.
        """
        buffer = np.frombuffer(text, np.uint8)
        rules = self.first_id, self.lowest, self.missing_is_zero, measure
        while place.at < len(text) and room.filled < len(room.y):
            state = place.at, len(text), room.filled, place.line, place.row, place.qid_rule
            code, place.at, place.line, place.row, room.filled, n_slow, place.qid_rule, width, where, feature = (
                kernels.parse_rows(buffer, state, rules, room.X, room.y, room.meta, room.slow, room.seen, room.entries)
            )
            room.width = max(room.width, width)
            if code in _STOPPED:
                continue
            fault: tuple[int, int, int] | None = (code, where, feature)
            if code in (kernels.NOT_FINITE, kernels.NULL_VALUE):
                is_missing = _MISSING.match(text, where - 1) is not None
                if is_missing and self.missing_is_zero:  # the kernel knows NULL only: read the line again without nan
                    end = text.index(b"\n", where)
                    features, sharp, comment = bytes(text[place.at : end]).partition(b"#")
                    features = _MISSING.sub(lambda token: b":" + b"0".ljust(len(token[1])), features)
                    text[place.at : end] = features + sharp + comment
                    room.seen[:] = 0
                    continue
                wrong = kernels.BAD_VALUE if code == kernels.NULL_VALUE else code
                fault = kernels.NULL_VALUE if is_missing else wrong, where, feature
            elif code == kernels.SLOW_ROW and (fault := self._settle(room, n_slow, text)) is None:
                if place.qid_rule == kernels.QID_UNKNOWN:
                    has_qid = room.meta[room.filled, kernels.QID_LENGTH] >= 0
                    place.qid_rule = kernels.QID_REQUIRED if has_qid else kernels.QID_ABSENT
                room.width = max(room.width, feature + 1 - self.first_id)
                room.filled += not measure
            if fault is not None:
                yield fault
            place.at, place.line, place.row = text.index(b"\n", place.at) + 1, place.line + 1, place.row + 1

    def _settle(self, room: Room, n_slow: int, text: bytearray) -> tuple[int, int, int] | None:
        """Convert the numbers of a row that the kernel left out; returns (code, position, feature) of one out of range."""
        for column, at, length in room.slow[:n_slow].tolist():
            value = float(text[at : at + length])
            if column < 0:
                if not (self.lowest <= value <= 2.0**53 and value == int(value)):
                    return kernels.GRADE_RANGE, at, 0
                room.y[room.filled] = value
                continue
            with np.errstate(over="ignore"):
                if room.entries is None:
                    room.X[room.filled, column] = value
                    value = room.X[room.filled, column]
                else:
                    value = put(room.entries, room.filled, column, value)
            if not np.isfinite(value):
                return kernels.NOT_FINITE, at, column + self.first_id
        return None


def docid_of(text: bytearray, begin: int, end: int, name: str, line: int) -> str:
    """The X of a comment ``docid = X``; otherwise its first word, as in RankLib's "# 7555 rambo"; "" without a comment."""
    if match := _DOCID.search(text, begin, end):
        return decoded(match[1], name, line)
    words = text[begin:end].split(None, 1)
    return decoded(words[0], name, line) if words else ""


def decoded(token: bytes | bytearray, name: str, line: int) -> str:
    """An id as text. Raises LetorError unless it is UTF-8."""
    try:
        return token.decode()
    except UnicodeDecodeError as error:
        raise LetorError(f"{bytes(token[:40])!r} is not UTF-8 ({error.reason}); {UTF8}", name, line) from None
