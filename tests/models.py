"""Every public ranker and transformer, and pipelines of them: what tests of the contract run over."""

import copy
import importlib.util

import numpy as np
import pytest
from river import feature_selection, linear_model, preprocessing, stats

from online_rank import (
    AdditiveRanker,
    BlendRanker,
    ClickBlendRanker,
    ClickCurves,
    ClickPerceptron,
    ClickRidge,
    CrossFeatures,
    DeclaredFeatures,
    DirectRanker,
    ExaminedRanker,
    FixedTrees,
    ForEachDocument,
    GradientRanker,
    HashedFeatures,
    History,
    KernelPerceptronRanker,
    LossTracker,
    MaxAbsStreamScaler,
    PairwiseRanker,
    PerceptronRanker,
    PointwiseRanker,
    QueryNormalizer,
    Ranker,
    RidgeRanker,
    RunFeatures,
    SlamRanker,
    StreamQuantileMap,
    StreamScaler,
    SwapRanker,
    Tastes,
    TorchRanker,
    VectorFeatures,
    VectorRanker,
)
from online_rank.base.function import QueryFunction
from online_rank.evaluate import Retrained
from online_rank.rankers.averaged import LinearRanker
from online_rank.rankers.click_trees import ClickTrees
from online_rank.rankers.curved import CurvedRanker
from online_rank.rankers.fixed import FixedRanker
from online_rank.rankers.frozen import FrozenRanker
from online_rank.rankers.nested import NestedRanker

#: A model of LightGBM with one split.
STUMP = """tree
max_feature_idx=0
feature_names=clicks
Tree=0
num_leaves=2
split_feature=0
threshold=1.5
decision_type=2
left_child=-1
right_child=-2
leaf_value=-0.25 0.75
end of trees
"""


def doubled(query):
    """A function of a query, in every form."""
    if isinstance(query, np.ndarray):
        return 2 * query
    if isinstance(query, dict):
        return {i: {name: 2 * value for name, value in x.items()} for i, x in query.items()}
    if isinstance(query, list):
        return [{name: 2 * value for name, value in x.items()} for x in query]
    return query * 2


REGISTRY = {
    "additive": lambda: AdditiveRanker(),
    "perceptron": lambda: PerceptronRanker(),
    "perceptron, last weights": lambda: PerceptronRanker(measure="ap", credit="argmax", half_life=0),
    "perceptron, half-life": lambda: PerceptronRanker(credit="sort", half_life=10, relative_margin=0.5),
    "slam": lambda: SlamRanker(learning_rate=0.1, within_grade="tight"),
    "slam, mean": lambda: SlamRanker("ap>=2", learning_rate=0.5),
    "kernel perceptron": lambda: KernelPerceptronRanker(budget=20),
    "kernel perceptron, polynomial": lambda: KernelPerceptronRanker("polynomial", budget=9, tolerance=0.0, half_life=0),
    "swap": lambda: SwapRanker(),
    "click perceptron": lambda: ClickPerceptron(),
    "click ridge": lambda: ClickRidge(),
    "click curves": lambda: ClickCurves(),
    "gradient": lambda: GradientRanker(),
    "gradient, listnet": lambda: GradientRanker("listnet", optimizer="adagrad"),
    "gradient, lambdarank": lambda: GradientRanker("lambdarank", optimizer="adam"),
    "gradient, slam": lambda: GradientRanker("slam", optimizer="adam", measure="ap>=2", half_life=7.0),
    "pointwise, regressor": lambda: PointwiseRanker(linear_model.LinearRegression()),
    "pointwise, classifier": lambda: PointwiseRanker(linear_model.LogisticRegression()),
    "tracker": lambda: LossTracker(PerceptronRanker()),
    "direct": lambda: DirectRanker(hidden=(4,), seed=1),
    "direct, RankNet": lambda: DirectRanker((4, 3), surrogate="logistic", output="half_tanh", dtype="float64", seed=2),
    "click blend": lambda: ClickBlendRanker(),
    "examined": lambda: ExaminedRanker(PerceptronRanker()),
    "pairwise": lambda: PairwiseRanker(linear_model.LogisticRegression()),
    "ridge": lambda: RidgeRanker(),
    "ridge, half-life": lambda: RidgeRanker("ap", half_life=20.0),
    "blend": lambda: BlendRanker([PerceptronRanker(), StreamScaler() | GradientRanker(), RidgeRanker()]),
    "blend, half-life": lambda: BlendRanker([AdditiveRanker(), AdditiveRanker(trees=0)], half_life=100.0),
    "scaler": lambda: StreamScaler(),
    "scaler, means alone": lambda: StreamScaler(with_std=False),
    "largest": lambda: MaxAbsStreamScaler(),
    "largest | gradient": lambda: MaxAbsStreamScaler() | GradientRanker(optimizer="adagrad"),
    "hashed | perceptron": lambda: HashedFeatures(9) | PerceptronRanker(credit="argmax"),
    "quantile map": lambda: StreamQuantileMap(),
    "quantile map, frozen": lambda: StreamQuantileMap(frozen_after=64),
    "map | ridge": lambda: StreamQuantileMap() | RidgeRanker(),
    "runs": lambda: RunFeatures(parts=("minmax", "zscore", "reciprocal_rank", "found")),
    "runs | perceptron": lambda: RunFeatures() | PerceptronRanker(),
    "crosses": lambda: CrossFeatures("user", numbers="length"),
    "scaler | crosses | perceptron": lambda: StreamScaler() | CrossFeatures("user") | PerceptronRanker(),
    "history": lambda: History("user", half_life=10),
    "history | scaler | perceptron": lambda: History("user", half_life=10) | StreamScaler() | PerceptronRanker(),
    "normalizer": lambda: QueryNormalizer(),
    "normalizer, minmax": lambda: QueryNormalizer("minmax"),
    "lifted scaler": lambda: ForEachDocument(preprocessing.StandardScaler()),
    "lifted selector": lambda: ForEachDocument(feature_selection.SelectKBest(stats.PearsonCorr(), k=3)),
    "function": lambda: QueryFunction(doubled),
    "scaler | perceptron": lambda: StreamScaler() | PerceptronRanker(),
    "scaler | gradient": lambda: StreamScaler() | GradientRanker(optimizer="sgd"),
    "lifted | perceptron": lambda: ForEachDocument(preprocessing.MinMaxScaler()) | PerceptronRanker(),
    "function | scaler | perceptron": lambda: doubled | StreamScaler() | PerceptronRanker(),
    "scaler | normalizer | perceptron": lambda: StreamScaler() | QueryNormalizer() | PerceptronRanker(),
    "scaler | pairwise": lambda: StreamScaler() | PairwiseRanker(linear_model.LogisticRegression()),
    "union": lambda: StreamScaler() + QueryNormalizer(),
    "union | perceptron": lambda: (QueryNormalizer() + StreamScaler()) | PerceptronRanker(),
    "normalizer | scaler": lambda: QueryNormalizer() | StreamScaler(),
}

#: Arguments of classes, by name, that cannot do without, or have more to be tested than their defaults.
_ARGUMENTS = {
    "BlendRanker": lambda: [{"rankers": [PerceptronRanker(), StreamScaler() | PerceptronRanker()]}],
    "ClickTrees": lambda: [{"depth": 2, "window": 20, "rate": 10.0}],
    "CrossFeatures": lambda: [{"key": "user"}],
    "DeclaredFeatures": lambda: [{"features": ["a", "b"]}, {"features": ["a", "b"], "texts": True}],
    "ExaminedRanker": lambda: [
        {"ranker": PerceptronRanker(), "examination": (1.0, 0.5)},
        {"ranker": StreamScaler() | PerceptronRanker()},
    ],
    "FixedRanker": lambda: [{"weights": {"clicks": 1.0}}],
    "FixedTrees": lambda: [{"model": STUMP}, {"model": STUMP, "names": ("x",)}],
    "ForEachDocument": lambda: [{"transformer": preprocessing.StandardScaler()}],
    "History": lambda: [{"by": "user", "half_life": 10}, {"by": ("user", "x"), "half_life": 10, "examination": (1.0, 0.5)}],
    "LossTracker": lambda: [{"ranker": PerceptronRanker()}],
    "PairwiseRanker": lambda: [{"model": linear_model.LogisticRegression()}],
    "PointwiseRanker": lambda: [{"model": linear_model.LinearRegression()}, {"model": linear_model.LogisticRegression()}],
    "QueryFunction": lambda: [{"func": copy.copy}],
    "QueryUnion": lambda: [{"first": QueryFunction(copy.copy), "second": QueryFunction(copy.copy)}],
}


def arguments_of(cls):
    """Arguments by which tests construct a class."""
    return _ARGUMENTS.get(cls.__name__, lambda: [{}])()


HAS_TORCH = importlib.util.find_spec("torch") is not None
if HAS_TORCH:
    import torch
    from torch.nn import Dropout, Linear, ReLU, Sequential, Tanh

    def network(*layers):
        torch.manual_seed(0)
        return Sequential(*layers).double()

    REGISTRY["torch"] = lambda: TorchRanker(network(Linear(5, 4), Tanh(), Linear(4, 1)), shape=(5,))
    REGISTRY["scaler | torch, averaged"] = lambda: (
        StreamScaler()
        | TorchRanker(
            network(Linear(5, 4), ReLU(), Dropout(0.3), Linear(4, 1)), surrogate="lambdarank", shape=(5,), half_life=10, l2=0.01
        )
    )

#: Why a model of the registry cannot be written to a file: it contains code, or a river class that files do not know.
NOT_SAVED = {"function", "function | scaler | perceptron", "lifted selector"}

#: Base classes of rankers, which say nothing about how to learn.
BASES = {Ranker, CurvedRanker, LinearRanker, NestedRanker}

#: Rankers that the contract, which gives them any features, with names and without, is not for.
NOT_CHECKED = {
    *BASES,
    # Its weights say which features there are, and whether these have names.
    FixedRanker,
    # The file says the same.
    FixedTrees,
    # It says itself which features there are: the checks bring others.
    DeclaredFeatures,
    # They are taught outside: the first learns nothing, the second waits until there is enough, the third is taught by a blend.
    FrozenRanker,
    Retrained,
    ClickTrees,
    # They take vectors.
    VectorFeatures,
    VectorRanker,
    Tastes,
}


def parts_of(model):
    return list(model.steps.values()) if hasattr(model, "steps") else [model]


def variants(names, slow=()):
    """Names of models as parameters of a test.

    The first of each class is tested always, further settings and those in `slow` by slow tests.
    """
    found, seen = [], set()
    for name in names:
        model = REGISTRY[name]()
        classes = {type(model), *map(type, parts_of(model))}
        found.append(pytest.param(name, marks=[pytest.mark.slow] if classes <= seen or name in slow else []))
        seen |= classes
    return found


def is_ranker(model):
    return isinstance(parts_of(model)[-1], Ranker)


#: Adapters around any model of river can be served, not saved.
_ADAPTED = {
    "pointwise, regressor",
    "pointwise, classifier",
    "pairwise",
    "scaler | pairwise",
}
#: Models that a service can have: those that files know.
SERVED = {
    name: make
    for name, make in REGISTRY.items()
    if name not in NOT_SAVED | _ADAPTED and "torch" not in name and is_ranker(make())
} | {
    "lifted standard": lambda: ForEachDocument(preprocessing.StandardScaler()) | PerceptronRanker(),
    "lifted maximum": lambda: ForEachDocument(preprocessing.MaxAbsScaler()) | PerceptronRanker(),
    "lifted norm": lambda: ForEachDocument(preprocessing.Normalizer()) | PerceptronRanker(),
}
