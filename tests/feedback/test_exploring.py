"""What exploring costs, against sums over all rankings."""

import math

import numpy as np
import pytest

from online_rank import PerceptronRanker, SwapRanker
from online_rank.feedback import FairPairs, Impression, PlackettLuce
from online_rank.feedback.exploring import expected_places, kept_share, retention
from tests.reference import clicks as reference

LOGITS = [(0.3, -1.2, 2.0, 0.0, 0.9), (0.5,) * 4, (30.0, 0.0, -30.0, 15.0), (1.0,), (900.0, -900.0)]


@pytest.mark.parametrize("logits", LOGITS)
def test_expected_places_are_those_of_all_rankings(logits):
    m, shifted = len(logits), np.maximum(np.array(logits) - max(logits), -700.0)
    places = np.zeros(m)
    for order, probability in reference.rankings(shifted, m):
        places[list(order)] += probability * np.arange(1, m + 1)
    assert expected_places(logits) == pytest.approx(places, abs=1e-9)


@pytest.mark.parametrize("logits", LOGITS)
def test_a_draw_keeps_at_least_the_share(logits):
    m, shifted = len(logits), np.maximum(np.array(logits) - max(logits), -700.0)
    discount, greedy = 1 / np.log2(np.arange(2, m + 2)), np.argsort(-shifted, kind="stable")
    kept = np.zeros(m)
    for order, probability in reference.rankings(shifted, m):
        kept[list(order)] += probability * discount
    # A gain on one document alone: the worst case is one of these.
    shares = kept[greedy] / discount
    assert kept_share(logits) <= shares.min() + 1e-12
    assert kept_share(logits) == pytest.approx((discount_at(expected_places(shifted)[greedy]) / discount).min())


def discount_at(place):
    return 1 / np.log2(place + 1)


@pytest.mark.parametrize("logits", LOGITS)
@pytest.mark.parametrize("k", [1, 2, 300])
def test_only_the_best_k_may_count(logits, k):
    shifted = np.sort(np.array(logits))[::-1]
    places = expected_places(shifted)[:k]
    assert (
        kept_share(logits, k=k)
        == (discount_at(places) / discount_at(np.arange(1, len(places) + 1))).min()
        >= kept_share(logits)
    )


def test_what_the_greedy_ranking_would_not_show_does_not_count():
    assert kept_share([20.0, 0.0, 0.0], k=1) == pytest.approx(1.0, abs=1e-8)
    assert kept_share([20.0, 0.0, 0.0]) == pytest.approx(math.log2(3.0) / math.log2(3.5), abs=1e-8)


def test_many_documents_take_no_more_memory_than_some_rows():
    logits = np.random.default_rng(1).normal(size=700)
    lead = logits[:, None] - logits
    assert expected_places(logits) == pytest.approx(0.5 + (1 / (1 + np.exp(lead))).sum(axis=1), rel=1e-14)


def test_of_long_lists_the_first_hundred_count():
    policy, scores = PlackettLuce(k=None), np.r_[np.arange(2000.0, 1900.0, -1.0), np.zeros(4900)]
    # With ties broken by ranks, documents further down never lose more than these.
    assert policy.kept_share(scores) == kept_share(policy.logits(scores), k=100) >= kept_share(policy.logits(scores), k=101)


def test_rankers_say_what_a_query_keeps():
    policy, scores = PlackettLuce(k=3), [3.0, 0.5, 2.0, 1.0]
    ranker = SwapRanker.from_weights([1.0], policy=policy)
    assert ranker.kept_share(scores) == kept_share(policy.logits(scores), k=3) > ranker.retention
    assert SwapRanker(policy).kept_share(scores) == kept_share([0.0] * 4, k=3)  # confidence 0: any order
    assert PerceptronRanker().kept_share(scores) is None
    assert SwapRanker(FairPairs()).kept_share(scores) == FairPairs().retention(1.0)
    assert FairPairs().kept_share([1.0]) == 1.0
    with pytest.raises(ValueError, match=r"kept is 1\.5"):
        Impression((0, 1), kept=1.5)


@pytest.mark.parametrize("confidence", [0.3, 0.5, 0.75, 1.0])
@pytest.mark.parametrize("m", [1, 2, 10, 150])
def test_no_scores_lose_more_than_the_retention_says(confidence, m):
    rng, policy = np.random.default_rng(m), PlackettLuce()
    for scores in (rng.normal(size=m), rng.exponential(size=m) ** 3, np.arange(m, dtype=float) * 1e-9 + (np.arange(m) == 0)):
        assert kept_share(policy.logits(scores, confidence)) >= retention(confidence) - 1e-12


def test_the_table_of_theory():
    # At confidence 1 the least is at place 3: 3 + sum over q > 3 of 1 / (1 + (q / 3)^4), summed to a million.
    q = np.arange(4.0, 1e6)
    assert retention(1.0) == pytest.approx(math.log2(4) / math.log2(4 + (1 / (1 + (q / 3) ** 4)).sum()), abs=1e-6)
    assert retention(0.25) == retention(0.0) == 0.0
    assert PlackettLuce().retention(0.5) == retention(0.5)
    # The first of a pair moves down half of the time in which its pair is formed, which is half of the time.
    assert FairPairs().retention(0.3) == pytest.approx(0.75 * 1 + 0.25 / math.log2(3))
    # The second of two shown stays at its place half of the time, is first in a quarter, and is not shown in a quarter.
    second = 1.0 / math.log2(3.0)
    assert FairPairs(k=2).retention(0.3) == pytest.approx((0.5 * second + 0.25) / second)
    assert FairPairs(k=1).retention(0.3) == 0.75
    with pytest.raises(ValueError, match=r"confidence is 1\.5"):
        retention(1.5)


def test_nothing_to_explore():
    assert kept_share([]) == kept_share([3.0]) == 1.0
    assert expected_places([]).tolist() == []
