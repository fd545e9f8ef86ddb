import dataclasses
import json
import math

import numpy as np
import pytest

from online_rank import LossTracker, PerceptronRanker
from online_rank.bounds.certificate import BoundCheck, Certificate, Run, certify
from online_rank.bounds.declaration import PLAIN

TOTALS = {
    "n_rounds": 3, "n_skipped": 0, "n_mistakes": 2, "loss": 1.0, "served_loss": math.nan, "mass": 1.0,
    "squared_gradient_norms": 0.25, "margin_mass": 0.0, "largest_mass": 0.5, "R_X": 1.0, "m": 2, "v_max": 1.0,
    "largest_weight": 1.0, "counted_weight": 3.0,
}  # fmt: skip


def run(pair_loss, surrogate_loss=1.0, u=(), gains=(), **changes):
    u, gains = np.array(u), np.array(gains)
    norm, product = float(np.linalg.norm(u)), float(u @ gains) if len(u) else 0.0
    facts = {
        "comparator_loss": pair_loss, "surrogate_loss": surrogate_loss, "norm": norm, "inner_product": product,
        "learning_rate": None, "margin": 1.0, "relative_margin": 0.0,
    }  # fmt: skip
    return Run(PLAIN, TOTALS | changes, facts, size=pair_loss + norm * float(np.linalg.norm(gains)), comparator="u")


def certified(pair_loss=1.0, model=None, **changes):
    model = PerceptronRanker(credit="spread") if model is None else model
    return certify(model, run(pair_loss, pair_loss, **changes))


def test_verdicts():
    assert certified(1.0).holds
    violated = certified(0.3)
    assert not violated.holds
    assert "VIOLATED" in str(violated)
    assert [check.verdict for check in violated.bounds] == ["VIOLATED", "VIOLATED", "VIOLATED", "VIOLATED"]
    # 1e-12 short: rounding.
    assert certified(1.0 - 1e-12).bounds[0].verdict == "holds"


def test_what_rounding_leaves_undecided_is_not_said_to_hold():
    # Sums of 1e5 may be off by 1e-4 as far as the check knows, which is more than a millionth of the loss.
    checks = {check.name: check for check in certified(1e5, loss=1e5 + 5e-5, mass=1e5).bounds}
    assert checks["mass_hindsight_bound"].verdict == "holds"
    model = PerceptronRanker()
    model.learn_one(np.array([[-1.0], [1.0]]) * 1e5, [1, 0])
    u = np.array([1.0])
    product = float(u @ model.weights)
    certificate = certify(model, run(1.0 - product - 5e-5, 1e9, u, model.weights))
    undecided = certificate.bounds[0]
    assert undecided.slack == pytest.approx(-5e-5, rel=1e-6)
    assert undecided.verdict == "undecided by rounding"
    assert not undecided.holds
    assert "undecided by rounding" in str(certificate)


def test_a_certificate_without_a_bound_does_not_hold_and_says_why():
    nothing = Certificate("u", {"credit": "spread"}, TOTALS, {}, (), {"mass_bound": "mass_bound covers something else"})
    assert not nothing.holds
    assert "NOTHING IS CERTIFIED" in str(nothing)
    assert "mass_bound (covers something else)" in str(nothing)
    assert json.loads(json.dumps(nothing.to_dict()))["holds"] is False


@pytest.mark.parametrize("name", ["squared_gradient_norms", "R_X", "largest_mass"])
def test_nan_certifies_nothing(name):
    certificate = certified(1.0, **{name: math.nan})
    assert all(check.value == check.value for check in certificate.bounds)
    assert any(f"{name} is nan" in reason for reason in certificate.not_covered.values())
    # A loss that is not a number is not below anything.
    assert not certified(1.0, loss=math.nan).holds
    assert not certified(math.nan).holds
    assert not certified(math.nan).bounds or all(c.verdict == "VIOLATED" for c in certified(math.nan).bounds)


def test_every_reason_is_printed_once():
    tracker = LossTracker(PerceptronRanker(norm_cap=0.5), {"u": np.ones(2)})
    tracker.learn_one(np.eye(2), [1, 0])
    certificate = tracker.certificate()
    reasons = [reason for reason in certificate.not_covered.values() if "norm_cap=None" in reason]
    assert len(reasons) > 1
    text = str(certificate)
    assert text.count("covers norm_cap=None, but the model has norm_cap=0.5") == 1
    assert max(map(len, text.splitlines())) <= 140


def test_checks_go_into_json_with_their_verdict():
    tracker = LossTracker(PerceptronRanker(), {"u": np.ones(2)})
    tracker.learn_one(np.eye(2), [1, 0])
    first = json.loads(json.dumps(tracker.certificate().to_dict()))["bounds"][0]
    assert (first["holds"], first["verdict"]) == (True, "holds")
    assert BoundCheck("a", "b", 1.0, 0.5, "undecided by rounding").holds is False


def test_one_bound_that_is_violated_is_enough():
    certificate = certified(1.0)
    violated = certificate.bounds[0]._replace(verdict="VIOLATED")
    assert not dataclasses.replace(certificate, bounds=(*certificate.bounds, violated)).holds
