"""Kernels that a build has compiled: a build that was stopped uses them when it starts again."""

import contextlib
import hashlib
import pickle
import shutil
from pathlib import Path
from typing import Any

import llvmlite
import llvmlite.binding as llvm
import numba

from online_rank._kernels.ahead.loading import object_name
from online_rank._kernels.ahead.trust import Distrusted, read_sealed, write_sealed

_VERSIONS = f"{numba.__version__} {llvmlite.__version__}"


class Finished:
    """The compiled kernels of one target, a file each, in a folder next to the object file.

    Files are trusted by the rules of object files (`trust`). Two builds at once may share the folder: each file is written
    whole, under its final name.

    Parameters
    ----------
    folder
        The folder of the object file.
    target
        The target that the kernels are compiled for.
    """

    def __init__(self, folder: Path, target: str) -> None:
        self.folder = folder / f"{object_name(target)}.parts"

    def read(self, name: str, arguments: tuple[Any, ...]) -> tuple[Any, tuple[str, Any, tuple[Any, ...]]] | None:
        """The module of a kernel for these types of arguments, and its signature; None if no build has finished it."""
        try:
            symbol, result, code = pickle.loads(read_sealed(self._path(name, arguments)))
        except (OSError, Distrusted):
            return None
        return llvm.parse_bitcode(code), (symbol, result, arguments)

    def keep(self, name: str, module: Any, signature: tuple[str, Any, tuple[Any, ...]]) -> None:
        """Keep the module of a kernel. A full disk, or another build that ends meanwhile, only costs the next build time."""
        symbol, result, arguments = signature
        with contextlib.suppress(OSError):
            write_sealed(self._path(name, arguments), pickle.dumps((symbol, result, module.as_bitcode())))

    def forget(self) -> None:
        """Delete all files."""
        shutil.rmtree(self.folder, ignore_errors=True)

    def _path(self, name: str, arguments: tuple[Any, ...]) -> Path:
        key = hashlib.sha256(f"{_VERSIONS} {name} {arguments!r}".encode()).hexdigest()[:32]
        return self.folder / f"{key}.bc"


def alone(module: Any, symbol: str) -> Any:
    """A copy of a kernel's module in which only the kernel is visible.

    Modules of two processes may have functions of one name, which numba numbers in each process from the start.
    """
    copy = llvm.parse_bitcode(module.as_bitcode())
    for item in [*copy.functions, *copy.global_variables]:
        if not item.is_declaration and item.name != symbol:
            item.linkage = "internal"
    return copy
