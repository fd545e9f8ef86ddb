"""The value of a random ranking, as a baseline."""

from typing import Any

import numpy as np

from online_rank.base.schema import Derived, Schema
from online_rank.metrics.base import RankingMetric
from online_rank.metrics.graded import ERR
from online_rank.metrics.names import metric


class RandomRanking(RankingMetric):
    """The expected value of a metric over all orders of the documents: the value of a random ranking.

    It is updated like the metric itself, and ignores the scores.

    Parameters
    ----------
    measure
        Name of the metric, as `metric` takes it; not `err`, whose expected value has no closed form.
    no_relevant
        As for every `RankingMetric`.

    Examples
    --------
    >>> import math
    >>> chance = RandomRanking("ndcg@1")
    >>> chance.update([1, 0, 0, 0], [0.9, 0.3, 0.2, 0.1])
    >>> chance
    NDCG@1 of a random ranking: 0.250000
    """

    _schema = Schema(_metric=Derived(), ties=Derived())

    def __init__(self, measure: str = "ndcg@10", *, no_relevant: str = "skip"):
        self.measure = measure
        self._metric: Any = metric(measure, no_relevant=no_relevant)
        if isinstance(self._metric, ERR):
            raise ValueError("ERR has no closed form for the expected value over all orders")
        super().__init__(ties="expected", no_relevant=no_relevant)

    @property
    def _label(self) -> str:
        return f"{self._metric.name} of a random ranking"

    def _values(self, scores: np.ndarray, grades: np.ndarray, offsets: np.ndarray, ids: Any) -> np.ndarray:
        return self._metric._values(np.zeros_like(scores), grades, offsets, ids)
