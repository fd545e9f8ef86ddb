"""Exports learned models to search engines, ONNX runtimes, C and other programs.

Every model is read as its closed form (`online_rank.base.form`), which a target writes if it can compute it: see `TARGETS`.
Otherwise it raises a TypeError with the reason and the targets that can.
"""

from online_rank.support.lazy import lazily

_HOMES = {
    "KINDS": "table",
    "LinearForm": "linear",
    "TARGETS": "table",
    "Change": "checking",
    "adapt": "adapt",
    "adapter": "vectors",
    "changes": "checking",
    "export": "formats",
    "fusion_weights": "fusion",
    "PairTable": "pair_tables",
    "pairs": "pair_tables",
    "query_inputs": "inputs",
    "query_matrix": "vectors",
    "probes": "probing",
    "serving_weights": "linear",
    "solr_features": "solr",
    "to_c": "c",
    "to_elasticsearch": "elasticsearch",
    "to_json": "plain",
    "to_lightgbm": "boosters",
    "to_onnx": "onnx",
    "to_painless": "painless",
    "to_select": "select",
    "to_solr": "solr",
    "to_tables": "tables",
    "to_vespa": "vespa",
    "to_xgboost": "boosters",
    "verify": "verifying.asking",
}

__all__ = [*_HOMES]

__getattr__, __dir__ = lazily(__name__, _HOMES)
