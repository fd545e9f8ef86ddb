"""The context of a query, apart from its documents: the user, the language, its length."""

import math
from collections.abc import Mapping, Sequence
from typing import Any

import numpy as np

from online_rank.limits import INT64_HIGH, INT64_LOW, MAX_ID_LENGTH
from online_rank.query.embeddings import as_vector, is_vector

#: The features of one query: strings, numbers, booleans, vectors, and None for unknown values.
Context = Mapping[str, Any]


def read_context(context: Any) -> dict[str, Any]:
    """The context of one query, checked: a copy, with vectors as float32 arrays.

    Raises
    ------
    TypeError, ValueError
        It is not a dict `{name: value}`, or a value is not a string of at most `MAX_ID_LENGTH` characters, a finite number, a
        boolean, None or a vector: a list or an array of numbers.

    Examples
    --------
    >>> read_context({"user": "u17", "length": 3})
    {'user': 'u17', 'length': 3}
    >>> read_context({"user": ["u17"]})
    Traceback (most recent call last):
        ...
    TypeError: context['user'] is of type list; it must be a text, a number, True, False, None or a vector
    """
    if not isinstance(context, Mapping):
        raise TypeError(f"context is of type {type(context).__name__}; it must be {{name: value}}, such as {{'user': 'u17'}}")
    vectors = {}
    for name, value in context.items():
        if not isinstance(name, str):
            raise TypeError(f"context has the name {name!r:.60}; names are texts")
        if isinstance(value, str):
            if len(value) > MAX_ID_LENGTH:
                raise ValueError(f"context[{name!r}] has {len(value)} characters; at most {MAX_ID_LENGTH} are accepted")
        elif isinstance(value, int) and not isinstance(value, bool):
            if not INT64_LOW <= value <= INT64_HIGH:
                raise ValueError(f"context[{name!r}] is an integer of more than 64 bits")
        elif isinstance(value, float):
            if not math.isfinite(value):
                raise ValueError(f"context[{name!r}] is {value}; numbers are finite")
        elif is_vector(value):
            # A copy: the query may wait, and the caller's array change.
            vectors[name] = as_vector(f"context[{name!r}]", value).copy()
        elif not (value is None or isinstance(value, bool)):
            kind = type(value).__name__
            raise TypeError(f"context[{name!r}] is of type {kind}; it must be a text, a number, True, False, None or a vector")
    return {**context, **vectors} if vectors else dict(context)


def vectors_of(context: Context) -> dict[str, Any]:
    """The vectors in a context that was read."""
    return {name: value for name, value in context.items() if type(value) is np.ndarray}


def as_contexts(context: Any, n_queries: int) -> tuple[dict[str, Any], ...] | None:
    """The contexts of the queries of a block, or None.

    Parameters
    ----------
    context
        A sequence of `{name: value}`, one for each query; None for none.
    n_queries
        Number of queries of the block.

    Raises
    ------
    TypeError, ValueError
        As `read_context`; or there is not one for each query.
    """
    if context is None:
        return None
    if isinstance(context, Mapping | str) or not isinstance(context, Sequence):
        raise TypeError(f"context is of type {type(context).__name__}; a block takes one {{name: value}} a query")
    if len(context) != n_queries:
        raise ValueError(f"context has {len(context)} entries, but the block has {n_queries} queries: one a query")
    return tuple(map(read_context, context))
