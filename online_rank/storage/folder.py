"""Folders that one process writes to: accessible only to their owner, locked, and released in forked children."""

import contextlib
import os
import stat
import weakref
from pathlib import Path
from types import TracebackType
from typing import Any, Self

from online_rank.storage.files import sync_directory

OWNER = "owner"


class CheckpointError(ValueError):
    """A checkpoint is in use or damaged, belongs to another run, or cannot be continued; the message says which."""


class ValueRefused(ValueError):
    """A store cannot keep a value of one change: it has kept nothing of it, and is as good as before."""


class StatementFailed(OSError):
    """A store fails at what it was given, and not because it is away: the same, sent again, may make another one fail."""


class FolderInUse(CheckpointError):
    """Another process, or another part of this one, is using a folder."""


class Folder:
    """A folder, locked while it is open.

    The lock is one of the operating system, on the folder itself: it ends with the process that holds it, and there is no lock
    file to delete. A forked child does not hold it, and cannot use what its parent has opened.

    Parameters
    ----------
    path
        The folder; it is created if missing, but its parent must exist.

    Raises
    ------
    FolderInUse
        Another process, or another part of this one, is using the folder.
    OSError
        It cannot be created or written to.
    """

    #: The file with the id of the process; only for a message.
    _owner_file = OWNER

    def __init__(self, path: str | os.PathLike[str]) -> None:
        import fcntl

        self.path = Path(path)
        with contextlib.suppress(FileExistsError):
            self.path.mkdir(mode=0o700)  # Private, because it holds users' queries.
            os.chmod(self.path, 0o700)  # The umask may have taken more.
        with contextlib.suppress(PermissionError):
            # Also if an earlier process was killed between creating and syncing it.
            sync_directory(self.path.absolute().parent)
        self._lock = os.open(self.path, os.O_RDONLY | os.O_DIRECTORY)
        try:
            fcntl.flock(self._lock, fcntl.LOCK_EX | fcntl.LOCK_NB)
        except OSError:
            os.close(self._lock)
            self._lock = -1
            raise FolderInUse(f"{self.path} is in use by another process (id {self._owner()})") from None
        self._forked = False
        #: What is open in it: closed before the lock is released, the last first; `abandon` leaves it to a parent.
        self._held: list[Any] = []
        _OPEN.add(self)
        with contextlib.suppress(OSError):
            file = open_in(self.path, self._owner_file, os.O_WRONLY | os.O_CREAT | os.O_TRUNC)
            os.write(file, b"%d\n" % os.getpid())
            os.close(file)

    def __enter__(self) -> Self:
        return self

    def __exit__(self, kind: type[BaseException] | None, error: BaseException | None, traceback: TracebackType | None) -> None:
        self.close()

    def close(self) -> None:
        """Release the folder. May be called again."""
        while self._held:
            self._held.pop().close()
        if self._lock >= 0:
            if not self._forked:
                import fcntl

                # A child that was just forked may not have closed its copy of the descriptor yet.
                fcntl.flock(self._lock, fcntl.LOCK_UN)
            os.close(self._lock)
            self._lock = -1

    @property
    def is_open(self) -> bool:
        """Whether this process holds the lock."""
        return self._lock >= 0

    def require_open(self) -> None:
        """Raise CheckpointError in a child of the process that opened the folder, and after `close`."""
        if self._forked:
            raise CheckpointError(f"{self.path} was opened by the process that this one was forked from: open it again here")
        if self._lock < 0:
            raise CheckpointError(f"{self.path} is closed")

    def _give_up(self) -> None:
        """In a forked child: close the descriptor; the lock, and what is open, remain the parent's."""
        self._forked = True
        while self._held:
            self._held.pop().abandon()
        self.close()

    def _owner(self) -> str:
        with contextlib.suppress(OSError):
            return (self.path / self._owner_file).read_bytes()[:20].decode("ascii", "replace").strip() or "unknown"
        return "unknown"


#: The open folders of this process.
_OPEN: "weakref.WeakSet[Folder]" = weakref.WeakSet()


def _give_up_all() -> None:
    for folder in list(_OPEN):
        folder._give_up()


if hasattr(os, "register_at_fork"):
    os.register_at_fork(after_in_child=_give_up_all)


def open_in(path: Path, name: str, flags: int) -> int:
    """Open a regular file in a folder, accessible only to its owner; a link or anything else in its place is an OSError.

    One that was there with other permissions gets these.
    """
    file = os.open(path / name, flags | os.O_NOFOLLOW, 0o600)
    try:
        mode = os.fstat(file).st_mode
        if not stat.S_ISREG(mode):
            raise OSError(22, "is not a regular file", str(path / name))
        if stat.S_IMODE(mode) != 0o600 and os.fstat(file).st_uid == os.geteuid():
            os.fchmod(file, 0o600)
    except BaseException:
        os.close(file)
        raise
    return file


def identity(path: str | Path) -> Any:
    """The identity and size of the file with a name. Raises CheckpointError if no file has it."""
    try:
        found = os.lstat(path)
    except OSError:
        raise CheckpointError(f"{path} was removed while it was in use") from None
    return (found.st_ino, found.st_dev), found.st_size
