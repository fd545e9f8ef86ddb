"""What rankers that hold rankers share."""

import abc
from collections.abc import Callable
from typing import Any

import numpy as np
from river import base

from online_rank.base import Ranker
from online_rank.base.undo import begin, joined

__all__ = ["NestedRanker", "require_ranker", "teach"]


class NestedRanker(Ranker):
    """A ranker that holds others: they are taught on its features, and a rejected query leaves all of them as they were."""

    @property
    @abc.abstractmethod
    def _parts(self) -> list[base.Base]:
        """The rankers inside, and whatever else changes in place."""

    def _grow(self, n_new: int) -> None:
        """The state is that of the rankers inside, which grow when they learn."""

    def _begin(self) -> Callable[[], None]:
        return joined(super()._begin(), *map(begin, self._parts))

    def _meet_features(self, *rankers: Ranker) -> None:
        """Let rankers know the features that this one has met."""
        for ranker in rankers:
            if (ranker._names, ranker._n_features) != (self._names, self._n_features):
                ranker._extend(self._names, self._n_features - ranker._n_features)


def teach(ranker: Ranker, X: np.ndarray, y: np.ndarray, w: np.ndarray, row: np.ndarray) -> bool:
    """Let a ranker learn one query, all or nothing; `row` (1, fields of Round) receives its round. Returns whether it did."""
    if ranker._learn(X, y, np.array([0, len(y)]), w, row) == 0:
        return False
    ranker._last_round = row.copy()
    return True


def require_ranker(name: str, ranker: Any) -> None:
    """Raise TypeError unless `ranker` is one, and not a pipeline."""
    if not isinstance(ranker, Ranker) or hasattr(ranker, "steps"):
        raise TypeError(f"{name} is {ranker!r}; it is a ranker. Transformers go in front of the whole, as in scaler | ranker")
