"""StreamQuantileMap and Ramps."""

import itertools
import re

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from scipy.special import ndtri
from scipy.stats import kstest

from online_rank import PerceptronRanker, StreamQuantileMap
from online_rank._kernels.quantile_map import reservoir_slots
from online_rank.base.schema import mismatches
from online_rank.preprocessing import Ramps
from online_rank.storage.files import to_bytes
from tests.reference import preprocessing as reference


def heavy(n, seed=0):
    """Raw features as in web search: counts with many zeros, values up to 10^8 and beyond, a constant."""
    rng = np.random.default_rng(seed)
    z = rng.normal(size=(n, 4))
    return np.column_stack([np.floor(np.exp(z[:, 0] - 1)), np.exp(4 * z[:, 1]) * 1e6, -np.exp(-z[:, 2]), z[:, 3], np.ones(n)])


def test_by_hand():
    quantiles = StreamQuantileMap()
    quantiles.learn_one(np.array([[1.0], [1.0], [1.0], [5.0]]))
    # F(1) = (0 + 3) / 8, F(5) = (3 + 4) / 8.
    low, high = ndtri(3 / 8), ndtri(7 / 8)
    values, scores = quantiles.knots(0)
    assert values.tolist() == [1.0, 5.0]
    assert scores == pytest.approx([low, high])
    answer = quantiles.transform_one(np.array([[3.0], [1e300], [-1e300]]))
    g = [(low + high) / 2, high, low]
    assert answer[:, 0] == pytest.approx(g)
    assert answer[:, 1] == pytest.approx((np.array(g) - np.mean(g)) / (np.std(g) + 0.1))
    assert quantiles.transform_one(np.array([[3.0], [3.0]]))[:, 1].tolist() == [0.0, 0.0]


values = st.one_of(st.integers(-3, 3).map(float), st.floats(-1e300, 1e300))


@settings(deadline=None, max_examples=60)
@given(st.lists(values, min_size=1, max_size=150), st.lists(values, min_size=1, max_size=9), st.integers(2, 9))
def test_knots_and_map_follow_their_definition(sample, x, n_knots):
    quantiles = StreamQuantileMap(n_knots=n_knots)
    quantiles.learn_one(np.array(sample)[:, None])
    knots, scores = quantiles.knots(0)
    expected, expected_scores = reference.knots(sample, n_knots)
    assert knots.tolist() == expected
    assert scores == pytest.approx(expected_scores, abs=1e-8)
    answer = quantiles.transform_one(np.array(x)[:, None])
    # Numbers of one half keep the differences of the reference finite.
    g = [reference.interpolated(0.5 * v, [0.5 * k for k in expected], expected_scores) for v in x]
    assert answer[:, 0] == pytest.approx(g, abs=1e-8)
    assert answer[:, 1] == pytest.approx(reference.relative(answer[:, 0].tolist()), abs=1e-9)


def test_the_sample_is_that_of_algorithm_r_and_uniform():
    slots = np.empty(5000, dtype=np.int64)
    reservoir_slots(3, 0, 100, slots)
    assert slots[:100].tolist() == list(range(100))
    assert slots.max() == 99
    # Of the documents 100..4999 about 100 (H(5000) - H(100)) = 391 enter.
    assert 330 < (slots[100:] >= 0).sum() < 460
    parts = np.empty(5000, dtype=np.int64)
    for start in range(0, 5000, 700):
        reservoir_slots(3, start, 100, parts[start : start + 700])
    assert parts.tolist() == slots.tolist()
    quantiles = StreamQuantileMap(n_sample=100, seed=3)
    for x in np.split(np.arange(5000.0), 50):
        quantiles.learn_one(x[:, None])
    kept = np.concatenate(quantiles._sample)[:100, 0]
    draws = dict(enumerate(slots.tolist()))
    assert kept.tolist() == reference.reservoir(lambda n: draws[n] if draws[n] >= 0 else n, range(5000), 100)
    assert kstest(kept / 5000, "uniform").pvalue > 0.01


def test_quantiles_of_a_long_stream_are_about_right():
    X = heavy(20_000)
    quantiles = StreamQuantileMap()
    for x in np.split(X, 400):
        quantiles.learn_one(x)
    g = quantiles.transform_one(X)[:, ::2]
    # The exponential and the normal features become normal; zeros of the counts stay one value.
    for j in (1, 2, 3):
        assert abs(g[:, j].mean()) < 0.1
        assert g[:, j].std() == pytest.approx(1.0, abs=0.07)
    assert np.unique(g[X[:, 0] == 0, 0]).size == 1
    assert (g[:, 4] == 0.0).all()
    order = np.argsort(X[:, 1])
    assert (np.diff(g[order, 1]) >= 0).all()


def test_units_do_not_matter():
    a, b = StreamQuantileMap(), StreamQuantileMap()
    for x in np.split(heavy(3000), 60):
        a.learn_one(x)
        b.learn_one(2.0**40 * x)
    x = heavy(50, seed=1)
    np.testing.assert_array_equal(a.transform_one(x), b.transform_one(2.0**40 * x))


def test_knots_are_found_when_it_is_time_a_few_features_a_query():
    quantiles = StreamQuantileMap()
    moved = []
    for x in np.split(heavy(6000), 100):
        before = quantiles._values.copy()
        quantiles.learn_one(x)
        moved.append(not np.array_equal(before, quantiles._values) if len(before) else True)
    # At 60, 120 (above 90), 180, 300 (270), 480 (450), 720, 1080, 1620, 2460 (2430), 3720 (3690) and 5580 documents.
    assert [60 * (i + 1) for i in np.flatnonzero(moved)] == [60, 120, 180, 300, 480, 720, 1080, 1620, 2460, 3720, 5580]
    wide = StreamQuantileMap()
    rng = np.random.default_rng(0)
    wide.learn_one(rng.normal(size=(2000, 40)))
    # 32,768 values of 2,000 rows: 16 features a query.
    assert (wide._sizes > 0).sum() == 16
    for _ in range(4):
        wide.learn_one(rng.normal(size=(1, 40)))
    assert (wide._sizes > 0).all()


def test_frozen():
    frozen, moving = StreamQuantileMap(frozen=True, n_sample=100), StreamQuantileMap(n_sample=100)
    for x in np.split(heavy(150), 3):
        frozen.learn_one(x)
        moving.learn_one(x)
    state = to_bytes(frozen)
    assert sorted(frozen.knots(1)[0])[-1] == heavy(150)[:100, 1].max()
    for x in np.split(heavy(3000, seed=2), 60):
        frozen.learn_one(x)
        moving.learn_one(x)
    assert to_bytes(frozen) == state
    assert moving.n_documents == 3150


def test_a_feature_that_appears_late_was_zero_before():
    late, always = StreamQuantileMap(n_sample=64), StreamQuantileMap(n_sample=64)
    for n in range(40):
        late.learn_one([{"a": float(n)}, {"a": 2.0}] if n < 20 else [{"a": float(n), "b": float(-n)}, {"b": 1.0}])
        always.learn_one(np.array([[n, 0], [2, 0]] if n < 20 else [[n, -n], [0, 1]], dtype=float))
    assert [chunk.tobytes() for chunk in late._sample] == [chunk.tobytes() for chunk in always._sample]
    assert late.feature_names == ("a", "b")
    assert set(late.transform_one([{"a": 1.0}])[0]) == {"a", "a in query", "b", "b in query"}


def test_names_of_columns():
    quantiles = StreamQuantileMap(2)
    quantiles.learn_one([{"a": 1.0, 3: 2.0}, {"a": 2.0}])
    assert list(quantiles.transform_one([{"a": 1.0}])[0]) == [
        "a", ("a", "> -2"), "a in query", ("a in query", "> -2"),
        3, (3, "> -2"), (3, "in query"), ((3, "in query"), "> -2"),
    ]  # fmt: skip


@settings(deadline=None, max_examples=30)
@given(st.lists(st.floats(-4, 4), min_size=1, max_size=5), st.integers(2, 13))
def test_ramps(z, n_knots):
    places = np.linspace(-2, 2, n_knots)
    answer = Ramps(n_knots).transform_one(np.array(z)[:, None])
    for row, value in zip(answer, z, strict=True):
        expected = [0.7 * min(max((value - a) / (b - a), 0.0), 1.0) for a, b in itertools.pairwise(places)]
        assert row == pytest.approx([value, *expected])


def test_ramps_as_an_option_are_the_step():
    X = heavy(300)
    both, option = StreamQuantileMap() | Ramps(5), StreamQuantileMap(5)
    for x in np.split(X, 10):
        both.learn_one(x)
        option.learn_one(x)
    np.testing.assert_array_equal(both.transform_one(X), option.transform_one(X))
    assert option.transform_one(X).shape == (300, 5 * 2 * 5)


def test_a_rejected_query_leaves_the_sample_as_it_was():
    model = StreamQuantileMap(n_sample=64) | PerceptronRanker()
    rng = np.random.default_rng(0)
    for _ in range(30):
        model.learn_one(rng.normal(size=(10, 3)), rng.integers(0, 3, 10))
    before = to_bytes(model)
    with pytest.raises(ValueError, match="w is -1"):
        model.learn_one(rng.normal(size=(10, 3)), rng.integers(0, 3, 10), w=-1.0)
    X = rng.normal(size=(30, 3))
    X[25, 1] = np.nan
    with pytest.raises(ValueError, match="feature 1 of document 25"):
        model.learn_many(X, rng.integers(0, 3, 30), np.repeat([0, 1, 2], 10))
    assert to_bytes(model) == before


@pytest.mark.parametrize(
    ("change", "message"),
    [
        (lambda q: q._sizes.__setitem__(0, 65), "_sizes has entries outside 0 to 64"),
        (lambda q: q._sizes.__setitem__(0, -1), "_sizes has entries outside 0 to 64"),
        (lambda q: q._values.__setitem__((1, 0), np.nan), "_values has entries that are not finite"),
        (lambda q: q._scores.__setitem__((1, 0), 9.0), "do not ascend"),
        (lambda q: setattr(q, "_cursor", 6), "_cursor should be an integer from 0 to 5"),
        (lambda q: setattr(q, "_count", 10), "_sample should be a tuple of 1"),
        (
            lambda q: setattr(q, "_sample", (q._sample[0], np.zeros((16, 4)), *q._sample[2:])),
            r"_sample\[1\] should be an array",
        ),
        (lambda q: setattr(q, "_sample", (q._sample[0], np.full((16, 5), np.inf), *q._sample[2:])), "not finite"),
    ],
)
def test_state_that_kernels_could_not_take_is_refused(change, message):
    quantiles = StreamQuantileMap(n_sample=100)
    quantiles.learn_one(heavy(150))
    assert mismatches(quantiles) == []
    change(quantiles)
    assert re.search(message, *mismatches(quantiles))


def test_bad_parameters():
    with pytest.raises(ValueError, match="n_sample is 10"):
        StreamQuantileMap(n_sample=10)
    with pytest.raises(ValueError, match="n_knots is 1"):
        StreamQuantileMap(n_knots=1)
    with pytest.raises(ValueError, match="knots of ramps is 1"):
        StreamQuantileMap(1)
    with pytest.raises(ValueError, match="knots of ramps is 2"):
        Ramps(2.5)
