"""Behaviour that wrong lines once changed without a test that noticed."""

import math

import numpy as np

from online_rank import KernelPerceptronRanker, LossTracker, PerceptronRanker
from online_rank.distributed.mixing import fork, mix


def test_the_norm_of_a_comparator_before_its_first_move_counts():
    tracker = LossTracker(PerceptronRanker("ndcg", norm_cap=0.5, average=False), {"u": [3.0, 4.0]})
    tracker.learn_one(np.eye(2), [1, 0])
    tracker.move_comparator("u", [0.3, 0.4])
    certificate = tracker.certificate()
    # U is the largest norm, that of the beginning; kappa = 1/2, P = 4.5.
    Q = certificate.facts["Q"]
    assert certificate.facts["largest_norm"] == 5.0
    assert math.isclose(certificate.bound("capped_bound"), certificate.pair_loss + math.sqrt(Q) * (0.5 * 4.5 + 5.0 / 0.5))


def test_mixing_keeps_the_largest_norm_of_a_comparator():
    base = LossTracker(PerceptronRanker("ndcg", average=False), {"u": [3.0, 4.0]})
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
