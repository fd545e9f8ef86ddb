"""The contract that every ranker keeps."""

import abc
import functools
from collections.abc import Hashable
from typing import Any

import numpy as np

from online_rank._kernels.arrays import all_finite
from online_rank.base.columns import QueryEstimator
from online_rank.base.rounds import Round
from online_rank.base.step import check_calling_pipeline
from online_rank.base.undo import all_or_nothing
from online_rank.query import (
    Query,
    answer_in_kind,
    as_grades,
    as_query,
    document_name,
    is_plain,
    query_offsets,
    require_finite,
    require_grades,
)

__all__ = ["Ranker", "rank_one"]

#: The weights of a block of one query that has weight 1.
_ONE = np.ones(1)


class Ranker(QueryEstimator):
    """A model that ranks the documents of a query and learns from their relevance grades, one query at a time.

    A subclass implements `_grow`, `_score` and `_learn`; everything else is here, once.
    """

    def __init__(self) -> None:
        super().__init__()
        #: A row (1, fields of Round) of this ranker alone: `learn_one` writes the next round over it.
        self._last_round: np.ndarray | None = None

    @abc.abstractmethod
    def _score(self, X: np.ndarray) -> np.ndarray:
        """Scores of documents (n, d), as float64 (n,), by the weights that serve. A document's score depends on it alone."""

    def _score_queries(self, X: np.ndarray, offsets: np.ndarray) -> np.ndarray:
        """As `_score`, for a block of queries: for rankers whose score of a document depends on the others of its query."""
        return self._score(X)

    @abc.abstractmethod
    def _learn(self, X: np.ndarray, y: np.ndarray, offsets: np.ndarray, w: np.ndarray, rounds: np.ndarray) -> int:
        """Learn from a block of queries and write one row of `rounds` (n, len(Round._fields)) for each.

        Returns the number of queries learned. It is smaller than the number given when a query has bad values or would
        make the state non-finite: learning stopped before that query, of which nothing was learned.
        """

    @property
    def _supervised(self) -> bool:
        check_calling_pipeline()
        return True

    @property
    def last_round(self) -> Round | None:
        """The `Round` of the last query learned; None before the first."""
        return None if self._last_round is None else Round.from_row(self._last_round[0])

    def learn_one(self, x: Any, y: Any, w: float = 1.0) -> None:
        """Learn from one query.

        Parameters
        ----------
        x
            The query, in any form that `online_rank.query` lists.
        y
            Its m relevance grades: integers >= 0 in the order of the documents, or `{document id: grade}`.
        w
            Weight of the query: the update and the loss that bounds speak of are multiplied by it.

        Raises
        ------
        TypeError, ValueError
            `x` or `y` is bad input, or the query would make the model's state non-finite. The model is then as it was.
        """
        rounds = self._last_round
        # The common case, by the shortest way, with the row of the round before; what it cannot learn, the long way has a
        # message for.
        if (
            rounds is not None
            and self._names is None
            and w == 1.0
            and is_plain(x, y, self._n_features)
            and self._learn(x, y, _single(len(y)), _ONE, rounds)
        ):
            return
        query = as_query(x)
        grades = as_grades(y, query)
        if query.names is None and self._n_features:
            self._learn_block(self._align(query), grades, _single(len(query.X)), _as_weight(w), query)
            return
        require_finite(query)
        require_grades(grades, query.ids)
        with all_or_nothing(self):
            self._learn_block(self._align_and_grow(query), grades, _single(len(query.X)), _as_weight(w), query)

    def learn_many(self, X: Any, y: Any, qid: Any, w: Any = None) -> None:
        """Learn from a block of queries, one after the other: the same as a loop of `learn_one`, bit for bit, but faster.

        Parameters
        ----------
        X
            Features of n documents: an (n, d) array or a data frame.
        y
            The n grades.
        qid
            The n query ids; documents of a query stand together.
        w
            None, or one weight a query.

        Raises
        ------
        TypeError, ValueError
            Bad input anywhere in the block. The model is then as it was before the block.
        """
        block = as_query(X)
        grades = as_grades(y, block)
        offsets = query_offsets(qid, len(block.X))
        weights = _as_weights(w, len(offsets) - 1)
        if len(offsets) == 1:
            return
        with all_or_nothing(self):
            self._learn_block(self._align_and_grow(block), grades, offsets, weights, block)

    def predict_one(self, x: Any) -> list[float] | dict[Hashable, float]:
        """Scores of the documents of a query; a higher score ranks earlier.

        Returns
        -------
        A list of m floats, or `{document id: score}` for a query with ids.
        """
        query = as_query(x)
        return answer_in_kind(self._checked_scores(query), query)

    def predict_many(self, X: Any, qid: Any = None) -> np.ndarray:
        """Scores of n documents of any number of queries.

        Parameters
        ----------
        X
            Features: an (n, d) array or a data frame.
        qid
            The n query ids, or None for a single query. Most rankers score every document by itself, and use them only to
            check the block; a blend, and a pipeline with a transformer that looks at whole queries, need them.

        Returns
        -------
        float64 array of shape (n,).
        """
        query = as_query(X)
        return self._checked_scores(query, None if qid is None else query_offsets(qid, len(query.X)))

    def rank_one(self, x: Any) -> list[Hashable]:
        """The documents of a query, best first; equal scores keep the order in which the documents were given.

        Returns
        -------
        A list of m document ids, or of the positions 0..m-1 for a query without ids.
        """
        return rank_one(self, x)

    def _checked_scores(self, query: Query, offsets: np.ndarray | None = None) -> np.ndarray:
        """Scores of a query, or of the queries of a block that begin and end at `offsets`."""
        X = self._align(query)
        if not len(X):
            return np.empty(0)
        if not self._n_features:
            require_finite(query)
            return np.zeros(len(X))
        scores = self._score(X) if offsets is None else self._score_queries(X, offsets)
        # A NaN or infinite feature, and an overflow, cannot leave the scores finite; so this costs m tests, not m d.
        if not all_finite(scores):
            require_finite(query)
            i = int(np.flatnonzero(~np.isfinite(scores))[0])
            raise ValueError(f"x: the score of {document_name(i, query.ids)} is not finite; scale the features")
        return scores

    def _learn_block(self, X: np.ndarray, y: np.ndarray, offsets: np.ndarray, w: np.ndarray, query: Query) -> None:
        """`_learn`, with an error that names what is wrong when it stops early."""
        rounds = np.empty((len(w), len(Round._fields)))
        learned = self._learn(X, y, offsets, w, rounds)
        if learned < len(w):
            if not (np.isfinite(w[learned]) and w[learned] >= 0):
                raise ValueError(f"w is {w[learned]}; the weight of a query is a finite number >= 0")
            part = slice(int(offsets[learned]), int(offsets[learned + 1]))
            ids = None if query.ids is None else query.ids[part]
            require_grades(y[part], ids, part.start)
            require_finite(Query(query.X[part], ids, query.names), part.start)
            name = document_name(0, ids, part.start)
            raise ValueError(f"the query of {name} would make {type(self).__name__} non-finite; scale the features")
        # A copy, which does not keep the rounds of a whole block.
        self._last_round = rounds[-1:].copy()


@functools.lru_cache(maxsize=1024)
def _single(n_documents: int) -> np.ndarray:
    """Offsets of a block that is one query; nobody writes to them."""
    return np.array([0, n_documents])


def rank_one(model: Any, x: Any) -> list[Hashable]:
    """The documents of a query, best first, by any model whose `predict_one` answers with scores.

    Equal scores keep the order in which the documents were given (a stable sort).

    Parameters
    ----------
    model
        A ranker, or a river pipeline that ends in one.
    x
        A query in any form.

    Returns
    -------
    A list of document ids for a query with ids, else of positions.

    Examples
    --------
    >>> from online_rank import PerceptronRanker, rank_one
    >>> model = PerceptronRanker()
    >>> model.learn_one({"a": {"clicks": 3}, "b": {"clicks": 1}}, {"a": 0, "b": 2})
    >>> rank_one(model, {"c": {"clicks": 2}, "d": {"clicks": 0}})
    ['d', 'c']
    """
    scores = model.predict_one(x)
    if isinstance(scores, dict):
        return sorted(scores, key=scores.__getitem__, reverse=True)
    return sorted(range(len(scores)), key=scores.__getitem__, reverse=True)


def _as_weight(w: Any) -> np.ndarray:
    """The weight of one query as an array, which nobody writes to."""
    if w == 1.0:
        return _ONE
    try:
        return np.array([float(w)])
    except (TypeError, ValueError):
        raise TypeError(f"w is {w!r}; the weight of a query is one finite number >= 0") from None


def _as_weights(w: Any, n_queries: int) -> np.ndarray:
    if w is None:
        return np.ones(n_queries)
    weights = np.asarray(w, dtype=np.float64)
    if weights.shape != (n_queries,):
        raise ValueError(f"w has shape {weights.shape}, but the block has {n_queries} queries: one weight a query")
    return weights
