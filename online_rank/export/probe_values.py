"""The values of raw features at which a model of curves and trees may change: thresholds, knots and their neighbours."""

from collections.abc import Collection, Iterator
from typing import TypeAlias

import numpy as np

from online_rank.base.form import Blend, Crossed, Curves, Form, InQuery, Scale, Take, Tree, Trees

#: Thresholds beyond this are none: they tell missing values from others.
_NONE = 1e200
#: How far beyond the outermost threshold the extreme values are, in units of the width of all.
_BEYOND = 1e3


def values_of(form: Form, single: bool) -> list[np.ndarray]:
    """For each of the d raw features the values that a probe may have, ascending, without missing ones.

    These are 0 and 1, every threshold and knot with the number just below it, values between them, and values far beyond. With
    `single` all are numbers of single precision.
    """
    marks = marks_of(form)
    return [_around(np.unique(np.concatenate([[], *marks[j]])), single) for j in range(form.n_features)]


def marks_of(form: Form) -> dict[int, list[np.ndarray]]:
    """The thresholds, knots, means and deviations of each raw feature."""
    marks: dict[int, list[np.ndarray]] = {j: [] for j in range(form.n_features)}
    for j, values in _marks(form):
        marks[j].append(values[np.abs(values) < _NONE])
    return marks


def _marks(form: Form) -> Iterator[tuple[int, np.ndarray]]:
    sources = np.arange(form.n_features)
    # The raw value of a column is value * width + start, as long as only scalers were in front.
    raw, start, width = np.ones(len(sources), dtype=bool), np.zeros(len(sources)), np.ones(len(sources))
    for layer in form.layers:
        if isinstance(layer, Take):
            known = layer.columns >= 0
            sources, start, width = (values[layer.columns] for values in (sources, start, width))
            raw = raw[layer.columns] & known
        elif isinstance(layer, Scale):
            safe = np.where(layer.factors == 0.0, 1.0, layer.factors)
            for k in np.flatnonzero(raw).tolist():
                spread = np.array([-1.0, 0.0, 1.0]) / safe[k] + layer.means[k]
                yield int(sources[k]), spread * width[k] + start[k]
            start, width = start + layer.means * width, width / safe
        elif isinstance(layer, InQuery):
            sources, start, width = (values[layer.sources] for values in (sources, start, width))
            raw = raw[layer.sources] & ~layer.relative
        elif isinstance(layer, Crossed):
            # A factor that is a level leaves values as they are, or takes them away.
            sources, start, width = (values[layer.sources] for values in (sources, start, width))
            raw = raw[layer.sources]
        else:
            yield from _knots(layer, sources, raw, start, width)
            sources, raw = sources[layer.sources], np.zeros(len(layer.sources), dtype=bool)
            start, width = np.zeros(len(raw)), np.ones(len(raw))
    if isinstance(form.head, Blend):
        before = [int(j) if is_raw else -1 for j, is_raw in zip(sources, raw, strict=True)]
        for inner in form.head.forms:
            for k, values in _marks(inner):
                if before[k] >= 0:
                    yield before[k], values * width[k] + start[k]
    elif isinstance(form.head, Trees):
        for tree in form.head.trees:
            for n in np.flatnonzero(tree.columns >= 0).tolist():
                k = int(tree.columns[n])
                if raw[k]:
                    yield int(sources[k]), np.array([tree.thresholds[n] * width[k] + start[k]])


def _knots(
    layer: Curves, sources: np.ndarray, raw: np.ndarray, start: np.ndarray, width: np.ndarray
) -> Iterator[tuple[int, np.ndarray]]:
    """The knots of curves of raw features."""
    for k, (xs, _) in zip(layer.sources.tolist(), layer.knots, strict=True):
        if raw[k]:
            yield int(sources[k]), np.asarray(xs) * width[k] + start[k]


def _around(marks: np.ndarray, single: bool) -> np.ndarray:
    """Marks, the numbers just below them, values between them, and beyond."""
    if not len(marks):
        marks = np.array([0.0, 1.0])
    if single:
        marks = at_least_single(marks)
    middles = 0.5 * marks[:-1] + 0.5 * marks[1:]
    beyond = _BEYOND * max(float(marks[-1] - marks[0]), 1.0)
    values = np.concatenate([[0.0, 1.0, marks[0] - beyond, marks[-1] + beyond], marks, below(marks, single), middles])
    values = values[np.isfinite(values)]
    return np.unique(values.astype(np.float32).astype(float) if single else values)


def below(marks: np.ndarray, single: bool) -> np.ndarray:
    """The largest numbers less than these."""
    if single:
        return np.nextafter(marks.astype(np.float32), np.float32(-np.inf)).astype(float)
    return np.nextafter(marks, -np.inf)


def at_least_single(marks: np.ndarray) -> np.ndarray:
    """The least numbers of single precision that are not less."""
    from online_rank.export.ensembles import in_single

    return np.asarray(in_single(marks), dtype=float)


class Walked:
    """Trees on raw features as flat arrays, and which of their splits documents have reached, on either side.

    A split is reached from above by a document with its very threshold, from below by one with the number just below it, so
    that no other threshold, and no other comparison, gives the same leaves. A split that tells missing values from others is
    reached by one of each.
    """

    def __init__(self, trees: tuple[Tree, ...], single: bool, levels: Collection[int] = ()) -> None:
        sizes = [len(tree.columns) for tree in trees]
        self.starts = np.cumsum([0, *sizes[:-1]]) if trees else np.zeros(0, dtype=np.int64)
        shifts = np.repeat(self.starts, sizes)
        self.columns = np.concatenate([[], *(tree.columns for tree in trees)]).astype(np.int64)
        limits = np.concatenate([[], *(tree.thresholds for tree in trees)])
        self.of_missing = limits <= -_NONE
        safe = np.where(self.of_missing, 0.0, limits)
        safe = at_least_single(safe) if single else safe
        self.below = np.where(self.of_missing, np.nan, below(safe, single))
        self.thresholds = np.where(self.of_missing, -np.inf, safe)
        # Of a level there are 0 and 1.
        of_level = np.isin(self.columns, [*levels]) & (safe > 0.0) & (safe <= 1.0)
        self.thresholds[of_level], self.below[of_level] = 1.0, 0.0
        self.left = np.concatenate([[], *(tree.left for tree in trees)]).astype(np.int64) + shifts
        self.right = np.concatenate([[], *(tree.right for tree in trees)]).astype(np.int64) + shifts
        self.parents = np.full(len(self.columns), -1)
        inner = np.flatnonzero(self.columns >= 0)
        self.parents[self.left[inner]] = self.parents[self.right[inner]] = inner
        #: Of each split whether a document has the threshold, and the number below.
        self.reached = np.zeros((len(self.columns), 2), dtype=bool)
        self.reached[self.columns < 0] = True

    def walk(self, X: np.ndarray) -> None:
        """Note which splits the documents X reach."""
        for k in range(0, len(X), 256):
            part = X[k : k + 256]
            nodes = np.tile(self.starts, len(part))
            rows = np.repeat(np.arange(len(part)), len(self.starts))
            while len(nodes):
                inner = self.columns[nodes] >= 0
                nodes, rows = nodes[inner], rows[inner]
                values = part[rows, self.columns[nodes]]
                above = values >= self.thresholds[nodes]
                of_missing = self.of_missing[nodes]
                self.reached[nodes[(values == self.thresholds[nodes]) | (of_missing & above)], 0] = True
                self.reached[nodes[(values == self.below[nodes]) | (of_missing & ~above)], 1] = True
                nodes = np.where(above, self.right[nodes], self.left[nodes])

    def missed(self) -> list[tuple[int, int]]:
        """The splits, and their sides, that no document has reached."""
        return [(int(n), int(side)) for n, side in np.argwhere(~self.reached)]

    def way_to(self, node: int, side: int, limits: "Limits") -> "Limits | None":
        """Limits of the features of a document that also reaches a side of a split; None if they leave no document."""
        limits = dict(limits)
        child, n = node, int(self.parents[node])
        while n >= 0:
            t = float(self.thresholds[n])
            # A missing value goes to the left; if other values do not, t is minus infinity.
            own = (t, np.inf) if child == self.right[n] else (-np.inf, t)
            if not _narrow(limits, int(self.columns[n]), *own):
                return None
            child, n = n, int(self.parents[n])
        j, t = int(self.columns[node]), float((self.thresholds, self.below)[side][node])
        if self.of_missing[node]:
            own = (-np.inf, -np.inf) if side else (-np.inf, np.inf)
            return limits if _narrow(limits, j, *own) else None
        return limits if _narrow(limits, j, t, t) else None


#: For each feature the least value, and the first that is too large; the same number twice for this number, and minus infinity
#: twice for a missing value.
Limits: TypeAlias = dict[int, tuple[float, float]]


def _narrow(limits: Limits, j: int, low: float, high: float) -> bool:
    """Narrow the limits of a feature; False if nothing is left."""
    own = limits.get(j)
    if own is None:
        limits[j] = (low, high)
        return True
    if own[0] == own[1]:
        value = own[0]
        return value == low if low == high else (low <= value < high or (value == -np.inf and high < np.inf))
    if low == high:
        if not (own[0] <= low < own[1] or (low == -np.inf and own[0] == -np.inf and own[1] < np.inf)):
            return False
        limits[j] = (low, low)
        return True
    limits[j] = (max(own[0], low), min(own[1], high))
    return limits[j][0] < limits[j][1] or limits[j] == (-np.inf, -np.inf)
