"""What an experiment measured: means, paired differences, tables and learning curves."""

import contextlib
import math
from collections.abc import Mapping, Sequence
from typing import Any, NamedTuple

import numpy as np

from online_rank import arguments
from online_rank.evaluate.episode import Run
from online_rank.intervals import Difference, LossInterval, mean_interval
from online_rank.intervals.betting import INDEPENDENT
from online_rank.intervals.losses import running_sums
from online_rank.intervals.paired import EXPECTATION, Better


class Spread(NamedTuple):
    """A mean with its standard error. A format code applies to both: `f"{spread:+.3f}"`.

    Attributes
    ----------
    mean, error
        The mean, and the standard deviation of the values over the square root of their number; NaN for a single value.
    n
        Number of values.

    Examples
    --------
    >>> print(Spread.of([0.5, 0.75, 1.0]))
    0.7500 ± 0.1443
    """

    mean: float
    error: float
    n: int

    @classmethod
    def of(cls, values: Sequence[float] | np.ndarray) -> "Spread":
        """The spread of values, of which NaN are left out."""
        given = np.asarray(values, dtype=np.float64)
        given = given[~np.isnan(given)]
        n = len(given)
        return cls(float(given.mean()) if n else np.nan, float(given.std(ddof=1) / np.sqrt(n)) if n > 1 else np.nan, n)

    def __format__(self, code: str) -> str:
        error = "" if np.isnan(self.error) else f" ± {self.error:{(code or '.4f').lstrip('+')}}"
        return f"{self.mean:{code or '.4f'}}{error}"

    def __str__(self) -> str:
        return f"{self:.4f}"


class Band(NamedTuple):
    """A learning curve: its mean over the seeds, and an interval for the mean at each point.

    Attributes
    ----------
    queries
        int64 (r,): numbers of queries.
    mean, lower, upper
        float64 (r,) each. The interval is Student's t interval, valid at one point at a time.
    """

    queries: np.ndarray
    mean: np.ndarray
    lower: np.ndarray
    upper: np.ndarray


class Results:
    """What an `Experiment` measured.

    Parameters
    ----------
    runs
        All runs: each model on each stream with each seed.
    about
        Settings, versions and machines, as in the file.

    Attributes
    ----------
    runs, about
        As above.
    streams, seeds, models, metrics
        Their names, and the seeds, in the order of the experiment.
    """

    def __init__(self, runs: Sequence[Run], about: Mapping[str, Any]) -> None:
        self.about = dict(about)
        settings = about["settings"]
        self.streams = list(settings["streams"])
        self.seeds = list(settings["seeds"])
        self.models = list(settings["models"])
        self.metrics = list(settings["metrics"])
        self._runs = {(run.stream, run.seed, run.model): run for run in runs}
        wanted = [(stream, seed, model) for stream in self.streams for model in self.models for seed in self.seeds]
        self.runs = [self._runs[key] for key in wanted if key in self._runs]
        self.missing = [key for key in wanted if key not in self._runs]

    # In all methods: None stands for the first metric, and for the first stream.

    def values(self, model: str, metric: str | None = None, stream: str | None = None) -> np.ndarray:
        """The mean of a metric over the queries of each seed, float64 (n seeds,)."""
        name = self._metric(metric)
        return np.array([run.values[name] for run in self._of(model, stream)])

    def queries(self, model: str, metric: str | None = None, stream: str | None = None) -> np.ndarray:
        """The metric of each query, float64 (n,).

        The seeds stand one after the other; where all seeds measure the same held-out queries, it is the mean over the seeds.
        """
        name, runs = self._metric(metric), self._of(model, stream)
        each = [run.queries[name] for run in runs if name in run.queries]
        if not each:
            raise ValueError(f"metric {name!r} is an estimate from a log, without a value for each query: see Run.intervals")
        return np.mean(each, axis=0) if self._averaged(stream) else np.concatenate(each)

    def spread(self, model: str, metric: str | None = None, stream: str | None = None) -> Spread:
        """The mean of a metric with its standard error: over the seeds, or with a single seed over the queries."""
        found = self.values(model, metric, stream)
        name = self._metric(metric)
        if len(found) > 1 or name not in self._of(model, stream)[0].queries:
            return Spread.of(found)
        return Spread.of(self.queries(model, metric, stream))

    def change(self, a: str, b: str, metric: str | None = None, stream: str | None = None) -> Spread:
        """By how much a metric is larger for model `a` than for `b` on the same streams: the mean, and its standard error."""
        if len(self.seeds) > 1:
            return Spread.of(self.values(a, metric, stream) - self.values(b, metric, stream))
        return Spread.of(self.queries(a, metric, stream) - self.queries(b, metric, stream))

    def difference(
        self, a: str, b: str, metric: str | None = None, stream: str | None = None, *, level: float = 0.95
    ) -> Difference:
        """By how much model `a` is better than `b`, with an interval that holds whenever you stop, for this pair alone.

        On a stream that is measured progressively it is the one of `PairedLosses.difference`, valid on any stream. For held-out
        queries, which no model learns, it is `mean_interval`, valid for queries drawn independently.

        Raises
        ------
        ValueError
            The metric has values outside of [0, 1], or is an estimate from a log.
        """
        arguments.number("level", level, above=0.0, below=1.0)
        name = self._metric(metric)
        away = self.queries(a, name, stream) - self.queries(b, name, stream)
        away = away[~np.isnan(away)] * (1.0 if self._bigger_is_better(name) else -1.0)
        if len(away) and np.abs(away).max() > 1.0:
            raise ValueError(
                f"metric {name!r} has values outside of [0, 1], for which no interval holds: compare with change()"
            )
        if self._held_out(stream):
            return mean_interval(away, level=level, differences=True)  # type: ignore[return-value]
        halves = LossInterval(running_sums(np.zeros(3), 0.5 + 0.5 * away)[-1]).interval(level)
        lower, upper, mean = (2.0 * value - 1.0 for value in (halves.lower, halves.upper, halves.mean))
        return Difference(lower, upper, mean, halves.n, level)

    def better(self, metric: str | None = None, stream: str | None = None, *, level: float = 0.95) -> list[Better]:
        """Every statement "a is better than b by at least y" on a stream by a metric; all pairs hold together at `level`."""
        arguments.number("level", level, above=0.0, below=1.0)
        found, k = [], len(self.models)
        each = 1.0 - 2.0 * (1.0 - level) / max(k * (k - 1), 2)
        for i, a in enumerate(self.models):
            for b in self.models[i + 1 :]:
                away = self.difference(a, b, metric, stream, level=each)
                if away.lower > 0.0:
                    found.append(Better(a, b, away.lower, away.mean, away.n, level))
                if away.upper < 0.0:
                    found.append(Better(b, a, -away.upper, -away.mean, away.n, level))
        return found

    def best(self, metric: str | None = None, stream: str | None = None, *, level: float = 0.95) -> str | None:
        """The model that is better than every other one, by `better`; None without one."""
        with contextlib.suppress(ValueError):
            beaten = [statement.better for statement in self.better(metric, stream, level=level)]
            return next((model for model in self.models if beaten.count(model) == len(self.models) - 1 > 0), None)
        return None

    def curve(self, model: str, metric: str | None = None, stream: str | None = None, *, level: float = 0.95) -> Band:
        """The learning curve of a model: the mean of a metric over the first queries, over the seeds, at up to 500 points.

        Raises
        ------
        ValueError
            The stream is measured on held-out queries, after the last lesson.
        """
        from scipy import stats

        arguments.number("level", level, above=0.0, below=1.0)
        if self._held_out(stream):
            raise ValueError(f"stream {self._stream(stream)!r} is measured after the last query was learned: it has no curve")
        each = [run.queries[self._metric(metric)] for run in self._of(model, stream)]
        length, n = min(map(len, each)), len(each)
        at = np.unique(np.linspace(1, length, min(length, 500)).astype(np.int64))
        with np.errstate(invalid="ignore"):
            found = np.array([(np.nancumsum(one) / np.cumsum(~np.isnan(one)))[at - 1] for one in each])
        error = found.std(axis=0, ddof=1) / np.sqrt(n) if n > 1 else np.full(len(at), np.nan)
        half = stats.t.ppf(0.5 + level / 2.0, n - 1) * error if n > 1 else error
        mean = found.mean(axis=0)
        return Band(at, mean, mean - half, mean + half)

    def to_frame(self) -> Any:
        """A pandas frame with a row for each run: stream, model, seed, the metrics, n_queries, n_documents, seconds."""
        import pandas

        return pandas.DataFrame([self._row(run) for run in self.runs])

    def to_latex(self, metrics: Sequence[str] | None = None, *, digits: int = 4, level: float = 0.95) -> str:
        """A table for LaTeX with the package booktabs: a row for each model, a column for each stream and metric.

        Cells are means with standard errors (`spread`). The best of a column is bold if it is better than every other model
        (`best`).

        Parameters
        ----------
        metrics
            Names of the metrics; None for all.
        digits
            Digits after the point.
        level
            The confidence of "better than every other model".
        """
        from online_rank.evaluate.latex import table

        arguments.integer("digits", digits, 1)
        return table(self, self.metrics if metrics is None else [self._metric(name) for name in metrics], digits, level)

    def differences(self, other: "Results") -> list[str]:
        """What differs from other results of the same experiment, bit by bit; times, versions and machines do not count."""
        found = []
        for key in dict.fromkeys([*self._runs, *other._runs]):
            stream, seed, model = key
            name = f"{model} on {stream}, seed {seed}"
            a, b = self._runs.get(key), other._runs.get(key)
            if a is None or b is None:
                found.append(f"{name}: one of the two has no such run")
                continue
            for metric in dict.fromkeys([*a.values, *b.values]):
                x, y = a.values.get(metric, math.nan), b.values.get(metric, math.nan)
                one, two = (run.queries.get(metric, np.empty(0)) for run in (a, b))
                if len(one) != len(two):
                    found.append(f"{name}: {metric} of {len(one)} queries and of {len(two)}")
                elif not (np.array_equal(one, two, equal_nan=True) and np.array_equal(x, y, equal_nan=True)):
                    where = np.flatnonzero(~((one == two) | (np.isnan(one) & np.isnan(two))))
                    first = f", first at query {where[0] + 1}" if len(where) else ""
                    found.append(f"{name}: {metric} {x!r} and {y!r}{first}")
        return found

    def __repr__(self) -> str:
        lines, width = [], max(map(len, self.models))
        for stream in self.streams:
            seeds = f"{len(self.seeds)} seed{'s' * (len(self.seeds) > 1)}"
            how = f"held-out queries, {seeds}" if self._held_out(stream) else seeds
            lines.append(f"{stream}, {how}")
            columns = [[f"{self.spread(model, metric, stream)}" for model in self.models] for metric in self.metrics]
            sizes = [max(map(len, [name, *cells])) for name, cells in zip(self.metrics, columns, strict=True)]
            header = "  ".join(f"{name:>{size}}" for name, size in zip(self.metrics, sizes, strict=True))
            lines.append(f"  {'':<{width}}  {header}")
            for i, model in enumerate(self.models):
                cells = "  ".join(f"{cells[i]:>{size}}" for cells, size in zip(columns, sizes, strict=True))
                lines.append(f"  {model:<{width}}  {cells}")
        return "\n".join(lines)

    def statements(self, metric: str | None = None, stream: str | None = None, *, level: float = 0.95) -> str:
        """`better` in words, with what the intervals assume."""
        said = [str(one) for one in self.better(metric, stream, level=level)]
        none = f"no model is better than another at {100 * level:g} %, all pairs together"
        return "\n".join([*(said or [none]), INDEPENDENT if self._held_out(stream) else EXPECTATION])

    def _row(self, run: Run) -> dict[str, Any]:
        limits = {f"{name}, lower": pair[0] for name, pair in run.intervals.items()}
        limits |= {f"{name}, upper": pair[1] for name, pair in run.intervals.items()}
        sizes = {"n_queries": run.n_queries, "n_documents": run.n_documents, "seconds": run.seconds}
        return {"stream": run.stream, "model": run.model, "seed": run.seed, **run.values, **limits, **sizes}

    def _of(self, model: str, stream: str | None) -> list[Run]:
        if model not in self.models:
            raise KeyError(f"there is no model {model!r}; the models are {self.models}")
        name = self._stream(stream)
        found = [self._runs[name, seed, model] for seed in self.seeds if (name, seed, model) in self._runs]
        if len(found) < len(self.seeds):
            raise ValueError(
                f"{len(self.seeds) - len(found)} runs of {model!r} on {name!r} are missing: run the experiment again"
            )
        return found

    def _metric(self, metric: str | None) -> str:
        name = self.metrics[0] if metric is None else metric
        if name not in self.metrics:
            raise KeyError(f"there is no metric {name!r}; the metrics are {self.metrics}")
        return name

    def _stream(self, stream: str | None) -> str:
        name = self.streams[0] if stream is None else stream
        if name not in self.streams:
            raise KeyError(f"there is no stream {name!r}; the streams are {self.streams}")
        return name

    def _bigger_is_better(self, metric: str) -> bool:
        return bool(self.about["settings"]["metrics"][metric]["bigger_is_better"])

    def _held_out(self, stream: str | None) -> bool:
        return self.about["settings"]["streams"][self._stream(stream)]["test"] is not None

    def _averaged(self, stream: str | None) -> bool:
        return bool(self.about["settings"]["streams"][self._stream(stream)]["same_test"])
