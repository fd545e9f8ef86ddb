"""What each feature adds to the scores of a ranker with curves, as numbers that pictures and pages draw."""

import math
from collections.abc import Hashable, Sequence
from typing import Any, NamedTuple

import numpy as np

from online_rank._kernels import curves
from online_rank.base.reader import own_names
from online_rank.query.levels import is_level
from online_rank.rankers.curved import CurvedRanker, cells_of

__all__ = ["N_BINS", "Level", "Shape", "has_shapes", "shapes_of"]

#: Bins of the density of a feature's values.
N_BINS = 24
#: Members with a smaller share in what is served are not shown.
_LEAST_SHARE = 0.05
#: Values are shown between these quantiles of the stream, on a logarithmic axis if they are positive and their ratio is larger.
_SHOWN, _RATIO = (0.005, 0.995), 100.0
#: Most values of a curve, evenly over the quantiles; more cannot be seen.
_MOST_VALUES = 64


class Level(NamedTuple):
    """What one level of a category adds to a score.

    Attributes
    ----------
    name
        The level; None for all levels that share a weight.
    height, low, high
        What it adds to the score of a document that has none, and the range of this over the members.
    share
        The share of the documents that have it.
    """

    name: str | None
    height: float
    low: float
    high: float
    share: float


class Shape(NamedTuple):
    """What one feature adds to a score: a curve over its values, or a height for each level of a category.

    Curves are relative to their mean over the stream, and say what a value adds if its rank in the query is that in the stream.

    Attributes
    ----------
    name
        The feature.
    spread
        The standard deviation, over the stream, of what the feature adds.
    values
        Values between which the curve is about linear, ascending, float64 (n,); none for a category.
    line, low, high
        The curve there, and the range of the members, each on its own scale, float64 (n,).
    shown
        The least and the largest value to show.
    is_logarithmic
        Whether to show values on a logarithmic axis.
    density
        The shares of the known values in `N_BINS` bins of equal width on that axis.
    missing
        What a missing value adds; None if none was missing.
    missing_share
        The share of the documents whose value is missing.
    levels
        The levels of a category, the highest first.
    """

    name: Hashable
    spread: float
    values: np.ndarray
    line: np.ndarray
    low: np.ndarray
    high: np.ndarray
    shown: tuple[float, float]
    is_logarithmic: bool
    density: np.ndarray
    missing: float | None
    missing_share: float
    levels: tuple[Level, ...]


def has_shapes(ranker: Any) -> bool:
    """Whether a ranker has curves."""
    return issubclass(type(ranker), CurvedRanker) and bool(ranker.has_curves)


def shapes_of(ranker: CurvedRanker, features: Sequence[Hashable] | None = None, n: int | None = None) -> list[Shape]:
    """What features add to the scores of a ranker, at one moment.

    Parameters
    ----------
    ranker
        A ranker with curves.
    features
        The features, in order; None for those that vary most over the stream, largest first.
    n
        Most features; None for all.

    Raises
    ------
    ValueError
        There is no such feature.
    """
    with ranker._lock:
        drawn = _Drawn(ranker)
        columns = ranker._columns_of_features()
        if features is not None and (unknown := [name for name in features if name not in columns]):
            raise ValueError(f"features: there is no feature {unknown[0]!r}")
        found = [drawn.shape(name, columns[name]) for name in (columns if features is None else features)]
    return (found if features is not None else sorted(found, key=lambda shape: -shape.spread))[:n]


class _Drawn:
    """The served curves of a ranker and the curves of its members, under its lock."""

    def __init__(self, ranker: CurvedRanker) -> None:
        self._ranker, self._names = ranker, own_names(ranker)
        self._whole = ranker._curves()
        shares = ranker._choice()[: len(ranker.members)] * ranker._sigmas()
        self._members = [
            ranker._drawn_alone(name) for name, share in zip(ranker.members, shares, strict=True) if share > _LEAST_SHARE
        ]

    def shape(self, name: Hashable, columns: list[int]) -> Shape:
        """What a feature adds, which has these columns."""
        return self._category(name, columns) if is_level(self._names[columns[0]]) else self._curve(name, columns[0])

    def _curve(self, name: Hashable, j: int) -> Shape:
        values, g = self._ranker._bends(j)
        known, weights, lacking = self._ranker._front.sample(j)
        line, *each = (_at(drawn[j], g) for drawn in (self._whole, *self._members))
        total = float(weights.sum())
        shares = weights / total if total > 0.0 else weights

        def centred(curve: np.ndarray) -> tuple[np.ndarray, float]:
            middle = float(shares @ np.interp(known, values, curve)) if len(values) else 0.0
            return curve - middle, middle

        line, middle = centred(line)
        bands = np.array([centred(one)[0] for one in each] or [line])
        spread = math.sqrt(float(shares @ np.interp(known, values, line) ** 2)) if len(values) else 0.0
        shown, is_logarithmic, density = _seen(known, shares)
        missing = float(self._whole[j, 0, 0, curves.MISSING]) - middle if lacking > 0.0 else None
        if len(values) > _MOST_VALUES:
            kept = np.linspace(0.0, len(values) - 1.0, _MOST_VALUES).astype(int)
            values, line, bands = values[kept], line[kept], bands[:, kept]
        return Shape(
            name, spread, values, line, bands.min(axis=0), bands.max(axis=0), shown, is_logarithmic, density, missing,
            lacking / (total + lacking) if lacking > 0.0 else 0.0, (),
        )  # fmt: skip

    def _category(self, name: Hashable, columns: list[int]) -> Shape:
        levels, variance = [], 0.0
        for j in columns:
            _, g = self._ranker._bends(j)
            known, weights, _ = self._ranker._front.sample(j)
            total = float(weights.sum())
            share = float(weights[known != 0.0].sum()) / total if total > 0.0 else 0.0
            height, *each = (
                float(added[-1] - added[0]) if len(added := _at(drawn[j], g)) else 0.0
                for drawn in (self._whole, *self._members)
            )
            level = self._names[j][2]  # type: ignore[index]
            each = each or [height]
            levels.append(Level(None if level is None else f"{level}", height, min(each), max(each), share))
            variance += share * (1.0 - share) * height**2
        levels.sort(key=lambda level: -level.height)
        none = np.zeros(0)
        return Shape(name, math.sqrt(variance), none, none, none, none, (0.0, 1.0), False, none, None, 0.0, tuple(levels))


def _at(drawn: np.ndarray, g: np.ndarray) -> np.ndarray:
    """The sum of the curves of g and of q (2, 2, N_CELLS) at q = g."""
    cells = cells_of(g)
    (own, own_slopes), (ranked, ranked_slopes) = drawn
    return own[cells] + ranked[cells] + (own_slopes[cells] + ranked_slopes[cells]) * g


def _seen(known: np.ndarray, shares: np.ndarray) -> tuple[tuple[float, float], bool, np.ndarray]:
    """The values to show, whether on a logarithmic axis, and the shares of its bins."""
    if not len(known):
        return (0.0, 1.0), False, np.zeros(N_BINS)
    places = np.searchsorted(np.cumsum(shares), (_SHOWN[0], 0.5, _SHOWN[1]))
    low, median, high = known[np.minimum(places, len(known) - 1)].tolist()
    # On a linear axis, half of the values would crowd in the lowest tenth.
    is_logarithmic = low > 0.0 and high > _RATIO * low and median - low < 0.1 * (high - low)
    x = np.log(np.clip(known, low, high)) if is_logarithmic else np.clip(known, low, high)
    # All equal values are in the middle of bins that are one wide in all.
    return (low, high), is_logarithmic, np.histogram(x, N_BINS, weights=shares)[0]
