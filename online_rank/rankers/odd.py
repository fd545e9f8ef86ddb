"""Values of another kind than models know: texts where a feature is a number, and numbers where it is a category."""

import collections
from collections.abc import Hashable, Mapping
from typing import Any

import numpy as np

from online_rank.base.forgetting import parts_of
from online_rank.query import Block
from online_rank.query.levels import Levels, as_known
from online_rank.rankers.curved import CurvedRanker
from online_rank.rankers.weighed_levels import levels_of

__all__ = ["as_models_know"]


def as_models_know(models: list[Any], query: Block) -> tuple[list[dict[Hashable, Any]], "collections.Counter[Hashable]"] | None:
    """The documents of a query with values of the kinds that models know, and how many values of each feature are not of it.

    A text where a number is known is missing in that document; a number where categories are known is its level, as a text.
    The first model that knows a feature decides. None if all values are of these kinds, or the query has no names.
    """
    known = [levels_of(each) for each in parts_of(models, CurvedRanker)]
    if isinstance(query.X, list):
        documents = query.X
    elif isinstance(query.X, np.ndarray) and query.names is not None:
        documents = [dict(zip(query.names, row, strict=True)) for row in query.X.tolist()]
    else:
        return None
    found = collections.Counter[Hashable]()
    # Of a feature that nobody knows, with numbers and texts in one query, the numbers count.
    numbers = {name for document in documents for name, value in document.items() if type(value) in (int, float)}
    made = [_fitted(document, known, numbers, found) for document in documents]
    return (made, found) if found else None


def _fitted(
    document: Mapping[Hashable, Any], known: list[Levels], numbers: set[Hashable], found: "collections.Counter[Hashable]"
) -> dict[Hashable, Any]:
    """A document with values of the kinds that are known; those that were changed are counted."""
    made = dict(document)
    for name, value in document.items():
        kind = next((kind for levels in known if (kind := levels.kind_of(name))), "number" if name in numbers else "")
        if kind and (read := as_known(value, kind)) is not value:
            made[name] = read
            found[name] += 1
    return made
