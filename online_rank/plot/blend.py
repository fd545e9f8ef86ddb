"""Plots of the weights of a blend over time, and of the features by which its trees split."""

from typing import TYPE_CHECKING, Any

import numpy as np

from online_rank.base import parts_of, steps_of
from online_rank.plot._style import COLOURS, DARK, FONT, bars, styled
from online_rank.rankers import BlendRanker
from online_rank.rankers.boosted import BoostedRanker

if TYPE_CHECKING:
    from matplotlib.axes import Axes

__all__ = ["BlendCurve", "blend", "importance"]

#: A `BlendCurve` records whenever the number of queries has grown by this factor.
_SPACING = 1.01


class BlendCurve:
    """Records the weights of a `BlendRanker` while it learns, for `blend`.

    Call it after learning queries, or pass it to `evaluate.progressive(watch=...)`. Records become rarer over time, so its size
    is logarithmic in the length of the stream.

    Parameters
    ----------
    model
        The `BlendRanker`, or a pipeline that ends in one.

    Raises
    ------
    TypeError
        `model` is something else.

    Examples
    --------
    >>> from online_rank import BlendRanker, PerceptronRanker, RidgeRanker, plot
    >>> model = BlendRanker([PerceptronRanker(), RidgeRanker()])
    >>> curve = plot.BlendCurve(model)
    >>> for _ in range(10):
    ...     model.learn_one([[1.0, 0.0], [0.0, 1.0]], [1, 0])
    ...     curve()
    >>> curve.names, curve.columns["queries"].tolist()
    (['PerceptronRanker', 'RidgeRanker'], [1, 2, 3, 4, 5, 6, 7, 8, 9, 10])
    """

    def __init__(self, model: Any) -> None:
        self.blend = steps_of(model)[-1]
        if not isinstance(self.blend, BlendRanker):
            raise TypeError(f"model is of type {type(self.blend).__name__}; a BlendCurve watches a BlendRanker")
        self._n_calls = 0
        self._records: list[tuple[int, np.ndarray]] = []

    def __call__(self, trace: Any = None) -> None:
        """Count a query, and record the weights if enough have been learned since the last record."""
        self._n_calls += 1
        if not self._records or self._n_calls >= _SPACING * self._records[-1][0]:
            self._records.append((self._n_calls, self.blend.weights))

    @property
    def names(self) -> list[str]:
        """The names of the learners: the steps of each, without the common map."""
        return [" | ".join(type(step).__name__ for step in steps_of(learner)) for learner in self.blend.learners]

    @property
    def columns(self) -> dict[str, np.ndarray]:
        """The records as columns: "queries" (n,), and "weights" (n, number of learners)."""
        weights = [weights for _, weights in self._records]
        return {"queries": np.array([n for n, _ in self._records]), "weights": np.array(weights)}


def blend(curve: BlendCurve, *, ax: "Axes | None" = None) -> "Axes":
    """The weights of a blend over the queries learned, stacked.

    Raises
    ------
    ValueError
        Fewer than two queries have been recorded.

    Examples
    --------
    >>> from online_rank import BlendRanker, PerceptronRanker, RidgeRanker, plot
    >>> model = BlendRanker([PerceptronRanker(), RidgeRanker()])
    >>> curve = plot.BlendCurve(model)
    >>> for _ in range(10):
    ...     model.learn_one([[1.0, 0.0], [0.0, 1.0]], [1, 0])
    ...     curve()
    >>> plot.blend(curve).get_xlabel()
    'queries learned'
    """
    queries, weights = curve.columns["queries"], curve.columns["weights"]
    if len(queries) < 2:
        raise ValueError("there is nothing to draw: fewer than two queries have been recorded")
    ax = styled(ax, "queries learned", "weight of each ranker in the blend")
    ax.set_xscale("log")
    ax.set_xlim(queries[0], queries[-1])
    ax.set_ylim(0.0, 1.0)
    colours = [COLOURS[k % len(COLOURS)] for k in range(weights.shape[1])]
    ax.stackplot(queries, weights.T, colors=colours, alpha=0.55, linewidth=0.0)
    tops = np.cumsum(weights[-1])
    for name, top, share, colour in zip(curve.names, tops, weights[-1], colours, strict=True):
        if share >= 0.05:
            ax.annotate(f"{name}, {share:.2f}", (1.0, top - 0.5 * share), xytext=(-6, 0), xycoords="axes fraction", ha="right",
                        va="center", textcoords="offset points", color=DARK, fontsize=FONT,
                        bbox={"facecolor": "white", "edgecolor": colour, "boxstyle": "round,pad=0.25"})  # fmt: skip
    return ax


def importance(model: Any, *, n: int = 15, ax: "Axes | None" = None) -> "Axes":
    """The features with the largest total gain in the splits of trees, as shares of all gain.

    Parameters
    ----------
    model
        A `BoostedRanker`, a `BlendRanker` of one, or a pipeline that ends in one of them: the features are those after the
        transformers.
    n
        How many features.
    ax
        Axes to draw on.

    Raises
    ------
    TypeError
        The model has no trees.
    ValueError
        No tree has split yet.
    """
    found = [part for part in parts_of(model) if isinstance(part, BoostedRanker)]
    if not found:
        raise TypeError(f"{type(steps_of(model)[-1]).__name__} has no trees; a BoostedRanker, and a blend of one, has")
    gains = found[0].importance
    named = gains if isinstance(gains, dict) else {f"column {j}": gain for j, gain in enumerate(gains.tolist())}
    total = sum(named.values())
    if not total > 0.0:
        raise ValueError("there is nothing to draw: no tree has split yet")
    largest = sorted(named, key=lambda name: -named[name])[:n]
    shares = {f"{name}": 100.0 * named[name] / total for name in largest}
    return bars(shares, [COLOURS[0]] * len(shares), "% of all gain", ax, numbers=".1f")
