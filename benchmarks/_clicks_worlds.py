"""Three worlds of click logs: few texts with many lists, many texts with few, and no two lists alike.

Each list has 15 documents with 19 features. Four features say who asks and are the same for all documents of a list. The truth
is a sum of curves, or has interactions, too. The ranking of today knows a part of the truth, is one of the features, and
varies from day to day. Users look at position p with probability p^-0.9 and click on what attracts them: about one document in
twenty.
"""

from typing import NamedTuple

import numpy as np

N_FEATURES, N_ASKING, LENGTH, CANDIDATES = 19, 4, 15, 30
#: Texts of each world, for 15,000 lists.
WORLDS = {"few texts": 200, "many texts": 5000, "no two alike": None}
NAMES = [f"f{j}" for j in range(N_FEATURES)]
#: The probability of a click on a document of each grade that is looked at.
_ATTRACTS = np.array([0.04, 0.1, 0.25, 0.5, 0.8])
#: The upper limits of grades 0 to 3 among the values of the truth, as shares.
_CUTS = (0.55, 0.75, 0.88, 0.96)


class Log(NamedTuple):
    """Lists as displayed: features (n, 15, d), clicks (n, 15), the text of each (n,), and true grades (n, 15)."""

    X: np.ndarray
    clicks: np.ndarray
    texts: np.ndarray
    documents: np.ndarray
    grades: np.ndarray


class Truth:
    """A function of features: curves, and with `interactions` products and thresholds of two features."""

    def __init__(self, interactions: bool, rng: np.random.Generator) -> None:
        own = np.arange(N_ASKING, N_FEATURES - 1)
        self._bends = rng.normal(size=(N_FEATURES, 3))
        self._bends[rng.permutation(own)[:6]] = 0.0  # features that say nothing
        self._bends[:N_ASKING] = self._bends[-1] = 0.0
        self._pairs = []
        if interactions:
            for k in range(8):
                a = rng.integers(N_ASKING) if k < 4 else rng.choice(own)
                b = rng.choice(own[own != a])
                self._pairs.append((int(a), int(b), rng.normal(scale=0.4, size=2), float(rng.choice([-1.0, 1.0]))))

    def __call__(self, X: np.ndarray) -> np.ndarray:
        curves = self._bends[:, 0] * X + self._bends[:, 1] * (np.abs(X) - 0.8) + self._bends[:, 2] * np.sin(2.0 * X)
        value = curves.sum(axis=-1) / np.sqrt(3.0 * (N_FEATURES - N_ASKING - 7))
        for k, (a, b, at, sign) in enumerate(self._pairs):
            x, z = X[..., a], X[..., b]
            value = value + sign * 0.55 * (x * z if k % 2 else 2.0 * ((x > at[0]) == (z > at[1])) - 1.0)
        return value


def examination(n: int = LENGTH) -> np.ndarray:
    """How often each position is looked at."""
    return np.arange(1.0, n + 1.0) ** -0.9


class World:
    """A source of logs, with one truth."""

    def __init__(self, name: str, interactions: bool, seed: int, trust: float = 0.0) -> None:
        rng = np.random.default_rng([seed, 92, interactions])
        self.truth, self.name, self.seed, self.trust = Truth(interactions, rng), name, seed, trust
        self._today = rng.normal(size=3)
        X = self._documents(rng, 4000)
        values = self._value(X, rng)
        self._limits = np.quantile(values, _CUTS)
        self._spread = float(values.std())

    def _documents(self, rng: np.random.Generator, n: int) -> np.ndarray:
        X = rng.normal(size=(n, CANDIDATES, N_FEATURES))
        X[..., :N_ASKING] = rng.normal(size=(n, 1, N_ASKING))
        return X

    def _value(self, X: np.ndarray, rng: np.random.Generator) -> np.ndarray:
        """The truth, a third of whose variance no feature tells."""
        value = self.truth(X)
        return value + 0.5 * value.std() * rng.normal(size=value.shape)

    def _as_measured(self, X: np.ndarray) -> np.ndarray:
        """Features as systems have them: some skewed, some in steps, some missing as 0."""
        X = X.copy()
        X[..., 5::4] = np.exp(X[..., 5::4])
        X[..., 6::5] = np.round(2.0 * X[..., 6::5]) / 2.0
        return X

    def log(self, n_lists: int = 15_000) -> Log:
        """A log of lists, in the order of time."""
        rng = np.random.default_rng([self.seed, 1])
        n_texts = WORLDS[self.name] or n_lists
        X = self._documents(rng, n_texts)
        value = self._value(X, rng)
        texts = rng.permutation(n_lists) if n_texts == n_lists else (n_texts * rng.random(n_lists) ** 1.5).astype(np.int64)
        return self._shown(X, value, texts, rng)

    def held_out(self, n_texts: int = 400) -> Log:
        """Other texts, with all candidates and grades."""
        rng = np.random.default_rng([self.seed, 2])
        X = self._documents(rng, n_texts)
        value = self._value(X, rng)
        today = self._score_today(X, value, rng)
        X[..., -1] = today
        grades = np.searchsorted(self._limits, value)
        return Log(self._as_measured(X), np.zeros(grades.shape), np.arange(n_texts), np.zeros(grades.shape), grades)

    def _score_today(self, X: np.ndarray, value: np.ndarray, rng: np.random.Generator) -> np.ndarray:
        """Today's score knows a part of the truth, and changes a little from list to list."""
        return 0.35 * value / self._spread + 0.8 * X[..., -1] + 0.25 * rng.normal(size=value.shape)

    def _shown(self, X: np.ndarray, value: np.ndarray, texts: np.ndarray, rng: np.random.Generator) -> Log:
        shown = np.empty((len(texts), LENGTH, N_FEATURES))
        documents = np.empty((len(texts), LENGTH), np.int64)
        worth = np.empty((len(texts), LENGTH))
        for first in range(0, len(texts), 1000):
            own = slice(first, first + 1000)
            of = texts[own]
            today = self._score_today(X[of], value[of], rng)
            order = np.argsort(-today, axis=1)[:, :LENGTH]
            documents[own] = order
            shown[own] = np.take_along_axis(X[of], order[..., None], axis=1)
            shown[own, :, -1] = np.take_along_axis(today, order, axis=1)
            worth[own] = np.take_along_axis(value[of], order, axis=1)
        grades = np.searchsorted(self._limits, worth)
        attracts = _ATTRACTS[grades]
        if self.trust:
            attracts = attracts.copy()
            attracts[:, 0] = attracts[:, 0] + self.trust * (1.0 - attracts[:, 0])
        clicks = rng.random(grades.shape) < examination() * attracts
        return Log(self._as_measured(shown), clicks, texts, documents + CANDIDATES * texts[:, None], grades)


def ndcg(scores: np.ndarray, grades: np.ndarray, k: int = 10) -> np.ndarray:
    """NDCG@k of each list (n,)."""
    gains, places = 2.0**grades - 1.0, 1.0 / np.log2(np.arange(2.0, k + 2.0))
    found = np.take_along_axis(gains, np.argsort(-scores, axis=1, kind="stable"), axis=1)[:, :k] @ places
    best = -np.sort(-gains, axis=1)[:, :k] @ places
    return found[best > 0] / best[best > 0]
