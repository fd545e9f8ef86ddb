"""Lists that are not as they were drawn: pins, exclusions, lists that clients changed; and clients that give too much."""

import json

import pytest

from online_rank import ClickPerceptron, ExaminedRanker, History, PerceptronRanker, PlackettLuce, SwapRanker
from online_rank.base.schema import declared_state
from online_rank.feedback import Impression
from online_rank.serving import Challenge, FeedbackPlan, service_state
from online_rank.serving.clock import CLOCK
from online_rank.serving.metrics import Figures
from online_rank.serving.models import Models
from online_rank.serving.protocol import RankingService
from online_rank.serving.service_state import MOST_EVIDENCE
from online_rank.serving.stored_times import latest_time, set_back
from online_rank.storage.files import from_bytes, to_bytes

DOCS = {name: {"x": float(i), "y": float(i % 3)} for i, name in enumerate("fedcba")}


def request(**fields):
    return json.dumps(fields).encode()


def swaps(**options):
    return RankingService(SwapRanker.from_weights({"x": 1.0}, policy=PlackettLuce(k=4, keep=0.9, seed=1)), **options)


def replayed(saved, replies):
    service = from_bytes(saved)
    for reply in replies:
        for outcome in reply.outcomes:
            service.replay(json.loads(json.dumps(outcome.fields)), outcome.number, outcome.waiting, outcome.feedback)
    return to_bytes(service)


def test_pinned_and_excluded_documents():
    service, model = swaps(), SwapRanker.from_weights({"x": 1.0}, policy=PlackettLuce(k=4, keep=0.9, seed=1))
    answer = service.handle(request(id=1, docs=DOCS, pinned={"2": "f"}, excluded=["a", "sold out"])).answer
    shown = model.show_one(DOCS, pinned={2: "f"}, excluded=["a"])
    assert answer["shown"] == 4
    assert tuple(answer["ranking"][:4]) == shown.page
    assert shown.page[1] == "f"
    assert {*answer["ranking"]} == {*"bcdef"}
    assert service.answer_again(request(id=1, docs=DOCS)).answer["ranking"] == answer["ranking"]
    # A click on the pinned document is accepted, and teaches nothing.
    assert service.handle(request(id=1, clicks=["f", shown.order[1]])).answer["learned"]
    model.learn_one(DOCS, shown.clicked([shown.order[1]]))
    assert service.model.weights.tobytes() == model.weights.tobytes()
    greedy = service.handle(request(id=2, docs=DOCS, pinned={"1": "f"}, excluded=["b"], greedy=True)).answer
    assert greedy["ranking"] == [*"facde"]
    assert "shown" not in greedy


@pytest.mark.parametrize(
    ("fields", "message"),
    [
        ({"pinned": {"0": "a"}}, "pinned is 0"),
        ({"pinned": {"first": "a"}}, "pinned has position 'first'; positions are whole numbers from 1"),
        ({"pinned": {"1": "a", "01": "b"}}, "pinned has position '01'; positions are whole numbers from 1, each once"),
        ({"pinned": {"1": "z"}}, "document 'z', which is not in the query"),
        ({"pinned": {"9": "a"}}, "pinned has position 9, but 4 documents are shown"),
        ({"excluded": "a"}, "excluded is"),
    ],
)
def test_bad_pins_change_nothing(fields, message):
    service = swaps()
    before = to_bytes(service)
    assert message in service.handle(request(id=1, docs=DOCS, **fields)).answer["error"]
    assert to_bytes(service) == before


def test_a_service_that_ranks_by_scores_has_no_places():
    service = RankingService(PerceptronRanker())
    assert "are for lists that are drawn" in service.handle(request(id=1, docs=DOCS, excluded=["a"])).answer["error"]


@pytest.mark.parametrize("window", [None, 60.0])
def test_a_changed_list_is_left_out_and_counted(window):
    plan = None if window is None else FeedbackPlan(window=window, events={"click": 1})
    service = swaps(plan=plan)
    saved, weights, ts = to_bytes(service), service.model.weights.copy(), CLOCK.now()
    replies = [service.handle(request(id=1, docs=DOCS, ts=ts - 200))]
    page = replies[0].answer["ranking"][:4]
    replies.append(service.handle(request(id=1, clicks=["f"], displayed=["f", *page[1:]], ts=ts - 190)))
    replies.append(service.handle(request(id=2, docs=DOCS, ts=ts - 100)))
    if window is None:
        assert replies[1].answer == {"id": 1, "learned": False, "displayed": True}
        assert service.handle(request(id=1, clicks=["f"])).answer == {"id": 1, "learned": False, "duplicate": True}
        declared_state(service).counts["duplicates"] -= 1
        service.n_changes -= 1
    assert service.stats()["displayed"] == 1
    assert service.stats()["learned"] == 0
    assert service.model.weights.tolist() == weights.tolist()
    assert replayed(saved, replies) == to_bytes(service)
    assert "online_rank_displayed_total 0.0" in Figures(Models(lambda: service), set()).text()


@pytest.mark.parametrize("window", [None, 60.0])
def test_a_displayed_list_has_each_document_once(window):
    service = swaps(plan=None if window is None else FeedbackPlan(window=window, events={"click": 1}))
    service.handle(request(id=1, docs=DOCS))
    before = to_bytes(service)
    twice = service.handle(request(id=1, clicks=["a"], displayed=["a", "b", "a"])).answer["error"]
    assert twice == "displayed has document 'a' twice"
    assert service.handle(request(id=1, clicks=[], displayed=[])).answer["error"].startswith("displayed is empty")
    error = service.handle(request(id=1, clicks=["c"], displayed=["a", "b"])).answer["error"]
    assert ("'c' was not shown" if window is None else "'c' is not among the documents displayed") in error
    assert to_bytes(service) == before


def test_of_lists_displayed_at_the_same_time_the_last_one_counts():
    model = ExaminedRanker(PerceptronRanker(), examination=(1.0, 0.5, 0.3), k=3)
    service, ts = RankingService(model, plan=FeedbackPlan(window=60.0, events={"click": 1})), CLOCK.now() - 200
    saved, replies = to_bytes(service), [service.handle(request(id=1, docs=DOCS, ts=ts))]
    for displayed in (["f", "e", "d", "c"], ["b", "a", "f"]):
        replies.append(service.handle(request(id=1, clicks=["f"], displayed=displayed, ts=ts + 1)))
    replies.append(service.handle(request(id=2, docs=DOCS, ts=ts + 100)))
    assert [closed.feedback for closed in replies[-1].closed] == [Impression(("b", "a", "f")).clicked(["f"])]
    assert replayed(saved, replies) == to_bytes(service)


@pytest.mark.parametrize(
    ("docs", "fields", "clicks"),
    [
        ("abcd", {"pinned": {"1": "a", "2": "b", "3": "c", "4": "d"}}, "a"),
        ("abc", {"pinned": {"1": "c", "2": "b"}}, "c"),
        ("ab", {"pinned": {"1": "b"}, "excluded": ["a"]}, "b"),
        ("ab", {"excluded": ["a", "b"]}, ""),
        ("a", {}, "a"),
    ],
)
@pytest.mark.parametrize("window", [None, 60.0])
def test_clicks_where_there_is_nothing_to_compare_teach_nothing(docs, fields, clicks, window):
    service = swaps(plan=None if window is None else FeedbackPlan(window=window, events={"click": 1}))
    saved, weights, ts = to_bytes(service), service.model.weights.tobytes(), CLOCK.now()
    replies = [service.handle(request(id=1, docs={name: DOCS[name] for name in docs}, ts=ts - 200, **fields))]
    replies.append(service.handle(request(id=1, clicks=[*clicks], ts=ts - 190)))
    replies.append(service.handle(request(id=2, docs=DOCS, ts=ts - 100)))
    assert replies[1].answer == ({"id": 1, "learned": True, "loss": 0.0} if window is None else {"id": 1, "accepted": True})
    stats = service.stats()
    assert (stats["learned"], stats["refused"], stats["pending"]) == (1, 0, 1)
    assert service.model.weights.tobytes() == weights
    assert replayed(saved, replies) == to_bytes(service)


def test_a_changed_list_counts_as_an_impression_for_histories():
    model = History(examination=(1.0, 0.5), half_life=1000) | SwapRanker(PlackettLuce(k=4))
    service = RankingService(model)
    service.handle(request(id=1, docs=DOCS))
    assert service.handle(request(id=1, clicks=["f"], displayed=["f", "a"])).answer["displayed"]
    counted = service.model["History"].transform_one(DOCS)
    impressions = {name: next(value for key, value in counted[name].items() if "impressions" in key) for name in DOCS}
    assert impressions == pytest.approx({**dict.fromkeys(DOCS, 0.0), "f": 1.0, "a": 0.5}, rel=0.01)
    assert not service.model["SwapRanker"].weights.any()


def test_a_list_that_was_displayed_as_drawn_is_learned():
    service = swaps()
    page = service.handle(request(id=1, docs=DOCS)).answer["ranking"][:4]
    assert service.handle(request(id=1, clicks=page[3:], displayed=page)).answer["learned"]
    assert service.stats()["displayed"] == 0


@pytest.mark.parametrize(
    "model",
    [
        ExaminedRanker(PerceptronRanker(), examination=(1.0, 0.5, 0.3), k=3),
        ClickPerceptron(PlackettLuce(k=3), credit="propensity", examination=(1.0, 0.5, 0.3)),
    ],
)
def test_examination_learns_from_what_was_displayed(model):
    service = RankingService(model)
    service.handle(request(id=1, docs=DOCS))
    reply = service.handle(request(id=1, clicks=["a"], displayed=["d", "a", "f"]))
    assert reply.answer["learned"]
    assert reply.feedback.impression == Impression(("d", "a", "f"))
    assert service.stats()["displayed"] == service.stats()["learned"] == 1
    alone = model.clone()
    alone.learn_one(DOCS, Impression(("d", "a", "f")).clicked(["a"]))
    assert service.model.predict_one(DOCS) == alone.predict_one(DOCS)
    service.handle(request(id=2, docs=DOCS))
    assert "'z' is not among the documents" in service.handle(request(id=2, clicks=[], displayed=["z"])).answer["error"]


def test_a_changed_draft_is_no_vote():
    rival = SwapRanker.from_weights({"y": 1.0}, policy=PlackettLuce(k=4, keep=0.9))
    service = swaps(challenge=Challenge(rival))
    pinned = service.handle(request(id=1, docs=DOCS, pinned={"1": "f"}, excluded=["a"])).answer["ranking"][:4]
    assert pinned[0] == "f"
    assert "a" not in pinned
    assert service.handle(request(id=1, clicks=["f"], displayed=pinned[::-1])).answer["displayed"]
    assert service.challenge.n_drafted == 0


@pytest.mark.first(1)
@pytest.mark.parametrize("window", [None, 60.0])
@pytest.mark.parametrize("whose", [{"user": "u17"}, {"session": "s1", "user": "u1"}])
def test_one_user_gives_so_much_evidence_in_a_day(window, whose):
    plan = None if window is None else FeedbackPlan(window=window, events={"click": 1})
    service = swaps(plan=plan)
    saved, replies, taken, ts = to_bytes(service), [], [], CLOCK.now() - 10 * 86_400
    done = "learned" if window is None else "accepted"
    for i in range(MOST_EVIDENCE + 3):
        replies.append(service.handle(request(id=i, docs=DOCS, ts=ts)))
        first = replies[-1].answer["ranking"][:1]
        replies.append(service.handle(request(id=i, clicks=first, ts=ts, **whose)))
        taken.append(replies[-1].answer[done])
    assert taken == [True] * MOST_EVIDENCE + [False] * 3
    assert replies[-1].answer["limited"]
    assert service.stats()["limited"] == 3
    assert b"u17" not in to_bytes(service)
    # Others, and the same on the next day, count.
    for i, (other, at) in enumerate((({"user": "u18"}, ts), ({}, ts), (whose, ts + 86_400)), start=1000):
        replies.append(service.handle(request(id=i, docs=DOCS, ts=at)))
        replies.append(service.handle(request(id=i, clicks=[], ts=at, **other)))
        assert replies[-1].answer[done]
    assert replayed(saved, replies) == to_bytes(service)


@pytest.mark.parametrize("window", [None, 60.0])
def test_late_feedback_around_midnight_begins_no_new_account(window):
    service = swaps(plan=None if window is None else FeedbackPlan(window=window, events={"click": 1}))
    saved, replies, taken = to_bytes(service), [], 0
    midnight = CLOCK.now() // 86_400 * 86_400 - 86_400
    for i in range(MOST_EVIDENCE + 20):
        ts = midnight + (5 if i % 2 else -5)
        replies.append(service.handle(request(id=i, docs=DOCS, ts=ts)))
        page = replies[-1].answer["ranking"][:1]
        replies.append(service.handle(request(id=i, clicks=page, ts=ts, user="u17")))
        taken += replies[-1].answer["learned" if window is None else "accepted"]
    # The first one was of the day before.
    assert taken == MOST_EVIDENCE + 1
    assert replayed(saved, replies) == to_bytes(service)


def test_names_that_are_counted_are_limited(monkeypatch):
    monkeypatch.setattr(service_state, "_MOST_KEPT", 10)
    service = swaps()
    for i in range(20):
        page = service.handle(request(id=i, docs=DOCS)).answer["ranking"][:1]
        # One that gives again and again does not drop its own count, and each is a session and a user.
        service.handle(request(id=i, clicks=page, session=f"s{i}", user="u" if i > 14 else f"u{i}"))
    assert len(declared_state(service).evidence) == 10
    assert [*declared_state(service).evidence.values()].count(1) == 9
    assert max(declared_state(service).evidence.values()) == 5


def test_a_day_that_a_wrong_clock_has_left_is_set_back():
    service, ahead = swaps(), CLOCK.now() + 400 * 86_400
    service._evidence_day = int(ahead // 86_400)
    assert latest_time(service) == ahead // 86_400 * 86_400
    assert set_back(service, CLOCK.now()) == (1, [])
    assert latest_time(service) <= CLOCK.now()
