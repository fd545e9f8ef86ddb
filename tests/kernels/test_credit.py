"""The two ways to spread credit over violators agree with each other and with the equation."""

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from online_rank._kernels import credit as kernels
from online_rank._kernels.credit import Violation
from online_rank._kernels.workspace import PREFERRED, SHARES
from tests.kernels.calling import Module, graded, workspace

credit = Module(kernels)


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
    query = graded(rng.integers(0, 5, m))
    level = query.level
    t = rng.integers(-4, 5, m) / 2.0 if ties else rng.normal(size=m)
    v = rng.random(m) * (rng.random(m) < 0.8)
    work, violation = workspace(m), Violation(t, offset, strict)
    n = credit.list_preferred(level, v, False, work.integers[PREFERRED])
    preferred = work.integers[PREFERRED, :n]
    assert preferred.tolist() == [i for i in range(m) if level[i] > 0 and v[i] > 0.0]

    expected, shares = np.zeros(m), np.zeros(m)
    for i in preferred:
        reaching = t > t[i] - offset if strict else t >= t[i] - offset
        outscoring = np.flatnonzero((level < level[i]) & reaching)
        if len(outscoring):
            shares[i] = v[i] / len(outscoring)
            expected[i] += v[i]
            expected[outscoring] -= shares[i]

    few, share = np.zeros(m), work.reals[SHARES, :m]
    mass = credit.spread_over_few(level, v, violation, preferred, share, few)
    np.testing.assert_allclose(few, expected, rtol=1e-12, atol=1e-12)
    np.testing.assert_allclose(share, shares, rtol=1e-12)
    assert mass == pytest.approx(v[shares > 0].sum(), rel=1e-12)

    many = np.zeros(m)
    credit.sort_violators(query, violation, preferred, work)
    assert credit.spread_credit(query, v, preferred, work, many) == pytest.approx(mass)
    np.testing.assert_allclose(many, expected, rtol=1e-12, atol=1e-12)
    np.testing.assert_allclose(share, shares, rtol=1e-12)


def test_a_strict_violation_is_one_float_beyond():
    # t_j > 1 - 0.25: 0.75 does not violate, the next float does.
    assert credit.least_violating(1.0, 0.25, True) == np.nextafter(0.75, 1.0)
    assert credit.least_violating(1.0, 0.25, False) == 0.75


def test_a_tie_violates_where_rounding_absorbs_the_margin():
    assert credit.least_violating(1e17, 1.0, True) == 1e17
    assert credit.least_violating(1.0, 0.0, True) == np.nextafter(1.0, 2.0)
