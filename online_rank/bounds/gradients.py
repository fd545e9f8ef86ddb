"""A `LossTracker` measures the losses of a `GradientRanker`; no bound covers them."""

from online_rank.bounds.comparators import MEASURED
from online_rank.rankers.gradient import GradientRanker

MEASURED.add(GradientRanker)
