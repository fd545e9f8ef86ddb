"""Ranking metrics for river: updated with the scores, or the ranking, of one query at a time or of a whole block.

They work wherever a river metric does: `evaluate.progressive_val_score`, `utils.Rolling`, `utils.TimeRolling`, and as
`metric + metric`.
"""

from online_rank._lazy import lazily
from online_rank.metrics.base import RankingMetric
from online_rank.metrics.binary import MAP, MRR, PrecisionAtK
from online_rank.metrics.graded import ERR, NDCG, LinearNDCG, PairwiseAccuracy
from online_rank.metrics.names import metric

__all__ = [
    "ERR",
    "MAP",
    "MRR",
    "NDCG",
    "LinearNDCG",
    "PairwiseAccuracy",
    "PrecisionAtK",
    "RankingMetric",
    "TeamDraft",
    "metric",
]

# Not a metric of grades, and the only one that needs the rooms of clicks and bounds.
__getattr__, __dir__ = lazily(__name__, {"TeamDraft": "interleaving"})
