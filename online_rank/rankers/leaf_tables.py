"""What trees next to curves serve, as a function of raw features: its closed form, and how it splits a difference."""

from collections.abc import Hashable, Mapping, Sequence
from typing import Any

import numpy as np

from online_rank._kernels import leaves
from online_rank._kernels.curves import MISSING
from online_rank.base.effects import split_difference
from online_rank.base.form import Curves, Trees, first_at_least, full_tree


def within_reach(values: np.ndarray, scores: np.ndarray) -> tuple[np.ndarray, np.ndarray]:
    """The knots of a map whose scores end at -2.6: below are the scores of missing values.

    Examples
    --------
    >>> within_reach(np.array([0.0, 1.0]), np.array([-4.0, 0.0]))
    (array([0.35, 1.  ]), array([-2.6,  0. ]))
    """
    above = scores > leaves.LOWEST
    if above.all():
        return values, scores
    return (
        np.append(np.interp(leaves.LOWEST, scores, values), values[above]),
        np.append(leaves.LOWEST, scores[above]),
    )


def mapped_for_trees(mapped: Curves) -> Curves:
    """The map of the curves as trees see it: scores from -2.6 on, and a missing value far below."""
    knots = tuple(within_reach(*knots) for knots in mapped.knots)
    return mapped._replace(knots=knots, missing=np.full(len(knots), 2.0 * leaves.LOWEST))


def form_of_leaves(splits: np.ndarray, table: np.ndarray) -> Trees:
    """The closed form of trees, with splits (T, N_SPLITS) and leaves (T, N_LEAVES), on normal scores."""
    # The least score of each bin: smaller ones go left. A node that does not split has an infinite threshold.
    least = np.append(first_at_least(_bins, np.arange(1, leaves.N_BINS)), [np.inf] * (leaves.NEVER + 1))
    features, thresholds = splits[:, : leaves.N_NODES].astype(np.int64), splits[:, leaves.N_NODES :].astype(np.int64)
    return Trees(tuple(full_tree(f, least[t], own) for f, t, own in zip(features, thresholds, table, strict=True)))


def _bins(g: np.ndarray) -> np.ndarray:
    """The bins of normal scores, with the rounding of `leaves.bin_rows`; 0 far below the lowest."""
    lowest, factor = np.float32(leaves.LOWEST), np.float32(1.0 / leaves.WIDTH)
    z = np.clip(
        (np.clip(g, 2.0 * leaves.LOWEST, -2.0 * leaves.LOWEST).astype(np.float32) - lowest) * factor,
        np.float32(0.0),
        np.float32(leaves.N_BINS - 2),
    )
    return np.where(g <= 1.5 * leaves.LOWEST, 0, z.astype(np.int64) + 1)


def shares_of_scores(_: np.ndarray, low: np.ndarray, high: np.ndarray) -> np.ndarray:
    """The share of normal scores in each interval, of values that are not missing: none is below -2.6."""
    from scipy.special import ndtr

    low, high = (np.where(end <= leaves.LOWEST, -np.inf, end) for end in (low, high))
    return np.maximum(ndtr(high) - ndtr(low), 0.0)


def split_by_leaves(
    splits: np.ndarray, table: np.ndarray, rows: Any, features: Mapping[Hashable, Sequence[int]]
) -> tuple[np.ndarray, dict[tuple[int, int], float]]:
    """The difference between the scores of two documents by trees: what each feature adds, and what pairs of features add.

    rows : of both documents, (d, 2); features : the columns of each feature
    """
    g = np.where(rows.cells == MISSING, 2.0 * leaves.LOWEST, np.maximum(rows.g, leaves.LOWEST)).astype(np.float64)
    own = np.zeros(len(g), dtype=np.int64)
    for number, columns in enumerate(features.values()):
        own[list(columns)] = number
    trees = form_of_leaves(splits, table).trees
    singles, pairs, effects = split_difference(trees, g[:, 0], g[:, 1], shares_of_scores, own, len(features))
    return singles, dict(zip(map(tuple, pairs.tolist()), effects.tolist(), strict=True))
