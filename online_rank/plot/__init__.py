"""Plots of learned models and their losses (extra `plot`).

Every function takes the data, and optionally the Axes to draw on, and returns the Axes (`curves` several of one figure); no
function shows or saves anything: `ax.figure.savefig("loss.svg")`. The colours are from Okabe & Ito: people with any kind
of colour vision can distinguish them; lines are labelled directly, without a legend.
"""

from typing import TYPE_CHECKING

from online_rank.plot.additive import curves
from online_rank.plot.bars import certificate, explanation, importance, weights
from online_rank.plot.losses import loss, served_loss, trace
from online_rank.plot.pairs import pairs
from online_rank.support.lazy import lazily

if TYPE_CHECKING:
    from online_rank.plot.experiments import bands, differences, time
    from online_rank.plot.runs import LossCurve

__all__ = [
    "LossCurve",
    "bands",
    "certificate",
    "curves",
    "differences",
    "explanation",
    "importance",
    "loss",
    "pairs",
    "served_loss",
    "time",
    "trace",
    "weights",
]

__getattr__, __dir__ = lazily(__name__, {"LossCurve": "runs"} | dict.fromkeys(("bands", "differences", "time"), "experiments"))
