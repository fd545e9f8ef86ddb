"""Odd values: texts where a model knows numbers, and numbers where it knows categories. They refuse no query."""

import collections
import logging
from collections.abc import Hashable
from typing import Any

from online_rank.base.forgetting import parts_of
from online_rank.preprocessing.declared import DeclaredFeatures
from online_rank.query import Block
from online_rank.rankers.odd import ModelKinds

_log = logging.getLogger("online_rank.serving")

#: Features whose odd values this process has logged, and most of these, in all and of a query.
_LOGGED: set[Hashable] = set()
_MOST_NAMES, _OF_A_QUERY = 100, 10


def fitted(models: list[Any], query: Block, odd: "collections.Counter[Hashable]") -> Block | None:
    """A query whose odd values are of the kinds that models know; None if it has none, or if a model declares its features.

    `ModelKinds` says which values these are. `odd` counts the values by feature; the log has each feature once.
    """
    if any(True for _ in parts_of(models, DeclaredFeatures)):
        return None
    if (made := ModelKinds(models).fitted(query)) is None:
        return None
    documents, found = made
    odd.update(name if name in odd or len(odd) < _MOST_NAMES else "others" for name in found.elements())
    for name in [name for name in found if name not in _LOGGED][: min(_OF_A_QUERY, _MOST_NAMES - len(_LOGGED))]:
        _LOGGED.add(name)
        _log.warning(
            "feature %r has values of another kind than the model knows, text for numbers or numbers for text: they count as "
            "missing, or as levels (GET /stats counts them under odd)", name,
        )  # fmt: skip
    return query._replace(X=documents, names=None)
