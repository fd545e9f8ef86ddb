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

Facts about the query itself, such as who asks, are passed as `context={name: value}`, for steps that join them with features of
documents (`CrossFeatures`).
"""

from online_rank.limits import MAX_FEATURES
from online_rank.query.blocks import ONE as ONE
from online_rank.query.blocks import Block
from online_rank.query.blocks import as_array as as_array
from online_rank.query.blocks import document_name as document_name
from online_rank.query.blocks import plain_block as plain_block
from online_rank.query.blocks import query_offsets as query_offsets
from online_rank.query.blocks import require_finite as require_finite
from online_rank.query.blocks import single as single
from online_rank.query.blocks import with_features as with_features
from online_rank.query.columns import Columns
from online_rank.query.forms import ONE_QUERY as ONE_QUERY
from online_rank.query.forms import answer_in_kind as answer_in_kind
from online_rank.query.forms import feature_dicts as feature_dicts
from online_rank.query.forms import in_form as in_form
from online_rank.query.forms import plain_array as plain_array
from online_rank.query.forms import plain_grades as plain_grades
from online_rank.query.forms import plain_query as plain_query
from online_rank.query.forms import plain_vectors as plain_vectors
from online_rank.query.forms import read_query as read_query
from online_rank.query.grades import MAX_GRADE, Feedback
from online_rank.query.grades import as_feedback as as_feedback
from online_rank.query.grades import as_grades as as_grades
from online_rank.query.grades import require_grades as require_grades
from online_rank.query.runs import Retrieved, Runs
from online_rank.query.sparse import SparseRows
from online_rank.query.ungraded import drop_ungraded
from online_rank.query.vectors import Vectors

# What is imported `as` itself is for the rooms above, and not public.
__all__ = [
    "MAX_FEATURES",
    "MAX_GRADE",
    "Block",
    "Columns",
    "Feedback",
    "Retrieved",
    "Runs",
    "SparseRows",
    "Vectors",
    "drop_ungraded",
]
