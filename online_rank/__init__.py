"""Online learning to rank: models that learn from one query at a time.

The public names are loaded on first use, so that `import online_rank` costs next to nothing and compiles nothing.
"""

from online_rank._lazy import lazily

_HOME = {
    "BestRanker": "rankers.selection",
    "BlendRanker": "rankers.blend",
    "BoostedRanker": "rankers.boosted",
    "CheckpointError": "storage",
    "DirectRanker": "rankers.direct",
    "DriftAwareRanker": "rankers.drift",
    "ForEachDocument": "preprocessing",
    "GradientRanker": "rankers.gradient",
    "LossTracker": "bounds",
    "ModelFileError": "storage",
    "PairwiseRanker": "rankers.adapters",
    "PerceptronRanker": "rankers.perceptron",
    "PointwiseRanker": "rankers.adapters",
    "QueryNormalizer": "preprocessing",
    "Ranker": "base",
    "RankingPipeline": "base",
    "RidgeRanker": "rankers.ridge",
    "Round": "base",
    "SignedLog": "preprocessing",
    "StreamGaussianizer": "preprocessing",
    "StreamQuantileMap": "preprocessing",
    "StreamScaler": "preprocessing",
    "StreamTargetEncoder": "preprocessing",
    "best_in_hindsight": "bounds",
    "load": "storage",
    "measure": "measures",
    "rank_one": "base",
    "save": "storage",
}
_MODULES = (
    "bounds",
    "checks",
    "evaluate",
    "metrics",
    "plot",
    "preprocessing",
    "rankers",
    "storage",
    "stream",
    "surrogates",
)

__version__ = "0.1.0"
__all__ = [*_HOME, *_MODULES, "__version__"]

__getattr__, __dir__ = lazily(__name__, _HOME, _MODULES)
