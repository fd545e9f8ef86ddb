"""Linear models for Apache Solr's learning-to-rank module."""

from collections.abc import Sequence
from typing import Any

from online_rank.export.linear import feature_texts, serving_weights

__all__ = ["to_solr"]

_MODEL = "org.apache.solr.ltr.model.LinearModel"
_NORMALIZER = "org.apache.solr.ltr.norm.StandardNormalizer"


def to_solr(
    model: Any,
    *,
    name: str = "online_rank",
    normalizers: bool = False,
    store: str | None = None,
    names: Sequence[str] | None = None,
) -> dict[str, Any]:
    """A linear model as Solr's `LinearModel`, to be put to `schema/model-store` as JSON.

    Solr adds up weight times feature value, in single precision; it has no constant, which changes no ranking.

    Parameters
    ----------
    model
        A linear ranker, or a pipeline of scalers and one.
    name
        Name of the model in Solr.
    normalizers
        Whether Solr scales the features itself, by a `StandardNormalizer` each, and weights are those on scaled features. That
        is as fast, and more precise where features have large means, since Solr counts in single precision. Without it scaling
        is folded into the weights.
    store
        The feature store; None for Solr's default.
    names
        Solr's names of the d features; None for the names that the model has learned, or f0, f1, ...

    Returns
    -------
    A dict for `json.dumps`.

    Raises
    ------
    TypeError, ValueError
        The model is not linear in the raw features (see `serving_weights`).

    Examples
    --------
    >>> from online_rank import PerceptronRanker
    >>> model = PerceptronRanker.from_weights({"clicks": 2.0, "age": -0.5})
    >>> to_solr(model)["params"]
    {'weights': {'clicks': 2.0, 'age': -0.5}}
    """
    form = serving_weights(model)
    texts = feature_texts(form.names, len(form.weights), names)
    features: list[dict[str, Any]] = [{"name": text} for text in texts]
    if normalizers:
        for feature, mean, deviation in zip(features, form.means.tolist(), form.deviations.tolist(), strict=True):
            feature["norm"] = {"class": _NORMALIZER, "params": {"avg": repr(mean), "std": repr(deviation)}}
    weights = form.scaled_weights if normalizers else form.weights
    return {
        "class": _MODEL,
        "name": name,
        **({} if store is None else {"store": store}),
        "features": features,
        "params": {"weights": dict(zip(texts, weights.tolist(), strict=True))},
    }
