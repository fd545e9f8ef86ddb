"""JSON over the wire: the fast reader and the strict one agree, and nothing that is lost goes unnoticed."""

import contextlib
import gc
import json
import math

import pytest
from hypothesis import given
from hypothesis import strategies as st

from online_rank.serving import wire

NAMES = st.text(max_size=6)
VALUES = st.none() | st.booleans() | st.integers(-(2**80), 2**80) | st.floats(allow_nan=False) | NAMES
JSON = st.recursive(
    VALUES, lambda inner: st.lists(inner, max_size=3) | st.dictionaries(NAMES, inner, max_size=3), max_leaves=12
)


@pytest.fixture(params=["orjson", "json"])
def reader(request, monkeypatch):
    """`decoded` with and without orjson."""
    if request.param == "json":
        monkeypatch.setattr(wire, "orjson", None)
    else:
        pytest.importorskip("orjson")
    return wire.decoded


def same(a, b):
    """Equal values of the same types; an integer beyond 64 bits may be read as the float next to it."""
    if isinstance(a, dict):
        return isinstance(b, dict) and list(a) == list(b) and all(same(a[key], b[key]) for key in a)
    if isinstance(a, list):
        return isinstance(b, list) and len(a) == len(b) and all(map(same, a, b))
    if type(a) is int and not -(2**63) <= a < 2**64:
        return float(a) == float(b)
    return type(a) is type(b) and a == b


@given(st.dictionaries(NAMES, JSON, max_size=4), st.booleans())
def test_both_readers_agree(value, ascii_only):
    text = json.dumps(value, ensure_ascii=ascii_only)
    if "Infinity" in text:
        return
    request = text.encode()
    assert same(wire._strict(request), wire.decoded(request))
    assert same(value, wire.decoded(request))


@pytest.mark.parametrize(
    ("request_", "message"),
    [
        (b'{"id": 1, "id": 2}', "'id' stands twice"),
        (b'{"docs": {"a": {}, "a": {}}}', "'a' stands twice"),
        (b'{"docs": {"a": {"x": 1, "x": 1}}}', "'x' stands twice"),
        (b'{"docs": {"a": {"x": {"y": 1, "y": 1}}}}', "'y' stands twice"),
        (b'{"docs": [{"y": 1, "y": 1}]}', "'y' stands twice"),
        (b'{"a:b": 1, "a:b": 2}', "'a:b' stands twice"),
        (b'{"a": NaN}', "NaN is not a JSON number"),
        (b'{"a": -Infinity}', "-Infinity is not a JSON number"),
        (b"[1, 2]", "it is of type list"),
        (b"1:2", "Extra data"),
        (b"", "Expecting value"),
        (b'{"a": "\xff"}', "codec can't decode"),
    ],
)
def test_what_is_refused(reader, request_, message):
    with pytest.raises(ValueError, match=message):
        reader(request_)


def test_what_is_unusual_but_valid(reader):
    assert reader(b'{"a": "\\ud800", "b:": ":", "c": 0.1e1}') == {"a": "\ud800", "b:": ":", "c": 1.0}
    assert math.isinf(reader(b'{"a": 1e999}')["a"])
    assert float(reader(b'{"a": %d}' % 10**30)["a"]) == 1e30


def test_depth_ends_in_a_documented_exception(reader):
    with pytest.raises((ValueError, RecursionError)):
        reader(b"[" * 100_000)
    with pytest.raises((ValueError, RecursionError)):
        reader(b'{"a":' * 100_000)


@given(st.dictionaries(NAMES, JSON, max_size=4))
def test_answers_are_read_again(value):
    if "Infinity" in json.dumps(value):
        return
    assert same(value, wire._strict(wire.encoded(value)))


def test_an_answer_with_half_a_character():
    assert json.loads(wire.encoded({"id": "\ud800"})) == {"id": "\ud800"}


def test_an_answer_without_orjson(monkeypatch):
    monkeypatch.setattr(wire, "orjson", None)
    assert wire.encoded({"id": 1, "scores": [0.5, -0.0]}) == b'{"id":1,"scores":[0.5,-0.0]}'


@pytest.mark.parametrize("request_", [b'{"id": 1}', b'{"id": NaN}', b"[]"])
def test_collection_of_garbage_is_as_it_was(reader, request_):
    for was_on in (False, True):
        (gc.enable if was_on else gc.disable)()
        try:
            with contextlib.suppress(ValueError):
                reader(request_)
            assert gc.isenabled() is was_on
        finally:
            gc.enable()
