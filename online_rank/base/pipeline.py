"""Pipelines that end in a ranker."""
# river's pipeline types a single document, a dict, where ours takes a query, and a block here comes with query ids:
# mypy: disable-error-code="override"

import itertools
import types
from collections.abc import Hashable
from typing import Any, cast

import numpy as np
from river import compose

from online_rank.base.anatomy import Abilities, Able, share_lock
from online_rank.base.asked import read_for, require_taken
from online_rank.base.explain import Explanation, explain_one
from online_rank.base.function import QueryFunction
from online_rank.base.ranker import Ranker, best_first
from online_rank.base.rounds import Round
from online_rank.base.schema import Derived, Schema
from online_rank.base.signs import require_signs_hold
from online_rank.base.step import QueryStep, require_query_step
from online_rank.base.transformer import QueryTransformer
from online_rank.base.undo import Undo, all_or_nothing, record
from online_rank.query import Block, answer_in_kind, feature_dicts, in_form, plain_array, plain_block, plain_query

#: How many numbers of a block pass through the steps of a pipeline at once.
_BYTES_AT_ONCE = 2 << 20


class RankingPipeline(Able, compose.Pipeline):
    """A river pipeline whose steps work on whole queries; it has the methods of its last step, a ranker.

    `transformer | ranker` gives one. A query is converted to arrays once, and then passes from step to step. As
    in every river pipeline, learning from a query first teaches a transformer, then transforms the query with it; a prediction
    teaches nothing (unless inside `river.compose.learn_during_predict()`).

    A query or block that any step rejects leaves every step as it was.

    Parameters
    ----------
    steps
        Transformers of queries (those of `online_rank.preprocessing`, or any river transformer inside `ForEachDocument`) and
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

    # Defined so that signatures show it: `Able`, a base class before river's pipeline, has a `__new__` that takes anything.
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
        require_signs_hold(self)
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

    def learn_one(
        self, x: Any, y: Any = None, w: float = 1.0, *, served: Any = None, context: Any = None, at: float | None = None
    ) -> None:
        """Learn from one query.

        Parameters
        ----------
        x
            The query, in any form that `online_rank.query` lists.
        y
            Its m relevance grades: integers >= 0 in the order of the documents, or `{document id: grade}`; or `Clicks`, for a
            ranker that learns from them. Not needed in a pipeline of transformers alone.
        w
            Weight of the query in the ranker.
        served
            The scores that the documents were served with (see `Ranker.learn_one`).
        context
            What is known of the query itself, `{name: value}`, where a step looks at it (`CrossFeatures`).
        at
            The time of the query in seconds, where the ranker has a half-life in seconds (`half_life="7d"`), and only there.

        Raises
        ------
        TypeError, ValueError
            `x` or `y` is bad input for any of the steps. The pipeline is then as it was.
        """
        if y is None:
            self._require_grades_unneeded()
        alone = type(w) is float and w == 1.0 and served is None and context is None and at is None
        n_features = self._n_unnamed if alone and type(x) is np.ndarray else 0
        # The columns of the first step, which need no conversion.
        block = plain_query(x, y, n_features) if n_features else None
        if block is None:
            block = read_for(self, x, y, w, served=served, context=context, at=at)
        with self._lock, all_or_nothing() as changes:
            self._learn_block(block, changes)

    def learn_many(
        self, X: Any, y: Any, qid: Any, *, w: Any = None, served: Any = None, context: Any = None, at: Any = None
    ) -> None:
        """Learn from a block of queries, one after the other: the same as a loop of `learn_one`, bit for bit, but faster.

        Parameters
        ----------
        X
            Features of n documents: an (n, d) array or a data frame.
        y
            The n grades, or one `Clicks` a query; None in a pipeline of transformers alone.
        qid
            The n query ids; documents of a query must be contiguous.
        w
            None, or one weight a query.
        served
            None, or the n scores that the documents were served with (see `Ranker.learn_one`).
        context
            None, or what is known of each query itself: one `{name: value}` a query.
        at
            None, or one time a query (see `learn_one`).

        Raises
        ------
        TypeError, ValueError
            Bad input anywhere in the block. The pipeline is then as it was before the block.
        """
        if y is None:
            self._require_grades_unneeded()
        block = read_for(self, X, y, w, qid=qid, served=served, context=context, at=at)
        n_queries = len(block.w)
        # A few megabytes at a time, so that the output of the transformers stays in the cache and needs little memory.
        size = getattr(block.X, "nbytes", 0)
        at_once = max(1, n_queries if size <= _BYTES_AT_ONCE else _BYTES_AT_ONCE * n_queries // size)
        with self._lock, all_or_nothing() as changes:
            if n_queries <= at_once:
                self._learn_block(block, changes)
                return
            changes.include(self)
            for first in range(0, n_queries, at_once):
                self._learn_block(block.queries(first, min(first + at_once, n_queries)))

    def predict_one(self, x: Any, *, context: Any = None) -> list[float] | dict[Hashable, float]:
        """Scores of the documents of a query, as `Ranker.predict_one` gives them."""
        block = self._read(x, context)
        return answer_in_kind(self._score_block(block), block)

    def predict_many(self, X: Any, qid: Any = None, *, context: Any = None) -> np.ndarray:
        """Scores of n documents of any number of queries, as `Ranker.predict_many` gives them.

        Without `qid` the block is a single query.
        """
        return self._score_block(read_for(self, X, qid=qid, context=context))

    def explain_one(self, x: Any, a: Hashable, b: Hashable, *, context: Any = None) -> Explanation:
        """Explain the difference between the scores of documents a and b (see `Ranker.explain_one`)."""
        return explain_one(self, x, a, b, context=context)

    def rank_one(self, x: Any, *, context: Any = None) -> list[Hashable]:
        """The documents of a query, best first, as `Ranker.rank_one` gives them."""
        block = self._read(x, context)
        return best_first(self._score_block(block), block.ids)

    def show_one(self, x: Any, policy: Any = None, *, context: Any = None) -> Any:
        """Draw the ranking of a query that is shown to a user, as `Ranker.show_one` does."""
        block = read_for(self, x, context=context)
        ranker = self._ranker
        with self._lock:
            return ranker._show(self._transform_block(block), block, policy)

    def transform_one(self, x: Any, *, context: Any = None) -> Any:
        """The query as it reaches the ranker, in the form in which it was given."""
        return self._transformed(read_for(self, x, context=context))

    def transform_many(self, X: Any, qid: Any = None, *, context: Any = None) -> Any:
        """A block of queries as it reaches the ranker, in the form in which it was given."""
        return self._transformed(read_for(self, X, qid=qid, context=context))

    def debug_one(self, x: Any, n_decimals: int = 5, n_shown: int = 10, *, context: Any = None) -> str:
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
            What is known of the query itself.

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
        block = read_for(self, x, context=context)
        parts = [_titled("0. Input", _document_lines(block, n_decimals, n_shown))]
        with self._lock:
            for i, step in enumerate(self.steps.values(), start=1):
                if step._is_ranker:
                    scores = step._score_all(block)
                    ids = range(len(scores)) if block.ids is None else block.ids
                    lines = [f"{ids[j]}: {scores[j]:,.{n_decimals}f}" for j in cast(list[int], best_first(scores))]
                    lines = _shortened(lines, n_shown, len(lines))
                else:
                    block = step._transform_block(block)
                    lines = _document_lines(block, n_decimals, n_shown)
                parts.append(_titled(f"{i}. {step if isinstance(step, QueryFunction) else type(step).__name__}", lines))
        return "\n\n".join(parts)

    def _record(self, log: list[Undo], block: Any = None) -> None:
        """Add to a log what undoes a change of any step."""
        for step in self.steps.values():
            record(log, step)

    @property
    def _ranker(self) -> Ranker:
        ranker: Any = next(reversed(self.steps.values()), None)
        if not getattr(ranker, "_is_ranker", False):
            raise TypeError(f"the pipeline {' | '.join(self.steps)} does not end in a ranker")
        return ranker

    def _abilities(self) -> Abilities:
        steps = [step.abilities for step in self.steps.values()]
        learns_before = any(step.abilities.learns for step in self._transformers)
        return (
            steps[-1]._replace(
                takes_documents=steps[0].takes_documents,
                takes_sparse=all(step.takes_sparse for step in steps),
                # Otherwise the ranker itself can compute the served scores before it learns.
                measures_answers=steps[-1].measures_answers and learns_before,
                takes_context=any(step.takes_context for step in steps),
                takes_time=any(step.takes_time for step in steps),
                learns=any(step.learns for step in steps),
            )
            if steps
            else Abilities()
        )

    def _scale(self) -> np.ndarray:
        """The current divisors of the features in the transformers, float64 (d,)."""
        scale = np.ones(1)
        for step in self._transformers:
            own = step._scale()
            if own is None:
                raise ValueError(f"comparators on raw features go behind scalers alone, not behind {type(step).__name__}")
            scale = scale * own
        return scale

    @property
    def _transformers(self) -> list[QueryTransformer]:
        return [step for step in self.steps.values() if not step._is_ranker]

    @property
    def _n_unnamed(self) -> int:
        """The number of features of the first step, where they are known by position; otherwise 0."""
        first: Any = next(iter(self.steps.values()), None)
        n_features: int = getattr(first, "_n_features", 0)
        return n_features if n_features and first._columns is None else 0

    def _read(self, x: Any, context: Any = None) -> Block:
        """A query to rank."""
        n_features = self._n_unnamed
        X = plain_array(x, n_features) if context is None and n_features else None
        return read_for(self, x, context=context) if X is None else plain_block(X, None, len(X))

    def _require_grades_unneeded(self) -> None:
        if self._supervised:
            raise TypeError("y is None, but this pipeline learns from grades")

    def _learn_block(self, block: Block, changes: all_or_nothing | None = None) -> None:
        """Let each step learn all queries; `changes`, to which steps are added before they do, undo it, or else the caller."""
        able = self._known or self.abilities
        measures, scaled = able.measures_answers, able.wants_scale
        if block.y is None or not (measures or scaled):
            self._pass_on(block, changes)
            return
        if changes is not None:
            changes.include(self)
        if measures and self._fits(block):
            self._ask_and_learn(block, block)
            return
        # The scores that would have been served can be computed only before the transformers learn the query.
        for query in block.each():
            self._pass_on(query._replace(answered=self._score_block(query) if measures else None), scaled=scaled)

    def _fits(self, block: Block) -> bool:
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
        for step in self._transformers:
            asked, block = step._ask_and_learn(asked, block)
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
        """The queries as they leave the transformers."""
        if not self._LEARN_UNSUPERVISED_DURING_PREDICT:
            for step in self._transformers:
                block = step._transform_block(block)
            return block
        with all_or_nothing(*self._transformers):
            for step in self._transformers:
                block = step._transform_block(block) if step._supervised else step._learn_block(block)
            return block

    def _transformed(self, block: Block) -> Any:
        with self._lock:
            return in_form(self._transform_block(block))

    def _score_block(self, block: Block) -> np.ndarray:
        """The ranker's scores, float64 (n,)."""
        ranker = self._ranker
        with self._lock:
            return ranker._score_all(self._transform_block(block))


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
    require_taken(model, block)
    with model._lock:
        model._learn_block(block, changes)


def _document_lines(block: Block, n_decimals: int, n_shown: int) -> list[str]:
    """One line a document: its id and its features."""
    lines = []
    for i, document in enumerate(feature_dicts(block)[:n_shown]):
        shown = [
            f"{name}={value:,.{n_decimals}f}" if isinstance(value, float | int) else f"{name}={value}"
            for name, value in itertools.islice(document.items(), n_shown)
        ]
        if len(document) > n_shown:
            shown.append(f"... ({len(document) - n_shown} more)")
        lines.append(f"{i if block.ids is None else block.ids[i]}: {' '.join(shown)}")
    return _shortened(lines, n_shown, block.n_documents)


def _shortened(lines: list[str], n_shown: int, n: int) -> list[str]:
    return [*lines[:n_shown], f"... ({n - n_shown} more)"] if n > n_shown else lines


def _titled(title: str, lines: list[str]) -> str:
    return "\n".join([title, "-" * len(title), *lines])
