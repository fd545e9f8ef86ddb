"""What an export changes, on queries: the scores of its target, as far as curves, trees and missing values decide them."""

from collections.abc import Callable, Iterable
from typing import Any, NamedTuple

import numpy as np

from online_rank.base import serving_steps
from online_rank.base.asked import as_numbers, read_for
from online_rank.base.form import Blend, Form, InQuery, Linear, Network, Tree, Trees
from online_rank.export.ensembles import ZERO_FILLED, as_trees
from online_rank.export.linear import linear_form
from online_rank.export.reading import Names, Prepared, prepared
from online_rank.export.table import TARGETS
from online_rank.metrics import metric


class Change(NamedTuple):
    """What an export changes.

    Attributes
    ----------
    n_queries
        How many queries were ranked.
    otherwise, first
        The shares of them that the target ranks otherwise, and whose first document has a lower score in the model.
    here, there
        Mean NDCG@10 of the model, and of the target.
    """

    n_queries: int
    otherwise: float
    first: float
    here: float
    there: float


def changes(model: Any, to: str, queries: Iterable[tuple[Any, Any]], *, names: Names = None) -> Change:
    """What the export of a model to a target changes on graded queries.

    The target is computed here, from the trees, curves or weights that are written, with 0 for missing fields where the target
    does so; single precision and other roundings of the target are not.

    Parameters
    ----------
    model
        A ranker, or a pipeline that ends in one.
    to
        A target that takes features.
    queries
        Pairs (x, y): a query in any form, and its grades.
    names
        As in `export`.

    Raises
    ------
    TypeError, ValueError
        As `export`; or there are no queries.

    Examples
    --------
    >>> from online_rank import AdditiveRanker
    >>> model = AdditiveRanker(relative=False)
    >>> queries = [([[1.0, 2.0], [3.0, 1.0], [2.0, 5.0]], [0, 2, 1])] * 20
    >>> for X, y in queries:
    ...     model.learn_one(X, y)
    >>> changes(model, "lightgbm", queries).otherwise
    0.0
    """
    if to not in TARGETS or "fusion" in TARGETS[to].kinds:
        raise ValueError(f"to is {to!r}: changes are counted for targets that take features")
    given = prepared(model, to, names)
    score, n, otherwise, first = _scorer(given, to), 0, 0, 0
    here, there = metric("ndcg@10"), metric("ndcg@10")
    for n, (x, y) in enumerate(queries, start=1):  # noqa: B007
        own, found = np.array(_values(model.predict_one(x))), score(_raw(model, given.form, x))
        here.update(y, own)
        there.update(y, found)
        otherwise += bool((np.argsort(-own, kind="stable") != np.argsort(-found, kind="stable")).any())
        first += bool(len(own)) and bool(own[np.argmax(found)] < own.max())
    if not n:
        raise ValueError("there are no queries to check the export on")
    return Change(n, otherwise / n, first / n, here.get(), there.get())


def _values(scores: Any) -> list[float]:
    return [*scores.values()] if isinstance(scores, dict) else [*scores]


def _raw(model: Any, form: Form, x: Any) -> np.ndarray:
    """The raw features of a query, in the order of a form."""
    block, known = read_for(model, x), form.names
    for step in serving_steps(model):
        if getattr(step, "n_features", 0) == form.n_features and getattr(step, "feature_names", None) == known:
            X = (block if step._fits(block) else step._align(block)).X
            return np.asarray(X if isinstance(X, np.ndarray) else X.toarray(), dtype=np.float64)
    # The first steps learn nothing, and know no names.
    block = as_numbers(block) if type(block.X) is list else block
    X = block.X if isinstance(block.X, np.ndarray) else block.X.toarray()
    if known is None or block.names is None:
        return np.asarray(X, dtype=np.float64)
    places = {name: j for j, name in enumerate(block.names)}
    return np.column_stack([X[:, places[name]] if name in places else np.zeros(len(X)) for name in known])


def _scorer(given: Prepared, to: str) -> Callable[[np.ndarray], np.ndarray]:
    """What gives the scores of a target to the raw features of a query."""
    if given.kind == "linear":
        weights = linear_form(given.form).weights
        return lambda X: np.nan_to_num(X) @ weights
    if "document" in TARGETS[to].kinds:
        return lambda X: _scores(given.form, X if given.form.takes_missing else np.nan_to_num(X))
    trees, filled = as_trees(given, zero_filled=ZERO_FILLED.get(to, "")), to in ZERO_FILLED
    return lambda X: _sum_of_trees(trees, np.nan_to_num(X) if filled or not given.form.takes_missing else X)


def _scores(form: Form, X: np.ndarray) -> np.ndarray:
    """The scores of a form."""
    for layer in form.layers:
        X = _in_query(layer, X) if isinstance(layer, InQuery) else layer(X)
    head = form.head
    if isinstance(head, Linear):
        return np.asarray(X @ head.weights)
    if isinstance(head, Trees):
        return _sum_of_trees(head.trees, X)
    if isinstance(head, Blend):
        return np.sum([weight * _scores(inner, X) for inner, weight in zip(head.forms, head.weights, strict=True)], axis=0)
    return _network(head, X)


def _network(head: Network, X: np.ndarray) -> np.ndarray:
    for weights, biases in head.layers:
        X = X @ weights + biases
        X = np.tanh(X) if head.activation == "tanh" else np.maximum(X, 0.0)
    return np.asarray(X @ head.output)


def _in_query(layer: InQuery, X: np.ndarray) -> np.ndarray:
    """The columns of `InQuery`."""
    X = X[:, layer.sources]
    if not len(X):
        return X
    if layer.how == "ranks":
        made = _normal_ranks(X)
    else:
        low, high = X.min(axis=0), X.max(axis=0)
        centre = low if layer.how == "minmax" else np.where(layer.centred is None or layer.centred, X.mean(axis=0), 0.0)
        width = high - low if layer.how == "minmax" else X.std(axis=0) + layer.soft
        made = np.where(high > low, (X - centre) / np.where(high > low, width, 1.0), 0.0)
    return np.where(layer.relative, made, X)


def _normal_ranks(X: np.ndarray) -> np.ndarray:
    from scipy.special import ndtri

    made = np.full(X.shape, np.nan)
    for j, x in enumerate(X.T):
        known = np.flatnonzero(x == x)
        _, places, counts = np.unique(x[known], return_inverse=True, return_counts=True)
        made[known, j] = ndtri((np.cumsum(counts) - 0.5 * counts)[places] / max(len(known), 1))
    return made


def _sum_of_trees(trees: Iterable[Tree], X: np.ndarray) -> np.ndarray:
    """The sum of the leaves that documents reach."""
    scores, rows = np.zeros(len(X)), np.arange(len(X))
    for tree in trees:
        nodes = np.zeros(len(X), dtype=np.int64)
        while (inner := tree.columns[nodes] >= 0).any():
            right = X[rows, np.maximum(tree.columns[nodes], 0)] >= tree.thresholds[nodes]
            nodes = np.where(inner, np.where(right, tree.right[nodes], tree.left[nodes]), nodes)
        scores += tree.values[nodes]
    return scores
