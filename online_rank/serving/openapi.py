"""The description of the HTTP interface, for programs and for people."""

import html
import json
from typing import Any

import online_rank
from online_rank.serving.schemas import (
    ACCEPTED,
    DONE,
    EXAMPLES,
    EXPLAINED,
    FORGET,
    FORGOTTEN,
    LEARNED,
    RANKED,
    STATS,
    request_schema,
)
from online_rank.serving.tenants import KEY

__all__ = ["description", "description_page"]

_ERROR = {
    "type": "object",
    "properties": {
        "error": {"type": "string"},
        "request_id": {"type": "string", "description": "in X-Request-Id, too: that of the request, or a new one"},
    },
    "required": ["error", "request_id"],
}
_OK = {"type": "object", "properties": {"ok": {"type": "boolean"}}, "required": ["ok"]}

_READY = {
    "type": "object",
    "properties": {
        "ok": {"type": "boolean"},
        "seconds_ahead": {"type": "number", "description": "how far stored times lie ahead of the clock, if they do"},
        "remedy": {"type": "string"},
    },
    "required": ["ok"],
}
_TO = {
    "type": "object",
    "required": [],
    "additionalProperties": False,
    "properties": {"to": {"type": "string", "format": "date", "description": "a day of which the model is kept (--snapshots)"}},
    "example": {"to": "2026-11-25"},
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


def description(key: str | None, with_token: bool, values: tuple[str, ...] = ("number", "boolean")) -> dict[str, Any]:
    """The interface in OpenAPI 3.1.

    Parameters
    ----------
    key
        Name of the query parameter that names a model; None for a single model.
    with_token
        Whether a bearer token is needed.
    values
        The JSON types of features that the models take.
    """
    parameters = [] if key is None else [{"name": key, "in": "query", "required": True, "schema": _KEY}]
    keyed = {"parameters": parameters} if parameters else {}
    secured: dict[str, Any] = {"security": [{"token": []}]} if with_token else {}
    closed = {"401": "the token is missing or wrong", "403": "the token has another role"} if with_token else {}
    unknown = {"400": "not a key", "404": "there is no model under this key"} if key is not None else {}
    of_model = closed | unknown
    of_file = of_model | {"429": "several models are being sent or received already"}

    def get(summary: str, kind: str = "application/json", schema: Any = None, also: Any = (), **more: str) -> dict[str, Any]:
        content = {kind: {} if schema is None else {"schema": schema}}
        responses = {"200": {"description": "OK", "content": content}} | _errors(more)
        return {"get": {"summary": summary, **dict(also), "responses": responses}}

    full = {"429": "there are too many keys"} if key is not None else {}

    def post(summary: str, request: dict[str, Any], response: dict[str, Any], more: dict[str, str] = full) -> dict[str, Any]:
        return {
            "post": {
                "summary": summary,
                **keyed,
                **secured,
                "requestBody": {"required": True, "content": {"application/json": {"schema": request}}},
                "responses": {
                    "200": {"description": "OK", "content": {"application/json": {"schema": response}}},
                    **_errors(closed | more | _REFUSALS),
                },
            }
        }

    def replacing(summary: str, kind: str, schema: Any = None) -> dict[str, Any]:
        refused = {**_REFUSALS, **of_file, "400": "not a model that can be served", "409": "no model was replaced"}
        refused |= {} if schema is None else {"404": "no model of that day is kept"}
        content: dict[str, Any] = {} if schema is None else {"schema": schema}
        return {
            "post": {
                "summary": summary,
                **keyed,
                **secured,
                "requestBody": {"required": True, "content": {kind: content}},
                "responses": {"200": {"description": "it serves, and is on the disk"}, **_errors(refused)},
            }
        }

    learn = {
        "oneOf": [request_schema(kind, values) for kind in ("grades", "clicks", "event", "teach", "cmd")],
        "example": EXAMPLES["grades"],
    }
    deleting = {
        "delete": {
            "summary": "Delete a model with all that is stored about its queries",
            "parameters": [{"name": "key", "in": "path", "required": True, "schema": _KEY}],
            **secured,
            "responses": {
                "200": {"description": "nothing is left of it"},
                **_errors({**closed, "400": "not a key", "404": "there is no such model", "503": "it cannot be deleted"}),
            },
        }
    }
    return {
        "openapi": "3.1.0",
        "info": {"title": "online_rank", "version": online_rank.__version__, "summary": "A ranker that learns online"},
        "components": {"securitySchemes": {"token": {"type": "http", "scheme": "bearer"}}} if with_token else {},
        "paths": {
            "/rank": post("Rank the documents of a query", request_schema("rank", values), RANKED),
            "/explain": post(
                "Explain why one document scores higher than another", request_schema("explain", values), EXPLAINED, unknown
            ),
            "/learn": post(
                "Learn from feedback on a ranking; on the disk when it is answered", learn, {"anyOf": [LEARNED, ACCEPTED, DONE]}
            ),
            "/model": get("The model file", "application/octet-stream", also=keyed | secured, **of_file)
            | replacing("Serve the model of another file, which is checked in full", "application/octet-stream"),
            "/model/rollback": replacing(
                "Restore the model that was replaced last, or the one with which a day began", "application/json", _TO
            ),
            **({"/models/{key}": deleting} if key is not None else {}),
            "/forget": {
                "post": {
                    "summary": "Forget queries, and features made of their context; when it is answered, files have none of it",
                    **keyed,
                    **secured,
                    "requestBody": {"required": True, "content": {"application/json": {"schema": FORGET}}},
                    "responses": {
                        "200": {"description": "OK", "content": {"application/json": {"schema": FORGOTTEN}}},
                        **_errors({**_REFUSALS, **of_model, "409": "the model keeps it where it cannot be taken away"}),
                    },
                }
            },
            "/stats": get("Counts and figures", schema=STATS, also=keyed | secured, **of_model),
            "/healthz": get("Whether the service works; 503: restart it", schema=_OK, **{"503": "restart it"}),
            "/readyz": get("Whether requests can be taken", schema=_READY, **{"503": "send requests elsewhere"}),
            "/metrics": get("Figures for Prometheus", "text/plain", also=secured, **closed),
            "/events": get(
                "The data of the page, once a second", "text/event-stream", also=keyed | secured, **closed, **unknown
            ),
            "/": get("The page", "text/html"),
            "/docs": get("This description, for people", "text/html"),
            "/openapi.json": get("This description, for programs"),
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
                which = ": which model" if parameter.get("required") else ""
                parts.append(f"<p>Query parameter <code>{html.escape(parameter['name'])}</code>{which}.</p>")
            if "requestBody" in operation:
                ((kind, content),) = operation["requestBody"]["content"].items()
                parts.append(f"<p>The body is <code>{kind}</code>.</p>")
                schema = content.get("schema", {})
                parts += map(_request_shown, schema.get("oneOf", [schema] if "properties" in schema else []))
            if "security" in operation:
                parts.append("<p>Needs the header <code>Authorization: Bearer TOKEN</code>.</p>")
            answers = [f"<li>{code}: {html.escape(of['description'])}</li>" for code, of in operation["responses"].items()]
            parts.append(f"<ul>{''.join(answers)}</ul>")
    title = html.escape(f"{described['info']['title']} {described['info']['version']}")
    return _PAGE.format(title=title, summary=html.escape(described["info"]["summary"]), parts="".join(parts))


def _request_shown(schema: dict[str, Any]) -> str:
    """An example of a request, and what its fields mean."""
    fields = [
        f"<li><code>{html.escape(name)}</code>{'' if name in schema['required'] else ' (optional)'}: "
        f"{html.escape(field.get('description', ''))}</li>"
        for name, field in schema["properties"].items()
    ]
    return f"<pre>{html.escape(json.dumps(schema['example'], indent=2))}</pre><ul>{''.join(fields)}</ul>"


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
