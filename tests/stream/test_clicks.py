"""Simulated users click as their probabilities say."""

import collections
import math

import numpy as np
import pytest

from online_rank import StreamScaler, SwapRanker
from online_rank.feedback import Impression
from online_rank.stream.clicks import (
    BayesianUser,
    BrowsingUser,
    CascadeUser,
    DependentUser,
    PositionUser,
    SatisfiedUser,
    TrustUser,
    click_stream,
    user,
)
from online_rank.stream.synth import NoisyTeacher
from tests.reference import clicks as reference

GRADES = (1, 0, 2)
DRAWS = 6000


def cascade(click, stop):
    return reference.patterns([click[g] for g in GRADES], [stop[g] for g in GRADES])


def dependent(click, persistence):
    return reference.patterns([click[g] for g in GRADES], [1 - persistence / (p + 1) for p in range(3)])


def walk(p, goes_on, clicks=()):
    """All click patterns of three positions, by the probabilities of a click, p(position, clicks above), and of reading on."""
    if len(clicks) == 3:
        yield clicks, 1.0
        return
    for c, q in ((1.0, p(len(clicks), clicks)), (0.0, 1.0 - p(len(clicks), clicks))):
        after = (*clicks, c)
        on = goes_on(after) if len(after) < 3 else 1.0
        for pattern, rest in walk(p, goes_on, after):
            yield pattern, q * on * rest
        if on < 1.0:
            yield (*after, *(0.0,) * (3 - len(after))), q * (1.0 - on)


CLICK, STOP = (0.05, 0.5, 0.95), (0.2, 0.5, 0.9)


def added_up(law):
    total = collections.Counter()
    for pattern, probability in law:
        total[pattern] += probability
    return list(total.items())


def bayesian():
    def goes_on(clicks):
        grade = GRADES[len(clicks) - 1]
        return 0.9 * (1.0 - clicks[-1] * STOP[grade])

    return added_up(walk(lambda position, clicks: CLICK[GRADES[position]], goes_on))


def browsing():
    def click(position, clicks):
        last = max((r + 1 for r, c in enumerate(clicks) if c), default=0)
        return CLICK[GRADES[position]] * (position + 1 - last) ** -0.5

    return added_up(walk(click, lambda clicks: 1.0))


def satisfied():
    # Grades 1, 0, 2 with gains 1/2, 0, 1: before the last document nobody has enough.
    return added_up(walk(lambda position, clicks: CLICK[GRADES[position]], lambda clicks: 1.0))


USERS = {
    "dbn": (user("dbn"), bayesian()),
    "ubm": (user("ubm"), browsing()),
    "satisfied": (user("satisfied"), satisfied()),
    "perfect": (user("perfect"), cascade((0.0, 0.5, 1.0), (0.0, 0.0, 0.0))),
    "navigational": (user("navigational"), cascade((0.05, 0.5, 0.95), (0.2, 0.5, 0.9))),
    "informational": (user("informational"), cascade((0.4, 0.7, 0.9), (0.1, 0.3, 0.5))),
    "position": (user("position"), reference.independent_patterns([0.5, 0.0, 1.0 / 3])),
    "position2": (user("position2"), reference.independent_patterns([0.5, 0.0, 1.0 / 9])),
    # Of position p: 0.65 / p^2 when it is not relevant, (1 - (p + 1)/100) / p when it is.
    "trust": (user("trust"), reference.independent_patterns([0.65, 0.65 / 4, 0.96 / 3])),
    "half relevant": (TrustUser((0.0, 0.5, 1.0)), reference.independent_patterns([(0.98 + 0.65) / 2, 0.65 / 4, 0.96 / 3])),
    "dependent": (user("dependent"), dependent((0.0, 0.5, 1.0), 0.9)),
}


@pytest.mark.first(1)
@pytest.mark.parametrize(("who", "law"), USERS.values(), ids=USERS)
def test_click_patterns_have_their_probabilities(who, law):
    shown = Impression(("x", "y", "z"))
    grades = dict(zip(shown.order, GRADES, strict=True))
    counts = collections.Counter(who.clicks(shown, grades, draw).gains for draw in range(DRAWS))
    total = 0.0
    for gains, p in law:
        total += p
        assert abs(counts[gains] - DRAWS * p) <= 4.5 * math.sqrt(DRAWS * p * (1 - p)) + 1e-9
    assert total == pytest.approx(1.0, abs=1e-12)


def test_answers_follow_from_seed_and_number():
    shown, grades = Impression(tuple(range(8))), [0, 1, 2, 0, 1, 2, 0, 1]
    answers = [user("informational").clicks(shown, grades, draw) for draw in range(20)]
    assert answers == [user("informational").clone().clicks(shown, np.array(grades), draw) for draw in range(20)]
    assert answers != [user("informational", seed=1).clicks(shown, grades, draw) for draw in range(20)]


def test_other_grades():
    assert user("perfect", max_grade=4).click == (0.0, 0.2, 0.4, 0.8, 1.0)
    assert user("navigational", max_grade=1).stop == (0.2, 0.9)
    assert user("perfect", max_grade=8).click == pytest.approx((0.0, 0.1, 0.2, 0.3, 0.4, 0.6, 0.8, 0.9, 1.0))
    assert user("trust", max_grade=4).relevant == (0.0, 0.0, 0.0, 1.0, 1.0)
    assert user("trust", max_grade=1).relevant == TrustUser((0.0, 1.0)).relevant == (0.0, 1.0)
    # Grades above the last have its probabilities.
    assert user("perfect").clicks(Impression((0,)), [7], 0).gains == (1.0,)


def test_enough_ends_the_session():
    who = user("satisfied", max_grade=2)
    for draw in range(300):
        gains = who.clicks(Impression((0, 1, 2, 3, 4)), [1, 1, 2, 2, 1], draw).gains
        got = np.cumsum(np.array(gains) * [0.5, 0.5, 1.0, 1.0, 0.5])
        # Nothing is clicked once 1 has been reached.
        assert not any(gain and before >= 1.0 for gain, before in zip(gains[1:], got, strict=False))


def test_a_stream_of_clicks():
    model = StreamScaler() | SwapRanker()
    met = list(
        zip(range(30), click_stream(NoisyTeacher(n_queries=40, seed=2), model, user("perfect", max_grade=4)), strict=False)
    )
    assert len(met) == 30
    for _, (x, clicks) in met:
        assert set(clicks.impression.order) <= set(range(len(x)))
        model.learn_one(x, clicks)
    assert model["SwapRanker"].confidence > 0


@pytest.mark.parametrize(
    ("make", "message"),
    [
        (lambda: user("curious"), "name is 'curious'"),
        (lambda: user("perfect", max_grade=0), "max_grade is 0"),
        (lambda: CascadeUser((0.5, 1.2), (0.0, 0.0)), r"click is \(0.5, 1.2\)"),
        (lambda: CascadeUser((0.5, 1.0), (0.0,)), "click has 2 grades, but stop has 1"),
        (lambda: CascadeUser([0.5], (0.0,)), r"click is \[0.5\]"),
        (lambda: PositionUser(eta=-1.0), "eta is -1.0"),
        (lambda: TrustUser(eta=math.nan), "eta is nan"),
        (lambda: DependentUser(persistence=2.0), "persistence is"),
        (lambda: BayesianUser((0.1,)), "click has 1 grades, but satisfaction has 3"),
        (lambda: BayesianUser(perseverance=1.5), "perseverance is"),
        (lambda: BrowsingUser(eta=-1.0), "eta is -1.0"),
        (lambda: SatisfiedUser(need=0.0), "need is 0.0"),
        (lambda: SatisfiedUser((0.1,)), "click has 1 grades, but gain has 3"),
    ],
)
def test_bad_settings(make, message):
    with pytest.raises(ValueError, match=message):
        make()
