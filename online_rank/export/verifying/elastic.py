"""Scores of probes by Elasticsearch and OpenSearch: the model of the plugin that runs there, or a script.

The documents are in a separate index, which is deleted afterwards.
"""

import copy
import json
import secrets
from collections.abc import Mapping
from typing import Any
from urllib.parse import quote

from online_rank.export.probing import Probes
from online_rank.export.verifying.files import Answer
from online_rank.export.verifying.http import Http

#: How many documents are sent at once.
_AT_ONCE = 500


def plugin(given: Probes, content: bytes, address: str) -> Answer:
    """The scores of the model that the plugin has under the name of the probes."""
    http = Http(address)
    stored = http.ask("GET", f"/_ltr/_model/{quote(given.name, safe='')}")
    own = stored.get("_source", {}).get("model", {}).get("feature_set", {}).get("features", [])
    fields = fields_of_features(given, {feature["name"]: feature["template"] for feature in own})
    return _asked(given, http, fields, {"sltr": {"params": {}, "model": given.name}})


def painless(given: Probes, content: bytes, address: str) -> Answer:
    """The scores of the script in a file."""
    if any(feature["name"] == "_score" for feature in given.features):
        raise ValueError("the feature _score is the score of a query, which a probe cannot set: verify a model without it")
    fields = {field: field for query in given.queries for probe in query for field in probe.fields}
    return _asked(given, Http(address), fields, json.loads(content))


def fields_of_features(given: Probes, templates: Mapping[str, Any]) -> dict[str, str]:
    """The field of the index for each field of the probes, from the templates of the features.

    Raises ValueError for a feature that is no plain field: a probe cannot set its value.
    """
    fields: dict[str, str] = {}
    for feature in given.features:
        name = feature["name"]
        if name not in templates:
            raise ValueError(
                f"the feature set that runs there has no feature {name!r}; it has {', '.join(list(templates)[:10])}"
            )
        if "field" in feature:
            fields[feature["field"]] = feature["field"]
            continue
        template = templates[name]
        if isinstance(template, str):
            template = json.loads(template)
        factor = template.get("function_score", {}).get("field_value_factor") or {}
        if "field" not in factor or factor.get("factor", 1) != 1 or factor.get("modifier", "none") != "none":
            shown = json.dumps(template)[:200]
            raise ValueError(
                f"feature {name!r} is the query {shown}, whose value a probe cannot set; features of fields, "
                "function_score with field_value_factor, can be verified"
            )
        fields[name] = factor["field"]
    return fields


def _asked(given: Probes, http: Http, fields: dict[str, str], query: dict[str, Any]) -> Answer:
    """The scores of a query over an index of the probes."""
    about = http.ask("GET", "/").get("version", {})
    index = f"online-rank-probes-{secrets.token_hex(6)}"
    settings = {
        "settings": {"number_of_shards": 1, "number_of_replicas": 0},
        "mappings": {"properties": _mapping(given, fields)},
    }
    http.ask("PUT", f"/{index}", settings)
    try:
        scores = []
        for part, context in zip(given.queries, given.contexts, strict=True):
            scores.append(_scores(_with_parameters(query, context["parameters"]), part, fields, http, index))
    finally:
        http.ask("DELETE", f"/{index}")
    return f"{about.get('distribution', 'elasticsearch')} {about.get('number', '')}".strip(), scores


def _with_parameters(query: dict[str, Any], parameters: dict[str, Any]) -> dict[str, Any]:
    """A query with what follows from the context in the parameters of its script."""
    if not parameters:
        return query
    made: dict[str, Any] = copy.deepcopy(query)
    made["script_score"]["script"].setdefault("params", {}).update(parameters)
    return made


def _mapping(given: Probes, fields: dict[str, str]) -> dict[str, Any]:
    kinds: dict[str, Any] = {}
    for feature in given.features:
        if feature.get("context"):
            continue
        if "vector" in feature:
            vector = {"type": "dense_vector", "dims": feature["k"], "index": False}
            kinds[feature["vector"]] = vector
            continue
        field = fields.get(feature.get("field", feature["name"]), feature["name"])
        is_boolean = "field" in feature and {*feature["others"]} <= {"true", "false"}
        kinds[field] = {"type": "double" if "field" not in feature else "boolean" if is_boolean else "keyword"}
    return kinds


def _scores(query: dict[str, Any], part: list[Any], fields: dict[str, str], http: Http, index: str) -> list[float]:
    """The scores of the documents of one query, by their ids."""
    for k in range(0, len(part), _AT_ONCE):
        lines: list[Any] = []
        for probe in part[k : k + _AT_ONCE]:
            lines += [{"index": {"_index": index, "_id": probe.id}}]
            lines += [{fields[field]: value for field, value in probe.fields.items()}]
        done = http.ask("POST", "/_bulk?refresh=true", lines, lines=True)
        if done.get("errors"):
            raise RuntimeError(f"the engine refuses probes: {json.dumps(done)[:400]}")
    wanted = {"bool": {"must": [query], "filter": [{"ids": {"values": [probe.id for probe in part]}}]}}
    hits = http.ask("POST", f"/{index}/_search", {"size": len(part), "query": wanted, "_source": False})["hits"]["hits"]
    found = {hit["_id"]: float(hit["_score"]) for hit in hits}
    if lacking := [probe.id for probe in part if probe.id not in found]:
        raise RuntimeError(f"the engine gives no score for {len(lacking)} documents, {lacking[0]} among them")
    return [found[probe.id] for probe in part]
