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
def require_drawn(X_rows, offsets, rows, starts, gains, logits, rests, kinds, weights, rounds):
    """Require documents drawn of each query, by their number within it, and what is known of them and of their queries."""
    queries = weights.shape[0]
    require_offsets(offsets, X_rows)
    require_offsets(starts, min(min(rows.shape[0], gains.shape[0]), logits.shape[0]))
    require(offsets.shape[0] > queries and starts.shape[0] == offsets.shape[0])
    require(rests.shape[0] >= queries and kinds.shape[0] >= queries)
    require(rounds.shape[0] >= queries and rounds.shape[1] == 10)
    inside = True
    for q in range(queries):
        for p in range(starts[q], starts[q + 1]):
            inside &= (rows[p] >= 0) & (rows[p] < offsets[q + 1] - offsets[q])
    require(inside)


@leaf
def require_rows(starts, columns, values, n_columns):
    """Require sparse rows with valid entries, in columns below `n_columns`."""
    require_offsets(starts, min(columns.shape[0], values.shape[0]))
    inside = True
    for e in range(starts[0], starts[starts.shape[0] - 1]):
        inside &= (columns[e] >= 0) & (columns[e] < n_columns)
    require(inside)
