"""What experiments measured: learning curves, differences, and time against quality."""

from typing import TYPE_CHECKING

import numpy as np

from online_rank.evaluate.results import Results, Spread
from online_rank.plot._style import (
    COLOURS,
    DARK,
    FONT,
    GREY,
    MARKERS,
    lines,
    list_names,
    listed,
    name_lines,
    scale_to_settled,
    styled,
)

if TYPE_CHECKING:
    from matplotlib.axes import Axes


def bands(
    results: Results, *, metric: str | None = None, stream: str | None = None, level: float = 0.95, ax: "Axes | None" = None
) -> "Axes":
    """Learning curves, each with a band over the seeds: an interval for the mean at each number of queries.

    Colours and dashes tell the models apart; a curve is named at its end, next to a sample of its line.

    Parameters
    ----------
    results
        What an `evaluate.Experiment` measured.
    metric, stream
        Their names; None for the first.
    level
        The confidence of the bands.
    ax
        Axes to draw on.

    Raises
    ------
    KeyError, ValueError
        There is no such metric or stream, the stream is measured on held-out queries, or the level is not between 0 and 1.

    Examples
    --------
    >>> from online_rank import PerceptronRanker, evaluate, plot
    >>> query = [[1.0, 0.0], [0.0, 1.0]], [0, 1]
    >>> results = evaluate.Experiment({"model": PerceptronRanker()}, [query] * 20, "ndcg", seeds=3).run()
    >>> [line.get_label() for line in plot.bands(results).lines]
    ['model']
    """
    found = {name: results.curve(name, metric, stream, level=level) for name in results.models}
    ax = styled(ax, "queries", metric or results.metrics[0])
    curves = {name: (band.queries, band.mean) for name, band in found.items()}
    lines(ax, curves)
    for line, band in zip(ax.get_lines(), found.values(), strict=False):
        ax.fill_between(band.queries, band.lower, band.upper, color=line.get_color(), alpha=0.12, linewidth=0)
    scale_to_settled(ax, curves)
    name_lines(ax, curves)
    return ax


def differences(
    results: Results,
    *,
    to: str | None = None,
    metric: str | None = None,
    stream: str | None = None,
    level: float = 0.95,
    ax: "Axes | None" = None,
) -> "Axes":
    """By how much models are better than one of them: the mean, and an interval that holds for all of them together.

    Parameters
    ----------
    results
        What an `evaluate.Experiment` measured.
    to
        The model that the others are compared with; None for the one with the best mean.
    metric, stream
        Their names; None for the first.
    level
        The confidence, of all intervals together.
    ax
        Axes to draw on.

    Raises
    ------
    KeyError, ValueError
        There is no such model, metric or stream, or no second model; or as `Results.difference`.
    """
    means = {name: results.spread(name, metric, stream).mean for name in results.models}
    reference = max(means, key=lambda name: np.nan_to_num(means[name], nan=-np.inf)) if to is None else to
    if reference not in means:
        raise KeyError(f"there is no model {to!r}; the models are {results.models}")
    others = sorted((name for name in means if name != reference), key=lambda name: -means[name])
    if not others:
        raise ValueError("there is nothing to draw: the experiment has one model")
    each = 1.0 - (1.0 - level) / len(others)
    ax = listed(others, ax)
    for row, name in enumerate(others):
        away = results.difference(name, reference, metric, stream, level=each)
        apart = away.lower > 0.0 or away.upper < 0.0
        colour = COLOURS[0] if apart else GREY
        ax.plot([away.lower, away.upper], [row, row], color=colour, linewidth=1.8)
        ax.plot([away.mean], [row], color=colour, marker="o", markersize=5)
        ax.annotate(f"{away.mean:+.4f}", (away.upper, row), xytext=(6, 0), textcoords="offset points", va="center",
                    color=DARK, fontsize=FONT)  # fmt: skip
    ax.axvline(0.0, color=DARK, linewidth=0.8)
    ax.margins(x=0.18)
    what = metric or results.metrics[0]
    ax.set_title(f"{what}: better than {reference} by, {100 * level:g} % intervals of all together", color=DARK, fontsize=FONT,
                 loc="left", parse_math=False)  # fmt: skip
    return ax


def time(results: Results, *, metric: str | None = None, stream: str | None = None, ax: "Axes | None" = None) -> "Axes":
    """Time against quality: processor milliseconds a query, and a metric with its standard error over the seeds.

    Parameters
    ----------
    results
        What an `evaluate.Experiment` measured.
    metric, stream
        Their names; None for the first.
    ax
        Axes to draw on.

    Raises
    ------
    KeyError
        There is no such metric or stream.
    """
    name_of_stream = results.streams[0] if stream is None else stream
    ax = styled(ax, "processor milliseconds a query", metric or results.metrics[0])
    ax.set_xscale("log")
    drawn = {}
    for number, model in enumerate(results.models):
        quality = results.spread(model, metric, stream)
        runs = [run for run in results.runs if (run.stream, run.model) == (name_of_stream, model)]
        cost = Spread.of([1000.0 * run.seconds / run.n_queries for run in runs]).mean
        colour, marker = COLOURS[number % len(COLOURS)], MARKERS[(number // len(COLOURS)) % len(MARKERS)]
        error = 0.0 if np.isnan(quality.error) else quality.error
        points = ax.errorbar([cost], [quality.mean], yerr=[error], color=colour, marker=marker, markersize=6, linestyle="none")
        drawn[model] = points, quality.mean
    ax.margins(x=0.08, y=0.12)
    list_names(ax, drawn)
    return ax
