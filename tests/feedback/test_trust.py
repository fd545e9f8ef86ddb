"""How often positions are looked at, where users may trust the first one."""

import numpy as np
import pytest

from online_rank.feedback.trust import looked_at

ATTRACTS, EXAMINED = np.array([0.04, 0.2, 0.7]), np.array([1.0, 0.5, 0.25])


def cells(trust, n=10_000, attracts=ATTRACTS, examined=EXAMINED):
    """Scores, places and shares of clicks of n documents of each group at each place: the clicks that are expected."""
    places, scores = (grid.ravel() for grid in np.meshgrid(range(len(examined)), range(len(attracts))))
    chances = examined[places] * attracts[scores]
    chances = np.where(places == 0, trust + (1.0 - trust) * attracts[scores], chances)
    return tuple(np.repeat(values, n) for values in (scores, places, chances))


@pytest.mark.parametrize("trust", [0.0, 0.1, 0.3])
def test_expected_clicks_give_the_examination_and_the_trust(trust):
    scores, places, chances = cells(trust)
    clicks = (np.arange(len(chances)) % 10_000 < np.round(10_000 * chances)).astype(float)
    found = looked_at(scores, places, clicks)
    assert found.trust == pytest.approx(trust, abs=0.005)
    assert found.examination == pytest.approx(EXAMINED, rel=0.02)


def test_random_clicks_of_users_who_trust_the_first_place_give_the_examination_of_the_second():
    rng = np.random.default_rng(0)
    places, attracts = np.tile(np.arange(6), 5000), rng.beta(0.5, 3.0, size=30_000)
    examined = np.arange(1.0, 7.0) ** -0.9
    chances = np.where(places == 0, 0.3 + 0.7 * attracts, examined[places] * attracts)
    clicks = (rng.random(len(chances)) < chances).astype(float)
    found = looked_at(attracts + 0.01 * rng.normal(size=len(attracts)), places, clicks)
    assert abs(found.examination[1] - examined[1]) < 0.05
    assert abs(found.trust - 0.3) < 0.03
    # Without a term for trust the rates of clicks at places 1 and 2 give a third of it.
    assert clicks[places == 1].mean() / clicks[places == 0].mean() < 0.25


def test_documents_that_attract_alike_tell_no_trust():
    scores, places, chances = cells(0.3, attracts=np.array([0.5]))
    found = looked_at(scores, places, chances)
    assert found.trust == 0.0
    # P = .3 + .7 * .5 at the first place, .5 * .5 at the second.
    assert found.examination[1] == pytest.approx(0.25 / 0.65, rel=1e-3)


def test_places_below_the_last_click_and_above_the_first_one():
    nothing = looked_at(np.zeros(4), np.arange(4), np.zeros(4))
    assert nothing == ((), 0.0)
    # 100 lists of four places; places 2 and 3 have clicks.
    places, clicks = np.tile(np.arange(4), 100), np.tile([0.0, 1.0, 0.5, 0.0], 100)
    found = looked_at(np.zeros(400), places, clicks)
    assert found.examination == pytest.approx((1.0, 1.0, 0.5), rel=1e-3)


def test_a_place_at_which_nothing_was_displayed_is_not_unseen():
    # An advertisement stands at the second place: it was printed as 0, as if nobody ever looked there.
    places, clicks = np.tile([0, 2], 100), np.tile([1.0, 0.5], 100)
    assert looked_at(np.zeros(200), places, clicks).examination == pytest.approx((1.0, (1.0 + 0.5) / 2, 0.5), rel=1e-3)
