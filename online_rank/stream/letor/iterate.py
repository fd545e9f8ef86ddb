"""The queries of LETOR text, one after the other."""

import warnings
from collections import Counter
from collections.abc import Generator, Iterator, Sequence
from itertools import pairwise
from typing import Any, Literal

import numpy as np
import numpy.typing as npt

from online_rank import arguments
from online_rank.stream.letor.arguments import Sizes, row_reader
from online_rank.stream.letor.repeated import REMEMBERED, LetorWarning, RepeatedQid, check_repeated_qid, repeated
from online_rank.stream.letor.rows import LetorError, LetorPosition, RowBlock, RowReader
from online_rank.stream.letor.source import Source
from online_rank.stream.letor.sparse import Sparse, joined, n_bytes, part


class LetorIterator(Iterator[tuple[Any, ...]]):
    """The queries of a stream, one after the other; what `iter_letor` returns.

    Attributes
    ----------
    position : LetorPosition or None
        Where the next query starts; `iter_letor` with ``start=position`` continues there. None if queries are collected first
        (``repeated_qid="group"``).
    fraction : float or None
        The share of the files' bytes before `position`; None if a source is compressed or not a file on disk.
    errors : list of LetorError
        The first ten bad lines left out by ``on_error="skip"``. The reader is ahead of the query that it returns, so these may
        come after `position`.
    """

    def __init__(
        self,
        rows: RowReader,
        start: LetorPosition,
        with_qid: bool,
        with_docid: bool,
        repeated_qid: RepeatedQid,
        max_query_bytes: int,
    ):
        self.position: LetorPosition | None = None if repeated_qid == "group" else start
        self.errors = rows.errors
        self._rows = rows
        self._with_qid, self._with_docid = with_qid, with_docid
        self._max_query_bytes = max_query_bytes
        self._seen: set[str] = set()
        self._repeated_qid = repeated_qid
        self._queries = self._collect() if repeated_qid == "group" else self._assemble()

    @property
    def n_features(self) -> int | None:
        """Number of features d; None until the first query, unless it was given."""
        return self._rows.n_features

    @property
    def skipped(self) -> int:
        """Bad lines left out before `position`, counted from the beginning of the stream even after a restart."""
        return self._rows.skipped if self.position is None else self.position.skipped

    @property
    def fraction(self) -> float | None:
        """The share of the files' bytes before `position`; None if a source is compressed or not a file on disk."""
        return None if self.position is None else self._rows.fraction(self.position)

    def __iter__(self) -> "LetorIterator":
        return self

    def __next__(self) -> tuple[Any, ...]:
        query, self.position = next(self._queries)
        return query

    def close(self) -> None:
        """Close the open file. This happens automatically at the end and when the iterator is garbage collected."""
        self._queries.close()

    def __enter__(self) -> "LetorIterator":
        return self

    def __exit__(self, *exception: object) -> None:
        self.close()

    def _assemble(self) -> Generator[tuple[tuple[Any, ...], LetorPosition | None], None, None]:
        """Assemble queries from their pieces in blocks, each with the position after it."""
        pieces: list[tuple[RowBlock, int, int]] = []
        qid, begin, n = "", self.position or LetorPosition(), 0
        for block in self._rows:
            bounds = [start for start, _, _ in block.starts] + [len(block.y)]
            if bounds[0]:
                pieces.append((block, 0, bounds[0]))
                n += bounds[0]
                self._require_moderate(pieces, n, begin)
            for (first, next_qid, position), (_, last) in zip(block.starts, pairwise(bounds), strict=True):
                if pieces:
                    yield self._query(pieces, qid), position
                self._notice(next_qid, position)
                pieces, qid, begin, n = [(block, first, last)], next_qid, position, last - first
                self._require_moderate(pieces, n, begin)
        if pieces:
            yield self._query(pieces, qid), self._rows.end
        self.position = self._rows.end

    def _collect(self) -> Generator[tuple[tuple[Any, ...], LetorPosition | None], None, None]:
        """Read everything, then yield the queries in order of their first documents."""
        queries: dict[str, list[tuple[RowBlock, int, int]]] = {}
        begins: dict[str, LetorPosition] = {}
        sizes: Counter[str] = Counter()
        qid, begin = "", LetorPosition()
        for block in self._rows:
            marks = [(0, qid, begin), *block.starts]
            for (first, qid, begin), last in zip(marks, [*(start for start, _, _ in marks[1:]), len(block.y)], strict=True):
                if last > first:
                    queries.setdefault(qid, []).append((block, first, last))
                    sizes[qid] += last - first
                    self._require_moderate(queries[qid], sizes[qid], begins.setdefault(qid, begin))
            self._rows.require_moderate(sizes.total(), "all queries together have", LetorPosition())
        for qid, pieces in queries.items():
            yield self._query(pieces, qid), None

    def _query(self, pieces: list[tuple[RowBlock, int, int]], qid: str) -> tuple[Any, ...]:
        """Copies, so that a stored query does not keep its block alive."""
        query: tuple[Any, ...] = (
            joined([part(block.X, first, last) for block, first, last in pieces]),
            np.concatenate([block.y[first:last] for block, first, last in pieces]),
        )
        if self._with_qid:
            query += (qid,)
        if self._with_docid:
            query += ([docid for block, first, last in pieces for docid in (block.docids or [])[first:last]],)
        return query

    def _require_moderate(self, pieces: list[tuple[RowBlock, int, int]], n_documents: int, begin: LetorPosition) -> None:
        """Raise LetorError if a query being assembled is too large."""
        what = "the query that begins here has"
        self._rows.require_moderate(n_documents, what, begin)
        size = n_documents * self._rows.row_bytes
        if self._rows.is_sparse:
            size = sum(n_bytes(block.X, first, last) for block, first, last in pieces)
        if size > self._max_query_bytes:
            what += f" {n_documents} documents or more with {self.n_features} features"
            what += f": more than max_query_bytes={self._max_query_bytes} as an array"
            raise LetorError(what, self._rows.name_of(begin.file), begin.line)

    def _notice(self, qid: str, position: LetorPosition) -> None:
        """Raise or warn about a repeated qid, according to `repeated_qid`."""
        if self._repeated_qid == "new":
            return
        if qid in self._seen:
            where = f"{self._rows.name_of(position.file)}, line {position.line}"
            if self._repeated_qid == "error":
                raise LetorError(f"query {qid} comes back after another one", self._rows.name_of(position.file), position.line)
            self._repeated_qid = "new"
            self._seen.clear()
            warnings.warn(repeated(qid, where), LetorWarning, stacklevel=4)
        elif self._repeated_qid == "error" or len(self._seen) < REMEMBERED:
            self._seen.add(qid)


def iter_letor(
    *sources: Source | Sequence[Source],
    with_qid: bool = False,
    with_docid: bool = False,
    n_features: int | None = None,
    dtype: npt.DTypeLike = np.float64,
    zero_based: bool = False,
    null: Literal["zero", "error"] = "zero",
    negative: Literal["error", "zero", "skip"] = "error",
    on_error: Literal["raise", "skip"] = "raise",
    repeated_qid: RepeatedQid = "warn",
    group: Sizes | Sequence[Sizes | None] | None = None,
    start: LetorPosition | None = None,
    max_query_bytes: int = 1 << 26,
    sparse: Sparse = False,
) -> LetorIterator:
    r"""Stream the queries of LETOR / svmlight text.

    Reads lines such as ``2 qid:10 1:0.5 2:0 4:1e-3 # docid = GX000``, one query at a time, in memory that does not grow with
    the file, only with its longest query. Grades are integers >= 0 (``1.0`` and ``+1`` are 1). Features that are left out are
    0; ids may be in any order. Values are parsed exactly as by `float`. Blank lines and comment lines are skipped.

    Consecutive lines with the same qid are a query, even across the end of a file: several files are read like their
    concatenation. `repeated_qid` decides how to treat a qid that comes back later.

    Without qid, the sizes of the groups come from a file beside the data, as LightGBM writes it: ``rank.train`` has
    ``rank.train.query`` or ``rank.train.group``, one size a line. The queries are then called "1", "2", ...

    Parameters
    ----------
    *sources : path, file object, "-", or sequences of these
        What to read, one after the other: paths, binary or text files (from their current position; they are not closed), "-"
        for standard input. gzip is recognised by its content.
    with_qid, with_docid : bool
        Whether to yield the query's id, and the list of its documents' ids: X where a comment says ``docid = X``, else the
        first word of the comment, "" without one.
    n_features : int, optional
        Number of features d, the same for all queries. By default the largest number in the first 8 MiB of text (of the first
        file); a larger one later, or one above 65536, is an error that asks for `n_features`. Give it if features are rare, and
        use the number of the training data when reading test data.
    dtype : float64 or float32
        Type of X.
    zero_based : bool
        Whether feature ids start at 0 instead of 1.
    null : {"zero", "error"}
        How to treat the value ``NULL`` (in some versions of LETOR 3.0 and 4.0).
    negative : {"error", "zero", "skip"}
        How to treat a negative grade, with which some collections mark unjudged documents (-1) or spam (-2): as an error, as 0,
        or leave the document out.
    on_error : {"raise", "skip"}
        Whether a bad line is an error or is left out of its query. The iterator counts lines left out in `skipped`, and
        describes the first ten in `errors`.
    repeated_qid : {"warn", "new", "error", "group"}
        How to treat a qid that comes back after another one: as a new query, with a `LetorWarning` the first time (among the
        first 100,000 queries) or without; as an error; or as part of the earlier query. "error" remembers all ids since the
        start, "group" reads everything before it yields the first query.
    group : path or (q,) integers, or a sequence of these with one entry a source
        Sizes of the groups; qids, if there are any, are then ignored.
    start : LetorPosition, optional
        Where to start: the `position` of an earlier iterator over the same sources with the same options.
    max_query_bytes : int
        Largest array of a query's features; a query that would become larger is an error. A short text can name features with
        high numbers, so without `n_features`, arrays of more than 4 MiB may also take at most 32 bytes for each byte of text
        read.
    sparse : {False, True, "auto"}
        Whether X is `online_rank.query.SparseRows`, in which only the given features take memory, up to id 2^31 - 1. "auto": if
        d > 4096. Like d, this is decided by the first 8 MiB, for all queries.

    Returns
    -------
    LetorIterator
        Yields (X, y), (X, y, qid), (X, y, docids) or (X, y, qid, docids): X is (m, d), C-contiguous or sparse, y is (m,) int64,
        qid a str, docids a list of m str. Every array is new and owns its memory.

    Raises
    ------
    LetorError
        With file, line and column: while iterating, at the first bad line (NaN and infinity, a feature given twice, a negative
        or fractional grade, ... are bad), at group sizes that do not add up, at damaged gzip.
    OSError
        If a file cannot be read.

    Examples
    --------
    >>> import io
    >>> text = "2 qid:a 1:0.5 3:1 # docid = first\n0 qid:a 2:1e-3\n1 qid:b 1:-7\n"
    >>> for X, y, qid in iter_letor(io.StringIO(text), with_qid=True):
    ...     print(qid, y, X.tolist())
    a [2 0] [[0.5, 0.0, 1.0], [0.0, 0.001, 0.0]]
    b [1] [[-7.0, 0.0, 0.0]]
    >>> list(iter_letor(io.StringIO("1 qid:a 1:0.5 2:x")))
    Traceback (most recent call last):
    ...
    online_rank.stream.letor.LetorError: <StringIO>, line 1, column 17: the value 'x' of feature 2 is not a number
    """
    start = LetorPosition() if start is None else LetorPosition(*start)
    if any(isinstance(part, bool) or not isinstance(part, int) or part < 0 for part in start):
        raise ValueError(f"start is {start}; its numbers are integers >= 0")
    arguments.integer("max_query_bytes", max_query_bytes, 1)
    arguments.flag("with_qid", with_qid)
    arguments.flag("with_docid", with_docid)
    check_repeated_qid(repeated_qid)
    if repeated_qid == "group" and start != LetorPosition():
        raise ValueError('repeated_qid="group" reads everything: it cannot start in the middle')
    rows = row_reader(
        sources, group, start, grow=False, with_docid=with_docid, n_features=n_features, dtype=dtype, zero_based=zero_based,
        null=null, negative=negative, on_error=on_error, sparse=sparse,
    )  # fmt: skip
    return LetorIterator(rows, start, with_qid, with_docid, repeated_qid, max_query_bytes)
