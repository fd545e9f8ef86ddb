"""The targets of `export`: their titles, the kinds of models that they compute, and the functions that write them."""

from typing import NamedTuple

__all__ = ["KINDS", "TARGETS", "Target"]

#: The kinds of models, with their descriptions.
KINDS = {
    "linear": "weighted sums of raw features",
    "trees": "sums of trees on raw features",
    "document": "other scores of one document at a time",
    "query": "scores that depend on the other documents of the query",
}


class Target(NamedTuple):
    """A program that can compute models.

    Attributes
    ----------
    title : str
        Its name in messages.
    kinds : tuple of str
        Which of `KINDS` it computes.
    home : str
        The module of this package and the function that write it: `write(model, name=..., names=...)`.
    """

    title: str
    kinds: tuple[str, ...]
    home: str


_ALL = tuple(KINDS)
_ENSEMBLES = ("linear", "trees")

#: All targets, by the name that `export` takes.
TARGETS = {
    "c": Target("a C99 header", _ALL, "c:to_c"),
    "elasticsearch": Target("the LTR plugin of Elasticsearch and OpenSearch", _ENSEMBLES, "elasticsearch:to_elasticsearch"),
    "json": Target("JSON", _ALL, "plain:to_json"),
    "lightgbm": Target("LightGBM's text", ("trees",), "boosters:to_lightgbm"),
    "onnx": Target("ONNX", _ALL, "onnx:to_onnx_bytes"),
    "opensearch": Target("the LTR plugin of Elasticsearch and OpenSearch", _ENSEMBLES, "elasticsearch:to_elasticsearch"),
    "ranklib": Target("RankLib", ("linear",), "ranklib:to_ranklib"),
    "solr": Target("Solr", _ENSEMBLES, "solr:to_solr"),
    "solr-normalized": Target("Solr with normalisers", ("linear",), "solr:to_solr_normalized"),
    "vespa": Target("Vespa", ("linear", "trees", "document"), "vespa:to_vespa"),
    "xgboost": Target("XGBoost's JSON", ("trees",), "boosters:to_xgboost"),
}
