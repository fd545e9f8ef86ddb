"""Base class of rankers that learn from clicks on rankings that they draw."""

import abc
from collections.abc import Mapping
from typing import Any

import numpy as np

from online_rank._kernels import sparse
from online_rank._kernels.clicks import confidence, evidence
from online_rank._kernels.codes import AVERAGED
from online_rank.base.anatomy import Abilities
from online_rank.base.schema import Array, Derived, Flag, Schema
from online_rank.feedback.policies import PlackettLuce, Policy, require_policy
from online_rank.query import Block
from online_rank.rankers.averaged import LinearRanker
from online_rank.rankers.signs import checked_signs, project

_N_COUNTERS = 6
#: How a ranker that begins with nothing draws, and one that begins with weights.
_COLD, BEGUN = PlackettLuce(), PlackettLuce(keep=0.98, newcomers=0.01)


class ExploringRanker(LinearRanker):
    """A linear ranker that draws rankings by a policy, and trusts its scores the more, the more its updates agree."""

    _schema = Schema(_counters=Array(_N_COUNTERS, low=0.0), _begun=Flag(), _learns_atomically=Derived())

    def __init__(self, policy: Policy | None, half_life: float | None, signs: Mapping[Any, int] | None) -> None:
        super().__init__(half_life, n_counters=_N_COUNTERS)
        require_policy(policy)
        self.policy = policy
        self.signs = checked_signs(signs)
        self._learns_atomically = signs is None
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

    def _abilities(self) -> Abilities:
        examined = getattr(self, "examination", None) is not None
        return Abilities(takes_clicks=True, takes_sparse=self.signs is None, takes_any_list=examined, draws=True)

    @property
    def _own_policy(self) -> Policy:
        if self.policy is not None:
            return self.policy
        return BEGUN if self._begun else _COLD

    def _confidence(self) -> float:
        if self._begun:
            return 1.0
        if self._rows is not None:
            return confidence(*self._counters[[sparse.EVIDENCE, sparse.WITH_GRADIENTS]])
        return confidence(*evidence(*self._updates()))

    def _begin_with(self, weights: np.ndarray, strength: float) -> None:
        super()._begin_with(weights, strength)
        self._check_state()
        self._begun = True

    @abc.abstractmethod
    def _descend(self, block: Block, rounds: np.ndarray) -> int:
        """Learn queries without regard to signs."""

    def _learn(self, block: Block, rounds: np.ndarray) -> int:
        if self.signs is None:
            return self._descend(block, rounds)
        columns, signs = self._signed_columns()
        self._warn_of_unknown_signs(columns)
        for t, query in enumerate(block.each()):
            if not self._descend(query, rounds[t : t + 1]):
                return t
            project(self._weights, self._average, self._counters[AVERAGED], columns, signs)
        return len(block.w)

    def _in_rows(self, rows: np.ndarray) -> dict[str, Any]:
        self._counters[[sparse.EVIDENCE, sparse.WITH_GRADIENTS]] = evidence(*self._updates())
        return super()._in_rows(rows)
