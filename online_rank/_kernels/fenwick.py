"""Fenwick trees: prefix sums of numbers that change, each in O(log n). Index 0 of a tree (n + 1,) is unused."""

from online_rank._kernels._jit import leaf


@leaf
def add(tree, index, value):
    """Add `value` to the number at `index`, 0 <= index < n."""
    node = index + 1
    while node < tree.shape[0]:
        tree[node] += value
        node += node & -node


@leaf
def sum_before(tree, index):
    """Sum of the numbers at the indices smaller than `index`."""
    total = tree[0] - tree[0]
    while index > 0:
        total += tree[index]
        index -= index & -index
    return total
