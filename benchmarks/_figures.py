"""Pictures and numbers of `benchmarks.bounds`."""

import matplotlib

matplotlib.use("Agg")
import matplotlib.pyplot as plt

from benchmarks._common import RESULTS
from online_rank.plot.losses import losses

__all__ = ["Curve", "figure", "number", "saved"]

Curve = tuple[list[float], list[float]]


def figure(name: str, title: str, xlabel: str, curves: dict[str, Curve], dashed: dict[str, Curve], log: bool = True) -> str:
    """Losses (solid) and bounds (dashed) as a picture. Returns the image as Markdown."""
    return saved(losses(curves, bounds=dashed, x_label=xlabel, logarithmic=log), name, title)


def saved(ax: plt.Axes, name: str, title: str) -> str:
    """Write a picture to `benchmarks/results`. Returns the image as Markdown."""
    ax.figure.savefig(RESULTS / f"bounds_{name}.png", dpi=200)
    plt.close(ax.figure)
    return f"![{title}](bounds_{name}.png)"


def number(value: float) -> str:
    """A number as tables show it."""
    return f"{value:,.4g}" if abs(value) < 1000 else f"{value:,.1f}"
