"""Stable sorting by descending score in a workspace, and a bound that reduces the documents to sort for the best k.

No branch in a sorting loop depends on a score: in random order such branches are mispredicted, which costs more than everything
else.
"""

import numpy as np

from online_rank._kernels._jit import leaf

# Runs of this length are sorted by counting before they are merged.
_RUN = 32


@leaf
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
    # NaN is neither before nor after a number, so two items can claim one place; the place left over is an item's all the same.
    for i in range(n):
        spare_items[i] = items[i]
    for first in range(0, n, _RUN):
        # A slice that starts at 0: only this vectorises.
        run = keys[first : min(first + _RUN, n)]
        for i in range(run.shape[0]):
            # The number of items before it is an item's position.
            key = run[i]
            place = 0
            for j in range(run.shape[0]):
                place += (run[j] > key) | ((run[j] == key) & (j < i))
            spare_keys[first + place], spare_items[first + place] = key, items[first + i]
        for i in range(first, first + run.shape[0]):
            keys[i], items[i] = spare_keys[i], spare_items[i]
    width = _RUN
    while width < n:
        for first in range(0, n, 2 * width):
            _merge(keys, items, first, min(first + width, n), min(first + 2 * width, n), spare_keys, spare_items)
        for i in range(n):
            keys[i], items[i] = spare_keys[i], spare_items[i]
        width *= 2


@leaf
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


@leaf
def shortlist(k, least, scores, items, kept, kept_items):
    """Copy to `kept` and `kept_items` the documents that may be among the best `k`, if they score at least `least`.

    They keep their order, and ties are included. Returns their number: for many documents in random order less than k log k.
    """
    n = _copy_reaching(max(least, reached_by(k, scores)), scores, items, kept, kept_items)
    if n <= k:
        return n
    # A second pass is cheap, and leaves 19 of 26 for k = 10 of 120.
    return _copy_reaching(reached_by(k, kept[:n]), kept[:n], kept_items, kept, kept_items)


@leaf
def _copy_reaching(bound, scores, items, kept, kept_items):
    """Copy the documents that reach a bound, in their order (perhaps onto themselves). Returns their number."""
    n = 0
    for i in range(scores.shape[0]):
        score, item = scores[i], items[i]
        kept[n], kept_items[n] = score, item
        n += score >= bound
    return n


@leaf
def reached_by(k, scores):
    """A score reached by at least `k` documents, and by about k log k of many documents in random order. O(m).

    It is the least of the best scores of k groups of documents, each with every k-th document.
    """
    m = scores.shape[0]
    least = np.inf
    for group in range(min(k, m)):
        best = scores[group]
        i = group + k
        while i < m:
            best = scores[i] if scores[i] > best else best
            i += k
        least = best if best < least else least
    return least
