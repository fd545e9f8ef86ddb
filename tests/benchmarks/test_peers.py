"""DBGD, MGD and COLTR against values worked out by hand."""

import numpy as np
import pytest

from benchmarks._peers import COLTR, DBGD, losses_of_candidates, team_draft


def test_what_all_rankings_begin_with_belongs_to_none():
    rankings = np.array([[4, 2, 0, 1], [4, 2, 3, 0]])
    for seed in range(10):
        shown, teams = team_draft(rankings, np.random.default_rng(seed))
        assert shown[:2].tolist() == [4, 2]
        assert teams[:2].tolist() == [-1, -1]
        # Either may choose first. Whoever is second takes its best document that is left.
        assert (shown[2:].tolist(), teams[2:].tolist()) in [([0, 3], [0, 1]), ([3, 0], [1, 0])]


def test_equal_rankings_have_no_teams():
    shown, teams = team_draft(np.array([[1, 0], [1, 0], [1, 0]]), np.random.default_rng(0))
    assert shown.tolist() == [1, 0]
    assert teams.tolist() == [-1, -1]


def test_each_ranker_chooses_once_a_round():
    rng = np.random.default_rng(0)
    for _ in range(50):
        rankings = np.array([rng.permutation(12)[:12] for _ in range(4)])[:, :10]
        shown, teams = team_draft(rankings, rng)
        assert len(set(shown.tolist())) == 10
        chosen = teams[teams >= 0]
        for first in range(0, len(chosen) - 3, 4):
            assert sorted(chosen[first : first + 4].tolist()) == [0, 1, 2, 3]


class OneDirection:
    """A generator whose directions are known, and who leaves everything else in its order."""

    def __init__(self, directions):
        self.directions = np.array(directions, float)

    def normal(self, size):
        return self.directions

    def permutation(self, n):
        return np.arange(n)


def test_a_step_goes_to_the_mean_of_the_candidates_with_more_clicks():
    model = DBGD(2, candidates=3)
    model.rng = OneDirection([[3.0, 0.0], [0.0, 2.0], [-1.0, 0.0]])
    X = np.array([[0.0, 0.0], [1.0, 0.0], [0.0, 1.0], [-1.0, 0.0]])
    # The ranker takes document 0, the candidates 1, 2 and 3, in this order.
    assert model.show(X).tolist() == [0, 1, 2, 3]
    model.learn(X, np.arange(4), np.array([False, True, True, False]))
    assert model.weights == pytest.approx([0.01 * 0.5, 0.01 * 0.5], rel=1e-15)
    model.show(X)
    before = model.weights.copy()
    model.learn(X, np.arange(4), np.array([False, False, False, False]))
    assert model.weights.tolist() == before.tolist()


def test_a_candidate_with_as_many_clicks_does_not_win():
    model = DBGD(1)
    model.rng = OneDirection([[1.0]])
    X = np.array([[0.0], [1.0]])
    assert model.show(X).tolist() == [0, 1]
    model.learn(X, np.arange(2), np.array([True, True]))
    assert model.weights.tolist() == [0.0]


def test_losses_of_candidates_by_hand():
    # The first was passed over, the second clicked, the third is below the last click. A candidate twice as likely to show the
    # first: (2 * 1) / (2 + 1 + 1) = 1/2; variance (1/4 * 4 + 1/4 + 1/4) / 6 = 1/4, its standard error sqrt(1/12).
    ratios = np.array([[1.0, 2.0], [1.0, 1.0], [1.0, 1.0]])
    losses = losses_of_candidates(ratios, np.array([False, True, False]))
    plain = 1 / 3 + np.sqrt((4 / 9 + 1 / 9 + 1 / 9) / 3 / 3)
    assert losses == pytest.approx([plain, 1 / 2 + np.sqrt(1 / 12)], rel=1e-14)


def test_counterfactual_steps_go_to_candidates_that_show_clicked_documents():
    model = COLTR(2, candidates=2)
    model.weights = np.zeros(2)
    model.rng = OneDirection([[1.0, 0.0], [0.0, 1.0]])
    X = np.array([[1.0, 0.0], [0.0, 1.0]])
    # Document 0 was passed over for document 1: the second candidate, which ranks it first, wins alone.
    model.learn(X, np.array([0, 1]), np.array([False, True]))
    assert model.weights == pytest.approx([0.0, 0.1], abs=1e-15)
    assert model.rate == pytest.approx(0.1 * 0.99966, rel=1e-15)


def test_counterfactual_learning_needs_a_click():
    model = COLTR(3)
    before = model.weights.copy()
    model.learn(np.eye(3), np.arange(3), np.zeros(3, bool))
    assert model.weights.tolist() == before.tolist()
    assert np.linalg.norm(before) == pytest.approx(0.01, rel=1e-14)
