"""Bytes from anywhere: paths, file objects, stdin; plain or gzip; from any offset."""

import gzip
import io
import os
import stat
import sys
from collections.abc import Iterator
from concurrent.futures import ThreadPoolExecutor
from contextlib import contextmanager
from dataclasses import dataclass
from typing import IO, Any, TypeAlias


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

_GZIP_MAGIC = b"\x1f\x8b"
#: The first bytes of other compressed formats, and the commands that unpack them.
_PACKED = {
    b"\x28\xb5\x2f\xfd": "zstd -dc",
    b"BZh": "bzip2 -dc",
    b"\xfd7zXZ\x00": "xz -dc",
    b"PK\x03\x04": "unzip -p",
}
_HEAD = max(map(len, _PACKED))
_INFLATE_SIZE = 1 << 20
_LONGEST_LINE = 1 << 28
_FIRST_SIZE = 1 << 16


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


def is_gzip(path: str | os.PathLike[str]) -> bool:
    """Whether a file is compressed, by its first two bytes."""
    with open(path, "rb") as file:
        return file.read(len(_GZIP_MAGIC)) == _GZIP_MAGIC


def plain_size(source: Source) -> int | None:
    """The size of an uncompressed file on disk; None for anything else."""
    if isinstance(source, FileRange) and source.end is not None:
        return source.end - source.begin
    if is_stdin(source) or not (isinstance(source, str | os.PathLike) and os.path.isfile(source)):
        return None
    return None if is_gzip(source) else os.path.getsize(source)


class _Raw(io.RawIOBase):
    """Any object with `read`, text or binary, as raw bytes; `head` holds the first bytes, already read."""

    def __init__(self, stream: Any):
        # A buffered reader's read1 returns what a pipe has now instead of waiting for all bytes requested.
        self._read = getattr(stream, "read1", stream.read)
        self._left = b""
        head = b""
        while len(head) < _HEAD and (more := self._next(1 << 16)):
            head += more
        self._left = self.head = head

    def readable(self) -> bool:
        return True

    def _next(self, size: int) -> bytes:
        data = self._read(size)
        if data is None:
            raise BlockingIOError("the source is in non-blocking mode and has no data to read")
        return data.encode("utf-8", "surrogateescape") if isinstance(data, str) else bytes(data)

    def readinto(self, view: Any) -> int:
        data = self._left or self._next(len(view))
        self._left = data[len(view) :]
        data = data[: len(view)]
        view[: len(data)] = data
        return len(data)


class _Until(io.RawIOBase):
    """The next `size` bytes of a stream."""

    def __init__(self, stream: Any, size: int):
        self._stream, self._left = stream, size

    def readable(self) -> bool:
        return True

    def readinto(self, view: Any) -> int:
        got = self._stream.readinto(memoryview(view)[: self._left]) if self._left else 0
        self._left -= got
        return got


class _ReadAhead(io.RawIOBase):
    """A stream read in a separate thread, one block ahead, so that decompression overlaps with other work."""

    def __init__(self, stream: io.BufferedIOBase):
        self._pool = ThreadPoolExecutor(1, thread_name_prefix="letor")
        self._stream = stream
        self._left = memoryview(b"")
        self._next = self._pool.submit(stream.read, _INFLATE_SIZE)

    def readable(self) -> bool:
        return True

    def readinto(self, view: Any) -> int:
        if not self._left:
            self._left = memoryview(self._next.result())
            if not self._left:
                return 0
            self._next = self._pool.submit(self._stream.read, _INFLATE_SIZE)
        size = min(len(view), len(self._left))
        view[:size] = self._left[:size]
        self._left = self._left[size:]
        return size

    def close(self) -> None:
        self._pool.shutdown(cancel_futures=True)
        super().close()


@contextmanager
def open_source(source: Source, offset: int = 0) -> Iterator[Any]:
    """Open `source` for `readinto`, at `offset` bytes into its uncompressed content.

    gzip is recognised by its first two bytes. Only files opened here are closed. gzip files on disk are decompressed in a
    thread; pipes are not, because a thread that waits for input cannot be ended.
    """
    own: list[Any] = []
    try:
        stream: Any = source
        if isinstance(source, FileRange):
            stream = open(source.path, "rb", buffering=0)  # noqa: SIM115
            own.append(stream)
            stream.seek(source.begin + offset)
            yield stream if source.end is None else _Until(stream, max(0, source.end - source.begin - offset))
            return
        if is_stdin(source):
            stream = getattr(sys.stdin, "buffer", sys.stdin)
        elif isinstance(source, str | os.PathLike):
            stream = open(source, "rb", buffering=0)  # noqa: SIM115
            own.append(stream)
        elif not hasattr(source, "read"):
            raise TypeError(f"a source is a path, '-' or a file object, not {type(source).__name__}")
        on_disk = bool(own) and stat.S_ISREG(os.fstat(stream.fileno()).st_mode)
        if on_disk:
            head = stream.read(_HEAD)
        else:
            stream = _Raw(stream)
            head = stream.head
        _require_text(head, source_name(source))
        zipped = head.startswith(_GZIP_MAGIC)
        if on_disk:
            stream.seek(0 if zipped else offset)
        if zipped:
            stream = gzip.GzipFile(fileobj=io.BufferedReader(stream, 1 << 17), mode="rb")
        if offset and (zipped or not on_disk):
            _skip(stream, offset)
        if zipped and on_disk:
            stream = _ReadAhead(stream)
            own.append(stream)
        yield stream
    finally:
        for stream in reversed(own):
            stream.close()


def _require_text(head: bytes, name: str) -> None:
    """Raise ValueError for compressed formats other than gzip, by their first bytes."""
    for magic, command in _PACKED.items():
        if head.startswith(magic):
            raise ValueError(f"{name}: compressed, but not by gzip; unpack it first: {command} {name} | ... -")


def _skip(stream: Any, size: int) -> None:
    """Read and drop `size` bytes."""
    scratch = memoryview(bytearray(min(size, _INFLATE_SIZE)))
    while size:
        got = stream.readinto(scratch[: min(size, len(scratch))])
        if not got:
            raise EOFError("the source ends before the position to start from")
        size -= got


class LineTooLongError(ValueError):
    """A line without an end."""


def whole_lines(stream: Any, first_size: int, size: int) -> Iterator[tuple[bytearray, int]]:
    """Read `stream` in pieces of about `size` bytes and yield ``(buffer, end)``: ``buffer[:end]`` is whole lines.

    The buffer is reused, and grows with the first piece, which has at least `first_size` bytes if there are that many; later
    pieces are whatever is available, so that a slow pipe does not block. A last line without a newline gets one.
    """
    capacity = max(first_size, size)
    buffer = bytearray(min(capacity, _FIRST_SIZE) + 1)  # one more for the newline
    held = 0
    wanted = first_size
    ended = False
    while not ended:
        searched = held
        while not ended and held < capacity and held - searched < max(1, wanted):
            if held == len(buffer) - 1:
                buffer += bytes(min(held, capacity - held))
            got = stream.readinto(memoryview(buffer)[held : len(buffer) - 1])
            ended = not got
            held += got
        if ended and held and buffer[held - 1] != ord("\n"):
            buffer[held] = ord("\n")
            held += 1
        end = buffer.rfind(b"\n", searched, held) + 1
        if end:
            wanted = 0
            yield buffer, end
            capacity = max(size, 2 * (held - end))
        elif held == capacity:
            if held >= _LONGEST_LINE:
                raise LineTooLongError(f"longer than {_LONGEST_LINE} bytes")
            capacity = 2 * capacity
        tail = buffer[end:held]
        if len(buffer) != capacity + 1:
            buffer = bytearray(capacity + 1)
        buffer[: len(tail)] = tail
        held = len(tail)
