"""A ranker for each key: nothing lost, nothing learned twice, whichever events are delivered again."""

import hashlib
import json

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from online_rank import AdditiveRanker, PerceptronRanker, StreamScaler, SwapRanker
from online_rank.distributed import to_bytes
from online_rank.distributed.keyed import KeyedRankers, KeyedStateError, rankers
from online_rank.distributed.parts import MAX_VALUE, cut, joined, names_of, written
from online_rank.serving import FeedbackPlan
from online_rank.serving.protocol import RankingService
from tests.serving.topics import State


def graded():
    return RankingService(StreamScaler() | PerceptronRanker(), wait_bytes=8000)


def clicked():
    return RankingService(StreamScaler() | SwapRanker(), wait_bytes=8000)


def gathered():
    plan = FeedbackPlan(window=3, events={"click": 1, "purchase": 3}, unanswered="negative")
    return RankingService(StreamScaler() | PerceptronRanker(), wait_bytes=8000, plan=plan)


MAKERS = {"grades": graded, "clicks": clicked, "window": gathered}


def events_of(n, seed=0, kind="grades"):
    """Queries, feedback on some of the last ones, nonsense, and feedback that comes twice, as (key, request)."""
    rng = np.random.default_rng(seed)
    events = []
    for i in range(n):
        key = f"k{rng.integers(3)}"
        docs = {f"d{j}": {"a": round(float(x), 3), "b": float(j)} for j, x in enumerate(rng.normal(size=4))}
        events.append((key, {"id": i, "docs": docs, "ts": i}))
        for _ in range(int(rng.integers(4)) if kind == "window" else 0):
            # Of this query or another one: in time, early, late, doubled.
            about, at = int(rng.integers(max(0, i - 4), i + 2)), float(rng.integers(max(0, i - 1), i + 3))
            event = {"event": ("click", "purchase")[rng.integers(2)], "doc": f"d{rng.integers(4)}"}
            events.append((key, {"id": about, **event, "ts": at}))
            events += events[-1:] if rng.random() < 0.2 else []
        if kind != "window" and rng.random() < 0.8:
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
        handle.event(request, key, states.setdefault(key, State()), "events", 0, offset)
        for offset, (key, request) in enumerate(events)
    ]
    return answers, digests(handle, states)


@pytest.mark.slow
@given(st.integers(0, 2**16), st.integers(1, 9), st.sampled_from([*MAKERS]), st.data())
@settings(max_examples=60)
def test_failures_anywhere_change_neither_answers_nor_state(seed, every, kind, data):
    make = MAKERS[kind]
    events = events_of(25, seed, kind)
    expected, whole = run(events, make)
    handle, states, answers = KeyedRankers(make, every=every, max_services=2), {}, {}
    offset = committed = 0
    durable = {}
    while offset < len(events):
        key, request = events[offset]
        answer = handle.event(request, key, states.setdefault(key, State()), "events", 0, offset)
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
    first = handle.event(query, "k", state, "events", 0, 5)
    assert handle.event(query, "k", state, "events", 0, 5) == first
    assert handle.service("k", state).stats()["ranked"] == 1
    handle.event(b'{"id": 1, "grades": {"a": 0, "b": 1}}', "k", state, "events", 0, 7)
    assert handle.event(query, "k", state, "events", 0, 5) == {"id": 1, "duplicate": True}
    # Another partition has another count.
    assert "ranking" in handle.event(query, "k", state, "events", 1, 0)
    drawn, state = KeyedRankers(clicked), State()
    shown = drawn.event(query, "k", state, "events", 0, 1)
    assert drawn.event(query, "k", state, "events", 0, 1) == shown
    assert "error" in drawn.event(b"{", "k", state, "events", 0, 1)
    assert "stats" in drawn.event(b'{"cmd": "stats"}', "k", state, "events", 0, 1)


def test_an_event_writes_what_it_brings_and_no_more():
    events = [request for key, request in events_of(200) if key == "k0"]
    handle, state = KeyedRankers(graded, every=50), State()
    written = []
    state.set_bytes = lambda name, value: (written.append((name, len(value))), State.set_bytes(state, name, value))
    for offset, request in enumerate(events):
        handle.event(request, "k", state, "events", 0, offset)
    brought = [size for name, size in written if name.startswith("event")]
    assert max(brought) <= 40 + max(map(len, events))
    wholes = [size for name, size in written if name.startswith("whole")]
    assert len(wholes) == len(brought) // 50 > 1
    assert len([name for name in state if name.startswith("event")]) <= 100
    assert {name for name in state if name.startswith("part")} <= {name for name, _ in written}


def test_a_write_that_fails_leaves_the_service_as_the_state_has_it():
    handle, state = KeyedRankers(graded), State()
    query = b'{"id": 1, "docs": {"a": {"x": 3}, "b": {"x": 1}}}'
    broken = State()
    broken.set_bytes = lambda name, value: 1 / 0
    with pytest.raises(ZeroDivisionError):
        handle.event(query, "k", broken, "events", 0, 0)
    handle.event(query, "k", state, "events", 0, 0)
    assert handle.service("k", state).stats()["ranked"] == 1


def test_bad_states_and_arguments():
    handle, state = KeyedRankers(graded, every=1), State()
    handle.event(b'{"id": 1, "docs": {"a": {"x": 3}}}', "k", state, "events", 0, 0)
    with pytest.raises(KeyedStateError, match="other settings"):
        KeyedRankers(clicked).service("k", state)
    state = State()
    KeyedRankers(graded).event(b'{"id": 1, "docs": {"a": {"x": 3}}}', "k", state, "events", 0, 0)
    state["event 256 1"] = state["event 256 1"].partition(b"\n")[0] + b"\n{}"
    with pytest.raises(KeyedStateError, match="event 1 is refused"):
        KeyedRankers(graded).service("k", state)
    with pytest.raises(TypeError, match="gives a PerceptronRanker"):
        KeyedRankers(PerceptronRanker)
    with pytest.raises(ValueError, match="every is 0"):
        KeyedRankers(graded, every=0)


def test_keys_that_began_before_there_were_trees_continue_without_them():
    state, earlier = State(), KeyedRankers(lambda: RankingService(AdditiveRanker(trees=0)), every=2)
    docs = {f"d{j}": {"a": float(j)} for j in range(3)}
    for n in range(0, 8, 2):
        for i, request in enumerate(({"id": n, "docs": docs}, {"id": n, "grades": {"d0": 0, "d1": 1, "d2": 2}})):
            earlier.event(json.dumps(request).encode(), "k", state, "events", 0, n + i)
    ask, kept = json.dumps({"id": 9, "docs": docs}).encode(), State(state)
    later = KeyedRankers(lambda: RankingService(AdditiveRanker()), every=2)
    with pytest.warns(UserWarning, match="keys that began with an earlier version: AdditiveRanker keeps trees=0"):
        answer = later.event(ask, "k", kept, "events", 0, 9)
    assert answer["scores"] == earlier.event(ask, "k", state, "events", 0, 9)["scores"]
    other = KeyedRankers(lambda: RankingService(AdditiveRanker(trees=9)), every=2)
    with pytest.raises(KeyedStateError, match="other settings"):
        other.event(ask, "k", state, "events", 0, 10)


def long_query(i, n_documents=10):
    features = [{f"feature {k}": round(0.1 * i + 7.3 * j + k, 3) for k in range(5)} for j in range(n_documents)]
    return {"id": i, "docs": {f"document-{i}-{j}": of for j, of in enumerate(features)}}


def long_service():
    return RankingService(PerceptronRanker(), wait_bytes=1 << 24)


@pytest.mark.slow
def test_no_value_of_the_state_is_larger_than_a_broker_takes_and_only_what_changed_is_written():
    handle, state, sizes = KeyedRankers(long_service, every=100), State(), []
    state.set_bytes = lambda name, value: (sizes.append((name, len(value))), State.set_bytes(state, name, value))
    per_whole = []
    for i in range(1200):
        sizes.clear()
        handle.event(json.dumps(long_query(i)).encode(), "k", state, "events", 0, i)
        if any(name.startswith("whole") for name, _ in sizes):
            per_whole.append(sum(name.startswith("part") for name, _ in sizes))
        assert max(size for _, size in sizes) <= 900_000
    whole = to_bytes(handle.service("k", state))
    assert len(whole) > 1_000_000
    # A hundred queries are about 80 kB; what waited before is not written again.
    assert per_whole[-1] <= 8 < len(cut(whole)) / 1.5
    again = KeyedRankers(long_service, every=100)
    assert to_bytes(again.service("k", state)) == whole
    # No part is left that nothing refers to.
    referred = {name for slot in "01" for name in names_of(json.loads(state[f"whole {slot}"])["parts"])}
    assert {name for name in state if name.startswith("part")} == referred


def test_what_is_too_large_or_not_bytes_is_answered_with_an_error_and_changes_nothing():
    handle, state = KeyedRankers(graded), State()
    large = json.dumps({"id": "x" * 990_000, "docs": {}}).encode()
    assert handle.event(large, "k", state, "events", 0, 0) == {"error": f"an event of {len(large)} bytes; it may have 899000"}
    for value in ({"id": 1}, "text", 3.5):
        assert "it must be bytes" in handle.event(value, "k", state, "events", 0, 1)["error"]
    assert state == {}


def test_places_of_several_topics_are_kept_apart():
    handle, state = KeyedRankers(graded, every=3), State()
    for i in range(10):
        answer = handle.event(json.dumps(long_query(i, 3)).encode(), "k", state, "queries", 0, 100 + i)
        assert "ranking" in answer
        grades = {name: j for j, name in enumerate(answer["ranking"])}
        feedback = json.dumps({"id": i, "grades": grades}).encode()
        assert handle.event(feedback, "k", state, "feedback", 0, i)["learned"]
        again = KeyedRankers(graded, every=3)
        assert again.event(feedback, "k", state, "feedback", 0, i) == {"id": i, "learned": False, "duplicate": True}
        assert again.event(feedback, "k", state, "queries", 0, 100 + i)["duplicate"]
    assert handle.service("k", state).stats()["learned"] == 10


def test_a_topic_that_was_made_again_begins_again():
    handle, state = KeyedRankers(graded), State()

    def at(i, offset, timestamp):
        return handle.event(json.dumps(long_query(i, 3)).encode(), "k", state, "events", 0, offset, timestamp)

    for i in range(5):
        at(i, i, 1_000_000 + i)
    # A producer's clock may be ahead by seconds.
    assert at(7, 2, 1_003_000) == {"id": 7, "duplicate": True}
    assert "ranking" in at(8, 0, 1_900_000)
    assert "ranking" in at(9, 1, 1_900_001)


@pytest.mark.parametrize("n", [1, 7, 40])
def test_a_tombstone_deletes_the_key(n):
    handle, state = KeyedRankers(graded, every=10), State()
    for i in range(n):
        handle.event(json.dumps(long_query(i, 3)).encode(), "k", state, "events", 0, i)
    assert handle.event(None, "k", state, "events", 0, n) == {"deleted": True}
    assert set(state) <= {"whole 0", "whole 1", "every"}
    for handler in (handle, KeyedRankers(graded, every=10)):
        assert handler.service("k", state).stats()["ranked"] == 0
        # What came before the tombstone is not learned when it comes again.
        assert handler.event(json.dumps(long_query(0, 3)).encode(), "k", state, "events", 0, 0)["duplicate"]
    assert "ranking" in handle.event(json.dumps(long_query(50, 3)).encode(), "k", state, "events", 0, n + 1)
    assert KeyedRankers(graded, every=10).service("k", state).stats()["ranked"] == 1
    assert KeyedRankers(graded).event(None, "new", State(), "events", 0, 0) == {"deleted": True}


def test_a_key_begins_again_after_its_time_and_the_same_after_a_failure():
    def send(handle, i, seconds):
        return handle.event(json.dumps(long_query(i, 3)).encode(), "k", state, "events", 0, i, int(1000 * seconds))

    handle, state = KeyedRankers(graded, every=10, ttl=60), State()
    for i in range(5):
        send(handle, i, 50 * i)
    assert handle.service("k", state).stats()["ranked"] == 5
    before = State(state)
    assert "ranking" in send(handle, 5, 261)
    assert handle.service("k", state).stats()["ranked"] == 1
    for handler in (handle, KeyedRankers(graded, every=10, ttl=60)):
        assert handler.service("k", state).stats()["ranked"] == 1
        assert "ranking" in send(handler, 5, 261)  # it comes again, and counts once
        assert handler.service("k", state).stats()["ranked"] == 1
    # Of the writes only the event became durable: the key is as before, and the event comes again.
    state = State(before | {name: value for name, value in state.items() if name.startswith("event")})
    again = KeyedRankers(graded, every=10, ttl=60)
    assert again.service("k", state).stats()["ranked"] == 5
    assert "ranking" in send(again, 5, 261)
    assert KeyedRankers(graded, every=10).service("k", state).stats()["ranked"] == 1


@pytest.mark.slow
@given(st.lists(st.tuples(st.sampled_from([2, 7, 50]), st.integers(1, 9)), min_size=1, max_size=4), st.data())
@settings(max_examples=12)
def test_every_may_be_changed(lives, data):
    """Workers with different settings, the last events of each lost in part: nothing is rolled back."""
    events = [request for _, request in events_of(60)]
    durable, offset, service = State(), 0, graded()
    for every, n in lives:
        handle, state = KeyedRankers(graded, every=every), State(durable)
        for _ in range(n):
            handle.event(events[offset], "k", state, "events", 0, offset)
            service.handle(events[offset])
            offset += 1
            durable = State(state)
        for i in range(data.draw(st.integers(0, every))):  # a commit that does not come through whole
            handle.event(events[offset + i], "k", state, "events", 0, offset + i)
        for name in {*state, *durable}:
            if state.get(name) != durable.get(name) and name in state and data.draw(st.booleans()):
                durable[name] = state[name]
    for k in range(offset, len(events)):
        # The events come again, to a worker with the settings of the last one.
        handle = handle if k > offset else KeyedRankers(graded, every=lives[-1][0])
        handle.event(events[k], "k", durable, "events", 0, k)
        service.handle(events[k])
    assert to_bytes(handle.service("k", durable)) == to_bytes(service)


@given(st.binary(max_size=300_000), st.integers(1, 50), st.integers(0, 2**32 - 1))
@settings(max_examples=10)
def test_parts_make_the_content_again(content, times, seed):
    content = content * times + np.random.default_rng(seed).bytes(seed % 700_000)
    state = State()
    assert b"".join(cut(content)) == content
    digests = written(content, state)
    assert joined(digests, state) == content
    assert max(map(len, state.values()), default=0) <= MAX_VALUE
    if digests:
        del state[next(iter(state))]
        assert joined(digests, state) is None


class Frame:
    """What `rankers` needs of a StreamingDataFrame, over a list of messages."""

    class processing_context:
        exactly_once = True

    def __init__(self, values):
        self.values = values

    def apply(self, function, stateful=False, metadata=False):
        call = (lambda each: function(*each)) if metadata else function
        return Frame([call(each) for each in self.values])

    def filter(self, function):
        return Frame([each for each in self.values if function(each)])

    def to_topic(self, topic):
        topic += self.values


def test_refused_events_go_to_the_topic_for_them_and_all_are_answered(monkeypatch):
    import sys
    import types

    offsets = iter(range(10))

    def message_context():
        return types.SimpleNamespace(topic="events", partition=3, offset=next(offsets))

    monkeypatch.setitem(sys.modules, "quixstreams", types.SimpleNamespace(message_context=message_context))
    state, refused = State(), []
    requests = [json.dumps(long_query(1, 3)).encode(), b'{"id": 1', None, 7, b"\xff"]
    frame = Frame([(request, b"shop", 1000, [], state) for request in requests])
    answers = rankers(frame, graded, ttl=60, dead_letters=refused).values
    assert ["error" in answer for answer in answers] == [False, True, False, True, True]
    places = {"topic": "events", "partition": 3, "key": "shop"}
    errors = [answer["error"] for answer in answers if "error" in answer]
    assert refused == [
        {"error": errors[0], "offset": 1, "event": '{"id": 1'} | places,
        {"error": errors[1], "offset": 3, "event": 7} | places,
        {"error": errors[2], "offset": 4, "event": {"base64": "/w=="}} | places,
    ]


def test_redelivered_events_restore_a_key_once(monkeypatch):
    """Each of them restored it again, which took minutes for the events of one commit where many queries wait."""
    restored, of = [], KeyedRankers._restored
    monkeypatch.setattr(KeyedRankers, "_restored", lambda self, state: restored.append(1) or of(self, state))
    events, state = events_of(40, kind="grades"), State()
    handle = KeyedRankers(graded, every=16)
    for offset, (_, request) in enumerate(events):
        handle.event(request, "k", state, "events", 0, offset)
    whole = digests(handle, {"k": state})
    again = KeyedRankers(graded, every=16)
    restored.clear()
    for offset, (_, request) in [*enumerate(events)][-20:]:
        again.event(request, "k", state, "events", 0, offset)
    assert len(restored) == 1
    assert digests(again, {"k": state}) == whole


@pytest.mark.parametrize("kind", ["event ", "part ", "whole "])
def test_a_service_in_memory_is_not_believed_where_its_state_lost_something(kind, monkeypatch):
    """It is restored from what is left, and learns what comes again."""
    restored, of = [], KeyedRankers._restored
    monkeypatch.setattr(KeyedRankers, "_restored", lambda self, state: restored.append(1) or of(self, state))
    events, state = events_of(40, kind="grades"), State()
    handle = KeyedRankers(graded, every=16)
    copies = []
    for offset, (_, request) in enumerate(events):
        handle.event(request, "k", state, "events", 0, offset)
        copies.append(State(state))
    whole = digests(handle, {"k": state})
    first = len(events) - 30
    before = copies[first - 1]
    lost = [name for name in state if name.startswith(kind) and state[name] != before.get(name)]
    assert lost
    for name in lost:
        if name in before:
            state[name] = before[name]
        else:
            del state[name]
    restored.clear()
    for offset in range(first, len(events)):
        handle.event(events[offset][1], "k", state, "events", 0, offset)
    assert restored
    assert digests(handle, {"k": state}) == whole
    assert digests(KeyedRankers(graded, every=16), {"k": state}) == whole
