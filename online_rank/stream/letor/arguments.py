"""Checks of the arguments common to all readers of LETOR text; group sizes from a separate file."""

import os
from collections.abc import Sequence
from typing import Any, TypeAlias, cast

import numpy as np
import numpy.typing as npt

from online_rank import arguments
from online_rank.stream.letor.rows import LetorError, LetorPosition, RowReader
from online_rank.stream.letor.source import FileRange, Source, is_stdin
from online_rank.stream.letor.sparse import MOST_COLUMNS, Sparse, check_sparse

#: What is done with documents whose grade is negative.
NEGATIVE = ("error", "zero", "skip")

Sizes: TypeAlias = str | os.PathLike[str] | Sequence[int] | npt.NDArray[np.integer]


def row_reader(
    sources: Sequence[Source | Sequence[Source]],
    group: Any,
    start: LetorPosition,
    *,
    n_features: int | None,
    dtype: npt.DTypeLike,
    zero_based: bool,
    null: str,
    negative: str,
    on_error: str,
    sparse: Sparse,
    **options: Any,
) -> RowReader:
    """The reader of the sources, after checking the common arguments of `iter_letor` and `read_letor`."""
    files: list[Source] = []
    for source in sources:
        files.extend(source if isinstance(source, list | tuple) else [cast(Source, source)])
    if not files:
        raise ValueError("nothing to read: give at least one source")
    for file in files:
        if not (isinstance(file, str | os.PathLike | FileRange) or hasattr(file, "read")):
            raise TypeError(f"a source is a path, '-' or a file object, not {type(file).__name__}")
    arguments.integer("n_features", n_features, 1, optional=True)
    arguments.flag("zero_based", zero_based)
    if np.dtype(dtype) not in (np.dtype(np.float64), np.dtype(np.float32)):
        raise ValueError(f"dtype must be float64 or float32, not {np.dtype(dtype)}")
    arguments.choice("null", null, ("zero", "error"))
    arguments.choice("negative", negative, NEGATIVE)
    check_sparse(sparse)
    if sparse and n_features is not None and n_features > MOST_COLUMNS:
        raise ValueError(f"n_features is {n_features}; sparse rows have at most {MOST_COLUMNS}")
    arguments.choice("on_error", on_error, ("raise", "skip"))
    groups: list[Any] = [None] * len(files) if group is None else [group] if len(files) == 1 else list(group)
    if len(groups) != len(files):
        raise ValueError(f"group has {len(groups)} entries for {len(files)} sources")
    return RowReader(
        files,
        [None if sizes is None else _group_sizes(sizes) for sizes in groups],
        _find_group,
        dtype=np.dtype(dtype),
        n_features=n_features,
        zero_based=zero_based,
        null_is_zero=null == "zero",
        negative=negative,
        skip_errors=on_error == "skip",
        start=start,
        sparse=sparse,
        **options,
    )


def _find_group(source: Source) -> np.ndarray | None:
    """Sizes of the groups from the file that LightGBM would look for beside `source`."""
    if is_stdin(source) or not isinstance(source, str | os.PathLike):
        return None
    path = os.fspath(source)
    for stem in (path, path.removesuffix(".gz")):
        for suffix in (".query", ".group"):
            if os.path.exists(stem + suffix):
                return _group_sizes(stem + suffix)
    return None


def _group_sizes(sizes: Sizes) -> np.ndarray:
    """Group sizes from a file or a sequence."""
    if not isinstance(sizes, str | os.PathLike):
        array = np.asarray(sizes)
        if array.ndim != 1 or not (np.issubdtype(array.dtype, np.integer) or array.size == 0) or (array < 0).any():
            raise ValueError("group must be a path or a one-dimensional sequence of integers >= 0")
        return array.astype(np.int64)
    name = os.fspath(sizes)
    numbers = []
    with open(name, encoding="utf-8-sig", errors="backslashreplace") as file:
        for line, text in enumerate(file, start=1):
            if (token := text.strip()) and not (token.isascii() and token.isdigit() and len(token) < 19):
                raise LetorError(f"{token[:40]!r} is not the size of a group", name, line)
            if token:
                numbers.append(int(token))
    return np.array(numbers, np.int64)
