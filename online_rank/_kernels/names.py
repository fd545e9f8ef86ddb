"""Finds distinct names, and looks names up, by 104 bits of a hash, in tables with linear probing.

A dict of a million names has four cache misses in each look-up, one after the other: 0.6 µs. Here a name takes one cache line,
and the names of a query are looked up together, so that the misses overlap.

The hash is FNV-1a (`hashing`) twice, with two secret seeds; no stored data depends on it. The chance that any two of n
names have the same 104 bits is about n^2 / 2^105: 10^-17 for 16 million names.
"""

import numpy as np

from online_rank._kernels._jit import kernel, leaf
from online_rank._kernels.fits import require
from online_rank._kernels.hashing import SEPARATOR, begin, finish, mix

# A row of a table: the first half of a hash, and 40 bits of the second with the column in the lowest 24.
_FIRST, _SECOND = range(2)
_BITS = np.int64(24)
_COLUMN = np.int64((1 << 24) - 1)
_EMPTY = np.int64(-1)
_REMOVED = np.int64(-2)

# Number of names looked up together.
_TOGETHER = 64


@kernel
def hash_texts(text, seeds, hashes):
    """Write the two halves of the hash of each of n names.

    Parameters
    ----------
    text : uint8, n names with a `SEPARATOR` between each two
    seeds : (2,) uint64
    hashes : (n, 2) out, int64
    """
    require(hashes.shape[1] == 2 and seeds.shape[0] == 2)
    at = 0
    for i in range(hashes.shape[0]):
        g, h = begin(seeds[0]), begin(seeds[1])
        while at < text.shape[0] and text[at] != SEPARATOR:
            g, h = mix(g, text[at]), mix(h, text[at])
            at += 1
        at += 1
        hashes[i, 0], hashes[i, 1] = np.int64(finish(g)), np.int64(finish(h))


@kernel
def number_names(hashes, columns, first):
    """Number the distinct names among n in order of first appearance.

    Parameters
    ----------
    hashes : (n, 2); those of the distinct names are moved to the front
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
