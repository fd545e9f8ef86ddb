"""Batch rankers that papers compare with, from their equations: small, vectorised, for `benchmarks.direct_quality`.

Each has `learn_many(X, y, qid)`, which trains on a whole block, and `predict_many(X)`.

References
----------
[XL] Xu & Li, *AdaRank: a boosting algorithm for information retrieval*, 2007.
[IL] Ibrahim & Landa-Silva, *ES-Rank: evolution strategy learning to rank approach*, 2017, and their later initialisations.
"""

import itertools
from typing import Any

import numpy as np

from online_rank.query import query_offsets


class TrainingNDCG:
    """NDCG@k of every query of a block, for many rankings of the same documents.

    Of equal scores the less relevant document is ranked first, so that a constant feature is no ranking.
    """

    def __init__(self, y: np.ndarray, qid: np.ndarray, k: int = 10) -> None:
        offsets = query_offsets(qid, len(y))
        self.starts = offsets[:-1]
        self.query = np.repeat(np.arange(len(self.starts)), np.diff(offsets))
        self.gains = np.exp2(y) - 1.0
        place = np.arange(len(y)) - np.repeat(self.starts, np.diff(offsets))
        self.discounts = np.where(place < k, 1.0 / np.log2(place + 2.0), 0.0)
        ideal = self._dcg(np.lexsort((-self.gains, self.query)))
        self.taught = ideal > 0.0
        self.ideal = np.where(self.taught, ideal, 1.0)

    def _dcg(self, order: np.ndarray) -> np.ndarray:
        return np.add.reduceat(self.gains[order] * self.discounts, self.starts)

    def each(self, scores: np.ndarray) -> np.ndarray:
        """NDCG of each query; 0 for one without a relevant document."""
        return self._dcg(np.lexsort((self.gains, -scores, self.query))) / self.ideal

    def mean(self, scores: np.ndarray) -> float:
        """Over the queries with a relevant document."""
        return float(self.each(scores)[self.taught].mean())


class Linear:
    """What linear baselines share: scores are X w."""

    w: np.ndarray

    def predict_many(self, X: np.ndarray) -> np.ndarray:
        """Scores of documents."""
        return X @ self.w


class AdaRank(Linear):
    r"""Boosting of single features [XL].

    With E(f, q) the NDCG@10 of query q, the round's feature has the largest sum of P(q) E(feature, q), gets

    .. math:: \alpha = \frac12 \ln \frac{\sum_q P(q) (1 + E)}{\sum_q P(q) (1 - E)},

    and then P(q) is proportional to exp(-E(f, q)) of the sum f so far. As in RankLib a feature that was chosen five times in a
    row rests for a round, and the best f on the training queries is kept.
    """

    def __init__(self, rounds: int = 100) -> None:
        self.rounds = rounds

    def learn_many(self, X: np.ndarray, y: np.ndarray, qid: np.ndarray) -> None:
        """Train on all queries."""
        measure = TrainingNDCG(y, qid)
        alone = np.array([measure.each(column) for column in X.T])[:, measure.taught]
        weights = np.full(alone.shape[1], 1.0 / alone.shape[1])
        w, best, chosen = np.zeros(X.shape[1]), -np.inf, []
        for _ in range(self.rounds):
            quality = alone @ weights
            if len(chosen) >= 5 and len(set(chosen[-5:])) == 1:
                quality[chosen[-1]] = -np.inf
            feature = int(np.argmax(quality))
            chosen.append(feature)
            w[feature] += 0.5 * np.log((1.0 + quality[feature]) / max(1.0 - quality[feature], 1e-12))
            reached = measure.each(X @ w)[measure.taught]
            if reached.mean() > best:
                best, self.w = reached.mean(), w.copy()
            weights = np.exp(-reached)
            weights /= weights.sum()


class ESRank(Linear):
    """(1 + 1) evolution strategy on linear weights, with NDCG@10 of the training queries as its fitness [IL].

    A child adds N(0, 1) exp(Cauchy) to as many genes as chance says. A child that is fitter becomes the parent, and its
    mutation is made once more.

    Parameters
    ----------
    start
        First parent: `"zero"` (ES-Rank), `"least squares"` (IESR-Rank) or `"ranking SVM"` (IESVM-Rank).
    generations
        1,300 in [IL].
    """

    def __init__(self, start: str = "zero", generations: int = 1300, seed: int = 0) -> None:
        self.start = start
        self.generations = generations
        self.seed = seed

    def learn_many(self, X: np.ndarray, y: np.ndarray, qid: np.ndarray) -> None:
        """Train on all queries."""
        rng = np.random.default_rng(self.seed)
        measure = TrainingNDCG(y, qid)
        d = X.shape[1]
        w = {"zero": lambda *_: np.zeros(d), "least squares": least_squares, "ranking SVM": ranking_svm}[self.start](X, y, qid)
        scores = X @ w
        fitness, change = measure.mean(scores), None
        for _ in range(self.generations):
            if change is None:
                genes = rng.integers(d, size=rng.integers(1, d + 1))
                change = np.zeros(d)
                change[genes] = rng.standard_normal(len(genes)) * np.exp(np.clip(rng.standard_cauchy(len(genes)), None, 50.0))
            child = scores + X @ change
            reached = measure.mean(child)
            if reached > fitness:
                w, scores, fitness = w + change, child, reached
            else:
                change = None
        self.w = w


class RankingSVM(Linear):
    """Linear SVM on the differences of documents of different grades (Joachims 2002)."""

    def learn_many(self, X: np.ndarray, y: np.ndarray, qid: np.ndarray) -> None:
        """Train on all queries."""
        self.w = ranking_svm(X, y, qid)


def least_squares(X: np.ndarray, y: np.ndarray, qid: np.ndarray) -> np.ndarray:
    """Weights of a linear regression of the grades."""
    return np.linalg.lstsq(X - X.mean(axis=0), y - y.mean(), rcond=None)[0]


def ranking_svm(X: np.ndarray, y: np.ndarray, qid: np.ndarray, most: int = 20_000) -> np.ndarray:
    """Weights of a linear SVM on at most `most` differences, drawn over all queries."""
    from sklearn.svm import LinearSVC

    better, worse = [], []
    offsets = query_offsets(qid, len(y))
    for first, stop in itertools.pairwise(offsets):
        i, j = np.nonzero(y[first:stop, None] > y[None, first:stop])
        better.append(first + i)
        worse.append(first + j)
    i, j = np.concatenate(better), np.concatenate(worse)
    kept = np.random.default_rng(0).permutation(len(i))[:most]
    differences = X[i[kept]] - X[j[kept]]
    sign = np.where(np.arange(len(kept)) % 2, 1.0, -1.0)
    model = LinearSVC(C=0.01, fit_intercept=False, dual=False).fit(differences * sign[:, None], sign)
    return model.coef_[0]


class XGBoost:
    """LambdaMART of XGBoost; what is not given is its default."""

    def __init__(self, **settings: Any) -> None:
        import xgboost

        self.model = xgboost.XGBRanker(**{"objective": "rank:ndcg"} | settings)

    def learn_many(self, X: np.ndarray, y: np.ndarray, qid: np.ndarray) -> None:
        """Train on all queries."""
        self.model.fit(X, y, group=np.diff(query_offsets(qid, len(y))))

    def predict_many(self, X: np.ndarray) -> np.ndarray:
        """Scores of documents."""
        return np.asarray(self.model.predict(X), dtype=np.float64)
