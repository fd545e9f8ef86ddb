"""The folder of keys. A key is a folder in it with the database of a service; what else lies there is never touched."""

import contextlib
import logging
import os
import re
import time
from pathlib import Path

from online_rank.serving.identity import OtherService
from online_rank.serving.outcomes import PREVIOUS, REFERENCE
from online_rank.serving.snapshots import SNAPSHOT
from online_rank.storage.checkpoint import STATE
from online_rank.storage.folder import Folder, open_in, sync_directory
from online_rank.storage.state import STATE_FILES

_log = logging.getLogger("online_rank.serving")

#: The pattern of keys.
KEY = re.compile(r"[A-Za-z0-9_-][A-Za-z0-9_.-]{0,99}")

#: When a key was last used, by the clock of the folder of keys.
_USED = ".online_rank-used"
#: A key with this file is being deleted: what an earlier process began is completed.
_DELETED = ".online_rank-deleted"
#: The seconds for which the folder of keys was served, in all.
_CLOCK = ".clock"

_OWN = {*STATE_FILES, PREVIOUS, REFERENCE, _USED, _DELETED}
#: What a process that was killed while it replaced a file leaves (`write_atomically`).
_REPLACED = "|".join([*map(re.escape, (*STATE_FILES, PREVIOUS, REFERENCE)), SNAPSHOT.pattern])
_TEMPORARY = re.compile(rf"\.({_REPLACED})\.[0-9a-f]{{16}}\.tmp")


class Keys(Folder):
    """The folder of keys, locked while it is open.

    The clock of the folder counts the seconds for which it was served, by the monotonic clock: a step of the system clock, and
    the time in which nobody serves it, make no key older.

    Parameters
    ----------
    path
        The folder; it is created if missing, but its parent must exist.

    Raises
    ------
    CheckpointError
        Another process serves this folder.
    OSError
        It cannot be read or written.
    """

    #: A key may have the name of the file that folders have otherwise.
    _owner_file = ".owner"

    def __init__(self, path: str | os.PathLike[str]) -> None:
        super().__init__(path)
        try:
            self._started = time.monotonic()
            self._before = _number(self.path, _CLOCK) or 0.0
            self._used: dict[str, float] = {}
            self._stored: dict[str, float] = {}
            self.names: set[str] = set()
            for entry in os.scandir(self.path):
                if not KEY.fullmatch(entry.name) or not entry.is_dir():
                    continue
                if (Path(entry) / _DELETED).is_file():
                    try:
                        remove(Path(entry))
                    except (OSError, ValueError) as error:
                        _log.error("key %s was to be deleted, and cannot be: %s", entry.name, error)
                elif _has_state(Path(entry)):
                    self.names.add(entry.name)
        except BaseException:
            self.close()
            raise

    @property
    def now(self) -> float:
        """The clock of the folder."""
        return self._before + time.monotonic() - self._started

    def folder(self, key: str) -> Path:
        """The folder of a key."""
        return self.path / key

    def begin(self, key: str) -> Path:
        """The folder of a key, which may be new. Raises OSError, and ValueError if something else lies there."""
        path = self.folder(key)
        if (path / _DELETED).is_file():
            remove(path)
        if not _has_state(path) and os.path.lexists(path):
            found = [entry.name for entry in os.scandir(path) if not _is_own(entry.name)] if path.is_dir() else [path.name]
            if found:
                raise ValueError(f"{path} has no model, and {found[0][:100]!r} lies there, which this server did not write")
        return path

    def use(self, key: str) -> None:
        """A request for a key was answered."""
        self._used[key] = self.now

    def unused(self, key: str) -> float:
        """Seconds since a key was used; if nobody knows when, since this process began.

        0 for a folder that a symbolic link names: only a request deletes what others have put there.
        """
        if self.folder(key).is_symlink():
            return 0.0
        if key not in self._used:
            stored = _number(self.folder(key), _USED)
            self._used[key] = self._stored[key] = self._before if stored is None else min(stored, self._before)
        return self.now - self._used[key]

    def keep(self) -> None:
        """Store the clock, and when keys were used. Raises OSError."""
        _store(self.path, _CLOCK, self.now)
        for key, used in [*self._used.items()]:
            if key in self.names and self._stored.get(key) != used:
                _store(self.folder(key), _USED, used)
                self._stored[key] = used

    def remove(self, key: str) -> None:
        """Delete what this library wrote of a key: when this returns, it is gone. Raises OSError, CheckpointError."""
        self._used.pop(key, None)
        self._stored.pop(key, None)
        remove(self.folder(key))
        self.names.discard(key)


def remove(path: Path) -> None:
    """Delete the files of a key; its folder too, unless it has other files, or is one that a symbolic link names.

    If it fails or is killed in between, there is no key any more, and the next process completes it.

    Raises
    ------
    OSError
        Something cannot be deleted.
    FolderInUse
        Another process uses the folder; nothing has changed.
    """
    with Folder(path):
        os.close(open_in(path, _DELETED, os.O_WRONLY | os.O_CREAT))
        sync_directory(path)
        for name in os.listdir(path):
            if name != _DELETED and _is_own(name):
                (path / name).unlink()
        sync_directory(path)
        (path / _DELETED).unlink()
        sync_directory(path)
    if not path.is_symlink():
        with contextlib.suppress(OSError):  # Others have files in it.
            path.rmdir()
        sync_directory(path.parent)


def usage_of(path: Path) -> int:
    """The bytes of the files in a folder; 0 if it is missing."""
    n_bytes = 0
    with contextlib.suppress(OSError), os.scandir(path) as entries:
        for entry in entries:
            with contextlib.suppress(OSError):  # SQLite's log comes and goes.
                n_bytes += entry.stat().st_size
    return n_bytes


def _is_own(name: str) -> bool:
    """Whether a file in the folder of a key is one that this library writes."""
    return name in _OWN or SNAPSHOT.fullmatch(name) is not None or _TEMPORARY.fullmatch(name) is not None


def _has_state(path: Path) -> bool:
    """Whether a folder has the database of a service."""
    return (path / STATE).is_file()


def require_same_use(folder: Path, by_key: bool) -> None:
    """Raise OtherService if a folder has one model where one for each key is to begin, or the other way round.

    A folder with both was served in both ways, and continues in both.
    """
    with contextlib.suppress(OSError):  # Whoever opens it says what is wrong with it.
        if by_key == _has_state(folder):
            begun = (folder / Keys._owner_file).exists()
            has_keys = begun and any(KEY.fullmatch(each.name) and _has_state(Path(each)) for each in os.scandir(folder))
            if has_keys != by_key:
                which, remedy = ("a single model", "without --key") if by_key else ("a model for each key", "with --key")
                raise OtherService(f"{folder} has {which}: start it {remedy}, or in an empty folder")


def _number(folder: Path, name: str) -> float | None:
    """The number in a file; None without one."""
    try:
        number = float((folder / name).read_text("ascii"))
    except (OSError, ValueError):
        return None
    return number if 0.0 <= number < float("inf") else None


def _store(folder: Path, name: str, number: float) -> None:
    """Write a number to a file. If power is lost, it may be missing, and time is counted from the next start."""
    file = open_in(folder, name, os.O_WRONLY | os.O_CREAT | os.O_TRUNC)
    try:
        os.write(file, repr(number).encode())
    finally:
        os.close(file)
