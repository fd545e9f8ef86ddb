"""StreamQuantileMap."""

import itertools
import re
import tracemalloc

import numpy as np
import pytest
import scipy.sparse
from hypothesis import example, given, settings
from hypothesis import strategies as st
from scipy.special import ndtr, ndtri
from scipy.stats import kstest, rankdata

from online_rank import AdditiveRanker, BlendRanker, PerceptronRanker, StreamQuantileMap
from online_rank._kernels import quantile_map as kernels
from online_rank.base.schema import declared_state
from online_rank.distributed import fork, mix
from online_rank.storage.files import from_bytes, to_bytes
from tests.helpers import mismatches
from tests.reference import preprocessing as reference


def heavy(n, seed=0):
    """Raw features as in web search: counts with many zeros, values up to 10^8 and beyond, a constant."""
    rng = np.random.default_rng(seed)
    z = rng.normal(size=(n, 4))
    return np.column_stack([np.floor(np.exp(z[:, 0] - 1)), np.exp(4 * z[:, 1]) * 1e6, -np.exp(-z[:, 2]), z[:, 3], np.ones(n)])


def test_exported_knots_are_far_enough_apart_to_compute_with():
    step = StreamQuantileMap()
    # Mostly 0, so that 0 stays 0 and the values next to it jump.
    step.learn_one(np.array([[0.0], [0.0], [0.0], [0.0], [3.0], [-2.0]]))
    curves, _ = step._layers(1)
    values, scores = curves.knots[0]
    zero = int(np.flatnonzero(values == 0.0)[0])
    assert scores[zero] == 0.0
    for beside in (zero - 1, zero + 1):
        # In any order of the operations, and in single precision.
        rise, run = np.float32(scores[beside] - scores[zero]), np.float32(values[beside] - values[zero])
        assert rise * run / run == rise != 0.0
        assert abs(values[beside]) <= 1e-37
    assert (np.diff(values) > 0.0).all()


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
    assert answer[:, 0] == pytest.approx(g, abs=1e-6)
    assert answer[:, 1] == pytest.approx((np.array(g) - np.mean(g)) / (np.std(g) + 0.1), abs=1e-6)
    assert quantiles.transform_one(np.array([[3.0], [3.0]]))[:, 1].tolist() == [0.0, 0.0]


values = st.one_of(st.integers(-3, 3).map(float), st.floats(-1e300, 1e300))
mostly_zero = st.one_of(st.just(0.0), values)


@pytest.mark.slow
@settings(max_examples=100)
@given(
    st.lists(values, min_size=1, max_size=90) | st.lists(mostly_zero, min_size=1, max_size=90),
    st.lists(mostly_zero, min_size=1, max_size=9),
    st.integers(8, 20),
)
def test_knots_and_map_follow_their_definition(sample, x, n_knots):
    quantiles = StreamQuantileMap(n_knots=n_knots)
    quantiles.learn_one(np.array(sample)[:, None])
    knots, scores = quantiles.knots(0)
    expected, expected_scores, rare = reference.knots(sample, n_knots)
    assert knots.tolist() == expected
    assert len(knots) <= n_knots
    assert scores == pytest.approx(expected_scores, abs=1e-8)
    assert quantiles._table.rare[0] == rare
    answer = quantiles.transform_one(np.array(x)[:, None])
    # Numbers of one half keep the differences of the reference finite; the smallest number has no half.
    g = [
        expected_scores[expected.index(v)] if v in expected else
        reference.interpolated(0.5 * v, [0.5 * k for k in expected], expected_scores) for v in x
    ]  # fmt: skip
    assert answer[:, 0] == pytest.approx(g, abs=1e-6)
    assert answer[:, 1] == pytest.approx(reference.relative(answer[:, 0].tolist(), rare), abs=1e-5)
    if rare:
        assert (answer[np.array(x) == 0] == 0.0).all()


@settings(max_examples=60)
@given(st.lists(values, max_size=12), st.lists(values, max_size=12), st.floats(0.1, 9), st.floats(0.1, 9), st.floats(0, 0.999))
@example([1.0], [2.0], 0.1, 0.10000000000000002, 0.0)
def test_sketches_join_by_systematic_sampling(a, b, weight_a, weight_b, draw):
    a, b = sorted(x for x in a if x), sorted(x for x in b if x)
    # A sketch stores its mass. The weight of a value is the quotient, so equal weights may differ in their last bits.
    weight_a, weight_b = (len(x) * weight / max(len(x), 1) for x, weight in ((a, weight_a), (b, weight_b)))
    points, others = np.zeros((1, 16)), np.zeros((1, 16))
    points[0, : len(a)], others[0, : len(b)] = a, b
    sizes, masses = np.array([len(a)]), np.array([len(a) * weight_a])
    kernels.join_sketches(points, sizes, masses, draw, others, np.array([len(b)]), np.array([len(b) * weight_b]))
    assert masses[0] == pytest.approx(len(a) * weight_a + len(b) * weight_b)
    if len(a) + len(b) <= 16 and (not a or not b or abs(weight_a - weight_b) <= 1e-9 * weight_a):
        # There is room for all: nothing is sampled, and no value gets a weight that is wrong by more than 1e-9.
        assert points[0, : sizes[0]].tolist() == sorted(a + b)
        return
    assert sizes[0] == 16
    parts = [[(x, weight_a) for x in a], [(x, weight_b) for x in b]]
    # Sums in another order may leave a value on the other side of a step.
    low, high = reference.joined(parts, 16, draw - 1e-9), reference.joined(parts, 16, draw + 1e-9)
    assert (low <= points[0]).all()
    assert (points[0] <= high).all()


def test_documents_are_sampled_evenly_and_by_the_seed_alone():
    quantiles, cut = StreamQuantileMap(seed=3), StreamQuantileMap(seed=3)
    for x in np.split(np.arange(1.0, 40_001.0), 400):
        quantiles.learn_one(x[:, None])
    for x in np.split(np.arange(1.0, 40_001.0), 100):
        cut.learn_many(x[:, None], None, np.repeat([0, 1, 2, 3], 100))
    assert to_bytes(cut) == to_bytes(quantiles)
    # One document of every 96th part of a stretch.
    places = np.array(quantiles._places)
    width = (declared_state(quantiles).due - declared_state(quantiles).start) / 96
    assert (np.diff(places) > 0).all()
    assert abs((places - declared_state(quantiles).start) // width - np.arange(96)).max() <= 1
    assert (
        declared_state(quantiles).masses[0] == pytest.approx(declared_state(quantiles).total) == declared_state(quantiles).start
    )
    assert kstest(declared_state(quantiles).points[0] / declared_state(quantiles).start, "uniform").statistic < 0.03


def test_a_drifting_feature_is_followed():
    quantiles = StreamQuantileMap(memory=2000)
    rng = np.random.default_rng(0)
    for t in range(400):
        quantiles.learn_one(rng.normal(t / 10, 1.0, size=(50, 1)))
    # A document's weight falls by e in 2,000 documents, in which the mean rises by 4; the median is 4 ln 2 below the last.
    newest, median, old = quantiles.transform_one(np.array([[40.0], [37.2], [20.0]]))[:, 0]
    assert median == pytest.approx(0.0, abs=0.3)
    assert newest > 0.8
    assert old < -1.9


def test_a_column_that_is_mostly_zero_keeps_zero_and_is_seen_at_once():
    rng = np.random.default_rng(0)
    quantiles = StreamQuantileMap()
    for _ in range(100):
        quantiles.learn_one(np.zeros((20, 2)))
    answer = quantiles.transform_one(np.array([[0.0, 3.0], [0.0, -1e9], [0.0, 0.0]]))
    assert answer[:, ::2].tolist() == [[0.0, 0.5], [0.0, -0.5], [0.0, 0.0]]
    for _ in range(400):
        quantiles.learn_one((rng.random((20, 2)) < 0.1) * rng.normal(size=(20, 2)))
    assert quantiles._table.rare[0]
    g = quantiles.transform_one(np.array([[-3.0], [-0.01], [0.0], [0.01], [0.67], [3.0]]).repeat(2, axis=1))[:, 0]
    # Zeros count for half: negative values have F from 0 to 1/4, positive ones from 3/4 to 1.
    assert g == pytest.approx([-3.0, ndtri(0.25), 0.0, ndtri(0.75), ndtri(0.875), 3.0], abs=0.3)


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


def test_a_stretch_is_an_eighth_of_what_came_before():
    quantiles, joined = StreamQuantileMap(memory=32_000), []
    for x in np.split(heavy(60_000), 600):
        before = declared_state(quantiles).n_joined
        quantiles.learn_one(x)
        if declared_state(quantiles).n_joined > before:
            joined.append(quantiles.n_documents)
    # The first query; stretches of at most half of what came before and 96 documents; then of an eighth, of at most 2,000.
    assert joined[:8] == [100, 200, 300, 400, 500, 600, 700, 800]
    assert joined[-3:] == [joined[-1] - 4000, joined[-1] - 2000, joined[-1]]
    assert all(b - a <= max(100, a // 8 + 100) for a, b in itertools.pairwise(joined))


def test_wide_queries_renew_a_part_of_the_features_each():
    wide = StreamQuantileMap()
    rng = np.random.default_rng(0)
    parts = []
    for _ in range(4):
        wide.learn_one(rng.normal(size=(10, 800)))
        parts.append(int((declared_state(wide).sizes > 0).sum()))
    assert parts == [200, 400, 600, 800]


def test_once_sketches_are_old_queries_renew_a_few_features_each():
    """One query in sixty took three times as long as the median: it renewed all sketches. Then the first of six took 2.5 times.

    It gathered the sample of the stretch, and renewed the first part.
    """
    rng, quantiles, renewed = np.random.default_rng(0), StreamQuantileMap(), []
    for _ in range(400):
        before, ended = quantiles.table.knots, declared_state(quantiles).span > 0
        quantiles.learn_one(rng.normal(size=(20, 46)))
        if len(before):
            changed = int((quantiles.table.knots != before).any(axis=(1, 2)).sum())
            renewed.append((changed, declared_state(quantiles).span > 0 and not ended))
    assert {changed for changed, _ in renewed[:50]} == {0, 46}
    assert {changed for changed, _ in renewed[300:]} == {0, 1, 3}
    assert {changed for changed, ends in renewed[300:] if ends} == {0}


def test_few_sketches_are_renewed_where_a_stretch_ends():
    rng, quantiles = np.random.default_rng(0), StreamQuantileMap()
    for _ in range(400):
        quantiles.learn_one(rng.normal(size=(20, 3)))
        assert declared_state(quantiles).span == 0


@settings(max_examples=40)
@given(
    st.integers(0, 5),
    st.sampled_from([-1e308, -1.0, 0.0, 5e-324, 1e-300, 1.0, 1e308]),
    st.sampled_from([1e-320, 1e-9, 1.0, 1e300]),
)
def test_values_of_any_scale_are_found(seed, offset, scale):
    x = offset + scale * np.random.default_rng(seed).normal(size=300)
    quantiles = StreamQuantileMap()
    for part in np.split(x, 3):
        quantiles.learn_one(part[:, None])
    knots, scores = quantiles.knots(0)
    answer = quantiles.transform_one(knots[:, None])[:, 0]
    assert answer == pytest.approx(scores, abs=1e-6)
    between = quantiles.transform_one(np.sort(x)[:, None])[:, 0]
    assert (np.diff(between) >= -1e-6).all()
    assert scores[0] - 1e-6 <= between.min() <= between.max() <= scores[-1] + 1e-6


@pytest.mark.parametrize("dtype", [np.float32, np.float64])
def test_forms_of_arrays(dtype):
    X = heavy(200).astype(dtype)
    made = []
    for x in (X, np.asfortranarray(X), np.repeat(X, 2, axis=1)[:, ::2]):
        quantiles = StreamQuantileMap()
        quantiles.learn_one(x)
        made.append(quantiles.transform_one(x))
    assert made[0].dtype == np.float32
    for other in made[1:]:
        np.testing.assert_array_equal(other, made[0])


def test_frozen():
    frozen, moving = StreamQuantileMap(frozen_after=100), StreamQuantileMap()
    for x in np.split(heavy(150), 3):
        frozen.learn_one(x)
        moving.learn_one(x)
    assert frozen.n_documents == 100
    assert sorted(frozen.knots(1)[0])[-1] == heavy(150)[:100, 1].max()
    state = to_bytes(frozen)
    for x in np.split(heavy(3000, seed=2), 60):
        frozen.learn_one(x)
        moving.learn_one(x)
    assert to_bytes(frozen) == state
    assert moving.n_documents == 3150


def test_it_is_saved_in_small():
    quantiles = StreamQuantileMap()
    rng = np.random.default_rng(0)
    for _ in range(50):
        quantiles.learn_one(rng.normal(size=(40, 136)))
    content = to_bytes(quantiles)
    assert len(content) <= 400_000
    again = from_bytes(content)
    X = rng.normal(size=(40, 136))
    np.testing.assert_array_equal(again.transform_one(X), quantiles.transform_one(X))
    quantiles.learn_one(X)
    again.learn_one(X)
    assert to_bytes(again) == to_bytes(quantiles)


def test_mixed_maps_equal_all_documents():
    X = heavy(30_000)
    base = StreamQuantileMap()
    for x in np.split(X[:5000], 100):
        base.learn_one(x)
    shards = [fork(base | PerceptronRanker()) for _ in range(3)]
    for k, shard in enumerate(shards):
        for x in np.split(X[5000 + 5000 * k : 10_000 + 5000 * k], 100):
            shard["StreamQuantileMap"].learn_one(x)
    mixed = mix(shards, base | PerceptronRanker())["StreamQuantileMap"]
    assert mixed.n_documents == 20_000
    assert declared_state(mixed).total == pytest.approx(20_000, rel=0.05)
    # Shares of ranks of what all of them saw.
    for j in (1, 2, 3):
        share = rankdata(X[:20_000, j]) / 20_000
        assert abs(ndtr(mixed.transform_one(X[:20_000])[:, 2 * j]) - share).max() < 0.04
    # A shard serves with what the base knew and what it learned.
    shard = shards[0]["StreamQuantileMap"]
    share = rankdata(X[:10_000, 3]) / 10_000
    assert abs(ndtr(shard.transform_one(X[:10_000])[:, 6]) - share).max() < 0.05
    # Nothing learned: the map of the base, and its documents count once.
    idle = mix([fork(base | PerceptronRanker()) for _ in range(3)], base | PerceptronRanker())["StreamQuantileMap"]
    assert idle.n_documents == 5000
    assert declared_state(idle).total <= 5000


def test_mixing_places_features_by_name():
    base = StreamQuantileMap() | PerceptronRanker()
    one, other = fork(base), fork(base)
    one.learn_one([{"a": 1.0, "b": 2.0}, {"a": 3.0, "b": 5.0}], [0, 1])
    other.learn_one([{"b": 9.0}, {"b": 7.0}], [0, 1])
    mixed = mix([one, other], base)["StreamQuantileMap"]
    assert mixed.feature_names == ("a", "b")
    # a is 1, 3, 0 and 0; b is 2, 5, 9 and 7.
    assert mixed.knots("a")[0].tolist() == [0.0, 1.0, 3.0]
    assert mixed.knots("b")[0].tolist() == [2.0, 5.0, 7.0, 9.0]


def test_a_feature_that_appears_late_was_zero_before():
    late, always = StreamQuantileMap(), StreamQuantileMap()
    for n in range(40):
        late.learn_one([{"a": float(n)}, {"a": 2.0}] if n < 20 else [{"a": float(n), "b": float(-n)}, {"b": 1.0}])
        always.learn_one(np.array([[n, 0], [2, 0]] if n < 20 else [[n, -n], [0, 1]], dtype=float))
    np.testing.assert_array_equal(late.knots("b")[0], always.knots(1)[0])
    np.testing.assert_array_equal(late.knots("b")[1], always.knots(1)[1])
    assert late.feature_names == ("a", "b")
    assert set(late.transform_one([{"a": 1.0}])[0]) == {"a", "a in query", "b", "b in query"}
    late.learn_one([{"c": 4.0, "a": 1.0}, {"a": 2.0}])
    # Of c one value is known, for which as much counts as for 0: F is 1/4 for 0 and 3/4 for 4.
    assert late.transform_one([{"c": 4.0}, {"c": 0.0}])[0]["c"] == pytest.approx(ndtri(0.75) - ndtri(0.25))


def test_a_stream_of_sparse_rows_passes_as_it_is():
    queries = [scipy.sparse.random_array((8, 50_000), density=1e-3, format="csr", rng=t) for t in range(6)]
    front, alone = StreamQuantileMap() | PerceptronRanker(), PerceptronRanker()
    for t, X in enumerate(queries):
        front.learn_one(X, np.arange(8) % (2 + t))
        alone.learn_one(X, np.arange(8) % (2 + t))
    assert front.predict_one(queries[0]) == alone.predict_one(queries[0])
    again = from_bytes(to_bytes(front))
    assert again.predict_one(queries[0]) == alone.predict_one(queries[0])
    base = fork(front)
    assert mix([base], front).predict_one(queries[1]) == pytest.approx(front.predict_one(queries[1]))
    bad = queries[0].copy()
    bad.data[0] = np.nan
    with pytest.raises(ValueError, match="features must be finite"):
        front.learn_one(bad, np.arange(8))
    # One that began with arrays maps sparse ones too.
    model = StreamQuantileMap()
    model.learn_one(np.eye(3))
    np.testing.assert_array_equal(model.transform_one(scipy.sparse.csr_array(np.eye(3))), model.transform_one(np.eye(3)))


def test_what_learned_from_arrays_is_asked_with_numbers_as_names():
    model = StreamQuantileMap() | PerceptronRanker()
    X = heavy(30)
    model.learn_one(X, np.arange(30) % 3)
    few = [{"2": row[1], "4": row[3]} for row in X]
    filled = np.zeros_like(X)
    filled[:, [1, 3]] = X[:, [1, 3]]
    assert model.predict_one(few) == model.predict_one(filled)


def test_features_beyond_what_memory_holds_are_refused():
    model = StreamQuantileMap()
    with pytest.raises(ValueError, match="at most 16384 are accepted"):
        model.learn_one(np.zeros((1, 16_385)))
    assert model.n_features == 0


def test_names_of_columns():
    quantiles = StreamQuantileMap()
    quantiles.learn_one([{"a": 1.0, 3: 2.0}, {"a": 2.0}])
    assert list(quantiles.transform_one([{"a": 1.0}])[0]) == ["a", "a in query", 3, (3, "in query")]


TWICE = [
    (lambda: StreamQuantileMap() | StreamQuantileMap(), 8),
]


@pytest.mark.parametrize(("twice", "n_columns"), TWICE)
def test_columns_of_a_map_behind_a_map_stay_apart(twice, n_columns):
    rng = np.random.default_rng(0)
    named, plain, grown = (twice() | PerceptronRanker() for _ in range(3))
    for t in range(10):
        X, y = rng.normal(size=(6, 2)), rng.integers(0, 3, 6)
        query = [dict(zip("ab", row, strict=True)) for row in X.tolist()]
        named.learn_one(query, y)
        plain.learn_one(X, y)
        grown.learn_one([{**x, "late": 1.0} for x in query] if t > 5 else query, y)
        assert named.predict_one(query) == pytest.approx(plain.predict_one(X), abs=1e-9)
    names = [model["PerceptronRanker"].feature_names for model in (named, grown)]
    assert len(set(names[0])) == n_columns
    assert names[1][:n_columns] == names[0]


def test_a_blend_brings_its_own_map_behind_another():
    rng = np.random.default_rng(0)
    model = StreamQuantileMap() | BlendRanker([AdditiveRanker()])
    for _ in range(5):
        model.learn_one([dict(zip("ab", row, strict=True)) for row in rng.normal(size=(6, 2)).tolist()], rng.integers(0, 3, 6))
    assert model["BlendRanker"].n_queries == 5


def test_a_rejected_query_leaves_the_sample_as_it_was():
    model = StreamQuantileMap() | PerceptronRanker()
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


class Counting(StreamQuantileMap):
    """A map that also counts queries, in another attribute."""

    n_queries = 0

    def _learn_block(self, block):
        self.n_queries += len(block.w)
        return super()._learn_block(block)


@pytest.mark.parametrize("kind", [StreamQuantileMap, Counting])
def test_a_query_in_which_the_map_does_not_change_is_undone(kind):
    model = kind() | PerceptronRanker()
    rng = np.random.default_rng(0)
    quantiles = model[kind.__name__]
    while not (quantiles.n_documents > 5000 and 60 < declared_state(quantiles).due - declared_state(quantiles).count < 400):
        model.learn_one(rng.normal(size=(10, 3)), rng.integers(0, 3, 10))
    before = vars(quantiles).copy()
    X, y = rng.normal(size=(10, 3)), np.full(10, -1)
    for learn in (
        lambda: model.learn_one(X, y),
        lambda: model.learn_many(np.tile(X, (3, 1)), np.tile(y, 3), np.repeat([0, 1, 2], 10)),
    ):
        with pytest.raises(ValueError, match="-1"):
            learn()
        assert all(vars(quantiles)[name] is value for name, value in before.items())
    X[4, 2] = np.inf
    for ask in (model.rank_one, quantiles.transform_one, lambda x: model.learn_one(x, abs(y))):
        with pytest.raises(ValueError, match="feature 2 of document 4"):
            ask(X)
        assert quantiles.n_documents == before["_count"]
    model.learn_one(rng.normal(size=(10, 3)), rng.integers(0, 3, 10))
    assert quantiles.n_documents == before["_count"] + 10


@pytest.mark.parametrize(
    ("change", "message"),
    [
        (lambda q: declared_state(q).sizes.__setitem__(0, 225), "_sizes has entries outside 0 to 224"),
        (lambda q: declared_state(q).sizes.__setitem__(0, -1), "_sizes has entries outside 0 to 224"),
        (lambda q: declared_state(q).points.__setitem__((1, 0), np.nan), "_points has entries that are not finite"),
        (lambda q: declared_state(q).points.__setitem__((1, 0), 8e306), "do not ascend"),
        (lambda q: declared_state(q).points.__setitem__((1, slice(None)), 0.0), "a sketch holds a 0"),
        (lambda q: setattr(q, "_cursor", 6), "_cursor should be an integer from 0 to 5"),
        (lambda q: setattr(q, "_cursor", 4), "no documents are there to join"),
        (lambda q: setattr(q, "_start", 10**6), "begins in the future"),
        (lambda q: setattr(q, "_due", declared_state(q).start), "has no length"),
        (lambda q: setattr(q, "_rows", (np.zeros(4),)), r"_rows\[0\] should be an array"),
        (lambda q: setattr(q, "_rows", (np.full(5, np.inf),)), "not finite"),
        (lambda q: setattr(q, "_base_points", np.zeros((6, 224))), "_base_sizes should be an array"),
    ],
)
def test_state_that_kernels_could_not_take_is_refused(change, message):
    quantiles = StreamQuantileMap()
    quantiles.learn_one(heavy(150))
    assert mismatches(quantiles) == []
    change(quantiles)
    assert re.search(message, " ".join(mismatches(quantiles)))


def test_bad_parameters():
    for arguments, message in (
        ({"n_knots": 7}, "n_knots is 7"),
        ({"n_knots": 257}, "n_knots is 257"),
        ({"memory": 1000}, "memory is 1000"),
        ({"frozen_after": 0}, "frozen_after is 0"),
        ({"seed": -1}, "seed is -1"),
    ):
        with pytest.raises(ValueError, match=message):
            StreamQuantileMap(**arguments)


def test_growth_allocates_only_what_is_kept():
    """A request with many new features would take that memory twice."""
    model = StreamQuantileMap()
    model.learn_one({"a": {"f": 1.0}, "b": {"f": 2.0}})
    tracemalloc.start()
    try:
        model._grow(1000)
        kept, peak = tracemalloc.get_traced_memory()
    finally:
        tracemalloc.stop()
    assert peak < 1.1 * kept
