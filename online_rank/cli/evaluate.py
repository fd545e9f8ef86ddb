"""`online-rank evaluate`: metrics of a model on files, or of a TREC run against judgements."""

import json
import math
import warnings
from collections.abc import Iterable, Iterator, Sequence
from typing import Any

from rich.console import Console

from online_rank.cli.files import load_model
from online_rank.cli.options import Measuring
from online_rank.cli.printing import of_queries, table
from online_rank.cli.reading import NO_GRADES, Reading, check_files, warn_of_unknown
from online_rank.intervals import mean_interval
from online_rank.intervals.betting import INDEPENDENT
from online_rank.support.progress import counted


def measure_files(
    model: Any, files: Sequence[str], measuring: Measuring, reading: Reading, shown: bool | None
) -> dict[str, Any]:
    """The figures of a model on the queries of files."""
    figures = _measured(_ranked(model, files, reading, shown), measuring)
    if not figures["queries"]:
        raise ValueError(f"{', '.join(files)}: no queries to measure")
    return figures


def evaluate(path: str, files: Sequence[str], measuring: Measuring, reading: Reading, as_json: bool) -> None:
    """Measure a saved model on files and print the figures."""
    check_files(files)
    model = load_model(path)
    figures = measure_files(model, files, measuring, reading, False if as_json else None)
    _print({"model": path, "files": list(files)}, figures, as_json)


def evaluate_run(run: str, judgements: str, measuring: Measuring, as_json: bool, complete: bool) -> None:
    """Measure a TREC run against judgements and print the figures."""
    from online_rank.stream.trec import judged_rankings

    queries = judged_rankings(run, judgements, complete=complete)
    _print({"run": run, "judgements": judgements}, _measured(queries, measuring), as_json)


def _ranked(model: Any, files: Sequence[str], reading: Reading, shown: bool | None) -> Iterator[tuple[Any, Any]]:
    """The grades of the queries of files, and the scores of their documents."""
    with reading.asked(files, model) as queries, counted(queries, "measuring", shown=shown) as each:
        for X, y in each:
            yield y, model.predict_one(X)
    warn_of_unknown(model)


def _measured(queries: Iterable[tuple[Any, Any]], measuring: Measuring) -> dict[str, Any]:
    """Means of metrics over queries (grades, scores), also of a random ranking, with numbers of queries, for JSON."""
    metrics, chance = measuring.metrics()
    values: dict[str, list[float]] = {name: [] for name in metrics}
    n_queries, n_graded = 0, 0
    for n_queries, (grades, scores) in enumerate(queries, start=1):  # noqa: B007
        n_graded += len({*(grades.values() if isinstance(grades, dict) else grades.tolist())}) > 1
        for name, each in metrics.items():
            values[name].append(each.value_one(grades, scores))
        for each in (*metrics.values(), *chance.values()):
            each.update(grades, scores)
    if n_queries and not n_graded:
        warnings.warn(NO_GRADES, stacklevel=2)
    counted = {name: each.n_queries for name, each in metrics.items()}
    means, random = ({name: each.get() for name, each in some.items()} for some in (metrics, chance))
    found = {name: mean_interval([value for value in each if not math.isnan(value)]) for name, each in values.items()}
    intervals = {name: [interval.lower, interval.upper] for name, interval in found.items()}
    return {"queries": n_queries, "counted": counted, "metrics": means, "intervals": intervals, "random": random}


def _print(about: dict[str, Any], figures: dict[str, Any], as_json: bool) -> None:
    """The figures, for programs or for people."""
    if as_json:
        print(json.dumps({**about, **figures}))
        return
    n_queries, random = figures["queries"], figures["random"]
    shown = table(f"{n_queries:,} queries", "mean", "95 % interval", "random ranking", "queries", bold=("mean",))
    for name, value in figures["metrics"].items():
        chance = f"{random[name]:.4f}" if name in random else "–"
        lower, upper = figures["intervals"][name]
        between = f"{lower:.4f} to {upper:.4f}"
        shown.add_row(name, f"{value:.4f}", between, chance, of_queries(figures["counted"][name], n_queries))
    console = Console(highlight=False)
    console.print(shown)
    console.print(INDEPENDENT)
    if any(counted < n_queries for counted in figures["counted"].values()):
        console.print("The others have no relevant document; --no-relevant zero counts them as 0.")
