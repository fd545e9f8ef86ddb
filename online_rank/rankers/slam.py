"""Algorithm 1 of [CT]: online subgradient descent on SLAM."""

from collections.abc import Sequence
from typing import Any

import numpy as np

from online_rank._kernels.codes import DOCUMENTS, WITHIN_GRADE
from online_rank._kernels.slam import learn
from online_rank.arguments import choice, number
from online_rank.base.anatomy import Abilities
from online_rank.base.schema import Array, Derived, Schema
from online_rank.measures.learned import discounts
from online_rank.measures.learned import measure as learned
from online_rank.query import Block
from online_rank.rankers.averaged import LinearRanker


class SlamRanker(LinearRanker):
    r"""Algorithm 1 of [CT]: online subgradient descent on SLAM, in the rounds whose ranking loss is positive.

    With scores s = X w and the weight vector v of the measure,

    .. math::
        f_t(w) = \sum_i v_i \max\Bigl(0, \max_{j: y_j < y_i} (\mu - s_i + s_j)\Bigr), \qquad
        w \leftarrow w - \alpha \nabla f_t(w) \text{ if } RML_t > 0.

    The ranking loss RML is 1 - measure, ties broken pessimistically. It is at most f_t(w) / mu. The bounds of [CT] hold for
    its sum with the step of `online_rank.bounds.theory_learning_rate`, and the row `any_step_bound` of its certificate with
    every step. Rankings depend on the step, too. `PerceptronRanker` has no step, tighter bounds, and ranks better: this class
    is for comparisons with the paper.

    Parameters
    ----------
    measure
        What to learn for: `"ndcg@10"`, `"ndcg"`, `"ap"`, `"ap>=2"` (grades from 2 on are relevant), `"linear_ndcg"`.
    learning_rate
        alpha; [CT] takes 1.
    margin
        mu.
    margin_scale
        `"constant"`, or `"grade"`: a pair's margin is mu (y_i - y_j).
    within_grade
        How the weight vector v treats documents of one grade: by `"document"` order, as in [CT]; their `"mean"` v, which does
        not depend on the order in which documents are listed; `"tight"`, the largest v for the highest score.

    Notes
    -----
    Algorithm 1 as printed is `SlamRanker("ndcg", within_grade="document")`. The last weights serve rankings.

    References
    ----------
    [CT] Chaudhuri & Tewari, *Perceptron-like Algorithms and Generalization Bounds for Learning to Rank*, 2014.

    Examples
    --------
    >>> from online_rank.rankers.slam import SlamRanker
    >>> model = SlamRanker(learning_rate=0.1)
    >>> query = {"old": {"clicks": 1.0, "age": 9.0}, "new": {"clicks": 4.0, "age": 1.0}}
    >>> model.learn_one(query, {"old": 0, "new": 2})
    >>> model.rank_one(query)
    ['new', 'old']
    """

    #: The last weights serve rankings.

    _learns_atomically = True

    _schema = Schema(_counters=Array(DOCUMENTS + 1, low=0.0), _config=Derived())

    def __init__(
        self,
        measure: str = "ndcg@10",
        *,
        learning_rate: float = 1.0,
        margin: float = 1.0,
        margin_scale: str = "constant",
        within_grade: str = "mean",
    ) -> None:
        super().__init__(half_life=0, n_counters=DOCUMENTS + 1)
        self.measure = measure
        self.learning_rate = learning_rate
        self.margin = margin
        self.margin_scale = margin_scale
        self.within_grade = within_grade
        choice("margin_scale", margin_scale, ("constant", "grade"))
        choice("within_grade", within_grade, WITHIN_GRADE)
        number("learning_rate", learning_rate, above=0.0)
        number("margin", margin, above=0.0)
        within, by_gap = WITHIN_GRADE.index(within_grade), margin_scale == "grade"
        self._config = np.array([*learned(measure), within, by_gap, learning_rate, margin], dtype=np.float64)

    def _abilities(self) -> Abilities:
        return Abilities(takes_sparse=True)

    def _learn(self, block: Block, rounds: np.ndarray) -> int:
        X, weights, average = self._for_kernel(block.X)
        table = discounts(block.n_documents)
        return learn(X, block.y, block.offsets, block.w, table, self._config, weights, average, self._counters, rounds)

    def _mix(self, shards: Sequence[Any], base: Any) -> None:
        self._mix_weights(shards, base)
