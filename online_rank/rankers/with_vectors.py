"""Vectors of a learner that reads numbers, categories and times: columns are made of them before it reads a query."""

import warnings
from collections.abc import Callable
from typing import Any

import numpy as np

from online_rank.base import share_lock
from online_rank.base.undo import all_or_nothing, record
from online_rank.preprocessing.bilinear import unit_vector
from online_rank.preprocessing.vector_columns import VectorColumns, columns_of_vector
from online_rank.preprocessing.vectors import with_columns
from online_rank.query import Block, require_grades
from online_rank.query.embeddings import as_vector
from online_rank.rankers.weighed_levels import levels_of

__all__ = ["adapted", "learn_with_vectors", "without_vectors_of"]


def without_vectors_of(ranker: Any, block: Block) -> Block:
    """A block with columns in place of its vectors, by what is known now; nothing is learned."""
    columns = _fresh(ranker) if ranker._vectors is None else ranker._vectors
    documents: list[Any] = []
    for query in block.each():
        read = columns.read(query, levels_of(ranker).kind_of)
        # A column that was never learned, as before the first query that has a vector, counts for nothing.
        known = ranker._columns
        made = {name: of for name, of in read.columns.items() if known is not None and not [*known.missing([name])]}
        documents += with_columns(read.documents, made)
    return block._replace(X=documents)


def learn_with_vectors(
    ranker: Any, block: Block, changes: all_or_nothing | None, learn: Callable[[Block, all_or_nothing | None], None]
) -> None:
    """Learn queries with vectors: make columns of the vectors, let the matrices learn, then the ranker.

    `learn` learns a block without vectors. Several queries are recorded first and learned one by one: the columns
    of each depend on the query before it.
    """
    if block.y is None or (isinstance(block.y, tuple) and not ranker.abilities.takes_clicks):
        learn(block, changes)  # Which refuses it.
        return
    one_by_one = len(block.w) > 1
    if one_by_one and changes is not None:
        changes.include(ranker, block)
        changes = None
    if ranker._vectors is None:
        if changes is not None:
            changes.undo_by(lambda: setattr(ranker, "_vectors", None))
        ranker._vectors = _fresh(ranker)
        share_lock(ranker)
        _warn_of_unused(ranker, block)
    for query in block.each():
        read = ranker._vectors.read(query, levels_of(ranker).kind_of)
        flat = query._replace(X=with_columns(read.documents, read.columns))
        if changes is not None:
            record(changes.log, ranker._vectors)
        if not isinstance(query.y, tuple):
            require_grades(query.y, query.ids)
        if not 0.0 <= query.w[0] < np.inf:
            raise ValueError(f"w is {query.w[0]}; the weight of a query is a finite number >= 0")
        ranker._vectors.learn(query, read)
        learn(flat, changes)


def adapted(columns: VectorColumns | None, query: Any, vector: str | None) -> np.ndarray:
    """W' q of a vector, as `AdditiveRanker.adapt`."""
    found = {} if columns is None else columns.learners
    names = [name for name in ([] if columns is None else columns.names) if columns_of_vector(name)[1] in found]
    if len(names) != 1 if vector is None else vector not in names:
        said = "none" if not names else ", ".join(map(repr, names))
        raise ValueError(f"vector is {vector!r}; the vectors that were learned with vectors of queries are {said}")
    learner, q = found[columns_of_vector(names[0] if vector is None else vector)[1]], unit_vector(as_vector("query", query))
    if q is None:
        raise ValueError("query has length 0, which has no direction")
    if len(q) != learner.shape[0]:
        raise ValueError(f"query has {len(q)} dimensions, but the model has learned from {learner.shape[0]}")
    return learner.adapted(q)


def _fresh(ranker: Any) -> VectorColumns:
    return VectorColumns(ranker.measure, dimensions=ranker.dimensions)


def _warn_of_unused(ranker: Any, block: Block) -> None:
    """Warn of vectors of the query that no document has."""
    names = {name for x in block.X for name in x}
    for context in (block.context or ())[:1]:
        unused = [name for name, value in context.items() if type(value) is np.ndarray and name not in names]
        if unused:
            warnings.warn(
                f"context has the vector {unused[0]!r}, and no document of the first query with vectors has one of that name",
                stacklevel=4,
            )
