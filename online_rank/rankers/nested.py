"""What rankers that hold rankers share."""

from collections.abc import Callable, Sequence
from typing import Any, ClassVar

import numpy as np

from online_rank.base import Abilities, Ranker, RankingPipeline, Wrapper, steps_of
from online_rank.base.undo import joined, snapshot
from online_rank.query import Block

__all__ = [
    "NestedRanker",
    "adopt_features",
    "learn_query",
    "require_model",
    "require_ranker",
    "served_scores",
    "share_columns",
]


class NestedRanker(Wrapper, Ranker):
    """A ranker that holds others, which learn on its features; a rejected query leaves all of them as they were.

    Those that learn are copies of what the constructor was given: its arguments stay as they are. They are found under
    `learner`, or `learners`.
    """

    @property
    def _reporter(self) -> Ranker:
        """The ranker inside whose round will be that of the next query."""
        raise NotImplementedError(f"{type(self).__name__} does not say whose rounds it reports")

    #: The abilities that it has if all rankers inside have them.
    _forwards: ClassVar[tuple[str, ...]] = ()

    def _abilities(self) -> Abilities:
        inside = [model.abilities for model in self._wrapped]
        return Abilities(**{name: all(getattr(able, name) for able in inside) for name in self._forwards})

    @property
    def _own_policy(self) -> Any:
        return self._serving._own_policy if self.abilities.draws else None

    def _confidence(self) -> float:
        return self._serving._confidence() if self.abilities.draws else 1.0

    def _grow(self, n_new: int) -> None:
        """The state is that of the rankers inside, which grow when they learn."""

    def _share_columns(self) -> None:
        """Let the rankers inside, which get features in the columns of this one, know all that it has met."""
        share_columns(self, *self._wrapped)

    def _snapshot(self, block: Any = None) -> Callable[[], None]:
        return joined(super()._snapshot(block), *(snapshot(part, block) for part in self._parts))


def share_columns(source: Ranker, *rankers: Ranker) -> None:
    """Let rankers, and those inside them, know the features that `source` has met."""
    for ranker in rankers:
        if n_new := source._n_features - ranker._n_features:
            ranker._extend(None if source._columns is None else source._columns.since(ranker._n_features), n_new)
        if isinstance(ranker, NestedRanker):
            ranker._share_columns()


def adopt_features(owner: Ranker, rankers: Sequence[Ranker]) -> None:
    """Let `owner` know the features of rankers that have learned before, and each of the rankers all of them.

    Raises ValueError where they know features that differ, or stand in another order.
    """
    owner._meet_features_of(rankers)
    known = owner._own_names()
    for i, ranker in enumerate(rankers):
        if tuple(ranker._own_names()) != tuple(known[: ranker._n_features]):
            raise ValueError(f"rankers[{i}] has met its features in another order than those before it, or other features")
    share_columns(owner, *rankers)


def learn_query(ranker: Ranker, query: Block, row: np.ndarray) -> bool:
    """Let a ranker learn one query, all or nothing; `row` (1, fields of Round) receives its round. Returns whether it did."""
    if ranker._learn(query, row) == 0:
        return False
    ranker._last_round = row.copy()
    return True


def served_scores(query: Block, ranker: Ranker) -> np.ndarray:
    """The scores that a query was served with: as they were given, as the pipeline answered, or as `ranker` gives them now."""
    if query.served is not None:
        return query.served
    return ranker._score(query.X) if query.answered is None else query.answered


def require_model(name: str, model: Any) -> None:
    """Raise TypeError unless a model is a ranker, or a pipeline that ends in one."""
    if not issubclass(type(model), Ranker | RankingPipeline) or not issubclass(type(steps_of(model)[-1]), Ranker):
        raise TypeError(f"{name} is {model!r}; it is a ranker, or a pipeline that ends in one")
    if model.abilities.takes_context:
        raise TypeError(f"{name} looks at what is known of a query; such a step goes in front of the whole")


def require_ranker(name: str, ranker: Any) -> None:
    """Raise TypeError unless `ranker` is one, and not a pipeline."""
    # Not isinstance: river lets a pipeline pass for its last step.
    if not issubclass(type(ranker), Ranker):
        raise TypeError(f"{name} is {ranker!r}; it is a ranker. Transformers go in front of the whole, as in scaler | ranker")
