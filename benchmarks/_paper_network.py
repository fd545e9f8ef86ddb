"""The network of [DR], written again from the paper alone, in numpy: every pair of a query is a separate input.

r(x_i, x_j) = tanh(w . (f(x_i) - f(x_j))), f two tanh layers, cost (1 - r)^2 over all pairs of neighbouring grades of a query,
mean over pairs; Adam of Kingma & Ba (2015) with its published settings; standardised by the training part. It shares no code
with the library.
"""

import itertools
from typing import Any

import numpy as np


class PaperNetwork:
    """The network and its optimiser.

    Parameters
    ----------
    n_features
        d.
    hidden
        Widths of both layers.
    rate
        Adam's step size.
    first
        Size of the initial weights of the first layer and of the output, relative to Glorot & Bengio 2010.
    seed
        Seed of the initial weights.
    """

    def __init__(
        self, n_features: int, hidden: tuple[int, int] = (70, 5), rate: float = 1e-3, first: float = 1.0, seed: int = 0
    ) -> None:
        rng = np.random.default_rng([seed, 77])
        sizes = (n_features, *hidden)
        self.parameters: list[np.ndarray] = []
        for below, above in itertools.pairwise(sizes):
            bound = np.sqrt(6.0 / (below + above))
            self.parameters += [rng.uniform(-bound, bound, (below, above)), np.zeros(above)]
        bound = np.sqrt(6.0 / (hidden[-1] + 1))
        self.parameters.append(rng.uniform(-bound, bound, hidden[-1]) * first)
        self.parameters[0] *= first
        self.first = [np.zeros_like(p) for p in self.parameters]
        self.second = [np.zeros_like(p) for p in self.parameters]
        self.steps, self.rate = 0, rate
        self.mean, self.deviation = np.zeros(n_features), np.ones(n_features)

    def standardise(self, X: np.ndarray) -> None:
        """Take mean and deviation of each feature from a training part (n, d)."""
        self.mean, self.deviation = X.mean(axis=0), X.std(axis=0)

    def _layers(self, X: np.ndarray) -> tuple[np.ndarray, np.ndarray, np.ndarray]:
        W1, b1, W2, b2, _ = self.parameters
        Z = (X - self.mean) / self.deviation
        H = np.tanh(Z @ W1 + b1)
        return Z, H, np.tanh(H @ W2 + b2)

    def scores(self, X: np.ndarray) -> np.ndarray:
        """w . f(x) of documents (m, d)."""
        return self._layers(X)[2] @ self.parameters[4]

    def learn(self, X: np.ndarray, y: np.ndarray) -> None:
        """One step from one query: its cost is written pair by pair, and differentiated pair by pair."""
        grades = np.unique(y)
        better, worse = np.nonzero(np.searchsorted(grades, y)[:, None] == np.searchsorted(grades, y)[None, :] + 1)
        if not len(better):
            return
        Z, H, F = self._layers(X)
        w = self.parameters[4]
        r = np.tanh((F[better] - F[worse]) @ w)
        slopes = -2.0 * (1.0 - r) * (1.0 - r**2) / len(r)
        of_scores = np.bincount(better, slopes, len(y)) - np.bincount(worse, slopes, len(y))
        dF = np.outer(of_scores, w) * (1.0 - F**2)
        dH = dF @ self.parameters[2].T * (1.0 - H**2)
        self._adam([Z.T @ dH, dH.sum(axis=0), H.T @ dF, dF.sum(axis=0), F.T @ of_scores])

    def _adam(self, gradients: list[Any]) -> None:
        self.steps += 1
        for p, m, v, g in zip(self.parameters, self.first, self.second, gradients, strict=True):
            m += 0.1 * (g - m)
            v += 0.001 * (g**2 - v)
            p -= self.rate * (m / (1.0 - 0.9**self.steps)) / (np.sqrt(v / (1.0 - 0.999**self.steps)) + 1e-8)
