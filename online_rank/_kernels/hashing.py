"""Names to columns and signs, by the bytes of a name: FNV-1a with 64 bits, finished by murmur's mixer.

FNV-1a: h <- (h xor byte) prime, for each byte, from a fixed offset. Its low bits alone are poorly mixed, so MurmurHash3's
fmix64 follows. The lowest bits are the column, the highest is the sign (Weinberger, Dasgupta, Langford, Smola & Attenberg
2009).
"""

import numpy as np

from online_rank._kernels._jit import kernel

_OFFSET = np.uint64(0xCBF29CE484222325)
_PRIME = np.uint64(0x100000001B3)
_FIRST_FACTOR = np.uint64(0xFF51AFD7ED558CCD)
_SECOND_FACTOR = np.uint64(0xC4CEB9FE1A85EC53)
_SHIFT = np.uint64(33)
_TOP = np.uint64(63)

#: The byte between two names.
SEPARATOR = ord("\n")


@kernel
def hash_names(text, bits, columns, values):
    """Write the column of each of n names, and negate its value where its sign is negative.

    Parameters
    ----------
    text : uint8, n names with a `SEPARATOR` between each two
    bits : columns are 0 .. 2^bits - 1
    columns : (n,) out, int32
    values : (n,) changed in place
    """
    mask = (np.uint64(1) << np.uint64(bits)) - np.uint64(1)
    at = 0
    for i in range(columns.shape[0]):
        h = _OFFSET
        while at < text.shape[0] and text[at] != SEPARATOR:
            h = (h ^ np.uint64(text[at])) * _PRIME
            at += 1
        at += 1
        h = (h ^ (h >> _SHIFT)) * _FIRST_FACTOR
        h = (h ^ (h >> _SHIFT)) * _SECOND_FACTOR
        h ^= h >> _SHIFT
        columns[i] = np.int32(h & mask)
        if h >> _TOP:
            values[i] = -values[i]
