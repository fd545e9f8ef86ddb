"""The contract that every transformer of queries keeps."""

import abc
from typing import Any

import numpy as np
from river import base

from online_rank.base.step import QueryStep
from online_rank.base.undo import all_or_nothing
from online_rank.query import Documents, Query, as_grades, as_query, in_form_of, query_offsets

__all__ = ["QueryTransformer"]


class QueryTransformer(QueryStep, base.Transformer):
    """A river transformer that works on whole queries, in every form, and answers in the form it was asked in.

    A subclass implements `_transform_query` and `_learn_query`.
    """

    @abc.abstractmethod
    def _transform_query(self, block: Any, offsets: np.ndarray, like: Any) -> Query:
        """A block of queries, as `_read` gives it, transformed. Raises ValueError on NaN and infinity.

        `like` is what the user gave, for a transformer that has to show him the queries in his form (see `in_form_of`).
        """

    @abc.abstractmethod
    def _learn_query(self, block: Any, offsets: np.ndarray, y: np.ndarray | None, like: Any) -> Query:
        """For each query of a block, in turn: learn from it, then transform it (if supervised: the other way round).

        Returns the transformed block. May leave a part of the block learned when it raises: callers stand inside
        `all_or_nothing`. `y` holds the grades, where there are any.
        """

    def _read(self, x: Any) -> Query | Documents:
        """A query as it comes to this transformer when that is the first step of a pipeline."""
        return as_query(x)

    def learn_one(self, x: Any, y: Any = None) -> None:
        """Learn from one query, in any form.

        Parameters
        ----------
        x
            The query.
        y
            Its grades, which only a supervised transformer looks at.

        Raises
        ------
        TypeError, ValueError
            Bad input, for example NaN or infinity. The transformer is then as it was.
        """
        query = self._read(x)
        grades = None if y is None else as_grades(y, query)
        with all_or_nothing(self):
            self._learn_query(query, np.array([0, len(query.X)]), grades, x)

    def transform_one(self, x: Any) -> Any:
        """The query, transformed, in the form in which it was given.

        Raises
        ------
        TypeError, ValueError
            Bad input, for example NaN or infinity.
        """
        query = self._read(x)
        return in_form_of(x, self._transform_query(query, np.array([0, len(query.X)]), x))

    def learn_many(self, X: Any, qid: Any, y: Any = None) -> None:
        """Learn from a block of queries: the same as a loop of `learn_one`, bit for bit.

        Parameters
        ----------
        X
            Features of n documents: an (n, d) array or a data frame.
        qid
            The n query ids; documents of a query stand together.
        y
            The n grades, which only a supervised transformer looks at.

        Raises
        ------
        TypeError, ValueError
            Bad input anywhere in the block. The transformer is then as it was before the block.
        """
        block = self._read(X)
        offsets = query_offsets(qid, len(block.X))
        grades = None if y is None else as_grades(y, block)
        with all_or_nothing(self):
            self._learn_query(block, offsets, grades, X)

    def transform_many(self, X: Any, qid: Any) -> Any:
        """A block of queries, transformed, in the form in which it was given."""
        block = self._read(X)
        return in_form_of(X, self._transform_query(block, query_offsets(qid, len(block.X)), X))

    def __add__(self, other: Any) -> Any:
        """Raise TypeError: river's union joins feature dicts, and would join queries document by document, wrongly."""
        raise TypeError(
            f"{type(self).__name__} works on queries and cannot be part of a river union or product; "
            "join transformers of single documents, and lift the whole: ForEachDocument(a + b)"
        )

    __radd__ = __mul__ = __rmul__ = __add__
