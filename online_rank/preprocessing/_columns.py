"""What transformers with state for each feature share, and what those without any state share."""

import abc
from collections.abc import Hashable
from typing import Any

import numpy as np

from online_rank.base import QueryEstimator
from online_rank.base.transformer import QueryTransformer
from online_rank.query import Query, document_name, require_finite, require_grades


class ColumnTransformer(QueryEstimator, QueryTransformer):
    """A transformer whose state has a column for each feature; it gives one or more columns for each that it was given."""

    @abc.abstractmethod
    def _learn_transform(self, X: np.ndarray, offsets: np.ndarray, y: np.ndarray | None, out: np.ndarray) -> int:
        """For each query of a block, in turn: learn from it, then write it, transformed, to `out`.

        A supervised transformer, which has the grades `y`, writes it first. Returns the number of queries learned; it is
        smaller than the number given when the next one would leave the state non-finite.
        """

    @abc.abstractmethod
    def _transform(self, X: np.ndarray, offsets: np.ndarray, out: np.ndarray) -> None:
        """Write a block of queries, features (n, n_features), transformed, to `out`."""

    def _room(self, X: np.ndarray) -> np.ndarray:
        """An array for `X`, transformed."""
        return np.empty_like(X)

    def _given_names(self, names: tuple[Hashable, ...]) -> tuple[Hashable, ...]:
        """Names of the columns that are given for features with `names`."""
        return names

    def _learn_query(self, block: Query, offsets: np.ndarray, y: np.ndarray | None, like: Any) -> Query:
        if self._supervised:
            if y is None:
                raise TypeError(f"{type(self).__name__} is supervised: it learns from grades, y")
            require_grades(y, block.ids)
        X = self._align_and_grow(block)
        out = self._room(X)
        learned = self._learn_transform(X, offsets, y, out)
        if learned < len(offsets) - 1:
            require_finite(block)
            raise too_large(self, block, offsets[learned])
        return self._answer(block, out)

    def _transform_query(self, block: Query, offsets: np.ndarray, like: Any) -> Query:
        X = self._align(block)
        require_finite(block)
        if not self._n_features:
            out = self._room(block.X)
            out[:] = 0.0
            return Query(out, block.ids, None if block.names is None else self._given_names(block.names))
        out = self._room(X)
        self._transform(X, offsets, out)
        return self._answer(block, out)

    def _answer(self, block: Query, out: np.ndarray) -> Query:
        return Query(out, block.ids, None if block.names is None else self._given_names(self.feature_names or ()))


class StatelessTransformer(QueryTransformer):
    """A transformer that learns nothing: what it does to a query depends on that query alone."""

    @abc.abstractmethod
    def _transform(self, X: np.ndarray, offsets: np.ndarray, out: np.ndarray) -> int:
        """Write the queries of a block, transformed, to `out`; the number of queries before one with too large features."""

    def _transform_query(self, block: Query, offsets: np.ndarray, like: Any) -> Query:
        require_finite(block)
        out = np.empty_like(block.X)
        done = self._transform(block.X, offsets, out)
        if done < len(offsets) - 1:
            raise too_large(self, block, offsets[done])
        return block._replace(X=out)

    def _learn_query(self, block: Query, offsets: np.ndarray, y: np.ndarray | None, like: Any) -> Query:
        return self._transform_query(block, offsets, like)


def too_large(transformer: QueryTransformer, block: Query, start: int) -> ValueError:
    """The error for finite features whose squares, or differences, are not, in the query that begins at document `start`."""
    name = document_name(start, block.ids)
    return ValueError(f"x: the query of {name} has features too large for {type(transformer).__name__}; scale them down")
