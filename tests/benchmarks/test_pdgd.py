"""The port of PDGD against its formulas, pair by pair."""

import itertools
import math

import numpy as np
import pytest

from benchmarks._pdgd import PDGD, ClickSkip, swap_weights
from tests.reference import clicks as reference


@pytest.mark.parametrize(("m", "k"), [(5, 5), (5, 3), (2, 2)])
def test_weights_are_the_probabilities_of_exchanged_rankings(m, k):
    scores = np.array([0.3, -1.2, 2.0, 0.0, 0.9])[:m]
    for order in itertools.permutations(range(m), k):
        pairs = list(itertools.permutations(range(k), 2))
        winners, losers = (np.array(part) for part in zip(*pairs, strict=True))
        expected = [reference.swap_probability(order, a, b, scores) for a, b in pairs]
        assert swap_weights(scores, np.array(order), winners, losers) == pytest.approx(expected, abs=1e-12)


def test_an_update_is_the_sum_over_pairs():
    """Oosterhuis & de Rijke 2018, algorithm 1: w += rate * sum over pairs of rho sigma(d) (1 - sigma(d)) (x_i - x_j)."""
    rng = np.random.default_rng(1)
    X, ranking = rng.normal(size=(6, 3)), np.array([4, 1, 0, 5])
    for clicks in itertools.product([False, True], repeat=4):
        model = PDGD(3)
        w = np.array([0.5, -0.2, 0.1])
        model.weights = w.copy()
        model.learn(X, ranking, np.array(clicks))
        pushed = reference.pushes(ranking, clicks, X @ w, lambda a, b, w=w: reference.swap_probability(ranking, a, b, X @ w))
        expected = w + 0.1 * sum((push * (X[i] - X[j]) for (i, j), push in pushed.items()), np.zeros(3))
        assert model.weights == pytest.approx(expected, abs=1e-12)
        assert model.rate == pytest.approx(0.1 * (0.9999977 if pushed else 1.0), rel=1e-15)


def test_click_skip_has_no_weights():
    X = np.array([[0.0], [1.0], [3.0]])
    model = ClickSkip(1)
    model.learn(X, np.array([0, 1, 2]), np.array([False, True, False]))
    assert model.weights == pytest.approx([0.1 * 0.25 * ((1.0 - 0.0) + (1.0 - 3.0))])


def test_the_law_of_its_draws():
    model, X, n = PDGD(1, k=2, seed=3), np.array([[1.0], [0.0], [-0.5]]), 6000
    model.weights = np.ones(1)
    counts = dict.fromkeys(itertools.permutations(range(3), 2), 0)
    for _ in range(n):
        counts[tuple(model.show(X).tolist())] += 1
    for order, p in reference.rankings(X[:, 0], 2):
        assert abs(counts[order] - n * p) < 4.5 * math.sqrt(n * p * (1 - p))
