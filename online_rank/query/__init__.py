"""Queries and their grades, in every accepted form.

A query is m documents with d features each. It may come as

- an (m, d) ndarray, float32 or float64 (used as it is when C-contiguous), or a list of m rows of numbers;
- a list of m feature dicts;
- a dict `{document id: feature dict}`;
- a pandas or polars data frame with one row a document.

Named features (dicts, frames) may appear, vanish and come back; a missing one is 0.
"""

from online_rank.query.forms import (
    MAX_FEATURES,
    MAX_GRADE,
    Documents,
    Query,
    answer_in_kind,
    as_documents,
    as_grades,
    as_query,
    document_name,
    in_form_of,
    is_plain,
    query_offsets,
    require_finite,
    require_grades,
)

__all__ = [
    "MAX_FEATURES",
    "MAX_GRADE",
    "Documents",
    "Query",
    "answer_in_kind",
    "as_documents",
    "as_grades",
    "as_query",
    "document_name",
    "in_form_of",
    "is_plain",
    "query_offsets",
    "require_finite",
    "require_grades",
]
