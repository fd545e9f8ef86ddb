"""Errors in any call of a service: a request has changed everything or nothing."""

import contextvars
import json
import sys

import pytest

from online_rank import PerceptronRanker, StreamScaler, SwapRanker
from online_rank.base.growth import GROWTH
from online_rank.query.embeddings import LENIENT
from online_rank.serving import FeedbackPlan, learning, windows
from online_rank.serving.protocol import RankingService
from online_rank.serving.service_state import ServiceState
from online_rank.storage.files import to_bytes
from tests.campaigns import interrupts


@pytest.mark.parametrize(
    "name", ["put", "put again", "leave", "windows, put", "windows, early", "windows, early event", "windows, late"]
)
def test_no_error_tears_the_queries_that_wait(name):
    """Their attributes were set one after the other."""
    assert {*outcomes(f"waiting: {name}", 1)} <= {"before", "after"}


@pytest.mark.slow
@pytest.mark.parametrize(
    ("name", "every"),
    [("rank", 2), ("learn", 2), ("teach", 3), ("clicks, rank", 2), ("clicks of a user, learn", 3), ("windows, close", 5)],
)
def test_no_error_tears_a_service(name, every):
    """A query was learned, and waited on; a request was refused for want of memory, and had changed the service."""
    assert "before" in (met := {*outcomes(f"service: {name}", every)})
    assert met <= {"before", "after"}


@pytest.mark.slow
@pytest.mark.parametrize("name", ["forget", "learn again"])
def test_no_error_tears_what_is_forgotten_or_done_again(name):
    """The model had forgotten a user, of whom queries still waited; and no garbage was collected any more."""
    assert {*outcomes(f"service: {name}", 2)} <= {"before", "after"}


def outcomes(name, every):
    """What became of the subject of a scenario, for an error in each call of the library, or in one of `every` calls."""
    scenario = interrupts.scenarios()[name]()
    expected = interrupts.expected_of(scenario)
    for number in range(1, interrupts.calls_of(scenario) + 1, every):
        yield interrupts.outcome(scenario, expected, number)


def test_a_query_and_the_evidence_of_its_user_count_together(monkeypatch):
    """The query was learned, and its client got an error, where memory ran out before the evidence was counted."""

    def no_memory(*_):
        raise MemoryError

    service = RankingService(SwapRanker())
    ranking = service.handle(b'{"id": 1, "docs": {"a": {"x": 1}, "b": {"x": 2}}}').answer["ranking"]
    before = to_bytes(service)
    monkeypatch.setattr(ServiceState, "count_evidence", no_memory)
    clicks = json.dumps({"id": 1, "clicks": ranking[:1], "user": "u17"}).encode()
    assert "memory" in service.handle(clicks).answer["error"]
    assert to_bytes(service) == before
    monkeypatch.undo()
    assert service.handle(clicks).answer["learned"]
    assert [*service._evidence.values()] == [1]


def test_what_an_error_leaves_in_the_process_is_seen():
    """The limit of a request stayed, and what the process learned next was refused."""

    def act(_):
        GROWTH.set([0.0])

    scenario = interrupts.Scenario({}, act, act)
    context = contextvars.copy_context()
    assert (
        context.run(interrupts.outcome, scenario, interrupts.Expected([], None), 1)
        == "it has changed the context of the process"
    )


@pytest.mark.parametrize("at", range(1, 20))
def test_an_interrupt_leaves_nothing_that_later_queries_follow(at):
    """Ctrl-C came between two lines of `handle`, and later vectors of any length were taken for missing values."""
    service, n_lines = RankingService(PerceptronRanker()), 0

    def interrupt(frame, event, _):
        nonlocal n_lines
        if frame.f_code is not RankingService.handle.__code__:
            return None
        n_lines += event == "line"
        if n_lines == at:
            sys.settrace(None)
            raise KeyboardInterrupt
        return interrupt

    sys.settrace(interrupt)
    try:
        service.handle(b'{"id": 1, "docs": {"a": {"x": 1}, "b": {"x": 2}}}')
    except KeyboardInterrupt:
        pass
    finally:
        sys.settrace(None)
    assert not LENIENT.get()


def test_a_query_that_was_learned_when_memory_ran_out_is_in_the_journal(monkeypatch):
    service = RankingService(StreamScaler() | PerceptronRanker(), plan=FeedbackPlan(window=10))
    for i in range(2):
        service.handle(json.dumps({"id": i, "docs": {"a": {"x": 1}, "b": {"x": 2}}, "ts": 0}).encode())
        service.handle(json.dumps({"id": i, "grades": {"a": 1, "b": 0}, "ts": 1}).encode())
    close = windows.close

    def no_memory_after(*arguments):
        close(*arguments)
        raise MemoryError

    monkeypatch.setattr(windows, "close", no_memory_after)
    reply = service.advance(20.0)
    assert service.counts()["learned"] == 1
    assert [outcome.fields for outcome in reply.outcomes] == [("time", 20.0), ("close", 0)]


@pytest.mark.parametrize("kind", ["learn", "teach"])
def test_grades_that_were_learned_when_memory_ran_out_are_answered_and_journalled(monkeypatch, kind):
    """A model's kernel makes the last change, which is not undone: the answer must not say that nothing has changed."""
    service, learn = RankingService(PerceptronRanker()), learning.learn_within
    docs, grades = {"docs": {"a": {"x": 1.0}, "b": {"x": 2.0}}}, {"grades": {"a": 1, "b": 0}}
    service.handle(json.dumps({"id": 1, **docs}).encode())
    service.handle(json.dumps({"id": 1, **grades}).encode())
    service.handle(json.dumps({"id": 2, **docs}).encode())

    def no_memory_after(*arguments):
        learn(*arguments)
        raise MemoryError

    monkeypatch.setattr(learning, "learn_within", no_memory_after)
    request = {"id": 2, **grades} if kind == "learn" else {"id": 3, **docs, **grades}
    reply = service.handle(json.dumps(request).encode())
    assert reply.answer["learned"]
    assert reply.outcome.fields[0] == kind
    assert service.counts()["learned"] == 2


def test_grades_that_ran_out_of_memory_before_they_were_learned_change_nothing(monkeypatch):
    service = RankingService(PerceptronRanker())
    service.handle(b'{"id": 1, "docs": {"a": {"x": 1.0}, "b": {"x": 2.0}}}')
    before = to_bytes(service)

    def no_memory(*_):
        raise MemoryError

    monkeypatch.setattr(learning, "learn_within", no_memory)
    assert "memory" in service.handle(b'{"id": 1, "grades": {"a": 1, "b": 0}}').answer["error"]
    assert to_bytes(service) == before
