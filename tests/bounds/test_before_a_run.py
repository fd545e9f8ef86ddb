"""What is known of a blend before its run, and what no rule can have: statements 10 and 11 of the paper."""

import math

import numpy as np
import pytest

from online_rank import AdditiveRanker, BlendRanker, PerceptronRanker, bounds
from online_rank._kernels import beside, words
from online_rank._kernels.hashing import draws
from online_rank.measures.learned import measure
from online_rank.rankers import growing_trees
from online_rank.rankers.words import MIXTURES as OF_WORDS

#: Two documents that two rankers order in both ways, and what a wrong order of them loses.
_QUERY = np.array([[1.0, -1.0], [-1.0, 1.0]])
_LOST = 1.0 - 1.0 / math.log2(3.0)
NDCG = measure("ndcg")


def two_that_disagree(seed=0):
    one, other = (PerceptronRanker.from_weights(w) for w in ([1.0, 0.0], [0.0, 1.0]))
    return BlendRanker([one, other], measure="ndcg", grid=4, seed=seed)


def against(scores):
    """Grades for which the ranking by these scores is wrong."""
    return [1, 0] if scores[0] <= scores[1] else [0, 1]


def known_before(n_queries, n_candidates):
    """ln N + sqrt(2 (e - 2) T ln N) + b + 5/4, with b = 1."""
    size = math.log(n_candidates)
    return size + math.sqrt(2.0 * (math.e - 2.0) * n_queries * size) + 1.0 + 1.25


def test_it_is_the_closed_bound_at_the_largest_variance():
    closed = bounds.blend_closed_bound(least_loss=0.0, n_candidates=5, rate=1.0, variance=400 / 4)
    assert closed == pytest.approx(known_before(400, 5))


@pytest.mark.slow
def test_grades_that_do_not_see_the_draw_cost_no_more_than_was_known_before():
    """The mean of the candidates is foreseen and always wrong, a draw is not: without draws half of the queries were excess."""
    n, excess = 400, []
    for seed in range(6):
        model = two_that_disagree(seed)
        for t in range(n):
            y = [t % 2, 1 - t % 2] if model.draws_candidates else against(model.predict_one(_QUERY))
            model.learn_one(_QUERY, y)
        excess.append(model.account.served - model.candidate_losses.min())
        assert model.account.n_drawn > n / 2
    limit = known_before(n, len(model.candidate_losses))
    assert limit < n * _LOST / 2
    # Each run, and not only their mean, with the luck of probability .001 on top.
    assert np.mean(excess) <= limit
    assert max(excess) <= limit + math.sqrt(n * math.log(1000.0) / 2.0)


class AtRandom:
    """Draws one of both orders by a fair coin."""

    def __init__(self):
        self.rng = np.random.default_rng(7)

    def predict_one(self, _):
        return self.rng.permutation(2)

    def learn_one(self, x, y):
        """Nothing is learned."""


@pytest.mark.parametrize("make", [two_that_disagree, lambda: AdditiveRanker(trees=0), AtRandom])
def test_grades_that_see_the_list_cost_every_rule_half_of_the_queries(make):
    model, served, fixed = make(), 0.0, np.zeros(2)
    for _ in range(60):
        scores = model.predict_one(_QUERY)
        y = against(scores)
        served += NDCG.loss(np.asarray(scores, float), y, ties="pessimistic")
        fixed += [NDCG.loss(_QUERY[:, k], y, ties="pessimistic") for k in (0, 1)]
        model.learn_one(_QUERY, y)
    assert served == pytest.approx(60 * _LOST)
    assert fixed.sum() == pytest.approx(60 * _LOST)
    assert served - fixed.min() >= 60 * _LOST / 2 - 1e-9


@pytest.mark.parametrize(("module", "mixtures"), [(beside, growing_trees.MIXTURES), (words, OF_WORDS)], ids=["trees", "words"])
def test_blends_around_the_curves_draw_independently_of_the_curves(module, mixtures):
    """With equal numbers both would draw the same candidate of two blends of the same size, in every query."""
    n, K = mixtures.shape
    # In plain Python: only other kernels may call it.
    made = getattr(module._hedge_of, "py_func", module._hedge_of)
    own = made(np.zeros(beside.N_NUMBERS + words.N_NUMBERS), mixtures, np.full(n, 1.0 / n), 3, 0)
    assert own.scales.shape == (K, 2)
    numbers = np.empty((2, 1000))
    for seed, row in zip((3, own.seed), numbers, strict=True):
        draws(seed, 0, row)
    assert abs(np.corrcoef(numbers)[0, 1]) < 0.1
    assert np.mean((numbers[0] * n).astype(int) == (numbers[1] * n).astype(int)) < 1.4 / n
