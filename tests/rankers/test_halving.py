"""Powers of one half without the C library."""

import math
from decimal import Decimal, localcontext

import pytest
from hypothesis import given
from hypothesis import strategies as st

from online_rank.base.halving import halved


@given(st.floats(0.0, 300.0))
def test_powers_are_right_to_two_units_in_the_last_place(times):
    with localcontext() as context:
        context.prec = 40
        exact = Decimal(2) ** -Decimal(times)
        assert abs(Decimal(halved(times)) - exact) <= 2 * Decimal(math.ulp(float(exact)))


@pytest.mark.parametrize(("times", "digits"), [(1.0 / 3.0, "0x1.965fea53d6e3dp-1"), (0.1, "0x1.ddb680117ab12p-1")])
def test_bits(times, digits):
    assert halved(times).hex() == digits
