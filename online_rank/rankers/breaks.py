"""Cutting sorted numbers into groups."""

import numpy as np


def natural_breaks(values: np.ndarray, n_groups: int) -> np.ndarray:
    """Cut numbers into the groups with the least sum of squared deviations from the groups' means (Fisher 1958), exactly.

    Parameters
    ----------
    values
        (n,) numbers, finite.
    n_groups
        Number of groups, at least 1; there are fewer if there are fewer distinct values.

    Returns
    -------
    int64 array of shape (n,): the group of each value, 0 for the smallest. Equal values are in one group.

    Notes
    -----
    Dynamic programming over the distinct values: O(n_groups n^2), in n_groups n operations on arrays.

    Examples
    --------
    >>> natural_breaks(np.array([0.1, 5.0, 0.2, 9.0, 5.5]), 3)
    array([0, 1, 0, 2, 1])
    """
    distinct, group, counts = np.unique(values, return_inverse=True, return_counts=True)
    n = len(distinct)
    if not n:
        return np.empty(0, dtype=np.int64)
    centred = distinct - np.average(distinct, weights=counts)
    size, total, square = (np.append(0.0, np.cumsum(counts * centred**power)) for power in (0, 1, 2))
    # least[b]: for the first b distinct values; the next round adds a group that begins at first[b].
    least = np.append(0.0, np.full(n, np.inf))
    begins = []
    for _ in range(min(n_groups, n)):
        longer = np.full(n + 1, np.inf)
        first = np.zeros(n + 1, dtype=np.int64)
        for b in range(1, n + 1):
            spread = square[b] - square[:b] - (total[b] - total[:b]) ** 2 / (size[b] - size[:b])
            sums = least[:b] + spread
            first[b] = np.argmin(sums)
            longer[b] = sums[first[b]]
        least = longer
        begins.append(first)
    labels = np.empty(n, dtype=np.int64)
    end = n
    for label in range(len(begins) - 1, -1, -1):
        start = begins[label][end]
        labels[start:end] = label
        end = start
    return labels[group]
