"""Read and write LETOR / svmlight text, ``grade qid:id feature:value ... # docid = X``: as a stream or at once."""

import os
import warnings
from collections.abc import Generator, Iterator, Sequence
from itertools import pairwise
from typing import Any, Literal, NamedTuple, TypeAlias, cast

import numpy as np
import numpy.typing as npt

from online_rank._progress import progress as shown_progress
from online_rank.stream.letor.repeated import (
    REMEMBERED,
    LetorWarning,
    RepeatedQid,
    check_repeated_qid,
    first_repeated,
    grouped_rows,
    repeated,
)
from online_rank.stream.letor.rows import LetorError, LetorPosition, RowBlock, RowReader
from online_rank.stream.letor.source import Source, is_stdin
from online_rank.stream.letor.sparse import MOST_COLUMNS, Gathered, Sparse, check_sparse, joined, n_bytes, part, rows_at
from online_rank.stream.letor.write import write_letor

__all__ = [
    "LetorBlock",
    "LetorError",
    "LetorIterator",
    "LetorPosition",
    "LetorWarning",
    "iter_letor",
    "read_letor",
    "write_letor",
]

Sizes: TypeAlias = str | os.PathLike[str] | Sequence[int] | npt.NDArray[np.integer]


class LetorBlock(NamedTuple):
    """A LETOR file in memory.

    Attributes
    ----------
    X : (n, d) float array, or SparseRows
        Features.
    y : (n,) int64
        Grades.
    qid : (n,) int64, or str where an id is not an integer
        Ids of the queries; documents of one query are neighbours with equal ids.
    docid : list of str or None
        Ids of the documents, where asked for.
    """

    X: Any
    y: np.ndarray
    qid: np.ndarray
    docid: list[str] | None = None


class LetorIterator(Iterator[tuple[Any, ...]]):
    """The queries of a stream, one after the other; what `iter_letor` returns.

    Attributes
    ----------
    position : LetorPosition or None
        Where the next query starts; `iter_letor` with ``start=position`` goes on from there. None where queries are collected
        (``repeated_qid="group"``).
    fraction : float or None
        Which part of the files' bytes lies before `position`; None where a source is compressed or no file on disk.
    errors : list of LetorError
        The first ten bad lines that ``on_error="skip"`` left out. The reader is ahead of the query that it hands out, so these
        may lie behind `position`.
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
        """Bad lines left out before `position`, counted from the beginning of the stream also after a restart."""
        return self._rows.skipped if self.position is None else self.position.skipped

    @property
    def fraction(self) -> float | None:
        """Which part of the files' bytes lies before `position`; None where a source is compressed or no file on disk."""
        return None if self.position is None else self._rows.fraction(self.position)

    def __iter__(self) -> "LetorIterator":
        return self

    def __next__(self) -> tuple[Any, ...]:
        query, self.position = next(self._queries)
        return query

    def close(self) -> None:
        """Close the file that is being read. Happens by itself at the end and when the iterator is no longer referred to."""
        self._queries.close()

    def __enter__(self) -> "LetorIterator":
        return self

    def __exit__(self, *exception: object) -> None:
        self.close()

    def _assemble(self) -> Generator[tuple[tuple[Any, ...], LetorPosition | None], None, None]:
        """Put queries together from the pieces that blocks hold of them, each with the position after it."""
        pieces: list[tuple[RowBlock, int, int]] = []
        qid, begin = "", self.position or LetorPosition()
        for block in self._rows:
            bounds = [start for start, _, _ in block.starts] + [len(block.y)]
            if bounds[0]:
                pieces.append((block, 0, bounds[0]))
                self._require_moderate(pieces, begin)
            for (first, next_qid, position), (_, last) in zip(block.starts, pairwise(bounds), strict=True):
                if pieces:
                    yield self._query(pieces, qid), position
                self._notice(next_qid, position)
                pieces, qid, begin = [(block, first, last)], next_qid, position
                self._require_moderate(pieces, begin)
        if pieces:
            yield self._query(pieces, qid), self._rows.end
        self.position = self._rows.end

    def _collect(self) -> Generator[tuple[tuple[Any, ...], LetorPosition | None], None, None]:
        """Read everything, then give the queries in the order in which their first documents came."""
        queries: dict[str, list[tuple[RowBlock, int, int]]] = {}
        qid = ""
        for block in self._rows:
            marks = [(0, qid), *((start, next_qid) for start, next_qid, _ in block.starts)]
            for (first, qid), last in zip(marks, [*(start for start, _ in marks[1:]), len(block.y)], strict=True):
                if last > first:
                    queries.setdefault(qid, []).append((block, first, last))
        for qid, pieces in queries.items():
            yield self._query(pieces, qid), None

    def _query(self, pieces: list[tuple[RowBlock, int, int]], qid: str) -> tuple[Any, ...]:
        """Arrays of their own, so that a query that is kept does not keep its block."""
        query: tuple[Any, ...] = (
            joined([part(block.X, first, last) for block, first, last in pieces]),
            np.concatenate([block.y[first:last] for block, first, last in pieces]),
        )
        if self._with_qid:
            query += (qid,)
        if self._with_docid:
            query += ([docid for block, first, last in pieces for docid in (block.docids or [])[first:last]],)
        return query

    def _require_moderate(self, pieces: list[tuple[RowBlock, int, int]], begin: LetorPosition) -> None:
        """Raise LetorError when a query that is being put together is too large."""
        size = sum(n_bytes(block.X, first, last) for block, first, last in pieces)
        if size > self._max_query_bytes:
            n, d = sum(last - first for _, first, last in pieces), pieces[-1][0].X.shape[1]
            what = f"the query that begins here has {n} documents or more with {d} features"
            what += f": more than max_query_bytes={self._max_query_bytes} as an array"
            raise LetorError(what, self._rows.name_of(begin.file), begin.line)

    def _notice(self, qid: str, position: LetorPosition) -> None:
        """Complain about a qid that was there before, where asked to."""
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
    the file, only with its longest query. Grades are integers >= 0 (``1.0`` and ``+1`` are 1). A feature that is not named is
    0; ids may come in any order. Values are read as `float` reads them, to the last bit. Blank lines and lines of comment are
    passed over.

    Neighbouring lines with the same qid are a query, also across the end of a file: several files read as their concatenation
    would. `repeated_qid` decides about one that comes back later.

    Without qid, the sizes of the groups come from a file beside the data, as LightGBM writes it: ``rank.train`` has
    ``rank.train.query`` or ``rank.train.group``, one size a line. The queries are then called "1", "2", ...

    Parameters
    ----------
    *sources : path, file object, "-", or sequences of these
        What to read, one after the other: paths, binary or text files (from where they stand; they are not closed), "-" for
        standard input. gzip is recognised by its content.
    with_qid, with_docid : bool
        Whether to yield the query's id, and the list of its documents' ids: X where a comment says ``docid = X``, else the
        whole comment, "" without one.
    n_features : int, optional
        Number of features d, the same for all queries. By default the largest number in the first 8 MiB of text (of the first
        file); a larger one later, or one above 65536, is an error that asks for `n_features`. Give it where features are rare,
        and take over the training data's when reading test data.
    dtype : float64 or float32
        Type of X.
    zero_based : bool
        Whether feature ids start at 0 instead of 1.
    null : {"zero", "error"}
        What the value ``NULL`` is (LETOR 3.0 and 4.0 have versions with it).
    negative : {"error", "zero", "skip"}
        What a negative grade is, as collections mark documents that nobody judged (-1) or spam (-2): an error, 0, or a document
        that is left out of its query.
    on_error : {"raise", "skip"}
        Whether a bad line is an error or is left out of its query. Lines left out are counted in the iterator's `skipped`, and
        the first ten described in `errors`.
    repeated_qid : {"warn", "new", "error", "group"}
        What a qid is that comes back after another one: a new query, with a `LetorWarning` the first time (among the first
        100,000 queries) or without; an error; or a part of the query that was there before. "error" remembers all ids since the
        start, "group" reads everything before it yields the first query.
    group : path or (q,) integers, or a sequence of these with one entry a source
        Sizes of the groups; qids, if there are any, are then ignored.
    start : LetorPosition, optional
        Where to start: the `position` of an earlier iterator over the same sources with the same options.
    max_query_bytes : int
        Largest array of a query's features. A short text can name a feature with a high number in each of many lines; a query
        that would become larger is an error before it is.
    sparse : {False, True, "auto"}
        Whether X is `online_rank.query.SparseRows`, of which only the named features take memory, up to id 2^31 - 1. "auto": if
        d > 4096. Like d, this is settled by the first 8 MiB, and the same for all queries.

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
    if isinstance(max_query_bytes, bool) or not isinstance(max_query_bytes, int) or max_query_bytes < 1:
        raise ValueError(f"max_query_bytes is {max_query_bytes!r}; it must be an integer >= 1")
    check_repeated_qid(repeated_qid)
    if repeated_qid == "group" and start != LetorPosition():
        raise ValueError('repeated_qid="group" reads everything: it cannot start in the middle')
    rows = _row_reader(
        sources, group, start, grow=False, with_docid=with_docid, n_features=n_features, dtype=dtype, zero_based=zero_based,
        null=null, negative=negative, on_error=on_error, sparse=sparse,
    )  # fmt: skip
    return LetorIterator(rows, start, with_qid, with_docid, repeated_qid, max_query_bytes)


def read_letor(
    *sources: Source | Sequence[Source],
    with_docid: bool = False,
    n_features: int | None = None,
    dtype: npt.DTypeLike = np.float64,
    zero_based: bool = False,
    null: Literal["zero", "error"] = "zero",
    negative: Literal["error", "zero", "skip"] = "error",
    on_error: Literal["raise", "skip"] = "raise",
    repeated_qid: RepeatedQid = "warn",
    group: Sizes | Sequence[Sizes | None] | None = None,
    sparse: Sparse = False,
    progress: bool | None = None,
) -> LetorBlock:
    r"""Load LETOR / svmlight text at once, as `Ranker.learn_many` takes it.

    Reads what `iter_letor` reads; the parameters are explained there. `progress` is whether to show a progress bar on stderr
    (extra `cli`); None shows one on a terminal only.

    Returns
    -------
    LetorBlock
        X (n, d), y (n,), qid (n,) and, with `with_docid`, docid. Without `n_features`, d is the largest feature of all.

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
    check_repeated_qid(repeated_qid)
    rows = _row_reader(
        sources, group, LetorPosition(), grow=True, with_docid=with_docid, n_features=n_features, dtype=dtype,
        zero_based=zero_based, null=null, negative=negative, on_error=on_error, sparse=sparse,
    )  # fmt: skip
    X, y = Gathered(rows.n_features or 0, dtype), [np.empty(0, np.int64)]
    firsts: list[int] = []
    qids: list[str] = []
    docids: list[str] = []
    n = 0
    position = LetorPosition()
    places: list[LetorPosition] = []
    with shown_progress("reading", unit="documents", shown=progress, part=lambda: rows.fraction(position)) as show:
        for block in rows:
            X.add(block.X)
            y.append(block.y)
            firsts += [n + first for first, _, _ in block.starts]
            qids += [qid for _, qid, _ in block.starts]
            places += [place for _, _, place in block.starts]
            docids += block.docids or []
            n += len(block.y)
            if block.starts:
                position = block.starts[-1][2]
            show(n)
    qid = np.repeat(_integers(qids), np.diff([*firsts, n]))
    loaded = LetorBlock(X.all(), np.concatenate(y), qid, docids if with_docid else None)
    again = None if repeated_qid == "new" else first_repeated(qids)
    if again is None:
        return loaded
    if repeated_qid == "group":
        order = grouped_rows(np.diff([*firsts, n]), qids)
        ids = [docids[i] for i in order.tolist()] if with_docid else None
        return LetorBlock(rows_at(loaded.X, order), loaded.y[order], qid[order], ids)
    name, line = rows.name_of(places[again].file), places[again].line
    if repeated_qid == "error":
        raise LetorError(f"query {qids[again]} comes back after another one", name, line)
    warnings.warn(repeated(qids[again], f"{name}, line {line}"), LetorWarning, stacklevel=2)
    return loaded


def _integers(qids: list[str]) -> np.ndarray:
    """The ids as int64 where all of them are integers written in the usual way, else as strings."""
    try:
        numbers = np.array([int(qid) for qid in qids], np.int64)
    except (ValueError, OverflowError):
        return np.array(qids)
    return numbers if all(map(str.__eq__, map(str, numbers.tolist()), qids)) else np.array(qids)


def _row_reader(
    sources: Sequence[Source | Sequence[Source]],
    group: Any,
    start: LetorPosition,
    *,
    n_features: int | None,
    dtype: npt.DTypeLike,
    zero_based: bool,
    null: str,
    negative: str,
    on_error: str,
    sparse: Sparse,
    **options: Any,
) -> RowReader:
    """Check the arguments that `iter_letor` and `read_letor` share."""
    files: list[Source] = []
    for source in sources:
        files.extend(source if isinstance(source, list | tuple) else [cast(Source, source)])
    if not files:
        raise ValueError("nothing to read: give at least one source")
    for file in files:
        if not (isinstance(file, str | os.PathLike) or hasattr(file, "read")):
            raise TypeError(f"a source is a path, '-' or a file object, not {type(file).__name__}")
    if n_features is not None and (isinstance(n_features, bool) or n_features != int(n_features) or n_features < 1):
        raise ValueError(f"n_features must be a positive integer, not {n_features!r}")
    if np.dtype(dtype) not in (np.dtype(np.float64), np.dtype(np.float32)):
        raise ValueError(f"dtype must be float64 or float32, not {np.dtype(dtype)}")
    if null not in ("zero", "error"):
        raise ValueError(f'null must be "zero" or "error", not {null!r}')
    if negative not in ("error", "zero", "skip"):
        raise ValueError(f'negative must be "error", "zero" or "skip", not {negative!r}')
    check_sparse(sparse)
    if sparse and n_features is not None and n_features > MOST_COLUMNS:
        raise ValueError(f"n_features is {n_features}; sparse rows have at most {MOST_COLUMNS}")
    if on_error not in ("raise", "skip"):
        raise ValueError(f'on_error must be "raise" or "skip", not {on_error!r}')
    groups: list[Any] = [None] * len(files) if group is None else [group] if len(files) == 1 else list(group)
    if len(groups) != len(files):
        raise ValueError(f"group has {len(groups)} entries for {len(files)} sources")
    return RowReader(
        files,
        [None if sizes is None else _group_sizes(sizes) for sizes in groups],
        _find_group,
        dtype=np.dtype(dtype),
        n_features=n_features,
        zero_based=bool(zero_based),
        null_is_zero=null == "zero",
        negative=negative,
        skip_errors=on_error == "skip",
        start=start,
        sparse=sparse,
        **options,
    )


def _find_group(source: Source) -> np.ndarray | None:
    """Sizes of the groups from the file that LightGBM would look for beside `source`."""
    if is_stdin(source) or not isinstance(source, str | os.PathLike):
        return None
    path = os.fspath(source)
    for stem in (path, path.removesuffix(".gz")):
        for suffix in (".query", ".group"):
            if os.path.exists(stem + suffix):
                return _group_sizes(stem + suffix)
    return None


def _group_sizes(sizes: Sizes) -> np.ndarray:
    """Group sizes from a file or a sequence."""
    if not isinstance(sizes, str | os.PathLike):
        array = np.asarray(sizes)
        if array.ndim != 1 or not (np.issubdtype(array.dtype, np.integer) or array.size == 0) or (array < 0).any():
            raise ValueError("group must be a path or a one-dimensional sequence of integers >= 0")
        return array.astype(np.int64)
    name = os.fspath(sizes)
    numbers = []
    with open(name, encoding="utf-8-sig", errors="backslashreplace") as file:
        for line, text in enumerate(file, start=1):
            if (token := text.strip()) and not (token.isascii() and token.isdigit() and len(token) < 19):
                raise LetorError(f"{token[:40]!r} is not the size of a group", name, line)
            if token:
                numbers.append(int(token))
    return np.array(numbers, np.int64)
