"""Heat maps of what pairs of features add to a score."""

from collections.abc import Sequence
from typing import TYPE_CHECKING, Any

import numpy as np

from online_rank.base.anatomy import serving_chain
from online_rank.plot._style import DARK, FONT, GREY, new_axes
from online_rank.plot.additive import shown
from online_rank.rankers.pair_shapes import PairShape, has_pairs, pair_shapes_of

if TYPE_CHECKING:
    from matplotlib.axes import Axes

_ACROSS, _HEIGHT = 2, 2.9
#: Grid points with a label, as shares of the grid.
_LABELLED = (0.1, 0.5, 0.9)


def pairs(model: Any, *, n: int = 4) -> "list[Axes]":
    """Heat maps of the pairs of features that the trees of an `AdditiveRanker` combine, the strongest first.

    A colour shows what two values add to a score together, beyond what each adds alone on the average over the stream: orange
    raises a score, purple lowers it. Values are at equally frequent quantiles of the stream.

    Parameters
    ----------
    model
        An `AdditiveRanker` with trees, or a pipeline that ends in one.
    n
        Most pairs.

    Returns
    -------
    One Axes for each pair, all of one figure.

    Raises
    ------
    TypeError
        The model serves no trees next to curves: it is no `AdditiveRanker` with trees, or has no evidence yet that they help.
    ValueError
        No tree splits by two features.

    Examples
    --------
    >>> from online_rank import AdditiveRanker, plot
    >>> plot.pairs(AdditiveRanker())
    Traceback (most recent call last):
    TypeError: AdditiveRanker serves no trees, so it combines no features
    """
    *_, ranker = serving_chain(model)
    if not has_pairs(ranker):
        raise TypeError(f"{type(ranker).__name__} serves no trees, so it combines no features")
    found = pair_shapes_of(ranker, n)
    if not found:
        raise ValueError("there is nothing to draw: no tree splits by two features")
    return draw_pairs(found)


def draw_pairs(shapes: Sequence[PairShape]) -> "list[Axes]":
    """One Axes for each of some pairs, all of one figure, with one scale of colours."""
    across = min(_ACROSS, len(shapes))
    rows = -(-len(shapes) // across)
    figure: Any = new_axes(_HEIGHT * rows).figure
    figure.clear()
    made = figure.subplots(rows, across, squeeze=False).ravel().tolist()
    for ax in made[len(shapes) :]:
        ax.remove()
    most = max(float(np.abs(shape.effect).max()) for shape in shapes) or 1.0
    for ax, shape in zip(made, shapes, strict=False):
        image = ax.imshow(shape.effect.T, origin="lower", aspect="auto", cmap="PuOr_r", vmin=-most, vmax=most)
        for axis, name, values in zip((ax.xaxis, ax.yaxis), shape.names, shape.values, strict=True):
            places = [round(share * (len(values) - 1)) for share in _LABELLED]
            axis.set_ticks(places, [f"{values[place]:.3g}" for place in places])
            axis.set_label_text(shown(name), color=DARK, fontsize=FONT, parse_math=False)
        ax.spines[:].set_visible(False)
        ax.tick_params(colors=GREY, labelsize=FONT - 2.0, length=3)
    used = made[: len(shapes)]
    bar = figure.colorbar(image, ax=used, shrink=0.8)
    bar.outline.set_visible(False)
    bar.ax.tick_params(colors=GREY, labelsize=FONT - 2.0, length=3)
    bar.set_label("added to the score by the pair", color=DARK, fontsize=FONT)
    return used
