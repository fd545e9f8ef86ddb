"""Pictures of the benchmarks: results by a parameter, rates, and position bias."""

import itertools
from collections.abc import Mapping, Sequence
from typing import Any

import numpy as np
from matplotlib.axes import Axes

from online_rank.feedback import PositionBias
from online_rank.plot._style import (
    COLOURS,
    DARK,
    FONT,
    GREY,
    bars,
    lines,
    name_lines,
    styled,
)

PALE_GREY = "#BDBDBD"

__all__ = ["logarithmic_axes", "position_bias", "sensitivity", "throughput"]


def logarithmic_axes(ax: Axes, y: bool = True) -> None:
    """Make both axes, or x alone, logarithmic, with ticks only at powers of ten and numbers in full."""
    for axis, scale in ((ax.xaxis, ax.set_xscale), (ax.yaxis, ax.set_yscale)) if y else ((ax.xaxis, ax.set_xscale),):
        scale("log")
        axis.set_major_formatter(lambda value, _: f"{value:,.10g}")
        axis.set_minor_formatter(lambda value, _: "")
        axis.set_tick_params(which="minor", length=0)


def sensitivity(
    parameter: str,
    values: Sequence[float],
    results: Mapping[str, Sequence[Any]],
    *,
    measured: str = "NDCG@10",
    ax: Axes | None = None,
) -> Axes:
    """Results for several values of one parameter.

    Parameters
    ----------
    parameter
        Its name.
    values
        The values that were tried, ascending. The axis is logarithmic when all are positive and range over more than a factor
        of 10.
    results
        By model, one result for each value: a number, or several (repetitions), whose mean is drawn as a line and whose range
        as a band.
    measured
        The name of the results.
    ax
        Axes to draw on.

    Raises
    ------
    ValueError
        The numbers of results and values differ.
    """
    repeats = any(np.size(entry) > 1 for column in results.values() for entry in column)
    ax = styled(ax, parameter, f"{measured} (band: the range of repetitions)" if repeats else measured)
    if min(values) > 0.0 and max(values) > 10.0 * min(values):
        logarithmic_axes(ax, y=False)
    curves = {}
    for (name, column), colour in zip(results.items(), itertools.cycle(COLOURS), strict=False):
        if len(column) != len(values):
            raise ValueError(f"results[{name!r}] has {len(column)} entries, but there are {len(values)} values")
        repeated = [np.atleast_1d(np.asarray(entry, dtype=np.float64)) for entry in column]
        ax.fill_between(values, [r.min() for r in repeated], [r.max() for r in repeated], color=colour, alpha=0.15, linewidth=0)
        curves[name] = np.asarray(values, dtype=np.float64), np.array([r.mean() for r in repeated])
    lines(ax, curves)
    for line in ax.lines:
        line.set(marker="o", markersize=4)
    name_lines(ax, curves)
    return ax


def throughput(
    rates: Mapping[str, float], *, unit: str = "queries/s", ours: str = "online_rank", ax: Axes | None = None
) -> Axes:
    """Rates as bars, the fastest on top; names that contain `ours` are coloured."""
    ordered = dict(sorted(rates.items(), key=lambda item: -item[1]))
    return bars(ordered, [COLOURS[0] if ours in name else PALE_GREY for name in ordered], unit, ax)


def position_bias(bias: PositionBias, truth: Sequence[float] | np.ndarray) -> Axes:
    """The examination of each position, relative to the first, with intervals.

    Parameters
    ----------
    bias
        The estimate from clicks.
    truth
        The true examination.
    """
    ax = styled(None, "position", "examination, relative to the first position")
    position = np.arange(1, bias.k + 1)
    estimate, (low, high) = np.array(bias.examination), bias.interval()
    ax.errorbar(
        position, estimate, (estimate - low, high - estimate), color=COLOURS[0], fmt="o", markersize=4, linewidth=1.2, capsize=2
    )
    ax.plot(position, np.asarray(truth)[: bias.k], color=GREY, linewidth=1.2, linestyle=(0, (4, 1.5)), zorder=1)
    ax.annotate(
        "truth", (position[-1], truth[bias.k - 1]), xytext=(5, 0), textcoords="offset points", color=DARK, fontsize=FONT,
        va="center",
    )  # fmt: skip
    ax.set_ylim(0.0, 1.05)
    ax.set_xticks(position)
    return ax
