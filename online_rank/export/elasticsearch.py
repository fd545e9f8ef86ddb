"""Linear models for the learning-to-rank plugins of Elasticsearch and OpenSearch."""

from collections.abc import Sequence
from typing import Any

from online_rank.export.linear import feature_texts, serving_weights
from online_rank.export.ranklib import to_ranklib

__all__ = ["to_elasticsearch"]


def to_elasticsearch(model: Any, *, name: str = "online_rank", names: Sequence[str] | None = None) -> dict[str, dict[str, Any]]:
    """A linear model and its features for the LTR plugin, which Elasticsearch and OpenSearch share.

    Parameters
    ----------
    model
        A linear ranker, or a pipeline of scalers and one.
    name
        Name of the feature set and of the model.
    names
        The plugin's names of the d features; None for the names that the model has learned, or f0, f1, ...

    Returns
    -------
    Two bodies: `featureset`, for `POST _ltr/_featureset/NAME`, and `model`, for `POST _ltr/_featureset/NAME/_createmodel`.
    Each feature of the set is read from the document's field of that name; put your own query in place of one that depends
    on what was searched for, and keep the order: the model knows features by their place in the set.

    Raises
    ------
    TypeError, ValueError
        The model is not linear in the raw features (see `serving_weights`).

    Examples
    --------
    >>> from online_rank import PerceptronRanker
    >>> bodies = to_elasticsearch(PerceptronRanker.from_weights({"clicks": 2.0, "age": -0.5}))
    >>> [feature["name"] for feature in bodies["featureset"]["featureset"]["features"]]
    ['clicks', 'age']
    >>> bodies["model"]["model"]["model"]["type"]
    'model/ranklib'
    """
    form = serving_weights(model)
    texts = feature_texts(form.names, len(form.weights), names)
    features = [
        {
            "name": text,
            "params": [],
            "template_language": "mustache",
            "template": {
                "function_score": {
                    "query": {"match_all": {}},
                    "field_value_factor": {"field": text, "missing": 0},
                    "boost_mode": "replace",
                }
            },
        }
        for text in texts
    ]
    return {
        "featureset": {"featureset": {"name": name, "features": features}},
        "model": {"model": {"name": name, "model": {"type": "model/ranklib", "definition": to_ranklib(model)}}},
    }
