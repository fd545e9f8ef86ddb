"""The files that LightGBM and XGBoost read next to a file of documents: sizes of groups, weights and positions."""

import os
import warnings
from collections.abc import Sequence
from typing import Any, TypeAlias

import numpy as np
import numpy.typing as npt

from online_rank.limits import LEAST_WEIGHT
from online_rank.stream.source import ReadError, ReadWarning, Text, name_of, path_of

Sizes: TypeAlias = str | os.PathLike[str] | Sequence[int] | npt.NDArray[np.integer]


def next_to(source: Any, *suffixes: str) -> str | None:
    """The first file that is called as a file of documents with one of the suffixes; it may lack the suffix .gz."""
    path = path_of(source) or ""
    found = (stem + suffix for stem in dict.fromkeys((path, path.removesuffix(".gz"))) for suffix in suffixes)
    return next((file for file in found if path and os.path.exists(file)), None)


def sizes_next_to(source: Any) -> str | None:
    """The file with the sizes of groups that LightGBM would look for next to a file of documents."""
    return next_to(source, ".query", ".group")


def ends_of(sizes: Sizes) -> np.ndarray:
    """The number of documents up to the end of each group; `sizes` are a file, with one on each line, or a sequence."""
    if not isinstance(sizes, str | os.PathLike):
        array = np.asarray(sizes)
        if array.ndim != 1 or not (np.issubdtype(array.dtype, np.integer) or array.size == 0) or (array < 0).any():
            raise ValueError("group must be a path or a one-dimensional sequence of integers >= 0")
        return np.cumsum(array, dtype=np.int64)
    numbers = []
    for line, text in Text(sizes).lines():
        token = text.strip()
        if not (token.isdigit() and len(token) < 19):
            raise ReadError(f"{name_of(sizes)}, line {line}: {_shown(token)} is not the size of a group")
        numbers.append(int(token))
    return np.cumsum(numbers, dtype=np.int64)


def weights_of(file: str, ends: np.ndarray) -> np.ndarray:
    """The weight of each group (q,) in a file with a line for each group (XGBoost), or for each document (LightGBM).

    `ends` (q,) are the numbers of documents up to the end of each group. Documents of a group with different weights give it
    their mean, with a warning; an empty group has weight 1. Raises ReadError for a bad line, or another number of lines.
    """
    found, last = [], 0
    for line, text in Text(file).lines():
        found.append(_weight(file, line, text.strip()))
        last = line
    weights, n = np.array(found, np.float64), int(ends[-1]) if len(ends) else 0
    if len(weights) == len(ends):
        return weights
    if len(weights) != n:
        what = f"{len(weights):,} weights, for {n:,} documents in {len(ends):,} groups"
        raise ReadError(f"{file}, line {last}, the last one: {what}; it has a line for each document, or for each group")
    of_groups, mixed = np.ones(len(ends)), 0
    for k, group in enumerate(np.split(weights, ends[:-1])):
        if len(group):
            differ = bool((group != group[0]).any())
            # A mean of equal numbers may differ from them in the last bit.
            of_groups[k] = group.mean() if differ else group[0]
            mixed += differ
    if mixed:
        told = f"documents of one query have different weights in {mixed:,} of {len(ends):,} queries: their mean counts"
        warnings.warn(f"{file}: {told}", ReadWarning, stacklevel=7)
    return of_groups


def _weight(file: str, line: int, token: bytes) -> float:
    """The weight on a line."""
    try:
        weight = np.nan if b"_" in token else float(token)
    except ValueError:
        weight = np.nan
    if not 0.0 <= weight < np.inf:
        raise ReadError(f"{file}, line {line}: {_shown(token)} is not a weight, a finite number >= 0")
    if 0.0 < weight < LEAST_WEIGHT:
        raise ReadError(f"{file}, line {line}: the weight {_shown(token)} is below the least one, {LEAST_WEIGHT:g}")
    return weight


def _shown(token: bytes) -> str:
    return repr(token[:40].decode("utf-8", "backslashreplace"))
