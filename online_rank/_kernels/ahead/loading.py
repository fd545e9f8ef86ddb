"""Loads an object file of kernels in milliseconds, with numpy and llvmlite, but without numba or a compiler.

The name of the file contains the target and the digest of the kernels' sources, so after an edit no file is found, and numba
compiles the kernels. Nothing is loaded if others could have written it (`trust`), if the memory layout of arrays is not the
expected one, if `ONLINE_RANK_JIT=1`, without the GIL, and on other systems and processors than `FAMILIES` lists.
"""

import ctypes
import functools
import hashlib
import os
import pickle
import platform
import sys
from collections.abc import Callable
from pathlib import Path
from typing import Any

import numpy as np

from online_rank._kernels.ahead.trust import Distrusted, read_sealed, say_distrust

#: The folder of objects in the wheel.
PACKAGED = Path(__file__).parent / "objects"

#: Offsets, in bytes, of the fields that the wrappers read in PyArrayObject and PyArray_Descr.
DATA, ND, DIMENSIONS, STRIDES, DESCRIPTOR, FLAGS, TYPE_NUMBER, BYTE_ORDER = 16, 24, 32, 40, 56, 64, 28, 26

#: numpy's flags of arrays.
C_CONTIGUOUS, ALIGNED, WRITEABLE = 0x1, 0x100, 0x400

#: Numbers of the dtypes that the wrappers support. C's long has 4 bytes on Windows, and 8 elsewhere.
TYPE_NUMBERS = {
    "uint8": (2, 2),
    "int16": (3, 3),
    "int32": (5, 5),
    "int64": (7, 9),
    "uint64": (8, 10),
    "float32": (11, 11),
    "float64": (12, 12),
}
if ctypes.sizeof(ctypes.c_long) == 4:
    TYPE_NUMBERS |= {"int32": (5, 7), "int64": (9, 9), "uint64": (10, 10)}

#: The functions of the BLAS that machine code may call.
BLAS = ("dgemm", "sgemm", "dgemv", "sgemv", "ddot", "sdot")

#: The targets of each system and processor, best first. Those for Linux were run; others only build on their system.
FAMILIES = {
    ("linux", "x86_64"): ("x86-64-v4", "x86-64-v3", "x86-64"),
    ("linux", "aarch64"): ("aarch64",),
    ("darwin", "arm64"): ("macos-arm64",),
    ("win32", "AMD64"): ("windows-x86-64-v4", "windows-x86-64-v3", "windows-x86-64"),
}

#: What each level of x86-64 needs beyond the one before it.
_LEVELS = {
    "x86-64-v3": ("avx2", "bmi", "bmi2", "f16c", "fma", "lzcnt", "movbe"),
    "x86-64-v4": ("avx512f", "avx512bw", "avx512cd", "avx512dq", "avx512vl"),
}

_METH_FASTCALL = 0x80


class _Method(ctypes.Structure):
    _fields_ = [
        ("name", ctypes.c_char_p), ("function", ctypes.c_void_p), ("flags", ctypes.c_int), ("doc", ctypes.c_char_p),
    ]  # fmt: skip


@functools.cache
def source_digest() -> bytes:
    """Digest of the sources of all kernels, and of how they are compiled ahead."""
    digest = hashlib.sha256()
    here = Path(__file__).parent
    for path in sorted([*here.parent.glob("*.py"), *here.glob("*.py")]):
        digest.update(path.read_bytes())
    return digest.digest()


def object_name(target: str) -> str:
    """Name of the object file of a target."""
    return f"{target}-{source_digest().hex()[:16]}.o"


def cache_folder() -> Path:
    """The user's folder of object files. Relative paths are ignored: they would name other code in each folder."""
    if (named := os.environ.get("ONLINE_RANK_CACHE_DIR")) and os.path.isabs(named):
        return Path(named)
    caches = os.environ.get("XDG_CACHE_HOME", "")
    return Path(caches if os.path.isabs(caches) else Path.home() / ".cache", "online_rank")


def family() -> tuple[str, ...]:
    """The targets of this system and processor, best first."""
    return FAMILIES.get((sys.platform, platform.machine()), ())


def targets() -> list[str]:
    """The targets whose code runs on this machine, best first."""
    if len(family()) < 2:
        return [*family()]
    import llvmlite.binding as llvm

    features = llvm.get_host_cpu_features()
    found = [family()[-1]]
    for target, names in zip(family()[-2::-1], _LEVELS.values(), strict=True):
        if not all(features.get(name) for name in names):
            break
        found.insert(0, target)
    return found


def _arrays_are_as_supposed() -> bool:
    """Whether numpy's arrays have the memory layout used since numpy 1.7."""

    def read(address: int, kind: Any = ctypes.c_void_p) -> Any:
        return kind.from_address(address).value

    for name, numbers in TYPE_NUMBERS.items():
        x = np.zeros((3, 5), name)
        at, descriptor = id(x), id(x.dtype)
        if not (
            read(at + 8) == id(np.ndarray)
            and read(at + DATA) == x.ctypes.data
            and read(at + ND, ctypes.c_int) == 2
            and [read(read(at + DIMENSIONS) + 8 * k) for k in range(2)] == [3, 5]
            and [read(read(at + STRIDES) + 8 * k, ctypes.c_ssize_t) for k in range(2)] == list(x.strides)
            and read(at + DESCRIPTOR) == descriptor
            and read(at + FLAGS, ctypes.c_int) & 0x501 == C_CONTIGUOUS | ALIGNED | WRITEABLE
            and read(descriptor + TYPE_NUMBER, ctypes.c_int) in numbers
            and read(descriptor + BYTE_ORDER, ctypes.c_char) in (b"=", b"|")
        ):
            return False
    return True


def why_not() -> str | None:
    """Why no object file is used in this process; None if one is."""
    reason = _never()
    if reason is None and _found() is None:
        missing = f"there is no object file {object_name(targets()[0])} in {PACKAGED} or {cache_folder()}"
        reason = "; ".join([*_refused, missing]) if _refused else missing
    return reason


def is_missing() -> bool:
    """Whether an object file would be used here if it existed."""
    return _never() is None and _found() is None


def in_use() -> str:
    """A description of the kernels that this process runs."""
    reason = why_not()
    return f"machine code of {_found()}" if reason is None else f"compiled by numba: {reason}"


@functools.cache
def _never() -> str | None:
    """Why this process could not use any object file; None if it could."""
    if os.environ.get("ONLINE_RANK_JIT", "") not in ("", "0"):
        return "ONLINE_RANK_JIT is set"
    for switch in ("NUMBA_DISABLE_JIT", "NUMBA_BOUNDSCHECK"):
        if os.environ.get(switch, "") not in ("", "0"):
            return f"{switch} is set"
    if sys.implementation.name != "cpython" or sys.maxsize != 2**63 - 1:
        return "objects are for CPython of 64 bits"
    if not getattr(sys, "_is_gil_enabled", lambda: True)():
        return "objects are for a Python with the GIL"
    known = targets()
    if not known:
        systems = ", ".join(map(" on ".join, FAMILIES))
        return f"there are objects only for {systems}, this is {sys.platform} on {platform.machine()}"
    return None if _arrays_are_as_supposed() else "numpy's arrays have a memory layout that objects do not support"


#: Why each file that is there was not read, and the code that was read, until it is loaded.
_refused: list[str] = []
_read: list[bytes] = []


@functools.cache
def _found() -> Path | None:
    """The object file for this machine and these sources, which may be run."""
    for folder in (PACKAGED, cache_folder()):
        for target in targets():
            path = folder / object_name(target)
            try:
                # The code of this process is that which was checked.
                _read[:] = [read_sealed(path, anyones=folder is PACKAGED)]
            except Distrusted as error:
                _refused.append(str(error))
                say_distrust(str(error))
            except OSError:
                continue
            else:
                return path
    return None


def _raise(pickled: bytes) -> None:
    """Raise the exception of a kernel, from its class and arguments as pickled by numba."""
    error, arguments, _ = pickle.loads(pickled)
    raise error(*arguments)


@functools.cache
def _engine() -> Any:
    """The machine code, kept for the life of the process; None if none is used."""
    if why_not() is not None:
        return None
    import llvmlite.binding as llvm

    llvm.initialize_native_target()
    llvm.initialize_native_asmprinter()
    machine = llvm.Target.from_default_triple().create_target_machine(opt=0, jit=True)
    # One reservation for code and data, which address each other within 2 GB: where a large library was imported before, pieces
    # that are mapped each for itself may lie further apart, and LLVM ends the process. Elsewhere code addresses all memory.
    engine = llvm.create_mcjit_compiler(llvm.parse_assembly(""), machine, use_lmm=True if sys.platform == "linux" else None)
    engine.add_object_file(llvm.ObjectFileRef.from_data(_read.pop()))
    engine.finalize_object()
    for name, value in (("ndarray", np.ndarray), ("int64", np.int64), ("float64", np.float64), ("raise", _raise)):
        _fill(engine, name, id(value))
    return engine


def _fill(engine: Any, slot: str, address: int) -> None:
    ctypes.c_void_p.from_address(engine.get_global_value_address(f"online_rank_{slot}")).value = address


@functools.cache
def _take_blas(engine: Any) -> None:
    """Let machine code call the BLAS of scipy, which is numba's too."""
    from scipy.linalg import cython_blas

    name_of, address_of = ctypes.pythonapi.PyCapsule_GetName, ctypes.pythonapi.PyCapsule_GetPointer
    name_of.restype, name_of.argtypes = ctypes.c_char_p, [ctypes.py_object]
    address_of.restype, address_of.argtypes = ctypes.c_void_p, [ctypes.py_object, ctypes.c_char_p]
    for name in BLAS:
        capsule = cython_blas.__pyx_capi__[name]
        _fill(engine, name, address_of(capsule, name_of(capsule)))


#: Objects that C code refers to by address.
_kept: list[Any] = []


def entry(name: str, fallback: Callable[..., Any]) -> Any:
    """The function of that name in the object file, or None. Calls with other signatures go to `fallback`."""
    engine = _engine()
    if engine is None or not (address := engine.get_function_address(f"entry.{name}")):
        return None
    if engine.get_global_value_address(f"online_rank_blas_of.{name}"):
        _take_blas(engine)
    new = ctypes.pythonapi.PyCFunction_NewEx
    new.restype, new.argtypes = ctypes.py_object, [ctypes.c_void_p, ctypes.py_object, ctypes.c_void_p]
    method = _Method(name.encode(), address, _METH_FASTCALL, None)
    _kept.append((method, fallback))
    return new(ctypes.addressof(method), fallback, None)
