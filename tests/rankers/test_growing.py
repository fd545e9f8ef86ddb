"""Room for new features: what was learned stays, what is new begins at zero."""

import numpy as np
import pytest

from online_rank import (
    DirectRanker,
    KernelPerceptronRanker,
    MaxAbsStreamScaler,
    PerceptronRanker,
    StreamQuantileMap,
)
from online_rank.rankers.averaged import _grown


def test_rows_keep_what_is_in_use_and_clear_the_rest():
    rows = np.arange(8.0).reshape(2, 4)
    larger = _grown(rows, 2, 1)
    assert np.array_equal(larger[:2], rows)
    assert not larger[2:].any()
    larger[2:] = 7.0  # What an undone query has left there.
    assert _grown(larger, 2, 1) is larger
    assert not larger[2].any()
    assert (larger[3:] == 7.0).all()


def test_the_limit_of_features_is_of_all_of_them():
    model = PerceptronRanker()
    model.max_features = 3
    model.learn_one([{"a": 1.0}, {"b": 1.0}], [0, 1])
    with pytest.warns(UserWarning, match="max_features"):
        model.learn_one([{"c": 1.0}, {"d": 1.0}], [0, 1])
    # One has to leave: of those that were used last together, the first.
    assert [*model.feature_names] == ["b", "c", "d"]


def test_the_largest_values_of_earlier_features_stay():
    scaler = MaxAbsStreamScaler()
    scaler.learn_one([{"a": -4.0}], [0])
    scaler.learn_one([{"b": 2.0, **{f"c{i}": 1.0 for i in range(20)}}], [0])
    assert (scaler.largest["a"], scaler.largest["b"]) == (4.0, 2.0)


@pytest.mark.parametrize("make", [StreamQuantileMap, KernelPerceptronRanker, DirectRanker], ids=lambda make: make.__name__)
def test_models_of_which_a_feature_takes_kilobytes_know_16384_at_most(make):
    model = make()
    docs = [{f"x{i}": 1.0 for i in range(16_400)}, {"x0": 0.5}]
    with pytest.warns(UserWarning, match="16384"):
        model.learn_one(docs, [1, 0])
    assert model.n_features == 16_384
    assert model.n_ignored_features == 16
