"""The matrix of a model with vectors, for the side of the query: q' = W' q, which any index of the documents' vectors takes."""

import io
from collections.abc import Callable
from typing import Any

import numpy as np

from online_rank.base import ranker_of, steps_of
from online_rank.base.lock import lock_of
from online_rank.export.onnx_graph import Graph
from online_rank.preprocessing.vector_columns import VectorColumns, columns_of_vector
from online_rank.preprocessing.vectors import VectorFeatures
from online_rank.rankers.additive import AdditiveRanker
from online_rank.rankers.vectors import VectorRanker
from online_rank.support.lazy import needs

__all__ = ["ADAPTERS", "adapter", "query_matrix"]


def query_matrix(model: Any, *, vector: str | None = None) -> np.ndarray:
    """W, float32 (p, k): the score of a document d of length 1 is (W' q)' d for a query q of length 1.

    Parameters
    ----------
    model
        A `VectorRanker`, an `AdditiveRanker` that has learned vectors with queries, or a pipeline with `VectorFeatures`.
    vector
        The name of the vector; None for the only one.

    Raises
    ------
    TypeError
        The model has no vectors.
    ValueError
        It has learned no vector of that name with vectors of queries, or several, and none is named.

    Examples
    --------
    >>> from online_rank import VectorRanker
    >>> model = VectorRanker(kappa=2.0)
    >>> x, context = {"a": {"embedding": [1.0, 0.0]}, "b": {"embedding": [0.0, 1.0]}}, {"embedding": [1.0, 0.0]}
    >>> model.learn_one(x, {"a": 1, "b": 0}, context=context)
    >>> query_matrix(model)
    array([[2., 0.],
           [0., 2.]], dtype=float32)
    """
    with lock_of(model):
        learners = _learners(model)
        if vector is None and len(learners) > 1:
            raise ValueError(f"the model has the vectors {', '.join(map(repr, learners))}: name one of them")
        if not learners or (vector is not None and vector not in learners):
            named = "" if vector is None else f" of the name {vector!r}"
            raise ValueError(f"the model has learned no vector{named} with vectors of queries")
        learner = next(iter(learners.values())) if vector is None else learners[vector]
        return learner.matrix().astype(np.float32)


def _learners(model: Any) -> dict[str, Any]:
    """The learner of each vector that was learned with vectors of queries. Raises TypeError."""
    ranker = ranker_of(model)
    if issubclass(type(ranker), VectorRanker):
        return {ranker.vector: ranker.learner} if ranker.learner.shape[0] > 1 else {}
    columns: VectorColumns | None = None
    if issubclass(type(ranker), AdditiveRanker):
        columns = ranker.vector_columns
    for step in steps_of(model):
        if issubclass(type(step), VectorFeatures):
            columns = step._columns_of
    if columns is None:
        raise TypeError(f"{type(ranker).__name__} has learned no vectors: VectorRanker, AdditiveRanker and VectorFeatures do")
    found = {name: columns.learners.get(columns_of_vector(name)[1]) for name in columns.names}
    return {name: learner for name, learner in found.items() if learner is not None}


def adapter(model: Any, to: str, *, vector: str | None = None, name: str = "online_rank") -> str | bytes:
    """The map from a query's vector to the vector to search with, for another program.

    Parameters
    ----------
    model, vector
        As for `query_matrix`.
    to
        `"npy"`: W as an array of numpy. `"onnx"`: a graph from `query` (n, p) to `adapted` (n, k), float32. `"c"`: a function
        of C. `"pgvector"`, `"duckdb"`: a table and a function of SQL. All but npy scale the query to length 1 first.
    name
        Name of the function, the table or the graph: a letter, then letters, digits and underscores.

    Raises
    ------
    TypeError, ValueError
        As `query_matrix`; or there is no such target, or the name is no identifier.
    """
    if to not in ADAPTERS:
        raise ValueError(f"to is {to!r}; a matrix of vectors can be written to {', '.join(ADAPTERS)}")
    if not (name.isidentifier() and name.isascii()):
        raise ValueError(f"name is {name!r:.60}; it must be an identifier")
    return ADAPTERS[to](query_matrix(model, vector=vector), name)


def _npy(W: np.ndarray, _name: str) -> bytes:
    file = io.BytesIO()
    np.save(file, W)
    return file.getvalue()


def _onnx(W: np.ndarray, name: str) -> bytes:
    with needs("writing ONNX", "onnx"):
        from onnx import TensorProto, helper, numpy_helper
    graph, (p, k) = Graph(helper, numpy_helper), W.shape
    squares = graph.add("ReduceSumSquare", "query", axes=[1], keepdims=1)
    unit = graph.add("Div", "query", graph.add("Sqrt", squares))
    adapted = graph.add("MatMul", unit, W)
    graph.nodes.append(helper.make_node("Identity", [adapted], ["adapted"]))
    kind = TensorProto.FLOAT
    made = helper.make_graph(
        graph.nodes, name, [helper.make_tensor_value_info("query", kind, ["n", p])],
        [helper.make_tensor_value_info("adapted", kind, ["n", k])], graph.constants,
    )  # fmt: skip
    model = helper.make_model(made, opset_imports=[helper.make_opsetid("", 17)], producer_name="online_rank")
    model.ir_version = 8
    written: bytes = model.SerializeToString()
    return written


def _c(W: np.ndarray, name: str) -> str:
    p, k = W.shape
    rows = ",\n".join("    {" + ", ".join(f"{x:.9g}f" if "." in f"{x:.9g}" or "e" in f"{x:.9g}" else f"{x:.9g}.0f" for x in row)
                      + "}" for row in W.tolist())  # fmt: skip
    return f"""/* q' = W' q, by which an index of the documents' vectors is searched: written by online_rank. */
#include <math.h>

#define {name.upper()}_P {p}
#define {name.upper()}_K {k}

static const float {name}_matrix[{p}][{k}] = {{
{rows}
}};

/* query: {p} numbers, of any length but 0; adapted: {k} numbers, out. */
static void {name}_adapt(const float *query, float *adapted)
{{
    double square = 0.0, sums[{k}];
    int i, j;
    for (i = 0; i < {p}; i++) square += (double)query[i] * query[i];
    for (j = 0; j < {k}; j++) sums[j] = 0.0;
    for (i = 0; i < {p}; i++) {{
        const double q = query[i] / sqrt(square);
        for (j = 0; j < {k}; j++) sums[j] += q * {name}_matrix[i][j];
    }}
    for (j = 0; j < {k}; j++) adapted[j] = (float)sums[j];
}}
"""


def _columns(W: np.ndarray, quote: str) -> str:
    """A line of SQL for each column of W: its number, from 1, and the column."""
    lines = (f"({j}, {quote}[{','.join(f'{x:.9g}' for x in column)}]{quote})" for j, column in enumerate(W.T.tolist(), 1))
    return ",\n".join(lines)


def _pgvector(W: np.ndarray, name: str) -> str:
    p, k = W.shape
    return f"""-- q' = W' q: order by embedding <#> {name}_adapt(query), with embeddings of length 1. Needs pgvector 0.7.
BEGIN;
DROP TABLE IF EXISTS {name}_matrix CASCADE;
CREATE TABLE {name}_matrix (dimension int PRIMARY KEY, entries vector({p}) NOT NULL);
INSERT INTO {name}_matrix VALUES
{_columns(W, "'")};
CREATE OR REPLACE FUNCTION {name}_adapt(query vector({p})) RETURNS vector({k}) LANGUAGE sql STABLE AS $$
    SELECT array_agg(-(l2_normalize(query) <#> entries) ORDER BY dimension)::vector({k}) FROM {name}_matrix
$$;
COMMIT;
"""


def _duckdb(W: np.ndarray, name: str) -> str:
    p, k = W.shape
    return f"""-- q' = W' q: order by array_inner_product(embedding, {name}_adapt(query)) desc, with embeddings of length 1.
CREATE OR REPLACE TABLE {name}_matrix (dimension INTEGER, entries FLOAT[{p}]);
INSERT INTO {name}_matrix VALUES
{_columns(W, "")};
CREATE OR REPLACE MACRO {name}_adapt(query) AS (
    SELECT list(array_inner_product(query::FLOAT[{p}], entries)
        / sqrt(array_inner_product(query::FLOAT[{p}], query::FLOAT[{p}])) ORDER BY dimension)::FLOAT[{k}]
    FROM {name}_matrix
);
"""


#: The targets of `adapter`.
ADAPTERS: dict[str, Callable[[np.ndarray, str], str | bytes]] = {
    "c": _c, "duckdb": _duckdb, "npy": _npy, "onnx": _onnx, "pgvector": _pgvector,
}  # fmt: skip
