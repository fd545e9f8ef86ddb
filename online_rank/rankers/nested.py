"""Base class of rankers that hold rankers."""

from collections.abc import Sequence
from typing import Any, ClassVar

import numpy as np

from online_rank._kernels.arrays import all_finite
from online_rank.base import Abilities, Ranker, RankingPipeline, ranker_of, steps_of
from online_rank.base.reader import Reader, own_names
from online_rank.query import Block, SparseRows, feature_dicts, require_finite, single, with_features


class NestedReader(Reader):
    """Lets the first ranker inside read queries, if all of them take documents as they are."""

    def of(self, step: Any) -> Any:
        """The ranker inside that reads queries for the one around it, or None."""
        return step._wrapped[0] if (step._known or step.abilities).takes_documents and not step._passes else None

    def fits(self, step: Any, block: Block) -> bool:
        """As for every reader, or whether the block fits the ranker that reads."""
        if step._passes:
            return block.names is None
        inner = self.of(step)
        return super().fits(step, block) if inner is None else bool(inner._reader.fits(inner, block))

    def align(self, step: Any, block: Block, grow: bool = False) -> Block:
        """As for every reader, or as the ranker that reads aligns the block."""
        if step._passes:
            # Models inside get documents, so columns with names become such.
            return with_features(block, feature_dicts(block), None)
        inner = self.of(step)
        if inner is None:
            return super().align(step, block, grow)
        block = inner._reader.align(inner, block, grow)
        share_columns(inner, step)
        return block


class NestedRanker(Ranker):
    """A ranker that holds others, which learn from its features; a rejected query leaves all of them unchanged.

    Copies of the constructor's arguments learn, so the arguments themselves never change. The copies are in `learner` or
    `learners`. A ranker inside has the columns of this one; a pipeline reads each query itself.
    """

    _reader = NestedReader()

    #: Abilities that it has if all inner rankers have them.
    _forwards: ClassVar[tuple[str, ...]] = ()

    #: Whether its scores combine the scores of several models, which add features themselves as they learn.
    _combines: ClassVar[bool] = False

    #: Whether each model inside reads documents itself, and some make other features of them.
    _passes: Any = False

    @property
    def _serving(self) -> Any:
        return None if self._combines else self._wrapped[0]

    def _abilities(self) -> Abilities:
        inside = [model.abilities for model in self._wrapped]
        takes_time = any(able.takes_time for able in inside)
        read = not any(isinstance(model, RankingPipeline) or not model.abilities.takes_documents for model in self._wrapped)
        return Abilities(
            takes_time=takes_time,
            takes_documents=read,
            takes_missing=read,
            takes_context=read and any(able.takes_context for able in inside),
            **{name: all(getattr(able, name) for able in inside) for name in self._forwards},
        )

    def _require_values(self, block: Block) -> None:
        inner = self._reader.of(self)
        (require_finite if inner is None else inner._require_values)(block)

    @property
    def _own_policy(self) -> Any:
        return ranker_of(self._serving)._own_policy if self.abilities.draws else None

    def _confidence(self) -> float:
        return ranker_of(self._serving)._confidence() if self.abilities.draws else 1.0

    def _grow(self, n_new: int) -> None:
        """The state is in the inner rankers, which grow when they learn."""

    def _share_columns(self) -> None:
        """Give the inner rankers, which get features in the columns of this one, all of its columns."""
        if not self._combines:
            share_columns(self, *self._wrapped)

    def _score(self, X: Any) -> np.ndarray:
        return self._score_queries(X, single(X.shape[0]))

    def _score_queries(self, X: Any, offsets: np.ndarray) -> np.ndarray:
        return self._scores_of(self._serving, X, offsets)

    def _is_learned_one_by_one(self, block: Block) -> bool:
        inner = self._reader.of(self)
        return inner is not None and bool(inner._is_learned_one_by_one(block))

    def _learn(self, block: Block, rounds: np.ndarray) -> int:
        self._share_columns()
        return super()._learn(with_features(block, block.X, self.feature_names), rounds)

    def _scores_of(self, model: Ranker | RankingPipeline, X: Any, offsets: np.ndarray) -> np.ndarray:
        """The scores of a model inside, float64 (n,), for queries in the columns of this ranker; NaN where X is not finite."""
        if not isinstance(model, RankingPipeline):
            return model._score_queries(X, offsets)
        if not all_finite((X.values if isinstance(X, SparseRows) else X).reshape(-1)):
            # Whoever asked knows the documents' ids, and names the bad one.
            return np.full(X.shape[0], np.nan)
        return model._score_all(Block(X, None, offsets, np.ones(len(offsets) - 1), names=self.feature_names))


def share_columns(source: Ranker, *rankers: Ranker | RankingPipeline) -> None:
    """Let rankers, and those inside them, know the features that `source` has met; pipelines meet them as they learn."""
    for ranker in rankers:
        if isinstance(ranker, RankingPipeline):
            continue
        if n_new := source._n_features - ranker._n_features:
            ranker._reader.extend(ranker, None if source._columns is None else source._columns.since(ranker._n_features), n_new)
        if isinstance(ranker, NestedRanker):
            ranker._share_columns()


def adopt_features(owner: Ranker, rankers: Sequence[Ranker | RankingPipeline]) -> None:
    """Give `owner` the features of rankers that were trained before, and give each ranker all of them.

    Raises ValueError if their features differ, or are in another order.
    """
    owner._reader.meet_features_of(owner, [step for step in map(first_step, rankers) if step is not None])
    known = own_names(owner)
    for i, ranker in enumerate(rankers):
        if not isinstance(ranker, RankingPipeline) and tuple(own_names(ranker)) != tuple(known[: ranker._n_features]):
            raise ValueError(f"rankers[{i}] has learned from other features than the rankers before it, or in another order")
    share_columns(owner, *rankers)


def first_step(model: Ranker | RankingPipeline) -> Any:
    """What meets the features of a model as they come, if it keeps their names."""
    first = steps_of(model)[0]
    return None if getattr(first, "_reader", None) is None else first


def teach(model: Ranker | RankingPipeline, query: Block, row: np.ndarray) -> bool:
    """Let a model learn one query; `row` (1, fields of Round) receives its round. Returns whether it did.

    A ranker does so all or nothing; a pipeline that rejects the query raises, and callers undo.
    """
    if isinstance(model, RankingPipeline):
        model._learn_block(query)
        row[:] = ranker_of(model)._last_round
        return True
    if model._learn(query, row) == 0:
        return False
    model._last_round = row.copy()
    return True


def require_model(name: str, model: Any) -> None:
    """Raise TypeError unless a model is a ranker, or a pipeline that ends in one."""
    if not issubclass(type(model), Ranker | RankingPipeline) or not issubclass(type(steps_of(model)[-1]), Ranker):
        raise TypeError(f"{name} is {model!r}; it is a ranker, or a pipeline that ends in one")
    if any(step.abilities.takes_context for step in steps_of(model)[:-1]):
        raise TypeError(f"{name} uses the context of a query; such a step goes in front of the whole")
