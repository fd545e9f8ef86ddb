"""Curves in ONNX: the cell of a value among the points of its column, and the line of the curve there.

A runtime looks up a value in a table as fast as it adds four numbers; comparing it with all points takes 20 times as long. A
guide, equal cells of x / (1 + |x|) for x moved and scaled by column, leaves a few points to compare.
"""

import operator
from collections.abc import Sequence
from typing import NamedTuple

import numpy as np

from online_rank.base.form import Curves
from online_rank.export.onnx_graph import FLOAT, INT32, Graph

#: Stands for a missing value, below the first point of all columns.
MISSING, BEGIN = -np.finfo(np.float64).max, -1e308
#: Half the cells of a guide, and how far a cell's edges may be from where other roundings put them; and the largest |x|.
_HALF, _MARGIN, _FAR = 512, 0.05, 1e6
#: Quantiles of points that guides are tried with.
_TRIED = np.array([0.0, 0.1, 0.25, 0.5, 0.75, 0.9, 1.0])


class Guide(NamedTuple):
    """Where x is in a column's points: cell `(s + 1) HALF` with s = t / (1 + |t|), t = (x - centres) scales.

    Attributes
    ----------
    centres, scales
        float64 (k,).
    starts
        (k, 2 HALF + 1): how many points are surely at or below a value of a cell.
    most
        How many more may be.
    """

    centres: np.ndarray
    scales: np.ndarray
    starts: np.ndarray
    most: int


class Cells(NamedTuple):
    """Names of tensors (k, n), a row for each column, which stays in the fastest cache: values, with `MISSING` for NaN;
    how many of its column's points each reaches; and the largest of these points.

    points : of each column, ascending, `BEGIN` first
    """

    values: str
    reached: str
    starts: str
    points: list[np.ndarray]


def known(graph: Graph, X: str) -> str:
    """Values, with `MISSING` in place of NaN."""
    return graph.add("Where", graph.add("IsNaN", X), MISSING, X)


def cells_of(graph: Graph, X: str, points: Sequence[np.ndarray]) -> Cells:
    """The cells of values (n, k) among the points of their columns: what a guide knows, then halving what is left."""
    values = graph.add("Transpose", known(graph, X), perm=[1, 0])
    points = [np.unique(np.append(BEGIN, own)) for own in points]
    guide = _guide(points)
    steps = [1 << s for s in reversed(range(guide.most.bit_length()))]
    # The point before each cell; nothing is >= NaN.
    table = np.full((len(points), max(map(len, points)) + sum(steps) + 2), np.nan)
    table[:, 0] = 0.0
    for j, own in enumerate(points):
        table[j, 1 : len(own) + 1] = own
    before = graph.constant(table)
    t = graph.add("Cast", graph.add("Mul", graph.add("Sub", values, guide.centres[:, None]), guide.scales[:, None]), to=FLOAT)
    s = graph.add("Softsign", graph.add("Clip", t, np.float32(-_FAR), np.float32(_FAR)))
    half = np.float32(_HALF)
    place = graph.add("Cast", graph.add("Add", graph.add("Mul", s, half), half), to=INT32)
    reached = graph.add("Cast", graph.add("GatherElements", guide.starts, place, axis=1), to=INT32)
    for step in steps:
        point = graph.add("GatherElements", before, graph.add("Add", reached, np.int32(step)), axis=1)
        beyond = graph.add("Cast", graph.add("GreaterOrEqual", values, point), to=INT32)
        reached = graph.add("Add", reached, beyond if step == 1 else graph.add("Mul", beyond, np.int32(step)))
    return Cells(values, reached, graph.add("GatherElements", before, reached, axis=1), points)


def _guide(points: list[np.ndarray]) -> Guide:
    """For each column the guide that leaves least to compare."""
    centres, scales, starts, most = zip(*map(_guide_of, points), strict=True)
    kind = np.uint8 if max(map(len, points)) < 256 else np.int32
    return Guide(np.array(centres), np.array(scales), np.array(starts, dtype=kind), max(most))


def _guide_of(points: np.ndarray) -> tuple[float, float, np.ndarray, int]:
    tried = np.quantile(points[1:], _TRIED, method="nearest") if len(points) > 1 else np.zeros(1)
    centres = np.unique(np.append(tried, 0.0)).tolist()
    ways = [(centre, distance) for centre in centres for distance in np.unique(np.abs(tried - centre)).tolist()]
    return min((_guide_by(points, *way) for way in ways), key=operator.itemgetter(3))


def _guide_by(points: np.ndarray, centre: float, distance: float) -> tuple[float, float, np.ndarray, int]:
    scale, edges = 1.0 / distance if distance > 1e-300 else 1.0, np.arange(2 * _HALF + 1)
    with np.errstate(over="ignore"):
        t = np.clip((points - centre) * scale, -_FAR, _FAR)
    places = (t / (1.0 + np.abs(t)) + 1.0) * _HALF
    starts = np.searchsorted(places, edges - _MARGIN)
    most = np.searchsorted(places, edges + 1.0 + _MARGIN, side="right") - starts
    return centre, scale, starts, int(most.max())


def lines_of(cells: Cells, columns: Sequence[int], layer: Curves, weights: np.ndarray) -> tuple[np.ndarray, np.ndarray]:
    """The sum of weighted curves on the columns of cells: levels at the points of cells, and slopes, (columns, cells)."""
    levels = np.zeros((len(cells.points), max(map(len, cells.points)) + 1))
    slopes = np.zeros_like(levels)
    for c, (j, weight) in enumerate(zip(columns, weights.tolist(), strict=True)):
        (xs, ys), own = layer.knots[c], cells.points[j]
        place = np.searchsorted(xs, own, side="right") - 1
        slope = np.append(layer.slopes(c), 0.0)[place] * (place >= 0)
        level = np.where(place >= 0, ys[place] + np.where(slope == 0.0, 0.0, own - xs[place]) * slope, ys[0])
        levels[j, 1 : len(own) + 1] += weight * level
        slopes[j, 1 : len(own) + 1] += weight * slope
        levels[j, 0] += weight * (np.nan if layer.missing is None else layer.missing[c])
    return levels, slopes


def on_lines(graph: Graph, cells: Cells, levels: np.ndarray, slopes: np.ndarray) -> str:
    """Lines at the values of cells, (k, n)."""
    level, slope = (graph.add("GatherElements", table, cells.reached, axis=1) for table in (levels, slopes))
    return graph.add("Add", level, graph.add("Mul", graph.add("Sub", cells.values, cells.starts), slope))


def curves_on(graph: Graph, X: str, layer: Curves) -> str:
    """Curves of the columns (n, k) of X, one of each."""
    cells = cells_of(graph, X, [xs for xs, _ in layer.knots])
    k = len(layer.knots)
    lines = on_lines(graph, cells, *lines_of(cells, range(k), layer, np.ones(k)))
    return graph.add("Transpose", lines, perm=[1, 0])
