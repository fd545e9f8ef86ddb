"""Online learning to rank: models that learn from one query at a time.

The public names are loaded on first use, so that `import online_rank` costs next to nothing and compiles nothing.
"""

import importlib
from typing import Any

_HOME = {
    "BestRanker": "selection",
    "CheckpointError": "checkpoint",
    "DirectRanker": "direct",
    "DriftAwareRanker": "drift",
    "ForEachDocument": "preprocessing",
    "GradientRanker": "gradient",
    "KernelPerceptronRanker": "rankers.kernel",
    "LossTracker": "bounds",
    "ModelFileError": "persistence",
    "PairwiseRanker": "adapters",
    "PerceptronRanker": "perceptron",
    "PointwiseRanker": "adapters",
    "QueryNormalizer": "preprocessing",
    "Ranker": "base",
    "RankingPipeline": "compose",
    "Round": "base",
    "SignedLog": "preprocessing",
    "StreamGaussianizer": "preprocessing",
    "StreamScaler": "preprocessing",
    "best_in_hindsight": "bounds",
    "load": "persistence",
    "measure": "measures",
    "rank_one": "base",
    "save": "persistence",
}
_MODULES = (
    "adapters",
    "bounds",
    "checks",
    "compose",
    "drift",
    "evaluate",
    "metrics",
    "plot",
    "preprocessing",
    "selection",
    "stream",
    "surrogates",
)

__version__ = "0.1.0"
__all__ = [*_HOME, *_MODULES, "__version__"]


def __getattr__(name: str) -> Any:
    if name in _HOME:
        value = getattr(importlib.import_module(f"{__name__}.{_HOME[name]}"), name)
    elif name in _MODULES:
        value = importlib.import_module(f"{__name__}.{name}")
    else:
        raise AttributeError(f"module {__name__!r} has no attribute {name!r}")
    globals()[name] = value
    return value


def __dir__() -> list[str]:
    return sorted({*globals(), *__all__})
