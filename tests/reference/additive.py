"""Explicit columns of the additive learner, its second-order member and its blend, in plain numpy from the equations."""

import itertools
import math
from statistics import NormalDist

import numpy as np

POINTS = np.arange(20) * (4 / 15) - 2 - 8 / 15


def normal_score(p: float) -> float:
    return NormalDist().inv_cdf(p)


def rank_scores(x: np.ndarray) -> np.ndarray:
    """Phi^-1((mid-rank - 1/2) / m') among the m' values that are not NaN; 0 for NaN."""
    known = x[~np.isnan(x)]
    out = np.zeros(len(x))
    for i, value in enumerate(x):
        if not np.isnan(value):
            rank = (known < value).sum() + ((known == value).sum() + 1) / 2
            out[i] = normal_score((rank - 0.5) / len(known))
    return out


def encoding(z: np.ndarray, sums: np.ndarray, missing: np.ndarray, own_missing: bool) -> np.ndarray:
    """10 S / (C + 20), linear between the points; sums (2, 21)."""
    values = 10.0 * sums[0] / (sums[1] + 20.0)
    return np.where(missing, values[20] if own_missing else 0.0, np.interp(z, POINTS, values[:20]))


def columns(X: np.ndarray, knots: list, sums: np.ndarray, relative: bool = True) -> np.ndarray:
    """The columns (m, d, 20) of documents X (m, d), by the knots of each feature's map and the sums (d, 2, 2, 21)."""
    m, d = X.shape
    out = np.zeros((m, d, 20))
    for j, (values, scores) in enumerate(knots):
        missing = np.isnan(X[:, j])
        known = np.where(missing, 0.0, X[:, j])
        g = np.float64(np.float32(np.interp(known, values, scores))) if len(values) else np.zeros(m)
        g[missing] = 0.0
        q = np.float64(np.float32(rank_scores(X[:, j]))) if relative else np.zeros(m)
        out[:, j, 0] = g
        for k in range(15):
            knot = -2 + k * 4 / 15
            ramp = np.clip((g - knot) / (4 / 15), 0, 1) - np.clip(-knot / (4 / 15), 0, 1)
            out[:, j, 1 + k] = np.where(missing, 0.0, ramp)
        out[:, j, 16] = q
        out[:, j, 17] = encoding(g, sums[j, 0], missing, True)
        out[:, j, 18] = encoding(q, sums[j, 1], missing, False) if relative else 0.0
        out[:, j, 19] = ~missing
    return out


def learn_encodings(X20: np.ndarray, X: np.ndarray, y: np.ndarray, sums: np.ndarray, relative: bool) -> None:
    """Add standardised grades and counts to the two points next to each value, in shares that fall linearly."""
    standard = (y - y.mean()) / y.std()
    for j, part in itertools.product(range(X.shape[1]), range(1 + relative)):
        for i, grade in enumerate(standard):
            if np.isnan(X[i, j]):
                shares = [(20, 1.0)] if part == 0 else []
            else:
                place = min(max((X20[i, j, 16 * part] - POINTS[0]) / (4 / 15), 0.0), 19.0)
                k = min(int(place), 18)
                shares = [(k, 1 - (place - k)), (k + 1, place - k)]
            for point, share in shares:
                sums[j, part, 0, point] += share * grade
                sums[j, part, 1, point] += share


def derivatives(s: np.ndarray, y: np.ndarray, w: float = 1.0) -> tuple[np.ndarray, np.ndarray]:
    """First derivatives, negative, and second ones (m,) of the logistic loss of the pairs of a query, over m.

    A pair that is wrong by far keeps .07 of the former as the latter.
    """
    m = len(y)
    c, h = np.zeros(m), np.zeros(m)
    for i, j in itertools.permutations(range(m), 2):
        if y[i] > y[j]:
            p = 1.0 / (1.0 + math.exp(s[i] - s[j]))
            c[i] += w / m * p
            c[j] -= w / m * p
            h[i] += w / m * p * max(1 - p, 0.07)
            h[j] += w / m * p * max(1 - p, 0.07)
    return c, h


class Newton:
    """Newton steps on the logistic loss of pairs, with Hessians that fade; columns g, and presence where `presence` says so."""

    def __init__(self, half_life: float = 30.0, ridge: float = 2.5) -> None:
        self.keep, self.ridge = 2.0 ** (-1.0 / half_life), ridge
        self.mass, self.solved, self.since = 0.0, 0.0, 0
        self.w = self.pending = self.gram = np.zeros(0)

    def _widen(self, d: int) -> None:
        n = d - len(self.w)
        self.w, self.pending = np.append(self.w, np.zeros(n)), np.append(self.pending, np.zeros(n))
        gram = np.zeros((d, d))
        gram[: d - n, : d - n] = self.gram.reshape(d - n, d - n)
        self.gram = gram

    def scores(self, Z: np.ndarray) -> np.ndarray:
        """The scores of columns (m, D)."""
        self._widen(Z.shape[1])
        return Z @ self.w

    def learn(self, Z: np.ndarray, y: np.ndarray, w: float = 1.0) -> None:
        """Learn columns (m, D)."""
        c, h = derivatives(self.scores(Z), y, w)
        m = len(y)
        self.pending += c @ Z
        step = -(-m // 40)
        drawn = np.arange(0, m, step)
        if h[drawn].sum() > 0:
            away = Z[drawn] - (h[drawn] @ Z[drawn]) / h[drawn].sum()
            self.gram = self.keep * self.gram + step * (away * h[drawn, None]).T @ away
        else:
            self.gram = self.keep * self.gram
        self.mass = self.keep * self.mass + h.sum()
        self.since += 1
        if self.since >= 8 or self.mass >= 1.1 * self.solved:
            self.w = self.w + np.linalg.solve(self.gram + self.ridge * np.eye(len(self.w)), self.pending)
            self.pending = np.zeros(len(self.w))
            self.solved, self.since = self.mass, 0
