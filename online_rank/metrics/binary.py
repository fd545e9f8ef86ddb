"""Metrics of binary relevance: a document is relevant if its grade reaches a threshold."""

from online_rank import arguments
from online_rank._kernels import codes
from online_rank.metrics.base import RankingMetric

__all__ = ["MAP", "MRR", "HitRate", "PrecisionAtK", "RecallAtK"]


class _BinaryMetric(RankingMetric):
    """A metric with a cutoff, and the grade from which a document is relevant."""

    def __init__(self, k: int | None = None, *, threshold: int = 1, ties: str = "expected", no_relevant: str = "skip"):
        self.k = k
        self.threshold = threshold
        super().__init__(ties=ties, no_relevant=no_relevant)


class _AtK(_BinaryMetric):
    """A binary metric that needs a cutoff."""

    def __init__(self, k: int = 10, *, threshold: int = 1, ties: str = "expected", no_relevant: str = "skip"):
        arguments.integer("k", k, 1)
        super().__init__(k, threshold=threshold, ties=ties, no_relevant=no_relevant)


class MAP(_BinaryMetric):
    """Mean average precision.

    AP = the mean, over all relevant documents, of the precision at their position. With a cutoff, documents beyond it count 0.

    Parameters
    ----------
    k
        Cutoff, or None for the whole list.
    threshold
        The smallest grade that counts as relevant.
    divisor
        The divisor of the sum of precisions if there is a cutoff; both are called MAP@k. `"relevant"`: the number R
        of relevant documents (trec_eval's `map_cut_k`; 1 cannot be reached if R > k). `"attainable"`: min(R, k), as in
        recommendation and in competitions; `metric` knows it as `"map_attainable@10"`.
    ties, no_relevant
        As for every `RankingMetric`.

    Examples
    --------
    >>> metric = MAP()
    >>> metric.update([1, 0, 1], [3.0, 2.0, 1.0])
    >>> metric.get() == (1 / 1 + 2 / 3) / 2
    True
    """

    _label = "MAP"

    def __init__(
        self,
        k: int | None = None,
        *,
        threshold: int = 1,
        ties: str = "expected",
        no_relevant: str = "skip",
        divisor: str = "relevant",
    ):
        arguments.choice("divisor", divisor, ("relevant", "attainable"))
        self.divisor = divisor
        super().__init__(k, threshold=threshold, ties=ties, no_relevant=no_relevant)

    @property
    def _kind(self) -> int:
        return codes.AP if self.divisor == "relevant" else codes.AP_ATTAINABLE

    @property
    def _variant(self) -> str:
        return "" if self.divisor == "relevant" else "_attainable"


class MRR(_BinaryMetric):
    """Mean reciprocal rank: 1 / position of the first relevant document, 0 if that is beyond the cutoff.

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


class PrecisionAtK(_AtK):
    """Precision at k: relevant documents among the first k, divided by k (even if a query has fewer documents, as in
    trec_eval).

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


class RecallAtK(_AtK):
    """Recall at k: the share of the relevant documents that are among the first k.

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
    >>> metric = RecallAtK(k=2)
    >>> metric.update([1, 1, 0, 1], [3.0, 2.0, 1.0, 0.0])
    >>> metric.get() == 2 / 3
    True
    """

    _kind = codes.RECALL
    _label = "Recall"


class HitRate(_AtK):
    """Hit rate at k (success at k): 1 if a relevant document is among the first k, otherwise 0.

    If tied documents straddle the cutoff, it is the probability that one of the first k is relevant.

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
    >>> metric = HitRate(k=2)
    >>> metric.update([0, 1, 0], [3.0, 2.0, 1.0])
    >>> metric.update([0, 0, 1], [3.0, 2.0, 1.0])
    >>> metric
    HitRate@2: 0.500000
    """

    _kind = codes.HIT_RATE
    _label = "HitRate"
