"""Behaviour that wrong lines once changed without a test that noticed."""

import math

import numpy as np
import pytest

from online_rank import KernelPerceptronRanker, LossTracker, PerceptronRanker
from online_rank.distributed.mixing import fork, mix
from online_rank.storage.files import from_bytes, to_bytes


def test_the_norm_of_a_comparator_before_its_first_move_counts():
    tracker = LossTracker(PerceptronRanker("ndcg", norm_cap=0.5, half_life=0), {"u": [3.0, 4.0]})
    tracker.learn_one(np.eye(2), [1, 0])
    tracker.move_comparator("u", [0.3, 0.4])
    certificate = tracker.certificate()
    # U is the largest norm, at the beginning; kappa = 1/2, P = 4.5.
    Q = certificate.facts["Q"]
    assert certificate.facts["largest_norm"] == 5.0
    assert math.isclose(certificate.bound("capped_bound"), certificate.pair_loss + math.sqrt(Q) * (0.5 * 4.5 + 5.0 / 0.5))


def test_mixing_keeps_the_largest_norm_of_a_comparator():
    base = LossTracker(PerceptronRanker("ndcg", half_life=0), {"u": [3.0, 4.0]})
    base.learn_one(np.eye(2), [1, 0])
    moved, still = fork(base), fork(base)
    moved.move_comparator("u", [0.3, 0.4])
    for shard in (moved, still):
        shard.learn_one(np.eye(2), [0, 1])
    assert mix([moved, still], base=base)._path[0, 2] == 5.0


def test_a_budget_lasts_no_longer_than_its_tolerance():
    rng = np.random.default_rng(0)
    stream = [(X, (X[:, 0] * X[:, 1] > 0).astype(int)) for X in rng.normal(size=(60, 6, 2))]
    spent = KernelPerceptronRanker(gamma=0.5, budget=4)
    for X, y in stream:
        spent.learn_one(X, y)
    lost = spent.largest_projection
    assert lost > 0.0
    # What was lost is more than the tolerance, and less than twice of it.
    short = KernelPerceptronRanker(gamma=0.5, budget=4, tolerance=lost / 1.5)
    for X, y in stream:
        short.learn_one(X, y)
    short.tolerance = short.largest_projection / 1.5
    assert not short.budget_lasts
    short.tolerance = short.largest_projection
    assert short.budget_lasts


def test_under_a_cap_the_hindsight_form_has_the_sum_of_the_updates():
    """Weights under a cap are not that sum: <u, w> would say 1.5 L of a loss of 2 L."""
    lost = 1.0 - 1.0 / math.log2(3)
    base = LossTracker(
        PerceptronRanker("ndcg", credit="spread", norm_cap=0.5, half_life=0), {"u": [1.0, 0.0]}, measure_served=True
    )
    tracker, block = base.clone(), base.clone()
    for y in ([1, 0], [0, 1]):
        tracker.learn_one(np.eye(2), y)
    block.learn_many(np.tile(np.eye(2), (2, 1)), [1, 0, 0, 1], [0, 0, 1, 1])
    # The updates L (1, -1) and L (-1, 1) cancel; of the first one the cap left half.
    assert tracker.learner.weights == pytest.approx([-0.5 * lost, 0.5 * lost])
    for model in (tracker, block, from_bytes(to_bytes(block))):
        certificate = model.certificate()
        assert certificate.facts["weight_norm"] == 0.0
        assert certificate.pair_loss == certificate.bound("mass_hindsight_bound") == certificate.loss == 2.0 * lost
        assert certificate.to_dict() == tracker.certificate().to_dict()
        assert "none a margin above 0" in str(certificate)


def test_machines_under_a_cap_add_up_their_updates():
    base = LossTracker(PerceptronRanker("ndcg", credit="spread", norm_cap=0.5, half_life=0), {"u": [1.0, 0.0]})
    shards = [fork(base) for _ in range(3)]
    for shard, grades in zip(shards, ([1, 0], [1, 0], [0, 1]), strict=True):
        shard.learn_one(np.eye(2), grades)
    certificate = mix(shards, base=base).certificate()
    lost = 1.0 - 1.0 / math.log2(3)
    # L (1, -1) twice and L (-1, 1); hinges 0, 0 and 2.
    assert certificate.bound("mass_hindsight_bound") == pytest.approx(2.0 * lost + lost)
    assert certificate.holds
