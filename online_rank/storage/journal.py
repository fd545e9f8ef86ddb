"""A write-ahead journal: what was acknowledged is on the disk, and a service is brought back by replaying it.

Two files stand beside the checkpoint, and none is of use without the others.

`journal-12` holds the records after the first 12, which the checkpoint covers. Its first line names the run and that number;
each record is a line of its own, after a digest of the record and of all lines before it. So no line can be changed, cut out,
or taken from another journal without being noticed.

`journal.mark` says how far the journal is known to be on the disk. It is written, and synced, after the journal was synced and
before anything is acknowledged. So a journal that ends before the mark was damaged, and one that goes on after it was being
written when the process died: a last line that is not whole was never acknowledged, and is dropped.
"""

import contextlib
import hashlib
import os
import re
import secrets
from collections.abc import Iterator
from pathlib import Path
from typing import NamedTuple

from online_rank.storage.checkpoint import CheckpointError
from online_rank.storage.files import sync_directory

__all__ = ["Journal", "Mark", "new_run"]

_MAGIC = b"online_rank journal 1 "
_MARK = "journal.mark"
_SLOT = 192
_NAME = re.compile(r"journal-(0|[1-9][0-9]*)")


def new_run() -> str:
    """A name for a run that no other run has."""
    return secrets.token_hex(16)


class Mark(NamedTuple):
    """How far a journal is on the disk.

    Attributes
    ----------
    run, start
        The journal: its run, and the number of records that the checkpoint covers.
    records
        Number of records, counted from the beginning of the run.
    size
        Bytes of the journal.
    digest
        Digest of these bytes.
    """

    run: str
    start: int
    records: int
    size: int
    digest: str


class Journal:
    """The journal of one run, in a directory that a `CheckpointDirectory` has locked.

    `Journal.begin` makes one for a new run. `Journal(directory, run, start)` opens the one that goes on from a checkpoint;
    `replay` must then read it.

    Parameters
    ----------
    directory
        The directory.
    run
        Name of the run, as the checkpoint has it.
    start
        Number of records that the checkpoint covers.

    Raises
    ------
    CheckpointError
        The journal is missing, damaged, or does not go on from that checkpoint.
    """

    def __init__(self, directory: Path, run: str, start: int) -> None:
        self._directory = directory
        self._run = run
        self._file = self._marks = -1
        self._slot = 0
        mark = self._read_mark()
        # Killed between checkpoint and mark: the mark is of the journal before, all of which the checkpoint covers.
        switching = mark.start < start == mark.records
        if mark.run != run or not (mark.start == start or switching):
            raise CheckpointError(
                f"{directory}: the checkpoint covers {start} records, but the journal begins after {mark.start} and ends with "
                f"{mark.records}" + ("" if mark.run == run else ", and is of another run")
            )
        self._start = start
        self._written = mark
        self._open(start)
        self._mark = self._at = _beginning(run, start) if switching else mark
        if switching and _header_of(self._path(start))[1]:
            raise CheckpointError(f"{self._path(start)} has records, but its mark is missing")

    @classmethod
    def begin(cls, directory: Path, run: str) -> "Journal":
        """A journal without records, for a new run; the checkpoint that it goes with is written after it.

        Raises CheckpointError when there is a journal with records, whose checkpoint is missing.
        """
        for path in directory.iterdir():
            if _NAME.fullmatch(path.name) and _header_of(path)[0].startswith(_MAGIC) and _header_of(path)[1]:
                raise CheckpointError(f"{directory}: {path.name} has records, but its checkpoint is missing")
        made = cls.__new__(cls)
        made._directory, made._run, made._start = directory, run, 0
        made._file = made._marks = -1
        made._slot = 0
        made._mark = made._at = made._create(0)
        made._open(0)
        os.ftruncate(made._marks, 0)
        made._write_mark()
        sync_directory(directory)
        return made

    def replay(self) -> Iterator[bytes]:
        """The records since the checkpoint. Must be read to the end before anything is appended.

        Everything that was read is on the disk, and marked so, when the last record has been given out.
        """
        path, mark = self._path(self._start), self._mark
        at = _beginning(self._run, self._start)
        with path.open("rb") as file:
            file.seek(at.size)
            if mark.size == at.size and mark.digest != at.digest:
                raise CheckpointError(f"{path}: does not match its mark")
            for line in file:
                after = _after(at, line)
                if after is None or (at.size < mark.size <= after.size and after[2:] != mark[2:]):
                    self._require_torn(path, at, line)
                    break
                at = after
                yield line[17:-1]
        if at.size < mark.size:
            raise CheckpointError(f"{path}: damaged or cut short {at.size} bytes from its beginning")
        if at.size < path.stat().st_size:
            os.ftruncate(self._file, at.size)
        self._at = at
        self.sync()
        self._delete_superseded()

    def append(self, records: list[bytes], sync: bool) -> None:
        """Write records in one go, and wait until they are on the disk if `sync`.

        Raises
        ------
        OSError
            They could not be written or synced. Nothing may be acknowledged, and nothing more appended.
        CheckpointError
            The files of the run were removed or replaced: what was synced is not where a restart looks for it.
        """
        lines = []
        at = self._at
        for record in records:
            digest = _chained(at.digest, record)
            lines.append(b"%s %s\n" % (digest.encode(), record))
            at = at._replace(records=at.records + 1, size=at.size + 18 + len(record), digest=digest)
        with self._naming(self._path(self._start)):
            data = memoryview(b"".join(lines))
            while data:
                data = data[os.write(self._file, data) :]
        self._at = at
        if sync:
            self.sync()
            self.require_in_place()

    def sync(self) -> None:
        """Wait until all that was appended is on the disk, and mark it so."""
        with self._naming(self._path(self._start)):
            os.fsync(self._file)
        self._mark = self._at
        if self._mark != self._written:
            self._write_mark()

    def require_in_place(self) -> None:
        """Raise CheckpointError unless the journal, its mark and the checkpoint are where a restart looks for them."""
        for file, path in ((self._file, self._path(self._start)), (self._marks, self._directory / _MARK)):
            try:
                there = os.stat(path)
            except OSError:
                raise CheckpointError(f"{path} was removed while it was in use") from None
            here = os.fstat(file)
            if (here.st_ino, here.st_dev) != (there.st_ino, there.st_dev):
                raise CheckpointError(f"{path} was replaced while it was in use")

    def prepare(self, start: int) -> None:
        """Make ready for a checkpoint that covers `start` records, all there are; `switch` follows when it is written."""
        self.sync()
        if start != self._start:
            self._create(start)

    def switch(self, start: int) -> None:
        """Go on in the file that `prepare` made."""
        if start == self._start:
            return
        before = self._path(self._start)
        self._start = start
        self._mark = self._at = _beginning(self._run, start)
        self._open(start)
        self._write_mark()
        before.unlink(missing_ok=True)
        sync_directory(self._directory)

    def close(self) -> None:
        """Close the files."""
        for file in (self._file, self._marks):
            if file >= 0:
                os.close(file)
        self._file = self._marks = -1

    def _path(self, start: int) -> Path:
        return self._directory / f"journal-{start}"

    def _create(self, start: int) -> Mark:
        """Make a journal without records, on the disk; where it ends. One that an attempt before has left is replaced."""
        path = self._path(start)
        if path.exists():
            header, rest = _header_of(path)
            if rest or not (header.startswith(_MAGIC) or _MAGIC.startswith(header)):
                raise CheckpointError(f"{path} is in the way, and no journal that was left behind")
        with self._naming(path):
            file = os.open(path, os.O_WRONLY | os.O_CREAT | os.O_TRUNC, 0o600)
            try:
                os.write(file, _header(self._run, start))
                os.fsync(file)
            finally:
                os.close(file)
        sync_directory(self._directory)
        return _beginning(self._run, start)

    def _require_header(self, start: int) -> None:
        """Raise CheckpointError unless the journal is of this run and start."""
        path, expected = self._path(start), _header(self._run, start)
        try:
            header = _header_of(path)[0]
        except FileNotFoundError:
            raise CheckpointError(f"{path} is missing: the checkpoint is of no use without it") from None
        if header != expected:
            raise CheckpointError(f"{path}: its first line is damaged, or of another run")

    def _open(self, start: int) -> None:
        """Open the journal and the mark for writing."""
        self._require_header(start)
        marks = self._marks if self._marks >= 0 else os.open(self._directory / _MARK, os.O_RDWR | os.O_CREAT, 0o600)
        file, before = os.open(self._path(start), os.O_WRONLY | os.O_APPEND), self._file
        self._file, self._marks = file, marks
        if before >= 0:
            os.close(before)

    def _write_mark(self) -> None:
        """Write the mark beside the one before, so that one of them is whole at any instant."""
        self._slot += 1
        text = " ".join(map(str, (self._slot, *self._mark)))
        line = f"{text} {_chained('', text.encode())}".ljust(_SLOT - 1) + "\n"
        with self._naming(self._directory / _MARK):
            os.pwrite(self._marks, line.encode(), self._slot % 2 * _SLOT)
            os.fsync(self._marks)
        self._written = self._mark

    def _read_mark(self) -> Mark:
        """The newer of the two marks that is whole."""
        path = self._directory / _MARK
        try:
            content = path.read_bytes()
        except FileNotFoundError:
            raise CheckpointError(f"{path} is missing: the journal is of no use without it") from None
        found = []
        for at in (0, _SLOT):
            parts = content[at : at + _SLOT].decode("latin-1").split()
            text = " ".join(parts[:-1])
            if len(parts) == 7 and parts[-1] == _chained("", text.encode("latin-1")):
                start, records, size = map(int, parts[2:5])
                found.append((int(parts[0]), Mark(parts[1], start, records, size, parts[5])))
        if not found:
            raise CheckpointError(f"{path} is damaged")
        self._slot, mark = max(found)
        return mark

    def _require_torn(self, path: Path, at: Mark, line: bytes) -> None:
        """Raise CheckpointError unless a line that is not whole can be what a crash leaves of one that was being written."""
        torn = at.size >= self._mark.size and (not line.endswith(b"\n") or b"\x00" in line)
        if not torn:
            raise CheckpointError(f"{path}: damaged {at.size} bytes from its beginning")

    def _delete_superseded(self) -> None:
        """Remove journals of this run that the checkpoint covers, which a kill between two steps has left."""
        for path in self._directory.iterdir():
            match = _NAME.fullmatch(path.name)
            if match and int(match[1]) != self._start and _header_of(path)[0] == _header(self._run, int(match[1])):
                if int(match[1]) > self._start and len(_header_of(path)[1]) > 0:
                    raise CheckpointError(f"{path} goes on from a checkpoint that is missing")
                path.unlink()

    @contextlib.contextmanager
    def _naming(self, path: Path) -> Iterator[None]:
        """Name the file in an error of the operating system, which knows it by a number."""
        try:
            yield
        except OSError as error:
            raise OSError(error.errno, error.strerror, str(path)) from None


def _header(run: str, start: int) -> bytes:
    return b"%s%s %d\n" % (_MAGIC, run.encode(), start)


def _header_of(path: Path) -> tuple[bytes, bytes]:
    """The first line of a file, and the beginning of what follows."""
    with path.open("rb") as file:
        return file.readline(200), file.read(1)


def _beginning(run: str, start: int) -> Mark:
    header = _header(run, start)
    return Mark(run, start, start, len(header), _chained("", header))


def _chained(digest: str, record: bytes) -> str:
    """The digest of a record and of all before it."""
    return hashlib.blake2b(record, digest_size=8, salt=digest.encode()).hexdigest()


def _after(at: Mark, line: bytes) -> Mark | None:
    """Where a journal ends after one more line, or None if that is not whole."""
    if len(line) < 18 or line[16:17] != b" " or not line.endswith(b"\n"):
        return None
    digest = _chained(at.digest, line[17:-1])
    if line[:16] != digest.encode():
        return None
    return at._replace(records=at.records + 1, size=at.size + len(line), digest=digest)
