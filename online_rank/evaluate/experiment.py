"""A paper's experiment in one object: models and streams by name, metrics, seeds."""

import itertools
import multiprocessing
import os
from collections.abc import Callable, Iterator, Mapping, Sequence
from concurrent.futures import ProcessPoolExecutor, as_completed
from typing import Any

from online_rank import arguments
from online_rank.evaluate.episode import Run, named_metrics, run_once
from online_rank.evaluate.makers import Made, without_address
from online_rank.evaluate.results import Results
from online_rank.evaluate.results_file import ResultsFile, circumstances
from online_rank.support.progress import progress as shown_progress

_Key = tuple[str, int, str]
#: What the processes of a pool run: they are forked, so that it may hold functions that cannot be pickled.
_SHARED: dict[str, "Experiment"] = {}


class Experiment:
    """Several models on several streams with several seeds, measured by several metrics.

    Models may learn for different measures or losses, and come from different libraries: all are compared by the same
    metrics, on the same queries.

    Parameters
    ----------
    models
        By name: a model, of which each run gets a copy, or a function that makes one from a seed. A model has `predict_one` and
        `learn_one`: rankers, pipelines, `PointwiseRanker` and `PairwiseRanker` around models of river, `Retrained` around
        models of LightGBM, XGBoost and scikit-learn.
    streams
        By name, or a single one: a stream with a `seed`, such as `NoisyTeacher`, which is made again with its seed plus the
        seed of the run; a file, several files or a list of queries, whose order each seed but 0 shuffles; a `ClickStudy`; or a
        function that makes a stream from a seed.
    metrics
        As `progressive` takes them; each run gets copies. `metrics.OffPolicyValue` estimates from a log of clicks.
    test
        Held-out queries for streams, by the names of these (or for the single one), in the same forms. Such a stream is not
        measured progressively: after its last query the model ranks the held-out ones, and does not learn them.
    seeds
        The seeds, or their number: 0, 1, ...

    Raises
    ------
    TypeError, ValueError
        There is no model, stream or seed, or one twice; a model is a class, or has no `learn_one`; or as `progressive`.

    Examples
    --------
    >>> from online_rank import PerceptronRanker, RidgeRanker, evaluate
    >>> from online_rank.stream.synth import NoisyTeacher
    >>> models = {"perceptron": PerceptronRanker(), "ridge": RidgeRanker()}
    >>> stream = NoisyTeacher(n_queries=100, n_features=5, n_documents=10)
    >>> results = evaluate.Experiment(models, {"noisy": stream}, ["ndcg@10", "mrr"], seeds=4).run()
    >>> results.change("ridge", "perceptron", "mrr").n
    4
    >>> results.difference("ridge", "perceptron", "mrr").n  # of 400 queries, 4 have no relevant document
    396
    """

    def __init__(
        self,
        models: Mapping[str, Any],
        streams: Any,
        metrics: Any = "ndcg@10",
        *,
        test: Any = None,
        seeds: int | Sequence[int] = 20,
    ) -> None:
        if not isinstance(models, Mapping) or not models:
            raise TypeError("models is a dict of models by name, with at least one")
        for name, model in models.items():
            made = callable(model) and not isinstance(model, type)
            if not made and (isinstance(model, type) or not (hasattr(model, "predict_one") and hasattr(model, "learn_one"))):
                kind = f"the class {model.__name__}" if isinstance(model, type) else f"of type {type(model).__name__}"
                raise TypeError(f"models: {name!r} is {kind}; give a model, or a function that makes one from a seed")
        self.models = {str(name): Made(model) for name, model in models.items()}
        self.streams = {str(name): Made(one) for name, one in _by_name(streams).items()}
        tested = test if test is None or isinstance(test, Mapping) else dict.fromkeys(self.streams, test)
        self.test = {str(name): Made(one) for name, one in (tested or {}).items()}
        if unknown := [name for name in self.test if name not in self.streams]:
            raise ValueError(f"test: there is no stream {unknown[0]!r}; the streams are {list(self.streams)}")
        if not self.streams:
            raise ValueError("streams is empty; it is at least one stream")
        if isinstance(seeds, int):
            arguments.integer("seeds", seeds, 1)
            seeds = range(seeds)
        self.seeds = tuple(seeds)
        for seed in self.seeds:
            arguments.seed(seed, "seeds")
        if not self.seeds or len({*self.seeds}) < len(self.seeds):
            raise ValueError(f"seeds is {self.seeds}; it is at least one seed, and none twice")
        self.metrics = "ndcg@10" if metrics is None else metrics
        self._metrics = {name: one for named in named_metrics(self.metrics) for name, one in named.items()}
        if not self._metrics:
            raise ValueError("metrics is empty; it is at least one metric")
        #: The file that it was read from, if any, as a table.
        self.file: dict[str, Any] | None = None

    @property
    def keys(self) -> list[_Key]:
        """Stream, seed and model of each run."""
        return [*itertools.product(self.streams, self.seeds, self.models)]

    def described(self) -> dict[str, Any]:
        """Its settings, in the form of JSON."""
        streams = {
            name: {
                "queries": one.described(),
                "test": self.test[name].described() if name in self.test else None,
                "same_test": name in self.test and self.test[name].shared,
            }
            for name, one in self.streams.items()
        }
        metrics = {
            name: {"is": _text(metric), "bigger_is_better": bool(getattr(metric, "bigger_is_better", True))}
            for name, metric in self._metrics.items()
        }
        models = {name: one.described(model=True) for name, one in self.models.items()}
        return {"models": models, "streams": streams, "metrics": metrics, "seeds": list(self.seeds)}

    def run(
        self,
        file: str | os.PathLike[str] | None = None,
        *,
        processes: int = 1,
        progress: bool | None = None,
        watch: Callable[[Run], None] | None = None,
    ) -> Results:
        """Run what has not been run yet.

        Parameters
        ----------
        file
            `NAME.json`: settings, versions, machine and results; a trace of each run is in the folder `NAME.traces`. If it
            exists, its runs are not repeated: an interrupted experiment continues, with the same bits as one that was
            not. Further models, streams and seeds may be added to it. None to keep results in memory only.
        processes
            Number of processes. They are forked; without fork, as on Windows, models and streams must be what `pickle` takes.
        progress
            Whether to show a progress bar on stderr; None shows one on a terminal only.
        watch
            Called with each `Run` when it has ended, for trackers of experiments.

        Raises
        ------
        ValueError
            The file belongs to an experiment with other settings; the message names the first that differs.
        """
        arguments.integer("processes", processes, 1)
        settings = self.described()
        about: dict[str, Any] = {"settings": settings, "file": self.file}
        kept = None if file is None else ResultsFile(file)
        if kept is not None and kept.read():
            _require_same(kept, settings, self.keys)
        runs = [] if kept is None else list(kept.runs)
        if kept is not None:
            kept.begin(about)
            kept.write()
        done = {(run.stream, run.seed, run.model) for run in runs}
        left = [key for key in self.keys if key not in done]
        with shown_progress("running", len(self.keys), "runs", progress) as show:
            for number, run in enumerate(self._each(left, processes), start=len(done) + 1):
                runs.append(run)
                if kept is not None:
                    kept.add(run)
                show(number)
                if watch is not None:
                    watch(run)
        return Results(runs, about | {"made_by": [circumstances()] if kept is None else kept.made_by})

    def again(self, file: str | os.PathLike[str], *, processes: int = 1, progress: bool | None = None) -> list[str]:
        """Repeat all runs of a file, and say what differs from it, bit by bit (`Results.differences`). Changes nothing.

        Raises
        ------
        FileNotFoundError, ValueError
            There is no such file, or it belongs to an experiment with other settings.
        """
        from online_rank.evaluate.results_file import read_results

        before = read_results(file)
        kept = ResultsFile(file)
        kept.read()
        _require_same(kept, self.described(), self.keys)
        now = self.run(processes=processes, progress=progress)
        versions = before.about["made_by"]
        noted = (
            []
            if not versions or now.about["made_by"][0] in versions
            else ["versions or the machine are others than in the file"]
        )
        return (noted if (found := before.differences(now)) else []) + found

    def one(self, key: _Key) -> Run:
        """One run.

        Raises
        ------
        ValueError
            The stream or the held-out queries have no queries.
        """
        stream, seed, model = key
        test = self.test[stream].stream(seed) if stream in self.test else None
        run = run_once(key, self.streams[stream].stream(seed), self.models[model].model(seed), self.metrics, test)
        if not run.n_queries:
            raise ValueError(f"stream {stream!r} has no queries with seed {seed}: make a new one for each run")
        return run

    def _each(self, keys: Sequence[_Key], processes: int) -> Iterator[Run]:
        """The runs, as they end."""
        if processes == 1 or len(keys) < 2:
            yield from map(self.one, keys)
            return
        _SHARED["experiment"] = self
        if "fork" in multiprocessing.get_all_start_methods():
            pool = ProcessPoolExecutor(processes, multiprocessing.get_context("fork"))
        else:
            pool = ProcessPoolExecutor(processes, initializer=_share, initargs=(self,))
        try:
            for future in as_completed([pool.submit(_shared_one, key) for key in keys]):
                yield future.result()
        finally:
            pool.shutdown(cancel_futures=True)
            del _SHARED["experiment"]


def _share(experiment: Experiment) -> None:
    _SHARED["experiment"] = experiment


def _shared_one(key: _Key) -> Run:
    return _SHARED["experiment"].one(key)


def _by_name(streams: Any) -> Mapping[str, Any]:
    return streams if isinstance(streams, Mapping) else {"stream": streams}


def _text(metric: Any) -> str:
    settings = {name: value for name, value in vars(metric).items() if not name.startswith("_") and not name.startswith("n_")}
    kind = type(metric).__qualname__
    return f"{kind}({', '.join(f'{name}={without_address(value)}' for name, value in settings.items())})"


def _require_same(kept: ResultsFile, settings: Mapping[str, Any], keys: Sequence[_Key]) -> None:
    """Raise ValueError unless what the file has was made with these settings."""
    before = kept.about["settings"]
    if before["metrics"] != settings["metrics"]:
        raise ValueError(
            f"{kept.path} measures {list(before['metrics'])} with other settings or other metrics: give another file"
        )
    for kind in ("models", "streams"):
        for name, is_now in settings[kind].items():
            if before[kind].get(name, is_now) != is_now:
                raise ValueError(f"{kept.path} has {kind[:-1]} {name!r} with other settings: give another name or another file")
    known = {*keys}
    for run in kept.runs:
        if (run.stream, run.seed, run.model) not in known:
            what = f"{run.model!r} on {run.stream!r} with seed {run.seed}"
            raise ValueError(f"{kept.path} has a run of {what}, which this experiment lacks: give another file")
