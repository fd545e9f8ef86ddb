"""Steps of a pipeline of queries: rankers, transformers, pipelines, and what they share."""

from online_rank.base.columns import QueryEstimator
from online_rank.base.pipeline import QueryFunction, RankingPipeline
from online_rank.base.ranker import Ranker, rank_one
from online_rank.base.rounds import Round
from online_rank.base.step import QueryStep
from online_rank.base.transformer import QueryTransformer

__all__ = [
    "QueryEstimator",
    "QueryFunction",
    "QueryStep",
    "QueryTransformer",
    "Ranker",
    "RankingPipeline",
    "Round",
    "rank_one",
]
