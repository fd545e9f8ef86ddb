"""Contributions of features to the difference of two scores."""

import time
import tracemalloc

import numpy as np
import pytest
from scipy.sparse import csr_array

from online_rank import (
    BlendRanker,
    ClickBlendRanker,
    DeclaredFeatures,
    DirectRanker,
    GradientRanker,
    HashedFeatures,
    KernelPerceptronRanker,
    LossTracker,
    PerceptronRanker,
    QueryNormalizer,
    RidgeRanker,
    StreamScaler,
)
from online_rank.rankers.click_trees import ClickTrees

EXACT = {
    "perceptron": lambda: PerceptronRanker(),
    "scaled": lambda: StreamScaler() | PerceptronRanker(),
    "scaled gradient": lambda: StreamScaler() | GradientRanker(),
    "in the query": lambda: QueryNormalizer() | RidgeRanker(),
    "tracked": lambda: StreamScaler() | LossTracker(PerceptronRanker()),
    "blend of pipelines": lambda: BlendRanker([StreamScaler() | PerceptronRanker(), RidgeRanker()]),
}
SHARES = {
    "trees": lambda: StreamScaler() | ClickTrees(),
    "network": lambda: StreamScaler() | DirectRanker(hidden=(6,)),
    "kernel": lambda: StreamScaler() | KernelPerceptronRanker(),
    "click blend": lambda: ClickBlendRanker(),
}
NAMES = ("clicks", "age", "length")


def queries(n=40, seed=0):
    rng = np.random.default_rng(seed)
    for _ in range(n):
        m = int(rng.integers(3, 9))
        X = np.column_stack([rng.integers(0, 9, m).astype(float), rng.normal(size=m), np.exp(2 * rng.normal(size=m))])
        yield (
            {f"d{i}": dict(zip(NAMES, row, strict=True)) for i, row in enumerate(X.tolist())},
            {f"d{i}": int(value) for i, value in enumerate(np.digitize(X[:, 0] / 3 + rng.normal(size=m), [1.0, 2.5]))},
        )


@pytest.mark.parametrize("name", [*EXACT, *SHARES])
def test_contributions_add_up_to_the_difference(name):
    model = (EXACT | SHARES)[name]()
    for x, y in queries():
        model.learn_one(x, y)
    for x, _ in queries(5, seed=1):
        scores = model.predict_one(x)
        found = model.explain_one(x, "d2", "d0")
        expected = scores["d2"] - scores["d0"]
        tolerance = 1e-9 if name in EXACT else 1e-6
        assert found.difference == pytest.approx(expected, abs=tolerance * max(1.0, *map(abs, scores.values())))
        assert sum(found.contributions.values()) == pytest.approx(found.difference, abs=1e-9)
        assert set(found.contributions) <= set(NAMES)
        assert found.exact == (name in EXACT)
        back = model.explain_one(x, "d0", "d2")
        assert back.difference == pytest.approx(-found.difference, abs=1e-6)


def test_contributions_by_hand():
    model = StreamScaler() | PerceptronRanker(half_life=0)
    model.learn_one([[1.0, 5.0], [3.0, 5.0]], [0, 1])
    w = float(model["PerceptronRanker"].weights[0])
    # Mean 2, deviation 1; the second feature does not vary.
    found = model.explain_one([[4.0, 1.0], [1.5, 9.0]], 0, 1)
    assert found.contributions == [pytest.approx(w * ((4.0 - 2.0) - (1.5 - 2.0))), 0.0]
    assert found.largest_first() == [("1", found.difference)]
    assert found.in_words().splitlines()[0].startswith("score of 0 minus score of 1: ")
    with pytest.raises(ValueError, match="x has no document 'z'"):
        model.explain_one([[4.0, 1.0]], 0, "z")


def test_columns_of_arrays_have_the_names_that_were_declared():
    rng = np.random.default_rng(0)
    X, y = rng.normal(size=(9, 3)), rng.integers(0, 3, 9)
    for model in (DeclaredFeatures(NAMES) | PerceptronRanker(), DeclaredFeatures(NAMES) | StreamScaler() | DirectRanker()):
        for _ in range(30):
            model.learn_one(X, y)
        named = [dict(zip(NAMES, row, strict=True)) for row in X.tolist()]
        found = model.explain_one(X, 0, 1)
        assert found == model.explain_one(named, 0, 1)
        scores = model.predict_one(X)
        assert found.difference == pytest.approx(scores[0] - scores[1], abs=1e-9) != 0.0
        assert {*found.contributions} <= {*NAMES}


@pytest.mark.parametrize("name", [*EXACT, *SHARES, "plain", "sparse"])
@pytest.mark.parametrize("bad", [np.nan, np.inf])
def test_a_bad_value_of_any_document_is_refused(name, bad):
    rng = np.random.default_rng(0)
    model = {"plain": PerceptronRanker, "sparse": GradientRanker, **EXACT, **SHARES}[name]()
    for _ in range(30):
        X = np.abs(rng.normal(size=(6, 3)))
        model.learn_one(csr_array(X) if name == "sparse" else X, rng.integers(0, 3, 6))
    for row in (1, 5):
        X = np.abs(rng.normal(size=(6, 3)))
        X[row, 2] = bad
        if np.isnan(bad) and model.abilities.takes_missing:
            assert np.isfinite(model.explain_one(X, 0, 1).difference)
            continue
        with pytest.raises(ValueError, match=f"x: feature '?[23]'? of document {row} is {bad}"):
            model.explain_one(csr_array(X) if name == "sparse" else X, 0, 1)


def test_plain_arrays_are_explained_as_others_are():
    rng = np.random.default_rng(0)
    for d in (1, 3, 46):
        model = PerceptronRanker()
        for _ in range(20):
            model.learn_one(rng.normal(size=(7, d)), rng.integers(0, 3, 7))
        for dtype in (np.float64, np.float32):
            X = rng.normal(size=(7, d)).astype(dtype)
            X[1, 0] = X[2, 0]
            found = model.explain_one(X, 1, 2)
            w = model.served_weights
            expected = [w[j] * (float(X[1, j]) - float(X[2, j])) for j in range(d)]
            assert found.contributions == expected
            assert found.difference == sum(expected)
            assert dict(found.largest_first()) == {str(j + 1): part for j, part in enumerate(expected) if part}
            assert model.explain_one(X.tolist(), 1, 2).contributions == pytest.approx(expected, abs=1e-6)
        with pytest.raises(ValueError, match="x has no document 7"):
            model.explain_one(X, 0, 7)
        with pytest.raises(ValueError, match="x has no document -1"):
            model.explain_one(X, -1, 0)
        with pytest.raises(ValueError, match="features"):
            model.explain_one(X[:, :-1], 0, 1)


def test_a_model_that_has_learned_nothing_sees_no_difference():
    assert PerceptronRanker().explain_one(np.eye(3), 0, 1)[2:4] == (0.0, [0.0, 0.0, 0.0])
    assert PerceptronRanker().explain_one([{"a": 1.0}, {"a": 2.0}], 0, 1)[2:4] == (0.0, {})


def test_a_difference_beyond_all_numbers_is_refused():
    model = PerceptronRanker.from_weights([0.5, 0.5])
    with (
        np.errstate(over="ignore"),
        pytest.raises(ValueError, match="the difference of the scores is not finite; scale the features"),
    ):
        model.explain_one(np.array([[1.7e308, 1.7e308], [-1.7e308, -1.7e308]]), 0, 1)


def test_the_largest_contributions_come_first():
    model = PerceptronRanker.from_weights({"clicks": 1.0, "age": -5.0, "length": 3.0})
    found = model.explain_one([{"clicks": 1.0, "age": 1.0, "length": 1.0}, {}], 0, 1)
    assert found.contributions == {"clicks": 1.0, "age": -5.0, "length": 3.0}
    assert found.largest_first() == [("age", -5.0), ("length", 3.0), ("clicks", 1.0)]
    assert found.in_words(most=1).splitlines()[1:] == ["  -5  age", "  +4  2 others"]


def test_the_shares_of_a_product_are_equal():
    class Product(KernelPerceptronRanker):
        def _score(self, X):
            return X[:, 0] * X[:, 1]

    model = Product()
    model.learn_one(np.array([[0.0, 1.0, 2.0], [1.0, 0.0, 2.0]]), [0, 1])
    found = model.explain_one(np.array([[2.0, 2.0, 7.0], [0.0, 0.0, 1.0]]), 0, 1)
    # Whichever of the two comes second makes all of the difference: half each, by orders and their reverses.
    assert found.contributions == [2.0, 2.0, 0.0]
    assert not found.exact


@pytest.mark.slow
def test_an_explanation_of_a_linear_model_costs_about_a_ranking():
    model = StreamScaler() | PerceptronRanker()
    rng = np.random.default_rng(0)
    for _ in range(20):
        model.learn_one(rng.normal(size=(100, 46)), rng.integers(0, 3, 100))
    X = rng.normal(size=(100, 46))

    def seconds(call):
        times = []
        for _ in range(200):
            start = time.perf_counter()
            call()
            times.append(time.perf_counter() - start)
        return np.median(times)

    # A mark for what grows with the model or the query; the figure of a quiet machine is about 3.
    assert seconds(lambda: model.explain_one(X, 3, 4)) < 12 * seconds(lambda: model.predict_one(X))


@pytest.mark.first(3)
@pytest.mark.parametrize("name", [*EXACT, *SHARES])
def test_arrays_are_explained_by_column_as_dicts_are_by_name(name):
    by_column, by_name = ((EXACT | SHARES)[name]() for _ in range(2))
    for x, y in queries():
        by_name.learn_one(list(x.values()), list(y.values()))
        by_column.learn_one(np.array([[*document.values()] for document in x.values()]), list(y.values()))
    ((x, _),) = queries(1, seed=1)
    X = np.array([[*document.values()] for document in x.values()])
    found, named = by_column.explain_one(X, 2, 0), by_name.explain_one(list(x.values()), 2, 0)
    assert isinstance(found.contributions, list)
    assert len(found.contributions) == len(NAMES)
    assert named.contributions == {name: part for name, part in zip(NAMES, found.contributions, strict=True) if part}
    assert found.difference == named.difference


def test_an_explanation_takes_the_memory_of_the_features_in_use():
    model = HashedFeatures(20) | PerceptronRanker()
    query = {"a": {"x": 1.0, "y": 2.0}, "b": {"x": 3.0}}
    model.learn_one(query, {"a": 1, "b": 0})
    tracemalloc.start()
    explanation = model.explain_one(query, "a", "b")
    peak = tracemalloc.get_traced_memory()[1]
    tracemalloc.stop()
    assert peak < 1 << 16
    scores = model.predict_one(query)
    assert explanation.difference == pytest.approx(scores["a"] - scores["b"], rel=1e-12)
    assert len(explanation.contributions) == 2


@pytest.mark.first(1)
@pytest.mark.parametrize(
    ("make", "most"),
    [
        (lambda: DirectRanker(hidden=(4,)), 1048),
        (ClickTrees, 1048),
        (lambda: KernelPerceptronRanker(budget=320), 52),
    ],
)
def test_shares_take_little_memory_and_limited_time(make, most):
    model = make()
    X = np.random.default_rng(0).normal(size=(3, 2000))
    model.learn_one(X, [0, 1, 2])
    x = X[:2].copy()
    x[1, most:] = x[0, most:]
    model.explain_one(x, 0, 1)
    tracemalloc.start()
    explanation = model.explain_one(x, 0, 1)
    peak = tracemalloc.get_traced_memory()[1]
    tracemalloc.stop()
    assert peak < 6_000_000
    scores = model.predict_one(x)
    assert sum(explanation.contributions) == pytest.approx(scores[0] - scores[1], abs=1e-9)
    x[1, most] += 1.0
    with pytest.raises(ValueError, match=f"differ in {most + 1} features; .* among {most}"):
        model.explain_one(x, 0, 1)
