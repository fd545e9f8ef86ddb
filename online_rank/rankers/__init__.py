"""Rankers: models that rank the documents of a query and learn from feedback, one query at a time."""

from online_rank.support.lazy import lazily

_HOME = {
    "AdditiveRanker": "additive",
    "BestRanker": "selection",
    "BlendRanker": "blend",
    "BoostedRanker": "boosted",
    "ClickPerceptron": "click_perceptron",
    "DirectRanker": "direct",
    "DriftAwareRanker": "drift",
    "GradientRanker": "gradient",
    "KernelPerceptronRanker": "kernel",
    "PairwiseRanker": "adapters",
    "PerceptronRanker": "perceptron",
    "PointwiseRanker": "adapters",
    "RidgeRanker": "ridge",
    "SlamRanker": "slam",
    "SwapRanker": "swap",
    "TorchRanker": "torch",
}

__all__ = [*_HOME]

__getattr__, __dir__ = lazily(__name__, _HOME)
