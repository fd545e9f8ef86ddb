"""The curves of an additive ranker."""

from collections.abc import Hashable, Sequence
from typing import TYPE_CHECKING, Any

import numpy as np

from online_rank.base import serving_chain
from online_rank.plot._style import COLOURS, DARK, FONT, GREY, LIGHT, new_axes, styled
from online_rank.rankers.shapes import N_BINS, Shape, has_shapes, shapes_of

if TYPE_CHECKING:
    from matplotlib.axes import Axes

__all__ = ["curves", "draw"]

_ACROSS, _HEIGHT = 3, 1.9
#: Most levels of a category, and most characters of a name.
_LEVELS, _NAME = 8, 22
#: Share of the axes that a bar of missing values takes, next to the curve, and of the highest bar of the density, below it.
_MISSING, _DENSITY = 0.07, 0.14


def curves(model: Any, *, features: Sequence[Hashable] | None = None, n: int = 9) -> "list[Axes]":
    """The curves of the features by which an `AdditiveRanker` ranks, those that matter most first.

    A line shows what a value adds to a score, relative to its mean over the stream, if its rank in the query equals its rank in
    the stream. A band shows the range of the members that have a share in the served curve, each on its own scale. Grey bars
    show how many documents have such values, and an orange bar at the left what a missing value adds. A category has a bar for
    each level, against documents without it, with the range of the members and the share of the documents.

    Parameters
    ----------
    model
        An `AdditiveRanker`, or a pipeline that ends in one.
    features
        The features to draw; None for the `n` whose curves vary most over the stream.
    n
        Most features.

    Returns
    -------
    One Axes for each feature, all of one figure.

    Raises
    ------
    TypeError
        The model is no `AdditiveRanker`, or has no curves because its queries are sparse.
    ValueError
        It has learned nothing, or has no such feature.

    Examples
    --------
    >>> from online_rank import AdditiveRanker, plot
    >>> model = AdditiveRanker()
    >>> for _ in range(3):
    ...     model.learn_one([{"price": 1.0}, {"price": 2.0}, {"price": 5.0}], [2, 1, 0])
    >>> [ax.get_title(loc="left") for ax in plot.curves(model)]
    ['price']
    """
    *_, ranker = serving_chain(model)
    if not has_shapes(ranker):
        raise TypeError(f"{type(ranker).__name__} has no curves to draw; an AdditiveRanker of dense queries has")
    shapes = shapes_of(ranker, features, n if features is None else None)
    if not shapes:
        raise ValueError("there is nothing to draw: the model has learned from no query")
    return draw(shapes)


def draw(shapes: Sequence[Shape]) -> "list[Axes]":
    """One Axes for each of some features, all of one figure."""
    rows = -(-len(shapes) // _ACROSS)
    figure = new_axes(_HEIGHT * rows).figure
    figure.clear()
    made = figure.subplots(rows, _ACROSS, squeeze=False).ravel().tolist()
    for ax in made[len(shapes) :]:
        ax.remove()
    for ax, shape in zip(made, shapes, strict=False):
        styled(ax, "", "")
        ax.set_title(shown(shape.name), loc="left", color=DARK, fontsize=FONT, parse_math=False)
        ax.tick_params(labelsize=FONT - 2.0)
        _draw_levels(shape, ax) if shape.levels else _draw_curve(shape, ax)
    return made[: len(shapes)]


def shown(name: Hashable, most: int = _NAME) -> str:
    """A name without characters that cannot be drawn, shortened in the middle."""
    text = "".join(c if c.isprintable() else " " for c in f"{name}")
    return text if len(text) <= most else f"{text[: most - 8]}…{text[-7:]}"


def _draw_curve(shape: Shape, ax: "Axes") -> None:
    if not len(shape.values):
        return
    ax.fill_between(shape.values, shape.low, shape.high, color=COLOURS[0], alpha=0.15, linewidth=0.0)
    ax.plot(shape.values, shape.line, color=COLOURS[0], linewidth=1.8, marker="o" if len(shape.values) == 1 else "")
    low, high = shape.shown
    if shape.is_logarithmic:
        ax.set_xscale("log")
        ax.xaxis.set_minor_formatter(lambda value, _: "")
        ax.tick_params(axis="x", which="minor", length=0)
        edges, room = np.geomspace(low, high, N_BINS + 1), (high / low) ** _MISSING
        ax.set_xlim(low / room**2, high * room**0.5)
    else:
        ax.locator_params(axis="x", nbins=3)
        edges = np.histogram_bin_edges([low, high], N_BINS)
        room = _MISSING * (edges[-1] - edges[0])
        ax.set_xlim(edges[0] - 2.0 * room, edges[-1] + 0.5 * room)
    ax.xaxis.set_major_formatter(_tick)
    ax.locator_params(axis="y", nbins=4)
    inside = (shape.values >= low) & (shape.values <= high)
    _fit(ax, np.concatenate([shape.low[inside], shape.high[inside], [0.0 if shape.missing is None else shape.missing]]))
    heights = _DENSITY * shape.density / max(float(shape.density.max()), 1e-300)
    below = ax.get_xaxis_transform()
    ax.stairs(heights, edges, fill=True, color=GREY, alpha=0.55, transform=below, zorder=0.5)
    ax.axhline(0.0, color=GREY, linewidth=0.6, zorder=0.6)
    if shape.missing is not None:
        from matplotlib.patches import Rectangle

        ax.add_patch(
            Rectangle((0.01, 0.0), _MISSING - 0.02, shape.missing, color=COLOURS[1], transform=ax.get_yaxis_transform())
        )
        text = f"{shape.missing_share:.0%} missing"
        ax.text(0.0, 0.98, text, transform=ax.transAxes, color=COLOURS[1], fontsize=FONT - 2.0, va="top")


def _fit(ax: "Axes", heights: np.ndarray) -> None:
    """The range of y: the curve, with room for the density below it."""
    low, high = float(heights.min()), float(heights.max())
    height = (high - low) or 1.0
    ax.set_ylim(low - (_DENSITY + 0.06) * height * 1.25, high + 0.12 * height)


def _tick(value: float, _: float) -> str:
    return f"{value:,.10g}" if abs(value) < 1e6 else f"{value:.4g}".replace("e+0", "e").replace("e+", "e")


def _draw_levels(shape: Shape, ax: "Axes") -> None:
    """The levels whose weights are largest, the highest on top."""
    largest = {*sorted(shape.levels, key=lambda level: -abs(level.height))[:_LEVELS]}
    levels = [level for level in shape.levels if level in largest][::-1]
    heights = np.array([level.height for level in levels])
    ranges = np.array([(level.height - level.low, level.high - level.height) for level in levels]).T
    ax.barh(range(len(levels)), heights, color=COLOURS[0], xerr=np.maximum(ranges, 0.0), error_kw={"ecolor": GREY, "lw": 1.0})
    names = ["others" if level.name is None else shown(level.name, 16) for level in levels]
    labels = [f"{name} ({level.share:.0%})" for name, level in zip(names, levels, strict=True)]
    ax.set_yticks(range(len(levels)), labels, parse_math=False)
    ax.axvline(0.0, color=DARK, linewidth=0.8)
    ax.locator_params(axis="x", nbins=3)
    ax.grid(visible=False, axis="y")
    ax.grid(axis="x", color=LIGHT, linewidth=0.8)
    if more := len(shape.levels) - len(levels):
        ax.set_xlabel(f"and {more} more levels", color=GREY, fontsize=FONT - 2.0)
