"""Sorting into a workspace, stable and by descending score; and a bound that leaves little to sort for the best k.

No branch of a loop that sorts depends on a score: in random order such branches are mispredicted, which costs more than all
else.
"""

import numpy as np

from online_rank._kernels._jit import kernel

# Runs of this length are sorted by counting before they are merged.
_RUN = 32


@kernel
def sort_descending(keys, items, spare_keys, spare_items):
    """Sort `keys` (n,) in descending order, stably, and `items` (n,) along with it; the other two are workspace.

    Equal keys keep their order, so the order in which a caller lists documents decides ties.
    """
    n = keys.shape[0]
    in_order = 1
    while in_order < n and keys[in_order - 1] >= keys[in_order]:
        in_order += 1
    if in_order >= n:
        return
    for first in range(0, n, _RUN):
        end = min(first + _RUN, n)
        for i in range(first, end):
            # What comes before it gives an item its place: counting vectorises.
            key = keys[i]
            place = first
            for j in range(first, end):
                place += (keys[j] > key) | ((keys[j] == key) & (j < i))
            spare_keys[place], spare_items[place] = key, items[i]
        for i in range(first, end):
            keys[i], items[i] = spare_keys[i], spare_items[i]
    width = _RUN
    while width < n:
        for first in range(0, n, 2 * width):
            _merge(keys, items, first, min(first + width, n), min(first + 2 * width, n), spare_keys, spare_items)
        for i in range(n):
            keys[i], items[i] = spare_keys[i], spare_items[i]
        width *= 2


@kernel
def _merge(keys, items, first, middle, stop, keys_out, items_out):
    """Merge the sorted neighbours `first:middle` and `middle:stop`."""
    i, j, out = first, middle, first
    while i < middle and j < stop:
        right = np.int64(keys[j] > keys[i])
        source = i + (j - i) * right
        keys_out[out], items_out[out] = keys[source], items[source]
        j += right
        i += 1 - right
        out += 1
    source = i if i < middle else j
    while out < stop:
        keys_out[out], items_out[out] = keys[source], items[source]
        source += 1
        out += 1


@kernel
def reached_by(k, scores, best):
    """A score that at least `k` of the documents reach, and of many documents in random order about k log k. O(m).

    It is the least of the best scores of k groups of documents. `best` (at least k,) is workspace.
    """
    best[:k] = scores[:k]
    for first in range(k, scores.shape[0] - k + 1, k):
        for g in range(k):
            score = scores[first + g]
            best[g] = score if score > best[g] else best[g]
    least = best[0]
    for g in range(1, k):
        least = best[g] if best[g] < least else least
    return least
