"""Rankers made from river's classifiers and regressors."""

import abc
import inspect
from collections.abc import Iterator
from typing import Any

import numpy as np
from river import base

from online_rank import arguments
from online_rank.base import Ranker
from online_rank.base.draws import counted_generator
from online_rank.measures.learned import measure as parse_measure
from online_rank.query import MAX_GRADE, Block

# Squares and differences of features up to this size stay finite.
_LARGEST = 1e150


class _RiverRanker(Ranker):
    """A ranker whose scores come from a river model, one document at a time.

    The input of a query is checked before its first document reaches the river model, which learns in place.
    """

    _schema = None  # type: ignore[assignment]  # It holds any river model, which no file can.

    model: Any

    #: Whether it learns from pairs of documents with different grades.
    _compares = False

    def __init__(self, model: Any, measure: str):
        super().__init__()
        parse_measure(measure)
        self.measure = measure
        self._accepts_weights = "w" in inspect.signature(model.learn_one).parameters

    @abc.abstractmethod
    def _score_document(self, x: dict) -> float:
        """The score of one document, by its features."""

    @abc.abstractmethod
    def _teach(self, X: np.ndarray, y: np.ndarray, weight: dict[str, float]) -> None:
        """Learn from one query; `weight` holds further arguments for the river model's `learn_one`."""

    @property
    def _parts(self) -> list[Any]:
        return [self.model]

    def _grow(self, n_new: int) -> None:
        # The river model learns new features itself; no state is kept for them here.
        pass

    def _documents(self, X: np.ndarray) -> Iterator[dict]:
        """Feature dicts, one at a time: they take several times as much memory as arrays."""
        names = range(X.shape[1]) if self.feature_names is None else self.feature_names
        for row in X:
            yield dict(zip(names, row.tolist(), strict=True))

    def _score(self, X: np.ndarray) -> np.ndarray:
        if not np.isfinite(X).all():  # A classifier turns infinity into a probability; a finite score must not hide it.
            return np.full(len(X), np.nan)
        return np.array([self._score_document(x) for x in self._documents(X)])

    def _learn_query(self, query: Block, row: np.ndarray) -> bool:
        X, grades, weight = query.X, query.y, float(query.w[0])
        # NaN where a document has one. The absolute values of the whole array would be another one of its size.
        within = float(X.min(initial=0.0)) >= -_LARGEST and float(X.max(initial=0.0)) <= _LARGEST
        graded = grades.min(initial=0) >= 0 and grades.max(initial=0) <= MAX_GRADE
        if not (within and graded and 0.0 <= weight < np.inf):
            return False
        if not self._accepts_weights and weight != 1.0:
            raise ValueError(f"w: the model of this {type(self).__name__} does not learn with weights; leave w out")
        scores = [self._score_document(x) for x in self._documents(X)]
        finite = np.isfinite(scores).all()
        loss = parse_measure(self.measure).loss(scores, grades, ties="pessimistic") if finite else 1.0
        # Row by row: squares of the whole array would be another two arrays of its size.
        norm = float(np.sqrt(max((np.square(x, dtype=np.float64).sum() for x in X), default=0.0)))
        skipped = weight == 0.0 or not len(grades) or (self._compares and not (grades != grades[0]).any())
        if not skipped:
            self._teach(X, grades, {"w": weight} if self._accepts_weights else {})
        row[:] = loss, np.nan, 0.0, 0.0, 0.0, weight, len(X), norm, 0.0, skipped
        return True


class PointwiseRanker(_RiverRanker):
    """Rank by a river regressor or classifier that learns the grades of single documents.

    A regressor learns grades as numbers and scores by its prediction. A multiclass classifier learns grades as classes and
    scores by the expected grade, sum_g g P(g | x). A binary classifier learns whether the grade is at least `threshold` and
    scores by the probability of that.

    In `last_round` the fields about updates and margins (mass, squared_gradient_norm, margin, v_max) are 0, since the bounds
    that use them do not cover this ranker.

    `online_rank.save` refuses it, because `model` may be any object. Use Python's `pickle`, load with the same versions of all
    libraries, and only from sources that you trust. All input is checked before `model` learns from it, but if `model` itself
    raises in the middle of a query, it keeps what it has learned of it.

    Parameters
    ----------
    model
        A river regressor or classifier, or a pipeline of single-document steps that ends in one.
    threshold
        The smallest grade that counts as relevant, for a binary classifier.
    measure
        The measure whose loss `last_round` reports (see `online_rank.measure`). Learning does not depend on it.

    Raises
    ------
    TypeError, ValueError
        `model` is something else, or `measure` is unknown.

    Examples
    --------
    >>> from river import linear_model
    >>> from online_rank import PointwiseRanker, StreamScaler
    >>> model = StreamScaler() | PointwiseRanker(linear_model.LinearRegression())
    >>> for _ in range(5):
    ...     model.learn_one({"a": {"clicks": 3}, "b": {"clicks": 1}}, {"a": 0, "b": 2})
    >>> model.rank_one({"c": {"clicks": 2}, "d": {"clicks": 0}})
    ['d', 'c']
    """

    def __init__(self, model: Any, *, threshold: int = 1, measure: str = "ndcg@10"):
        if not isinstance(model, base.Classifier | base.Regressor):
            raise TypeError(f"model is {_named(model)}; it is a river classifier or regressor, or a pipeline that ends in one")
        arguments.integer("threshold", threshold, 1)
        super().__init__(model, measure)
        self.model = model
        self.threshold = threshold

    def _score_document(self, x: dict) -> float:
        if isinstance(self.model, base.Regressor):
            return float(self.model.predict_one(x))
        shares = self.model.predict_proba_one(x)
        if self.model._multiclass:
            return float(sum(int(grade) * share for grade, share in shares.items()))
        return float(shares.get(True, 0.0))

    def _teach(self, X: np.ndarray, y: np.ndarray, weight: dict[str, float]) -> None:
        targets: list[Any] = y.tolist()
        if isinstance(self.model, base.Classifier) and not self.model._multiclass:
            targets = [grade >= self.threshold for grade in targets]
        for x, target in zip(self._documents(X), targets, strict=True):
            self.model.learn_one(x, target, **weight)


class PairwiseRanker(_RiverRanker):
    """Rank by a river classifier that learns which of two documents is better, from the difference of their features.

    From each query `n_pairs` pairs of documents with different grades are drawn. With equal chances a pair is learned as
    (better - worse, True) or as (worse - better, False). A document is scored by P(True | x - 0), its chance to be better than
    a document whose features are all 0, so scores are transitive and take one prediction for each document. A linear classifier
    orders documents by w . x, as in RankSVM or RankNet; put a scaler in front, so that probabilities do not round to 1.

    The notes of `PointwiseRanker` on `last_round`, files and errors apply here too.

    Parameters
    ----------
    model
        A river classifier, or a pipeline of single-document steps that ends in one.
    n_pairs
        Number of pairs drawn from each query.
    measure
        The measure whose loss `last_round` reports (see `online_rank.measure`). Learning does not depend on it.
    seed
        Seed of the draws.

    Raises
    ------
    TypeError, ValueError
        `model` is something else, `n_pairs` is not positive, or `measure` is unknown.

    Examples
    --------
    >>> from river import linear_model
    >>> from online_rank import PairwiseRanker, StreamScaler
    >>> model = StreamScaler() | PairwiseRanker(linear_model.LogisticRegression())
    >>> model.learn_one({"a": {"clicks": 3}, "b": {"clicks": 1}}, {"a": 0, "b": 2})
    >>> model.rank_one({"c": {"clicks": 2}, "d": {"clicks": 0}})
    ['d', 'c']
    """

    def __init__(self, model: Any, *, n_pairs: int = 50, measure: str = "ndcg@10", seed: int = 0):
        if not isinstance(model, base.Classifier):
            raise TypeError(f"model is {_named(model)}; it is a river classifier, or a pipeline that ends in one")
        arguments.integer("n_pairs", n_pairs, 1)
        arguments.seed(seed)
        super().__init__(model, measure)
        self.model = model
        self.n_pairs = n_pairs
        self.seed = seed
        self._n_queries = 0

    _compares = True

    def _score_document(self, x: dict) -> float:
        return float(self.model.predict_proba_one(x).get(True, 0.0))

    def _teach(self, X: np.ndarray, y: np.ndarray, weight: dict[str, float]) -> None:
        # Draws depend only on the seed and the number of the query, so the state is one number.
        rng = counted_generator(self, self.seed, self._n_queries)
        self._n_queries += 1
        i, j = _draw_pairs(y, self.n_pairs, rng)
        for better, worse in zip(i.tolist(), j.tolist(), strict=True):
            for x in self._documents(X[better : better + 1].astype(np.float64) - X[worse]):
                self.model.learn_one(x, bool(y[better] > y[worse]), **weight)


def _named(model: Any) -> str:
    """A short description of the object given in place of a model."""
    return f"the class {model.__name__}, not an instance" if isinstance(model, type) else f"of type {type(model).__name__}"


def _draw_pairs(y: np.ndarray, n_pairs: int, rng: np.random.Generator) -> tuple[np.ndarray, np.ndarray]:
    """`n_pairs` ordered pairs of documents with different grades, drawn uniformly, with replacement."""
    order = np.argsort(y, kind="stable")
    ascending = y[order]
    first, stop = np.searchsorted(ascending, y, side="left"), np.searchsorted(ascending, y, side="right")
    others = len(y) - (stop - first)
    # Pair number r belongs to document i, found in the cumulated numbers of pairs. Its rank among i's pairs gives j, counting
    # documents in ascending order of grades and skipping the documents with i's grade.
    total = np.cumsum(others)
    r = rng.integers(total[-1], size=n_pairs)
    i = np.searchsorted(total, r, side="right")
    rank = r - (total[i] - others[i])
    rank += np.where(rank >= first[i], stop[i] - first[i], 0)
    return i, order[rank]
