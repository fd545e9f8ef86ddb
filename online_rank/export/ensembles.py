"""Sums of curves and trees as trees alone, for engines that compute nothing else.

Each curve becomes one balanced tree. Its leaves have the values of the curve at its knots, and at points between them; splits
are halfway. So features of which only some values occur are exact. Where a curve changes by v between two knots it gets points
in proportion to v^(2/3), which is best for the mean squared error if as many documents are between any two knots, which are
quantiles. All curves share the factor, which gives the most varied one `LEAVES` leaves.
"""

from collections.abc import Iterator, Sequence

import numpy as np

from online_rank.base.form import Blend, Curves, Form, Tree, Trees
from online_rank.export.reading import Prepared, in_levels

#: Most leaves of the tree of a curve.
LEAVES = 2048
#: Targets that take a missing field for 0, and what they are called.
ZERO_FILLED = {"solr": "Solr", **dict.fromkeys(("elasticsearch", "opensearch"), "the plugin")}
#: Known values are not below this; and the least above 0 that single precision has.
_LOWEST, _LEAST = -1e300, float(np.finfo(np.float32).smallest_subnormal)
#: Knots that are closer than this stand for one number and its neighbour.
_BESIDE = 1e-30


def as_trees(given: Prepared, *, zero_filled: str = "", leaves: int = LEAVES) -> tuple[Tree, ...]:
    """A model of the kind "trees" or "curves" as trees on raw features, in which a missing value goes to the left.

    `zero_filled` is the title of an engine that takes a missing field for 0.

    Raises
    ------
    ValueError
        The engine would take a missing value for a 0 that has other scores.
    """
    curves = [own for own in _curves_of(given.form, 1.0) if np.ptp(own[2]) > 0.0 or own[3] not in (None, own[2][0])]
    # Points a unit of roughness; rounding up gives each interval less than one more.
    rate = min(
        (max(leaves - len(xs), 1) / _roughness(xs, ys).sum() for _, xs, ys, _ in curves if _roughness(xs, ys).any()),
        default=0.0,
    )
    trees = [_tree_of(j, *_points(xs, ys, rate, j in given.levels), missing) for j, xs, ys, missing in curves]
    trees += [in_levels(tree) for tree in _trees_of(given.form, 1.0)]
    return tuple(_with_zeros(tree, given, zero_filled) for tree in trees) if zero_filled else tuple(trees)


def lowest_values(form: Form) -> dict[int, float]:
    """The lowest values of the features that have curves; a knot next to 0 counts as 0."""
    lowest: dict[int, float] = {}
    for j, xs, _, _ in _curves_of(form, 1.0):
        low = 0.0 if abs(xs[0]) < _BESIDE else float(xs[0])
        lowest[j] = min(low, lowest.get(j, np.inf))
    return lowest


def _parts(form: Form, weight: float) -> Iterator[tuple[Form, float]]:
    """The forms that are summed, with their weights."""
    if isinstance(form.head, Blend):
        for inner, own in zip(form.head.forms, form.head.weights.tolist(), strict=True):
            yield from _parts(inner, weight * own)
    else:
        yield form, weight


def _curves_of(form: Form, weight: float) -> Iterator[tuple[int, np.ndarray, np.ndarray, float | None]]:
    """The curves that are summed: feature, points, and what a missing value gives."""
    for part, own in _parts(form, weight):
        for layer in part.layers:
            if isinstance(layer, Curves):
                missing = [None] * len(layer.knots) if layer.missing is None else (own * layer.missing).tolist()
                for j, (xs, ys), low in zip(layer.sources.tolist(), layer.knots, missing, strict=True):
                    yield j, xs, own * ys, low


def _trees_of(form: Form, weight: float) -> Iterator[Tree]:
    """The trees that are summed."""
    for part, own in _parts(form, weight):
        if isinstance(part.head, Trees):
            for tree in part.head.trees:
                yield tree._replace(values=own * tree.values)


def _roughness(xs: np.ndarray, ys: np.ndarray) -> np.ndarray:
    """What points each interval between knots has in proportion to."""
    return np.abs(np.diff(ys)) ** (2.0 / 3.0) * (np.diff(xs) > _BESIDE)


def _points(xs: np.ndarray, ys: np.ndarray, rate: float, is_level: bool) -> tuple[np.ndarray, np.ndarray]:
    """The points of a curve that have leaves: its knots, and more between them."""
    if is_level:
        return np.array([0.0, 1.0]), np.interp((0.0, 1.0), xs, ys)
    parts = np.maximum(np.ceil(rate * _roughness(xs, ys)), 1).astype(int)
    made = [np.linspace(xs[k], xs[k + 1], n, endpoint=False) for k, n in enumerate(parts.tolist())]
    points = np.unique(np.concatenate([*made, xs[-1:]]))
    return points, np.interp(points, xs, ys)


def _tree_of(column: int, points: np.ndarray, values: np.ndarray, missing: float | None) -> Tree:
    """The balanced tree whose leaves have these values around these points."""
    # Half of each, so that the sum of two large numbers stays finite.
    limits = 0.5 * points[:-1] + 0.5 * points[1:]
    nodes: list[tuple[int, float, int, int, float]] = []

    def add(first: int, stop: int) -> int:
        number = len(nodes)
        nodes.append((-1, 0.0, 0, 0, float(values[first])))
        if stop - first > 1:
            middle = (first + stop) // 2
            below, above = add(first, middle), add(middle, stop)
            nodes[number] = (column, float(limits[middle - 1]), below, above, 0.0)
        return number

    if missing is not None and missing != values[0]:
        nodes += [(column, _LOWEST, 1, 2, 0.0), (-1, 0.0, 0, 0, missing)]
    add(0, len(points))
    own, thresholds, left, right, leaves = zip(*nodes, strict=True)
    return in_levels(Tree(*map(np.array, (own, thresholds, left, right, leaves))))


def _with_zeros(tree: Tree, given: Prepared, title: str) -> Tree:
    """A tree in which 0 goes where missing values go, for features above 0 that have been missing.

    Raises ValueError if such a feature may be 0 or less, and scores differ.
    """
    lowest, lacked, thresholds = lowest_values(given.form), _lacked(given.form), tree.thresholds.copy()
    for n in np.flatnonzero(tree.columns >= 0).tolist():
        j = int(tree.columns[n])
        if j not in lacked or j in given.levels:
            # Every value is known.
            thresholds[n] = -np.inf if thresholds[n] <= _LOWEST else thresholds[n]
        elif lowest[j] > 0.0:
            thresholds[n] = max(thresholds[n], _LEAST)
        elif thresholds[n] <= 0.0:
            raise ValueError(
                f"feature {given.texts[j]!r} has been missing, and 0 or less, and {title} takes a missing field for 0: add a "
                "constant to it, so that it is always above 0, and learn again; or export to a target that knows missing values"
            )
    return in_levels(tree._replace(thresholds=thresholds))


def _lacked(form: Form) -> set[int]:
    """The features of which values have been missing."""
    found: set[int] = set()
    for part, _ in _parts(form, 1.0):
        for layer in part.layers:
            if isinstance(layer, Curves) and layer.lacked is not None:
                found |= {*layer.sources[layer.lacked].tolist()}
    return found


def in_single(thresholds: Sequence[float] | np.ndarray) -> np.ndarray:
    """The least numbers of single precision that are >= thresholds: they split numbers of single precision alike."""
    wide = np.maximum(np.asarray(thresholds, dtype=np.float64), -float(np.finfo(np.float32).max))
    rounded = wide.astype(np.float32)
    return np.where(rounded < wide, np.nextafter(rounded, np.float32(np.inf)), rounded)
