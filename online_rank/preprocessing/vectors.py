"""Vectors of documents as columns of numbers, for rankers that take numbers alone."""

from collections.abc import Hashable, Mapping
from typing import Any

import numpy as np

from online_rank.base.anatomy import Abilities
from online_rank.base.schema import Nested, Schema
from online_rank.base.transformer import QueryTransformer
from online_rank.preprocessing.vector_columns import VectorColumns
from online_rank.query import Block, with_features
from online_rank.query.forms import from_dicts

__all__ = ["VectorFeatures"]


class VectorFeatures(QueryTransformer):
    r"""Turn the vectors of documents into numbers: their cosine with the vector of the query, and what is learned.

    A vector `"embedding"` of documents, and a vector of the same name in the context of the query, give `"embedding cosine"`
    and, as what is learned, `"embedding learned"` and `"embedding recent"`: :math:`q^\top W d / \kappa` less the cosine, with
    the average of a matrix that begins with :math:`\kappa I` and learns from each query (see `VectorRanker`), and with its last
    state. Where the lengths differ there is no cosine, and the matrix begins at 0. `"embedding linear"` is a score that is
    linear in the vector of the document, also without a vector of the query. A document without a vector has 0.

    It learns from grades; and from clicks on any list, as in `VectorFeatures() | ClickRidge()`: each document is compared with
    what is clicked at its position on the average. A query is transformed first, then learned. `AdditiveRanker` takes vectors
    without it.

    Parameters
    ----------
    measure, kappa, half_life
        As for `VectorRanker`.
    dimensions
        `{name: length}` of vectors, if known; None for the lengths of the first query.

    Raises
    ------
    TypeError, ValueError
        A parameter is out of its range. Later: vectors differ in length, or hold anything but finite numbers.

    Examples
    --------
    >>> from online_rank import PerceptronRanker, VectorFeatures
    >>> model = VectorFeatures() | PerceptronRanker()
    >>> query = {"a": {"age": 2.0, "embedding": [1.0, 0.0]}, "b": {"age": 1.0, "embedding": [0.6, 0.8]}}
    >>> [*model.transform_one(query, context={"embedding": [0.0, 1.0]})["a"]]
    ['age', 'embedding cosine', 'embedding learned', 'embedding recent', 'embedding linear']
    """

    _supervised = True

    _schema = Schema(_columns_of=Nested("VectorColumns"))

    def __init__(
        self,
        measure: str = "ndcg@10",
        *,
        kappa: float = 10.0,
        half_life: float | None = 1000,
        dimensions: Mapping[str, int] | None = None,
    ) -> None:
        super().__init__()
        self.measure = measure
        self.kappa = kappa
        self.half_life = half_life
        self._columns_of = VectorColumns(measure, kappa=kappa, half_life=half_life, dimensions=dimensions)
        self.dimensions = self._columns_of.dimensions

    @property
    def _parts(self) -> list[Any]:
        return [self._columns_of]

    def _abilities(self) -> Abilities:
        return Abilities(takes_documents=True, takes_vectors=True, takes_clicks=True, takes_sparse=True)

    def _layers(self, n_features: int) -> Any:
        raise TypeError("its columns are made of vectors, and change with each query that is learned")

    def _transform_block(self, block: Block) -> Block:
        return self._go_through(block, learn=False)

    def _learn_block(self, block: Block) -> Block:
        if block.y is None:
            raise TypeError("y is None, but VectorFeatures learns from grades or clicks")
        return self._go_through(block, learn=True)

    def _go_through(self, block: Block, learn: bool) -> Block:
        """The queries with columns in place of vectors; each is learned, if they are to be, after it was read."""
        if type(block.X) is not list:
            return block
        documents: list[dict[Hashable, Any]] = []
        for query in block.each():
            read = self._columns_of.read(query)
            documents += with_columns(read.documents, read.columns)
            if learn:
                self._columns_of.learn(query, read)
        made = from_dicts(documents, block.ids)
        return with_features(block, made.X, made.names)


def with_columns(
    documents: list[dict[Hashable, Any]], columns: Mapping[str, tuple[np.ndarray, np.ndarray]]
) -> list[dict[Hashable, Any]]:
    """The documents with the values of columns, for those that have them; the dicts are changed.

    Examples
    --------
    >>> with_columns([{"a": 1}, {"a": 2}], {"cosine": (np.array([1]), np.array([0.5]))})
    [{'a': 1}, {'a': 2, 'cosine': 0.5}]
    """
    for name, (rows, values) in columns.items():
        for i, value in zip(rows.tolist(), values.tolist(), strict=True):
            documents[i][name] = value
    return documents
