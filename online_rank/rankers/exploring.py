"""Base class of rankers that learn from clicks on rankings that they draw."""

import abc
from typing import Any

import numpy as np

from online_rank._kernels import sparse_clicks as sparse
from online_rank._kernels.clicks import confidence, evidence
from online_rank.base.anatomy import Abilities
from online_rank.base.schema import Array, Flag, Schema
from online_rank.feedback.policies import PlackettLuce, Policy, require_policy
from online_rank.rankers.averaged import LinearRanker

__all__ = ["ExploringRanker"]

_N_COUNTERS = 6
_DEFAULT = PlackettLuce()


class ExploringRanker(LinearRanker):
    """A linear ranker that draws rankings by a policy, and trusts its scores the more, the more its updates agree."""

    _schema = Schema(_counters=Array(_N_COUNTERS, low=0.0), _begun=Flag())

    def __init__(self, policy: Policy | None, averages: bool) -> None:
        super().__init__(averages, n_counters=_N_COUNTERS)
        require_policy(policy)
        self.policy = policy
        # Whether it began with given weights.
        self._begun = False

    @abc.abstractmethod
    def _updates(self) -> tuple[np.ndarray, np.ndarray]:
        """The sum of all updates of each dense weight (d,), and the sum of their squares (d,)."""

    @property
    def confidence(self) -> float:
        """How far `show_one` trusts the scores: from 0, before anything is learned, towards 1; 1 if it began with given
        weights.
        """
        return self._confidence()

    @property
    def retention(self) -> float:
        """Lower bound, for any scores, on the expected DCG of `show_one` as a share of the DCG of `rank_one`."""
        return self._own_policy.retention(self._confidence())

    def _abilities(self) -> Abilities:
        return Abilities(takes_clicks=True, takes_sparse=True, draws=True)

    @property
    def _own_policy(self) -> Policy:
        return _DEFAULT if self.policy is None else self.policy

    def _confidence(self) -> float:
        if self._begun:
            return 1.0
        return confidence(*self._updates()) if self._rows is None else sparse.confidence(self._counters)

    def _begin_with(self, weights: np.ndarray, strength: float) -> None:
        super()._begin_with(weights, strength)
        self._begun = True

    def _in_rows(self, rows: np.ndarray) -> dict[str, Any]:
        self._counters[[sparse.EVIDENCE, sparse.WITH_GRADIENTS]] = evidence(*self._updates())
        return super()._in_rows(rows)
