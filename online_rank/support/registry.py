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

#: Public modules that are no rooms: they have API pages, too.
MODULES = (
    "base.schema",
    "client",
    "distributed.keyed",
    "distributed.learners",
    "distributed.spark",
    "limits",
    "measures.own",
    "sklearn",
    "stream.clicks",
    "stream.synth",
)

#: The names that `online_rank` itself offers, by their modules, relative to `online_rank`.
_NAMES = {
    "base": ("Ranker", "RankingPipeline", "Round", "rank_one"),
    "bounds": ("LossTracker", "batch_weights"),
    "extensions": ("register",),
    "feedback": ("Clicks", "FairPairs", "Greedy", "Impression", "PlackettLuce", "PositionBias"),
    "measures.learned": ("measure",),
    "preprocessing": (
        "CrossFeatures",
        "DeclaredFeatures",
        "ForEachDocument",
        "HashedFeatures",
        "History",
        "MaxAbsStreamScaler",
        "QueryNormalizer",
        "RunFeatures",
        "StreamQuantileMap",
        "StreamScaler",
        "Tastes",
        "VectorFeatures",
    ),
    "query": ("Runs", "Vectors", "drop_ungraded"),
    "rankers.additive": ("AdditiveRanker",),
    "rankers.adapters": ("PairwiseRanker", "PointwiseRanker"),
    "rankers.blend": ("BlendRanker",),
    "rankers.click_blend": ("ClickBlendRanker",),
    "rankers.click_curves": ("ClickCurves",),
    "rankers.click_perceptron": ("ClickPerceptron",),
    "rankers.click_ridge": ("ClickRidge",),
    "rankers.direct": ("DirectRanker",),
    "rankers.examined": ("ExaminedRanker",),
    "rankers.fixed_trees": ("FixedTrees",),
    "rankers.gradient": ("GradientRanker",),
    "rankers.hybrid": ("hybrid",),
    "rankers.kernel": ("KernelPerceptronRanker",),
    "rankers.perceptron": ("PerceptronRanker",),
    "rankers.ridge": ("RidgeRanker",),
    "rankers.slam": ("SlamRanker",),
    "rankers.swap": ("SwapRanker",),
    "rankers.torch": ("TorchRanker",),
    "rankers.vectors": ("VectorRanker",),
    "storage": ("CheckpointError", "ModelFileError", "load", "save"),
    "stream.reader": ("read",),
    "support.warm_up": ("warm_up",),
}

#: The same for classes that can be saved but are public only in their subpackages.
_IN_ROOMS = {
    "base": ("QueryUnion",),
    "evaluate": ("Trace",),
    "metrics": (
        "DCG",
        "ERR",
        "HitRate",
        "LinearNDCG",
        "MAP",
        "MRR",
        "NDCG",
        "OffPolicyValue",
        "PairwiseAccuracy",
        "PrecisionAtK",
        "RandomRanking",
        "RecallAtK",
        "SwapComparison",
        "TeamDraft",
    ),
    "preprocessing.bilinear": ("BilinearLearner",),
    "preprocessing.vector_columns": ("VectorColumns",),
    "rankers.click_trees": ("ClickTrees",),
    "rankers.fixed": ("FixedRanker",),
    "rankers.click_words": ("ClickWords",),
    "rankers.frozen": ("FrozenRanker",),
    "rankers.growing_trees": ("GrowingTrees",),
    "base.kinds": ("Kinds",),
    "rankers.words": ("Words",),
    "serving": ("Challenge", "FeedbackPlan", "PendingQueries", "RankingService"),
    "stream.clicks": (
        "BayesianUser",
        "BrowsingUser",
        "CascadeUser",
        "DependentUser",
        "PositionUser",
        "SatisfiedUser",
        "TrustUser",
    ),
    "surrogates": ("Surrogate",),
}

#: Classes that files of earlier versions may name, and what to do without them.
GONE = {"BoostedRanker": "teach an AdditiveRanker(), which has trees itself and replaces a BlendRanker() without a list, too"}

#: Modules, relative to `online_rank`, that declare the bounds of a ranker that only studies use, or that none covers it, by the
#: name of its class. They are imported when such a ranker is tracked or certified.
BOUNDS = {
    "GradientRanker": ("bounds.gradients",),
    "KernelPerceptronRanker": ("bounds.projection",),
    "SlamRanker": ("bounds.any_step", "bounds.theorems"),
}

#: The modules of the commands, relative to `online_rank.cli.commands`, and their functions, in the order of `--help`.
COMMANDS = {
    "warm_up": ("warm_up",),
    "demo": ("demo",),
    "train": ("train",),
    "grades": ("grades",),
    "rank": ("rank",),
    "fuse": ("fuse",),
    "explain": ("explain",),
    "export": ("export",),
    "verify": ("verify",),
    "evaluate": ("evaluate",),
    "compare": ("compare",),
    "experiment": ("run", "show", "compare"),
    "stream": ("stream",),
    "serve": ("serve",),
    "forget": ("forget",),
    "repair": ("repair",),
    "grants": ("grants",),
    "backup": ("backup", "restore"),
}

#: The modules whose functions are commands of a group, with what the group is for.
GROUPS = {"experiment": "Run an experiment from a file, show what it measured, and compare its models."}

#: What commands of the core call of the other parts, and its module.
_CALLED = {
    # The service as a folder or a database has it.
    "read_service": "serving.durable",
    # `train --for`, and which targets compute curves with and without trees.
    **dict.fromkeys(("beyond", "require_target", "sees_queries", "targets_of"), "cli.for_target"),
    # `train --certify` around a linear ranker, and `train --report`.
    "tracked": "cli.certify",
    "QueryLog": "cli.query_log",
    **dict.fromkeys(("write_figures", "write_report"), "cli.report"),
}

#: The module of each name that `online_rank` itself offers.
TOP_LEVEL = {name: module for module, names in _NAMES.items() for name in names}


@functools.cache
def classes() -> dict[str, str]:
    """Module, relative to `online_rank`, of every listed class."""
    named = (*_NAMES.items(), *_IN_ROOMS.items())
    return {name: module for module, names in named for name in names if name[0].isupper()}


def home_of(cls: type) -> str | None:
    """The module of a class, or None if the class is not listed. Imports no room."""
    module = classes().get(cls.__name__)
    if module is None:
        return None
    return module if getattr(sys.modules.get(f"online_rank.{module}"), cls.__name__, None) is cls else None


def of_another_part(name: str) -> Any:
    """What the core calls of the other parts, by name."""
    return getattr(importlib.import_module(f"online_rank.{_CALLED[name]}"), name)


def public_class(name: str) -> Any:
    """The listed class of that name. Raises KeyError."""
    return getattr(importlib.import_module(f"online_rank.{classes()[name]}"), name)
