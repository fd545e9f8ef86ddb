"""Queries as requests ask them: of documents that are known, no larger than the request allows; and the answers to them."""

import json
from collections.abc import Iterable, Iterator
from typing import Any

from msgspec import UNSET

from online_rank.base import abilities_of, parts_of, steps_of
from online_rank.base.reader import require_taken
from online_rank.base.step import QueryStep
from online_rank.feedback import Impression
from online_rank.limits import ALWAYS_DOCUMENTS, CELLS_A_BYTE, MAX_CELLS, MAX_DOCUMENTS, MAX_KNOWN_CELLS
from online_rank.preprocessing.history import AT
from online_rank.query import Block, Runs, read_query
from online_rank.query.columns import Columns
from online_rank.query.levels import as_table
from online_rank.serving.declared import declared_by


class Needs:
    """What the models of a service take: asked once, and again when another model serves or challenges.

    Parameters
    ----------
    models
        The model that serves, and the challenger's, with a challenge.
    takes_any_context
        Whether a request may have a context that no model looks at.

    Attributes
    ----------
    draws, takes_documents
        Whether the serving model draws lists, and takes features that are no numbers.
    declared
        The inputs that they declare.
    takes_context, takes_time, takes_vectors, remembers
        Whether any model looks at the context, asks for the time, takes vectors, or remembers feedback.
    reads_tables
        Whether the models are rankers alone that read documents as they come, numbers as columns of an array.
    """

    __slots__ = (
        "declared", "draws", "models", "parts", "reads_tables", "remembers", "takes_any_context", "takes_context",
        "takes_documents", "takes_time", "takes_vectors",
    )  # fmt: skip

    def __init__(self, models: list[Any], takes_any_context: bool = False) -> None:
        self.models, self.takes_any_context = models, takes_any_context
        parts = [(*parts_of(each),) for each in models]
        #: The steps of each model; None for a model with others inside, which may change.
        self.parts = [None if any(map(_has_others, each)) else each for each in parts]
        serving, able = abilities_of(models[0]), [abilities_of(each) for each in models]
        self.draws, self.takes_documents = serving.draws, serving.takes_documents
        self.takes_context, self.takes_time = any(a.takes_context for a in able), any(a.takes_time for a in able)
        self.takes_vectors = any(a.takes_vectors for a in able)
        self.remembers = any(a.remembers for a in able)
        self.reads_tables = self.takes_documents and all(len(steps_of(each)) == 1 for each in models)
        self.declared = declared_by(models)


def _has_others(step: Any) -> bool:
    """Whether a step has, or may have, models inside."""
    return getattr(type(step), "_wrapped", ()) != () or bool(getattr(step, "_wrapped", ()))


def query_of(needs: Needs, message: Any, only: Any = None, *, n_bytes: int | None = None) -> Block:
    """The query of a message, all of its documents or some.

    Parameters
    ----------
    needs
        What the models take that are to rank or learn it.
    message
        The request.
    only
        The documents that are meant; None for all.
    n_bytes
        Size of a new request, which must not ask for too large an array; None for one that was accepted before.
    """
    is_plain = message.rows is UNSET and message.runs is UNSET
    asked = message.docs if is_plain else message.asked()
    context = None if message.context is UNSET else needs.declared.filled(message.context)
    if n_bytes is not None and len(asked) > MAX_DOCUMENTS:
        raise ValueError(f"docs has {len(asked)} documents; a query may have {MAX_DOCUMENTS}")
    if only is not None:
        is_runs = not is_plain and isinstance(asked, Runs)
        require_known(only, asked.ids if is_runs else asked)
        if is_runs:
            raise ValueError("ungraded is 'skip'; documents of runs cannot be left out: ranks are in whole lists")
        asked = {name: features for name, features in asked.items() if name in only}
    if is_plain and needs.reads_tables:
        asked = as_table(asked) or asked
    elif isinstance(asked, Columns):
        asked = asked.as_block(categories=needs.takes_documents, missing=lambda: all(map(_takes_missing, needs.models)))
    query = read_query(asked, context=context, documents=needs.takes_documents)
    if n_bytes is not None:
        if context is not None and not (needs.takes_context or needs.takes_any_context):
            require_taken(needs.models[0], query)
        for model, parts in zip(needs.models, needs.parts, strict=True):
            require_moderate(model, query, n_bytes, parts)
            if context is not None and model.abilities.takes_context:
                require_short_context(query, context, n_bytes)
    return query


def _takes_missing(model: Any) -> bool:
    """Whether a model reads NaN as a missing value: its first step that reads does, and curves have begun with such queries."""
    reader = next(able for step in steps_of(model) if not (able := abilities_of(step)).passes_documents)
    return reader.takes_missing and all(getattr(part, "has_curves", True) for part in parts_of(model))


def remembering(needs: Needs, query: Block, at: float) -> Block:
    """A query that is ranked at a time; what steps make of earlier feedback on it waits with it (`Block.remembered`)."""
    return query._replace(remembered={AT: [at]}) if needs.remembers else query


def arranged(message: Any, scores: dict[Any, float], shown: Impression | None) -> dict[str, Any]:
    """The answer to a query, with the list that was drawn first, if one was, without the documents that it excludes."""
    excluded = () if message.excluded is UNSET else {*message.excluded}
    left = {name: score for name, score in scores.items() if name not in excluded} if excluded else scores
    ranking, drawn = sorted(left, key=left.__getitem__, reverse=True), {}
    if shown is not None:
        ranking = [*shown.page, *(name for name in ranking if name not in {*shown.page})]
        drawn = {"shown": len(shown.page)}
    return {"id": message.id, "ranking": ranking, "scores": [*map(left.__getitem__, ranking)], **drawn}


def as_served(documents: Any, order: list[str]) -> list[float]:
    """Scores that rank documents as they were shown; the others are tied after them."""
    place = {document: -float(position) for position, document in enumerate(order)}
    return [place.get(document, -float(len(order))) for document in documents]


def drawn_as(drawn: str) -> Impression:
    """The list of a query that waits."""
    return Impression.from_dict(json.loads(drawn))


def require_known(given: Any, documents: Any, which: str = "of the query") -> None:
    """Raise ValueError for feedback on a document that a query does not have, or that is not among others, by a name."""
    for name in given:
        if name not in documents:
            raise ValueError(f"document {name[:100]!r} is not among the documents {which}")


def require_moderate(model: Any, query: Block, n_bytes: int, parts: Iterable[Any] | None = None) -> None:
    """Raise ValueError if a step would turn the documents of a query into a much larger array; `parts` are known steps."""
    n = query.n_documents if query.ids is None else len(query.ids)
    n_features = len(query.names) if query.names is not None else _n_features(query)
    known, kept, given, more = 0, 0, n_features, 2
    for step in parts_of(model) if parts is None else parts:
        known = max(known, getattr(step, "n_features", None) or 0)
        kept = max(kept, getattr(step, "_n_documents_kept", 0))
        more = max(more, getattr(step, "_n_numbers_a_score", 0))
        if getattr(step, "_given", None) is not None:
            given = step._given(known + given)
    if n * max(known + given, kept, n) * more <= 2 * MAX_CELLS:  # Regardless of the steps.
        return
    for step, cells, known in arrays_of(model, n, n_features):
        allowed = cells_allowed(n_bytes, known)
        if cells > allowed:
            raise ValueError(
                f"docs has {n} documents, and they or the model have {max(n_features, known)} features: "
                f"{type(step).__name__} needs an array of {cells} numbers, and a request of {n_bytes} bytes may ask for "
                f"{allowed}. Rank fewer documents; or use HashedFeatures or MaxAbsStreamScaler with PerceptronRanker or "
                "GradientRanker, where documents stay sparse"
            )


def arrays_of(
    model: Any, n_documents: int, n_features: int, known: int = 0, is_array: bool = False
) -> Iterator[tuple[QueryStep, int, int]]:
    """The steps of a model, each with how many numbers its largest array of a query has, and how many features are known there.

    An array is one that it makes, or that a step before it has made.
    """
    for step in steps_of(model):
        known = max(known, _known(step))
        if isinstance(step, QueryStep):
            n_features = n_features if is_array else max(n_features, known)
            # An array of named columns gets those that the step knows, too.
            n_columns = max(n_features, _known(step))
            yield step, max(cells := step._cells(n_documents, n_columns), n_documents * n_columns * is_array), known
        for inner in getattr(step, "_wrapped", ()):
            yield from arrays_of(inner, n_documents, n_features, known, is_array)
        if isinstance(step, QueryStep):
            is_array = is_array or cells > 0
            n_features = n_features if step._given is None else step._given(n_features)


def require_short_context(query: Block, context: Any, n_bytes: int) -> None:
    """Raise ValueError for a context whose texts are too long to become part of the names of all features."""
    n_features = _n_features(query)
    length = sum(len(value) for value in context.values() if isinstance(value, str))
    allowed = 2 * cells_allowed(n_bytes)
    if n_features * length > allowed:
        raise ValueError(
            f"context has texts of {length} characters, which would become part of the names of {n_features} features: "
            f"{n_features * length} characters, and a request of {n_bytes} bytes may ask for {allowed}"
        )


def require_few_pairs(query: Block, n_bytes: int) -> None:
    """Raise ValueError for grades of too many documents, for a model that draws rankings: it compares them all."""
    n_features = query.X.shape[1] if hasattr(query.X, "shape") else sum(map(len, query.X))
    n, allowed = query.n_documents, cells_allowed(n_bytes)
    if n * max(n, n_features) > allowed:
        raise ValueError(
            f"grades: the query has {n} documents of {n_features} features, and a model that draws rankings compares each "
            f"graded document with all others: a query of {n_bytes} bytes may have {allowed} comparisons, and as many numbers"
        )


def _n_features(query: Block) -> int:
    return len(set().union(*query.X)) if query.names is None else len(query.names)


def _known(step: Any) -> int:
    """The number of features that a step knows."""
    return getattr(step, "n_features", None) or 0


def cells_allowed(n_bytes: int, known: int = 0) -> int:
    """How many numbers an array may have that a request of `n_bytes` asks for, if `known` features are known."""
    return max(MAX_CELLS + CELLS_A_BYTE * n_bytes, min(ALWAYS_DOCUMENTS * known, MAX_KNOWN_CELLS))
