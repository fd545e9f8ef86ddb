"""A model that ranks as it is, and draws lists around its ranking."""

import copy
from typing import Any

import numpy as np

from online_rank.base import Abilities, Ranker, RankingPipeline, share_lock
from online_rank.base.reader import as_numbers, read_for
from online_rank.base.schema import Nested, Schema
from online_rank.base.undo import all_or_nothing
from online_rank.feedback.policies import Policy, require_policy
from online_rank.query import Block
from online_rank.query.embeddings import is_vector
from online_rank.rankers.exploring import BEGUN
from online_rank.rankers.nested import require_model

__all__ = ["FrozenRanker"]


class FrozenRanker(Ranker):
    """A model that learns no more, whose lists are drawn: a model file that is compared with today's ranking.

    Parameters
    ----------
    ranker
        A ranker, or a pipeline that ends in one: curves, a blend, trees of LightGBM or XGBoost (`FixedTrees`). A copy ranks.
    policy
        How `show_one` draws; None for `PlackettLuce(k=10, keep=0.98, newcomers=0.01)`.

    Raises
    ------
    TypeError
        `ranker` is no model that ranks.

    Notes
    -----
    Clicks and grades are accepted, and change nothing. A model that takes numbers alone does not see texts, and one that takes
    no vectors does not see these.

    Examples
    --------
    >>> from online_rank import PerceptronRanker
    >>> from online_rank.rankers.frozen import FrozenRanker
    >>> model = FrozenRanker(PerceptronRanker.from_weights({"clicks": 1.0}))
    >>> model.learn_one({"a": {"clicks": 3}, "b": {"clicks": 1}}, {"a": 0, "b": 2})
    >>> model.rank_one({"a": {"clicks": 3, "brand": "acme"}, "b": {"clicks": 1}})
    ['a', 'b']
    """

    _schema = Schema(_learner=Nested("Ranker", "RankingPipeline"))
    _changes_in_place = False

    def __init__(self, ranker: Ranker | RankingPipeline, *, policy: Policy | None = None) -> None:
        super().__init__()
        require_model("ranker", ranker)
        require_policy(policy)
        self.ranker = ranker
        self.policy = policy
        self._learner: Any = copy.deepcopy(ranker)
        share_lock(self)

    @property
    def learner(self) -> Ranker | RankingPipeline:
        """The model that ranks."""
        return self._learner

    @property
    def _wrapped(self) -> list[Any]:
        return [self._learner]

    @property
    def _serving(self) -> Any:
        return self._learner

    def _abilities(self) -> Abilities:
        inner = self._learner.abilities
        return Abilities(
            takes_documents=True, takes_missing=True, takes_sparse=True, takes_clicks=True, takes_any_list=True, draws=True,
            takes_context=inner.takes_context, takes_vectors=inner.takes_vectors,
        )  # fmt: skip

    @property
    def _own_policy(self) -> Policy:
        return BEGUN if self.policy is None else self.policy

    def _taken(self, block: Block) -> Block:
        """A query without what the model inside does not take."""
        able = self._learner.abilities
        if type(block.X) is list and able.takes_documents and not able.takes_vectors:
            documents = [{name: value for name, value in x.items() if not is_vector(value)} for x in block.X]
            block = block._replace(X=documents)
        if type(block.X) is list and not able.takes_documents:
            documents = [{name: value for name, value in x.items() if type(value) in (int, float)} for x in block.X]
            block = as_numbers(block._replace(X=documents))
        if not able.takes_missing and isinstance(block.X, np.ndarray):
            block = block._replace(X=np.nan_to_num(block.X, nan=0.0, posinf=np.inf, neginf=-np.inf))
        return block

    def _score_all(self, block: Block, score: Any = None) -> np.ndarray:
        scores: np.ndarray = self._learner._score_all(self._taken(block))
        return scores

    def _learn_block(self, block: Block, changes: all_or_nothing | None = None) -> None:
        """Learn nothing, and say so: a loss that is not known."""
        if block.y is None:
            raise TypeError("y is of type NoneType; feedback is clicks on a list, or grades")
        n = block.n_documents
        self._last_round = np.array([[0.0, np.nan, 0.0, 0.0, 0.0, block.w[-1], n, 0.0, 0.0, True]])

    def explain_one(self, x: Any, a: Any, b: Any, *, context: Any = None, at: Any = None) -> Any:
        """Why the model inside scores one document higher than another: see `online_rank.base.explain.explain_one`."""
        return self._learner.explain_one(self._taken(read_for(self, x, context=context, at=at)), a, b)
