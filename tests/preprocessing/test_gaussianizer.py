"""StreamGaussianizer and batch_gaussianize; what every transformer keeps is in test_preprocessing.py."""

import numpy as np
import pandas as pd
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from hypothesis.extra.numpy import arrays
from scipy.special import ndtri

from online_rank import StreamGaussianizer
from online_rank._kernels import quantiles
from online_rank.preprocessing import batch_gaussianize
from tests.kernels.calling import from_python
from tests.reference import preprocessing as reference

values = st.one_of(st.integers(-3, 3).map(float), st.floats(allow_nan=False, allow_infinity=False))
matrices = st.tuples(st.integers(1, 25), st.integers(1, 3)).flatmap(lambda shape: arrays(np.float64, shape, elements=values))

normal_quantile = from_python(quantiles.normal_quantile)


@settings(deadline=None, max_examples=100)
@given(X=matrices, cuts=st.lists(st.integers(0, 25), max_size=4))
def test_exact_while_there_is_room(X, cuts):
    model = StreamGaussianizer(n_centroids=32)
    for part in np.split(X, sorted(min(cut, len(X)) for cut in cuts)):
        model.learn_one(part)
    expected = reference.gaussianized(X, X)
    np.testing.assert_allclose(batch_gaussianize(X), expected, rtol=1e-12, atol=1e-15)
    np.testing.assert_allclose(model.transform_one(X), expected, rtol=3e-9, atol=1e-15)


@settings(deadline=None, max_examples=60)
@given(train=matrices, data=st.data())
def test_unseen_values(train, data):
    X = data.draw(arrays(np.float64, (6, train.shape[1]), elements=values))
    model = StreamGaussianizer(n_centroids=32)
    model.learn_one(train)
    expected = reference.gaussianized(X, train)
    np.testing.assert_allclose(batch_gaussianize(X, train), expected, rtol=1e-12, atol=1e-15)
    np.testing.assert_allclose(model.transform_one(X), expected, rtol=3e-9, atol=1e-15)


DRAWS = {
    "normal": lambda rng, n: rng.normal(size=n),
    "long tail": lambda rng, n: np.exp(5.0 * rng.normal(size=n)),
    "mostly zero": lambda rng, n: np.where(rng.random(n) < 0.7, 0.0, rng.exponential(size=n)),
    "counts": lambda rng, n: rng.poisson(50.0, size=n).astype(float),
    "rising": lambda rng, n: np.arange(n, dtype=float),
    "falling": lambda rng, n: -np.arange(n, dtype=float),
    "huge": lambda rng, n: 1e308 * rng.uniform(-1.7, 1.7, size=n),
}


@pytest.mark.parametrize("draw", DRAWS.values(), ids=DRAWS)
def test_sketch_is_close_to_the_exact_quantiles_in_constant_memory(draw):
    rng = np.random.default_rng(0)
    X = draw(rng, 20_000)[:, None]
    model = StreamGaussianizer(deviation=1.0)
    memory = set()
    for t in range(0, len(X), 50):
        model.learn_one(X[t : t + 50])
        memory.add(model._raw_memory_usage // 1000)
    assert len(memory) == 1
    assert model._sizes[0] <= model.n_centroids
    assert np.abs(model._weights[0, : model._sizes[0]]).sum() == pytest.approx(len(X))
    assert (np.diff(model._values[0, : model._sizes[0]]) > 0).all()
    error = np.abs(model.transform_one(X) - batch_gaussianize(X, deviation=1.0))
    assert error.max() < 0.15
    assert error.mean() < 0.015
    # Order is kept.
    assert (np.diff(model.transform_one(np.sort(X, axis=0)), axis=0) >= 0).all()


def test_output_has_the_deviation_asked_for():
    X = np.exp(np.random.default_rng(1).normal(size=(3000, 2)))
    model = StreamGaussianizer()
    model.learn_one(X)
    assert model.transform_one(X).std(axis=0) == pytest.approx([1 / 3, 1 / 3], rel=0.01)
    assert batch_gaussianize(X).mean(axis=0) == pytest.approx([0.0, 0.0], abs=1e-10)


def test_a_feature_that_appears_late_was_zero_before():
    late, always = StreamGaussianizer(), StreamGaussianizer()
    late.learn_one([{"a": 1.0}, {"a": 2.0}])
    late.learn_one([{"b": 4.0}, {"a": 2.0, "b": -8.0}])
    always.learn_one(np.array([[1.0, 0.0], [2.0, 0.0]]))
    always.learn_one(np.array([[0.0, 4.0], [2.0, -8.0]]))
    assert late._values.tobytes() == always._values.tobytes()
    assert late._weights.tobytes() == always._weights.tobytes()
    assert late._sizes.tolist() == always._sizes.tolist()


def test_normal_quantile():
    p = np.concatenate([np.random.default_rng(0).uniform(size=2000), 10.0 ** -np.arange(1, 17), [0.02425, 0.5, 1 - 0.02425]])
    ours = np.array([normal_quantile(x) for x in p])
    np.testing.assert_allclose(ours, ndtri(p), rtol=2e-9, atol=0)
    half = p[p < 0.5]
    exact = half[1.0 - (1.0 - half) == half]
    assert [-normal_quantile(1.0 - x) for x in exact] == [normal_quantile(x) for x in exact]


def test_batch_keeps_the_form():
    frame = pd.DataFrame({"a": [1.0, 2.0, 4.0]})
    assert batch_gaussianize(frame)["a"].tolist() == pytest.approx([ndtri(1 / 6) / 3, 0.0, ndtri(5 / 6) / 3])
    assert batch_gaussianize({"i": {"a": 2.0}}, frame) == {"i": {"a": 0.0}}
    with pytest.raises(ValueError, match="same features"):
        batch_gaussianize(frame, pd.DataFrame({"b": [1.0]}))
    with pytest.raises(ValueError, match="no documents"):
        batch_gaussianize(np.empty((0, 2)))
    with pytest.raises(ValueError, match="feature 'a' of document 1 is nan"):
        batch_gaussianize([{"a": 1.0}, {"a": np.nan}])


def test_bad_parameters():
    with pytest.raises(ValueError, match="deviation is 0"):
        StreamGaussianizer(deviation=0)
    with pytest.raises(ValueError, match="n_centroids is 8"):
        StreamGaussianizer(n_centroids=8)
