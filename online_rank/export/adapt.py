"""Learned weights of dimensions, moved to the vector of the query."""

from typing import Any

import numpy as np

from online_rank import arguments
from online_rank.export.linear import serving_weights
from online_rank.query.vectors import METRICS, unit


def adapt(model: Any, query: Any, *, metric: str = "cosine") -> np.ndarray:
    """The vector to search an index with, so that it ranks as a model of `Vectors`: query times learned weights.

    The score of a document with vector v is `adapt(model, query) @ v`, with v of length 1 for the cosine; it is equal to the
    model's up to a constant, which a scaler in front adds and which changes no ranking. So the index serves what was learned,
    retrieval included, and nothing is indexed again. Search by the inner product: with weights, lengths matter.

    Parameters
    ----------
    model
        A linear ranker that learned from `Vectors`, or a pipeline of scalers and one; a `VectorRanker`, or an `AdditiveRanker`
        that has learned one vector, whose own `adapt` this is.
    query
        (d,): the vector of the query.
    metric
        The metric of `Vectors`.

    Returns
    -------
    float64 array of shape (d,).

    Raises
    ------
    TypeError
        The model is not linear.
    ValueError
        The query has another number of dimensions, or no length.

    Examples
    --------
    >>> from online_rank import PerceptronRanker
    >>> adapt(PerceptronRanker.from_weights([10.0, 5.0]), [3.0, 4.0])
    array([6., 4.])
    """
    arguments.choice("metric", metric, METRICS)
    if hasattr(type(model), "adapt"):
        adapted: np.ndarray = model.adapt(query)
        return adapted
    weights = serving_weights(model).weights
    vector = np.asarray(query, dtype=np.float64)
    if vector.shape != weights.shape:
        raise ValueError(f"query has shape {vector.shape}, but the model has learned from {len(weights)} dimensions")
    if not np.isfinite(vector).all():
        raise ValueError("query contains numbers that are not finite")
    return weights * (unit(vector) if metric == "cosine" else vector)
