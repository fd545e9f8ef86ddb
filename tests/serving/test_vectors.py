"""Vectors in requests: in documents, in columns and in binary; and vectors of another length."""

import json

import numpy as np
import pytest

from online_rank import AdditiveRanker
from online_rank.serving import FeedbackPlan, RankingService
from online_rank.serving.reading import RequestError, read


def query(number, k=4, **others):
    rng = np.random.default_rng(number)
    docs = {f"d{i}": {"age": float(i), "embedding": rng.normal(size=k).round(3).tolist()} for i in range(5)}
    return {"id": number, "docs": docs, "context": {"embedding": rng.normal(size=k).round(3).tolist()}, **others}


def sent(service, message):
    reply = service.handle(json.dumps(message).encode())
    assert "error" not in reply.answer, reply.answer
    return reply.answer


def learned(service, number, k=4):
    sent(service, query(number, k))
    return sent(service, {"id": number, "grades": {f"d{i}": i % 3 for i in range(5)}})


def in_binary(message):
    docs = message.pop("docs")
    head = {**message, "features": ["age", "embedding"], "documents": [*docs], "vectors": {"embedding": 4}}
    rows = np.array([[d["age"], *d["embedding"]] for d in docs.values()], "<f4")
    return b"float32\n" + json.dumps(head).encode() + b"\n" + rows.tobytes()


def test_a_service_ranks_and_learns_vectors_in_every_form():
    service = RankingService(AdditiveRanker())
    for number in range(20):
        assert learned(service, number)["learned"]
    wanted = sent(service, query(99, greedy=True))
    docs = query(99)["docs"]
    columns = {
        "id": 99,
        "greedy": True,
        "context": query(99)["context"],
        "features": ["age", "embedding"],
        "documents": [*docs],
        "rows": [[d["age"], d["embedding"]] for d in docs.values()],
    }
    assert sent(service, columns) == wanted
    binary = service.handle(in_binary(query(99, greedy=True))).answer
    assert binary["ranking"] == wanted["ranking"]
    np.testing.assert_allclose(binary["scores"], wanted["scores"], rtol=1e-5, atol=1e-6)
    assert "embedding cosine" in service.model.feature_names
    assert service.model.vector_columns.learners["embedding learned"].shape == (4, 4)
    vectors = service.stats()["vectors"]["embedding"]
    assert vectors["dimensions"] == 4
    assert vectors["other_lengths"] == 0
    explained = sent(service, query(99, explain=["d0", "d1"]))
    assert any("embedding" in str(name) for name in json.dumps(explained).split('"'))


def test_a_query_in_binary_is_learned_later_as_it_was_ranked():
    service, other = RankingService(AdditiveRanker()), RankingService(AdditiveRanker())
    for number in range(4):
        assert "error" not in service.handle(in_binary(query(number))).answer
        sent(other, query(number))
        for each in (service, other):
            sent(each, {"id": number, "grades": {f"d{i}": i % 3 for i in range(5)}})
    one, two = (sent(each, query(50, greedy=True))["scores"] for each in (service, other))
    np.testing.assert_allclose(one, two, rtol=1e-4, atol=1e-5)


def test_vectors_of_another_length_are_missing_values_and_counted():
    service = RankingService(AdditiveRanker())
    for number in range(6):
        learned(service, number)
    learned(service, 7, k=3)
    assert service.stats()["vectors"]["embedding"] == {
        "dimensions": 4, "bytes": service.stats()["vectors"]["embedding"]["bytes"], "other_lengths": 5
    }  # fmt: skip
    learned(service, 8)


@pytest.mark.parametrize("by_a_request", [True, False])
def test_vectors_of_another_length_are_missing_when_their_window_ends(by_a_request):
    """The query was ranked, and an error ended the service's clock, or another client's request, when its window ended."""
    service = RankingService(AdditiveRanker(), plan=FeedbackPlan(window=10))
    for number in range(3):
        sent(service, query(number, k=3 if number == 2 else 4, ts=20 * number))
        sent(service, {"id": number, "grades": {f"d{i}": i % 3 for i in range(5)}, "ts": 20 * number + 1})
    if by_a_request:
        sent(service, query(3, ts=60))
    else:
        service.advance(60.0)
    assert service.counts()["learned"] == 3
    assert service.stats()["vectors"]["embedding"]["other_lengths"] == 5


def test_an_odd_vector_is_missing_too():
    service = RankingService(AdditiveRanker())
    learned(service, 0)
    odd = query(1)
    odd["docs"]["d1"]["embedding"] = [1.0, "x"]
    sent(service, odd)


def test_the_first_vector_does_not_decide_for_everybody():
    service = RankingService(AdditiveRanker())
    learned(service, 0, k=2)
    learned(service, 1)
    with pytest.warns(UserWarning, match="begins again"):
        learned(service, 2)
    learned(service, 3)
    assert service.stats()["vectors"]["embedding"]["dimensions"] == 4


def test_waiting_queries_with_vectors_are_bounded():
    """100 documents of 768 numbers: in binary 300 kB each."""
    service = RankingService(AdditiveRanker(), wait_bytes=1 << 20)
    rng = np.random.default_rng(0)
    head = {"features": ["embedding"], "documents": [f"d{i}" for i in range(100)], "vectors": {"embedding": 768}}
    for number in range(10):
        rows = rng.normal(size=(100, 768)).astype("<f4")
        request = b"float32\n" + json.dumps({"id": number, **head}).encode() + b"\n" + rows.tobytes()
        assert "error" not in service.handle(request).answer
    assert service.n_waiting <= 3
    assert service.stats()["evicted"] >= 7


def test_a_small_request_brings_no_large_matrix_unless_it_is_declared():
    docs = {d: {"embedding": [1] * 4000} for d in ("a", "b")}
    request = {"id": 1, "docs": docs, "context": {"embedding": [1] * 4000}, "grades": {"a": 0, "b": 1}}
    service = RankingService(AdditiveRanker())
    assert "too large for a request of this size" in service.handle(json.dumps(request).encode()).answer["error"]
    assert service.model.vector_columns is None
    declared = RankingService(AdditiveRanker(dimensions={"embedding": 4000}))
    assert sent(declared, request)["learned"]


@pytest.mark.parametrize(
    ("head", "message"),
    [
        ({"vectors": {"other": 2}}, "vectors has 'other', which is not among the features"),
        ({"vectors": {"embedding": 3}}, "rows has 8 bytes; 1 documents of 3 values, 4 bytes each, are 12"),
        ({"vectors": {"embedding": 0}}, "vectors"),
    ],
)
def test_what_is_refused(head, message):
    request = {"id": 1, "features": ["embedding"], "documents": ["a"], **head}
    with pytest.raises((RequestError, ValueError), match=message):
        read(b"float32\n" + json.dumps(request).encode() + b"\n" + bytes(8))


def after(attack):
    """The shape of what a service has learned of vectors after some requests, and 25 good queries."""
    service = RankingService(AdditiveRanker())
    for i, (features, context) in enumerate(attack):
        asked = {"id": f"attack {i}", "docs": dict.fromkeys("ab", features), "grades": {"a": 0, "b": 0}}
        sent(service, asked if context is None else asked | {"context": context})
    for number in range(25):
        assert learned(service, number)["learned"]
    learner = service.model.vector_columns.learners.get("embedding learned")
    return None if learner is None else learner.shape


@pytest.mark.parametrize(
    "attack",
    [
        # Each query with another vector was refused from then on.
        [({f"junk {k}": [1.0, 2.0] for k in range(16)}, None)],
        # No further length was counted.
        [({"embedding": [1.0] * k}, None) for k in range(5, 14)],
        # Vectors counted as missing for ever, and so did numbers where vectors had come first (`test_odd`).
        [({"embedding": 3.0}, None)],
        # Vectors of queries counted as missing for ever.
        [({"embedding": [1.0, 2.0, 3.0, 4.0]}, {"embedding": [1.0] * 7})],
        [({"embedding": [1.0, 2.0, 3.0, 4.0]}, {"embedding": [1.0] * k}) for k in range(5, 17)],
    ],
)
def test_what_came_first_does_not_decide_about_vectors_for_ever(attack):
    assert after(attack) == (4, 4)


def test_many_invented_vectors_take_no_place_of_one_in_use():
    service = RankingService(AdditiveRanker())
    for number in range(5):
        learned(service, number)
    for k in range(100):
        docs = {name: {f"junk {k}": [1.0, 2.0], f"more {k}": [1.0]} for name in "ab"}
        sent(service, {"id": f"attack {k}", "docs": docs, "grades": {"a": 0, "b": 0}})
    assert "embedding" in service.model.vector_columns.names
    assert len(service.model.vector_columns.names) == 16
    assert len(service.model.vector_columns._votes) < 100
