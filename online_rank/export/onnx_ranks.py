"""Ranks within a query in ONNX, and curves of their normal scores.

Twice the rank, less one, is a number k between 1 and 2 n - 1, for n documents that have a value. Normal scores are computed for
each k and each n that occurs, which are few, and looked up for each value.
"""

from typing import NamedTuple

import numpy as np

from online_rank.base.form import Curves
from online_rank.export.normal import NORMAL_MIDDLE, NORMAL_SPLIT, NORMAL_TAIL
from online_rank.export.onnx_curves import MISSING, known
from online_rank.export.onnx_graph import DOUBLE, INT8, INT32, INT64, Graph

#: Up to this many documents all are compared with all; more are sorted.
_COMPARED = 160


class Ranks(NamedTuple):
    """Names of tensors: of d columns and m documents k (d, m), 0 for a missing value; the row of each column in the tables of
    scores, (d,); and the tables (rows, 2 m + 1), missing for k = 0, as `MISSING`.
    """

    k: str
    row: str
    scores: str


def ranked(graph: Graph, X: str) -> Ranks:
    """The ranks of columns (m, d)."""
    m = graph.add("Shape", X, end=1)
    lacks = graph.add("ReduceSum", graph.add("Cast", graph.add("IsNaN", X), to=INT32), np.array([0]), keepdims=0)
    values = known(graph, X)
    ways = (lambda: _less_by_comparing(graph, values, m), lambda: _less_by_sorting(graph, values, m))
    less = graph.choose(graph.add("LessOrEqual", m, np.array([_COMPARED])), *ways, INT32)
    # Equal values have the same number of smaller ones.
    sizes = _counts(graph, less)
    size = graph.add("GatherElements", sizes, less, axis=1)
    # Missing values are the smallest, and count for nothing.
    known_less = graph.add("Sub", less, graph.add("Unsqueeze", lacks, np.array([1])))
    k = graph.add("Max", graph.add("Add", graph.add("Mul", known_less, np.int32(2)), size), np.int32(0))
    n = graph.add("Sub", graph.add("Cast", m, to=INT32), lacks)
    n, _, row = graph.add_several("Unique", 3, graph.add("Cast", n, to=INT64), sorted=1)
    return Ranks(k, row, _tables(graph, m, n))


def _counts(graph: Graph, numbers: str) -> str:
    """How often each number occurs in each row, for numbers (d, m) below m."""
    zeros = graph.add("Mul", numbers, np.int32(0))
    return graph.add("ScatterElements", zeros, numbers, graph.add("Add", zeros, np.int32(1)), axis=1, reduction="add")


def _tables(graph: Graph, m: str, n: str) -> str:
    """Normal scores of k / (2 n) for each n and all k up to 2 m."""
    stop = graph.add("Squeeze", graph.add("Add", graph.add("Mul", m, np.array([2])), np.array([1])), np.array([0]))
    k = graph.add("Cast", graph.add("Range", np.array(0), stop, np.array(1)), to=DOUBLE)
    twice = graph.add("Mul", graph.add("Max", graph.add("Cast", n, to=DOUBLE), 1.0), 2.0)
    scores = _normal_scores(graph, graph.add("Div", k, graph.add("Unsqueeze", twice, np.array([1]))))
    return graph.add("Where", graph.add("Equal", k, 0.0), MISSING, scores)


def _less_by_comparing(graph: Graph, values: str, m: str) -> str:
    """How many values of its column are smaller than each, (d, m)."""
    smaller = graph.add("Less", graph.add("Unsqueeze", values, np.array([1])), graph.add("Unsqueeze", values, np.array([0])))
    shape = graph.add("Shape", values)
    flat = graph.add("Concat", m, graph.add("ReduceProd", shape, keepdims=1), axis=0)
    smaller = graph.add("Reshape", graph.add("Cast", smaller, to=INT8), flat, allowzero=1)
    ones = graph.add("Expand", np.uint8(1), graph.add("Concat", np.array([1]), m, axis=0))
    less = graph.add("Reshape", graph.add("MatMulInteger", ones, smaller), shape, allowzero=1)
    return graph.add("Transpose", less, perm=[1, 0])


def _less_by_sorting(graph: Graph, values: str, m: str) -> str:
    """The same: where the group of equal values begins in each sorted column."""
    rows = graph.add("Transpose", values, perm=[1, 0])
    ascending, places = graph.add_several("TopK", 2, rows, m, axis=1, largest=0, sorted=1)
    before = graph.add("Slice", ascending, np.array([0]), np.array([-1]), np.array([1]))
    after = graph.add("Slice", ascending, np.array([1]), np.array([2**31]), np.array([1]))
    begins = graph.add("Cast", graph.add("Less", before, after), to=INT32)
    group = graph.add("Pad", graph.add("CumSum", begins, np.array(1)), np.array([0, 1, 0, 0]))
    sizes = _counts(graph, group)
    first = graph.add("GatherElements", graph.add("Sub", graph.add("CumSum", sizes, np.array(1)), sizes), group, axis=1)
    return graph.add("ScatterElements", sizes, places, first, axis=1)


def rank_scores(graph: Graph, X: str) -> str:
    """The normal scores of the ranks of columns (m, d); NaN for NaN."""
    ranks = ranked(graph, X)
    scores = graph.add("GatherElements", graph.add("Gather", ranks.scores, ranks.row, axis=0), ranks.k, axis=1)
    scores = graph.add("Where", graph.add("Equal", ranks.k, np.int32(0)), np.nan, scores)
    return graph.add("Transpose", scores, perm=[1, 0])


def curves_of_ranks(graph: Graph, X: str, layer: Curves, weights: np.ndarray) -> str:
    """The sum of weighted curves of the normal scores of ranks of columns (m, d), (m,); all curves bend at the same scores."""
    ranks, (xs, _) = ranked(graph, X), layer.knots[0]
    # Cell 0 is for missing values, cell 1 below the first bend.
    reached = graph.add("Cast", graph.add("GreaterOrEqual", graph.add("Unsqueeze", ranks.scores, np.array([2])), xs), to=INT32)
    cell = graph.add("ReduceSum", reached, np.array([2]), keepdims=0)
    is_known = graph.add("Cast", graph.add("Greater", ranks.scores, MISSING), to=INT32)
    beyond = graph.add("Sub", ranks.scores, graph.add("Gather", np.append(xs[0], xs), cell, axis=0))
    cell = graph.add("Add", cell, is_known)
    lacking = np.full(len(weights), np.nan) if layer.missing is None else layer.missing
    levels = [np.array([lack, ys[0], *ys]) for lack, (_, ys) in zip(lacking, layer.knots, strict=True)]
    slopes = [np.array([0.0, 0.0, *layer.slopes(c), 0.0]) for c in range(len(weights))]
    at, beyond = (
        graph.add("GatherElements", graph.add("Gather", table, ranks.row, axis=0), ranks.k, axis=1) for table in (cell, beyond)
    )
    level, slope = (graph.add("GatherElements", weights[:, None] * np.array(table), at, axis=1) for table in (levels, slopes))
    made = graph.add("Add", level, graph.add("Mul", beyond, slope))
    return graph.add("MatMul", np.ones(len(weights)), made)


def _normal_scores(graph: Graph, p: str) -> str:
    """The standard normal quantiles of p (rows, k): approximations of Acklam, one for the tails and one for the middle."""
    low = graph.add("Min", p, graph.add("Sub", 1.0, p))
    tail = graph.add("Sqrt", graph.add("Mul", graph.add("Log", graph.add("Max", low, 1e-300)), -2.0))
    centred = graph.add("Sub", p, 0.5)
    ends = (tail, graph.add("Mul", centred, centred))
    t = graph.add("Concat", *(graph.add("Unsqueeze", own, np.array([0, 1])) for own in ends), axis=0)
    ratios = graph.add("Div", *graph.add_several("Split", 2, _polynomials(graph, t), axis=1))
    tail, middle = graph.add_several("Split", 2, graph.add("Squeeze", ratios, np.array([1])), axis=0)
    signed = graph.add("Mul", tail, graph.add("Neg", graph.add("Sign", centred)))
    chosen = graph.add("Where", graph.add("Less", low, NORMAL_SPLIT), signed, graph.add("Mul", centred, middle))
    return graph.add("Squeeze", chosen, np.array([0]))


def _polynomials(graph: Graph, t: str) -> str:
    """Both polynomials of both approximations, (2, 2, rows, k), at t (2, 1, rows, k), by Horner's rule."""
    degree = max(len(own) for both in (NORMAL_TAIL, NORMAL_MIDDLE) for own in both)
    own = np.array([[[0.0] * (degree - len(up)) + [*up] for up in both] for both in (NORMAL_TAIL, NORMAL_MIDDLE)])
    value: str | np.ndarray = own[..., :1, None]
    for i in range(1, degree):
        value = graph.add("Add", graph.add("Mul", value, t), own[..., i : i + 1, None])
    return str(value)
