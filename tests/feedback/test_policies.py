import collections
import copy
import math
import pickle

import numpy as np
import pytest
from scipy import stats

from online_rank import PerceptronRanker, save
from online_rank.base.calls import best_first
from online_rank.feedback import FairPairs, PlackettLuce
from online_rank.storage import load
from tests.reference import clicks as reference

SCORES = {"a": 0.3, "b": 0.31, "c": 0.3, "d": 0.29}


def test_law_of_the_draws():
    # Chi-square over all rankings of 2 of 4 documents; a fixed seed, so that it passes always or never.
    policy = PlackettLuce(k=2, seed=8)
    scores = [0.2, 0.21, 0.19, 0.2]
    n = 20_000
    counts = collections.Counter(policy.show(scores, draw, confidence=0.1).order for draw in range(n))
    deviation = math.sqrt(0.0002 / 4)
    ranks = [2, 1, 4, 3]
    logits = [0.1 * (8 * (s - 0.2) / deviation - 4 * math.log(rank)) for s, rank in zip(scores, ranks, strict=True)]
    expected = {order: n * p for order, p in reference.rankings(logits, 2)}
    assert len(expected) == 12
    assert min(expected.values()) > 100
    chi2 = sum((counts[order] - e) ** 2 / e for order, e in expected.items())
    assert stats.chi2.sf(chi2, 11) > 0.01
    assert stats.chi2.sf(sum((counts[order] - n / 12) ** 2 / (n / 12) for order in expected), 11) < 1e-12  # not the uniform law


def test_an_impression_says_how_it_was_drawn():
    shown = PlackettLuce(k=2, seed=3).show(SCORES, draw=5)
    everything = PlackettLuce(k=None, seed=3).show(SCORES, draw=5)
    logits = dict(zip(everything.order, everything.logits, strict=True))
    assert everything.order[:2] == shown.order
    assert everything.rest is None
    # Two are shown, so that the next ones are drawn too, and held back.
    assert everything.order == shown.order + shown.held_back
    assert (shown.logits, shown.rest) == (everything.logits, None)
    three = PlackettLuce(k=3, seed=3).show(SCORES, draw=5)
    assert (three.order, three.held_back) == (everything.order[:3], ())
    assert three.logits == tuple(logits[i] for i in three.order)
    assert three.rest == pytest.approx(logits[everything.order[3]], abs=1e-12)
    assert three.chances == pytest.approx(
        [math.exp(logits[i]) / sum(math.exp(logits[j]) for j in everything.order[p:]) for p, i in enumerate(three.order)]
    )
    assert shown.chances == pytest.approx(three.chances[:2])


def test_fair_pairs_exchange_neighbours_half_of_the_time():
    policy, n = FairPairs(k=5, seed=2), 4000
    scores = [0.1, 0.6, 0.5, 0.4, 0.3, 0.2]  # best first: 1 2 3 4 5 0
    swapped = collections.Counter()
    for draw in range(n):
        shown = policy.show(scores, draw)
        assert shown.logits is None
        assert sorted(shown.order) == [1, 2, 3, 4, 5]
        place = {document: p for p, document in enumerate(shown.order)}
        assert all(abs(place[i] - (i - 1)) <= 1 for i in place)
        for a in range(shown.pairs_from, 4, 2):
            assert set(shown.order[a : a + 2]) == {a + 1, a + 2}
            swapped[a, shown.order[a] == a + 2] += 1
    for a in range(4):
        both = swapped[a, True] + swapped[a, False]
        assert abs(both - n / 2) < 4 * math.sqrt(n / 4)
        assert abs(swapped[a, True] - both / 2) < 4 * math.sqrt(both / 4)


@pytest.mark.parametrize("policy", [PlackettLuce(k=3, seed=4), FairPairs(k=3, seed=4)])
def test_a_draw_follows_from_seed_and_number(policy, tmp_path):
    draws = [policy.show(SCORES, draw) for draw in range(30)]
    save(policy, tmp_path / "policy.npz")
    for other in (policy.clone(), copy.deepcopy(policy), pickle.loads(pickle.dumps(policy)), load(tmp_path / "policy.npz")):
        assert other == policy
        assert hash(other) == hash(policy)
        assert [other.show(SCORES, draw) for draw in range(30)] == draws
    assert len({shown.order for shown in draws}) > 1
    assert [type(policy)(k=3, seed=5).show(SCORES, draw) for draw in range(30)] != draws
    assert [policy.show(list(SCORES.values()), 0).order] == [tuple("abcd".index(i) for i in draws[0].order)]


def test_any_ranker_can_show():
    model = PerceptronRanker()
    query = {"a": {"x": 1.0}, "b": {"x": 2.0}, "c": {"x": 3.0}}
    with pytest.raises(TypeError, match="PerceptronRanker has no policy: show_one"):
        model.show_one(query)
    model.learn_one(query, {"a": 0, "b": 1, "c": 2})
    policy = PlackettLuce(k=3, seed=1)
    shown = [model.show_one(query, policy) for _ in range(5)]
    assert shown == [policy.show(model.predict_one(query), draw) for draw in range(5)]


@pytest.mark.parametrize("m", [0, 1])
@pytest.mark.parametrize("policy", [PlackettLuce(), FairPairs()])
def test_little_to_show(policy, m):
    shown = policy.show([1.0] * m, 0)
    assert shown.order == tuple(range(m))


@pytest.mark.parametrize(
    ("call", "message"),
    [
        (lambda: PlackettLuce(k=0), "k is 0"),
        (lambda: PlackettLuce(k=True), "k is True"),
        (lambda: PlackettLuce(seed=-1), "seed is -1"),
        (lambda: PlackettLuce(seed="a"), "seed is 'a'"),
        (lambda: PlackettLuce().show({"a": 1.0, "b": math.nan}, 0), "scores: that of document 'b' is nan"),
        (lambda: FairPairs().show(np.array([0.0, np.inf]), 0), "scores: that of document 1 is inf"),
        (lambda: PlackettLuce().show([1e200, -1e200], 0), "scores are too large"),
        (lambda: PlackettLuce().show([0.0, 1.0], 0, confidence=math.nan), "confidence is nan"),
        (lambda: FairPairs().show([0.0, 1.0], 0, confidence=1.5), "confidence is 1.5"),
        (lambda: PlackettLuce().logits([0.0, 1.0], math.inf), "confidence is inf"),
    ],
)
def test_bad_input(call, message):
    with pytest.raises((TypeError, ValueError), match=message):
        call()


@pytest.mark.parametrize("scores", [[1.0] * 6, [2.0, 1.0, 1.0, 1.0, 1.0, 0.0], [0.0, 0.0, 5.0, 5.0, 0.0]])
@pytest.mark.parametrize("confidence", [1.0, 0.5])
def test_ties_keep_the_price_of_exploring(scores, confidence):
    # By enumeration of all rankings: the expected discount of each document, at least `retention` of that of its greedy place.
    policy, m = PlackettLuce(k=None), len(scores)
    kept = np.zeros(m)
    for order, probability in reference.rankings(policy.logits(scores, confidence).tolist(), m):
        kept[list(order)] += probability / np.log2(np.arange(2.0, m + 2.0))
    greedy = np.empty(m)
    greedy[best_first(np.array(scores))] = 1.0 / np.log2(np.arange(2.0, m + 2.0))
    assert (kept / greedy).min() >= policy.retention(confidence)
    assert (kept / greedy).min() >= policy.kept_share(scores, confidence) >= policy.retention(confidence)
