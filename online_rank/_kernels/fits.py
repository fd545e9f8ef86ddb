"""Checks of an entry's assumptions about its arrays, once for each call, so that no index is out of bounds.

The Python side passes arrays that fit. These checks catch what gets past it: files with wrong contents, and changes by other
threads.
"""

from online_rank._kernels._jit import leaf
from online_rank._kernels.workspace import longest_query


@leaf
def require(fit):
    """Raise ValueError unless the arrays fit together."""
    if not fit:
        raise ValueError("arrays of a kernel do not fit together")


@leaf
def require_offsets(offsets, n):
    """Require offsets (q + 1,) of queries, ascending, among n documents."""
    require(offsets.shape[0] > 0 and offsets[0] >= 0 and offsets[offsets.shape[0] - 1] <= n)
    ascend = True
    for q in range(offsets.shape[0] - 1):
        ascend &= offsets[q] <= offsets[q + 1]
    require(ascend)


@leaf
def require_block(n, y, offsets, weights, discounts, rounds):
    """Require grades, a table of D(p), weights and rows of `Round` for a block of n documents."""
    require_offsets(offsets, min(n, y.shape[0]))
    queries = weights.shape[0]
    require(offsets.shape[0] > queries and rounds.shape[0] >= queries and rounds.shape[1] == 10)
    require(discounts.shape[0] >= longest_query(offsets))


@leaf
def require_rows(starts, columns, values, n_columns):
    """Require sparse rows with valid entries, in columns below `n_columns`."""
    require_offsets(starts, min(columns.shape[0], values.shape[0]))
    inside = True
    for e in range(starts[0], starts[starts.shape[0] - 1]):
        inside &= (columns[e] >= 0) & (columns[e] < n_columns)
    require(inside)
