"""LETOR / svmlight text, ``grade qid:id feature:value ... # docid = X``: the loop around the kernel, and faults of lines."""

import itertools
import re
from collections.abc import Callable, Container, Iterator
from typing import Any, NamedTuple

import numpy as np

from online_rank._kernels import letor as kernels
from online_rank.query import SparseRows
from online_rank.stream.plan import Column, Options, Plan
from online_rank.stream.rows import Rows
from online_rank.stream.source import Text, n_lines, text_of
from online_rank.stream.values import MISSING_WORDS, too_high

LOOK_AHEAD = 1 << 23  # bytes of the text from which the number of features is inferred
WIDE = 1 << 12  # features beyond which rows are sparse
_MOST_COLUMNS = 1 << 24  # that are inferred
_FAR = 10**12  # from here on the kernel takes ids for equal
_BLOCK = 1 << 17  # numbers in a block of rows
_WHOLE = 2.0**53
_MISSING = {word.encode() for word in MISSING_WORDS}

_DOCID = re.compile(rb"docid\s*=\s*(\S+)")
_TOKEN = re.compile(rb"[^\s#]*")
_ID = re.compile(rb"(?<!\S)(\d+):")


class _Parsed(NamedTuple):
    """Lines of text: what the kernel lists of them, and their faults, each with its column in the line."""

    text: bytearray
    starts: np.ndarray
    ids: np.ndarray
    values: np.ndarray
    grades: np.ndarray
    meta: np.ndarray
    faults: dict[int, tuple[int, str]]


class Letor:
    """A source of LETOR text, opened once.

    A feature is called as the text calls it. Features are the columns 1, 2, ... of arrays, as long as no feature is 0 or beyond
    those in the first 8 MiB of text.

    Attributes
    ----------
    name, form : str
        Its name in messages, and its format.
    width : int
        The number of columns made so far.
    has_qid : bool
        Whether lines have a qid.
    """

    form = "LETOR text"

    def __init__(self, text: Text, options: Options) -> None:
        self.name, self._text, self._options = text.name, text, options
        named = {role: column for role, column in options.named.items() if column}
        if named or options.features or options.exclude or options.context:
            raise ValueError(f"{self.name}: LETOR text has no columns: leave out their names")
        if options.kinds and options.known is None:
            raise ValueError(f"{self.name}: LETOR text has no texts: leave out the kinds (--kind, kinds=)")
        self._qid, self._first_id, self.width, self.has_qid = "", 1, options.n_features or 0, True
        self._names: tuple[str, ...] = ()
        # What the kernel fills, block after block.
        self._room = np.empty(0, np.int64), np.empty(0), np.empty((0, 3), np.int64)
        self._found, self._usual, self._blocks = 0, 0, text.blocks(0 if options.n_features else LOOK_AHEAD)
        self._first: _Parsed | None = None
        for block in self._blocks:
            self._first = self._parsed(*block, is_first=True)
            if len(self._first.grades):
                break
        by_name = options.by_name or not self._first_id
        # With this many columns, their numbers are the names of features.
        self._usual = -1 if by_name else options.n_features or self.width
        ids = range(self._first_id, self._first_id + self._found)
        features = map(Column, map(str, ids), itertools.repeat("number"), itertools.repeat("feature"))
        self.plan = Plan(itertools.chain([Column("qid", "text", "query")], features))

    @property
    def share(self) -> float | None:
        """The share of the text that was read, if it is known."""
        return self._text.share

    def close(self) -> None:
        """Close the file."""
        self._text.close()

    def rows(self, watch: Callable[[int, dict[str, Any]], None] | None = None) -> Iterator[Rows]:
        """All rows; a line that cannot be read is a row with a fault."""
        if self._first is not None:
            yield from self._rows(self._first, watch)
        self._first = None
        for text, line in self._blocks:
            yield from self._rows(self._parsed(text, line), watch)

    def _parsed(self, text: bytearray, line: int, is_first: bool = False) -> _Parsed:
        """The lines of a text, with as many columns as they need."""
        most, n = len(text) // 3 + 1, n_lines(text)
        ids, values, left = self._room_for(most, most + n)
        starts, grades, meta = np.empty(n + 1, np.int64), np.empty(n), np.empty((n, kernels.META_COLUMNS), np.int64)
        n, n_left, lowest, highest, ascending = kernels.parse_rows(
            np.frombuffer(text, np.uint8), line, ids, values, starts, grades, meta, left
        )
        starts = starts[: n + 1]
        ids, values = ids[: starts[-1]], values[: starts[-1]]
        found = _Parsed(text, starts, ids, values, grades[:n], meta[:n], {})
        self._settle(found, left[:n_left])
        if not ascending:
            self._sort(found)
        if highest >= max(_MOST_COLUMNS, self.width):
            self._refuse_far(found)
        self._check(found, is_first)
        if found.faults:
            # A line that is no document has no features.
            good = np.ones(n, np.bool_)
            good[[*found.faults]] = False
            kept, sizes = np.repeat(good, np.diff(starts)), np.where(good, np.diff(starts), 0)
            found = found._replace(starts=np.append(0, np.cumsum(sizes)), ids=ids[kept], values=values[kept])
            lowest, highest = (found.ids.min(), found.ids.max()) if len(found.ids) else (1, 0)
        self._widen(int(lowest), int(highest))
        return found

    def _room_for(self, n_entries: int, n_tokens: int) -> tuple[np.ndarray, np.ndarray, np.ndarray]:
        """Arrays of exactly these lengths, for ids, values and tokens; the arrays of earlier blocks if they are long enough.

        A later block may be smaller and still have more lines, so each length is compared alone.
        """
        ids, values, left = self._room
        if len(ids) < n_entries:
            ids, values = np.empty(n_entries, np.int64), np.empty(n_entries)
        if len(left) < n_tokens:
            left = np.empty((n_tokens, 3), np.int64)
        self._room = ids, values, left
        return ids[:n_entries], values[:n_entries], left[:n_tokens]

    def _widen(self, lowest: int, highest: int) -> None:
        """As many columns as features with these ids need."""
        if not lowest and self._first_id:
            # Columns that were made before shift by one.
            self._first_id, self.width, self._found = 0, self.width + (self._found > 0), self._found + (self._found > 0)
        self._found = max(self._found, highest + 1 - self._first_id)
        needed = max(self.width, self._found)
        # Wide text brings new features all the time.
        self.width = max(needed, 2 * self.width) if WIDE < self.width < needed else needed

    def _settle(self, found: _Parsed, left: np.ndarray) -> None:
        """Find the values of the tokens that the kernel left; notes those that are missing or no numbers."""
        for row, entry, at in left.tolist():
            token = bytes(_TOKEN.match(found.text, at)[0])  # type: ignore[index]
            value, shown = _number_of(token), _shown(found.text, at)
            if entry < 0:
                found.grades[row] = value
                if value != value:
                    _note(found, row, at, f"the grade {shown} is not a number; a line is: grade qid:ID feature:value ...")
                continue
            what = f"of feature {found.ids[entry]}"
            if value != value and token.removeprefix(b"-").removeprefix(b"+") in _MISSING:
                if self._options.missing == "error":
                    _note(found, row, at, f'the value {what} is missing: {shown}; missing="zero" reads it as 0')
            elif np.isfinite(value):
                found.values[entry] = value
            else:
                _note(found, row, at, f"the value {shown} {what} is not {'finite' if np.isinf(value) else 'a number'}")

    def _sort(self, found: _Parsed) -> None:
        """Sort the entries of each row by feature; notes features that come twice."""
        rows = np.repeat(np.arange(len(found.grades)), np.diff(found.starts))
        order = np.lexsort((found.ids, rows))
        found.ids[:], found.values[:] = found.ids[order], found.values[order]
        for entry in np.flatnonzero((np.diff(found.ids) == 0) & (np.diff(rows) == 0)).tolist():
            id = found.ids[entry]
            _note(found, rows[entry], self._place_of(found, rows[entry], id, 1), f"feature {id} is given twice")

    def _refuse_far(self, found: _Parsed) -> None:
        """Note features that are too far to be inferred."""
        for entry in np.flatnonzero(found.ids - self._first_id >= max(_MOST_COLUMNS, self.width)).tolist():
            row, id = int(np.searchsorted(found.starts, entry, side="right")) - 1, found.ids[entry]
            what = f"feature {id}: more than {_MOST_COLUMNS} are not inferred: pass n_features={id}"
            _note(found, row, self._place_of(found, row, id, 0), what)

    def _place_of(self, found: _Parsed, row: int, id: int, k: int) -> int:
        """Where a feature stands on its line for time k, from 0."""
        begin, end = found.meta[row, [kernels.PLACE, kernels.COMMENT]].tolist()
        places = [match.start() for match in _ID.finditer(found.text, begin, end) if min(int(match[1]), _FAR) == min(id, _FAR)]
        return places[k] if k < len(places) else begin

    def _check(self, found: _Parsed, is_first: bool) -> None:
        """Note grades out of range, and lines that are no documents, or have a qid where the first line has none."""
        grades, meta = found.grades, found.meta
        lowest = 0.0 if self._options.negative == "error" else -_WHOLE
        for row in np.flatnonzero(meta[:, kernels.FAULT] >= 0).tolist():
            at = meta[row, kernels.FAULT]
            _note(found, row, at, f"{_shown(found.text, at)} is not feature:value")
        for row in np.flatnonzero(~((grades >= lowest) & (grades <= _WHOLE) & (grades == np.rint(grades)))).tolist():
            at, remedy = meta[row, kernels.GRADE], 'negative="zero" or "skip" for those below'
            _note(found, row, at, f"the grade {_shown(found.text, at)} is not an integer >= 0; {remedy}")
        for row in np.flatnonzero((grades > (most := self._options.max_grade)) & (grades <= _WHOLE)).tolist():
            at = meta[row, kernels.GRADE]
            _note(found, row, at, f"the grade {_shown(found.text, at)} {too_high(most)}")
        lengths = meta[:, kernels.QID_LENGTH]
        if is_first:
            self.has_qid = next((bool(lengths[row] >= 0) for row in range(len(grades)) if row not in found.faults), True)
        for row in np.flatnonzero((lengths == 0) | ((lengths >= 0) != self.has_qid)).tolist():
            at = meta[row, kernels.QID]
            if not lengths[row]:
                _note(found, row, at, "qid: without an id")
            elif self.has_qid:
                _note(found, row, at, "no qid:..., which the first line has")
            else:
                _note(found, row, at - 4, f"{_shown(found.text, at - 4)}, although the first line has no qid")

    def _rows(self, found: _Parsed, watch: Callable[[int, dict[str, Any]], None] | None) -> Iterator[Rows]:
        """The rows of a block of text, some at a time."""
        n, width = len(found.grades), self.width
        numbered = self._first_id == 1 and width == self._usual
        names = () if numbered and watch is None else self._numbered()
        y = np.where(np.abs(found.grades) <= _WHOLE, found.grades, 0.0).astype(np.int64)
        columns = {row: f", column {at - found.meta[row, kernels.PLACE] + 1}" for row, (at, _) in found.faults.items()}
        step = n if width > WIDE else max(1, _BLOCK // max(1, width))
        for a in range(0, n, step or 1):
            b = min(n, a + step)
            meta, starts = found.meta[a:b], found.starts[a : b + 1]
            X: Any = np.zeros((b - a if width <= WIDE else 0, width))
            if width <= WIDE:
                kernels.fill_rows(starts, found.ids, found.values, self._first_id, X)
            else:
                values = np.where(np.isnan(found.values), 0.0, found.values)
                X = SparseRows(starts, (found.ids - self._first_id).astype(np.int32), values, width)
            if watch is not None:
                shown = X.toarray() if isinstance(X, SparseRows) else X
                watch(b - a, dict(zip(names, shown.T, strict=True)))

            def where(i: int, a: int = a, lines: np.ndarray = meta[:, kernels.LINE]) -> str:
                return f"{self.name}, line {lines[i]}{columns.get(a + i, '')}"

            fresh = np.flatnonzero(meta[:, kernels.FRESH] | (np.arange(b - a) == 0))
            faults = {row - a: what for row, (_, what) in found.faults.items() if a <= row < b}
            qids, docids = [self._qid_of(found.text, row) for row in meta[fresh]], self._docids(found.text, meta, faults)
            yield Rows(X, y[a:b], fresh.tolist(), qids, docids, where, faults, names, numbered=numbered)

    def _numbered(self) -> tuple[str, ...]:
        """The names of all columns made so far; the same tuple until there are others."""
        first, n = self._first_id, self.width
        if len(self._names) != n or self._names[:1] != (str(first),):
            self._names = tuple(map(str, range(first, first + n)))
        return self._names

    def _qid_of(self, text: bytearray, row: np.ndarray) -> str:
        """The qid of a row; a line without one that can be read belongs to the query before it."""
        line, at, length = row[[kernels.LINE, kernels.QID, kernels.QID_LENGTH]].tolist()
        if length > 0:
            self._qid = text_of(self.name, line, text[at : at + length])
        return self._qid

    def _docids(self, text: bytearray, meta: np.ndarray, faults: Container[int]) -> list[str]:
        """The ids of documents, if they are wanted: X of a comment ``docid = X``, else its first word, as in "# 7555 rambo".

        A line with a fault is no document, and its comment is not known to begin where the kernel stopped.
        """
        if not self._options.with_ids:
            return []
        docids = []
        for row, (line, at, length) in enumerate(meta[:, [kernels.LINE, kernels.COMMENT, kernels.COMMENT_LENGTH]].tolist()):
            if row in faults:
                docids.append("")
                continue
            match = _DOCID.search(text, at + 1, at + length)
            words = [match[1]] if match else text[at + 1 : at + length].split(None, 1)
            docids.append(text_of(self.name, line, words[0]) if words else "")
        return docids


def _number_of(token: bytes) -> float:
    """The number of a token; NaN if it is none."""
    try:
        return float(b"x" if b"_" in token else token)  # Python reads 1_0
    except ValueError:
        return np.nan


def _note(found: _Parsed, row: int, at: int, what: str) -> None:
    """Note a fault of a row, unless another one stands before it."""
    if row not in found.faults or at < found.faults[row][0]:
        found.faults[row] = at, what


def _shown(text: bytearray, at: int) -> str:
    """A token, or its beginning, in quotes."""
    return repr(bytes(_TOKEN.match(text, at)[0][:40]).decode("utf-8", "backslashreplace"))  # type: ignore[index]
