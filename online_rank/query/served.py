"""Scores that documents were served with, in every accepted form."""

from collections.abc import Hashable, Mapping, Sequence
from typing import Any

import numpy as np

from online_rank.query.blocks import as_array, document_name
from online_rank.query.labels import by_id, in_order


def as_served(served: Any, n_documents: int, ids: Sequence[Hashable] | None = None) -> np.ndarray:
    """The scores that documents were served with, in their order.

    Parameters
    ----------
    served
        A sequence of n numbers, or `{document id: score}` for documents with ids, as `predict_one` answered.
    n_documents
        n, the number of documents.
    ids
        Their ids, or None.

    Returns
    -------
    float64 array of shape (n,).

    Raises
    ------
    TypeError
        Scores are not numbers, or are a dict while the documents have no ids.
    ValueError
        A score is missing, superfluous or not finite, or there are not n of them.

    Examples
    --------
    >>> as_served({"a": 2.5, "b": 0.0}, 2, ids=("b", "a"))
    array([0. , 2.5])
    """
    served = by_id("served", served, ids)
    if isinstance(served, Mapping):
        served = in_order("served", served, ids, "score")
    elif isinstance(served, str | bytes) or not (hasattr(served, "__len__") or hasattr(served, "__array__")):
        raise TypeError(f"served is of type {type(served).__name__}; it is a sequence of scores, one a document")
    scores = as_array("served", served)
    if scores.shape != (n_documents,):
        raise ValueError(f"served has shape {scores.shape}, but x has {n_documents} documents: one score a document")
    if n_documents and scores.dtype.kind not in "biuf":
        raise TypeError(f"served has dtype {scores.dtype}; scores are numbers")
    scores = np.ascontiguousarray(scores, dtype=np.float64)
    bad = np.flatnonzero(~np.isfinite(scores))
    if bad.size:
        raise ValueError(f"served: the score of {document_name(int(bad[0]), ids)} is {scores[bad[0]]}; scores are finite")
    return scores
