"""Divides LETOR text into parts that other processes and machines can read independently."""

import os
import re
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from itertools import pairwise
from typing import IO, Any

from online_rank.arguments import integer
from online_rank.stream.letor.lines import LetorError
from online_rank.stream.letor.queries import iter_letor
from online_rank.stream.letor.source import FileRange, is_stdin
from online_rank.stream.text_lines import is_gzip

_QID = re.compile(rb"\s*[^#\s][^#]*?\sqid:([^\s#]+)")
_BLOCK = 1 << 24
_STEP = 1 << 16


@dataclass(frozen=True)
class LetorPart:
    """A part of LETOR files: whole queries. It can be pickled, and read wherever the files are.

    Attributes
    ----------
    sources : tuple of FileRange or str
        Its ranges of bytes of files, or whole files.
    n_features : int
        Number of features of every query.
    options : tuple of (str, object)
        Further options of `iter_letor`.
    """

    sources: tuple[FileRange | str, ...]
    n_features: int
    options: tuple[tuple[str, Any], ...] = ()

    def __iter__(self) -> Iterator[tuple[Any, ...]]:
        """Yields (X, y), as `iter_letor` does. Messages count lines from the beginning of the file."""
        try:
            yield from iter_letor(list(self.sources), n_features=self.n_features, repeated_qid="new", **dict(self.options))
        except LetorError as error:
            begins = {s.path: s.begin for s in self.sources if isinstance(s, FileRange) and s.begin}
            if error.line is None or error.file not in begins:
                raise
            line = error.line + _lines_before(error.file, begins[error.file])
            raise LetorError(error.what, error.file, line, error.column) from None


def plan(
    files: Sequence[str | os.PathLike[str]], parts: int, *, n_features: int | None = None, **options: Any
) -> list[LetorPart]:
    r"""Divide LETOR files into parts of whole queries, in the order of the stream.

    Plain text is cut where a query ends; a file that is compressed, or has its queries' sizes in a separate file, stays whole.
    With no more parts than files, no file is cut: each part is a run of files, about equally many. The parts depend only on the
    files' contents and on `parts`; if no file is cut, compression makes no difference.

    Parameters
    ----------
    files
        Paths. A query must not continue in the next file.
    parts
        Number of parts. There are fewer if the files cannot be cut into so many.
    n_features
        Number of features; None for as many as `iter_letor` finds in the beginning of the first file.
    **options
        Further options of `iter_letor`, such as `negative`, `missing` and `zero_based`.

    Returns
    -------
    The parts; together they hold every query once.

    Raises
    ------
    TypeError, ValueError
        There is no file, `parts` is not an integer >= 1, or `n_features` is not given and the first file has no query.
    OSError
        A file cannot be read.

    Examples
    --------
    >>> import os, tempfile
    >>> path = os.path.join(tempfile.mkdtemp(), "log.txt")
    >>> with open(path, "w") as file:
    ...     _ = file.write("2 qid:a 1:0.5\n0 qid:a 1:0.1\n1 qid:b 1:7\n0 qid:b 1:2\n")
    >>> [[y.tolist() for X, y in part] for part in plan([path], 2)]
    [[[2, 0]], [[1, 0]]]
    """
    integer("parts", parts, 1)
    if isinstance(files, str | os.PathLike):
        raise TypeError("files is one path; give a list of paths")
    paths = [os.fspath(file) for file in files]
    if not paths:
        raise ValueError("nothing to read: give at least one file")
    if any(is_stdin(path) for path in paths):
        raise ValueError("standard input (-) cannot be divided: give files")
    numbers = shared_pieces(parts, [0 if is_gzip(path) else os.path.getsize(path) for path in paths])
    pieces = [piece for path, n in zip(paths, numbers, strict=True) for piece in _pieces(path, n)]
    with iter_letor(paths[0], n_features=n_features, repeated_qid="new", **options) as queries:
        if n_features is None and (next(queries, None) is None or queries.n_features is None):
            raise ValueError(f"{paths[0]}: no query from which to infer the number of features; give n_features")
        width = queries.n_features or 0
    return [LetorPart(tuple(run), width, tuple(options.items())) for run in in_runs(pieces, parts)]


def shared_pieces(parts: int, sizes: Sequence[int]) -> list[int]:
    """The number of pieces of each file: one, plus the remaining ones in proportion to size; size 0 stays whole."""
    pieces = [1] * len(sizes)
    for _ in range(parts - len(sizes)):
        largest = max(range(len(sizes)), key=lambda i: sizes[i] / pieces[i])
        pieces[largest] += 1
    return pieces


def in_runs(pieces: Sequence[Any], parts: int) -> list[Sequence[Any]]:
    """Divide pieces into `n` runs of about the same length, or fewer."""
    n = min(parts, len(pieces))
    return [pieces[k * len(pieces) // n : (k + 1) * len(pieces) // n] for k in range(n)]


def _pieces(path: str, n: int) -> list[FileRange | str]:
    """A file in `n` ranges, or fewer."""
    size = os.path.getsize(path)
    if n == 1 or is_gzip(path):
        return [path]
    with open(path, "rb") as file:
        if b"\r" in (head := file.read(_STEP)) and b"\n" not in head:
            return [path]  # its lines end with CR alone
        bounds = sorted({0, size, *(_next_query(file, k * size // n) for k in range(1, n))})
    # A file that cannot be cut is read as a whole, since its group sizes may be in a separate file.
    return [FileRange(path, a, b) for a, b in pairwise(bounds)] if len(bounds) > 2 else [path]


def _next_query(file: IO[bytes], offset: int) -> int:
    """The end of the query that contains the line at `offset`."""
    file.seek(_line_start(file, offset))
    qid = None
    while line := file.readline():
        if (match := _QID.match(line)) is None:
            continue
        if qid is None:
            qid = match[1]
        elif match[1] != qid:
            return file.tell() - len(line)
    return file.tell()


def _line_start(file: IO[bytes], offset: int) -> int:
    """The beginning of the line that contains the byte at `offset`."""
    while offset:
        before = max(0, offset - _STEP)
        file.seek(before)
        if (newline := file.read(offset - before).rfind(b"\n")) >= 0:
            return before + newline + 1
        offset = before
    return 0


def _lines_before(path: str, offset: int) -> int:
    """The number of lines of a file that end before an offset."""
    lines = 0
    with open(path, "rb") as file:
        while offset and (block := file.read(min(offset, _BLOCK))):
            lines += block.count(b"\n")
            offset -= len(block)
    return lines
