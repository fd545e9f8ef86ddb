"""What a model is made of, and what it can do.

A pipeline is made of steps; a wrapper holds models: a tracker, a watcher of drift, a choice, a blend, a frozen copy. Every
wrapper declares once what it holds, and what a model can do is one record. All other modules ask here.
"""

import abc
from collections.abc import Iterable, Iterator, Sequence
from typing import Any, NamedTuple, Self

from river import compose

from online_rank.base.lock import Locked, join_locks

__all__ = [
    "Abilities",
    "Able",
    "Wrapper",
    "abilities_of",
    "parts_of",
    "ranker_of",
    "serving_chain",
    "serving_ranker",
    "serving_steps",
    "share_lock",
    "steps_of",
    "transformers_of",
]


class Abilities(NamedTuple):
    """What a step can take, and what it asks of the pipeline around it.

    Attributes
    ----------
    takes_documents
        Feature dicts as the user gave them, texts and categories included, as the first step of a pipeline.
    takes_sparse
        `SparseRows`; other steps get an array, where it is not too large.
    takes_clicks
        `Clicks` in place of grades.
    takes_served
        Scores that were served: `learn_one(x, y, served=scores)`.
    draws
        `show_one(x)` without a policy of the user's.
    measures_answers
        It measures what was served, so that a pipeline is to give it `Block.answered`.
    wants_scale
        A pipeline of scalers is to give it `Block.scale`, query by query.
    takes_context
        What is known of a query itself: `rank_one(x, context={"user": "u17"})`.
    learns
        What it does to a query depends on queries before.

    Examples
    --------
    >>> from online_rank import PerceptronRanker, StreamQuantileMap
    >>> PerceptronRanker().abilities.takes_sparse, (StreamQuantileMap() | PerceptronRanker()).abilities.takes_sparse
    (True, False)
    """

    takes_documents: bool = False
    takes_sparse: bool = False
    takes_clicks: bool = False
    takes_served: bool = False
    draws: bool = False
    measures_answers: bool = False
    wants_scale: bool = False
    takes_context: bool = False
    learns: bool = True


def abilities_of(model: Any) -> Abilities:
    """What a model can do; of one that is not of this library, nothing is known."""
    return model.abilities if isinstance(model, Able) else Abilities()


class Able(Locked):
    """What says what it can do."""

    # In a slot, as the lock is: not state, and found again by a copy.
    __slots__ = ("_known",)

    _known: Abilities | None

    def __new__(cls, *arguments: Any, **named: Any) -> Self:
        """Make the object, with its lock."""
        self = super().__new__(cls, *arguments, **named)
        self._known = None
        return self

    @property
    def abilities(self) -> Abilities:
        """What it can take, and what it asks of the pipeline around it."""
        # Asked several times a query, and always the same.
        known = self._known
        if known is None:
            known = self._known = self._abilities()
        return known

    def _abilities(self) -> Abilities:
        """As `abilities`, by the settings. What a class cannot do it need not mention."""
        return Abilities()

    def __setstate__(self, state: dict[str, Any]) -> None:
        super().__setstate__(state)
        share_lock(self)


class Wrapper(abc.ABC):
    """What holds models, or steps."""

    @property
    @abc.abstractmethod
    def _wrapped(self) -> Sequence[Any]:
        """What is inside, in a fixed order: what learns and ranks, not the constructor's arguments of which it is a copy."""

    @property
    def _serving(self) -> Any:
        """The model inside whose scores are served; None where scores are made of those of several."""
        return self._wrapped[0]

    @property
    def _parts(self) -> Sequence[Any]:
        """What is inside, and whatever else there changes as it learns, such as a detector or a map in front of all."""
        return self._wrapped


def steps_of(model: Any) -> list[Any]:
    """The steps of a pipeline, in order; of anything else, itself.

    Examples
    --------
    >>> from online_rank import PerceptronRanker, StreamScaler
    >>> [type(step).__name__ for step in steps_of(StreamScaler() | PerceptronRanker())]
    ['StreamScaler', 'PerceptronRanker']
    """
    # Not isinstance: river lets a pipeline pass for its last step.
    if not issubclass(type(model), compose.Pipeline):
        return [model]
    return [part for step in model.steps.values() for part in steps_of(step)]


def transformers_of(model: Any) -> list[Any]:
    """The steps of a pipeline before its ranker, in order."""
    return steps_of(model)[:-1]


def ranker_of(model: Any) -> Any:
    """The ranker that a model ends in: the last step of a pipeline, or itself.

    Raises TypeError for a model that does not end in a ranker.
    """
    ranker = next(reversed(steps_of(model)), None)
    if not getattr(type(ranker), "_is_ranker", False):
        raise TypeError(f"model is of type {type(model).__name__}; it is a ranker, or a pipeline that ends in one")
    return ranker


def serving_chain(model: Any) -> Iterator[Any]:
    """The last step of a model, the last step of the model inside whose scores that one serves, and so on."""
    while model is not None:
        last = next(reversed(steps_of(model)), None)
        yield last
        model = last._serving if isinstance(last, Wrapper) else None


def serving_ranker(model: Any) -> Any:
    """The ranker whose scores a model serves: the one that it ends in, or the one inside that, in any depth.

    Raises TypeError for a model that does not end in a ranker.

    Examples
    --------
    >>> from online_rank import DriftAwareRanker, LossTracker, PerceptronRanker, StreamScaler
    >>> type(serving_ranker(StreamScaler() | LossTracker(DriftAwareRanker(PerceptronRanker("ap"))))).__name__
    'PerceptronRanker'
    """
    *_, ranker = serving_chain(ranker_of(model))
    return ranker


def serving_steps(model: Any) -> list[Any]:
    """What a query goes through to be scored: all transformers, those inside wrappers too, then the ranker that serves.

    Raises TypeError for a model that does not end in a ranker.

    Examples
    --------
    >>> from online_rank import DriftAwareRanker, PerceptronRanker, StreamScaler
    >>> [type(step).__name__ for step in serving_steps(DriftAwareRanker(StreamScaler() | PerceptronRanker()))]
    ['StreamScaler', 'PerceptronRanker']
    """
    transformers = []
    while True:
        transformers += transformers_of(model)
        ranker = ranker_of(model)
        model = ranker._serving if isinstance(ranker, Wrapper) else None
        if model is None:
            return [*transformers, ranker]


def parts_of(model: Any) -> Iterator[Any]:
    """The steps of a model, each followed by the steps of what is inside it."""
    for step in steps_of(model):
        yield step
        for inner in step._wrapped if isinstance(step, Wrapper) else ():
            yield from parts_of(inner)


def share_lock(model: Any, *joining: Any) -> None:
    """Let a model, all that it is made of, and what is joining it have one lock, also with other models that share a part."""
    join_locks([part for whole in (model, *joining) for part in _within(whole) if isinstance(part, Locked)])


def _within(model: Any) -> Iterator[Any]:
    """A model, the steps of a pipeline, what is inside a wrapper, and so on."""
    yield model
    if issubclass(type(model), compose.Pipeline):
        inside: Iterable[Any] = model.steps.values()
    else:
        inside = model._parts if isinstance(model, Wrapper) else ()
    for part in inside:
        yield from _within(part)
