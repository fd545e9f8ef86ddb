"""Batch learners next to online ones: trained again at intervals."""

import copy
import inspect
from typing import Any

import numpy as np

from online_rank import arguments
from online_rank.base import Ranker
from online_rank.measures.learned import measure as parse_measure
from online_rank.query import MAX_GRADE, Block


class Retrained(Ranker):
    """A learner of LightGBM, XGBoost or scikit-learn, trained again after every `every` queries on all that it has seen.

    Until the first training all scores are 0. A learner whose `fit` takes `group`, as `LGBMRanker` and `XGBRanker`, gets the
    sizes of the queries; others learn grades as numbers. It keeps the queries that it trains on, so memory grows with the
    stream, unless `window` limits it. `online_rank.save` refuses it, because `estimator` may be any object.

    Parameters
    ----------
    estimator
        The learner, of which each training gets a copy. Give it a seed and one thread, so that results can be repeated.
    every
        How many queries lie between two trainings.
    window
        How many of the last queries to train on; None for all.
    measure
        The measure whose loss `last_round` reports (see `online_rank.measure`). Learning does not depend on it.

    Raises
    ------
    TypeError
        `estimator` has no `fit` and `predict`.

    Examples
    --------
    >>> from sklearn.linear_model import LinearRegression
    >>> from online_rank import evaluate
    >>> model = evaluate.Retrained(LinearRegression(), every=2)
    >>> for _ in range(2):
    ...     model.learn_one({"a": {"clicks": 3.0}, "b": {"clicks": 1.0}}, {"a": 0, "b": 2})
    >>> model.rank_one({"c": {"clicks": 2.0}, "d": {"clicks": 0.0}})
    ['d', 'c']
    """

    _schema = None  # type: ignore[assignment]  # It holds any object, which no file can.

    def __init__(self, estimator: Any, *, every: int = 100, window: int | None = None, measure: str = "ndcg@10") -> None:
        super().__init__()
        if isinstance(estimator, type) or not (hasattr(estimator, "fit") and hasattr(estimator, "predict")):
            raise TypeError(f"estimator is {estimator!r:.60}; it is an object with the methods fit and predict")
        arguments.integer("every", every, 1)
        arguments.integer("window", window, 1, optional=True)
        parse_measure(measure)
        self.estimator = estimator
        self.every = every
        self.window = window
        self.measure = measure
        self._seen: list[tuple[np.ndarray, np.ndarray]] = []
        self._n_seen = 0
        self._trained: Any = None
        self._width = 0

    def _grow(self, n_new: int) -> None:
        # Features that a training did not see are left out until the next one.
        pass

    def _score(self, X: np.ndarray) -> np.ndarray:
        if self._trained is None or not np.isfinite(X).all():
            return np.zeros(len(X)) if np.isfinite(X).all() else np.full(len(X), np.nan)
        return np.asarray(self._trained.predict(_widened(X, self._width)), dtype=np.float64)

    def _learn_query(self, query: Block, row: np.ndarray) -> bool:
        X, y, weight = query.X, query.y, float(query.w[0])
        if not (np.isfinite(X).all() and y.min(initial=0) >= 0 and y.max(initial=0) <= MAX_GRADE and 0.0 <= weight < np.inf):
            return False
        if weight != 1.0:
            raise ValueError("w: a Retrained does not learn with weights; leave w out")
        loss = parse_measure(self.measure).loss(self._score(X), y, ties="pessimistic")
        skipped = not len(y)
        if not skipped:
            # A new list: what undoes a query remembers the old one.
            seen = [*self._seen, (np.array(X, dtype=np.float64), np.array(y))][-(self.window or len(self._seen) + 1) :]
            if (self._n_seen + 1) % self.every == 0:
                self._train(seen)
            self._seen = seen
            self._n_seen += 1
        norm = float(np.sqrt(max((np.square(x, dtype=np.float64).sum() for x in X), default=0.0)))
        row[:] = loss, np.nan, 0.0, 0.0, 0.0, weight, len(X), norm, 0.0, skipped
        return True

    def _train(self, seen: list[tuple[np.ndarray, np.ndarray]]) -> None:
        width = max(X.shape[1] for X, _ in seen)
        X, y = np.concatenate([_widened(X, width) for X, _ in seen]), np.concatenate([y for _, y in seen])
        trained = copy.deepcopy(self.estimator)
        ranks = "group" in inspect.signature(trained.fit).parameters
        trained.fit(X, y, **({"group": [len(grades) for _, grades in seen]} if ranks else {}))
        self._trained, self._width = trained, width


def _widened(X: np.ndarray, width: int) -> np.ndarray:
    """X with `width` columns: new ones are 0, and those beyond are left out."""
    return X[:, :width] if X.shape[1] >= width else np.pad(X, ((0, 0), (0, width - X.shape[1])))
