"""`online-rank train`."""

import contextlib
import importlib.util
import json
import os
import warnings
from collections.abc import Iterator, Mapping, Sequence
from typing import Any

from rich.console import Console

from online_rank.base import ranker_of
from online_rank.base.names import are_numbers
from online_rank.base.signs import signs_of_columns
from online_rank.bounds import certificate_of
from online_rank.bounds.account_run import keeps_account
from online_rank.cli.advice import LOOKED_AT, advice
from online_rank.cli.begin_with import begun_with, differences
from online_rank.cli.beside import in_words, with_trees, with_words, words_in_words
from online_rank.cli.evaluate import measure_files
from online_rank.cli.files import behind, check_outputs, declared, histories_of, tastes_of
from online_rank.cli.options import Checkpoints, Measuring, Output
from online_rank.cli.printing import RANDOM, measured, table
from online_rank.cli.reading import NO_GRADES, warnings_as_lines
from online_rank.cli.settings import Made, Settings
from online_rank.evaluate import Trace, progressive
from online_rank.storage import CheckpointDirectory, CheckpointError
from online_rank.storage.files import save
from online_rank.stream.plan import n_features_of
from online_rank.support.lazy import MissingExtra
from online_rank.support.progress import progress
from online_rank.support.registry import of_another_part


def new_model(
    measure: str,
    ranker: str,
    signs: Mapping[str, int] | None = None,
    relative: bool = True,
    kinds: Mapping[str, str] | None = None,
) -> Any:
    """A model that has learned nothing yet. The ranker "swap" learns from clicks, not for a measure.

    `signs` are the signs of features, for curves and linear weights; curves may be `relative` to the query, and `kinds` are the
    kinds of features that were declared, for curves.
    """
    from online_rank import AdditiveRanker, PerceptronRanker, StreamScaler, SwapRanker

    if ranker == "additive":
        return AdditiveRanker(measure, relative=relative, signs=signs, kinds=kinds)
    if ranker == "swap":
        return behind_map(SwapRanker)
    return StreamScaler() | PerceptronRanker(measure, signs=signs)


def _new(settings: Settings) -> Any:
    """The model of a run before the first query."""
    front = [*histories_of(settings.history), *tastes_of(settings.tastes, settings.ranker)]
    return behind(front, _ranker(settings, settings.relative))


def _ranker(settings: Settings, relative: bool) -> Any:
    """The ranker of a run, which may begin with a model of another library."""
    ranker = new_model(settings.measure, settings.ranker, settings.signs, relative, settings.kinds)
    return ranker if settings.begin_with is None else begun_with(settings.begin_with, ranker, settings.measure)


def behind_map(ranker: Any, signs: Mapping[str, int] | None = None, **options: Any) -> Any:
    """A new ranker of a class behind a quantile map; `signs` are signs of features."""
    from online_rank import StreamQuantileMap

    front = StreamQuantileMap()
    return front | ranker(**options, signs=signs_of_columns([front], signs) if signs else None)


def run(settings: Settings, checkpoints: Checkpoints, output: Output) -> None:
    """Train a model, test it, save it, and print and report the figures."""
    with warnings_as_lines(output.warn):
        _run(settings, checkpoints, output)


def _run(settings: Settings, checkpoints: Checkpoints, output: Output) -> None:
    if not settings.files and checkpoints.checkpoint is not None:
        settings, checkpoints = _begun(settings, checkpoints)
    _check(settings, checkpoints, output)
    log = _log_for(output.report, settings, checkpoints)
    shown = False if output.quiet or output.json else None
    # What decides how files are read; it stays as it is.
    blank = _new(settings)
    words = settings.target is None
    source = settings.reading.queries(settings.files, blank, with_ids=log is not None, words=words)
    plan = source.plan
    model = _untaught(settings, source, blank, output, shown)
    traces, figures = _taught(settings, checkpoints, model, blank, source, log, shown)
    if traces[0].skipped == traces[0].n_queries:
        output.warn(NO_GRADES)
    report = {"files": settings.files, "measure": settings.measure, "features": n_features_of(model) or 0, **figures}
    if _loses(settings, blank):
        report["default"] = _default(settings, output, shown)
    if (trees := with_trees(model)) is not None:
        report["trees"] = trees
    if (words_of := with_words(model)) is not None:
        report["words"] = words_of
    certificate = certificate_of(model) if settings.certify else None
    if certificate is not None:
        report["certificate"] = certificate.to_dict()
    if output.save is not None:
        save(model, output.save)
        report["saved"] = output.save
    if log is not None and output.report is not None:
        names = None if source.is_letor else list(plan.features)
        about = {"trace": traces[0], "log": log, "model": model, "certificate": certificate, "feature_names": names}
        with progress("writing the report", unit="", shown=shown):
            write = of_another_part("write_report")
            report["report"] = str(write(output.report, figures=report, settings=settings.shown(), **about))
    if output.json:
        print(json.dumps(report))
    elif not output.quiet:
        _print(report, traces)
        if certificate is not None:
            print(certificate)


def _check(settings: Settings, checkpoints: Checkpoints, output: Output) -> None:
    """Check what can be checked before anything is read."""
    settings.check()
    read = [*settings.files, *settings.test]
    read += [] if settings.begin_with is None else [settings.begin_with]
    check_outputs(read, save=output.save, report=output.report, checkpoint=checkpoints.checkpoint)


def _untaught(settings: Settings, source: Any, blank: Any, output: Output, shown: bool | None) -> Any:
    """The model before the first query; says what was found in the files, and what may be better."""
    require_known_signs(settings.signs, source, settings.files)
    model = _new(settings)
    if settings.begin_with is not None:
        for line in differences(settings.begin_with, model, source, settings.files):
            output.warn(line)
    if settings.reading.strict:
        if source.is_letor:
            raise ValueError("--strict is for tables, whose columns have names")
        model = declared(model, source.plan.features)
    for line in ([] if source.is_letor else source.plan.in_words()) + advice(source.first(LOOKED_AT), not source.is_letor):
        output.warn(line)
    if settings.target is not None:
        for line in of_another_part("beyond")(source.first(LOOKED_AT), settings.target):
            output.warn(line)
    if not settings.certify or keeps_account(ranker_of(model)):
        return model
    return of_another_part("tracked")(model, settings.queries(0, blank), shown)


def require_known_signs(signs: Mapping[str, int] | None, source: Any, files: Sequence[str]) -> None:
    """Raise ValueError if a feature that has a sign is not in the files."""
    for name in signs or ():
        if not source.is_letor and name not in source.plan.features:
            raise ValueError(f"--sign {name}: {files[0]} has no such feature; there are {', '.join(source.plan.features)}")
        if source.is_letor and not are_numbers((name,)):
            raise ValueError(f"--sign {name}: features of LETOR text are known by their number, 1, 2, ...")


def _learn(
    settings: Settings, checkpoints: Checkpoints, model: Any, source: Any, blank: Any, log: Any, shown: bool | None
) -> tuple[list[Trace], int]:
    """Teach the model all passes, the first from an open source; returns their traces, and the number of queries in the
    measure of the first.
    """
    from online_rank.metrics import RandomRanking, metric

    traces, counted = [], 0
    with _opened(settings, checkpoints):
        for number in range(settings.passes):
            place = None if checkpoints.checkpoint is None else os.path.join(checkpoints.checkpoint, f"pass-{number + 1}")
            # Only in the first pass are queries new to the model, so only their ranking is a test.
            metrics: dict[str, Any] = {}
            if number == 0:
                metrics = {settings.measure: metric(settings.measure), RANDOM: RandomRanking(settings.measure)}
            queries: Any = settings.queries(number, blank, source if number == 0 else None)
            if log is not None and number == 0:
                metrics[f"last {log.window}"] = log
                queries = Made(log.reading(queries), queries)
            every = None if place is None else checkpoints.every
            traces.append(progressive(queries, model, metrics, every=every, progress=shown, checkpoint=place))
            if number == 0:
                counted = metrics[settings.measure].n_queries
    return traces, counted


def _taught(
    settings: Settings, checkpoints: Checkpoints, model: Any, blank: Any, source: Any, log: Any, shown: bool | None
) -> tuple[list[Trace], dict[str, Any]]:
    """Teach the model, and test it; returns the traces of the passes, and the figures for the report."""
    traces, counted = _learn(settings, checkpoints, model, source, blank, log, shown)
    if not traces[0].n_queries:
        raise ValueError(f"{', '.join(settings.files)}: no queries to learn from")
    figures: dict[str, Any] = {"counted": counted, "passes": [trace.to_dict() for trace in traces]}
    if settings.test:
        held_out = measure_files(model, settings.test, Measuring([settings.measure]), settings.reading, shown)
        figures["test"] = {"files": settings.test, **held_out}
    return traces, figures


def _loses(settings: Settings, blank: Any) -> bool:
    """Whether the target cannot compute all that the default model learns from the files."""
    if settings.target is None or settings.ranker == "perceptron":
        return False
    if not settings.relative or settings.ranker != "additive" or "-" in settings.files:
        return not settings.relative
    source = settings.reading.queries(settings.files, blank, words=True)
    return not source.is_letor and any(name in source.plan.texts for name in source.plan.features)


def _default(settings: Settings, output: Output, shown: bool | None) -> dict[str, Any]:
    """The figures of the default model, which the target cannot compute, on the same files."""
    if "-" in [*settings.files, *settings.test]:
        output.warn(f"--for {settings.target}: the default model is left out, since standard input can be read once")
        return {}
    model, settings = _ranker(settings, True), settings._replace(target=None)
    # The first model has warned about the files.
    with warnings.catch_warnings(action="ignore", category=UserWarning):
        traces, figures = _taught(settings, Checkpoints(), model, model, None, None, shown)
    made = {"progressive": traces[0].values[settings.measure]}
    return made | ({"test": figures["test"]["metrics"][settings.measure]} if settings.test else {})


def _begun(settings: Settings, checkpoints: Checkpoints) -> tuple[Settings, Checkpoints]:
    """The settings of the run in a checkpoint."""
    with CheckpointDirectory(str(checkpoints.checkpoint)) as directory:
        before = directory.read()
    if not isinstance(before, dict):
        raise CheckpointError(f"{checkpoints.checkpoint} has no run to continue: name the files to learn from")
    try:
        return Settings.from_run(before, settings.test), checkpoints._replace(every=before["every"])
    except (KeyError, TypeError):
        raise CheckpointError(f"{checkpoints.checkpoint} does not hold a run of train") from None


def _log_for(report_to: str | None, settings: Settings, checkpoints: Checkpoints) -> Any:
    """The log of queries for the report, if one was requested."""
    if report_to is None:
        return None
    if checkpoints.checkpoint is not None:
        raise ValueError("--report shows a whole run: leave out --checkpoint, which may continue in the middle of one")
    if importlib.util.find_spec("matplotlib") is None:
        raise MissingExtra('--report needs matplotlib: pip install "online_rank[plot]"')
    return of_another_part("QueryLog")(settings.measure)


@contextlib.contextmanager
def _opened(settings: Settings, checkpoints: Checkpoints) -> Iterator[None]:
    """The checkpoint directory, locked, if one was given, after checking that the run may continue in it."""
    if checkpoints.checkpoint is None:
        yield
        return
    with CheckpointDirectory(checkpoints.checkpoint) as directory:
        before, now = directory.read(), settings.of_run() | {"every": checkpoints.every}
        if before is None:
            directory.write(now)
        elif before != now:
            changed = next((key for key in now if not isinstance(before, dict) or before.get(key) != now[key]), "settings")
            raise CheckpointError(
                f"{directory.path} holds a run with other {changed}: give the same options to continue it, or another directory"
            )
        yield


def _print(report: dict[str, Any], traces: list[Trace]) -> None:
    """The figures for people."""
    console = Console(highlight=False)
    first, measure = traces[0], report["measure"]
    console.print(
        f"[bold]{first.n_queries:,}[/] queries, [bold]{first.n_documents:,}[/] documents, "
        f"[bold]{report['features']:,}[/] features"
    )
    rate = first.n_queries / first.elapsed if first.elapsed > 0.0 else 0.0
    console.print(f"{rate:,.0f} queries/s, read, ranked, measured and learned")
    means = table("", measure, "queries", bold=(measure,))
    for label, value, over in measured(report, first):
        by_chance = "random" in label
        means.add_row(f"  {label}" if by_chance else label, value, over, style="dim" if by_chance else "")
    console.print(means)
    if report["counted"] < first.n_queries:
        console.print(f"A mean is over the queries that have a relevant document: {measure} is not defined for the others.")
    for number, trace in enumerate(traces, start=1):
        of_pass = f"pass {number}: " if len(traces) > 1 else ""
        updated = (
            f"updated on [bold]{trace.mistakes:,}[/] of {trace.n_queries:,} queries "
            f"({trace.skipped:,} had nothing to learn, the others lost nothing); "
        )
        # A blend counts no updates.
        counts = trace.mistakes or not trace.loss
        console.print(f"{of_pass}{updated if counts else ''}cumulative loss [bold]{trace.loss:,.2f}[/]")
    if "trees" in report:
        console.print(in_words(report["trees"], measure))
    if "words" in report:
        console.print(words_in_words(report["words"], measure))
    if "report" in report:
        console.print(f"report in [bold]{report['report']}[/]")
    if "saved" in report:
        console.print(f"saved to [bold]{report['saved']}[/] ({os.path.getsize(report['saved']):,} bytes)")
