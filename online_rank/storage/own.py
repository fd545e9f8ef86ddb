"""Files that decide what is ranked, in a folder that others might write to: read if nobody else can have written them."""

import errno
import os
import stat
from pathlib import Path

from online_rank._kernels.ahead.trust import Distrusted, require_own_folder

__all__ = ["read_own"]


def read_own(folder: Path, name: str, most: int) -> bytes:
    """A file of at most `most` bytes that nobody else can have written, by the rules of compiled objects (`ahead.trust`).

    Raises OSError: PermissionError if another user may have written it, and for links.
    """
    path = folder / name
    try:
        file = os.open(path, os.O_RDONLY | getattr(os, "O_NOFOLLOW", 0))
    except OSError as error:
        if error.errno == errno.ELOOP:
            raise PermissionError(f"{path} is a link") from None
        raise
    with open(file, "rb") as opened:
        found = os.fstat(file)
        if not stat.S_ISREG(found.st_mode) or found.st_size > most:
            raise PermissionError(f"{path} is no file of at most {most} bytes")
        is_own = not hasattr(os, "geteuid") or found.st_uid in (0, os.geteuid())
        if not is_own or found.st_mode & (stat.S_IWGRP | stat.S_IWOTH):
            raise PermissionError(f"others can write to {path}: make it yours, and chmod go-w it")
        try:
            require_own_folder(folder)
        except Distrusted as error:
            raise PermissionError(str(error)) from None
        return opened.read(most)
