"""Finds distinct names, and looks names up, by 104 bits of a hash, in tables with linear probing.

A dict of a million names has four cache misses in each look-up, one after the other: 0.6 µs. Here a name takes one cache line,
and the names of a query are looked up together, so that the misses overlap.

The hash is SipHash-1-3 with an output of 128 bits (Aumasson & Bernstein 2012) and a secret key of 128 bits. Who does not
know the key cannot prepare names that meet in one slot or in one column; no stored data depends on it. The chance that
any two of n names have the same 104 bits is about n^2 / 2^105, 10^-17 for 16 million names, whoever chooses them. So hashes
are compared, and not the names.
"""

import numpy as np

from online_rank._kernels._jit import kernel, leaf
from online_rank._kernels.fits import require
from online_rank._kernels.hashing import SEPARATOR

# A row of a table: the first half of a hash, and 40 bits of the second with the column in the lowest 24.
_FIRST, _SECOND = range(2)
_BITS = np.int64(24)
_COLUMN = np.int64((1 << 24) - 1)
_EMPTY = np.int64(-1)
_REMOVED = np.int64(-2)

# Number of names looked up together.
_TOGETHER = 64


@leaf
def _rotated(x, n):
    return (x << n) | (x >> (np.uint64(64) - n))


@leaf
def _round(a, b, c, d):
    a, c = a + b, c + d
    b, d = _rotated(b, np.uint64(13)) ^ a, _rotated(d, np.uint64(16)) ^ c
    a, c = _rotated(a, np.uint64(32)) + d, c + b
    return a, _rotated(b, np.uint64(17)) ^ c, _rotated(c, np.uint64(32)), _rotated(d, np.uint64(21)) ^ a


@leaf
def _siphash(text, start, stop, low, high):
    """The two halves of the hash of the bytes start:stop of a text, by a key of two halves."""
    a, b = low ^ np.uint64(0x736F6D6570736575), high ^ np.uint64(0x646F72616E646F6D) ^ np.uint64(0xEE)
    c, d = low ^ np.uint64(0x6C7967656E657261), high ^ np.uint64(0x7465646279746573)
    word, length = np.uint64(0), np.uint64(stop - start)
    for at in range(start, stop):
        place = np.uint64(at - start) & np.uint64(7)
        word |= np.uint64(text[at]) << (place << np.uint64(3))
        if place == np.uint64(7):
            a, b, c, d = _round(a, b, c, d ^ word)
            a, word = a ^ word, np.uint64(0)
    word |= length << np.uint64(56)
    a, b, c, d = _round(a, b, c, d ^ word)
    a, c = a ^ word, c ^ np.uint64(0xEE)
    for _ in range(3):
        a, b, c, d = _round(a, b, c, d)
    first, b = a ^ b ^ c ^ d, b ^ np.uint64(0xDD)
    for _ in range(3):
        a, b, c, d = _round(a, b, c, d)
    return first, a ^ b ^ c ^ d


@kernel
def hash_texts(text, key, hashes):
    """Write the two halves of the hash of each of n names.

    Parameters
    ----------
    text : uint8, n names with a `SEPARATOR` between each two
    key : (2,) uint64
    hashes : (n, 2) out, int64
    """
    require(hashes.shape[1] == 2 and key.shape[0] == 2)
    start = 0
    for i in range(hashes.shape[0]):
        stop = start
        while stop < text.shape[0] and text[stop] != SEPARATOR:
            stop += 1
        g, h = _siphash(text, start, stop, key[0], key[1])
        hashes[i, 0], hashes[i, 1] = np.int64(g), np.int64(h)
        start = stop + 1


@kernel
def number_names(hashes, columns, first):
    """Number the distinct names among n in order of first appearance.

    Parameters
    ----------
    hashes : (n, 2); the hashes of distinct names are moved to the front
    columns : (n,) out, int32: the number of each name
    first : (n,) out, int64: the first position of each distinct name

    Returns
    -------
    The number of distinct names.
    """
    n = hashes.shape[0]
    require(hashes.shape[1] == 2 and columns.shape[0] >= n and first.shape[0] >= n)
    size = 2
    while size < 2 * n:
        size *= 2
    table, mask = np.full(size, -1, dtype=np.int32), size - 1
    found = 0
    for i in range(n):
        g, h = hashes[i, 0], hashes[i, 1]
        k = g & mask
        while table[k] >= 0 and not (hashes[table[k], 0] == g and (hashes[table[k], 1] ^ h) >> _BITS == 0):
            k = (k + 1) & mask
        if table[k] < 0:
            table[k] = found
            hashes[found, 0], hashes[found, 1], first[found] = g, h, i
            found += 1
        columns[i] = table[k]
    return found


@leaf
def _require_table(hashes, table):
    """Require hashes of names, and a table whose length is a power of 2."""
    size = table.shape[0]
    require(hashes.shape[1] == 2 and table.shape[1] == 2 and size > 0 and size & (size - 1) == 0)


@leaf
def _place(table, g, h):
    """The slot of a name in a table, or the empty slot where it would go."""
    mask = table.shape[0] - 1
    k = g & mask
    while table[k, _SECOND] != _EMPTY and not (table[k, _FIRST] == g and (table[k, _SECOND] ^ h) >> _BITS == 0):
        k = (k + 1) & mask
    return k


@kernel
def find_names(hashes, table, columns):
    """Write the column of each of n names in a table to `columns`, int64; -1 for unknown names."""
    require(hashes.shape[0] >= columns.shape[0])
    _require_table(hashes, table)
    n, mask = columns.shape[0], table.shape[0] - 1
    for start in range(0, n, _TOGETHER):
        stop = min(start + _TOGETHER, n)
        # Without branches many reads overlap; they load the cache lines that the second loop needs.
        for i in range(start, stop):
            columns[i] = table[hashes[i, 0] & mask, _SECOND]
        for i in range(start, stop):
            second = columns[i]
            if (second ^ hashes[i, 1]) >> _BITS or table[hashes[i, 0] & mask, _FIRST] != hashes[i, 0]:
                second = table[_place(table, hashes[i, 0], hashes[i, 1]), _SECOND]
            columns[i] = _EMPTY if second == _EMPTY else second & _COLUMN


@kernel
def add_names(hashes, first, table):
    """Insert n names into a table, which has room, as the columns `first:first + n`."""
    _require_table(hashes, table)
    require(first >= 0)
    for i in range(hashes.shape[0]):
        k = _place(table, hashes[i, 0], hashes[i, 1])
        table[k, _FIRST] = hashes[i, 0]
        table[k, _SECOND] = (hashes[i, 1] & ~_COLUMN) | (first + i)


@kernel
def remove_names(hashes, table):
    """Remove names from a table; their slots stay occupied."""
    _require_table(hashes, table)
    for i in range(hashes.shape[0]):
        k = _place(table, hashes[i, 0], hashes[i, 1])
        if table[k, _SECOND] != _EMPTY:
            table[k, _FIRST], table[k, _SECOND] = 0, _REMOVED


@kernel
def move_names(table, larger):
    """Insert all names of a table into a larger, empty one. Returns their number."""
    require(table.shape[1] == 2)
    _require_table(table, larger)
    n = 0
    for k in range(table.shape[0]):
        if table[k, _SECOND] != _EMPTY and table[k, _SECOND] != _REMOVED:
            place = _place(larger, table[k, _FIRST], table[k, _SECOND])
            larger[place, _FIRST], larger[place, _SECOND] = table[k, _FIRST], table[k, _SECOND]
            n += 1
    return n
