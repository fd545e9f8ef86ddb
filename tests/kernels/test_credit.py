"""The two ways to spread credit over violators agree with each other and with the equation."""

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from online_rank import LossTracker, PerceptronRanker
from online_rank._kernels import best_violators, primitives, spread_credit
from online_rank._kernels import credit as credit_dispatch
from online_rank._kernels.codes import CREDITS, Credit
from online_rank._kernels.workspace import PREFERRED, SHARES
from tests.kernels.calling import Module, graded, workspace
from tests.reference.perceptron import BroadPerceptron

kernels, pairs = Module(spread_credit), Module(best_violators)


@pytest.mark.slow
@given(
    seed=st.integers(0, 10**6),
    m=st.integers(2, 200),
    offset=st.sampled_from([0.0, 0.7]),
    ties=st.booleans(),
    highest=st.sampled_from([1, 2, 4]),
)
@settings(max_examples=60)
def test_spread_over_few_and_over_many_are_the_equation(seed, m, offset, ties, highest):
    rng = np.random.default_rng(seed)
    query = graded(rng.integers(0, highest + 1, m))
    level = query.level
    t = rng.integers(-4, 5, m) / 2.0 if ties else rng.normal(size=m)
    v = rng.random(m) * (rng.random(m) < 0.8)
    work = workspace(m)
    n = kernels.list_preferred(level, v, work.integers[PREFERRED])
    preferred = work.integers[PREFERRED, :n]
    assert preferred.tolist() == [i for i in range(m) if level[i] > 0 and v[i] > 0.0]

    expected, shares, violated = np.zeros(m), np.zeros(m), []
    for i in preferred:
        outscoring = np.flatnonzero((level < level[i]) & (t >= t[i] - offset))
        if len(outscoring):
            shares[i] = v[i] / len(outscoring)
            expected[outscoring] -= shares[i]
            violated.append((i, outscoring))
    for i, _ in violated:
        expected[i] += v[i]

    few, share = np.zeros(m), work.reals[SHARES, :m]
    mass = kernels._spread_over_few(level, v, t, offset, preferred, np.empty(m), share, few)
    # Bit for bit, since documents are charged in their order.
    assert few.tolist() == expected.tolist()
    assert share.tolist() == shares.tolist()
    assert mass == pytest.approx(v[shares > 0].sum(), rel=1e-12)

    keys, terms = rng.normal(size=m), np.zeros(m)
    for i, outscoring in violated:
        terms[outscoring] += shares[i] * np.maximum(0.0, keys[outscoring] + (1.0 - keys[i]))
    assert kernels.hinge_of_spread(level, t, offset, preferred, keys, work) == primitives.lane_sum(terms)

    many = np.zeros(m)
    kernels.sort_violators(query, t, offset, preferred, work)
    assert kernels._spread_over_sorted(query, v, preferred, work, many) == pytest.approx(mass)
    np.testing.assert_allclose(many, expected, rtol=1e-12, atol=1e-12)
    np.testing.assert_allclose(share, shares, rtol=1e-12)


def test_a_strict_violation_is_one_float_beyond():
    # t_j > 1 - 0.25: 0.75 does not violate, the next float does.
    assert pairs.least_violating(1.0, 0.25, True) == np.nextafter(0.75, 1.0)
    assert pairs.least_violating(1.0, 0.25, False) == 0.75


def test_a_tie_violates_where_rounding_absorbs_the_margin():
    assert pairs.least_violating(1e17, 1.0, True) == 1e17
    assert pairs.least_violating(1.0, 0.0, True) == np.nextafter(1.0, 2.0)


@pytest.mark.parametrize("measure", ["ndcg@3", "ndcg", "linear_ndcg", "ap"])
@pytest.mark.parametrize("credit", ["sort", "adaptive"])
def test_broad_credits_learn_what_their_equations_say(credit, measure):
    rng = np.random.default_rng(3)
    model, slow = PerceptronRanker(measure, credit=credit), BroadPerceptron(4, measure, credit, 0.3)
    for n in range(12):
        X, y = rng.normal(size=(9, 4)), rng.integers(0, 4, 9)
        if n % 3 == 0:
            X = np.round(X)  # Ties of features, and so of scores.
        model.learn_one(X, y)
        slow.learn(X.tolist(), y.tolist())
        # The kernel's normal quantiles are within 1.2e-9.
        assert model.weights == pytest.approx(slow.w, rel=1e-6, abs=1e-8)
    assert abs(model.weights).max() > 0.1


def test_a_credit_without_kernels_is_refused(monkeypatch):
    # What follows the first step of "Adding a credit" alone.
    monkeypatch.setitem(CREDITS, "first", Credit(len(CREDITS), "loss", 0.0))
    X, y = np.eye(3), [0, 1, 2]
    for model in (PerceptronRanker(credit="first"), LossTracker(PerceptronRanker(credit="first"), {"u": np.ones(3)})):
        with pytest.raises(ValueError, match="no kernel assigns this credit"):
            model.learn_one(X, y)


def test_a_credit_without_hinges_is_refused():
    query, work, v = graded([0, 1]), workspace(2), np.ones(2)
    dispatch = Module(credit_dispatch)
    update = credit_dispatch.Update(99, query, v, np.zeros(2), 0.0, 1.0, 0.5, dispatch.room_for_pairs(2))
    pairs_of_none = dispatch.prepare_hinges(update, work)
    with pytest.raises(ValueError, match="no kernel has a comparator's hinges"):
        dispatch.hinge(update, pairs_of_none, np.zeros(2), work)


def test_every_credit_has_another_code():
    assert [credit.code for credit in CREDITS.values()] == list(range(len(CREDITS)))
