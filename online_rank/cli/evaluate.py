"""`online-rank evaluate`: metrics of a model on files, or of a TREC run against judgements."""

import json
from collections.abc import Mapping, Sequence
from typing import Any, NamedTuple

from rich import box
from rich.console import Console
from rich.table import Table

from online_rank.cli.files import Asked, check_files, for_model, load_model
from online_rank.cli.reading import Reading
from online_rank.support.progress import progress

__all__ = ["DEFAULT_METRICS", "Measuring", "Values", "evaluate", "evaluate_run", "measure_files", "of_queries"]

DEFAULT_METRICS = ("ndcg@10", "ndcg", "map", "mrr")


class Measuring(NamedTuple):
    """The metrics, and their settings.

    Attributes
    ----------
    names
        Names of the metrics.
    no_relevant
        How to count a query without relevant documents: "skip" or "zero".
    """

    names: Sequence[str] = DEFAULT_METRICS
    no_relevant: str = "skip"

    def metrics(self) -> dict[str, Any]:
        """New metrics, by name."""
        from online_rank.metrics import metric

        return {name: metric(name, no_relevant=self.no_relevant) for name in self.names}

    def chance(self) -> dict[str, Any]:
        """The same for a random ranking, where its expected value is known."""
        from online_rank.metrics import RandomRanking

        return {
            name: RandomRanking(name, no_relevant=self.no_relevant) for name in self.names if not name.lower().startswith("err")
        }


class Values(NamedTuple):
    """Means of metrics over queries, with the number of queries.

    Attributes
    ----------
    means
        By name, the mean.
    chance
        By name, the mean of a random ranking.
    counted
        By name, the number of queries in the mean.
    n_queries
        The number of queries that were read.
    """

    means: dict[str, float]
    chance: dict[str, float]
    counted: dict[str, int]
    n_queries: int

    def to_dict(self) -> dict[str, Any]:
        """The figures, ready for JSON."""
        return {"queries": self.n_queries, "counted": self.counted, "metrics": self.means, "random": self.chance}


def of_queries(counted: int, n_queries: int) -> str:
    """How many queries a mean is over, in words."""
    return f"{counted:,}" if counted == n_queries else f"{counted:,} of {n_queries:,}"


def measure_files(
    model: Any, files: Sequence[str], measuring: Measuring, reading: Reading, shown: bool | None = None
) -> Values:
    """The values of metrics over the queries of files."""
    metrics, chance, asked = measuring.metrics(), measuring.chance(), Asked(model, reading.strict)
    n_queries = 0
    with reading.queries(files) as queries, progress("measuring", shown=shown, part=lambda: queries.fraction) as show:
        for X, y in queries:
            scores = model.predict_one(asked(X))
            for each in (*metrics.values(), *chance.values()):
                each.update(y, scores)
            n_queries += 1
            show(n_queries)
    if not n_queries:
        raise ValueError(f"{', '.join(files)}: no queries to measure")
    return _values(metrics, chance, n_queries)


def _values(metrics: Mapping[str, Any], chance: Mapping[str, Any], n_queries: int) -> Values:
    means, random = ({name: each.get() for name, each in some.items()} for some in (metrics, chance))
    return Values(means, random, {name: each.n_queries for name, each in metrics.items()}, n_queries)


def evaluate(path: str, files: Sequence[str], measuring: Measuring, reading: Reading, as_json: bool) -> None:
    """Measure a saved model on files and print the figures."""
    check_files(files, reading)
    model = load_model(path)
    reading = for_model(reading, model, files)
    values = measure_files(model, files, measuring, reading, False if as_json else None)
    _print({"model": path, "files": list(files)}, values, as_json)


def evaluate_run(run: str, judgements: str, measuring: Measuring, as_json: bool, complete: bool) -> None:
    """Measure a TREC run against judgements and print the figures."""
    from online_rank.stream.trec import judged_rankings

    metrics, chance = measuring.metrics(), measuring.chance()
    n_queries = 0
    for grades, scores in judged_rankings(run, judgements, complete=complete):
        for each in (*metrics.values(), *chance.values()):
            each.update(grades, scores)
        n_queries += 1
    _print({"run": run, "judgements": judgements}, _values(metrics, chance, n_queries), as_json)


def _print(about: dict[str, Any], values: Values, as_json: bool) -> None:
    """The figures, for programs or for people."""
    if as_json:
        print(json.dumps({**about, **values.to_dict()}))
        return
    table = Table(box=box.SIMPLE_HEAD, pad_edge=False)
    table.add_column(f"{values.n_queries:,} queries")
    for heading in ("mean", "random ranking", "queries"):
        table.add_column(heading, justify="right", style="bold" if heading == "mean" else "")
    for name, value in values.means.items():
        chance = f"{values.chance[name]:.4f}" if name in values.chance else "–"
        table.add_row(name, f"{value:.4f}", chance, of_queries(values.counted[name], values.n_queries))
    console = Console(highlight=False)
    console.print(table)
    if any(counted < values.n_queries for counted in values.counted.values()):
        console.print("The others have no relevant document; --no-relevant zero counts them as 0.")
