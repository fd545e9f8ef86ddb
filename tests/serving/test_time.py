"""Models with half-lives in seconds, behind services."""

import asyncio
import contextlib
import json

import httpx
import pytest

from online_rank import AdditiveRanker, BlendRanker, PerceptronRanker, RidgeRanker
from online_rank.base.schema import declared_state
from online_rank.cli.service import repair
from online_rank.serving import Challenge, FeedbackPlan, Models, RankingApp, RankingService
from online_rank.serving.clock import CLOCK
from online_rank.serving.durable import DurableService
from online_rank.serving.stored_times import latest_time, set_back
from online_rank.storage.files import from_bytes, to_bytes

DOCS = {"a": {"x": 1.0, "y": 0.5}, "b": {"x": 0.0, "y": 1.0}, "c": {"x": 2.0, "y": 0.0}}


def service(window=None):
    plan = None if window is None else FeedbackPlan(window=window, events={"click": 1})
    return RankingService(RidgeRanker(half_life="1h"), plan=plan)


def ask(of, **fields):
    return of.handle(json.dumps(fields).encode())


def rounds(window):
    """Requests, one in four of them bad, at given times or at the time of the clock."""
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


class Clocks:
    """The clocks of the system."""

    def __init__(self, at=1.8e9):
        self.system, self.monotonic = at, 5000.0

    def go_on(self, seconds):
        self.system += seconds
        self.monotonic += seconds

    def step(self, seconds):
        self.system += seconds


@pytest.fixture
def clocks(monkeypatch):
    made = Clocks()
    monkeypatch.setattr("online_rank.serving.clock._system", lambda: made.system)
    monkeypatch.setattr("online_rank.serving.clock._monotonic", lambda: made.monotonic)
    monkeypatch.setattr(CLOCK, "_ahead", made.system - made.monotonic)
    monkeypatch.setattr(CLOCK, "step", 0.0)
    return made


@pytest.mark.parametrize("window", [None, 1800.0, 86400.0])
@pytest.mark.parametrize("ahead", [301.0, 47 * 3600.0, 86400.0])
def test_a_time_ahead_of_the_clock_is_refused_and_changes_nothing(window, ahead, clocks):
    """One request 47 hours ahead ended all windows of a day: all that came for two days was late, with status 200."""
    served = service(window)
    ask(served, id=1, docs=DOCS)
    ask(served, id=2, docs=DOCS)
    before = to_bytes(served)
    for fields in (
        {"id": 3, "docs": DOCS},
        {"id": 1, "grades": {"a": 1}, "ungraded": 0},
        {"id": 3, "docs": DOCS, "grades": {"a": 1, "b": 0, "c": 0}},
    ):
        error = ask(served, **fields, ts=clocks.system + ahead).answer["error"]
        assert f"{ahead:,.0f} seconds ahead of the clock; 300 are accepted (--clock-skew)" in error
    assert to_bytes(served) == before
    clocks.go_on(60.0)
    accepted = ask(served, id=2, grades={"a": 0, "b": 1, "c": 0}).answer
    assert accepted["learned" if window is None else "accepted"] is True


def test_another_skew_and_times_of_arrival_are_accepted(clocks):
    # A window can be tried out, and a topic of events may be ahead of a worker's clock.
    served = RankingService(PerceptronRanker(), clock_skew=86400.0)
    assert "ranking" in ask(served, id=1, docs=DOCS, ts=clocks.system + 86399.0).answer
    late = json.dumps({"id": 3, "docs": DOCS, "ts": clocks.system + 200_200.0}).encode()
    assert "ahead of the clock" in service(60.0).handle(late, at=clocks.system).answer["error"]
    assert "ranking" in service(60.0).handle(late, at=clocks.system + 200_000.0).answer
    with pytest.raises(ValueError, match="clock_skew"):
        RankingService(PerceptronRanker(), clock_skew=-1.0)


def test_a_time_that_is_ahead_within_the_skew_ends_no_window(clocks, tmp_path):
    """Each window is its query's own: one that begins later, or feedback that is ahead, ends no other one."""
    plan = FeedbackPlan(window=120.0, events={"click": 1})
    state = DurableService(RankingService(RidgeRanker(half_life="1h"), plan=plan), tmp_path / "state")
    served = state.service

    def send(**fields):
        reply = ask(served, **fields)
        state.append(reply.outcomes, sync=True)
        return reply.answer

    send(id=1, docs=DOCS)
    send(id=2, docs=DOCS, ts=clocks.system + 290.0)
    send(id="early", event="click", doc="a", ts=clocks.system + 290.0)
    send(id=2, event="click", doc="a", ts=clocks.system + 295.0)
    assert send(id=1, event="click", doc="b", ts=clocks.system + 290.0) == {"id": 1, "accepted": False, "late": True}
    assert send(id=1, event="click", doc="b")["accepted"]
    assert served.now == clocks.system
    clocks.go_on(130.0)
    assert send(id=3, docs=DOCS)["id"] == 3  # Now the window of query 1 has ended, and no other one.
    assert (served.counts()["learned"], served.n_waiting) == (1, 2)
    assert declared_state(served.model).at == clocks.system
    expected = to_bytes(served)
    state.close()
    again = DurableService(RankingService(RidgeRanker(half_life="1h"), plan=plan), tmp_path / "state")
    declared_state(again.service).pending._fetch = None
    assert (again.service.counts(), again.service.now) == (served.counts(), served.now)
    assert to_bytes(again.service.model) == to_bytes(from_bytes(expected).model)
    clocks.go_on(170.0)  # 300 seconds after the beginning: query 2 began 290 seconds after it.
    ask(again.service, id=4, docs=DOCS)
    assert again.service.counts()["learned"] == 1
    clocks.go_on(120.0)
    ask(again.service, id=5, docs=DOCS)
    assert again.service.counts()["learned"] == 2
    again.close()


def test_the_latest_of_two_events_ahead_of_the_clock_counts_in_any_order(clocks):
    served = service(1000.0)
    ask(served, id=1, docs=DOCS)
    for ts in (290.0, 295.0, 290.0):
        event = {"id": 1, "event": "click", "doc": "a", "value": int(ts == 295.0)}
        assert ask(served, **event, ts=1.8e9 + ts).answer["accepted"]
    assert declared_state(served).pending.totals(1) == {"a": 1}


@pytest.mark.parametrize("step", [172_800.0, -172_800.0, 5.0])
def test_a_step_of_the_system_clock_ends_no_window_and_fades_nothing(step, clocks, caplog):
    """A clock that was wrong once made all feedback late for two days, and a ridge regression forgot 40 queries."""
    served, alone = service(1800.0), service(1800.0)
    caplog.set_level("WARNING", logger="online_rank.serving")
    for i in range(40):
        for each in (served, alone):
            ask(each, id=i, docs=DOCS, grades={"a": i % 3, "b": 1, "c": 0})
        clocks.go_on(1.0)
    for each in (served, alone):
        ask(each, id="q", docs=DOCS)
    clocks.step(step)
    ask(served, id="during", docs=DOCS)
    ask(served, id="taught", docs=DOCS, grades={"a": 2, "b": 0, "c": 0})
    served.advance(CLOCK.now())
    clocks.step(-step)
    clocks.go_on(10.0)
    assert ask(served, id="q", event="click", doc="b").answer["accepted"]
    assert declared_state(served.model).at == declared_state(alone.model).at + 1.0
    steps = [each.getMessage() for each in caplog.records]
    directions = ("forward", "back") if step > 0.0 else ("back", "forward")
    for direction, text in zip(directions, steps, strict=True):
        assert f"was set {direction} by {abs(step):.1f} seconds" in text
    assert "to what it was" in steps[1]


@pytest.mark.parametrize("whose", ["the server", "the clients"])
def test_after_a_step_clients_may_have_either_time(whose, clocks):
    """It may have been wrong before, or be wrong now."""
    served = service(1800.0)
    ask(served, id="q", docs=DOCS, ts=clocks.system)
    clocks.step(50 * 365 * 86400.0)
    clocks.go_on(60.0)
    ts = clocks.system if whose == "the clients" else clocks.system - 50 * 365 * 86400.0
    assert ask(served, id="q", event="click", doc="b", ts=ts).answer == {"id": "q", "accepted": True}
    assert served.now == 1.8e9 + 60.0


def test_a_challenger_gets_the_time_that_it_alone_asks_for():
    challenge = Challenge(BlendRanker([PerceptronRanker()], half_life="1h"))
    served = RankingService(PerceptronRanker(), challenge=challenge)
    ask(served, id=1, docs=DOCS)
    ask(served, id=1, grades={"a": 0, "b": 1, "c": 0}, ts=77.0)
    assert served.challenge.figures()["failed"] == 0
    assert declared_state(served.challenge.model).at == 77.0


def in_future(folder, clocks, ahead=172_800.0):
    """A folder of a service that ran while the clock was wrong. Query "q" waits, and "early" has not come."""
    clocks.system += ahead
    CLOCK._ahead += ahead
    plan = FeedbackPlan(window=1800.0, events={"click": 1})
    state = DurableService(RankingService(RidgeRanker(half_life="1h"), plan=plan), folder)
    for fields in (
        {"id": "t", "docs": DOCS, "grades": {"a": 1, "b": 0, "c": 0}},
        {"id": "q", "docs": DOCS},
        {"id": "q", "event": "click", "doc": "a"},
        {"id": "early", "event": "click", "doc": "a"},
    ):
        reply = ask(state.service, **fields)
        assert "error" not in reply.answer
        state.append(reply.outcomes, sync=True)
    state.close()
    clocks.system -= ahead
    CLOCK._ahead -= ahead


@pytest.mark.parametrize("killed", [False, True])
def test_times_that_lie_ahead_of_the_clock_are_reported_and_repaired(killed, clocks, tmp_path, caplog, monkeypatch):
    """A clock that was wrong once made all feedback late until the time that it had shown."""
    in_future(tmp_path / "state", clocks)
    plan = FeedbackPlan(window=1800.0, events={"click": 1})

    def opened():
        return DurableService(RankingService(RidgeRanker(half_life="1h"), plan=plan), tmp_path / "state")

    def probed():
        app = RankingApp(Models(lambda: RankingService(RidgeRanker(half_life="1h"), plan=plan), directory=tmp_path / "state"))

        async def main():
            async with httpx.AsyncClient(transport=httpx.ASGITransport(app), base_url="http://localhost") as client:
                ready, figures = await client.get("/readyz"), await client.get("/metrics")
            await app.models.close()
            return ready.status_code, ready.json(), float(figures.text.split("\nonline_rank_seconds_ahead ")[1].split()[0])

        return asyncio.run(main())

    status, ready, figure = probed()
    assert (status, ready["seconds_ahead"], figure) == (200, 172_800.0, 172_800.0)
    assert "online-rank repair DIR" in ready["remedy"]
    assert "172800 seconds ahead of the clock" in caplog.text
    if killed:
        # After the rows of the queries were written, and before the checkpoint.
        with monkeypatch.context() as patched, contextlib.closing(opened()) as state:
            state.save()
            patched.setattr(DurableService, "save", lambda state: None)
            assert state.set_back(CLOCK.now()) == 6
    repair(str(tmp_path / "state"))
    assert probed() == (200, {"ok": True}, 0.0)
    state = opened()
    assert (state.service.now, declared_state(state.service.model).at, latest_time(state.service)) == (1.8e9,) * 3
    clocks.go_on(60.0)
    assert ask(state.service, id="q", event="click", doc="b").answer == {"id": "q", "accepted": True}
    assert ask(state.service, id="early", docs=DOCS).answer["id"] == "early"
    clocks.go_on(1800.0)
    ask(state.service, id="next", docs=DOCS)
    assert state.service.counts()["learned"] == 3
    state.close()


def test_the_times_of_rankers_inside_others_are_set_back_too():
    inside = [AdditiveRanker(half_life=("7d", "2h")), RidgeRanker(half_life="1d")]
    model = BlendRanker(inside, half_life="12h")
    model.learn_one(DOCS, {"a": 0, "b": 2, "c": 1}, at=2e9)
    behind = RankingService(model)
    assert latest_time(behind) == 2e9
    assert set_back(behind, 1.8e9) == (3, [])
    assert [declared_state(ranker).at for ranker in (model, *model.learners)] == [1.8e9] * 3
    assert latest_time(behind) == 1.8e9


def test_a_folder_whose_times_are_right_is_left_as_it_is(clocks, tmp_path, capsys):
    in_future(tmp_path / "state", clocks, ahead=0.0)
    repair(str(tmp_path / "state"))
    assert capsys.readouterr().out == "no stored time lies ahead of the clock\n"
    clocks.system -= 100.0
    CLOCK._ahead -= 100.0
    repair(str(tmp_path / "state"))
    # Times of the model, of the query, of its click, of the early feedback and of its query, and the latest of all.
    assert capsys.readouterr().out == "set back to the clock: 6 stored times\n"


def test_a_query_ahead_of_the_clock_moves_no_time_when_a_service_begins_again(clocks, tmp_path):
    def begun():
        return DurableService(service(100.0), tmp_path / "state")

    state, now = begun(), CLOCK.now()
    for fields in ({"id": 1, "docs": DOCS}, {"id": 2, "docs": DOCS, "ts": now + 200}):
        state.append(ask(state.service, **fields).outcomes, sync=True)
    state.save()
    state.close()
    again = begun()
    assert again.service.now == pytest.approx(now, abs=1.0)
    assert ask(again.service, id=1, event="click", doc="a").answer["accepted"]
    again.close()
