"""Every public ranker and transformer, and pipelines of them: what tests of the contract run over."""

import numpy as np
from river import drift, feature_selection, linear_model, preprocessing, stats

from online_rank import (
    BestRanker,
    DirectRanker,
    DriftAwareRanker,
    ForEachDocument,
    GradientRanker,
    LossTracker,
    PairwiseRanker,
    PerceptronRanker,
    PointwiseRanker,
    QueryNormalizer,
    Ranker,
    SignedLog,
    StreamGaussianizer,
    StreamScaler,
)
from online_rank.base.function import QueryFunction


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
    "perceptron": lambda: PerceptronRanker(),
    "perceptron, last weights": lambda: PerceptronRanker(measure="ap", credit="argmax", mass="slam", average=False),
    "perceptron, half-life": lambda: PerceptronRanker(credit="delta", average=10, relative_margin=0.5),
    "perceptron, gradient": lambda: PerceptronRanker(update="gradient", learning_rate=0.1, within_grade="tight"),
    "gradient": lambda: GradientRanker(),
    "gradient, listnet": lambda: GradientRanker("listnet", "adagrad"),
    "gradient, lambdarank": lambda: GradientRanker("lambdarank", "adam"),
    "pointwise, regressor": lambda: PointwiseRanker(linear_model.LinearRegression()),
    "pointwise, classifier": lambda: PointwiseRanker(linear_model.LogisticRegression()),
    "tracker": lambda: LossTracker(PerceptronRanker()),
    "direct": lambda: DirectRanker(hidden=(4,), seed=1),
    "direct, RankNet": lambda: DirectRanker((4, 3), cost="logistic", output="half_tanh", accumulate=2, dtype="float64", seed=2),
    "drift, reset": lambda: DriftAwareRanker(PerceptronRanker()),
    "drift, switch": lambda: DriftAwareRanker(GradientRanker("listnet", "sgd"), drift.ADWIN(clock=1), "switch"),
    "drift, average": lambda: DriftAwareRanker(PerceptronRanker(), drift.KSWIN(seed=1), "restart_average"),
    "drift, pairwise": lambda: DriftAwareRanker(PairwiseRanker(linear_model.LogisticRegression()), on_drift="switch"),
    "best": lambda: BestRanker([PerceptronRanker(), GradientRanker(optimizer="sgd")]),
    "best, bandit": lambda: BestRanker([PerceptronRanker(), PerceptronRanker(average=False)], half_life=20.0, epsilon=0.3),
    "best, pairwise": lambda: BestRanker([PairwiseRanker(linear_model.LogisticRegression()), PerceptronRanker()]),
    "scaler | drift": lambda: StreamScaler() | DriftAwareRanker(PerceptronRanker()),
    "pairwise": lambda: PairwiseRanker(linear_model.LogisticRegression()),
    "scaler": lambda: StreamScaler(),
    "gaussianizer": lambda: StreamGaussianizer(),
    "log": lambda: SignedLog(),
    "normalizer": lambda: QueryNormalizer(),
    "normalizer, minmax": lambda: QueryNormalizer("minmax"),
    "lifted scaler": lambda: ForEachDocument(preprocessing.StandardScaler()),
    "lifted selector": lambda: ForEachDocument(feature_selection.SelectKBest(stats.PearsonCorr(), k=3)),
    "function": lambda: QueryFunction(doubled),
    "scaler | perceptron": lambda: StreamScaler() | PerceptronRanker(),
    "gaussianizer | gradient": lambda: StreamGaussianizer() | GradientRanker(optimizer="sgd"),
    "log | scaler | normalizer | perceptron": lambda: SignedLog() | StreamScaler() | QueryNormalizer() | PerceptronRanker(),
    "lifted | perceptron": lambda: ForEachDocument(preprocessing.MinMaxScaler()) | PerceptronRanker(),
    "function | scaler | perceptron": lambda: doubled | StreamScaler() | PerceptronRanker(),
    "scaler | pairwise": lambda: StreamScaler() | PairwiseRanker(linear_model.LogisticRegression()),
    "union": lambda: StreamScaler() + QueryNormalizer(),
    "union | perceptron": lambda: (SignedLog() + StreamScaler()) | PerceptronRanker(),
    "log | scaler": lambda: SignedLog() | StreamScaler(),
}

#: Why a model of the registry cannot be written to a file: it contains code, or a river class that files do not know.
NOT_SAVED = {"function", "function | scaler | perceptron", "lifted selector"}


def parts_of(model):
    return list(model.steps.values()) if hasattr(model, "steps") else [model]


def is_ranker(model):
    return isinstance(parts_of(model)[-1], Ranker)
