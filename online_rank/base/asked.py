"""Reads a query once, in the form that a model takes."""

from typing import Any

from online_rank.query import ONE_QUERY, Block, read_query, with_features
from online_rank.query.forms import from_dicts


def read_for(
    model: Any,
    x: Any,
    y: Any = None,
    w: Any = None,
    *,
    qid: Any = ONE_QUERY,
    served: Any = None,
    context: Any = None,
    at: Any = None,
    t: Any = None,
) -> Block:
    """Read one query, or several, for a model.

    Parameters
    ----------
    model
        A step, or a pipeline.
    x, y, w, qid, served, context, at
        As in `online_rank.query.read_query`.
    t
        What river calls `at`.

    Raises
    ------
    TypeError, ValueError
        Bad input; or there is a context, or a time, which no step of the model looks at.
    """
    able = model._known or model.abilities
    if t is not None:
        if at is not None:
            raise TypeError("t is another name of at: give one of the two")
        at = t
    block = read_query(x, y, w, qid=qid, served=served, context=context, at=at, documents=able.takes_documents)
    if type(block.X) is list and not able.takes_documents:
        block = as_numbers(block)
    if block.context is not None or block.at is not None:
        require_taken(model, block)
    return block


def as_numbers(block: Block) -> Block:
    """A block of documents, read for a model that takes them as they are, for one that takes numbers.

    Raises TypeError or ValueError if a feature is not a number.
    """
    read = from_dicts(block.X, block.ids)
    return with_features(block, read.X, read.names)


def require_taken(model: Any, block: Block) -> None:
    """Raise TypeError for a context, or a time, that no step of the model uses."""
    if block.at is not None and not model.abilities.takes_time:
        raise TypeError(
            f"at: nothing in {type(model).__name__} depends on the time of a query; what has a half-life in seconds does, as "
            'RidgeRanker(half_life="7d"), and a transformer of river with a window of time'
        )
    if block.context is not None and not model.abilities.takes_context:
        raise TypeError(
            f"context: no step of {type(model).__name__} uses the context of a query; put one in front, as in "
            'CrossFeatures("user") | ranker'
        )
