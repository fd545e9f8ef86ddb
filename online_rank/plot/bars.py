"""Bar and dot charts: one row for each bound or feature."""

import math
from collections.abc import Hashable, Sequence
from typing import TYPE_CHECKING, Any

import numpy as np

from online_rank.base import serving_chain, serving_ranker
from online_rank.base.explain import Explanation
from online_rank.bounds import Certificate
from online_rank.plot._style import COLOURS, DARK, FONT, GREY, bars, listed, number
from online_rank.rankers.click_blend import ClickBlendRanker

if TYPE_CHECKING:
    from matplotlib.axes import Axes


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
    compared = f"the score of {explanation.a} minus the score of {explanation.b}"
    title = f"{kind} of each feature to {explanation.difference:+.3g}, {compared}"
    ax = bars(shown, [COLOURS[0] if value >= 0 else COLOURS[1] for value in shown.values()], title, ax, numbers="+.3g")
    ax.axvline(0.0, color=DARK, linewidth=0.8)
    return ax


def weights(model: Any, *, n: int = 15, names: Sequence[str] | None = None, ax: "Axes | None" = None) -> "Axes":
    """The largest weights that serve rankings, by feature.

    Parameters
    ----------
    model
        A linear ranker, a tracker of one, or a pipeline that ends in one: the weights belong to the columns that the
        transformers return.
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


def importance(model: Any, *, n: int = 15, ax: "Axes | None" = None) -> "Axes":
    """The features with the largest total gain in the splits of trees, as shares of all gain.

    Parameters
    ----------
    model
        A `ClickBlendRanker`, or a pipeline that ends in one: the features are those after the transformers.
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
    ranker = serving_ranker(model)
    if not isinstance(ranker, ClickBlendRanker):
        raise TypeError(f"{type(ranker).__name__} has no importance of features; a ClickBlendRanker has")
    named = ranker.importance
    total = sum(named.values())
    if not total > 0.0:
        raise ValueError("there is nothing to draw: no tree has split yet")
    largest = sorted(named, key=lambda name: -named[name])[:n]
    shares = {f"{name}": 100.0 * named[name] / total for name in largest}
    return bars(shares, [COLOURS[0]] * len(shares), "% of all gain", ax, numbers=".1f")
