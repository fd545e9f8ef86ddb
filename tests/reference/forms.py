"""The scores of closed forms (`online_rank.base.form`), computed from their definitions."""

import statistics

import numpy as np

from online_rank.base.form import Blend, InQuery, Linear, Network, Trees


def columns(layers, X):
    """The columns that layers make of the features X (m, d) of one query."""
    for layer in layers:
        X = in_query(layer, X) if isinstance(layer, InQuery) else layer(X)
    return X


def scores(form, X):
    """The scores (m,) of the documents of one query, features (m, d)."""
    X, head = columns(form.layers, X), form.head
    if isinstance(head, Linear):
        return X @ head.weights
    if isinstance(head, Trees):
        return np.array([sum(leaf(tree, x) for tree in head.trees) for x in X])
    if isinstance(head, Network):
        for weights, biases in head.layers:
            X = X @ weights + biases
            X = np.tanh(X) if head.activation == "tanh" else np.maximum(X, 0.0)
        return X @ head.output
    assert isinstance(head, Blend)
    each = np.column_stack([scores(inner, X) for inner in head.forms])
    return each @ head.weights


def leaf(tree, x):
    """The value of the leaf that a document reaches."""
    n = 0
    while tree.columns[n] >= 0:
        n = tree.right[n] if x[tree.columns[n]] >= tree.thresholds[n] else tree.left[n]
    return tree.values[n]


def in_query(layer, X):
    """The columns of `InQuery`."""
    X = X[:, layer.sources]
    made = {"standard": standard, "minmax": minmax, "ranks": ranks}[layer.how](X, layer.soft)
    if layer.centred is not None:
        kept = X / (X.std(axis=0) + layer.soft)
        made = np.where(layer.centred | (X.max(axis=0) == X.min(axis=0)), made, kept)
    return np.where(layer.relative, made, X)


def ranks(X, soft):
    known = ~np.isnan(X)
    share = (np.less(X[None], X[:, None]).sum(axis=1) + np.less_equal(X[None], X[:, None]).sum(axis=1)) / 2.0
    shares = np.where(known, share / np.maximum(known.sum(axis=0), 1), 0.5)
    return np.where(known, np.vectorize(statistics.NormalDist().inv_cdf)(shares), np.nan)


def standard(X, soft):
    varies = X.max(axis=0) > X.min(axis=0)
    return np.where(varies, (X - X.mean(axis=0)) / np.where(varies, X.std(axis=0) + soft, 1.0), 0.0)


def minmax(X, soft):
    span = X.max(axis=0) - X.min(axis=0)
    return (X - X.min(axis=0)) / np.where(span > 0.0, span, 1.0)
