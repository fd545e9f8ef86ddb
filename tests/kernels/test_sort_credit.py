"""Credit `sort` against its definition, and its pairs against what the mass theorem asks of them."""

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from scipy.special import ndtri

from online_rank._kernels import sort_credit, vector_math
from tests.kernels.calling import Module, from_python, graded, workspace
from tests.reference.perceptron import sort_coefficients

kernels, quantile = Module(sort_credit), from_python(vector_math.normal_quantile)


@st.composite
def queries(draw):
    y = draw(st.lists(st.integers(0, 4), min_size=2, max_size=40).filter(lambda y: len(set(y)) > 1))
    scores = st.sampled_from([-1.0, 0.0, 0.5, 1.0]) | st.floats(-3, 3)
    return np.array(draw(st.lists(scores, min_size=len(y), max_size=len(y)))), y, draw(st.sampled_from([0.0, 0.4, 2.0]))


@pytest.mark.slow
@given(queries())
@settings(max_examples=150)
def test_credit_is_its_definition(query):
    s, y, tau = query
    c = np.empty(len(s))
    mass = kernels.sort_credit(graded(y), s, tau, workspace(len(s)), c)
    np.testing.assert_allclose(c, sort_coefficients(s, y, tau), atol=1e-8)
    assert mass == pytest.approx(c[c > 0.0].sum())


@pytest.mark.parametrize("m", [1, 2, 3, 24, 25, 26, 27, 77, 100, 101, 2000])
def test_normal_scores_are_the_quantiles_of_positions(m):
    scores = np.empty(m)
    kernels.normal_scores(m, scores)
    assert scores.tolist()[: m // 2] == [-quantile((p + 0.625) / (m + 0.25)) for p in range(m // 2)]
    assert (scores == -scores[::-1]).all()


def test_two_documents_in_the_wrong_order():
    c = np.empty(2)
    mass = kernels.sort_credit(graded([1, 0]), np.array([0.0, 1.0]), 0.0, workspace(2), c)
    # phi(1) - phi(2) = 2 Phi^-1(1.625 / 2.25).
    assert c == pytest.approx([2 * ndtri(1.625 / 2.25), -2 * ndtri(1.625 / 2.25)])
    assert mass == c[0]


def test_equals_share_in_any_order():
    # All tie. The less relevant come first, so p = 3, 4 and n = 1, 2 for the relevant; each gets the mean of both differences.
    phi = [-ndtri((p - 0.375) / 4.25) for p in range(1, 5)]
    share = (phi[0] + phi[1] - phi[2] - phi[3]) / 2
    for y in ([1, 1, 0, 0], [0, 1, 0, 1]):
        c = np.empty(4)
        mass = kernels.sort_credit(graded(y), np.zeros(4), 0.0, workspace(4), c)
        assert c == pytest.approx(np.where(y, share, -share))
        assert mass == pytest.approx(2 * share)


@pytest.mark.slow
@given(queries())
@settings(max_examples=150)
def test_credit_is_a_sum_over_violated_pairs_of_its_mass(query):
    s, y, tau = query
    m = len(s)
    work, c = workspace(m), np.empty(m)
    mass = kernels.sort_credit(graded(y), s, tau, work, c)
    upper, lower, amount = moved = sort_credit.Moved(*np.empty((2, 2 * m), dtype=np.int64), np.empty(2 * m))
    n = kernels.transport(graded(y), c, work, moved)
    total = np.zeros(m)
    for i, j, a in zip(upper[:n], lower[:n], amount[:n], strict=True):
        assert a > 0.0
        assert y[i] > y[j]
        assert s[j] >= s[i] - tau
        total[i] += a
        total[j] -= a
    np.testing.assert_allclose(total, c, atol=1e-12)
    assert amount[:n].sum() == pytest.approx(mass, abs=1e-12)
