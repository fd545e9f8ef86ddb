"""The parts of a model and its abilities.

A pipeline consists of steps. Some steps hold models: a tracker, a blend, a union. Every step declares once what is inside it
(`QueryStep._wrapped`), and one record holds what a model can do. All other modules use the functions of this one.
"""

import functools
from collections.abc import Hashable, Iterable, Iterator
from typing import Any, NamedTuple

from river import compose

from online_rank.base.lock import ModelLock, join_locks
from online_rank.measures.learned import AnyMeasure, measure_of


class Abilities(NamedTuple):
    """What a step accepts, and what it needs from the pipeline around it.

    Attributes
    ----------
    takes_documents
        As the first step of a pipeline it takes feature dicts unchanged, including text and categories.
    passes_documents
        It takes them too, and passes them on as dicts, if the next step takes them.
    takes_missing
        It takes NaN for a missing value.
    takes_sparse
        It takes `SparseRows`; other steps get a dense array, if that is not too large.
    takes_clicks
        It takes `Clicks` in place of grades.
    takes_served
        It takes scores that were served: `learn_one(x, y, served=scores)`.
    takes_any_list
        It learns from clicks on lists whose probabilities are not known, by the examination of positions.
    draws
        `show_one(x)` works without a policy given by the user.
    measures_answers
        It measures the served scores, so a pipeline must give it `Block.answered`.
    wants_scale
        A pipeline of scalers must give it `Block.scale`, query by query.
    takes_context
        What is known of a query itself: `rank_one(x, context={"user": "u17"})`.
    takes_vectors
        It takes lists of numbers among the features of documents, and in the context: vectors.
    takes_time
        The time of a query, which it must get: `learn_one(x, y, at=1_763_000_000)`.
    remembers
        It makes features of earlier feedback: the values that ranked a query wait with it (`Block.remembered`).
    learns
        How it treats a query depends on earlier queries.

    Examples
    --------
    >>> from online_rank import PerceptronRanker, StreamQuantileMap
    >>> PerceptronRanker().abilities.takes_sparse, (StreamQuantileMap() | PerceptronRanker()).abilities.takes_sparse
    (True, False)
    """

    takes_documents: bool = False
    passes_documents: bool = False
    takes_missing: bool = False
    takes_sparse: bool = False
    takes_clicks: bool = False
    takes_served: bool = False
    takes_any_list: bool = False
    draws: bool = False
    measures_answers: bool = False
    wants_scale: bool = False
    takes_context: bool = False
    takes_vectors: bool = False
    takes_time: bool = False
    remembers: bool = False
    learns: bool = True


def abilities_of(model: Any) -> Abilities:
    """The abilities of a model; the defaults for a model from another library.

    Examples
    --------
    >>> from online_rank import AdditiveRanker
    >>> from online_rank.base import abilities_of
    >>> abilities_of(AdditiveRanker()).takes_missing
    True
    """
    return (model._known or model.abilities) if hasattr(type(model), "abilities") else Abilities()


def steps_of(model: Any) -> list[Any]:
    """The steps of a pipeline, in order; of a pipeline without steps and of anything else, itself.

    Examples
    --------
    >>> from online_rank import PerceptronRanker, StreamScaler
    >>> [type(step).__name__ for step in steps_of(StreamScaler() | PerceptronRanker())]
    ['StreamScaler', 'PerceptronRanker']
    """
    if not _is_pipeline(type(model)):  # type: ignore[arg-type]
        return [model]
    return [part for step in model.steps.values() for part in steps_of(step)] or [model]


@functools.cache
def _is_pipeline(kind: Hashable) -> bool:
    """Whether a class is one of pipelines; remembered, since asking an abstract class takes several calls."""
    # Not isinstance: river lets a pipeline pass for its last step.
    return isinstance(kind, type) and issubclass(kind, compose.Pipeline)


def transformers_of(model: Any) -> list[Any]:
    """The steps of a pipeline before its ranker, in order."""
    return steps_of(model)[:-1]


def names_added(model: Any) -> frozenset[str]:
    """The names of the columns that parts of a model add to the features of a query, which no query has.

    Examples
    --------
    >>> from online_rank import AdditiveRanker, History
    >>> sorted(names_added(History("brand") | AdditiveRanker()))
    ['brand 7d age', 'brand 7d impressions', 'brand 7d rate']
    """
    return frozenset(name for part in parts_of(model) for name in getattr(part, "_adds", ()))


def ranker_of(model: Any) -> Any:
    """The ranker that a model ends in: the last step of a pipeline, or itself.

    Raises TypeError for a model that does not end in a ranker.
    """
    ranker = steps_of(model)[-1]
    if not getattr(type(ranker), "_is_ranker", False):
        raise TypeError(f"model is of type {type(model).__name__}; it is a ranker, or a pipeline that ends in one")
    return ranker


def _serving_models(model: Any) -> Iterator[Any]:
    """A model, then the inner model that serves the scores of its last step, and so on."""
    while model is not None:
        yield model
        last = steps_of(model)[-1]
        model = getattr(last, "_serving", None)


def serving_chain(model: Any) -> Iterator[Any]:
    """The last step of a model, then the last step of the inner model that serves its scores, and so on."""
    return (steps_of(inner)[-1] for inner in _serving_models(model))


def serving_ranker(model: Any) -> Any:
    """The ranker whose scores a model serves: its last step, or the ranker inside that, at any depth.

    Raises TypeError for a model that does not end in a ranker.

    Examples
    --------
    >>> from online_rank import LossTracker, PerceptronRanker, StreamScaler
    >>> type(serving_ranker(StreamScaler() | LossTracker(PerceptronRanker("ap")))).__name__
    'PerceptronRanker'
    """
    *_, ranker = serving_chain(ranker_of(model))
    return ranker


def learned_measure(model: Any) -> AnyMeasure:
    """What a model learns for: the measure of its ranker. A wrapper without a measure has the measure of the ranker inside.

    NDCG@10 if none has a measure.

    Examples
    --------
    >>> from online_rank import LossTracker, PerceptronRanker, StreamScaler
    >>> learned_measure(StreamScaler() | LossTracker(PerceptronRanker("ap"))).name
    'ap'
    """
    given = (getattr(part, "measure", None) for part in serving_chain(model))
    return measure_of(next((one for one in given if one is not None), "ndcg@10"))


def serving_steps(model: Any) -> list[Any]:
    """What a query goes through to be scored: all transformers, those inside wrappers too, then the ranker that serves.

    Raises TypeError for a model that does not end in a ranker.

    Examples
    --------
    >>> from online_rank import LossTracker, PerceptronRanker, StreamScaler
    >>> [type(step).__name__ for step in serving_steps(StreamScaler() | LossTracker(PerceptronRanker()))]
    ['StreamScaler', 'PerceptronRanker']
    """
    models = [*_serving_models(model)]
    return [*(step for inner in models for step in transformers_of(inner)), *map(ranker_of, models[-1:])]


def parts_of(model: Any) -> Iterator[Any]:
    """The steps of a model, each followed by the steps of what is inside it."""
    for step in steps_of(model):
        yield step
        for inner in getattr(step, "_wrapped", ()):
            yield from parts_of(inner)


def share_lock(model: Any, *joining: Any) -> None:
    """Give a model, its parts and the parts joining it one lock, together with other models that share a part."""
    join_locks(
        [part for whole in (model, *joining) for part in _within(whole) if type(getattr(part, "_lock", None)) is ModelLock]
    )


def _within(model: Any) -> Iterator[Any]:
    """A model, the steps of a pipeline, what is inside a wrapper, and so on."""
    yield model
    if issubclass(type(model), compose.Pipeline):
        inside: Iterable[Any] = model.steps.values()
    else:
        inside = (*getattr(model, "_wrapped", ()), *getattr(model, "_parts", ()))
    for part in inside:
        yield from _within(part)
