"""The mass theorem for matrices, on streams that grade against what was ranked, with sums of 50 digits."""

from decimal import Decimal

import numpy as np
import pytest

from online_rank import PerceptronRanker, VectorRanker
from online_rank.bounds import certificate_of
from online_rank.bounds.vectors import vector_hindsight_bound, vector_mass_bound
from online_rank.preprocessing.bilinear import BilinearLearner, inverse_lengths, unit_vector
from tests.reference import perceptron
from tests.reference.bilinear import ExactBound


def run(seed):
    """A stream of at most 40 queries; returns the learner, what it began with, and the exact bounds of five matrices."""
    rng = np.random.default_rng(seed)
    p, k, m, n = rng.integers(2, 5), rng.integers(1, 5), rng.integers(2, 6), rng.integers(1, 41)
    learner = BilinearLearner(kappa=rng.choice([1.0, 10.0]), credit="spread", certifies=True)
    learner.begin(p, k)
    W1, truth = learner.matrix(), rng.normal(size=(p, k))
    comparators = [W1, np.zeros((p, k)), truth, 3.0 * truth, rng.normal(size=(p, k))]
    exact = ExactBound([U.tolist() for U in comparators])
    for number in range(n):
        if number % 7 == 6:
            # Folding the terms in rounds the matrix; usually it waits for more of them.
            learner._fold()
        vector = rng.normal(size=p).astype(np.float32)
        q = unit_vector(vector)
        D = rng.normal(size=(m, k)).astype(np.float32)
        inverse = inverse_lengths(D)
        s = learner.scores(D, inverse, q, averaged=False)
        # Every third stream grades against what was ranked.
        wanted = -s if seed % 3 == 0 else D @ (q @ truth)
        y = np.argsort(np.argsort(wanted)) // 2
        row = np.empty(10)
        assert learner.learn(D, vector, y, 1.0, row)
        if row[2] > 0.0:
            v = perceptron.weights("ndcg@10", "mean", s.tolist(), y.tolist())
            pairs = perceptron.pair_weights("spread", v, s.tolist(), y.tolist(), row[4])
            exact.add(q.tolist(), inverse.tolist(), D.tolist(), pairs, row[2])
    return learner, W1, exact


def violations(seeds):
    """Which bounds are violated, beyond the 40th digit, and the smallest slack of a bound of a matrix that is not 0."""
    found, least = [], Decimal(1)
    for seed in seeds:
        learner, W1, exact = run(seed)
        slacks = exact.slacks(W1.tolist(), learner.squares)
        found += [(seed, n) for n, slack in enumerate(slacks) if slack < Decimal("-1e-40")]
        least = min(
            [least, *(slack for slack, U in zip(slacks, exact.comparators, strict=True) if any(map(any, U)) and exact.mass)]
        )
        assert learner.mass == pytest.approx(float(exact.mass), rel=1e-12)
    return found, least


def test_no_stream_violates_the_bound():
    found, least = violations(range(25))
    assert not found
    # Some streams nearly attain it.
    assert 0.0 <= least < 0.5


@pytest.mark.slow
def test_no_stream_of_a_thousand_violates_the_bound():
    found, _ = violations(range(1000))
    assert not found


def test_losses_of_the_beginning_are_on_the_pairs_of_updates():
    for seed in range(8):
        learner, _, exact = run(seed)
        if learner.beginning:
            assert learner.sums.compared == pytest.approx(float(exact.F[0]), rel=1e-9)


def test_values_by_hand():
    assert vector_mass_bound(
        comparator_loss=2.0, comparator_norm=5.0, beginning_norm=0.0, beginning_product=0.0, squares=9.0
    ) == pytest.approx(2.0 + 5.0 * 3.0)
    assert vector_hindsight_bound(comparator_loss=2.0, gain_product=1.0, comparator_norm=4.0, rounded=0.5) == 2.0 + 1.0 + 2.0


def taught(n=60, **parameters):
    rng = np.random.default_rng(0)
    model = VectorRanker(**parameters)
    for _ in range(n):
        D, q = rng.normal(size=(6, 4)), rng.normal(size=4)
        model.learn_one(D, np.argsort(np.argsort(D @ q)) // 2, context={"embedding": q})
    return model


def test_a_certificate_holds_against_the_cosine():
    model = taught()
    certificate = certificate_of(model)
    assert certificate.holds
    assert {check.name for check in certificate.bounds} == {"vector_mass_bound", "vector_hindsight_bound"}
    assert certificate.totals["n_queries"] == 60
    sums, norm = model._learner.sums, 10.0 * np.sqrt(4.0)
    wanted = sums.compared + norm * np.sqrt(norm**2 + sums.squares) - norm**2
    assert certificate.bound("vector_mass_bound") == pytest.approx(wanted)
    gained = (10.0 * (np.diag(model._learner.matrix(averaged=False)) - 10.0)).sum()
    assert certificate.facts["gain_product"] == pytest.approx(gained, abs=1e-3)


def test_no_bound_covers_clicks_or_scores_that_were_served():
    model = taught(5)
    D = np.eye(4)
    model.learn_one(D, [0, 1, 2, 0], served=[0.0, 1.0, 0.5, 0.2], context={"embedding": np.ones(4)})
    assert not certificate_of(model).bounds
    clicked = VectorRanker()
    shown = clicked.show_one(D, context={"embedding": np.arange(4.0)})
    clicked.learn_one(D, shown.clicked([shown.order[1]]), context={"embedding": np.arange(4.0)})
    assert "clicks" in certificate_of(clicked).not_covered["vector_mass_bound"]


def test_a_ranker_without_an_account_is_still_refused():
    with pytest.raises(TypeError, match="keeps no account"):
        certificate_of(PerceptronRanker())
