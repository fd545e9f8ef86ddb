"""The description of the HTTP interface, for programs and for people."""

import html
import json
import re
from typing import Any

import msgspec

import online_rank
from online_rank.serving import messages as m
from online_rank.serving.kinds import EXAMPLES, KINDS
from online_rank.serving.tenants import KEY

_KEY = {"type": "string", "pattern": f"^{KEY.pattern}$"}
_REFUSED = {
    400: "not a valid request, or not a key; nothing has changed",
    401: "the token is missing or wrong",
    403: "the token has another role",
    404: "there is no such model",
    405: "the method is another one",
    408: "the body took too long",
    409: "no model was replaced, or the model keeps what is to be forgotten where it cannot be taken away",
    411: "the request does not give its length",
    413: "the body is too large",
    415: "the body is not declared as what it has to be",
    429: "there are too many keys, or several models are being sent or received already",
    503: "too many requests at once, a full disk: send it again; or the journal cannot be written: restart the server",
}
_OF_BODY = (400, 405, 408, 411, 413, 415, 503)
_FILE, _JSON, _HTML = "application/octet-stream", "application/json", "text/html"

#: What it does; the types of its body and of its answer, or their media types; and what it is refused with.
_ENDPOINTS: dict[str, tuple[str, Any, Any, tuple[int, ...]]] = {
    "post /rank": ("Rank the documents of a query", [m.Rank], [m.Ranked], _OF_BODY),
    "post /explain": ("Explain why one document scores higher than another", [m.Explain], [m.Explained], _OF_BODY),
    "post /learn": (
        "Learn from feedback on a ranking; on the disk when it is answered",
        [*KINDS, m.Teach, m.Command],
        [m.Learned, m.Accepted, m.Done],
        _OF_BODY,
    ),
    "post /ranked": ("Let queries wait for feedback that were ranked elsewhere", [[m.Elsewhere]], [m.Taken], _OF_BODY),
    "get /model": ("The model file; 304 where its ETag equals If-None-Match", None, _FILE, (429,)),
    "get /model/waiting": (
        "The model file of the challenger, or of the ranking of today",
        None,
        _FILE,
        (404, 429),
    ),
    "post /model": ("Serve the model of another file, which is checked in full", _FILE, _JSON, (*_OF_BODY, 429)),
    "post /model/rollback": (
        "Restore the model that was replaced last, or the one with which a day began",
        [m.RollBack],
        _JSON,
        (*_OF_BODY, 404, 409, 429),
    ),
    "delete /models/{key}": ("Delete a model with all that is stored about its queries", None, _JSON, (503,)),
    "post /forget": (
        "Forget queries, and features made of their context; when it is answered, files have none of it",
        [m.Forget],
        [m.Forgotten],
        (*_OF_BODY, 409),
    ),
    "get /stats": ("Counts and figures", None, [m.Stats], ()),
    "get /healthz": ("Whether the service works; 503: restart it", None, [m.Ready], (503,)),
    "get /readyz": ("Whether requests can be taken", None, [m.Ready], (503,)),
    "get /metrics": ("Figures for Prometheus", None, "text/plain", ()),
    "get /events": ("The data of the page, once a second", None, "text/event-stream", ()),
    "get /curves": ("What the features that matter most add to scores, if the model has curves", None, _JSON, ()),
    "get /curves/all": ("The same of up to 300 features", None, _JSON, ()),
    "get /": ("The page", None, _HTML, ()),
    "get /docs": ("This description, for people", None, _HTML, ()),
    "get /openapi.json": ("This description, for programs", None, _JSON, ()),
}
#: Paths that need no token.
OPEN_TO_ALL = frozenset({"/", "/healthz", "/readyz", "/docs", "/openapi.json"})


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
    paths: dict[str, dict[str, Any]] = {}
    for name, (summary, body, answer, codes) in _ENDPOINTS.items():
        method, path = name.split()
        in_path = "{key}" in path
        if in_path and key is None:
            continue
        operation, refused = dict[str, Any](summary=summary), {*codes}
        if path not in OPEN_TO_ALL and path != "/metrics" and key is not None:
            given = {"name": "key", "in": "path"} if in_path else {"name": key, "in": "query"}
            operation["parameters"] = [{**given, "required": True, "schema": _KEY}]
            refused |= {400, 404, 429}
        if with_token and path not in OPEN_TO_ALL:
            operation["security"] = [{"token": []}]
            refused |= {401, 403}
        if body is not None:
            operation["requestBody"] = {"required": True, "content": _content(body)}
        answers = {"200": {"description": "OK", "content": _content(answer)}}
        errors = {str(code): {"description": _REFUSED[code], "content": _content([m.Refusal])} for code in sorted(refused)}
        paths.setdefault(path, {})[method] = {**operation, "responses": answers | errors}
    schemes = {"securitySchemes": {"token": {"type": "http", "scheme": "bearer"}}} if with_token else {}
    return {
        "openapi": "3.1.0",
        "info": {"title": "online_rank", "version": online_rank.__version__, "summary": "A ranker that learns online"},
        "components": {"schemas": _schemas(values), **schemes},
        "paths": paths,
    }


def _content(kind: Any) -> dict[str, Any]:
    """A body by its media type: a message, one of several, a list of one, or anything of a media type."""
    if isinstance(kind, str):
        return {kind: {}}
    if isinstance(kind[0], list):
        (one,) = kind
        return {"application/json": {"schema": {"type": "array", "items": _content(one)["application/json"]["schema"]}}}
    references = [{"$ref": f"#/components/schemas/{each.__name__}"} for each in kind]
    content: dict[str, Any] = {"application/json": {"schema": {"anyOf": references} if len(kind) > 1 else references[0]}}
    if any(issubclass(each, m.Query) for each in kind if isinstance(each, type)):
        content[m.BINARY] = {"schema": {"type": "string", "format": "binary", "description": m.IN_BINARY}}
    return content


def _schemas(values: tuple[str, ...]) -> dict[str, Any]:
    """The JSON schemas of all messages, whose features have these types."""
    answers = [kind for _, _, answer, _ in _ENDPOINTS.values() if isinstance(answer, list) for kind in answer]
    kinds = [*EXAMPLES, m.Elsewhere, m.Forget, m.RollBack, m.Refusal, *answers]
    _, schemas = msgspec.json.schema_components(kinds, ref_template="#/components/schemas/{name}")
    texts = {"items": {"type": "string"}} if "array" in values else {}
    for kind, example in EXAMPLES.items():
        schema = schemas[kind.__name__]
        schema["examples"] = [example, m.COLUMNS] if kind is m.Rank else [example]
        if issubclass(kind, m.Query):
            schema["anyOf"] = [{"required": [name]} for name in ("docs", "runs")] + [{"required": sorted(m.IN_COLUMNS)}]
            value = {"type": [*values], **texts}
            schema["properties"]["docs"]["additionalProperties"]["additionalProperties"] = value
            schema["properties"]["rows"]["items"]["items"] = value
    schemas["Forget"]["minProperties"] = 1
    return schemas


def description_page(described: dict[str, Any]) -> str:
    """The description as a self-contained page: what each path does, and the messages."""
    parts = []
    for path, methods in described["paths"].items():
        for method, operation in methods.items():
            parts.append(
                f"<h2><code>{method.upper()} {html.escape(path)}</code></h2><p>{html.escape(operation['summary'])}</p>"
            )
            if "security" in operation:
                parts.append("<p>Needs the header <code>Authorization: Bearer TOKEN</code>.</p>")
            named = [f"The parameter <code>{html.escape(each['name'])}</code>." for each in operation.get("parameters", [])]
            bodies = {"takes": operation.get("requestBody"), "answers": operation["responses"]["200"]}
            shown = [f"It {does} {_kinds(body['content'])}." for does, body in bodies.items() if body]
            refused = [f"<li>{code}: {html.escape(of['description'])}</li>" for code, of in operation["responses"].items()]
            parts.append(f"<p>{' '.join(shown + named)}</p><ul>{''.join(refused[1:])}</ul>")
    for name, schema in described["components"]["schemas"].items():
        parts.append(f'<h2 id="{name}">{name}</h2><p>{html.escape(schema["description"])}</p><ul>')
        for field, of in schema["properties"].items():
            optional = "" if field in schema["required"] else " (optional)"
            parts.append(f"<li><code>{field}</code>{optional}: {html.escape(of.get('description', ''))}</li>")
        parts.append("</ul>")
        parts += [f"<pre>{html.escape(json.dumps(each))}</pre>" for each in schema.get("examples", [])]
    title = html.escape(f"{described['info']['title']} {described['info']['version']}")
    return _PAGE.format(title=title, summary=html.escape(described["info"]["summary"]), parts="".join(parts))


def _kinds(content: dict[str, Any]) -> str:
    """Links to the messages of a body, and the media types of others."""
    links = [f'<a href="#{name}">{name}</a>' for name in re.findall(r"/schemas/(\w+)", json.dumps(content))]
    others = [
        f"<code>{kind}</code> {html.escape(_about(of))}".strip() for kind, of in content.items() if "$ref" not in json.dumps(of)
    ]
    return " or ".join(links + others)


def _about(of: dict[str, Any]) -> str:
    """What a body is, of one with a description."""
    description: str = of.get("schema", {}).get("description", "")
    return f"({description})" if description else ""


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
