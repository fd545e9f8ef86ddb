"""A write-ahead journal: what was acknowledged is on the disk, and a service is brought back by replaying it."""

import os
import zlib
from collections.abc import Iterator
from pathlib import Path

from online_rank.storage.checkpoint import CheckpointError
from online_rank.storage.files import sync_directory

__all__ = ["Journal"]


class Journal:
    """Records, each one a line of text, appended to a file in a directory that a `CheckpointDirectory` has locked.

    The file is called after the number of records before it: `journal-12` starts with record 12. After a checkpoint at record n
    a new file `journal-n` begins, and older ones are removed.

    Parameters
    ----------
    directory
        The directory.
    start
        Number of records that the checkpoint covers; the file that starts there is opened, or begun.

    Raises
    ------
    CheckpointError
        A record in the middle of the file is damaged. One at its very end was being written when the process died, was never
        acknowledged, and is dropped.
    """

    def __init__(self, directory: Path, start: int) -> None:
        self._directory = directory
        self._start = start
        self._file = -1
        self._open(start)

    def replay(self) -> Iterator[bytes]:
        """The records since the checkpoint. Must be read to the end before anything is appended."""
        path = self._path(self._start)
        good = 0
        with path.open("rb") as file:
            for line in file:
                record = _checked(line)
                if record is None:
                    if any(_checked(later) is not None for later in file):
                        raise CheckpointError(f"{path}: damaged {good} bytes from its beginning; records after that are whole")
                    break
                good += len(line)
                yield record
        if good < path.stat().st_size:
            os.ftruncate(self._file, good)
            os.fsync(self._file)

    def append(self, records: list[bytes], sync: bool) -> None:
        """Write records in one go, and wait until they are on the disk if `sync`."""
        data = memoryview(b"".join(b"%08x %s\n" % (zlib.crc32(record), record) for record in records))
        while data:
            data = data[os.write(self._file, data) :]
        if sync:
            os.fsync(self._file)

    def restart(self, start: int) -> None:
        """Begin a new file: a checkpoint covers the first `start` records."""
        if start != self._start:
            self._open(start)

    def close(self) -> None:
        """Close the file."""
        if self._file >= 0:
            os.close(self._file)
            self._file = -1

    def _path(self, start: int) -> Path:
        return self._directory / f"journal-{start}"

    def _open(self, start: int) -> None:
        file = os.open(self._path(start), os.O_RDWR | os.O_CREAT | os.O_APPEND, 0o666)
        self.close()
        self._file, self._start = file, start
        for path in self._directory.glob("journal-*"):
            if path != self._path(start):
                path.unlink()
        sync_directory(self._directory)


def _checked(line: bytes) -> bytes | None:
    """The record in a line of the journal, or None if it is not whole."""
    if len(line) < 10 or line[8:9] != b" " or not line.endswith(b"\n"):
        return None
    record = line[9:-1]
    return record if line[:8] == b"%08x" % zlib.crc32(record) else None
