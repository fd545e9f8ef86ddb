"""An integer and its text are two names in Python, and one in JSON and in the header of a table."""

import numpy as np
import pandas as pd
import pytest

from online_rank import PerceptronRanker, StreamQuantileMap, StreamScaler
from online_rank.base.names import Columns

TEXTS = [{"0": 2.0}, {"0": 1.0}]
INTEGERS = [{0: 2.0}, {0: 1.0}]


@pytest.mark.parametrize("make", [PerceptronRanker, lambda: StreamScaler() | PerceptronRanker(), StreamQuantileMap])
@pytest.mark.parametrize(("first", "second"), [(TEXTS, INTEGERS), (INTEGERS, TEXTS), (pd.DataFrame([[2.0], [1.0]]), TEXTS)])
def test_neither_learned_nor_ranked_as_a_second_feature(make, first, second):
    model = make()
    model.learn_one(first, [1, 0])
    rank = model.predict_one if hasattr(model, "predict_one") else model.transform_one
    for use in (lambda: model.learn_one(second, [1, 0]), lambda: rank(second)):
        with pytest.raises(
            ValueError, match=r"x has a feature .{1,3}, and there is a feature .{1,3}: names are strings, or integers"
        ):
            use()
    model.learn_one(first, [1, 0])


def test_both_in_one_query():
    with pytest.raises(ValueError, match="x has a feature '0', and there is a feature 0"):
        PerceptronRanker().learn_one([{"0": 1.0, 0: 2.0}, {0: 1.0}], [1, 0])


def test_what_is_no_pair_is_learned():
    model = PerceptronRanker()
    model.learn_one([{0: 2.0, "00": 1.0, "a": 1.0, ("b", 1): 1.0, True: 0.5}, {0: 1.0}], [1, 0])
    model.learn_one([{0: 2.0, "1.0": 1.0, "-0": 2.0, "new": 3.0}, {5: 1.0}], [1, 0])
    assert model.feature_names == (0, "00", "a", ("b", 1), True, "1.0", "-0", "new", 5)
    assert np.isfinite(model.predict_one([{0: 1.0}, {"unknown": 1.0}])).all()


def test_names_taken_back_are_forgotten():
    columns = Columns(["a"])
    columns.add([7])
    columns.truncate(1)
    columns.require_one_type(["7"])
    columns.add(["7"])
    with pytest.raises(ValueError, match="x has a feature 7"):
        columns.require_one_type([7])
