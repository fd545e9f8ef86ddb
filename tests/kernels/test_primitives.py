"""What LLVM makes of the primitives is, to the last bit, what numpy makes of them; and sums are what they say."""

import math

import numba
import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from online_rank._kernels import _intrinsics, primitives, vector_math  # noqa: F401
from tests.kernels.calling import Module

VECTORS = {"lane_sum": 1, "sum_of_squares": 1, "dot": 2, "squared_distance": 2}
ROWS = {"row_dot": 1, "four_row_dots": 4, "row_dot_and_square": 1, "four_row_dots_and_squares": 4}
math_of = Module(vector_math)


def compiled(name):
    """The primitive called by a compiled function."""
    primitive = getattr(primitives, name)
    if VECTORS.get(name) == 1:
        return numba.njit(lambda a: primitive(a))
    if name in VECTORS:
        return numba.njit(lambda a, b: primitive(a, b))
    if name == "four_row_squares":
        return numba.njit(lambda X, i: primitive(X, i))
    return numba.njit(lambda X, i, w: primitive(X, i, w))


COMPILED = {name: compiled(name) for name in (*VECTORS, *ROWS, "four_row_squares", "eight_row_dots")}
double_dots = numba.njit(lambda X, i, w, v: primitives.three_row_double_dots_and_squares(X, i, w, v))
fetched = numba.njit(lambda X, i, n: primitives.fetch(X, i, n))


def in_lanes(terms):
    """The same by hand."""
    lanes = [0.0] * 4
    for j, term in enumerate(terms):
        lanes[j % 4] += float(term)
    return (lanes[0] + lanes[1]) + (lanes[2] + lanes[3])


@pytest.mark.slow
@pytest.mark.parametrize("strided", [False, True])
@given(seed=st.integers(0, 10**6), n=st.integers(0, 23), single=st.booleans())
@settings(max_examples=60)
def test_sums_equal_sums_in_four_lanes(seed, n, single, strided):
    rng = np.random.default_rng(seed)
    X = (rng.normal(size=(9, 2 * n)) * 10.0 ** rng.integers(-12, 12, (9, 2 * n))).astype(np.float32 if single else np.float64)
    X = X[:, ::2] if strided else X[:, :n].copy()
    a, b, w = X[0], X[1], rng.normal(size=n)
    wide = X.astype(np.float64)
    expected = {
        "lane_sum": in_lanes(wide[0]),
        "sum_of_squares": in_lanes(wide[0] * wide[0]),
        "dot": in_lanes(wide[0] * wide[1]),
        "squared_distance": in_lanes((wide[0] - wide[1]) ** 2),
    }
    for name, vectors in VECTORS.items():
        arguments = (a, b)[:vectors]
        assert getattr(primitives, name)(*arguments) == expected[name] == COMPILED[name](*arguments), name
    for name, rows in ROWS.items():
        sums = [in_lanes(wide[1 + r] * w) for r in range(rows)]
        if "square" in name:
            sums += [in_lanes(wide[1 + r] * wide[1 + r]) for r in range(rows)]
        for function in (getattr(primitives, name), COMPILED[name]):
            assert list(np.ravel(function(X, 1, w))) == sums, name
    for function in (primitives.four_row_squares, COMPILED["four_row_squares"]):
        assert list(function(X, 1)) == [in_lanes(wide[1 + r] ** 2) for r in range(4)]
    for function in (primitives.eight_row_dots, COMPILED["eight_row_dots"]):
        assert list(function(X, 1, X[0])) == [in_lanes(wide[1 + r] * wide[0]) for r in range(8)]
    sums = [in_lanes(wide[r] * of) for of in (w, wide[0]) for r in (1, 2, 3)] + [in_lanes(wide[r] ** 2) for r in (1, 2, 3)]
    for function in (primitives.three_row_double_dots_and_squares, double_dots):
        assert list(function(X, 1, w, X[0])) == sums


def test_what_is_fetched_stays_as_it_is():
    X = np.arange(12.0).reshape(3, 4)
    assert fetched(X, 1, 3) is primitives.fetch(X, 1, 3) is None
    np.testing.assert_array_equal(X, np.arange(12.0).reshape(3, 4))


@pytest.mark.parametrize("dtype", [np.int64, np.int32, np.uint8])
def test_sums_of_integers(dtype):
    X = (np.arange(18).reshape(2, 9) % 7).astype(dtype)
    w = np.linspace(-1.0, 1.0, 9)
    assert COMPILED["row_dot"](X, 1, w) == primitives.row_dot(X, 1, w) == in_lanes(X[1] * w)
    assert COMPILED["sum_of_squares"](X[0]) == float((X[0].astype(int) ** 2).sum())


def test_a_sum_whose_order_counts():
    # Lanes 1e16 + 1, 1 + 1, -1e16 and 1: in their order ones are lost that another order keeps.
    x = np.array([1e16, 1.0, -1e16, 1.0, 1.0, 1.0])
    assert primitives.lane_sum(x) == ((1e16 + 1.0) + (1.0 + 1.0)) + (-1e16 + 1.0) == COMPILED["lane_sum"](x)


def test_the_parts_of_a_float():
    split = numba.njit(lambda x: primitives.split_float(x))
    for x in (1.0, 2.0, 0.7, 0.70710678118654746, 0.70710678118654757, 1.4142135623730951, 1.4142135623730949, 3e-308, 1.7e308):
        m, n = primitives.split_float(x)
        assert split(x) == (m, n)
        assert math.ldexp(m, int(n)) == x
        assert math.sqrt(0.5) <= m < math.sqrt(2.0) * (1 + 1e-15)


@given(st.floats(1e-300, 1e300))
def test_the_logarithm(x):
    assert math_of.log(x) == pytest.approx(math.log(x), rel=4e-16, abs=1e-16)


@given(st.floats(0.5, 1.0), st.integers(0, 5000))
def test_whole_powers(base, exponent):
    assert math_of.power(base, float(exponent)) == pytest.approx(base**exponent, rel=1e-12, abs=1e-300)


def test_powers_that_are_exact():
    assert [math_of.power(0.5, float(n)) for n in (0, 1, 2, 7, 64)] == [1.0, 0.5, 0.25, 0.0078125, 2.0**-64]


_FOURS = {
    "add_line_four": numba.njit(lambda target, i, x, source, k: primitives.add_line_four(target, i, x, source, k)),
    "sum_fours": numba.njit(
        lambda target, i, step, source, k, jump, n: primitives.sum_fours(target, i, step, source, k, jump, n)
    ),
}


@pytest.mark.parametrize(
    ("name", "rest"), [("add_line_four", (2, 0.3, 3)), ("sum_fours", (60, -8, 70, -4, 5)), ("sum_fours", (0, 0, 1, 4, 9))]
)
def test_fours(name, rest):
    rng = np.random.default_rng(0)
    target, source = rng.normal(size=80), rng.normal(size=80)
    arguments = (*rest[:2], source, *rest[2:])
    other = target.copy()
    getattr(primitives, name)(target, *arguments)
    _FOURS[name](other, *arguments)
    assert (target == other).all()
    if name == "sum_fours" and rest[1]:
        assert target[60 - 8 * 4] == sum((source[70 - 4 * r] for r in range(5)), 0.0)


@pytest.mark.parametrize("m", [1, 7, 40])
def test_counts_of_smaller_and_equal_numbers(m):
    values = np.round(np.random.default_rng(m).normal(size=(m, 8)), 1)
    values[0, 0], values[m // 2, 3] = np.nan, np.inf
    found, expected = np.empty((2, m, 8), dtype=np.int64)
    count = numba.njit(lambda values, i, counts: primitives.count_eight(values, i, counts))
    for i in range(m):
        count(values, i, found)
        primitives.count_eight(values, i, expected)
    smaller, equal = (values < values[:, None]).sum(axis=1), (values == values[:, None]).sum(axis=1)
    assert (found == expected).all()
    assert (found == 2 * smaller + equal).all()
