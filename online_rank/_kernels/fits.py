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
def require_drawn(X_rows, offsets, shown, weights, rounds):
    """Require documents drawn of each query, by their number within it, and what is known of them and of their queries.

    `shown` is an `online_rank.feedback.arrays.ShownBlock`.
    """
    queries = weights.shape[0]
    rows, starts = shown.rows, shown.starts
    require_offsets(offsets, X_rows)
    require_offsets(starts, min(min(rows.shape[0], shown.gains.shape[0]), min(shown.places.shape[0], shown.logits.shape[0])))
    require(shown.chances.shape[0] == 0 or shown.chances.shape[0] >= starts[starts.shape[0] - 1])
    require(offsets.shape[0] > queries and starts.shape[0] == offsets.shape[0])
    require(shown.rests.shape[0] >= queries and shown.kinds.shape[0] >= queries and shown.held.shape[0] >= queries)
    require(rounds.shape[0] >= queries and rounds.shape[1] == 10)
    inside = True
    for q in range(queries):
        inside &= (shown.held[q] >= 0) & (shown.held[q] <= starts[q + 1] - starts[q])
        for p in range(starts[q], starts[q + 1]):
            inside &= (rows[p] >= 0) & (rows[p] < offsets[q + 1] - offsets[q]) & (shown.places[p] >= 0)
    require(inside)
