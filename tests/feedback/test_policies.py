import collections
import copy
import json
import math
import pickle

import numpy as np
import pytest
from scipy import stats

from online_rank import ClickPerceptron, PerceptronRanker, SwapRanker, save
from online_rank.base.calls import best_first
from online_rank.feedback import FairPairs, Greedy, Impression, PlackettLuce, PositionBias
from online_rank.storage import load
from tests.reference import clicks as reference

SCORES = {"a": 0.3, "b": 0.31, "c": 0.3, "d": 0.29}


@pytest.mark.slow
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


@pytest.mark.slow
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
        (lambda: PlackettLuce().show({"a": 1.0, "b": math.nan}, 0), "scores: document 'b' has nan"),
        (lambda: FairPairs().show(np.array([0.0, np.inf]), 0), "scores: document 1 has inf"),
        (lambda: PlackettLuce().show([1e200, -1e200], 0), "scores are too large"),
        (lambda: PlackettLuce().show([0.0, 1.0], 0, confidence=math.nan), "confidence is nan"),
        (lambda: FairPairs().show([0.0, 1.0], 0, confidence=1.5), "confidence is 1.5"),
        (lambda: PlackettLuce().logits([0.0, 1.0], math.inf), "confidence is inf"),
        (lambda: PlackettLuce(keep=1.0), "keep is 1.0"),
        (lambda: PlackettLuce(keep=0.99, newcomers=0.01), "keep is 0.99 and newcomers 0.01: a share"),
        (lambda: PlackettLuce(newcomers=0.01), "newcomers is 0.01 without keep"),
        (lambda: PlackettLuce(k=None, keep=0.9), "keep is 0.9 and k None"),
        (lambda: Impression((0, 1), newcomer=1), "newcomer is 1; it is True or False"),
        (lambda: Impression((0, 1), (0.0,), newcomer=True), "newcomer goes with logits, propensities and held_back"),
    ],
)
def test_bad_input(call, message):
    with pytest.raises((TypeError, ValueError), match=message):
        call()


WORST = ([1.0] * 6, [2.0, 1.0, 1.0, 1.0, 1.0, 0.0], [0.0, 0.0, 5.0, 5.0, 0.0], [1e6, 3.0, 2.0, 1.0, 0.5], [3.0, 1.0])


@pytest.mark.parametrize("scores", WORST)
@pytest.mark.parametrize("k", [1, 2, 3, 5])
@pytest.mark.parametrize(("keep", "newcomers"), [(0.9, 0.0), (0.95, 0.01), (0.99, 0.005)])
def test_a_budget_is_kept_for_every_relevance(scores, k, keep, newcomers):
    # By enumeration of all lists: what a document that alone is relevant brings, for each document of the greedy list.
    policy, m = PlackettLuce(k=k, keep=keep, newcomers=newcomers), len(scores)
    shares = kept_by(policy, scores)
    assert shares.min() >= keep - 1e-12  # at k <= 2 exactly keep, up to rounding
    shown = policy.show(scores, 0)
    assert keep - 1e-12 <= shown.kept <= shares.min() + 1e-12
    if m == 6 and k <= 2 and not newcomers:
        assert shares.min() == pytest.approx(keep)


def kept_by(policy, scores):
    """The exact expected discount of each document of the greedy list, by its greedy discount, from logits and newcomers."""
    m, greedy = len(scores), best_first(np.array(scores))
    k = min(policy.k, m)
    n = min(k + (4 if k <= 2 else 0), m)
    logits = policy.logits(scores)[greedy[:n]].tolist()
    discounts, expected = 1.0 / np.log2(np.arange(2.0, k + 2.0)), np.zeros(n)
    for order, probability in reference.rankings(logits, k):
        stays = np.ones(k)
        stays[-1] = 1.0 - policy.newcomers if m > n else 1.0
        expected[list(order)] += probability * discounts * stays
    return expected[:k] / discounts


@pytest.mark.slow
def test_the_law_with_newcomers():
    """Chi-square over all lists of 3 of 5 documents, and the probabilities that impressions state."""
    policy, scores, n = PlackettLuce(k=3, keep=0.7, newcomers=0.25, seed=3), [0.0, 4.0, 3.9, 3.8, 0.1], 20_000
    drawn = [policy.show(scores, draw) for draw in range(n)]
    counts, stated = collections.Counter(shown.order for shown in drawn), {}
    expected = collections.Counter()
    logits = policy.logits(scores)[[1, 2, 3]].tolist()
    for order, probability in reference.rankings(logits, 3):
        first, second, third = (1 + place for place in order)
        expected[first, second, third] += 0.75 * probability
        for newcomer in (0, 4):
            expected[first, second, newcomer] += 0.125 * probability
    for shown in drawn:
        stated[shown.order] = math.prod(shown.chances)
        assert shown.newcomer == (shown.order[-1] in (0, 4))
        assert shown.held_back == (tuple({1, 2, 3} - {*shown.order}))
        assert dict(zip(shown.drawn, shown.logits, strict=True)) == pytest.approx(dict(zip((1, 2, 3), logits, strict=True)))
    assert stated == pytest.approx(expected)
    assert len(expected) == 18
    chi2 = sum((counts[order] - n * p) ** 2 / (n * p) for order, p in expected.items())
    assert stats.chi2.sf(chi2, 17) > 0.01


def test_clicks_on_a_newcomer_are_not_compared():
    policy, query = PlackettLuce(k=3, keep=0.7, newcomers=0.25, seed=3), np.eye(5)
    model = SwapRanker(policy)
    shown = next(shown for shown in (policy.show([0.0, 4.0, 3.9, 3.8, 0.1], t) for t in range(99)) if shown.newcomer)
    model.learn_one(query, shown.clicked([shown.order[-1]]))
    assert not model.weights.any()
    # The others are, with the document whose place it took, by the law of the draw without it.
    other = SwapRanker(policy)
    model.learn_one(query, shown.clicked(shown.order[1:]))
    plain = Impression(shown.order[:2], shown.logits, held_back=shown.held_back)
    other.learn_one(query, plain.clicked(shown.order[1:2]))
    assert model.weights.any()
    assert model.weights.tobytes() == other.weights.tobytes()
    # Examination and propensities take all that was shown.
    by_chances = ClickPerceptron(policy, credit="propensity")
    by_chances.learn_one(query, shown.clicked([shown.order[-1]]))
    assert by_chances.weights[shown.order[-1]] > 0.0
    bias, without = PositionBias(3), PositionBias(3)
    bias.update(shown.clicked(shown.order[1:]))
    without.update(plain.clicked(shown.order[1:2]))
    assert bias.examination == without.examination


def test_a_ranker_that_begins_with_weights_has_a_budget():
    assert SwapRanker().keep is None
    assert SwapRanker.from_weights([1.0]).keep == 0.98
    assert SwapRanker.from_weights([1.0], policy=PlackettLuce(keep=0.9)).keep == 0.9
    assert PerceptronRanker().keep is None
    # Confidence does not flatten it.
    policy = PlackettLuce(keep=0.98)
    assert policy.show(SCORES, 0, confidence=0.0) == policy.show(SCORES, 0, confidence=1.0)


def test_pinned_and_excluded_leave_before_the_draw():
    policy, scores = PlackettLuce(k=4, keep=0.9, seed=1), {"a": 5.0, "b": 4.0, "c": 3.0, "d": 2.0, "e": 1.0, "f": 0.0}
    shown = policy.show(scores, 3, pinned={2: "e"}, excluded=["b", "not in the query"])
    alone = policy.show({"a": 5.0, "c": 3.0, "d": 2.0, "f": 0.0}, 3, pinned={2: "f"}, excluded=[])
    assert (shown.page[1], len(shown.page), shown.positions, shown.pinned) == ("e", 4, (1, 3, 4), ((2, "e"),))
    assert {*shown.order} == {"a", "c", "d"}
    assert shown.logits is not None
    assert Impression.from_dict(json.loads(json.dumps(shown.to_dict()))) == shown
    # The law is of those that are left: the same as if the others had never been there.
    assert (alone.positions, {*alone.order}) == ((1, 3, 4), {"a", "c", "d"})
    clicks = shown.clicked(["e", "a"])
    assert sum(clicks.gains) == 1.0
    everything = PlackettLuce(k=None).show(scores, 0, pinned={6: "a"}, excluded="b")
    assert len(everything.page) == 5
    assert PlackettLuce(k=2, keep=0.9, newcomers=0.01).show(scores, 0, pinned={1: "a", 2: "b"}).page == ("a", "b")


@pytest.mark.parametrize(
    ("arranged", "message"),
    [
        ({"pinned": {5: "a"}}, "pinned has position 5, but 3 documents are shown"),
        ({"pinned": {1: "z"}}, "pinned has document 'z', which is not in the query"),
        ({"pinned": {1: "a", 2: "a"}}, "pinned has document 'a', which is pinned twice"),
        ({"pinned": {1: "a"}, "excluded": ["a"]}, "pinned has document 'a', which is pinned and excluded"),
        ({"pinned": {0: "a"}}, "pinned is 0"),
        ({"pinned": ["a"]}, "pinned is of type list"),
    ],
)
def test_bad_pins(arranged, message):
    with pytest.raises((TypeError, ValueError), match=message):
        PlackettLuce(k=3).show(SCORES, 0, **arranged)


@pytest.mark.parametrize("policy", [PlackettLuce(k=2**62), Greedy(k=2**62), FairPairs(k=2**62)], ids=str)
def test_any_number_may_be_shown(policy):
    """All positions up to k were listed, in 22 GB."""
    assert sorted(policy.show([0.3, 0.1], 0).order) == [0, 1]
    assert policy.show([0.3, 0.1], 0, pinned={2: 0}).order == (1,)
