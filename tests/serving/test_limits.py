"""What a request may cost: nothing is taken that costs far more than it weighs."""

import json
import re
import sys
import tracemalloc

import pytest
from river import preprocessing
from river.feature_extraction import PolynomialExtender

from online_rank import (
    AdditiveRanker,
    BlendRanker,
    CrossFeatures,
    ForEachDocument,
    GradientRanker,
    HashedFeatures,
    KernelPerceptronRanker,
    LossTracker,
    MaxAbsStreamScaler,
    PerceptronRanker,
    RidgeRanker,
    RunFeatures,
    StreamQuantileMap,
    StreamScaler,
    SwapRanker,
)
from online_rank.base.growth import GROWTH
from online_rank.limits import MAX_DOCUMENTS, MAX_REQUEST_DEPTH
from online_rank.serving import Challenge, RankingService


def request(**fields):
    return json.dumps(fields).encode()


@pytest.mark.parametrize("opening", [b'{"a":', b"["])
@pytest.mark.parametrize("levels", [MAX_REQUEST_DEPTH, 50, 900, 5000, 100_000])
@pytest.mark.parametrize(
    "around",
    [
        (b'{"id": 1, "docs": {"a": {"x": ', b"}}}"),
        (b'{"id": ', b', "docs": {}}'),
        (b'{"id": "q", "grades": {"a": ', b"}}"),
        (b'{"id": "q", "clicks": [', b"]}"),
        (b'{"cmd": ', b"}"),
    ],
)
def test_requests_that_are_nested_deeply_are_refused(opening, levels, around):
    service = RankingService(SwapRanker())
    service.handle(b'{"id": "q", "docs": {"a": {"x": 1}, "b": {"x": 2}}}')
    inner = opening * levels + b"1" + (b"}" if opening[:1] == b"{" else b"]") * levels
    reply = service.handle(around[0] + inner + around[1])
    assert re.search("expected `|deeper than 8 levels", reply.answer["error"])
    assert not reply.changed


def grown(model, n_features=20_000):
    """A service whose model has `n_features` features."""
    service = RankingService(model)
    assert "error" not in service.handle(request(id=0, docs={"a": {f"f{j}": 1.0 for j in range(n_features)}, "b": {}})).answer
    assert "error" not in service.handle(request(id=0, grades={"a": 1, "b": 0})).answer
    return service


@pytest.mark.parametrize(
    "make",
    [
        lambda: StreamScaler() | PerceptronRanker(),
        lambda: StreamScaler() | LossTracker(PerceptronRanker()),
        lambda: StreamScaler() | SwapRanker(),
    ],
)
def test_a_request_counts_with_the_features_of_the_model(make):
    service = grown(make())
    small = request(id=1, docs={f"d{i}": {"f1": 1.0} for i in range(50)})
    assert "ranking" in service.handle(small).answer
    large = request(id=2, docs={f"d{i}": {"f1": 1.0} for i in range(2000)})
    tracemalloc.start()
    reply = service.handle(large)
    peak = tracemalloc.get_traced_memory()[1]
    tracemalloc.stop()
    assert "2000 documents, and they or the model have 20000 features" in reply.answer["error"]
    assert peak < 64 * len(large) + (1 << 22)


@pytest.mark.parametrize("scaler", [MaxAbsStreamScaler, HashedFeatures])
def test_models_through_which_documents_stay_sparse_take_them(scaler):
    service = grown(scaler() | PerceptronRanker())
    large = request(id=2, docs={f"d{i}": {"f1": 1.0} for i in range(2000)})
    tracemalloc.start()
    assert "ranking" in service.handle(large).answer
    peak = tracemalloc.get_traced_memory()[1]
    tracemalloc.stop()
    assert peak < 64 * len(large) + (1 << 22)


@pytest.mark.parametrize("make", [SwapRanker, PerceptronRanker, AdditiveRanker])
def test_the_number_of_documents_is_limited(make):
    service = RankingService(make())
    reply = service.handle(request(id=1, docs={f"d{i}": {} for i in range(MAX_DOCUMENTS + 1)}))
    assert reply.answer["error"] == f"docs has {MAX_DOCUMENTS + 1} documents; a query may have {MAX_DOCUMENTS}"


def test_reading_deeply_nested_requests_needs_no_deep_stack():
    limit = sys.getrecursionlimit()
    sys.setrecursionlimit(250)
    try:
        assert (
            "error" in RankingService(PerceptronRanker()).handle(b'{"id": 1, "docs": ' + b"[" * 240 + b"]" * 240 + b"}").answer
        )
    finally:
        sys.setrecursionlimit(limit)


def at_most(service, docs):
    """The largest number of documents that is ranked."""
    low, high = 1, 3000
    while low < high:
        middle = (low + high + 1) // 2
        refused = "error" in service.handle(request(id=2, greedy=True, docs=docs(middle))).answer
        low, high = (low, middle - 1) if refused else (middle, high)
    return low


@pytest.mark.first(1)
@pytest.mark.parametrize("n_features", [1, 40])
@pytest.mark.parametrize("known", [300, 8000])
def test_arrays_of_mostly_absent_features_are_small(known, n_features):
    service = grown(StreamScaler() | PerceptronRanker(), known)

    def docs(n):
        return {f"d{i}": {f"f{j}": i % 7 for j in range(n_features)} for i in range(n)}

    n = at_most(service, docs)
    assert n >= 50
    asked = request(id=3, docs=docs(n))
    # By hand: the cells that the page of limits names.
    assert n * known <= max(2**17 + 2 * len(asked) + 40, 50 * known)  # "greedy" weighs something, too
    grades = request(id=3, grades={f"d{i}": i % 3 for i in range(n)})
    for line in (asked, grades):
        tracemalloc.start()
        assert "error" not in service.handle(line).answer
        peak = tracemalloc.get_traced_memory()[1]
        tracemalloc.stop()
        # One array, since the scaler writes in place: not two.
        assert peak < 1.15 * 8 * n * known + 45 * len(asked) + 200 * known


@pytest.mark.parametrize(
    ("make", "n_documents", "n_features"),
    [
        (lambda: ForEachDocument(PolynomialExtender(2)) | PerceptronRanker(), 2, 500),
        (
            lambda: ForEachDocument(preprocessing.MaxAbsScaler() | PolynomialExtender(3)) | PerceptronRanker(),
            1,
            60,
        ),
    ],
)
def test_columns_that_are_made_of_features_count(make, n_documents, n_features):
    """An extender makes the products of all features."""
    docs = {str(i): {f"f{i * n_features // n_documents}": 1.0} for i in range(n_documents)}
    for j in range(n_features):
        docs[str(j % n_documents)][f"f{j}"] = 1.0
    line = request(id=1, docs=docs, grades=dict.fromkeys(docs, 1))
    service = RankingService(make())
    service.handle(line)  # What is compiled takes memory, too.
    tracemalloc.start()
    error = service.handle(line).answer.get("error", "")
    peak = tracemalloc.get_traced_memory()[1]
    tracemalloc.stop()
    assert "needs an array of" in error
    assert peak < 64 * len(line) + (1 << 21)
    few = {str(i): {f"f{j}": j / (i + 1) for j in range(10)} for i in range(10)}
    assert "error" not in service.handle(request(id=2, docs=few, grades=dict.fromkeys(few, 1))).answer


def test_new_features_of_a_map_count():
    docs = {each: {f"{each}{j}": 1 for j in range(4500)} for each in "ab"}
    service = RankingService(StreamQuantileMap() | GradientRanker("logistic"))
    assert "9000 new features" in service.handle(request(id=1, docs=docs, grades={"a": 1, "b": 0})).answer["error"]


def test_the_products_of_a_kernel_perceptron_count():
    service = RankingService(KernelPerceptronRanker(budget=100))
    docs = {f"d{i}": {"x": i % 7} for i in range(1000)}
    line = request(id=1, docs=docs)
    assert 2**17 + 2 * len(line) < 1000 * 1000
    error = service.handle(line).answer["error"]
    assert f"KernelPerceptronRanker needs an array of 1000000 numbers, and a request of {len(line)} bytes may" in error
    docs = {f"d{i}": {"x": i % 7} for i in range(350)}
    assert "ranking" in service.handle(request(id=1, docs=docs)).answer


def test_runs_of_which_documents_lack_most_are_refused():
    service = RankingService(RunFeatures() | PerceptronRanker())
    docs = {f"d{i}": {f"x{i}": 1} for i in range(2000)}
    runs = {f"r{i}": [[f"d{i}", 1.0]] for i in range(2000)}
    for line in (request(id=1, docs=docs), request(id=1, runs=runs)):
        tracemalloc.start()
        error = service.handle(line).answer["error"]
        peak = tracemalloc.get_traced_memory()[1]
        tracemalloc.stop()
        # Output of three parts, and eight arrays on the way, as two.
        assert f"RunFeatures needs an array of {2000 * 2000 * 11 // 2} numbers" in error
        assert peak < 64 * len(line) + 16_384
    docs = {f"d{i}": {f"x{i}": 1} for i in range(350)}  # Few enough for any other step.
    assert (
        f"RunFeatures needs an array of {350 * 350 * 11 // 2} numbers"
        in service.handle(request(id=1, docs=docs)).answer["error"]
    )
    few = {f"r{j}": [[f"d{i}", -i] for i in range(1000)] for j in range(5)}
    assert "ranking" in service.handle(request(id=1, runs=few)).answer


def test_arrays_behind_a_lifted_step_get_all_columns_that_the_ranker_knows():
    service = RankingService(ForEachDocument(preprocessing.StandardScaler()) | PerceptronRanker())
    known = {name: {f"f{j}": float(i + j) for j in range(2000)} for i, name in enumerate("ab")}
    service.model.learn_one(known, {"a": 0, "b": 1})
    line = request(id=1, docs={f"d{i}": {f"g{i}": 1} for i in range(350)})
    tracemalloc.start()
    error = service.handle(line).answer["error"]
    peak = tracemalloc.get_traced_memory()[1]
    tracemalloc.stop()
    assert f"PerceptronRanker needs an array of {350 * 2000} numbers" in error
    assert peak < 64 * len(line) + 16_384


def test_grades_of_many_documents_for_a_ranker_that_draws():
    service = RankingService(SwapRanker())
    docs = {f"d{i}": {f"x{i}": 1} for i in range(1000)}
    grades = {name: i % 3 for i, name in enumerate(docs)}
    assert "ranking" in service.handle(request(id=1, docs=docs)).answer
    for line in (request(id=1, grades=grades), request(id=2, docs=docs, grades=grades)):
        reply = service.handle(line)
        assert "1000 documents of 1000 features, and a model that draws rankings compares each" in reply.answer["error"]
        assert not reply.changed
    assert service.handle(request(id=1, clicks=[service.handle(request(id=1, docs=docs)).answer["ranking"][0]])).learned


def test_a_challenger_that_needs_arrays_is_counted():
    service = RankingService(PerceptronRanker(), challenge=Challenge(StreamScaler() | PerceptronRanker()))
    docs = {f"d{i}": {f"x{i}": 1} for i in range(1000)}
    assert "StreamScaler needs an array of 1000000 numbers" in service.handle(request(id=1, docs=docs)).answer["error"]


def test_what_was_accepted_under_larger_limits_is_replayed(monkeypatch):
    docs = {f"d{i}": {f"x{i}": 1} for i in range(700)}
    line = request(id=2, docs=docs, grades={name: i % 3 for i, name in enumerate(docs)})
    monkeypatch.setattr("online_rank.serving.queries.MAX_CELLS", 1 << 20)
    before, after = RankingService(SwapRanker()), RankingService(SwapRanker())
    outcome = before.handle(line).outcome
    monkeypatch.undo()
    after.replay([*outcome.fields], None, (), line)
    assert after.stats()["learned"] == before.stats()["learned"] == 1


def with_new_features(n, **more):
    """A query whose two documents have `n` features."""
    return request(id=n, docs={name: {f"f{j}": float(i) for j in range(n)} for i, name in enumerate("ab")}, **more)


def test_new_features_that_would_add_too_much_to_a_model_are_refused_and_nothing_changes():
    service = RankingService(RidgeRanker())
    assert "ranking" in service.handle(with_new_features(2000)).answer
    grades = {"a": 1, "b": 0}
    refused = service.handle(request(id=2000, grades=grades))
    assert "brings 2000 new features" in refused.answer["error"]
    assert not refused.changed
    assert service.model.n_features == 0
    refused = service.handle(with_new_features(2001, grades=grades))
    assert "brings 2001 new features" in refused.answer["error"]
    assert not refused.changed
    for n in (700, 1100, 1400):  # The first comes with most.
        assert service.handle(with_new_features(n, grades=grades)).answer["learned"]
    assert service.model.n_features == 1400


def test_models_inside_a_blend_share_what_new_features_may_add():
    service = RankingService(BlendRanker([StreamScaler() | RidgeRanker(), RidgeRanker(), RidgeRanker()]))
    refused = service.handle(with_new_features(700, grades={"a": 1, "b": 0}))
    assert "Let several queries bring them" in refused.answer["error"]
    assert service.handle(with_new_features(300, grades={"a": 1, "b": 0})).answer["learned"]


def test_what_was_learned_before_is_replayed_however_much_it_adds():
    service = RankingService(RidgeRanker())
    service.replay(["teach", 2000], None, None, with_new_features(2000, grades={"a": 1, "b": 0}))
    assert service.model.n_features == 2000


def crossed(n_features, user, **more):
    docs = {name: {f"g{j}": 1 for j in range(n_features)} for name in "ab"}
    return request(id=f"{n_features} {user[:5]}", docs=docs, context={"user": user}, **more)


def test_texts_of_a_context_become_part_of_names_within_limits():
    service = RankingService(CrossFeatures("user") | PerceptronRanker())
    refused = service.handle(crossed(5000, "u" * 1000))
    assert "texts of 1000 characters, which would become part of the names of 5000 features" in refused.answer["error"]
    assert "ranking" in service.handle(crossed(100, "u" * 1000)).answer
    line = crossed(5000, "\U0001f600" * 60)
    service.handle(line)
    tracemalloc.start()
    assert "ranking" in service.handle(line).answer
    peak = tracemalloc.get_traced_memory()[1]
    tracemalloc.stop()
    assert peak < 64 * len(line)


def test_long_names_of_features_count_in_what_a_request_may_add():
    grown, left = PerceptronRanker(), [10_000]
    token = GROWTH.set(left)
    try:
        with pytest.raises(ValueError, match="about 10024 more numbers"):
            grown.learn_one([{"x" * 20_000: 1.0}, {}], [1, 0])
        grown.learn_one([{"x": 1.0}, {}], [1, 0])
    finally:
        GROWTH.reset(token)
    assert left == [10_000 - 24]
