"""Whoever draws by a count draws other numbers than everybody else, at equal seeds."""

import numpy as np
import pytest

from online_rank.base.draws import counted_generator
from online_rank.feedback import PlackettLuce, PositionBias
from online_rank.metrics import TeamDraft
from online_rank.stream.clicks import user


class Ranker:
    def rank_one(self, x):
        return list(range(10))


class Policy:
    pass


class User:
    pass


def test_each_class_seed_and_number_has_its_own_draws():
    keys = [(owner, seed, number) for owner in (Policy(), User()) for seed in (0, 1) for number in (0, 1)]
    drawn = {counted_generator(*key).random() for key in keys}
    assert len(drawn) == 8
    assert drawn == {counted_generator(type(owner)(), np.int64(seed), number).random() for owner, seed, number in keys}


@pytest.mark.long
def test_equal_rankers_are_not_distinguished_at_equal_seeds():
    # A quarter of the intervals excluded 1/2 while coins and users drew the same numbers.
    held = 0
    for seed in range(40):
        grades = np.random.default_rng(seed).integers(3, size=10)
        draft, who = TeamDraft(Ranker(), Ranker(), seed=seed), user("navigational", seed=seed)
        for t in range(600):
            draft.update(who.clicks(draft.show_one(None), grades, t))
        lower, upper = draft.interval()[:2]
        held += lower <= 0.5 <= upper
    assert held >= 35


@pytest.mark.first(1)
@pytest.mark.parametrize("m", [3, 20])
def test_position_bias_at_equal_seeds(m):
    policy, bias, who = PlackettLuce(3), PositionBias(3), user("position")
    for t in range(6000):
        bias.update(who.clicks(policy.show([0.0] * m, t, 0.0), [2] * m, t))
    assert bias.examination == pytest.approx((1.0, 1 / 2, 1 / 3), abs=0.03)
