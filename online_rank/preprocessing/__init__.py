"""Feature transforms that work on whole queries, in every form that `online_rank.query` lists.

They are river transformers: `StreamScaler() | PerceptronRanker()` is a pipeline that ranks.
"""

from typing import TYPE_CHECKING

from online_rank.preprocessing._columns import StatelessTransformer
from online_rank.preprocessing.crosses import CrossFeatures
from online_rank.preprocessing.declared import DeclaredFeatures
from online_rank.preprocessing.hashing import HashedFeatures
from online_rank.preprocessing.history import History
from online_rank.preprocessing.max_abs import MaxAbsStreamScaler
from online_rank.preprocessing.per_query import QueryNormalizer
from online_rank.preprocessing.quantile_map import StreamQuantileMap
from online_rank.preprocessing.runs import RunFeatures
from online_rank.preprocessing.stream_scaler import StreamScaler
from online_rank.preprocessing.tastes import Tastes
from online_rank.preprocessing.vectors import VectorFeatures
from online_rank.support.lazy import lazily

if TYPE_CHECKING:
    from online_rank.preprocessing.lift import ForEachDocument

__all__ = [
    "CrossFeatures",
    "DeclaredFeatures",
    "ForEachDocument",
    "HashedFeatures",
    "History",
    "MaxAbsStreamScaler",
    "QueryNormalizer",
    "RunFeatures",
    "StatelessTransformer",
    "StreamQuantileMap",
    "StreamScaler",
    "Tastes",
    "VectorFeatures",
]

__getattr__, __dir__ = lazily(__name__, {"ForEachDocument": "lift"})
