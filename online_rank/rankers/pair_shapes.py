"""What pairs of features add to the scores of a ranker with trees, as numbers that pictures and pages draw."""

from collections.abc import Hashable
from typing import Any, NamedTuple

import numpy as np

from online_rank.base.effects import pair_effects
from online_rank.base.reader import own_names
from online_rank.query.levels import is_level
from online_rank.rankers.leaf_tables import form_of_leaves, shares_of_scores

__all__ = ["PairShape", "has_pairs", "pair_shapes_of"]

#: Points of the grid for each feature, at equally frequent values.
_POINTS = 24


class PairShape(NamedTuple):
    """What two features add to a score together, beyond what each adds alone.

    Attributes
    ----------
    names
        The two features; a level of a category is called "feature: level".
    values
        For each of the two, values at equally frequent quantiles of the stream, ascending, float64 (n,).
    effect
        float64 (n, n): a row for each value of the first, a column for each value of the second. Its mean over the stream is 0
        for each value of either, if the two were independent.
    strength
        The root of its mean square.
    """

    names: tuple[Hashable, Hashable]
    values: tuple[np.ndarray, np.ndarray]
    effect: np.ndarray
    strength: float


def has_pairs(ranker: Any) -> bool:
    """Whether a ranker serves trees next to curves."""
    trees = getattr(ranker, "_trees", None)
    return trees is not None and bool(getattr(trees, "n_served", 0)) and ranker.has_curves


def pair_shapes_of(ranker: Any, n: int = 4) -> list[PairShape]:
    """The n pairs of features whose effect is strongest over the stream, the strongest first."""
    from scipy.special import ndtri

    with ranker._lock:
        if not has_pairs(ranker):
            return []
        grid = ndtri((np.arange(_POINTS) + 0.5) / _POINTS)
        trees = form_of_leaves(*ranker._trees.served()).trees
        found, names = pair_effects(trees, shares_of_scores, grid, n), own_names(ranker)
        return [
            PairShape(
                (_called(names[pair.columns[0]]), _called(names[pair.columns[1]])),
                (_values(ranker, pair.columns[0], grid), _values(ranker, pair.columns[1], grid)),
                pair.effect,
                pair.strength,
            )
            for pair in found
        ]


def _called(name: Any) -> Hashable:
    return f"{name[0]}: {'others' if name[2] is None else name[2]}" if is_level(name) else name


def _values(ranker: Any, column: int, grid: np.ndarray) -> np.ndarray:
    """The values of a feature at normal scores."""
    values, scores = ranker._front.knots(column)
    return np.interp(grid, scores, values)
