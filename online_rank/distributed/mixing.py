r"""Iterative parameter mixing: K machines learn from K parts of a stream, and their models are combined.

.. math:: w_{p+1} = \frac{1}{K} \sum_k w_{pk}

where w_pk are the weights that machine k learned from w_p. Statistics of features are pooled rather than averaged: they become
the statistics of all documents of all machines. `online_rank.bounds.mixing` has the bounds that hold for it.

McDonald, Hall & Mann, *Distributed training strategies for the structured perceptron*, 2010.
"""

import copy
from collections.abc import Iterable, Sequence
from typing import Any

from online_rank import arguments
from online_rank.base import abilities_of, steps_of
from online_rank.base.step import QueryStep
from online_rank.evaluate import progressive
from online_rank.metrics import metric
from online_rank.storage.files import from_bytes, to_bytes
from online_rank.storage.tree import settings_of


def fork(base: Any, *, number: int = 0) -> Any:
    """A copy of a model that learns one part of a stream, to be mixed with copies that learn other parts.

    It learns and ranks as the model would; a `StreamScaler` keeps the statistics of the shard separately, so that `mix` counts
    the statistics of the model once. Copies with different numbers grow their trees from different columns and queries.

    Parameters
    ----------
    base
        A ranker, or a pipeline that ends in one. It is not changed.
    number
        Which of the copies this is, from 0. Number 0 draws as the model would.

    Raises
    ------
    TypeError, ValueError
        A step of the model has no rule for mixing; the message names it. Or `number` is no integer from 0 on.
    """
    arguments.integer("number", number, 0)
    require_mixable(base)
    shard = copy.deepcopy(base)
    for step in steps_of(shard):
        if abilities_of(step).learns:
            step._fork(number)
    return shard


def shed(shard: Any, base: Any, of: int) -> None:
    """Drop, of one of `of` forks that has learned its part, what `mix` takes from the base: then it is smaller to send."""
    for step, before in zip(steps_of(shard), steps_of(base), strict=True):
        if abilities_of(step).learns:
            step._shed(before, of)


def mix(models: Sequence[Any], base: Any = None) -> Any:
    r"""Mix several models that began alike and have each learned a part of a stream.

    Weights that learn are averaged. Weights that serve are averages of vectors: they are averaged by the number of vectors in
    them. With a half-life, which then counts queries of one machine, they are the average of the mixed weights, as if the n-th
    last queries of all machines had come together. Means and variances of `StreamScaler` are pooled by the formula of Chan,
    Golub & LeVeque, and the sums of `RidgeRanker` and `History` add up. All equal the sums of one machine with all documents,
    up to rounding; keys that left a machine count as in the base. The taste of a user (`Tastes`) is the mean over the machines
    that learned from the user. Counters and the account of a `LossTracker` add up. The base counts once. All sums are taken in
    the order of `models`, so equal models give equal bits.

    Parameters
    ----------
    models
        K >= 1 models: `fork(base)`, each after it learned its part; if `base` is None, any models with the same settings that
        began from nothing. They are not changed.
    base
        The model that all of them began from; None for one that had learned nothing.

    Returns
    -------
    A new model, which can continue to learn and rank, and may be the base of the next round.

    Raises
    ------
    TypeError
        A step has no rule for mixing.
    ValueError
        There is no model; settings or features differ; a model did not begin as a fork of the base; or a `RidgeRanker` has a
        half-life.

    References
    ----------
    McDonald, Hall & Mann, *Distributed training strategies for the structured perceptron*, 2010.

    Examples
    --------
    >>> from online_rank import PerceptronRanker, StreamScaler
    >>> from online_rank.distributed import fork, mix
    >>> base = StreamScaler() | PerceptronRanker()
    >>> first, second = fork(base), fork(base)
    >>> first.learn_one([[1.0], [3.0]], [0, 1])
    >>> second.learn_one([[5.0], [7.0]], [0, 1])
    >>> mixed = mix([first, second], base)
    >>> mixed["StreamScaler"].means, mixed["StreamScaler"].variances  # of 1, 3, 5 and 7
    (array([4.]), array([5.]))
    """
    models = list(models)
    if not models:
        raise ValueError("models is empty; there is nothing to mix")
    base = models[0].clone() if base is None else base
    require_mixable(base)
    expected = settings_of(base)
    for k, model in enumerate(models):
        if settings_of(model) != expected:
            raise ValueError(f"models[{k}] has other steps or settings than the base")
    mixed = copy.deepcopy(base)
    for step, before, *shards in zip(steps_of(mixed), steps_of(base), *map(steps_of, models), strict=True):
        if abilities_of(step).learns:
            if step._reader is not None:
                step._reader.meet_features_of(step, shards)
            step._mix(shards, before)
    return mixed


def require_mixable(model: Any) -> None:
    """Raise TypeError or ValueError, which names the step, for a model that cannot be mixed."""
    for step in steps_of(model):
        if not isinstance(step, QueryStep):
            raise TypeError(f"{type(step).__name__} is not a model of online_rank, and cannot be mixed")
        if abilities_of(step).learns:
            # Mixing one that learned nothing asks the rule about the settings, and nothing else.
            step.clone()._mix([step.clone()], step.clone())


def learn_shard(content: bytes, part: Iterable[tuple], *, number: int = 0, measure: str | None = None) -> bytes:
    """One machine's work in a round: learn one part of the stream, from bytes to bytes.

    It needs no engine: Spark, a pool of processes, a queue or a loop may call it, in any process that can read the part. The
    same arguments give the same bytes.

    Parameters
    ----------
    content
        The base, as `to_bytes` gives it.
    part
        Queries (x, y), such as an entry of `online_rank.stream.parts`.
    number
        Which part of the round this is, from 0 (see `fork`).
    measure
        The measure of each ranking before its query is learned, such as `"ndcg@10"`; None: queries are learned without being
        ranked first.

    Returns
    -------
    Bytes that `from_bytes` reads as a dict: `"model"`, which has learned the part; its figures `"queries"`, `"documents"`,
    `"loss"`, `"mistakes"` and `"skipped"`; and `"measured"`, the sum of the measure over `"counted"` queries.
    """
    model = fork(from_bytes(content), number=number)
    figures = dict.fromkeys(("queries", "documents", "loss", "mistakes", "skipped"), 0.0)
    measured, counted = 0.0, 0
    if measure is None:
        for x, y in part:
            model.learn_one(x, y)
            last = model.last_round
            for name, value in zip(figures, (1, len(y), last.loss, last.mass > 0.0, last.skipped), strict=True):
                figures[name] += value
    else:
        served: Any = metric(measure)
        trace = progressive(part, model, {measure: served}, progress=False)
        figures |= {name: value for name, value in trace.to_dict().items() if name in figures}
        measured, counted = served.get() * served.n_queries, served.n_queries
    figures = {name: value if name == "loss" else int(value) for name, value in figures.items()}
    return to_bytes({"model": model, **figures, "measured": measured, "counted": counted})
