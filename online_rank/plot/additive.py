"""The curves of an additive ranker."""

from collections.abc import Hashable, Sequence
from typing import TYPE_CHECKING, Any

import numpy as np

from online_rank.base import serving_chain
from online_rank.plot._style import COLOURS, DARK, FONT, GREY, new_axes, styled
from online_rank.query.levels import is_level
from online_rank.rankers.additive import AdditiveRanker
from online_rank.rankers.curved import MEMBERS

if TYPE_CHECKING:
    from matplotlib.axes import Axes

__all__ = ["curves"]

_ACROSS, _HEIGHT = 3, 1.9


def curves(model: Any, *, features: Sequence[Hashable] | None = None, n: int = 9) -> "list[Axes]":
    """The curves of the features by which an `AdditiveRanker` ranks, those that matter most first.

    A line shows what a value adds to a score if its rank in the query is that in the stream, and a band the range of the
    members that have a share in what is served, each on its own scale. Marks at the bottom are quantiles of the stream, a ring
    at the left is a missing value. A category has a bar for each level, against documents without it.

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
    if not issubclass(type(ranker), AdditiveRanker) or not ranker.has_curves:
        raise TypeError(f"{type(ranker).__name__} has no curves to draw; an AdditiveRanker of dense queries has")
    parts = _parts(ranker)
    if features is None:
        features = sorted(parts, key=lambda name: -_variation(ranker, parts[name]))[:n]
    elif unknown := [name for name in features if name not in parts]:
        raise ValueError(f"features: there is no feature {unknown[0]!r}")
    if not features:
        raise ValueError("there is nothing to draw: the model has learned from no query")
    rows = -(-len(features) // _ACROSS)
    figure = new_axes(_HEIGHT * rows).figure
    figure.clear()
    made = figure.subplots(rows, _ACROSS, squeeze=False).ravel().tolist()
    for ax in made[len(features) :]:
        ax.remove()
    for ax, name in zip(made, features, strict=False):
        styled(ax, "", f"{name}")
        ax.tick_params(labelsize=FONT - 2.0)
        columns = parts[name]
        _draw_bars(ranker, columns, ax) if is_level(columns[0]) else _draw_curve(ranker, columns[0], ax)
    return made[: len(features)]


def _parts(ranker: AdditiveRanker) -> dict[Hashable, list[Hashable]]:
    """The columns of each feature: one, or the levels of a category."""
    found: dict[Hashable, list[Hashable]] = {}
    for column in ranker._own_names():
        found.setdefault(column[0] if is_level(column) else column, []).append(column)  # type: ignore[index]
    return found


def _variation(ranker: AdditiveRanker, columns: list[Hashable]) -> float:
    """How much the curves of a feature vary over its values."""
    return max(float(np.std(own + ranked)) if len(own) else 0.0 for _, own, ranked in map(ranker.curve, columns))


def _draw_curve(ranker: AdditiveRanker, column: Hashable, ax: "Axes") -> None:
    values, own, ranked = ranker.curve(column)
    if not len(values):
        return
    shares = dict(zip(MEMBERS, ranker.weights.tolist(), strict=True))
    each = [own + ranked for _, own, ranked in (ranker.curve(column, name) for name in MEMBERS if shares[name] > 0.05)]
    each = [one - one.mean() for one in each]
    line = own + ranked
    if each:
        middle = line.mean()
        ax.fill_between(values, middle + np.min(each, axis=0), middle + np.max(each, axis=0), color=COLOURS[0], alpha=0.15)
    ax.plot(values, line, color=COLOURS[0], linewidth=1.8)
    ax.plot(values, np.full(len(values), line.min()), "|", color=GREY, markersize=5)
    ax.plot([values[0]], [ranker.missing_value(column)], "o", markerfacecolor="none", color=COLOURS[1], markersize=5)
    if values[0] > 0.0 and values[-1] > 100.0 * values[0]:
        ax.set_xscale("log")


def _draw_bars(ranker: AdditiveRanker, columns: list[Hashable], ax: "Axes") -> None:
    heights = {}
    for column in columns:
        values, own, ranked = ranker.curve(column)
        level = column[2]  # type: ignore[index]
        heights["others" if level is None else f"{level}"] = (
            float((own + ranked)[-1] - (own + ranked)[0]) if len(values) else 0.0
        )
    ordered = sorted(heights.items(), key=lambda item: item[1])
    ax.barh(range(len(ordered)), [height for _, height in ordered], color=COLOURS[0])
    ax.set_yticks(range(len(ordered)), [name for name, _ in ordered])
    ax.axvline(0.0, color=DARK, linewidth=0.8)
