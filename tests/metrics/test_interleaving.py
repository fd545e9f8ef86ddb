import collections
import copy
import json
import math

import numpy as np
import pytest

from online_rank import SwapRanker
from online_rank.feedback import Impression
from online_rank.metrics import TeamDraft
from online_rank.stream.clicks import user


class Fixed:
    """A ranker that always ranks in one order."""

    def __init__(self, *order):
        self.order = list(order)

    def rank_one(self, x):
        return self.order


class Coins:
    """In place of a generator: the coins to toss."""

    def __init__(self, *coins):
        self.coins = list(coins)

    def random(self):
        return self.coins.pop(0)


def test_draft_by_hand():
    a, b = ["p", "q", "r", "s"], ["q", "s", "p", "r"]
    # First round: a picks p, b picks q. Second: b first, s; a picks r, since p and q are gone.
    both = {"a": a, "b": b}
    assert Impression.drafted(both, None, Coins(0.1, 0.9)) == Impression(("p", "q", "s", "r"), teams=("a", "b", "b", "a"))
    assert Impression.drafted(both, 3, Coins(0.9, 0.1)) == Impression(("q", "p", "r"), teams=("b", "a", "a"))
    assert Impression.drafted({1: [], 0: []}, 5, Coins()) == Impression((), teams=())


def test_draft_of_different_candidates():
    # The team that has documents left continues alone: a picks p, b has q, and then a alone r and s.
    longer, shorter = ["p", "q", "r", "s"], ["q"]
    assert Impression.drafted({"a": longer, "b": shorter}, None, Coins(0.1, 0.1, 0.1)) == Impression(
        ("p", "q", "r", "s"), teams=("a", "b", "a", "a")
    )
    assert Impression.drafted({"a": shorter, "b": longer}, None, Coins(0.1, 0.1, 0.1)) == Impression(
        ("q", "p", "r", "s"), teams=("a", "b", "b", "b")
    )
    assert Impression.drafted({"a": ["p"], "b": ["q"]}, 3, Coins(0.9)) == Impression(("q", "p"), teams=("b", "a"))
    assert Impression.drafted({"a": [], "b": ["q"]}, 3, Coins(0.1)) == Impression(("q",), teams=("b",))


@pytest.mark.parametrize(
    ("clicked", "value"), [(["q"], 1.0), (["p", "r"], 0.0), (["p", "s"], 0.5), ([], 0.5), ({"q": 2, "p": 3}, 0.0)]
)
def test_votes_by_hand(clicked, value):
    shown = Impression(("q", "p", "s", "r"), teams=(1, 4, 1, 4))
    assert shown.clicked(clicked).vote(1) == value
    assert shown.clicked(clicked).vote(4) == 1.0 - value


def test_a_vote_is_the_mean_over_coins_that_alone_say_whose_documents_are():
    same = Impression.drafted({"a": ["p", "q", "r", "s"], "b": ["p", "q", "s", "r"]}, 4, np.random.default_rng(0))
    # p and q stand there whoever begins; of r and s the coin says which comes first.
    assert (same.order[:2], same.alike) == (("p", "q"), (0,))
    assert same.clicked(["p"]).vote("a") == 0.5
    picked = {team: document for document, team in zip(same.order[2:], same.teams[2:], strict=True)}
    assert same.clicked([picked["a"]]).vote("a") == 1.0
    # p is b's in half of the cases: then b has two and a one, and otherwise a has two.
    assert same.clicked(["p", picked["a"]]).vote("a") == (1.0 + 0.5) / 2
    # By engagement: 1 more for a, and 3 for either.
    assert same.clicked({"p": 3.0, picked["a"]: 1.0}).vote("a") == (1.0 + 0.0) / 2
    assert Impression.from_dict(same.to_dict()) == same


def test_equal_rankings_have_equal_teams():
    rng, teams = np.random.default_rng(0), collections.Counter()
    for _ in range(2000):
        shown = Impression.drafted({"a": list("abcd"), "b": list("abcd")}, 3, rng)
        assert shown.order == tuple("abc")
        teams[shown.teams] += 1
    # Two coins decide: who is first, and who is third.
    assert set(teams) == {("a", "b", "a"), ("a", "b", "b"), ("b", "a", "a"), ("b", "a", "b")}
    assert all(abs(count - 500) < 4.5 * math.sqrt(2000 * 0.25 * 0.75) for count in teams.values())


def test_points_decide():
    comparison = TeamDraft(Fixed(0, 1, 2), Fixed(2, 1, 0), k=3, seed=4)
    assert (comparison.get(), comparison.n) == (0.0, 0)
    for clicked, _votes in (({"b"}, 1.0), ({"b"}, 1.0), ({"a"}, 0.0), (set(), 0.5)):
        shown = comparison.show_one(None)
        first = {team: document for document, team in reversed(list(zip(shown.order, shown.teams, strict=True)))}
        comparison.update(shown.clicked([first[team] for team in clicked]))
    assert comparison.get() == pytest.approx(2 * (1.0 + 1.0 + 0.0 + 0.5) / 4 - 1)
    interval = comparison.interval()
    assert (interval.n, interval.lower, interval.upper) == (4, 0.0, 1.0)


@pytest.mark.first(1)
@pytest.mark.parametrize("name", ["perfect", "trust", "position2"])
def test_the_better_ranker_is_found_and_equal_ones_are_not_distinguished(name):
    grades = [0, 2, 0, 1, 0, 0]
    good, bad = Fixed(1, 3, 0, 2, 4, 5), Fixed(0, 2, 4, 1, 3, 5)
    for a, b, better in (
        (bad, good, True),
        (good, bad, False),
        (good, good, None),
        (Fixed(0, 1, 2, 3, 4, 5), Fixed(2, 1, 0, 3, 4, 5), None),
    ):
        comparison, who = TeamDraft(a, b, k=4, seed=2), user(name, seed=5)
        for draw in range(1500):
            comparison.update(who.clicks(comparison.show_one(None), grades, draw))
        low, high = comparison.interval()[:2]
        assert (low > 0.5) == (better is True)
        assert (high < 0.5) == (better is False)


def test_replays_and_json():
    comparison = TeamDraft(SwapRanker(), SwapRanker(), k=2, seed=3)
    X = np.random.default_rng(0).normal(size=(5, 3))
    shown = [comparison.show_one(X) for _ in range(20)]
    again = comparison.clone()
    assert [again.show_one(X) for _ in range(20)] == shown
    assert len({s.teams for s in shown}) > 1
    assert Impression.from_dict(json.loads(json.dumps(shown[0].to_dict()))) == shown[0]
    comparison.update(shown[0].clicked([0]))
    other = copy.deepcopy(comparison)
    assert other.show_one(X) == comparison.show_one(X)
    assert other.interval() == comparison.interval()


def test_bad_input():
    with pytest.raises(TypeError, match="a is of type int"):
        TeamDraft(3, Fixed(1))
    with pytest.raises(ValueError, match="k is 0"):
        TeamDraft(Fixed(1), Fixed(1), k=0)
    with pytest.raises(TypeError, match=r"those on an impression of TeamDraft\.show_one"):
        TeamDraft(Fixed(1), Fixed(1)).update(Impression((1,)).clicked([1]))
    with pytest.raises(TypeError, match=r"those on an impression of TeamDraft\.show_one"):
        TeamDraft(Fixed(1), Fixed(1)).update(Impression((1,), teams=("c",)).clicked([1]))
    with pytest.raises(ValueError, match="teams has 1 values for 2 documents"):
        Impression((1, 2), teams=("a",))
    with pytest.raises(TypeError, match="teams is"):
        Impression((1, 2), teams="ab")
    with pytest.raises(TypeError, match="teams is"):
        Impression((1,), teams=(0.5,))
