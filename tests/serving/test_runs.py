"""What retrievers returned, and what is known of a query, over the wire."""

import json

import pytest

from online_rank import CrossFeatures, PerceptronRanker, PlackettLuce, RunFeatures, Runs, SwapRanker, hybrid
from online_rank.serving.protocol import RankingService

RUNS = {"bm25": [["d7", 12.3], ["d2", 11.9]], "vector": {"d2": 0.83, "d9": 0.41}}


def ask(service, **fields):
    return service.handle(json.dumps(fields).encode()).answer


def test_runs_are_fused_and_learned_as_in_python():
    service, twin = RankingService(hybrid(["bm25", "vector"], today="rrf")), hybrid(["bm25", "vector"], today="rrf")
    query, grades = (
        Runs({"bm25": [("d7", 12.3), ("d2", 11.9)], "vector": {"d2": 0.83, "d9": 0.41}}),
        {"d7": 0, "d2": 1, "d9": 2},
    )
    for t in range(5):
        answer = ask(service, id=t, runs=RUNS)
        assert answer["ranking"] == twin.rank_one(query)
        assert dict(zip(answer["ranking"], answer["scores"], strict=True)) == twin.predict_one(query)
        assert ask(service, id=t, grades=grades)["learned"]
        twin.learn_one(query, grades)
    assert twin.rank_one(query) == ["d2", "d9", "d7"] != hybrid(["bm25", "vector"], today="rrf").rank_one(query)


def test_features_of_documents_join_the_runs():
    service = RankingService(RunFeatures() | PerceptronRanker.from_weights({"price": 1.0}))
    answer = ask(service, id=1, runs=RUNS, docs={"d9": {"price": 3.0}})
    assert answer["ranking"] == ["d9", "d7", "d2"]
    assert "no retriever returned the document 'd1'" in ask(service, id=2, runs=RUNS, docs={"d1": {"price": 3.0}})["error"]


def test_the_context_is_learned_from_and_comes_back_from_the_text():
    service = RankingService(CrossFeatures("user") | PerceptronRanker())
    docs = {"a": {"x": 1.0}, "b": {"x": -1.0}}
    for t in range(6):
        user = "uv"[t % 2]
        ask(service, id=t, docs=docs, context={"user": user})
        service._read.clear()  # As after a restart: what waits is read again.
        assert ask(service, id=t, grades={"a": 1 - t % 2, "b": t % 2})["learned"]
    first = [ask(service, id=user, docs=docs, context={"user": user}, greedy=True)["ranking"][0] for user in "uv"]
    assert first == ["a", "b"]


def test_runs_wait_for_clicks_and_are_answered_again():
    model = RunFeatures() | SwapRanker.from_rule("rrf", ["bm25", "vector"], policy=PlackettLuce(k=2))
    service = RankingService(model)
    answer = ask(service, id=1, runs=RUNS)
    assert service.answer_again(json.dumps({"id": 1, "runs": RUNS}).encode()).answer == answer
    service._read.clear()
    assert ask(service, id=1, clicks=[answer["ranking"][0]])["learned"]
    assert service.answer_again(json.dumps({"id": 1, "runs": RUNS}).encode()).answer == {"id": 1, "duplicate": True}


@pytest.mark.parametrize(
    ("fields", "message"),
    [
        ({"runs": [["d", 1.0]]}, 'runs is [["d", 1.0]]: expected `object`'),
        ({"runs": {"bm25": [[7, 1.0]]}}, "runs['bm25'][0][0] is 7: expected `str`"),
        ({"runs": {"bm25": [["d"]]}}, "runs['bm25'][0] is [\"d\"]: expected `array` of length 2"),
        ({"runs": {"bm25": {"d": "high"}}}, "runs['bm25']['d'] is \"high\": expected `float`"),
        ({"runs": {"bm25": {"d": 1.0}}, "context": {"user": "u"}}, "no step of RankingPipeline uses the context"),
        ({"runs": {"bm25": {"d": 1.0}}, "context": ["u"]}, 'context is ["u"]: expected `object`'),
        ({"runs": {"bm25": {"d": 1.0}}, "clicks": ["d"]}, "a request has the fields"),
        ({"context": {}}, "a request has the fields"),
    ],
)
def test_refused_and_nothing_waits(fields, message):
    service = RankingService(RunFeatures() | PerceptronRanker())
    assert message in ask(service, id=1, **fields)["error"]
    assert service.n_waiting == 0


def test_runs_for_a_model_without_run_features():
    assert "put RunFeatures() first" in ask(RankingService(PerceptronRanker()), id=1, runs=RUNS)["error"]
