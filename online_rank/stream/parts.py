"""Divides files into parts that other processes and machines can read independently."""

import itertools
import os
import re
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from itertools import pairwise
from typing import IO, Any

from online_rank.arguments import integer
from online_rank.stream.reader import read
from online_rank.stream.source import FileRange, Text, format_of, is_stdin
from online_rank.stream.values import arrow

_QID = re.compile(rb"\s*[^#\s][^#]*?\sqid:([^\s#]+)")
_STEP = 1 << 16


@dataclass(frozen=True)
class Part:
    """A part of files: whole queries. It can be pickled, and read wherever the files are.

    Attributes
    ----------
    sources : tuple of FileRange or str
        Its ranges of files, or whole files.
    options : tuple of (str, object)
        Further arguments of `read`.
    """

    sources: tuple[FileRange | str, ...]
    options: tuple[tuple[str, Any], ...] = ()

    def __iter__(self) -> Iterator[tuple[Any, ...]]:
        """Yields (x, y), as `read` does."""
        yield from read(list(self.sources), **{"repeated_qid": "new", **dict(self.options)})


def parts(files: Sequence[str | os.PathLike[str]], n: int, **options: Any) -> list[Part]:
    r"""Divide files into parts of whole queries, in the order of the stream.

    LETOR text is cut where a query ends, and parquet so near the boundary of a row group. A file that is compressed, or has the
    sizes of its groups in another file, stays whole, as does a file of any other format. With no more parts than files, no file
    is cut: each part is a run of files, about equally many. The parts depend only on the files' contents and on `n`.

    Parameters
    ----------
    files
        Paths. A query must not continue in the next file.
    n
        Number of parts. There are fewer if the files cannot be cut into as many.
    **options
        Further arguments of `read`. The first file gives the features, or their number.

    Returns
    -------
    The parts; together they hold every query once.

    Raises
    ------
    TypeError, ValueError
        There is no file, `n` is not an integer >= 1, or the first file has no query.
    OSError
        A file cannot be read.

    Examples
    --------
    >>> import os, tempfile
    >>> path = os.path.join(tempfile.mkdtemp(), "log.txt")
    >>> with open(path, "w") as file:
    ...     _ = file.write("2 qid:a 1:0.5\n0 qid:a 1:0.1\n1 qid:b 1:7\n0 qid:b 1:2\n")
    >>> [[y.tolist() for X, y in part] for part in parts([path], 2)]
    [[[2, 0]], [[1, 0]]]
    """
    integer("n", n, 1)
    if isinstance(files, str | os.PathLike):
        raise TypeError("files is one path; give a list of paths")
    paths = [os.fspath(file) for file in files]
    if not paths:
        raise ValueError("nothing to read: give at least one file")
    if any(is_stdin(path) for path in paths):
        raise ValueError("standard input (-) cannot be divided: give files")
    with read(paths[0], **options) as queries:
        if queries.is_letor:
            width = options.get("n_features") or len(queries.plan.features)
            if not width:
                raise ValueError(f"{paths[0]}: no query from which to infer the number of features; give n_features")
            fixed: dict[str, Any] = {"n_features": width}
        else:
            fixed = {"features": queries.plan.features}
    formats = [_cut_format(path) for path in paths]
    sizes = [os.path.getsize(path) if fmt else 0 for path, fmt in zip(paths, formats, strict=True)]
    pieces: list[FileRange | str] = []
    for path, fmt, k in zip(paths, formats, _numbers(n, sizes), strict=True):
        bounds = [] if k == 1 else _of_letor(path, k) if fmt == "letor" else _of_parquet(path, k, queries.plan.of("query"))
        # A file that cannot be cut is read as a whole, since its group sizes may be in a separate file.
        pieces += [FileRange(path, a, b) for a, b in pairwise(bounds)] if len(bounds) > 2 else [path]
    n = min(n, len(pieces))
    runs = [pieces[k * len(pieces) // n : (k + 1) * len(pieces) // n] for k in range(n)]
    return [Part(tuple(run), tuple({**options, **fixed}.items())) for run in runs]


def _cut_format(path: str) -> str:
    """The format of a file that can be cut: "parquet" or "letor"; empty for any other."""
    text = Text(path)
    text.close()
    fmt = "" if text.is_zipped else format_of(path, text.head)
    one_line = fmt == "letor" and b"\r" in text.head and b"\n" not in text.head  # lines end with CR alone
    return "" if one_line or (fmt == "parquet" and not path.endswith(".parquet")) or fmt not in ("parquet", "letor") else fmt


def _numbers(n: int, sizes: Sequence[int]) -> list[int]:
    """The number of pieces of each file: one, plus the remaining ones in proportion to size; size 0 stays whole."""
    pieces = [1] * len(sizes)
    for _ in range(n - len(sizes) if any(sizes) else 0):
        largest = max(range(len(sizes)), key=lambda i: sizes[i] / pieces[i])
        pieces[largest] += 1
    return pieces


def _of_parquet(path: str, n: int, query: str | None) -> list[int]:
    """The rows at which a parquet file is cut into `n` parts of whole queries, or fewer, from 0: near row groups."""
    with arrow("pyarrow.parquet").ParquetFile(path) as file:
        sizes = (file.metadata.row_group(i).num_rows for i in range(file.num_row_groups))
        groups = list(itertools.accumulate(sizes, initial=0))
        wanted = {min(groups, key=lambda row: abs(row - k * groups[-1] / n)) for k in range(1, n)} - {0, groups[-1]}
        return sorted({0, groups[-1], *(_end_of_query(file, groups, row, str(query)) for row in wanted)})


def _end_of_query(file: Any, groups: list[int], row: int, query: str) -> int:
    """The first row, from the beginning `row` of a row group, whose query differs from the row before it."""
    group = groups.index(row)
    last = file.read_row_group(group - 1, columns=[query])[query][-1].as_py()
    for k in range(group, len(groups) - 1):
        for offset, qid in enumerate(file.read_row_group(k, columns=[query])[query].to_pylist()):
            if qid != last:
                return groups[k] + offset
    return groups[-1]


def _of_letor(path: str, n: int) -> list[int]:
    """The bytes at which a file is cut into `n` parts of whole queries, or fewer."""
    size = os.path.getsize(path)
    with open(path, "rb") as file:
        return sorted({0, size, *(_next_query(file, k * size // n) for k in range(1, n))})


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
