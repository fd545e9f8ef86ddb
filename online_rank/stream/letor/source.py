"""Bytes from anywhere as whole lines: paths, file objects, stdin; plain or gzip; from any offset. Sizes of groups."""

import gzip
import os
import stat
import sys
from collections.abc import Callable, Generator, Iterator, Sequence
from concurrent.futures import ThreadPoolExecutor
from contextlib import ExitStack, closing
from dataclasses import dataclass
from typing import IO, Any, TypeAlias

import numpy as np
import numpy.typing as npt

from online_rank.stream.letor.lines import LetorError
from online_rank.stream.text_lines import GZIP, is_gzip, lines_of


@dataclass(frozen=True)
class FileRange:
    """A part of a file that is not compressed.

    Attributes
    ----------
    path : str
        The file.
    begin, end : int
        Its bytes `begin:end`, which are whole lines; to the end of the file if `end` is None.
    """

    path: str
    begin: int = 0
    end: int | None = None


Source: TypeAlias = str | os.PathLike[str] | FileRange | IO[bytes] | IO[str]
Sizes: TypeAlias = str | os.PathLike[str] | Sequence[int] | npt.NDArray[np.integer]

#: The first bytes of other compressed formats, and the commands that unpack them.
_PACKED = {
    b"\x28\xb5\x2f\xfd": "zstd -dc",
    b"BZh": "bzip2 -dc",
    b"\xfd7zXZ\x00": "xz -dc",
    b"PK\x03\x04": "unzip -p",
}
_HEAD = max(map(len, _PACKED))
_LONGEST_LINE = 1 << 28


def source_name(source: Source) -> str:
    """The name of a source in messages."""
    if is_stdin(source):
        return "<stdin>"
    if isinstance(source, FileRange):
        return source.path
    if isinstance(source, str | os.PathLike):
        return os.fspath(source)
    return str(getattr(source, "name", f"<{type(source).__name__}>"))


def is_stdin(source: Source) -> bool:
    """Whether a source means standard input."""
    return isinstance(source, str) and source == "-"


def plain_size(source: Source) -> int | None:
    """The size of an uncompressed file on disk; None for anything else."""
    if isinstance(source, FileRange) and source.end is not None:
        return source.end - source.begin
    if is_stdin(source) or not (isinstance(source, str | os.PathLike) and os.path.isfile(source)):
        return None
    return None if is_gzip(source) else os.path.getsize(source)


class _Bytes:
    """A stream, text or binary, as bytes; `head` holds the first ones, which are still to be read."""

    def __init__(self, stream: Any):
        # A buffered reader's read1 returns what a pipe has now instead of waiting for all bytes requested.
        self._read = getattr(stream, "read1", stream.read)
        self._left = self.head = b""
        while len(self.head) < _HEAD and (more := self.read(1 << 16)):
            self.head += more
        self._left = self.head + self._left

    def read(self, size: int) -> bytes:
        data = self._left or self._read(size)
        if data is None:
            raise BlockingIOError("the source is in non-blocking mode and has no data to read")
        data = data.encode("utf-8", "surrogateescape") if isinstance(data, str) else bytes(data)
        self._left = data[size:]
        return data[:size]


def _pieces(source: Source, offset: int, size: int) -> Generator[bytes, None, None]:
    """The bytes of a source from `offset` on, uncompressed, in pieces of at most `size` bytes, as they become available.

    gzip is recognised by its first two bytes. Only files opened here are closed. gzip files on disk are decompressed in a
    thread, one piece ahead; pipes are not, because a thread that waits for input cannot be ended.
    """
    begin, left = 0, sys.maxsize
    with ExitStack() as opened:
        stream: Any = source
        if is_stdin(source):
            stream = getattr(sys.stdin, "buffer", sys.stdin)
        elif isinstance(source, str | os.PathLike | FileRange):
            path = source.path if isinstance(source, FileRange) else source
            stream = opened.enter_context(open(path, "rb", buffering=0))
        if isinstance(source, FileRange):
            begin = source.begin
            left = left if source.end is None else source.end - begin - offset
            stream.seek(begin)
        is_path = isinstance(source, str | os.PathLike | FileRange) and not is_stdin(source)
        on_disk = is_path and stat.S_ISREG(os.fstat(stream.fileno()).st_mode)
        given = _Bytes(stream)
        for magic, command in _PACKED.items():
            if given.head.startswith(magic):
                name = source_name(source)
                raise ValueError(f"{name}: compressed, but not by gzip; unpack it first: {command} {name} | ... -")
        zipped = given.head.startswith(GZIP)
        read: Callable[[int], bytes] = given.read
        if zipped:
            file = gzip.GzipFile(fileobj=given, mode="rb")  # type: ignore[call-overload]
            read = file.read if on_disk else file.read1
        elif on_disk:
            stream.seek(begin + offset)
            read, offset = stream.read, 0
        while offset:
            if not (dropped := read(min(size, offset))):
                raise EOFError("the source ends before the position to start from")
            offset -= len(dropped)
        if zipped and on_disk:
            yield from _read_ahead(read, size)
        while left > 0 and (piece := read(min(size, left))):
            left -= len(piece)
            yield piece


def _read_ahead(read: Callable[[int], bytes], size: int) -> Iterator[bytes]:
    """Pieces read in a thread, so that decompression overlaps with other work."""
    with ThreadPoolExecutor(1, thread_name_prefix="letor") as pool:
        coming = pool.submit(read, size)
        while piece := coming.result():
            coming = pool.submit(read, size)
            yield piece


def _with_newlines(pieces: Iterator[bytes]) -> Iterator[bytes]:
    """The same number of bytes with CR LF as space and LF, and CR alone as LF; then a further LF."""
    last = b""
    for piece in pieces:
        piece = last + piece
        last = b"\r" if piece.endswith(b"\r") else b""  # perhaps the first half of CR LF
        piece = piece.removesuffix(b"\r")
        yield piece.replace(b"\r\n", b" \n").replace(b"\r", b"\n") if b"\r" in piece else piece
    yield b"\n"


class LineTooLongError(ValueError):
    """A line without an end."""


def whole_lines(source: Source, offset: int, first_size: int, size: int) -> Generator[bytearray, None, None]:
    """Read `source` from `offset` on, in pieces of about `size` bytes, and yield whole lines, each of which ends in LF.

    The first text has at least `first_size` bytes if there are that many; later ones are whatever is available, so that a slow
    pipe does not block.
    """
    held = bytearray()
    with closing(_pieces(source, offset, size)) as pieces:
        for piece in _with_newlines(pieces):
            held += piece
            if len(held) < first_size or b"\n" not in piece:
                if len(held) >= max(first_size, _LONGEST_LINE):
                    raise LineTooLongError(f"longer than {_LONGEST_LINE} bytes")
                continue
            end = held.rfind(b"\n") + 1
            text, held, first_size = held, held[end:], 0
            del text[end:]
            yield text
    if held:
        yield held


def found_group_ends(source: Source) -> np.ndarray | None:
    """Ends of the groups from the file that LightGBM would look for beside `source`."""
    if is_stdin(source) or not isinstance(source, str | os.PathLike):
        return None
    path = os.fspath(source)
    for stem in (path, path.removesuffix(".gz")):
        for suffix in (".query", ".group"):
            if os.path.exists(stem + suffix):
                return group_ends(stem + suffix)
    return None


def group_ends(sizes: Sizes) -> np.ndarray:
    """The number of documents up to the end of each group; `sizes` are a file or a sequence."""
    if not isinstance(sizes, str | os.PathLike):
        array = np.asarray(sizes)
        if array.ndim != 1 or not (np.issubdtype(array.dtype, np.integer) or array.size == 0) or (array < 0).any():
            raise ValueError("group must be a path or a one-dimensional sequence of integers >= 0")
        return np.cumsum(array, dtype=np.int64)
    numbers = []
    for line, text in lines_of(sizes):
        token = text.strip()
        if not (token.isdigit() and len(token) < 19):
            raise LetorError(
                f"{token[:40].decode('utf-8', 'backslashreplace')!r} is not the size of a group", os.fspath(sizes), line
            )
        numbers.append(int(token))
    return np.cumsum(numbers, dtype=np.int64)
