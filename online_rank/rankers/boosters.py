"""Trees that another library has trained, as its file has them."""

from collections.abc import Callable
from typing import NamedTuple

import numpy as np

from online_rank._kernels.file_trees import RIGHT, ZERO, ZEROS
from online_rank.base.form import Tree

#: The closed form of a tree in which missing values go both ways has copies of nodes; it has at most this many nodes.
_MOST_NODES = 1 << 16
#: A known value is not below this.
_LOWEST = -1e300
#: Depth from which a tree has no closed form.
_DEEPEST = 200


class TreeArrays(NamedTuple):
    """The nodes of one tree, node 0 is the root. A value >= its threshold goes to the right, others to the left.

    Attributes
    ----------
    columns
        int64 (n,): the feature of each node, from 0; -1 for a leaf.
    thresholds, values
        float64 (n,): of nodes, and of leaves.
    missing
        uint8 (n,): bits of `online_rank._kernels.file_trees`.
    left, right
        int64 (n,): numbers of nodes.
    """

    columns: np.ndarray
    thresholds: np.ndarray
    missing: np.ndarray
    left: np.ndarray
    right: np.ndarray
    values: np.ndarray


class Booster(NamedTuple):
    """Trees that are summed, of one file.

    Attributes
    ----------
    library
        Which library wrote it.
    names
        The names of the features; None if they are known by their position.
    n_features
        Their number.
    trees
        The trees.
    base
        What is added to the sum.
    """

    library: str
    names: tuple[str, ...] | None
    n_features: int
    trees: tuple[TreeArrays, ...]
    base: float = 0.0

    def joined(self) -> tuple[TreeArrays, np.ndarray]:
        """All nodes in one list, and the roots of the trees in it."""
        sizes = np.cumsum([0, *(len(tree.columns) for tree in self.trees)])
        moved = [
            tree._replace(left=tree.left + start, right=tree.right + start)
            for tree, start in zip(self.trees, sizes[:-1].tolist(), strict=True)
        ]
        if not moved:
            empty, none = np.empty(0, np.int64), np.empty(0)
            return TreeArrays(empty, none, np.empty(0, np.uint8), empty, empty, none), empty
        return TreeArrays(*map(np.concatenate, zip(*moved, strict=True))), sizes[:-1].astype(np.int64)


def checked(tree: TreeArrays, n_features: int, place: Callable[[int], str]) -> TreeArrays:
    """The tree without nodes that cannot be reached, children after their parents.

    `place` names a node in messages. Raises ValueError if it is no binary tree, has a leaf that is not finite, or
    splits by other features.
    """
    n, inner = len(tree.columns), np.flatnonzero(tree.columns >= 0)
    for node in np.flatnonzero(tree.columns >= n_features)[:1].tolist():
        raise ValueError(f"{place(node)}: it splits by feature {tree.columns[node]}, of {n_features} from 0 on")
    children = np.concatenate([tree.left[inner], tree.right[inner]])
    for k in np.flatnonzero((children < 0) | (children >= n))[:1].tolist():
        raise ValueError(f"{place(int(inner[k % len(inner)]))}: its child {children[k]} is not among the {n} nodes")
    reached = np.bincount(children, minlength=n)
    for node in np.flatnonzero(reached > (np.arange(n) > 0))[:1].tolist():
        raise ValueError(f"{place(node)}: it is the child of more nodes than {int(node > 0)}")
    for node in np.flatnonzero(~np.isfinite(tree.values) & (tree.columns < 0))[:1].tolist():
        raise ValueError(f"{place(node)}: the value {tree.values[node]} of a leaf is not a finite number")
    order, level = [np.zeros(1, np.int64)], np.zeros(1, np.int64)
    while len(level := level[tree.columns[level] >= 0]):
        level = np.stack([tree.left[level], tree.right[level]], axis=1).reshape(-1)
        order.append(level)
    kept = np.concatenate(order)
    places = np.full(n, 0)
    places[kept] = np.arange(len(kept))
    is_inner = tree.columns[kept] >= 0
    left, right = (np.where(is_inner, places[np.maximum(side[kept], 0)], 0) for side in (tree.left, tree.right))
    moved = TreeArrays(*(part[kept] for part in tree))
    return moved._replace(columns=np.where(is_inner, moved.columns, -1), left=left, right=right)


def least_above_single(conditions: np.ndarray) -> np.ndarray:
    """For each number of single precision the least float64 that rounds to it or to a larger one."""
    exact = conditions.astype(np.float32)
    with np.errstate(over="ignore"):
        below = np.nextafter(exact, np.float32(-np.inf)).astype(np.float64)
    middle = 0.5 * np.where(np.isfinite(below), below, -(2.0**128)) + 0.5 * exact.astype(np.float64)
    with np.errstate(over="ignore"):
        return np.where(middle.astype(np.float32) >= exact, middle, np.nextafter(middle, np.inf))


def closed(tree: TreeArrays) -> Tree:
    """The same tree in closed form, in which missing values go to the left: nodes before others send them elsewhere.

    Raises TypeError if it is too deep, or becomes too large.
    """
    builder = _Closing(tree)
    builder.add(0, frozenset(), frozenset(), 0)
    own, thresholds, left, right, values = zip(*builder.nodes, strict=True)
    return Tree(np.array(own), np.array(thresholds), np.array(left), np.array(right), np.array(values))


class _Closing:
    """Builds a tree in which missing values go to the left; `known` and `lacks` are features of which a node knows that."""

    def __init__(self, tree: TreeArrays) -> None:
        self.tree = tree
        self.nodes: list[tuple[int, float, int, int, float]] = []

    def add(self, node: int, known: frozenset[int], lacks: frozenset[int], depth: int) -> int:
        """Add a node and all below it; returns its number."""
        if depth > _DEEPEST or len(self.nodes) >= _MOST_NODES:
            raise TypeError(f"a tree with missing values is deeper than {_DEEPEST}, or has more than {_MOST_NODES} nodes")
        j = int(self.tree.columns[node])
        if j < 0:
            return self._new(-1, 0.0, value=float(self.tree.values[node]))
        sides = int(self.tree.left[node]), int(self.tree.right[node])
        without = sides[self.tree.missing[node] & RIGHT]
        if j in lacks:
            return self.add(without, known, lacks, depth + 1)
        first, cuts = sides[0], self._cuts(node, sides, without)
        if j in known or first == without:
            return self._chain(j, first, cuts, known, lacks, depth)
        number = self._new(j, _LOWEST)
        left = self.add(without, known, lacks | {j}, depth + 1)
        return self._joined(number, left, self._chain(j, first, cuts, known | {j}, lacks, depth + 1))

    def _cuts(self, node: int, sides: tuple[int, int], zero: int) -> list[tuple[float, int]]:
        """The values from which another child follows than below, and that child."""
        limit, after = float(self.tree.thresholds[node]), float(np.nextafter(ZERO, np.inf))
        if not self.tree.missing[node] & ZEROS:
            return [(limit, sides[1])]
        ends = sorted({limit, -ZERO, after})
        cuts, last = [], sides[0]
        for end in ends:
            child = zero if -ZERO <= end < after else sides[end >= limit]
            if child != last:
                cuts.append((end, child))
            last = child
        return cuts

    def _chain(
        self, j: int, first: int, cuts: list[tuple[float, int]], known: frozenset[int], lacks: frozenset[int], depth: int
    ) -> int:
        """Add nodes that split at all cuts; values that are above the first one are known."""
        if not cuts:
            return self.add(first, known, lacks, depth + 1)
        number = self._new(j, cuts[0][0])
        left = self.add(first, known, lacks, depth + 1)
        return self._joined(number, left, self._chain(j, cuts[0][1], cuts[1:], known | {j}, lacks, depth + 1))

    def _new(self, column: int, threshold: float, value: float = 0.0) -> int:
        self.nodes.append((column, threshold, 0, 0, value))
        return len(self.nodes) - 1

    def _joined(self, number: int, left: int, right: int) -> int:
        column, threshold, *_ = self.nodes[number]
        self.nodes[number] = (column, threshold, left, right, 0.0)
        return number
