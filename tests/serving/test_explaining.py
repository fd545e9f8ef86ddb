"""`{"id": ..., "docs": ..., "explain": [a, b]}`: why one document scores higher than another."""

import json

import pytest

from online_rank import PerceptronRanker, RidgeRanker, StreamQuantileMap
from online_rank.serving.protocol import RankingService
from online_rank.serving.reading import read

DOCS = {"a": {"clicks": 3.0, "age": 1.0}, "b": {"clicks": 1.0, "age": 5.0}, "c": {"clicks": 2.0, "age": 5.0}}


def asked(service, **fields):
    return service.handle(json.dumps({"id": "q", "docs": DOCS, **fields}).encode())


def test_contributions_add_up_to_the_difference_of_the_scores():
    service = RankingService(PerceptronRanker.from_weights({"clicks": 2.0, "age": -0.5}))
    reply = asked(service, explain=["a", "b"], meta={"n": 1})
    # 2 (3 - 1) = 4, and -0.5 (1 - 5) = 2.
    assert reply.answer == {
        "id": "q",
        "explanation": {"difference": 6.0, "contributions": [["clicks", 4.0], ["age", 2.0]], "exact": True},
        "meta": {"n": 1},
    }
    assert asked(service, explain=["b", "c"]).answer["explanation"]["contributions"] == [["clicks", -2.0]]


@pytest.mark.parametrize("ranker", [PerceptronRanker, RidgeRanker])
def test_nothing_changes_and_a_learned_model_is_explained_as_it_ranks(ranker):
    service = RankingService(StreamQuantileMap() | ranker())
    asked(service)
    service.handle(json.dumps({"id": "q", "grades": {"a": 2, "b": 0, "c": 1}}).encode())
    before = service.stats()
    scores = asked(service, greedy=True).answer
    by_name = dict(zip(scores["ranking"], scores["scores"], strict=True))
    reply = asked(service, explain=["a", "c"])
    assert reply.outcome is None
    found = reply.answer["explanation"]
    assert found["difference"] == pytest.approx(by_name["a"] - by_name["c"], abs=1e-9)
    assert sum(value for _, value in found["contributions"]) == pytest.approx(found["difference"], abs=1e-12)
    assert service.stats() == before
    request = json.dumps({"id": "q", "docs": DOCS, "explain": ["a", "c"]}).encode()
    # A request that is sent again is answered again.
    assert service.answer_again(request).answer == reply.answer


@pytest.mark.parametrize(
    ("explain", "told"),
    [
        (["a"], "expected `array` of length 2 (two documents"),
        (["a", "a"], "two documents"),
        ("ab", 'explain is "ab": expected `array`'),
        (["a", 1], "explain[1] is 1: expected `str`"),
        (["a", "z"], "no document 'z'"),
    ],
)
def test_documents_that_cannot_be_explained(explain, told):
    assert told in asked(RankingService(PerceptronRanker()), explain=explain).answer["error"]


def test_the_kind_of_request():
    assert read(b'{"id": 1, "docs": {}, "explain": ["a", "b"]}').explain == ("a", "b")
    for more in (b"", b', "docs": {}, "greedy": true'):
        with pytest.raises(ValueError, match="a request has the fields"):
            read(b'{"id": 1, "explain": ["a", "b"]%s}' % more)
