"""Settings of objects, saved and loaded."""

import numpy as np
import pytest

from online_rank import (
    CrossFeatures,
    DirectRanker,
    HashedFeatures,
    KernelPerceptronRanker,
    PerceptronRanker,
    PositionBias,
    QueryNormalizer,
    RankingPipeline,
    StreamQuantileMap,
    StreamScaler,
)
from online_rank.evaluate import Trace
from online_rank.rankers.click_trees import ClickTrees
from online_rank.serving import FeedbackPlan
from online_rank.storage.files import from_bytes, to_bytes


def in_numpy(value):
    """A setting as it comes from an array or a frame of settings."""
    if type(value) in (tuple, list):
        return type(value)(map(in_numpy, value))
    if type(value) is dict:
        return {in_numpy(key): in_numpy(each) for key, each in value.items()}
    kinds = {bool: np.bool_, int: np.int64, float: np.float64, str: np.str_}
    return kinds[type(value)](value) if type(value) in kinds else value


SETTINGS = [
    (PerceptronRanker, {"half_life": 10}),
    (PerceptronRanker, {"measure": "ap"}),
    (PerceptronRanker, {"signs": {"clicks": 1}}),
    (FeedbackPlan, {"window": 30, "events": {"click": 1.0}}),
    (KernelPerceptronRanker, {"budget": 20}),
    (DirectRanker, {"hidden": (4, 3), "seed": 7, "learning_rate": 0.5}),
    (ClickTrees, {"window": 8, "depth": 2, "seed": 1}),
    (StreamScaler, {"with_std": False}),
    (StreamQuantileMap, {"n_knots": 32, "frozen_after": 64}),
    (CrossFeatures, {"key": "user"}),
    (CrossFeatures, {"numbers": ("length", "age")}),
    (HashedFeatures, {"bits": 9}),
    (QueryNormalizer, {"method": "minmax"}),
    (PositionBias, {"k": 3}),
    (Trace, {"every": 5}),
]


@pytest.mark.parametrize(("cls", "settings"), SETTINGS)
def test_settings_from_numpy_are_saved_as_plain_ones(cls, settings):
    """Files were written that no `load` read again: half_life is a int64."""
    plain, given = cls(**settings), cls(**{name: in_numpy(value) for name, value in settings.items()})
    loaded = from_bytes(to_bytes(given))
    assert to_bytes(given) == to_bytes(plain) == to_bytes(loaded)
    assert all(type(getattr(loaded, name)) is type(value) for name, value in settings.items())


def test_names_of_steps_from_numpy_are_saved_as_plain_ones():
    plain, given = (RankingPipeline((name, StreamScaler()), PerceptronRanker()) for name in ("scaler", np.str_("scaler")))
    assert to_bytes(given) == to_bytes(plain) == to_bytes(from_bytes(to_bytes(given)))


def test_settings_that_no_file_gives_back_are_refused_by_save():
    model = PerceptronRanker()
    model.half_life = [1]
    with pytest.raises(TypeError, match=r"cannot save .*half_life is a list"):
        to_bytes(model)
