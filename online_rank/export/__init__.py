"""Learned models for the programs that rank: search engines, ONNX runtimes, C.

What is linear in the raw features goes everywhere: the scaler in front of a linear ranker is folded into its weights
(`serving_weights`). Networks, logarithms and quantile maps go to ONNX. Every function raises TypeError for a model that its
target cannot compute, and says which part is the reason.

| target | function | what it gives |
|---|---|---|
| Solr LTR | `to_solr` | a LinearModel as JSON, folded or with normalisers |
| Elasticsearch, OpenSearch LTR | `to_elasticsearch` | feature set and model as JSON |
| RankLib | `to_ranklib` | the text of a linear model |
| Vespa | `to_vespa` | a rank profile |
| ONNX | `to_onnx` (extra `onnx`) | a model from features to scores |
| anything else | `to_json`, `to_c` | names, weights and constant; a C header |

`from_ranklib` reads the weights of a linear RankLib model, as a start for learning: `PerceptronRanker.from_weights`.
"""

from online_rank._lazy import lazily

_HOMES = {
    "FORMATS": "formats",
    "LinearForm": "linear",
    "export": "formats",
    "from_ranklib": "ranklib",
    "serving_weights": "linear",
    "to_c": "plain",
    "to_elasticsearch": "elasticsearch",
    "to_json": "plain",
    "to_onnx": "onnx",
    "to_ranklib": "ranklib",
    "to_solr": "solr",
    "to_vespa": "vespa",
}

__all__ = [*_HOMES]

__getattr__, __dir__ = lazily(__name__, _HOMES)
