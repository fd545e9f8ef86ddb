"""Feedback in many events: windows in event time, events with values, late, early and doubled events, corrections."""

import json
import math

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from online_rank import PerceptronRanker, SwapRanker
from online_rank.base.schema import declared_state
from online_rank.query.grades import MAX_GRADE
from online_rank.serving import FeedbackPlan, PendingQueries, RankingService
from online_rank.serving.durable import DurableService
from online_rank.storage.files import from_bytes, to_bytes
from tests.helpers import closed, give, leave, let_wait

DOCS = {"a": {"x": 3.0, "y": 0.0}, "b": {"x": 1.0, "y": 1.0}, "c": {"y": 2.0}}
PLAN = FeedbackPlan(window=100, events={"click": 1, "purchase": 3})


def a_service(plan=PLAN, **options):
    return RankingService(PerceptronRanker(), plan=plan, **options)


def send(service, **fields):
    return service.handle(json.dumps(fields).encode())


def ask(service, query_id, ts, **more):
    return send(service, id=query_id, docs=DOCS, ts=ts, **more)


def learned_alone(grades):
    model = PerceptronRanker()
    model.learn_one(DOCS, grades)
    return model


def weights(service):
    return to_bytes(service.model)


def test_clicks_at_once_and_a_purchase_later_are_learned_together_when_the_window_ends():
    service = a_service()
    ask(service, "q", 0)
    assert send(service, id="q", event="click", doc="a", ts=5).answer == {"id": "q", "accepted": True}
    send(service, id="q", event="click", doc="b", ts=6)
    send(service, id="q", event="purchase", doc="b", ts=90)
    assert service.stats()["learned"] == 0
    reply = ask(service, "other", 100)
    # The window is [0, 100): b was clicked and bought, a clicked; c is not relevant.
    assert weights(service) == to_bytes(learned_alone({"a": 1, "b": 3, "c": 0}))
    assert [closed.answer["id"] for closed in reply.closed] == ["q"]
    assert {name: service.stats()[name] for name in ("learned", "accepted", "pending")} == {
        "learned": 1, "accepted": 3, "pending": 1,
    }  # fmt: skip


@pytest.mark.parametrize(("total", "expected"), [("largest", 3), ("sum", 4)])
def test_the_largest_event_counts_or_their_sum(total, expected):
    service = a_service(FeedbackPlan(window=100, events={"click": 1, "purchase": 3}, total=total))
    ask(service, "q", 0)
    send(service, id="q", event="purchase", doc="b", ts=1)
    send(service, id="q", event="click", doc="b", ts=2)
    service.advance(100)
    assert weights(service) == to_bytes(learned_alone({"a": 0, "b": expected, "c": 0}))


def test_a_grade_counts_in_place_of_events():
    service = a_service()
    ask(service, "q", 0)
    send(service, id="q", event="purchase", doc="b", ts=1)
    send(service, id="q", grades={"b": 1, "c": 2}, ts=2)
    service.advance(100)
    assert weights(service) == to_bytes(learned_alone({"a": 0, "b": 1, "c": 2}))


@pytest.mark.parametrize("window", [None, 100])
def test_documents_without_a_grade_are_left_out_on_request(window):
    service = a_service(FeedbackPlan(window=window))
    ask(service, "q", 0)
    send(service, id="q", grades={"a": 0, "c": 2}, ungraded="skip", ts=2)
    service.advance(100)
    model = PerceptronRanker()
    model.learn_one({name: DOCS[name] for name in "ac"}, {"a": 0, "c": 2})
    assert [service.model.weights.tolist(), service.model.feature_names] == [model.weights.tolist(), model.feature_names]
    assert service.stats()["learned"] == 1


def test_without_a_window_some_grades_are_learned_at_once_if_the_others_are_declared():
    service = RankingService(PerceptronRanker())
    ask(service, "q", 0)
    assert "b" in send(service, id="q", grades={"a": 2}).answer["error"]
    assert send(service, id="q", grades={"a": 2}, ungraded=0).answer["learned"]
    assert weights(service) == to_bytes(learned_alone({"a": 2, "b": 0, "c": 0}))


events = st.lists(
    st.tuples(st.sampled_from(["click", "purchase", "grade"]), st.sampled_from("abc"), st.integers(0, 3)),
    min_size=1,
    max_size=8,
)


@pytest.mark.slow
@settings(max_examples=40)
@given(events, st.randoms(use_true_random=False), st.sampled_from(["largest", "sum"]))
def test_neither_the_order_nor_repetition_matters_within_a_window(given_events, random, total):
    """Each event has its time; whichever comes first, twice, or before its query, the query is learned alike."""
    timed = [
        {"id": "q", "grades": {doc: value}, "ts": t} if kind == "grade"
        else {"id": "q", "event": kind, "doc": doc, "value": value, "ts": t}
        for t, (kind, doc, value) in enumerate(given_events)
    ]  # fmt: skip
    query = {"id": "q", "docs": DOCS, "ts": 0}
    plan = FeedbackPlan(window=100, events={"click": 1, "purchase": 3}, total=total)
    ordered, mixed = a_service(plan), a_service(plan)
    for request in [query, *timed]:
        assert "error" not in send(ordered, **request).answer
    shuffled = [query, *timed, *random.sample(timed, len(timed) // 2)]
    random.shuffle(shuffled)
    for request in shuffled:
        assert "error" not in send(mixed, **request).answer
    for service in (ordered, mixed):
        service.advance(100)
        assert service.stats()["learned"] == 1
    assert weights(ordered) == weights(mixed)


def test_early_feedback_waits_for_its_query_as_long_as_a_window():
    service = a_service()
    assert send(service, id="q", event="click", doc="b", ts=10).answer == {"id": "q", "accepted": True, "early": True}
    send(service, id="never", event="click", doc="b", ts=12)
    assert service.stats()["early"] == 2
    ask(service, "q", 11)
    assert service.stats()["early"] == 1
    ask(service, "r", 112)
    assert weights(service) == to_bytes(learned_alone({"a": 0, "b": 1, "c": 0}))
    assert (service.stats()["early"], service.stats()["expired"]) == (0, 1)


def test_early_feedback_on_documents_that_its_query_lacks_is_counted():
    """It was dropped when the query was learned, and nothing said so; a late value counts as late alone."""
    service = a_service()
    send(service, id="q", grades={"b": 1, "z": 2}, ts=10)
    send(service, id="q", event="click", doc="z", ts=11)
    send(service, id="q", event="click", doc="y", ts=500)
    ask(service, "q", 11)
    restored = from_bytes(to_bytes(service))
    for each in (service, restored):
        each.advance(300)
        stats = each.stats()
        assert (stats["learned"], stats["late"], stats["unknown_documents"]) == (1, 1, 2)


@pytest.mark.parametrize("early", [True, False])
def test_feedback_from_after_the_window_is_late_whichever_comes_first(early):
    """As in two topics, when the topic of queries is behind: it was learned, if it came before its query."""
    service, others = a_service(), [{"id": "q", "event": "click", "doc": "c", "ts": 201}]
    others += [{"id": "r", "event": "purchase", "doc": "a", "ts": 130}, {"id": "r", "grades": {"b": 2}, "ts": 199}]
    for request in others if early else ():
        assert send(service, **request).answer["accepted"]
    ask(service, "q", 100)
    ask(service, "r", 98)
    for request in () if early else sorted(others, key=lambda each: each["ts"]):
        send(service, **request)
    replayed = from_bytes(to_bytes(service))
    for each in (service, replayed):
        each.advance(300)
        assert weights(each) == to_bytes(learned_alone({"a": 3, "b": 0, "c": 0}))
        stats = each.stats()
        assert {name: stats[name] for name in ("learned", "unanswered", "late", "early")} == {
            "learned": 1, "unanswered": 1, "late": 2, "early": 0,
        }  # fmt: skip


def test_late_feedback_is_answered_so_and_counted():
    service = a_service()
    ask(service, "q", 0)
    ask(service, "r", 50)
    assert send(service, id="q", event="click", doc="a", ts=101).answer == {"id": "q", "accepted": False, "late": True}
    before = weights(service)
    # Of a time within the window, but the window has ended, and the query is gone.
    assert send(service, id="q", grades={"a": 2}, ts=99).answer == {"id": "q", "accepted": False, "late": True}
    assert (service.stats()["late"], service.stats()["unanswered"], weights(service)) == (2, 1, before)


def test_no_feedback_is_a_negative_only_where_that_is_declared():
    skipping = a_service()
    ask(skipping, "q", 0)
    skipping.advance(100)
    negative = a_service(FeedbackPlan(window=100, unanswered="negative"))
    ask(negative, "q", 0)
    negative.advance(100)
    assert (skipping.stats()["learned"], skipping.stats()["unanswered"]) == (0, 1)
    assert (negative.stats()["learned"], negative.stats()["unanswered"]) == (1, 0)


def test_an_event_is_taken_back_by_the_value_0():
    service = a_service()
    ask(service, "q", 0)
    send(service, id="q", event="purchase", doc="c", ts=1)
    send(service, id="q", event="click", doc="b", ts=1)
    send(service, id="q", event="purchase", doc="c", value=0, ts=2)
    service.advance(100)
    assert weights(service) == to_bytes(learned_alone({"a": 0, "b": 1, "c": 0}))


def test_totals_are_checked_when_an_event_comes():
    service = a_service(FeedbackPlan(window=100, events={"click": MAX_GRADE, "purchase": MAX_GRADE}, total="sum"))
    ask(service, "q", 0)
    before = to_bytes(service)
    for wrong, words in (
        ({"grades": {"a": 1.5}}, "grades['a'] is 1.5: expected `int`"),
        ({"grades": {"a": MAX_GRADE + 1}}, "grades['a'] is 1001: expected `int` <= 1000"),
        ({"grades": {"a": True}}, "grades['a'] is true: expected `int`"),
        ({"grades": {"z": 1}}, "document 'z' is not among the documents of the query"),
        ({"event": "view", "doc": "a"}, "event is 'view'; events are declared with their values, here: 'click', 'purchase'"),
        ({"event": "click", "doc": "z"}, "document 'z' is not among"),
        ({"event": "click", "doc": "a", "value": -1}, "value is -1: expected `int` >= 0"),
        ({"event": "click", "doc": "a", "value": 1.5}, "it must be an integer"),
        ({"event": "click", "doc": "a", "ts": 1.7e11}, "ts is 170000000000.0; times are dates of 1980 to 2100"),
        ({"event": "click", "doc": 1}, "doc is 1: expected `str`"),
        ({"grades": {"a": 1}, "ungraded": 1}, "ungraded is 1: invalid enum value 1 (0 or `skip`"),
        ({"clicks": ["a"]}, "learns from grades"),
    ):
        assert words in send(service, id="q", **{"ts": 1, **wrong}).answer["error"]
    assert to_bytes(service) == before
    send(service, id="q", event="click", doc="a", ts=1)
    send(service, id="q", event="purchase", doc="a", ts=1)
    service.advance(100)
    # Twice the largest grade counts as the largest.
    assert weights(service) == to_bytes(learned_alone({"a": MAX_GRADE, "b": 0, "c": 0}))


def test_no_feedback_is_forgotten_because_there_are_too_many_queries():
    service = a_service(wait_bytes=3900)
    for i in range(3):
        ask(service, i, i)
    send(service, id=0, event="click", doc="b", ts=4)
    ask(service, 3, 5)  # 0 is crowded out: its window ends.
    ask(service, 4, 6)  # 1 is crowded out: nothing was given to it.
    assert weights(service) == to_bytes(learned_alone({"a": 0, "b": 1, "c": 0}))
    assert {name: service.stats()[name] for name in ("pending", "learned", "evicted")} == {
        "pending": 3, "learned": 1, "evicted": 1,
    }  # fmt: skip


def test_early_feedback_is_bounded():
    service = a_service(wait_bytes=1000)
    for i in range(2):
        assert send(service, id=i, event="click", doc="a", ts=0).answer["early"]
    assert "early already" in send(service, id=2, event="click", doc="a", ts=0).answer["error"]
    service = a_service(wait_bytes=3000)
    assert "early already" in send(service, id=1, grades={f"d{i}": 1 for i in range(20)}, ts=0).answer["error"]


def test_many_windows_end_after_several_requests():
    service = a_service()
    for i in range(100):
        ask(service, i, 0)
        send(service, id=i, event="click", doc="c", ts=1)
    assert len(ask(service, "x", 1000).closed) == 32
    assert send(service, id=99, event="click", doc="a", ts=50).answer["late"]
    while service.advance(1000).changed:
        pass
    assert service.stats()["learned"] == 100


def test_documents_and_grades_together_are_learned_at_once():
    service = RankingService(PerceptronRanker())
    answer = send(service, id="q", docs=DOCS, grades={"a": 0, "b": 2, "c": 1}).answer
    # By the scores before learning, all 0. In doubt the worst order counts: a, c, b.
    best, worst = 3.0 + 1.0 / math.log2(3.0), 1.0 / math.log2(3.0) + 3.0 / 2.0
    assert answer == {"id": "q", "learned": True, "loss": pytest.approx(1.0 - worst / best)}
    assert weights(service) == to_bytes(learned_alone({"a": 0, "b": 2, "c": 1}))
    assert send(service, id="q", docs=DOCS, grades={"a": 0, "b": 2, "c": 1}).answer["duplicate"]
    # Nothing was served by this service: its account of what was served knows nothing of it.
    assert (service.stats()["learned"], service.served_interval().n) == (1, 0)


def test_a_feature_that_is_null_is_missing():
    docs = {"a": {"x": 3.0, "y": None}, "b": {"x": 1.0, "y": 1.0}}
    service = RankingService(PerceptronRanker())
    send(service, id=1, docs=docs)
    send(service, id=1, grades={"a": 0, "b": 2})
    model = PerceptronRanker()
    model.learn_one({"a": {"x": 3.0}, "b": {"x": 1.0, "y": 1.0}}, {"a": 0, "b": 2})
    assert weights(service) == to_bytes(model)


def test_meta_is_answered_as_it_came_and_is_never_a_feature():
    service = a_service()
    meta = {"page": 3, "tags": ["x"]}
    assert ask(service, "q", 0, meta=meta).answer["meta"] == meta
    assert send(service, id="q", event="click", doc="a", ts=1, meta=7).answer == {"id": "q", "accepted": True, "meta": 7}
    plain = a_service()
    assert "meta" not in ask(plain, "q", 0).answer
    assert service.model.feature_names == plain.model.feature_names


def test_events_on_a_drawn_list_are_engagement_with_what_was_shown():
    service = RankingService(SwapRanker(), plan=FeedbackPlan(window=100, events={"click": 1, "purchase": 2.5}))
    model = SwapRanker()
    shown = model.show_one(DOCS)
    assert ask(service, "q", 0).answer["ranking"] == [*shown.order]
    send(service, id="q", event="click", doc=shown.order[1], ts=1)
    send(service, id="q", event="purchase", doc=shown.order[1], ts=2)
    assert "not from grades" in send(service, id="q", grades={"a": 1}, ts=2).answer["error"]
    service.advance(100)
    model.learn_one(DOCS, shown.clicked({shown.order[1]: 2.5}))
    assert weights(service) == to_bytes(model)


def test_fractions_are_refused_where_a_model_learns_from_grades():
    with pytest.raises(ValueError, match=r"event 'dwell' is worth 0\.5; a model that learns from grades takes integers"):
        a_service(FeedbackPlan(window=100, events={"dwell": 0.5}))
    with pytest.raises(ValueError, match="give window="):
        FeedbackPlan(events={"click": 1})


def requests():
    """Queries with feedback of all kinds, out of order, twice, late and early."""
    for i in range(60):
        t = 7 * i
        yield {"id": f"e{i}", "event": "click", "doc": "b", "ts": t}
        yield {"id": f"q{i}", "docs": DOCS, "ts": t}
        yield {"id": f"q{i}", "event": "click", "doc": "abc"[i % 3], "ts": t + 1}
        yield {"id": f"q{i}", "event": "click", "doc": "abc"[i % 3], "ts": t + 1}
        if i % 4 == 0:
            yield {"id": f"e{i}", "docs": DOCS, "ts": t + 2}
        if i > 5:
            yield {"id": f"q{i - 5}", "event": "purchase", "doc": "c", "ts": t}
        if i > 20:
            yield {"id": f"q{i - 20}", "grades": {"a": 2}, "ts": t}


@pytest.mark.slow
@pytest.mark.parametrize("every", [7, 10_000])
def test_all_of_it_survives_a_crash_and_is_replayed_exactly(tmp_path, every):
    """Reopened after every few requests, without an orderly close, it equals a service that never stopped."""
    whole = a_service()
    state = DurableService(a_service(), tmp_path / "state", every)
    for i, request in enumerate(requests()):
        line = json.dumps(request).encode()
        reply, expected = state.service.handle(line), whole.handle(line)
        assert reply.answer == expected.answer
        state.append(reply.outcomes, sync=reply.learned)
        state.between_commits()
        if i % 23 == 22:
            state.close()
            state = DurableService(a_service(), tmp_path / "state", every)
            assert to_bytes(state.service.model) == to_bytes(whole.model)
            assert state.service.stats() == whole.stats()
    assert whole.stats()["late"] > 10
    assert whole.stats()["expired"] > 10
    assert whole.stats()["learned"] > 40
    state.close()


def test_a_file_holds_what_was_given_so_far():
    """The state of a key is such a file."""
    service = a_service()
    for i, request in enumerate(requests()):
        send(service, **request)
        if i % 31 == 30:
            again = from_bytes(to_bytes(service))
            assert to_bytes(again) == to_bytes(service)
            service = again


def test_another_plan_from_start_to_start(tmp_path):
    """What was given before stays; queries that were ranked without a window have one from then on."""
    with_one = DurableService(RankingService(PerceptronRanker()), tmp_path / "state")
    with_one.append(ask(with_one.service, "old", 1).outcomes, sync=True)
    with_one.close()
    state = DurableService(a_service(), tmp_path / "state")
    assert state.service.plan.window == 100
    reply = send(state.service, id="old", event="click", doc="b")
    assert reply.answer == {"id": "old", "accepted": True}
    state.append(reply.outcomes, sync=True)
    state.close()
    again = DurableService(a_service(), tmp_path / "state")
    again.service.advance(1e10)
    assert to_bytes(again.service.model) == to_bytes(learned_alone({"a": 0, "b": 1, "c": 0}))
    again.close()


def test_of_two_corrections_at_one_time_the_later_to_arrive_counts():
    service = a_service()
    ask(service, "q", 0)
    send(service, id="q", grades={"a": 1, "b": 0, "c": 0}, ts=5)
    send(service, id="q", grades={"a": 0, "b": 2, "c": 0}, ts=5)
    ask(service, "other", 100)
    assert weights(service) == to_bytes(learned_alone({"a": 0, "b": 2, "c": 0}))


def test_early_feedback_waits_a_window_from_the_last_of_it():
    service = a_service()
    send(service, id="q", event="click", doc="b", ts=10)
    send(service, id="q", event="click", doc="a", ts=90)
    send(service, id="elsewhere", event="click", doc="a", ts=150)  # 10 + 100 is over, 90 + 100 is not.
    assert (service.stats()["early"], service.stats()["expired"]) == (2, 0)
    send(service, id="elsewhere", event="click", doc="b", ts=195)
    assert (service.stats()["early"], service.stats()["expired"]) == (1, 1)


def test_early_feedback_of_an_earlier_time_waits_a_window_from_when_it_came():
    service = a_service()
    send(service, id="elsewhere", event="click", doc="a", ts=90)
    send(service, id="q", event="click", doc="b", ts=10)
    send(service, id="another", event="click", doc="a", ts=189)
    assert (service.stats()["early"], service.stats()["expired"]) == (3, 0)
    send(service, id="another", event="click", doc="b", ts=190)
    assert (service.stats()["early"], service.stats()["expired"]) == (1, 2)


def test_a_query_that_replaces_another_takes_its_bytes():
    waiting = PendingQueries(max_bytes=1000)
    for _ in range(20):
        let_wait(waiting, "q", None, 100)
    let_wait(waiting, "other", None, 900)
    assert "q" in waiting
    let_wait(waiting, "third", None, 100)
    assert "q" not in waiting


@pytest.mark.slow
@given(st.lists(st.tuples(st.integers(0, 40), st.sampled_from(["rank", "rank", "take", "save", "put away"])), max_size=200))
@settings(max_examples=60)
def test_the_numbers_of_the_queries_that_wait_are_kept_with_them(steps):
    """They are known without going through the queries, and what lies before the oldest is dropped."""
    service, pending = RankingService(PerceptronRanker()), PendingQueries(max_bytes=20)
    service._pending = pending
    for query_id, step in steps:
        if step == "rank":
            let_wait(pending, query_id, ("text", [0.5], None), 1)
        elif step == "take" and query_id in pending:
            leave(pending, query_id)
        elif step == "save":
            pending = from_bytes(to_bytes(pending))
        elif step == "put away":
            rows = {
                number: (name, size, at, *query) for name, (number, size, at, query) in declared_state(pending).queries.items()
            }
            service = from_bytes(to_bytes(service.without_rows()))
            service.restore(rows)
            pending = service._pending
        service._pending = pending
        assert service._pending.numbers().tolist() == [number for number, *_ in declared_state(pending).queries.values()]


def test_early_feedback_with_two_ends_expires_once():
    """Its values were subtracted twice, and the file was refused."""
    pending = PendingQueries(plan=FeedbackPlan(window=10))
    give(pending, "x", {"a": 1}, 0)
    let_wait(pending, "x", "query", at=1)
    leave(pending, "x")
    give(pending, "x", {"a": 1}, 5)
    for at in (10, 15):
        assert closed(pending, at) == []
    assert (pending.n_expired, pending.n_early, declared_state(pending).n_early) == (1, 0, 0)


def test_early_feedback_on_more_documents_than_a_query_may_have_takes_no_room():
    """Nine requests on 100,000 documents each took the room for the early feedback of everybody."""
    service = a_service()
    assert "a query may have 5000" in send(service, id="q1", grades={f"d{j}": 1 for j in range(5001)}).answer["error"]
    assert send(service, id="q1", grades={f"d{j}": 1 for j in range(5000)}).answer["early"]
