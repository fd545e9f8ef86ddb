"""Advice from the first queries of files: features that leak the grades, or only number the rows."""

from collections.abc import Iterable, Sequence
from typing import Any

import numpy as np

#: Number of first queries to examine, and the largest number of them, times features, in which pairs are counted.
LOOKED_AT, _MOST_COUNTS = 100, 10_000

#: A feature that orders this share of the pairs with different grades leaks the grades, given this many pairs.
_PERFECT, _FEWEST_PAIRS = 0.99, 50
#: ... and if it orders at least this share of all pairs.
_LEAST_TOLD = 0.01

#: From this number of rows on, different whole numbers in all of them are no chance.
_FEWEST_ROWS = 50


def advice(queries: Iterable[tuple[Any, ...]], of_table: bool) -> list[str]:
    """Advice from the first queries (x, y, ...) of a table or of LETOR text."""
    found, names = _arrays(queries)
    if not found:
        return []
    lines = []
    if leaking := leaks(found, names):
        lines.append(
            f"a feature alone ranks the grades nearly perfectly: {', '.join(leaking.values())}. If it is made from the grades, "
            "or known only after them, leave it out (tables: --exclude COLUMN)"
        )
    if of_table:
        lines += counters(np.concatenate([X for X, _ in found]), names)
    return lines


def told(queries: Iterable[tuple[Any, ...]]) -> dict[str, tuple[float, float, bool]]:
    """How well each feature alone orders the grades of the first queries (x, y, ...), as `_told`."""
    found, names = _arrays(queries)
    return _told(found, [name.removeprefix("feature ") for name in names]) if found else {}


def _arrays(queries: Iterable[tuple[Any, ...]]) -> tuple[list[tuple[np.ndarray, np.ndarray]], list[str]]:
    """The queries with the most features, as arrays without missing values, and the names of these features."""
    found = []
    for x, y, *_ in queries:
        X, names = getattr(x, "X", x), getattr(x, "names", None)
        if isinstance(X, list):  # documents with texts or vectors
            names = [name for name in X[0] if not any(isinstance(one[name], str | list | np.ndarray) for one in X)]
            X = np.array([[np.nan if one[name] is None else one[name] for name in names] for one in X]).reshape(len(X), -1)
        elif not isinstance(X, np.ndarray):
            X = X.toarray() if X.n_columns < _MOST_COUNTS else np.empty((len(y), 0))
        found.append((np.nan_to_num(X), names, y))
    width, names = max(((X.shape[1], names) for X, names, _ in found), key=lambda of: of[0], default=(0, None))
    names = [f"feature {j + 1}" for j in range(width)] if names is None else list(names)
    return [(X, y) for X, _, y in found if X.shape[1] == width > 0], names


def counters(X: np.ndarray, names: Sequence[str]) -> list[str]:
    """A warning about columns of whole numbers that are all different, as in an index or an id."""
    if len(X) < _FEWEST_ROWS:
        return []
    whole = np.flatnonzero((np.rint(X) == X).all(axis=0))
    found = [names[j] for j in whole.tolist() if len(np.unique(X[:, j])) == len(X)]
    if not found:
        return []
    return [
        f"another whole number in every row: {', '.join(found)}. If it is an index, an id or a time, it says nothing about a "
        "document: leave it out (--exclude COLUMN)"
    ]


def leaks(queries: list[tuple[np.ndarray, np.ndarray]], names: Sequence[str]) -> dict[str, str]:
    """The features that order nearly all documents by grade on their own, since they probably leak the grades, in words."""
    found = {}
    for name, (share, of_pairs, has_ties) in _told(queries, names).items():
        if share >= _PERFECT:
            of_all = f" with different values, {of_pairs:.0%} of all" if has_ties else ""
            found[name] = f"{name} ({share:.1%} of pairs{of_all})"
    return found


def _told(queries: list[tuple[np.ndarray, np.ndarray]], names: Sequence[str]) -> dict[str, tuple[float, float, bool]]:
    """How well each feature alone orders pairs of documents with different grades.

    For each feature: the share that it orders, in one direction or the other, of the pairs with different values; the share of
    all pairs that have different values; and whether some pairs have equal values. These do not count in the first share: a
    purchase follows a click, though few clicks lead to one.
    """
    from online_rank.metrics import PairwiseAccuracy

    d = queries[0][0].shape[1]
    queries = queries[: max(1, _MOST_COUNTS // max(1, d))]
    pairs = np.array([(len(y) ** 2 - (np.bincount(y).astype(float) ** 2).sum()) / 2 for _, y in queries])
    if pairs.sum() < _FEWEST_PAIRS:
        return {}
    X, y = (np.concatenate(parts) for parts in zip(*queries, strict=True))
    qid = np.repeat(np.arange(len(queries)), [len(grades) for _, grades in queries])
    found = {}
    for j in range(d):
        _, values = np.unique(X[:, j], return_inverse=True)
        alike = qid * (values.max() + 1) + values
        tied = _equal_pairs(alike) - _equal_pairs(alike * (y.max() + 1) + y)
        apart = pairs.sum() - tied
        if apart < max(_FEWEST_PAIRS, _LEAST_TOLD * pairs.sum()):
            continue
        # A query without pairs has no accuracy; a tie counts as half of one.
        right = (pairs * np.nan_to_num(PairwiseAccuracy().value_many(y, X[:, j], qid))).sum() - 0.5 * tied
        found[names[j]] = float(max(right, apart - right) / apart), float(apart / pairs.sum()), bool(tied != 0.0)
    return found


def _equal_pairs(keys: np.ndarray) -> float:
    """The number of pairs of equal keys."""
    _, counts = np.unique(keys, return_counts=True)
    return float((counts * (counts - 1.0)).sum() / 2.0)
