"""The description of the HTTP interface: complete, and true."""

import asyncio
import json
import re
from pathlib import Path

import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

for package in ("starlette", "prometheus_client", "httpx"):
    pytest.importorskip(package)

import httpx  # noqa: E402

from online_rank import HashedFeatures, PerceptronRanker, PlackettLuce, StreamScaler, SwapRanker  # noqa: E402
from online_rank.serving import FeedbackPlan, Models, RankingApp, RankingService  # noqa: E402
from online_rank.serving.openapi import description  # noqa: E402
from online_rank.serving.requests import FIELDS, kind_of  # noqa: E402
from online_rank.serving.schemas import EXAMPLES, request_schema  # noqa: E402

DOCS = Path(__file__).parents[2] / "docs" / "service.md"
WINDOW = FeedbackPlan(window=100, events={"click": 1, "purchase": 3})

SERVICES = {
    "grades": lambda: RankingService(StreamScaler() | PerceptronRanker()),
    "clicks": lambda: RankingService(SwapRanker(PlackettLuce(2))),
    "a window": lambda: RankingService(StreamScaler() | PerceptronRanker(), plan=WINDOW),
    "clicks and a window": lambda: RankingService(SwapRanker(PlackettLuce(2)), plan=WINDOW),
}


def described(app):
    async def main():
        async with httpx.AsyncClient(transport=httpx.ASGITransport(app), base_url="http://localhost") as client:
            return (await client.get("/openapi.json")).json()

    return asyncio.run(main())


def schemas_of(paths):
    """The schemas of requests in a description, by their sets of fields."""
    found = {}
    for path in ("/rank", "/explain", "/learn"):
        schema = paths[path]["post"]["requestBody"]["content"]["application/json"]["schema"]
        for each in schema.get("oneOf", [schema]):
            found[frozenset(each["required"]), frozenset(each["properties"])] = each
    return found


def test_every_field_of_every_kind_of_request_is_described():
    read = {(frozenset(needed), frozenset(needed | allowed)) for needed, allowed in FIELDS.values()}
    assert {*schemas_of(description(None, with_token=False)["paths"])} == read


def test_every_field_has_a_meaning_on_the_page():
    for kind in FIELDS:
        for name, field in request_schema(kind)["properties"].items():
            assert field.get("description"), name


@pytest.mark.parametrize("kind", FIELDS)
def test_examples_are_of_their_kind(kind):
    jsonschema = pytest.importorskip("jsonschema")
    assert kind_of(EXAMPLES[kind]) == kind
    jsonschema.Draft202012Validator(request_schema(kind)).validate(EXAMPLES[kind])


def test_features_are_described_as_the_model_takes_them():
    def types(service):
        schema = described(RankingApp(Models(lambda: service)))["paths"]["/rank"]["post"]["requestBody"]
        docs = schema["content"]["application/json"]["schema"]["properties"]["docs"]
        return docs["additionalProperties"]["additionalProperties"]["type"]

    assert types(RankingService(PerceptronRanker())) == ["number", "boolean"]
    assert types(RankingService(PerceptronRanker(), null_is_missing=True)) == ["number", "boolean", "null"]
    assert types(RankingService(HashedFeatures(8) | PerceptronRanker())) == ["number", "boolean", "string", "array"]


def test_every_option_of_stream_and_serve_is_in_the_guide():
    import typer.main

    from online_rank.cli.app import app

    commands = typer.main.get_command(app).commands
    guide = DOCS.read_text()
    options = {
        option for name in ("stream", "serve") for each in commands[name].params for option in each.opts if option[:2] == "--"
    }
    assert len(options) > 25
    assert sorted(option for option in options if not re.search(rf"`{option}[` ]", guide)) == ["--help"] * ("--help" in options)


def test_every_path_and_every_field_is_in_the_guide():
    guide = DOCS.read_text()
    for path in description(None, with_token=False)["paths"]:
        assert f" {path}`" in guide, path
    for name in set().union(*(needed | allowed for needed, allowed in FIELDS.values())):
        assert f'"{name}"' in guide, name


def test_the_description_is_openapi_3_1():
    jsonschema = pytest.importorskip("jsonschema")
    for schema in schemas_of(description("shop", with_token=True)["paths"]).values():
        jsonschema.Draft202012Validator.check_schema(schema)


@pytest.mark.parametrize("kind", SERVICES)
def test_answers_are_as_described_whatever_is_sent(kind):
    schemathesis = pytest.importorskip("schemathesis")
    from schemathesis import checks

    app = RankingApp(Models(SERVICES[kind]), local_only=False)
    schema = schemathesis.openapi.from_asgi("/openapi.json", app).exclude(path=["/events"])
    described_only = [
        checks.CHECKS.get_one(name)
        for name in (
            "not_a_server_error",
            "status_code_conformance",
            "content_type_conformance",
            "response_schema_conformance",
            "unsupported_method",
        )
    ]
    for operation in schema.get_all_operations():

        @given(case=operation.ok().as_strategy())
        @settings(max_examples=15, deadline=None, database=None, derandomize=True, suppress_health_check=[*HealthCheck])
        def answered(case):
            case.call_and_validate(checks=described_only)

        answered()


@given(st.sampled_from(sorted(SERVICES)), st.data())
@settings(max_examples=60, deadline=None, suppress_health_check=[HealthCheck.too_slow])
def test_what_no_schema_allows_is_refused(kind, data):
    jsonschema = pytest.importorskip("jsonschema")
    values = st.sampled_from([None, "a", 0, 1.5, -1, True, [], ["a"], {}, {"a": 1}, {"a": {"x": 1}}, {"a": {"x": "1"}}, "skip"])
    names = st.sampled_from(sorted({name for needed, allowed in FIELDS.values() for name in needed | allowed} - {"cmd"}))
    request = data.draw(st.dictionaries(names, values, max_size=4)) | {"id": 1}
    found = schemas_of(description(None, with_token=False)["paths"]).values()
    if any(jsonschema.Draft202012Validator(schema).is_valid(request) for schema in found):
        return
    service = SERVICES[kind]()
    service.handle(b'{"id": 1, "docs": {"a": {"x": 1}}}')
    assert "error" in service.handle(json.dumps(request).encode()).answer, request
