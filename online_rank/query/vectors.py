"""Queries given as vectors: of the query, and of its documents."""

from collections.abc import Hashable, Mapping, Sequence
from typing import Any

import numpy as np

from online_rank import arguments

#: How vectors are compared.
METRICS = ("cosine", "dot")


class Vectors:
    """One query as the vector of the query and the vectors of its documents; features are their elementwise products.

    With all weights equal, a linear ranker ranks by the cosine; it then learns a weight for each dimension. Such weights can be
    moved to the vector of the query (`online_rank.export.adapt`), so that any vector index serves what was learned, and nothing
    is indexed again.

    Parameters
    ----------
    query
        (d,): the vector of the query.
    documents
        (m, d) array of the vectors of the documents, or `{document id: vector}`.
    metric
        `"cosine"`: vectors are scaled to length 1, and a document of length 0 has products 0. `"dot"`: they are taken as they
        are.

    Raises
    ------
    TypeError, ValueError
        Vectors differ in length, contain anything but finite numbers, or the query has length 0 and the metric is the cosine.

    Examples
    --------
    >>> from online_rank import PerceptronRanker, Vectors
    >>> model = PerceptronRanker.from_weights([10.0, 10.0])
    >>> query = Vectors([3.0, 4.0], {"a": [1.0, 0.0], "b": [0.0, 2.0]})
    >>> model.predict_one(query)
    {'a': 6.0, 'b': 8.0}
    >>> for _ in range(30):
    ...     model.learn_one(query, {"a": 1, "b": 0})
    >>> model.rank_one(query)
    ['a', 'b']
    """

    __slots__ = ("ids", "products")

    #: Document ids, or None.
    ids: tuple[Hashable, ...] | None
    #: float64 (m, d): the products.
    products: np.ndarray

    def __init__(
        self, query: Any, documents: Mapping[Hashable, Any] | Sequence[Any] | np.ndarray, *, metric: str = "cosine"
    ) -> None:
        arguments.choice("metric", metric, METRICS)
        self.ids = tuple(documents) if isinstance(documents, Mapping) else None
        q = _vector("query", query)
        rows = documents.values() if isinstance(documents, Mapping) else documents
        D = _matrix(rows, self.ids, len(q))
        if metric == "cosine":
            q = unit(q)
            lengths = np.sqrt((D * D).sum(axis=1, keepdims=True))
            D = D / np.where(lengths > 0.0, lengths, 1.0)
        self.products = D * q

    def only(self, documents: Sequence[int]) -> "Vectors":
        """The same query with some of the documents, by their positions."""
        some = object.__new__(Vectors)
        some.ids = None if self.ids is None else tuple(self.ids[i] for i in documents)
        some.products = self.products[list(documents)]
        return some

    def __len__(self) -> int:
        return len(self.products)

    def __repr__(self) -> str:
        return f"<Vectors: {len(self)} documents, {self.products.shape[1]} dimensions>"


def unit(query: np.ndarray) -> np.ndarray:
    """A vector scaled to length 1. Raises ValueError for one of length 0."""
    largest = float(np.abs(query).max(initial=0.0))
    if largest == 0.0:
        raise ValueError("query has length 0, which has no cosine")
    scaled = query / largest
    return scaled / np.sqrt(scaled @ scaled)


def _vector(name: str, values: Any) -> np.ndarray:
    """float64 (d,), checked."""
    found = np.asarray(values)
    if found.dtype.kind not in "iuf":
        raise TypeError(f"{name} is of dtype {found.dtype}; vectors are numbers")
    if found.ndim != 1 or not len(found):
        raise ValueError(f"{name} has shape {found.shape}; it is a vector (d,)")
    found = found.astype(np.float64)
    if not np.isfinite(found).all():
        place = int(np.flatnonzero(~np.isfinite(found))[0])
        raise ValueError(f"{name} has {found[place]} in dimension {place}; numbers are finite")
    return found


def _matrix(rows: Any, ids: tuple[Hashable, ...] | None, d: int) -> np.ndarray:
    """float64 (m, d), checked; errors name the document."""
    if isinstance(rows, np.ndarray) and rows.dtype.kind in "iuf" and rows.shape[1:] == (d,) and np.isfinite(rows).all():
        return rows.astype(np.float64)
    vectors = []
    for i, row in enumerate(rows):
        name = f"documents[{i if ids is None else ids[i]!r}]"
        vectors.append(_vector(name, row))
        if len(vectors[-1]) != d:
            raise ValueError(f"{name} has {len(vectors[-1])} dimensions, but query has {d}")
    return np.array(vectors).reshape(len(vectors), d)
