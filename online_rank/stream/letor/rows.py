"""From bytes to blocks of rows: the common part of `iter_letor` and `read_letor`."""

import gzip
import os
import warnings
import zlib
from collections.abc import Iterator, Sequence
from contextlib import closing
from dataclasses import dataclass, field, replace
from typing import Any, Literal, NamedTuple, TypeAlias, get_args

import numpy as np

from online_rank import arguments
from online_rank._kernels import letor as kernels
from online_rank.stream.letor import source as sources
from online_rank.stream.letor.lines import UTF8, LetorError, Lines, Place, Room, decoded, described, docid_of
from online_rank.stream.letor.sparse import MOST_COLUMNS, WIDE, Sparse, rows_at

LOOK_AHEAD = 1 << 23  # bytes of the stream from which the number of features is inferred
WIDEST_GUESS = 1 << 16  # largest number of features that is inferred
#: Number of first queries checked for repeated qids, so that memory does not grow with the stream.
REMEMBERED = 100_000
_CHUNK = 1 << 20
_BLOCK = 1 << 17  # numbers in a block of rows
_ALWAYS_ALLOWED = 1 << 22  # bytes of arrays, and for each byte of text, if the number of features was inferred
_ALLOWED_A_BYTE = 32
_KEPT_ERRORS = 10
_BOM = b"\xef\xbb\xbf"
_UTF16 = (b"\xff\xfe", b"\xfe\xff")


RepeatedQid: TypeAlias = Literal["warn", "new", "error", "group"]


class LetorWarning(UserWarning):
    """A LETOR file is probably not in the intended order: the documents of a query are not contiguous."""

    __module__ = "online_rank.stream.letor"


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


class Start(NamedTuple):
    """The first document of a query: its row in the block, the query's id and where it begins."""

    row: int
    qid: str
    position: LetorPosition


class RowBlock(NamedTuple):
    """Some rows of the stream, and the queries that start in them."""

    X: Any
    y: np.ndarray
    docids: list[str]
    starts: list[Start]

    @property
    def sizes(self) -> np.ndarray:
        """The number of documents of each query, if a query starts with the first."""
        return np.diff([*(start.row for start in self.starts), len(self.y)])


@dataclass
class RowReader:
    """Reads sources one after the other and yields `RowBlock` after `RowBlock`; its parameters are those of `iter_letor`.

    With `at_once`, as for `read_letor`, a number of features that was inferred may rise later, and all qids are remembered.

    Attributes
    ----------
    n_features : int or None
        Columns of the following blocks; None until it is known.
    errors : list of LetorError
        The first few of the bad lines left out.
    skipped, n_bytes, n_queries : int
        Bad lines left out, bytes of text read and queries begun so far.
    """

    sources: Sequence[Any]
    group: Any
    n_features: int | None
    dtype: Any
    zero_based: bool
    missing: str
    negative: str
    on_error: str
    repeated_qid: str
    sparse: Sparse
    with_docid: bool
    start: LetorPosition
    at_once: bool
    errors: list[LetorError] = field(default_factory=list)
    n_bytes: int = 0

    def __post_init__(self) -> None:
        self._files: list[sources.Source] = []
        for source in self.sources:
            self._files.extend(source if isinstance(source, list | tuple) else [source])
        if not self._files:
            raise ValueError("nothing to read: give at least one source")
        for file in self._files:
            if not (isinstance(file, str | os.PathLike | sources.FileRange) or hasattr(file, "read")):
                raise TypeError(f"a source is a path, '-' or a file object, not {type(file).__name__}")
        arguments.integer("n_features", self.n_features, 1, optional=True)
        self.dtype = np.dtype(self.dtype)
        self._itemsize = self.dtype.itemsize
        arguments.choice("dtype", self.dtype.name, ("float64", "float32"))
        for name in ("zero_based", "with_docid"):
            arguments.flag(name, getattr(self, name))
        arguments.choice("missing", self.missing, ("error", "zero"))
        arguments.choice("negative", self.negative, ("error", "zero", "skip"))
        arguments.choice("on_error", self.on_error, ("raise", "skip"))
        arguments.choice("repeated_qid", self.repeated_qid, get_args(RepeatedQid))
        arguments.choice("sparse", self.sparse, (False, True, "auto"))
        if self.sparse and self.n_features is not None and self.n_features > MOST_COLUMNS:
            raise ValueError(f"n_features is {self.n_features}; sparse rows have at most {MOST_COLUMNS}")
        one = len(self._files) == 1
        groups = [None] * len(self._files) if self.group is None else [self.group] if one else list(self.group)
        if len(groups) != len(self._files):
            raise ValueError(f"group has {len(groups)} entries for {len(self._files)} sources")
        self._group_ends = [None if sizes is None else sources.group_ends(sizes) for sizes in groups]
        self.n_features = self.n_features or self.start.n_features or None
        self.skipped, self.n_queries = self.start.skipped, self.start.query
        self._guessed = self.n_features is None
        self._first_fault: tuple[int, int, int] | None = None
        self._fatal: LetorError | None = None
        lowest = 0.0 if self.negative == "error" else -(2.0**53)
        self._lines = Lines(0 if self.zero_based else 1, lowest, self.missing == "zero")
        self._query: object = None
        self._qids: set[str] | None = None if self.repeated_qid in ("new", "group") else set()
        self._line_size = 100.0  # bytes, roughly
        self._sizes: list[int | None] | None = None

    def __iter__(self) -> Iterator[RowBlock]:
        for index in range(self.start.file, len(self._files)):
            name, ends = self.name_of(index), self._group_ends[index]
            start = self.start if index == self.start.file else LetorPosition()
            rule = kernels.QID_UNKNOWN if ends is None else kernels.QID_IGNORED
            place = Place(index, name, start.offset, start.line, start.row, rule, ends)
            look_ahead = LOOK_AHEAD if self.n_features is None else 0
            try:
                with closing(sources.whole_lines(self._files[index], start.offset, look_ahead, _CHUNK)) as texts:
                    for text in texts:
                        yield from self._blocks(text, place)
            except sources.LineTooLongError as error:
                raise LetorError(str(error), name, place.line) from None
            except UnicodeDecodeError as error:
                raise LetorError(f"{error}; {UTF8}", name, place.line) from None
            except (EOFError, zlib.error, gzip.BadGzipFile) as error:
                raise LetorError(f"cannot be uncompressed: {error}", name) from error
            ends = place.group_ends
            if ends is not None and len(ends) and place.row < ends[-1]:
                raise LetorError(f"{place.row} documents, but the group sizes add up to {ends[-1]}", name)

    def _blocks(self, text: bytearray, place: Place) -> Iterator[RowBlock]:
        """The blocks of some lines."""
        place.at = 0
        if place.origin == 0 and text.startswith(_UTF16):
            raise LetorError("is in UTF-16: convert it to UTF-8, by iconv -f UTF-16 -t UTF-8", place.name, 1)
        if place.origin == 0 and text.startswith(_BOM):
            place.at = len(_BOM)
        if self.n_features is None:
            self.n_features = self._measure(text, place)
        while place.at < len(text):
            room = self._parse(text, place)
            if room.filled and len((block := self._block(room, text, place)).y):
                yield block
            if self._fatal is not None:
                raise self._fatal
        place.origin += len(text)

    def _measure(self, text: bytearray, place: Place) -> int | None:
        """The largest feature number in lines that are read, up to the one that is an error; None without any."""
        # An array without rows takes no memory, however wide it is.
        size = len(text) - place.at if self.sparse else None
        room = Room(1, MOST_COLUMNS if self.sparse else WIDEST_GUESS, self.dtype, size)
        place = replace(place)
        begin = place.row
        for fault in self._lines.faults(text, place, room, measure=True):
            if self.on_error == "raise":
                self._first_fault = fault
                return room.width
            begin += 1
        return room.width if place.row > begin else None

    def _parse(self, text: bytearray, place: Place) -> Room:
        """As many rows as fit into a block."""
        d, begin, left = self.n_features or 0, place.at, len(text) - place.at
        # About as many rows as there are lines, estimated from earlier lines; too few only means another block.
        n = max(1, min(_BLOCK // (1 if self.is_sparse else max(1, d)), int(1.2 * left / self._line_size) + 16))
        room = Room(n, d, self.dtype, left if self.is_sparse else None)
        counted = 0
        for fault in self._lines.faults(text, place, room, measure=False):
            if fault[0] == kernels.FEATURE_RANGE and self.at_once and self._guessed:
                wider = self._measure(text, place) or 0
                if wider > d:  # the rest goes into a wider block
                    self.n_features = wider
                    break
            room.meta[counted : room.filled, kernels.SKIPPED] = self.skipped
            counted = room.filled
            # The feature out of range may be one of a line that measuring has found to be no document.
            self._fault(*(self._first_fault or fault), text, place)
            if self._fatal is not None:
                break
        room.meta[counted : room.filled, kernels.SKIPPED] = self.skipped
        self.n_bytes += place.at - begin
        if room.filled:
            self._line_size = (place.at - begin) / room.filled
        return room

    def _fault(self, code: int, where: int, feature: int, text: bytearray, place: Place) -> None:
        """Record the error of `code`: fatal, to be raised after the rows before it were returned, or one more line left out."""
        if code == kernels.FEATURE_RANGE:
            origin = f"the first {LOOK_AHEAD >> 20} MiB of the stream name" if self._guessed else "the stream has"
            needed = feature + 1 - self._lines.first_id
            known = f"{origin} {self.n_features} features"
            if self._guessed and needed > WIDEST_GUESS:
                # They were not counted, although the beginning may name them.
                known = f"more than {WIDEST_GUESS} features are not inferred"
            what = f"feature {feature}, but {known}: pass n_features={needed} or more (--n-features)"
        else:
            what = described(code, where, feature, text)
        error = LetorError(what, place.name, place.line, where - place.at + 1)
        if self.on_error == "raise":
            self._fatal = error
            return
        self.skipped += 1
        if len(self.errors) < _KEPT_ERRORS:
            self.errors.append(error)

    def _block(self, room: Room, text: bytearray, place: Place) -> RowBlock:
        """The rows, with the queries that start among them."""
        X, y, meta = room.rows, room.y[: room.filled], room.meta[: room.filled]
        groups = self._groups(meta, place)
        if self.negative != "error":
            if self.negative == "skip" and (y < 0).any():
                kept = np.flatnonzero(y >= 0)
                X, y, meta, groups = rows_at(X, kept), y[kept], meta[kept], groups[kept]
            np.maximum(y, 0, out=y)
        docids = []
        if self.with_docid:
            spans = meta[:, [kernels.COMMENT, kernels.COMMENT_LENGTH, kernels.LINE]].tolist()
            docids = [docid_of(text, at + 1, at + n, place.name, line) for at, n, line in spans]
        starts: list[Start] = []
        first = np.flatnonzero(np.diff(groups, prepend=-1))
        for r, values in zip(first.tolist(), meta[first].tolist(), strict=True):
            line, at, row, qid_at, length, _, _, _, skipped = values
            # Equal qids on both sides of a file's end are one query, as in the concatenation; a group ends with its file.
            query: Any
            if place.group_ends is None:
                query = qid = decoded(text[qid_at : qid_at + length], place.name, line)
            else:
                query, qid = (place.file, int(groups[r])), str(self.n_queries + 1)
            if query != self._query:
                self._query = query
                counts = row, self.n_queries, skipped, self.n_features or 0
                starts.append(Start(r, qid, LetorPosition(place.file, place.origin + at, line, *counts)))
                self.n_queries += 1
                if self._qids is not None:
                    self._notice(self._qids, qid, place.name, line)
        return RowBlock(X, y, docids, starts)

    def _groups(self, meta: np.ndarray, place: Place) -> np.ndarray:
        """The number of the query of each row: within the block, or of the sizes of groups."""
        if place.qid_rule == kernels.QID_ABSENT and place.group_ends is None:
            place.group_ends = sources.found_group_ends(self._files[place.file])
            if place.group_ends is None:
                what = "no qid:... and no file with the sizes of the groups: give it as group="
                raise LetorError(what, place.name, int(meta[0, kernels.LINE]))
        if place.group_ends is None:
            return np.cumsum(meta[:, kernels.FRESH])
        groups = np.searchsorted(place.group_ends, meta[:, kernels.ROW], side="right")
        if groups[-1] == len(place.group_ends):
            line = int(meta[np.searchsorted(groups, groups[-1]), kernels.LINE])
            raise LetorError(f"more documents than the group sizes add up to ({place.row})", place.name, line)
        return groups

    def _notice(self, seen: set[str], qid: str, name: str, line: int) -> None:
        """Raise or warn if a qid comes back."""
        if qid in seen:
            error = LetorError(f"query {qid} comes back after another one", name, line)
            if self.repeated_qid == "error":
                raise error
            self._qids = None
            told = f"{error}, and is read as a separate query; "
            told += 'repeated_qid="group" (--group-by-qid) joins the documents of a qid, "new" is silent'
            warnings.warn(told, LetorWarning, stacklevel=7)
        elif self.at_once or self.repeated_qid == "error" or len(seen) < REMEMBERED:
            seen.add(qid)

    @property
    def is_sparse(self) -> bool:
        """Whether the following rows are sparse."""
        return self.sparse is True or (self.sparse == "auto" and (self.n_features or 0) > WIDE)

    def require_moderate(self, n_documents: int, what: str, begin: LetorPosition) -> None:
        """Raise LetorError if an array of `n_documents` documents is out of proportion to the text read.

        A short line can name a feature with a high number. With `n_features` the user has confirmed the width.
        """
        if not self._guessed or self.is_sparse:
            return
        size = n_documents * (self.n_features or 0) * self._itemsize
        if size > max(_ALWAYS_ALLOWED, _ALLOWED_A_BYTE * self.n_bytes):
            what += f" {n_documents} documents or more with {self.n_features} features: {size} bytes as an array, from"
            what += f" {self.n_bytes} bytes of text; give n_features={self.n_features} (--n-features) if that is meant"
            raise LetorError(what, self.name_of(begin.file), begin.line)

    def name_of(self, file: int) -> str:
        """The name of a source in messages."""
        return sources.source_name(self._files[file])

    def fraction(self, position: LetorPosition) -> float | None:
        """The share of the sources' bytes before a position; None if unknown."""
        if self._sizes is None:
            self._sizes = [sources.plain_size(source) for source in self._files]
        sizes = [size for size in self._sizes if size is not None]
        if len(sizes) < len(self._sizes):
            return None
        return (sum(sizes[: position.file]) + position.offset) / max(1, sum(sizes))

    @property
    def end(self) -> LetorPosition:
        """The position after the last query."""
        return LetorPosition(len(self._files), 0, 1, 0, self.n_queries, self.skipped, self.n_features or 0)
