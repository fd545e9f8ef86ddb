"""A ranker that learns from clicks on rankings that it drew itself."""

from typing import Any

import numpy as np

from online_rank import arguments
from online_rank._kernels import clicks as kernels
from online_rank._kernels import sparse_clicks as sparse
from online_rank._kernels.codes import OPTIMIZER_ROWS, SCALE_FREE
from online_rank._kernels.sparse import OPTIMIZER
from online_rank.base.anatomy import Abilities
from online_rank.base.schema import Array, Schema
from online_rank.feedback.arrays import shown_block
from online_rank.feedback.policies import PlackettLuce, Policy, require_policy
from online_rank.query import Block, SparseRows
from online_rank.query.sparse import as_rows
from online_rank.rankers.averaged import LinearRanker

__all__ = ["SwapRanker"]

_N_KEPT = OPTIMIZER_ROWS[SCALE_FREE]


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
        super().__init__(averages=False, n_counters=6)
        require_policy(policy)
        arguments.number("wealth", wealth, above=0.0)
        self.policy = policy
        self.wealth = wealth
        self._state = np.empty((_N_KEPT, 0))
        self._baseline = np.zeros((2, kernels.PLACES, kernels.PLACES))

    @property
    def confidence(self) -> float:
        """How far `show_one` believes the scores: from 0, before anything is learned, towards 1."""
        if self._rows is not None:
            return sparse.confidence(self._counters)
        return kernels.confidence(self._state[0], self._state[1])

    _schema = Schema(
        _counters=Array(6, low=0.0),
        _state=Array(_N_KEPT, lambda ranker: 0 if ranker._rows is not None else ranker._n_features),
        _baseline=Array(2, kernels.PLACES, kernels.PLACES),
    )
    _learns_atomically = True
    _row_width = OPTIMIZER + _N_KEPT

    def _abilities(self) -> Abilities:
        return Abilities(takes_clicks=True, takes_sparse=True, draws=True)

    @property
    def _own_policy(self) -> Policy:
        return _DEFAULT if self.policy is None else self.policy

    def _confidence(self) -> float:
        return self.confidence

    def _grow(self, n_new: int) -> None:
        n = self._n_features
        super()._grow(n_new)
        new = np.zeros((_N_KEPT, n_new))
        new[3] = self.wealth
        if self._rows is None:
            self._state = np.concatenate((self._state, new), axis=1)
        else:
            self._rows[n : n + n_new, OPTIMIZER:] = new.T

    def _in_rows(self, rows: np.ndarray) -> dict[str, Any]:
        rows[:, OPTIMIZER:] = self._state.T
        self._counters[[sparse.EVIDENCE, sparse.WITH_GRADIENTS]] = kernels.evidence(self._state[0], self._state[1])
        return {"_state": self._state[:, :0].copy()}

    def _learn(self, block: Block, rounds: np.ndarray) -> int:
        shown = shown_block(block)
        if self._rows is None and not isinstance(block.X, SparseRows):
            return kernels.learn(
                block.X, block.offsets, *shown, block.w, self.wealth, _NOTHING, self._weights, self._state, self._baseline,
                rounds,
            )  # fmt: skip
        rows, state = as_rows(block.X), self._make_sparse()
        return sparse.learn(
            rows.starts, rows.columns, rows.values, block.offsets, *shown, block.w, self.wealth, state, self._baseline,
            self._counters, rounds,
        )  # fmt: skip


_DEFAULT = PlackettLuce()
_NOTHING = np.empty(0)
