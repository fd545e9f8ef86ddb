"""The same experiment over several seeds: learning curves with bands, and paired differences."""

import copy
import functools
from collections.abc import Callable, Iterable, Mapping, Sequence
from typing import Any, NamedTuple

import numpy as np

from online_rank import arguments
from online_rank.evaluate.run import progressive
from online_rank.evaluate.trace import Trace
from online_rank.support.progress import progress as shown_progress


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


class Repeated:
    """What `repeat` measured.

    Attributes
    ----------
    seeds : tuple of int
        The seeds.
    traces : dict of str to list of Trace
        The trace of each model, by name, for each seed.
    """

    def __init__(self, seeds: Sequence[int], traces: dict[str, list[Trace]]) -> None:
        self.seeds = tuple(seeds)
        self.traces = traces

    @property
    def metrics(self) -> list[str]:
        """Names of the metrics."""
        return [*next(iter(self.traces.values()))[0].values]

    def values(self, model: str, metric: str | None = None) -> np.ndarray:
        """A metric after the last query, float64 (n seeds,); None for the first metric."""
        return np.array([trace.values[metric or self.metrics[0]] for trace in self.traces[model]])

    def spread(self, model: str, metric: str | None = None) -> Spread:
        """The mean of a metric over the seeds, with its standard error."""
        return Spread.of(self.values(model, metric))

    def difference(self, a: str, b: str, metric: str | None = None) -> Spread:
        """By how much a metric is larger for model `a` than for `b` on the same streams: the mean, and its standard error."""
        return Spread.of(self.values(a, metric) - self.values(b, metric))

    def curve(self, model: str, metric: str | None = None, *, level: float = 0.95) -> Band:
        """The learning curve of a model, at the numbers of queries that the traces of all seeds have."""
        from scipy import stats

        arguments.number("level", level, above=0.0, below=1.0)
        name, n = metric or self.metrics[0], len(self.seeds)
        columns = [trace.columns for trace in self.traces[model]]
        queries = functools.reduce(np.intersect1d, (each["query"] for each in columns))
        found = np.array([each[name][np.isin(each["query"], queries)] for each in columns])
        error = found.std(axis=0, ddof=1) / np.sqrt(n) if n > 1 else np.full(len(queries), np.nan)
        half = stats.t.ppf(0.5 + level / 2.0, n - 1) * error if n > 1 else error
        mean = found.mean(axis=0)
        return Band(queries, mean, mean - half, mean + half)

    def __repr__(self) -> str:
        width, first, *others = max(map(len, self.traces)), *self.traces
        lines = [f"{self.metrics[0]} over {len(self.seeds)} seeds", f"{first:<{width}}  {self.spread(first)}"]
        lines += [f"{name:<{width}}  {self.spread(name)}  ({self.difference(name, first):+.4f})" for name in others]
        return "\n".join(lines)


def repeat(
    make_model: Callable[[int], Any] | Mapping[str, Callable[[int], Any]],
    make_stream: Callable[[int], Iterable[tuple]],
    metrics: Any = None,
    *,
    seeds: int | Sequence[int] = 20,
    every: int | None = None,
    progress: bool | None = None,
) -> Repeated:
    """Evaluate models progressively on several streams, one for each seed: all models on the same queries.

    Parameters
    ----------
    make_model
        Makes a model from a seed; or several such functions, by the names of their models. Differences are to the first.
    make_stream
        Makes a stream of queries from a seed, as `progressive` takes them.
    metrics
        As for `progressive`; each run gets a copy.
    seeds
        The seeds, or their number: 0, 1, ...
    every
        Number of queries between two points of the learning curves; None for up to 1024 points.
    progress
        Whether to show a progress bar on stderr; None shows one on a terminal only.

    Raises
    ------
    TypeError, ValueError
        There is no seed, or one twice; a seed gets the model of the one before, or a stream without queries; or as
        `progressive`.

    Examples
    --------
    >>> from online_rank import PerceptronRanker, evaluate
    >>> from online_rank.stream.synth import NoisyTeacher
    >>> models = {"average": lambda seed: PerceptronRanker(), "last weights": lambda seed: PerceptronRanker(half_life=0)}
    >>> runs = evaluate.repeat(models, lambda seed: NoisyTeacher(n_queries=100, n_features=5, seed=seed), seeds=4)
    >>> runs.difference("average", "last weights").n
    4
    >>> runs.curve("average").queries[-3:]
    array([ 98,  99, 100])
    """
    makers = make_model if isinstance(make_model, Mapping) else {"model": make_model}
    arguments.integer("every", every, 1, optional=True)
    if isinstance(seeds, int):
        arguments.integer("seeds", seeds, 1)
        seeds = range(seeds)
    if not len(seeds) or not makers:
        raise ValueError("repeat needs at least one seed and one model")
    if len({*seeds}) < len(seeds):
        raise ValueError(f"seeds has {next(seed for seed in seeds if [*seeds].count(seed) > 1)} twice: its runs would be equal")
    traces: dict[str, list[Trace]] = {name: [] for name in makers}
    models: dict[str, Any] = {}
    with shown_progress("seeds", len(seeds), shown=progress) as show:
        for k, seed in enumerate(seeds):
            stream = make_stream(seed)
            before, models = models, {name: make(seed) for name, make in makers.items()}
            if any(models[name] is model for name, model in before.items()):
                raise ValueError(
                    f"make_model gives seed {seed} the model of seed {seeds[k - 1]}, which has learned: make a new one"
                )
            several = len(models) > 1
            given = models if several else next(iter(models.values()))
            run = progressive(stream, given, copy.deepcopy(metrics), every=every, progress=False)
            for name in makers:
                traces[name].append(run.traces[name] if several else run)
                if not traces[name][-1].n_queries:
                    raise ValueError(f"the stream of seed {seed} has no queries: make_stream makes a new one for each seed")
            show(k + 1)
    return Repeated(seeds, traces)
