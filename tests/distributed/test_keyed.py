"""A ranker for each key: nothing lost, nothing learned twice, whatever is delivered again."""

import hashlib
import json

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from online_rank import PerceptronRanker, StreamScaler, SwapRanker
from online_rank.distributed import to_bytes
from online_rank.distributed.keyed import KeyedRankers, KeyedStateError
from online_rank.serving.protocol import RankingService


class State(dict):
    get_bytes = dict.get
    set_bytes = dict.__setitem__


def graded():
    return RankingService(StreamScaler() | PerceptronRanker(), max_pending=5)


def clicked():
    return RankingService(StreamScaler() | SwapRanker(), max_pending=5)


def events_of(n, seed=0, kind="grades"):
    """Queries, feedback on some of the last ones, nonsense, and feedback that comes twice, as (key, request)."""
    rng = np.random.default_rng(seed)
    events = []
    for i in range(n):
        key = f"k{rng.integers(3)}"
        docs = {f"d{j}": {"a": round(float(x), 3), "b": float(j)} for j, x in enumerate(rng.normal(size=4))}
        events.append((key, {"id": i, "docs": docs}))
        if rng.random() < 0.8:
            feedback = {f"d{j}": int(docs[f"d{j}"]["a"] > 0) for j in range(4)}
            events.append((key, {"id": i, kind: feedback if kind == "grades" else [d for d, g in feedback.items() if g][:1]}))
            if rng.random() < 0.2:
                events.append(events[-1])
        if rng.random() < 0.1:
            events.append((key, {"id": i, "nonsense": 1}))
    return [(key, json.dumps(request).encode()) for key, request in events]


def digests(handle, states):
    return {key: hashlib.sha256(to_bytes(handle.service(key, state))).hexdigest() for key, state in states.items()}


def run(events, make, **options):
    """All events, without a failure: answers, and the digest of each key."""
    handle, states = KeyedRankers(make, **options), {}
    answers = [
        handle.event(request, key, states.setdefault(key, State()), 0, offset) for offset, (key, request) in enumerate(events)
    ]
    return answers, digests(handle, states)


@given(st.integers(0, 2**16), st.integers(1, 9), st.sampled_from(["grades", "clicks"]), st.data())
@settings(deadline=None, max_examples=60)
def test_failures_anywhere_change_neither_answers_nor_state(seed, every, kind, data):
    make = graded if kind == "grades" else clicked
    events = events_of(25, seed, kind)
    expected, whole = run(events, make)
    handle, states, answers = KeyedRankers(make, every=every, max_services=2), {}, {}
    offset = committed = 0
    durable = {}
    while offset < len(events):
        key, request = events[offset]
        answer = handle.event(request, key, states.setdefault(key, State()), 0, offset)
        answers.setdefault(offset, []).append(answer)
        offset += 1
        if offset - committed >= every or data.draw(st.integers(0, 5)) == 0:
            committed, durable = offset, {k: State(s) for k, s in states.items()}
        elif data.draw(st.integers(0, 5)) == 0:
            # Any of the writes since the commit may have become durable; the events since then come again.
            for k, after in states.items():
                before = durable.setdefault(k, State())
                for name in after:
                    if after[name] != before.get(name) and data.draw(st.booleans()):
                        before[name] = after[name]
            states = {k: State(s) for k, s in durable.items()}
            offset = committed
            if data.draw(st.booleans()):
                handle = KeyedRankers(make, every=every, max_services=2)
    assert digests(handle, states) == whole
    for place, given_answers in answers.items():
        assert given_answers[0] == expected[place]
        for answer in given_answers:
            known = {name: value for name, value in answer.items() if name != "line"}
            if not answer.get("duplicate") and "error" not in answer:
                assert known == expected[place]


def test_a_query_that_waits_is_answered_again_as_it_was():
    handle, state = KeyedRankers(graded, every=3), State()
    query = b'{"id": 1, "docs": {"a": {"x": 3}, "b": {"x": 1}}}'
    first = handle.event(query, "k", state, 0, 5)
    assert handle.event(query, "k", state, 0, 5) == first
    assert handle.service("k", state).stats()["ranked"] == 1
    handle.event(b'{"id": 1, "grades": {"a": 0, "b": 1}}', "k", state, 0, 7)
    assert handle.event(query, "k", state, 0, 5) == {"id": 1, "duplicate": True}
    # Another partition counts anew.
    assert "ranking" in handle.event(query, "k", state, 1, 0)
    drawn, state = KeyedRankers(clicked), State()
    shown = drawn.event(query, "k", state, 0, 1)
    assert drawn.event(query, "k", state, 0, 1) == shown
    assert "error" in drawn.event(b"{", "k", state, 0, 1)
    assert "stats" in drawn.event(b'{"cmd": "stats"}', "k", state, 0, 1)


def test_an_event_writes_what_it_brings_and_no_more():
    events = [request for key, request in events_of(200) if key == "k0"]
    handle, state = KeyedRankers(graded, every=50), State()
    written = []
    state.set_bytes = lambda name, value: (written.append((name, len(value))), State.set_bytes(state, name, value))
    for offset, request in enumerate(events):
        handle.event(request, "k", state, 0, offset)
    brought = [size for name, size in written if name.startswith("event")]
    assert max(brought) == 24 + max(map(len, events))
    assert len(written) - len(brought) == len(brought) // 50 > 1
    assert len(state) <= 102


def test_a_write_that_fails_leaves_the_service_as_the_state_has_it():
    handle, state = KeyedRankers(graded), State()
    query = b'{"id": 1, "docs": {"a": {"x": 3}, "b": {"x": 1}}}'
    broken = State()
    broken.set_bytes = lambda name, value: 1 / 0
    with pytest.raises(ZeroDivisionError):
        handle.event(query, "k", broken, 0, 0)
    handle.event(query, "k", state, 0, 0)
    assert handle.service("k", state).stats()["ranked"] == 1


def test_bad_states_and_arguments():
    handle, state = KeyedRankers(graded, every=1), State()
    handle.event(b'{"id": 1, "docs": {"a": {"x": 3}}}', "k", state, 0, 0)
    with pytest.raises(KeyedStateError, match="other settings"):
        KeyedRankers(clicked).service("k", state)
    state = State()
    KeyedRankers(graded).event(b'{"id": 1, "docs": {"a": {"x": 3}}}', "k", state, 0, 0)
    state["event 1"] = state["event 1"][:24] + b"{}"
    with pytest.raises(KeyedStateError, match="event 1 is refused"):
        KeyedRankers(graded).service("k", state)
    with pytest.raises(TypeError, match="gives a PerceptronRanker"):
        KeyedRankers(PerceptronRanker)
    with pytest.raises(ValueError, match="every is 0"):
        KeyedRankers(graded, every=0)
