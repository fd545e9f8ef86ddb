"""One run of an experiment: one model on one stream, measured query by query."""

import copy
import time
from collections.abc import Iterable, Mapping
from typing import Any, NamedTuple

import numpy as np

from online_rank.base import abilities_of
from online_rank.evaluate.click_study import ClickStudy
from online_rank.evaluate.run import _lesson, _named_metrics
from online_rank.metrics import OffPolicyValue
from online_rank.query.grades import Feedback


class Run(NamedTuple):
    """One model on one stream with one seed: what `Experiment.run` gives to `watch`.

    Attributes
    ----------
    stream, seed, model
        Which run it is.
    values
        The mean of each metric over the queries that have a value, by name; NaN without such a query.
    intervals
        The limits of each estimator from a log (`metrics.OffPolicyValue`), by name, at 95 % and all times.
    queries
        The value of each metric for each query, float64 (n,); NaN where a metric leaves a query out. Estimators have none.
    n_queries, n_documents
        Numbers of measured queries, and of their documents.
    seconds
        Processor seconds of ranking and learning; making the queries and measuring them are not among them.
    """

    stream: str
    seed: int
    model: str
    values: dict[str, float]
    intervals: dict[str, tuple[float, float]]
    queries: dict[str, np.ndarray]
    n_queries: int
    n_documents: int
    seconds: float


def named_metrics(metrics: Any) -> tuple[dict[str, Any], dict[str, OffPolicyValue]]:
    """Metrics of grades by name, as `progressive` takes them, and estimators from a log."""
    listed = metrics if isinstance(metrics, list | tuple | Mapping) else [metrics]
    given = dict(listed) if isinstance(listed, Mapping) else dict(enumerate(listed))
    estimators = {key: one for key, one in given.items() if isinstance(one, OffPolicyValue)}
    others = {key: one for key, one in given.items() if key not in estimators}
    found = _named_metrics(others if isinstance(listed, Mapping) else list(others.values()), None)
    return found, {key if isinstance(key, str) else type(one).__name__: one for key, one in estimators.items()}


class _Measuring:
    """A model that ranks and learns, the values of what it answers, and the time that it takes."""

    def __init__(self, model: Any, metrics: Any) -> None:
        self.model = model
        self.metrics, self.estimators = named_metrics(copy.deepcopy(metrics))
        self.found: list[list[float]] = []
        self.n_documents, self.seconds = 0, 0.0

    def timed(self, method: str, *given: Any, **arguments: Any) -> Any:
        """The answer of a method of the model."""
        begun = time.process_time()
        answer = getattr(self.model, method)(*given, **arguments)
        self.seconds += time.process_time() - begun
        return answer

    def add(self, y: Any, answer: Any, ranking: Any = None) -> None:
        """Measure one query: an answer by grades, or a ranking by clicks, which only estimators can use."""
        self.n_documents += len(answer)
        if isinstance(y, Feedback):
            for estimator in self.estimators.values():
                estimator.update(y, ranking)
            self.found.append([np.nan] * len(self.metrics))
        else:
            self.found.append([_value(metric, y, answer) for metric in self.metrics.values()])

    def result(self, names: tuple[str, int, str]) -> Run:
        """All that was measured."""
        table = np.array(self.found, dtype=np.float64).reshape(len(self.found), len(self.metrics))
        queries = {name: table[:, j].copy() for j, name in enumerate(self.metrics)}
        values = {name: mean_of(each) for name, each in queries.items()}
        estimates = {name: estimator.interval() for name, estimator in self.estimators.items()}
        values |= {name: interval.mean for name, interval in estimates.items()}
        limits = {name: (interval.lower, interval.upper) for name, interval in estimates.items()}
        return Run(*names, values, limits, queries, len(self.found), self.n_documents, self.seconds)


def run_once(
    names: tuple[str, int, str], stream: Iterable[Any], model: Any, metrics: Any, test: Iterable[Any] | None = None
) -> Run:
    """Let a model learn a stream, and measure it: on each query before it learns it, or on `test` after the last one.

    Parameters
    ----------
    names
        Of the stream, the seed, and of the model.
    stream, model, metrics
        As `progressive` takes them; or a `ClickStudy`, and estimators. The model learns in place.
    test
        Queries with grades, which the model ranks and does not learn; None to measure progressively.
    """
    measuring = _Measuring(model, metrics)
    # What the model shows itself is what is measured.
    user = (
        stream.user if isinstance(stream, ClickStudy) and stream.logger is None and abilities_of(model).takes_clicks else None
    )
    for number, item in enumerate(stream):
        x, y, arguments = _lesson(item)
        feedback = y
        if user is not None:
            shown = measuring.timed("show_one", x, **_known(arguments))
            feedback = user.clicks(shown, y, number)
            if test is None:
                measuring.add(y, _as_scores(shown.order, x))
        elif test is None:
            ranking = measuring.timed("rank_one", x, **_known(arguments)) if isinstance(y, Feedback) else None
            measuring.add(y, measuring.timed("predict_one", x, **_known(arguments)) if ranking is None else ranking, ranking)
        measuring.timed("learn_one", x, feedback, **arguments)
    for item in () if test is None else test:
        x, y, arguments = _lesson(item)
        measuring.add(y, measuring.timed("predict_one", x, **_known(arguments)))
    return measuring.result(names)


def mean_of(values: np.ndarray) -> float:
    """The mean of the values that are not NaN; NaN without one."""
    counted = values[~np.isnan(values)]
    return float(counted.mean()) if len(counted) else float("nan")


def _known(arguments: Mapping[str, Any]) -> dict[str, Any]:
    """The arguments of `learn_one` that are known when a query is ranked."""
    return {name: arguments[name] for name in ("context", "at") if name in arguments}


def _value(metric: Any, y: Any, answer: Any) -> float:
    """The value of a metric for one query; NaN for a query that it leaves out."""
    if hasattr(metric, "value_one"):
        return float(metric.value_one(y, answer))
    # Another library's: a fresh copy of it measures this query alone.
    one = copy.deepcopy(metric)
    one.update(y, answer)
    return float(one.get())


def _as_scores(order: Any, x: Any) -> Any:
    """Scores that rank what was shown as it was shown, and the other documents as not retrieved."""
    places = {document: -float(place) for place, document in enumerate(order)}
    if isinstance(x, Mapping):
        return {name: places.get(name, -np.inf) for name in x}
    n = x.shape[0] if hasattr(x, "shape") else len(x)
    return [places.get(i, -np.inf) for i in range(n)]
