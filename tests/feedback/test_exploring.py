"""What exploring costs, against sums over all rankings."""

import math

import numpy as np
import pytest

from online_rank.feedback import FairPairs, Greedy, Impression, PlackettLuce
from online_rank.feedback.exploring import kept_share, sharpness
from tests.reference import clicks as reference

LOGITS = [(2.0, 0.9, 0.3, 0.0, -1.2), (0.5,) * 4, (30.0, 15.0, 0.0, -30.0), (1.0,), (900.0, -900.0)]
TAUS = (1, 1.25, 1.5, 2, 2.5, 3, 4, 6, 8)


@pytest.mark.parametrize("logits", LOGITS)
@pytest.mark.parametrize("newcomers", [0.0, 0.01])
def test_a_draw_keeps_at_least_the_share(logits, newcomers):
    k, shifted = len(logits), np.maximum(np.array(logits) - max(logits), -700.0)
    discount, kept, places = 1 / np.log2(np.arange(2, k + 2)), np.zeros(k), np.zeros(k)
    for order, probability in reference.rankings(shifted, k):
        brings = discount * np.r_[np.ones(k - 1), 1.0 - newcomers]
        kept[list(order)] += probability * brings
        places[list(order)] += probability * np.arange(1, k + 1)
    # A gain on one document alone: the worst case is one of these.
    assert kept_share(logits, range(1, k + 1), newcomers) <= (kept / discount).min() + 1e-12
    by_places = (1 / np.log2(places + 1) - newcomers * discount[-1]) / discount
    assert kept_share(logits, range(1, k + 1), newcomers) == pytest.approx(by_places.min(), abs=1e-9)


@pytest.mark.parametrize("logits", [logits for logits in LOGITS if len(logits) > 2])
@pytest.mark.parametrize("k", [1, 2])
def test_of_one_or_two_the_share_is_exact(logits, k):
    discount, kept = 1 / np.log2(np.arange(2, k + 2)), np.zeros(len(logits))
    for order, probability in reference.rankings(np.array(logits) - max(logits), k):
        kept[list(order)] += probability * discount * np.r_[np.ones(k - 1), 0.9]
    assert kept_share(logits, range(1, k + 1), 0.1) == pytest.approx((kept[:k] / discount).min())


def test_the_table_of_theory():
    # kappa of section 27, for k = 5, 10, 20, and tau back from it.
    table = {
        5: (0.9324, 0.9557, 0.9667, 0.9812, 0.9882, 0.9921, 0.9966, 0.9994, 0.9999),
        10: (0.9236, 0.9463, 0.9597, 0.9742, 0.9820, 0.9867, 0.9921, 0.9968, 0.9986),
        20: (0.9208, 0.9442, 0.9577, 0.9723, 0.9799, 0.9845, 0.9898, 0.9946, 0.9967),
    }
    for k, row in table.items():
        for tau, kappa in zip(TAUS, row, strict=True):
            places = tuple(range(1, k + 1))
            kept = kept_share(-4 * tau * np.log(places), places, any_scores=True)
            assert kept == pytest.approx(kappa, abs=6e-5)
            assert sharpness(kept, places) == pytest.approx(tau, rel=1e-6)
    # The first of a pair moves down half of the time in which its pair is formed, which is half of the time.
    assert FairPairs().keep == pytest.approx(0.75 * 1 + 0.25 / math.log2(3))
    # The second of two shown stays at its place half of the time, is first in a quarter, and is not shown in a quarter.
    second = 1.0 / math.log2(3.0)
    assert FairPairs(k=2).keep == pytest.approx((0.5 * second + 0.25) / second)
    assert FairPairs(k=1).keep == 0.75
    assert Greedy().keep == 1.0


@pytest.mark.parametrize("places", [(1, 2, 3, 4, 9, 10), (2, 3, 5), (4,), (1, 7)])
@pytest.mark.parametrize("newcomers", [0.0, 0.01])
def test_pinned_documents_leave_the_budget(places, newcomers):
    """The discounts of (1, 2, 3, 4, 9, 10) are not convex: D(e_p) would be more than is kept."""
    tau, k = sharpness(0.9, places, newcomers), len(places)
    discount, kept = 1 / np.log2(np.array(places) + 1), np.zeros(k + 4 * (k <= 2))
    logits = -4 * tau * np.log(np.arange(1, len(kept) + 1))
    for order, probability in reference.rankings(logits, k):
        kept[list(order)] += probability * discount * np.r_[np.ones(k - 1), 1.0 - newcomers]
    assert (kept[:k] / discount).min() >= kept_share(logits, places, newcomers) - 1e-12
    assert kept_share(logits, places, newcomers) >= 0.9 - 1e-12


@pytest.mark.parametrize("k", [1, 2, 3, 10, 20])
@pytest.mark.parametrize("m", [1, 2, 10, 150])
def test_no_scores_lose_more_than_the_budget(k, m):
    rng, policy = np.random.default_rng(m), PlackettLuce(k=k, keep=0.95, newcomers=0.01)
    for scores in (rng.normal(size=m), rng.exponential(size=m) ** 3, np.arange(m, dtype=float) * 1e-9 + (np.arange(m) == 0)):
        assert policy.show(scores, 0).kept >= 0.95
    with pytest.raises(ValueError, match=r"kept is 1\.5"):
        Impression((0, 1), kept=1.5)


def test_nothing_to_explore():
    assert kept_share([], []) == kept_share([3.0], [1]) == FairPairs().show([1.0], 0).kept == 1.0
