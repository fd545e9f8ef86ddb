"""What trees beside curves serve, as a function of raw features: its closed form, and its shares of a difference."""

from collections.abc import Hashable, Mapping, Sequence
from typing import Any

import numpy as np

from online_rank._kernels import leaves
from online_rank._kernels.curves import MISSING
from online_rank.base.explain import shares_of_features
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


class _OfBins:
    """A ranker of documents that are given by their bins."""

    _n_documents_kept = 0

    def __init__(self, splits: np.ndarray, table: np.ndarray) -> None:
        self._splits, self._table = splits, table

    def _score(self, bins: np.ndarray) -> np.ndarray:
        scores, rows = np.zeros(len(bins)), np.arange(len(bins))
        for row, own in zip(self._splits.astype(np.int64), self._table, strict=True):
            nodes = np.zeros(len(bins), dtype=np.int64)
            for _ in range(4):
                right = bins[rows, row[nodes]] > row[leaves.THRESHOLDS + nodes]
                nodes = 2 * nodes + 1 + right
            scores += own[nodes - leaves.N_NODES]
        return scores


def shares_of_leaves(
    splits: np.ndarray, table: np.ndarray, rows: Any, features: Mapping[Hashable, Sequence[int]]
) -> np.ndarray:
    """The share of each feature, with its columns, in the difference between the scores of two documents; they add up to it.

    rows : of both documents, (d, 2)
    """
    bins = np.where(rows.cells == MISSING, 0, _bins(np.maximum(rows.g, leaves.LOWEST)))
    # Columns that no tree splits by make no difference.
    used = np.zeros(len(bins), dtype=bool)
    used[splits[:, : leaves.N_NODES][splits[:, leaves.N_NODES :] < leaves.NEVER]] = True
    a, b = np.where(used[:, None], bins, 0).T
    shares = shares_of_features(_OfBins(splits, table), a, b)
    return np.array([shares[list(columns)].sum() for columns in features.values()])
