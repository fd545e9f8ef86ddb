"""`online-rank experiment`: run an experiment from a file, show what it measured, and compare its models."""

from typing import Annotated

import typer

from online_rank.cli.declaring import flag, value
from online_rank.cli.options import Json

_FILE = Annotated[str, typer.Argument(metavar="FILE.toml", help="The experiment.")]
_MEASURED = Annotated[str, typer.Argument(metavar="FILE", help="The experiment, FILE.toml, or its results, FILE.json.")]
_METRIC = Annotated[str | None, value("NAME", "The metric; the first one without it.")]


def run(
    file: _FILE,
    save: Annotated[str | None, value("FILE.json", "Where the results are; without it next to the experiment.")] = None,
    processes: Annotated[int, value("N", "How many runs at the same time.", min=1)] = 1,
    again: Annotated[bool, flag("--again", "Repeat what was run, and compare it bit by bit; nothing is written.")] = False,
    json: Json = False,
) -> None:
    """Run an experiment: models on streams with seeds. What was run before is not repeated.

    FILE.json gets settings, versions, machine and results; FILE.traces next to it the metrics of each query.
    """
    from online_rank.cli.experiment import run as run_file

    run_file(file, save, processes, again, json)


def show(
    file: _MEASURED,
    latex: Annotated[bool, flag("--latex", "Print a table for LaTeX, with the package booktabs.")] = False,
    plots: Annotated[
        str | None, value("DIR", "Draw learning curves, differences, and time against quality into this folder.")
    ] = None,
    json: Json = False,
) -> None:
    """Show what an experiment measured: means and standard errors."""
    from online_rank.cli.experiment import show as show_file

    show_file(file, latex, plots, json)


def compare(file: _MEASURED, metric: _METRIC = None, json: Json = False) -> None:
    """Say which models are better than which, on each stream, with intervals that hold for all pairs."""
    from online_rank.cli.experiment import compare as compare_file

    compare_file(file, metric, json)
