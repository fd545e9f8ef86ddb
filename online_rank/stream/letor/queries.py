"""The queries of LETOR text: one after the other, or all at once."""

from collections.abc import Generator, Iterator, Sequence
from typing import Any, Literal, NamedTuple

import numpy as np
import numpy.typing as npt

from online_rank import arguments
from online_rank.stream.letor.lines import LetorError
from online_rank.stream.letor.rows import LetorPosition, RepeatedQid, RowBlock, RowReader, Start
from online_rank.stream.letor.source import Sizes, Source
from online_rank.stream.letor.sparse import Gathered, Sparse, joined, part, rows_at
from online_rank.support.progress import progress as shown_progress


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

    def __init__(self, rows: RowReader, with_qid: bool, max_query_bytes: int):
        self._at_once = rows.repeated_qid == "group"
        self.position: LetorPosition | None = None if self._at_once else rows.start
        self.errors = rows.errors
        self._rows, self._with_qid, self._max_query_bytes = rows, with_qid, max_query_bytes
        self._queries = self._assemble()

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
        query, position = next(self._queries)
        if not self._at_once:
            self.position = position
        return query

    def close(self) -> None:
        """Close the open file. This happens automatically at the end and when the iterator is garbage collected."""
        self._queries.close()

    def __enter__(self) -> "LetorIterator":
        return self

    def __exit__(self, *exception: object) -> None:
        self.close()

    def _assemble(self) -> Generator[tuple[tuple[Any, ...], LetorPosition], None, None]:
        """Assemble queries from their pieces in blocks, each with the position after it."""
        pieces: list[tuple[Any, np.ndarray, list[str]]] = []
        query, n, size = Start(0, "", self._rows.start), 0, 0
        for block in map(_read_all, [self._rows]) if self._at_once else self._rows:
            starts = block.starts if block.starts and block.starts[0].row == 0 else [query._replace(row=0), *block.starts]
            ends = [*(start.row for start in starts[1:]), len(block.y)]
            for start, last in zip(starts, ends, strict=True):
                if pieces and start.position is not query.position:
                    yield self._query(pieces, query.qid), start.position
                    pieces, n, size = [], 0, 0
                query, rows = start, part(block.X, start.row, last)
                pieces.append((rows, block.y[start.row : last], block.docids[start.row : last]))
                n, size = n + last - start.row, size + rows.nbytes
                self._require_moderate(n, size, query.position)
        if n:
            yield self._query(pieces, query.qid), self._rows.end
        self.position = None if self._at_once else self._rows.end

    def _query(self, pieces: list[tuple[Any, np.ndarray, list[str]]], qid: str) -> tuple[Any, ...]:
        """Copies, so that a stored query does not keep its block alive."""
        query: tuple[Any, ...] = joined([X for X, _, _ in pieces]), np.concatenate([y for _, y, _ in pieces])
        if self._with_qid:
            query += (qid,)
        return (*query, [docid for _, _, ids in pieces for docid in ids]) if self._rows.with_docid else query

    def _require_moderate(self, n_documents: int, size: int, begin: LetorPosition) -> None:
        """Raise LetorError if a query being assembled is too large."""
        what = "the query that begins here has"
        self._rows.require_moderate(n_documents, what, begin)
        if size > self._max_query_bytes:
            what += f" {n_documents} documents or more with {self.n_features} features"
            what += f": more than max_query_bytes={self._max_query_bytes} as an array"
            raise LetorError(what, self._rows.name_of(begin.file), begin.line)


def _read_all(rows: RowReader, shown: bool | None = False) -> RowBlock:
    """Read everything into one block; documents of a qid are joined if `repeated_qid` says so."""
    X, y = Gathered(rows.n_features or 0, rows.dtype), [np.empty(0, np.int64)]
    docids: list[str] = []
    starts: list[Start] = []
    n = 0
    place = LetorPosition()
    with shown_progress("reading", unit="documents", shown=shown, part=lambda: rows.fraction(place)) as show:
        for block in rows:
            rows.require_moderate(n + len(block.y), "the text has", LetorPosition())
            X.add(block.X)
            y.append(block.y)
            docids += block.docids
            starts += [Start(n + row, qid, place) for row, qid, place in block.starts]
            place = starts[-1].position
            n += len(block.y)
            show(n)
    text = RowBlock(X.all(), np.concatenate(y), docids, starts)
    return _grouped(text) if rows.repeated_qid == "group" else text


def _grouped(text: RowBlock) -> RowBlock:
    """The documents of each qid next to each other, in order of first appearance."""
    firsts: dict[str, int] = {}
    numbers = np.repeat([firsts.setdefault(start.qid, i) for i, start in enumerate(text.starts)], text.sizes)
    order = np.argsort(numbers, kind="stable")
    begins = np.searchsorted(numbers[order], list(firsts.values())).tolist()
    starts = [text.starts[i]._replace(row=row) for i, row in zip(firsts.values(), begins, strict=True)]
    docids = [text.docids[i] for i in order.tolist()] if text.docids else []
    return RowBlock(rows_at(text.X, order), text.y[order], docids, starts)


def iter_letor(
    *sources: Source | Sequence[Source],
    with_qid: bool = False,
    with_docid: bool = False,
    n_features: int | None = None,
    dtype: npt.DTypeLike = np.float64,
    zero_based: bool = False,
    missing: Literal["error", "zero"] = "error",
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
    0; ids may be in any order. Values are parsed exactly as by `float`. Blank lines and comment lines are skipped. A line ends
    with LF, CR LF or CR.

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
        Whether feature ids start at 0 instead of 1, as `sklearn.datasets.dump_svmlight_file` and LightGBM write them.
    missing : {"error", "zero"}
        How to treat the values ``NULL`` (in some versions of LETOR 3.0 and 4.0) and ``nan``: as an error, or as 0.
    negative : {"error", "zero", "skip"}
        How to treat a negative grade, with which some collections mark unjudged documents (-1) or spam (-2): as an error, as 0,
        or leave the document out.
    on_error : {"raise", "skip"}
        Whether a bad line is an error or is left out of its query. The iterator counts lines left out in `skipped`, and
        describes the first ten in `errors`.
    repeated_qid : {"warn", "new", "error", "group"}
        How to treat a qid that comes back after another one: as a new query, with a `LetorWarning` the first time (among the
        first 100,000 queries) or without; as an error; or as part of the earlier query. "error" remembers all ids since the
        start, "group" reads everything before it yields the first query, so that d is the largest number in the files.
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
        With file, line and column: while iterating, at the first bad line (infinity, a feature given twice, a negative or
        fractional grade, ... are bad), at group sizes that do not add up, at ids that are not UTF-8, at damaged gzip.
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
    grouped = repeated_qid == "group"
    if grouped and start != LetorPosition():
        raise ValueError('repeated_qid="group" reads everything: it cannot start in the middle')
    rows = RowReader(
        sources, group, n_features, dtype, zero_based, missing, negative, on_error, repeated_qid, sparse, with_docid,
        start, at_once=grouped,
    )  # fmt: skip
    return LetorIterator(rows, with_qid, max_query_bytes)


class LetorBlock(NamedTuple):
    """A LETOR file in memory.

    Attributes
    ----------
    X : (n, d) float array, or SparseRows
        Features.
    y : (n,) int64
        Grades.
    qid : (n,) int64, or str where an id is not an integer
        Ids of the queries; documents of one query are contiguous.
    docid : list of str or None
        Ids of the documents, if requested.
    """

    X: Any
    y: np.ndarray
    qid: np.ndarray
    docid: list[str] | None = None


def read_letor(
    *sources: Source | Sequence[Source],
    with_docid: bool = False,
    n_features: int | None = None,
    dtype: npt.DTypeLike = np.float64,
    zero_based: bool = False,
    missing: Literal["error", "zero"] = "error",
    negative: Literal["error", "zero", "skip"] = "error",
    on_error: Literal["raise", "skip"] = "raise",
    repeated_qid: RepeatedQid = "warn",
    group: Sizes | Sequence[Sizes | None] | None = None,
    sparse: Sparse = False,
    progress: bool | None = None,
) -> LetorBlock:
    r"""Load LETOR / svmlight text at once, as `Ranker.learn_many` takes it.

    Reads the same text as `iter_letor`, whose documentation explains the parameters. `progress` is whether to show a progress
    bar on stderr (extra `cli`); None shows one on a terminal only.

    Returns
    -------
    LetorBlock
        X (n, d), y (n,), qid (n,) and, with `with_docid`, docid. Without `n_features`, d is the largest feature number in the
        file.

    Raises
    ------
    LetorError
        See `iter_letor`.

    Examples
    --------
    >>> import io
    >>> block = read_letor(io.StringIO("2 qid:10 1:0.5\n0 qid:10 2:1\n1 qid:11 5:1\n"))
    >>> block.X.shape, block.y, block.qid
    ((3, 5), array([2, 0, 1]), array([10, 10, 11]))
    """
    rows = RowReader(
        sources, group, n_features, dtype, zero_based, missing, negative, on_error, repeated_qid, sparse, with_docid,
        LetorPosition(), at_once=True,
    )  # fmt: skip
    text = _read_all(rows, progress)
    qid = np.repeat(_integers([start.qid for start in text.starts]), text.sizes)
    return LetorBlock(text.X, text.y, qid, text.docids if with_docid else None)


def _integers(qids: list[str]) -> np.ndarray:
    """The ids as int64 if all of them are integers in canonical form, otherwise as strings."""
    try:
        numbers = np.array([int(qid) for qid in qids], np.int64)
    except (ValueError, OverflowError):
        return np.array(qids)
    return numbers if all(map(str.__eq__, map(str, numbers.tolist()), qids)) else np.array(qids)
