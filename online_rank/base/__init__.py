"""Rankers, transformers and pipelines of queries, and the code that they share."""

from online_rank.base.anatomy import (
    Abilities,
    Wrapper,
    abilities_of,
    parts_of,
    ranker_of,
    serving_chain,
    serving_ranker,
    serving_steps,
    share_lock,
    steps_of,
    transformers_of,
)
from online_rank.base.columns import Columns, QueryEstimator
from online_rank.base.explain import Explanation, explain_one
from online_rank.base.function import QueryFunction
from online_rank.base.pipeline import RankingPipeline, learn_within
from online_rank.base.ranker import Ranker, best_first, rank_one
from online_rank.base.rounds import Round
from online_rank.base.step import QueryStep
from online_rank.base.transformer import QueryTransformer
from online_rank.base.undo import all_or_nothing
from online_rank.base.union import QueryUnion

__all__ = [
    "Abilities",
    "Columns",
    "Explanation",
    "QueryEstimator",
    "QueryFunction",
    "QueryStep",
    "QueryTransformer",
    "QueryUnion",
    "Ranker",
    "RankingPipeline",
    "Round",
    "Wrapper",
    "abilities_of",
    "all_or_nothing",
    "best_first",
    "explain_one",
    "learn_within",
    "parts_of",
    "rank_one",
    "ranker_of",
    "serving_chain",
    "serving_ranker",
    "serving_steps",
    "share_lock",
    "steps_of",
    "transformers_of",
]
