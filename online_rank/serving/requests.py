"""The fields of requests in the protocol, and the checks common to all of them."""

import json
import zlib
from collections.abc import Collection
from typing import Any

from online_rank.arguments import require_time
from online_rank.limits import MAX_ID_LENGTH, is_id
from online_rank.query import Runs

__all__ = ["FIELDS", "KindRefused", "asked_of", "digest_of", "ids_of", "kind_of", "require_feedback"]

_DICTS = {dict}
_SORTED = json.JSONEncoder(sort_keys=True)

#: The required and the optional fields of each kind of request.
FIELDS: dict[str, tuple[set[str], set[str]]] = {
    "grades": ({"id", "grades"}, {"ungraded", "ts", "meta"}),
    "clicks": ({"id", "clicks"}, {"ts", "meta"}),
    "event": ({"id", "event", "doc"}, {"value", "ts", "meta"}),
    "cmd": ({"cmd"}, set()),
    "teach": ({"id", "grades"}, {"docs", "runs", "context", "ungraded", "ts", "meta"}),
    "explain": ({"id", "explain"}, {"docs", "runs", "context", "meta"}),
    "rank": ({"id"}, {"docs", "runs", "context", "greedy", "ts", "meta"}),
}

#: Fields that say what is done with a query other than to rank it.
_WITH_A_QUERY = ("grades", "explain")
_FEEDBACK = ("grades", "clicks", "event", "cmd")


class KindRefused(ValueError):
    """A request is of a kind that is not allowed here."""


def kind_of(fields: dict[str, Any], only: Collection[str] | None = None) -> str:
    """The kind of request with these fields. Raises ValueError if there is none, or for a bad id or time, and KindRefused if it
    is none of `only`.

    Examples
    --------
    >>> kind_of({"id": "q1", "docs": {}, "ts": 1763000000}), kind_of({"id": "q1", "event": "click", "doc": "a"})
    ('rank', 'event')
    """
    if "docs" in fields or "runs" in fields:
        kind = next(filter(fields.__contains__, _WITH_A_QUERY), "rank")
        kind = "teach" if kind == "grades" else kind
    else:
        kind = next(filter(fields.__contains__, _FEEDBACK), "")
    needed, allowed = FIELDS.get(kind, (set(), set()))
    if not kind or not needed <= fields.keys() <= needed | allowed:
        found = ", ".join(name[:20] for name in list(fields)[:5]) or "none"
        raise ValueError(
            "a request has the fields id and docs (or runs), id and grades, id and clicks, id and event and doc, or cmd; "
            f"this one has {found}"
        )
    if only is not None and kind not in only:
        field = f", which has the field {kinds[0]}" if len(kinds := sorted(only)) == 1 else ""
        raise KindRefused(f"this is a request of the kind {kind}; here it must be of the kind {' or '.join(kinds)}{field}")
    if kind != "cmd" and not is_id(fields["id"]):
        raise ValueError(f"id must be a string of at most {MAX_ID_LENGTH} characters, or an integer of at most 64 bits")
    if "ts" in fields:
        require_time("ts", fields["ts"])
    return kind


def asked_of(fields: dict[str, Any], null_is_missing: bool = False) -> Any:
    """The query of a request: `{document: features}`, or `Runs`.

    Parameters
    ----------
    fields
        The request.
    null_is_missing
        Whether features that are null are left out.

    Raises
    ------
    TypeError, ValueError
        It is not a valid query.
    """
    docs = fields.get("docs", {})
    if not isinstance(docs, dict) or not {*map(type, docs.values())} <= _DICTS:
        raise ValueError("docs must be {document: {feature: value}}")
    if null_is_missing:
        docs = {name: {key: value for key, value in each.items() if value is not None} for name, each in docs.items()}
    if "runs" not in fields:
        return docs
    runs = fields["runs"]
    if not isinstance(runs, dict):
        raise ValueError("runs must be {retriever: [[document, score], ...]} or {retriever: {document: score}}")
    # Documents are strings, like the keys of docs and of grades.
    for name, run in runs.items():
        for entry in run if isinstance(run, list) else ():
            if isinstance(entry, list) and entry and type(entry[0]) is not str:
                raise ValueError(f"runs: {name[:100]!r} has the document {entry[0]!r:.60}; documents are strings")
    return Runs(runs, docs)


def ids_of(asked: Any) -> Any:
    """The documents of a query returned by `asked_of`."""
    return asked.ids if isinstance(asked, Runs) else asked


def digest_of(kind: str, fields: dict[str, Any]) -> int:
    """A digest of the feedback in a request, by which repeated feedback is distinguished from other feedback.

    Examples
    --------
    >>> digest_of("grades", {"id": 1, "grades": {"a": 0, "b": 1}}) == digest_of("grades", {"grades": {"b": 1, "a": 0}, "ts": 5})
    True
    """
    return zlib.crc32(_SORTED.encode((fields[kind], fields.get("ungraded"))).encode())


def require_feedback(kind: str, fields: dict[str, Any]) -> None:
    """Raise ValueError for invalid grades and clicks."""
    value = fields[kind]
    if kind == "grades" and not isinstance(value, dict):
        raise ValueError("grades must be {document: grade}")
    if kind == "clicks" and not isinstance(value, dict | list):
        raise ValueError("clicks must be [document, ...] or {document: engagement}")
    if kind == "clicks" and isinstance(value, dict):
        for name, engagement in value.items():
            if type(engagement) not in (int, float):
                found = type(engagement).__name__
                raise ValueError(f"the engagement with document {name[:100]!r} is of type {found}; it must be a number")
    if kind == "event" and type(fields["doc"]) is not str:
        raise ValueError("doc must be the name of a document")
    ungraded = fields.get("ungraded", 0)
    if ungraded != "skip" and (type(ungraded) is not int or ungraded):
        raise ValueError(f"ungraded is {str(ungraded)[:40]!r}; it is 0 (their grade) or 'skip' (they are left out)")
