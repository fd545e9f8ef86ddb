"""Progressive evaluation: the model is tested on each query before it learns from it."""

import contextlib
import copy
import itertools
import os
import time
from collections.abc import Callable, Iterable, Mapping, Sized
from functools import partial
from typing import Any

from online_rank.base import abilities_of
from online_rank.base.anatomy import learned_measure
from online_rank.base.undo import all_or_nothing
from online_rank.evaluate.together import Together, lessons
from online_rank.evaluate.trace import Comparison, Trace
from online_rank.intervals.losses import served_loss
from online_rank.query.grades import Feedback
from online_rank.storage import CheckpointDirectory
from online_rank.storage.tree import adopt
from online_rank.support.progress import progress as shown_progress

_CHECKPOINT_EVERY = 1000


def progressive(
    stream: Iterable[tuple],
    model: Any,
    metrics: Any = None,
    *,
    every: int | None = None,
    progress: bool | None = None,
    watch: Callable[[Any], None] | None = None,
    checkpoint: str | os.PathLike[str] | None = None,
) -> Any:
    """Test a model on every query of a stream, then let it learn from the query.

    The metrics see the scores from before the model learned from the query, so they estimate without bias what users would have
    been served, and no query has to be held out.

    Parameters
    ----------
    stream
        Yields queries as (x, y), or as (x, y, arguments) with keyword arguments for `learn_one`, for example `{"w": 2.0}` or
        `{"context": {"user": "u17"}}`. `online_rank.read` makes one of files.
    model
        A ranker, or a pipeline that ends in one. It learns in place. Or a dict of models by name: all of them rank and learn
        every query, and the result is a `Comparison`.
    metrics
        What to measure: a name such as `"ndcg@10"`, a metric, a sequence of these, or a dict of them by the names to use in the
        trace. A metric is any object with `update(y_true, y_pred)` and `get()`, including `river.utils.Rolling`; it is updated
        in place. None for NDCG@10, or for nothing if the model learns from clicks, which no metric of grades can measure.
    every
        Number of queries between two records of the trace, and between two checkpoints; None for up to 1024 records in all, and
        a checkpoint every 1000 queries.
    progress
        Whether to show a progress bar on stderr (extra `cli`); None shows one on a terminal only. The time left is known where
        the stream has a length, `n_queries`, or `fraction`, the part of it that has been read, as `online_rank.read` has.
    watch
        Called with the trace after every query.
    checkpoint
        A directory. Model, metrics and trace are written to it at intervals and at the end; if it holds a checkpoint, the run
        passes over the queries that it has learned, and continues. After a crash the same call on the same stream ends with the
        same model, metrics and trace (except `elapsed`), bit for bit, as an uninterrupted run.

    Returns
    -------
    Trace; for several models a `Comparison`.

    Raises
    ------
    TypeError, ValueError
        A query is bad input. The model and the metrics have then learned all queries before it, and nothing from it.
    CheckpointError
        The checkpoint belongs to a run with another model or other metrics, or another process is using the directory.

    Examples
    --------
    >>> from online_rank import PerceptronRanker, evaluate
    >>> query = {"a": {"clicks": 1.0}, "b": {"clicks": 3.0}}, {"a": 1, "b": 0}
    >>> trace = evaluate.progressive([query] * 4, PerceptronRanker(), "ndcg")
    >>> trace.n_queries, trace.mistakes
    (4, 1)
    >>> trace.columns["loss"].round(3)
    array([0.369, 0.369, 0.369, 0.369])

    Several models, on the same queries:

    >>> from online_rank import RidgeRanker
    >>> from online_rank.stream.synth import NoisyTeacher
    >>> stream = NoisyTeacher(n_queries=300, n_features=10, n_documents=20)
    >>> run = evaluate.progressive(stream, {"ridge": RidgeRanker(), "unlearned": PerceptronRanker.from_weights([0.0] * 10)})
    >>> run.difference("ridge", "unlearned").n
    300
    """
    several = isinstance(model, Mapping)
    models: Mapping[str, Any] = model if isinstance(model, Mapping) else {"": model}
    for one in models.values():
        if isinstance(one, type) or not (hasattr(one, "predict_one") and hasattr(one, "learn_one")):
            kind = f"the class {one.__name__}" if isinstance(one, type) else f"of type {type(one).__name__}"
            raise TypeError(f"model is {kind}, no instance of a ranker: progressive(stream, model, metrics)")
    if isinstance(stream, str | os.PathLike):
        raise TypeError(f"stream is the name {os.fspath(stream)!r}; read a file by online_rank.read")
    if several and checkpoint is not None:
        raise ValueError("checkpoint= supports a single model")
    targets = {learned_measure(one) for one in models.values()}
    if len(targets) != 1:
        names = " and ".join(sorted(target.name for target in targets))
        raise ValueError(f"model: the models learn for {names or 'nothing'}; what is compared is a loss of one measure")
    (target,) = targets
    measured = {name: _named_metrics(copy.deepcopy(metrics) if several else metrics, one) for name, one in models.items()}
    traces = {name: Trace(every=every) for name in models}
    comparison = Comparison(traces) if several else None
    for name, trace in traces.items():
        trace.values = {called: m.get() for called, m in measured[name].items()}
    # Checkpoints, and queries met together, are for one model.
    name = next(iter(models))
    first, first_model, first_metrics = traces[name], models[name], measured[name]
    with contextlib.ExitStack() as stack:
        directory = None if checkpoint is None else stack.enter_context(CheckpointDirectory(checkpoint))
        run = {"model": first_model, "metrics": first_metrics, "trace": first}
        if directory is not None:
            _go_on(directory, run)
        queries = itertools.islice(stream, first.n_queries, None) if first.n_queries else stream
        total = len(stream) if isinstance(stream, Sized) else getattr(stream, "n_queries", None)
        read = partial(getattr, stream, "fraction", None)
        show = stack.enter_context(shown_progress("learning", total, shown=progress, part=read))
        together = Together(stream, None if several else first_model, first_metrics, watch, target)
        between = every or _CHECKPOINT_EVERY

        def most() -> int:
            n = first.n_queries
            return together.most(n, None if directory is None else n - n % between + between)

        clock = time.perf_counter()
        for items in lessons(queries, most):
            done = together.learn(items, first.n_queries, first._spacing) if len(items) > 1 else None
            if done is not None:
                first._add_together(*done)
            for item in items if done is None else ():
                losses = _meet(item, models, measured, target, traces)
                if comparison is not None and None not in losses.values():
                    comparison.paired.update(losses)  # type: ignore[arg-type]
            now = time.perf_counter()
            for trace in traces.values():
                trace.elapsed += now - clock
            clock = now
            if directory is not None and first.n_queries % between == 0:
                directory.write(run)
            show(first.n_queries, None if several else lambda: first.values)
            if watch is not None:
                watch(comparison or first)
        if directory is not None:
            directory.write(run)
    return comparison or first


def _meet(
    item: Any, models: Mapping[str, Any], measured: Mapping[str, dict[str, Any]], target: Any, traces: Mapping[str, Trace]
) -> dict[str, float | None]:
    """Test models on one query, and let them learn from it. Returns the losses of what each would have served."""
    x, y, arguments = _lesson(item)
    # The arguments of `learn_one` that are known when a query is ranked.
    known = {name: arguments[name] for name in ("context", "at") if name in arguments}
    answers = {name: model.predict_one(x, **known) for name, model in models.items()}
    # Clicks are no grades, and give no loss.
    graded = not isinstance(y, Feedback)
    losses = {name: served_loss(target, scores, y) if graded else None for name, scores in answers.items()}
    # A single model undoes what it cannot learn.
    parts = [*models.values()] if len(models) > 1 else []
    with all_or_nothing(*parts, *(metric for named in measured.values() for metric in named.values())):
        for name, model in models.items():
            for metric in measured[name].values():
                metric.update(y, answers[name])
            model.learn_one(x, y, **arguments)
    for name, model in models.items():
        values = {called: metric.get() for called, metric in measured[name].items()}
        traces[name]._add(len(answers[name]), getattr(model, "last_round", None), values, losses[name])
    return losses


def _lesson(item: Any) -> tuple[Any, Any, Mapping[str, Any]]:
    """A query, its grades, and the further arguments of `learn_one`."""
    if isinstance(item, tuple) and len(item) == 2:
        return *item, {}
    if isinstance(item, tuple) and len(item) == 3 and isinstance(item[2], Mapping):
        return item
    what = f"a tuple of {len(item)}" if isinstance(item, tuple) else f"of type {type(item).__name__}"
    raise TypeError(f'stream: an item is {what}; it is a tuple (x, y), or (x, y, arguments) with a dict such as {{"w": 2.0}}')


def _go_on(directory: CheckpointDirectory, run: dict[str, Any]) -> None:
    """Restore model, metrics and trace of a run from the checkpoint, if the directory holds one."""
    saved = directory.read()
    if saved is None:
        return
    for name, given in run.items():
        directory.require_same(name, saved.get(name) if isinstance(saved, dict) else None, given)
    for name in ("model", "trace"):
        adopt(run[name], saved[name])
    for name, metric in run["metrics"].items():
        adopt(metric, saved["metrics"][name])


def _named_metrics(metrics: Any, model: Any) -> dict[str, Any]:
    """Metrics by name; a metric given by its name is created."""
    from online_rank.metrics import metric

    if metrics is None:
        metrics = () if abilities_of(model).takes_clicks else "ndcg@10"
    listed = metrics if isinstance(metrics, list | tuple | Mapping) else [metrics]
    given = listed.items() if isinstance(listed, Mapping) else [(None, m) for m in listed]
    named: dict[str, Any] = {}
    for called, m in given:
        if isinstance(m, type):
            raise TypeError(f"metrics: {m.__name__} is a class; give an instance: {m.__name__}()")
        made = metric(m) if isinstance(m, str) else m
        name = str(called or (m if isinstance(m, str) else getattr(m, "name", None) or type(m).__name__))
        if name in named:
            raise ValueError(f"metrics: {name!r} stands there twice; give a dict of metrics with names of your own")
        if not (hasattr(made, "update") and hasattr(made, "get")):
            raise TypeError(f"metrics: {name!r} is {m!r}; a metric has the methods update and get")
        if name in ("query", "loss", "mistakes"):
            raise ValueError(f"metrics: the name {name!r} is taken by another column of the trace")
        named[name] = made
    return named
