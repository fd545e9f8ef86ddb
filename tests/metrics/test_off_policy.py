"""Values of rankers from logs that others made, against sums over all rankings and slow recomputation."""

import itertools
import json
import math
from pathlib import Path

import numpy as np
import pytest

from online_rank import load, save
from online_rank.base.schema import declared_state
from online_rank.feedback import Clicks, FairPairs, Impression, PlackettLuce
from online_rank.intervals import LossInterval
from online_rank.metrics import OffPolicyValue, SwapComparison
from online_rank.stream.clicks import user
from tests.reference import clicks as reference

LOGITS, GRADES = (0.3, -1.2, 1.1, 0.0, 0.9), (0, 2, 0, 1, 1)


def one_update(weights, clicks, ranking, **options):
    """X and X' of one impression."""
    value = OffPolicyValue(weights)
    value.update(clicks, ranking, **options)
    return declared_state(value).accounts[:, 1], float(declared_state(value).robust[0])


@pytest.mark.parametrize("weights", [(1.0,), (0.0, 0.0, 1.0), (0.5, 0.3, 0.2)])
@pytest.mark.parametrize("name", ["navigational", "position", "dbn", "ubm"])
def test_without_bias_for_users_who_read_downwards(weights, name):
    # The expectation over all rankings of the law and all answers equals the value of the other ranking.
    target, k = (1, 3, 4, 0, 2), 3
    attraction = (0.05, 0.5, 0.95)

    def answers(order):
        grades = [GRADES[i] for i in order]
        if name == "position":
            return reference.independent_patterns([attraction[g] / (p + 1) for p, g in enumerate(grades)])
        if name == "ubm":
            return reference.independent_patterns([attraction[g] for g in grades])
        stop = (0.2, 0.5, 0.9)
        return reference.patterns([attraction[g] for g in grades], [stop[g] for g in grades])

    expected = sum(p * np.dot(weights, c[: len(weights)]) for c, p in answers(target[:k]))
    means, robust = np.zeros(2), 0.0
    guess = (0.4, 0.3, 0.1)[: len(weights)]
    for order, p_order in reference.rankings(LOGITS, k):
        shown = Impression(order, logits=[LOGITS[i] for i in order], rest=reference.rest_of(order, LOGITS))
        for gains, p_gains in answers(order):
            clicks = shown.clicked({i: gain for i, gain in zip(order, gains, strict=True) if gain})
            x, r = one_update(weights, clicks, target, expected=guess)
            means += p_order * p_gains * x
            robust += p_order * p_gains * r
    assert means == pytest.approx([expected, 1.0 - expected], abs=1e-12)
    assert robust == pytest.approx(expected, abs=1e-12)


def test_values_by_hand():
    value = OffPolicyValue((0.5, 0.5))
    # Shown as wished, with chances 1/2 and 1/4: W = 2 and 8. The second is clicked: X = 4, X' = (2 + 0) / 2.
    value.update(Impression(("a", "b"), propensities=(0.5, 0.25)).clicked(["b"]), ["a", "b", "c"])
    # The first as wished, chance 1/2, clicked: X = 1, X' = 0 + 0.
    value.update(Impression(("a", "c"), propensities=(0.5, 0.5)).clicked(["a"]), ["a", "b", "c"])
    # Not as wished.
    value.update(Impression(("b", "a"), propensities=(0.5, 0.5)).clicked(["b"]), ["a", "b", "c"])
    assert declared_state(value).places.tolist() == [[4.0, 8.0, 2.0], [8.0, 64.0, 8.0]]
    assert declared_state(value).accounts[:, 1].tolist() == [4.0 + 1.0, 1.0 + 0.0]
    # Guesses 1/2, and then the mean of 1/2 and what was seen, cut to 1.
    assert declared_state(value).accounts[0, 2] == pytest.approx((4 - 0.5) ** 2 + (1 - 1) ** 2 + (0 - 1) ** 2)
    assert declared_state(value).accounts[1, 2] == pytest.approx((1 - 0.5) ** 2 + (0 - 1.5 / 2) ** 2 + (0 - 1.5 / 3) ** 2)
    assert value.effective_sample_size == 8.0**2 / 64.0
    with pytest.raises(ValueError, match=r"snips: the log agrees with this ranker in an effective 1\.0 of 3 rankings"):
        value.snips()
    with pytest.raises(ValueError, match="doubly_robust: the log agrees"):
        value.doubly_robust()
    assert (value.interval().lower, value.interval().upper) == (0.0, 1.0)


def test_short_lists_end_for_both():
    x, _ = one_update((0.5, 0.5), Impression(("a",), propensities=(1.0,)).clicked(["a"]), ["a"])
    # Nothing stands second, so nothing is gained there.
    assert x.tolist() == [0.5, 0.5]


@pytest.mark.slow
def test_estimates_and_interval_on_a_long_log(tmp_path):
    policy, value, who = PlackettLuce(k=3, seed=4), OffPolicyValue((0.6, 0.4)), user("navigational", seed=5)
    target, logs = [1, 3, 4, 0, 2], []
    for t in range(4000):
        shown = policy.show(LOGITS, t, confidence=0.0)
        clicks = who.clicks(shown, GRADES, t)
        logs.append((shown, clicks))
        value.update(clicks, target)
    live = np.mean([np.dot((0.6, 0.4), who.clicks(Impression((1, 3, 4)), GRADES, 10_000 + t).gains[:2]) for t in range(4000)])
    low, high, mean, n, _ = value.interval()
    assert n == 4000
    assert low <= live <= high
    assert high - low < 0.4
    assert value.snips() == pytest.approx(live, abs=0.1)
    assert value.doubly_robust() == pytest.approx(live, abs=0.12)
    # Slowly, from the definitions.
    sums = np.zeros((2, 2))
    X = []
    for shown, clicks in logs:
        W, weights = 1.0, []
        for p in range(2):
            chance = shown.chances[p]
            W = W / chance if shown.order[p] == target[p] else 0.0
            weights.append(W)
        sums += [weights, np.multiply(weights, clicks.gains[:2])]
        X.append(np.dot((0.6, 0.4), np.multiply(weights, clicks.gains[:2])))
    assert value.snips() == pytest.approx(np.dot((0.6, 0.4), sums[1] / sums[0]), rel=1e-12)
    assert mean == pytest.approx(np.mean(X), rel=1e-12)
    save(value, tmp_path / "value.npz")
    assert load(tmp_path / "value.npz").interval() == value.interval()


def test_positions_without_weight_need_no_ranking_in_common():
    policy, value, first = PlackettLuce(k=2, seed=1), OffPolicyValue((1.0, 0.0)), OffPolicyValue()
    for t in range(400):
        clicks = policy.show({"a": 0.0, "b": 0.0, "c": 0.0}, t, confidence=0.0).clicked([])
        for each in (value, first):
            each.update(clicks, ["b", "another"])
    with np.errstate(all="raise"):
        assert value.snips() == first.snips() == 0.0


def test_a_value_of_the_first_position_from_placements():
    policy, value, known = PlackettLuce(k=2, seed=1), OffPolicyValue(), OffPolicyValue()
    for t in range(400):
        shown = policy.show({"a": 0.0, "b": 0.0, "c": 0.0}, t, confidence=0.0)
        placed = Impression(shown.order, placements=(1 / 3, 1 / 3))
        for each, impression in ((known, shown), (value, placed)):
            each.update(impression.clicked([d for d in shown.order if d == "b"]), ["b", "a", "c"])
    assert value.interval() == pytest.approx(known.interval())
    assert value.snips() == pytest.approx(known.snips())


OPEN_BANDIT = json.loads((Path(__file__).parents[1] / "reference" / "open_bandit.json").read_text())


@pytest.mark.parametrize("expected", OPEN_BANDIT["values"], ids=lambda values: f"{len(values['weights'])} places")
def test_values_equal_the_open_bandit_pipeline(expected):
    # Made by tests/reference/open_bandit.py: IPS, SNIPS and doubly robust for users who read downwards.
    value = OffPolicyValue(expected["weights"])
    for each in OPEN_BANDIT["log"]:
        shown = Impression(each["shown"], propensities=each["chances"])
        value.update(Clicks(shown, each["clicks"]), each["ranking"], each["expected"])
    assert value.interval().mean == pytest.approx(expected["ips"], rel=1e-14)
    assert value.snips() == pytest.approx(expected["snips"], rel=1e-14)
    assert value.doubly_robust() == pytest.approx(expected["doubly_robust"], rel=1e-14)


@pytest.mark.parametrize(
    ("shown", "clicked", "message"),
    [
        (Impression(("a", "b")), ["a"], "neither logits nor propensities"),
        (Impression(("a", "b"), placements=(0.5, 0.5)), ["a"], "has placements, .* the first position alone"),
        (Impression(("a",), propensities=(0.5,)), ["a"], "shows 1 documents, but there are weights for 2"),
        (Impression(("a", "b"), propensities=(0.5, 0.5)), {"a": 2.0}, "2.0 is above 1"),
    ],
)
def test_what_no_value_follows_from(shown, clicked, message):
    value = OffPolicyValue((0.5, 0.5))
    with pytest.raises(ValueError, match=message):
        value.update(shown.clicked(clicked), ["a", "b"])
    assert value.n == 0


@pytest.mark.parametrize("weights", [(), (0.5,), (1.5, -0.5), ((1.0,),)])
def test_weights_add_up_to_one(weights):
    with pytest.raises((TypeError, ValueError), match="weights is"):
        OffPolicyValue(weights)


def difference_of(clicks, a, b, k=3):
    comparison = SwapComparison(k)
    comparison.update(clicks, a, b)
    return comparison.get()


def test_weights_in_a_list_that_changes_later_stay_as_they_were():
    weights = [0.5, 0.5]
    value, same = OffPolicyValue(weights), OffPolicyValue((0.5, 0.5))
    weights[:] = [1.0, 0.0]
    for each in (value, same):
        each.update(Impression(("a", "b"), propensities=(0.5, 1.0)).clicked(["b"]), ["a", "b"])
    assert value.interval() == same.interval()


@pytest.mark.parametrize("attraction", [(0.5, 0.5, 0.5), (0.05, 0.5, 0.95)])
def test_swaps_prefer_nobody_without_a_preference(attraction):
    a, b, k = (0, 1, 2, 3, 4), (1, 3, 4, 0, 2), 3
    mean = 0.0
    for order, p_order in reference.rankings(LOGITS, k):
        shown = Impression(order, logits=[LOGITS[i] for i in order], rest=reference.rest_of(order, LOGITS))
        click = [attraction[GRADES[i]] / (p + 1) for p, i in enumerate(order)]
        for gains, p_gains in reference.independent_patterns(click):
            clicks = shown.clicked({i: gain for i, gain in zip(order, gains, strict=True) if gain})
            # From the definition, with probabilities of whole rankings.
            slow = sum(
                reference.swap_probability(order, p, q, LOGITS) * (gains[p] - gains[q])
                * ((b.index(order[p]) < b.index(order[q])) - (a.index(order[p]) < a.index(order[q])))
                for p, q in itertools.combinations(range(k), 2)
            )  # fmt: skip
            assert difference_of(clicks, a, b) == pytest.approx(slow, abs=1e-12)
            mean += p_order * p_gains * slow
    assert (abs(mean) < 1e-12) == (attraction[0] == attraction[2])
    assert mean > -1e-12


@pytest.mark.first(1)
@pytest.mark.parametrize("policy", [PlackettLuce(k=4, seed=1), FairPairs(k=4, seed=1)])
def test_the_better_ranker_is_found_from_a_log(policy, tmp_path):
    comparison, who = SwapComparison(4), user("trust", seed=3)
    for t in range(4000):
        shown = policy.show([0.0] * 5, t, confidence=0.0)
        comparison.update(who.clicks(shown, GRADES, t), [0, 2, 3, 4, 1], [1, 3, 4, 0, 2])
    assert comparison.interval().lower > 0.5
    assert comparison.get() > 0.0
    save(comparison, tmp_path / "swaps.npz")
    assert load(tmp_path / "swaps.npz").interval() == comparison.interval()
    assert LossInterval(declared_state(comparison).sums).n == comparison.n == 4000


@pytest.mark.parametrize(
    ("shown", "clicked", "message"),
    [
        (Impression((0, 1)), [0], "no logits"),
        (Impression((0, 1, 2, 3), logits=(0.0,) * 4), [0], "4 documents were shown"),
        (Impression((0, 9), logits=(0.0,) * 2), [0], "document 9 was shown"),
        (Impression((0, 1), logits=(0.0,) * 2), {0: 3.0}, "gains up to 3"),
    ],
)
def test_what_cannot_be_compared(shown, clicked, message):
    with pytest.raises(ValueError, match=message):
        difference_of(shown.clicked(clicked), (0, 1, 2, 3), (1, 0, 2, 3))


def test_no_difference_between_equal_rankings():
    shown = PlackettLuce(k=3).show(LOGITS, 0)
    assert difference_of(shown.clicked(shown.order[:1]), (0, 1, 2, 3, 4), (0, 1, 2, 3, 4)) == 0.0
    assert SwapComparison().get() == 0.0
    assert math.isnan(OffPolicyValue().interval().mean)


def test_weights_that_cannot_be_right_give_no_interval():
    # Probabilities of three documents of a catalogue of 34, as published logs have them: weights of 34 where 3 are expected.
    rng, value = np.random.default_rng(0), OffPolicyValue()
    for _ in range(300):
        shown = Impression(tuple(rng.permutation(3).tolist()), propensities=(1 / 34,) * 3)
        value.update(shown.clicked([0] if rng.random() < 0.1 else []), [0, 1, 2])
    with pytest.raises(ValueError, match=r"importance weights average 9\.97 over 300 rankings.*candidates that were not shown"):
        value.interval()
