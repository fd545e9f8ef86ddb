"""Hashes: of names, to columns and signs; and of counters, to random numbers.

A name's bytes are hashed by FNV-1a with 64 bits, finished by murmur's mixer.

FNV-1a: h <- (h xor byte) prime, for each byte, from a fixed offset. Its low bits are poorly mixed, so MurmurHash3's fmix64
follows. The lowest bits are the column, the highest is the sign (Weinberger, Dasgupta, Langford, Smola & Attenberg
2009).
"""

import numpy as np

from online_rank._kernels._jit import kernel, leaf
from online_rank._kernels.fits import require

OFFSET = np.uint64(0xCBF29CE484222325)
_PRIME = np.uint64(0x100000001B3)
_FIRST_FACTOR = np.uint64(0xFF51AFD7ED558CCD)
_SECOND_FACTOR = np.uint64(0xC4CEB9FE1A85EC53)
_SHIFT = np.uint64(33)
_TOP = np.uint64(63)
_WEYL = np.uint64(0x9E3779B97F4A7C15)

#: The byte between two names.
SEPARATOR = ord("\n")


@leaf
def with_byte(h, byte):
    """The unfinished hash with one more byte."""
    return (h ^ np.uint64(byte)) * _PRIME


@leaf
def finished(h):
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
        h = OFFSET
        while at < text.shape[0] and text[at] != SEPARATOR:
            h = with_byte(h, text[at])
            at += 1
        at += 1
        h = finished(h)
        columns[i] = np.int32(h & mask)
        if h >> _TOP:
            values[i] = -values[i]


@leaf
def mixed(z):
    """The finaliser of SplitMix64 (Steele, Lea & Flood 2014): a hash of 64 bits."""
    z = (z ^ (z >> np.uint64(30))) * np.uint64(0xBF58476D1CE4E5B9)
    z = (z ^ (z >> np.uint64(27))) * np.uint64(0x94D049BB133111EB)
    return z ^ (z >> np.uint64(31))


@leaf
def uniform(key, number):
    """A number in [0, 1) that depends only on `key` and `number`: SplitMix64's output function."""
    return np.float64(mixed(key + np.uint64(number) * _WEYL) >> np.uint64(11)) * 2.0**-53


@kernel
def draws(seed, first, out):
    """Uniform numbers in [0, 1): that number n follows from `seed` and n alone; out (k,) gets those from `first` on."""
    key = mixed(np.uint64(seed))
    for i in range(out.shape[0]):
        out[i] = uniform(key, first + i)
