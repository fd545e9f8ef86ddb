"""What rankers share whose weights are averaged, and linear ones among them."""

from typing import Any

import numpy as np

from online_rank._kernels.dense import score
from online_rank.base import Ranker
from online_rank.base.schema import Array, Derived, Schema

__all__ = ["AveragedRanker", "LinearRanker", "averaging"]


def averaging(average: bool | float) -> float:
    """The factor by which an average of weights forgets in one query.

    Raises TypeError or ValueError unless `average` is a bool or a half-life > 0.
    """
    if isinstance(average, bool):
        return 1.0
    if not isinstance(average, int | float | np.number):
        raise TypeError(f"average is {average!r}; it must be True, False or a half-life in queries > 0")
    if not 0.0 < average < np.inf:
        raise ValueError(f"average is {average}; it must be True, False or a half-life in queries > 0")
    return 0.5 ** (1.0 / average)


class AveragedRanker(Ranker):
    """A ranker with weights that learn, and others that serve rankings: their average, or the same.

    Its kernel keeps the effective number of averaged weight vectors in `_counters[0]`.
    """

    _schema = Schema(_averages=Derived())

    average: Any

    def __init__(self, averages: bool, n_counters: int) -> None:
        super().__init__()
        self._averages = averages
        self._weights = np.empty(0)
        self._average = np.empty(0)
        self._counters = np.zeros(n_counters)

    def restart_average(self) -> None:
        """Begin the average of the weights that serve rankings anew, from the weights that learn. For a stream that changed."""
        if self._averages:
            self._average = self._weights.copy()
            self._counters[0] = 0.0

    def stop_averaging(self) -> None:
        """From now on the weights that learn serve rankings, as with `average=False`."""
        self.average = self._averages = False
        self._average = self._average[:0].copy()

    @property
    def _served(self) -> np.ndarray:
        return self._average if self._averages else self._weights


class LinearRanker(AveragedRanker):
    """A ranker whose scores are linear in the features."""

    _schema = Schema(
        _weights=Array("d"),
        _average=Array(lambda ranker: ranker._n_features if ranker._averages else 0),
    )

    @property
    def weights(self) -> np.ndarray:
        """The weights that learn, float64 (d,), a copy; in the order of `feature_names` when features are named."""
        return self._weights.copy()

    @property
    def served_weights(self) -> np.ndarray:
        """The weights that serve rankings, float64 (d,), a copy: the average of those that learn, where there is one."""
        return self._served.copy()

    def _grow(self, n_new: int) -> None:
        new = np.zeros(n_new)
        self._weights = np.concatenate((self._weights, new))
        if self._averages:
            self._average = np.concatenate((self._average, new))

    def _score(self, X: np.ndarray) -> np.ndarray:
        scores = np.empty(len(X))
        score(X, self._served, scores)
        return scores
