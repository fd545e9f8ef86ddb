"""PDGD in plain numpy, and a learner that takes every skipped document for a worse one: what clicks are compared with.

PDGD is the algorithm of Oosterhuis & de Rijke, *Differentiable Unbiased Online Learning to Rank* (2018), linear, with the
settings of their code (github.com/HarrieO/OnlineLearningToRank): rate 0.1, times 0.9999977 after each update, ten documents,
weights 0 at first.
"""

import numpy as np

__all__ = ["PDGD", "ClickSkip", "swap_weights"]


class PDGD:
    """Pairwise differentiable gradient descent on a linear Plackett-Luce policy.

    Parameters
    ----------
    n_features
        d.
    k
        Documents shown.
    rate, decay
        Step size, and its factor after each update.
    seed
        Seed of the draws.
    """

    def __init__(self, n_features: int, k: int = 10, rate: float = 0.1, decay: float = 0.9999977, seed: int = 0) -> None:
        self.weights = np.zeros(n_features)
        self.k = k
        self.rate = rate
        self.decay = decay
        self.rng = np.random.default_rng(seed)

    def scores(self, X: np.ndarray) -> np.ndarray:
        """Scores of documents (m, d)."""
        return X @ self.weights

    def show(self, X: np.ndarray) -> np.ndarray:
        """A draw of the ranking of min(k, m) documents."""
        return np.argsort(-(self.scores(X) + self.rng.gumbel(size=len(X))), kind="stable")[: self.k]

    def learn(self, X: np.ndarray, ranking: np.ndarray, clicks: np.ndarray) -> None:
        """Learn from clicks (k,) on a ranking that `show` drew with the present weights."""
        clicks = np.asarray(clicks, bool)
        if not clicks.any():
            return
        seen = np.arange(len(clicks)) <= np.flatnonzero(clicks)[-1] + 1
        winners, losers = (part.ravel() for part in np.meshgrid(np.flatnonzero(clicks), np.flatnonzero(seen & ~clicks)))
        if not len(winners):
            return
        scores = self.scores(X)
        lead = scores[ranking[winners]] - scores[ranking[losers]]
        x = np.exp(-np.abs(lead))
        push = self._weights(scores, ranking, winners, losers) * x / (1.0 + x) ** 2
        c = np.zeros(len(X))
        np.add.at(c, ranking[winners], push)
        np.add.at(c, ranking[losers], -push)
        self.weights += self.rate * (c @ X)
        self.rate *= self.decay

    def _weights(self, scores: np.ndarray, ranking: np.ndarray, winners: np.ndarray, losers: np.ndarray) -> np.ndarray:
        return swap_weights(scores, ranking, winners, losers)


class ClickSkip(PDGD):
    """The same without the weight of pairs: a clicked document is better than every one seen and not clicked."""

    def _weights(self, scores: np.ndarray, ranking: np.ndarray, winners: np.ndarray, losers: np.ndarray) -> np.ndarray:
        return np.ones(len(winners))


def swap_weights(scores: np.ndarray, ranking: np.ndarray, winners: np.ndarray, losers: np.ndarray) -> np.ndarray:
    """rho of each pair of positions: P(R*) / (P(R) + P(R*)), R* the ranking with the two exchanged, as the authors compute it.

    The probability of every exchanged ranking, position by position, over the documents that are left there.
    """
    pairs = np.arange(len(winners))
    exchanged = np.tile(ranking, (len(pairs), 1))
    exchanged[pairs, winners], exchanged[pairs, losers] = ranking[losers], ranking[winners]
    positions = np.arange(len(ranking))
    between = (positions >= np.minimum(winners, losers)[:, None]) & (positions <= np.maximum(winners, losers)[:, None])
    observed, flipped = (
        np.where(between, _log_probabilities(scores, order), 0.0).sum(axis=1) for order in (ranking[None, :], exchanged)
    )
    return 1.0 / (1.0 + np.exp(np.minimum(observed - flipped, 700.0)))


def _log_probabilities(scores: np.ndarray, rankings: np.ndarray) -> np.ndarray:
    """Log probability of each document at its place in each of several rankings (r, k), given those above it: (r, k)."""
    n, k = rankings.shape
    gone = np.zeros((n, k, len(scores)))
    gone[np.arange(n)[:, None], np.arange(1, k), rankings[:, :-1]] = 1.0
    left = np.where(gone.cumsum(axis=1) > 0.0, -np.inf, scores)
    largest = left.max(axis=2)
    return scores[rankings] - largest - np.log(np.exp(left - largest[:, :, None]).sum(axis=2))
