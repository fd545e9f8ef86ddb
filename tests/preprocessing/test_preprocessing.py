"""StreamScaler and QueryNormalizer."""

import math

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from hypothesis.extra.numpy import arrays

from online_rank import QueryNormalizer, StreamScaler
from online_rank.preprocessing._columns import ColumnTransformer
from tests.reference import preprocessing as reference

TRANSFORMERS = [
    StreamScaler(),
    StreamScaler(with_std=False),
    QueryNormalizer(),
    QueryNormalizer("minmax"),
]
every_transformer = pytest.mark.parametrize("transformer", TRANSFORMERS, ids=lambda t: " ".join(repr(t).split()))

# Squares of what is smaller than 1e-150 vanish: such differences count as none.
values = st.one_of(st.integers(-3, 3).map(float), st.floats(-1e6, 1e6).map(lambda x: x if abs(x) > 1e-150 else 0.0))
streams = st.integers(1, 4).flatmap(
    lambda d: st.lists(st.integers(0, 6).flatmap(lambda m: arrays(np.float64, (m, d), elements=values)), min_size=1, max_size=5)
)


def block_of(queries):
    return np.concatenate(queries), np.repeat(np.arange(len(queries)), [len(X) for X in queries])


def state_of(transformer):
    return {name: value.tobytes() if isinstance(value, np.ndarray) else value for name, value in vars(transformer).items()}


def test_scaler_by_hand():
    scaler = StreamScaler()
    scaler.learn_one(np.array([[1.0], [3.0]]))
    # Mean (1 + 3) / 2 = 2, variance ((1 - 2)^2 + (3 - 2)^2) / 2 = 1.
    assert scaler.transform_one(np.array([[5.0], [2.0]])).tolist() == [[(5.0 - 2.0) / 1.0], [0.0]]
    scaler.learn_one(np.array([[5.0], [7.0]]))
    # Mean (1 + 3 + 5 + 7) / 4 = 4, variance (9 + 1 + 1 + 9) / 4 = 5.
    assert scaler.means.tolist() == [(1.0 + 3.0 + 5.0 + 7.0) / 4.0]
    assert scaler.variances.tolist() == [(9.0 + 1.0 + 1.0 + 9.0) / 4.0]
    assert scaler.transform_one(np.array([[5.0]]))[0, 0] == pytest.approx((5.0 - 4.0) / math.sqrt(5.0), rel=1e-15)
    assert scaler.n_documents == 2 + 2


@pytest.mark.first(1)
@pytest.mark.parametrize("with_std", [True, False])
@settings(max_examples=60)
@given(queries=streams)
def test_scaler_is_exact(with_std, queries):
    scaler = StreamScaler(with_std)
    for X, expected in zip(queries, reference.scaled_stream(queries, with_std), strict=True):
        scaler.learn_one(X)
        scale = 1.0 if with_std else max(1.0, np.abs(X).max(initial=0.0))
        if len(X):
            np.testing.assert_allclose(scaler.transform_one(X), expected, rtol=1e-6, atol=1e-8 * scale)


@pytest.mark.first(1)
@pytest.mark.parametrize("offset", [0.1, 1e8, -1e12])
def test_scaler_keeps_precision_far_from_zero(offset):
    rng = np.random.default_rng(0)
    queries = [np.float64(offset) + rng.integers(0, 5, (40, 3)).astype(float) for _ in range(3)]
    scaler = StreamScaler()
    for X in queries:
        scaler.learn_one(X)
    # The mean is a float64: it cannot be known better than to the last digit of the offset.
    expected = reference.scaled_stream([np.concatenate(queries)])[0][-40:]
    np.testing.assert_allclose(scaler.transform_one(queries[-1]), expected, rtol=0, atol=1e-12 + 4 * np.spacing(abs(offset)))


@given(value=st.floats(-1e150, 1e150), lengths=st.lists(st.integers(1, 9), min_size=1, max_size=6))
def test_a_constant_column_gives_exactly_zero(value, lengths):
    scaler = StreamScaler()
    for m in lengths:
        X = np.full((m, 2), value)
        scaler.learn_one(X)
        assert scaler.variances.tolist() == [0.0, 0.0]
        assert not scaler.transform_one(X).any()
        assert not QueryNormalizer().transform_one(X).any()
        assert not QueryNormalizer("minmax").transform_one(X).any()


def test_a_feature_that_appears_late_was_zero_before():
    late, always = StreamScaler(), StreamScaler()
    late.learn_one([{"a": 1.0}, {"a": 2.0}])
    late.learn_one([{"b": 4.0}, {"a": 2.0, "b": 8.0}])
    always.learn_one(np.array([[1.0, 0.0], [2.0, 0.0]]))
    always.learn_one(np.array([[0.0, 4.0], [2.0, 8.0]]))
    assert late.feature_names == ("a", "b")
    assert list(late.means.values()) == always.means.tolist()
    assert list(late.variances.values()) == always.variances.tolist()
    assert late.transform_one([{"b": 4.0, "never": 1.0}]) == [
        dict(zip("ab", always.transform_one(np.array([[0.0, 4.0]]))[0].tolist(), strict=True))
    ]


@every_transformer
@pytest.mark.parametrize("bad", [np.nan, np.inf, -np.inf])
@pytest.mark.parametrize("place", [(0, 0), (2, 1), (3, 2)])
def test_bad_values_change_nothing(transformer, bad, place):
    model = transformer.clone()
    good = np.arange(12.0).reshape(4, 3)
    model.learn_one(good)
    before = state_of(model)
    X = good.copy()
    X[place] = bad
    message = f"feature {place[1]} of document {place[0]} is {bad}"
    with pytest.raises(ValueError, match=message):
        model.learn_one(X)
    with pytest.raises(ValueError, match=message):
        model.transform_one(X)
    with pytest.raises(ValueError, match=f"feature {place[1]} of document {4 + place[0]} is {bad}"):
        model.learn_many(np.concatenate([good, X]), None, [1] * 4 + [2] * 4)
    assert state_of(model) == before


def test_features_too_large_change_nothing():
    scaler = StreamScaler()
    scaler.learn_one(np.array([[1.0], [2.0]]))
    before = state_of(scaler)
    with pytest.raises(ValueError, match="too large for StreamScaler"):
        scaler.learn_many(np.array([[1.0], [1e200], [3.0]]), None, [1, 2, 2])
    assert state_of(scaler) == before
    with pytest.raises(ValueError, match="the query of document 1 has features too large for QueryNormalizer"):
        QueryNormalizer("minmax").transform_many(np.array([[0.0], [1.7e308], [-1.7e308]]), [1, 2, 2])


@every_transformer
def test_float32_stays_float32_and_reads_any_layout(transformer):
    X = np.random.default_rng(2).normal(size=(6, 4))
    wide = transformer.clone()
    wide.learn_one(X)
    single = transformer.clone()
    single.learn_one(X.astype(np.float32))
    answer = single.transform_one(X.astype(np.float32))
    assert answer.dtype == np.float32
    np.testing.assert_allclose(answer, wide.transform_one(X), atol=1e-5)
    for same in (np.asfortranarray(X), np.repeat(X, 2, axis=0)[::2]):
        other = transformer.clone()
        other.learn_one(same)
        assert other.transform_one(same).tobytes() == wide.transform_one(X).tobytes()


@every_transformer
def test_empty_queries_teach_nothing(transformer):
    model = transformer.clone()
    model.learn_one([])
    model.learn_one({})
    assert model.transform_one({}) == {}
    model.learn_one(np.empty((0, 3)))
    assert model.transform_one(np.empty((0, 3))).shape[0] == 0
    X = np.array([[1.0, 2.0, 3.0], [3.0, 2.0, 1.0]])
    model.learn_one(X)
    model.learn_one([])
    fresh = transformer.clone()
    fresh.learn_one(X)
    assert model.transform_one(X).tobytes() == fresh.transform_one(X).tobytes()


@every_transformer
def test_before_learning(transformer):
    X = np.array([[1.0, -2.0], [3.0, 5.0]])
    answer = transformer.clone().transform_one(X)
    named = transformer.clone().transform_one([{"a": 1.0, "b": -2.0}, {"a": 3.0, "b": 5.0}])
    if isinstance(transformer, ColumnTransformer):
        assert not answer.any()
        assert named == [{"a": 0.0, "b": 0.0}] * 2
    else:
        assert [list(document.values()) for document in named] == answer.tolist()


def test_a_model_keeps_the_kind_of_features_that_it_learned():
    model = StreamScaler()
    model.learn_one(np.ones((2, 3)))
    with pytest.raises(ValueError, match="has 2 features, but StreamScaler has learned from 3"):
        model.learn_one(np.ones((2, 2)))
    with pytest.raises(ValueError, match="names its features"):
        model.learn_one([{"a": 1.0}])


@settings(max_examples=60)
@given(X=st.tuples(st.integers(1, 8), st.integers(1, 3)).flatmap(lambda shape: arrays(np.float64, shape, elements=values)))
def test_query_normalizer(X):
    np.testing.assert_allclose(QueryNormalizer().transform_one(X), reference.standardised_query(X), rtol=1e-9, atol=1e-9)
    minmax = QueryNormalizer("minmax").transform_one(X)
    np.testing.assert_allclose(minmax, reference.minmax_query(X), rtol=1e-12, atol=1e-300)
    varies = X.max(axis=0) > X.min(axis=0)
    assert (minmax.max(axis=0)[varies] == 1.0).all()


def test_query_normalizer_by_hand():
    X = [[1.0, 10.0], [3.0, 10.0]]
    # Mean 2 and deviation 1; a constant column is 0. Other queries do not matter.
    assert QueryNormalizer().transform_many([*X, [7.0, 0.0]], [1, 1, 2]).tolist() == [[-1.0, 0.0], [1.0, 0.0], [0.0, 0.0]]
    with pytest.raises(ValueError, match="method is 'rank'"):
        QueryNormalizer("rank")
