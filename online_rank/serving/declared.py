"""Inputs that models declare, and a query lacks: they are missing values, and the query is answered all the same."""

from collections.abc import Collection, Iterable
from typing import Any, NamedTuple

from msgspec import UNSET

from online_rank.base import ranker_of
from online_rank.base.forgetting import parts_of
from online_rank.preprocessing._keyed import keyed_steps
from online_rank.preprocessing.crosses import CrossFeatures
from online_rank.query.columns import Columns
from online_rank.rankers.fixed import FixedRanker

#: What `History` calls the id of a document.
DOCUMENT = "document"


class Declared(NamedTuple):
    """The names that models declare.

    Attributes
    ----------
    today
        Features of the ranking of today, from which lists are drawn.
    context
        Entries of the context.
    keys
        Parts of keys: features of a document, or entries of the context.
    """

    today: tuple[str, ...]
    context: tuple[str, ...]
    keys: tuple[str, ...]

    def lacking(self, message: Any) -> dict[str, set[Any]]:
        """The declared names that a query lacks, each with the documents that lack it: all of them, for the context's."""
        found, given = dict[str, set[Any]](), {} if message.context is UNSET else message.context
        every = None
        for name in (*self.today, *self.context, *self.keys):
            if name in self.context or (name not in self.today and name in given):
                if given.get(name) is None:
                    every = {*_documents(message)} if every is None else every
                    found[name] = every
            elif without := _without(message, name):
                found[name] = without
        return found

    def filled(self, context: Any) -> Any:
        """A context with None for the entries that it lacks; None for no context."""
        return context if context is None or not self.context else dict.fromkeys(self.context) | context


def declared_by(models: Iterable[Any]) -> Declared:
    """What models declare: the one that serves, and the challenger."""
    today, context, keys = dict[str, None](), dict[str, None](), dict[str, None]()
    for model in models:
        ranker = ranker_of(model)
        if isinstance(ranker, FixedRanker) and ranker.policy is not None and isinstance(ranker.weights, dict):
            today.update(dict.fromkeys(map(str, ranker.weights)))
        for cross in parts_of(model, CrossFeatures):
            context.update(dict.fromkeys(cross.keys))
        for step in keyed_steps(model):
            keys.update(dict.fromkeys(name for name in step.names if name != DOCUMENT))
    return Declared((*today,), (*context,), tuple(name for name in keys if name not in context))


def behind(scores: dict[Any, float], lacking: Collection[Any], waiting: dict[Any, float]) -> dict[Any, float]:
    """The scores of a query some of whose documents lack what the ranking of today needs.

    They come after all other documents, in the order of the model that waits; if all lack it, that model ranks.

    Examples
    --------
    >>> behind({"a": 0.0, "b": 3.0, "c": 0.0, "d": 2.0}, {"a", "c"}, {"a": 1.0, "b": 9.0, "c": 5.0, "d": 0.0})
    {'a': 0.0, 'b': 3.0, 'c': 1.0, 'd': 2.0}
    """
    least = min((score for name, score in scores.items() if name not in lacking), default=None)
    if least is None:
        return {name: waiting[name] for name in scores}
    last = sorted((name for name in scores if name in lacking), key=waiting.__getitem__, reverse=True)
    # Steps that a float of this size can hold.
    step = max(1.0, abs(least) * 1e-9)
    places = {name: least - step * (place + 1) for place, name in enumerate(last)}
    return {name: places.get(name, score) for name, score in scores.items()}


def _documents(message: Any) -> Collection[Any]:
    """The documents of a query in any form."""
    return message.given if message.runs is UNSET else message.asked().ids


def _without(message: Any, name: str) -> set[Any]:
    """The documents that lack a feature."""
    given = message.given
    if isinstance(given, Columns):
        return given.without(name)
    lacking = {document for document, features in given.items() if features.get(name) is None}
    return (
        lacking if message.runs is UNSET else lacking | {document for document in _documents(message) if document not in given}
    )
