"""`online-rank train`."""

import contextlib
import copy
import importlib.util
import json
import os
import shlex
import sys
from functools import partial
from typing import Any, NamedTuple

from rich import box
from rich.console import Console
from rich.table import Table

from online_rank._progress import progress
from online_rank.cli.serve import measure_files, n_features_of
from online_rank.cli.settings import Made, Settings
from online_rank.evaluate import Trace, progressive
from online_rank.storage.checkpoint import CheckpointDirectory, CheckpointError

__all__ = ["Checkpoints", "new_model", "run"]


def ranker_of(model: Any) -> Any:
    """The last step of a pipeline, or the ranker that stands alone."""
    return list(model.steps.values())[-1] if hasattr(model, "steps") else model


def new_model(measure: str, scale: str, log: bool) -> Any:
    """A model that has learned nothing yet."""
    from online_rank import PerceptronRanker, QueryNormalizer, SignedLog, StreamScaler

    model: Any = PerceptronRanker(measure=measure)
    if scale != "none":
        model = (StreamScaler() if scale == "stream" else QueryNormalizer()) | model
    return SignedLog() | model if log else model


class Checkpoints(NamedTuple):
    """Where and how often the run is written down, and whether it may be there already."""

    directory: str | None
    every: int
    resume: bool


def run(
    settings: Settings, checkpoints: Checkpoints, save_as: str | None, report_to: str | None, as_json: bool, quiet: bool
) -> None:
    """Train a model, test it, save it, and print and report the figures."""
    from online_rank.storage.files import require_replaceable, save

    settings.check()
    if save_as is not None:
        require_replaceable(save_as)
    log = _log_for(report_to, settings, checkpoints)
    shown = False if quiet or as_json else None
    model = new_model(settings.measure, settings.scale, settings.log)
    if settings.certify:
        from online_rank.cli.certify import tracked

        model = tracked(model, settings.queries(0), settings.teacher, shown)
    speed = _Speed()
    traces = []
    with _opened(settings, checkpoints):
        for number in range(settings.passes):
            place = None if checkpoints.directory is None else os.path.join(checkpoints.directory, f"pass-{number + 1}")
            # Only in the first pass are queries new to the model, so that their ranking is a test of it.
            metrics: dict[str, Any] = {settings.measure: settings.measure} if number == 0 else {}
            queries: Any = partial(settings.queries, number)
            if log is not None and number == 0:
                metrics[f"last {log.window}"] = log
                source = settings.queries(number, with_ids=True)
                queries = Made(log.reading(source), source)
            traces.append(
                progressive(
                    queries,
                    model,
                    metrics,
                    every=None if place is None else checkpoints.every,
                    progress=shown,
                    watch=speed,
                    checkpoint=place,
                )
            )
    report = {
        "files": settings.files,
        "measure": settings.measure,
        "features": n_features_of(model) or 0,
        "queries_per_second": speed.rate,
        "passes": [trace.to_dict() for trace in traces],
    }
    if settings.test:
        models = [model, _by_last_weights(model)]
        (served, last), n_queries = measure_files(models, settings.test, [settings.measure], shown)
        report["test"] = {"files": settings.test, "queries": n_queries, "served": served, "last": last}
    certificate = ranker_of(model).certificate() if settings.certify else None
    if certificate is not None:
        report["certificate"] = certificate.to_dict()
    if save_as is not None:
        save(model, save_as)
        report["saved"] = save_as
    if log is not None and report_to is not None:
        from online_rank.report import write_report

        command = shlex.join(["online-rank", *sys.argv[1:]])
        about = {"figures": report, "settings": settings._asdict(), "trace": traces[0], "log": log, "model": model}
        about["certificate"] = certificate
        with progress("writing the report", unit="", shown=shown):
            report["report"] = str(write_report(report_to, command=command, **about))
    if as_json:
        print(json.dumps(report))
    elif not quiet:
        _print(report, traces)
        if certificate is not None:
            print(certificate)


def _log_for(report_to: str | None, settings: Settings, checkpoints: Checkpoints) -> Any:
    """What watches the queries for the report, if there is to be one."""
    if report_to is None:
        return None
    if checkpoints.directory is not None:
        raise ValueError("--report shows a whole run: give it without --checkpoint, which may go on with part of one")
    if importlib.util.find_spec("matplotlib") is None:
        raise ImportError('--report needs matplotlib: pip install "online_rank[plot]"')
    from online_rank.report import QueryLog

    return QueryLog(settings.measure)


def _opened(settings: Settings, checkpoints: Checkpoints) -> contextlib.AbstractContextManager[Any]:
    """The checkpoint directory, locked, if there is to be one, after a look at whether the run may go on in it."""
    if checkpoints.directory is None:
        if checkpoints.resume:
            raise ValueError("--resume needs --checkpoint DIR, the directory to go on from")
        return contextlib.nullcontext()
    directory = CheckpointDirectory(checkpoints.directory)
    try:
        before, now = directory.read(), settings.of_run() | {"every": checkpoints.every}
        if before is None:
            directory.write(now)
        elif not checkpoints.resume:
            raise CheckpointError(f"{directory.path} holds a run already: go on with --resume, or give another directory")
        elif before != now:
            changed = next((key for key in now if not isinstance(before, dict) or before.get(key) != now[key]), "settings")
            raise CheckpointError(f"{directory.path} holds a run with other {changed}: they must be the same to go on")
    except BaseException:
        directory.close()
        raise
    return directory


class _Speed:
    """Queries a second, without the first ten of a stream: they may have waited for compilation."""

    def __init__(self) -> None:
        self._queries = 0
        self._seconds = 0.0
        self._trace: Trace | None = None
        self._calls = 0
        self._before = 0.0

    def __call__(self, trace: Trace) -> None:
        if trace is not self._trace:
            self._trace, self._calls = trace, 0
        self._calls += 1
        if self._calls > 10:
            self._queries += 1
            self._seconds += trace.elapsed - self._before
        self._before = trace.elapsed

    @property
    def rate(self) -> float:
        return self._queries / self._seconds if self._seconds else 0.0


def _by_last_weights(model: Any) -> Any:
    """A copy of the model that serves its last weights, not their average."""
    model = copy.deepcopy(model)
    ranker = ranker_of(model)
    ranker = getattr(ranker, "model", ranker)  # out of its tracker
    ranker.stop_averaging()
    return model


def _print(report: dict[str, Any], traces: list[Trace]) -> None:
    """The figures for people."""
    console = Console(highlight=False)
    first, measure = traces[0], report["measure"]
    console.print(
        f"[bold]{first.n_queries:,}[/] queries, [bold]{first.n_documents:,}[/] documents, "
        f"[bold]{report['features']:,}[/] features; [bold]{report['queries_per_second']:,.0f}[/] queries/s"
    )
    table = Table(box=box.SIMPLE_HEAD, pad_edge=False)
    table.add_column("")
    table.add_column(measure, justify="right", style="bold")
    table.add_column("queries", justify="right")
    table.add_row("progressive: each query ranked, then learned", f"{first.values[measure]:.4f}", f"{first.n_queries:,}")
    if test := report.get("test"):
        table.add_row("held out, weights that serve (averaged)", f"{test['served'][measure]:.4f}", f"{test['queries']:,}")
        table.add_row("held out, weights that learn (last)", f"{test['last'][measure]:.4f}", f"{test['queries']:,}")
    console.print(table)
    for number, trace in enumerate(traces, start=1):
        of_pass = f"pass {number}: " if len(traces) > 1 else ""
        console.print(
            f"{of_pass}updated on [bold]{trace.mistakes:,}[/] of {trace.n_queries:,} queries "
            f"({trace.skipped:,} had nothing to learn); cumulative loss [bold]{trace.loss:,.2f}[/]"
        )
    if "report" in report:
        console.print(f"report in [bold]{report['report']}[/]")
    if "saved" in report:
        console.print(f"saved to [bold]{report['saved']}[/] ({os.path.getsize(report['saved']):,} bytes)")
