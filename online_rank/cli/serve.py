"""`online-rank rank` and `online-rank evaluate`: using a model without teaching it."""

import json
import re
import sys
from collections.abc import Sequence
from typing import Any

from rich import box
from rich.console import Console
from rich.table import Table

from online_rank.persistence import ModelFileError, load

__all__ = ["evaluate", "load_model", "measure_files", "n_features_of", "rank"]

DEFAULT_METRICS = ("ndcg@10", "ndcg", "map", "mrr")


def load_model(path: str) -> Any:
    """A model that ranks, from a file."""
    model = load(path)
    if not hasattr(model, "predict_one"):
        raise ModelFileError(f"{path}: holds a {type(model).__name__}, not a model that ranks")
    return model


def n_features_of(model: Any) -> int | None:
    """The number of features that a model or pipeline has learned; None before it has met any."""
    steps = list(model.steps.values()) if hasattr(model, "steps") else [model]
    counts = [step.n_features for step in steps if getattr(step, "n_features", 0)]
    return counts[0] if counts else None


def measure_files(models: Sequence[Any], files: Sequence[str], names: Sequence[str]) -> tuple[list[dict[str, float]], int]:
    """The values of metrics over the queries of files, by name, for each model; and the number of queries."""
    from online_rank.metrics import metric
    from online_rank.stream.letor import iter_letor

    metrics = [{name: metric(name) for name in names} for _ in models]
    n_queries = 0
    with iter_letor(list(files), n_features=n_features_of(models[0])) as queries:
        for X, y in queries:
            for model, of_model in zip(models, metrics, strict=True):
                scores = model.predict_one(X)
                for each in of_model.values():
                    each.update(y, scores)
            n_queries += 1
    return [{name: each.get() for name, each in of_model.items()} for of_model in metrics], n_queries


def evaluate(path: str, files: Sequence[str], names: Sequence[str], as_json: bool) -> None:
    """Measure a saved model on files and print the figures."""
    model = load_model(path)
    (values,), n_queries = measure_files([model], files, names or DEFAULT_METRICS)
    if as_json:
        print(json.dumps({"model": path, "files": list(files), "queries": n_queries, "metrics": values}))
        return
    table = Table(box=box.SIMPLE_HEAD, pad_edge=False)
    table.add_column(f"{n_queries:,} queries")
    table.add_column("mean", justify="right", style="bold")
    for name, value in values.items():
        table.add_row(name, f"{value:.4f}")
    Console().print(table)


def rank(path: str, file: str, tag: str) -> None:
    """Rank the queries of a file by a saved model and print TREC run lines."""
    from online_rank.stream.letor import iter_letor

    model = load_model(path)
    tag = _word(tag, "online_rank")
    with iter_letor(file, with_qid=True, with_docid=True, n_features=n_features_of(model)) as queries:
        for X, _, qid, docids in queries:
            scores = model.predict_one(X)
            lines = [
                f"{qid} Q0 {_word(docids[i], str(i + 1))} {position} {scores[i]!r} {tag}\n"
                for position, i in enumerate(sorted(range(len(scores)), key=scores.__getitem__, reverse=True), start=1)
            ]
            sys.stdout.write("".join(lines))


def _word(text: str, default: str) -> str:
    """Text without blanks, which separate the columns of a run."""
    return re.sub(r"\s+", "_", text.strip()) or default
