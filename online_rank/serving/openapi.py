"""The description of the HTTP interface, for programs and for people."""

import html
import json
from typing import Any

import online_rank
from online_rank.limits import INT64_HIGH, INT64_LOW, MAX_ID_LENGTH
from online_rank.serving.models import KEY

__all__ = ["description", "description_page"]

_ID = {
    "oneOf": [
        {"type": "string", "maxLength": MAX_ID_LENGTH},
        {"type": "integer", "minimum": INT64_LOW, "maximum": INT64_HIGH},
    ],
    "description": "identifies one query",
}
_ERROR = {"type": "object", "properties": {"error": {"type": "string"}}, "required": ["error"]}
_OK = {"type": "object", "properties": {"ok": {"type": "boolean"}}, "required": ["ok"]}

_RANK = {
    "type": "object",
    "required": ["id"],
    "anyOf": [{"required": ["docs"]}, {"required": ["runs"]}],
    "additionalProperties": False,
    "properties": {
        "id": _ID,
        "docs": {
            "type": "object",
            "description": "{document: {feature: value}}",
            "additionalProperties": {"type": "object", "additionalProperties": {"type": "number"}},
        },
        "runs": {
            "type": "object",
            "description": "{retriever: {document: score}} or {retriever: [[document, score], ...]}; docs: their features",
            "additionalProperties": {"type": ["object", "array"]},
        },
        "context": {
            "type": "object",
            "description": "what is known of the query itself, for models that look at it: {name: value}",
            "additionalProperties": {"type": ["string", "number", "boolean", "null"]},
        },
        "greedy": {
            "type": "boolean",
            "description": "true: rank by scores, draw nothing, expect no feedback",
        },
    },
    "example": {"id": "q1", "docs": {"a": {"clicks": 3}, "b": {"clicks": 1}}},
}
_RANKED = {
    "type": "object",
    "properties": {
        "id": _ID,
        "ranking": {"type": "array", "items": {"type": "string"}, "description": "best first"},
        "scores": {"type": "array", "items": {"type": "number"}, "description": "of the documents in that order"},
        "shown": {
            "type": "integer",
            "description": "for models that learn from clicks: the number of documents drawn to be shown",
        },
    },
}
_GRADES = {
    "type": "object",
    "required": ["id", "grades"],
    "additionalProperties": False,
    "properties": {
        "id": _ID,
        "grades": {
            "type": "object",
            "description": "{document: grade}, for exactly the documents of the query",
            "additionalProperties": {"type": "integer", "minimum": 0},
        },
    },
}
_CLICKS = {
    "type": "object",
    "required": ["id", "clicks"],
    "additionalProperties": False,
    "properties": {
        "id": _ID,
        "clicks": {
            "description": "documents that were clicked, or {document: engagement}; for models that learn from clicks",
            "oneOf": [
                {"type": "array", "items": {"type": "string"}},
                {"type": "object", "additionalProperties": {"type": "number", "minimum": 0}},
            ],
        },
    },
}
_LEARN = {"oneOf": [_GRADES, _CLICKS], "example": {"id": "q1", "grades": {"a": 0, "b": 2}}}
_LEARNED = {
    "type": "object",
    "properties": {
        "id": _ID,
        "learned": {"type": "boolean"},
        "loss": {"type": "number"},
        "duplicate": {"type": "boolean", "description": "it was learned before"},
    },
}
_KEY = {"type": "string", "pattern": f"^{KEY.pattern}$"}
_REFUSALS = {
    "400": "not a valid request; nothing has changed",
    "405": "another method than POST",
    "408": "the body took too long",
    "411": "the request does not give its length",
    "413": "the body is too large",
    "415": "the body is not declared as JSON",
    "503": "too many requests at once, or the journal cannot be written",
}


def description(key: str | None, with_token: bool) -> dict[str, Any]:
    """The interface in OpenAPI 3.1.

    Parameters
    ----------
    key
        Name of the query parameter that names a model; None for a single model.
    with_token
        Whether a bearer token is needed.
    """
    parameters = [] if key is None else [{"name": key, "in": "query", "required": True, "schema": _KEY}]
    keyed = {"parameters": parameters} if parameters else {}
    secured: dict[str, Any] = {"security": [{"token": []}]} if with_token else {}
    closed = {"401": "the token is missing or wrong"} if with_token else {}
    unknown = {"400": "not a key", "404": "there is no model under this key"} if key is not None else {}
    of_model = closed | unknown

    def get(summary: str, kind: str = "application/json", schema: Any = None, also: Any = (), **more: str) -> dict[str, Any]:
        content = {kind: {} if schema is None else {"schema": schema}}
        responses = {"200": {"description": "OK", "content": content}} | _errors(more)
        return {"get": {"summary": summary, **dict(also), "responses": responses}}

    def post(summary: str, request: dict[str, Any], response: dict[str, Any]) -> dict[str, Any]:
        more = {"429": "there are too many keys"} if key is not None else {}
        return {
            "post": {
                "summary": summary,
                **keyed,
                **secured,
                "requestBody": {"required": True, "content": {"application/json": {"schema": request}}},
                "responses": {
                    "200": {"description": "OK", "content": {"application/json": {"schema": response}}},
                    **_errors(_REFUSALS | closed | more),
                },
            }
        }

    def replacing(summary: str, kind: str) -> dict[str, Any]:
        refused = {**_REFUSALS, **of_model, "400": "not a model that can be served", "409": "no model was replaced"}
        content: dict[str, Any] = {"schema": {}} if kind == "application/json" else {}
        return {
            "post": {
                "summary": summary,
                **keyed,
                **secured,
                "requestBody": {"required": True, "content": {kind: content}},
                "responses": {"200": {"description": "it serves, and is on the disk"}, **_errors(refused)},
            }
        }

    return {
        "openapi": "3.1.0",
        "info": {"title": "online_rank", "version": online_rank.__version__, "summary": "A ranker that learns online"},
        "components": {"securitySchemes": {"token": {"type": "http", "scheme": "bearer"}}} if with_token else {},
        "paths": {
            "/rank": post("Rank the documents of a query", _RANK, _RANKED),
            "/learn": post("Learn from feedback on a ranking; on the disk when it is answered", _LEARN, _LEARNED),
            "/model": get("The model file", "application/octet-stream", also=keyed | secured, **of_model)
            | replacing("Serve the model of another file, which is checked in full", "application/octet-stream"),
            "/model/rollback": replacing("Restore the model that was replaced last", "application/json"),
            "/stats": get("Counts and figures", also=keyed | secured, **of_model),
            "/healthz": get("Whether the service works; 503: restart it", schema=_OK, **{"503": "restart it"}),
            "/readyz": get("Whether requests can be taken", schema=_OK, **{"503": "send requests elsewhere"}),
            "/metrics": get("Figures for Prometheus", "text/plain", also=secured, **closed),
            "/events": get(
                "The data of the page, once a second", "text/event-stream", also=keyed | secured, **closed, **unknown
            ),
            "/": get("The page", "text/html"),
        },
    }


def _errors(texts: dict[str, str]) -> dict[str, Any]:
    """Error responses by their status."""
    return {
        status: {"description": text, "content": {"application/json": {"schema": _ERROR}}} for status, text in texts.items()
    }


def description_page(described: dict[str, Any]) -> str:
    """The description as a self-contained page."""
    parts = []
    for path, methods in described["paths"].items():
        for method, operation in methods.items():
            parts.append(f"<h2><code>{method.upper()} {html.escape(path)}</code></h2>")
            parts.append(f"<p>{html.escape(operation['summary'])}</p>")
            for parameter in operation.get("parameters", []):
                parts.append(f"<p>Query parameter <code>{html.escape(parameter['name'])}</code>: which model.</p>")
            if "requestBody" in operation:
                ((kind, content),) = operation["requestBody"]["content"].items()
                example = content.get("schema", {}).get("example")
                parts.append(f"<p>The body is <code>{kind}</code>.</p>")
                if example is not None:
                    parts.append(f"<pre>{html.escape(json.dumps(example, indent=2))}</pre>")
            if "security" in operation:
                parts.append("<p>Needs the header <code>Authorization: Bearer TOKEN</code>.</p>")
            answers = [f"<li>{code}: {html.escape(of['description'])}</li>" for code, of in operation["responses"].items()]
            parts.append(f"<ul>{''.join(answers)}</ul>")
    title = html.escape(f"{described['info']['title']} {described['info']['version']}")
    return _PAGE.format(title=title, summary=html.escape(described["info"]["summary"]), parts="".join(parts))


_PAGE = """<!doctype html>
<html lang="en">
<meta charset="utf-8"><meta name="viewport" content="width=device-width, initial-scale=1">
<title>{title}</title>
<style>
:root {{ color-scheme: light dark }}
body {{ font: 16px/1.5 system-ui, sans-serif; max-width: 46rem; margin: 2rem auto; padding: 0 1rem }}
pre {{ padding: .75rem; border: 1px solid; border-radius: 6px; overflow: auto }}
</style>
<h1>{title}</h1>
<p>{summary}. The same for programs: <a href="openapi.json">openapi.json</a>.</p>
{parts}
</html>
"""
