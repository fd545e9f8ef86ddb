import pickle
import warnings

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from online_rank import PerceptronRanker
from online_rank.base.schema import declared_state
from tests.helpers import MEASURES, SETTINGS, as_block, random_queries, state_of
from tests.reference import perceptron as reference


@pytest.mark.first(5)
@pytest.mark.parametrize("measure", MEASURES)
@pytest.mark.parametrize("options", SETTINGS, ids=lambda o: "-".join(map(str, o.values())))
def test_learns_what_the_reference_learns(options, measure):
    model = PerceptronRanker(measure, **options)
    average, n_averaged, squares, mass_so_far = np.zeros(3), 0.0, 0.0, 0.0
    # Long queries too: their heads are beyond what is counted one by one.
    for X, y in [*random_queries(seed=len(measure)), *random_queries(seed=1, n_queries=2, largest=150)]:
        # Every round starts from the model's weights, so that rounding cannot change which pairs tie.
        before = model.weights.tolist() if model.n_features else [0.0] * 3
        active = len(set(reference.effective(measure, y))) > 1
        weights, loss, mass, _ = reference.learn(
            X.tolist(), y.tolist(), before, measure=measure, square_over_mass=squares / mass_so_far if mass_so_far else 0.0,
            **options,
        )  # fmt: skip
        model.learn_one(X, y)
        assert model.weights == pytest.approx(np.array(weights), rel=1e-9, abs=1e-12)
        if active:
            n_averaged = 0.5 ** (1 / 1000) * n_averaged + 1
            average += (model.weights - average) / n_averaged
            assert model.last_round.loss == pytest.approx(loss, abs=1e-12)
            assert model.last_round.mass == pytest.approx(mass, abs=1e-12)
            assert model.last_round.largest_norm == pytest.approx(np.linalg.norm(X, axis=1).max())
            squared_norm = np.sum((np.array(weights) - before) ** 2)
            assert model.last_round.squared_gradient_norm == pytest.approx(squared_norm, abs=1e-9)
        squares += model.last_round.squared_gradient_norm
        mass_so_far += model.last_round.mass
        assert model.last_round.skipped is not active
    assert model.served_weights == pytest.approx(average, rel=1e-9, abs=1e-12)


def test_first_update_by_hand():
    # All scores tie, so the pessimistic ranking is worst first: c, b, a with grades 0, 1, 2.
    model = PerceptronRanker("ndcg", credit="argmax")
    X = np.array([[4.0, 0.0], [0.0, 2.0], [1.0, 1.0]])
    model.learn_one(X, [2, 1, 0])
    d2, d3 = 1 / np.log2(3), 1 / np.log2(4)
    z = 3.0 + 1.0 * d2
    v = np.array([(3.0 - 0.0) * (1.0 - d3), (1.0 - 0.0) * (d2 - d3)]) / z
    # The violator of document 0 is document 1: of equal scores, the most relevant one. The v_i are scaled to the loss.
    loss = 1.0 - (0.0 + 1.0 * d2 + 3.0 * d3) / z
    assert model.weights == pytest.approx(loss / v.sum() * (v[0] * (X[0] - X[1]) + v[1] * (X[1] - X[2])))
    assert model.last_round.loss == pytest.approx(loss)
    assert model.last_round.mass == pytest.approx(loss)
    assert model.last_round.v_max == pytest.approx(v[0] / v[1])


def test_a_correct_ranking_teaches_nothing():
    model = PerceptronRanker("ndcg", half_life=0)
    X = np.array([[1.0], [0.0]])
    model.learn_one(X, [1, 0])
    before = model.weights
    model.learn_one(X, [1, 0])
    assert model.weights == pytest.approx(before, abs=0)
    assert model.last_round.loss == 0.0
    assert model.last_round.mass == 0.0
    assert not model.last_round.skipped


def test_half_life_and_last_weights():
    queries = [query for query in random_queries(3, 30, ties=False) if len(set(query[1])) > 1]
    half_life, last = PerceptronRanker(half_life=2), PerceptronRanker(half_life=0)
    history = []
    for X, y in queries:
        half_life.learn_one(X, y)
        last.learn_one(X, y)
        history.append(half_life.weights)
    assert (last.served_weights == history[-1]).all()
    shares = 0.5 ** (np.arange(len(history))[::-1] / 2)
    assert half_life.served_weights == pytest.approx(shares @ np.array(history) / shares.sum())


@pytest.mark.parametrize("options", [{}, {"credit": "argmax"}, {"credit": "sort"}, {"half_life": 7}])
@pytest.mark.parametrize("dtype", [np.float64, np.float32])
def test_learn_many_is_the_loop_bit_for_bit(options, dtype):
    queries = [(X.astype(dtype), y) for X, y in random_queries(5, 40, d=7, largest=30, ties=False)]
    one_by_one, block = PerceptronRanker(**options), PerceptronRanker(**options)
    for X, y in queries:
        one_by_one.learn_one(X, y)
    X, y, qid = as_block(queries)
    block.learn_many(X, y, qid)
    assert state_of(block) == state_of(one_by_one)
    assert (block.predict_many(X, qid) == np.concatenate([one_by_one.predict_one(X) for X, _ in queries])).all()


def test_sample_weight_scales_update_and_mass():
    X, y = np.array([[1.0, 2.0], [3.0, 0.0], [0.0, 1.0]]), [0, 1, 2]
    plain, weighted, absent = PerceptronRanker(), PerceptronRanker(), PerceptronRanker()
    plain.learn_one(X, y)
    weighted.learn_one(X, y, w=2.5)
    absent.learn_one(X, y, w=0.0)
    assert weighted.weights == pytest.approx(2.5 * plain.weights)
    assert weighted.last_round.mass == pytest.approx(2.5 * plain.last_round.mass)
    assert weighted.last_round.loss == plain.last_round.loss
    assert (absent.weights == 0).all()
    for bad in (-1.0, float("nan"), float("inf")):
        with pytest.raises(ValueError, match="weight of a query"):
            plain.learn_one(X, y, w=bad)


@given(st.integers(0, 10_000), st.sampled_from(["features", "updates"]), st.sampled_from([0.0, 0.5]))
@settings(max_examples=40)
def test_scale_changes_no_ranking(seed, what, relative_margin):
    # Powers of two scale exactly, so rankings must agree to the last bit; sample weights scale every update.
    plain, scaled = PerceptronRanker(relative_margin=relative_margin), PerceptronRanker(relative_margin=relative_margin)
    c, w = (2.0**-20, 1.0) if what == "features" or relative_margin else (1.0, 2.0**30)
    for X, y in random_queries(seed, ties=False):
        assert plain.rank_one(X) == scaled.rank_one(c * X)
        plain.learn_one(X, y)
        scaled.learn_one(c * X, y, w=w)


@pytest.mark.slow
@given(st.integers(0, 10_000), st.randoms(use_true_random=False))
@settings(max_examples=40)
def test_permuting_documents_permutes_scores_and_changes_no_weights(seed, random):
    plain, permuted = PerceptronRanker(), PerceptronRanker()
    for X, y in random_queries(seed, ties=False):
        p = list(range(len(y)))
        random.shuffle(p)
        assert np.array(plain.predict_one(X))[p].tolist() == plain.predict_one(X[p])
        plain.learn_one(X, y)
        permuted.learn_one(X[p], y[p])
    if plain.n_features:
        assert permuted.weights == pytest.approx(plain.weights, rel=1e-9, abs=1e-12)


@pytest.mark.parametrize("c", [1e-150, 1e-30, 1e30, 1e70])
def test_tiny_and_huge_features(c):
    plain, scaled = PerceptronRanker(), PerceptronRanker()
    for X, y in random_queries(7, ties=False):
        plain.learn_one(X, y)
        scaled.learn_one(X * c, y)
    assert scaled.weights / c == pytest.approx(plain.weights)


def test_rejected_queries_change_nothing():
    model = PerceptronRanker(relative_margin=0.1)
    queries = list(random_queries(11, 5, ties=False))
    for X, y in queries:
        model.learn_one(X, y)
    before = state_of(model)
    good = np.ones((2, 3))
    for X, y, message in [
        ([[1.0, float("nan"), 0.0], [1.0, 2.0, 3.0]], [1, 0], "feature 1 of document 0 is nan"),
        ([[1.0, 0.0, 0.0], [1.0, 2.0, -float("inf")]], [1, 0], "feature 2 of document 1 is -inf"),
        (good, [1, -1], "grade of document 1 is -1"),
        (good, [1, 1001], "grade of document 1 is 1001"),
        (good, [0.5, 1], "grade of document 0 is 0.5"),
        (good, [1], "y has 1 grades, but x has 2 documents"),
        (np.ones((2, 4)), [1, 0], "x has 4 features, but PerceptronRanker has learned from 3"),
        (np.ones(3), [1], "a query is an"),
        ([{"a": 1.0}], [1], "has learned from arrays"),
        (1e200 * good, [1, 0], "non-finite"),
    ]:
        X = np.array(X) if isinstance(X, list) and not isinstance(X[0], dict) else X
        with pytest.raises(ValueError, match=message):
            model.learn_one(X, y)
        assert state_of(model) == before
    X, y, qid = as_block([*queries, (1e200 * good, np.array([1, 0])), *queries])
    first = int(np.searchsorted(qid, 5))
    with pytest.raises(ValueError, match=f"the query of document {first} would make PerceptronRanker non-finite"):
        model.learn_many(X, y, qid)
    assert state_of(model) == before
    y[-1] = -3
    X[np.abs(X) > 1e100] = 0
    with pytest.raises(ValueError, match=f"grade of document {len(y) - 1} is -3"):
        model.learn_many(X, y, qid)
    assert state_of(model) == before


def test_rejected_named_features_leave_no_trace():
    model = PerceptronRanker()
    model.learn_one([{"a": 1.0}, {"a": 2.0}], [0, 1])
    before = state_of(model)
    with pytest.raises(ValueError, match="feature 'new' of document 1 is nan"):
        model.learn_one([{"a": 1.0}, {"new": float("nan")}], [0, 1])
    with pytest.raises(ValueError, match="grade of document 0 is -1"):
        model.learn_one([{"a": 1.0}, {"new": 1.0}], [-1, 1])
    with pytest.raises(ValueError, match="non-finite"):
        model.learn_one([{"a": 1e200}, {"new": 1e200}], [1, 0])
    assert state_of(model) == before


def test_features_appear_vanish_and_come_back():
    model, dense = PerceptronRanker(), PerceptronRanker()
    queries = [
        ([{"a": 1.0, "b": 2.0}, {"a": 3.0, "b": -1.0}], [0, 1]),
        ([{"b": 1.0, "c": 5.0}, {"c": -1.0}], [0, 2]),
        ([{"c": 1.0}, {"a": 1.0}, {}], [2, 1, 0]),
    ]
    for documents, y in queries:
        model.learn_one(documents, y)
        dense.learn_one(np.array([[x.get(name, 0.0) for name in "abc"] for x in documents]), y)
    assert model.feature_names == ("a", "b", "c")
    assert (model.weights == dense.weights).all()
    # Names that were never learned are left out.
    assert model.predict_one([{"a": 1.0, "never": 9.0}]) == model.predict_one([{"a": 1.0}])


def test_more_features_than_allowed():
    model = PerceptronRanker()
    model.max_features = 2
    with pytest.warns(UserWarning, match="PerceptronRanker has the most features that it takes, 2"):
        model.learn_one([{"a": 1, "b": 1, "c": 1}, {}], [1, 0])
    with warnings.catch_warnings():
        warnings.filterwarnings("error", message=".*are ignored")  # It warns once.
        warnings.filterwarnings("ignore", message=".*least recently used leave")
        model.learn_one([{"d": 1, "b": 1, "e": 1}, {}], [1, 0])
    # "a" left for "d", and "e" finds no room next to the names of its query.
    assert (model.feature_names, model.n_ignored_features, model.n_left_features) == (("b", "d"), 2, 1)
    twin = PerceptronRanker()
    twin.learn_one([{"a": 1, "b": 1}, {}], [1, 0])
    declared_state(twin).weights[0] = declared_state(twin).average[0] = 0.0
    twin.learn_one([{"d": 1, "b": 1}, {}], [1, 0])
    assert (model.weights == twin.weights[1:]).all()
    narrow = PerceptronRanker()
    narrow.max_features = 2
    with pytest.raises(ValueError, match="at most 2 are accepted"):
        narrow.learn_one(np.ones((2, 3)), [1, 0])


def test_a_cap_inside_a_blend_does_not_end_learning():
    from online_rank import BlendRanker, RidgeRanker

    model = BlendRanker([PerceptronRanker(), RidgeRanker()])
    model.learners[1].max_features = 2
    with pytest.warns(UserWarning, match="RidgeRanker has the most features that it takes, 2"):
        model.learn_one([{"a": 1.0, "new 0": 1.0}, {"b": 1.0}], [1, 0])
    for t in range(1, 4):
        model.learn_one([{"a": 1.0, f"new {t}": 1.0}, {"b": 1.0}], [1, 0])
    assert model.learners[0].n_features == 6
    assert model.learners[1].n_features == 2
    assert model.rank_one({"x": {"b": 1.0}, "y": {"a": 1.0}}) == ["y", "x"]


def test_nothing_to_learn_is_skipped():
    model = PerceptronRanker()
    model.learn_one(np.ones((2, 2)) * [[1.0], [2.0]], [0, 1])
    before = model.weights, model.served_weights
    for X, y in [(np.empty((0, 2)), []), (np.ones((1, 2)), [3]), (np.ones((3, 2)), [2, 2, 2]), (np.ones((2, 2)), [0, 0])]:
        model.learn_one(X, y)
        assert model.last_round.skipped
        assert model.last_round.n_documents == len(y)
        assert (model.weights == before[0]).all()
        assert (model.served_weights == before[1]).all()
    assert PerceptronRanker().rank_one([]) == []


def test_many_documents_are_ranked_best_first_and_equal_ones_in_their_order():
    model = PerceptronRanker.from_weights([1.0])
    scores = [(7 * i) % 100 for i in range(100)]
    assert model.rank_one([[s] for s in scores]) == [scores.index(s) for s in range(99, -1, -1)]
    few_scores = [i % 3 for i in range(100)]
    assert model.rank_one([[s] for s in few_scores]) == [*range(2, 100, 3), *range(1, 100, 3), *range(0, 100, 3)]


@pytest.mark.slow
def test_read_only_strided_and_float32_input():
    (X, y), plain = next(q for q in random_queries(1, d=4, ties=False) if len(set(q[1])) > 1), PerceptronRanker()
    X = X.astype(np.float32).astype(np.float64)
    plain.learn_one(X, y)
    read_only = X.copy()
    read_only.flags.writeable = False
    for variant in (read_only, np.asfortranarray(X), np.repeat(X, 2, axis=1)[:, ::2], X.astype(np.float32), X.tolist()):
        model = PerceptronRanker()
        model.learn_one(variant, y)
        assert (model.weights == plain.weights).all()
        assert model.predict_one(variant) == plain.predict_one(X)


def test_prediction_is_pure_and_state_does_not_alias_input():
    model = PerceptronRanker()
    X, y = np.array([[1.0, 0.0], [0.0, 1.0]]), np.array([1, 0])
    model.learn_one(X, y)
    before = state_of(model)
    model.predict_one(X)
    model.rank_one([[1, 2], [3, 4]])
    X[:] = 99.0
    y[:] = 0
    model.weights[:] = 7.0
    model.served_weights[:] = 7.0
    assert state_of(model) == before


@pytest.mark.parametrize(
    ("options", "message"),
    [
        ({"measure": "ndgc"}, "measure 'ndgc' is unknown"),
        ({"credit": "all"}, "credit is 'all'"),
        ({"mass": "all"}, "mass is 'all'"),
        ({"relative_margin": float("nan")}, "relative_margin is nan"),
        ({"relative_margin": -1.0}, "relative_margin is -1.0"),
        ({"half_life": -1.0}, "half_life is -1.0"),
        ({"norm_cap": 1.5}, "norm_cap is 1.5"),
        ({"served": "average", "half_life": 0}, "learns from an average"),
    ],
)
def test_arguments_that_do_not_fit(options, message):
    with pytest.raises(ValueError, match=message):
        PerceptronRanker(**options)


def test_a_margin_that_is_no_number():
    with pytest.raises(TypeError, match=r"relative_margin is '0[.]3'; it must be a number"):
        PerceptronRanker(relative_margin="0.3")


#: What goes with a credit where it is not said.
BROAD, NARROW = {"mass": "sqrt", "relative_margin": 0.3}, {"mass": "loss", "relative_margin": 0.0}


@pytest.mark.parametrize(
    ("short", "explicit"),
    [
        ({}, {"credit": "adaptive"} | BROAD),
        ({"credit": "sort"}, BROAD),
        *(({"credit": credit}, NARROW) for credit in ("argmax", "spread")),
        ({"mass": "loss"}, {"relative_margin": 0.3}),
        ({"relative_margin": 0.0}, {"mass": "sqrt"}),
    ],
    ids=str,
)
def test_mass_and_margin_go_with_the_credit(short, explicit):
    model, spelled = PerceptronRanker(**short), PerceptronRanker(**short | explicit)
    assert model.in_force == spelled.in_force == {name: (short | explicit)[name] for name in ("mass", "relative_margin")}
    for X, y in random_queries(4, 20):
        model.learn_one(X, y)
        spelled.learn_one(X, y)
    assert (model.weights == spelled.weights).all()
    assert repr(model.last_round) == repr(spelled.last_round)
    assert (model.predict_many(X) == spelled.predict_many(X)).all()


def test_settings_stay_as_they_were_given():
    model = PerceptronRanker()
    assert (model.credit, model.mass, model.relative_margin) == ("adaptive", None, None)
    assert model.clone({"credit": "argmax"}).in_force == NARROW
    again = pickle.loads(pickle.dumps(model))
    assert (again.credit, again.mass, again.relative_margin) == ("adaptive", None, None)
    with pytest.raises(AttributeError):
        model.in_force = {}


def test_two_updates_of_the_default_by_hand():
    # Two documents: spread and sort both move x_1 - x_0, so every mixture does. V is the root of the loss, 1 - D(2).
    model, X = PerceptronRanker("ndcg"), np.array([[1.0, 0.0], [0.0, 2.0]])
    model.learn_one(X, [0, 1])
    root = (1.0 - 1.0 / np.log2(3.0)) ** 0.5
    assert model.weights == pytest.approx(root * (X[1] - X[0]))
    assert model.last_round.mass == pytest.approx(root)
    assert model.last_round.margin == 0.0
    # ||z||^2 / V is 5 root^2 / root; beta is 0.3. The other way round the pair is wrong, and the update is undone.
    model.learn_one(X, [1, 0])
    assert model.last_round.margin == pytest.approx(0.3 * 5.0 * root)
    assert model.weights == pytest.approx(np.zeros(2), abs=1e-15)


def test_a_rejected_query_leaves_the_last_round():
    model = PerceptronRanker()
    X, y = np.array([[1.0, 0.0], [0.0, 1.0]]), np.array([0, 2])
    model.learn_one(X, y)
    before = model.last_round
    for bad_X, bad_y, message in (
        ([[np.nan, 0.0], [0.0, 1.0]], y, "is nan"),
        (X, np.array([0, -1]), "is -1"),
        ([[1e200, 0.0], [0.0, 1.0]], y, "scale the features"),
    ):
        with pytest.raises(ValueError, match=message):
            model.learn_one(np.array(bad_X), bad_y)
        assert repr(model.last_round) == repr(before)
    model.learn_one(X, y)
    assert before.loss > 0.0
    assert model.last_round.loss == 0.0


def test_huge_grades_stay_finite():
    model = PerceptronRanker("ndcg")
    model.learn_one(np.eye(3), [0, 999, 1000])
    assert np.isfinite(model.weights).all()
    assert model.last_round.loss == pytest.approx(reference.loss("ndcg", [0, 0, 0], [0, 999, 1000]))


def test_a_long_query_is_ranked_as_a_short_one():
    # More documents than the sort's runs and the largest selected cutoff, with many ties.
    rng = np.random.default_rng(0)
    for measure in ("ndcg@10", "ndcg@100", "ndcg", "ap", "linear_ndcg"):
        X = rng.integers(-3, 4, (700, 2)).astype(float)
        y = rng.integers(0, 5, 700)
        model = PerceptronRanker(measure, credit="argmax")
        model.learn_one(X, y)
        s = model.predict_one(X)
        model.learn_one(X, y)
        expected = reference.loss(measure, s, reference.effective(measure, y))
        assert model.last_round.loss == pytest.approx(expected, rel=1e-12)
