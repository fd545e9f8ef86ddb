"""The targets of `export`: their titles, the kinds of models that they compute, and the functions that write them."""

from typing import NamedTuple

#: The kinds of models, with their descriptions.
KINDS = {
    "linear": "weighted sums of raw features",
    "trees": "sums of trees on raw features",
    "curves": "sums of curves and trees on raw features",
    "document": "other scores of one document at a time",
    "query": "scores that depend on the other documents of the query",
    "fusion": "rankers behind RunFeatures",
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
        The module of this package and its function that writes the target: `write(model, name=..., names=...)`; for the kind
        "fusion", `write(weights, name, names)`.
    """

    title: str
    kinds: tuple[str, ...]
    home: str


_FUSION = ("fusion",)
_ALL = tuple(kind for kind in KINDS if kind not in _FUSION)
_DOCUMENTS = tuple(kind for kind in _ALL if kind != "query")
_TREES = ("trees", "curves")
_ENSEMBLES = ("linear", *_TREES)

#: All targets, by the name that `export` takes.
TARGETS = {
    "c": Target("a C99 header", _ALL, "c:to_c"),
    "duckdb": Target("DuckDB", _ALL, "select:to_duckdb"),
    "duckdb-tables": Target("DuckDB's tables", _ALL, "tables:to_tables"),
    "elasticsearch": Target("the LTR plugin of Elasticsearch and OpenSearch", _ENSEMBLES, "elasticsearch:to_elasticsearch"),
    "elasticsearch-linear": Target("Elasticsearch's linear retriever", _FUSION, "engines:elasticsearch_linear"),
    "elasticsearch-rrf": Target("Elasticsearch's rrf retriever", _FUSION, "engines:elasticsearch_rrf"),
    "json": Target("JSON", _ALL, "plain:to_json"),
    "langchain": Target("LangChain's EnsembleRetriever", _FUSION, "engines:langchain"),
    "lightgbm": Target("LightGBM's text", _TREES, "boosters:to_lightgbm"),
    "onnx": Target("ONNX", _ALL, "onnx:to_onnx_bytes"),
    "opensearch": Target("the LTR plugin of Elasticsearch and OpenSearch", _ENSEMBLES, "elasticsearch:to_elasticsearch"),
    "opensearch-pipeline": Target("OpenSearch's normalization-processor", _FUSION, "engines:opensearch_pipeline"),
    "painless": Target("a script of Elasticsearch and OpenSearch", _DOCUMENTS, "painless:to_painless"),
    "postgresql": Target("PostgreSQL", _ALL, "select:to_select"),
    "solr": Target("Solr", _ENSEMBLES, "solr:to_solr"),
    "solr-function": Target("Solr's function query", _FUSION, "engines:solr_function"),
    "sql": Target("SQL", _FUSION, "engines:sql"),
    "vespa": Target("Vespa", _DOCUMENTS, "vespa:to_vespa"),
    "vespa-global": Target("Vespa's global phase", _FUSION, "engines:vespa_global"),
    "xgboost": Target("XGBoost's JSON", _TREES, "boosters:to_xgboost"),
}
