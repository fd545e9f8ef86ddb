"""Ranking metrics for river: updated with the scores, or the ranking, of one query at a time or of a whole block.

They work wherever a river metric does: `evaluate.progressive_val_score`, `utils.Rolling`, `utils.TimeRolling`, and as
`metric + metric`.
"""

from online_rank._lazy import lazily
from online_rank.metrics.base import RankingMetric
from online_rank.metrics.baseline import RandomRanking
from online_rank.metrics.binary import MAP, MRR, HitRate, PrecisionAtK, RecallAtK
from online_rank.metrics.graded import DCG, ERR, NDCG, LinearNDCG, PairwiseAccuracy
from online_rank.metrics.names import metric
from online_rank.metrics.own import QueryMetric

__all__ = [
    "DCG",
    "ERR",
    "MAP",
    "MRR",
    "NDCG",
    "HitRate",
    "LinearNDCG",
    "OffPolicyValue",
    "PairwiseAccuracy",
    "PrecisionAtK",
    "QueryMetric",
    "RandomRanking",
    "RankingMetric",
    "RecallAtK",
    "SwapComparison",
    "TeamDraft",
    "metric",
]

# Not metrics of grades, and the only ones that need `feedback` and `intervals`.
__getattr__, __dir__ = lazily(
    __name__, {"TeamDraft": "interleaving", "OffPolicyValue": "off_policy", "SwapComparison": "off_policy"}
)
