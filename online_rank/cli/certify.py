"""`online-rank train --certify`: a tracker around the ranker, and its comparator."""

from collections.abc import Iterable, Iterator
from typing import Any

import numpy as np

from online_rank.base import steps_of
from online_rank.base.names import numbers
from online_rank.bounds import LossTracker, batch_weights
from online_rank.cli.files import behind
from online_rank.query import Block, read_query
from online_rank.support.progress import counted

#: Regularisation strength of the batch weights.
_LAMBDA = 1e-2


def tracked(model: Any, queries: Iterable[tuple], shown: bool | None = None) -> Any:
    """The model, which has learned nothing yet, with a `LossTracker` around its ranker.

    The comparator is the weights that a batch learner finds on the features that the transformers will pass to the ranker.
    """
    *transformers, ranker = steps_of(model)
    seen = list(_transformed([step.clone() for step in transformers], queries, shown))
    X = np.concatenate([query.X for query, _ in seen])
    y = np.concatenate([grades for _, grades in seen])
    qid = np.repeat(np.arange(len(seen)), [len(grades) for _, grades in seen])
    names = seen[-1][0].names if seen else None
    columns = numbers(X.shape[1]) if names is None else names
    # An array knows its features by their numbers.
    signs = {str(j + 1): ranker.signs[c] for j, c in enumerate(columns) if c in ranker.signs} if ranker.signs else None
    found = batch_weights(
        (X, y, qid), measure=ranker.measure, lam=_LAMBDA, credit="spread", signs=signs or None, progress=shown
    )
    weights: Any = found.weights if names is None else dict(zip(names, found.weights.tolist(), strict=True))
    return behind(transformers, LossTracker(ranker, {"batch weights": weights}, measure_served=True))


def _transformed(transformers: list[Any], queries: Iterable[tuple], shown: bool | None) -> Iterator[tuple[Block, Any]]:
    """The queries after the transformers, which learn from them."""
    with counted(queries, "reading for the comparator", shown=shown) as each:
        for X, y, *_ in each:
            query = read_query(X, y)
            for step in transformers:
                query = step._learn_block(query)
            yield query, y
