"""Metrics that ask of a document only whether it is relevant: its grade reaches a threshold."""

from online_rank._kernels import codes
from online_rank.metrics.base import RankingMetric, require_count

__all__ = ["MAP", "MRR", "PrecisionAtK"]


class _BinaryMetric(RankingMetric):
    """A metric with a cutoff, and the grade from which a document is relevant."""

    def __init__(self, k: int | None = None, threshold: int = 1, ties: str = "expected", no_relevant: str = "skip"):
        self.k = k
        self.threshold = threshold
        super().__init__(ties, no_relevant)


class MAP(_BinaryMetric):
    """Mean average precision.

    AP = the mean, over all relevant documents, of the precision at their position. With a cutoff, those beyond it count 0
    (trec_eval's `map_cut_k`: still divided by the number of all relevant documents).

    Parameters
    ----------
    k
        Cutoff, or None for the whole list.
    threshold
        The smallest grade that counts as relevant.
    ties, no_relevant
        As for every `RankingMetric`.

    Examples
    --------
    >>> metric = MAP()
    >>> metric.update([1, 0, 1], [3.0, 2.0, 1.0])
    >>> metric.get() == (1 / 1 + 2 / 3) / 2
    True
    """

    _kind = codes.AP
    _label = "MAP"


class MRR(_BinaryMetric):
    """Mean reciprocal rank: 1 / position of the first relevant document, 0 when it stands beyond the cutoff.

    Parameters
    ----------
    k
        Cutoff, or None for the whole list.
    threshold
        The smallest grade that counts as relevant.
    ties, no_relevant
        As for every `RankingMetric`.

    Examples
    --------
    >>> metric = MRR()
    >>> metric.update([0, 0, 1], [3.0, 2.0, 2.5])
    >>> metric
    MRR: 0.500000
    """

    _kind = codes.RECIPROCAL_RANK
    _label = "MRR"


class PrecisionAtK(_BinaryMetric):
    """Precision at k: relevant documents among the first k, divided by k (also where a query has fewer, as in trec_eval).

    Parameters
    ----------
    k
        Cutoff.
    threshold
        The smallest grade that counts as relevant.
    ties, no_relevant
        As for every `RankingMetric`.

    Examples
    --------
    >>> metric = PrecisionAtK(k=2)
    >>> metric.update([0, 1, 1], [3.0, 2.0, 1.0])
    >>> metric
    P@2: 0.500000
    """

    _kind = codes.PRECISION
    _label = "P"

    def __init__(self, k: int = 10, threshold: int = 1, ties: str = "expected", no_relevant: str = "skip"):
        require_count("k", k)
        super().__init__(k, threshold, ties, no_relevant)
