"""Queries as requests ask them, and the answers to them."""

import json
from typing import TYPE_CHECKING, Any

from msgspec import UNSET

from online_rank.base import abilities_of, parts_of, steps_of
from online_rank.base.reader import require_taken
from online_rank.feedback import Impression
from online_rank.limits import MAX_DOCUMENTS
from online_rank.preprocessing.history import AT
from online_rank.query import Block, Runs, read_query
from online_rank.query.columns import Columns
from online_rank.serving import requirements

if TYPE_CHECKING:
    from online_rank.serving.service_state import ServiceState


def query_of(state: "ServiceState", message: Any, only: Any = None, *, n_bytes: int | None = None) -> Block:
    """The query of a message, all of its documents or some.

    Parameters
    ----------
    state
        The state, with the model that is to rank or learn it.
    message
        The request.
    only
        The documents that are meant; None for all.
    n_bytes
        Size of a new request, which must not ask for too large an array; None for one that was accepted before.
    """
    asked, context = message.asked(), message.context
    context = None if context is UNSET else context
    if n_bytes is not None and len(asked) > MAX_DOCUMENTS:
        raise ValueError(f"docs has {len(asked)} documents; a query may have {MAX_DOCUMENTS}")
    if only is not None:
        is_runs = isinstance(asked, Runs)
        requirements.require_known(only, asked.ids if is_runs else asked)
        if is_runs:
            raise ValueError("ungraded is 'skip'; documents of runs cannot be left out: ranks are in whole lists")
        asked = {name: features for name, features in asked.items() if name in only}
    models = state.models
    if isinstance(asked, Columns):
        asked = asked.as_block(categories=abilities_of(state.model).takes_documents, missing=all(map(_takes_missing, models)))
    query = read_query(asked, context=context, documents=abilities_of(state.model).takes_documents)
    if n_bytes is not None:
        if context is not None and not (state.takes_any_context or any(abilities_of(each).takes_context for each in models)):
            require_taken(state.model, query)
        for model in models:
            requirements.require_moderate(model, query, n_bytes)
            if model.abilities.takes_context and context is not None:
                requirements.require_short_context(query, context, n_bytes)
    return query


def _takes_missing(model: Any) -> bool:
    """Whether a model reads NaN as a missing value: its first step that reads does, and curves have begun with such queries."""
    reader = next(able for step in steps_of(model) if not (able := abilities_of(step)).passes_documents)
    return reader.takes_missing and all(getattr(part, "has_curves", True) for part in parts_of(model))


def remembering(state: "ServiceState", query: Block, at: float) -> Block:
    """A query that is ranked at a time; what steps make of earlier feedback on it waits with it (`Block.remembered`)."""
    return query._replace(remembered={AT: [at]}) if any(abilities_of(each).remembers for each in state.models) else query


def arranged(message: Any, scores: dict[Any, float], shown: Impression | None) -> dict[str, Any]:
    """The answer to a query, with the list that was drawn first, if one was, without the documents that it excludes."""
    excluded = () if message.excluded is UNSET else {*message.excluded}
    left = {name: score for name, score in scores.items() if name not in excluded} if excluded else scores
    ranking, drawn = sorted(left, key=left.__getitem__, reverse=True), {}
    if shown is not None:
        ranking = [*shown.page, *(name for name in ranking if name not in {*shown.page})]
        drawn = {"shown": len(shown.page)}
    return {"id": message.id, "ranking": ranking, "scores": [left[name] for name in ranking], **drawn}


def as_served(documents: Any, order: list[str]) -> list[float]:
    """Scores that rank documents as they were shown; the others are tied after them."""
    place = {document: -float(position) for position, document in enumerate(order)}
    return [place.get(document, -float(len(order))) for document in documents]


def drawn_as(drawn: str) -> Impression:
    """The list of a query that waits."""
    return Impression.from_dict(json.loads(drawn))
