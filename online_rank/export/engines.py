"""Learned fusion in the words of each engine: weights of retrievers, expressions, SQL."""

import re
from collections.abc import Mapping, Sequence
from typing import Any

from online_rank.export.expression import number
from online_rank.export.fusion import Weights, normalised
from online_rank.export.reading import Names, feature_texts, require_different
from online_rank.export.vespa import canonical

#: OpenSearch's limit of the queries in a hybrid query.
_OPENSEARCH_MOST = 5
_SOLR_NAME = re.compile(r"[A-Za-z_][A-Za-z0-9_.]*")
_VESPA_INPUT = re.compile(r"[A-Za-z_]\w*(\([\w.,\" -]*\))?(\.\w+)*")
_IDENTIFIER = re.compile(r"[A-Za-z_][A-Za-z0-9_]*")
#: PostgreSQL cuts names of columns at this many bytes.
_SQL_BYTES = 63


def elasticsearch_linear(found: Weights, name: str, names: Names) -> dict[str, Any]:
    """Elasticsearch's `linear` retriever with the normaliser `minmax`; `names` has the retriever of each run, a dict.

    The name of a run without a retriever stands in its place. Before 8.18.3 and 9.1, Elasticsearch adds the scores themselves
    of a run in which all are equal; since then they are 1.
    """
    retrievers = _retrievers(found, names)
    shares = normalised(found.weights["minmax"])
    each = [{"retriever": x, "weight": w, "normalizer": "minmax"} for x, w in zip(retrievers, shares, strict=True)]
    return {"retriever": {"linear": {"retrievers": each, "rank_window_size": 100}}}


def elasticsearch_rrf(found: Weights, name: str, names: Names) -> dict[str, Any]:
    """Elasticsearch's weighted `rrf` retriever (9.2 or later); `names` as for the `linear` one."""
    shares = normalised(found.weights["reciprocal_rank"])
    each = [{"retriever": x, "weight": w} for x, w in zip(_retrievers(found, names), shares, strict=True)]
    return {"retriever": {"rrf": {"retrievers": each, "rank_constant": int(found.k), "rank_window_size": 100}}}


def opensearch_pipeline(found: Weights, name: str, names: Names) -> dict[str, Any]:
    """An OpenSearch search pipeline with a `normalization-processor`: min_max, weighted arithmetic mean.

    OpenSearch gives the smallest score of a run 0.001 in place of 0, as `RunFeatures(floor=0.001)` does. Weights are in the
    order of the runs, which the hybrid query must have, too. Raises ValueError for more than five runs.
    """
    if len(found.runs) > _OPENSEARCH_MOST:
        raise ValueError(
            f"a hybrid query of OpenSearch has at most {_OPENSEARCH_MOST} queries; the model has {len(found.runs)}"
        )
    combination = {"technique": "arithmetic_mean", "parameters": {"weights": normalised(found.weights["minmax"])}}
    processor = {"normalization": {"technique": "min_max"}, "combination": combination}
    described = f"weights of {', '.join(found.runs)}, in the order of the hybrid query"
    body = {"description": described, "phase_results_processors": [{"normalization-processor": processor}]}
    return {f"PUT /_search/pipeline/{name}": body}


def langchain(found: Weights, name: str, names: Names) -> dict[str, Any]:
    """The arguments `weights` and `c` of LangChain's `EnsembleRetriever`; retrievers are in the order of the runs."""
    c = int(found.k) if found.k % 1.0 == 0.0 else found.k
    return {"retrievers": [*found.runs], "weights": normalised(found.weights["reciprocal_rank"]), "c": c}


def solr_function(found: Weights, name: str, names: Names) -> str:
    """A function query of Solr over the queries of the retrievers, which are request parameters, called as `names` says.

    Solr's `scale` begins at the smallest value of all documents, which is 0 for those that do not match. Raises ValueError for
    a name that cannot be a request parameter.
    """
    texts, _ = feature_texts(found.runs, len(found.runs), names)
    for text in texts:
        if not _SOLR_NAME.fullmatch(text):
            raise ValueError(f"the run {text!r} cannot be a request parameter of Solr; give names (argument names)")
    shares = zip(texts, normalised(found.weights["minmax"]), strict=True)
    return "{!func}sum(" + ",".join(f"product({w!r},scale(query(${text},0),0,1))" for text, w in shares) + ")"


def vespa_global(found: Weights, name: str, names: Names) -> str:
    """A rank profile of Vespa with a global phase, by `normalize_linear` and `reciprocal_rank`.

    `names` has Vespa's feature of each run, such as `bm25(title)`; a run without one is a function of its name. In Vespa all
    candidates have every feature, 0 where a document did not match, and are normalised together. Raises ValueError for a name
    that is no feature of Vespa.
    """
    texts, _ = feature_texts(found.runs, len(found.runs), names)
    for what, text, allowed in (("profile", name, _IDENTIFIER), *(("feature", text, _VESPA_INPUT) for text in texts)):
        if not allowed.fullmatch(text):
            raise ValueError(f"{text!r} cannot be the name of a {what} of Vespa; give names (argument names)")
    made = [f"found{j}" for j in range(1, len(texts) + 1)] if "found" in found.weights else []
    require_different([*texts, *made], [*map(canonical, [*texts, *made])])
    k = f"{found.k:g}"
    makers = {
        "minmax": lambda j, text: f"normalize_linear({text})",
        "reciprocal_rank": lambda j, text: f"reciprocal_rank({text}, {k})",
        "found": lambda j, text: f"found{j}",
    }
    terms, functions = [], ""
    for part, column in found.weights.items():
        for j, (text, weight) in enumerate(zip(texts, column.tolist(), strict=True), start=1):
            if weight:
                terms.append(f"{number(weight)} * {makers[part](j, text)}")
            if weight and part == "found":
                functions += f"    function found{j}() {{\n        expression: if({text} == 0, 0, 1)\n    }}\n"
    score = "\n                + ".join(terms)
    phase = (
        f"    global-phase {{\n        rerank-count: 1000\n        expression {{\n                {score}\n        }}\n    }}\n"
    )
    return f"rank-profile {name} inherits default {{\n{functions}{phase}}}"


def sql(found: Weights, name: str, names: Names) -> str:
    """A SELECT over a table of candidates, called `name`, for SQLite, DuckDB and PostgreSQL.

    The table has a column `query`, and for each run a column with its score, NULL where it did not return the document. `names`
    maps runs, and features of documents, to columns with other names. Equal scores share the mean of their
    ranks, as in `RunFeatures` for queries that are not `Runs`.

    Z-scores need the function SQRT, which SQLite has if it was built with its mathematical functions. They are made from the
    scores of a run moved to between 0 and 1: the variance of n such scores is at least 1 / (2 n), so that little is lost by
    rounding. These scores stand in the result too, as the column `text unit` of a run `text`. Raises ValueError if columns have
    one name for some of the databases, which ignore capitals and cut long names.
    """
    known = (*found.runs, *found.features)
    texts, _ = feature_texts(known, len(known), names)
    terms = []
    for part, weights in found.weights.items():
        for text, weight in zip(texts, weights.tolist(), strict=False):
            if weight:
                terms.append(f"{number(weight)} * {_sql_part(part, text, found)}")
    for text, weight in zip(texts[len(found.runs) :], found.features.values(), strict=True):
        terms.append(f"{number(weight)} * COALESCE({quoted(text)}, 0.0)")
    score = "\n    + ".join(terms)
    units = [text for text, weight in zip(texts, found.weights["zscore"].tolist(), strict=False) if weight]
    columns = ["query", "score", *texts, *(f"{text} unit" for text in units)]
    require_columns(columns)
    table = _with_units(quoted(name), units) if units else quoted(name)
    return f'SELECT *,\n    {score} AS score\nFROM {table}\nORDER BY "query", score DESC'


def _with_units(table: str, runs: Sequence[str]) -> str:
    """The table, and for each run its scores between 0 and 1, NULL where all are equal: window functions do not nest."""
    made = []
    for run in runs:
        column = quoted(run)
        low, high = f"MIN({column}) {_WINDOW}", f"MAX({column}) {_WINDOW}"
        made.append(f",\n    1.0 * ({column} - {low}) / NULLIF({high} - {low}, 0) AS {_unit(run)}")
    return f"(SELECT *{''.join(made)}\nFROM {table}) AS {table}"


def _unit(run: str) -> str:
    """The column with the scores of a run between 0 and 1."""
    return quoted(f"{run} unit")


_WINDOW = 'OVER (PARTITION BY "query")'


def _sql_part(part: str, run: str, found: Weights) -> str:
    """One part of one run."""
    column = quoted(run)
    if part == "found":
        return f"CASE WHEN {column} IS NULL THEN 0.0 ELSE 1.0 END"
    if part == "zscore":
        # A missing document counts as the smallest; where all scores are equal, or there is none, the mean is NULL.
        unit = _unit(run)
        mean, square = f"AVG({unit}) {_WINDOW}", f"AVG({unit} * {unit}) {_WINDOW}"
        return f"COALESCE((COALESCE({unit}, 0.0) - {mean})\n        / SQRT({square} - {mean} * {mean}), 0.0)"
    if part == "minmax":
        low, high = f"MIN({column}) {_WINDOW}", f"MAX({column}) {_WINDOW}"
        smallest = number(found.floor)
        return (
            f"CASE WHEN {column} IS NULL THEN 0.0 WHEN {low} = {high} THEN 1.0 WHEN {column} = {low} THEN {smallest}\n"
            f"        ELSE 1.0 * ({column} - {low}) / ({high} - {low}) END"
        )
    # A product with the score, so that it is NULL without one.
    rank = f'RANK() OVER (PARTITION BY "query" ORDER BY {column} DESC NULLS LAST)'
    ties = f'(COUNT(*) OVER (PARTITION BY "query", {column}) - 1) / 2.0'
    return f"COALESCE(1.0 / ({number(found.k)} + {rank}\n            + {ties}) + 0.0 * {column}, 0.0)"


def require_columns(columns: Sequence[str]) -> None:
    """Raise ValueError for two columns that a database takes for one: they ignore capitals, and PostgreSQL cuts long names."""
    require_different(columns, [column.casefold().encode()[:_SQL_BYTES].decode(errors="ignore") for column in columns])


def quoted(name: str) -> str:
    """A name in SQL."""
    return '"' + name.replace('"', '""') + '"'


def _retrievers(found: Weights, names: Names) -> list[Any]:
    """The retriever of each run: its template, or its name."""
    if names is None:
        return [*found.runs]
    if not isinstance(names, Mapping):
        raise TypeError("names is {run: retriever}, each retriever a dict")
    if unknown := [name for name in names if name not in found.runs]:
        raise ValueError(f"names: the model has no run {unknown[0]!r}; there are {', '.join(found.runs)}")
    retrievers = [names.get(run, run) for run in found.runs]
    require_different(found.runs, [one if isinstance(one, str) else repr(one) for one in retrievers])
    return retrievers
