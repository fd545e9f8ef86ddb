"""Rankers, transformers and pipelines of queries, and the code that they share."""

from online_rank.base.anatomy import Abilities, ranker_of, steps_of
from online_rank.base.anatomy import abilities_of as abilities_of
from online_rank.base.anatomy import names_added as names_added
from online_rank.base.anatomy import parts_of as parts_of
from online_rank.base.anatomy import serving_chain as serving_chain
from online_rank.base.anatomy import serving_ranker as serving_ranker
from online_rank.base.anatomy import serving_steps as serving_steps
from online_rank.base.anatomy import share_lock as share_lock
from online_rank.base.anatomy import transformers_of as transformers_of
from online_rank.base.calls import best_first as best_first
from online_rank.base.calls import rank_one
from online_rank.base.explain import Explanation
from online_rank.base.explain import explain_one as explain_one
from online_rank.base.function import QueryFunction as QueryFunction
from online_rank.base.names import Columns as Columns
from online_rank.base.pipeline import RankingPipeline
from online_rank.base.pipeline import learn_within as learn_within
from online_rank.base.ranker import Ranker
from online_rank.base.reader import Reader as Reader
from online_rank.base.rounds import Round
from online_rank.base.step import QueryStep as QueryStep
from online_rank.base.transformer import QueryTransformer
from online_rank.base.undo import all_or_nothing as all_or_nothing
from online_rank.base.union import QueryUnion

# What is imported `as` itself is for the rooms above, and not public.
__all__ = [
    "Abilities",
    "Explanation",
    "QueryTransformer",
    "QueryUnion",
    "Ranker",
    "RankingPipeline",
    "Round",
    "abilities_of",
    "rank_one",
    "ranker_of",
    "steps_of",
]
