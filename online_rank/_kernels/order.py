"""Stable sorting by descending score in a workspace, and a bound that reduces the documents to sort for the best k.

No branch in a sorting loop depends on a score: in random order such branches are mispredicted, which costs more than everything
else.
"""

import numpy as np

from online_rank._kernels._jit import leaf

# Runs of this length are sorted by counting before they are merged; up to this length merging takes longer.
_RUN = 128


@leaf
def sort_descending(keys, items, spare_keys, spare_items):
    """Sort `keys` (n,) in descending order, stably, and integers `items` (n,) along with it; the other two are workspace.

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
        stop = min(first + _RUN, n)
        _sort_run(keys[first:stop], items[first:stop], spare_keys[first:stop], spare_items[first:stop])
    width = _RUN
    while width < n:
        for first in range(0, n, 2 * width):
            _merge(keys, items, first, min(first + width, n), min(first + 2 * width, n), spare_keys, spare_items)
        for i in range(n):
            keys[i], items[i] = spare_keys[i], spare_items[i]
        width *= 2


@leaf
def _sort_run(keys, items, spare_keys, spare_items):
    """Sort a short run: an item's place is the number of greater keys, and of equal ones that were placed before it."""
    n = keys.shape[0]
    for i in range(n):
        spare_keys[i] = 0.0
    # Four at a time, which read each key once; slices start at 0, because only then this vectorises.
    for i in range(0, n - 3, 4):
        a, b, c, d = keys[i], keys[i + 1], keys[i + 2], keys[i + 3]
        before_a = before_b = before_c = before_d = 0
        for j in range(n):
            key = keys[j]
            before_a += key > a
            before_b += key > b
            before_c += key > c
            before_d += key > d
        _put(i, before_a, items, spare_keys, spare_items)
        _put(i + 1, before_b, items, spare_keys, spare_items)
        _put(i + 2, before_c, items, spare_keys, spare_items)
        _put(i + 3, before_d, items, spare_keys, spare_items)
    for i in range(n - n % 4, n):
        before = 0
        for j in range(n):
            before += keys[j] > keys[i]
        _put(i, before, items, spare_keys, spare_items)
    for i in range(n):
        spare_keys[items[i]] = keys[i]
    for i in range(n):
        keys[i], items[i] = spare_keys[i], spare_items[i]


@leaf
def _put(i, before, items, equal, sorted_items):
    """Put item i behind `before` others and the `equal[before]` with its key that came first; `items[i]` becomes its place."""
    place = before + np.int64(equal[before])
    equal[before] += 1.0
    sorted_items[place] = items[i]
    items[i] = place


@leaf
def _merge(keys, items, first, middle, stop, keys_out, items_out):
    """Merge the sorted neighbours `first:middle` and `middle:stop` from both ends, in two chains that do not wait for each
    other.
    """
    i, j, left, right = first, middle, middle - 1, stop - 1
    # In this many steps neither end can run out of either neighbour.
    safe = min(middle - first, stop - middle)
    for n in range(safe):
        take = np.int64(keys[j] > keys[i])
        source = i + (j - i) * take
        keys_out[first + n], items_out[first + n] = keys[source], items[source]
        j += take
        i += 1 - take
        take = np.int64(keys[right] > keys[left])
        source = right + (left - right) * take
        keys_out[stop - 1 - n], items_out[stop - 1 - n] = keys[source], items[source]
        left -= take
        right -= 1 - take
    out, end = first + safe, stop - safe
    while out < end and i <= left and j <= right:
        take = np.int64(keys[j] > keys[i])
        source = i + (j - i) * take
        keys_out[out], items_out[out] = keys[source], items[source]
        j += take
        i += 1 - take
        out += 1
    source = i if i <= left else j
    while out < end:
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
