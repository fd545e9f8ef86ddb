import copy
import math

import numpy as np
import pytest
from scipy.optimize import minimize

from online_rank import PositionBias, load, save
from online_rank.base.schema import declared_state
from online_rank.feedback import FairPairs, Impression, PlackettLuce
from online_rank.stream.clicks import PositionUser


@pytest.mark.first(1)
@pytest.mark.parametrize("policy", [PlackettLuce(k=6, seed=1), FairPairs(k=6, seed=1)])
@pytest.mark.parametrize("eta", [1.0, 2.0])
def test_examination_is_found(policy, eta):
    user, bias, rng = PositionUser((0.1, 0.6, 1.0), eta=eta, seed=3), PositionBias(k=6), np.random.default_rng(0)
    for draw in range(4000):
        grades = rng.integers(0, 3, 9)
        bias.update(user.clicks(policy.show(0.5 * grades + rng.normal(size=9), draw, confidence=0.2), grades, draw))
    error = np.abs(np.log(bias.examination) - np.log(user.examination(6)))
    assert error.mean() < 0.15 * eta
    low, high = bias.interval(z=3.0)
    assert all(a <= truth <= b for a, truth, b in zip(low, user.examination(6), high, strict=True))
    assert low[0] == high[0] == 1.0


def test_by_hand():
    bias = PositionBias(k=2)
    shown = Impression(("a", "b"), logits=(0.0, 0.0))  # rho is 1/2
    for _ in range(20):
        bias.update(shown.clicked(["a", "b"]))
        bias.update(shown.clicked(["a"]))
    # 20 matches won by the first position and 10 by the second, and one more in either direction.
    assert bias.examination == pytest.approx((1.0, 11 / 21))
    # Variance of the log: 1/11 + 1/21, more than the variance of the jackknife over groups that are all alike.
    low, high = bias.interval(z=0.5)
    assert low == pytest.approx((1.0, 11 / 21 * math.exp(-0.5 * math.sqrt(1 / 11 + 1 / 21))))
    assert high == pytest.approx((1.0, 11 / 21 * math.exp(0.5 * math.sqrt(1 / 11 + 1 / 21))))


def test_groups_that_disagree_widen_the_interval():
    bias = PositionBias(k=2)
    declared_state(bias).wins[::2] = [[0.0, 200.0], [20.0, 0.0]]
    declared_state(bias).wins[1::2] = [[0.0, 20.0], [20.0, 0.0]]
    won, lost = 8 * 220 + 1, 16 * 20 + 1
    without = np.log([(lost - 20) / (won - 200), (lost - 20) / (won - 20)])
    error = math.sqrt(15) * without.std()
    assert error > math.sqrt(1 / won + 1 / lost)
    assert bias.interval(z=1.0)[0][1] == pytest.approx(lost / won * math.exp(-error))


def test_all_pairs_of_positions_count():
    rng, k = np.random.default_rng(5), 4
    bias, truth = PositionBias(k), np.array([0.0, -0.4, -1.1, -1.5])
    declared_state(bias).wins[0] = rng.uniform(30, 40, (k, k)) / (1 + np.exp(truth - truth[:, None])) * (1 - np.eye(k))
    wins = declared_state(bias).wins[0] + np.eye(k, k=1) + np.eye(k, k=-1)

    def loss(log):
        log = np.append(0.0, log)
        return (wins * np.logaddexp(0.0, log - log[:, None])).sum()

    assert bias.examination == pytest.approx(np.exp(np.append(0.0, minimize(loss, truth[1:], tol=1e-12).x)), rel=1e-4)


def test_before_any_click_anything_is_possible():
    low, high = PositionBias(k=3).interval()
    assert low == pytest.approx((1.0, math.exp(-1.96 * math.sqrt(2)), math.exp(-1.96 * 2)))
    assert high == (1.0, 1.0, 1.0)
    assert PositionBias(k=1).interval() == ((1.0,), (1.0,))


def test_many_clicks_on_the_last_positions_alone():
    bias = PositionBias(k=3)
    declared_state(bias).wins[0] = [[0.0, 0.0, 0.0], [1e9, 0.0, 0.0], [1e9, 1e9, 0.0]]
    assert bias.examination == (1.0, 1.0, 1.0)
    declared_state(bias).wins[0] = declared_state(bias).wins[0].T
    assert np.all(np.diff(bias.examination) < 0.0)


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
