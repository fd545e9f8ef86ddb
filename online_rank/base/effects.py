"""Splits sums of trees into effects of single features and of pairs of features."""

import itertools
import math
from collections.abc import Callable, Sequence
from typing import NamedTuple

import numpy as np

from online_rank.base.form import Tree

#: For columns, and intervals from a value to another one, the share of values there; all of one shape.
Shares = Callable[[np.ndarray, np.ndarray, np.ndarray], np.ndarray]


class Boxes(NamedTuple):
    r"""The leaves of trees, each with the intervals of the columns that lead to it.

    With 1_k(x) for "column k is in its interval" and p_k the share of values there, the value v of a leaf is the sum over sets
    S of its columns of :math:`v \prod_{k \in S} (1_k - p_k) \prod_{k \notin S} p_k`: the functional analysis of variance of
    independent columns. Sets of one column add up to its effect, sets of two to the effect of a pair; a larger set counts by
    equal parts for all its pairs, as in the Shapley-Taylor index of order 2 (Dhamdhere, Agarwal & Sundararajan 2020).

    Attributes
    ----------
    columns
        int64 (L, K): the different columns of each leaf; -1 for none.
    low, high
        float64 (L, K): a value x is in the interval if low <= x < high; a missing one if low is infinite.
    values
        float64 (L,).
    """

    columns: np.ndarray
    low: np.ndarray
    high: np.ndarray
    values: np.ndarray

    def inside(self, x: np.ndarray) -> np.ndarray:
        """Whether the values of a document (d,) are in the intervals; bool (L, K)."""
        given = x[np.maximum(self.columns, 0)]
        is_there = np.where(np.isnan(given), np.isinf(self.low), (given >= self.low) & (given < self.high))
        return is_there | (self.columns < 0)

    def shares(self, shares: Shares) -> np.ndarray:
        """The share of values in each interval, (L, K); 1 without an interval."""
        return np.where(self.columns < 0, 1.0, shares(np.maximum(self.columns, 0), self.low, self.high))

    def singles(self, p: np.ndarray, away: np.ndarray) -> np.ndarray:
        """The effect of each column of each leaf, (L, K), by the shares and by 1_k - p_k."""
        return np.stack([self.values * away[:, i] * _others(p, i).prod(axis=1) for i in range(p.shape[1])], axis=1)

    def pairs(self, p: np.ndarray, away: np.ndarray, i: int, k: int) -> np.ndarray:
        """The effect of columns i and k of each leaf, (L,), with the parts of larger sets."""
        # Coefficients of the polynomial that has the sets with s further columns at power s.
        sums = np.zeros((len(p), p.shape[1] - 1))
        sums[:, 0] = 1.0
        for rest_p, rest_away in zip(_others(p, i, k).T, _others(away, i, k).T, strict=True):
            moved = sums[:, :-1] * rest_away[:, None]
            sums *= rest_p[:, None]
            sums[:, 1:] += moved
        parts = np.array([math.comb(s + 2, 2) for s in range(sums.shape[1])])
        return self.values * away[:, i] * away[:, k] * (sums / parts).sum(axis=1)


def _others(values: np.ndarray, *left_out: int) -> np.ndarray:
    return np.delete(values, left_out, axis=1)


def boxes_of(trees: Sequence[Tree]) -> Boxes:
    """The leaves of trees."""
    found: list[tuple[dict[int, tuple[float, float]], float]] = []
    for tree in trees:
        waiting: list[tuple[int, dict[int, tuple[float, float]]]] = [(0, {})]
        while waiting:
            node, known = waiting.pop()
            j = int(tree.columns[node])
            if j < 0:
                found.append((known, float(tree.values[node])))
                continue
            limit = float(tree.thresholds[node])
            begin, end = known.get(j, (-np.inf, np.inf))
            waiting.append((int(tree.left[node]), {**known, j: (begin, min(end, limit))}))
            waiting.append((int(tree.right[node]), {**known, j: (max(begin, limit), end)}))
    width = max([2, *(len(known) for known, _ in found)])
    columns = np.full((len(found), width), -1)
    low, high = np.full(columns.shape, -np.inf), np.full(columns.shape, np.inf)
    for number, (known, _) in enumerate(found):
        for place, (j, ends) in enumerate(known.items()):
            columns[number, place], (low[number, place], high[number, place]) = j, ends
    return Boxes(columns, low, high, np.array([value for _, value in found]))


def split_difference(
    trees: Sequence[Tree], a: np.ndarray, b: np.ndarray, shares: Shares, features: np.ndarray, n_features: int
) -> tuple[np.ndarray, np.ndarray, np.ndarray]:
    """The difference between the scores of two documents, split among features and pairs of features; exact.

    Parameters
    ----------
    trees, shares
        Trees, and the distribution of their columns.
    a, b
        (d,) columns of the documents.
    features
        int64 (d,): the feature of each column, below `n_features`. Columns of one feature make no pair.

    Returns
    -------
    The effects of the features (n_features,), pairs of features (k, 2) in order, and their effects (k,).
    """
    boxes = boxes_of(trees)
    if not len(boxes.values):
        return np.zeros(n_features), np.empty((0, 2), dtype=np.int64), np.empty(0)
    p = boxes.shares(shares)
    both = [boxes.inside(x) - p for x in (a, b)]
    own = features[np.maximum(boxes.columns, 0)]
    one, other = (boxes.singles(p, away) for away in both)
    single = np.bincount(own.ravel(), (one - other).ravel(), n_features)
    codes, parts = [], []
    for i, k in itertools.combinations(range(boxes.columns.shape[1]), 2):
        first, second = np.minimum(own[:, i], own[:, k]), np.maximum(own[:, i], own[:, k])
        codes.append(first * n_features + second)
        parts.append(boxes.pairs(p, both[0], i, k) - boxes.pairs(p, both[1], i, k))
    known, places = np.unique(np.concatenate(codes), return_inverse=True)
    effects = np.bincount(places, np.concatenate(parts), len(known))
    pairs = np.stack([known // n_features, known % n_features], axis=1)
    same = pairs[:, 0] == pairs[:, 1]
    single += np.bincount(pairs[same, 0], effects[same], n_features)
    kept = ~same & (effects != 0.0)
    return single, pairs[kept], effects[kept]


class PairEffect(NamedTuple):
    """The effect of two columns together, beyond the effects of each, on a grid.

    Attributes
    ----------
    columns
        The two columns.
    effect
        float64 (n, n): a row for each grid point of the first column, a column for each of the second.
    strength
        The root of the mean square of the effect over the grid.
    """

    columns: tuple[int, int]
    effect: np.ndarray
    strength: float


def pair_effects(trees: Sequence[Tree], shares: Shares, grid: np.ndarray, n: int) -> list[PairEffect]:
    """The n strongest effects of pairs of columns, on a grid of equally frequent values (g,), the same for all columns."""
    boxes = boxes_of(trees)
    if not len(boxes.values):
        return []
    p, d = boxes.shares(shares), int(boxes.columns.max()) + 1
    away = ((grid >= boxes.low[..., None]) & (grid < boxes.high[..., None])) - p[..., None]
    away[boxes.columns < 0] = 0.0
    codes, left, right = [], [], []
    for i, k in itertools.combinations(range(boxes.columns.shape[1]), 2):
        used = np.flatnonzero((boxes.columns[:, i] >= 0) & (boxes.columns[:, k] >= 0))
        swap = (boxes.columns[used, i] > boxes.columns[used, k])[:, None]
        one, two = away[used, i], away[used, k]
        weight = (boxes.values * _others(p, i, k).prod(axis=1))[used]
        ends = np.sort(boxes.columns[used][:, [i, k]], axis=1)
        codes.append(ends[:, 0] * d + ends[:, 1])
        left.append(np.where(swap, two, one) * weight[:, None])
        right.append(np.where(swap, one, two))
    code, first, second = (np.concatenate(parts) for parts in (codes, left, right))
    order = np.argsort(code, kind="stable")
    known, starts = np.unique(code[order], return_index=True)
    found = []
    for own, rows in zip(known.tolist(), np.split(order, starts[1:]), strict=True):
        effect = first[rows].T @ second[rows]
        found.append(PairEffect((own // d, own % d), effect, float(np.sqrt(np.mean(effect**2)))))
    return sorted(found, key=lambda pair: -pair.strength)[:n]
