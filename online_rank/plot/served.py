"""Plots the mean loss of served rankings, with its interval."""

from collections.abc import Sequence
from typing import TYPE_CHECKING

from online_rank.intervals import Interval
from online_rank.plot._style import COLOURS, name_lines, styled

if TYPE_CHECKING:
    from matplotlib.axes import Axes


def served_loss(intervals: Sequence[Interval], *, ax: "Axes | None" = None) -> "Axes":
    """The running mean of served losses as a line, and the interval around the expected one as a band.

    Parameters
    ----------
    intervals
        Intervals from `LossInterval.interval` at successive times.
    ax
        Axes to draw on.

    Raises
    ------
    ValueError
        There is no interval of any loss.

    Examples
    --------
    >>> from online_rank import plot
    >>> from online_rank.intervals import LossInterval
    >>> served, intervals = LossInterval(), []
    >>> for t in range(100):
    ...     served.update(0.3)
    ...     intervals.append(served.interval())
    >>> [text.get_text() for text in plot.served_loss(intervals).texts]
    ['95 % lower limit: 0.247', 'mean: 0.300', '95 % upper limit: 0.353']
    """
    shown = [interval for interval in intervals if interval.n]
    if not shown:
        raise ValueError("there is nothing to draw: no interval of a loss")
    ax = styled(ax, "queries with two grades", "mean served loss")
    n = [interval.n for interval in shown]
    level = f"{100 * shown[-1].level:g} %"
    curves = {
        "mean": (n, [interval.mean for interval in shown]),
        f"{level} upper limit": (n, [interval.upper for interval in shown]),
        f"{level} lower limit": (n, [interval.lower for interval in shown]),
    }
    (_, mean), (_, upper), (_, lower) = curves.values()
    ax.fill_between(n, lower, upper, color=COLOURS[0], alpha=0.15, linewidth=0)
    ax.plot(n, mean, color=COLOURS[0], linewidth=1.8)
    ax.set_ylim(0.0, 1.0)
    name_lines(ax, curves)
    # The band, the line and their labels have one colour.
    for text in ax.texts:
        text.set_color(COLOURS[0])
    return ax
