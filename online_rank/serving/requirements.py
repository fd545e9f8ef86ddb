"""What requests may ask for: documents that are known, and no arrays that are much larger than the request."""

from collections.abc import Iterator
from typing import Any

from online_rank.base import parts_of, steps_of
from online_rank.base.step import QueryStep
from online_rank.limits import ALWAYS_DOCUMENTS, CELLS_A_BYTE, MAX_CELLS, MAX_KNOWN_CELLS
from online_rank.query import Block


def require_known(given: Any, documents: Any, which: str = "of the query") -> None:
    """Raise ValueError for feedback on a document that a query does not have, or that is not among others, by a name."""
    for name in given:
        if name not in documents:
            raise ValueError(f"document {name[:100]!r} is not among the documents {which}")


def require_moderate(model: Any, query: Block, n_bytes: int) -> None:
    """Raise ValueError if a step would turn the documents of a query into a much larger array."""
    n, n_features = query.n_documents, _n_features(query)
    known, kept, given, more = 0, 0, n_features, 2
    for step in parts_of(model):
        known, kept = max(known, _known(step)), max(kept, getattr(step, "_n_documents_kept", 0))
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
    return getattr(step, "n_features", None) or 0


def cells_allowed(n_bytes: int, known: int = 0) -> int:
    """How many numbers an array may have that a request of `n_bytes` asks for, if `known` features are known."""
    return max(MAX_CELLS + CELLS_A_BYTE * n_bytes, min(ALWAYS_DOCUMENTS * known, MAX_KNOWN_CELLS))
