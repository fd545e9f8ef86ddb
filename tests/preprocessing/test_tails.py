import numpy as np

from online_rank.preprocessing import heavy_tails


def test_which_features_have_heavy_tails():
    rng = np.random.default_rng(0)
    normal, exponential, lognormal = rng.normal(size=5000), rng.exponential(size=5000), np.exp(2.0 * rng.normal(size=5000))
    # Small numbers are left alone: log(1 + x) would not change them.
    X = np.column_stack([50.0 * normal, 50.0 * exponential, lognormal, 1e-4 * lognormal, np.ones(5000)])
    assert heavy_tails(X).tolist() == [False, False, True, False, False]


def test_zeros_are_not_counted_and_few_values_not_judged():
    lengths = np.exp(2.0 * np.random.default_rng(1).normal(size=5000))
    mostly_zero = np.where(np.arange(5000) % 10, 0.0, lengths)
    few = np.where(np.arange(5000) < 49, lengths * 10.0 ** (np.arange(5000) % 5), 0.0)
    assert heavy_tails(np.column_stack([mostly_zero, few, np.zeros(5000)])).tolist() == [True, False, False]
    assert heavy_tails(np.empty((0, 2))).tolist() == [False, False]
