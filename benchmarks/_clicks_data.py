"""MQ2008 as users of click rankers meet it, and how good a ranking is."""

import functools
from collections.abc import Callable, Sequence
from pathlib import Path
from typing import Any

import numpy as np

from benchmarks._data import queries_of as each
from online_rank import read
from online_rank.metrics import NDCG
from online_rank.stream import Documents

#: Discount of what is shown, for each impression.
GAMMA = 0.9995
K = 10

Queries = list[tuple[np.ndarray, np.ndarray]]


@functools.cache
def parts(folder: Path) -> list[Documents]:
    """The five parts of a data set in LETOR's layout."""
    return [read(folder / f"S{i}.txt", n_features=46).all() for i in range(1, 6)]


def queries_of(blocks: Sequence[Documents], relevant: bool = False) -> Queries:
    """The queries of blocks; only those with a relevant document, if `relevant`."""
    found = [query for block in blocks for query in each(*block[:3])]
    return [(X, y) for X, y in found if y.any()] if relevant else found


def ndcg_shown(y: np.ndarray, order: Sequence[int], k: int = K) -> float:
    """NDCG@k of a list; 0 for a query without a relevant document."""
    gains, discounts = 2.0**y - 1.0, 1.0 / np.log2(np.arange(2, k + 2))
    best = np.sort(gains)[::-1][:k]
    ideal = float(best @ discounts[: len(best)])
    return float(gains[list(order)] @ discounts[: len(order)]) / ideal if ideal > 0.0 else 0.0


def offline(scores: Callable[[np.ndarray], Any], queries: Queries) -> float:
    """Mean NDCG@10 of the rankings by scores."""
    metric = NDCG(k=K)
    for X, y in queries:
        metric.update(y, scores(X))
    return metric.get()
