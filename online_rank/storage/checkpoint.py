"""Directories that hold the state of a run, so that it survives being killed at any instant."""

import os
import re
from pathlib import Path
from types import TracebackType
from typing import Any

from online_rank.storage.files import from_bytes, sync_directory, to_bytes, write_atomically

__all__ = ["CheckpointDirectory", "CheckpointError"]

_STATE = "checkpoint.npz"
_LEFTOVER = re.compile(r"\.checkpoint\.npz\.[0-9a-f]{16}\.tmp")


class CheckpointError(ValueError):
    """A checkpoint is in use, belongs to another run, or cannot be continued; the message says which."""


class CheckpointDirectory:
    """A directory with the state of one run, locked while it is open.

    The lock is the operating system's: it ends with the process that holds it, however that ends.

    Parameters
    ----------
    path
        The directory; it is made if it is missing, in a directory that exists.

    Raises
    ------
    CheckpointError
        Another process, or another part of this one, works in the directory.
    OSError
        The directory cannot be made or written to.

    Examples
    --------
    >>> import tempfile
    >>> from online_rank.storage.checkpoint import CheckpointDirectory
    >>> with CheckpointDirectory(tempfile.mkdtemp()) as directory:
    ...     print(directory.read())
    ...     directory.write({"queries": 10})
    ...     print(directory.read())
    None
    {'queries': 10}
    """

    def __init__(self, path: str | os.PathLike[str]) -> None:
        import fcntl

        self.path = Path(path)
        if not self.path.is_dir():
            self.path.mkdir(mode=0o700)  # Checkpoints hold the queries of users.
            sync_directory(self.path.parent)
        self._lock = os.open(self.path / "lock", os.O_RDWR | os.O_CREAT, 0o600)
        try:
            fcntl.flock(self._lock, fcntl.LOCK_EX | fcntl.LOCK_NB)
        except OSError:
            owner = os.read(self._lock, 20).decode("ascii", "replace").strip() or "unknown"
            os.close(self._lock)
            raise CheckpointError(f"{self.path} is in use by another process (id {owner})") from None
        try:
            os.ftruncate(self._lock, 0)
            os.pwrite(self._lock, f"{os.getpid()}\n".encode(), 0)
            for leftover in self.path.iterdir():
                if _LEFTOVER.fullmatch(leftover.name):
                    leftover.unlink()
        except BaseException:
            self.close()
            raise

    def __enter__(self) -> "CheckpointDirectory":
        return self

    def __exit__(self, kind: type[BaseException] | None, error: BaseException | None, traceback: TracebackType | None) -> None:
        self.close()

    def close(self) -> None:
        """Give the directory free."""
        if self._lock >= 0:
            os.close(self._lock)
            self._lock = -1

    def require_in_place(self) -> None:
        """Raise CheckpointError unless the checkpoint is where a restart looks for it."""
        if not (self.path / _STATE).is_file():
            raise CheckpointError(f"{self.path / _STATE} was removed while it was in use")

    def read(self) -> Any:
        """The state written last, or None. Raises ModelFileError when it is damaged."""
        try:
            content = (self.path / _STATE).read_bytes()
        except FileNotFoundError:
            return None
        try:
            return from_bytes(content)
        except ValueError as error:
            raise type(error)(f"{self.path / _STATE}: {error}") from None

    def write(self, state: Any) -> None:
        """Replace the state in one step; it is on the disk when this returns."""
        self.write_bytes(to_bytes(state))

    def write_bytes(self, content: bytes) -> None:
        """As `write`, for a state as `online_rank.storage.files.to_bytes` gives it."""
        write_atomically(self.path / _STATE, content, mode=0o600)
