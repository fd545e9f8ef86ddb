"""An odd value of one request refuses no other one: it is a missing value, counted, and told once."""

import asyncio
import json
import logging

import numpy as np
import pytest

from online_rank import AdditiveRanker, ClickCurves, CrossFeatures, DeclaredFeatures, History, PlackettLuce
from online_rank.base import ranker_of
from online_rank.base.schema import declared_state
from online_rank.query.levels import as_known
from online_rank.rankers.fixed import FixedRanker
from online_rank.serving import Challenge, RankingService, odd
from online_rank.serving.challenge import from_today
from online_rank.serving.durable import DurableService, read_service
from online_rank.serving.served import ServedModel
from online_rank.storage.files import to_bytes


def send(service, **fields):
    return service.handle(json.dumps(fields).encode())


def taught(service, n=40, seed=0, start=0):
    """Let a service learn queries of documents with a price and a brand."""
    rng = np.random.default_rng(seed)
    for i in range(start, start + n):
        docs = {f"d{j}": {"price": round(float(rng.random()), 3), "brand": "abc"[rng.integers(3)]} for j in range(5)}
        send(service, id=i, docs=docs)
        assert send(service, id=i, grades={name: int(d["price"] < 0.5) for name, d in docs.items()}).answer["learned"]
    return service


@pytest.mark.parametrize(
    ("odd", "as_if"),
    [
        ({"price": "9.99"}, {}),
        ({"price": "cheap", "brand": "a"}, {"brand": "a"}),
        ({"price": 0.2, "brand": 3}, {"price": 0.2, "brand": "3"}),
        ({"price": 0.2, "brand": 2.5}, {"price": 0.2, "brand": "2.5"}),
        ({"price": True}, {"price": 1.0}),
        ({"price": ["a", "b"]}, {}),
    ],
)
@pytest.mark.parametrize("form", ["docs", "columns"])
def test_an_odd_value_is_a_missing_one_or_a_level(odd, as_if, form):
    service = taught(RankingService(AdditiveRanker()))

    def asked(first):
        docs = {"x": first, "y": {"price": 0.7, "brand": "b"}, "z": {"price": 0.1, "brand": "c"}}
        if form == "docs":
            return {"docs": docs}
        rows = [[features.get(name) for name in ("price", "brand")] for features in docs.values()]
        return {"features": ["price", "brand"], "documents": [*docs], "rows": rows}

    found = send(service, id="q", **asked(odd), greedy=True).answer
    assert "error" not in found
    assert found == send(service, id="q", **asked(as_if), greedy=True).answer
    assert sum(service.odd.values()) >= 1


def test_one_request_teaches_no_kind_for_which_others_are_refused():
    """After 200 good queries one with a text made each later price an error of 400, rankings included."""
    service = taught(RankingService(AdditiveRanker()))
    odd = {"a": {"price": "9.99", "brand": "a"}, "b": {"price": "1.00", "brand": "b"}}
    assert "ranking" in send(service, id="odd", docs=odd).answer
    assert send(service, id="odd", grades={"a": 0, "b": 1}).answer["learned"]
    assert send(service, id="taught", docs=odd, grades={"a": 0, "b": 1}).answer["learned"]
    assert "explanation" in send(service, id="why", docs=odd, explain=["a", "b"]).answer
    taught(service, 5, seed=1, start=100)


def test_what_came_first_does_not_refuse_what_comes_later():
    service = RankingService(AdditiveRanker())
    first = {"a": {"price": "9.99"}, "b": {"price": "1.00"}}
    assert send(service, id="first", docs=first, grades={"a": 0, "b": 1}).answer["learned"]
    taught(service, 10)


def test_a_query_is_the_same_before_and_after_a_crash(tmp_path):
    durable = DurableService(taught(RankingService(AdditiveRanker())), None)
    durable = DurableService(RankingService(AdditiveRanker()), tmp_path, 1000)

    def step(**fields):
        reply = send(durable.service, **fields)
        assert "error" not in reply.answer
        durable.append(reply.outcomes, sync=True)

    for i in range(6):
        step(id=i, docs={"a": {"price": 1.0 + i}, "b": {"price": 2.0}})
        step(id=f"odd {i}", docs={"a": {"price": "9.99"}, "b": {"price": 2.0}})
        step(id=i, grades={"a": 1, "b": 0})
    durable.close()
    durable = DurableService(RankingService(AdditiveRanker()), tmp_path, 1000)
    for i in range(6):
        step(id=f"odd {i}", grades={"a": 0, "b": 1})
    learned = to_bytes(durable.service.model)
    durable.close()
    assert to_bytes(read_service(tmp_path).model) == learned


def test_declared_columns_refuse_all_the_same():
    service = RankingService(DeclaredFeatures(["price"], texts=True) | AdditiveRanker())
    for i in range(5):
        send(service, id=i, docs={"a": {"price": 1.0}, "b": {"price": 2.0}}, grades={"a": 1, "b": 0})
    assert "error" in send(service, id="q", docs={"a": {"price": "9.99"}, "b": {"price": 2.0}}).answer
    assert "error" in send(service, id="q", docs={"a": {"prise": 1.0}, "b": {"price": 2.0}}).answer


def test_with_a_challenger_the_model_that_knows_a_feature_decides():
    service = RankingService(AdditiveRanker(), challenge=Challenge(AdditiveRanker()))
    taught(service)
    odd = {"a": {"price": "9.99", "brand": 1}, "b": {"price": 0.3, "brand": "b"}}
    assert "ranking" in send(service, id="odd", docs=odd).answer
    assert send(service, id="odd", grades={"a": 0, "b": 1}).answer["learned"]
    assert service.stats()["challenger"]["failed"] == 0


def clicked(service, n, rng, start=0, **first):
    """Send rankings with clicks; `first` are the features that the documents of the first query have in place of theirs."""
    for i in range(start, start + n):
        docs = {f"d{j}": {"today": float(rng.random()), "price": float(rng.random())} for j in range(5)}
        if i == start:
            docs = {name: features | first for name, features in docs.items()}
        shown = send(service, id=i, docs=docs).answer["ranking"]
        assert send(service, id=i, clicks=shown[:1]).answer["learned"]


@pytest.mark.parametrize("price", ["9.99", "cheap", True])
def test_one_odd_value_does_not_end_what_the_model_next_to_the_ranking_of_today_learns(price):
    """The first query had a text: 91 of 100 later lists taught nothing, votes ended, and queries without `today` got 400."""
    today, challenge = from_today({"today": 1.0}, ClickCurves({"today": 1.0}), keep=0.9, k=3)
    service = RankingService(today, challenge=challenge)
    clicked(service, 60, np.random.default_rng(0), price=price)
    assert service.challenge.n_failed == 0
    assert service.challenge.n_drafted > 0
    docs = {"a": {"price": 0.5, "today": 1.0}, "b": {"price": 0.7}, "c": {"price": 0.2}}
    assert send(service, id="q", docs=docs).answer["missing"] == ["today"]


def test_what_a_challenger_cannot_read_refuses_neither_rankings_nor_feedback():
    """Each graded query got 400, and with clicks each ranking, since the challenger declares its columns."""
    only = DeclaredFeatures(["price"]) | AdditiveRanker()
    for i in range(3):
        only.learn_one({"a": {"price": 1.0 + i}, "b": {"price": 2.0}}, {"a": 1, "b": 0})
    service = taught(RankingService(AdditiveRanker(), challenge=Challenge(only, promote_at=0.95)), 5)
    figures = service.stats()["challenger"]
    assert (figures["n"], figures["failed"]) == (4, 10)  # One query has equal grades.
    assert figures["difference"] < 0.0
    policy = PlackettLuce(k=3)
    declared = DeclaredFeatures(["today"]) | FixedRanker({"today": 1.0}, policy=policy)
    service = RankingService(FixedRanker({"today": 1.0}, policy=policy), challenge=Challenge(declared, promote_at=0.95))
    clicked(service, 10, np.random.default_rng(0))
    assert service.challenge.n_failed > 0


@pytest.mark.parametrize(
    ("name", "first"),
    [("price", "9.99"), ("price", True), ("price", ["a"]), ("price", [1.0, 2.0]), ("brand", 3), ("brand", [1.0, 2.0])],
)
def test_the_first_value_does_not_decide_the_kind_of_a_feature_for_ever(name, first):
    """One query with a text made prices a category for all that came later; one with a number ended what brands taught."""

    def after(first):
        service = RankingService(AdditiveRanker())
        if first is not None:
            docs = {x: {name: first} for x in "ab"}
            assert send(service, id="first", docs=docs, grades={"a": 0, "b": 0}).answer["learned"]
        return service

    def kinds(service):
        service = taught(service, 40)
        return {own: service.model.feature_kinds.get(own) for own in ("price", "brand")}, service

    found, service = kinds(after(first))
    assert found == kinds(after(None))[0] == {"price": "number", "brand": "category"}
    n_odd = service.n_odd
    taught(service, 5, start=50)
    assert (service.n_odd, declared_state(service).contested) == (n_odd, {})


@pytest.mark.parametrize("step", [CrossFeatures("user"), History("brand")])
def test_what_steps_made_of_a_feature_begins_again_with_it(step):
    service = RankingService(step | AdditiveRanker())
    for i in range(40):
        docs = {x: {"price": "9.99" if i == 0 else 1.0 + i, "brand": "b"} for x in "ab"}
        context = {"context": {"user": "u"}} if isinstance(step, CrossFeatures) else {}
        assert send(service, id=i, docs=docs, grades={"a": 1, "b": 0}, **context).answer.get("learned"), i
    assert "price" in ranker_of(service.model).feature_names


def sparse(service, i):
    """Let a service learn a query with 600 names, of which each document has 30."""
    docs = {f"d{j}": {f"w{i} {j} {k}": 1.0 for k in range(30)} for j in range(20)}
    grades = dict.fromkeys(docs, 0) | {"d0": 1}
    assert send(service, id=f"sparse {i}", docs=docs, grades=grades).answer["learned"]


@pytest.mark.parametrize("challenge", [None, Challenge(AdditiveRanker())])
def test_one_sparse_query_does_not_decide_that_a_service_takes_numbers_alone(challenge):
    """If the first learned query had many names, each later query with a text was refused, rankings included."""
    service = RankingService(AdditiveRanker(), challenge=challenge)
    sparse(service, 0)
    taught(service, 30)
    assert service.model.feature_kinds == {"price": "number", "brand": "category"}
    assert declared_state(service).contested == {}
    if challenge is not None:
        assert service.challenge.model.feature_kinds == service.model.feature_kinds


def test_texts_of_one_client_do_not_end_what_a_sparse_service_has_learned():
    service = RankingService(AdditiveRanker())
    for i in range(20):
        sparse(service, i)
    taught(service, 10)
    assert not service.model.has_curves
    docs = {"a": {"price": "9.99", "w1 0 0": 1.0}, "b": {"w1 0 1": 1.0}}
    assert "ranking" in send(service, id="q", docs=docs).answer


def test_few_odd_values_take_no_kind_away():
    service = taught(RankingService(AdditiveRanker()), 60)
    for i in range(30):
        odd = {"a": {"price": "9.99", "brand": 1}, "b": {"price": "1.00", "brand": 2}}
        assert send(service, id=f"odd {i}", docs=odd, grades={"a": 0, "b": 1}).answer["learned"]
        taught(service, 1, seed=i, start=100 + i)
    assert service.model.feature_kinds == {"price": "number", "brand": "category"}
    for _, own, against in declared_state(service).contested.values():
        assert own > against


def test_the_model_next_to_the_ranking_of_today_begins_again_with_a_feature_too():
    today, challenge = from_today({"today": 1.0}, ClickCurves({"today": 1.0}), keep=0.9, k=3)
    service = RankingService(today, challenge=challenge)
    clicked(service, 60, np.random.default_rng(0), price="9.99")
    assert "price" in service.challenge.model.feature_names


def test_evidence_about_kinds_is_the_same_after_a_crash(tmp_path):
    durable = DurableService(RankingService(AdditiveRanker()), tmp_path, 1000)

    def teach(i, price):
        docs = {"a": {"price": price, "brand": "x"}, "b": {"price": price, "brand": "y"}}
        reply = send(durable.service, id=i, docs=docs, grades={"a": 1, "b": 0})
        assert reply.answer["learned"]
        durable.append(reply.outcomes, sync=True)

    for i in range(9):
        teach(i, "9.99" if i < 2 else float(i))
        learned, contested = to_bytes(durable.service.model), declared_state(durable.service).contested
        durable.close()
        durable = DurableService(RankingService(AdditiveRanker()), tmp_path, 1000)
        assert (to_bytes(durable.service.model), declared_state(durable.service).contested) == (learned, contested)
    assert durable.service.model.feature_kinds["price"] == "number"
    durable.close()


def test_a_counter_and_one_warning_say_so(caplog):
    model = ServedModel(DurableService(taught(RankingService(AdditiveRanker()))))

    async def traffic():
        for i in range(3):
            docs = {"a": {"price": "cheap", "brand": "a"}, "b": {"price": 0.2, "brand": "b"}}
            assert (await model.answer(json.dumps({"id": f"n{i}", "docs": docs}).encode()))[0] == 200

    odd._LOGGED.clear()
    with caplog.at_level(logging.WARNING, "online_rank.serving"):
        asyncio.run(traffic())
    assert len([record for record in caplog.records if "of another kind" in record.getMessage()]) == 1
    assert model.figures()["odd"] == {"price": 3}
    assert model.counts()["odd_values"] == 3


@pytest.mark.parametrize(
    ("value", "kind", "read"),
    [(2.5, "number", 2.5), ("a", "number", None), ("9.99", "number", None), ("", "number", ""), (True, "number", 1.0),
     ("true", "number", 1.0), (["a"], "number", None), (None, "number", None), ("2026-11-28", "number", "2026-11-28"),
     (3, "category", "3"), (1e20, "category", "1e+20"), (0.1, "category", "0.1"), ("a", "category", "a"),
     (True, "category", True), (["a"], "category", ["a"])],
)  # fmt: skip
def test_a_value_as_the_kind_that_is_known(value, kind, read):
    assert as_known(value, kind) == read
