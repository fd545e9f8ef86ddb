"""Advice from the first queries of files: features that leak the grades, or only number the rows."""

import itertools
from typing import Any

import numpy as np

from online_rank.cli.reading import warnings_as_lines
from online_rank.cli.settings import Settings

#: Number of first queries to examine, and the largest number of pairs counted in a query.
_LOOKED_AT, _MOST_COUNTS = 100, 10_000

#: A feature that orders this share of the pairs with different grades leaks the grades, given this many pairs.
_PERFECT, _FEWEST_PAIRS = 0.99, 50

#: From this number of rows on, different whole numbers in all of them are no chance.
_FEWEST_ROWS = 50


def advice(settings: Settings) -> list[str]:
    """Advice before learning from files."""
    if "-" in settings.files:
        return []
    with warnings_as_lines(lambda message: None):
        first = [
            (getattr(x, "X", x), getattr(x, "names", None), y) for x, y in itertools.islice(settings.queries(0), _LOOKED_AT)
        ]
    if not first:
        return []
    width, names = max(((X.shape[1], names) for X, names, _ in first), key=lambda found: found[0])
    of_width = [(X, y) for X, _, y in first if X.shape[1] == width]

    def called(j: int) -> str:
        return f"feature {j + 1}" if names is None else names[j]

    lines = _leaks(of_width, called)
    if settings.reading.query is not None:
        lines += _counters(np.concatenate([X for X, _ in of_width]), called)
    return lines


def _counters(X: np.ndarray, called: Any) -> list[str]:
    """A warning about columns of whole numbers of which no two are equal, as those of an index or an id are."""
    if len(X) < _FEWEST_ROWS:
        return []
    whole = np.flatnonzero((np.rint(X) == X).all(axis=0))
    found = [called(j) for j in whole.tolist() if len(np.unique(X[:, j])) == len(X)]
    if not found:
        return []
    return [
        f"another whole number in every row: {', '.join(found)}. If it is an index, an id or a time, it says nothing about a "
        "document: leave it out (--exclude COLUMN)"
    ]


def _leaks(queries: list[tuple[np.ndarray, np.ndarray]], called: Any) -> list[str]:
    """A warning about features that order nearly all documents by grade on their own, since they probably leak the grades."""
    from online_rank.metrics import PairwiseAccuracy

    d = queries[0][0].shape[1]
    queries = queries[: max(1, _MOST_COUNTS // max(1, d))]
    pairs = np.array([(len(y) ** 2 - (np.bincount(y).astype(float) ** 2).sum()) / 2 for _, y in queries])
    if pairs.sum() < _FEWEST_PAIRS:
        return []
    X, y = (np.concatenate(parts) for parts in zip(*queries, strict=True))
    qid = np.repeat(np.arange(len(queries)), [len(grades) for _, grades in queries])
    found = []
    for j in range(d):
        # A query without pairs has no accuracy.
        right = pairs * np.nan_to_num(PairwiseAccuracy().value_many(y, X[:, j], qid))
        share = right.sum() / pairs.sum()
        if max(share, 1.0 - share) >= _PERFECT:
            found.append(f"{called(j)} ({max(share, 1.0 - share):.1%} of pairs)")
    if not found:
        return []
    return [
        f"a feature alone ranks the grades nearly perfectly: {', '.join(found)}. If it is made from the grades, or known only "
        "after them, leave it out (tables: --exclude COLUMN)"
    ]
