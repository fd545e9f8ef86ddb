"""What benchmarks with `evaluate.Experiment` share: their options, and the table of what was measured."""

import argparse
from collections.abc import Sequence

from benchmarks._common import table
from online_rank.evaluate import Experiment, Results


def add_experiment(options: argparse.ArgumentParser, seeds: int) -> None:
    """The options `--seeds`, `--processes` and `--keep FILE`."""
    options.add_argument("--seeds", type=int, default=seeds)
    options.add_argument("--processes", type=int, default=1)
    options.add_argument("--keep", metavar="FILE.json", help="keep runs here, and continue from them")


def run(experiment: Experiment, given: argparse.Namespace) -> Results:
    """Run what `--keep` does not have yet."""
    return experiment.run(given.keep, processes=given.processes)


def compared(results: Results, reference: str, metrics: Sequence[str] | None = None) -> str:
    """A row for each model: on each stream each metric, less the reference, and processor seconds of a run."""
    metrics = results.metrics if metrics is None else metrics
    columns = [(stream, metric) for stream in results.streams for metric in metrics]
    header = ["model"]
    for stream, metric in columns:
        name = f"{stream}, {metric}" if len(metrics) > 1 else stream
        header += [name, f"{name}, less `{reference}`"]
    rows = []
    for model in results.models:
        row = [f"`{model}`".replace("|", r"\|")]
        for stream, metric in columns:
            less = "" if model == reference else f"{results.change(model, reference, metric, stream):+.4f}"
            row += [f"{results.spread(model, metric, stream):.4f}", less]
        own = [run.seconds for run in results.runs if run.model == model]
        rows.append([*row, f"{sum(own) / len(own):.1f}"])
    return table([*header, "seconds"], rows)
