"""Metrics of your own, in plain Python."""

import abc
import itertools
import math
from typing import Any

import numpy as np

from online_rank.base.schema import Derived, Schema
from online_rank.metrics.base import RankingMetric
from online_rank.query.blocks import document_name
from online_rank.query.grades import require_grades


class QueryMetric(RankingMetric):
    """Base class of metrics of your own: a subclass computes the value of one query, in plain Python.

    Everything else is inherited: the exact mean, weights, `revert`, blocks, rolling windows, and use in `evaluate.progressive`.
    The metric is named after its class. Once it is registered (`online_rank.register`), files may hold it, and `metric` knows
    it by that name; arguments of a constructor of your own are attributes of the same names, and need an annotation.

    Parameters
    ----------
    no_relevant
        How to count a query without relevant documents: `"skip"` (leave it out of the mean), `"zero"` or `"one"`.

    Examples
    --------
    >>> from online_rank.metrics import QueryMetric
    >>> class TopGrade(QueryMetric):
    ...     def value_of(self, scores, grades):
    ...         return float(grades[scores.argmax()] == grades.max())
    >>> metric = TopGrade()
    >>> metric.update([0, 2, 1], [0.1, 0.9, 0.5])
    >>> metric.update({"a": 1, "b": 0}, {"a": 0.2, "b": 0.3})
    >>> metric
    TopGrade: 0.500000
    """

    # Settings where a subclass has them as arguments, otherwise made by the constructor.
    _schema = Schema(ties=Derived(), no_relevant=Derived())

    def __init__(self, *, no_relevant: str = "skip") -> None:
        super().__init__(ties="ignored", no_relevant=no_relevant)

    def __init_subclass__(cls, **kwargs: Any) -> None:
        super().__init_subclass__(**kwargs)
        cls._label = cls.__name__

    @abc.abstractmethod
    def value_of(self, scores: np.ndarray, grades: np.ndarray) -> float:
        """The value of one query with at least one relevant document; NaN leaves the query out of the mean.

        Parameters
        ----------
        scores
            (m,) float64 scores; a higher score ranks earlier, and -inf stands for a document that was not retrieved. How to
            treat ties is up to the metric.
        grades
            (m,) int64 grades >= 0, at least one of them positive.
        """

    def _values(self, scores: np.ndarray, grades: np.ndarray, offsets: np.ndarray, ids: Any) -> np.ndarray:
        require_grades(grades, ids)
        bad = np.flatnonzero(~(scores < math.inf))
        if len(bad):
            raise ValueError(f"the score of {document_name(int(bad[0]), ids)} is {scores[bad[0]]}; scores are finite")
        values = np.empty(len(offsets) - 1)
        for q, (start, stop) in enumerate(itertools.pairwise(offsets.tolist())):
            relevant = grades[start:stop].any()
            values[q] = self.value_of(scores[start:stop], grades[start:stop]) if relevant else self._without_relevant
            if math.isinf(values[q]):
                raise ValueError(f"{self.name}.value_of returned {values[q]}; it must be a finite number, or NaN")
        return values
