"""Pipelines that end in a ranker."""
# river's pipeline types a single document, a dict, where ours takes a query, and a block here comes with query ids:
# mypy: disable-error-code="override"

import contextlib
import itertools
import types
from collections.abc import Callable, Hashable, Mapping
from typing import Any

import numpy as np
from river import compose

from online_rank.base.ranker import Ranker, rank_one
from online_rank.base.rounds import Round
from online_rank.base.step import QueryStep, check_calling_pipeline, require_query_step
from online_rank.base.transformer import QueryTransformer
from online_rank.base.undo import all_or_nothing, begin, joined, undoing
from online_rank.query import Documents, Query, as_documents, as_grades, as_query, in_form_of, query_offsets, require_finite

__all__ = ["QueryFunction", "RankingPipeline"]


#: How much of a block goes through the steps of a pipeline at once.
_BYTES_AT_ONCE = 4 << 20


class QueryFunction(QueryTransformer):
    """A function of a query as a step of a pipeline. It learns nothing.

    A function in a pipeline is wrapped without being asked for: `f | PerceptronRanker()`.

    Parameters
    ----------
    func
        Takes a query in the form in which the user gave it (a list of rows as an array) and returns the same documents, in the
        same order and in any form of a query. It must not change what it is given.

    Examples
    --------
    >>> from online_rank.base.pipeline import QueryFunction
    >>> def add_product(query):
    ...     return {i: {**x, "both": x["clicks"] * x["age"]} for i, x in query.items()}
    >>> QueryFunction(add_product).transform_one({"a": {"clicks": 2.0, "age": 3.0}})
    {'a': {'clicks': 2.0, 'age': 3.0, 'both': 6.0}}
    """

    def __init__(self, func: Any):
        super().__init__()
        if not callable(func):
            raise TypeError(f"func is of type {type(func).__name__}; it is a function of a query")
        self.func = func

    @classmethod
    def _unit_test_params(cls) -> Any:
        yield {"func": in_form_of}

    def __str__(self) -> str:
        return getattr(self.func, "__name__", str(self.func))

    def _read(self, x: Any) -> Query | Documents:
        return as_documents(x)

    def _transform_query(self, block: Query | Documents, offsets: np.ndarray, like: Any) -> Query:
        parts = []
        for start, stop in zip(offsets[:-1].tolist(), offsets[1:].tolist(), strict=True):
            ids = None if block.ids is None else block.ids[start:stop]
            # Ids that the user has not given are for errors alone.
            shown = ids if isinstance(like, Mapping | Query) else None
            part = block._replace(X=block.X[start:stop], ids=shown)  # type: ignore[arg-type]
            result = as_query(self.func(in_form_of(like, part)))
            if len(result.X) != stop - start or (result.ids is not None and result.ids != shown):
                raise ValueError(f"function {self} must return the documents that it was given, in their order")
            require_finite(result._replace(ids=ids), start)
            parts.append(result)
        return _stack(parts)._replace(ids=block.ids) if parts else as_query(like)

    def _learn_query(self, block: Query | Documents, offsets: np.ndarray, y: np.ndarray | None, like: Any) -> Query:
        return self._transform_query(block, offsets, like)


class RankingPipeline(compose.Pipeline):
    """A river pipeline whose steps work on whole queries, and that can do what its last step, a ranker, can do.

    `transformer | ranker` gives one. A query is brought into its computational form once, and then goes from step to step. As
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
        A step is of another kind, or follows a ranker.

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

    def __repr__(self) -> str:
        return type(self).__name__ + super().__repr__().removeprefix("Pipeline")

    @property
    def _supervised(self) -> bool:
        check_calling_pipeline()
        return any(step._supervised for step in self.steps.values())

    @property
    def last_round(self) -> Round | None:
        """The `Round` of the last query that the ranker learned; None before the first."""
        return self._ranker.last_round

    def learn_one(self, x: Any, y: Any = None, w: float = 1.0) -> None:
        """Learn from one query.

        Parameters
        ----------
        x
            The query, in any form that `online_rank.query` lists.
        y
            Its m relevance grades: integers >= 0 in the order of the documents, or `{document id: grade}`. Not needed in a
            pipeline of transformers alone.
        w
            Weight of the query in the ranker.

        Raises
        ------
        TypeError, ValueError
            `x` or `y` is bad input for any of the steps. The pipeline is then as it was.
        """
        query = self._read(x)
        offsets = np.array([0, len(query.X)])
        grades = None if y is None and not self._supervised else as_grades(y, query)
        with all_or_nothing(*self._transformers):
            transformed = self._through(query, offsets, grades, x, learning=True)
            if grades is not None and isinstance(self._last_step, Ranker):
                self._last_step.learn_one(transformed, grades, w)

    def learn_many(self, X: Any, y: Any, qid: Any, w: Any = None) -> None:
        """Learn from a block of queries, one after the other: the same as a loop of `learn_one`, bit for bit, but faster.

        Parameters
        ----------
        X
            Features of n documents: an (n, d) array or a data frame.
        y
            The n grades, or None in a pipeline of transformers alone.
        qid
            The n query ids; documents of a query stand together.
        w
            None, or one weight a query.

        Raises
        ------
        TypeError, ValueError
            Bad input anywhere in the block. The pipeline is then as it was before the block.
        """
        block: Any = self._read(X)
        offsets = query_offsets(qid, len(block.X))
        grades = None if y is None and not self._supervised else as_grades(y, block)
        n_queries = len(offsets) - 1
        weights = None if w is None else np.asarray(w)
        at_once = max(1, n_queries)
        if isinstance(block, Query) and (weights is None or weights.shape == (n_queries,)):
            # A few megabytes, so that what the transformers give stays near the processor and needs no memory of its own.
            at_once = max(1, _BYTES_AT_ONCE * n_queries // max(1, block.X.nbytes))
        if n_queries <= at_once:
            with all_or_nothing(*self._transformers):
                self._learn_queries(block, grades, offsets, w, X)
            return
        with undoing(self._begin()):
            for first in range(0, n_queries, at_once):
                part = offsets[first : first + at_once + 1]
                start, stop = int(part[0]), int(part[-1])
                self._learn_queries(
                    # Errors call a document by its id, which here is its number in the whole block.
                    block._replace(X=block.X[start:stop], ids=(block.ids or range(len(block.X)))[start:stop]),
                    None if grades is None else grades[start:stop],
                    part - start,
                    None if weights is None else weights[first : first + at_once],
                    X,
                )

    def _learn_queries(self, block: Any, grades: np.ndarray | None, offsets: np.ndarray, w: Any, like: Any) -> None:
        """Learn from queries: each transformer from all of them, then the ranker."""
        transformed = self._through(block, offsets, grades, like, learning=True)
        if grades is not None and isinstance(self._last_step, Ranker):
            qid = np.repeat(np.arange(len(offsets) - 1), np.diff(offsets))
            self._last_step.learn_many(transformed, grades, qid, w)

    def predict_one(self, x: Any) -> list[float] | dict[Hashable, float]:
        """Scores of the documents of a query, as `Ranker.predict_one` gives them."""
        query = self._read(x)
        return self._ranker.predict_one(self._transformed(query, np.array([0, len(query.X)]), x))

    def predict_many(self, X: Any, qid: Any = None) -> np.ndarray:
        """Scores of n documents of any number of queries, as `Ranker.predict_many` gives them.

        Without `qid` the block is a single query.
        """
        block = self._read(X)
        offsets = np.array([0, len(block.X)]) if qid is None else query_offsets(qid, len(block.X))
        return self._ranker.predict_many(self._transformed(block, offsets, X), qid)

    def rank_one(self, x: Any) -> list[Hashable]:
        """The documents of a query, best first, as `Ranker.rank_one` gives them."""
        return rank_one(self, x)

    def transform_one(self, x: Any) -> Any:
        """The query as it reaches the ranker, in the form in which it was given."""
        query = self._read(x)
        return in_form_of(x, self._transformed(query, np.array([0, len(query.X)]), x))

    def transform_many(self, X: Any, qid: Any) -> Any:
        """A block of queries as it reaches the ranker, in the form in which it was given."""
        block = self._read(X)
        return in_form_of(X, self._transformed(block, query_offsets(qid, len(block.X)), X))

    def debug_one(self, x: Any, n_decimals: int = 5, n_shown: int = 10) -> str:
        """What happens to a query on its way through the pipeline, as text.

        Parameters
        ----------
        x
            The query.
        n_decimals
            Digits behind the point.
        n_shown
            Most documents and features to show.

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
        query = self._read(x)
        offsets = np.array([0, len(query.X)])
        parts = [_titled("0. Input", _document_lines(query, n_decimals, n_shown))]
        for i, step in enumerate(self.steps.values(), start=1):
            if isinstance(step, Ranker):
                scores = step.predict_one(query)
                named: dict[Hashable, float] = scores if isinstance(scores, dict) else {**dict(enumerate(scores))}
                lines = [f"{document}: {named[document]:,.{n_decimals}f}" for document in rank_one(step, query)]
                lines = _shortened(lines, n_shown, len(lines))
            else:
                query = step._transform_query(query, offsets, x)
                lines = _document_lines(query, n_decimals, n_shown)
            parts.append(_titled(f"{i}. {step if isinstance(step, QueryFunction) else type(step).__name__}", lines))
        return "\n\n".join(parts)

    def _begin(self) -> Callable[[], None]:
        """Make every step ready for changes that may fail; calling the answer undoes them."""
        return joined(*map(begin, self.steps.values()))

    @property
    def _ranker(self) -> Ranker:
        ranker = self._last_step if self.steps else None
        if not isinstance(ranker, Ranker):
            raise TypeError(f"the pipeline {' | '.join(self.steps)} does not end in a ranker")
        return ranker

    def _read(self, x: Any) -> Query | Documents:
        """A query, or a block of them, as the first step wants it."""
        first = self[0] if self.steps else None
        return first._read(x) if isinstance(first, QueryTransformer) else as_query(x)

    @property
    def _transformers(self) -> list[QueryTransformer]:
        return [step for step in self.steps.values() if not isinstance(step, Ranker)]

    def _through(self, block: Any, offsets: np.ndarray, y: np.ndarray | None, like: Any, learning: bool) -> Query:
        """The block as it leaves the transformers, which learn from it on the way when it is their time to."""
        for step in self._transformers:
            if learning if step._supervised else learning != self._LEARN_UNSUPERVISED_DURING_PREDICT:
                block = step._learn_query(block, offsets, y, like)
            else:
                block = step._transform_query(block, offsets, like)
        return block

    def _transformed(self, block: Query | Documents, offsets: np.ndarray, like: Any) -> Query:
        """The block as it leaves the transformers, for a prediction."""
        with all_or_nothing(*self._transformers) if self._LEARN_UNSUPERVISED_DURING_PREDICT else contextlib.nullcontext():
            return self._through(block, offsets, None, like, learning=False)


QueryStep._pipeline = RankingPipeline


def _stack(parts: list[Query]) -> Query:
    """Queries one below the other, their columns side by side in the order in which their names first appear."""
    first = parts[0]
    if all(part.names == first.names and part.X.shape[1] == first.X.shape[1] for part in parts):
        return first if len(parts) == 1 else Query(np.concatenate([part.X for part in parts]), None, first.names)
    if any(part.names is None for part in parts):
        raise ValueError("a function in a pipeline must give every query the same features, unless it names them")
    columns: dict[Hashable, int] = {}
    for part in parts:
        for name in part.names or ():
            columns.setdefault(name, len(columns))
    X = np.zeros((sum(len(part.X) for part in parts), len(columns)))
    start = 0
    for part in parts:
        X[start : start + len(part.X), [columns[name] for name in part.names or ()]] = part.X
        start += len(part.X)
    return Query(X, None, tuple(columns))


def _document_lines(query: Query | Documents, n_decimals: int, n_shown: int) -> list[str]:
    """One line a document: its id and its features."""
    lines = []
    for i, document in enumerate(query.X[:n_shown]):
        if isinstance(query, Query):
            names = query.names if query.names is not None else range(len(document))
            document = dict(zip(names, document.tolist(), strict=True))
        shown = [
            f"{name}={value:,.{n_decimals}f}" if isinstance(value, float | int) else f"{name}={value}"
            for name, value in itertools.islice(document.items(), n_shown)
        ]
        if len(document) > n_shown:
            shown.append(f"... ({len(document) - n_shown} more)")
        lines.append(f"{i if query.ids is None else query.ids[i]}: {' '.join(shown)}")
    return _shortened(lines, n_shown, len(query.X))


def _shortened(lines: list[str], n_shown: int, n: int) -> list[str]:
    return [*lines[:n_shown], f"... ({n - n_shown} more)"] if n > n_shown else lines


def _titled(title: str, lines: list[str]) -> str:
    return "\n".join([title, "-" * len(title), *lines])
