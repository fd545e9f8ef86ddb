"""A challenger on live traffic: compared, promoted when it is better, and still there after a restart."""

import asyncio
import json

import numpy as np
import pytest

from online_rank import HashedFeatures, PerceptronRanker, PlackettLuce, StreamScaler, SwapRanker
from online_rank.intervals import PairedLosses
from online_rank.intervals.losses import served_loss
from online_rank.measures.learned import measure
from online_rank.rankers.fixed import FixedRanker
from online_rank.serving import Challenge, FeedbackPlan, RankingService, windows
from online_rank.serving.durable import DurableService
from online_rank.serving.served import ServedModel
from online_rank.storage.files import to_bytes


def queries(n, seed=0):
    rng = np.random.default_rng(seed)
    for i in range(n):
        x = rng.normal(size=(5, 2)).round(3)
        docs = {f"d{j}": {"good": a, "bad": b} for j, (a, b) in enumerate(x.tolist())}
        yield i, docs, {f"d{j}": int(a > 0.5) for j, a in enumerate(x[:, 0].tolist())}


def send(service, **fields):
    return service.handle(json.dumps(fields).encode())


def against(challenger, serving=None, **options):
    return RankingService(serving or FixedRanker({"bad": 1.0}), challenge=Challenge(challenger, **options))


@pytest.mark.parametrize("challenger", [PerceptronRanker, lambda: StreamScaler() | PerceptronRanker()])
def test_one_may_take_documents_as_they_are_and_the_other_numbers(challenger):
    """An AttributeError came out of `handle`, and ended `stream`."""
    service = against(challenger(), HashedFeatures(6) | PerceptronRanker())
    for i, docs, grades in queries(3):
        assert "ranking" in send(service, id=i, docs=docs).answer
        assert send(service, id=i, grades=grades).answer["learned"]
    alone = challenger()
    for _, docs, grades in queries(3):
        alone.learn_one(docs, grades)
    assert to_bytes(service.challenge.model) == to_bytes(alone)
    assert service.challenge.n_failed == 0
    n, mean = (service.stats()["challenger"][name] for name in ("n", "difference"))
    assert send(service, id="text", docs={"a": {"good": "word"}, "b": {}}, grades={"a": 1, "b": 0}).answer["learned"]
    figures = service.stats()["challenger"]
    # It cannot rank this query, which counts as a loss of 1, and cannot learn it.
    assert (figures["n"], figures["failed"]) == (n + 1, 2)
    assert figures["difference"] < mean


def test_both_rank_a_query_just_before_they_learn_it():
    a, b, target = PerceptronRanker(), PerceptronRanker("ap"), measure("ndcg@10")
    with pytest.raises(ValueError, match="learn different measures"):
        against(b, a)
    b = PerceptronRanker(half_life=0)
    service = RankingService(PerceptronRanker(), challenge=Challenge(PerceptronRanker(half_life=0)))
    paired = PairedLosses(["serving", "challenger"])
    for i, docs, grades in queries(40):
        send(service, id=i, docs=docs)
        if len({*grades.values()}) > 1:
            losses = [served_loss(target, model.predict_one(docs), grades) for model in (a, b)]
            paired.update(dict(zip(paired.names, losses, strict=True)))
        for model in (a, b):
            model.learn_one(docs, grades)
        send(service, id=i, grades=grades)
    figures = service.stats()["challenger"]
    difference = paired.difference("challenger", "serving")
    assert (figures["n"], figures["difference"]) == (difference.n, difference.mean)
    assert figures["interval"] == [difference.lower, difference.upper]
    assert to_bytes(service.model) == to_bytes(a)
    assert to_bytes(service.challenge.model) == to_bytes(b)


def test_a_better_one_takes_the_place_of_the_other_and_says_so():
    service = against(FixedRanker({"good": 1.0}), promote_at=0.95)
    promoted = []
    for i, docs, grades in queries(300):
        send(service, id=i, docs=docs)
        reply = send(service, id=i, grades=grades)
        if reply.promoted:
            promoted.append((i, reply.promoted))
    assert len(promoted) == 1
    assert promoted[0][1].startswith("the challenger is better than the serving model: +")
    assert service.challenge is None
    assert (
        service.model.weights_by_name if hasattr(service.model, "weights_by_name") else service.model.weights == {"good": 1.0}
    )


@pytest.mark.parametrize("options", [{}, {"promote_at": 0.95}])
def test_a_worse_one_never_does(options):
    service = against(FixedRanker({"bad": 1.0}), FixedRanker({"good": 1.0}), **options)
    for i, docs, grades in queries(200):
        send(service, id=i, docs=docs)
        assert not send(service, id=i, grades=grades).promoted
    assert service.challenge is not None


def test_a_better_one_stays_where_nothing_is_promoted():
    service = against(FixedRanker({"good": 1.0}))
    for i, docs, grades in queries(200):
        send(service, id=i, docs=docs, grades=grades)
    assert service.stats()["challenger"]["interval"][0] > 0.0
    assert service.challenge is not None


def test_a_challenger_that_cannot_learn_disturbs_nobody(monkeypatch):
    service = against(PerceptronRanker(), PerceptronRanker())

    def fail(*_, **__):
        raise ValueError("no")

    monkeypatch.setattr(service.challenge.model, "learn_one", fail)
    for i, docs, grades in queries(5):
        send(service, id=i, docs=docs)
        assert send(service, id=i, grades=grades).answer["learned"]
    assert service.stats()["challenger"]["failed"] == 5


def test_on_clicks_lists_are_drafted_and_clicks_are_votes():
    """A user who clicks what is good prefers the challenger, which ranks by it; only drafted lists count."""
    good, bad = SwapRanker(), SwapRanker()
    for sign, model in ((1.0, good), (-1.0, bad)):
        for _ in range(20):
            docs = {"a": {"good": 1.0}, "b": {"good": -1.0}}
            shown = model.show_one(docs)
            model.learn_one(docs, shown.clicked(["a" if sign > 0 else "b"]))
    service = RankingService(bad, challenge=Challenge(good, promote_at=0.95, seed=3))
    for i, docs, _ in queries(400):
        answer = send(service, id=i, docs={name: {"good": each["good"]} for name, each in docs.items()}).answer
        best = max(answer["ranking"][: answer["shown"]], key=lambda name: docs[name]["good"])
        before = to_bytes(service.model)
        # Query 0, 2, ... was drafted, and neither learns from it; from the others they would learn to be alike.
        reply = send(service, id=i, clicks=[best] if i % 2 == 0 else [])
        assert i % 2 or reply.promoted or to_bytes(service.model) == before
        if reply.promoted:
            break
    else:
        pytest.fail("it was never promoted")
    assert i < 399
    assert service.challenge is None


@pytest.mark.parametrize("window", [None, 5])
def test_votes_are_answered_by_a_server_too(window):
    """Its monitor took drafted lists for drawn ones, to learn from what users look at: each vote was answered with 500."""
    plan = None if window is None else FeedbackPlan(window=window)
    service = RankingService(SwapRanker(), challenge=Challenge(SwapRanker()), plan=plan)

    async def traffic():
        model = ServedModel(DurableService(service))
        for i, docs, _ in queries(12):
            _, answer = await model.answer(json.dumps({"id": i, "docs": docs, "ts": i}).encode())
            clicks = {"id": i, "clicks": answer["ranking"][:1], "ts": i}
            assert (await model.answer(json.dumps(clicks).encode()))[0] == 200
        return model.figures()["served"]["n"], model.snapshot()["bias"]

    n_learned, bias = asyncio.run(traffic())
    assert n_learned == service.counts()["learned"] > 5
    assert service.challenge.n_drafted > 3
    assert bias is not None


@pytest.mark.first(1)
@pytest.mark.parametrize("kind", ["grades", "clicks", "windows"])
def test_it_survives_crashes_and_a_restart_continues_with_the_winner(tmp_path, kind):
    def make():
        models = [SwapRanker(), SwapRanker()] if kind == "clicks" else [FixedRanker({"bad": 1.0}), FixedRanker({"good": 1.0})]
        plan = FeedbackPlan(window=10) if kind == "windows" else None
        return RankingService(models[0], origin="A", plan=plan, challenge=Challenge(models[1], origin="B", promote_at=0.95))

    whole, state = make(), DurableService(make(), tmp_path / "state", 30)
    for i, docs, grades in queries(120):
        answer = whole.handle(json.dumps({"id": i, "docs": docs, "ts": i}).encode()).answer
        feedback = {"clicks": answer["ranking"][:1]} if kind == "clicks" else {"grades": grades}
        for fields in ({"id": i, "docs": docs, "ts": i}, {"id": i, "ts": i, **feedback}):
            line = json.dumps(fields).encode()
            reply = state.service.handle(line)
            if "docs" not in fields:
                assert reply.answer == whole.handle(line).answer
            state.append(reply.outcomes, sync=reply.learned)
            state.between_commits()
        if i % 17 == 16:
            state.close()
            state = DurableService(make(), tmp_path / "state", 30)
            assert state.service.stats() == whole.stats()
            assert to_bytes(state.service.model) == to_bytes(whole.model)
    assert (whole.challenge is None) == (kind != "clicks")
    assert (state.service.challenge is None) == (kind != "clicks")
    state.close()


def test_votes_on_a_drafted_list_come_too_late_after_the_promotion():
    service = RankingService(SwapRanker(PlackettLuce(2)), challenge=Challenge(SwapRanker(PlackettLuce(2)), promote_at=0.95))
    drafted = None
    for i in range(4):
        service.handle(b'{"id": %d, "docs": {"a": {"x": 1}, "b": {"x": 2}}}' % i)
        drawn = json.loads(service._pending.get(i)[2])
        drafted = i if drawn.get("teams") else drafted
    windows.promote(service)
    learned = service.stats()["learned"]
    answer = service.handle(b'{"id": %d, "clicks": ["a"]}' % drafted).answer
    assert answer == {"id": drafted, "learned": False, "late": True}
    assert (service.stats()["learned"], service.stats()["late"], service.n_waiting) == (learned, 1, 3)
    assert service.handle(b'{"id": %d, "clicks": ["a"]}' % drafted).answer["duplicate"]


def test_another_serving_model_is_compared_from_the_beginning():
    """Counts against the previous model promoted the challenger over a model that it had lost to."""
    service = against(PerceptronRanker(), promote_at=0.95)
    for i, docs, grades in queries(20):
        send(service, id=i, docs=docs)
        send(service, id=i, grades=grades)
    learned = to_bytes(service.challenge.model)
    assert service.challenge.difference().n > 0
    service.exchange_model(FixedRanker({"good": 1.0}), to_bytes(FixedRanker({"good": 1.0})))
    assert service.challenge.difference().n == 0
    assert to_bytes(service.challenge.model) == learned
    with pytest.raises(ValueError, match="learn different measures"):
        service.replace_model(PerceptronRanker("ap"), None)


@pytest.mark.parametrize("of", ["serving", "challenger"])
def test_votes_on_a_list_that_others_drafted_do_not_count(tmp_path, of):
    """Votes on lists of the model before counted for, or against, the one in its place."""

    def make():
        return SwapRanker(PlackettLuce(2))

    durable = DurableService(RankingService(make(), challenge=Challenge(make(), origin="first")), tmp_path)
    outcomes = [durable.service.handle(b'{"id": %d, "docs": {"a": {"x": 1}, "b": {"x": 2}}}' % i).outcome for i in range(2)]
    durable.append(outcomes, True)
    durable.save()
    if of == "serving":
        durable.service.exchange_model(make(), to_bytes(make()))
    else:
        durable.close()
        given = RankingService(make(), challenge=Challenge(make(), origin="second"))
        durable = DurableService(given, tmp_path)
    service = durable.service
    assert service.challenge.origin == ("first" if of == "serving" else "second")
    drafted = next(i for i in range(2) if json.loads(service._pending.get(i)[2]).get("teams"))
    assert service.handle(b'{"id": %d, "clicks": ["a"]}' % drafted).answer["late"]
    assert service.challenge.n_drafted == 0
    for i in (10, 11):
        service.handle(b'{"id": %d, "docs": {"a": {"x": 1}, "b": {"x": 2}}}' % i)
        service.handle(b'{"id": %d, "clicks": ["a"]}' % i)
    assert service.challenge.n_drafted == 1
    durable.close()


def test_a_query_that_is_not_learned_is_not_compared(monkeypatch):
    service = against(PerceptronRanker(), PerceptronRanker())
    (i, docs, grades), *_ = queries(1)
    send(service, id=i, docs=docs)
    before = service.challenge.sums.tolist()
    with monkeypatch.context() as patched:
        patched.setattr(service.model, "_learn_block", lambda *_, **__: (_ for _ in ()).throw(MemoryError))
        assert "error" in send(service, id=i, grades=grades).answer
    assert service.challenge.sums.tolist() == before
    assert send(service, id=i, grades=grades).answer["learned"]
    assert service.challenge.sums.tolist() != before


class Unsure(SwapRanker):
    """A ranker that draws at random, without using what it learned."""

    def _confidence(self):
        return 0.0


@pytest.mark.slow
def test_a_challenger_is_compared_by_the_lists_that_it_would_show():
    # Its ranking is right, and its draws are random: such a model was promoted, and then showed these.
    right, unsure = (kind.from_weights([1.0], policy=PlackettLuce(k=4)) for kind in (SwapRanker, Unsure))
    docs = {"a": {"1": 4.0}, "b": {"1": 3.0}, "c": {"1": 2.0}, "d": {"1": 1.0}}
    assert unsure.rank_one([[4.0], [3.0], [2.0], [1.0]]) == [0, 1, 2, 3]
    service = RankingService(right, challenge=Challenge(unsure, promote_at=0.95))
    for number in range(400):
        answer = send(service, id=number, docs=docs).answer
        send(service, id=number, clicks=["a"] if answer["ranking"][0] == "a" else [])
    # The loss of the serving model minus the loss of the challenger.
    difference = service.challenge.difference()
    assert (difference.n, unsure.n_shown) == (200, 0)
    assert difference.upper < 0.0
