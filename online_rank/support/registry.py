"""The single list of public names, and of the classes that may be saved to files.

Files refer to classes by their bare names, so a class can move to another module without making old files unreadable. A listed
class can be saved if it declares its state (`online_rank.base.schema`).
"""

import functools
import importlib
import sys
from typing import Any

#: The public modules. `from online_rank import *` leaves them out, since river has modules of the same names.
ROOMS = (
    "base",
    "bounds",
    "checks",
    "distributed",
    "evaluate",
    "export",
    "extensions",
    "feedback",
    "intervals",
    "metrics",
    "measures",
    "plot",
    "preprocessing",
    "query",
    "rankers",
    "serving",
    "storage",
    "stream",
    "surrogates",
)

#: Modules that are public by themselves, beside the rooms: they have API pages of their own.
MODULES = (
    "distributed.dask",
    "distributed.keyed",
    "measures.own",
    "stream.clicks",
    "stream.synth",
)

#: Module, relative to `online_rank`, of each name that `online_rank` itself offers.
TOP_LEVEL = {
    "AdditiveRanker": "rankers.additive",
    "BestRanker": "rankers.selection",
    "BlendRanker": "rankers.blend",
    "BoostedRanker": "rankers.boosted",
    "CheckpointError": "storage",
    "ClickPerceptron": "rankers.click_perceptron",
    "Clicks": "feedback",
    "CrossFeatures": "preprocessing",
    "DeclaredFeatures": "preprocessing",
    "DirectRanker": "rankers.direct",
    "DriftAwareRanker": "rankers.drift",
    "FairPairs": "feedback",
    "ForEachDocument": "preprocessing",
    "GradientRanker": "rankers.gradient",
    "HashedFeatures": "preprocessing",
    "Impression": "feedback",
    "KernelPerceptronRanker": "rankers.kernel",
    "LossTracker": "bounds",
    "MaxAbsStreamScaler": "preprocessing",
    "ModelFileError": "storage",
    "PairwiseRanker": "rankers.adapters",
    "PerceptronRanker": "rankers.perceptron",
    "PlackettLuce": "feedback",
    "PointwiseRanker": "rankers.adapters",
    "PositionBias": "feedback",
    "QueryNormalizer": "preprocessing",
    "QueryRanks": "preprocessing",
    "Ranker": "base",
    "RankingPipeline": "base",
    "RidgeRanker": "rankers.ridge",
    "Round": "base",
    "RunFeatures": "preprocessing",
    "Runs": "query",
    "SlamRanker": "rankers.slam",
    "StreamQuantileMap": "preprocessing",
    "StreamScaler": "preprocessing",
    "StreamTargetEncoder": "preprocessing",
    "SwapRanker": "rankers.swap",
    "TorchRanker": "rankers.torch",
    "Vectors": "query",
    "best_in_hindsight": "bounds",
    "drop_ungraded": "query",
    "hybrid": "rankers.hybrid",
    "load": "storage",
    "measure": "measures.learned",
    "rank_one": "base",
    "register": "extensions",
    "save": "storage",
    "warm_up": "support.warm_up",
}

#: The same for classes that can be saved but are public only in their subpackages.
_IN_ROOMS = {
    "BayesianUser": "stream.clicks",
    "BrowsingUser": "stream.clicks",
    "CascadeUser": "stream.clicks",
    "Challenge": "serving",
    "DCG": "metrics",
    "DependentUser": "stream.clicks",
    "ERR": "metrics",
    "FeedbackPlan": "serving",
    "FixedRanker": "rankers.fixed",
    "HitRate": "metrics",
    "LetorPosition": "stream.letor",
    "LinearNDCG": "metrics",
    "MAP": "metrics",
    "MRR": "metrics",
    "NDCG": "metrics",
    "OffPolicyValue": "metrics",
    "PairwiseAccuracy": "metrics",
    "PendingQueries": "serving",
    "PositionUser": "stream.clicks",
    "PrecisionAtK": "metrics",
    "QueryUnion": "base",
    "Ramps": "preprocessing",
    "RandomRanking": "metrics",
    "RankingService": "serving",
    "RecallAtK": "metrics",
    "SatisfiedUser": "stream.clicks",
    "Surrogate": "surrogates",
    "SwapComparison": "metrics",
    "TeamDraft": "metrics",
    "Trace": "evaluate",
    "TrustUser": "stream.clicks",
}


@functools.cache
def classes() -> dict[str, str]:
    """Module, relative to `online_rank`, of every listed class."""
    return {name: module for name, module in {**TOP_LEVEL, **_IN_ROOMS}.items() if name[0].isupper()}


def home_of(cls: type) -> str | None:
    """The module of a class, or None if the class is not listed. Imports no room."""
    module = classes().get(cls.__name__)
    if module is None:
        return None
    return module if getattr(sys.modules.get(f"online_rank.{module}"), cls.__name__, None) is cls else None


def public_class(name: str) -> Any:
    """The listed class of that name. Raises KeyError."""
    return getattr(importlib.import_module(f"online_rank.{classes()[name]}"), name)


if __name__ == "__main__":  # for `pdoc`, which looks for modules in `__all__`
    print(*(f"online_rank.{module}" for module in sorted((*ROOMS, *MODULES))))
