"""Model files with right checksums whose parts do not fit one another are refused, and not loaded to fail later."""

import contextlib

import numpy as np
import pytest
from river import compose, preprocessing

from online_rank import (
    AdditiveRanker,
    BlendRanker,
    ForEachDocument,
    History,
    PerceptronRanker,
    RidgeRanker,
    StreamScaler,
    save,
)
from online_rank.limits import MAX_COUNT
from online_rank.storage.files import ModelFileError, from_bytes, load, to_bytes
from tests.models import NOT_SAVED, REGISTRY, variants


def test_a_blend_with_a_member_of_fewer_features_is_refused(tmp_path):
    rng = np.random.default_rng(0)
    whole, other = (BlendRanker([PerceptronRanker(), RidgeRanker()]) for _ in range(2))
    for _ in range(20):
        X, y = rng.normal(size=(5, 18)), rng.integers(0, 3, 5)
        whole.learn_one(X, y)
        other.learn_one(X[:, :17], y)
    assert load_of(whole, tmp_path).n_features == 18
    whole._learners[1] = other._learners[1]
    with pytest.raises(ModelFileError, match="do not fit one another, and it cannot rank: x has 18 features, but RidgeRanker"):
        load_of(whole, tmp_path)


def test_a_blend_behind_a_scaler_with_a_member_of_fewer_features_is_refused(tmp_path):
    rng = np.random.default_rng(0)
    whole, other = (StreamScaler() | BlendRanker([PerceptronRanker(), RidgeRanker()]) for _ in range(2))
    for _ in range(20):
        X, y = rng.normal(size=(5, 18)), rng.integers(0, 3, 5)
        whole.learn_one(X, y)
        other.learn_one(X[:, :17], y)
    assert load_of(whole, tmp_path)[1].n_features == 18
    whole[1]._learners[1] = other[1]._learners[1]
    with pytest.raises(ModelFileError, match="do not fit one another, and it cannot rank: x has 18 features, but RidgeRanker"):
        load_of(whole, tmp_path)


def test_a_scaler_of_other_features_than_its_ranker_is_refused(tmp_path):
    narrow, wide = (StreamScaler() | PerceptronRanker() for _ in range(2))
    for model, d in ((narrow, 4), (wide, 6)):
        model.learn_one(np.eye(d)[:3], [2, 1, 0])
    with pytest.raises(ModelFileError, match="it cannot rank: x has 4 features, but PerceptronRanker has learned from 6"):
        load_of(narrow[0] | wide[1], tmp_path)


def test_a_step_that_refuses_documents_without_its_features_is_loaded(tmp_path):
    model = ForEachDocument(compose.Select("a") | preprocessing.MinMaxScaler()) | PerceptronRanker()
    model.learn_one({"d": {"a": 1.0}, "e": {"a": 2.0}}, {"d": 1, "e": 0})
    with pytest.raises(ValueError, match="has no feature"):
        model.rank_one({"d": {}, "e": {}})
    asked = {"d": {"a": 3.0}, "e": {"a": 4.0}}
    assert load_of(model, tmp_path).predict_one(asked) == model.predict_one(asked)


def load_of(model, tmp_path):
    save(model, tmp_path / "model.npz")
    return load(tmp_path / "model.npz")


@pytest.mark.parametrize("epoch", [-(10**6), 10**6, 10**18])
def test_a_history_whose_epoch_is_far_from_its_time_is_refused(epoch):
    model = History("brand") | AdditiveRanker()
    for i in range(5):
        model.learn_one({"a": {"brand": "k"}, "b": {"brand": "l"}}, {"a": 1, "b": 0}, at=1e9 + i)
    content = to_bytes(model)
    from_bytes(content)
    model[0]._epoch += epoch
    with pytest.raises(ModelFileError, match=r"_epoch is .*, too far from _at"):
        from_bytes(to_bytes(model) if epoch < 0 else _tampered(model))


def _tampered(model):
    """The file of a model as somebody else may write it."""
    check = type(model[0])._check_state
    try:
        type(model[0])._check_state = lambda _: None
        return to_bytes(model)
    finally:
        type(model[0])._check_state = check


def test_a_count_with_no_room_left_is_refused():
    model = BlendRanker([PerceptronRanker(), RidgeRanker()])
    model.learn_one({"a": {"x": 1.0}, "b": {"x": 0.0}}, {"a": 1, "b": 0})
    model._n_queries = MAX_COUNT - 2
    with pytest.raises(ModelFileError, match="_n_queries is 9007199254740990: after little more nothing could be saved"):
        from_bytes(to_bytes(model))


@pytest.mark.parametrize("name", variants(name for name in REGISTRY if name not in NOT_SAVED))
def test_models_of_all_kinds_are_loaded_before_and_after_they_learn(name):
    model = REGISTRY[name]()
    for _ in range(2):
        try:
            content = to_bytes(model)
        except TypeError:
            pytest.skip("it holds a model that files do not know")
        assert to_bytes(from_bytes(content)) == content
        with contextlib.suppress(TypeError, ValueError):  # Not all learn from such a query.
            model.learn_one(np.eye(5), [2, 1, 0, 0, 1])
