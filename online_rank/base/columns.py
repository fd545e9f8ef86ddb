"""Estimators with state that has a column for each feature."""

import abc
from collections.abc import Hashable

import numpy as np

from online_rank.base.step import QueryStep
from online_rank.query import MAX_FEATURES, Query

__all__ = ["QueryEstimator"]


class QueryEstimator(QueryStep, abc.ABC):
    """A step with state that has a column for each feature: the columns follow the features that it meets.

    An ndarray fixes the number of features at first use. Named features extend the state when they first appear.
    """

    #: Most features that the state may grow to.
    max_features: int = MAX_FEATURES

    def __init__(self) -> None:
        self._names: tuple[Hashable, ...] | None = None
        self._n_features = 0

    @property
    def n_features(self) -> int:
        """Number of features met so far."""
        return self._n_features

    @property
    def feature_names(self) -> tuple[Hashable, ...] | None:
        """Names of the features in the order of the state's columns; None when features are known by position."""
        return self._names

    @abc.abstractmethod
    def _grow(self, n_new: int) -> None:
        """Extend the state by columns for `n_new` features. State arrays are replaced, never changed in place."""

    def _align(self, query: Query) -> np.ndarray:
        """The features of `query` in the order of the state's columns; features that were never learned are left out."""
        if not len(query.X):
            return np.empty((0, self._n_features), query.X.dtype)
        if query.names is None:
            self._require_columns(query)
            return query.X
        if query.names == self._names:
            return query.X
        if self._names is None:
            if self._n_features:
                raise ValueError(f"x names its features, but {type(self).__name__} has learned from arrays, without names")
            return np.empty((len(query.X), 0))
        columns = {name: j for j, name in enumerate(self._names)}
        X = np.zeros((len(query.X), len(columns)), query.X.dtype)
        known = [(j, columns[name]) for j, name in enumerate(query.names) if name in columns]
        if known:
            source, target = np.array(known).T
            X[:, target] = query.X[:, source]
        return X

    def _align_and_grow(self, query: Query) -> np.ndarray:
        """As `_align`, after the state was extended by the features of `query` that it has not met."""
        if not len(query.X):
            pass
        elif query.names is None:
            if not self._n_features:
                self._extend(None, query.X.shape[1])
        elif query.names != self._names and (self._names is not None or not self._n_features):
            names = self._names or ()
            known = set(names)
            new = tuple(name for name in query.names if name not in known)
            self._extend(names + new, len(new))
        return self._align(query)

    def _extend(self, names: tuple[Hashable, ...] | None, n_new: int) -> None:
        if self._n_features + n_new > self.max_features:
            raise ValueError(
                f"x brings {n_new} new features to the {self._n_features} that {type(self).__name__} has; "
                f"at most {self.max_features} are accepted (attribute max_features)"
            )
        self._grow(n_new)
        self._names = names
        self._n_features += n_new

    def _require_columns(self, query: Query) -> None:
        if self._names:
            raise ValueError(f"x does not name its features, as {type(self).__name__} has learned them: give dicts or a frame")
        if self._n_features and query.X.shape[1] != self._n_features:
            raise ValueError(
                f"x has {query.X.shape[1]} features, but {type(self).__name__} has learned from {self._n_features}"
            )
