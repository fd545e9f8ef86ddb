"""Plots about clicks: the quality of shown rankings, and the examination of positions."""

from collections.abc import Mapping, Sequence
from typing import TYPE_CHECKING

import numpy as np

from online_rank.feedback import PositionBias
from online_rank.plot._style import COLOURS, DARK, FONT, GREY, lines, name_lines, scale_to_settled, styled

if TYPE_CHECKING:
    from matplotlib.axes import Axes

__all__ = ["online_quality", "position_bias"]


def online_quality(values: Mapping[str, Sequence[float] | np.ndarray], *, every: int = 1, ax: "Axes | None" = None) -> "Axes":
    """The running mean of the quality of shown rankings, over the impressions.

    Parameters
    ----------
    values
        For each model the measure (NDCG, say) of each ranking shown, in order.
    every
        Number of impressions between points.
    ax
        Axes to draw on.

    Raises
    ------
    ValueError
        A model has no values.

    Examples
    --------
    >>> from online_rank import plot
    >>> ax = plot.online_quality({"ours": [0.2, 0.6, 0.7], "theirs": [0.1, 0.5, 0.6]})
    >>> ax.get_xlabel()
    'impressions'
    """
    curves = {}
    for name, measured in values.items():
        if not len(measured):
            raise ValueError(f"there is nothing to draw: {name} has no values")
        so_far = np.cumsum(measured) / np.arange(1, len(measured) + 1)
        points = np.arange(every - 1, len(so_far), every) if len(so_far) >= every else np.array([len(so_far) - 1])
        curves[name] = points + 1, so_far[points]
    ax = styled(ax, "impressions", "mean quality of rankings shown so far")
    lines(ax, curves)
    scale_to_settled(ax, curves)
    name_lines(ax, curves)
    return ax


def position_bias(bias: PositionBias, *, truth: Sequence[float] | np.ndarray | None = None, ax: "Axes | None" = None) -> "Axes":
    """The examination of each position, relative to the first, with intervals.

    Parameters
    ----------
    bias
        The estimate from clicks.
    truth
        The true examination, if known.
    ax
        Axes to draw on.

    Examples
    --------
    >>> from online_rank import PositionBias, plot
    >>> plot.position_bias(PositionBias(k=3), truth=(1.0, 0.5, 0.3)).get_xlabel()
    'position'
    """
    ax = styled(ax, "position", "examination, relative to the first position")
    position = np.arange(1, bias.k + 1)
    estimate, (low, high) = np.array(bias.examination), bias.interval()
    ax.errorbar(
        position, estimate, (estimate - low, high - estimate), color=COLOURS[0], fmt="o", markersize=4, linewidth=1.2, capsize=2
    )
    if truth is not None:
        ax.plot(position, np.asarray(truth)[: bias.k], color=GREY, linewidth=1.2, linestyle=(0, (4, 1.5)), zorder=1)
        ax.annotate(
            "truth", (position[-1], truth[bias.k - 1]), xytext=(5, 0), textcoords="offset points", color=DARK, fontsize=FONT,
            va="center",
        )  # fmt: skip
    ax.set_ylim(0.0, 1.05)
    ax.set_xticks(position)
    return ax
