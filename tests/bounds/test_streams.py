"""Every theorem on random and adversarial streams, learned by the slow learner of `tests.reference.bound_streams`."""

import inspect

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from online_rank import PerceptronRanker, SlamRanker, bounds
from online_rank.bounds.declaration import BOUNDS
from tests.reference import bound_streams as reference

#: For each theorem, the statements that some stream attains.
ATTAINED = {
    "master": {"master_bound"},
    "served": {"mass_hindsight_bound, served weights", "served weights, measured"},
    "averaged": set(),
    "drift": {"master_bound, moving", "path_data_bound"},
    "capped": {"capped_bound"},
    "scaler": {"master_bound behind a scaler"},
    "delayed": {"mass_hindsight_bound, late grades", "late grades, with measured delays"},
    "mixing": {"mass_hindsight_bound, machines", "mixing_data_bound, uniform", "mixing_bound, uniform"},
    "clicked": {"mass_hindsight_bound, clicks"},
    "truncated": {"cut weights"},
    "projected": {"projected updates"},
    "running_margin": set(),
    "signed": {"hindsight with signs", "mass_data_bound with signs"},
}


@pytest.mark.first(3)
@pytest.mark.parametrize("theorem", reference.THEOREMS, ids=lambda theorem: theorem.__name__)
def test_no_stream_violates_a_theorem_and_some_attain_it(theorem):
    largest = {}
    for seed in range(50 if theorem is reference.mixing else 150):
        for check in theorem(np.random.default_rng([1, seed])):
            assert not check.violated, (seed, check)
            largest[check.name] = max(largest.get(check.name, 0.0), check.ratio)
    for name in ATTAINED[theorem.__name__]:
        assert largest[name] == pytest.approx(1.0, abs=1e-6), name


@pytest.mark.slow
@given(st.sampled_from(reference.THEOREMS), st.integers(0, 2**32))
@settings(max_examples=150)
def test_no_stream_violates_any_theorem(theorem, seed):
    assert not [check for check in theorem(np.random.default_rng(seed)) if check.violated]


@pytest.mark.parametrize("seed", range(3))
def test_clicks_in_expectation(seed):
    assert not [check for check in reference.clicks_in_expectation(seed, repeats=30) if check.violated]


@pytest.mark.parametrize(
    ("theorem", "bound", "broken"),
    [
        (reference.delayed, "delay_bound", {"delay": 0}),
        (reference.mixing, "mixing_data_bound", {"n_machines": 1}),
        (reference.drift, "path_data_bound", {"path_length": 0.0}),
        (reference.running_margin, "mass_data_bound", {"margin_mass": 0.0}),
        (reference.master, "master_bound", {"path_product": 0.0}),
    ],
)
def test_a_bound_that_forgets_a_term_is_caught(monkeypatch, theorem, bound, broken):
    sound = getattr(reference.bounds, bound)
    monkeypatch.setattr(reference.bounds, bound, lambda **numbers: sound(**numbers | broken))
    assert any(check.violated for seed in range(200) for check in theorem(np.random.default_rng([2, seed])))


@pytest.mark.parametrize(("T", "D", "loss"), [(20, 3, 29.5256), (10, 9, 36.9070)])
def test_the_delayed_bound_is_attained(T, D, loss):
    for value in reference.delayed_to_the_point(T, D):
        assert value == pytest.approx(loss, abs=5e-5)


NUMBERS = {
    "comparator_loss": 2.0, "surrogate_loss": 2.0, "norm": 3.0, "R_X": 1.5, "squared_gradient_norms": 7.0, "inner_product": 1.0,
    "margin_mass": 0.5, "half_life": 4.0, "delay": 3, "path_length": 0.5, "path_product": 0.1, "error_product": 0.1, "cap": 0.5,
    "largest_norm": 4.0, "n_machines": 3, "projection_error": 0.1, "tolerance": 0.2, "weight_norm": 1.0, "largest_mass": 1.0,
    "relative_margin": 0.5, "beginning_norm": 1.0, "beginning_product": -0.1,
    "distance": 1.0, "best_loss": 2.0, "prior_cost": 1.0, "step": 0.5, "mixability_gap": 0.1, "serving_gap": -0.1,
    "least_loss": 2.0, "least_cost": 1.5, "n_candidates": 5, "rate": 1.0, "variance": 0.3, "luck": -0.1, "budget": 1.0,
    "learning_rate": 1e-4,
    "margin": 1.0, "comparator_norm": 3.0, "squares": 7.0, "last_cost": 1.0, "m": 4, "k": 3, "v_max": 5.0, "weight": 1.0,
    "gain_product": -0.1, "rounded": 0.1,
}  # fmt: skip


def call(name, **changes):
    numbers = {p: NUMBERS[p] for p in inspect.signature(getattr(reference.bounds, name)).parameters}
    return getattr(reference.bounds, name)(**numbers | changes)


@pytest.mark.parametrize("name", BOUNDS)
def test_no_bound_takes_bad_numbers(name):
    assert call(name) > 0.0
    for parameter in BOUNDS[name].needs:
        for bad in (float("nan"), "1", -1e9):
            if bad == -1e9 and parameter.endswith(("product", "gap", "luck")) and parameter != "mixability_gap":
                continue
            with pytest.raises((TypeError, ValueError), match=rf"{parameter} is "):
                call(name, **{parameter: bad})
    with pytest.raises(TypeError, match="unheard_of"):
        call(name, unheard_of=1.0)


def test_a_bound_is_about_models_of_its_class_and_its_settings():
    for name in (
        "averaged_bound",
        "capped_bound",
        "delay_bound",
        "master_bound",
        "mixing_bound",
        "path_bound",
    ):
        assert not issubclass(SlamRanker, BOUNDS[name].of), name
        assert not issubclass(object, BOUNDS[name].of)
    plain = PerceptronRanker(half_life=0, relative_margin=0.0)
    for name in ("capped_bound", "delay_bound", "master_bound", "mixing_data_bound", "path_data_bound"):
        assert BOUNDS[name].excludes(plain) is None, name
    assert "served='average'" in BOUNDS["averaged_bound"].excludes(plain)


def test_forms_of_one_theorem_agree():
    numbers = {"comparator_loss": 2.0, "norm": 3.0}
    data = bounds.mass_data_bound(**numbers, squared_gradient_norms=7.0, margin_mass=0.5)
    assert call("path_data_bound", path_length=0.0) == pytest.approx(data)
    assert call("mixing_data_bound", n_machines=1) == pytest.approx(data)
    assert call("projection_data_bound", projection_error=0.0) == pytest.approx(data)
    assert call("capped_bound", largest_norm=3.0, cap=1.0, path_length=0.0) == pytest.approx(data)
    assert call("beginning_data_bound", beginning_norm=0.0, beginning_product=0.0) == pytest.approx(data)
    closed = bounds.mass_bound(**numbers, R_X=1.5, largest_mass=1.0, relative_margin=0.5)
    assert call("delay_bound", delay=0) == pytest.approx(closed)
    assert call("mixing_bound", n_machines=1) == pytest.approx(closed)
    assert call("path_bound", path_length=0.0) == pytest.approx(closed)
    assert call("projection_bound", tolerance=0.0) == pytest.approx(closed)
    # An average that forgets at once is the last weights.
    assert call("averaged_bound", half_life=1e-3) == pytest.approx(closed)
    assert call("projection_bound", tolerance=1.0) == np.inf
