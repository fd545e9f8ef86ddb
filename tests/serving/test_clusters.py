"""Dependent evidence counts once: what a session or a user gives again in a day decides nothing."""

import asyncio
import hashlib
import json

import numpy as np
import pytest

from benchmarks.promises import promise
from online_rank import PlackettLuce
from online_rank.intervals import PairedLosses
from online_rank.rankers.fixed import FixedRanker
from online_rank.serving import Challenge, FeedbackPlan, RankingService
from online_rank.serving.durable import DurableService
from online_rank.serving.served import ServedModel

DAY = 86_400.0


def send(service, **fields):
    return service.handle(json.dumps(fields).encode())


def drafting(plan=None):
    """A service whose challenger puts the worst document first; every other list is drafted."""
    good, bad = (FixedRanker({"good": sign}, policy=PlackettLuce(k=3, keep=0.99)) for sign in (1.0, -1.0))
    return RankingService(good, challenge=Challenge(bad, promote_at=0.95), plan=plan, wait=1e9)


DOCS = {f"d{j}": {"good": float(j)} for j in range(3)}


def vote(service, i, at=1.7e9, **whose):
    send(service, id=i, docs=DOCS, ts=at)
    return send(service, id=i, clicks=["d0"], ts=at, **whose)


@pytest.mark.parametrize("whose", [{"session": "s"}, {"user": "u"}, {"user": "u", "session": "s"}])
def test_one_session_that_clicks_the_worst_document_does_not_promote_the_challenger(whose):
    """After 23 clicks of one session, none of them limited, the worse challenger served."""
    service = drafting()
    for i in range(60):
        reply = vote(service, i, **whose)
        assert reply.answer["learned"]
        assert "assumed" not in reply.answer
        assert not reply.promoted
    figures = service.stats()["challenger"]
    assert (figures["n"], figures["repeated"], figures["assumed"]) == (1, 29, 0)


def test_a_user_counts_once_in_every_session_and_a_session_for_every_user():
    service = drafting()
    for i in range(20):
        vote(service, i, user="u", session=f"s{i}")
    assert service.stats()["challenger"]["n"] == 1


def test_each_day_has_a_share_and_a_day_that_is_over_has_none_left(monkeypatch):
    service = drafting()
    for day in (0, 1, 2, 1):
        for i in range(4):
            vote(service, 10 * day + i, 1.7e9 + day * DAY - (1e-3 if day == 1 else 0), user="u")
    assert service.stats()["challenger"]["n"] == 3


def test_without_a_name_each_list_counts_and_the_answer_says_that_this_is_assumed():
    service = drafting()
    answers = [vote(service, i).answer for i in range(6)]
    assert [("assumed" in answer) for answer in answers] == [True, False] * 3
    assert service.stats()["challenger"]["assumed"] == service.stats()["challenger"]["n"] == 3


@pytest.mark.parametrize("how", ["grades", "teach"])
def test_grades_of_one_user_count_once_in_a_comparison(how):
    service = RankingService(FixedRanker({"good": 1.0}), challenge=Challenge(FixedRanker({"good": -1.0}), promote_at=0.95))
    grades = {"d0": 2, "d1": 1, "d2": 0}
    for i in range(40):
        if how == "grades":
            send(service, id=i, docs=DOCS)
            reply = send(service, id=i, grades=grades, user="u")
        else:
            reply = send(service, id=i, docs=DOCS, grades=grades, user="u")
        assert reply.answer["learned"]
        assert not reply.promoted
    assert service.stats()["challenger"]["n"] == 1
    assert "assumed" in send(service, id="x", docs=DOCS, grades=grades).answer


def test_feedback_in_windows_counts_by_who_gave_it_also_after_a_crash(tmp_path):
    def make():
        return drafting(FeedbackPlan(window=10))

    durable = DurableService(make(), tmp_path, 7)
    for i in range(12):
        at = 1.7e9 + 20 * i
        for fields in ({"docs": DOCS}, {"clicks": ["d0"], **({"user": "u"} if i < 6 else {})}):
            reply = durable.service.handle(json.dumps({"id": i, "ts": at, **fields}).encode())
            assert "error" not in reply.answer
            durable.append(reply.outcomes, sync=reply.learned)
        durable.between_commits()
        if i % 3 == 1:
            durable.close()
            durable = DurableService(make(), tmp_path, 7)
    figures = durable.service.stats()["challenger"]
    # Every other list was drafted: of the three that the user has, one counts.
    assert figures["repeated"] == 2
    assert figures["n"] == figures["assumed"] + 1 >= 3
    assert {*durable.service._shares} <= {11}
    durable.close()


@pytest.mark.slow
@pytest.mark.parametrize(("votes", "bots"), [(1, 0.0), (5, 0.0), (20, 0.0), (1, 0.1)])
def test_the_promise_holds_in_a_small_simulation(votes, bots):
    found = promise(20, votes, bots, n_votes=800)
    assert found.wrong <= 3
    assert found.n > 20


def test_counted_again_and_again_the_same_votes_decide_wrongly():
    assert promise(20, 20, 0.0, n_votes=800, once=False).wrong > 10


def test_a_service_counts_the_first_vote_of_each_user():
    service, paired, voted = drafting(), PairedLosses(("serving", "challenger")), set()
    rng = np.random.default_rng(0)
    for i in range(60):
        user = int(rng.integers(8))
        send(service, id=i, docs=DOCS, ts=1.7e9)
        is_drafted = bool(json.loads(service._pending.get(i)[2]).get("teams"))
        send(service, id=i, clicks=["d0"], ts=1.7e9, user=str(user))
        if is_drafted and user not in voted:
            voted.add(user)
            paired.update({"serving": 1.0, "challenger": 0.0})
    difference = paired.difference("challenger", "serving")
    assert (service.challenge.difference().n, len(voted)) == (difference.n, 8)
    assert service.challenge.difference().mean == difference.mean


def test_stats_say_who_was_limited_and_how_often():
    model = ServedModel(DurableService(drafting()))

    async def traffic():
        for i in range(110):
            for fields in ({"docs": DOCS}, {"clicks": ["d0"], "user": "u"}):
                await model.answer(json.dumps({"id": i, "ts": 1.7e9, **fields}).encode())

    asyncio.run(traffic())
    # By the digest that the service keeps in place of the name.
    who = hashlib.blake2b(b"user u", digest_size=12).hexdigest()
    assert model.figures()["limited_by"] == {who: 10}
    assert model.counts()["limited"] == 10
