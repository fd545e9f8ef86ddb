import copy
import math

import numpy as np
import pytest

from online_rank.rankers.gradient import GradientRanker
from online_rank.surrogates import Surrogate, logistic
from tests.helpers import as_block, linear_queries, state_of
from tests.reference import surrogates as reference
from tests.reference.optimizers import OPTIMIZERS

NAMES = list(OPTIMIZERS)
SURROGATES = ["logistic", "hinge", "squared", "listnet", "lambdarank", "slam"]


@pytest.mark.parametrize("optimizer", NAMES)
@pytest.mark.parametrize("l2", [0.0, 0.1])
def test_weights_follow_the_optimizer_on_the_gradient(optimizer, l2):
    if l2 and optimizer == "scale_free":
        with pytest.raises(ValueError, match="l2"):
            GradientRanker(optimizer=optimizer, l2=l2)
        return
    model = GradientRanker("logistic", optimizer=optimizer, learning_rate=0.2, l2=l2, half_life=None)
    cost = Surrogate("logistic", pair_weight="difference")
    twins = [OPTIMIZERS[optimizer](0.2) for _ in range(4)]
    served = []
    for X, y in linear_queries():
        if optimizer == "scale_free":
            for twin, column in zip(twins, X.T, strict=True):
                twin.meet(column.max() - column.min())
        w = np.array([twin.value for twin in twins])
        model.learn_one(X, y)
        if len(set(y)) > 1:
            z = X.T @ cost.gradient(X @ w, y)
            for twin, g in zip(twins, z + l2 * w, strict=True):
                twin.step(g)
            served.append([twin.value for twin in twins])
            assert model.last_round.squared_gradient_norm == pytest.approx(z @ z)
            assert model.weights == pytest.approx(np.array(served[-1]), rel=1e-9, abs=1e-12)
            expected = served[-1] if optimizer == "scale_free" else np.mean(served, axis=0)
            assert model.served_weights == pytest.approx(np.array(expected), rel=1e-9, abs=1e-12)
        else:
            assert model.last_round.skipped
            assert model.last_round.squared_gradient_norm == 0.0


@pytest.mark.parametrize("surrogate", SURROGATES)
def test_learns(surrogate):
    queries = linear_queries(400, seed=1)
    held_out = [query for query in linear_queries(500, seed=1)[400:] if len(set(query[1])) > 1]
    for optimizer in NAMES:
        model = GradientRanker(surrogate, optimizer=optimizer)
        model.learn_many(*as_block(queries))
        loss = [1 - reference.ndcg(model.rank_one(X), y.tolist(), 10) for X, y in held_out]
        ideal = GradientRanker(surrogate, optimizer=optimizer)
        untrained = [1 - reference.ndcg(ideal.rank_one(X), y.tolist(), 10) for X, y in held_out]
        assert np.mean(loss) < 0.65 * np.mean(untrained)


@pytest.mark.parametrize("surrogate", SURROGATES)
@pytest.mark.parametrize("dtype", [pytest.param(np.float32, marks=pytest.mark.slow), np.float64])
def test_a_block_is_the_loop_bit_for_bit(surrogate, dtype):
    queries = [(X.astype(dtype), y) for X, y in linear_queries()]
    weights = np.random.default_rng(0).uniform(0, 2, len(queries))
    for optimizer in NAMES:
        one, many = (GradientRanker(surrogate, optimizer=optimizer) for _ in range(2))
        for (X, y), w in zip(queries, weights, strict=True):
            one.learn_one(X, y, w)
        many.learn_many(*as_block(queries), w=weights)
        assert state_of(one) == state_of(many)
        together = one.predict_many(*as_block(queries)[::2])
        assert together.tolist() == [score for X, _ in queries for score in one.predict_one(X)]


@pytest.mark.parametrize("surrogate", SURROGATES)
def test_scale_free_ignores_the_scale_and_the_origin_of_features(surrogate):
    queries = linear_queries(60)
    X, y, qid = as_block(queries)
    plain, doubled, scaled, shifted = (GradientRanker(surrogate) for _ in range(4))
    plain.learn_many(X, y, qid)
    powers = np.array([2.0**40, 2.0**-40, 2.0**21, 1.0])
    doubled.learn_many(X * powers, y, qid)
    assert np.array_equal(doubled.weights * powers, plain.weights)
    factors = np.array([1e6, 1e-6, 1.0, 1e6])
    scaled.learn_many(X * factors, y, qid)
    assert scaled.weights * factors == pytest.approx(plain.weights, rel=1e-6)
    shifted.learn_many(X + np.array([100.0, 0.0, -5.0, 0.0]), y, qid)
    assert shifted.weights == pytest.approx(plain.weights, rel=1e-6)


def test_a_step_by_hand():
    # One pair; scores 0: RankNet's gradient is -1/2 and 1/2, so z = -(3 - 1)/2 = -1.
    model = GradientRanker(logistic(), optimizer="sgd", learning_rate=0.5)
    model.learn_one([[3.0], [1.0]], [1, 0], w=3.0)
    assert model.weights.tolist() == [0.5 * 3.0 * (3.0 - 1.0) / 2]
    assert model.last_round.loss == pytest.approx(1 - 1 / math.log2(3))
    assert model.last_round.largest_norm == 3.0
    assert model.last_round.mass == model.last_round.margin == 0.0
    half_life = GradientRanker("logistic", optimizer="sgd", learning_rate=0.5, half_life=1.0)
    visited = []
    for X, y in linear_queries(3):
        half_life.learn_one(X, y)
        visited.append(half_life.weights)
    assert half_life.served_weights == pytest.approx((visited[0] / 4 + visited[1] / 2 + visited[2]) / (1 / 4 + 1 / 2 + 1))


def test_weight_zero_learns_nothing():
    for optimizer in NAMES:
        model = GradientRanker(optimizer=optimizer)
        X, y = linear_queries(1)[0]
        model.learn_one(X, y)
        before = model.weights, model.served_weights
        model.learn_one(X + 1.0, y, w=0.0)
        assert np.array_equal(before, (model.weights, model.served_weights))


@pytest.mark.parametrize("optimizer", NAMES)
def test_rejected_queries_leave_no_trace(optimizer):
    queries = linear_queries(5)
    model = GradientRanker(optimizer=optimizer)
    model.learn_many(*as_block(queries))
    before = state_of(copy.deepcopy(model))
    X, y = queries[0]
    bad = X.copy()
    bad[-1, 2] = np.nan
    for x, w, message in (
        (bad, 1.0, f"feature 2 of document {len(X) - 1}"),
        (X, -1.0, "w is"),
        (X * 1e200, 1.0, "non-finite"),
    ):
        with pytest.raises(ValueError, match=message):
            model.learn_one(x, y, w=w)
    assert state_of(model) == before


def test_features_that_emerge_change_no_score():
    rng = np.random.default_rng(0)
    for optimizer in NAMES:
        model = GradientRanker(optimizer=optimizer)
        for _ in range(20):
            x = [{"a": rng.normal(), "b": rng.normal()} for _ in range(5)]
            model.learn_one(x, [int(document["a"] > 0) for document in x])
        before = model.predict_one(x)
        wider = [{"c": 7.0 * i, **document} for i, document in enumerate(x)]
        assert model.predict_one(wider) == before
        model.learn_one(wider, [1] * 5)
        assert model.predict_one(wider) == before
        model.learn_one(wider, [0, 0, 1, 1, 2])
        assert model.feature_names == ("a", "b", "c")
        assert model.weights[2] != 0.0


@pytest.mark.parametrize(
    ("arguments", "message"),
    [
        ({"surrogate": "svm"}, "surrogate"),
        ({"optimizer": "lbfgs"}, "optimizer"),
        ({"learning_rate": 0.0}, "learning_rate"),
        ({"l2": -1.0, "optimizer": "sgd"}, "l2"),
        ({"half_life": -3}, "half_life"),
        ({"measure": "mrr"}, "measure"),
    ],
)
def test_bad_arguments(arguments, message):
    with pytest.raises(ValueError, match=message):
        GradientRanker(**arguments)
