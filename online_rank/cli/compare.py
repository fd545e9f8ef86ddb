"""`online-rank compare`: which of two models ranks better on files, with an interval that is valid at any time."""

import json
from collections.abc import Sequence
from typing import Any

import numpy as np

from online_rank.cli.files import load_two
from online_rank.cli.reading import Reading, check_files
from online_rank.intervals import mean_interval
from online_rank.intervals.betting import INDEPENDENT
from online_rank.intervals.losses import served_loss
from online_rank.intervals.paired import Better
from online_rank.measures.learned import measure as parse_measure
from online_rank.support.progress import counted


def compare(paths: Sequence[str], files: Sequence[str], measure: str, reading: Reading, as_json: bool) -> None:
    """Rank the queries of files with two saved models, without learning, and print which is better."""
    check_files(files)
    if "-" in files:
        raise ValueError("standard input (-) can be read once, and each model reads the files: give a file")
    models = load_two(paths)
    target, n_queries = parse_measure(measure), 0
    losses: list[list[float]] = []
    with (
        reading.asked(files, models[0]) as queries,
        reading.asked(files, models[1]) as again,
        counted(queries, "comparing", shown=False if as_json else None) as each,
    ):
        for (x, y), (same, _) in zip(each, again, strict=True):
            answers = (model.predict_one(query) for model, query in zip(models, (x, same), strict=True))
            lost = [served_loss(target, scores, y) for scores in answers]
            n_queries += 1
            if None not in lost:
                losses.append(lost)  # type: ignore[arg-type]
    _print(paths, target.name, n_queries, np.array(losses).reshape(-1, 2), as_json)


def _print(paths: Sequence[str], measure: str, n_queries: int, losses: np.ndarray, as_json: bool) -> None:
    """Which model is better, by the losses (n, 2) of the queries that can be ranked wrongly."""
    n = len(losses)
    difference = mean_interval(losses[:, 1] - losses[:, 0], differences=True)
    means = dict(zip(paths, losses.mean(axis=0).tolist() if n else (None, None), strict=True))
    better = []
    if difference.lower > 0.0:
        better.append(Better(paths[0], paths[1], difference.lower, difference.mean, n, difference.level))
    if difference.upper < 0.0:
        better.append(Better(paths[1], paths[0], -difference.upper, -difference.mean, n, difference.level))
    if as_json:
        about: dict[str, Any] = {"measure": measure, "queries": n_queries, "counted": n, "losses": means}
        interval = difference._asdict() if n else None
        print(json.dumps({**about, "difference": interval, "better": [b._asdict() for b in better], "note": INDEPENDENT}))
        return
    print(f"{n_queries:,} queries, {n:,} of them with two grades; loss is 1 - {measure}, ties broken pessimistically.")
    width = max(map(len, paths))
    for path in paths:
        print(f"  {path:<{width}}  " + ("–" if means[path] is None else f"mean loss {means[path]:.4f}"))
    if n:
        print(f"  loss of {paths[1]} minus loss of {paths[0]}: {difference}")
    for statement in better:
        print(f"  {statement}")
    if not better:
        print("  neither is better at 95 %")
    print(INDEPENDENT)
