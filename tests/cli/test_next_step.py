"""What `train --clicks` says is to be done next."""

import numpy as np
import pytest

from online_rank.cli.held_out import HeldOut
from online_rank.cli.next_step import after_drawn, after_moved, lists_for, votes_of
from online_rank.intervals import LossInterval


def held_out(*lists, n_lists=None):
    """Scores, positions from 0 and gains of lists with a click."""
    held = HeldOut()
    held.lists = [tuple(map(np.array, each)) for each in lists]
    held.n_lists = n_lists or len(lists)
    return held


def test_a_click_counts_as_the_users_for_whom_it_stands_where_the_draft_would_put_it():
    # The model has the last of three documents first, and the others behind: clicks at places 3, 1 and 2.
    scores, places = [2.0, 1.0, 3.0], [0, 1, 2]
    clicked = [(scores, places, gains) for gains in ([0, 0, 1], [1, 0, 0], [0, 1, 0])]
    share, error, votes = votes_of(held_out(*clicked, n_lists=6), (1.0, 0.5, 0.25))
    # For the model the click at place 3: 1 / .25 users, who would all look. Against it: at place 1 once, at place 2 once.
    assert share == pytest.approx(4 / (4 + 1 + 1))
    assert votes == pytest.approx(6 / 6)
    assert error == pytest.approx(0.5 * np.sqrt(4**2 + 1 + 1) / 6)


def test_equal_ranks_are_no_votes():
    share, error, votes = votes_of(held_out(([3.0, 2.0, 1.0], [0, 1, 2], [0, 1, 0])), (1.0, 0.5))
    assert (share, error, votes) == (0.5, 0.0, 0.0)
    assert lists_for(share, votes) is None


def test_a_larger_share_and_more_votes_a_list_decide_sooner():
    assert lists_for(0.9, 0.5) < lists_for(0.6, 0.5) < lists_for(0.51, 0.5)
    assert lists_for(0.6, 1.0) == pytest.approx(lists_for(0.6, 0.5) / 2, abs=1)
    assert lists_for(0.500001, 0.5) is None


def test_votes_of_this_share_decide_after_as_many_lists_as_promised():
    rng, account = np.random.default_rng(0), LossInterval()
    n = 0
    while account.lower_limit(0.95) <= 0.5:
        account.update(float(rng.random() < 0.7))
        n += 1
    assert 0.3 * lists_for(0.7, 1.0) < n < 3 * lists_for(0.7, 1.0)


@pytest.mark.parametrize(
    ("gains", "judged", "said"),
    [
        ([0, 0, 1], (9, 10), ["A decision takes about", "grades can judge 9 of 10 pairs"]),
        ([0, 0, 1], (2, 10), ["A decision takes about"]),
        ([0, 0, 1], None, ["A decision takes about", "or show some lists with neighbours in random order"]),
        ([1, 0, 0], (9, 10), ["held-out clicks do not say that the model is better"]),
    ],
)
def test_after_lists_that_moved(gains, judged, said):
    lines = after_moved(held_out(*[([1.0, 2.0, 3.0], [0, 1, 2], gains)] * 9), (1.0, 0.5, 0.25), judged)
    assert len(lines) == len(said)
    for line, part in zip(lines, said, strict=True):
        assert part in line


@pytest.mark.parametrize(
    ("shown", "model", "said"),
    [
        (0.2, 0.9, "next: serve the model"),
        (0.9, 0.2, "do not serve the model: it is worse"),
        (0.5, 0.49, "nothing in this log says that the model is better"),
        (0.5, 0.52, "more lists like these decide"),
    ],
)
def test_after_lists_that_were_drawn(shown, model, said):
    n = 1000
    logged, value = (LossInterval([n, n * mean, n * mean * (1 - mean)]) for mean in (shown, model))
    (line,) = after_drawn(logged, value)
    assert said in line
    if "decide" in said:
        more = int(line.split("about ")[1].split(" more")[0].replace(",", ""))
        # With as many lists both intervals are apart, and with a third fewer they are not.
        for lists, apart in ((1.1 * (n + more), True), (0.66 * (n + more), False)):
            a, b = (LossInterval([lists, lists * mean, lists * mean * (1 - mean)]).interval(0.975) for mean in (shown, model))
            assert (b.lower > a.upper) == apart


@pytest.mark.slow
@pytest.mark.parametrize(("noise", "better"), [(0.4, True), (1.0, False), (2.0, False)])
def test_held_out_clicks_foretell_the_votes_on_drafted_lists(noise, better):
    """Today's ranking sees the attraction with noise 1, the model with more or less of it."""
    rng, examined, held = np.random.default_rng(0), np.arange(1.0, 11.0) ** -0.9, HeldOut()
    held.n_lists = 3000
    won = votes = 0
    for _ in range(3000):
        value = rng.normal(size=10)
        attracts = np.where(value > 0.5, 0.4, 0.03)
        today, model = (value + each * rng.normal(size=10) for each in (1.0, noise))
        order = np.argsort(-today)
        clicks = (rng.random(10) < attracts[order] * examined).astype(float)
        if clicks.any():
            held.lists.append((model[order], np.arange(10), clicks))
        ranks = [np.argsort(np.argsort(-scores)) for scores in (today, model)]
        # A draft: each ranking in turn, a coin says which one begins.
        first = rng.integers(2, size=5)
        drafted: list[int] = []
        for coin in first.tolist():
            for who in (coin, 1 - coin):
                drafted.append(min((d for d in range(10) if d not in drafted), key=ranks[who].__getitem__))
        for d in np.array(drafted)[rng.random(10) < attracts[drafted] * examined].tolist():
            votes += ranks[0][d] != ranks[1][d]
            won += ranks[1][d] < ranks[0][d]
    share, error, a_list = votes_of(held, examined)
    assert share == pytest.approx(won / votes, abs=0.05)
    assert a_list == pytest.approx(votes / 3000, rel=0.5)
    assert ("A decision takes about" in after_moved(held, examined, None)[0]) == better
    assert error < 0.02
