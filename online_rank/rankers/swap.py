"""A ranker that learns from clicks on rankings that it drew itself."""

import numpy as np

from online_rank._kernels import clicks as kernels
from online_rank._kernels.codes import OPTIMIZER_ROWS, SCALE_FREE
from online_rank.base.anatomy import Abilities
from online_rank.base.schema import Array, Schema
from online_rank.feedback.arrays import shown_block
from online_rank.feedback.policies import PlackettLuce, Policy, require_policy
from online_rank.query import Block
from online_rank.rankers.averaged import LinearRanker

__all__ = ["SwapRanker"]


class SwapRanker(LinearRanker):
    r"""Linear ranker that learns from clicks: from pairs of documents that might as well have been shown the other way round.

    Of the documents up to one after the last click, each pair with a click on i and none on j moves

    .. math:: c_i \mathrel{+}= \rho\,\sigma'(s_i - s_j), \quad c_j \mathrel{-}= \rho\,\sigma'(s_i - s_j), \qquad
        \rho = \frac{P(R^*)}{P(R) + P(R^*)},

    with the logistic function sigma, P(R) the probability of the ranking that was shown and P(R*) that of the one with i and j
    exchanged. So the position of a document is no advantage: documents that attract clicks alike are not pushed apart, whatever
    users do [PDGD]. The gradient -X'c goes to a scale-free optimizer: there is no learning rate, no schedule, and the scale of
    features matters neither to learning nor to how much is explored.

    `rank_one` is deterministic and serves the best ranking; `show_one` draws one that can be learned from.

    Parameters
    ----------
    policy
        How `show_one` draws; None for `PlackettLuce(k=10, seed=0)`.
    wealth
        What the bets of each coordinate of the optimizer begin with; it matters little.

    Notes
    -----
    `last_round.loss` is the part of the pairs, by weight, that the scores had wrong or tied before the update. Grades are
    learned as well: as gains of documents that were all seen, with equal chances of every order (for a start from judged
    queries).

    Where clicks say nothing about documents, the confidence of `show_one` should be 0; it wanders instead between 0 and about
    0.2, so that users without any preference are still shown some documents more often than others.

    Users who click on almost anything make it believe too much too early: in the first thousand rankings their lists are no
    better than those of [PDGD], later they are (`benchmarks/results/clicks.md`, informational).

    References
    ----------
    [PDGD] Oosterhuis & de Rijke, *Differentiable Unbiased Online Learning to Rank*, 2018: the pairs and their weight.
    Optimizer: Kempka, Kotłowski & Warmuth, *Adaptive Scale-Invariant Online Algorithms for Learning Linear Models*, 2019.

    Examples
    --------
    >>> from online_rank import SwapRanker
    >>> from online_rank.feedback import PlackettLuce
    >>> model = SwapRanker(PlackettLuce(k=2, seed=0))
    >>> query = {"a": {"fresh": 0.0}, "b": {"fresh": 1.0}, "c": {"fresh": 0.5}}
    >>> shown = model.show_one(query)
    >>> shown.order
    ('a', 'b')
    >>> model.learn_one(query, shown.clicked(["b"]))
    >>> model.rank_one(query)
    ['b', 'c', 'a']
    """

    def __init__(self, policy: Policy | None = None, *, wealth: float = 0.1) -> None:
        super().__init__(averages=False, n_counters=1)
        require_policy(policy)
        if not 0.0 < wealth < np.inf:
            raise ValueError(f"wealth is {wealth}; it must be a finite number > 0")
        self.policy = policy
        self.wealth = wealth
        self._state = np.empty((OPTIMIZER_ROWS[SCALE_FREE], 0))

    @property
    def confidence(self) -> float:
        """How far `show_one` believes the scores: from 0, before anything is learned, towards 1."""
        return kernels.confidence(self._state[0], self._state[1])

    _schema = Schema(_counters=Array(1, low=0.0), _state=Array(OPTIMIZER_ROWS[SCALE_FREE], "d"))
    _learns_atomically = True

    def _abilities(self) -> Abilities:
        return Abilities(takes_clicks=True, draws=True)

    @property
    def _own_policy(self) -> Policy:
        return _DEFAULT if self.policy is None else self.policy

    def _confidence(self) -> float:
        return self.confidence

    def _grow(self, n_new: int) -> None:
        super()._grow(n_new)
        new = np.zeros((len(self._state), n_new))
        new[3] = self.wealth
        self._state = np.concatenate((self._state, new), axis=1)

    def _learn(self, block: Block, rounds: np.ndarray) -> int:
        return kernels.learn(
            block.X, block.offsets, *shown_block(block), block.w, self.wealth, self._weights, self._state, rounds
        )


_DEFAULT = PlackettLuce()
