"""Feature n of an array and the name "n" are the same feature."""

import numpy as np
import pytest

from online_rank import GradientRanker, PerceptronRanker, QueryNormalizer, StreamScaler
from tests.helpers import state_of

X = np.random.default_rng(0).normal(size=(6, 3))
Y = [0, 1, 2, 0, 1, 0]


def named(X):
    return [{str(j + 1): value for j, value in enumerate(row)} for row in X.tolist()]


@pytest.fixture(params=[PerceptronRanker, lambda: StreamScaler() | QueryNormalizer() | GradientRanker()])
def make(request):
    return request.param


def test_arrays_and_numbers_mix(make):
    one, other, plain = make(), make(), make()
    for model, forms in ((one, (X, named(X))), (other, (named(X), X)), (plain, (X, X))):
        for x in forms:
            model.learn_one(x, Y)
    assert one.predict_one(X) == other.predict_one(X) == plain.predict_one(X) == pytest.approx(one.predict_one(named(X)))


def test_ranking_by_numbers_changes_nothing_and_unknown_features_do_not_count(make):
    model = make()
    model.learn_one(X, Y)
    before = state_of(model)
    wider = named(np.hstack([X, np.ones((6, 1))]))
    assert model.predict_one(named(X)) == model.predict_one(X)
    assert model.predict_one(wider) == model.predict_one(X)
    assert state_of(model) == before


def test_names_that_are_few_or_unknown_reach_their_columns_behind_a_scaler():
    model = StreamScaler() | PerceptronRanker()
    model.learn_one(X, Y)
    model.learn_one(-X, Y)
    few = [{"2": 0.5, "9": 1.0}, {"3": 0.3, "1": 2.0}]
    assert model.predict_one(few) == model.predict_one(np.array([[0.0, 0.5, 0.0], [2.0, 0.0, 0.3]]))
    assert set(model.predict_one(few)) != {0.0}
    scaled = model["StreamScaler"].transform_one(few)
    assert list(scaled[0]) == ["1", "2", "3"]


def test_arrays_reach_the_columns_of_a_model_that_met_numbers_in_another_order():
    model, plain = (StreamScaler() | PerceptronRanker() for _ in range(2))
    model.learn_one([{name: x[name] for name in ("3", "1", "2")} for x in named(X)], Y)
    plain.learn_one(X, Y)
    assert model.predict_one(X) == pytest.approx(plain.predict_one(X))
    assert model.predict_one(X[:, :2]) == pytest.approx(plain.predict_one(np.hstack([X[:, :2], np.zeros((6, 1))])))


def test_numbers_extend_what_arrays_began():
    model = PerceptronRanker()
    model.learn_one(X, Y)
    model.learn_one([{"5": 1.0, "1": 2.0}, {"2": 1.0}], [1, 0])
    assert model.feature_names[:3] == ("1", "2", "3")
    assert set(model.feature_names) == {"1", "2", "3", "5"}
    assert len(model.predict_one(X)) == 6


def test_other_names_are_refused():
    model = PerceptronRanker()
    model.learn_one(X, Y)
    for name in ("clicks", "0", "01", "-1"):
        with pytest.raises(ValueError, match="names its features"):
            model.predict_one([{name: 1.0}])
    model = PerceptronRanker()
    model.learn_one([{"clicks": 1.0, "1": 0.0}, {"clicks": 0.0, "1": 1.0}], [1, 0])
    with pytest.raises(ValueError, match="does not name its features"):
        model.predict_one(X)
