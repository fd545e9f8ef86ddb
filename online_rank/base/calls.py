"""The public methods that rankers, transformers and pipelines share: each reads what it is given once, as a block.

They are functions of a model, and classes take them as their methods. A ranker, or a pipeline that ends in one, has these:

- `_n_unnamed`: the number of features of a query, where they are known by position; otherwise 0;
- `_learn_block(block, changes)`: learns all queries of a block; `changes` undo what was learned if it raises, or else the
  caller does;
- `_score_all(block)`: the scores of a block, finite, float64 (n,);
- `_answer(x, context, at)`: scores of a query, and the query as it was read (`answer`);
- `_show(query, asked, policy, **arranged)`: draws the ranking of a query, given as `asked`, and as `query` after some
  transformers.

A transformer, or a pipeline, has `_transform_block(block)`: the queries, transformed. It raises ValueError on NaN and infinity.
"""

from collections.abc import Hashable, Iterable, Mapping
from typing import Any

import numpy as np

from online_rank.base.explain import Explanation
from online_rank.base.explain import explain_one as explain
from online_rank.base.reader import read_for
from online_rank.base.undo import all_or_nothing
from online_rank.query import Block, answer_in_kind, in_form, plain_array, plain_block, plain_query

#: From this number of documents on numpy sorts faster than Python, and beyond the second its stable sort takes longer.
_SOME, _MANY = 20, 1000


def transform_one(model: Any, x: Any, *, context: Any = None, at: Any = None) -> Any:
    """The query, transformed, in the form in which it was given; in a pipeline as it reaches the ranker.

    `at` is the time of the query in seconds, where a step depends on it (`History`); None for the latest time learned.

    Raises
    ------
    TypeError, ValueError
        Bad input, for example NaN or infinity.
    """
    block = read_for(model, x, context=context, at=at)
    with model._lock:
        return in_form(model._transform_block(block))


def transform_many(model: Any, X: Any, qid: Any = None, *, context: Any = None, at: Any = None) -> Any:
    """A block of queries, transformed, in the form in which it was given; without `qid` it is a single query."""
    block = read_for(model, X, qid=qid, context=context, at=at)
    with model._lock:
        return in_form(model._transform_block(block))


def learn_one(
    model: Any, x: Any, y: Any = None, w: float = 1.0, *, served: Any = None, context: Any = None, at: Any = None, t: Any = None
) -> None:
    """Learn from one query.

    Parameters
    ----------
    x
        The query, in any form that `online_rank.query` lists.
    y
        Its m relevance grades: integers >= 0 in the order of the documents, or `{document id: grade}`. For rankers that
        learn from clicks also `Clicks` on a ranking of `show_one`. Only a pipeline of transformers needs none.
    w
        Weight of the query: it multiplies the update, and the loss in the bounds.
    served
        The scores that the documents were served with, as `predict_one` answered: m numbers, or `{document id: score}`. A
        perceptron then learns from the mistakes of that ranking, and its loss is that ranking's. None stands for the scores
        that it gives now. Use it for late grades, served averages and stale copies.
    context
        Facts about the query, `{name: value}`, if a step of a pipeline uses them (`CrossFeatures`); a
        ranker alone refuses them.
    at
        The time of the query, in seconds or as a datetime: for steps with a half-life in seconds
        (`half_life="7d"`), and transformers of river with a window of time (`utils.TimeRolling`). All other models ignore it.
    t
        Another name of `at`, as in river.

    Raises
    ------
    TypeError, ValueError
        `x` or `y` is bad input, or the query would make the model's state non-finite. The model, with all steps, is then as
        it was.
    """
    with model._lock:
        block = None
        alone = served is None and context is None and at is None and t is None
        if alone and type(x) is np.ndarray and type(w) is float and w == 1.0:
            # The columns of the first step, which need no conversion.
            block = plain_query(x, y, model._n_unnamed)
        if block is None:
            block = read_for(model, x, y, w, served=served, context=context, at=at, t=t)
        with all_or_nothing() as changes:
            model._learn_block(block, changes)


def learn_many(
    model: Any, X: Any, y: Any, qid: Any, *, w: Any = None, served: Any = None, context: Any = None, at: Any = None
) -> None:
    """Learn from a block of queries, one after the other: the same as a loop of `learn_one`, bit for bit, but faster.

    Parameters
    ----------
    X
        Features of n documents: an (n, d) array or a data frame.
    y
        The n grades; or a sequence of one `Clicks` a query. None in a pipeline of transformers alone.
    qid
        The n query ids; documents of a query must be contiguous.
    w
        None, or one weight a query.
    served
        None, or the n scores that the documents were served with (see `learn_one`).
    context
        None, or what is known of each query itself: one `{name: value}` a query.
    at
        None, or one time a query (see `learn_one`).

    Raises
    ------
    TypeError, ValueError
        Bad input anywhere in the block. The model is then as it was before the block.
    """
    with model._lock, all_or_nothing() as changes:
        model._learn_block(read_for(model, X, y, w, qid=qid, served=served, context=context, at=at), changes)


def predict_one(model: Any, x: Any, *, context: Any = None, at: Any = None) -> list[float] | dict[Hashable, float]:
    """Scores of the documents of a query; a higher score ranks earlier.

    `at` is the time of the query in seconds, where a step depends on it (`History`); None for the latest time learned.

    Returns
    -------
    A list of m floats, or `{document id: score}` for a query with ids. It is a list, not an array, because river's
    evaluators test predictions with `!=` in an `if`, which raises for arrays. `predict_many` gives an array.
    """
    scores, block = model._answer(x, context, at)
    return answer_in_kind(scores, block)


def predict_many(model: Any, X: Any, qid: Any = None, *, context: Any = None, at: Any = None) -> np.ndarray:
    """Scores of n documents of any number of queries.

    Parameters
    ----------
    X
        Features: an (n, d) array or a data frame.
    qid
        The n query ids, or None for a single query. Most rankers score each document on its own and use the ids only to
        check the block. Blends, and pipelines with transformers that look at whole queries, need them.
    context
        What is known of each query itself: one `{name: value}` a query, without `qid` a single one; None for nothing.
    at
        None, or one time a query, without `qid` a single one (see `predict_one`).

    Returns
    -------
    float64 array of shape (n,).
    """
    block = read_for(model, X, qid=qid, context=context, at=at)
    with model._lock:
        return model._score_all(block)


def rank_query(model: Any, x: Any, *, context: Any = None, at: Any = None) -> list[Hashable]:
    """The documents of a query, best first; equal scores keep the order in which the documents were given.

    Returns
    -------
    A list of m document ids, or of the positions 0..m-1 for a query without ids.
    """
    scores, block = model._answer(x, context, at)
    return best_first(scores, None if block is None else block.ids)


def explain_one(model: Any, x: Any, a: Hashable, b: Hashable, *, context: Any = None, at: Any = None) -> Explanation:
    """Explain the difference between the scores of documents a and b: see `online_rank.base.explain.explain_one`."""
    return explain(model, x, a, b, context=context, at=at)


def show_one(
    model: Any,
    x: Any,
    policy: Any = None,
    *,
    pinned: Mapping[int, Hashable] | None = None,
    excluded: Iterable[Hashable] = (),
    context: Any = None,
    at: Any = None,
) -> Any:
    """Draw the ranking of a query to show to a user, so that the model can learn from the clicks on it.

    Draw number t depends only on t, which the ranker counts, and on the policy's seed. So a copy, or a replay of the same
    calls, draws the same rankings.

    Parameters
    ----------
    x
        The query.
    policy
        How to draw (`online_rank.feedback`); None for the ranker's own policy.
    pinned
        `{position: document}`, positions from 1: these documents have their places, and the others are drawn over the free
        ones.
    excluded
        Documents that are not shown. They, and those that are pinned, leave before the draw, so that its probabilities are
        exact. A list that is changed after the draw cannot be learned from.
    context
        Facts about the query, if a step of a pipeline uses them.
    at
        Its time in seconds, where a step depends on it.

    Returns
    -------
    The `Impression`: the documents shown, and the data that learning from clicks needs. Keep it until the clicks arrive,
    then call `learn_one(x, shown.clicked([...]))`.

    Raises
    ------
    TypeError, ValueError
        `x` is bad input, or there is no policy.
    """
    block = read_for(model, x, context=context, at=at)
    with model._lock:
        return model._show(block, block, policy, pinned=pinned, excluded=excluded)


def answer(model: Any, x: Any, context: Any, at: Any) -> tuple[np.ndarray, Block | None]:
    """Scores of a query, float64 (m,), and the query as it was read; None for an array that needed no conversion."""
    X = plain_array(x, model._n_unnamed) if type(x) is np.ndarray and context is at is None else None
    block = read_for(model, x, context=context, at=at) if X is None else plain_block(X, None, len(X))
    with model._lock:
        return model._score_all(block), block


def best_first(scores: np.ndarray, ids: Any = None) -> list[Hashable]:
    """The documents, best score first; equal scores keep their order.

    Parameters
    ----------
    scores
        float64 (m,), finite.
    ids
        The m document ids; None for the positions 0..m-1.
    """
    if len(scores) < _SOME:
        values = scores.tolist()
        order: list[Any] = sorted(range(len(values)), key=values.__getitem__, reverse=True)
    elif len(scores) <= _MANY:
        order = (-scores).argsort(kind="stable").tolist()
    else:
        # A stable sort is needed only if scores are equal.
        keys = -scores
        fast = keys.argsort()
        ordered = keys[fast]
        order = (keys.argsort(kind="stable") if (ordered[1:] == ordered[:-1]).any() else fast).tolist()
    return order if ids is None or isinstance(ids, range) else [ids[i] for i in order]


def rank_one(model: Any, x: Any, *, context: Any = None) -> list[Hashable]:
    """The documents of a query, best first, for any model whose `predict_one` returns scores.

    Equal scores keep the order in which the documents were given (a stable sort).

    Parameters
    ----------
    model
        A ranker, or a river pipeline that ends in one.
    x
        A query in any form.
    context
        Facts about the query, if the model uses them.

    Returns
    -------
    A list of document ids for a query with ids, else of positions.

    Examples
    --------
    >>> from online_rank import PerceptronRanker, rank_one
    >>> model = PerceptronRanker()
    >>> model.learn_one({"a": {"clicks": 3}, "b": {"clicks": 1}}, {"a": 0, "b": 2})
    >>> rank_one(model, {"c": {"clicks": 2}, "d": {"clicks": 0}})
    ['d', 'c']
    """
    scores = model.predict_one(x) if context is None else model.predict_one(x, context=context)
    if isinstance(scores, dict):
        return best_first(np.array([*scores.values()]), tuple(scores))
    return best_first(np.asarray(scores))
