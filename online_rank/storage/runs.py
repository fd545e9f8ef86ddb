"""Large arrays of long runs of equal numbers, in files: each run as its length and its number.

Behind `HashedFeatures` most numbers are zero, and the queries of which trees grow have one level of a category each.
"""

import math
from typing import Any

import numpy as np

from online_rank.base.schema import StateError
from online_rank.limits import is_integer

#: The fewest bytes of an array that is looked through, and the largest share of them that its runs may take.
_LARGE, _SHARE = 1 << 16, 0.25
#: How many times as many bytes as a file has for an array may be other than 0.
_TIMES = 64
#: The most bytes of the arrays of a file that are made of runs: what the largest model of hashed features takes.
MOST_BYTES = 1 << 29


def as_runs(array: np.ndarray) -> tuple[np.ndarray, np.ndarray] | None:
    """The lengths of the runs of equal bits of an array, as small unsigned integers, and their numbers; None to keep it whole.

    Examples
    --------
    >>> array = np.zeros(2**14)
    >>> array[[3, 4]] = 7.0
    >>> as_runs(array)
    (array([    3,     2, 16379], dtype=uint16), array([0., 7., 0.]))
    >>> as_runs(array[:100]) is None
    True
    """
    if array.nbytes < _LARGE or array.itemsize not in (1, 2, 4, 8):
        return None
    flat = np.ascontiguousarray(array).reshape(-1)
    bits = flat.view(f"u{array.itemsize}")
    begins = bits[1:] != bits[:-1]
    # A run takes a byte for its length at least: most arrays are long settled by counting.
    if np.count_nonzero(begins) * (1 + array.itemsize) > _SHARE * array.nbytes:
        return None
    starts = np.append(0, np.flatnonzero(begins) + 1)
    lengths = np.diff(starts, append=len(bits))
    lengths = lengths.astype(np.min_scalar_type(lengths.max()))
    n_bytes = lengths.nbytes + len(lengths) * array.itemsize
    is_small = n_bytes <= _SHARE * array.nbytes
    if not is_small or np.count_nonzero(bits) * array.itemsize > _TIMES * n_bytes:
        return None
    return lengths, flat[starts]


def of_runs(lengths: np.ndarray, numbers: np.ndarray, shape: Any, left: int, where: str) -> np.ndarray:
    """The inverse of `as_runs`, of at most `left` bytes. Raises StateError if the parts do not fit together."""
    if type(shape) is not list or not 0 < len(shape) <= 32 or not all(is_integer(n, 1) for n in shape):
        raise StateError(f"{where} is an array of an impossible shape")
    size = math.prod(shape)
    if size * numbers.itemsize > left:
        raise StateError(f"{where} takes more memory than models of hashed features do")
    fits = lengths.dtype.kind == "u" and lengths.itemsize <= 4 and lengths.ndim == numbers.ndim == 1
    if not fits or len(lengths) != len(numbers) or int(lengths.sum(dtype=np.uint64)) != size:
        raise StateError(f"{where} has runs of impossible lengths")
    # Memory that stays 0 is not touched.
    array, ends = np.zeros(size, numbers.dtype), np.cumsum(lengths, dtype=np.int64)
    other = numbers.view(f"u{numbers.itemsize}") != 0
    long = lengths[other].astype(np.int64)
    if (n := int(long.sum())) * numbers.itemsize > _TIMES * (lengths.nbytes + numbers.nbytes):
        raise StateError(f"{where} takes much more memory than the file has bytes")
    first = ends[other] - np.cumsum(long)
    array[np.repeat(first, long) + np.arange(n)] = np.repeat(numbers[other], long)
    return array.reshape(shape)
