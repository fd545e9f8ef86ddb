"""Base classes of transformers: with state for each feature, and without state."""

import abc
import functools
from collections.abc import Hashable
from typing import Any

import numpy as np

from online_rank.base.anatomy import Abilities
from online_rank.base.reader import as_array, own_names
from online_rank.base.schema import Schema
from online_rank.base.transformer import FeatureTransformer, QueryTransformer
from online_rank.query import Block, document_name, require_finite, with_features


class ColumnTransformer(FeatureTransformer):
    """A transformer whose state has a column for each feature; it makes one or more columns of each feature."""

    #: An attribute, since a pipeline asks for it at each query.
    _supervised = False

    #: Whether it makes one number of each number, once it has learned the query, so that it can write in place.
    _maps_numbers = False

    @abc.abstractmethod
    def _learn_transform(self, block: Block, out: np.ndarray, asked: Any = None, before: Any = None) -> int:
        """For each query of a block in turn: learn from it, then write the transformed query to `out`.

        With `before`, what the query of `asked` is before it is learned goes there. Raises ValueError for features of `asked`
        that are not finite. Returns the number of queries learned; it is smaller than the number given if the next one would
        make the state non-finite.
        """

    @abc.abstractmethod
    def _transform(self, X: np.ndarray, offsets: np.ndarray, out: np.ndarray) -> Any:
        """Write transformed queries, features (n, n_features), to `out`."""

    #: How many columns it makes of a feature, and their type; None for the type of the features.
    _n_made = 1
    _made_type: Any = None

    def _room(self, X: np.ndarray, n: int = 1) -> np.ndarray:
        """An array for the transformed features `X`, `n` times over."""
        return np.empty((n * len(X), X.shape[1] * self._n_made), self._made_type or X.dtype)

    def _made(self, aligned: Block, X: np.ndarray, has_own_names: bool) -> Block:
        """The transformed queries; `has_own_names` says whether their names stand for columns as they are."""
        names = aligned.names
        if names is not None:
            names = names_made(self, names if has_own_names else own_names(self))
        return with_features(aligned, X, names)

    _asks_blocks = True

    def _ask_and_learn(self, asked: Block, block: Block) -> tuple[Block, Block]:
        """For each query in turn: transform it as it is asked for, by what is known; then do with it what `_learn_block` does.

        `block` has arrays in the columns of the state. `asked` has the queries as the steps before give them when they are
        asked; it is `block` itself where they give the same. Returns both transformed.
        """
        # One piece of memory, which is kept for the next block: two would go back to the system, and be fetched page by page.
        both = self._room(block.X, 2)
        before, after = both[: len(block.X)], both[len(block.X) :]
        if (done := self._learn_transform(block, after, asked, before)) < len(block.w):
            raise _refused(self, block, done)
        return with_features(asked, before, asked.names), with_features(block, after, block.names)

    def _learn_block(self, block: Block) -> Block:
        aligned = block if self._reader.fits(self, block) else self._reader.align(self, block, grow=True)
        # Aligned features are in a new array, which may be overwritten.
        out = aligned.X if self._maps_numbers and aligned.X is not block.X else self._room(aligned.X)
        if (done := self._learn_transform(aligned, out)) < len(block.w):
            raise _refused(self, block, done)
        return self._made(aligned, out, aligned is block)

    def _transform_block(self, block: Block) -> Block:
        aligned = block if self._reader.fits(self, block) else self._reader.align(self, block)
        require_finite(block)
        if not self._n_features:
            out = self._room(as_array(block.X, self))
            out[:] = 0.0
            return self._made(block, out, True)
        out = aligned.X if self._maps_numbers and aligned.X is not block.X else self._room(aligned.X)
        self._transform(aligned.X, block.offsets, out)
        return self._made(aligned, out, aligned is block)


class StatelessTransformer(QueryTransformer):
    """A transformer that learns nothing: its output for a query depends on that query alone."""

    #: Only settings.
    _schema = Schema()

    def _abilities(self) -> Abilities:
        return Abilities(learns=False)

    def _room(self, X: np.ndarray) -> np.ndarray:
        """An array for the transformed features `X`."""
        return np.empty_like(X)

    @abc.abstractmethod
    def _transform(self, X: np.ndarray, offsets: np.ndarray, out: np.ndarray) -> int:
        """Write the transformed queries of a block to `out`; returns the number of queries before one with too large
        features.
        """

    def _transform_block(self, block: Block) -> Block:
        require_finite(block)
        X = as_array(block.X, self)
        names = None if block.names is None else names_made(self, block.names)
        out = self._room(X)
        if (done := self._transform(X, block.offsets, out)) < len(block.w):
            raise _refused(self, block, done)
        return with_features(block, out, names)

    _asks_blocks = True


def _refused(transformer: QueryTransformer, block: Block, query: int) -> ValueError:
    """The error for a query of a block: its features, their squares or their differences are not finite."""
    require_finite(block)
    name = document_name(int(block.offsets[query]), block.ids)
    return ValueError(f"x: the query of {name} has features too large for {type(transformer).__name__}; scale them down")


def names_made(step: QueryTransformer, names: tuple[Hashable, ...]) -> tuple[Hashable, ...]:
    """Names of the columns that a transformer makes of features with `names`."""
    return distinct_names(step._naming.given(names))


@functools.lru_cache(maxsize=64)
def distinct_names(names: tuple[Hashable, ...]) -> tuple[Hashable, ...]:
    """The names, of which a later one that occurs before becomes (name, "again"), as behind a second map or encoder.

    Two columns of one name would be added up. The names of further columns at the end change none.

    Examples
    --------
    >>> distinct_names(("a", "a in query", "a in query"))
    ('a', 'a in query', ('a in query', 'again'))
    """
    if len(set(names)) == len(names):
        return names
    found: dict[Hashable, None] = {}
    for name in names:
        while name in found:
            name = (name, "again")
        found[name] = None
    return tuple(found)
