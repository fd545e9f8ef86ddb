"""Saving and loading models: one npz file with a JSON header and no executable content.

A file is an uncompressed zip archive (`online_rank.storage.archive`): `header.json` (format and library version, the object as
a tree: class, parameters, state) and one `.npy` member for each array, so `numpy.load` opens it too. The last 64 bytes are the
SHA-256 of everything before them. Equal models give equal bytes.

What can be saved: the rankers, transformers, pipelines, metrics, trackers and detectors of online_rank, and those classes of
river that `online_rank.storage.river_classes.RIVER` lists, `utils.Rolling` around a metric among them; and classes and
functions of users that `online_rank.register` has named: a file holds the name, the arguments of the constructor and the
declared state. Others are refused when saving, and unknown names when loading.
"""

import contextlib
import errno
import io
import json
import math
import os
import secrets
import stat
import warnings
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import numpy as np

from online_rank import __version__, arguments
from online_rank.base.anatomy import parts_of, steps_of
from online_rank.base.schema import StateError
from online_rank.limits import FORMAT_VERSION
from online_rank.preprocessing._columns import ColumnTransformer
from online_rank.storage.archive import ModelFileError, read_archive, write_archive
from online_rank.storage.tree import pack, unpack

_FORMAT = "online_rank"
#: How the addresses of PostgreSQL databases begin.
SCHEMES = ("postgresql://", "postgres://")
_HEADER = "header.json"

#: Memory that a header may take, in addition to four times the size of the file.
_HEADER_ROOM = 32 << 20

#: Largest size of the header of an array.
_NPY_HEADER = 10_240


def save(model: Any, path: str | os.PathLike[str]) -> None:
    """Write a model to a file.

    The file appears, or replaces an older one, in a single step, once all of it is on the disk: a crash leaves either the old
    file or the new one.

    Parameters
    ----------
    model
        A ranker, transformer, pipeline, metric or tracker of online_rank (see the module's documentation).
    path
        The path, by convention with the suffix `.npz`, which is not added automatically.

    Raises
    ------
    TypeError
        The model contains an object that cannot be saved; the message names it. Nothing is written.
    OSError
        The file cannot be written. An existing file is unchanged.

    Examples
    --------
    >>> import tempfile, os
    >>> from online_rank import PerceptronRanker, load, save
    >>> model = PerceptronRanker(measure="ndcg@5")
    >>> model.learn_one([[1.0, 0.0], [0.0, 1.0]], [0, 1])
    >>> path = os.path.join(tempfile.mkdtemp(), "model.npz")
    >>> save(model, path)
    >>> load(path).predict_one([[3.0, 1.0]]) == model.predict_one([[3.0, 1.0]])
    True
    """
    if not isinstance(path, str | os.PathLike):
        raise TypeError(f"path is of type {type(path).__name__}; the call is save(model, path)")
    write_atomically(path, to_bytes(model))


def load(path: str | os.PathLike[str], *, max_bytes: int = 1 << 30) -> Any:
    """Read a model that `save` wrote.

    It is safe for untrusted files: nothing is unpickled or executed, only the classes listed in the module's documentation are
    built, and every part of their state is checked first.

    Parameters
    ----------
    path
        The file.
    max_bytes
        Largest file to read. Files are not compressed, so the model takes about as much memory as the file.

    Raises
    ------
    ModelFileError
        The file is damaged, too large, not a model, or from a newer version of online_rank; the message says which.
    OSError
        The file cannot be read.
    """
    arguments.integer("max_bytes", max_bytes, 0)
    name = os.fspath(path)
    pieces, left = [], max_bytes + 1
    with open(path, "rb") as file:
        # `read(left)` would take the memory of the largest file.
        at_once = os.fstat(file.fileno()).st_size + 4096
        while piece := file.read(min(left, at_once)):
            pieces.append(piece)
            left -= len(piece)
    content = b"".join(pieces)
    if len(content) > max_bytes:
        raise ModelFileError(f"{name}: larger than {max_bytes} bytes (max_bytes)")
    try:
        return from_bytes(content)
    except ModelFileError as error:
        raise ModelFileError(f"{name}: {error}") from error.__cause__


def to_bytes(value: Any) -> bytes:
    """The content of a file for `value`: a model, or plain containers of models, numbers and arrays."""
    with contextlib.ExitStack() as held:
        header, arrays = described(value, held)
        return write_archive([(_HEADER, header), *((f"{i}.npy", *_npy(array)) for i, array in enumerate(arrays))])


def _npy(array: np.ndarray) -> tuple[bytes, memoryview]:
    """The header of an array in a file of numpy, and its numbers, which are copied only if they do not lie in this order."""
    whole, header = np.ascontiguousarray(array).reshape(array.shape), io.BytesIO()
    np.lib.format.write_array_header_1_0(header, np.lib.format.header_data_from_array_1_0(whole))
    return header.getvalue(), whole.reshape(-1).view(np.uint8).data


@contextlib.contextmanager
def _faults_of_files() -> Iterator[None]:
    """Raise all that goes wrong as ModelFileError: what reads a file of somebody else may fail in any way."""
    try:
        yield
    except ModelFileError:
        raise
    except StateError as error:
        raise ModelFileError(str(error)) from None
    except MemoryError:
        raise ModelFileError("the model needs more memory than there is") from None
    except Exception as error:
        raise ModelFileError(f"it cannot be read: {type(error).__name__}: {error}") from error


@_faults_of_files()
def from_bytes(content: bytes) -> Any:
    """The inverse of `to_bytes`. Raises ModelFileError."""
    members = read_archive(content)
    if not members or members[0][0] != _HEADER:
        raise ModelFileError("it has no header, so it is not a model file of online_rank")
    if [name for name, _ in members[1:]] != [f"{i}.npy" for i in range(len(members) - 1)]:
        raise ModelFileError("its members are not a header and numbered arrays")
    _require_readable(members[0][1], len(content))
    value = restored(bytes(members[0][1]), [_read_array(name, data) for name, data in members[1:]])
    if hasattr(value, "rank_one") and getattr(steps_of(value)[-1], "_is_ranker", True):
        _require_agreement(value)
    return value


def _require_agreement(model: Any) -> None:
    """Raise ModelFileError if parts of a model do not fit one another: it ranks once, documents of which nothing is known.

    A step in front of a ranker that makes other features of documents may refuse such documents: then the ranker ranks alone.
    """
    *front, ranker = steps_of(model)
    is_plain = all(isinstance(step, ColumnTransformer) for step in front)
    failed = _fault_of(model, is_plain)
    if failed is not None and not is_plain:
        failed = _fault_of(ranker, False)
    if failed is not None:
        raise ModelFileError(f"its parts do not fit one another, and it cannot rank: {failed or type(failed).__name__}")


def _fault_of(model: Any, is_plain: bool) -> Exception | None:
    """Why a model ranks neither documents without features, nor an array of the width that its first part knows.

    A plain model, whose steps all take the columns that the first one takes, ranks the form in which that one has learned.
    """
    first = next((part for part in parts_of(model) if getattr(part, "n_features", None)), None)
    if first is None:
        return None
    failed: Exception | None = None
    queries: list[Any] = [{"a": {}, "b": {}}, np.zeros((2, first.n_features))]
    if is_plain and hasattr(first, "_columns"):
        queries = queries[:1] if first._columns else queries[1:]
    for query in queries:
        try:
            with warnings.catch_warnings():
                warnings.simplefilter("ignore")
                model.rank_one(query)
        except MemoryError:
            raise
        except Exception as error:
            failed = failed or error
        else:
            return None
    return failed


def described(value: Any, held: contextlib.ExitStack, checked: bool = True) -> tuple[bytes, list[np.ndarray]]:
    """A value as a JSON header and arrays, which are not copies: the locks of its models are `held` (see `pack`).

    Raises TypeError for objects that cannot be saved, and ModelFileError for values that could not be read back.
    """
    tree, arrays, pooled = pack(value, held, checked)
    header = {"format": _FORMAT, "version": FORMAT_VERSION, "library": __version__, "strings": pooled, "object": tree}
    text = json.dumps(header, ensure_ascii=True, allow_nan=False, separators=(",", ":")).encode()
    _require_readable(text, len(text) + sum(array.nbytes for array in arrays))
    return text, arrays


@_faults_of_files()
def restored(header: bytes, arrays: list[np.ndarray]) -> Any:
    """The inverse of `described`. Raises ModelFileError."""
    fields = _read_header(header)
    try:
        return unpack(fields["object"], arrays, fields.get("strings") is True)
    except StateError as error:
        raise ModelFileError(f"{error} (online_rank {_writer(fields)} wrote it; this is {__version__})") from None


def _writer(header: dict[str, Any]) -> str:
    """The version that wrote a file, as its header says."""
    return f"{header.get('library')!s:.20}"


def _require_readable(header: bytes | memoryview, size: int) -> None:
    """Raise ModelFileError for a header that would take much more memory than the size of the file."""
    if _parsed_size(bytes(header)) > _HEADER_ROOM + 4 * size:
        raise ModelFileError("its header has more parts than a model file of its size can have")


def _read_header(text: bytes) -> dict[str, Any]:
    try:
        header = json.loads(text.decode("ascii"), parse_constant=_refuse_constant)
    except RecursionError:
        raise ModelFileError("its header is nested too deeply") from None
    except ValueError as error:
        raise ModelFileError(f"its header is not valid JSON: {error}") from None
    if not isinstance(header, dict) or header.get("format") != _FORMAT or "object" not in header:
        raise ModelFileError("its header is not one of online_rank")
    version = header.get("version")
    if type(version) is not int or version < 1:
        raise ModelFileError("its header has no format version")
    if version > FORMAT_VERSION:
        raise ModelFileError(
            f"format version {version} was written by online_rank {_writer(header)}; this is online_rank {__version__}, which "
            f"reads versions up to {FORMAT_VERSION}: upgrade online_rank",
            later=True,
        )
    return header


def _parsed_size(text: bytes) -> int:
    """Approximate upper bound on the memory of the parsed JSON and its value, in bytes."""
    containers, items, strings = text.count(b"[") + text.count(b"{"), text.count(b","), text.count(b'"') // 2
    return 2 * (72 * containers + 40 * items + 64 * strings) + 2 * len(text)


def _refuse_constant(name: str) -> Any:
    raise ValueError(f"{name} is not a JSON number")


def _read_array(name: str, member: memoryview) -> np.ndarray:
    data = io.BytesIO(member[:_NPY_HEADER])
    try:
        np.lib.format.read_magic(data)
        shape, fortran, dtype = np.lib.format.read_array_header_1_0(data)
    except Exception as error:  # numpy evaluates the header as Python's tokenizer and parser do, and raises what they raise.
        raise ModelFileError(f"its array {name} has no valid header: {error}") from error
    start = data.tell()
    if fortran or dtype.kind not in "biuf":
        raise ModelFileError(f"its array {name} has dtype {dtype}, which is not one of numbers")
    if any(type(n) is not int or n < 0 for n in shape) or len(shape) > 32:
        raise ModelFileError(f"its array {name} has an impossible shape")
    if math.prod(shape) * dtype.itemsize != len(member) - start:
        raise ModelFileError(f"its array {name} declares {shape} {dtype}, which is not what the file holds")
    try:
        return np.frombuffer(member[start:], dtype).reshape(shape).copy()
    except ValueError:  # One of its sizes is 0, and another beyond all arrays.
        raise ModelFileError(f"its array {name} has an impossible shape") from None


def write_atomically(path: str | os.PathLike[str], content: bytes, mode: int | None = None) -> None:
    """Write a file so that a crash leaves either the old or the new content on the disk.

    The file gets `mode`. Without it an existing file keeps its permissions, and the umask limits the permissions of a new one.
    Anything but a regular file, such as a device, is never replaced: OSError.
    """
    target = Path(os.path.realpath(path))
    require_replaceable(target)
    if mode is None:
        with contextlib.suppress(FileNotFoundError):
            mode = stat.S_IMODE(os.stat(target).st_mode)
    with replaced(target, mode) as temporary:
        temporary.write_bytes(content)


@contextlib.contextmanager
def replaced(target: Path, mode: int | None = 0o600) -> Iterator[Path]:
    """An empty file with this mode next to `target`, which it replaces at the end, once all of it is on the disk.

    After an error it is removed, and `target` is as it was.
    """
    temporary = target.with_name(f".{target.name}.{secrets.token_hex(8)}.tmp")
    try:
        file = os.open(temporary, os.O_WRONLY | os.O_CREAT | os.O_EXCL, 0o666 if mode is None else 0o600)
        try:
            if mode is not None:
                os.fchmod(file, mode)
            yield temporary
            os.fsync(file)
        finally:
            os.close(file)
        os.replace(temporary, target)
    except BaseException as error:
        with contextlib.suppress(OSError):
            temporary.unlink()
        if isinstance(error, OSError) and error.errno is not None and error.filename in (None, str(temporary), temporary):
            # The name of the temporary file would mean nothing to the user.
            raise OSError(error.errno, error.strerror, str(target)) from None
        raise
    sync_directory(target.parent)


def require_replaceable(path: str | os.PathLike[str]) -> None:
    """Raise OSError if a file cannot be written there: the directory is missing, or a device or a directory is in its place."""
    target = Path(os.path.realpath(path))
    try:
        if not stat.S_ISREG(mode := os.stat(target).st_mode):
            code = errno.EISDIR if stat.S_ISDIR(mode) else errno.EINVAL
            raise OSError(code, "not a regular file, so it is not replaced", str(path))
    except FileNotFoundError:
        if not target.parent.is_dir():
            raise OSError(errno.ENOENT, f"there is no directory {target.parent}", str(path)) from None


def sync_directory(directory: str | os.PathLike[str]) -> None:
    """Make the names in a directory durable, if the system supports it."""
    if os.name == "nt":
        return
    handle = os.open(directory, os.O_RDONLY)
    try:
        os.fsync(handle)
    finally:
        os.close(handle)


def is_postgres(place: Any) -> bool:
    """Whether a place is the address of a PostgreSQL database."""
    return isinstance(place, str) and place.startswith(SCHEMES)
