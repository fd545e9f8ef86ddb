"""Queries read a little ahead, which a model ranks and learns in one call, with the outcome of one by one, bit for bit."""

from collections.abc import Callable, Iterable, Iterator, Mapping
from typing import Any

import numpy as np

from online_rank.base import Ranker, RankingPipeline
from online_rank.base.lock import lock_of
from online_rank.base.undo import all_or_nothing
from online_rank.measures.learned import AnyMeasure, served_losses
from online_rank.query import Block
from online_rank.query.forms import plain_query

#: How many queries are met one by one before any are read ahead, and the most queries, and bytes of features, read ahead.
_FIRST, _QUERIES, _BYTES = 16, 256, 2 << 20


def lessons(queries: Iterable[Any], most: Callable[[], int]) -> Iterator[list[Any]]:
    """The items of a stream, in turn: one, or several plain queries of one width, at most as many as `most` says then.

    An error of the stream is raised after what came before it was given.
    """
    source = iter(queries)
    ended: BaseException | None = None
    beyond: list[Any] = []
    while ended is None:
        limit, items, beyond = most(), beyond, []
        form = _form(items[0]) if items else None
        size = _bytes(items[0], form) if items else 0
        while ended is None and not beyond and len(items) < max(limit, 1) and size < _BYTES:
            try:
                item = next(source)
            except Exception as error:
                ended = error
                break
            its_form = _form(item)
            if not items:
                form = its_form
            # What does not go with the first one comes next.
            (items if its_form == form else beyond).append(item)
            size += _bytes(item, its_form)
        if items:
            yield items
    if not isinstance(ended, StopIteration):
        raise ended


def _form(item: Any) -> tuple[Any, int] | None:
    """The kind and number of the features of a query of arrays, with documents; None for any other item."""
    if type(item) is not tuple or len(item) != 2:
        return None
    X, y = item
    width = X.shape[-1] if type(X) is np.ndarray and X.ndim == 2 else -1
    return (X.dtype, width) if plain_query(X, y, width) is not None and len(y) > 0 else None


def _bytes(item: Any, form: Any) -> int:
    """How much of what may be read ahead an item takes: all of it, unless it is a query of arrays."""
    return _BYTES if form is None else item[0].nbytes


class Together:
    """A model and metrics that may meet several queries at once.

    Parameters
    ----------
    stream, model, metrics, watch
        As of `progressive`; a stream that may depend on what was learned, and whoever watches every query, allow none.
    target
        The measure of the loss of what is served.
    """

    def __init__(self, stream: Any, model: Any, metrics: Mapping[str, Any], watch: Any, target: AnyMeasure) -> None:
        self._model, self._metrics, self._target = model, metrics, target
        from online_rank.metrics.base import takes_blocks

        # A list does not wait for what is learned, nor does a stream of this library.
        known = isinstance(stream, list | tuple) or type(stream).__module__.startswith("online_rank.")
        exact = all(takes_blocks(metric) for metric in metrics.values())
        self._allowed = known and watch is None and exact and isinstance(model, Ranker | RankingPipeline)

    def most(self, n_queries: int, until: int | None) -> int:
        """How many queries may be met at once after `n_queries`; `until` is the number at which all must have been learned."""
        if not self._allowed or n_queries < _FIRST:
            return 1
        return _QUERIES if until is None else min(_QUERIES, until - n_queries)

    def learn(
        self, items: list[Any], n_queries: int, spacing: int
    ) -> tuple[np.ndarray, np.ndarray, list[dict[str, float]], np.ndarray] | None:
        """Rank each of several queries, measure the ranking, and learn the query; multiples of `spacing` queries are due.

        Returns what `Trace` counts: the numbers of documents (q,), the rounds (q, fields), the metrics after each query that is
        due and after the last one, and the losses of what was served (q,), NaN for a query of one grade. None where the model
        takes no blocks, or a query is bad: nothing was learned then, and one by one will do.
        """
        from online_rank.metrics.base import running_means

        sizes = np.array([len(y) for _, y in items])
        offsets = np.concatenate(([0], np.cumsum(sizes)))
        X, y = (np.concatenate(parts) for parts in zip(*items, strict=True))
        block = Block(X, y, offsets, np.ones(len(items)))
        due = [t + 1 for t in range(len(items)) if (n_queries + t + 1) % spacing == 0 or t == len(items) - 1]
        if not self._model._takes_in_turn(block):
            return None
        try:
            with lock_of(self._model), all_or_nothing(self._model, *self._metrics.values()):
                scores, rounds = self._model._ask_and_learn(block, block)
                losses = served_losses(self._target, scores, y, offsets)
                columns = {name: running_means(metric, scores, y, offsets, due) for name, metric in self._metrics.items()}
        except (TypeError, ValueError):
            return None
        values = [dict(zip(columns, row, strict=True)) for row in zip(*columns.values(), strict=True)]
        return sizes, rounds, values or [{}] * len(due), losses
