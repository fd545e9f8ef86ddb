"""`History` in a service: the values that ranked a query wait with it until it is learned."""

import json

import numpy as np
import pytest

from online_rank import AdditiveRanker, History, PerceptronRanker, StreamScaler, read
from online_rank.base.schema import declared_state
from online_rank.preprocessing.history import AT
from online_rank.serving import Challenge, FeedbackPlan
from online_rank.serving.durable import DurableService
from online_rank.serving.forgetting import forget
from online_rank.serving.messages import Forget
from online_rank.serving.protocol import RankingService
from online_rank.serving.reading import remembered_in, request_of, text_of
from online_rank.serving.stored_times import latest_time, set_back
from online_rank.storage.files import to_bytes
from tests.serving.topics import of_failing_workers

NOW = 1_760_000_000


def model():
    return History("brand", half_life="1d") | History("document", half_life="2h") | AdditiveRanker()


def service(**settings):
    return RankingService(model(), **settings)


def ask(t, rng, user="ada"):
    docs = {f"d{i}": {"brand": f"b{rng.integers(3)}", "price": round(float(rng.random()), 3)} for i in rng.permutation(9)[:4]}
    return {"id": f"q{t}", "docs": docs, "ts": NOW + 600 * t}


def answer(handler, request):
    reply = handler.handle(json.dumps(request).encode())
    assert "error" not in reply.answer, reply.answer
    return reply


def rounds(n, delay, partial=True):
    """Requests in the order of time: rankings, and grades that come `delay` rankings later, some of them `partial`."""
    rng, asked = np.random.default_rng(0), []
    for t in range(n):
        asked.append(ask(t, rng))
        yield asked[-1]
        if t >= delay:
            before = asked[t - delay]
            grades = {i: int(rng.integers(0, 3)) for i in before["docs"]}
            skip = {"ungraded": ["skip", 0][t % 2]} if partial and t % 3 == 0 else {}
            if skip:
                grades.pop(next(iter(grades)))
            yield {"id": before["id"], "grades": grades, "ts": NOW + 600 * t + 60, **skip}


def test_a_query_is_learned_with_the_values_that_ranked_it(monkeypatch):
    ranked, learned = {}, {}
    served = service()
    own = AdditiveRanker._learn_block

    def watched(self, block, changes=None):
        learned[tuple(block.ids)] = [[x[f"brand 1d {part}"] for part in ("impressions", "rate", "age")] for x in block.X]
        return own(self, block, changes)

    monkeypatch.setattr(AdditiveRanker, "_learn_block", watched)
    for request in rounds(30, delay=4):
        reply = answer(served, request)
        if "docs" in request:
            values = remembered_in(declared_state(served).pending.get(request["id"])[0])
            label = next(name for name in values if "brand" in name)
            ranked[request["id"]] = dict(zip(request["docs"], np.reshape(values[label], (-1, 3)).tolist(), strict=True))
            assert values[AT] == [request["ts"]]
        else:
            documents, found = learned.popitem()
            assert found == [ranked[request["id"]][i] for i in documents]
            assert reply.answer["learned"]
    assert served.model["History"].n_keys == 3


@pytest.mark.first(1)
@pytest.mark.parametrize("window", [None, 1500.0])
def test_the_journal_reproduces_every_feature_to_the_bit(tmp_path, window):
    def make():
        return service(plan=None if window is None else FeedbackPlan(window=window, events={"click": 1}))

    def again():
        return DurableService(make(), tmp_path / "folder", every=1000)

    kept, once = again(), make()
    for n, request in enumerate(rounds(24, delay=2)):
        for handler in (kept.service, once):
            reply = answer(handler, request)
            if handler is kept.service:
                kept.append(reply.outcomes, sync=True)
        if n in (9, 30):  # The process is killed, and what waits is read again.
            kept.store.close()
            kept = again()
        assert to_bytes(kept.service.model) == to_bytes(once.model)
        if "docs" in request:
            texts = [declared_state(one).pending.get(request["id"])[0] for one in (kept.service, once)]
            assert texts[0] == texts[1]
    assert kept.service.stats()["learned"] == once.stats()["learned"] > 10
    kept.close()


def test_train_on_the_log_reproduces_the_values_of_the_service(tmp_path):
    served, rows, waited = service(), [], {}
    for request in rounds(30, delay=0, partial=False):
        answer(served, request)
        if "docs" in request:
            asked, waited[request["ts"]] = request, remembered_in(declared_state(served).pending.get(request["id"])[0])
            continue
        for name, grade in request["grades"].items():
            row = {"query": asked["id"], "document": name, "time": asked["ts"], **asked["docs"][name], "grade": grade}
            rows.append(json.dumps(row) + "\n")
    path = tmp_path / "log.jsonl"
    path.write_text("".join(rows))
    trained = model()
    for x, y in read(path, query="query", document="document", grade="grade", event_time="time", model=trained):
        kept = {}
        trained._transform_block(x._replace(remembered=kept))
        assert {AT: x.at.tolist(), **kept} == waited.pop(x.at[0])
        trained.learn_one(x, y)
    assert waited == {}
    assert [to_bytes(step) for step in [*trained.steps.values()][:2]] == [
        to_bytes(step) for step in [*served.model.steps.values()][:2]
    ]
    assert trained.predict_one(asked["docs"]) == served.model.predict_one(asked["docs"])


def test_places_belong_to_the_ranking_served():
    one = RankingService(History(half_life="1d", examination=(1.0, 0.5, 0.0)) | PerceptronRanker())
    shown = answer(one, {"id": 1, "docs": {i: {"x": float(k)} for k, i in enumerate("abc")}, "ts": NOW}).answer["ranking"]
    answer(one, {"id": 1, "grades": {"a": 0, "b": 1, "c": 2}})
    step = one.model["History"]
    found = step.transform_one({i: {} for i in shown}, at=float(NOW))
    assert [x["document 1d impressions"] for x in found.values()] == [1.0, 0.5, 0.0]
    assert declared_state(step).at == NOW  # when it was shown, not when it was learned


def test_a_challenger_has_other_values():
    rival = History("brand", half_life="3h") | AdditiveRanker()
    served = service(challenge=Challenge(rival))
    plain = service(challenge=Challenge(AdditiveRanker()))
    for request in rounds(12, delay=1):
        answer(served, request)
        answer(plain, request)
        if "docs" in request:
            assert (
                len(remembered_in(declared_state(served).pending.get(request["id"])[0])) == 4
            )  # the time, and three histories
    assert served.challenge.n_failed == plain.challenge.n_failed == 0
    assert served.challenge.model["History"].n_keys == 3
    assert to_bytes(served.model) == to_bytes(plain.model)


def test_a_service_without_it_keeps_requests_alone():
    one = RankingService(StreamScaler() | PerceptronRanker())
    request = json.dumps({"id": 1, "docs": {"a": {"x": 1}, "b": {"x": 2}}})
    answer(one, json.loads(request))
    assert remembered_in(declared_state(one).pending.get(1)[0]) is None
    assert declared_state(one).pending.get(1)[0] == request


@pytest.mark.parametrize("request_", [b'{"id": 1}', b"float32\n{}\n\x1e\x00\x01"])
def test_what_waits_stands_before_the_request(request_):
    kept = {AT: [1.5], "x\x1e": [0.1, -0.0]}
    text = text_of(request_, kept)
    assert (remembered_in(text), request_of(text)) == (kept, request_)
    assert (remembered_in(text_of(request_)), request_of(text_of(request_))) == (None, request_)
    with pytest.raises(ValueError, match="what waits with a query is damaged"):
        remembered_in('{"a": 1}\x1e{"id": 1}')


def test_keys_are_forgotten_with_the_document_and_the_user():
    one = RankingService(History("document") | History(("user", "brand")) | AdditiveRanker())
    for t, user in enumerate(("lovelace", "bob")):
        answer(one, {"id": t, "docs": {"a": {"brand": "x"}, "b": {"brand": "y"}}, "context": {"user": user}, "ts": NOW})
        answer(one, {"id": t, "grades": {"a": 1, "b": 0}})
    assert one.stats()["histories"] == {
        "History('document', half_life='7d')": {"keys": 2, "left": 0},
        "History(('user', 'brand'), half_life='7d')": {"keys": 4, "left": 0},
    }
    assert forget(one, Forget(context={"user": "lovelace"})).keys == 2
    assert forget(one, Forget(document="a")).answer() == {
        "forgotten": {"waiting": 0, "early": 0, "learned": 0, "features": 0, "keys": 1}
    }
    assert [step.n_keys for step in list(one.model.steps.values())[:2]] == [1, 2]
    assert b"lovelace" not in to_bytes(one.model)


def test_times_ahead_of_the_clock_are_repaired():
    one = service()
    answer(one, {"id": 1, "docs": {"a": {"brand": "x"}, "b": {"brand": "y"}}, "ts": NOW})
    answer(one, {"id": 1, "grades": {"a": 1, "b": 0}})
    assert latest_time(one) == NOW
    answer(one, {"id": 2, "docs": {"a": {"brand": "x"}, "b": {"brand": "z"}}, "ts": NOW})
    assert set_back(one, NOW - 1e6)[0] == 4  # of two histories, of the service, and of a query
    assert latest_time(one) == NOW - 1e6
    one.handle(b'{"id": 2, "grades": {"a": 1, "b": 0}}', at=NOW - 1e6)
    assert declared_state(one.model["History"]).at == NOW - 1e6


def test_a_key_of_a_topic_continues_after_a_failure():
    by_workers, at_once = of_failing_workers(service, rounds(20, delay=3), after=(5, 11, 26))
    assert by_workers == at_once
