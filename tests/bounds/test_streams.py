"""Every theorem on random and adversarial streams, learned by the slow learner of `tests.reference.bound_streams`."""

import inspect

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from online_rank import LossTracker, PerceptronRanker, SlamRanker, bounds
from tests.reference import bound_streams as reference

#: For each theorem, the statements that some stream attains.
ATTAINED = {
    "master": {"master_bound"},
    "served": {"served_hindsight_bound", "served_data_bound"},
    "averaged": set(),
    "drift": {"master_bound, moving", "path_data_bound"},
    "capped": {"capped_bound"},
    "scaler": {"master_bound behind a scaler"},
    "restarts": {"restarts_hindsight_bound", "restarts_data_bound"},
    "delayed": {"served_hindsight_bound under delay", "delay_data_bound"},
    "mixing": {"mixing_hindsight_bound", "mixing_data_bound, uniform", "mixing_bound, uniform"},
    "clicked": {"click_hindsight_bound"},
    "truncated": {"truncation_bound"},
    "projected": {"projection_data_bound"},
    "running_margin": set(),
    "signed": {"hindsight with signs", "mass_data_bound with signs"},
}


@pytest.mark.parametrize("theorem", reference.THEOREMS, ids=lambda theorem: theorem.__name__)
def test_no_stream_violates_a_theorem_and_some_attain_it(theorem):
    largest = {}
    for seed in range(50 if theorem is reference.mixing else 150):
        for check in theorem(np.random.default_rng([1, seed])):
            assert not check.violated, (seed, check)
            largest[check.name] = max(largest.get(check.name, 0.0), check.ratio)
    for name in ATTAINED[theorem.__name__]:
        assert largest[name] == pytest.approx(1.0, abs=1e-6), name


@given(st.sampled_from(reference.THEOREMS), st.integers(0, 2**32))
@settings(deadline=None, max_examples=150)
def test_no_stream_violates_any_theorem(theorem, seed):
    assert not [check for check in theorem(np.random.default_rng(seed)) if check.violated]


@pytest.mark.parametrize("seed", range(3))
def test_clicks_in_expectation(seed):
    assert not [check for check in reference.clicks_in_expectation(seed, repeats=30) if check.violated]


@pytest.mark.parametrize(
    ("theorem", "bound", "broken"),
    [
        (reference.delayed, "delay_data_bound", {"delayed_mass": 0.0}),
        (reference.delayed, "served_data_bound", {"lag_product": 0.0}),
        (reference.mixing, "mixing_data_bound", {"penalty": 1.0}),
        (reference.drift, "path_data_bound", {"path_length": 0.0}),
        (reference.truncated, "truncation_bound", {"error_norms": 0.0}),
        (reference.running_margin, "mass_data_bound", {"margin_mass": 0.0}),
        (reference.master, "master_bound", {"path_product": 0.0}),
    ],
)
def test_a_bound_that_forgets_a_term_is_caught(monkeypatch, theorem, bound, broken):
    sound = getattr(bounds, bound)
    monkeypatch.setattr(bounds, bound, lambda **numbers: sound(**numbers | broken))
    assert any(check.violated for seed in range(200) for check in theorem(np.random.default_rng([2, seed])))


@pytest.mark.parametrize(("T", "D", "loss"), [(20, 3, 29.5256), (10, 9, 36.9070)])
def test_the_delayed_bound_is_attained(T, D, loss):
    for value in reference.delayed_to_the_point(T, D):
        assert value == pytest.approx(loss, abs=5e-5)


NUMBERS = {
    "comparator_loss": 2.0, "norm": 3.0, "R_X": 1.5, "squared_gradient_norms": 7.0, "inner_product": 1.0, "lag_product": 0.5,
    "half_life": 4.0, "delay": 3, "mass": 2.0, "delayed_mass": 3.0, "path_length": 0.5, "path_product": 0.1, "cap": 0.5,
    "largest_norm": 4.0, "penalty": 3.0, "error_norms": 0.1, "projection_error": 0.1,
    "tolerance": 0.2, "weight_norm": 1.0, "largest_weight_norm": 2.0,
    "largest_mass": 1.0, "norms": (1.0, 2.0),
}  # fmt: skip
NEW = [
    "averaged_bound", "capped_bound", "delay_bound", "delay_data_bound", "master_bound", "mixing_bound", "mixing_data_bound",
    "mixing_hindsight_bound", "path_bound", "path_data_bound", "path_norm_bound",
    "restarts_bound", "restarts_data_bound", "restarts_hindsight_bound",
    "served_data_bound", "served_hindsight_bound", "truncation_bound", "click_bound", "click_data_bound",
    "click_hindsight_bound",
]  # fmt: skip


def call(name, **changes):
    required = [p for p in inspect.signature(getattr(bounds, name)).parameters if p in NUMBERS]
    numbers = {p: NUMBERS[p] for p in required}
    if name == "restarts_data_bound":
        numbers["squared_gradient_norms"] = (1.0, 2.0)
    return getattr(bounds, name)(**numbers | changes)


@pytest.mark.parametrize("name", NEW)
def test_coverage_and_bad_numbers(name):
    call(name)
    with pytest.raises(ValueError, match="not a object"):
        call(name, model=object())
    with pytest.raises(ValueError, match="covers"):
        call(name, model=SlamRanker("ndcg"))
    if not name.startswith(("averaged", "click")):
        plain = PerceptronRanker(average=False, relative_margin=0.0)
        assert call(name, model=plain) == call(name, model=LossTracker(plain)) == call(name)
    for parameter in inspect.signature(getattr(bounds, name)).parameters:
        if parameter in NUMBERS and not isinstance(NUMBERS[parameter], tuple) and name != "restarts_data_bound":
            with pytest.raises(ValueError, match=rf"{parameter} is nan"):
                call(name, **{parameter: float("nan")})


def test_forms_of_one_theorem_agree():
    numbers = {"comparator_loss": 2.0, "norm": 3.0}
    data = bounds.mass_data_bound(**numbers, squared_gradient_norms=7.0, margin_mass=0.5)
    assert call("served_data_bound", lag_product=0.0, margin_mass=0.5) == pytest.approx(data)
    assert call("path_data_bound", path_length=0.0, margin_mass=0.5) == pytest.approx(data)
    assert call("mixing_data_bound", penalty=1, margin_mass=0.5) == pytest.approx(data)
    assert call("mixing_data_bound", penalty=1, margin_mass=0.5, mixing="mass") == pytest.approx(data)
    assert call("projection_data_bound", projection_error=0.0, tolerance=0.0, margin_mass=0.5) == pytest.approx(data)
    assert call("capped_bound", largest_norm=3.0, cap=1.0, path_length=0.0, margin_mass=0.5) == pytest.approx(data)
    closed = bounds.mass_bound(**numbers, R_X=1.5, largest_mass=1.0, relative_margin=0.5)
    assert call("delay_bound", delay=0, relative_margin=0.5) == pytest.approx(closed)
    assert call("mixing_bound", penalty=1, relative_margin=0.5) == pytest.approx(closed)
    assert call("path_bound", path_length=0.0, relative_margin=0.5) == pytest.approx(closed)
    assert call("restarts_bound", norms=(3.0,), relative_margin=0.5) == pytest.approx(closed)
    # An average that forgets at once is the last weights.
    assert call("averaged_bound", half_life=1e-3, relative_margin=0.5) == pytest.approx(closed)
    assert call("projection_data_bound", tolerance=1.0) == np.inf


def test_a_moving_scaler():
    scales = np.array([[1.0, 1.0], [2.0, 1.0], [2.0, 3.0]])
    assert bounds.scaler_path_length(scales, [1.0, 0.5]) == pytest.approx(1.0 + 1.0)
    assert bounds.scaler_path_length(scales[:1], [1.0, 0.5]) == 0.0
    with pytest.raises(ValueError, match="have shape"):
        bounds.path_length([1.0, 2.0])


def test_mixing_penalty():
    masses = [[2.0, 2.0, 0.0], [0.0, 0.0, 0.0], [1e200, 1e200, 1e200]]
    assert bounds.mixing_penalty(masses) == 3.0
    assert bounds.mixing_penalty(masses[:2], mixing="mass") == pytest.approx(2.0)
    assert bounds.mixing_penalty(masses, mixing="mass") == pytest.approx(3.0)
    assert bounds.mixing_penalty([[0.0, 0.0]], mixing="mass") == 1.0
    for bad in ([[-1.0]], [1.0, 2.0], [[np.nan]]):
        with pytest.raises(ValueError, match="masses"):
            bounds.mixing_penalty(bad)
    with pytest.raises(ValueError, match="mixing is 'x'"):
        bounds.mixing_penalty(masses, mixing="x")
