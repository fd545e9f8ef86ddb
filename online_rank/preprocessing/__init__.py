"""Feature transforms that work on whole queries, in every form that `online_rank.query` lists.

They are river transformers: `StreamScaler() | PerceptronRanker()` is a pipeline that ranks.
"""

from online_rank.preprocessing.gaussianizer import StreamGaussianizer, batch_gaussianize
from online_rank.preprocessing.lift import ForEachDocument
from online_rank.preprocessing.per_query import QueryNormalizer, SignedLog
from online_rank.preprocessing.ranks import QueryRanks
from online_rank.preprocessing.stream_scaler import StreamScaler
from online_rank.preprocessing.tails import heavy_tails

__all__ = [
    "ForEachDocument",
    "QueryNormalizer",
    "QueryRanks",
    "SignedLog",
    "StreamGaussianizer",
    "StreamScaler",
    "batch_gaussianize",
    "heavy_tails",
]
