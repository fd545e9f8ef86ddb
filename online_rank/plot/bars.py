"""Bar and dot charts: one row or column for each bound, feature, gap or contestant."""

import itertools
import math
from collections.abc import Hashable, Mapping, Sequence
from typing import TYPE_CHECKING, Any

import numpy as np

from online_rank.base import serving_chain
from online_rank.base.explain import Explanation
from online_rank.bounds import Certificate
from online_rank.plot._style import COLOURS, DARK, FONT, GREY, PALE_BLUE, PALE_GREY, bars, listed, number, styled

if TYPE_CHECKING:
    from matplotlib.axes import Axes

__all__ = ["certificate", "explanation", "neighbour_gaps", "throughput", "weights"]


def certificate(certificate: Certificate, *, ax: "Axes | None" = None) -> "Axes":
    """The bounds of a certificate relative to the loss, on a logarithmic axis; a violated bound is coloured.

    Raises
    ------
    ValueError
        The certificate has no finite bound, or there was no loss.
    """
    shown = [check for check in certificate.bounds if 0.0 < check.value < math.inf]
    loss = certificate.loss
    if not shown or not loss > 0.0:
        raise ValueError("there is nothing to draw: the certificate has no finite bound, or no loss")
    ax = listed([check.statement for check in shown], ax)
    for row, check in enumerate(shown):
        colour = COLOURS[1] if check.verdict == "VIOLATED" else GREY
        ax.plot([loss, check.value], [row, row], color=colour, linewidth=1.8, marker="o", markersize=5, markevery=[1])
        ax.annotate(number(check.value), (check.value, row), xytext=(6, 0), textcoords="offset points", va="center",
                    color=DARK, fontsize=FONT)  # fmt: skip
    ax.axvline(loss, color=COLOURS[0], linewidth=2.0)
    ax.annotate(f"loss {number(loss)}", (loss, 0.0), xytext=(0, -4), xycoords=("data", "axes fraction"), ha="center", va="top",
                textcoords="offset points", color=COLOURS[0], fontsize=FONT)  # fmt: skip
    ax.set_xscale("log")
    ax.set_xticks([])
    ax.set_xticks([], minor=True)
    ax.set_title("cumulative loss and its upper bounds (logarithmic)", color=DARK, fontsize=FONT, loc="left")
    return ax


def explanation(explanation: Explanation, *, n: int = 15, ax: "Axes | None" = None) -> "Axes":
    """The contributions of features to the difference between the scores of two documents, the largest ones first.

    Parameters
    ----------
    explanation
        The result of `explain_one`.
    n
        Number of features to show; the sum of the others is one further bar.
    ax
        Axes to draw on.

    Raises
    ------
    ValueError
        The documents do not differ in any feature that the model uses.

    Examples
    --------
    >>> from online_rank import PerceptronRanker, plot
    >>> model = PerceptronRanker.from_weights({"clicks": 2.0, "age": -1.0})
    >>> ax = plot.explanation(model.explain_one({"new": {"clicks": 1, "age": 1}, "old": {"clicks": 2, "age": 5}}, "new", "old"))
    >>> [label.get_text() for label in ax.get_yticklabels()]
    ['age', 'clicks']
    """
    ordered = explanation.largest_first()
    if not ordered:
        raise ValueError("there is nothing to draw: the documents do not differ in any feature that the model uses")
    shown = {f"{name}": value for name, value in ordered[:n]}
    if rest := [value for _, value in ordered[n:]]:
        shown[f"{len(rest)} others"] = sum(rest)
    kind = "contribution" if explanation.exact else "share"
    title = (
        f"{kind} of each feature to {explanation.difference:+.3g}, the score of {explanation.a} minus that of {explanation.b}"
    )
    ax = bars(shown, [COLOURS[0] if value >= 0 else COLOURS[1] for value in shown.values()], title, ax, numbers="+.3g")
    ax.axvline(0.0, color=DARK, linewidth=0.8)
    return ax


def weights(model: Any, *, n: int = 15, names: Sequence[str] | None = None, ax: "Axes | None" = None) -> "Axes":
    """The largest weights that serve rankings, by feature.

    Parameters
    ----------
    model
        A linear ranker, a tracker of one, or a pipeline that ends in one: the weights are those of the features after the
        transformers.
    n
        Number of features to show.
    names
        Names of the features, if the model knows them by position.
    ax
        Axes to draw on.

    Raises
    ------
    TypeError
        The model has no weights of features.
    ValueError
        The model has learned nothing, or `names` has another length than the model has features.
    """
    *_, ranker = serving_chain(model)
    if not hasattr(ranker, "served_weights"):
        raise TypeError(f"{type(ranker).__name__} has no weights of features to draw; a PerceptronRanker or GradientRanker has")
    values = ranker.served_weights
    if not len(values):
        raise ValueError("there is nothing to draw: the model has learned from no query")
    if names is None:
        named: Sequence[Hashable] = ranker.feature_names or [f"feature {j}" for j in range(len(values))]
    elif len(names) != len(values):
        raise ValueError(f"names has {len(names)} entries, but the model has {len(values)} features")
    else:
        named = names
    largest = np.argsort(-np.abs(values), kind="stable")[:n]
    ax = bars(
        {f"{named[j]}": float(values[j]) for j in largest},
        [COLOURS[0] if values[j] >= 0 else COLOURS[1] for j in largest],
        ("weight" if len(largest) == len(values) else f"weight: the {len(largest)} largest of {len(values):,} features")
        + (", negative ones orange" if (values[largest] < 0).any() else ""),
        ax,
        numbers="+.3g",
    )
    ax.axvline(0.0, color=DARK, linewidth=0.8)
    return ax


def neighbour_gaps(model: Any, x: Any, y: Any = None, *, n_grades: int | None = None, ax: "Axes | None" = None) -> "Axes":
    """The gap between each document of a ranked query and the next, and the cuts of `segment_one` into grades.

    Parameters
    ----------
    model
        A `DirectRanker`.
    x
        A query in any form.
    y
        Its true grades, if known: the bars between documents of different grades are then coloured.
    n_grades
        As in `DirectRanker.segment_one`.
    ax
        Axes to draw on.

    Raises
    ------
    TypeError
        The model does not compare neighbours.
    ValueError
        The query has fewer than two documents.
    """
    if not hasattr(model, "neighbour_gaps_one"):
        raise TypeError(f"{type(model).__name__} does not compare neighbours; a DirectRanker does")
    order, gaps, segments = model.rank_one(x), model.neighbour_gaps_one(x), model.segment_one(x, n_grades)
    if not gaps:
        raise ValueError("there is nothing to draw: x has fewer than two documents")
    differs = [y is not None and y[a] != y[b] for a, b in itertools.pairwise(order)]
    ax = styled(ax, "documents, best first: the gap below each", "gap to the next document")
    positions = np.arange(1, len(gaps) + 1)
    ax.bar(positions, gaps, width=0.7, color=[COLOURS[1] if d else PALE_BLUE for d in differs], zorder=2)
    ax.set_ylim(0.0, 1.18 * max(gaps) or 1.0)
    # A label is about as wide as this many bars on either side of its own, and must be above all of them.
    beside = len(gaps) // 30
    for position, (a, b) in zip(positions, itertools.pairwise(order), strict=True):
        if segments[a] != segments[b]:
            top = max(gaps[max(0, position - 1 - beside) : position + beside])
            ax.annotate("cut", (position, top), xytext=(0, 2), textcoords="offset points", ha="center",
                        color=DARK, fontsize=FONT, fontweight="bold")  # fmt: skip
    if y is not None:
        ax.annotate("true grade changes", (1.0, 1.0), xytext=(0, -2), xycoords="axes fraction", textcoords="offset points",
                    ha="right", va="top", color=COLOURS[1], fontsize=FONT)  # fmt: skip
    return ax


def throughput(
    rates: Mapping[str, float], *, unit: str = "queries/s", ours: str = "online_rank", ax: "Axes | None" = None
) -> "Axes":
    """Rates as bars, the fastest on top; names that contain `ours` are coloured."""
    ordered = dict(sorted(rates.items(), key=lambda item: -item[1]))
    return bars(ordered, [COLOURS[0] if ours in name else PALE_GREY for name in ordered], unit, ax)
