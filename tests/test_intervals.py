import decimal
import math
import pickle

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from benchmarks._bounds_intervals import intervals
from online_rank.intervals import LossInterval, PairedLosses, mean_interval
from online_rank.intervals.losses import add_losses, largest_deviation
from tests.reference import intervals as reference

LOSSES = st.lists(st.floats(0.0, 1.0), max_size=40)


def filled(losses):
    interval = LossInterval()
    for loss in losses:
        interval.update(loss)
    return interval


def test_sums_by_hand():
    # Guesses: 1/2, (1/2 + 1)/2, (1/2 + 1 + 0)/3.
    sums = filled([1.0, 0.0, 0.5]).sums
    assert sums.tolist() == pytest.approx([3.0, 1.5, 0.5**2 + 0.75**2 + 0.0**2])


@given(LOSSES)
def test_sums_equal_the_reference(losses):
    one, many, parts = filled(losses), LossInterval(), LossInterval()
    add_losses(many.sums, losses)
    add_losses(parts.sums, losses[: len(losses) // 2])
    add_losses(parts.sums, losses[len(losses) // 2 :])
    assert one.sums.tolist() == pytest.approx(list(reference.sums(losses)), abs=1e-12)
    assert one.sums.tobytes() == many.sums.tobytes() == parts.sums.tobytes()


@pytest.mark.parametrize("alpha", [1e-12, 0.01, 0.05, 0.5, 0.99])
@pytest.mark.parametrize("variation", [0.0, 1e-9, 0.3, 40.0, 1e4, 1e9])
def test_the_deviation_solves_its_equation(variation, alpha):
    r = largest_deviation(variation, alpha)
    # At most 1 / alpha just below it, at least just above: rounded up, and not by more than the bisection's tolerance.
    assert reference.log_mixture(r * (1 - 1e-9) - 1e-12, variation) <= -math.log(alpha) + 1e-9
    assert reference.log_mixture(r * (1 + 1e-9), variation) >= -math.log(alpha) - 1e-9
    assert reference.deviation(variation, alpha) == pytest.approx(r, rel=1e-8, abs=1e-9)


@given(st.floats(0.0, 1e6), st.floats(0.0, 1e6), st.floats(1e-9, 0.999), st.floats(1e-9, 0.999))
def test_the_deviation_grows_with_the_variation_and_the_confidence(v, more, alpha, other):
    assert largest_deviation(v, alpha) <= largest_deviation(v + more, alpha) * (1 + 1e-9)
    assert largest_deviation(v, max(alpha, other)) <= largest_deviation(v, min(alpha, other)) * (1 + 1e-9)


def test_one_sided_limits_are_sharper_and_everything_stays_between_0_and_1():
    interval = filled([0.2, 0.4] * 200)
    both = interval.interval(0.95)
    assert interval.mean == pytest.approx(0.3)
    assert both.lower < interval.lower_limit(0.95) < 0.3 < interval.upper_limit(0.95) < both.upper
    assert both.lower == interval.lower_limit(0.975)
    assert (both.n, both.level) == (400, 0.95)
    for losses in ([0.0] * 50, [1.0] * 50, [1.0], []):
        lower, upper, *_ = filled(losses).interval(0.999)
        assert 0.0 <= lower <= upper <= 1.0
    assert filled([]).interval()[:2] == (0.0, 1.0)
    assert math.isnan(filled([]).mean)


def test_bad_numbers():
    interval = LossInterval()
    for loss in (-0.1, 1.1, math.nan):
        with pytest.raises(ValueError, match="between 0 and 1"):
            interval.update(loss)
    assert interval.n == 0
    for level in (0.0, 1.0, math.nan):
        with pytest.raises(ValueError, match="level is"):
            interval.interval(level) if level == 1.0 else interval.upper_limit(level)
    with pytest.raises(ValueError, match="variation is"):
        largest_deviation(math.inf, 0.05)
    # The next update would divide by 0.
    for sums in ((-1.0, 0.0, 0.0), (1.0, math.nan, 0.0), (1.0, 0.5)):
        with pytest.raises(ValueError, match="sums is"):
            LossInterval(sums)
    assert pickle.loads(pickle.dumps(filled([0.5]))).interval() == filled([0.5]).interval()


def miscoverage(setting, runs=400, rounds=400, alpha=0.2):
    """Part of the runs in which the interval misses at any time the running mean of the conditional means."""
    rng = np.random.default_rng(len(setting))
    means, losses = reference.adaptive_losses(rng, setting, runs, rounds)
    n = np.arange(1, rounds + 1)
    guesses = (0.5 + np.cumsum(losses, axis=1) - losses) / n
    variation = np.cumsum((losses - guesses) ** 2, axis=1)
    deviations = np.abs(np.cumsum(means - losses, axis=1))
    # r(alpha / 2, v) is found once on a grid: to the left of v it is no larger than at v.
    grid = np.linspace(0.0, float(variation.max()), 300)
    limits = np.array([largest_deviation(float(v), alpha / 2.0) for v in grid])
    allowed = limits[np.searchsorted(grid, variation, side="right") - 1]
    return float(np.mean((deviations > allowed).any(axis=1)))


@pytest.mark.parametrize("setting", reference.ADAPTIVE)
def test_coverage_on_adaptive_streams(setting):
    # 0.2, and three standard errors of 400 runs.
    assert miscoverage(setting) <= 0.2 + 3 * math.sqrt(0.2 * 0.8 / 400)


largest_deviation_of = largest_deviation


def test_a_deviation_that_is_too_small_is_caught(monkeypatch):
    monkeypatch.setitem(globals(), "largest_deviation", lambda v, alpha: 0.25 * largest_deviation_of(v, alpha))
    assert max(map(miscoverage, reference.ADAPTIVE)) > 0.5


def exact_deviation(variation, alpha):
    """r(alpha, v) of the theorem by bisection with 50 digits."""
    scales = [decimal.Decimal(0.9 * 0.5**k) for k in range(10)]
    psi = [-(1 - scale).ln() - scale for scale in scales]
    total = sum(1 / decimal.Decimal(k + 1) for k in range(10))
    log_pi = [-decimal.Decimal(k + 1).ln() - total.ln() for k in range(10)]
    target, v = -decimal.Decimal(alpha).ln(), decimal.Decimal(variation)
    low, high = decimal.Decimal(0), min((p * v + target - w) / s for s, p, w in zip(scales, psi, log_pi, strict=True))
    for _ in range(150):
        middle = (low + high) / 2
        mixture = sum((w + s * middle - p * v).exp() for s, p, w in zip(scales, psi, log_pi, strict=True))
        low, high = (middle, high) if mixture.ln() < target else (low, middle)
    return high


@pytest.mark.first(7)
@pytest.mark.parametrize("alpha", [0.5, 0.05, 1e-6])
@pytest.mark.parametrize("variation", [0.0, 1e-9, 0.3, 100.0, 1e6, 1e9])
def test_deviations_are_rounded_up(variation, alpha):
    """At v = 1e6 the value was too small by 1e-12 of it."""
    with decimal.localcontext() as context:
        context.prec = 50
        exact = exact_deviation(variation, alpha)
        error = (decimal.Decimal(largest_deviation(variation, alpha)) - exact) / exact
    assert 0 <= error < 1e-12


def test_paired_intervals_equal_intervals_of_half_differences():
    rng = np.random.default_rng(0)
    paired, halves = PairedLosses(["a", "b", "c"]), LossInterval()
    for _ in range(400):
        hard = rng.random() * 0.5
        losses = {"a": hard, "b": hard + 0.3 * rng.random(), "c": hard + 0.1 * (rng.random() < 0.5)}
        paired.update(losses)
        halves.update((1.0 + losses["b"] - losses["a"]) / 2.0)
    interval = halves.interval(0.9)
    difference = paired.difference("a", "b", 0.9)
    assert difference.lower == pytest.approx(2.0 * interval.lower - 1.0)
    assert difference.upper == pytest.approx(2.0 * interval.upper - 1.0)
    assert difference.mean == pytest.approx(2.0 * interval.mean - 1.0)
    turned = paired.difference("b", "a", 0.9)
    assert (turned.lower, turned.upper, turned.mean) == pytest.approx((-difference.upper, -difference.lower, -difference.mean))
    # Of three models all six statements hold at once, each at a sixth of alpha.
    said = {(statement.better, statement.worse): statement.by for statement in paired.better(0.95)}
    assert ("a", "b") in said
    assert ("b", "a") not in said
    radius = 2.0 * largest_deviation(float(halves.sums[2]), 0.05 / 6.0) / 400
    assert said["a", "b"] == pytest.approx(2.0 * halves.mean - 1.0 - radius)
    # Two single intervals at alpha / 2 each are wider.
    assert difference.upper - difference.lower < 0.3
    twin = PairedLosses(paired.names, sums=paired.sums)
    assert twin.difference("c", "b") == paired.difference("c", "b")


def test_what_pairs_refuse():
    with pytest.raises(ValueError, match="at least two names"):
        PairedLosses(["a", "a"])
    for sums in (np.zeros((3, 3)), [[-1.0, 0.0, 0.0]]):
        with pytest.raises(ValueError, match="sums is"):
            PairedLosses(["a", "b"], sums=sums)
    paired = PairedLosses(["a", "b"])
    assert paired.difference("a", "b")[:2] == (-1.0, 1.0)
    assert paired.better() == []
    with pytest.raises(ValueError, match=r"losses\['b'\] is 2.0"):
        paired.update({"a": 0.0, "b": 2.0})
    with pytest.raises(KeyError):
        paired.update({"a": 0.0})
    with pytest.raises(ValueError, match="compared with itself"):
        paired.difference("a", "a")
    assert paired.n == 0


@pytest.mark.parametrize("n", [1, 7, 60])
@pytest.mark.parametrize("alpha", [0.01, 0.05, 0.5])
def test_limits_of_one_mean_are_where_the_wealth_of_a_bet_is_1_over_alpha(n, alpha):
    x = np.random.default_rng(n).beta(0.5, 1.0, n)
    found = mean_interval(x, level=1.0 - alpha)

    def wealth(values, m):
        shares, weights = [0.99 * 0.5**k for k in range(12)], [1 / (k + 1) for k in range(12)]
        products = [math.prod(1 + share * (value / m - 1) for value in values.tolist()) for share in shares]
        return sum(w * product for w, product in zip(weights, products, strict=True)) / sum(weights)

    assert 0.0 <= found.lower < found.mean < found.upper <= 1.0
    for limit, values in ((found.lower, x), (1.0 - found.upper, 1.0 - x)):
        assert wealth(values, limit) == pytest.approx(2.0 / alpha, rel=1e-6)


def test_intervals_of_one_mean_at_the_ends_of_their_range():
    assert mean_interval([])[:2] == (0.0, 1.0)
    assert mean_interval([], differences=True)[:2] == (-1.0, 1.0)
    zeros, ones = mean_interval(np.zeros(500)), mean_interval(np.ones(500))
    assert zeros.lower == 0.0 < zeros.upper < 0.02
    assert (ones.lower, ones.upper) == pytest.approx((1.0 - zeros.upper, 1.0))
    halves = mean_interval(np.full(50, 0.5))
    differences = mean_interval(np.zeros(50), differences=True)
    assert (differences.lower, differences.upper) == pytest.approx((2 * halves.lower - 1, 2 * halves.upper - 1))
    assert str(differences).startswith("+0.0000, 95 % interval -")
    for bad in ([1.5], [-0.1], [math.nan], [[0.5]]):
        with pytest.raises(ValueError, match="values must be a vector of numbers from 0 to 1"):
            mean_interval(bad)
    with pytest.raises(ValueError, match="level is 1"):
        mean_interval([0.5], level=1.0)


@pytest.mark.slow
def test_no_interval_misses_at_any_time_more_often_than_it_says():
    for line in [line for line in intervals(60, 120).splitlines() if line.startswith("|")][2:]:
        cells = [cell.strip() for cell in line.split("|")[2:-1]]
        assert float(cells[0].split()[0]) <= 5.0, line
        if "%" in cells[1]:
            assert float(cells[1].split()[0]) <= 7.0, line  # of 60 runs
            running, one = map(float, cells[2].split(" / "))
            assert one < running
