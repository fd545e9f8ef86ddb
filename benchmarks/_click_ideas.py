"""The ideas that `ClickRidge` combines, one without the other (`python -m benchmarks.exploring --part gains`)."""

import itertools
from typing import Any

import numpy as np

from online_rank._kernels.clicks import exponentials, swap_weight

K, PRIOR = 10, 10.0


class Idea:
    """A linear learner for features of unit scale that begins with today's score, the first column.

    Parameters
    ----------
    exchanges
        Whether it learns from drawn exchanges alone, or from each document against what stands at its position on average.
    examined
        Whether positions count by the variance of their clicks, or all alike.
    second_order
        Whether it solves a ridge regression, or steps along the gradient of each list, as AdaGrad does.
    """

    def __init__(self, d: int, *, exchanges: bool = False, examined: bool = True, second_order: bool = True) -> None:
        self.exchanges, self.examined, self.second_order = exchanges, examined, second_order
        self.initial = np.eye(d)[0]
        self.gram, self.moment, self.squares = np.zeros((d, d)), np.zeros(d), np.full(d, PRIOR)
        self.n, self.gains, self.gains_squared, self.features = 1.0, np.zeros(K), np.ones(K), np.zeros((K, d))
        self.pairs = np.zeros((2, K, K))

    @property
    def weights(self) -> np.ndarray:
        """The weights (d,)."""
        if self.second_order:
            return self.initial + np.linalg.solve(
                self.gram + PRIOR * np.eye(len(self.gram)), self.moment - self.gram @ self.initial
            )
        return self.initial + self.moment / np.sqrt(self.squares)

    def learn(self, X: np.ndarray, clicks: Any) -> None:
        """Learn from the clicks on a list."""
        gains = np.array(clicks.gains)
        if not gains.any():
            return
        if self.exchanges:
            drawn, gradient = self._exchanges(X, clicks.impression, gains)
        else:
            drawn, gradient = self._positions(X[list(clicks.impression.order)], gains)
        self.gram += drawn
        self.moment += gradient
        self.squares += gradient**2

    def _positions(self, X: np.ndarray, gains: np.ndarray) -> tuple[np.ndarray, np.ndarray]:
        mean = self.gains / self.n
        variance = self.gains_squared / self.n - mean**2 if self.examined else np.ones(K)
        rows = X - self.features / self.n
        rows -= variance @ rows / variance.sum()
        residual = gains - mean
        self.n, self.gains, self.gains_squared = self.n + 1.0, self.gains + gains, self.gains_squared + gains**2
        self.features += X
        return (rows * variance[:, None]).T @ rows, residual @ rows

    def _exchanges(self, X: np.ndarray, shown: Any, gains: np.ndarray) -> tuple[np.ndarray, np.ndarray]:
        n, e = shown.n_compared, np.empty(len(shown.logits))
        unshown = exponentials(np.array(shown.logits), -np.inf, e)
        rho = np.zeros((K, K))
        for a, b in itertools.combinations(range(n), 2):
            rho[a, b] = swap_weight(e, unshown, e[b + 1 :].sum(), a, b)
        surplus = gains[:, None] - gains
        push = rho * (surplus - self.pairs[1] / (self.pairs[0] + 5.0))
        self.pairs += rho, rho * surplus
        rows, weight = X[list(shown.order)], rho + rho.T
        return rows.T @ (np.diag(weight.sum(axis=1)) - weight) @ rows, (push.sum(axis=1) - push.sum(axis=0)) @ rows


IDEAS = {
    "exchanges, second order": {"exchanges": True},
    "lists, first order": {"second_order": False},
    "lists, second order, positions alike": {"examined": False},
}
