import inspect
import math

import numpy as np
import pytest

from online_rank import (
    AdditiveRanker,
    BlendRanker,
    ClickPerceptron,
    ClickRidge,
    DeclaredFeatures,
    DirectRanker,
    ExaminedRanker,
    History,
    PerceptronRanker,
    PlackettLuce,
    Ranker,
    RidgeRanker,
    RunFeatures,
    arguments,
)
from online_rank.metrics import OffPolicyValue
from online_rank.serving import FeedbackPlan


@pytest.mark.parametrize("value", [1, 7, np.int32(3), 2**63 - 1])
def test_integers_that_fit(value):
    arguments.integer("n", value, 1)


@pytest.mark.parametrize("value", [True, np.bool_(True), 1.0, "1", None, [1], np.array(1)])
def test_what_is_no_integer_is_a_type_error(value):
    with pytest.raises(TypeError, match=r"^n is .*; it must be an integer >= 1$"):
        arguments.integer("n", value, 1)


@pytest.mark.parametrize(("value", "low", "high"), [(0, 1, 9), (10, 1, 9), (2**63, None, 2**63 - 1), (-(2**63) - 1, None, 5)])
def test_integers_outside_their_range(value, low, high):
    with pytest.raises(ValueError, match=r"^n is .*; it must be an integer"):
        arguments.integer("n", value, low, high)


@pytest.mark.parametrize("value", [math.nan, math.inf, -math.inf])
def test_numbers_are_finite(value):
    with pytest.raises(ValueError, match=r"it must be a finite number >= 0"):
        arguments.number("x", value, 0)


@pytest.mark.parametrize(
    ("value", "limits"),
    [(0.0, {"above": 0}), (1.0, {"below": 1}), (-0.1, {"low": 0}), (1.1, {"low": 0, "high": 1}), (3, {"above": 0, "high": 2})],
)
def test_numbers_outside_their_range(value, limits):
    with pytest.raises(ValueError, match=r"^x is .*; it must be a number"):
        arguments.number("x", value, **limits)


def test_limits_that_are_included():
    arguments.number("x", 0, 0, 1)
    arguments.number("x", 1.0, 0, 1)
    arguments.number("x", np.float32(0.5), above=0, below=1)


@pytest.mark.parametrize("value", [True, "1", [1.0], np.array([1.0, 2.0]), 1j])
def test_what_is_no_number_is_a_type_error(value):
    with pytest.raises(TypeError, match=r"^x is .*; it must be a number"):
        arguments.number("x", value)


def test_none_where_it_may_stand():
    arguments.integer("n", None, optional=True)
    arguments.number("x", None, optional=True)
    arguments.choice("c", None, ("a",), optional=True)
    with pytest.raises(ValueError, match=r"^c is 'b'; it must be 'a', or None$"):
        arguments.choice("c", "b", ("a",), optional=True)


@pytest.mark.parametrize(("value", "kind"), [("d", ValueError), (1, TypeError), (np.zeros(3), TypeError), (None, TypeError)])
def test_choices(value, kind):
    with pytest.raises(kind, match=r"^c is .*; it must be 'a', 'b' or 'c'$"):
        arguments.choice("c", value, ("a", "b", "c"))


def test_one_is_not_true():
    with pytest.raises(TypeError):
        arguments.choice("c", 1, (True, False))


@pytest.mark.parametrize("value", [-1, 0.5, True, None, "0"])
def test_what_is_no_seed(value):
    with pytest.raises((TypeError, ValueError), match=r"^seed is .*; it must be an integer >= 0$"):
        arguments.seed(value)


def test_long_values_are_cut():
    with pytest.raises(TypeError, match=r"^n is 'x{56}\.\.\.; it must"):
        arguments.integer("n", "x" * 10_000)


@pytest.mark.parametrize("value", [2**63, 2**64, 10**30, 10**400, 10**5000], ids=lambda v: f"{v.bit_length()} bits")
def test_integers_that_neither_kernels_nor_files_take(value):
    """They were accepted, and failed later: when the model was saved, in a kernel, or by an OverflowError."""
    with pytest.raises(ValueError, match=r"^x is .*; it must be a number >= 0, a float where 64 bits do not hold an integer"):
        arguments.number("x", value, 0)
    with pytest.raises(ValueError, match=r"^n is .*; it must be an integer"):
        arguments.integer("n", value)


class Weighed(Ranker):
    """A ranker of a user's own, which keeps what it is given."""

    def __init__(self, weights: list):
        super().__init__()
        self.weights = weights


@pytest.mark.parametrize(
    ("make", "given"),
    [
        (DeclaredFeatures, ["a", "b"]),
        (RunFeatures, ["bm25", "dense"]),
        (lambda parts: RunFeatures(parts=parts), ["minmax"]),
        (lambda by: History(by, half_life=10), ["user", "brand"]),
        (lambda examination: History("user", half_life=10, examination=examination), [0.5, 0.2]),
        (lambda examination: ExaminedRanker(PerceptronRanker(), examination=examination), [0.5, 0.2]),
        (lambda seen: ClickPerceptron(PlackettLuce(k=2), credit="propensity", examination=seen), [0.5, 0.2]),
        (lambda half_life: AdditiveRanker(half_life=half_life), [100.0, 200.0]),
        (lambda signs: AdditiveRanker(signs=signs), {"a": 1}),
        (lambda signs: PerceptronRanker(signs=signs), {"a": 1}),
        (ClickRidge, {"a": 1.0}),
        (BlendRanker, [PerceptronRanker(), RidgeRanker()]),
        (lambda prior: BlendRanker([PerceptronRanker(), RidgeRanker()], prior=prior), [0.5, 0.5]),
        (Weighed, [0.5, 0.5]),
        (lambda hidden: DirectRanker(hidden=hidden), [4, 4]),
        (lambda weights: OffPolicyValue(weights=weights), [0.5, 0.5]),
        (lambda events: FeedbackPlan(window=3.0, events=events), {"click": 1}),
    ],
)
def test_a_list_or_dict_that_changes_later_does_not_change_the_model(make, given):
    made = make(given)
    kept = {name: str(getattr(made, name)) for name in inspect.signature(type(made)).parameters}
    given.clear()
    assert {name: str(getattr(made, name)) for name in kept} == kept
