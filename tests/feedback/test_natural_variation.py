"""Examination harvested from logs without chance."""

import numpy as np
import pytest

from online_rank.feedback import Impression, NaturalVariation
from online_rank.stream.clicks import PositionUser


def test_matches_by_hand():
    log = NaturalVariation(k=3)
    # "a" stands first twice, with one click, and third once, with a click; "b" second, always.
    log.update("q", Impression(("a", "b")).clicked(["a"]))
    log.update("q", Impression(("a", "b")).clicked([]))
    log.update("q", Impression(("b", "a"), positions=(2, 3)).clicked({"a": 1.0}))
    # Another query is another matter, and position 4 is none.
    log.update("r", Impression(("b", "a"), positions=(1, 4)).clicked(["a"]))
    # W_13 = 1 * n_3 / (n_1 + n_3), W_31 = 1 * n_1 / (n_1 + n_3).
    expected = np.zeros((3, 3))
    expected[0, 2], expected[2, 0] = 1 * 1 / 3, 1 * 2 / 3
    assert log.matches == pytest.approx(expected)
    with pytest.raises(ValueError, match="position 2 and position 1 share no documents"):
        _ = log.examination


@pytest.mark.first(1)
@pytest.mark.parametrize("eta", [0.0, 1.0, 2.0])
def test_finds_the_examination_of_a_log_of_two_rankers(eta):
    rng, who, log = np.random.default_rng(0), PositionUser((0.3, 0.6, 0.9), eta=eta, seed=1), NaturalVariation(k=5)
    for t in range(6000):
        query = int(rng.integers(40))
        grades = np.random.default_rng(query).integers(3, size=7)
        # Two deterministic rankers, both of which prefer what is relevant.
        scores = grades + np.random.default_rng([query, t % 2]).normal(size=7)
        shown = Impression(tuple(np.argsort(-scores)[:5].tolist()))
        log.update(query, who.clicks(shown, grades, t))
    truth = np.arange(1, 6) ** -eta
    assert log.examination == pytest.approx(tuple(truth), rel=0.35, abs=0.06)


def test_no_clicks_say_nothing():
    log = NaturalVariation(k=2)
    for order in ("ab", "ba"):
        log.update("q", Impression(tuple(order)).clicked([]))
    with pytest.raises(ValueError, match="nothing was clicked at the first 2 positions"):
        _ = log.known_examination


def test_one_ranker_says_nothing():
    log = NaturalVariation(k=2)
    for _ in range(50):
        log.update("q", Impression(("a", "b")).clicked(["a", "b"]))
    with pytest.raises(ValueError, match="this log does not determine how often it is examined"):
        _ = log.examination
