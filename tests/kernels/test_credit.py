"""The two ways to spread credit over violators agree with each other and with the equation."""

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from online_rank._kernels import credit


@given(
    seed=st.integers(0, 10**6),
    m=st.integers(2, 200),
    offset=st.sampled_from([0.0, 0.7]),
    strict=st.booleans(),
    ties=st.booleans(),
)
@settings(deadline=None, max_examples=60)
def test_spread_over_few_and_over_many_are_the_equation(seed, m, offset, strict, ties):
    rng = np.random.default_rng(seed)
    grade, level = np.unique(rng.integers(0, 5, m), return_inverse=True)
    t = rng.integers(-4, 5, m) / 2.0 if ties else rng.normal(size=m)
    v = rng.random(m) * (rng.random(m) < 0.8)
    head, integers, reals = np.empty(m, np.int64), np.empty((5, m + 1), np.int64), np.empty((4, m + 1))
    n = credit.list_head(level, v, False, head)
    assert head[:n].tolist() == [i for i in range(m) if level[i] > 0 and v[i] > 0.0]

    expected, shares = np.zeros(m), np.zeros(m)
    for i in head[:n]:
        reaching = t > t[i] - offset if strict else t >= t[i] - offset
        outscoring = np.flatnonzero((level < level[i]) & reaching)
        if len(outscoring):
            shares[i] = v[i] / len(outscoring)
            expected[i] += v[i]
            expected[outscoring] -= shares[i]

    few, share = np.zeros(m), np.empty(m)
    mass = credit.spread_over_few(t, level, v, offset, strict, head[:n], share, few)
    np.testing.assert_allclose(few, expected, rtol=1e-12, atol=1e-12)
    np.testing.assert_allclose(share, shares, rtol=1e-12)
    assert mass == pytest.approx(v[shares > 0].sum(), rel=1e-12)

    many, (spare, place, start, listed, _) = np.zeros(m), integers
    credit.line_up(t, level, len(grade), offset, strict, head[:n], reals[0], spare, reals[1], place, start, listed)
    assert credit.spread_credit(level, len(grade), v, head[:n], start, listed, reals[2], share, many) == pytest.approx(mass)
    np.testing.assert_allclose(many, expected, rtol=1e-12, atol=1e-12)
    np.testing.assert_allclose(share, shares, rtol=1e-12)


def test_a_strict_violation_is_one_float_beyond():
    # t_j > 1 - 0.25: 0.75 does not violate, the next float does.
    assert credit.least_violating(1.0, 0.25, True) == np.nextafter(0.75, 1.0)
    assert credit.least_violating(1.0, 0.25, False) == 0.75
