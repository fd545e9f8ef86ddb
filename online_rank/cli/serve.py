"""`online-rank rank` and `online-rank evaluate`: using a model without teaching it."""

import json
import os
import re
import sys
from collections.abc import Sequence
from typing import Any

from rich import box
from rich.console import Console
from rich.table import Table

from online_rank._progress import progress
from online_rank.storage.files import ModelFileError, load

__all__ = ["check_files", "evaluate", "load_model", "measure_files", "n_features_of", "rank"]

DEFAULT_METRICS = ("ndcg@10", "ndcg", "map", "mrr")

_TABLES = (".csv", ".tsv", ".parquet", ".feather", ".xlsx")


def load_model(path: str) -> Any:
    """A model that ranks, from a file."""
    model = load(path)
    if not hasattr(model, "predict_one"):
        raise ModelFileError(f"{path}: holds a {type(model).__name__}, not a model that ranks")
    return model


def check_files(files: Sequence[str]) -> None:
    """Raise before anything is read when a file is missing, or is a table, which needs somebody to say what its columns are."""
    for file in files:
        if file != "-":
            os.stat(file)
        if file.removesuffix(".gz").endswith(_TABLES):
            raise ValueError(
                f"{file}: a table; the command reads LETOR / svmlight text. For tables see the README: from Python, a ranker "
                "learns from a pandas or polars frame, and online_rank.stream.letor.write_letor makes text of one"
            )


def n_features_of(model: Any) -> int | None:
    """The number of features that a model or pipeline has learned; None before it has met any."""
    steps = list(model.steps.values()) if hasattr(model, "steps") else [model]
    counts = [step.n_features for step in steps if getattr(step, "n_features", 0)]
    return counts[0] if counts else None


def measure_files(
    models: Sequence[Any], files: Sequence[str], names: Sequence[str], shown: bool | None = None
) -> tuple[list[dict[str, float]], int]:
    """The values of metrics over the queries of files, by name, for each model; and the number of queries."""
    from online_rank.metrics import metric
    from online_rank.stream.letor import iter_letor

    metrics = [{name: metric(name) for name in names} for _ in models]
    n_queries = 0
    with (
        iter_letor(list(files), n_features=n_features_of(models[0])) as queries,
        progress("measuring", shown=shown, part=lambda: queries.fraction) as show,
    ):
        for X, y in queries:
            for model, of_model in zip(models, metrics, strict=True):
                scores = model.predict_one(X)
                for each in of_model.values():
                    each.update(y, scores)
            n_queries += 1
            show(n_queries)
    return [{name: each.get() for name, each in of_model.items()} for of_model in metrics], n_queries


def evaluate(path: str, files: Sequence[str], names: Sequence[str], as_json: bool, quiet: bool) -> None:
    """Measure a saved model on files and print the figures."""
    check_files(files)
    model = load_model(path)
    (values,), n_queries = measure_files([model], files, names or DEFAULT_METRICS, False if quiet or as_json else None)
    if as_json:
        print(json.dumps({"model": path, "files": list(files), "queries": n_queries, "metrics": values}))
        return
    table = Table(box=box.SIMPLE_HEAD, pad_edge=False)
    table.add_column(f"{n_queries:,} queries")
    table.add_column("mean", justify="right", style="bold")
    for name, value in values.items():
        table.add_row(name, f"{value:.4f}")
    Console().print(table)


def rank(path: str, file: str, tag: str, quiet: bool) -> None:
    """Rank the queries of a file by a saved model and print TREC run lines."""
    from online_rank.stream.letor import iter_letor

    check_files([file])
    model = load_model(path)
    tag = _word(tag, "online_rank")
    # Where the lines themselves can be seen to go by, they are the progress.
    shown = False if quiet or sys.stdout.isatty() else None
    with (
        iter_letor(file, with_qid=True, with_docid=True, n_features=n_features_of(model)) as queries,
        progress("ranking", shown=shown, part=lambda: queries.fraction) as show,
    ):
        for n_queries, (X, _, qid, docids) in enumerate(queries, start=1):
            scores = model.predict_one(X)
            lines = [
                f"{qid} Q0 {_word(docids[i], str(i + 1))} {position} {scores[i]!r} {tag}\n"
                for position, i in enumerate(sorted(range(len(scores)), key=scores.__getitem__, reverse=True), start=1)
            ]
            sys.stdout.write("".join(lines))
            show(n_queries)


def _word(text: str, default: str) -> str:
    """Text without blanks, which separate the columns of a run."""
    return re.sub(r"\s+", "_", text.strip()) or default
