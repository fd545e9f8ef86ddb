"""Pictures and numbers of `benchmarks.bounds`."""

import matplotlib

matplotlib.use("Agg")
import matplotlib.pyplot as plt

from benchmarks._common import RESULTS
from online_rank import plot

__all__ = ["Curve", "figure", "number"]

Curve = tuple[list[float], list[float]]


def figure(
    name: str,
    title: str,
    xlabel: str,
    curves: dict[str, Curve],
    dashed: dict[str, Curve],
    log: bool = True,
    ylabel: str = "cumulative loss",
) -> str:
    """Losses (solid) and bounds (dashed) as a picture. Returns the image as Markdown."""
    ax = plot.losses(curves, dashed, xlabel, logarithmic=log)
    ax.set_ylabel(ylabel)
    ax.figure.savefig(RESULTS / f"bounds_{name}.png", dpi=200)
    plt.close(ax.figure)
    return f"![{title}](bounds_{name}.png)"


def number(value: float) -> str:
    """A number as tables show it."""
    return f"{value:,.4g}" if abs(value) < 1000 else f"{value:,.1f}"
