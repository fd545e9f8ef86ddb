"""Linear rankers on sparse rows: what they learn is what they learn from the same rows as an array."""

import copy
import pickle
import warnings

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from online_rank import (
    AdditiveRanker,
    BlendRanker,
    GradientRanker,
    HashedFeatures,
    LossTracker,
    MaxAbsStreamScaler,
    PerceptronRanker,
    load,
    save,
)
from online_rank.base import parts_of
from online_rank.base.schema import declared_state
from online_rank.query import SparseRows
from online_rank.query.sparse import as_rows

pytestmark = pytest.mark.filterwarnings("ignore:credit='spread'")

SETTINGS = [
    {},
    {"credit": "spread"},
    {"credit": "argmax", "half_life": 5},
    {"credit": "sort"},
    {"credit": "argmax", "half_life": 0, "mass": "sqrt"},
]


def queries(n, d=30, seed=0, share=0.2):
    rng = np.random.default_rng(seed)
    for _ in range(n):
        m = int(rng.integers(1, 25))
        yield rng.normal(size=(m, d)) * (rng.random((m, d)) < share), rng.integers(0, 4, m)


def as_block(sequence):
    X, y = zip(*sequence, strict=True)
    return np.concatenate(X), np.concatenate(y), np.repeat(np.arange(len(y)), [len(grades) for grades in y])


def state(model):
    kept = {k: v.tobytes() if isinstance(v, np.ndarray) else repr(v) for k, v in vars(model).items() if k != "_rows"}
    return kept | {"rows": declared_state(model).rows[: model.n_features].tobytes()}


@pytest.mark.parametrize("options", SETTINGS, ids=str)
def test_an_update_from_sparse_rows_equals_an_update_from_the_array(options):
    for X, y in queries(40):
        dense = PerceptronRanker(**options)
        dense.learn_one(np.eye(30)[:4], [3, 0, 1, 0])
        sparse = copy.deepcopy(dense)
        dense.learn_one(X, y)
        sparse.learn_one(as_rows(X), y)
        assert sparse.weights == pytest.approx(dense.weights, rel=1e-12, abs=1e-12)
        assert sparse.served_weights == pytest.approx(dense.served_weights, rel=1e-12, abs=1e-12)
        assert sparse.last_round == pytest.approx(dense.last_round, rel=1e-12, abs=1e-12, nan_ok=True)
        assert sparse.predict_one(as_rows(X)) == pytest.approx(dense.predict_one(X), rel=1e-12, abs=1e-12)


@pytest.mark.first(1)
@pytest.mark.parametrize("half_life", [None, 3.0, 200.0, 0.7])
def test_the_lazy_average_stays_the_average(half_life):
    # Half-lives so short that the reference round has to move.
    rng = np.random.default_rng(1)
    dense, sparse = (PerceptronRanker(credit="spread", half_life=half_life) for _ in range(2))
    for _ in range(4000):
        X, y = rng.integers(-2, 3, (4, 5)) * 0.25, rng.integers(0, 3, 4)
        dense.learn_one(X, y)
        sparse.learn_one(as_rows(X), y)
    assert sparse.weights == pytest.approx(dense.weights, rel=1e-12)
    scale = np.abs(dense.served_weights).max()
    assert np.abs(sparse.served_weights - dense.served_weights).max() < 1e-12 * scale


@pytest.mark.parametrize("options", SETTINGS, ids=str)
def test_a_block_is_the_loop_bit_for_bit(options):
    sequence = [query for query in queries(40) if len(query[1])]
    one, many = PerceptronRanker(**options), PerceptronRanker(**options)
    for X, y in sequence:
        one.learn_one(as_rows(X), y)
    X, y, qid = as_block(sequence)
    many.learn_many(as_rows(X), y, qid)
    assert state(one) == state(many)
    assert many.predict_many(as_rows(X), qid).tolist() == [s for X, _ in sequence for s in one.predict_one(as_rows(X))]


@pytest.mark.slow
@given(st.integers(0, 1000), st.sampled_from([np.float32, np.float64]))
@settings(max_examples=20)
def test_empty_rows_repeated_columns_and_float32(seed, dtype):
    rng = np.random.default_rng(seed)
    m, d, entries = int(rng.integers(1, 9)), 6, int(rng.integers(0, 30))
    starts = np.sort(np.append(rng.integers(0, entries + 1, m - 1), [0, entries])).astype(np.int64)
    rows = SparseRows(starts, rng.integers(0, d, entries).astype(np.int32), rng.normal(size=entries).astype(dtype), d)
    y = rng.integers(0, 3, m)
    sparse, dense = PerceptronRanker(), PerceptronRanker()
    X = np.zeros((m, d))
    np.add.at(X, (np.repeat(np.arange(m), np.diff(starts)), rows.columns), rows.values.astype(np.float64))
    sparse.learn_one(rows, y)
    dense.learn_one(X, y)
    assert sparse.weights == pytest.approx(dense.weights, abs=1e-12)


def test_a_rejected_query_changes_nothing():
    model = PerceptronRanker(relative_margin=0.3)
    for X, y in queries(20):
        model.learn_one(as_rows(X), y)
    before = state(model)
    X, y = np.zeros((3, 30)), [1, 0, 2]
    X[1, 4] = np.nan
    with pytest.raises(ValueError, match="feature 4 of document 1"):
        model.learn_one(as_rows(X), y)
    X[1, 4] = 1e200
    with pytest.raises(ValueError, match=r"non-finite|not finite"):
        model.learn_one(as_rows(X), y)
    good = np.eye(30)[:3]
    with pytest.raises(ValueError, match=r"non-finite|not finite"):
        model.learn_many(as_rows(np.concatenate([good, X])), [2, 1, 0, *y], [0, 0, 0, 1, 1, 1])
    assert state(model) == before


def test_the_state_serves_arrays_too_and_survives_copies():
    model = PerceptronRanker()
    sequence = list(queries(10))
    for X, y in sequence:
        model.learn_one(as_rows(X), y)
    X, y = sequence[0]
    assert model.predict_one(X) == model.predict_one(as_rows(X))
    for twin in (copy.deepcopy(model), pickle.loads(pickle.dumps(model))):
        assert twin.served_weights.tolist() == model.served_weights.tolist()
        twin.learn_one(X, y)
    model.learn_one(as_rows(X), y)
    assert twin.weights.tolist() == model.weights.tolist()


def test_named_features_do_not_depend_on_how_the_vocabulary_grew():
    rng = np.random.default_rng(2)
    names = [f"word {i}" for i in range(2000)]
    stream = [
        ([{names[j]: float(rng.normal()) for j in rng.integers(0, 2000, 8)} for _ in range(10)], rng.integers(0, 3, 10))
        for _ in range(30)
    ]
    grown, known = PerceptronRanker(), PerceptronRanker()
    known.learn_one([dict.fromkeys(names, 0.0), {}], [0, 0])
    for x, y in stream:
        grown.learn_one(x, y)
        known.learn_one(x, y)
    assert declared_state(known).rows is not None
    weights = [dict(zip(model.feature_names, model.served_weights, strict=True)) for model in (grown, known)]
    assert weights[0] == pytest.approx({name: weights[1][name] for name in weights[0]}, rel=1e-9, abs=1e-15)


def test_certificates_of_sparse_rows_equal_certificates_of_arrays():
    u = np.random.default_rng(3).normal(size=30)
    for options in SETTINGS:
        dense, sparse = (LossTracker(PerceptronRanker(**options), {"u": u}, measure_served=True) for _ in range(2))
        for X, y in queries(30):
            dense.learn_one(X, y)
            sparse.learn_one(as_rows(X), y)
        assert sparse.totals == pytest.approx(dense.totals, rel=1e-9)
        assert sparse.certificate().pair_loss == pytest.approx(dense.certificate().pair_loss, rel=1e-9)
        assert sparse.certificate().holds


GRADIENT = [
    {},
    {"surrogate": "lambdarank", "optimizer": "adagrad"},
    {"surrogate": "listnet", "optimizer": "sgd", "half_life": 3.0},
    {"surrogate": "hinge", "half_life": None},
    {"optimizer": "adagrad", "half_life": 0.5},
]


@pytest.mark.first(1)
@pytest.mark.parametrize("options", GRADIENT, ids=str)
def test_gradient_descent_on_rows_is_that_on_arrays(options):
    dense, sparse = GradientRanker(**options), GradientRanker(**options)
    for t, (X, y) in enumerate(queries(150)):
        # A feature that is constant within each query, which a step by rounding errors would move.
        X[:, 3] = 0.1 * (1 + t % 3)
        dense.learn_one(X, y)
        sparse.learn_one(as_rows(X), y)
        assert sparse.weights == pytest.approx(dense.weights, rel=1e-9, abs=1e-12)
        assert sparse.served_weights == pytest.approx(dense.served_weights, rel=1e-9, abs=1e-12)
    assert sparse.last_round == pytest.approx(dense.last_round, rel=1e-9, abs=1e-12, nan_ok=True)
    assert dense.weights[3] == sparse.weights[3] == 0.0
    assert declared_state(sparse).rows is not None


@pytest.mark.parametrize("options", GRADIENT, ids=str)
def test_a_block_of_gradient_descent_is_the_loop(options, tmp_path):
    sequence = [query for query in queries(40) if len(query[1])]
    one, many = GradientRanker(**options), GradientRanker(**options)
    X, y, qid = as_block(sequence)
    one.learn_one(*sequence[0])  # from arrays to rows in the middle
    for x, grades in sequence[1:]:
        one.learn_one(as_rows(x), grades)
    many.learn_one(*sequence[0])
    many.learn_many(as_rows(X[qid > 0]), y[qid > 0], qid[qid > 0])
    assert state(one) == state(many)
    save(one, tmp_path / "model")
    twin = load(tmp_path / "model")
    twin.learn_one(as_rows(sequence[1][0]), sequence[1][1])
    many.learn_one(as_rows(sequence[1][0]), sequence[1][1])
    assert twin.weights.tolist() == many.weights.tolist()
    before = state(many)
    bad = sequence[1][0].copy()
    bad[0, 5] = np.inf
    with pytest.raises(ValueError, match="feature 5 of document 0 is inf"):
        many.learn_one(as_rows(bad), sequence[1][1])
    assert state(many) == before


def test_optimizers_that_move_every_weight_get_arrays():
    X, y = np.eye(40)[:4], [0, 1, 2, 0]
    for options in ({"optimizer": "adam"}, {"optimizer": "sgd", "l2": 0.1}):
        dense, sparse = GradientRanker(**options), GradientRanker(**options)
        dense.learn_one(X, y)
        sparse.learn_one(as_rows(X), y)
        assert declared_state(sparse).rows is None
        assert sparse.weights.tolist() == dense.weights.tolist()
    with pytest.raises(ValueError, match="GradientRanker needs them as an array"):
        GradientRanker(optimizer="adam").learn_one(as_rows(X)._replace(n_columns=1 << 23), y)


@pytest.mark.parametrize("half_life", [0.5, 2.0])
def test_a_rejected_block_is_undone_although_the_average_moved_its_reference(half_life):
    # The reference moves after 400 half-lives, which changes rows of features that the block does not have.
    # There are more features than entries in the block: otherwise all rows are copied anyway.
    model = PerceptronRanker(half_life=half_life, credit="argmax")
    columns, y = np.arange(10, dtype=np.int32), np.arange(10) % 3
    for order in (columns, columns[::-1].copy()):
        model.learn_one(SparseRows(np.arange(11), order, np.ones(10), 3000), y)
    few = SparseRows(np.arange(2001), np.tile(np.array([2998, 2999], dtype=np.int32), 1000), np.ones(2000), 3000)
    few.values[-1] = np.nan
    before = state(model)
    with pytest.raises(ValueError, match="feature 2999 of document 1999 is nan"):
        model.learn_many(few, np.tile([0, 1], 1000), np.repeat(np.arange(1000), 2))
    assert state(model) == before


def test_repeated_columns_count_once_in_the_norm():
    rows = SparseRows(np.array([0, 3, 4]), np.array([2, 0, 2, 1], np.int32), np.array([1.0, 2.0, 3.0, 1.0]), 3)
    model = PerceptronRanker(credit="argmax")
    model.learn_one(rows, [1, 0])
    assert model.last_round.largest_norm == pytest.approx((2.0**2 + (1.0 + 3.0) ** 2) ** 0.5)
    assert rows.values.tolist() == [1.0, 2.0, 3.0, 1.0]


def test_sparse_features_and_spread_bring_a_hint_once():
    model = PerceptronRanker(credit="spread")
    with pytest.warns(UserWarning, match="for text and ids take the default, 'adaptive'") as caught:
        model.learn_one(as_rows(np.eye(5)), [0, 1, 2, 0, 0])
    assert [told.filename for told in caught if told.category is UserWarning] == [__file__]
    with warnings.catch_warnings():
        warnings.simplefilter("error")
        model.learn_one(as_rows(np.eye(5)), [0, 1, 2, 0, 0])
        PerceptronRanker().learn_one(as_rows(np.eye(5)), [0, 1, 2, 0, 0])


@pytest.mark.parametrize("ranker", [PerceptronRanker, GradientRanker])
def test_huge_sparse_values_are_refused_without_an_overflow_on_the_way(ranker):
    model = HashedFeatures(9) | ranker(**({"optimizer": "adagrad"} if ranker is GradientRanker else {}))
    with warnings.catch_warnings(record=True) as told:
        warnings.simplefilter("always")
        with pytest.raises(ValueError, match=r"would make .* non-finite; scale the features"):
            model.learn_one({"a": {"x": 1e308, "y": 1e308}, "b": {"x": -1e308, "y": 1e308}}, {"a": 1, "b": 0})
    assert [each for each in told if issubclass(each.category, RuntimeWarning)] == []


@pytest.mark.parametrize("ranker", [PerceptronRanker, GradientRanker])
def test_prices_among_words_bring_a_hint_once(ranker):
    """Ranked worse than at random, silently."""
    x = {"a": {"kind": "shoe", "price": 3999.0}, "b": {"kind": "sock", "price": 5.0}, "c": {"kind": "hat", "price": 80.0}}
    options = {"optimizer": "adagrad"} if ranker is GradientRanker else {}
    model = HashedFeatures(9) | ranker(**options)
    with pytest.warns(UserWarning, match=r"put MaxAbsStreamScaler\(\) before the ranker"):
        model.learn_one(x, {"a": 1, "b": 0, "c": 0})
    scaled = HashedFeatures(9) | MaxAbsStreamScaler() | ranker(**options)
    with warnings.catch_warnings():
        warnings.simplefilter("error")
        for _ in range(2):
            model.learn_one(x, {"a": 1, "b": 0, "c": 0})
            scaled.learn_one(x, {"a": 1, "b": 0, "c": 0})


@pytest.mark.parametrize("scaled", [False, True])
def test_a_blend_undoes_hashed_words_without_a_copy_of_their_table(monkeypatch, scaled):
    """Undoing a query in a blend kept a copy of all 2^22 rows."""
    words = HashedFeatures(text=("title",), others=False)
    pipeline = words | MaxAbsStreamScaler() | PerceptronRanker() if scaled else words | PerceptronRanker()
    model = BlendRanker([AdditiveRanker(kinds={"title": "ignored"}, trees=0), pipeline])
    rng = np.random.default_rng(0)

    def query():
        return [{"price": float(rng.normal()), "title": f"red w{j}"} for j in rng.integers(0, 50, 6)], rng.integers(0, 3, 6)

    for _ in range(3):
        model.learn_one(*query())
    (ranker,) = (part for part in parts_of(model) if getattr(part, "_rows", None) is not None)
    before, kept = ranker._rows.copy(), []
    take = np.take
    monkeypatch.setattr(np, "take", lambda state, rows, **more: kept.append(len(rows)) or take(state, rows, **more))
    monkeypatch.setattr(PerceptronRanker, "_learn_block", _failing(PerceptronRanker._learn_block, ranker))
    with pytest.raises(MemoryError):
        model.learn_one(*query())
    assert (ranker._rows == before).all()
    assert kept
    assert max(kept) < 100


def _failing(learn, ranker):
    """Learning that fails after one ranker has learned."""

    def learn_and_fail(self, *arguments):
        learn(self, *arguments)
        if self is ranker:
            raise MemoryError

    return learn_and_fail
