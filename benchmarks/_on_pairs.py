"""Linear learners of pairs that follow drift, as peers."""

import numpy as np

from online_rank import StreamQuantileMap


class OnPairs:
    """A linear learner of the differences of pairs, behind a quantile map; `step` changes its weights by a query."""

    first: float

    def __init__(self, setting: float) -> None:
        self.map, self.setting, self.w, self.state = StreamQuantileMap(), setting, np.zeros(0), np.zeros(0)

    def predict_one(self, X: np.ndarray) -> list[float]:
        """Scores of documents."""
        return (self._rows(X) @ self.w).tolist() if len(self.w) else [0.0] * len(X)

    def learn_one(self, X: np.ndarray, y: np.ndarray) -> None:
        """Learn all pairs of documents with different grades."""
        self.map.learn_one(X)
        Z = self._rows(X)
        if not len(self.w):
            self.w, self.state = np.zeros(Z.shape[1]), np.full(Z.shape[1], self.first)
        self.step(Z, *np.nonzero(y[:, None] > y))

    def step(self, Z: np.ndarray, better: np.ndarray, worse: np.ndarray) -> None:
        """Learn the pairs of a query."""
        raise NotImplementedError

    def _rows(self, X: np.ndarray) -> np.ndarray:
        return np.asarray(self.map.transform_one(X), dtype=np.float64)


class Arow(OnPairs):
    """AROW (Crammer, Kulesza & Dredze 2009) with a diagonal covariance; the setting is r."""

    first = 1.0

    def step(self, Z: np.ndarray, better: np.ndarray, worse: np.ndarray) -> None:
        """One step for each pair whose hinge is above 0."""
        for i, j in zip(better.tolist(), worse.tolist(), strict=True):
            x = Z[i] - Z[j]
            if (short := 1.0 - self.w @ x) > 0.0:
                spread = self.state * x
                beta = 1.0 / (x @ spread + self.setting)
                self.w += short * beta * spread
                self.state -= beta * spread * spread


class AdaGrad(OnPairs):
    """AdaGrad on the mean logistic loss of a query's pairs; the setting is the step."""

    first = 1e-8

    def step(self, Z: np.ndarray, better: np.ndarray, worse: np.ndarray) -> None:
        """One step for the query."""
        if len(better):
            s = Z @ self.w
            push = np.zeros(len(Z))
            shares = 1.0 / (1.0 + np.exp(s[better] - s[worse])) / len(better)
            np.add.at(push, better, shares)
            np.add.at(push, worse, -shares)
            gradient = push @ Z
            self.state += gradient**2
            self.w += self.setting * gradient / np.sqrt(self.state)
