"""The one list of public names, and of the classes that may stand in files.

Files know classes by their bare names, so a class may move to another module without making old files unreadable. A listed
class may stand in a file when it declares its state (`online_rank.base.schema`).
"""

import importlib
import sys
from typing import Any

__all__ = ["CLASSES", "TOP_LEVEL", "home_of", "public_class"]

#: Module, relative to `online_rank`, of each name that `online_rank` itself offers.
TOP_LEVEL = {
    "BestRanker": "rankers.selection",
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
    "Round": "base",
    "SignedLog": "preprocessing",
    "StreamGaussianizer": "preprocessing",
    "StreamScaler": "preprocessing",
    "best_in_hindsight": "bounds",
    "judged": "query",
    "load": "storage",
    "measure": "measures",
    "rank_one": "base",
    "save": "storage",
}

#: The same for classes that only their rooms offer, and that may stand in files.
_IN_ROOMS = {
    "DCG": "metrics",
    "ERR": "metrics",
    "HitRate": "metrics",
    "LetorPosition": "stream.letor",
    "LinearNDCG": "metrics",
    "MAP": "metrics",
    "MRR": "metrics",
    "NDCG": "metrics",
    "PairwiseAccuracy": "metrics",
    "PendingQueries": "serving",
    "PrecisionAtK": "metrics",
    "QueryUnion": "base",
    "RandomRanking": "metrics",
    "RankingService": "serving",
    "RecallAtK": "metrics",
    "Trace": "evaluate",
}

#: Module, relative to `online_rank`, of every listed class.
CLASSES = {name: module for name, module in {**TOP_LEVEL, **_IN_ROOMS}.items() if name[0].isupper()}


def home_of(cls: type) -> str | None:
    """The module of a class, if it is listed, and None otherwise. Imports nothing."""
    module = CLASSES.get(cls.__name__)
    if module is None:
        return None
    return module if getattr(sys.modules.get(f"online_rank.{module}"), cls.__name__, None) is cls else None


def public_class(name: str) -> Any:
    """The listed class of that name. Raises KeyError."""
    return getattr(importlib.import_module(f"online_rank.{CLASSES[name]}"), name)
