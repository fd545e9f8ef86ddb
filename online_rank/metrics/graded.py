"""Metrics of graded relevance."""

import functools

import numpy as np

from online_rank import arguments
from online_rank._kernels import codes
from online_rank.measures.learned import gains
from online_rank.metrics.base import RankingMetric
from online_rank.query import MAX_GRADE

__all__ = ["DCG", "ERR", "NDCG", "LinearNDCG", "PairwiseAccuracy"]


class NDCG(RankingMetric):
    """Normalised discounted cumulative gain at cutoff k (Järvelin & Kekäläinen, 2002).

    NDCG@k = sum_{p <= k} G(r_p) / log2(p + 1), divided by the same sum for the best ranking; r_p is the grade at position p.

    Parameters
    ----------
    k
        Cutoff, or None for the whole list.
    gain
        G: `"exponential"` (2^r - 1) or `"linear"` (r: trec_eval's `ndcg_cut_k`; `metric` knows it as `"ndcg_linear@10"`).
    ties, no_relevant
        As for every `RankingMetric`.

    Examples
    --------
    >>> metric = NDCG(k=10)
    >>> metric.update([0, 1, 2], [0.1, 0.9, 0.5])
    >>> metric.update({"a": 1, "b": 0}, {"a": 2.5, "b": -1.0})
    >>> metric
    NDCG@10: 0.898354

    For equal scores, the mean over all orders counts:

    >>> import math
    >>> NDCG().value_one([1, 0], [0.0, 0.0]) == (1 + 1 / math.log2(3)) / 2
    True
    """

    _kind = codes.NDCG
    _label = "NDCG"

    def __init__(self, k: int | None = 10, *, gain: str = "exponential", ties: str = "expected", no_relevant: str = "skip"):
        arguments.choice("gain", gain, ("exponential", "linear"))
        self.k = k
        self.gain = gain
        super().__init__(ties=ties, no_relevant=no_relevant)

    @property
    def _variant(self) -> str:
        return "" if self.gain == "exponential" else "_linear"

    def _gains(self) -> np.ndarray:
        return gains(self.gain)


class DCG(NDCG):
    """Discounted cumulative gain at cutoff k, not normalised: sum_{p <= k} G(r_p) / log2(p + 1).

    Queries with many relevant documents have larger values; compare it only between rankers on the same queries.

    Parameters
    ----------
    k
        Cutoff, or None for the whole list.
    gain
        G: `"exponential"` (2^r - 1) or `"linear"` (r).
    ties, no_relevant
        As for every `RankingMetric`.

    Examples
    --------
    >>> import math
    >>> math.isclose(DCG().value_one([0, 2], [1.0, 0.5]), 3 / math.log2(3))
    True
    """

    _kind = codes.DCG
    _label = "DCG"


class ERR(RankingMetric):
    """Expected reciprocal rank (Chapelle, Metzler, Zhang & Grinspan, 2009).

    A user walks down the list and stops at a document of grade g with probability R(g) = (2^g - 1) / 2^max_grade:
    ERR@k = sum_{p <= k} 1/p R(g_p) prod_{q < p} (1 - R(g_q)).

    Parameters
    ----------
    k
        Cutoff, or None for the whole list.
    max_grade
        The largest grade that the collection may have; 4 for the five-point scale of most collections (LETOR 4 has 2).
        A larger grade is an error, never clipped; values for different `max_grade` are not comparable.
    ties
        `"pessimistic"` or `"optimistic"`; there is no closed form for the expected value.
    no_relevant
        As for every `RankingMetric`.

    Examples
    --------
    >>> metric = ERR(max_grade=2)
    >>> metric.update([1, 2], [2.0, 1.0])
    >>> metric.get() == 1 / 4 + (1 - 1 / 4) * (3 / 4) / 2
    True
    """

    _kind = codes.ERR
    _label = "ERR"

    def __init__(self, k: int | None = 20, *, max_grade: int = 4, ties: str = "pessimistic", no_relevant: str = "skip"):
        if ties == "expected":
            raise ValueError(
                "ERR has no closed form for the expected value over ties: ties is 'pessimistic' (the default) or 'optimistic'"
            )
        arguments.integer("max_grade", max_grade, 1, MAX_GRADE)
        self.k = k
        self.max_grade = max_grade
        super().__init__(ties=ties, no_relevant=no_relevant)

    def _gains(self) -> np.ndarray:
        return _stop_probabilities(self.max_grade)


class LinearNDCG(RankingMetric):
    """Linear NDCG [JG]: DCG_lin = sum_i r_i (m - position_i), divided by the same sum for the best ranking.

    1 - LinearNDCG is a weighted count of mis-ordered pairs. It is undefined if the best ranking has 0 (no relevant document, or
    a single document): such a query is counted according to `no_relevant`.

    Parameters
    ----------
    ties, no_relevant
        As for every `RankingMetric`.

    Examples
    --------
    >>> metric = LinearNDCG()
    >>> metric.update([0, 2, 1], [0.3, 0.2, 0.1])
    >>> metric.get() == (0 * 2 + 2 * 1 + 1 * 0) / (2 * 2 + 1 * 1 + 0 * 0)
    True
    """

    _kind = codes.LINEAR_NDCG
    _label = "LinearNDCG"


class PairwiseAccuracy(RankingMetric):
    """Share of the pairs of documents with different grades that are ordered correctly; a pair of equal scores counts half.

    For two grades this is the area under the ROC curve. A query in which all grades are equal has no pairs, and is counted
    according to `no_relevant`. With `ties="optimistic"` a pair of equal scores counts 1, with `"pessimistic"` 0.

    Parameters
    ----------
    ties, no_relevant
        As for every `RankingMetric`.

    Examples
    --------
    >>> metric = PairwiseAccuracy()
    >>> metric.update([2, 1, 0], [0.5, 0.9, 0.5])
    >>> metric.get() == (0 + 0.5 + 1) / 3
    True
    """

    _kind = codes.PAIRWISE_ACCURACY
    _label = "PairwiseAccuracy"


@functools.cache
def _stop_probabilities(max_grade: int) -> np.ndarray:
    """R(g) of ERR for the grades 0..max_grade, as a read-only array."""
    probabilities = gains()[: max_grade + 1] * 2.0**-max_grade
    probabilities.flags.writeable = False
    return probabilities
