"""Pipelines that end in a ranker."""
# river's pipeline types a single document, a dict, where ours takes a query, and a block here comes with query ids:
# mypy: disable-error-code="assignment, misc, override"

import itertools
import types
from collections.abc import Sequence
from typing import Any

import numpy as np
from river import compose

from online_rank.base import calls
from online_rank.base.anatomy import Abilities, share_lock
from online_rank.base.calls import best_first
from online_rank.base.function import QueryFunction
from online_rank.base.ranker import Ranker
from online_rank.base.reader import only_taken, read_for
from online_rank.base.rounds import Round
from online_rank.base.schema import Derived, Schema
from online_rank.base.signs import signs_of_features
from online_rank.base.step import QueryStep, require_query_step
from online_rank.base.transformer import QueryTransformer
from online_rank.base.undo import Undo, all_or_nothing, record
from online_rank.query import Block, feature_dicts

#: How many numbers of a block pass through the steps of a pipeline at once.
_BYTES_AT_ONCE = 2 << 20


class RankingPipeline(QueryStep, compose.Pipeline):
    """A river pipeline whose steps work on whole queries; it has the methods of its last step, a ranker.

    `transformer | ranker` gives one. A query is converted to arrays once, and then passes from step to step. As
    in every river pipeline, learning from a query first teaches a transformer, then transforms the query with it; a prediction
    teaches nothing (unless inside `river.compose.learn_during_predict()`).

    A query or block that any step rejects leaves every step as it was.

    Parameters
    ----------
    steps
        Transformers of queries (from `online_rank.preprocessing`, or any river transformer inside `ForEachDocument`) and
        functions of a query, then a ranker; each alone or as (name, step).

    Raises
    ------
    TypeError
        A step is neither a transformer nor a ranker, or it follows a ranker.

    Examples
    --------
    >>> from online_rank import PerceptronRanker, StreamScaler
    >>> model = StreamScaler() | PerceptronRanker()
    >>> model.learn_one({"a": {"clicks": 3}, "b": {"clicks": 1}}, {"a": 0, "b": 2})
    >>> model.rank_one({"c": {"clicks": 2}, "d": {"clicks": 0}})
    ['d', 'c']
    >>> model["StreamScaler"].means
    {'clicks': 2.0}
    """

    # River's processing of the steps.
    _schema = Schema(
        _plan=Derived(), _inference_transformers=Derived(), _last_step_cached=Derived(), _last_step_params=Derived()
    )

    learn_one, learn_many = calls.learn_one, calls.learn_many
    predict_one, predict_many, rank_one = calls.predict_one, calls.predict_many, calls.rank_query
    explain_one, show_one, _answer = calls.explain_one, calls.show_one, calls.answer
    transform_one, transform_many = calls.transform_one, calls.transform_many
    __or__, __ror__ = compose.Pipeline.__or__, compose.Pipeline.__ror__

    # Defined so that signatures show it: a base class before river's pipeline, has a `__new__` that takes anything.
    def __init__(self, *steps: Any) -> None:
        super().__init__(*steps)

    @property
    def _last_step(self) -> Any:
        # Not an IndexError: river's `isinstance` asks whether there is one.
        if not self.steps:
            raise AttributeError("the pipeline has no steps")
        return super()._last_step

    def _add_step(self, obj: Any, at_start: bool) -> None:
        name, step = obj if isinstance(obj, tuple) else (None, obj)
        if isinstance(step, compose.Pipeline):
            steps = list(step.steps.items())
            for pair in reversed(steps) if at_start else steps:
                self._add_step(pair, at_start)
            return
        if isinstance(step, type):
            step = step()
        if isinstance(step, compose.FuncTransformer):
            step = step.func
        if isinstance(step, types.FunctionType | types.BuiltinFunctionType | types.MethodType):
            name, step = name or step.__name__, QueryFunction(step)
        require_query_step(step)
        if self.steps and isinstance(step if at_start else self._last_step, Ranker):
            ranker, other = (step, self[0]) if at_start else (self._last_step, step)
            raise TypeError(f"{type(other).__name__} cannot follow {type(ranker).__name__}: a ranker is the last step")
        super()._add_step((name, step) if name is not None else step, at_start)
        signs_of_features(self)  # Raises if transformers undo the signs of weights that the ranker has.
        self._known = None
        share_lock(self)

    def __repr__(self) -> str:
        return type(self).__name__ + super().__repr__().removeprefix("Pipeline")

    @property
    def _supervised(self) -> bool:
        return any(step._supervised for step in self.steps.values())

    @property
    def last_round(self) -> Round | None:
        """The `Round` of the last query that the ranker learned; None before the first."""
        with self._lock:
            return self._ranker.last_round

    def debug_one(self, x: Any, n_decimals: int = 5, n_shown: int = 10, *, context: Any = None, at: Any = None) -> str:
        """A text that shows a query after each step of the pipeline.

        Parameters
        ----------
        x
            The query.
        n_decimals
            Digits after the decimal point.
        n_shown
            Most documents and features to show.
        context
            Facts about the query.
        at
            Its time in seconds, where a step depends on it.

        Examples
        --------
        >>> from online_rank import PerceptronRanker, StreamScaler
        >>> model = StreamScaler() | PerceptronRanker()
        >>> model.learn_one({"a": {"clicks": 3}, "b": {"clicks": 1}}, {"a": 0, "b": 2})
        >>> print(model.debug_one({"c": {"clicks": 2}, "d": {"clicks": 0}}, n_decimals=1))
        0. Input
        --------
        c: clicks=2.0
        d: clicks=0.0
        <BLANKLINE>
        1. StreamScaler
        ---------------
        c: clicks=0.0
        d: clicks=-2.0
        <BLANKLINE>
        2. PerceptronRanker
        -------------------
        d: ...
        c: ...
        """
        block = read_for(self, x, context=context, at=at)
        texts = [_text("0. Input", block, feature_dicts(block), n_decimals, n_shown)]
        with self._lock:
            for i, step in enumerate(self.steps.values(), start=1):
                if step._is_ranker:
                    scores = step._score_all(block)
                    order = best_first(scores)
                    ids = order if block.ids is None else best_first(scores, block.ids)
                    block = block._replace(ids=ids)
                    shown: list[Any] = [scores[j] for j in order]
                else:
                    block = step._transform_block(block)
                    shown = feature_dicts(block)
                title = f"{i}. {step if isinstance(step, QueryFunction) else type(step).__name__}"
                texts.append(_text(title, block, shown, n_decimals, n_shown))
        return "\n\n".join(texts)

    def _record(self, log: list[Undo], block: Any = None) -> None:
        """Add to a log what undoes a change of any step; of sparse features, the rows in the block alone."""
        if getattr(next(reversed(self.steps.values()), None), "_rows", None) is None:
            block = None
        for step in self.steps.values():
            record(log, step, block)
            if block is not None and not step._is_ranker and not step._keeps_columns:
                # What learns makes of it cannot be known before it learns.
                block = None if step.abilities.learns else step._transform_block(block)

    @property
    def _ranker(self) -> Ranker:
        ranker: Any = next(reversed(self.steps.values()), None)
        if not getattr(ranker, "_is_ranker", False):
            raise TypeError(f"the pipeline {' | '.join(self.steps)} does not end in a ranker")
        return ranker

    def _abilities(self) -> Abilities:
        steps = [step.abilities for step in self.steps.values()]
        reader = next((step for step in steps if not step.passes_documents), Abilities())
        learns_before = any(step.abilities.learns for step in self._transformers)
        return (
            steps[-1]._replace(
                takes_documents=reader.takes_documents,
                takes_sparse=all(step.takes_sparse for step in steps),
                # Otherwise the ranker itself can compute the served scores before it learns.
                measures_answers=steps[-1].measures_answers and learns_before,
                takes_context=any(step.takes_context for step in steps),
                takes_vectors=any(step.takes_vectors for step in steps),
                takes_time=any(step.takes_time for step in steps),
                remembers=any(step.remembers for step in steps),
                learns=any(step.learns for step in steps),
            )
            if steps
            else Abilities()
        )

    def _scale(self) -> np.ndarray:
        """The current divisors of the features in the transformers, float64 (d,)."""
        scale = np.ones(1)
        for step in self._transformers:
            if step._scale is None:
                raise ValueError(f"comparators on raw features go behind scalers alone, not behind {type(step).__name__}")
            scale = scale * step._scale()
        return scale

    @property
    def _transformers(self) -> list[QueryTransformer]:
        return [step for step in self.steps.values() if not step._is_ranker]

    @property
    def _n_unnamed(self) -> int:
        first: Any = next(iter(self.steps.values()), None)
        n_features: int = getattr(first, "_n_features", 0)
        return n_features if n_features and first._columns is None else 0

    def _learn_block(self, block: Block, changes: all_or_nothing | None = None) -> None:
        if block.y is None and self._supervised:
            raise TypeError("y is None, but this pipeline learns from grades")
        n_queries = len(block.w)
        if n_queries > 1 and changes is not None:
            # A few megabytes at a time, so that the output of the transformers stays in the cache and needs little memory.
            at_once = max(1, _BYTES_AT_ONCE * n_queries // max(1, getattr(block.X, "nbytes", 0)))
            if at_once < n_queries:
                changes.include(self)
                for first in range(0, n_queries, at_once):
                    self._learn_block(block.queries(first, min(first + at_once, n_queries)))
                return
            if self._names_by_query:
                changes.include(self)
                for query in block.each():
                    self._learn_block(query)
                return
        able = self._known or self.abilities
        measures, scaled = able.measures_answers, able.wants_scale
        if block.y is None or not (measures or scaled):
            self._pass_on(block, changes)
            return
        if changes is not None:
            changes.include(self)
        if measures and self._takes_in_turn(block):
            self._ask_and_learn(block, block)
            return
        # The scores that would have been served can be computed only before the transformers learn the query.
        for query in block.each():
            self._pass_on(query._replace(answered=self._score_all(query) if measures else None), scaled=scaled)

    @property
    def _names_by_query(self) -> bool:
        """Whether an absent name is not a 0, but missing: a block has the names of all its queries."""
        *before, last = self.steps.values()
        return last.abilities.takes_missing and any(getattr(step, "_makes_names", False) for step in before)

    def _takes_in_turn(self, block: Block) -> bool:
        """Whether all steps can rank and learn a block of graded queries in turn (`_ask_and_learn`)."""
        plain = block.names is None and block.served is None and block.context is None
        if self._LEARN_UNSUPERVISED_DURING_PREDICT or not plain or self.abilities.wants_scale:
            return False
        if type(block.X) is not np.ndarray or type(block.y) is not np.ndarray:
            return False
        n_features: int | None = block.X.shape[1]
        for step in self.steps.values():
            if not step._asks_blocks_of(n_features):
                return False
            n_features = None  # The steps behind get what this one makes.
        return True

    def _ask_and_learn(self, asked: Block, block: Block) -> tuple[np.ndarray, np.ndarray]:
        """As `Ranker._ask_and_learn`."""
        step: Any
        for step in self._transformers:
            if step.abilities.learns:
                asked, block = step._ask_and_learn(asked, block)
            else:
                same, block = asked is block, step._transform_block(block)
                asked = block if same else step._transform_block(asked)
        return self._ranker._ask_and_learn(asked, block)

    def _pass_on(self, block: Block, changes: all_or_nothing | None = None, scaled: bool = False) -> None:
        """Pass queries from step to step, each of which learns them; `scaled` says whether the ranker wants their scale."""
        for step in self.steps.values():
            if step._is_ranker:
                if block.y is not None:
                    step._learn_block(block._replace(scale=self._scale()) if scaled else block, changes)
                return
            supervised, able = step._supervised, step.abilities
            if supervised and isinstance(block.y, tuple) and not able.takes_clicks:
                raise TypeError(f"{step} learns from grades, not from {type(block.y[0]).__name__}")
            if changes is not None and able.learns:
                changes.include(step, block)
            learns = supervised or not self._LEARN_UNSUPERVISED_DURING_PREDICT
            block = step._learn_block(block) if learns else step._transform_block(block)

    def _transform_block(self, block: Block) -> Block:
        if not self._LEARN_UNSUPERVISED_DURING_PREDICT:
            for step in self._transformers:
                block = step._transform_block(block)
            return block
        with all_or_nothing(*self._transformers):
            for step in self._transformers:
                block = step._transform_block(block) if step._supervised else step._learn_block(block)
            return block

    def _score_all(self, block: Block) -> np.ndarray:
        ranker = self._ranker
        return ranker._score_all(self._transform_block(block))

    def _show(self, query: Block, asked: Block, policy: Any, **arranged: Any) -> Any:
        return self._ranker._show(self._transform_block(query), asked, policy, **arranged)


QueryStep._pipeline = RankingPipeline


def learn_within(model: Any, block: Block, changes: all_or_nothing) -> None:
    """Let a ranker, or a pipeline that ends in one, learn a query with its feedback, as a part of other changes.

    Parameters
    ----------
    model, block
        The model, and the query as it was read, with its feedback.
    changes
        It undoes what is learned, unless all is kept. Its parameter `goes_on` must be set.

    Raises
    ------
    TypeError, ValueError
        As `learn_one`; a part may have been learned.
    """
    if block.context is not None or block.at is not None:
        block = only_taken(model, block)
    with model._lock:
        model._learn_block(block, changes)


def _text(title: str, block: Block, shown: Sequence[Any], n_decimals: int, n_shown: int) -> str:
    """A title, and a line for each of the first documents: its id, and its score or features."""

    def text(value: Any) -> str:
        return f"{value:,.{n_decimals}f}" if isinstance(value, float | int) else str(value)

    def more(n: int) -> list[str]:
        return [f"... ({n - n_shown} more)"] if n > n_shown else []

    lines = []
    for i, value in enumerate(shown[:n_shown]):
        if isinstance(value, dict):
            features = itertools.islice(value.items(), n_shown)
            value = " ".join([*(f"{name}={text(each)}" for name, each in features), *more(len(value))])
        lines.append(f"{i if block.ids is None else block.ids[i]}: {text(value)}")
    return "\n".join([title, "-" * len(title), *lines, *more(len(shown))])
