"""The common style of all plots."""

import itertools
from collections.abc import Mapping, Sequence
from typing import TYPE_CHECKING, Any

import numpy as np

from online_rank.support.lazy import needs

if TYPE_CHECKING:
    from matplotlib.axes import Axes

#: Okabe & Ito's colours that are legible on white, in order of use.
COLOURS = ("#0072B2", "#D55E00", "#009E73", "#CC79A7", "#E69F00", "#56B4E9")
#: With the colours in turn: four dozen lines, and as many points, that differ.
DASHES: tuple[Any, ...] = ("-", (0, (4, 1.5)), (0, (1, 1.2)), (0, (6, 1.5, 1, 1.5)), (0, (8, 2)), (0, (3, 1, 1, 1, 1, 1)))
MARKERS = ("o", "s", "^", "D", "v", "P")
GREY, DARK, LIGHT = "#767676", "#222222", "#E3E3E3"

SIZE, FONT = (6.0, 3.4), 9.0


def new_axes(height: float = SIZE[1]) -> "Axes":
    """New Axes, 600 pixels wide and `height` inches high, in the style of this module.

    Raises
    ------
    ImportError
        matplotlib is missing; the message says how to install it.
    """
    with needs("a picture", "plot"):
        from matplotlib import pyplot
    _, ax = pyplot.subplots(figsize=(SIZE[0], height), dpi=100, layout="constrained", facecolor="white")
    return ax


def styled(ax: "Axes | None", x_label: str, y_label: str) -> "Axes":
    """Axes without the frame, with light lines at the ticks of y."""
    ax = new_axes() if ax is None else ax
    ax.spines[["top", "right", "left"]].set_visible(False)
    ax.spines["bottom"].set_color(GREY)
    ax.tick_params(colors=GREY, labelsize=FONT, length=3)
    ax.tick_params(axis="y", length=0)
    ax.grid(axis="y", color=LIGHT, linewidth=0.8)
    ax.set_axisbelow(True)
    ax.set_xlabel(x_label, color=DARK, fontsize=FONT)
    ax.set_title(y_label, color=DARK, fontsize=FONT, loc="left")
    for axis in (ax.xaxis, ax.yaxis):
        axis.set_major_formatter(_tick)
    return ax


def _tick(value: float, _: float) -> str:
    """The label of a tick: the number in full."""
    return f"{value:,.10g}"


def lines(ax: "Axes", curves: Mapping[str, Any], dashed: Sequence[str] = ()) -> None:
    """Draw one line for each curve, with the colours in order, and other dashes when they begin again; some dashed anyhow."""
    for number, (name, (x, y)) in enumerate(curves.items()):
        colour, dashes = COLOURS[number % len(COLOURS)], DASHES[(number // len(COLOURS)) % len(DASHES)]
        ax.plot(x, y, color=colour, linewidth=1.8, linestyle=DASHES[1] if name in dashed else dashes, label=name)


def scale_to_settled(ax: "Axes", curves: Mapping[str, Any]) -> None:
    """Scale the y axis to the values after the first twentieth, which jump."""
    settled = np.concatenate([y[len(y) // 20 :] for _, y in curves.values()])
    rim = 0.08 * float(np.ptp(settled)) or 0.05
    ax.set_ylim(float(settled.min()) - rim, float(settled.max()) + rim)


def name_lines(ax: "Axes", curves: Mapping[str, Any]) -> None:
    """Write each line's name and last value at its end, without overlap; set the limits first.

    With more lines than colours a sample of the line stands before the name.
    """
    if len(curves) > len(COLOURS):
        drawn = {line.get_label(): line for line in ax.get_lines()}
        list_names(ax, {name: (drawn[name], float(y[-1])) for name, (_, y) in curves.items()})
        return
    ends = [(name, x[-1], y[-1]) for name, (x, y) in curves.items()]
    named = [(*end, colour) for end, colour in zip(ends, itertools.cycle(COLOURS), strict=False)]
    named.sort(key=lambda line: line[2])
    # Heights in points. The layout may still shrink the axes a little, hence the wide spacing.
    to_points = 72.0 / ax.figure.dpi
    heights = [float(ax.transData.transform((x, y))[1]) * to_points for _, x, y, _ in named]
    places = spread_out(heights, 1.6 * FONT, float(ax.bbox.y0) * to_points + 0.8 * FONT)
    for (name, x, y, colour), height, place in zip(named, heights, places, strict=True):
        ax.annotate(f"{name}: {number(y)}", (x, y), parse_math=False, xytext=(5, place - height),
                    textcoords="offset points", color=colour, fontsize=FONT, va="center", annotation_clip=False,
                    bbox={"facecolor": "white", "edgecolor": "none", "pad": 0.6, "alpha": 0.85})  # fmt: skip


def list_names(ax: "Axes", drawn: Mapping[str, tuple[Any, float]]) -> None:
    """List what was drawn right of the axes, with its name and last value, by that value from the top down."""
    order = sorted(drawn, key=lambda name: -float(np.nan_to_num(drawn[name][1], nan=-np.inf)))
    # A dollar sign would begin a formula.
    labels = [f"{name}: {number(drawn[name][1])}".replace("$", r"\$") for name in order]
    ax.legend([drawn[name][0] for name in order], labels, loc="center left", bbox_to_anchor=(1.0, 0.5), frameon=False,
              fontsize=FONT, labelcolor=DARK, handlelength=3.2, borderaxespad=0.3)  # fmt: skip


def spread_out(heights: Sequence[float], gap: float, bottom: float) -> list[float]:
    """The positions nearest to ascending heights (least squares) that are at least `gap` apart and not below `bottom`."""
    # After subtracting the gaps the positions must ascend: neighbours that do not are pooled at their mean.
    pools: list[tuple[float, int]] = []
    for i, height in enumerate(heights):
        mean, size = height - i * gap, 1
        while pools and pools[-1][0] > mean:
            below, n = pools.pop()
            mean, size = (mean * size + below * n) / (size + n), size + n
        pools.append((mean, size))
    means = [mean for mean, size in pools for _ in range(size)]
    return [max(mean, bottom) + i * gap for i, mean in enumerate(means)]


def listed(names: Sequence[str], ax: "Axes | None") -> "Axes":
    """Axes without a frame, with one row for each name, the first on top."""
    ax = new_axes(0.75 + 0.24 * len(names)) if ax is None else ax
    ax.spines[["top", "right", "left", "bottom"]].set_visible(False)
    ax.set_yticks(range(len(names)), names, fontsize=FONT, color=DARK, parse_math=False)
    ax.tick_params(axis="both", length=0)
    ax.set_xticks([])
    ax.set_ylim(len(names) - 0.4, -0.6)
    return ax


def bars(values: Mapping[str, float], colours: Sequence[str], label: str, ax: "Axes | None", numbers: str = "") -> "Axes":
    """Horizontal bars, the first on top, each with its name and its value."""
    ax = listed(list(values), ax)
    bars = ax.barh(range(len(values)), list(values.values()), color=list(colours), height=0.7)
    texts = [f"{value:{numbers}}" if numbers else number(value) for value in values.values()]
    ax.bar_label(bars, texts, padding=3, fontsize=FONT, color=DARK)
    ax.margins(x=0.12)
    ax.set_title(label, color=DARK, fontsize=FONT, loc="left", parse_math=False)
    return ax


def number(value: float) -> str:
    """The label of a line or bar: three digits, or a whole number from 1,000 on."""
    return f"{value:,.0f}" if abs(value) >= 1000 else f"{value:#.3g}" if 0 < abs(value) < 1 else f"{value:.3g}"
