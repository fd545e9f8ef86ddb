"""Trees of depth 4 in ONNX, by tables.

Runtimes walk a tree in 20 to 30 nanoseconds, most of them for wrong guesses where a document goes. Here each value is compared
with all thresholds of its column at once; the 15 answers that a tree asks of a document are two numbers, and a table, the same
for all trees, has the leaf for them.
"""

from collections.abc import Sequence

import numpy as np

from online_rank.base.form import Tree
from online_rank.export.onnx_curves import Cells
from online_rank.export.onnx_graph import INT8, INT32, Graph
from online_rank.export.reading import depth_of

_DEPTH = 4
_NODES, _LEAVES = 2**_DEPTH - 1, 2**_DEPTH
#: Nodes above the last level, whose answers are the first of two numbers.
_ABOVE = 2 ** (_DEPTH - 1) - 1
#: The most thresholds of a column.
_MOST = 64


def thresholds_of(trees: Sequence[Tree], n_columns: int) -> list[np.ndarray]:
    """The thresholds of each column, ascending."""
    columns, limits = (np.concatenate([getattr(tree, part) for tree in trees]) for part in ("columns", "thresholds"))
    return [np.unique(limits[columns == j]) for j in range(n_columns)]


def is_by_tables(trees: Sequence[Tree], n_columns: int) -> bool:
    """Whether tables are faster than the runtime's own trees: with few trees they cost more than they save."""
    if not trees or any(depth_of(tree) > _DEPTH for tree in trees):
        return False
    most = max(map(len, thresholds_of(trees, n_columns)))
    return most <= _MOST and 100 * len(trees) > most * n_columns


def trees_on(graph: Graph, cells: Cells, trees: Sequence[Tree]) -> str:
    """The sum of trees, (n,), whose thresholds are among the points of cells."""
    d, limits = len(cells.points), thresholds_of(trees, len(cells.points))
    most = max(map(len, limits))
    # How many of its column's thresholds each value reaches.
    passed = np.zeros((d, max(map(len, cells.points)) + 1), dtype=np.float32)
    for j, own in enumerate(cells.points):
        passed[j, 1 : len(own) + 1] = np.searchsorted(limits[j], own, side="right")
    n_passed = graph.add("GatherElements", passed, cells.reached, axis=1)
    numbers = np.arange(1, most + 1, dtype=np.float32)[:, None]
    reached = graph.add("GreaterOrEqual", graph.add("Reshape", n_passed, np.array([1, -1])), numbers)
    n = graph.add("Shape", n_passed, start=1)
    by_threshold = graph.add("Concat", np.array([most * d]), n, axis=0)
    reached = graph.add("Reshape", graph.add("Cast", reached, to=INT8), by_threshold)
    asked, leaves = _complete(trees, limits)
    answers = graph.add("Reshape", graph.add("Gather", reached, asked.T.ravel(), axis=0), np.array([_NODES, -1]))
    answers = graph.add("MatMulInteger", _weights(), answers)
    first, second = graph.add_several("Split", 2, answers, axis=0)
    both = graph.add("Add", first, graph.add("Mul", second, np.int32(2**_ABOVE)))
    leaf = graph.add("Cast", graph.add("GatherElements", _leaf_of_answers()[None], both, axis=1), to=INT32)
    by_tree = graph.add("Concat", np.array([len(trees)]), n, axis=0)
    values = graph.add("GatherElements", leaves, graph.add("Reshape", leaf, by_tree), axis=1)
    return graph.add("MatMul", np.ones(len(trees)), values)


def _complete(trees: Sequence[Tree], limits: list[np.ndarray]) -> tuple[np.ndarray, np.ndarray]:
    """Trees as complete ones: the threshold of each node, by its number (first by place, then by column), and the leaves.

    Below a leaf are nodes whose answer does not matter.
    """
    asked, leaves = np.zeros((len(trees), _NODES), dtype=np.int64), np.zeros((len(trees), _LEAVES))
    for t, tree in enumerate(trees):
        own = [0]
        for place in range(_NODES + _LEAVES):
            node = own[place]
            column = int(tree.columns[node])
            if place >= _NODES:
                leaves[t, place - _NODES] = tree.values[node]
                continue
            if column >= 0:
                asked[t, place] = np.searchsorted(limits[column], tree.thresholds[node]) * len(limits) + column
            own += [int(tree.left[node]), int(tree.right[node])] if column >= 0 else [node, node]
    return asked, leaves


def _weights() -> np.ndarray:
    """What each answer adds to the first and the second number."""
    weights = np.zeros((2, _NODES), dtype=np.uint8)
    weights[0, :_ABOVE], weights[1, _ABOVE:] = 1 << np.arange(_ABOVE), 1 << np.arange(_NODES - _ABOVE)
    return weights


def _leaf_of_answers() -> np.ndarray:
    """The leaf for each first number plus 2^7 times the second."""
    answers = (np.arange(2**_NODES)[:, None] >> np.arange(_NODES)) & 1
    place = np.zeros(len(answers), dtype=np.int64)
    for _ in range(_DEPTH):
        place = 2 * place + 1 + answers[np.arange(len(answers)), place]
    return (place - _NODES).astype(np.uint8)
