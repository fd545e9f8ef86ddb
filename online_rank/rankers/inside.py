"""What other rooms may know of the inside of rankers: bounds measure the very arrays that kernels learn from."""

from typing import Any, NamedTuple

import numpy as np

from online_rank._kernels.codes import DOCUMENTS
from online_rank.base import abilities_of, steps_of
from online_rank.query import Block


class KernelState(NamedTuple):
    """The arrays of a linear ranker as its kernels take them; views, not copies."""

    config: np.ndarray
    weights: np.ndarray
    average: np.ndarray
    counters: np.ndarray


def kernel_state(ranker: Any) -> KernelState:
    """Settings, weights, average and counters of a ranker with dense weights."""
    return KernelState(ranker._config, ranker._weights, ranker._average, ranker._counters)


def averages(ranker: Any) -> bool:
    """Whether a ranker serves an average of its weights, not those that learn."""
    return bool(getattr(ranker, "_averages", False))


def learns_as_it_answers(ranker: Any) -> bool:
    """Whether the scores that decide what a ranker learns from a query are those that it answers before it learns the query.

    A blend judges its candidates behind the transformers of its members, which have learned from the query by then.
    """
    if averages(ranker):
        return getattr(ranker, "served", None) == "average"
    members = getattr(ranker, "_learners", ())
    return not any(abilities_of(step).learns for member in members for step in steps_of(member)[:-1])


def unaveraged_scores(ranker: Any, X: Any) -> np.ndarray:
    """The scores (m,) of documents by the weights that learn."""
    return ranker._unaveraged_scores(X)


def learn_gaining(ranker: Any, query: Block, row: np.ndarray, gained: np.ndarray) -> bool:
    """Let a perceptron learn an array, and add its update to `gained` (d,). Returns whether it did."""
    return bool(ranker._learn(query, row, gained))


def as_learned(ranker: Any, query: Block, decisive: np.ndarray, margin: float) -> Any:
    """A query as a perceptron's kernel has learned it by the scores (m,) that decided: see `PerceptronRanker._weighed`."""
    return ranker._weighed(query, decisive, margin)


def documents_met(ranker: Any) -> float:
    """Number of documents that a perceptron has learned from; of queries for rankers that hold others."""
    counters = getattr(ranker, "_counters", None)
    return float(ranker._n_queries if counters is None else counters[DOCUMENTS])


def clicks_of(ranker: Any, block: Block) -> Any:
    """The ranking that a `ClickPerceptron` had drawn, with the clicks on it, a `ShownBlock`."""
    return ranker._clicked(block)
