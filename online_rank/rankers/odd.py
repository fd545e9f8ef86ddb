"""Values of another kind than models know: texts where a feature is a number, and numbers where it is a category.

What came first does not decide for ever: each learned query speaks for the kind that a feature has, or against it, and a kind
that most queries speak against is given up.
"""

import collections
import copy
from collections.abc import Hashable, Mapping
from typing import Any

import numpy as np

from online_rank.base.forgetting import forget_columns, parts_of
from online_rank.query import Block
from online_rank.query.levels import Levels, as_known, is_level
from online_rank.rankers.curved import CurvedRanker
from online_rank.rankers.weighed_levels import levels_of

__all__ = ["ModelKinds"]

#: Evidence of queries: the kind of a feature, and the weight of queries for it and against it, which counts half after 100.
Contested = dict[Hashable, tuple[str, float, float]]
_KEEP = 2.0 ** (-1.0 / 100.0)
#: The most weight of queries, 1 + keep + keep^2 + ..., and documents that a model has met, a query's worth.
_MOST, _DOCUMENTS = 1.0 / (1.0 - _KEEP), 10.0
#: A kind is given up if the weight against it is this many times the weight for it, and more; below the least it is no more
#: contested. The most features that are.
_MORE, _CLEAR, _LEAST, _MOST_NAMES = 2.0, 2.0, 0.5, 100
#: What a model whose first query was sparse takes.
_NUMBERS = frozenset((int, float))


class ModelKinds:
    """The kinds that models know: "number" or "category" for each feature. The first model that knows a feature decides.

    A model whose first query was sparse takes numbers alone. That is contested under the name None.
    """

    def __init__(self, models: list[Any]) -> None:
        parts = [*parts_of(models, CurvedRanker)]
        self._known = [(part, levels_of(part)) for part in parts if part._linear is None]
        self._sparse: Any = next(filter(_is_sparse, models), None)

    def fitted(self, query: Block) -> tuple[list[dict[Hashable, Any]], "collections.Counter[Hashable]"] | None:
        """The documents of a query with values of these kinds, and how many values of each feature are of another one.

        A text where a number is known is missing in that document; a number where categories are known is its level, as a text.
        None if all values are of these kinds, or the query has no names.
        """
        known = [levels for _, levels in self._known]
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
        if self._sparse is not None:
            made = [_numbers_of(document, found) for document in made]
        return (made, found) if found else None

    def weighed(self, query: Block, contested: Contested) -> tuple[Contested, list[Hashable]]:
        """The evidence about contested features after a learned query, as it came, and the features whose kind it ends."""
        kept, ended = dict[Hashable, tuple[str, float, float]](), list[Hashable]()
        for name, (of, own, against) in contested.items():
            _, kind = self._knowing(name)
            if kind != of:
                continue
            if (speaks_against := _speaks_against(query, name, kind)) is None:
                kept[name] = of, own, against
                continue
            own, against = _KEEP * own + (not speaks_against), _KEEP * against + speaks_against
            if against > _MORE * own + _CLEAR:
                ended.append(name)
            elif against >= _LEAST:
                kept[name] = of, own, against
        return kept, ended

    def contested(self, query: Block, contested: Contested) -> Contested:
        """What is contested after a learned query, as it came: also features most of whose values are of another kind here."""
        made, more = self.fitted(query), dict(contested)
        sparse = self._sparse
        if sparse is not None and None not in more and _speaks_against(query, None, "number"):
            more[None] = "number", min(float(sparse._n_queries), _MOST), 1.0
        for name in () if made is None else made[1]:
            part, kind = self._knowing(name)
            is_new = kind and name not in contested and name not in (part.kinds or {})
            if is_new and len(more) < _MOST_NAMES and _speaks_against(query, name, kind):
                more[name] = kind, min(part._front.n_documents / _DOCUMENTS, _MOST), 1.0
        return more

    @staticmethod
    def without(model: Any, name: Hashable) -> Any:
        """A copy of a model that does not know a feature any more, so that its next values decide the kind.

        It is the model itself if that does not know the feature. What was learned stays in columns that no query reaches.
        """
        if name is None:  # Nothing of a sparse query helps a model with curves.
            return model.clone() if _is_sparse(model) else model
        if not any(levels_of(part).kind_of(name) for part in parts_of(model, CurvedRanker)):
            return model
        crossed = f"{name}*"  # As `CrossFeatures` begins the names of what it makes of a feature.

        def is_of(own: Hashable) -> bool:
            feature = own[0] if is_level(own) else own  # type: ignore[index]
            return feature == name or (isinstance(feature, str) and feature.startswith(crossed))

        made = copy.deepcopy(model)
        forget_columns(made, is_of)
        for part in parts_of(made, CurvedRanker):
            if part._kinds is not None:
                part._kinds = part._kinds.without(is_of)
        return made

    def _knowing(self, name: Hashable) -> tuple[Any, str]:
        """The first part that knows a feature, and as what."""
        if name is None:
            return self._sparse, "" if self._sparse is None else "number"
        return next(((part, kind) for part, levels in self._known if (kind := levels.kind_of(name))), (None, ""))


def _is_sparse(model: Any) -> bool:
    """Whether a model is a ranker whose first query was sparse. A pipeline counts as an instance of its last step's class."""
    return issubclass(type(model), CurvedRanker) and model._linear is not None


def _speaks_against(query: Block, name: Hashable, kind: str) -> bool | None:
    """Whether most values of a feature in a query are of another kind; None for no values."""
    if query.names is not None:
        return None if name is not None and name not in query.names else kind != "number"
    if name is None:
        return any(type(value) not in _NUMBERS for document in query.X for value in document.values())
    values = [value for document in query.X if (value := document.get(name)) is not None]
    odd = sum(as_known(value, kind) is not value for value in values)
    return 2 * odd > len(values) if values else None


def _numbers_of(document: dict[Hashable, Any], found: "collections.Counter[Hashable]") -> dict[Hashable, Any]:
    """The numbers of a document; other values are missing, and counted."""
    made = {name: value for name, value in document.items() if type(value) in _NUMBERS}
    found.update(document.keys() - made.keys())
    return made


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
