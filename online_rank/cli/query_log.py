"""Watches the queries of a run for its report: how well they are ranked lately, the worst and the slowest queries."""

import heapq
import math
import time
from collections import deque
from collections.abc import Iterable, Iterator, Sequence
from typing import Any, NamedTuple

import numpy as np

from online_rank.metrics import metric

#: Number of first queries that are left out of the worst (nothing had been learned) and the slowest (kernels were compiling).
WARM_UP = 10

_SHOWN_DOCUMENTS = 5


class SeenQuery(NamedTuple):
    """A query of a run, as shown in the report.

    Attributes
    ----------
    number
        Its number in the run, from 1.
    qid
        Its id.
    value
        The value of the measure before the query was learned; NaN if no document is relevant.
    seconds
        Time spent on ranking, measuring and learning it.
    n_documents
        Number of its documents.
    top
        The documents ranked first: (id, score, grade).
    missed
        The most relevant of the remaining documents: (id, rank, score, grade).
    """

    number: int
    qid: str
    value: float
    seconds: float
    n_documents: int
    top: tuple[tuple[str, float, int], ...]
    missed: tuple[tuple[str, int, float, int], ...]


class QueryLog:
    """Watches the queries of an evaluation: a rolling mean of the measure, the worst-ranked and the slowest queries.

    The stream passes through `reading`, and the log itself is one of the metrics.

    Parameters
    ----------
    measure
        Name of the measure.

    Examples
    --------
    >>> from online_rank import PerceptronRanker, evaluate
    >>> log = QueryLog("ndcg")
    >>> stream = [([[1.0, 0.0], [0.0, 1.0]], [0, 1], f"q{n}", ["a", "b"]) for n in range(20)]
    >>> trace = evaluate.progressive(log.reading(stream), PerceptronRanker(), {"lately": log})
    >>> [name for name, score, grade in log.worst[0].top]
    ['b', 'a']
    """

    #: Number of queries in the rolling mean; of the worst, and of the slowest, queries to keep.
    window, kept = 100, 5

    def __init__(self, measure: str) -> None:
        self.measure = measure
        self._metric: Any = metric(measure)
        self._latest: deque[float] = deque(maxlen=self.window)
        self._seen: SeenQuery | None = None
        self._n_queries = 0
        self._ids: tuple[str, Sequence[str]] = ("", ())
        #: The queries with the lowest values, the lowest first.
        self.worst: list[SeenQuery] = []
        #: The queries that took longest, the longest first.
        self.slowest: list[SeenQuery] = []

    def reading(self, queries: Iterable[tuple[Any, Any, Any, Sequence[str]]]) -> Iterator[tuple[Any, Any]]:
        """The pairs (x, y) of a stream of (x, y, query id, document ids), as from
        `read(..., with_ids=True)`.
        """
        for x, y, qid, docids in queries:
            self._ids, self._seen = (str(qid), docids), None
            start = time.perf_counter()
            yield x, y
            seconds = time.perf_counter() - start
            self._n_queries += 1
            if self._seen is not None and self._n_queries > WARM_UP:
                seen = self._seen._replace(seconds=seconds)
                self.slowest = heapq.nlargest(self.kept, [*self.slowest, seen], key=lambda query: query.seconds)
                if not math.isnan(seen.value):
                    self.worst = heapq.nsmallest(self.kept, [*self.worst, seen], key=lambda query: query.value)

    def update(self, y_true: Any, y_pred: Any) -> None:
        """Record the scores of the query that was read last."""
        value = self._metric.value_one(y_true, y_pred)
        if not math.isnan(value):
            self._latest.append(value)
        scores = [*y_pred.values()] if isinstance(y_pred, dict) else y_pred
        self._seen = self._described(np.asarray(y_true), np.asarray(scores), value)

    def get(self) -> float:
        """The mean over the latest queries; 0 before the first."""
        return math.fsum(self._latest) / len(self._latest) if self._latest else 0.0

    def _described(self, y: np.ndarray, scores: np.ndarray, value: float) -> SeenQuery:
        """The query that was read last, with the documents to show in the report."""
        order = np.argsort(-scores, kind="stable")
        qid, docids = self._ids
        names = [docids[i] if i < len(docids) and docids[i] else f"document {i + 1}" for i in range(len(y))]
        top = tuple((names[i], float(scores[i]), int(y[i])) for i in order[:_SHOWN_DOCUMENTS])
        best_grade = int(y.max(initial=0))
        others = [(rank, i) for rank, i in enumerate(order, start=1) if rank > _SHOWN_DOCUMENTS and y[i] == best_grade > 0]
        missed = tuple((names[i], rank, float(scores[i]), int(y[i])) for rank, i in others[:3])
        return SeenQuery(self._n_queries + 1, qid, value, 0.0, len(y), top, missed)
