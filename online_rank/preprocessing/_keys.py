"""The keys of documents: their ids, features of them, or what is known of the query."""

from collections.abc import Hashable
from typing import Any

import numpy as np

from online_rank.base.names import numbers
from online_rank.limits import MAX_COUNT
from online_rank.query import Block, document_name
from online_rank.query.names import in_nfc

#: The name of the key that is the id of the document.
DOCUMENT = "document"


def values_under(query: Block, name: str) -> list[Hashable]:
    """The value of each document under a name: its id, an entry of the context, or a feature; None where it is missing."""
    X, n = query.X, query.n_documents
    if name == DOCUMENT:
        if query.ids is None or isinstance(query.ids, range):
            raise ValueError("x: documents have no ids, which History('document') needs: give {id: features}")
        return [*query.ids]
    context = None if query.context is None else query.context[0]
    in_context = context is not None and name in context
    values: list[Any]
    if isinstance(X, list):
        values = [x.get(name) for x in X]
    else:
        names = numbers(X.shape[1]) if query.names is None else query.names
        values = [None] * n if name not in names else _column(X, names.index(name))
    if in_context:
        if any(value is not None for value in values):
            raise ValueError(f"{name!r} is a feature and in the context, and History would take either: rename one of them")
        values = [context[name]] * n  # type: ignore[index]
    return [_part(value, name, i, query) for i, value in enumerate(values)]


def _column(X: Any, j: int) -> list[Any]:
    """A column of an array or of sparse rows."""
    if isinstance(X, np.ndarray):
        return X[:, j].tolist()
    found = np.zeros(X.shape[0])
    at = np.flatnonzero(X.columns == j)
    found[np.searchsorted(X.starts, at, side="right") - 1] = X.values[at]
    return found.tolist()


def _part(value: Any, name: str, i: int, query: Block) -> Hashable:
    """A value as a part of a key; None for a missing one."""
    kind = type(value)
    if kind is str:
        return value if value.isascii() else in_nfc(value)
    if isinstance(value, np.generic):
        value = value.item()
    if value is None or value != value:
        return None
    if isinstance(value, float):  # Numbers of arrays are floats, and are the same keys.
        return int(value) if value.is_integer() and abs(value) < MAX_COUNT else value
    if isinstance(value, str | int):
        return value
    what = f"feature {name!r} of {document_name(i, query.ids)}"
    raise TypeError(f"x: {what} is of type {kind.__name__}; a key of History is a text or a number")
