"""Scores of probes by a rank profile that runs in Vespa; the documents are deleted afterwards."""

import re
from typing import Any
from urllib.parse import quote

from online_rank.export.probing import Probes
from online_rank.export.verifying.files import Answer
from online_rank.export.verifying.http import Http

_ATTRIBUTE = re.compile(r"(?:attribute\()?([A-Za-z_][A-Za-z0-9_]*)\)?")
#: How the ids of the documents begin, and how many there are at once; Vespa gives 400 hits at most.
_ID, _AT_ONCE = "online-rank-probe-", 200


def vespa(given: Probes, content: bytes, address: str) -> Answer:
    """The scores of the rank profile with the name of the probes: `http://localhost:8080/NAMESPACE/DOCUMENT_TYPE`.

    The document type has no other documents, or few.
    """
    http = Http(address)
    if len(http.path) != 2:
        raise ValueError(f"{http.address}: give the address as http://host:8080/NAMESPACE/DOCUMENT_TYPE")
    fields = {}
    for feature in given.features:
        if feature.get("context"):
            continue
        name = feature.get("vector", feature.get("field", feature["name"]))
        attribute = _ATTRIBUTE.fullmatch(name)
        if attribute is None:
            raise ValueError(f"feature {name!r} is a rank feature of Vespa, whose value a probe cannot set; attributes can be")
        fields[name] = attribute[1]
    version = http.ask("GET", "/state/v1/version", of_root=True).get("version", "")
    scores = [
        [score for k in range(0, len(query), _AT_ONCE) for score in _scores(given, t, query[k : k + _AT_ONCE], fields, http)]
        for t, query in enumerate(given.queries)
    ]
    return f"Vespa {version}".strip(), scores


def _inputs(given: Probes, number: int) -> dict[str, Any]:
    """The inputs of a query: tensors and numbers."""
    categories = {one["field"] for one in given.features if one.get("context") and "field" in one}
    made: dict[str, Any] = {}
    for name, value in given.contexts[number]["parameters"].items():
        if value is not None:
            made[f"input.query({name})"] = {value: 1.0} if name in categories else value
    for one in given.features:
        if one.get("context") and "field" not in one and given.takes_missing:
            made[f"input.query({one['name']}_given)"] = float(one["name"] in given.contexts[number]["fields"])
        if "vector" in one and one["p"]:
            has = given.contexts[number]["fields"].get(f"query {one['vector']}") is not None
            made[f"input.query({one['given']})"] = float(has)
    return made


def _scores(given: Probes, number: int, part: list[Any], fields: dict[str, str], http: Http) -> list[float]:
    namespace, kind = http.path
    booleans = {fields[f["field"]] for f in given.features if "field" in f and {*f["others"]} <= {"true", "false"}}
    base = f"/document/v1/{quote(namespace)}/{quote(kind)}/docid/{_ID}"
    sent: list[str] = []
    try:
        for one in part:
            own = {fields[field]: value for field, value in one.fields.items()}
            own |= {field: own[field] == "true" for field in booleans if field in own}
            http.ask("POST", base + one.id, {"fields": own}, of_root=True)
            sent.append(one.id)
        asked = {"yql": f"select documentid from {kind} where true", "ranking.profile": given.name, "hits": 2 * _AT_ONCE}
        asked |= _inputs(given, number)
        hits = http.ask("POST", "/search/", asked, of_root=True)["root"].get("children", [])
    finally:
        for name in sent:
            http.ask("DELETE", base + name, of_root=True)
    found = {str(hit["id"]).rpartition(_ID)[2]: float(hit["relevance"]) for hit in hits if _ID in str(hit["id"])}
    if lacking := [one.id for one in part if one.id not in found]:
        raise RuntimeError(
            f"Vespa gives no score for {len(lacking)} documents, {lacking[0]} among them: give a document "
            "type that has no others"
        )
    return [found[one.id] for one in part]
