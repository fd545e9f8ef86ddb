"""The closed form of a model: layers from columns to columns, then a head that computes scores.

Transformers and rankers declare it once (`_layers`, `_head`); exports and explanations read it. A layer computes each of its
columns from one column before it, so every column can be traced back to one raw feature; `Crossed` multiplies it with a number
of the query.
"""

from collections.abc import Callable, Hashable
from typing import Any, NamedTuple, TypeAlias

import numpy as np


class Take(NamedTuple):
    """The columns at `columns`, int64 (k,); -1 gives 0."""

    columns: np.ndarray

    def __call__(self, X: np.ndarray) -> np.ndarray:
        """The columns that it makes of the columns of one query."""
        return np.where(self.columns >= 0, X[:, self.columns], 0.0)


class Scale(NamedTuple):
    """(x - means) factors; float64 (d,) each."""

    means: np.ndarray
    factors: np.ndarray

    def __call__(self, X: np.ndarray) -> np.ndarray:
        """The columns that it makes of the columns of one query."""
        return (X - self.means) * self.factors


class Curves(NamedTuple):
    """Of column `sources[k]` the function that is linear between the points (xs, ys) = `knots[k]`, constant beyond them.

    Attributes
    ----------
    sources
        int64 (k,).
    knots
        For each of the k columns its points.
    missing
        What a missing value gives, float64 (k,); None if values are never missing.
    lacked
        bool (k,): of which columns the model has met missing values.
    """

    sources: np.ndarray
    knots: tuple[tuple[np.ndarray, np.ndarray], ...]
    missing: np.ndarray | None = None
    lacked: np.ndarray | None = None

    def __call__(self, X: np.ndarray) -> np.ndarray:
        """The columns that it makes of the columns of one query."""
        made = np.empty((len(X), len(self.knots)))
        for k, (j, curve) in enumerate(zip(self.sources, self.knots, strict=True)):
            made[:, k] = np.interp(X[:, j], *curve)
            if self.missing is not None:
                made[np.isnan(X[:, j]), k] = self.missing[k]
        return made

    def slopes(self, k: int) -> np.ndarray:
        """The slopes between the points of a function; 0 between adjacent floats, which have no number between them."""
        xs, ys = self.knots[k]
        with np.errstate(over="ignore"):
            slopes = np.diff(ys) / np.diff(xs)
        return np.where(np.isfinite(slopes), slopes, 0.0)


class InQuery(NamedTuple):
    """The value of column `sources[k]`, made relative to the query's documents if `relative[k]`.

    Attributes
    ----------
    sources, relative
        int64 and bool (k,).
    how
        "standard": (x - mean) / (deviation + soft); "minmax": (x - min) / (max - min). Both are 0 where the column is
        constant. "ranks": the normal score of (rank - 1/2) / m among the m values that are not missing, with mid-ranks;
        missing for a missing value.
    soft
        Used by "standard".
    centred
        bool (k,), used by "standard": whether the mean is subtracted; None for all.
    """

    sources: np.ndarray
    relative: np.ndarray
    how: str
    soft: float = 0.0
    centred: np.ndarray | None = None

    def __call__(self, X: np.ndarray) -> np.ndarray:
        """The columns that it makes of the columns of one query."""
        X = X[:, self.sources]
        if not len(X):
            return X
        if self.how == "ranks":
            made = _normal_ranks(X)
        else:
            low, high = X.min(axis=0), X.max(axis=0)
            mean = np.where(self.centred is None or self.centred, X.mean(axis=0), 0.0)
            start, width = (low, high - low) if self.how == "minmax" else (mean, X.std(axis=0) + self.soft)
            made = np.where(high > low, (X - start) / np.where(high > low, width, 1.0), 0.0)
        return np.where(self.relative, made, X)


def _normal_ranks(X: np.ndarray) -> np.ndarray:
    """The normal scores of the mid-ranks of each column; NaN for NaN."""
    from scipy.special import ndtri

    made = np.full(X.shape, np.nan)
    for j, x in enumerate(X.T):
        known = np.flatnonzero(x == x)
        _, places, counts = np.unique(x[known], return_inverse=True, return_counts=True)
        made[known, j] = ndtri((np.cumsum(counts) - 0.5 * counts)[places] / max(len(known), 1))
    return made


class Crossed(NamedTuple):
    """Products of column `sources[k]` with column `factors[k]`, which is the same for all documents of a query.

    Attributes
    ----------
    sources, factors
        int64 (k,); a factor of -1 leaves the column as it is.
    only
        bool (k,): whether the value is missing where the factor is 0.
    """

    sources: np.ndarray
    factors: np.ndarray
    only: np.ndarray

    def __call__(self, X: np.ndarray) -> np.ndarray:
        """The columns that it makes of the columns of one query."""
        factors = np.where(self.factors >= 0, X[:, self.factors], 1.0)
        return np.where(self.only & (factors == 0.0), np.nan, X[:, self.sources] * factors)


Layer: TypeAlias = Take | Scale | Curves | InQuery | Crossed


class Linear(NamedTuple):
    """A weighted sum of the columns; float64 (d,)."""

    weights: np.ndarray

    def __call__(self, X: np.ndarray) -> np.ndarray:
        """The scores of the documents of one query, (n,), by their columns."""
        return np.asarray(X @ self.weights)


class Tree(NamedTuple):
    """A binary tree: node n goes to `right[n]` if column `columns[n]` is >= `thresholds[n]`, else, or if missing, to `left[n]`.

    Node 0 is the root. A leaf has column -1, and gives `values[n]`.
    """

    columns: np.ndarray
    thresholds: np.ndarray
    left: np.ndarray
    right: np.ndarray
    values: np.ndarray

    def __call__(self, X: np.ndarray) -> np.ndarray:
        """The values of the leaves that documents reach, (n,), by their columns."""
        nodes, rows = np.zeros(len(X), dtype=np.int64), np.arange(len(X))
        while (inner := self.columns[nodes] >= 0).any():
            above = X[rows, np.maximum(self.columns[nodes], 0)] >= self.thresholds[nodes]
            nodes = np.where(inner, np.where(above, self.right[nodes], self.left[nodes]), nodes)
        return self.values[nodes]


def full_tree(columns: np.ndarray, thresholds: np.ndarray, leaves: np.ndarray) -> Tree:
    """The tree stored as a heap of 2^D - 1 inner nodes and 2^D leaves; a node with an infinite threshold does not split."""
    nodes: list[tuple[int, float, int, int, float]] = []

    def add(place: int) -> int:
        while place < len(columns) and np.isinf(thresholds[place]):
            place = 2 * place + (1 if thresholds[place] > 0.0 else 2)
        number = len(nodes)
        if place >= len(columns):
            nodes.append((-1, 0.0, 0, 0, float(leaves[place - len(columns)])))
            return number
        nodes.append((0, 0.0, 0, 0, 0.0))
        below, above = add(2 * place + 1), add(2 * place + 2)
        nodes[number] = (int(columns[place]), float(thresholds[place]), below, above, 0.0)
        return number

    add(0)
    own, limits, left, right, values = zip(*nodes, strict=True)
    return Tree(np.array(own), np.array(limits), np.array(left), np.array(right), np.array(values))


def first_at_least(function: Callable[[np.ndarray], np.ndarray], targets: np.ndarray) -> np.ndarray:
    """For each target the smallest float64 x with function(x) >= target; infinity if the function stays below it.

    The function maps arrays (n,) elementwise, and does not decrease.
    """
    largest = 1e300  # Beyond this the functions overflow.
    # Floats as integers in the same order; the bit patterns of negative floats run backwards.
    low, high = (np.full(len(targets), _ordered(np.array([end]))[0]) for end in (-largest, largest))
    reached = function(np.full(len(targets), largest)) >= targets
    while (low < high).any():
        middle = (low >> 1) + (high >> 1) + (low & high & 1)
        there = function(_float(middle)) >= targets
        low, high = np.where(there, low, np.minimum(middle + 1, high)), np.where(there, middle, high)
    return np.where(reached, _float(low), np.inf)


def _ordered(x: np.ndarray) -> np.ndarray:
    bits = x.view(np.int64)
    return np.where(bits < 0, np.int64(-(2**63)) - bits, bits)


def _float(order: np.ndarray) -> np.ndarray:
    return np.where(order < 0, np.int64(-(2**63)) - order, order).view(np.float64)


class Trees(NamedTuple):
    """The sum of the leaves of trees; missing values are kept apart, or count as 0."""

    trees: tuple[Tree, ...]
    takes_missing: bool = False

    def __call__(self, X: np.ndarray) -> np.ndarray:
        """The scores of the documents of one query, (n,), by their columns."""
        return sum((tree(X) for tree in self.trees), np.zeros(len(X)))


class Network(NamedTuple):
    """Fully connected layers (weights, biases), each followed by the activation "tanh" or "relu", then a weighted sum."""

    layers: tuple[tuple[np.ndarray, np.ndarray], ...]
    activation: str
    output: np.ndarray

    def __call__(self, X: np.ndarray) -> np.ndarray:
        """The scores of the documents of one query, (n,), by their columns."""
        for weights, biases in self.layers:
            X = X @ weights + biases
            X = np.tanh(X) if self.activation == "tanh" else np.maximum(X, 0.0)
        return np.asarray(X @ self.output)


class Blend(NamedTuple):
    """A weighted sum of the scores of several models on the same columns."""

    forms: tuple["Form", ...]
    weights: np.ndarray

    def __call__(self, X: np.ndarray) -> np.ndarray:
        """The scores of the documents of one query, (n,), by their columns."""
        pairs = zip(self.weights, self.forms, strict=True)
        return sum((weight * form(X) for weight, form in pairs), np.zeros(len(X)))


Head: TypeAlias = Linear | Trees | Network | Blend


class Layered(NamedTuple):
    """What a ranker does: layers between its features and its head."""

    layers: tuple[Layer, ...]
    head: Head


class Form(NamedTuple):
    """The closed form of a model, as a function of raw features.

    Attributes
    ----------
    names
        The d feature names; None when features are known by their position.
    n_features
        d.
    layers, head
        The computation, in order.
    """

    names: tuple[Hashable, ...] | None
    n_features: int
    layers: tuple[Layer, ...]
    head: Head

    def __call__(self, X: np.ndarray) -> np.ndarray:
        """The scores of the documents of one query, (n,), by their raw features; a missing value is NaN, or counts as 0."""
        for layer in self.layers:
            X = layer(X)
        return self.head(X)

    @property
    def is_relative(self) -> bool:
        """Whether a document's score depends on the other documents of its query."""
        return any(form.is_relative for form in self._inner) or any(
            isinstance(layer, InQuery) and layer.relative.any() for layer in self.layers
        )

    @property
    def takes_missing(self) -> bool:
        """Whether missing values, NaN, are different from 0."""
        return (
            any(form.takes_missing for form in self._inner)
            or (isinstance(self.head, Trees) and self.head.takes_missing)
            or any(isinstance(layer, Curves) and layer.missing is not None for layer in self.layers)
        )

    @property
    def _inner(self) -> tuple["Form", ...]:
        return self.head.forms if isinstance(self.head, Blend) else ()


def sources_of(layers: tuple[Any, ...], n_features: int) -> np.ndarray:
    """The raw feature, int64 (k,), that each column after the layers comes from; -1 for a column that is always 0."""
    sources = np.arange(n_features)
    for layer in layers:
        if isinstance(layer, Take):
            sources = np.where(layer.columns >= 0, sources[layer.columns], -1)
        elif isinstance(layer, Curves | InQuery | Crossed):
            sources = sources[layer.sources]
    return sources
