"""Scores of probes by the model that runs in a collection of Solr; the documents are deleted afterwards."""

import re
from typing import Any
from urllib.parse import quote, urlencode

from online_rank.export.probing import Probes
from online_rank.export.verifying.files import Answer
from online_rank.export.verifying.http import Http

_FIELD = "org.apache.solr.ltr.feature.FieldValueFeature"
#: How the ids of the documents begin.
_ID = "online_rank_probe_"


def solr(given: Probes, content: bytes, address: str) -> Answer:
    """The scores of the model that a collection has under the name of the probes: `http://localhost:8983/solr/COLLECTION`."""
    http = Http(address)
    version = http.ask("GET", "/admin/system?wt=json").get("lucene", {}).get("solr-spec-version", "")
    key = http.ask("GET", "/schema/uniquekey?wt=json")["uniqueKey"]
    fields = _fields(given, http)
    try:
        scores = [_scores(given.name, query, fields, key, http) for query in given.queries]
    finally:
        _delete(key, http)
    return f"Solr {version}".strip(), scores


def _fields(given: Probes, http: Http) -> dict[str, str]:
    """The field of the collection for each field of the probes. Raises ValueError for a feature that is none."""
    models = {model["name"]: model for model in http.ask("GET", "/schema/model-store?wt=json")["models"]}
    if given.name not in models:
        raise ValueError(f"Solr has no model {given.name!r}; it has {', '.join(models) or 'none'}")
    store = models[given.name].get("store") or "_DEFAULT_"
    own = {one["name"]: one for one in http.ask("GET", f"/schema/feature-store/{quote(store)}?wt=json")["features"]}
    fields: dict[str, str] = {}
    for feature in given.features:
        name = feature["name"]
        if name not in own:
            raise ValueError(f"the feature store {store} has no feature {name!r}; it has {', '.join(list(own)[:10])}")
        if "field" in feature:
            told = re.search(r"\{!field f='?((?:[^'\\}]|\\.)*)", str(own[name].get("params", {}).get("fq", "")))
            fields[feature["field"]] = feature["field"] if told is None else re.sub(r"\\(.)", r"\1", told[1])
        elif own[name]["class"] == _FIELD:
            fields[name] = own[name]["params"]["field"]
        else:
            raise ValueError(f"feature {name!r} is of the class {own[name]['class']}, and a probe cannot set its value")
    return fields


def _delete(key: str, http: Http) -> None:
    http.ask("POST", "/update?commit=true", {"delete": {"query": f"{key}:{_ID}*"}})


def _scores(model: str, query: list[Any], fields: dict[str, str], key: str, http: Http) -> list[float]:
    documents = [{key: _ID + one.id, **{fields[field]: value for field, value in one.fields.items()}} for one in query]
    # Probes of the query before, or of a run that was stopped, would be found too.
    _delete(key, http)
    http.ask("POST", "/update?commit=true", documents)
    asked = {
        "q": f"{{!prefix f={key}}}{_ID}",
        "rq": f"{{!ltr model={model} reRankDocs={len(query)}}}",
        "fl": f"{key},score",
        "rows": len(query),
        "wt": "json",
    }
    found = http.ask("GET", f"/select?{urlencode(asked)}")["response"]["docs"]
    scores = {one[key]: float(one["score"]) for one in found}
    if lacking := [one.id for one in query if _ID + one.id not in scores]:
        raise RuntimeError(f"Solr gives no score for {len(lacking)} documents, {lacking[0]} among them")
    return [scores[_ID + one.id] for one in query]
