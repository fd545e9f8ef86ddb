import copy

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from online_rank import LossTracker, SlamRanker, distributed
from online_rank.query.sparse import as_rows
from tests.helpers import MEASURES, SLAM_SETTINGS, random_queries, state_of
from tests.reference import slam as reference
from tests.reference.perceptron import effective


@pytest.mark.first(10)
@pytest.mark.parametrize("measure", MEASURES)
@pytest.mark.parametrize("options", SLAM_SETTINGS, ids=lambda o: "-".join(map(str, o.values())))
def test_learns_what_the_reference_learns(options, measure):
    model = SlamRanker(measure, **options)
    for X, y in [*random_queries(seed=len(measure)), *random_queries(seed=1, n_queries=2, largest=150)]:
        # Every round starts from the model's weights, so that rounding cannot change which pairs tie.
        before = model.weights.tolist() if model.n_features else [0.0] * 3
        weights, loss, mass, _ = reference.learn(X.tolist(), y.tolist(), before, measure=measure, weight=0.5, **options)
        model.learn_one(X, y, w=0.5)
        assert model.weights == pytest.approx(np.array(weights), rel=1e-9, abs=1e-12)
        assert (model.served_weights == model.weights).all()
        active = len(set(effective(measure, y))) > 1
        assert model.last_round.skipped is not active
        if active:
            assert model.last_round.loss == pytest.approx(loss, abs=1e-12)
            assert model.last_round.mass == pytest.approx(mass, abs=1e-12)
            assert model.last_round.margin == options.get("margin", 1.0)
            squared_norm = np.sum(((np.array(weights) - before) / options["learning_rate"]) ** 2)
            assert model.last_round.squared_gradient_norm == pytest.approx(squared_norm, abs=1e-9)


def test_first_update_by_hand():
    # All scores tie, so the pessimistic ranking is worst first: c, b, a with grades 0, 1, 2.
    model = SlamRanker("ndcg", learning_rate=0.5, within_grade="document")
    X = np.array([[4.0, 0.0], [0.0, 2.0], [1.0, 1.0]])
    model.learn_one(X, [2, 1, 0])
    d2, d3 = 1 / np.log2(3), 1 / np.log2(4)
    z = 3.0 + 1.0 * d2
    v = np.array([(3.0 - 0.0) * (1.0 - d3), (1.0 - 0.0) * (d2 - d3)]) / z
    # The violator of document 0 is document 1: of equal scores, the most relevant one.
    assert model.weights == pytest.approx(0.5 * (v[0] * (X[0] - X[1]) + v[1] * (X[1] - X[2])))
    assert model.last_round.loss == pytest.approx(1.0 - (0.0 + 1.0 * d2 + 3.0 * d3) / z)
    assert model.last_round.mass == pytest.approx(v.sum())
    assert model.last_round.v_max == pytest.approx(v[0] / v[1])


def test_the_order_within_a_grade_decides_where_documents_have_one_v_each():
    # Grades 1, 1 and 0, and the last ranks first: v is 1/4 for the first relevant document and 1/6 for the second.
    X = np.eye(3)
    first = {"document": [1 / 4, 1 / 6], "mean": [5 / 24, 5 / 24], "tight": [1 / 4, 1 / 6]}
    for within_grade, v in first.items():
        model = SlamRanker("ap", within_grade=within_grade)
        model.learn_one(X, [1, 1, 0])
        assert model.weights == pytest.approx([*v, -sum(v)])
    # The largest v goes to the highest score.
    model = SlamRanker.from_weights([0.0, 0.5, 1.0], measure="ap", within_grade="tight")
    model.learn_one(X, [1, 1, 0])
    assert model.weights == pytest.approx([0.0 + 1 / 6, 0.5 + 1 / 4, 1.0 - 5 / 12])


def test_a_correct_ranking_teaches_nothing():
    model = SlamRanker.from_weights([0.1])
    model.learn_one(np.array([[1.0], [0.0]]), [1, 0])
    # The margin is 1, but there is no ranking loss.
    assert model.weights.tolist() == [0.1]
    assert (model.last_round.loss, model.last_round.mass) == (0.0, 0.0)
    assert not model.last_round.skipped


@pytest.mark.parametrize("options", SLAM_SETTINGS[::2], ids=str)
def test_an_update_from_sparse_rows_equals_an_update_from_the_array(options):
    for X, y in random_queries(3, 20, d=9, largest=25, ties=False):
        X = X * (np.random.default_rng(0).random(X.shape) < 0.4)
        dense = SlamRanker(**options)
        dense.learn_one(np.eye(9)[:4], [3, 0, 1, 0])
        sparse = copy.deepcopy(dense)
        dense.learn_one(X, y)
        sparse.learn_one(as_rows(X), y)
        assert sparse.weights == pytest.approx(dense.weights, rel=1e-12, abs=1e-12)
        assert sparse.last_round == pytest.approx(dense.last_round, rel=1e-12, abs=1e-12, nan_ok=True)
        assert sparse.predict_one(as_rows(X)) == pytest.approx(dense.predict_one(X), rel=1e-12, abs=1e-12)


@pytest.mark.parametrize("form", [np.asarray, as_rows])
def test_rejected_queries_change_nothing(form):
    model = SlamRanker()
    for X, y in random_queries(11, 5, ties=False):
        model.learn_one(form(X), y)
    before = state_of(model)
    for X, y, message in [
        ([[1.0, float("nan"), 0.0], [1.0, 2.0, 3.0]], [1, 0], "is nan"),
        (np.ones((2, 3)), [1, 1001], "grade of document 1 is 1001"),
        (1e200 * np.ones((2, 3)), [1, 0], "non-finite"),
    ]:
        with pytest.raises(ValueError, match=message):
            model.learn_one(form(np.array(X)), y)
        assert state_of(model) == before
    with pytest.raises(ValueError, match="served: SlamRanker cannot learn"):
        model.learn_one(np.ones((2, 3)), [1, 0], served=[0.1, 0.2])


def test_the_step_decides_which_rankings_come():
    # The opposite of `test_perceptron.test_scale_changes_no_ranking`: the margin compares differences of scores with 1.
    models = [SlamRanker(learning_rate=rate) for rate in (1.0, 2.0**-7)]
    differ = 0
    for X, y in random_queries(2, 60, ties=False):
        differ += models[0].rank_one(X) != models[1].rank_one(X)
        for model in models:
            model.learn_one(X, y)
    assert differ


@pytest.mark.parametrize(
    ("options", "message"),
    [
        ({"measure": "ndgc"}, "measure 'ndgc' is unknown"),
        ({"learning_rate": 0.0}, "learning_rate is 0.0"),
        ({"margin": -1.0}, "margin is -1.0"),
        ({"margin_scale": "all"}, "margin_scale is 'all'"),
        ({"within_grade": "all"}, "within_grade is 'all'"),
    ],
)
def test_arguments_that_do_not_fit(options, message):
    with pytest.raises(ValueError, match=message):
        SlamRanker(**options)


@given(st.integers(0, 10_000), st.sampled_from(MEASURES), st.sampled_from([0.01, 1.0]))
@settings(max_examples=40)
def test_its_certificate_holds(seed, measure, rate):
    tracker = LossTracker(SlamRanker(measure, learning_rate=rate), {"u": np.array([1.0, -2.0, 0.5])})
    for X, y in random_queries(seed, 20):
        tracker.learn_one(X, y)
    certificate = tracker.certificate()
    assert certificate.holds, str(certificate)
    assert {check.name for check in certificate.bounds} >= {"any_step_bound", "any_step_data_bound", "regret_bound"}


def test_machines_mix_their_weights():
    machines = [SlamRanker(learning_rate=0.1) for _ in range(2)]
    for seed, machine in enumerate(machines):
        for X, y in random_queries(seed, ties=False):
            machine.learn_one(X, y)
    mean = (machines[0].weights + machines[1].weights) / 2
    mixed = distributed.mix(machines)
    assert mixed.weights == pytest.approx(mean, rel=1e-12)
    assert (mixed.served_weights == mixed.weights).all()
