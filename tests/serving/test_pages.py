"""Several rankings under one id: each page of a result waits for its own feedback."""

import json

import pytest

from online_rank import PerceptronRanker, PlackettLuce, SwapRanker
from online_rank.serving import FeedbackPlan, RankingService
from online_rank.serving.durable import DurableService
from online_rank.serving.forgetting import forget
from online_rank.serving.messages import Forget

FIRST = {"a": {"x": 1.0}, "b": {"x": 2.0}}
SECOND = {"c": {"x": 3.0}, "d": {"x": 4.0}}


def ask(service, request, line=0):
    return service.handle(json.dumps(request).encode(), line).answer


@pytest.mark.parametrize("query_id", ["q1", 7])
@pytest.mark.parametrize("order", ["first", "second"])
def test_clicks_on_both_pages_are_learned(query_id, order):
    service = RankingService(SwapRanker(PlackettLuce(k=2)))
    for docs in (FIRST, SECOND):
        assert ask(service, {"id": query_id, "docs": docs})["id"] == query_id
    assert service.n_waiting == 2
    pages = [["a"], ["d"]] if order == "first" else [["d"], ["a"]]
    for clicks in pages:
        answer = ask(service, {"id": query_id, "clicks": clicks})
        assert (answer["id"], answer["learned"]) == (query_id, True)
    assert service.n_waiting == 0
    assert service.counts()["learned"] == 2
    # Once more is a repetition.
    assert ask(service, {"id": query_id, "clicks": pages[0]})["learned"] is False


def test_grades_and_events_find_their_page():
    service = RankingService(PerceptronRanker())
    for docs in (FIRST, SECOND):
        ask(service, {"id": 1, "docs": docs})
    assert ask(service, {"id": 1, "grades": {"c": 1, "d": 0}})["learned"]
    assert ask(service, {"id": 1, "grades": {"a": 1, "b": 0}})["learned"]
    windowed = RankingService(PerceptronRanker(), plan=FeedbackPlan(window=10, events={"click": 1}))
    for docs in (FIRST, SECOND):
        ask(windowed, {"id": 1, "docs": docs, "ts": 0})
    for doc in ("a", "d"):
        assert ask(windowed, {"id": 1, "event": "click", "doc": doc, "ts": 1})["accepted"]
    windowed.advance(20.0)
    assert windowed.counts()["learned"] == 2
    assert "error" in ask(service, {"id": 2, "grades": {"a": 1}})


def test_the_same_documents_again_are_the_same_page():
    service = RankingService(PerceptronRanker())
    for _ in range(2):
        ask(service, {"id": 1, "docs": FIRST})
    assert service.n_waiting == 1
    for page in range(30):
        ask(service, {"id": 1, "docs": {f"{page}": {"x": 1.0}, "other": {"x": 2.0}}})
    assert service.n_waiting == 10


def test_pages_are_kept_over_a_restart_and_forgotten_together(tmp_path):
    service = RankingService(SwapRanker(PlackettLuce(k=2)))
    with_journal = DurableService(service, tmp_path / "state")
    for docs in (FIRST, SECOND):
        reply = service.handle(json.dumps({"id": "q1", "docs": docs}).encode())
        with_journal.append(reply.outcomes, sync=True)
    with_journal.close()
    again = DurableService(RankingService(SwapRanker(PlackettLuce(k=2))), tmp_path / "state")
    assert again.service.n_waiting == 2
    reply = again.service.handle(b'{"id": "q1", "clicks": ["a"]}')
    assert reply.answer["learned"]
    again.append(reply.outcomes, sync=True)
    done = forget(again.service, Forget(ids=["q1"]))
    assert (len(done.queries), len(done.learned)) == (1, 1)
    again.close()
