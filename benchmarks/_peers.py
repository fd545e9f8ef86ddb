"""Online learners of the literature that try directions, in plain numpy: what click rankers are compared with.

DBGD: Yue & Joachims, *Interactively Optimizing Information Retrieval Systems as a Dueling Bandits Problem* (2009), and MGD:
Schuth et al., *Multileave Gradient Descent for Fast Online Learning to Rank* (2016), both by team draft, with the settings of
github.com/HarrieO/OnlineLearningToRank: rate 0.01, directions of length 1, 1 and 9 candidates. COLTR: Zhuang & Zuccon,
*Counterfactual Online Learning to Rank* (2020), with the settings of github.com/ArvinZhuang/OLTR: rate 0.1 times 0.99966 after
each update down to 0.01, 499 candidates, temperature 0.1, gamma 1. PDGD is in `benchmarks._pdgd`.
"""

import numpy as np

__all__ = ["COLTR", "DBGD", "losses_of_candidates", "team_draft"]


class DBGD:
    """Dueling bandit gradient descent; with several candidates, multileave gradient descent.

    Parameters
    ----------
    n_features
        d.
    candidates
        Directions that are tried in each list.
    k
        Documents shown.
    rate
        Step size.
    seed
        Seed of the draws.
    """

    def __init__(self, n_features: int, candidates: int = 1, k: int = 10, rate: float = 0.01, seed: int = 0) -> None:
        self.weights = np.zeros(n_features)
        self.candidates = candidates
        self.k = k
        self.rate = rate
        self.rng = np.random.default_rng(seed)
        self._directions = np.empty((0, n_features))
        self._teams = np.empty(0, int)

    def scores(self, X: np.ndarray) -> np.ndarray:
        """Scores of documents (m, d)."""
        return X @ self.weights

    def show(self, X: np.ndarray) -> np.ndarray:
        """A list of min(k, m) documents, drafted by the ranker and its candidates."""
        self._directions = _directions(self.rng, self.candidates, X.shape[1])
        # Documents of equal scores in random order: at first all scores are equal.
        documents = self.rng.permutation(len(X))
        scores = X[documents] @ np.vstack([self.weights, self.weights + self._directions]).T
        rankings = documents[np.argsort(-scores, axis=0, kind="stable")[: self.k].T]
        shown, self._teams = team_draft(rankings, self.rng)
        return shown

    def learn(self, X: np.ndarray, ranking: np.ndarray, clicks: np.ndarray) -> None:
        """Learn from clicks (k,) on the last list of `show`: a step to the mean of the candidates that beat the ranker."""
        teams = self._teams[np.asarray(clicks, bool)]
        points = np.bincount(teams[teams >= 0], minlength=self.candidates + 1)
        winners = points[1:] > points[0]
        if winners.any():
            self.weights += self.rate * self._directions[winners].mean(axis=0)


class COLTR:
    """Counterfactual online learning to rank: candidates are judged on a list that the ranker itself has drawn.

    Parameters
    ----------
    n_features
        d.
    candidates
        Directions that are tried after each list with a click.
    k
        Documents shown.
    seed
        Seed of the draws.
    """

    def __init__(self, n_features: int, candidates: int = 499, k: int = 10, seed: int = 0) -> None:
        self.rng = np.random.default_rng(seed)
        self.weights = 0.01 * _directions(self.rng, 1, n_features)[0]
        self.candidates = candidates
        self.k = k
        self.rate = 0.1

    def scores(self, X: np.ndarray) -> np.ndarray:
        """Scores of documents (m, d)."""
        return X @ self.weights

    def show(self, X: np.ndarray) -> np.ndarray:
        """A draw of min(k, m) documents, at temperature 0.1."""
        return np.argsort(-(self.scores(X) / 0.1 + self.rng.gumbel(size=len(X))), kind="stable")[: self.k]

    def learn(self, X: np.ndarray, ranking: np.ndarray, clicks: np.ndarray) -> None:
        """Learn from clicks (k,) on a list that `show` drew with the present weights."""
        clicks = np.asarray(clicks, bool)
        if not clicks.any():
            return
        directions = _directions(self.rng, self.candidates, X.shape[1])
        # As the authors compute it: chances of the first place, at temperature 1.
        scores = X @ np.vstack([self.weights, self.weights + directions]).T
        chances = np.exp(scores - scores.max())
        chances = (chances / chances.sum(axis=0))[ranking]
        losses = losses_of_candidates(chances / chances[:, :1], clicks)
        winners = losses[1:] < losses[0]
        if winners.any():
            self.weights += self.rate * directions[winners].mean(axis=0)
            self.rate = max(0.99966 * self.rate, 0.01)


def team_draft(rankings: np.ndarray, rng: np.random.Generator) -> tuple[np.ndarray, np.ndarray]:
    """A list drafted from rankings (r, k) of the same documents, and who chose each of its documents.

    What all rankings begin with belongs to none, -1. Then they choose in rounds, each in random order.
    """
    same = (rankings == rankings[0]).all(axis=0)
    shared = len(same) if same.all() else int(np.argmin(same))
    shown, teams = rankings[0, :shared].tolist(), [-1] * shared
    while len(shown) < rankings.shape[1]:
        for one in rng.permutation(len(rankings))[: rankings.shape[1] - len(shown)].tolist():
            shown.append(next(document for document in rankings[one].tolist() if document not in shown))
            teams.append(one)
    return np.array(shown), np.array(teams)


def losses_of_candidates(ratios: np.ndarray, clicks: np.ndarray, gamma: float = 1.0) -> np.ndarray:
    """What a list (k,) says against each candidate (c,), by self-normalised inverse propensities, plus gamma standard errors.

    `ratios` (k, c): how much likelier the candidate shows each document than the ranker that drew the list. Documents that were
    passed over above the last click count 1, all others 0.
    """
    passed = (~clicks & (np.arange(len(clicks)) <= np.flatnonzero(clicks)[-1])).astype(float)[:, None]
    means = (ratios * passed).sum(axis=0) / ratios.sum(axis=0)
    variances = ((passed - means) ** 2 * ratios**2).sum(axis=0) / (ratios**2).sum(axis=0)
    return means + gamma * np.sqrt(variances / len(clicks))


def _directions(rng: np.random.Generator, n: int, d: int) -> np.ndarray:
    """Directions (n, d) of length 1."""
    drawn = rng.normal(size=(n, d))
    return drawn / np.linalg.norm(drawn, axis=1, keepdims=True)
