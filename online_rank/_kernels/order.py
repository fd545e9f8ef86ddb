"""Sorting into a workspace: stable, by descending score."""

from online_rank._kernels._jit import kernel

# Runs of this length are sorted by insertion before they are merged.
_RUN = 12


@kernel
def sort_descending(keys, index, other_keys, other_index):
    """Sort `keys` (n,) in descending order, stably, and `index` (n,) along with it; the other two are workspace.

    Equal keys keep their order, so the order in which a caller lists documents decides ties.
    """
    n = keys.shape[0]
    for start in range(0, n, _RUN):
        for i in range(start + 1, min(start + _RUN, n)):
            key = keys[i]
            item = index[i]
            j = i
            while j > start and keys[j - 1] < key:
                keys[j] = keys[j - 1]
                index[j] = index[j - 1]
                j -= 1
            keys[j] = key
            index[j] = item
    width = _RUN
    while width < n:
        for start in range(0, n, 2 * width):
            middle = min(start + width, n)
            stop = min(start + 2 * width, n)
            if middle == stop or keys[middle - 1] >= keys[middle]:
                continue
            # The left run moves out of the way; merging then never overtakes the right run.
            size = middle - start
            for i in range(size):
                other_keys[i] = keys[start + i]
                other_index[i] = index[start + i]
            left = 0
            right = middle
            out = start
            while left < size:
                if right < stop and keys[right] > other_keys[left]:
                    keys[out] = keys[right]
                    index[out] = index[right]
                    right += 1
                else:
                    keys[out] = other_keys[left]
                    index[out] = other_index[left]
                    left += 1
                out += 1
        width *= 2


@kernel
def select_top(scores, level, k, top_keys, top):
    """Write the `k` best-scored documents to `top`, best first; of equal scores the lower level comes first.

    `top_keys` (k,) is workspace. Meant for small k: O(n + (number of changes of the best k) k).
    """
    filled = 0
    for i in range(scores.shape[0]):
        key = scores[i]
        if filled == k:
            if key < top_keys[k - 1] or (key == top_keys[k - 1] and level[i] >= level[top[k - 1]]):
                continue
            j = k - 1
        else:
            j = filled
            filled += 1
        while j > 0 and (top_keys[j - 1] < key or (top_keys[j - 1] == key and level[top[j - 1]] > level[i])):
            top_keys[j] = top_keys[j - 1]
            top[j] = top[j - 1]
            j -= 1
        top_keys[j] = key
        top[j] = i
