"""Pictures and numbers of `benchmarks.bounds`."""

import matplotlib

matplotlib.use("Agg")
import matplotlib.pyplot as plt

from benchmarks._common import RESULTS
from benchmarks._pictures import logarithmic_axes
from online_rank.plot._style import lines, name_lines, styled

__all__ = ["Curve", "figure", "number", "saved"]

Curve = tuple[list[float], list[float]]


def figure(name: str, title: str, xlabel: str, curves: dict[str, Curve], dashed: dict[str, Curve], log: bool = True) -> str:
    """Losses (solid) and bounds (dashed) as a picture. Returns the image as Markdown."""
    ax, drawn = styled(None, xlabel, "cumulative loss"), {**curves, **dashed}
    lines(ax, drawn, dashed=[*dashed])
    if log:
        logarithmic_axes(ax)
    else:
        top = max(float(y[-1]) for _, y in drawn.values())
        ax.set_ylim(-0.04 * top, 1.06 * top)
    name_lines(ax, drawn)
    return saved(ax, name, title)


def saved(ax: plt.Axes, name: str, title: str) -> str:
    """Write a picture to `benchmarks/results`. Returns the image as Markdown."""
    ax.figure.savefig(RESULTS / f"bounds_{name}.png", dpi=200)
    plt.close(ax.figure)
    return f"![{title}](bounds_{name}.png)"


def number(value: float) -> str:
    """A number as tables show it."""
    return f"{value:,.4g}" if abs(value) < 1000 else f"{value:,.1f}"
