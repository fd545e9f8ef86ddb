"""Names to columns and signs, by the bytes of a name: FNV-1a with 64 bits, finished by murmur's mixer.

FNV-1a: h <- (h xor byte) prime, for each byte, from a fixed offset. Its low bits are poorly mixed, so MurmurHash3's fmix64
follows. The lowest bits are the column, the highest is the sign (Weinberger, Dasgupta, Langford, Smola & Attenberg
2009).
"""

import numpy as np

from online_rank._kernels._jit import kernel, leaf
from online_rank._kernels.fits import require

_OFFSET = np.uint64(0xCBF29CE484222325)
_PRIME = np.uint64(0x100000001B3)
_FIRST_FACTOR = np.uint64(0xFF51AFD7ED558CCD)
_SECOND_FACTOR = np.uint64(0xC4CEB9FE1A85EC53)
_SHIFT = np.uint64(33)
_TOP = np.uint64(63)

#: The byte between two names.
SEPARATOR = ord("\n")


@leaf
def begin(seed):
    """The hash of no bytes, unfinished. A `seed` other than 0 gives another hash function."""
    return _OFFSET ^ seed


@leaf
def mix(h, byte):
    """The unfinished hash with one more byte."""
    return (h ^ np.uint64(byte)) * _PRIME


@leaf
def finish(h):
    """The hash, uint64, of an unfinished one."""
    h = (h ^ (h >> _SHIFT)) * _FIRST_FACTOR
    h = (h ^ (h >> _SHIFT)) * _SECOND_FACTOR
    return h ^ (h >> _SHIFT)


@kernel
def hash_names(text, bits, columns, values):
    """Write the column of each of n names, and negate its value if its sign is negative.

    Parameters
    ----------
    text : uint8, n names with a `SEPARATOR` between each two
    bits : columns are 0 .. 2^bits - 1
    columns : (n,) out, int32
    values : (n,) changed in place
    """
    require(0 <= bits <= 31 and values.shape[0] >= columns.shape[0])
    mask = (np.uint64(1) << np.uint64(bits)) - np.uint64(1)
    at = 0
    for i in range(columns.shape[0]):
        h = begin(np.uint64(0))
        while at < text.shape[0] and text[at] != SEPARATOR:
            h = mix(h, text[at])
            at += 1
        at += 1
        h = finish(h)
        columns[i] = np.int32(h & mask)
        if h >> _TOP:
            values[i] = -values[i]
