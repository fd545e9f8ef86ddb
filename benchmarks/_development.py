"""The streams on which settings are chosen: synthetic ones, and parts of real data that no test part is of.

Each is cut into parts to learn from and held-out parts to rank then, as lists of queries.
"""

from collections.abc import Callable, Iterator
from typing import Any

import numpy as np

from benchmarks._data import LIGHTGBM, MQ2008, data_folder, folds, queries_of
from benchmarks._zipf import ZipfText
from online_rank.stream import WebLike
from online_rank.stream.synth import Drifting

Query = tuple[Any, np.ndarray]
Part = tuple[list[Query], list[Query]]

SYNTHETIC = ("additive", "forest", "linear")
#: Held-out queries of a synthetic stream.
N_HELD_OUT = 400


def parts_of(name: str, n_queries: int, order: int) -> Iterator[Part]:
    """What is learned from, and what is ranked then; another `order` gives other queries, or another order of the same."""
    for train, held_out in _web_like(name, n_queries, order) if name in SYNTHETIC else _OTHERS[name](n_queries, order):
        # The order of a drifting stream stays.
        shuffle = np.random.default_rng(order).permutation if name != "drifting" else np.arange
        yield [train[i] for i in shuffle(len(train))], held_out


def _web_like(truth: str, n_queries: int, order: int) -> Iterator[Part]:
    queries = list(WebLike(n_queries + N_HELD_OUT, truth=truth, n_documents=(40, 80), seed=100 + order))
    yield queries[:n_queries], queries[n_queries:]


def _mq2008(n_queries: int, order: int) -> Iterator[Part]:
    """The part of each fold that it neither trains nor tests on."""
    for fold in folds(data_folder() / MQ2008):
        if fold.validation is not None:
            yield queries_of(*fold.train[:3]), queries_of(*fold.validation[:3])


def _lightgbm(n_queries: int, order: int) -> Iterator[Part]:
    """Five-fold cross-validation within the training part."""
    queries = queries_of(*next(folds(data_folder() / LIGHTGBM)).train[:3])
    part = np.random.default_rng(order).permutation(len(queries)) % 5
    for i in range(5):
        yield (
            [q for q, p in zip(queries, part, strict=True) if p != i],
            [q for q, p in zip(queries, part, strict=True) if p == i],
        )


def _yeast(n_queries: int, order: int) -> Iterator[Part]:
    """Genes as queries, their 14 possible functions as documents, with a column for each function and attribute."""
    from river.datasets import Yeast

    queries = []
    for attributes, labels in Yeast():
        x, y = np.array(list(attributes.values())), np.array(list(labels.values()), dtype=np.int64)
        queries.append((np.kron(np.eye(len(y)), x), y))
    shuffled = [queries[i] for i in np.random.default_rng([order, 1]).permutation(len(queries))]
    yield shuffled[:n_queries], shuffled[n_queries : n_queries + N_HELD_OUT]


def _text(n_queries: int, order: int) -> Iterator[Part]:
    queries = list(ZipfText(n_queries + N_HELD_OUT, n_words=20_000, n_documents=40, seed=100 + order))
    yield queries[:n_queries], queries[n_queries:]


def _drifting(n_queries: int, order: int) -> Iterator[Part]:
    """A linear truth that turns into another one over the middle third; held out are queries of the new one."""
    drift = {"drift_points": (n_queries // 3,), "drift_width": n_queries // 3}
    queries = list(Drifting(n_queries + N_HELD_OUT, **drift, n_documents=(40, 80), seed=100 + order))
    yield queries[:n_queries], queries[n_queries:]


_OTHERS: dict[str, Callable[[int, int], Iterator[Part]]] = {
    "mq2008": _mq2008,
    "lightgbm": _lightgbm,
    "yeast": _yeast,
    "text": _text,
    "drifting": _drifting,
}
STREAMS = ("mq2008", "lightgbm", *SYNTHETIC, "yeast", "text", "drifting")
