"""Ctrl-C and lacks of memory before any bytecode of a service: a request has changed everything or nothing."""

import contextvars
import json

import pytest

from benchmarks import _interrupts
from online_rank import PerceptronRanker, StreamScaler
from online_rank.base.growth import GROWTH
from online_rank.serving import FeedbackPlan
from online_rank.serving.protocol import RankingService


@pytest.mark.parametrize(
    "name", ["put", "put again", "take", "windows, put", "windows, early", "windows, early event", "windows, late"]
)
@pytest.mark.parametrize("kind", [KeyboardInterrupt, MemoryError])
def test_no_interrupt_tears_the_queries_that_wait(name, kind):
    """Their attributes were set one after the other."""
    assert "before" in (met := {*outcomes(f"waiting: {name}", kind, 1)})
    assert met <= {"before", "after"}


@pytest.mark.slow
@pytest.mark.parametrize(
    ("name", "every"),
    [("rank", 5), ("learn", 5), ("teach", 7), ("clicks, rank", 5), ("windows, close", 11)],
)
def test_no_interrupt_tears_a_service(name, every):
    """A query was learned, and waited on; a request was refused for want of memory, and had changed the service."""
    assert {*outcomes(f"service: {name}", MemoryError, every)} == {"before", "after"}


@pytest.mark.slow
@pytest.mark.parametrize("name", ["forget", "learn again"])
def test_no_interrupt_tears_what_is_forgotten_or_done_again(name):
    """The model had forgotten a user, of whom queries still waited; and no garbage was collected any more."""
    assert {*outcomes(f"service: {name}", MemoryError, 5)} <= {"before", "after"}


def outcomes(name, kind, every):
    """What became of the subject of a scenario, for an exception before each bytecode, or each so many."""
    scenario = _interrupts.scenarios()[name]()
    expected, answer, places = _interrupts.expected_of(scenario)
    for place in places[::every]:
        yield _interrupts.outcome(scenario, _interrupts.Raised((kind,), place), expected, answer)[0]


def test_what_an_interrupt_leaves_in_the_process_is_seen():
    """The limit of a request stayed, and what the process learned next was refused."""

    def act(_):
        GROWTH.set([0.0])

    scenario = _interrupts.Scenario({}, act, act)
    context = contextvars.copy_context()
    found, _ = context.run(_interrupts.outcome, scenario, _interrupts.Raised((MemoryError,), (0, 0)), [], None)
    assert found == "it has changed the context of the process"


def test_a_query_that_was_learned_when_memory_ran_out_is_in_the_journal(monkeypatch):
    service = RankingService(StreamScaler() | PerceptronRanker(), plan=FeedbackPlan(window=10))
    for i in range(2):
        service.handle(json.dumps({"id": i, "docs": {"a": {"x": 1}, "b": {"x": 2}}, "ts": 0}).encode())
        service.handle(json.dumps({"id": i, "grades": {"a": 1, "b": 0}, "ts": 1}).encode())
    closed = RankingService._closed

    def no_memory_after(self, query_id, outcome):
        closed(self, query_id, outcome)
        raise MemoryError

    monkeypatch.setattr(RankingService, "_closed", no_memory_after)
    reply = service.advance(20.0)
    assert service.counts()["learned"] == 1
    assert [outcome.fields for outcome in reply.outcomes] == [("time", 20.0), ("close", 0)]
