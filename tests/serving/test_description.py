"""The description of the HTTP interface: complete, and true."""

import json
import re
from pathlib import Path

import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from online_rank import HashedFeatures, PerceptronRanker, PlackettLuce, StreamScaler, SwapRanker
from online_rank.serving import FeedbackPlan, Models, RankingApp, RankingService
from online_rank.serving.kinds import EXAMPLES
from online_rank.serving.messages import Message
from online_rank.serving.openapi import description
from tests.reference.guide import guide
from tests.serving.asking import asked

DOCS = Path(__file__).parents[2] / "docs" / "service.md"
WINDOW = FeedbackPlan(window=100, events={"click": 1, "purchase": 3})

SERVICES = {
    "grades": lambda: RankingService(StreamScaler() | PerceptronRanker()),
    "clicks": lambda: RankingService(SwapRanker(PlackettLuce(2))),
    "a window": lambda: RankingService(StreamScaler() | PerceptronRanker(), plan=WINDOW),
    "clicks and a window": lambda: RankingService(SwapRanker(PlackettLuce(2)), plan=WINDOW),
}


def described(app):
    async def scenario(client, app):
        return (await client.get("/openapi.json")).json()

    return asked(scenario, app)


def schemas_of(described):
    """The schemas of requests in a description, by kind."""
    found = {}
    for path in ("/rank", "/explain", "/learn"):
        schema = described["paths"][path]["post"]["requestBody"]["content"]["application/json"]["schema"]
        for each in schema.get("anyOf", [schema]):
            name = each["$ref"].removeprefix("#/components/schemas/")
            found[name] = described["components"]["schemas"][name]
    return found


def test_every_kind_of_request_is_described():
    assert {*schemas_of(description(None, with_token=False))} == {kind.__name__ for kind in EXAMPLES}


def test_every_field_has_a_meaning_on_the_page():
    for schema in schemas_of(description(None, with_token=False)).values():
        for name, field in schema["properties"].items():
            assert field.get("description"), name


@pytest.mark.parametrize("kind", EXAMPLES)
def test_examples_are_of_their_kind(kind):
    import jsonschema

    schemas = schemas_of(description(None, with_token=False))
    valid = [name for name, schema in schemas.items() if jsonschema.Draft202012Validator(schema).is_valid(EXAMPLES[kind])]
    assert valid == [kind.__name__]


def test_the_guide_has_the_messages():
    assert guide() in DOCS.read_text(), "python -m tests.test_docs writes them"


def test_features_are_described_as_the_model_takes_them():
    def types(service):
        docs = schemas_of(described(RankingApp(Models(lambda: service))))["Rank"]["properties"]["docs"]
        return docs["additionalProperties"]["additionalProperties"]["type"]

    assert types(RankingService(PerceptronRanker())) == ["number", "boolean", "null"]
    assert types(RankingService(HashedFeatures(8) | PerceptronRanker())) == ["number", "boolean", "string", "array", "null"]


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


def test_every_path_is_in_the_guide():
    guide = DOCS.read_text()
    for path in description(None, with_token=False)["paths"]:
        assert f" {path}`" in guide, path


def test_the_description_is_openapi_3_1():
    import jsonschema

    for schema in description("shop", with_token=True)["components"]["schemas"].values():
        jsonschema.Draft202012Validator.check_schema(schema)


@pytest.mark.slow
@pytest.mark.parametrize("kind", SERVICES)
def test_answers_to_any_request_are_as_described(kind):
    import schemathesis
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
        @settings(max_examples=15, database=None, derandomize=True, suppress_health_check=[*HealthCheck])
        def answered(case):
            case.call_and_validate(checks=described_only)

        answered()


@pytest.mark.slow
@given(st.sampled_from(sorted(SERVICES)), st.data())
@settings(max_examples=60, suppress_health_check=[HealthCheck.too_slow])
def test_what_no_schema_allows_is_refused(kind, data):
    import jsonschema

    values = st.sampled_from([None, "a", 0, 1.5, -1, True, [], ["a"], {}, {"a": 1}, {"a": {"x": 1}}, {"a": {"x": "1"}}, "skip"])
    fields = set().union(*(kind.__struct_fields__ for kind in EXAMPLES if issubclass(kind, Message)))
    names = st.sampled_from(sorted(fields))
    request = data.draw(st.dictionaries(names, values, max_size=4)) | {"id": 1}
    found = schemas_of(description(None, with_token=False)).values()
    if any(jsonschema.Draft202012Validator(schema).is_valid(request) for schema in found):
        return
    service = SERVICES[kind]()
    service.handle(b'{"id": 1, "docs": {"a": {"x": 1}}}')
    assert "error" in service.handle(json.dumps(request).encode()).answer, request
