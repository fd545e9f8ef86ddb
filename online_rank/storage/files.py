"""Saving and loading: one npz file with a JSON header, and nothing in it that could be executed.

A file is an uncompressed zip archive: `header.json` (format and library version, the object as a tree: class, parameters,
feature names, state) and one `.npy` member for each array, so `numpy.load` opens it too. Every member carries the zip format's
CRC-32, and the last 64 bytes, which are the archive's comment, are the SHA-256 of all that stands before them. Equal models
give equal bytes.

What can be saved: the rankers, transformers, pipelines, metrics, trackers and detectors of online_rank; river's
`utils.Rolling` around a metric; and river's `compose.{Select, Discard, Prefixer, Suffixer, Renamer, TransformerUnion}`,
`preprocessing.{StandardScaler, MinMaxScaler, MaxAbsScaler, Normalizer, FeatureHasher}` and
`feature_extraction.PolynomialExtender`. Other classes are refused when saving, and names of other classes when loading.
"""

import contextlib
import hashlib
import io
import json
import os
import secrets
import zipfile
from pathlib import Path
from typing import Any

import numpy as np

from online_rank import __version__
from online_rank.storage.objects import StateError
from online_rank.storage.tree import pack, unpack

__all__ = ["FORMAT_VERSION", "ModelFileError", "load", "save"]

#: Version of the file format that this library writes; it reads this one and all before it.
FORMAT_VERSION = 1

_FORMAT = "online_rank"
_HEADER = "header.json"
_DIGEST_SIZE = 64
_EPOCH = (1980, 1, 1, 0, 0, 0)


class ModelFileError(ValueError):
    """A file is not a model that this version of online_rank can restore; the message says what is wrong with it."""


def save(model: Any, path: str | os.PathLike[str]) -> None:
    """Write a model to a file.

    The file appears, or replaces an older one, in a single step, once all of it is on the disk: a crash at any instant leaves
    the old file or the new one.

    Parameters
    ----------
    model
        A ranker, transformer, pipeline, metric, tracker or drift detector of online_rank (see the module's documentation).
    path
        Where to write; by convention with the suffix `.npz`, which is not added.

    Raises
    ------
    TypeError
        The model contains something that is not saved; the message says what and where. Nothing is written.
    OSError
        The file cannot be written. The old one, if there is one, is as it was.

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


def load(path: str | os.PathLike[str], max_bytes: int = 1 << 30) -> Any:
    """Read a model that `save` wrote.

    Safe on files from anywhere: nothing is unpickled or executed, only the classes that the module's documentation lists are
    built, and every part of their state is checked before it is put into place.

    Parameters
    ----------
    path
        The file.
    max_bytes
        Largest file that is read. Files are not compressed, so the model takes about as much memory as the file has bytes.

    Raises
    ------
    ModelFileError
        The file is damaged, too large, no model, or from a newer version of online_rank; the message says which.
    OSError
        The file cannot be read.
    """
    name = os.fspath(path)
    with open(path, "rb") as file:
        content = file.read(max_bytes + 1)
    if len(content) > max_bytes:
        raise ModelFileError(f"{name}: larger than {max_bytes} bytes (max_bytes)")
    try:
        return from_bytes(content)
    except ModelFileError as error:
        raise ModelFileError(f"{name}: {error}") from None


def to_bytes(value: Any) -> bytes:
    """The content of a file for `value`: a model, or plain containers of models, numbers and arrays."""
    tree, arrays = pack(value)
    header = {"format": _FORMAT, "version": FORMAT_VERSION, "library": __version__, "object": tree}
    buffer = io.BytesIO()
    with zipfile.ZipFile(buffer, "w", zipfile.ZIP_STORED) as archive:
        text = json.dumps(header, ensure_ascii=True, allow_nan=False, separators=(",", ":"))
        archive.writestr(zipfile.ZipInfo(_HEADER, _EPOCH), text)
        for i, array in enumerate(arrays):
            member = io.BytesIO()
            np.lib.format.write_array(member, np.ascontiguousarray(array).reshape(array.shape), allow_pickle=False)
            archive.writestr(zipfile.ZipInfo(f"{i}.npy", _EPOCH), member.getbuffer())
        archive.comment = b"0" * _DIGEST_SIZE
    content = buffer.getvalue()[:-_DIGEST_SIZE]
    return content + hashlib.sha256(content).hexdigest().encode()


def from_bytes(content: bytes) -> Any:
    """What `to_bytes` made `content` of. Raises ModelFileError."""
    body, digest = content[:-_DIGEST_SIZE], content[-_DIGEST_SIZE:]
    if not body.startswith(b"PK\x03\x04"):
        raise ModelFileError("not a model file of online_rank" if content else "the file is empty")
    if hashlib.sha256(body).hexdigest().encode() != digest:
        raise ModelFileError("the file is damaged or cut short (its checksum is wrong), or was not written by online_rank")
    try:
        with zipfile.ZipFile(io.BytesIO(content)) as archive:
            header = _read_header(archive)
            members = archive.infolist()[1:]
            if [member.filename for member in members] != [f"{i}.npy" for i in range(len(members))]:
                raise ModelFileError("its members are not a header and numbered arrays")
            arrays = [_read_array(archive, member) for member in members]
    except (zipfile.BadZipFile, OSError, EOFError, NotImplementedError, RuntimeError, LookupError, UnicodeDecodeError) as error:
        raise ModelFileError(f"the archive is malformed: {error}") from None
    try:
        return unpack(header["object"], arrays)
    except StateError as error:
        raise ModelFileError(str(error)) from None


def _read_member(archive: zipfile.ZipFile, member: zipfile.ZipInfo) -> bytes:
    # A stored member is as large as its bytes in the file: a small file cannot claim to hold a large array.
    if member.compress_type != zipfile.ZIP_STORED or member.file_size != member.compress_size:
        raise ModelFileError(f"its member {member.filename[:40]!r} is compressed; model files are not")
    return archive.read(member)


def _read_header(archive: zipfile.ZipFile) -> dict[str, Any]:
    members = archive.infolist()
    if not members or members[0].filename != _HEADER:
        raise ModelFileError("it has no header, so it is not a model file of online_rank")
    try:
        header = json.loads(_read_member(archive, members[0]), parse_constant=_refuse_constant)
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
        library = str(header.get("library"))[:20]
        raise ModelFileError(
            f"format version {version} was written by online_rank {library}; this is online_rank {__version__}, which reads "
            f"versions up to {FORMAT_VERSION}: upgrade online_rank"
        )
    return header


def _refuse_constant(name: str) -> Any:
    raise ValueError(f"{name} is not a JSON number")


def _read_array(archive: zipfile.ZipFile, member: zipfile.ZipInfo) -> np.ndarray:
    data = io.BytesIO(_read_member(archive, member))
    try:
        np.lib.format.read_magic(data)
        shape, fortran, dtype = np.lib.format.read_array_header_1_0(data)
    except (ValueError, TypeError, SyntaxError, RecursionError, MemoryError) as error:
        raise ModelFileError(f"its array {member.filename} has no valid header: {error}") from None
    start = data.tell()
    if fortran or dtype.kind not in "biuf":
        raise ModelFileError(f"its array {member.filename} has dtype {dtype}, which is not one of numbers")
    if any(type(n) is not int or n < 0 for n in shape) or len(shape) > 32:
        raise ModelFileError(f"its array {member.filename} has an impossible shape")
    count = 1
    for n in shape:
        count *= n
    if count * dtype.itemsize != member.file_size - start:
        raise ModelFileError(f"its array {member.filename} declares {shape} {dtype}, which is not what the file holds")
    return np.frombuffer(data.getbuffer()[start:], dtype).reshape(shape).copy()


def write_atomically(path: str | os.PathLike[str], content: bytes) -> None:
    """Write a file so that a crash at any instant leaves the old content or the new one, on the disk."""
    target = Path(os.path.realpath(path))
    temporary = target.with_name(f".{target.name}.{secrets.token_hex(8)}.tmp")
    try:
        with open(temporary, "xb") as file:
            file.write(content)
            file.flush()
            os.fsync(file.fileno())
        os.replace(temporary, target)
    except BaseException as error:
        with contextlib.suppress(OSError):
            temporary.unlink()
        if isinstance(error, OSError) and error.errno is not None:
            # The name of the temporary file would say nothing to anybody.
            raise OSError(error.errno, error.strerror, str(target)) from None
        raise
    sync_directory(target.parent)


def sync_directory(directory: Path) -> None:
    """Make the names in a directory durable, where the system can."""
    if os.name == "nt":
        return
    handle = os.open(directory, os.O_RDONLY)
    try:
        os.fsync(handle)
    finally:
        os.close(handle)
