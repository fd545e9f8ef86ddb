"""The description of the HTTP interface, for programs and for people."""

import html
import json
from typing import Any

import online_rank

__all__ = ["description", "description_page"]

_ID = {"oneOf": [{"type": "string", "maxLength": 1000}, {"type": "integer"}], "description": "stands for one query"}
_ERROR = {"type": "object", "properties": {"error": {"type": "string"}}, "required": ["error"]}

_RANK = {
    "type": "object",
    "required": ["id", "docs"],
    "additionalProperties": False,
    "properties": {
        "id": _ID,
        "docs": {
            "type": "object",
            "description": "{document: {feature: value}}",
            "additionalProperties": {"type": "object", "additionalProperties": {"type": "number"}},
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
    },
}
_LEARN = {
    "type": "object",
    "required": ["id"],
    "additionalProperties": False,
    "properties": {
        "id": _ID,
        "grades": {"type": "object", "description": "{document: grade}", "additionalProperties": {"type": "integer"}},
        "clicks": {
            "description": "documents that were clicked, or {document: engagement}; for models that learn from clicks",
            "oneOf": [
                {"type": "array", "items": {"type": "string"}},
                {"type": "object", "additionalProperties": {"type": "number"}},
            ],
        },
    },
    "example": {"id": "q1", "grades": {"a": 0, "b": 2}},
}
_LEARNED = {
    "type": "object",
    "properties": {
        "id": _ID,
        "learned": {"type": "boolean"},
        "loss": {"type": "number"},
        "duplicate": {"type": "boolean", "description": "it was learned before"},
    },
}


def description(key: str | None, with_token: bool) -> dict[str, Any]:
    """The interface as OpenAPI 3.1 has it.

    Parameters
    ----------
    key
        Name of the query parameter that names a model; None for a single model.
    with_token
        Whether a bearer token is needed.
    """
    parameters = [] if key is None else [{"name": key, "in": "query", "required": True, "schema": {"type": "string"}}]
    security: list[dict[str, list[str]]] = [{"token": []}] if with_token else []

    def get(summary: str, kind: str = "application/json") -> dict[str, Any]:
        return {"get": {"summary": summary, "responses": {"200": {"description": "OK", "content": {kind: {}}}}}}

    def post(summary: str, request: dict[str, Any], response: dict[str, Any]) -> dict[str, Any]:
        refusals = {
            "400": "not a valid request; nothing has changed",
            "408": "the body took too long",
            "413": "the body is too large",
            "415": "the body is not declared as JSON",
            "503": "the journal cannot be written",
        }
        return {
            "post": {
                "summary": summary,
                "parameters": parameters,
                "security": security,
                "requestBody": {"required": True, "content": {"application/json": {"schema": request}}},
                "responses": {
                    "200": {"description": "OK", "content": {"application/json": {"schema": response}}},
                    **{
                        status: {"description": text, "content": {"application/json": {"schema": _ERROR}}}
                        for status, text in refusals.items()
                    },
                },
            }
        }

    return {
        "openapi": "3.1.0",
        "info": {"title": "online_rank", "version": online_rank.__version__, "summary": "A ranker that learns online"},
        "components": {"securitySchemes": {"token": {"type": "http", "scheme": "bearer"}}} if with_token else {},
        "paths": {
            "/rank": post("Rank the documents of a query", _RANK, _RANKED),
            "/learn": post("Learn from feedback on a ranking; on the disk when it is answered", _LEARN, _LEARNED),
            "/stats": get("Counts and figures"),
            "/healthz": get("Whether requests can be taken"),
            "/metrics": get("Figures for Prometheus", "text/plain"),
            "/events": get("What the page shows, once a second", "text/event-stream"),
            "/": get("The page", "text/html"),
        },
    }


def description_page(described: dict[str, Any]) -> str:
    """The description as a page without anything from elsewhere."""
    parts = []
    for path, methods in described["paths"].items():
        for method, operation in methods.items():
            parts.append(f"<h2><code>{method.upper()} {html.escape(path)}</code></h2>")
            parts.append(f"<p>{html.escape(operation['summary'])}</p>")
            for parameter in operation.get("parameters", []):
                parts.append(f"<p>Query parameter <code>{html.escape(parameter['name'])}</code>: which model.</p>")
            if "requestBody" in operation:
                schema = operation["requestBody"]["content"]["application/json"]["schema"]
                parts.append(f"<pre>{html.escape(json.dumps(schema['example'], indent=2))}</pre><ul>")
                parts += [
                    f"<li>{status}: {html.escape(of['description'])}</li>" for status, of in operation["responses"].items()
                ]
                parts.append("</ul>")
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
