"""Queries and their grades: all accepted forms of input are read once into a `Block`.

A query is m documents with d features each. It may come as

- an (m, d) ndarray, float32 or float64 (used as it is when C-contiguous), or a list of m rows of numbers;
- `SparseRows`, or a sparse array or matrix of scipy (its values are used as they are when it is CSR with floats);
- a list of m feature dicts;
- a dict `{document id: feature dict}`;
- `Runs`: the result lists of several retrievers, before `RunFeatures`;
- `Vectors`: the vectors of the query and of its documents;
- a pandas, polars or pyarrow data frame with one row a document.

Named features (dicts, frames) may appear, vanish and come back; a missing one is 0.

What is known of a query itself, such as who asks, comes beside it as `context={name: value}`, for steps that join features of
documents with it (`CrossFeatures`).
"""

from online_rank.query.blocks import (
    ONE,
    Block,
    as_array,
    document_name,
    plain_block,
    query_offsets,
    require_finite,
    single,
    with_features,
)
from online_rank.query.feedback import Feedback, as_feedback
from online_rank.query.forms import (
    MAX_FEATURES,
    answer_in_kind,
    feature_dicts,
    in_form,
    plain_array,
    plain_query,
    read_block,
    read_query,
)
from online_rank.query.grades import MAX_GRADE, as_grades, require_grades
from online_rank.query.runs import Retrieved, Runs
from online_rank.query.sparse import SparseRows
from online_rank.query.ungraded import drop_ungraded
from online_rank.query.vectors import Vectors

__all__ = [
    "MAX_FEATURES",
    "MAX_GRADE",
    "ONE",
    "Block",
    "Feedback",
    "Retrieved",
    "Runs",
    "SparseRows",
    "Vectors",
    "answer_in_kind",
    "as_array",
    "as_feedback",
    "as_grades",
    "document_name",
    "drop_ungraded",
    "feature_dicts",
    "in_form",
    "plain_array",
    "plain_block",
    "plain_query",
    "query_offsets",
    "read_block",
    "read_query",
    "require_finite",
    "require_grades",
    "single",
    "with_features",
]
