"""Rankers of your own, in plain Python."""

import abc
from typing import Any

import numpy as np

from online_rank.base import Ranker, Round
from online_rank.base.rounds import largest_norm
from online_rank.base.schema import Array, Count, Derived, Schema, schema_of
from online_rank.measures.learned import measure_of
from online_rank.query import MAX_GRADE, Block

__all__ = ["QueryRanker"]

#: Squares and differences of features up to this size stay finite.
_LARGEST = 1e150


class QueryRanker(Ranker):
    """Base class of rankers of your own: a subclass has three hooks, `grow`, `score` and `learn`, in plain Python.

    Everything else is inherited: forms of queries, names of features, blocks, weights, refused queries that change nothing,
    `last_round`, copies, pipelines, services, and the losses in a `LossTracker`. Arrays are checked before `learn` gets them.

    The state of a subclass is declared in `_schema` (`online_rank.base.schema`): `Schema(_weights=Array("d"))` is an array with
    a number for each feature. Arguments of the constructor are attributes of the same names, and need an annotation. Such a
    class can be saved once it is registered (`online_rank.register`). `check_ranker` reports what is still wrong.

    Parameters
    ----------
    measure
        The measure whose loss `last_round` reports: a name, or one of your own. Learning need not depend on it.

    Raises
    ------
    TypeError, ValueError
        `measure` is unknown.

    Examples
    --------
    >>> import numpy as np
    >>> from online_rank.base.schema import Array, Schema
    >>> from online_rank.rankers import QueryRanker
    >>> class Rocchio(QueryRanker):
    ...     _schema = Schema(_weights=Array("d"))
    ...     def __init__(self, rate: float = 0.1):
    ...         super().__init__()
    ...         self.rate = rate
    ...         self._weights = np.zeros(0)
    ...     def grow(self, n_new):
    ...         self._weights = np.append(self._weights, np.zeros(n_new))
    ...     def score(self, X):
    ...         return (X * self._weights).sum(axis=1)
    ...     def learn(self, X, y, w):
    ...         self._weights += self.rate * w * ((y - y.mean())[:, None] * X).sum(axis=0)
    >>> model = Rocchio()
    >>> model.learn_one({"a": {"clicks": 3.0}, "b": {"clicks": 1.0}}, {"a": 0, "b": 2})
    >>> model.rank_one({"c": {"clicks": 2.0}, "d": {"clicks": 0.0}})
    ['d', 'c']
    >>> model.last_round.loss
    0.369...
    """

    # A setting where a subclass has it as an argument, otherwise made by the constructor.
    _schema = Schema(_n_queries=Count(), measure=Derived(), _measure=Derived())

    _hooks = frozenset({"grow", "score", "learn"})

    #: The weights that learn serve rankings.
    average = False

    def __init__(self, *, measure: Any = "ndcg@10") -> None:
        super().__init__()
        self.measure = measure
        self._measure = measure_of(measure)
        self._n_queries = 0

    @abc.abstractmethod
    def grow(self, n_new: int) -> None:
        """Add `n_new` features to the state, after those that it has: new arrays, with 0 for features that nothing is known of.

        Parameters
        ----------
        n_new
            How many.
        """

    @abc.abstractmethod
    def score(self, X: np.ndarray) -> np.ndarray:
        """Scores of documents.

        Parameters
        ----------
        X
            (m, d) float64, contiguous by rows; d is the number of features that `grow` has added so far.

        Returns
        -------
        (m,) numbers; a higher score ranks earlier. A score depends on its document alone, to the last bit, as
        `(X * w).sum(axis=1)` does, and `X @ w` does not.
        """

    @abc.abstractmethod
    def learn(self, X: np.ndarray, y: np.ndarray, w: float) -> None:
        """Learn one query, of two documents or more whose grades are not all equal.

        Parameters
        ----------
        X
            (m, d) float64 features, finite and read-only.
        y
            (m,) int64 grades >= 0, read-only.
        w
            The weight of the query, finite and > 0, by which the update is multiplied.
        """

    def _grow(self, n_new: int) -> None:
        self.grow(n_new)

    def _score(self, X: np.ndarray) -> np.ndarray:
        with np.errstate(all="ignore"):  # Scores that are not finite are refused.
            scores = np.asarray(self.score(np.ascontiguousarray(X, dtype=np.float64)), dtype=np.float64)
        if scores.shape != (len(X),):
            raise ValueError(
                f"{type(self).__name__}.score returned {scores.shape} for {len(X)} documents; it must be ({len(X)},)"
            )
        return scores

    def _learn(self, block: Block, rounds: np.ndarray) -> int:
        for t, query in enumerate(block.each()):
            X, y, w = np.array(query.X, dtype=np.float64, order="C"), query.y.copy(), float(query.w[0])
            if not ((np.abs(X) <= _LARGEST).all() and ((y >= 0) & (y <= MAX_GRADE)).all() and 0.0 <= w <= _LARGEST):
                return t
            scores = self._score(X)
            if not np.isfinite(scores).all():
                return t
            skipped = len(y) < 2 or bool(y.min() == y.max())
            loss = 0.0 if skipped else self._measure.loss(scores, y, ties="pessimistic")
            if not skipped and w > 0.0:
                X.flags.writeable = y.flags.writeable = False
                with np.errstate(all="ignore"):
                    self.learn(X, y, w)
                if not self._is_finite():
                    return t
            self._n_queries += 1
            rounds[t] = Round(loss, np.nan, 0.0, 0.0, 0.0, w, len(y), largest_norm(X), 0.0, skipped)
        return len(block.w)

    def _is_finite(self) -> bool:
        """Whether the declared arrays of the state are finite."""
        fields = schema_of(type(self)) or {}
        arrays = [getattr(self, name) for name, field in fields.items() if isinstance(field, Array) and field.finite]
        return all(np.isfinite(array).all() for array in arrays if array is not None)
