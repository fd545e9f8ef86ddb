"""Lines of a text file that somebody else wrote: compressed or not, with any line end, in UTF-8."""

import gzip
import os
import zlib
from collections.abc import Iterator
from pathlib import Path
from typing import BinaryIO

#: How compressed files begin.
GZIP = b"\x1f\x8b"
_BOM = b"\xef\xbb\xbf"


def is_gzip(path: str | os.PathLike[str]) -> bool:
    """Whether gzip has compressed a file, by its first two bytes, not by its name."""
    with Path(path).open("rb") as file:
        return file.read(len(GZIP)) == GZIP


def open_bytes(path: str | os.PathLike[str]) -> BinaryIO:
    """A file opened for reading, and decompressed if gzip has compressed it."""
    return gzip.open(path, "rb") if is_gzip(path) else Path(path).open("rb")  # type: ignore[return-value]


def lines_of(path: str | os.PathLike[str]) -> Iterator[tuple[int, bytes]]:
    r"""The lines of a text file that hold something, with their numbers from 1. A line ends with LF, CR LF or CR.

    Raises
    ------
    ValueError
        The compressed data are damaged; the message names the file and the last line that could be read.

    Examples
    --------
    >>> import pathlib, tempfile
    >>> path = pathlib.Path(tempfile.mkdtemp()) / "old"
    >>> _ = path.write_bytes(b"one\rtwo\r\n\nfour")
    >>> list(lines_of(path))
    [(1, b'one'), (2, b'two'), (4, b'four')]
    """
    number = 0
    with open_bytes(path) as file:
        try:
            for text in file:
                for line in text.removesuffix(b"\n").removesuffix(b"\r").split(b"\r"):
                    number += 1
                    if number == 1:
                        line = line.removeprefix(_BOM)
                    if line.strip():
                        yield number, line
        except (EOFError, gzip.BadGzipFile, zlib.error) as error:
            raise ValueError(f"{path}, after line {number}: the compressed data are damaged: {error}") from None


def text_of(path: str | os.PathLike[str], number: int, part: bytes) -> str:
    """A part of a line as text. Raises ValueError that names the file and the line unless it is UTF-8."""
    try:
        return part.decode()
    except UnicodeDecodeError as error:
        raise ValueError(
            f"{path}, line {number}: {part[:40]!r} is not UTF-8 ({error.reason}); convert the file, for example with "
            "iconv -f latin1 -t utf-8"
        ) from None
