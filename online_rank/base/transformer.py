"""The base class of transformers of queries."""

import abc
from collections.abc import Callable, Hashable
from typing import Any, ClassVar, NamedTuple

import numpy as np
from river import base

from online_rank.base import calls, leaving, unknown
from online_rank.base import reader as columns
from online_rank.base.form import Layer, sources_of
from online_rank.base.schema import Schema
from online_rank.base.step import QueryStep
from online_rank.base.undo import all_or_nothing
from online_rank.limits import MAX_FEATURES
from online_rank.query import Block, require_grades


class Naming(NamedTuple):
    """How the columns that a transformer makes of features are called.

    Attributes
    ----------
    given
        Names of the columns made of features with some names.
    feature_of
        The name of the feature that a column is made of.
    """

    given: Callable[[tuple[Hashable, ...]], tuple[Hashable, ...]]
    feature_of: Callable[[Hashable], Hashable]


#: As the features.
SAME = Naming(lambda names: names, lambda column: column)


class QueryTransformer(QueryStep, base.Transformer):
    """A river transformer that works on whole queries in any form, and returns the form it was given.

    A subclass implements `_transform_block`, and `_learn_block` if it learns.
    """

    transform_one, transform_many = calls.transform_one, calls.transform_many

    @abc.abstractmethod
    def _transform_block(self, block: Block) -> Block:
        """The queries, transformed. Raises ValueError on NaN and infinity."""

    #: Puts two transformers side by side; `online_rank.base.union` sets it.
    _union: ClassVar[Callable[[Any, Any], Any]]

    #: Of a step that only subtracts and divides, a function without arguments: the current divisor of each feature, (d,).
    _scale: Any = None

    def _layers(self, n_features: int) -> tuple[Layer, ...]:
        """The closed form of the step on this many columns. Raises TypeError, with the reason, for a step without one."""
        raise TypeError("its columns are not numbers made of one feature each in closed form")

    #: How its columns are called.
    _naming: ClassVar[Naming] = SAME

    #: Whether columns rise with the feature that they are made of: of two documents of a query that differ in it alone the one
    #: with the larger value has no smaller columns.
    _rises: ClassVar[bool] = False

    def _rising(self, feature: Hashable) -> tuple[Hashable, ...] | None:
        """The columns made of a feature, if they rise with it; None if that is not certain."""
        return self._naming.given((feature,)) if self._rises else None

    def _sources(self, n_features: int) -> np.ndarray:
        """The column of which each column that it gives is made. Raises TypeError if it is made of several."""
        return sources_of(self._layers(n_features), n_features)

    def _learn_block(self, block: Block) -> Block:
        """For each query in turn: learn from it, then transform it (a supervised step transforms first).

        Returns the transformed queries. A part of them may remain learned if it raises, so callers use `all_or_nothing`.
        """
        return self._transform_block(block)

    #: Names of the columns that it adds to those that it passes on.
    _adds: tuple[str, ...] = ()

    def learn_one(self, x: Any, y: Any = None, *, context: Any = None, at: Any = None, t: Any = None) -> None:
        """Learn from one query, in any form.

        Parameters
        ----------
        x
            The query.
        y
            Its grades, used only by supervised transformers.
        context
            Facts about the query, `{name: value}`, which few transformers use.
        at, t
            The time of the query, in seconds or as a datetime, which few transformers look at.

        Raises
        ------
        TypeError, ValueError
            Bad input, for example NaN or infinity. The transformer is then as it was.
        """
        self._learn_all(columns.read_for(self, x, y, context=context, at=at, t=t))

    def learn_many(self, X: Any, y: Any, qid: Any, *, context: Any = None, at: Any = None) -> None:
        """Learn from a block of queries: the same as a loop of `learn_one`, bit for bit.

        Parameters
        ----------
        X
            Features of n documents: an (n, d) array or a data frame.
        y
            The n grades, used only by supervised transformers; others take None.
        qid
            The n query ids; documents of a query must be contiguous.
        context
            None, or one `{name: value}` a query.
        at
            None, or one time a query in seconds.

        Raises
        ------
        TypeError, ValueError
            Bad input anywhere in the block. The transformer is then as it was before the block.
        """
        self._learn_all(columns.read_for(self, X, y, qid=qid, context=context, at=at))

    def _learn_all(self, block: Block) -> None:
        with self._lock, all_or_nothing() as changes:
            changes.include(self, block)
            self._learn_block(block)

    def __add__(self, other: Any) -> Any:
        """`self + other`: a transformer that gives the features of both, side by side."""
        return QueryTransformer._union(self, other)

    def __radd__(self, other: Any) -> Any:
        """`other + self`: see `+`."""
        return QueryTransformer._union(other, self)

    def __mul__(self, other: Any) -> Any:
        """Raise TypeError: river's product works on feature dicts, and would combine queries document by document, wrongly."""
        raise TypeError(
            f"{type(self).__name__} works on queries and cannot be part of a river product; "
            "combine transformers of single documents, and lift the whole: ForEachDocument(a * b)"
        )

    __rmul__ = __mul__


class FeatureTransformer(QueryTransformer):
    """A transformer whose state has a column for each feature, added as features appear (`Reader`)."""

    _schema = Schema(**columns.STATE)
    _reader = columns.Reader()

    n_features, feature_names = columns.n_features, columns.feature_names
    n_left_features, n_ignored_features = leaving.n_left_features, leaving.n_ignored_features
    n_unknown = property(unknown.n_unknown)

    #: Most features that the state may have; it can be set. Beyond this number the least recently used leave for new names, if
    #: they can (`_lets_leave`); otherwise new names are ignored. Either warns once. An array with more columns is an error.
    max_features: int = MAX_FEATURES

    def __init__(self) -> None:
        self._columns = None
        self._n_features = 0

    @abc.abstractmethod
    def _grow(self, n_new: int) -> None:
        """Add columns for `n_new` features to the state. State arrays are replaced, never changed in place."""


def require_feedback(step: Any, block: Block) -> None:
    """Raise TypeError if a block has no feedback for a step that learns from grades or clicks; ValueError for bad grades."""
    if block.y is None:
        raise TypeError(f"y is None, but {type(step).__name__} learns from grades or clicks")
    if isinstance(block.y, np.ndarray):
        require_grades(block.y, block.ids)
