"""Plots about clicks: the quality of shown rankings, and the examination of positions."""

from collections.abc import Sequence
from typing import TYPE_CHECKING

import numpy as np

from online_rank.feedback import PositionBias
from online_rank.plot._style import COLOURS, DARK, FONT, GREY, styled

if TYPE_CHECKING:
    from matplotlib.axes import Axes


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
