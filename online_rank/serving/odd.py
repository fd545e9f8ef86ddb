"""Odd values: texts where a model knows numbers, and numbers where it knows categories. They refuse no query."""

import collections
import logging
from collections.abc import Hashable, Mapping
from typing import Any

import numpy as np

from online_rank.base.forgetting import parts_of
from online_rank.preprocessing.declared import DeclaredFeatures
from online_rank.query import Block
from online_rank.query.levels import Levels, as_known
from online_rank.rankers.curved import CurvedRanker, levels_of

_log = logging.getLogger("online_rank.serving")

#: Features whose odd values this process has logged, and most of these.
_LOGGED: set[Hashable] = set()
_MOST_NAMES = 100


def fitted(models: list[Any], query: Block, odd: "collections.Counter[Hashable]") -> Block | None:
    """A query whose odd values are of the kinds that models know; None if it has none, or if a model declares its features.

    A text where a number is known is missing in that document; a number where categories are known is its level, as a text.
    The first model that knows a feature decides. `odd` counts the values by feature; the log has each feature once.
    """
    if any(True for _ in parts_of(models, DeclaredFeatures)):
        return None
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
    if not found:
        return None
    odd.update(name if name in odd or len(odd) < _MOST_NAMES else "others" for name in found.elements())
    for name in [name for name in found if name not in _LOGGED][: _MOST_NAMES - len(_LOGGED)]:
        _LOGGED.add(name)
        _log.warning(
            "feature %r has values of another kind than the model knows, text for numbers or numbers for text: they count as "
            "missing, or as levels (GET /stats counts them under odd)", name,
        )  # fmt: skip
    return query._replace(X=made, names=None)


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
