"""Files of users: opened once, decompressed, and cut into whole lines."""

import gzip
import os
import re
import sys
import zlib
from collections.abc import Callable, Iterator
from concurrent.futures import ThreadPoolExecutor
from contextlib import ExitStack
from dataclasses import dataclass
from functools import partial
from typing import IO, Any, TypeAlias

import numpy as np

#: How compressed files begin.
GZIP = b"\x1f\x8b"
_BOM = b"\xef\xbb\xbf"
_LONGEST_LINE = 1 << 28
_CHUNK = 1 << 20

_UTF16 = "text in UTF-16: write it as UTF-8 (iconv -f UTF-16 -t UTF-8)"
#: The first bytes of files that are not read, and what to do.
_OTHERS = {
    b"\xff\xfe": _UTF16,
    b"\xfe\xff": _UTF16,
    b"\x28\xb5\x2f\xfd": "compressed by zstd: unpack it first (zstd -d)",
    b"BZh": "compressed by bzip2: unpack it first (bunzip2)",
    b"\xfd7zXZ\x00": "compressed by xz: unpack it first (unxz)",
    b"\x04\x22\x4d\x18": "compressed by lz4: unpack it first (lz4 -d)",
    b"PK\x03\x04": "a zip archive or a spreadsheet: unpack it, or save it as csv",
    b"\xd0\xcf\x11\xe0": "a spreadsheet: save it as csv",
    b"ORC": "ORC: write it as parquet",
    b"Obj\x01": "Avro: write it as parquet",
    b"SQLite": "a database: write the table as parquet",
}
_HEAD = max(map(len, _OTHERS))


class ReadError(ValueError):
    """A file or a table that cannot be read as it is meant; the message names the file and the line or the row."""

    __module__ = "online_rank.stream"


class ReadWarning(UserWarning):
    """A file or a table is probably not in the intended order or form."""

    __module__ = "online_rank.stream"


@dataclass(frozen=True)
class FileRange:
    """A part of a file: whole lines of text, from one byte to another, or rows of parquet.

    Attributes
    ----------
    path : str
        The file.
    begin, end : int
        The first byte or row, and the one after the last.
    """

    path: str
    begin: int
    end: int


Source: TypeAlias = str | os.PathLike[str] | FileRange | IO[bytes] | IO[str]


def is_stdin(source: Any) -> bool:
    """Whether a source means standard input."""
    return isinstance(source, str) and source == "-"


def path_of(source: Any) -> str | None:
    """The path of a file; None for any other source."""
    if isinstance(source, FileRange):
        return source.path
    return os.fspath(source) if isinstance(source, str | os.PathLike) and not is_stdin(source) else None


def name_of(source: Any) -> str:
    """The name of a source in messages."""
    if (path := path_of(source)) is not None:
        return path
    return "<stdin>" if is_stdin(source) else str(getattr(source, "name", type(source).__name__))


class Text:
    r"""A source of text, opened once; a path that gzip has compressed, by its first bytes, is decompressed.

    Attributes
    ----------
    name : str
        Its name in messages.
    head : bytes
        The first bytes, decompressed, as they stand there.
    file
        The file, if it was opened here.
    is_zipped : bool
        Whether gzip has compressed it.

    Examples
    --------
    >>> import io
    >>> list(Text(io.BytesIO(b"one\rtwo\r\n\nfour")).lines())
    [(1, b'one'), (2, b'two'), (4, b'four')]
    """

    def __init__(self, source: Source) -> None:
        self.name, self.source = name_of(source), source
        self._opened, self._read_bytes = ExitStack(), 0
        self.file: Any = None
        self._size: int | None = None
        stream: Any = source
        self._begin, self._end = (source.begin, source.end) if isinstance(source, FileRange) else (0, sys.maxsize)
        if is_stdin(source):
            stream = getattr(sys.stdin, "buffer", sys.stdin)
        elif (path := path_of(source)) is not None:
            self.file = stream = self._opened.enter_context(open(path, "rb", buffering=0))  # noqa: SIM115
            stream.seek(self._begin)
            self._size = min(os.fstat(stream.fileno()).st_size, self._end) - self._begin or None
        # A buffered reader's read1 returns what a pipe has now instead of waiting for all bytes requested.
        self._stream: Callable[[int], Any] = getattr(stream, "read1", stream.read)
        self._held = b""
        while len(self._held) < _HEAD and (more := self._checked(lambda: self._raw(1 << 16))):
            self._held = self._held + more
        for magic, what in _OTHERS.items():
            if self._held.startswith(magic):
                self._refuse(what)
        self.is_zipped = self._held.startswith(GZIP)
        if b"\0" in self._held[:4] and not self.is_zipped:
            self._refuse("NUL bytes, as in " + _UTF16)
        packed: Any = self
        self._unzipped = gzip.GzipFile(fileobj=packed, mode="rb") if self.is_zipped else None
        self.head = b"" if self._end - self._begin < 1 else self._checked(self._peek)

    @property
    def share(self) -> float | None:
        """The share of the bytes of a file that was read; None for other sources."""
        return None if self._size is None else min(1.0, self._read_bytes / self._size)

    def close(self) -> None:
        """Close the file, if it was opened here."""
        self._opened.close()

    def read(self, size: int = 1 << 16) -> bytes:
        """Bytes as they stand in the source, at least one unless it ends."""
        data, self._held = self._held or self._raw(size), b""
        self._held = data[size:]
        return data[:size]

    def _raw(self, size: int) -> bytes:
        data = self._stream(min(size, self._end - self._begin - self._read_bytes))
        if data is None:
            raise BlockingIOError("the source is in non-blocking mode and has no data to read")
        data = data.encode("utf-8", "surrogateescape") if isinstance(data, str) else bytes(data)
        self._read_bytes += len(data)
        return data

    def _refuse(self, what: str) -> None:
        self.close()
        raise ReadError(f"{self.name}: {what}")

    def _peek(self) -> bytes:
        if self._unzipped is None:
            return self._held
        return self._unzipped.peek(_CHUNK)

    def _checked(self, read: Callable[[], bytes], after: Callable[[], str] = str) -> bytes:
        try:
            return read()
        except (EOFError, gzip.BadGzipFile, zlib.error) as error:
            raise ReadError(f"{self.name}{after()}: the compressed data are damaged, or cut short: {error}") from None
        except UnicodeDecodeError as error:
            raise ReadError(f"{self.name}{after()}: {error}; {UTF8}") from None

    def _pieces(self, size: int) -> Iterator[bytes]:
        """The text in pieces; a thread decompresses a compressed file on disk, one piece ahead."""
        read = self.read if self._unzipped is None else self._unzipped.read1
        if self._unzipped is None or self._size is None:
            while piece := read(size):
                yield piece
            return
        read = self._unzipped.read
        with ThreadPoolExecutor(1, thread_name_prefix="gzip") as pool:
            coming = pool.submit(read, size)
            while piece := coming.result():
                coming = pool.submit(read, size)
                yield piece

    def blocks(self, first_size: int = 0) -> Iterator[tuple[bytearray, int]]:
        """Blocks of whole lines, each of which ends in LF, and the number of the first line of each.

        CR LF and CR become LF; marks of byte order at the beginning of lines, which joined files have, go. The first block has
        at least `first_size` bytes if there are that many; later ones hold what is available, so that a slow pipe does not
        block.
        """
        held, number, last, pieces = bytearray(), 1, b"", self._pieces(_CHUNK)
        if self._begin:
            number += _lines_before(self.name, self._begin)
        with self._opened:
            while True:
                # Lines are counted for a message alone.
                piece = self._checked(lambda: next(pieces, b""), partial(_after, number, held))
                ended = not piece
                piece, last = last + (piece or b"\n"), b""
                if piece.endswith(b"\r") and not ended:  # perhaps the first half of CR LF
                    piece, last = piece[:-1], b"\r"
                held += piece.replace(b"\r\n", b"\n").replace(b"\r", b"\n") if b"\r" in piece else piece
                if not ended and (len(held) < first_size or b"\n" not in piece):
                    if len(held) >= max(first_size, _LONGEST_LINE):
                        raise ReadError(f"{self.name}, line {number}: longer than {_LONGEST_LINE} bytes")
                    continue
                text, first_size = held, 0
                end = text.rfind(b"\n") + 1
                held = text[end:]
                del text[end:]
                if 0xEF in text and _BOM in text:
                    text = bytearray(re.sub(rb"^" + _BOM, b"", text, flags=re.MULTILINE))
                if text and not (ended and text == b"\n"):
                    yield text, number
                number += n_lines(text)
                if ended:
                    return

    def lines(self) -> Iterator[tuple[int, bytes]]:
        """The lines that hold something, with their numbers from 1."""
        for text, first in self.blocks():
            yield from lines_of(text, first)


#: What to do with text in another encoding.
UTF8 = "write the file as UTF-8, as iconv -f latin1 -t utf-8 does"


def text_of(name: Any, number: int, part: bytes | bytearray) -> str:
    """A part of a line as text. Raises ReadError that names the file and the line unless it is UTF-8."""
    try:
        return part.decode()
    except UnicodeDecodeError as error:
        raise ReadError(f"{name}, line {number}: {bytes(part[:40])!r} is not UTF-8 ({error.reason}); {UTF8}") from None


def lines_of(text: bytearray, first: int) -> Iterator[tuple[int, bytes]]:
    """The lines of a block of text that hold something, with their numbers."""
    for number, line in enumerate(bytes(text).split(b"\n"), start=first):
        if line.strip():
            yield number, line


def n_lines(text: bytes | bytearray) -> int:
    """The number of lines that end in a text; a tenth of the time of `count`."""
    return int(np.count_nonzero(np.frombuffer(text, np.uint8) == 10))


def _after(number: int, held: bytearray) -> str:
    return f", after line {number + n_lines(held) - 1}"


def _lines_before(path: str, offset: int) -> int:
    """The number of lines of a file that end before an offset."""
    lines = 0
    with open(path, "rb") as file:
        while offset and (block := file.read(min(offset, 1 << 24))):
            lines += n_lines(block)
            offset -= len(block)
    return lines


_LETOR = re.compile(rb"\s*(#.*\n\s*)*[^\s#]+[ \t]+(qid:|\d+:\S)")


def is_letor(head: bytes) -> bool:
    """Whether text begins as LETOR text does."""
    return _LETOR.match(head.removeprefix(_BOM)) is not None


def format_of(source: Any, head: bytes) -> str:
    """The format of a file by its name and its first bytes: "parquet", "arrow", "json", "csv", "tsv" or "letor"."""
    name = (path_of(source) or "").lower().removesuffix(".gz")
    if head.startswith(b"PAR1"):
        return "parquet"
    if head.startswith((b"ARROW1", b"\xff\xff\xff\xff")):
        return "arrow"
    if name.endswith(".parquet"):
        raise ReadError(f"{name_of(source)}: not a file of parquet, or cut short")
    if name.endswith((".feather", ".arrow")):
        raise ReadError(f"{name_of(source)}: not a file of Arrow, or cut short")
    if name.endswith((".csv", ".tsv")) and not head.lstrip().startswith((b"{", b"[{")):
        return name[-3:]
    text = head.removeprefix(_BOM)
    if re.match(rb"\s*\[\s*[{\]]", text) or (text.lstrip().startswith(b"[") and name.endswith(".json")):
        return "json"
    if text.lstrip().startswith(b"{") or name.endswith((".jsonl", ".ndjson", ".json")):
        return "json"
    return "letor"
