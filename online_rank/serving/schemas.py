"""JSON schemas of the requests and answers of the protocol, for the description of the HTTP interface."""

from typing import Any

from online_rank.arguments import LATEST
from online_rank.limits import INT64_HIGH, INT64_LOW, MAX_DOCUMENTS, MAX_ID_LENGTH
from online_rank.query.grades import MAX_GRADE
from online_rank.serving.requests import FIELDS

__all__ = ["ACCEPTED", "DONE", "EXAMPLES", "EXPLAINED", "FORGET", "FORGOTTEN", "LEARNED", "RANKED", "STATS", "request_schema"]

_ID = {
    "oneOf": [
        {"type": "string", "maxLength": MAX_ID_LENGTH},
        {"type": "integer", "minimum": INT64_LOW, "maximum": INT64_HIGH},
    ],
    "description": "identifies one query",
}
_META = {"description": "anything; it is answered as it came"}

#: The schema of each field of a request.
_PROPERTIES: dict[str, Any] = {
    "id": _ID,
    "docs": {
        "type": "object",
        "description": "the documents of the query: {document: {feature: value}}",
        "maxProperties": MAX_DOCUMENTS,
    },
    "runs": {
        "type": "object",
        "description": "what retrievers returned: {retriever: {document: score}} or {retriever: [[document, score], ...]}; for "
        "models that fuse them (RunFeatures). docs are then what else is known of the documents",
        "additionalProperties": {
            "oneOf": [
                {"type": "object", "additionalProperties": {"type": "number"}},
                {
                    "type": "array",
                    "items": {
                        "type": "array",
                        "prefixItems": [{"type": "string"}, {"type": "number"}],
                        "minItems": 2,
                        "maxItems": 2,
                    },
                },
            ]
        },
    },
    "context": {
        "type": "object",
        "description": "what is known of the query itself, for models that look at it (CrossFeatures): {name: value}",
        "additionalProperties": {"type": ["string", "number", "boolean", "null"], "maxLength": MAX_ID_LENGTH},
    },
    "explain": {
        "type": "array",
        "items": {"type": "string"},
        "minItems": 2,
        "maxItems": 2,
        "description": "two documents: why the first scores higher or lower than the second",
    },
    "greedy": {"type": "boolean", "description": "true: rank by the scores, draw nothing, expect no feedback"},
    "grades": {
        "type": "object",
        "description": "{document: grade}: of all documents; of some, with ungraded or a feedback window",
        "additionalProperties": {"type": "integer", "minimum": 0, "maximum": MAX_GRADE},
    },
    "ungraded": {"enum": [0, "skip"], "description": "the other documents have grade 0, or are left out"},
    "clicks": {
        "description": "documents that were clicked, or {document: engagement}; for models that learn from clicks",
        "oneOf": [
            {"type": "array", "items": {"type": "string"}},
            {"type": "object", "additionalProperties": {"type": "number", "minimum": 0}},
        ],
    },
    "event": {"type": "string", "description": "a kind of event that was declared (--event); needs a feedback window"},
    "doc": {"type": "string", "description": "the document that the event is about"},
    "value": {
        "type": ["number", "null"],
        "minimum": 0,
        "maximum": MAX_GRADE,
        "description": "what the event is worth, if not what its kind is; 0 takes it back",
    },
    "ts": {
        "type": "number",
        "exclusiveMinimum": -LATEST,
        "exclusiveMaximum": LATEST,
        "description": "the time of the request in seconds since 1970; otherwise that of its arrival",
    },
    "meta": _META,
    "cmd": {"enum": ["stats", "save"], "description": "counts and figures, or write a checkpoint now"},
}

#: An example of each kind of request.
EXAMPLES: dict[str, Any] = {
    "rank": {"id": "q1", "docs": {"a": {"clicks": 3}, "b": {"clicks": 1}}},
    "explain": {"id": "q1", "docs": {"a": {"clicks": 3}, "b": {"clicks": 1}}, "explain": ["a", "b"]},
    "grades": {"id": "q1", "grades": {"a": 0, "b": 2}},
    "clicks": {"id": "q1", "clicks": ["a"]},
    "event": {"id": "q1", "event": "purchase", "doc": "b", "ts": 1763000000},
    "teach": {"id": "q2", "docs": {"a": {"clicks": 3}, "b": {"clicks": 1}}, "grades": {"a": 0, "b": 2}},
    "cmd": {"cmd": "stats"},
}

RANKED = {
    "type": "object",
    "required": ["id", "ranking", "scores"],
    "properties": {
        "id": _ID,
        "ranking": {"type": "array", "items": {"type": "string"}, "description": "best first"},
        "scores": {"type": "array", "items": {"type": "number"}, "description": "of the documents in that order"},
        "shown": {
            "type": "integer",
            "description": "for models that learn from clicks: how many of the first documents were drawn to be shown",
        },
        "meta": _META,
    },
}
EXPLAINED = {
    "type": "object",
    "required": ["id", "explanation"],
    "properties": {
        "id": _ID,
        "explanation": {
            "type": "object",
            "required": ["difference", "contributions", "exact"],
            "properties": {
                "difference": {"type": "number", "description": "the score of the first document less that of the second"},
                "contributions": {
                    "type": "array",
                    "description": "[feature, contribution], largest first; they add up to the difference",
                    "items": {"type": "array", "minItems": 2, "maxItems": 2},
                },
                "exact": {
                    "type": "boolean",
                    "description": "false: shares of a model whose scores are no sum over features, such as trees",
                },
            },
        },
        "meta": _META,
    },
}
LEARNED = {
    "type": "object",
    "required": ["id", "learned"],
    "properties": {
        "id": _ID,
        "learned": {"type": "boolean"},
        "loss": {"type": "number", "description": "of the ranking that was served"},
        "duplicate": {"type": "boolean", "description": "it was learned before"},
        "late": {
            "type": "boolean",
            "description": "other feedback was learned before, or a challenge has ended",
        },
        "meta": _META,
    },
}
ACCEPTED = {
    "type": "object",
    "description": "with a feedback window",
    "required": ["id", "accepted"],
    "properties": {
        "id": _ID,
        "accepted": {"type": "boolean"},
        "early": {"type": "boolean", "description": "its query has not come yet"},
        "late": {"type": "boolean", "description": "its window has ended: not learned"},
        "meta": _META,
    },
}
FORGET = {
    "type": "object",
    "required": [],
    "anyOf": [{"required": ["ids"]}, {"required": ["context"]}, {"required": ["document"]}],
    "additionalProperties": False,
    "properties": {
        "ids": {"type": "array", "items": _ID, "description": "ids of queries"},
        "context": {
            "type": "object",
            "minProperties": 1,
            "maxProperties": 1,
            "additionalProperties": {"type": ["string", "integer", "boolean"]},
            "description": "an entry of the context: queries that have it, and the features that CrossFeatures made of it",
        },
        "document": {"type": "string", "description": "a document: queries that have it, and feedback on it"},
    },
    "example": {"context": {"user": "u17"}},
}
FORGOTTEN = {
    "type": "object",
    "required": ["forgotten"],
    "properties": {
        "forgotten": {
            "type": "object",
            "required": ["waiting", "early", "learned", "features"],
            "properties": {
                "waiting": {"type": "integer", "description": "queries that waited for feedback"},
                "early": {"type": "integer", "description": "queries with feedback that had not come yet"},
                "learned": {"type": "integer", "description": "ids that were remembered as learned"},
                "features": {"type": "integer", "description": "features that lost their names"},
            },
        },
        "note": {"const": "nothing found", "description": "nothing was forgotten"},
    },
}
_INTERVAL = {
    "type": "array",
    "items": {"type": ["number", "null"]},
    "minItems": 2,
    "maxItems": 2,
    "description": "95 %, valid at all times",
}
DONE = {
    "type": "object",
    "description": "to cmd",
    "anyOf": [{"required": ["stats"]}, {"required": ["saved"]}],
    "properties": {"stats": {"type": "object"}, "saved": {"type": "boolean"}},
}
STATS = {
    "type": "object",
    "required": ["stats", "served", "drifts", "journal_bytes"],
    "properties": {
        "stats": {
            "type": "object",
            "description": "since the first start of the service; counts, and losses of rankings whose grades arrived",
            "properties": {
                "loss_mean_interval": _INTERVAL,
                "retention": {
                    "type": "number",
                    "description": "what exploring costs: lower bound on the expected DCG of the rankings that are drawn now, "
                    "as a share of the greedy ranking's, for any scores",
                },
                "kept_sum": {
                    "type": "number",
                    "description": "the same for each list that was drawn, from its scores, summed",
                },
                "kept_mean": {"type": ["number", "null"], "description": "its mean over the lists drawn"},
            },
        },
        "served": {"type": "object", "description": "mean and interval of the measure that it names, over served rankings"},
        "drifts": {"type": "array", "items": {"type": "integer"}, "description": "after how many rankings the loss rose"},
        "inputs": {
            "type": "object",
            "description": "what goes in, by a sample of queries: unknown and missing features, and the population "
            "stability index of features against the reference",
        },
        "journal_bytes": {"type": ["integer", "null"]},
    },
}


def request_schema(kind: str, values: tuple[str, ...] = ("number", "boolean")) -> dict[str, Any]:
    """The JSON schema of a kind of request.

    Parameters
    ----------
    kind
        One of `FIELDS`.
    values
        The JSON types of features that the model takes.

    Examples
    --------
    >>> schema = request_schema("event")
    >>> schema["required"], [*schema["properties"]]
    (['doc', 'event', 'id'], ['doc', 'event', 'id', 'meta', 'ts', 'value'])
    """
    needed, allowed = FIELDS[kind]
    properties = {name: _PROPERTIES[name] for name in sorted(needed | allowed)}
    if "docs" in properties:
        texts = {"items": {"type": "string"}} if "array" in values else {}
        features = {"type": "object", "additionalProperties": {"type": [*values], **texts}}
        properties["docs"] = {**properties["docs"], "additionalProperties": features}
    schema: dict[str, Any] = {
        "type": "object",
        "required": sorted(needed),
        "additionalProperties": False,
        "properties": properties,
        "example": EXAMPLES[kind],
    }
    if "docs" in properties:
        schema["anyOf"] = [{"required": ["docs"]}, {"required": ["runs"]}]
    return schema
