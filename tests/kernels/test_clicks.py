"""Kernels of clicks against sums over all rankings and all click patterns."""

import itertools
import math

import numpy as np
import pytest

from online_rank._kernels import clicks
from online_rank._kernels.codes import ALL_PAIRS, PLACKETT_LUCE
from tests.kernels.calling import Module
from tests.reference import clicks as reference

kernels = Module(clicks)

LOGITS = {
    "spread": (0.3, -1.2, 2.0, 0.0, 0.9, -0.4),
    "tied": (0.5,) * 6,
    "far apart": (30.0, 0.0, -30.0, 15.0, -15.0, 1.0),
    "large": (700.0, 699.0, 701.5, 698.0, 700.5, 697.0),
}


def exponentials(order, logits):
    e = np.empty(len(order))
    rest = reference.rest_of(order, np.array(logits) - max(logits))
    unshown = kernels.exponentials(np.array([logits[i] for i in order]) - max(logits), -np.inf if rest is None else rest, e)
    return e, unshown


def drawn(kind, gains, logits, rest, n_shown=None):
    """Documents drawn; the first `n_shown` were shown, by default all."""
    n = len(gains)
    shown = n if n_shown is None else n_shown
    places, no_chances = np.arange(n), np.empty(0)
    return clicks.Drawn(kind, shown, places, np.array(gains, float), places, np.array(logits, float), float(rest), no_chances)


@pytest.mark.first(3)
@pytest.mark.parametrize("logits", LOGITS.values(), ids=LOGITS)
@pytest.mark.parametrize(("m", "k"), [(2, 2), (5, 5), (6, 3), (6, 6)])
def test_rho_of_every_pair_of_every_ranking(logits, m, k):
    logits = np.array(logits[:m])
    for order in itertools.permutations(range(m), k):
        e, unshown = exponentials(order, logits)
        for a, b in itertools.combinations(range(k), 2):
            rho = kernels.swap_weight(e, unshown, e[b + 1 :].sum(), a, b)
            assert rho == pytest.approx(reference.swap_probability(order, a, b, logits - logits.max()), abs=1e-12)


def test_rho_when_no_number_can_hold_the_ratio():
    e = np.array([1.0, 1e-261])
    assert kernels.swap_weight(e, 0.0, 0.0, 0, 1) == pytest.approx(1e-261, rel=1e-12)
    e = np.array([1e-261, 1e-261, 1e-261, 1.0])
    assert kernels.swap_weight(e, 0.0, 0.0, 0, 3) == 1.0
    assert 0.0 <= kernels.swap_weight(e[::-1].copy(), 0.0, 0.0, 0, 3) < 1e-200


def test_rho_by_hand():
    # e = (1, 2), 1 not shown: P(a, b) = 1/4 * 2/3 = 1/6, P(b, a) = 2/4 * 1/2 = 1/4; rho = (1/4) / (1/4 + 1/6).
    assert kernels.swap_weight(np.array([1.0, 2.0]), 1.0, 0.0, 0, 1) == pytest.approx(0.25 / (0.25 + 1 / 6), abs=1e-15)


def test_considered_is_up_to_one_after_the_last_click():
    for gains, n in (
        ([0, 0, 0, 0], 0),
        ([1, 0, 0, 0], 2),
        ([0, 0, 1, 0], 4),
        ([0, 0, 0, 1], 4),
        ([0.2, 0, 0.1, 0, 0], 4),
        ([], 0),
    ):
        assert kernels.considered(np.array(gains, float)) == n


@pytest.mark.first(1)
@pytest.mark.parametrize(("m", "k"), [(4, 4), (5, 3)])
@pytest.mark.parametrize("name", ["spread", "tied"])
def test_credit_of_every_click_pattern_of_every_ranking(name, m, k):
    logits = np.array(LOGITS[name][:m])
    scores = np.array([0.1, -0.7, 0.0, 1.9, 0.1, 0.4])[:m]
    engagement = (0.0, 0.3, 1.0)
    for order, _ in reference.rankings(logits, k):
        rest = reference.rest_of(order, logits)
        for gains in itertools.product(engagement, repeat=k):
            credit, e = np.empty(k), np.empty(k)
            ranking = drawn(PLACKETT_LUCE, gains, logits[list(order)], -np.inf if rest is None else rest)
            total, wrong, _ = kernels.swap_credit(ranking, scores[list(order)], np.nan, e, credit)
            expected = np.zeros(m)
            for (i, j), push in reference.pushes(
                order, gains, scores, lambda a, b, order=order: reference.swap_probability(order, a, b, logits)
            ).items():
                expected[i] += push
                expected[j] -= push
            assert credit == pytest.approx(expected[list(order)], abs=1e-12)
            weights = reference.pushes(
                order, gains, np.zeros(m), lambda a, b, order=order: reference.swap_probability(order, a, b, logits)
            )
            assert total == pytest.approx(math.fsum(4 * push for push in weights.values()), abs=1e-12)
            assert wrong == pytest.approx(
                math.fsum(4 * w for (i, j), w in weights.items() if scores[i] <= scores[j]), abs=1e-12
            )

            _, _, within = kernels.swap_credit(ranking, scores[list(order)], 0.5, e, credit)
            near = {pair: 4 * w for pair, w in weights.items() if scores[pair[0]] - scores[pair[1]] <= 0.5}
            assert within == pytest.approx(math.fsum(near.values()), abs=1e-12)
            for position, i in enumerate(order):
                moved = math.fsum(w if pair[0] == i else -w for pair, w in near.items() if i in pair)
                assert credit[position] == pytest.approx(moved, abs=1e-12)


USERS = {
    "cascade": lambda grades: reference.patterns([(0.1, 0.5, 0.9)[g] for g in grades], [(0.2, 0.5, 0.9)[g] for g in grades]),
    "reads all": lambda grades: reference.patterns([(0.4, 0.7, 0.9)[g] for g in grades], [0.0] * len(grades)),
    "position": lambda grades: reference.independent_patterns([(0.1, 0.5, 0.9)[g] / (p + 1) for p, g in enumerate(grades)]),
    "trust": lambda grades: reference.independent_patterns(
        [(g / 2 * 0.9 + (1 - g / 2) * 0.65 / (p + 1)) / (p + 1) ** 2 for p, g in enumerate(grades)]
    ),
}


@pytest.mark.parametrize("user", USERS.values(), ids=USERS)
@pytest.mark.parametrize(("m", "k"), [(5, 4), (4, 4), (6, 3)])
def test_equal_documents_are_not_pushed_apart_and_better_ones_rise(user, m, k):
    grades = (0, 2, 0, 1, 1, 0)[:m]
    logits, scores = LOGITS["spread"][:m], (0.4, -0.2, 1.3, 0.0, 0.8, -1.0)[:m]
    net = {pair: [] for pair in itertools.combinations(range(m), 2)}
    total = 0.0
    for order, p_order in reference.rankings(logits, k):
        weights = {(a, b): reference.swap_probability(order, a, b, logits) for a, b in itertools.combinations(range(k), 2)}
        for gains, p_gains in user([grades[i] for i in order]):
            total += p_order * p_gains
            for (i, j), push in reference.pushes(order, gains, scores, lambda a, b, weights=weights: weights[a, b]).items():
                net[min(i, j), max(i, j)].append(p_order * p_gains * (push if i < j else -push))
    assert total == pytest.approx(1.0, abs=1e-12)
    for (i, j), pushed in net.items():
        if grades[i] == grades[j]:
            assert math.fsum(pushed) == pytest.approx(0.0, abs=1e-12)
        else:
            assert math.fsum(pushed) * (grades[i] - grades[j]) > 1e-6


def credit_of(gains, order, n_shown, logits, scores, baseline, kind=PLACKETT_LUCE, rest=None):
    """Credit by position, the sums, and what is added to the baseline."""
    n = len(order)
    e, credit, met = np.empty(n), np.empty(n), np.zeros((2, kernels.PLACES, kernels.PLACES))
    drawn_rest = reference.rest_of(order, logits) if rest is None else rest
    ranking = drawn(kind, gains, [logits[i] for i in order], -np.inf if drawn_rest is None else drawn_rest, n_shown)
    sums = kernels.baseline_credit(ranking, np.array([scores[i] for i in order]), baseline, e, credit, met)
    return credit, sums, met


def some_baseline(seed=0):
    rng = np.random.default_rng(seed)
    return np.stack([rng.uniform(0, 9, (kernels.PLACES,) * 2), rng.normal(size=(kernels.PLACES,) * 2)])


@pytest.mark.first(1)
@pytest.mark.parametrize("name", ["spread", "tied"])
@pytest.mark.parametrize(("k", "n_shown"), [(4, 4), (3, 3), (3, 2), (4, 1)])
def test_credit_less_the_baseline_of_every_click_pattern(name, k, n_shown):
    logits, scores = LOGITS[name][:5], (0.1, -0.7, 0.0, 1.9, 0.1)
    baseline = some_baseline()
    for order, _ in itertools.islice(reference.rankings(logits, k), 0, None, 7):
        for gains in itertools.product((0.0, 0.3, 1.0), repeat=n_shown):
            given = (*gains, *(0.0,) * (k - n_shown))
            credit, (total, wrong, learns), met = credit_of(given, order, n_shown, logits, scores, baseline)

            def weight(a, b, order=order):
                return reference.swap_probability(order, a, b, logits)

            def beta(a, b):
                b = min(b, n_shown)
                return baseline[1, a, b] / (baseline[0, a, b] + 5.0)

            shown = [scores[i] for i in order]
            moved = reference.surplus_pushes(given, n_shown, shown, weight, beta)
            if not any(gains):
                moved = {(a, b): push for (a, b), push in moved.items() if b >= n_shown}
            expected = np.zeros(k)
            for (a, b), push in moved.items():
                expected[a] += push
                expected[b] -= push
            assert credit == pytest.approx(expected, abs=1e-12)
            assert learns == (len(moved) > 0)
            weights = {(a, b): weight(a, b) * abs(given[a] - given[b]) for a, b in moved}
            assert total == pytest.approx(math.fsum(weights.values()), abs=1e-12)
            lead = {(a, b): (shown[a] - shown[b]) * (given[a] - given[b]) for a, b in moved}
            assert wrong == pytest.approx(math.fsum(w for pair, w in weights.items() if lead[pair] <= 0.0), abs=1e-12)
            assert met[0].sum() == pytest.approx(math.fsum(weight(a, b) for a, b in moved), abs=1e-12)
            differences = math.fsum(weight(a, b) * (given[a] - given[b]) for a, b in moved)
            assert met[1].sum() == pytest.approx(differences, abs=1e-12)


@pytest.mark.first(4)
@pytest.mark.parametrize("user", USERS.values(), ids=USERS)
@pytest.mark.parametrize(("k", "n_shown"), [(4, 4), (3, 3), (4, 2), (3, 1)])
def test_no_net_push_between_documents_that_attract_alike(user, k, n_shown):
    # Every ranking of the law, every answer of the users, any baseline.
    m, grades = 5, (0, 2, 0, 1, 1)
    logits, scores, baseline = LOGITS["spread"][:m], (0.4, -0.2, 1.3, 0.0, 0.8), some_baseline(1)
    net, total = np.zeros((m, m)), 0.0
    for order, p_order in reference.rankings(logits, k):
        for gains, p_gains in user([grades[i] for i in order[:n_shown]]):
            total += p_order * p_gains
            clicked = any(gains)
            for a, b in itertools.combinations(range(k), 2):
                if a < n_shown and (clicked or b >= n_shown):
                    pair = (*gains, *(0.0,) * (k - n_shown))
                    beta = baseline[1, a, min(b, n_shown)] / (baseline[0, a, min(b, n_shown)] + 5.0)
                    rho = reference.swap_probability(order, a, b, logits)
                    lead = scores[order[a]] - scores[order[b]]
                    push = rho * (pair[a] - pair[b] - beta) / (2 + 2 * math.cosh(lead))
                    net[order[a], order[b]] += p_order * p_gains * push
                    net[order[b], order[a]] -= p_order * p_gains * push
    assert total == pytest.approx(1.0, abs=1e-12)
    for i, j in itertools.combinations(range(m), 2):
        if grades[i] == grades[j]:
            assert net[i, j] == pytest.approx(0.0, abs=1e-12)
        else:
            assert net[i, j] * (grades[i] - grades[j]) > 1e-6
    # The kernel adds up the same pushes.
    credits = np.zeros(m)
    for order, p_order in reference.rankings(logits, k):
        for gains, p_gains in user([grades[i] for i in order[:n_shown]]):
            credit, _, _ = credit_of((*gains, *(0.0,) * (k - n_shown)), order, n_shown, logits, scores, baseline)
            credits[list(order)] += p_order * p_gains * credit
    assert credits == pytest.approx(net.sum(axis=1), abs=1e-12)


def test_places_of_the_baseline():
    # The first 16 are alone; 16 to 31 share one, 32 to 63 the next; all from 16 * 2^7 on the last.
    assert [kernels.place_of(p) for p in (0, 15, 16, 31, 32, 63, 64, 2047, 2048, 10**6)] == [
        0,
        15,
        16,
        16,
        17,
        17,
        18,
        22,
        23,
        23,
    ]


def test_long_lists_cost_what_their_clicks_cost():
    # Beyond 50 documents only pairs of which one was clicked count: 50 * 49 / 2 pairs above, and the one click with all below.
    n, gains = 80, np.zeros(80)
    gains[3] = 1.0
    order = tuple(range(n))
    _, _, met = credit_of(gains, order, n, (0.0,) * n, (0.0,) * n, np.zeros((2, kernels.PLACES, kernels.PLACES)), rest=-np.inf)
    assert met[0].sum() == pytest.approx(0.5 * (50 * 49 / 2 + 30), abs=1e-12)


def test_without_rho_the_position_is_an_advantage():
    # Breaking the weight on purpose: the test above would see it.
    logits, grades = (2.0, 0.0, -2.0), (0, 0, 0)
    net = 0.0
    for order, p_order in reference.rankings(logits, 3):
        for gains, p_gains in USERS["position"]([grades[i] for i in order]):
            for (i, j), push in reference.pushes(order, gains, (0.0,) * 3, lambda a, b: 0.5).items():
                net += p_order * p_gains * push * ((i, j) == (0, 2)) - p_order * p_gains * push * ((i, j) == (2, 0))
    assert abs(net) > 1e-3


def test_neighbours_of_fair_pairs():
    gains, scores = np.array([1.0, 0.0, 0.0, 1.0]), np.array([0.0, 0.0, 2.0, 0.0])
    credit, e = np.empty(4), np.empty(4)
    total, wrong, _ = kernels.swap_credit(drawn(0, gains, np.zeros(4), -np.inf), scores, np.nan, e, credit)
    push = 0.5 * (1 / (1 + math.exp(-2.0))) * (1 - 1 / (1 + math.exp(-2.0)))
    assert (total, wrong) == (1.0, 1.0)
    assert credit == pytest.approx([0.5 * 0.25, -0.5 * 0.25, -push, push], abs=1e-15)
    total, _, _ = kernels.swap_credit(drawn(1, gains, np.zeros(4), -np.inf), scores, np.nan, e, credit)
    assert total == 0.0
    assert not credit.any()


def test_grades_are_pairs_of_equal_chances():
    credit, e = np.empty(3), np.empty(3)
    graded = drawn(ALL_PAIRS, [0.0, 2.0, 1.0], np.zeros(3), 0.0)
    total, wrong, _ = kernels.swap_credit(graded, np.zeros(3), np.nan, e, credit)
    assert total == wrong == 1.0
    # Pairs (1, 0), (2, 0), (1, 2) with weights 1, .5, .5 of 2, times s'(0) = 1/4.
    assert credit == pytest.approx(np.array([-1.5, 1.5, 0.0]) / 2 / 4, abs=1e-15)


@pytest.mark.parametrize("name", ["spread", "tied"])
@pytest.mark.parametrize("n", [3, 4, 5])
def test_harvested_wins_have_the_ratio_of_the_positions(name, n):
    m, k, grades = 5, 4, (0, 2, 0, 1, 1)
    logits, examined = np.array(LOGITS[name][:m]), (1.0, 0.6, 0.5, 0.1)
    wins = np.zeros((n, n))
    for order, p_order in reference.rankings(logits, k):
        click = [examined[p] * (0.1, 0.5, 0.9)[grades[i]] for p, i in enumerate(order)]
        for gains, p_gains in reference.independent_patterns(click):
            one = np.zeros((n, n))
            kernels.harvest(np.array(gains), logits[list(order)], reference.rest_of(order, logits), one)
            wins += p_order * p_gains * one
    for a, b in itertools.combinations(range(min(n, k)), 2):
        assert wins[b, a] / wins[a, b] == pytest.approx(examined[b] / examined[a], abs=1e-12)
    assert not wins.diagonal().any()
    assert not wins[k:].any()
    assert not wins[:, k:].any()


def test_logits_by_hand():
    scores = np.array([1.0, 3.0, 2.0, 2.0])
    logits = np.empty(4)
    assert kernels.mixed_logits(scores, 0.5, logits)
    deviation = math.sqrt((1.0 + 1.0 + 0.0 + 0.0) / 4)
    # The tied documents have the second and the third rank, in their order.
    expected = [8 * -1 / deviation - 4 * math.log(4), 8 * 1 / deviation, -4 * math.log(2), -4 * math.log(3)]
    assert logits == pytest.approx(0.5 * np.array(expected), abs=1e-12)


@pytest.mark.parametrize("scores", [[], [3.0], [2.0, 2.0, 2.0], [0.1] * 7])
def test_logits_of_ties_fall_with_their_order(scores):
    logits = np.full(len(scores), np.nan)
    assert kernels.mixed_logits(np.array(scores), 1.0, logits)
    assert logits == pytest.approx([-4.0 * math.log(rank) for rank in range(1, len(scores) + 1)], abs=1e-12)


@pytest.mark.parametrize("scale", [1e-150, 1.0, 1e150])
def test_logits_do_not_depend_on_the_scale_of_scores(scale):
    scores = np.random.default_rng(3).normal(size=9)
    expected, logits = np.empty(9), np.empty(9)
    kernels.mixed_logits(scores, 1.0, expected)
    assert kernels.mixed_logits(scores * scale, 1.0, logits)
    assert logits == pytest.approx(expected, rel=1e-9)


def test_logits_of_scores_without_a_deviation_are_refused():
    assert not kernels.mixed_logits(np.array([1e200, -1e200]), 1.0, np.empty(2))


def test_draw_takes_the_largest_and_sums_the_rest():
    logits, noise = np.array([0.0, 1.0, 2.0, 3.0]), np.array([5.0, 0.0, 0.0, 0.0])
    order, shown = np.empty(2, np.int64), np.empty(2)
    rest = kernels.draw(logits, noise, 2, order, shown)
    assert (order.tolist(), shown.tolist()) == ([0, 3], [0.0, 3.0])
    assert rest == pytest.approx(math.log(math.exp(1.0) + math.exp(2.0)), abs=1e-12)
    assert kernels.draw(logits, noise, 4, np.empty(4, np.int64), np.empty(4)) == -np.inf


def test_confidence_by_hand():
    # theta^2 / G = 9 and 1; the coordinate without gradients does not count: e = 5 - 1, e / (e + 2).
    assert kernels.evidence(np.array([3.0, -1.0, 0.0]), np.array([1.0, 1.0, 0.0])) == (9.0 + 1.0, 2.0)
    assert kernels.confidence(10.0, 2.0) == pytest.approx(4 / 6, abs=1e-15)
    assert kernels.confidence(0.25, 1.0) == 0.0
    assert kernels.confidence(*kernels.evidence(np.zeros(3), np.zeros(3))) == 0.0
    assert kernels.confidence(*kernels.evidence(np.empty(0), np.empty(0))) == 0.0
    # The square of 1e300 is infinite, and infinity / infinity would be no confidence at all.
    assert kernels.confidence(*kernels.evidence(np.array([1e300]), np.array([1.0]))) == 1.0
