import copy
import math

import numpy as np
import pytest

from online_rank import PositionBias, load, save
from online_rank.feedback import FairPairs, Impression, PlackettLuce
from online_rank.stream.clicks import PositionUser


@pytest.mark.parametrize("policy", [PlackettLuce(k=6, seed=1), FairPairs(k=6, seed=1)])
@pytest.mark.parametrize("eta", [1.0, 2.0])
def test_examination_is_found(policy, eta):
    user, bias, rng = PositionUser((0.1, 0.6, 1.0), eta, seed=3), PositionBias(k=6), np.random.default_rng(0)
    for draw in range(4000):
        grades = rng.integers(0, 3, 9)
        bias.update(user.clicks(policy.show(0.5 * grades + rng.normal(size=9), draw, confidence=0.2), grades, draw))
    error = np.abs(np.log(bias.examination) - np.log(user.examination(6)))
    assert error.mean() < 0.15 * eta
    low, high = bias.interval(z=3.0)
    assert all(a <= truth <= b for a, truth, b in zip(low, user.examination(6), high, strict=True))
    assert low[0] == high[0] == 1.0


def test_by_hand():
    bias = PositionBias(k=3)
    shown = Impression(("a", "b", "c"), logits=(0.0, 0.0, 0.0))  # rho of neighbours is 1/2
    bias.update(shown.clicked(["a", "b"]))
    bias.update(shown.clicked(["a"]))
    # up = (1, 1/2), down = (1/2, 0)
    assert bias.examination == pytest.approx((1.0, 1.5 / 2.0, 1.5 / 2.0 * 1.0 / 1.5))
    # Squares: (1/2, 1/4), (1/4, 0); variance of the first log ratio (1/2 + 1)/2^2 + (1/4 + 1)/1.5^2.
    error = math.sqrt(1.5 / 4 + 1.25 / 2.25)
    assert bias.interval(z=1.0)[0][1] == pytest.approx(0.75 * math.exp(-error))


def test_a_later_position_is_not_examined_more():
    bias = PositionBias(k=2)
    for _ in range(9):
        bias.update(Impression((0, 1), logits=(0.0, 0.0)).clicked([1]))
    assert bias.examination == (1.0, 1.0)


def test_shorter_and_longer_lists():
    bias = PositionBias(k=2)
    bias.update(Impression((0,), logits=(0.0,)).clicked([0]))
    bias.update(Impression((), logits=()).clicked([]))
    bias.update(Impression((0, 1, 2, 3), logits=(0.0,) * 4).clicked([3]))
    bias.update(Impression((0, 1, 2, 3), pairs_from=0).clicked([3]))
    assert bias.examination == (1.0, 1.0)


def test_kept_and_copied(tmp_path):
    bias = PositionBias(k=3)
    bias.update(Impression((0, 1, 2), logits=(0.0, 1.0, 0.5)).clicked([0]))
    save(bias, tmp_path / "bias.npz")
    assert load(tmp_path / "bias.npz").examination == copy.deepcopy(bias).examination == bias.examination
    assert bias.clone().examination == (1.0, 1.0, 1.0)


def test_bad_input():
    with pytest.raises(ValueError, match="k is 0"):
        PositionBias(0)
    with pytest.raises(TypeError, match="clicks is of type list"):
        PositionBias().update([1, 0])
    with pytest.raises(ValueError, match="has no logits"):
        PositionBias().update(Impression((1, 2)).clicked([1]))
