"""Learned models for the programs that rank: search engines, ONNX runtimes, C.

Every model is read as its closed form (`online_rank.base.form`), and every target writes what it can compute of that: see
`TARGETS`. What it cannot is refused with a TypeError that says why, and which targets can.

`from_ranklib` reads the weights of a linear RankLib model, as a start for learning: `PerceptronRanker.from_weights`.
"""

from online_rank._lazy import lazily

_HOMES = {
    "FORMATS": "formats",
    "KINDS": "table",
    "LinearForm": "linear",
    "TARGETS": "table",
    "export": "formats",
    "from_ranklib": "ranklib",
    "serving_weights": "linear",
    "solr_features": "solr",
    "to_c": "c",
    "to_elasticsearch": "elasticsearch",
    "to_json": "plain",
    "to_lightgbm": "boosters",
    "to_onnx": "onnx",
    "to_ranklib": "ranklib",
    "to_solr": "solr",
    "to_vespa": "vespa",
    "to_xgboost": "boosters",
}

__all__ = [*_HOMES]

__getattr__, __dir__ = lazily(__name__, _HOMES)
