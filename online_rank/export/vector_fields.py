r"""Columns that a model makes of vectors, as products of a document's vector with vectors that follow from the query's.

Each column is :math:`(M' u) \cdot d / |d|`, d the vector of the document, u the vector of the query scaled to length 1, and M a
matrix: the identity for the cosine, and what was learned, less the identity, for the rest. So an engine needs one product for
each column, with a vector that is the same for all documents of a query.
"""

import re
from collections.abc import Hashable, Mapping
from typing import Any, NamedTuple

import numpy as np

from online_rank.base.forgetting import parts_of
from online_rank.base.form import Form, Linear
from online_rank.preprocessing.vector_columns import VectorColumns, columns_of_vector
from online_rank.rankers.vectors import VectorRanker

#: What is made of a vector, in the order of `columns_of_vector`, and the scores of a `VectorRanker`, the second for queries
#: without a vector.
HOWS = ("cosine", "learned", "recent", "linear")
SCORE, ALONE = "score", "alone"


class VectorColumn(NamedTuple):
    """A column that is made of a vector.

    Attributes
    ----------
    how
        One of `HOWS`, `SCORE`, or `ALONE`.
    parameter
        What an engine calls the vector M' u: letters, digits and underscores.
    matrix
        M, float64 (p, k), of numbers of single precision; (1, k) if it does without the vector of the query.
    """

    how: str
    parameter: str
    matrix: np.ndarray

    @property
    def of_query(self) -> bool:
        """Whether the column needs the vector of the query."""
        return self.how not in (HOWS[3], ALONE) and not (self.how == SCORE and len(self.matrix) == 1)

    @property
    def alone(self) -> bool:
        """Whether the column has a value only without a vector of the query."""
        return self.how == ALONE


class VectorField(NamedTuple):
    """A vector of documents, and the columns that are made of it, by their number.

    Attributes
    ----------
    field
        The target's name of the vector in documents.
    name
        The model's.
    k, p
        The lengths of the vectors of documents, and of queries; p is 0 if queries have none.
    columns
        By the number of the raw feature.
    """

    field: str
    name: str
    k: int
    p: int
    columns: dict[int, VectorColumn]

    @property
    def query_field(self) -> str:
        """What the vector of the query is called, where it is a field."""
        return f"query {self.field}"

    @property
    def given(self) -> str:
        """The parameter that is 1 for a query with a vector, where a missing parameter is 0."""
        return _identifier(self.name, "given")

    def parameters(self, query: Any) -> dict[str, list[float] | None]:
        """The vectors M' u for the vector of a query; None for all if it has none, or one of length 0."""
        wide = None if query is None else np.asarray(query, dtype=np.float32).astype(np.float64)
        length = 0.0 if wide is None else float(np.sqrt((wide * wide).sum()))
        if wide is not None and length and len(wide) != self.p:
            raise ValueError(f"the query has {len(wide)} dimensions, but the model has learned {self.name!r} from {self.p}")
        made: dict[str, list[float] | None] = {}
        for column in self.columns.values():
            if column.of_query:
                unit = None if wide is None or not length else wide / length
                made[column.parameter] = None if unit is None else (unit @ column.matrix).tolist()
        return made

    def values(self, query: Any, documents: list[Any]) -> dict[int, np.ndarray]:
        """The columns (n,) of documents with these vectors, None for a missing one; NaN is missing."""
        parameters, D = self.parameters(query), np.full((len(documents), self.k), np.nan)
        for i, vector in enumerate(documents):
            if vector is not None:
                D[i] = np.asarray(vector, dtype=np.float32)
        with np.errstate(invalid="ignore", divide="ignore"):
            D = D / np.sqrt((D * D).sum(axis=1, keepdims=True))
        no_query = all(vector is None for vector in parameters.values())
        made = {}
        for j, column in self.columns.items():
            t: Any = column.matrix[0] if not column.of_query and (no_query or not column.alone) else None
            t = parameters[column.parameter] if column.of_query else t
            made[j] = np.full(len(D), np.nan) if t is None else D @ np.asarray(t)
        return made


def vector_fields(model: Any, form: Form, names: Any) -> list[VectorField]:
    """The vectors of a model whose columns are among the features of its form."""
    places = {name: j for j, name in enumerate(form.names or ())}
    if isinstance(ranker := _vector_ranker(model), VectorRanker):
        learners = _learners_of(ranker)
        own = {
            j: VectorColumn(how, _identifier(ranker.vector, how), _single(learner.matrix()))
            for j, (how, learner) in enumerate(learners.items())
        }
        p, k = learners[SCORE].shape
        return [VectorField(_renamed(ranker.vector, names), ranker.vector, k, p if p > 1 else 0, own)]
    found = []
    for part in parts_of(model, VectorColumns):
        for name in part.names:
            made = _columns_of(part, name, places)
            if made:
                p = max((len(column.matrix) for column in made.values() if column.of_query), default=0)
                found.append(VectorField(_renamed(name, names), name, part.lengths[name], p, made))
    return found


def form_of_vectors(ranker: VectorRanker) -> Form:
    """The closed form of a `VectorRanker`: the sum of its scores for queries with a vector, and for others, which are missing.

    Raises ValueError before the first query.
    """
    learners = _learners_of(ranker)
    if not learners[SCORE].shape[0]:
        raise ValueError("the model has met no vector yet; let it learn before it is exported")
    return Form(tuple(f"{ranker.vector} {how}" for how in learners), len(learners), (), Linear(np.ones(len(learners))))


def _learners_of(ranker: VectorRanker) -> dict[str, Any]:
    """What learned from queries with a vector, and what learned from others, if both did."""
    both = ranker.linear is not ranker.learner and ranker.linear.shape[0]
    return {SCORE: ranker.learner} | ({ALONE: ranker.linear} if both else {})


def _vector_ranker(model: Any) -> Any:
    from online_rank.base import serving_steps

    return serving_steps(model)[-1]


def _columns_of(part: VectorColumns, name: str, places: Mapping[Hashable, int]) -> dict[int, VectorColumn]:
    columns, k = columns_of_vector(name), part.lengths[name]
    made = {}
    for how, column in zip(HOWS, columns, strict=True):
        if column in places:
            matrix = np.eye(k) if how == "cosine" else _learned(part, columns, how, k)
            made[places[column]] = VectorColumn(how, _identifier(name, how), _single(matrix))
    return made


def _learned(part: VectorColumns, columns: tuple[str, ...], how: str, k: int) -> np.ndarray:
    """What was learned, over kappa and less the identity where it began with the cosine."""
    learner = part.learners.get(columns[3] if how == "linear" else columns[1])
    if learner is None:
        return np.zeros((1 if how == "linear" else k, k))
    W = learner.matrix(averaged=how != "recent")
    if how == "linear" or W.shape[0] != W.shape[1]:
        return W
    return W / part.kappa - np.eye(k) if part.kappa > 0.0 else W


def _single(W: np.ndarray) -> np.ndarray:
    return W.astype(np.float32).astype(np.float64)


def _identifier(name: str, how: str) -> str:
    text = re.sub(r"\W", "_", f"{name}_{how}", flags=re.ASCII)
    return text if text[0].isalpha() else f"v{text}"


def _renamed(name: str, names: Any) -> str:
    renamed = names.get(name) if isinstance(names, Mapping) else None
    return renamed if isinstance(renamed, str) else name
