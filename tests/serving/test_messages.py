"""Requests are decoded once, strictly: what is refused is named, and nothing that is lost goes unnoticed."""

import contextlib
import gc
import json
from typing import Any

import msgspec
import pytest
from hypothesis import given
from hypothesis import strategies as st

from online_rank.limits import MAX_DOCUMENTS
from online_rank.serving import reading
from online_rank.serving.kinds import EXAMPLES
from online_rank.serving.reading import RequestError, digest_of, read

NAMES = st.text(st.characters(exclude_categories=["Cs"]), max_size=6)
VALUES = st.none() | st.booleans() | st.integers(-(2**80), 2**80) | st.floats(allow_nan=False, allow_infinity=False) | NAMES
#: At most seven levels, since each list and object has a leaf.
JSON = st.recursive(VALUES, lambda inner: st.lists(inner, max_size=3) | st.dictionaries(NAMES, inner, max_size=3), max_leaves=6)


def asked(**fields: Any) -> bytes:
    return json.dumps({"id": 1, "docs": {}, **fields}).encode()


@pytest.mark.parametrize("kind", EXAMPLES)
def test_examples_are_of_their_kind(kind):
    message = read(json.dumps(EXAMPLES[kind]).encode())
    assert type(message) is kind
    assert json.loads(msgspec.json.encode(message)) == EXAMPLES[kind]


@given(JSON, st.booleans())
def test_meta_comes_as_it_was(value, ascii_only):
    request = json.dumps({"id": 1, "docs": {"a:b": {'"': 1, "\\": 2.5}}, "meta": value}, ensure_ascii=ascii_only).encode()
    assert read(request).docs == {"a:b": {'"': 1, "\\": 2.5}}
    assert read(request).meta == value


@pytest.mark.slow
@given(st.dictionaries(NAMES, st.dictionaries(NAMES, VALUES.filter(lambda value: value is not None), max_size=4), max_size=4))
def test_features_keep_their_types(docs):
    found = read(asked(docs=docs)).docs
    assert found == docs
    assert [[*map(type, features.values())] for features in found.values()] == [
        [*map(type, features.values())] for features in docs.values()
    ]


@pytest.mark.parametrize(
    ("request_", "message"),
    [
        (b'{"id": 1, "id": 2, "docs": {}}', "'id' stands twice"),
        (b'{"id": 1, "docs": {"a": {}, "a": {}}}', "'a' stands twice"),
        (b'{"id": 1, "docs": {"a": {"x": 1, "x": 1}}}', "'x' stands twice"),
        (b'{"id": 1, "docs": {"a:b": {"x": 1, "x": 1}}}', "'x' stands twice"),
        (b'{"id": 1, "docs": {"a\\":": {"x": 1, "x": 1}}}', "'x' stands twice"),
        (b'{"id": 1, "docs": {"a" : {"x" : 1, "x" : 1}}}', "'x' stands twice"),
        (b'{"id": 1, "runs": {"a": {"x": 1, "x": 1}}}', "'x' stands twice"),
        (b'{"id": 1, "grades": {"a": 1, "a": 0}}', "'a' stands twice"),
        (b'{"id": 1, "docs": {}, "context": {"a": 1, "a": 0}}', "'a' stands twice"),
        (b'{"id": 1, "docs": {}, "meta": {"y": 1, "y": 1}}', "'y' stands twice"),
        (b'{"id": 1, "docs": {}, "meta": [[{"y": 1, "y": {"z": 1}}]]}', "'y' stands twice"),
        (b'{"id": 1, "docs": {"a": {"x": NaN}}}', "not a JSON object: JSON is malformed"),
        (b'{"id": 1, "docs": {"a": {"x": 1e999}}}', r"docs\['a'\]\['x'\] is 1e999: number out of range"),
        (b'{"id": 1, "docs": {"a": {"x": 1}, "b": {"x": 2, "y": {"z": 1}}}}', r"docs\['b'\]\['y'\] is {\"z\": 1}: expected"),
        (b'{"id": 1, "docs": {"a": {"x": ["t", {}]}}}', r"docs\['a'\]\['x'\]\[1\] is {}: expected `.*str.*`, got `object`"),
        (b'{"id": 1, "runs": {"r": {"a": 1}, "s": [["a", 1], [7, 1]]}}', r"runs\['s'\]\[1\]\[0\] is 7: expected `str`"),
        (b'{"id": 1, "docs": {}, "explain": ["a"]}', r"explain is \[\"a\"\]: expected `array` of length 2 \(two documents"),
        (b'{"id": 1, "docs": {}, "context": {"user": ["u"]}}', r"context\['user'\]\[0\] is \"u\": expected `float`"),
        (b'{"id": 1, "docs": null}', "docs is null: expected `object`"),
        (b'{"id": "\\ud800", "docs": {}}', "not a JSON object: JSON is malformed: unexpected end of"),
        (b'{"id": "\xff", "docs": {}}', "codec can't decode"),
        (b'{"id": 1, "docs": {"a": []}, "x": "\xff"}', "codec can't decode"),
        (b'\xef\xbb\xbf{"id": 1, "docs": {}}', "not a JSON object"),
        (b"[1, 2]", "not a JSON object: Expected `object`, got `array`"),
        (b'{"cmd": "stats"} 1', "trailing characters"),
        (b"", "not a JSON object: Input data was truncated"),
        (b'{"id": 1, "grade": 2}', "a request has the fields id and docs .*; this one has id, grade$"),
        (b'{"id": 1, "docs": {}, "grades": {}, "explain": ["a", "b"]}', "this one has id, docs, explain, grades"),
        (b'{"id": 1, "grades": {}, "greedy": true}', "this one has id, greedy, grades"),
        (b'{"grades": {}}', "this one has grades"),
    ],
)
def test_what_is_refused(request_, message):
    with pytest.raises(RequestError, match=message):
        read(request_)


@pytest.mark.parametrize("n", [1, 2, 3, 1000])
def test_the_place_of_an_error_is_found_among_many(n):
    for wrong in {0, n // 2, n - 1}:
        docs = {f"d{i}": {f"f{j}": "1" if j == wrong == i else 1 for j in range(3)} for i in range(n)}
        docs[f"d{wrong}"]["bad"] = {}
        with pytest.raises(RequestError, match=rf"^docs\['d{wrong}'\]\['bad'\] is {{}}: expected") as caught:
            read(asked(docs=docs))
        assert caught.value.query_id == 1


@pytest.mark.parametrize(("query_id", "known"), [("q", "q"), (7, 7), (2**63, None), ([], None), ("x" * 1001, None)])
def test_an_error_has_the_id_of_the_query_if_it_is_one(query_id, known):
    with pytest.raises(RequestError) as caught:
        read(json.dumps({"id": query_id, "docs": 3}).encode())
    assert caught.value.query_id == known


def test_depth_is_counted_and_brackets_in_texts_are_not():
    assert read(asked(meta=json.loads("[" * 7 + "]" * 7))).meta
    for levels in (8, 100, 5000, 100_000):
        with pytest.raises(RequestError, match="deeper than 8 levels"):
            read(b'{"id": 1, "docs": {}, "meta": ' + b"[" * levels + b"]" * levels + b"}")
    assert read(asked(meta="[" * 5000))
    assert len(read(asked(docs={f"d{i}": {"x": 1} for i in range(MAX_DOCUMENTS)})).docs) == MAX_DOCUMENTS


def test_numbers_are_exact():
    docs = b'{"id": -9223372036854775808, "docs": {"a": {"x": 123456789012345678901234567890, "y": 1e-400, "z": -0.0}}}'
    message = read(docs)
    assert message.id == -(2**63)
    assert message.docs == {"a": {"x": 123456789012345678901234567890, "y": 0.0, "z": 0.0}}
    assert str(message.docs["a"]["z"]) == "-0.0"


def test_repeated_feedback_has_the_digest_of_the_first():
    first = read(b'{"id": 1, "grades": {"a": 1, "b": 0}}')
    assert digest_of(first) == digest_of(read(b'{"ts": 5, "id": 1, "grades": {"b": 0, "a": 1}, "meta": 3}'))
    others = (
        b'{"id": 1, "grades": {"a": 1}}',
        b'{"id": 1, "grades": {"a": 1, "b": 0}, "ungraded": 0}',
        b'{"id": 1, "clicks": ["a"]}',
    )
    assert len({digest_of(each) for each in (first, *map(read, others))}) == 4


@pytest.mark.parametrize("request_", [b'{"id": 1, "docs": {}}', b'{"id": NaN}', b"[]"])
def test_collection_of_garbage_is_as_it_was(request_):
    for was_on in (False, True):
        (gc.enable if was_on else gc.disable)()
        try:
            with contextlib.suppress(ValueError):
                read(request_)
            assert gc.isenabled() is was_on
        finally:
            gc.enable()


def test_each_request_is_decoded_once(monkeypatch):
    """The service decoded a ranking again for the figures about its features, and the query for every event on it."""
    from online_rank import PerceptronRanker, SwapRanker
    from online_rank.serving import FeedbackPlan, RankingService

    decoded = []

    class Decoder:
        def __init__(self, before):
            self.before, self.type = before, before.type

        def decode(self, request):
            decoded.append(request)
            return self.before.decode(request)

    for name in ("_ANY", "_QUICK"):
        monkeypatch.setattr(reading, name, Decoder(getattr(reading, name)))
    docs = {"a": {"x": 1}, "b": {"x": 2}}
    plan = FeedbackPlan(window=10, events={"click": 1})
    for service, feedback in (
        (RankingService(PerceptronRanker()), {"grades": {"a": 1, "b": 0}}),
        (RankingService(PerceptronRanker(), plan=plan), {"event": "click", "doc": "a", "ts": 1}),
        (RankingService(SwapRanker()), {"clicks": ["a"]}),
    ):
        requests = [msgspec.json.encode({"id": 1, "docs": docs, "ts": 0}), msgspec.json.encode({"id": 1, **feedback})]
        if service.plan is not None:
            requests += requests[1:] * 2
        for request in requests:
            assert "error" not in service.handle(request).answer
        service.advance(100)
        assert decoded == requests
        decoded.clear()
    # Up to the first feature that is null, and then as a whole.
    request = b'{"id": 1, "docs": {"a": {"x": null, "y": "null"}, "b": {"x": 2}}}'
    assert read(request).docs == {"a": {"y": "null"}, "b": {"x": 2}}
    assert decoded == [request, request]
