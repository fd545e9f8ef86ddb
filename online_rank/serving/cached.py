"""A folder of models that were read or served last: to rank with while what has the present one cannot be reached."""

import logging
from pathlib import Path

from online_rank.storage.files import write_atomically
from online_rank.storage.own import read_own

_log = logging.getLogger("online_rank.serving")

#: Most bytes of a model.
MOST_MODEL = 1 << 30


class Cache:
    """The models of a folder, by key.

    Parameters
    ----------
    folder
        The folder; it is created if missing, but its parent must exist.

    Raises
    ------
    OSError
        It cannot be created.
    """

    def __init__(self, folder: str | Path) -> None:
        self.folder = Path(folder).absolute()
        self.folder.mkdir(mode=0o700, exist_ok=True)

    def get(self, key: str = "") -> bytes | None:
        """The file of a model that nobody else can have written; None without one; the log says why a file is not used."""
        try:
            return read_own(self.folder, _file(key), MOST_MODEL)
        except FileNotFoundError:
            return None
        except OSError as error:
            _log.error("the model in the cache is not used: %s", error)
            return None

    def put(self, content: bytes, key: str = "") -> bool:
        """Keep the file of a model. Returns whether it is kept; the log says why not."""
        try:
            write_atomically(self.folder / _file(key), content, 0o600)
        except OSError as error:
            _log.error("the model cannot be kept in the cache: %s", error)
            return False
        return True


def _file(key: str) -> str:
    """The name of the file of a key's model."""
    return f"{key or 'model'}.npz"
