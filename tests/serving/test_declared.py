"""Declared inputs that a query lacks: it is answered in a sensible order, and the answer names what is missing."""

import asyncio
import json
import logging

import pytest

from online_rank import AdditiveRanker, ClickRidge, CrossFeatures, History, StreamQuantileMap, Tastes
from online_rank.feedback import Impression
from online_rank.rankers.fixed import FixedRanker
from online_rank.serving import RankingService, windows
from online_rank.serving.challenge import from_today
from online_rank.serving.durable import DurableService
from online_rank.serving.served import ServedModel


def send(service, **fields):
    return service.handle(json.dumps(fields).encode())


def beginning(k=3):
    """A service of today's ranking whose waiting model has learned that `good` is good."""
    today, challenge = from_today({"today": 1.0}, StreamQuantileMap() | ClickRidge({"today": 1.0}), keep=0.9, k=k)
    model = challenge.model
    for i in range(60):
        docs = {f"d{j}": {"today": 0.0, "good": float((i + j) % 5)} for j in range(5)}
        shown = model.show_one(docs)
        model.learn_one(docs, shown.clicked([name for name in shown.order if docs[name]["good"] >= 3.0]))
    return RankingService(today, challenge=challenge)


@pytest.mark.parametrize("form", ["docs", "null", "columns"])
def test_documents_without_the_ranking_of_today_come_after_the_others_by_the_waiting_model(form):
    service = beginning()
    docs = {"a": {"good": 1.0}, "b": {"today": 1.0, "good": 0.0}, "c": {"good": 4.0}, "d": {"today": 2.0, "good": 0.0}}
    if form == "null":
        docs = {name: {"today": None} | features for name, features in docs.items()}
    asked = {"docs": docs}
    if form == "columns":
        rows = [[docs[name].get("today"), docs[name]["good"]] for name in docs]
        asked = {"features": ["today", "good"], "documents": [*docs], "rows": rows}
    answer = send(service, id=1, **asked, greedy=True).answer
    assert answer["ranking"] == ["d", "b", "c", "a"]
    assert answer["missing"] == ["today"]
    answer = send(service, id=1, **asked).answer
    assert answer["missing"] == ["today"]
    assert answer["scores"] == sorted(answer["scores"], reverse=True) or answer["shown"] == 3


def test_if_all_documents_lack_it_the_waiting_model_ranks_and_the_list_is_no_evidence():
    """Forty of forty documents stood in the order of arrival."""
    service = beginning()
    docs = {f"d{j}": {"good": float(j % 5)} for j in range(40)}
    answer = send(service, id="q", docs=docs, greedy=True).answer
    assert [docs[name]["good"] for name in answer["ranking"]] == sorted((d["good"] for d in docs.values()), reverse=True)
    for i in range(60):
        reply = send(service, id=i, docs=docs)
        drawn = Impression.from_dict(json.loads(reply.outcome.waiting[-1]))
        assert drawn.teams is None
        assert send(service, id=i, clicks=reply.answer["ranking"][:1]).answer["learned"]
    assert (service.challenge.n_drafted, service.challenge.n_asked) == (0, 0)


def test_after_a_take_over_the_model_ranks_and_a_query_without_today_is_no_evidence():
    service = beginning()
    windows.promote(service)
    assert isinstance(service.challenge.model, FixedRanker)
    docs = {f"d{j}": {"good": float(j)} for j in range(5)}
    for i in range(60):
        answer = send(service, id=i, docs=docs).answer
        assert answer["missing"] == ["today"]
        assert not json.loads(service._pending.get(i)[2]).get("teams")


@pytest.mark.parametrize("context", [{}, {"context": {}}, {"context": {"other": 1}}, {"context": {"user": None}}])
def test_a_missing_context_or_key_of_a_history_is_a_missing_value(context):
    service = RankingService(CrossFeatures("user") | History(("brand", "shop")) | AdditiveRanker())
    docs = {"a": {"x": 1.0, "brand": "k"}, "b": {"x": 2.0, "brand": "l"}}
    for i in range(20):
        send(service, id=i, docs=docs, context={"user": "u", "shop": "s"})
        assert send(service, id=i, grades={"a": 0, "b": 1}).answer["learned"]
    answer = send(service, id="q", docs=docs, **context).answer
    assert answer["ranking"] == ["b", "a"]
    assert answer["missing"] == ["shop", "user"]
    docs["a"].pop("brand")
    answer = send(service, id="q", docs=docs, context={"user": "u", "shop": "s"}).answer
    assert answer["missing"] == ["brand"]
    assert "missing" not in send(service, id="r", docs={"b": docs["b"]}, context={"user": "u", "shop": "s"}).answer


@pytest.mark.parametrize("context", [{}, {"context": {"user": None}}])
def test_who_asks_is_an_input_that_tastes_declare(context):
    service = RankingService(Tastes("user") | AdditiveRanker(trees=0))
    docs = {"a": {"embedding": [1.0, 0.0]}, "b": {"embedding": [0.0, 1.0]}}
    assert "missing" not in send(service, id="p", docs=docs, context={"user": "u"}).answer
    assert send(service, id="q", docs=docs, **context).answer["missing"] == ["user"]


def test_a_counter_the_log_and_prometheus_say_so(caplog):
    model = ServedModel(DurableService(beginning()))

    async def traffic():
        for i in range(3):
            await model.answer(json.dumps({"id": i, "docs": {"a": {"good": 1.0}, "b": {"good": 2.0}}}).encode())

    with caplog.at_level(logging.WARNING, "online_rank.serving"):
        asyncio.run(traffic())
    told = [record.getMessage() for record in caplog.records if "declares" in record.getMessage()]
    assert told == ["queries lack inputs that the model declares, and are ranked without: 'today' (1) so far"]
    assert model.counts()["missing_declared"] == 3
    assert model.figures()["inputs"]["declared"] == {"today": 3}
