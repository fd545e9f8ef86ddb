"""Models with half-lives in seconds, behind services."""

import json
import time

import pytest

from online_rank import BestRanker, PerceptronRanker, RidgeRanker
from online_rank.serving import Challenge, FeedbackPlan, RankingService
from online_rank.serving.durable import DurableService
from online_rank.storage.files import to_bytes

DOCS = {"a": {"x": 1.0, "y": 0.5}, "b": {"x": 0.0, "y": 1.0}, "c": {"x": 2.0, "y": 0.0}}


def service(window=None):
    plan = None if window is None else FeedbackPlan(window=window, events={"click": 1})
    return RankingService(RidgeRanker(half_life="1h"), plan=plan)


def ask(of, **fields):
    return of.handle(json.dumps(fields).encode())


def rounds(window):
    """Requests, one in four of them bad, at times of their own or of the clock."""
    for i in range(30):
        at = {} if window is None and i % 3 == 0 else {"ts": 1e9 + 1800.0 * i}
        yield {"id": i, "docs": DOCS, **at}
        if window is None:
            yield {"id": i, "grades": {"a": i % 3, "b": 2, "c": 0}, **at}
        else:
            yield {"id": i, "event": "click", "doc": "abc"[i % 3], **at}
        if i % 4 == 0:
            yield {"id": f"other {i}", "docs": DOCS, "grades": {"a": -1, "b": 1, "c": 0}, "ts": 2e9}
            yield {"id": f"other {i}", "docs": DOCS, "grades": {"a": 0, "b": 1, "c": 0}, **at}


@pytest.mark.parametrize("window", [None, 2000.0])
def test_a_journal_gives_the_same_bits(window, tmp_path):
    state = DurableService(service(window), tmp_path / "state", every=17)
    for number, request in enumerate(rounds(window)):
        reply = ask(state.service, **request)
        state.append([reply.outcome, *[each.outcome for each in reply.closed]], sync=True)
        if number % 10 == 9:
            before = to_bytes(state.service.model)
            state.close()
            state = DurableService(service(window), tmp_path / "state", every=17)
            assert to_bytes(state.service.model) == before
        state.between_commits()
    assert state.service.counts()["learned"] > 30
    state.close()


def test_a_query_is_learned_at_the_time_of_its_feedback():
    served, alone = service(), RidgeRanker(half_life="1h")
    for i, ts in enumerate((0.0, 3600.0, 5400.0)):
        ask(served, id=i, docs=DOCS, ts=ts - 50.0)
        assert ask(served, id=i, grades={"a": 0, "b": 1, "c": i}, ts=ts).answer["learned"]
        alone.learn_one(DOCS, {"a": 0, "b": 1, "c": i}, at=ts)
    assert to_bytes(served.model) == to_bytes(alone)


def test_a_query_is_learned_at_the_time_when_its_window_was_seen_to_end():
    served, alone = service(100.0), RidgeRanker(half_life="1h")
    ask(served, id=1, docs=DOCS, ts=1000.0)
    ask(served, id=1, event="click", doc="b", ts=1010.0)
    served.advance(1200.0)
    alone.learn_one(DOCS, {"a": 0, "b": 1, "c": 0}, at=1200.0)
    assert served.counts()["learned"] == 1
    assert to_bytes(served.model) == to_bytes(alone)


@pytest.mark.parametrize("window", [None, 2000.0])
def test_a_time_far_ahead_changes_nothing(window):
    """One request of a client whose clock is wrong ended all windows; whatever came later was late, or faded no more."""
    served, clock = service(window), time.time()
    ask(served, id=1, docs=DOCS, ts=clock)
    ask(served, id=1, grades={"a": 0, "b": 1, "c": 0}, ts=clock)
    before = to_bytes(served)
    for fields in (
        {"id": 2, "docs": DOCS},
        {"id": 1, "grades": {"a": 1}, "ungraded": 0},
        {"id": 2, "docs": DOCS, "grades": {"a": 1, "b": 0, "c": 0}},
    ):
        assert "more than a day ahead" in ask(served, **fields, ts=clock + 86400.0 + (window or 0.0) + 60.0).answer["error"]
    assert to_bytes(served) == before
    # A window can be tried out, and a topic of events may be ahead of a worker's clock.
    assert "ranking" in ask(served, id=2, docs=DOCS, ts=clock + 86300.0 + (window or 0.0)).answer
    late = json.dumps({"id": 3, "docs": DOCS, "ts": clock + 200_000.0}).encode()
    assert "ranking" in served.handle(late, at=clock + 190_000.0).answer
    # Where times do not count, they are not looked at.
    assert "ranking" in ask(RankingService(PerceptronRanker()), id=1, docs=DOCS, ts=4e9).answer


def test_a_challenger_gets_the_time_that_it_alone_asks_for():
    challenge = Challenge(BestRanker([PerceptronRanker()], half_life="1h"))
    served = RankingService(PerceptronRanker(), challenge=challenge)
    ask(served, id=1, docs=DOCS)
    ask(served, id=1, grades={"a": 0, "b": 1, "c": 0}, ts=77.0)
    assert served.challenge.figures()["failed"] == 0
    assert served.challenge.model._at == 77.0
