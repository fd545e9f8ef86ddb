"""Ranking metrics for river: updated with the scores, or the ranking, of one query at a time or of a whole block.

They work wherever a river metric does: `evaluate.progressive_val_score`, `utils.Rolling`, `utils.TimeRolling`, and as
`metric + metric`.
"""

from online_rank.metrics import binary, graded
from online_rank.metrics.base import RankingMetric
from online_rank.metrics.baseline import RandomRanking
from online_rank.metrics.binary import *  # noqa: F403
from online_rank.metrics.graded import *  # noqa: F403
from online_rank.metrics.names import metric
from online_rank.metrics.own import QueryMetric
from online_rank.support.lazy import lazily

__all__ = ["OffPolicyValue", "QueryMetric", "RandomRanking", "RankingMetric", "SwapComparison", "TeamDraft", "metric"]  # noqa: F405
__all__ += binary.__all__
__all__ += graded.__all__

# Not metrics of grades, and the only ones that need `feedback` and `intervals`.
__getattr__, __dir__ = lazily(
    __name__, {"TeamDraft": "interleaving", "OffPolicyValue": "off_policy", "SwapComparison": "off_policy"}
)
