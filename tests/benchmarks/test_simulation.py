"""Compiled impressions equal impressions of the public interface."""

import numpy as np
import pytest

from benchmarks._clicks_data import ndcg_shown
from benchmarks._pdgd import PDGD, ClickSkip
from benchmarks._simulation import beginner, chance, pdgd_rounds, queries_in_one, swap_rounds, tables
from online_rank import Clicks, Impression, PlackettLuce, PositionBias, SwapRanker
from online_rank.base.schema import declared_state
from online_rank.stream.clicks import user
from online_rank.stream.synth import NoisyTeacher

pytestmark = pytest.mark.slow  # It compiles the kernels of the benchmark.

N, D, SEED = 60, 5, 3


class Plain:
    """A learner of `benchmarks._pdgd` behind the interface of a ranker."""

    def __init__(self, learner):
        self.learner = learner

    def show_one(self, x):
        return Impression(tuple(self.learner.show(x).tolist()))

    def learn_one(self, x, y):
        self.learner.learn(x, np.array(y.impression.order), np.array(y.gains) > 0.0)


class WithoutRho(SwapRanker):
    """`SwapRanker` that believes that every ranking was as likely as every other: all pairs weigh 1/2."""

    def learn_one(self, x, y, w=1.0):
        order = y.impression.order
        super().learn_one(x, Clicks(Impression(order, logits=(0.0,) * len(order), rest=0.0), y.gains), w)


def met(name):
    found = [(X, np.minimum(y, 2)) for X, y in NoisyTeacher(25, n_features=D, n_documents=(3, 14), seed=1)]
    return found, queries_in_one(found), np.random.default_rng(2).integers(len(found), size=N), user(name, max_grade=2, seed=9)


def by_the_interface(model, found, drawn, who):
    quality, bias = [], PositionBias(10)
    for t, q in enumerate(drawn):
        X, y = found[q]
        shown = model.show_one(X)
        quality.append(ndcg_shown(y, shown.order))
        clicks = who.clicks(shown, y, t)
        model.learn_one(X, clicks)
        if shown.logits is not None:
            bias.update(clicks)
    return quality, bias


def compiled(rounds, with_rho, constant, found, drawn, who, counted, **begun):
    learner, quality = beginner(D, **begun), np.empty(N)
    draws = chance(found, drawn, who, SEED, counted)
    for first, stop in ((0, 7), (7, N)):
        rounds(found, draws, *tables(who, 3), with_rho, constant, learner, first, stop, quality)
    return learner, quality


@pytest.mark.parametrize("name", ["perfect", "navigational", "informational", "trust", "position", "dependent"])
@pytest.mark.parametrize("ranker", [SwapRanker, WithoutRho])
def test_rankers_of_the_library(name, ranker):
    found, block, drawn, who = met(name)
    model = ranker(PlackettLuce(10, seed=SEED))
    quality, bias = by_the_interface(model, found, drawn, who)
    learner, fast = compiled(swap_rounds, ranker is SwapRanker, 0.1, block, drawn, who, counted=True)
    assert np.abs(learner.w).max() > 0.0
    assert learner.w.tolist() == model.weights.tolist()
    assert fast == pytest.approx(quality, abs=1e-12)
    assert learner.wins.tolist() == declared_state(bias).wins.tolist()


@pytest.mark.parametrize("name", ["perfect", "informational", "trust"])
@pytest.mark.parametrize("ranker", [PDGD, ClickSkip])
def test_the_port(name, ranker):
    found, block, drawn, who = met(name)
    model = ranker(D, seed=SEED)
    quality, _ = by_the_interface(Plain(model), found, drawn, who)
    learner, fast = compiled(pdgd_rounds, ranker is PDGD, 0.9999977, block, drawn, who, counted=False)
    assert np.abs(learner.w).max() > 0.0
    assert learner.w == pytest.approx(model.weights, rel=1e-9, abs=1e-12)
    assert learner.rate[0] == pytest.approx(model.rate, rel=1e-12)
    assert fast == pytest.approx(quality, abs=1e-12)


@pytest.mark.parametrize("name", ["navigational", "trust"])
def test_a_ranker_that_begins_with_weights(name):
    found, block, drawn, who = met(name)
    weights = [3.0, 1.0, 0.0, -1.0, 0.5]
    model = SwapRanker.from_weights(weights, strength=2.0, wealth=10.0, policy=PlackettLuce(10, seed=SEED))
    quality, _ = by_the_interface(model, found, drawn, who)
    begun = {"wealth": 10.0, "beginning": weights, "strength": 2.0}
    learner, fast = compiled(swap_rounds, True, 10.0, block, drawn, who, counted=True, **begun)
    assert np.abs(learner.w - learner.beginning).max() > 0.0
    assert learner.w == pytest.approx(model.weights, rel=1e-9)
    assert fast == pytest.approx(quality, abs=1e-12)
