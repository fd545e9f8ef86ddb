"""A model as one weight for each raw feature and a constant."""

from collections.abc import Hashable, Sequence
from typing import Any, NamedTuple

import numpy as np

from online_rank.base import serving_ranker, transformers_of
from online_rank.preprocessing import StreamScaler
from online_rank.rankers.averaged import LinearRanker
from online_rank.rankers.ridge import RidgeRanker

__all__ = ["LinearForm", "feature_texts", "served_weights", "serving_weights"]


class LinearForm(NamedTuple):
    """Scores that are linear in the raw features: s = X weights + constant, or the same with the features scaled first.

    Attributes
    ----------
    weights
        float64 (d,), for raw features.
    constant
        The same for all documents: it changes scores and no ranking.
    names
        The d feature names; None when features are known by their position.
    scaled_weights, means, deviations
        float64 (d,) each: s = sum_j scaled_weights_j (x_j - means_j) / deviations_j. Without a scaler 0 and 1.
    """

    weights: np.ndarray
    constant: float
    names: tuple[Hashable, ...] | None
    scaled_weights: np.ndarray
    means: np.ndarray
    deviations: np.ndarray


def serving_weights(model: Any) -> LinearForm:
    """The weights that serve rankings, on raw features: every `StreamScaler` in front of the ranker is folded in.

    Parameters
    ----------
    model
        A linear ranker, or a pipeline of scalers and one. Rankers that hold others (`LossTracker`, `DriftAwareRanker`,
        `BestRanker`) give the weights of the one that ranks.

    Returns
    -------
    A `LinearForm`; its scores equal those of `predict_many` up to rounding.

    Raises
    ------
    TypeError
        Scores of the model are not linear in the raw features; the message names the step.
    ValueError
        The model has met no feature, or weights on raw features are not finite.

    Examples
    --------
    >>> from online_rank import PerceptronRanker, StreamScaler
    >>> model = StreamScaler() | PerceptronRanker()
    >>> model.learn_one({"a": {"clicks": 3}, "b": {"clicks": 1}}, {"a": 0, "b": 2})
    >>> form = serving_weights(model)
    >>> form.names, form.weights, form.constant
    (('clicks',), array([-1.215...]), 2.430...)
    >>> model.predict_one({"c": {"clicks": 2}, "d": {"clicks": 0}})
    {'c': 0.0, 'd': 2.430...}
    """
    transformers, ranker = transformers_of(model), serving_ranker(model)
    weights = served_weights(ranker)
    if weights is None:
        raise TypeError(f"{type(ranker).__name__} has no linear form: its scores are not a weighted sum of the features")
    names = ranker.feature_names
    means, deviations = np.zeros(len(weights)), np.ones(len(weights))
    scaled = weights
    for step in reversed(transformers):
        if not isinstance(step, StreamScaler):
            raise TypeError(f"{type(step).__name__} has no linear form: {_reason(step)}")
        scaled, means, deviations = (_at(step, names, values) for values in (scaled, means, deviations))
        names = step.feature_names
        scaled, means, deviations = _behind(step, scaled, means, deviations)
    if not len(scaled):
        raise ValueError("the model has met no feature yet; let it learn before it is exported")
    folded = scaled / deviations
    constant = -float(folded @ means)
    if not (np.isfinite(folded).all() and np.isfinite(constant)):
        raise ValueError("weights on raw features are not finite; scale the features down")
    return LinearForm(folded, constant, names, scaled, means, deviations)


def served_weights(ranker: Any) -> np.ndarray | None:
    """The weights (d,) by which a linear ranker ranks; None for any other."""
    if isinstance(ranker, LinearRanker):
        return ranker.served_weights
    return ranker.weights if isinstance(ranker, RidgeRanker) else None


def feature_texts(form_names: Sequence[Hashable] | None, n_features: int, names: Sequence[str] | None = None) -> list[str]:
    """Names of features for a target that needs text: `names` if given, those learned, or f0, f1, ... for positions.

    Raises
    ------
    TypeError, ValueError
        `names` has another length, or two features would have one name.
    """
    if names is not None:
        if isinstance(names, str) or not all(isinstance(name, str) for name in names):
            raise TypeError("names is a sequence of one text for each feature")
        if len(names) != n_features:
            raise ValueError(f"names has {len(names)} names, but the model has {n_features} features")
        texts = list(names)
    else:
        texts = [f"f{j}" for j in range(n_features)] if form_names is None else [str(name) for name in form_names]
    if len(set(texts)) < n_features:
        twice = next(text for text in texts if texts.count(text) > 1)
        raise ValueError(f"two features would be called {twice!r}; give other names (argument names)")
    return texts


def _at(step: StreamScaler, names: tuple[Hashable, ...] | None, values: np.ndarray) -> np.ndarray:
    """Values of the ranker's columns at the scaler's; 0 for a feature that the ranker has not met."""
    if names == step.feature_names and len(values) == step.n_features:
        return values
    own = dict(zip(names or (), values.tolist(), strict=False))
    return np.array([own.get(name, 0.0) for name in step.feature_names or ()])


def _behind(
    step: StreamScaler, scaled: np.ndarray, means: np.ndarray, deviations: np.ndarray
) -> tuple[np.ndarray, np.ndarray, np.ndarray]:
    """A form on scaled features as one on the features that the scaler gets. A feature that never varied has weight 0."""
    mean, m2 = step._mean, step._m2
    own = np.sqrt(m2 / max(step.n_documents, 1)) if step.with_std else np.ones(len(mean))
    varies = own > 0.0
    safe = np.where(varies, own, 1.0)
    scale = np.where(deviations > 0.0, deviations, 1.0)
    return np.where(varies, scaled, 0.0), mean + safe * means, safe * scale


def _reason(step: Any) -> str:
    reasons = {
        "HashedFeatures": "names of features are not kept, only their hashes",
        "SignedLog": "a logarithm is not linear (ONNX can compute it)",
        "StreamGaussianizer": "quantiles are not linear (ONNX can compute them)",
        "QueryNormalizer": "it scales each query by the documents of that query",
    }
    return reasons.get(type(step).__name__, "only a StreamScaler can be folded into weights")
