"""Runs that begin with given weights: what is learned is the sum of the updates."""

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from online_rank import LossTracker, PerceptronRanker
from online_rank.base.schema import declared_state
from online_rank.bounds.mass import beginning_data_bound, beginning_distance_bound, mass_data_bound
from online_rank.storage.files import from_bytes, to_bytes


def queries(seed, n, teacher):
    rng = np.random.default_rng(seed)
    for _ in range(n):
        X = rng.normal(size=(5, len(teacher)))
        yield X, np.digitize(X @ teacher + 0.5 * rng.normal(size=5), [0.0, 1.5])


@pytest.mark.slow
@given(
    seed=st.integers(0, 10**6),
    scale=st.sampled_from([-5.0, 0.3, 5.0]),
    credit=st.sampled_from(["adaptive", "spread", "argmax"]),
    against=st.booleans(),
)
@settings(max_examples=40)
def test_no_beginning_violates_its_bounds(seed, scale, credit, against):
    rng = np.random.default_rng(seed)
    teacher = rng.normal(size=3)
    w0 = scale * (teacher if seed % 2 else rng.normal(size=3))
    tracker = LossTracker(PerceptronRanker.from_weights(w0, credit=credit), {"u": 2.0 * teacher, "zero": np.zeros(3)})
    Q = 0.0
    for X, y in queries(seed, 30, teacher):
        if against:
            y = np.argsort(np.argsort(tracker.predict_one(X))[::-1]) % 3
        tracker.learn_one(X, y)
        last = tracker.last_round
        Q += last.squared_gradient_norm + 2.0 * last.margin * last.mass
    certificate = tracker.certificate("u")
    assert certificate.holds, str(certificate)
    names = [check.name for check in certificate.bounds]
    assert names == ["mass_hindsight_bound", "beginning_data_bound", "beginning_distance_bound"]
    u, w, F = 2.0 * teacher, tracker.learner.weights, certificate.pair_loss
    assert certificate.bound("mass_hindsight_bound") == pytest.approx(F + u @ (w - w0))
    norm_form = F + np.linalg.norm(u) * np.sqrt(w0 @ w0 + Q) - u @ w0
    assert certificate.bound("beginning_data_bound") == pytest.approx(norm_form)
    assert certificate.bound("beginning_distance_bound") == pytest.approx(F + ((u - w0) @ (u - w0) + Q) / 2.0)
    assert tracker.totals.mass <= min(norm_form, F + u @ (w - w0)) + 1e-9
    for name in ("mass_data_bound", "mass_bound"):
        assert "runs that begin at w = 0" in certificate.not_covered[name]
    # Against no weights at all the hindsight form is the mass.
    assert tracker.certificate("zero").bound("mass_hindsight_bound") == pytest.approx(tracker.totals.mass)
    assert from_bytes(to_bytes(tracker)).certificate("u").to_dict() == certificate.to_dict()


def test_a_ranker_that_has_learned_continues_under_a_tracker():
    teacher = np.array([1.0, -1.0, 0.5])
    ranker = PerceptronRanker()
    for X, y in queries(1, 20, teacher):
        ranker.learn_one(X, y)
    before = ranker.weights
    tracker = LossTracker(ranker, {"u": teacher})
    for X, y in queries(2, 20, teacher):
        ranker.learn_one(X, y)
        tracker.learn_one(X, y)
    assert tracker.learner.weights.tolist() == ranker.weights.tolist()
    assert tracker._gains() == pytest.approx(ranker.weights - before)
    assert tracker.totals.n_rounds == 20
    assert tracker.certificate().holds


def test_features_that_come_later_begin_at_zero():
    tracker = LossTracker(PerceptronRanker.from_weights({"a": 2.0}), {"u": {"a": 1.0, "b": 1.0}})
    tracker.learn_one([{"a": 1.0, "b": -1.0}, {"b": 1.0}], [0, 1])
    assert declared_state(tracker).beginning.tolist() == [2.0, 0.0]
    assert tracker.certificate().holds


def test_from_zero_it_is_the_mass_theorem():
    numbers = {"comparator_loss": 2.0, "norm": 3.0, "squared_gradient_norms": 7.0, "margin_mass": 0.5}
    begun = beginning_data_bound(**numbers, beginning_norm=0.0, beginning_product=0.0)
    assert begun == pytest.approx(mass_data_bound(**numbers))
    # The distance form is the norm form with the root replaced by half of squares: never smaller at w0 = 0.
    far = beginning_distance_bound(comparator_loss=2.0, distance=3.0, squared_gradient_norms=7.0, margin_mass=0.5)
    assert far >= begun


def test_mixed_models_count_their_beginning_once():
    from online_rank.distributed.mixing import fork, mix

    teacher = np.array([1.0, -1.0, 0.5])
    w0 = np.array([0.5, 0.5, 0.0])
    base = LossTracker(PerceptronRanker.from_weights(w0, half_life=0), {"u": teacher})
    shards = []
    for seed in range(3):
        shard = fork(base)
        for X, y in queries(seed, 10, teacher):
            shard.learn_one(X, y)
        shards.append(shard)
    gains = sum(shard.learner.weights - w0 for shard in shards)
    certificate = mix(shards, base=base).certificate()
    assert [check.name for check in certificate.bounds] == ["mass_hindsight_bound"]
    assert certificate.bounds[0].value == pytest.approx(certificate.pair_loss + teacher @ gains)
    assert certificate.holds
